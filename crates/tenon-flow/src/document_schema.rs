//! The published JSON Schema of a document, for completion and first checks in editors.
//!
//! It is made from the same tables that the reader uses (`fields.rs`). It is no substitute for `parse.rs`: what may not
//! be combined, and what names lead to, no schema says.

use serde_json::{Map, Value, json};

use crate::fields::{Field, ID_PATTERN, MAX_STEPS, Need, OBJECTS, Object, Takes};

/// Of the format, not of tenon.
const ID: &str = "urn:tenon:flow-document:1";
const DURATION: &str = "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$";

/// Draft 2020-12.
pub fn document_schema() -> Value {
    let mut definitions = Map::new();
    for object in &OBJECTS[1..] {
        definitions.insert(object.name.to_owned(), object_schema(object));
    }
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("$id".to_owned(), ID.into());
    schema.insert("title".to_owned(), "Workflow document".into());
    if let Value::Object(members) = object_schema(OBJECTS[0]) {
        schema.extend(members);
    }
    schema.insert("$defs".to_owned(), Value::Object(definitions));
    Value::Object(schema)
}

fn object_schema(object: &Object) -> Value {
    let properties: Map<String, Value> =
        object.fields.iter().map(|field| (field.name.to_owned(), field_schema(field))).collect();
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
    if object.name == "loop" {
        schema["minProperties"] = json!(1);
    }
    schema
}

fn field_schema(field: &Field) -> Value {
    let mut schema = takes_schema(field);
    schema["description"] = json!(field.about);
    if let Some(default) = default_value(field) {
        schema["default"] = default;
    }
    schema
}

fn takes_schema(field: &Field) -> Value {
    let of = |object: &Object| json!({"$ref": format!("#/$defs/{}", object.name)});
    match field.takes {
        Takes::Text if field.need == Need::Required => json!({"type": "string", "minLength": 1}),
        Takes::Text => json!({"type": "string"}),
        Takes::ShortText(most) => json!({"type": "string", "maxLength": most}),
        Takes::Name(pattern) => json!({"type": "string", "pattern": pattern}),
        Takes::Duration => json!({"type": "string", "minLength": 2, "pattern": DURATION}),
        Takes::Expression => json!({"type": ["string", "boolean"], "minLength": 1}),
        Takes::Whole(least, most) if least == most => json!({"const": least}),
        Takes::Whole(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Takes::Number(least, most) => json!({"type": "number", "minimum": least, "maximum": most}),
        Takes::TextList => json!({"type": "array", "items": {"type": "string"}}),
        Takes::TextMap | Takes::ExpressionMap => {
            json!({"type": "object", "additionalProperties": {"type": "string", "minLength": 1}})
        }
        Takes::OneOf(words) => json!({"enum": words}),
        Takes::Schema => json!({"type": "object"}),
        Takes::Items => json!({"type": ["string", "array"], "minLength": 1, "minItems": 1}),
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
