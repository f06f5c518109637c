//! JSON into CEL and back. An integer stays an integer, in both directions, and every other number what was written.

use std::collections::HashMap;

use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString,
    CelTimestamp, CelUInt,
};
use cel::common::value::{CowVal, Val};
use cel::{ExecutionError, Value as CelValue};
use serde_json::{Map, Number, Value};

use super::written_number::{TOO_BIG, WrittenNumber};
use super::{CelError, STANDARD};

/// Messages quote values; a value can be a book.
const MAX_MESSAGE_CHARS: usize = 300;

pub(super) fn to_cel(value: &Value) -> Box<dyn Val> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::Number(number) => number_to_cel(number),
        Value::String(text) => Box::new(CelString::from(text.clone())),
        Value::Array(items) => {
            let items: Vec<Box<dyn Val>> = items.iter().map(to_cel).collect();
            Box::new(CelList::from(items))
        }
        Value::Object(members) => map(members.iter().map(|(key, value)| (key.clone(), to_cel(value)))),
    }
}

pub(super) fn map(entries: impl Iterator<Item = (String, Box<dyn Val>)>) -> Box<dyn Val> {
    let entries: HashMap<CelMapKey<'static>, Box<dyn Val>> =
        entries.map(|(key, value)| (CelMapKey::from(key), value)).collect();
    Box::new(CelMap::from(entries))
}

fn number_to_cel(number: &Number) -> Box<dyn Val> {
    // To a machine word `-0` is 0.
    match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) if number.as_str() != "-0" => Box::new(CelInt::from(whole)),
        (None, Some(whole)) => Box::new(CelUInt::from(whole)),
        _ => Box::new(WrittenNumber::new(number.clone())),
    }
}

pub(super) fn to_json(value: &dyn Val) -> Result<Value, CelError> {
    if let Some(text) = value.downcast_ref::<CelString>() {
        return Ok(Value::String(text.inner().to_owned()));
    }
    if let Some(whole) = value.downcast_ref::<CelInt>() {
        return Ok(Value::Number((*whole.inner()).into()));
    }
    if let Some(whole) = value.downcast_ref::<CelUInt>() {
        return Ok(Value::Number((*whole.inner()).into()));
    }
    if let Some(written) = value.downcast_ref::<WrittenNumber>() {
        return Ok(Value::Number(written.number().clone()));
    }
    if let Some(number) = value.downcast_ref::<CelDouble>() {
        let number = *number.inner();
        return Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| CelError::Evaluation { message: format!("{number} is not a JSON number") });
    }
    if let Some(answer) = value.downcast_ref::<CelBool>() {
        return Ok(Value::Bool(*answer.inner()));
    }
    if value.downcast_ref::<CelNull>().is_some() {
        return Ok(Value::Null);
    }
    if let Some(list) = value.downcast_ref::<CelList>() {
        return list
            .inner()
            .iter()
            .map(|item| to_json(item.as_ref()))
            .collect::<Result<_, _>>()
            .map(Value::Array);
    }
    if let Some(map) = value.downcast_ref::<CelMap>() {
        let mut members: Vec<(String, Value)> = Vec::with_capacity(map.inner().len());
        for (key, value) in map.inner() {
            members.push((key_text(key), to_json(value.as_ref())?));
        }
        // The order of a hash map differs from run to run.
        members.sort_by(|(left, _), (right, _)| left.cmp(right));
        return Ok(Value::Object(members.into_iter().collect::<Map<_, _>>()));
    }
    let is_time = value.downcast_ref::<CelTimestamp>().is_some();
    if is_time || value.downcast_ref::<CelDuration>().is_some() {
        // As `string(…)` writes it.
        let value = [CowVal::Borrowed(value)];
        if let Some(string) = STANDARD.find_overload("string", &value) {
            return to_json(string(value.into()).map_err(CelError::from)?.as_ref());
        }
    }
    if value.downcast_ref::<CelBytes>().is_some() {
        return Err(CelError::Evaluation {
            message: "bytes have no JSON form; use `string(…)`".to_owned()
        });
    }
    Err(CelError::Evaluation {
        message: format!("a value of type `{}` has no JSON form", value.get_type().name()),
    })
}

pub(super) fn key_text(key: &CelMapKey<'_>) -> String {
    match key {
        CelMapKey::Bool(key) => key.inner().to_string(),
        CelMapKey::Int(key) => key.inner().to_string(),
        CelMapKey::UInt(key) => key.inner().to_string(),
        CelMapKey::String(key) => key.inner().to_owned(),
    }
}

/// What an error says, without the values it holds: they may be large.
pub(super) fn message(error: &ExecutionError) -> String {
    match error {
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
            format!("`{operator}` is not defined for {} and {}", kind(left), kind(right))
        }
        ExecutionError::ValuesNotComparable(left, right) => {
            format!("{} and {} cannot be compared", kind(left), kind(right))
        }
        ExecutionError::UnsupportedKeyType(value) => format!("{} cannot be a key", kind(value)),
        ExecutionError::UnsupportedIndex(index, value) => {
            format!("{} cannot be indexed by {}", kind(value), kind(index))
        }
        ExecutionError::UnsupportedTargetType { target } => format!("not defined for {}", kind(target)),
        ExecutionError::NotSupportedAsMethod { method, target } => {
            format!("`{method}` is not a method of {}", kind(target))
        }
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "remainder of a division by zero".to_owned(),
        ExecutionError::Overflow(operator, _, _) => format!("`{operator}` overflows"),
        ExecutionError::DuplicateKey(_) => "a key appears twice".to_owned(),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to `{name}`"),
        ExecutionError::UnexpectedType { got, want } => format!("got {}, want {want}", cut(got)),
        ExecutionError::FunctionError { message, .. } if message == TOO_BIG => message.clone(),
        other => other.to_string(),
    }
}

fn kind(value: &CelValue) -> String {
    value.type_of().to_string()
}

pub(super) fn shown_index(index: &CelValue) -> String {
    match index {
        CelValue::Int(index) => index.to_string(),
        CelValue::UInt(index) => index.to_string(),
        other => kind(other),
    }
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null_type",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() || number.is_u64() => "int",
        Value::Number(_) => "double",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

pub(super) fn cut(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}
