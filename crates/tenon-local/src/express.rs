//! Puts a schema into words that the grammar has.
//!
//! The grammar refuses what it cannot express. So the schema is written in ever simpler ways, from the schema itself to
//! "any object", and the first that the grammar takes is used. Each way allows at least the answers that the next
//! stricter one could give (or, for [`Way::Closed`] and the rewriting of `contains`, a part of the valid ones
//! that a model can be held to). What no longer says everything is [`Faith::Relaxed`]: such answers are
//! validated before anyone sees them.

use serde_json::{Map, Value, json};

/// In the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As written, but without properties that it does not name: small models make up too many.
    Closed,
    AsWritten,
    /// What has no word is said in others where that is possible, and left out where not.
    RewrittenClosed,
    Rewritten,
    /// Types, properties, items, choices; nothing else.
    Skeleton,
    AnyObject,
}

impl Way {
    pub(crate) const ALL: [Way; 6] =
        [Way::Closed, Way::AsWritten, Way::RewrittenClosed, Way::Rewritten, Way::Skeleton, Way::AnyObject];

    pub(crate) fn faith(self) -> Faith {
        match self {
            Way::Closed | Way::AsWritten => Faith::Exact,
            Way::RewrittenClosed | Way::Rewritten | Way::Skeleton => Faith::Relaxed,
            Way::AnyObject => Faith::None,
        }
    }
}

/// How much of the schema an answer inside the grammar is sure to fulfil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faith {
    Exact,
    Relaxed,
    None,
}

/// What each member of a schema holds, for those that are walked through.
enum Holds {
    Schema,
    Schemas,
    Named,
}

fn holds(keyword: &str) -> Option<Holds> {
    Some(match keyword {
        "items"
        | "additionalItems"
        | "additionalProperties"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Holds::Schema,
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => Holds::Schemas,
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => Holds::Named,
        _ => return None,
    })
}

/// The schema as the grammar is asked to take it.
pub(crate) fn express(schema: &Value, way: Way) -> Value {
    let mut written = match way {
        Way::Closed | Way::AsWritten => schema.clone(),
        Way::RewrittenClosed | Way::Rewritten => rewrite(schema),
        Way::Skeleton => skeleton(schema),
        Way::AnyObject => json!({}),
    };
    each_schema(&mut written, &mut |members| {
        narrow_patterns(members);
        members.retain(|keyword, _| !is_note(keyword));
    });
    if matches!(way, Way::Closed | Way::RewrittenClosed) {
        close(&mut written, Alone::Yes);
    }
    if let Some(members) = written.as_object_mut() {
        members.retain(|keyword, _| keyword != "$id" && keyword != "$anchor");
        // The arguments of a call are an object, whatever the schema says.
        if !members.contains_key("$ref") {
            members.entry("type").or_insert_with(|| json!("object"));
        }
    }
    written
}

/// Does the schema ask for more than a grammar can promise although it takes it? Words like `format` are only nearly kept.
pub(crate) fn has_format(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.get("format").is_some_and(Value::is_string) || members.values().any(has_format)
        }
        Value::Array(items) => items.iter().any(has_format),
        _ => false,
    }
}

/// Notes for people, and what editors add: nothing that constrains.
fn is_note(keyword: &str) -> bool {
    const CONSTRAINING: [&str; 46] = [
        "$schema",
        "$id",
        "id",
        "$ref",
        "$defs",
        "definitions",
        "$anchor",
        "$dynamicRef",
        "$dynamicAnchor",
        "$recursiveRef",
        "type",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "items",
        "additionalItems",
        "prefixItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "properties",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "required",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "unevaluatedItems",
        "unevaluatedProperties",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "multipleOf",
    ];
    const NUMBERS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    !CONSTRAINING.contains(&keyword) && !NUMBERS.contains(&keyword)
}

