//! The published JSON Schema of a document, for completion and first checks in editors.
//!
//! It is made from the same tables that the reader uses (`fields.rs`), and says all that a schema can say: what it refuses
//! `parse.rs` refuses too. It is no substitute for it: names that lead nowhere, cycles, and lengths in bytes are beyond a
//! schema. A field that is `null` is one that is left out.

use serde_json::{Map, Value, json};

use crate::fields::{
    APPROVE, EDITORS, Field, ID_PATTERN, LOOP, LOOSE_ID_PATTERN, MAX_STEPS, Need, OBJECTS, OUTPUT_PATTERN,
    Object, STEP, Takes,
};

/// Of the format, not of tenon.
const ID: &str = "urn:tenon:flow-document:1";
const DURATION: &str = "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$";
/// No duration at all.
const NO_TIME: &str = "^(0+h)?(0+m)?(0+s)?$";
/// Something other than blanks.
const NOT_BLANK: &str = r"\S";
/// The same, or nothing at all: that is a field left out.
const WORD: &str = r"^$|\S";
/// Steps of loops: other ids, longer texts, no loops.
const INNER_STEP: &str = "inner_step";

/// How much a schema says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Which fields there are and what they take: for a writer who is told the rest.
    Shape,
    /// Also what may not be combined, and other ways to leave a field out.
    All,
}

/// Draft 2020-12.
pub fn document_schema() -> Value {
    schema_of(Detail::All)
}

pub(crate) fn schema_of(detail: Detail) -> Value {
    let mut definitions = Map::new();
    for object in &OBJECTS[1..] {
        definitions.insert(object.name.to_owned(), object_schema(object, detail));
        if **object == STEP {
            definitions.insert(INNER_STEP.to_owned(), inner_step(detail));
        }
    }
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("$id".to_owned(), ID.into());
    schema.insert("title".to_owned(), "Workflow document".into());
    if let Value::Object(members) = object_schema(OBJECTS[0], detail) {
        schema.extend(members);
    }
    schema.insert("$defs".to_owned(), Value::Object(definitions));
    Value::Object(schema)
}

