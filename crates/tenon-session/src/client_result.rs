//! What came of a call that a client carried out itself: told to the model in the client's words, and a failure when it
//! says so.

use serde_json::Value;
use tenon_wire::input::InputPart;

/// What a client may put into the model's context as the result of a call: about 8,000 tokens.
const MAX_CHARS: usize = 32_000;

/// The words of all parts; an error if any of them is one.
pub(crate) fn result_of_client(parts: &[InputPart]) -> Result<String, String> {
    let texts = parts.iter().map(|part| match part {
        InputPart::Text(text) => text.clone(),
        InputPart::FunctionResponse { response: Value::String(text), .. } => text.clone(),
        InputPart::FunctionResponse { response, .. } => response.to_string(),
        InputPart::File(_) => "(a file, which cannot be the result of a call)".to_owned(),
    });
    let told = shortened(texts.collect::<Vec<_>>().join("\n"));
    match parts.iter().any(is_failure) {
        true => Err(told),
        false => Ok(told),
    }
}

/// A function that failed answers with an `error` instead of an `output`, or says that it is one.
pub(crate) fn is_failure(part: &InputPart) -> bool {
    match part {
        InputPart::FunctionResponse { response, is_error, .. } => {
            let error = response.as_object().and_then(|response| response.get("error"));
            *is_error || !matches!(error, None | Some(Value::Null | Value::Bool(false)))
        }
        InputPart::Text(_) | InputPart::File(_) => false,
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        None => text,
        Some((end, _)) => format!("{}\n[… the rest was left out …]", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_is_one_when_the_client_says_so() {
        let table = [
            (json!({"output": "done"}), false, Ok(())),
            (json!({"output": "done", "error": null}), false, Ok(())),
            (json!("all is well"), false, Ok(())),
            (json!({"error": "no space left"}), false, Err(())),
            (json!({"error": {"code": 28}}), false, Err(())),
            (json!("no space left"), true, Err(())),
        ];
        for (response, is_error, wanted) in table {
            let part = InputPart::FunctionResponse { name: None, response: response.clone(), is_error };
            let result = result_of_client(&[InputPart::Text("so:".to_owned()), part]);
            assert_eq!(result.clone().map(drop).map_err(drop), wanted, "{response}");
            let told = result.unwrap_or_else(|told| told);
            assert!(told.starts_with("so:\n"), "{told}");
        }
    }
}