/// Calls `change` for the schema and every one inside it, inner ones first.
fn each_schema(schema: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Some(members) = schema.as_object_mut() else { return };
    for (keyword, value) in members.iter_mut() {
        match (holds(keyword), value) {
            (Some(Holds::Named), Value::Object(named)) => {
                named.values_mut().for_each(|schema| each_schema(schema, change));
            }
            (Some(Holds::Schemas | Holds::Schema), Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| each_schema(schema, change));
            }
            (Some(Holds::Schema), schema) => each_schema(schema, change),
            _ => {}
        }
    }
    change(members);
}

/// Is nothing else said about the same value elsewhere?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alone {
    Yes,
    No,
}

/// Forbids properties without a name where that leaves every valid answer of named ones valid.
fn close(schema: &mut Value, alone: Alone) {
    let Some(members) = schema.as_object_mut() else { return };
    let joined =
        ["allOf", "anyOf", "oneOf", "$ref", "if", "not"].iter().any(|word| members.contains_key(*word));
    let named = members.get("properties").and_then(Value::as_object).map_or(0, Map::len) as u64;
    let all_named = match (members.get("required"), members.get("properties")) {
        (Some(Value::Array(required)), Some(Value::Object(properties))) => {
            required.iter().all(|name| name.as_str().is_some_and(|name| properties.contains_key(name)))
        }
        _ => true,
    };
    let open = ["additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames"];
    let open = !open.iter().any(|word| members.contains_key(*word));
    let enough = members.get("minProperties").and_then(Value::as_u64).unwrap_or(0) <= named;
    if alone == Alone::Yes && !joined && open && named > 0 && all_named && enough {
        members.insert("additionalProperties".to_owned(), json!(false));
    }
    for (keyword, value) in members.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(named)) => {
                named.values_mut().for_each(|schema| close(schema, alone))
            }
            // What is defined may be part of an `allOf` somewhere.
            ("$defs" | "definitions", Value::Object(named)) => {
                named.values_mut().for_each(|schema| close(schema, Alone::No));
            }
            ("prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| close(schema, alone))
            }
            ("anyOf" | "oneOf", Value::Array(schemas)) => {
                // Choices stand alone if the schema around them says nothing about properties.
                let inner = if named == 0 && alone == Alone::Yes { Alone::Yes } else { Alone::No };
                schemas.iter_mut().for_each(|schema| close(schema, inner));
            }
            ("allOf", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| close(schema, Alone::No))
            }
            ("items" | "additionalProperties", schema) => close(schema, alone),
            _ => {}
        }
    }
}

/// Says in other words what the grammar has none for.
fn rewrite(schema: &Value) -> Value {
    let mut schema = schema.clone();
    each_schema(&mut schema, &mut |members| {
        let mut also: Vec<Value> = Vec::new();
        conditions(members, &mut also);
        dependencies(members, &mut also);
        negation(members, &mut also);
        contains(members);
        property_names(members);
        for keyword in [
            "uniqueItems",
            "contains",
            "minContains",
            "maxContains",
            "not",
            "if",
            "then",
            "else",
            "propertyNames",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "unevaluatedItems",
            "unevaluatedProperties",
            "$dynamicRef",
            "$dynamicAnchor",
            "$recursiveRef",
        ] {
            members.shift_remove(keyword);
        }
        let format = members.get("format").and_then(Value::as_str).map(nearest_format);
        match format {
            Some(Some(format)) => drop(members.insert("format".to_owned(), json!(format))),
            Some(None) => drop(members.shift_remove("format")),
            None => {}
        }
        if let Some(choices) = members.shift_remove("oneOf") {
            match members.contains_key("anyOf") {
                true => also.push(json!({ "anyOf": choices })),
                false => drop(members.insert("anyOf".to_owned(), choices)),
            }
        }
        if !also.is_empty() {
            match members.get_mut("allOf") {
                Some(Value::Array(all)) => all.extend(also),
                _ => drop(members.insert("allOf".to_owned(), Value::Array(also))),
            }
        }
    });
    schema
}