fn object_schema(object: &Object, detail: Detail) -> Value {
    // Who writes a document for a run needs no editor.
    let fields = object.fields.iter().filter(|field| detail == Detail::All || field.name != EDITORS);
    let properties: Map<String, Value> =
        fields.map(|field| (field.name.to_owned(), field_schema(field, detail))).collect();
    let required: Vec<&str> =
        object.fields.iter().filter(|field| field.need == Need::Required).map(|field| field.name).collect();
    let mut schema = json!({"type": "object", "additionalProperties": false, "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    // Only the document's own: those of loops are not counted.
    if object.name == "workflow" {
        schema["properties"]["steps"]["maxItems"] = json!(MAX_STEPS);
    }
    if *object == STEP && detail == Detail::All {
        alone_with_include(&mut schema);
        alone_with_approve(&mut schema);
    }
    if *object == APPROVE && detail == Detail::All {
        time_for_its_end(&mut schema);
    }
    if *object == LOOP {
        schema["properties"]["steps"]["items"] = json!({"$ref": format!("#/$defs/{INNER_STEP}")});
        match detail {
            Detail::All => items_or_repeat(&mut schema),
            Detail::Shape => schema["minProperties"] = json!(1),
        }
    }
    schema
}

fn inner_step(detail: Detail) -> Value {
    let mut schema = object_schema(&STEP, detail);
    schema["properties"]["id"]["pattern"] = json!(LOOSE_ID_PATTERN);
    if let Some(instructions) = schema["properties"]["instructions"].as_object_mut() {
        instructions.remove("maxLength");
    }
    schema["properties"]["loop"] = json!({"type": "null", "description": "Loops have no loops in them"});
    schema
}

fn is_given(field: &str) -> Value {
    json!({"required": [field], "properties": {field: {"not": {"enum": [null, ""]}}}})
}

/// Left out, or as good as that.
fn no_word() -> Value {
    json!({"maxLength": 0, "type": ["string", "null"]})
}

/// An included workflow brings its own of these.
fn alone_with_include(step: &mut Value) {
    step["if"] = is_given("include");
    step["then"] = json!({"properties": {
        "agent": no_word(),
        "instructions": {"maxLength": 0},
        "loop": {"type": "null"},
        "condition": {"type": "null"},
        "contextFiles": {"maxItems": 0},
        "model": no_word(),
    }});
}

/// A person who is asked needs none of these.
fn alone_with_approve(step: &mut Value) {
    step["allOf"] = json!([{"if": is_given("approve"), "then": {"properties": {
        "agent": no_word(),
        "instructions": {"maxLength": 0},
        "loop": {"type": "null"},
        "include": no_word(),
        "contextFiles": {"maxItems": 0},
        "model": no_word(),
        "timeout": {"pattern": NO_TIME},
        "retries": {"maximum": 0},
        "maxRetries": {"type": "null"},
    }}}]);
}

/// What becomes of a question in the end is said only of one that has an end.
fn time_for_its_end(approve: &mut Value) {
    approve["if"] = json!({"required": ["onTimeout"], "properties": {"onTimeout": {"type": "string"}}});
    approve["then"] = json!({"required": ["timeout"], "properties": {"timeout": {
        "type": "string", "not": {"pattern": NO_TIME}}}});
    approve["properties"]["message"]["pattern"] = json!(NOT_BLANK);
    // Nobody gives it when time runs out.
    let approved = json!({"required": ["onTimeout"], "properties": {"onTimeout": {"const": "approve"}}});
    approve["allOf"] = json!([{"if": approved, "then": {"properties": {"data": {"type": "null"}}}}]);
}

/// A loop goes over items, or repeats.
fn items_or_repeat(it: &mut Value) {
    it["if"] = is_given("forEach");
    it["then"] = json!({"properties": {
        "maxIterations": {"type": "null"},
        "until": {"type": "null"},
        "untilAgent": no_word(),
        "delay": {"pattern": NO_TIME},
    }});
    it["else"] = is_given("maxIterations");
}

fn field_schema(field: &Field, detail: Detail) -> Value {
    let mut schema = takes_schema(field);
    // An approval that asks nothing is no way to leave it out.
    let may_be_null = !matches!(field.takes, Takes::TextOr(..));
    if field.need == Need::Optional && detail == Detail::All && may_be_null {
        or_absent(&mut schema);
    }
    schema["description"] = json!(field.about);
    if let Some(default) = default_value(field) {
        schema["default"] = default;
    }
    schema
}

/// `null`, and no word of several, are left out.
fn or_absent(schema: &mut Value) {
    if let Some(Value::String(name)) = schema.get("type") {
        schema["type"] = json!([name, "null"]);
    } else if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.push("null".into());
    } else if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.extend(values.iter().any(Value::is_string).then(|| Value::from("")));
        values.push(Value::Null);
    } else {
        *schema = json!({"anyOf": [schema.clone(), {"type": "null"}]});
    }
}

