//! What a request says of itself besides its words: which model, how freely, how long, with which tools.

use serde_json::{Map, Value};

use super::line::{InputError, id};

/// The widest range that any provider takes.
const MAX_TEMPERATURE: f64 = 2.0;
/// How long the answer may be, in the words of three generations of the API.
const LIMITS: [&str; 3] = ["max_output_tokens", "max_completion_tokens", "max_tokens"];
/// What may stand beside the words of a request.
pub(super) const NAMES: [&str; 6] =
    ["model", "temperature", "top_p", "max_output_tokens", "max_completion_tokens", "max_tokens"];
/// What may stand in `options` besides.
const TOOLS: &str = "tool_overrides";

/// Overrides that hold for one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestOptions {
    pub model: Option<String>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub max_output_tokens: Option<u64>,
    /// Only these tools.
    pub tools: Option<Vec<String>>,
}

/// Options of the request itself, and of its `options` object, which go first.
pub(super) fn options(fields: &Map<String, Value>) -> Result<RequestOptions, InputError> {
    let outer = stated(fields)?;
    let inner = match fields.get("options") {
        None | Some(Value::Null) => return Ok(outer),
        Some(Value::Object(inner)) => inner,
        Some(_) => return Err(InputError::new("`options` must be an object")),
    };
    let is_known = |name: &str| NAMES.contains(&name) || name == TOOLS;
    if let Some((name, _)) = inner.iter().find(|(name, value)| !value.is_null() && !is_known(name)) {
        let known: Vec<String> = NAMES.iter().chain([&TOOLS]).map(|name| format!("`{name}`")).collect();
        let known = known.join(", ");
        return Err(InputError::new(format!("there is no option `{name}`; there are {known}")));
    }
    let stated = stated(inner)?;
    Ok(RequestOptions {
        model: stated.model.or(outer.model),
        temperature: stated.temperature.or(outer.temperature),
        top_p: stated.top_p.or(outer.top_p),
        max_output_tokens: stated.max_output_tokens.or(outer.max_output_tokens),
        tools: tools(inner.get(TOOLS))?,
    })
}

fn stated(fields: &Map<String, Value>) -> Result<RequestOptions, InputError> {
    let given = |key: &str| fields.get(key).filter(|value| !value.is_null());
    let number = |key: &str, most: f64| match given(key) {
        None => Ok(None),
        Some(value) => match value.as_f64().filter(|number| (0.0..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(InputError::new(format!("`{key}` must be a number from 0 to {most}"))),
        },
    };
    let mut max_output_tokens = None;
    for key in LIMITS {
        if let Some(value) = given(key) {
            let limit = value.as_u64().filter(|limit| *limit > 0);
            let limit =
                limit.ok_or_else(|| InputError::new(format!("`{key}` must be a whole number from 1")))?;
            max_output_tokens = max_output_tokens.or(Some(limit));
        }
    }
    Ok(RequestOptions {
        model: id(fields, "model")?,
        temperature: number("temperature", MAX_TEMPERATURE)?,
        top_p: number("top_p", 1.0)?,
        max_output_tokens,
        tools: None,
    })
}

fn tools(names: Option<&Value>) -> Result<Option<Vec<String>>, InputError> {
    let names = match names {
        None | Some(Value::Null) => return Ok(None),
        Some(names) => names.as_array(),
    };
    let names = names.and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
    match names {
        Some(names) => Ok(Some(names)),
        None => Err(InputError::new("`tool_overrides` must be a list of tool names")),
    }
}