/// A format that the grammar knows, all of whose texts are of the format that is meant.
fn nearest_format(format: &str) -> Option<&str> {
    match format {
        "date-time" | "time" | "date" | "duration" | "email" | "hostname" | "ipv4" | "ipv6" | "uuid"
        | "uri" => Some(format),
        "idn-email" => Some("email"),
        "idn-hostname" => Some("hostname"),
        "iri" => Some("uri"),
        _ => None,
    }
}

/// Either what `if` and `then` say holds, or what `else` says; and where that is easily said, `if` does not.
fn conditions(members: &mut Map<String, Value>, also: &mut Vec<Value>) {
    let Some(condition) = members.get("if").cloned() else { return };
    let then = members.get("then").cloned().unwrap_or(json!(true));
    let otherwise = members.get("else").cloned().unwrap_or(json!(true));
    let otherwise = match unlike(&condition, members) {
        Some(unlike) => json!({ "allOf": [unlike, otherwise] }),
        None => otherwise,
    };
    also.push(json!({ "anyOf": [{ "allOf": [condition, then] }, otherwise] }));
}

/// The other values of the one property that a condition looks at, where they can be counted.
fn unlike(condition: &Value, members: &Map<String, Value>) -> Option<Value> {
    let looked_at = condition.get("properties")?.as_object()?;
    let (name, wanted) = looked_at.iter().next().filter(|_| looked_at.len() == 1)?;
    let wanted: Vec<Value> = match (wanted.get("const"), wanted.get("enum")) {
        (Some(value), _) => vec![value.clone()],
        (None, Some(Value::Array(values))) => values.clone(),
        _ => return None,
    };
    let declared = members.get("properties")?.get(name)?;
    let all = match (declared.get("enum"), declared.get("type").and_then(Value::as_str)) {
        (Some(Value::Array(values)), _) => values.clone(),
        (None, Some("boolean")) => vec![json!(true), json!(false)],
        _ => return None,
    };
    let others: Vec<Value> = all.into_iter().filter(|value| !wanted.contains(value)).collect();
    let mut property = Map::new();
    property.insert(name.clone(), json!({ "enum": others }));
    Some(json!({ "type": "object", "properties": property, "required": [name] }))
}

/// What one property brings with it: all of that, or not the property.
fn dependencies(members: &mut Map<String, Value>, also: &mut Vec<Value>) {
    for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
        let Some(Value::Object(named)) = members.get(keyword).cloned() else { continue };
        for (property, brings) in named {
            let brings = match brings {
                Value::Array(required) => json!({ "type": "object", "required": required }),
                schema => schema,
            };
            let mut without = Map::new();
            without.insert(property, json!(false));
            also.push(json!({ "anyOf": [brings, { "type": "object", "properties": without }] }));
        }
    }
}

/// `not` has a positive form for types, choices of few and required properties.
fn negation(members: &mut Map<String, Value>, also: &mut Vec<Value>) {
    let Some(Value::Object(not)) = members.get("not").cloned() else { return };
    if not.len() != 1 {
        return;
    }
    if let Some(types) = not.get("type") {
        let types: Vec<&str> = match types {
            Value::String(one) => vec![one],
            Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
            _ => return,
        };
        let all = ["object", "array", "string", "number", "boolean", "null"];
        let left: Vec<&str> = all.into_iter().filter(|kind| !types.contains(kind)).collect();
        also.push(json!({ "type": left }));
    }
    if let Some(Value::Array(required)) = not.get("required")
        && let [Value::String(property)] = &required[..]
    {
        let mut without = Map::new();
        without.insert(property.clone(), json!(false));
        also.push(json!({ "type": "object", "properties": without }));
    }
    let refused: Vec<Value> = match (not.get("const"), not.get("enum")) {
        (Some(value), _) => vec![value.clone()],
        (_, Some(Value::Array(values))) => values.clone(),
        _ => return,
    };
    if let Some(Value::Array(choices)) = members.get_mut("enum") {
        choices.retain(|choice| !refused.contains(choice));
    }
}