fn takes_schema(field: &Field) -> Value {
    let of = |object: &Object| json!({"$ref": format!("#/$defs/{}", object.name)});
    match field.takes {
        Takes::Text if field.need == Need::Required => json!({"type": "string", "minLength": 1}),
        Takes::Text => json!({"type": "string"}),
        Takes::Word => json!({"type": "string", "pattern": WORD}),
        Takes::ShortText(most) => json!({"type": "string", "maxLength": most}),
        Takes::Name(pattern) => json!({"type": "string", "pattern": pattern}),
        Takes::Duration => json!({"type": "string", "minLength": 2, "pattern": DURATION}),
        Takes::Expression => json!({"type": ["string", "boolean"], "pattern": NOT_BLANK}),
        Takes::Whole(least, most) if least == most => json!({"enum": [least]}),
        Takes::Whole(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Takes::Number(least, most) => json!({"type": "number", "minimum": least, "maximum": most}),
        Takes::TextList => json!({"type": "array", "items": {"type": "string"}}),
        Takes::TextMap => json!({"type": "object", "propertyNames": {"pattern": NOT_BLANK},
            "additionalProperties": {"type": "string", "pattern": NOT_BLANK}}),
        Takes::ExpressionMap => json!({"type": "object", "propertyNames": {"pattern": OUTPUT_PATTERN},
            "additionalProperties": {"type": ["string", "boolean"], "pattern": NOT_BLANK}}),
        Takes::OneOf(words) => json!({"enum": words}),
        Takes::Schema => json!({"type": "object"}),
        Takes::Items => json!({"type": ["string", "array"], "pattern": NOT_BLANK, "minItems": 1}),
        Takes::TextOr(most, object) => {
            json!({"anyOf": [{"type": "string", "maxLength": most, "pattern": NOT_BLANK}, of(object)]})
        }
        Takes::Object(object) => of(object),
        Takes::Map(object) if object.name == "agent" => {
            json!({"type": "object", "propertyNames": {"pattern": ID_PATTERN}, "additionalProperties": of(object)})
        }
        Takes::Map(object) => json!({"type": "object", "additionalProperties": of(object)}),
        Takes::List(object) => json!({"type": "array", "minItems": 1, "items": of(object)}),
    }
}

/// Where the default is a value and not a sentence.
fn default_value(field: &Field) -> Option<Value> {
    match field.takes {
        Takes::Whole(..) => field.default.parse::<u64>().ok().map(Value::from),
        Takes::OneOf(words) => words.contains(&field.default).then(|| field.default.into()),
        _ => None,
    }
}

#[cfg(test)]
#[path = "../tests/all/fixtures.rs"]
mod fixtures;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{document_schema, fixtures};
    use crate::node::{self, FaultKind, Format};
    use crate::{Code, Diagnostic, parse};

    /// What no schema can say: what names lead to, and how texts of a document hang together.
    const BEYOND: [Code; 6] = [
        Code::DuplicateStep,
        Code::MissingAgent,
        Code::MissingDep,
        Code::Cycle,
        Code::UntilagentBadRef,
        Code::UnicodeUnsafe,
    ];

    fn is_beyond(problem: &Diagnostic) -> bool {
        // A judge's schema is looked up by name.
        BEYOND.contains(&problem.code) || problem.message.starts_with("untilAgent ") || !problem.is_error()
    }

    fn documents(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_document = path.extension().is_some_and(|it| it == "yaml" || it == "json");
            match std::fs::read_to_string(&path) {
                _ if path.is_dir() => documents(&path, into),
                Ok(text) if is_document => into.push((path, text)),
                _ => {}
            }
        }
    }

    #[test]
    fn it_accepts_just_what_the_reader_accepts() {
        let schema = tenon_contract::Schema::compile(&document_schema().to_string()).unwrap();
        let mut all: Vec<(PathBuf, String)> = Vec::new();
        for (title, text) in fixtures::VALID
            .iter()
            .map(|(title, text, _)| (title, text))
            .chain(fixtures::INVALID.iter().map(|(title, text, _)| (title, text)))
        {
            all.push((PathBuf::from(format!("{title}.yaml")), (*text).to_owned()));
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        documents(&root.join("tests/documents"), &mut all);
        documents(&root.join("../../examples"), &mut all);
        let mut judged = 0;
        for (file, text) in all {
            let format =
                if file.extension().is_some_and(|it| it == "json") { Format::Json } else { Format::Yaml };
            // What is no tree is no business of a schema.
            let read = node::read(&text, format);
            if read.faults.iter().any(|fault| fault.kind != FaultKind::Odd) {
                continue;
            }
            let Some(json) = read.root.and_then(|root| root.to_json().ok()) else { continue };
            if json.get("name").is_none() && json.get("steps").is_none() {
                continue;
            }
            judged += 1;
            let by_schema = schema.check(&json.to_string()).map_err(|rejection| rejection.told());
            match parse(&text, &file) {
                Ok(_) => assert!(by_schema.is_ok(), "{}: {by_schema:?}", file.display()),
                Err(found) if found.iter().all(is_beyond) => {}
                Err(_) => assert!(by_schema.is_err(), "{}: the schema accepts\n{text}", file.display()),
            }
        }
        assert!(judged > 90, "{judged}");
    }
}
