//! Whether the root of a schema can describe an object at all.
//!
//! The payload is the arguments of a tool call, which are always an object. This finds the roots that can
//! never accept one; what depends on the value is left to validation. References inside branches are not
//! followed: a branch behind a `$ref` may accept an object.

use serde_json::{Map, Value};

use crate::pointer::join;
use crate::references::all_of_form;
use crate::schema_error::Problem;
use crate::{Draft, keywords, show};

const HINT: &str = "the payload is the arguments of a tool call, which are always a JSON object; put other values inside a property";

pub(crate) fn refusal(root: &Map<String, Value>, draft: Draft) -> Option<Problem> {
    if root.get("$ref").is_some_and(Value::is_string) {
        let message = "the root of the schema cannot be a `$ref`";
        return Some(
            Problem::new("/$ref", message)
                .hint(format!("wrap it in `allOf`, which means the same: {}", all_of_form(root))),
        );
    }
    let (pointer, reason) = why_no_object(root, "", draft)?;
    let message = format!("the root must accept an object, but {reason}");
    Some(Problem::new(pointer, message).hint(HINT))
}

type Reason = (String, String);

/// Why no object can fit, and where that is said.
fn why_no_object(schema: &Map<String, Value>, pointer: &str, draft: Draft) -> Option<Reason> {
    let reason = |keyword: &str, text: String| Some((join(pointer, keyword), text));
    if let Some(types) = schema.get("type").filter(|types| !names_object(types)) {
        return reason("type", format!("`type` is {}", show::value(types)));
    }
    if let Some(value) = schema.get("const").filter(|value| !value.is_object()) {
        return reason("const", format!("`const` is {}", show::value(value)));
    }
    if let Some(Value::Array(values)) = schema.get("enum")
        && !values.iter().any(Value::is_object)
    {
        return reason("enum", "`enum` holds no object".to_owned());
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = schema.get(keyword)
            && branches.iter().all(|branch| branch_refuses(branch, draft))
        {
            return reason(keyword, format!("no branch of `{keyword}` does"));
        }
    }
    if let Some(Value::Array(branches)) = schema.get("allOf") {
        let place = join(pointer, "allOf");
        for (index, branch) in branches.iter().enumerate() {
            let refused = refuses(branch, &join(&place, &index.to_string()), draft);
            if refused.is_some() {
                return refused;
            }
        }
    }
    if let Some(not) = schema.get("not")
        && not_leaves_no_object(not, draft)
    {
        return reason("not", format!("`not` {} excludes every object", show::value(not)));
    }
    let taken = match schema.get("if") {
        Some(Value::Bool(true)) => "then",
        Some(Value::Bool(false)) => "else",
        _ => return None,
    };
    schema.get(taken).and_then(|branch| refuses(branch, &join(pointer, taken), draft))
}

fn refuses(schema: &Value, pointer: &str, draft: Draft) -> Option<Reason> {
    match schema {
        Value::Object(members) => why_no_object(members, pointer, draft),
        Value::Bool(true) => None,
        _ => Some((pointer.to_owned(), "`false` accepts nothing".to_owned())),
    }
}

fn branch_refuses(branch: &Value, draft: Draft) -> bool {
    refuses(branch, "", draft).is_some()
}

/// `not` with nothing but a type in it, or with nothing at all. Any narrowing keyword beside it leaves some
/// objects; descriptions do not narrow.
fn not_leaves_no_object(not: &Value, draft: Draft) -> bool {
    let Value::Object(members) = not else { return not == &Value::Bool(true) };
    members.iter().all(|(name, value)| match name.as_str() {
        "type" => names_object(value),
        "$ref" => false,
        _ => keywords::does_not_constrain(name, draft),
    })
}

fn names_object(types: &Value) -> bool {
    match types {
        Value::String(name) => name == "object",
        Value::Array(names) => names.iter().any(|name| name == "object"),
        _ => false,
    }
}
