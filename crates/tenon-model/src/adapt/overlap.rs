//! What a schema can certainly not be: null, or the same as another one. Where this is not certain, it is taken
//! for possible.

use serde_json::{Map, Value};

use super::subschemas::{local, types};

/// Longer chains of references are not looked through.
const MAX_HOPS: usize = 32;

/// The values that are listed by `const` or `enum`.
pub(super) fn literals(keywords: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (keywords.get("const"), keywords.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// The texts a schema is limited to.
pub(super) fn tags(schema: &Value) -> Option<Vec<String>> {
    let values = literals(schema.as_object()?)?;
    values.into_iter().map(|value| value.as_str().map(str::to_owned)).collect()
}

/// Only what can certainly not be null gives `false`.
pub(super) fn may_be_null(schema: &Value, root: &Value, hops: usize) -> bool {
    let Value::Object(keywords) = schema else { return schema != &Value::Bool(false) };
    if hops > MAX_HOPS {
        return true;
    }
    if types(keywords).is_some_and(|names| !names.contains(&"null"))
        || literals(keywords).is_some_and(|values| !values.iter().any(|value| value.is_null()))
    {
        return false;
    }
    let behind = keywords.get("$ref").and_then(Value::as_str).and_then(|it| local(root, it));
    if behind.is_some_and(|target| !may_be_null(target, root, hops + 1)) {
        return false;
    }
    let branches = |keyword: &str| keywords.get(keyword).and_then(Value::as_array);
    let none_may = |list: &Vec<Value>| !list.iter().any(|branch| may_be_null(branch, root, hops + 1));
    let one_may_not = |list: &Vec<Value>| list.iter().any(|branch| !may_be_null(branch, root, hops + 1));
    !(branches("anyOf").is_some_and(none_may)
        || branches("oneOf").is_some_and(none_may)
        || branches("allOf").is_some_and(one_may_not))
}

/// Every branch is compared with every other, so there is an end to it.
const MAX_COMPARED: usize = 200;

/// No value can fit two of these. Then `oneOf` means `anyOf`.
pub(super) fn all_disjoint(branches: &[Value], root: &Value) -> bool {
    let are_few = branches.len() <= MAX_COMPARED;
    are_few
        && branches.iter().enumerate().all(|(index, one)| {
            branches[index + 1..].iter().all(|other| disjoint(resolved(one, root), resolved(other, root)))
        })
}

fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..MAX_HOPS {
        match schema.get("$ref").and_then(Value::as_str).and_then(|it| local(root, it)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

fn disjoint(one: &Value, other: &Value) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return false };
    if let (Some(ones), Some(others)) = (literals(one), literals(other)) {
        // Numbers are the same in several spellings.
        let is_text = |values: &[&Value]| values.iter().all(|value| value.is_string());
        return is_text(&ones) && is_text(&others) && !ones.iter().any(|value| others.contains(value));
    }
    if let (Some(ones), Some(others)) = (types(one), types(other)) {
        let overlap = |a: &&str| {
            others.iter().any(|b| a == b || matches!((*a, *b), ("integer", "number") | ("number", "integer")))
        };
        if !ones.iter().any(overlap) {
            return true;
        }
        if ones != ["object"] || others != ["object"] {
            return false;
        }
    }
    let requires = |schema: &Map<String, Value>, name: &str| {
        let names = schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let (Some(Value::Object(ones)), Some(Value::Object(others))) =
        (one.get("properties"), other.get("properties"))
    else {
        return false;
    };
    ones.iter().any(|(name, schema)| {
        let both = tags(schema).zip(others.get(name).and_then(tags));
        requires(one, name)
            && requires(other, name)
            && types(one).is_some()
            && types(other).is_some()
            && both.is_some_and(|(ones, others)| !ones.iter().any(|tag| others.contains(tag)))
    })
}