/// The first items are those that must be there.
fn contains(members: &mut Map<String, Value>) {
    let Some(wanted) = members.get("contains").cloned() else { return };
    let count = members.get("minContains").and_then(Value::as_u64).unwrap_or(1);
    // More than a grammar is worth.
    if members.contains_key("prefixItems") || members.get("items").is_some_and(Value::is_array) || count > 32
    {
        return;
    }
    let first = match members.get("items") {
        Some(items) => json!({ "allOf": [wanted, items] }),
        None => wanted,
    };
    members.insert("prefixItems".to_owned(), Value::Array(vec![first; count as usize]));
    let least = members.get("minItems").and_then(Value::as_u64).unwrap_or(0).max(count);
    members.insert("minItems".to_owned(), json!(least));
}

/// Names by a pattern are properties by a pattern.
fn property_names(members: &mut Map<String, Value>) {
    let Some(names) = members.get("propertyNames").and_then(Value::as_object).cloned() else { return };
    if members.contains_key("properties") || members.contains_key("patternProperties") {
        return;
    }
    let value = members.get("additionalProperties").cloned().unwrap_or(json!(true));
    if let Some(Value::Array(choices)) = names.get("enum") {
        let named: Map<String, Value> =
            choices.iter().filter_map(|name| Some((name.as_str()?.to_owned(), value.clone()))).collect();
        members.insert("properties".to_owned(), Value::Object(named));
    } else {
        let most = names.get("maxLength").and_then(Value::as_u64);
        let least = names.get("minLength").and_then(Value::as_u64).unwrap_or(0);
        let pattern = match (names.get("pattern").and_then(Value::as_str), most) {
            (Some(pattern), _) => pattern.to_owned(),
            (None, Some(most)) if most <= 256 => format!("^[A-Za-z0-9_]{{{least},{most}}}$"),
            (None, _) if least <= 256 => format!("^[A-Za-z0-9_]{{{least},}}$"),
            _ => return,
        };
        let mut by_pattern = Map::new();
        by_pattern.insert(pattern, value);
        members.insert("patternProperties".to_owned(), Value::Object(by_pattern));
    }
    members.insert("additionalProperties".to_owned(), json!(false));
}

/// Patterns whose strings are some of those that are meant. In the patterns of JSON Schema, `\d`, `\w` and `\s` mean a few ASCII characters; to the grammar, all of
/// Unicode's. The fewer are always right.
fn narrow_patterns(members: &mut Map<String, Value>) {
    if let Some(Value::String(pattern)) = members.get_mut("pattern") {
        *pattern = begin_soon(ascii_classes(pattern));
    }
    // Names that no longer fit a pattern must not become others.
    let only = members.get("additionalProperties") == Some(&json!(false));
    if let Some(Value::Object(by_pattern)) = members.get_mut("patternProperties") {
        let narrowed = std::mem::take(by_pattern).into_iter().map(|(pattern, schema)| {
            let narrow = ascii_classes(&pattern);
            (if only { begin_soon(narrow) } else { narrow }, schema)
        });
        *by_pattern = narrowed.collect();
    }
}

/// A pattern that may begin anywhere begins soon: a model that was never taught to reach it would write on for ever.
fn begin_soon(pattern: String) -> String {
    match pattern.contains('^') {
        true => pattern,
        false => format!("^[A-Za-z0-9 ._-]{{0,{FREE_START}}}(?:{pattern})"),
    }
}

const FREE_START: usize = 12;

