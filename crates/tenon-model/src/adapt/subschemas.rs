//! Where schemas stand inside schemas, and how a local reference is followed. All drafts at once: a keyword
//! that a draft does not have is not there.

use serde_json::{Map, Value};

const ONE: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// `items` was a list once.
const MANY: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Keywords without a schema in them that restrict a value. What is in none of these lists describes, or
/// locates other schemas.
const PLAIN: [&str; 27] = [
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "const",
    "contentEncoding",
    "contentMediaType",
    "dependentRequired",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "type",
    "uniqueItems",
    "dependencies",
];

pub(super) fn constrains(keyword: &str) -> bool {
    let holds = ONE.contains(&keyword) || MANY.contains(&keyword) || NAMED.contains(&keyword);
    PLAIN.contains(&keyword) || (holds && !matches!(keyword, "$defs" | "definitions"))
}

/// Every schema directly inside these keywords.
pub(super) fn for_each(keywords: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    for (keyword, value) in keywords.iter_mut() {
        match value {
            Value::Array(list) if MANY.contains(&keyword.as_str()) => list.iter_mut().for_each(&mut *visit),
            Value::Object(named) if NAMED.contains(&keyword.as_str()) => {
                // A dependency may also be a list of names.
                named.values_mut().filter(|value| !value.is_array()).for_each(&mut *visit);
            }
            Value::Object(_) | Value::Bool(_) if ONE.contains(&keyword.as_str()) => visit(value),
            _ => {}
        }
    }
}

/// The schema behind `#` or `#/…`. References by name or to other documents are not followed.
pub(super) fn local<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.contains('%') {
        return None;
    }
    root.pointer(pointer)
}

/// The map and the name of a definition, for references such as `#/$defs/Name` only.
pub(super) fn definition(reference: &str) -> Option<(&'static str, String)> {
    [("#/$defs/", "$defs"), ("#/definitions/", "definitions")].into_iter().find_map(|(prefix, map)| {
        let name = reference.strip_prefix(prefix).filter(|name| !name.contains(['/', '%']))?;
        Some((map, name.replace("~1", "/").replace("~0", "~")))
    })
}

/// Does this text stand anywhere as a key? Also true for a property or a value of that name: then a schema is
/// taken for harder than it is, which is safe.
pub(super) fn has_key(value: &Value, wanted: &dyn Fn(&str, &Value) -> bool) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(key, value)| wanted(key, value) || has_key(value, wanted))
        }
        Value::Array(items) => items.iter().any(|item| has_key(item, wanted)),
        _ => false,
    }
}

/// Does a reference lead to a place, rather than to a definition by its name? Places move when a schema is
/// rewritten.
pub(super) fn refers_to_places(schema: &Value) -> bool {
    has_key(schema, &|key, value| match key {
        "$ref" => value.as_str().is_some_and(|reference| definition(reference).is_none()),
        "$dynamicRef" | "$recursiveRef" => value.is_string(),
        _ => false,
    })
}

/// The names in `type`, whether it is one or a list.
pub(super) fn types(keywords: &Map<String, Value>) -> Option<Vec<&str>> {
    match keywords.get("type")? {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}
