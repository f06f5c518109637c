//! Whether the value behind a keyword has the form its draft asks for.
//!
//! Only for keywords that hold plain data; those that hold schemas are followed in `strict_walk.rs`.

use std::collections::HashSet;

use serde_json::{Number, Value};

use crate::Draft;
use crate::keywords::Holds;
use crate::pointer::type_name;
use crate::show;

pub(crate) const TYPE_NAMES: [&str; 7] =
    ["string", "number", "integer", "boolean", "object", "array", "null"];

/// What is wrong with the value of `keyword`, as the end of a sentence about it.
pub(crate) fn fault(keyword: &str, holds: Holds, value: &Value, draft: Draft) -> Option<String> {
    let must_be = |what: &str| Some(format!("`{keyword}` must be {what}, got {}", show::value(value)));
    match holds {
        Holds::Flag if !value.is_boolean() => match (keyword, value) {
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Number(_)) => {
                must_be("true or false in draft-04")
            }
            _ => must_be("true or false"),
        },
        Holds::Text | Holds::Format | Holds::Pattern | Holds::Reference if !value.is_string() => {
            must_be("a string")
        }
        Holds::Number if !value.is_number() => must_be("a number"),
        Holds::Positive if !value.as_number().is_some_and(is_positive) => must_be("a number greater than 0"),
        Holds::Count if !value.as_number().is_some_and(is_count) => {
            must_be("a whole number that is not negative")
        }
        Holds::List if !value.is_array() => must_be("an array"),
        Holds::Enum => match value.as_array() {
            None => must_be("an array of values"),
            Some(values) if values.is_empty() => Some(format!("an empty `{keyword}` accepts nothing")),
            Some(_) => None,
        },
        Holds::Names => names_fault(keyword, value, draft),
        Holds::TypeNames => type_fault(keyword, value),
        _ => None,
    }
}

/// `required`, and the lists of names inside `dependencies` and `dependentRequired`.
pub(crate) fn names_fault(keyword: &str, value: &Value, draft: Draft) -> Option<String> {
    let Some(names) = value.as_array() else {
        return Some(match value {
            Value::Bool(_) => format!(
                "`{keyword}` must be an array of property names on the object, got {value} on the property"
            ),
            _ => format!("`{keyword}` must be an array of property names, got {}", show::value(value)),
        });
    };
    if names.is_empty() && draft == Draft::Draft04 {
        return Some(format!("`{keyword}` may not be empty in draft-04"));
    }
    let mut seen = HashSet::new();
    for name in names {
        match name {
            Value::String(name) if seen.insert(name) => {}
            Value::String(name) => return Some(format!("`{keyword}` names `{name}` twice")),
            other => {
                return Some(format!("`{keyword}` must hold property names, got {}", show::value(other)));
            }
        }
    }
    None
}

fn type_fault(keyword: &str, value: &Value) -> Option<String> {
    let one = |value: &Value| match value {
        Value::String(name) if TYPE_NAMES.contains(&name.as_str()) => None,
        Value::String(name) => Some(match show::nearest(name, TYPE_NAMES) {
            Some(near) => format!("`{name}` is not a type, did you mean `{near}`?"),
            None => format!("`{name}` is not a type; the types are {}", TYPE_NAMES.join(", ")),
        }),
        other => Some(format!("`{keyword}` must be the name of a type, got {}", show::value(other))),
    };
    let Value::Array(names) = value else { return one(value) };
    if names.is_empty() {
        return Some(format!("an empty `{keyword}` accepts nothing"));
    }
    if let Some(fault) = names.iter().find_map(one) {
        return Some(fault);
    }
    let distinct: HashSet<String> = names.iter().map(Value::to_string).collect();
    (distinct.len() < names.len()).then(|| format!("`{keyword}` names a type twice"))
}

/// What a keyword must hold that holds schemas.
pub(crate) fn shape_fault(keyword: &str, what: &str, value: &Value) -> String {
    format!("`{keyword}` must be {what}, got {}", type_name(value))
}

fn is_positive(number: &Number) -> bool {
    let text = number.as_str();
    !text.starts_with('-') && mantissa(text).bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// A whole number in any spelling (`2`, `2.0`, `2e3`) that a size can have.
fn is_count(number: &Number) -> bool {
    /// Up to here every whole number has its own floating-point number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    number.is_u64()
        || number.as_f64().is_some_and(|value| value.fract() == 0.0 && (0.0..=EXACT).contains(&value))
}

fn mantissa(number: &str) -> &str {
    number.split(['e', 'E']).next().unwrap_or(number)
}