fn ascii_classes(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => {
                let escaped = characters.next();
                match (escaped, in_class) {
                    (Some('d'), true) => out.push_str("0-9"),
                    (Some('d'), false) => out.push_str("[0-9]"),
                    (Some('w'), true) => out.push_str("A-Za-z0-9_"),
                    (Some('w'), false) => out.push_str("[A-Za-z0-9_]"),
                    (Some('s'), true) => out.push(' '),
                    (Some('s'), false) => out.push_str("[ ]"),
                    (Some('D'), false) => out.push_str("[^0-9]"),
                    (Some('W'), false) => out.push_str("[^A-Za-z0-9_]"),
                    (Some('S'), false) => out.push_str("[^ \\t\\r\\n\\f\\v]"),
                    (Some('/'), _) => out.push('/'),
                    (Some(other), _) => out.extend(['\\', other]),
                    (None, _) => out.push('\\'),
                }
            }
            '[' if !in_class => {
                in_class = true;
                out.push(c);
            }
            // To the grammar's parser an inner bracket opens a class of its own.
            '[' => out.push_str("\\["),
            ']' => {
                in_class = false;
                out.push(c);
            }
            other => out.push(other),
        }
    }
    out
}

/// Only what shapes a document.
fn skeleton(schema: &Value) -> Value {
    let mut schema = rewrite(schema);
    each_schema(&mut schema, &mut |members| {
        // `anyOf` of half a schema each says little and costs much.
        members.retain(|keyword, _| {
            [
                "$schema",
                "$ref",
                "$defs",
                "definitions",
                "type",
                "enum",
                "const",
                "anyOf",
                "properties",
                "required",
                "items",
                "prefixItems",
                "additionalProperties",
            ]
            .contains(&keyword.as_str())
        });
    });
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_closed_only_where_nothing_else_is_said() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}},
            "title": "x"});
        assert_eq!(
            express(&schema, Way::Closed),
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}, "additionalProperties": false}},
                "additionalProperties": false})
        );
        for open in [
            json!({"type": "object", "allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}], "properties": {"c": {}}}),
            json!({"type": "object", "properties": {"a": {}}, "required": ["b"]}),
            json!({"type": "object", "properties": {"a": {}}, "minProperties": 2}),
            json!({"type": "object", "properties": {"a": {}}, "patternProperties": {"^x": {}}}),
        ] {
            assert_eq!(express(&open, Way::Closed), open);
        }
    }

    #[test]
    fn a_property_may_be_called_like_a_keyword() {
        let schema = json!({"type": "object", "properties": {"not": {"type": "string"}, "title": {"type": "string"}},
            "required": ["not"]});
        assert_eq!(express(&schema, Way::Rewritten), schema);
    }

    #[test]
    fn what_has_no_word_is_said_in_others() {
        for (schema, expected) in [
            (
                json!({"type": "array", "contains": {"const": 1}, "items": {"type": "integer"}, "uniqueItems": true}),
                json!({"type": "array", "items": {"type": "integer"}, "prefixItems": [{"allOf": [{"const": 1}, {"type": "integer"}]}], "minItems": 1}),
            ),
            (
                json!({"type": "object", "dependentRequired": {"a": ["b"]}}),
                json!({"type": "object", "allOf": [{"anyOf": [{"type": "object", "required": ["b"]}, {"type": "object", "properties": {"a": false}}]}]}),
            ),
            (
                json!({"type": "string", "enum": ["a", "b"], "not": {"const": "a"}}),
                json!({"type": "string", "enum": ["b"]}),
            ),
            (json!({"type": "object", "oneOf": [{}, {}]}), json!({"type": "object", "anyOf": [{}, {}]})),
            (json!({"type": "string", "format": "json-pointer"}), json!({"type": "string"})),
        ] {
            assert_eq!(express(&schema, Way::Rewritten), expected);
        }
    }

    #[test]
    fn classes_are_the_ascii_ones() {
        for (pattern, expected) in [
            (r"^\d+$", "^[0-9]+$"),
            (r"^[\w.-]+\/$", "^[A-Za-z0-9_.-]+/$"),
            (r"\\d", r"\\d"),
            ("[[]", r"[\[]"),
        ] {
            assert_eq!(ascii_classes(pattern), expected);
        }
    }
}
