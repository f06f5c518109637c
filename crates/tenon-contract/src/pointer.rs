//! JSON Pointers: writing them, and finding what a `#/…` reference names.

use serde_json::Value;

/// `pointer` with one more step, escaped as RFC 6901 says.
pub(crate) fn join(pointer: &str, step: &str) -> String {
    let mut joined = String::with_capacity(pointer.len() + step.len() + 1);
    joined.push_str(pointer);
    joined.push('/');
    for c in step.chars() {
        match c {
            '~' => joined.push_str("~0"),
            '/' => joined.push_str("~1"),
            _ => joined.push(c),
        }
    }
    joined
}

/// The steps of a pointer, unescaped.
pub(crate) fn steps(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// The pointer that the fragment of a `$ref` spells, percent escapes undone.
pub(crate) fn from_fragment(fragment: &str) -> Option<String> {
    if !fragment.contains('%') {
        return Some(fragment.to_owned());
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// What a person calls the place: the root has a pointer too, but an invisible one.
pub(crate) fn shown(pointer: &str) -> &str {
    if pointer.is_empty() { "(root)" } else { pointer }
}

/// The name of a value's type, as schemas call it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if !number.as_str().contains(['.', 'e', 'E']) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
