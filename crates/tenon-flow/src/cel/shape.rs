//! What is known of a value before there is one: from literals, from the fields of steps, from schemas.

use std::sync::LazyLock;

use cel::common::ast::LiteralValue;
use serde_json::{Value, json};

use super::check::KnownStep;

/// What is known about a value.
#[derive(Clone, Debug)]
pub(super) enum Shape<'a> {
    Anything,
    /// A type by CEL's name.
    Of(&'static str),
    List(Box<Shape<'a>>),
    Steps,
    Step(KnownStep<'a>, String),
    /// Described by a schema inside a root schema; whose, in words.
    Schema {
        root: &'a Value,
        node: &'a Value,
        whose: String,
    },
    /// The inputs of a document that declares none.
    Undeclared,
    /// The result of a step that has none.
    Nothing(String),
}

impl Shape<'_> {
    pub(super) fn type_name(&self) -> Option<&'static str> {
        match self {
            Shape::Anything => None,
            Shape::Of(name) => Some(name),
            Shape::List(_) => Some("list"),
            Shape::Steps | Shape::Step(..) | Shape::Undeclared => Some("map"),
            Shape::Nothing(_) => Some("null_type"),
            Shape::Schema { node, .. } => match node.get("type")?.as_str()? {
                "boolean" => Some("bool"),
                "integer" => Some("int"),
                "number" => Some("double"),
                "string" => Some("string"),
                "array" => Some("list"),
                "object" => Some("map"),
                _ => None,
            },
        }
    }

    pub(super) fn may_be(&self, name: &str) -> bool {
        self.type_name().is_none_or(|known| known == name)
    }

    pub(super) fn words(&self) -> &'static str {
        match self.type_name() {
            Some("bool") => "true or false",
            Some("int" | "uint" | "double") => "a number",
            Some("string") => "text",
            Some("list") => "a list",
            Some("map") => "a map",
            Some("null_type") => "nothing",
            _ => "something else",
        }
    }
}

/// What a list has in it.
pub(super) fn element<'a>(list: &Shape<'a>) -> Shape<'a> {
    match list {
        Shape::List(element) => (**element).clone(),
        Shape::Schema { root, node, whose } => {
            match followed(root, node).and_then(|node| node.get("items")) {
                Some(items) if items.is_object() => {
                    Shape::Schema { root, node: items, whose: format!("an element of {whose}") }
                }
                _ => Shape::Anything,
            }
        }
        _ => Shape::Anything,
    }
}

/// The schema itself or what its `$ref` names; nothing where several schemas decide together.
pub(super) fn followed<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    /// References to references to references.
    const MAX_HOPS: usize = 8;
    const TOGETHER: [&str; 9] = [
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "not",
        "$dynamicRef",
        "dependentSchemas",
        "unevaluatedProperties",
        "$recursiveRef",
    ];
    let mut schema = schema;
    for _ in 0..MAX_HOPS {
        if TOGETHER.iter().any(|keyword| schema.get(keyword).is_some()) {
            return None;
        }
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => schema = root.pointer(reference.strip_prefix('#')?)?,
            None => return Some(schema),
        }
    }
    None
}

pub(super) fn literal_type(literal: &LiteralValue) -> &'static str {
    match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) => "double",
        LiteralValue::Int(_) => "int",
        LiteralValue::Null => "null_type",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint",
    }
}

static STATUS: LazyLock<Value> =
    LazyLock::new(|| json!({"type": "string", "enum": ["completed", "failed", "skipped", "cancelled"]}));

/// The status of a step.
pub(super) fn status<'a>() -> Shape<'a> {
    Shape::Schema { root: &STATUS, node: &STATUS, whose: "a status".to_owned() }
}

/// What a schema lets a value be.
#[derive(Clone, Copy)]
pub(super) enum Allowed<'a> {
    Values(&'a [Value]),
    /// As [`class`] calls it.
    Type(&'a str),
}

pub(super) fn allowed<'a>(shape: &Shape<'a>) -> Option<Allowed<'a>> {
    let Shape::Schema { root, node, .. } = shape else { return None };
    let schema = followed(root, node)?;
    if let Some(values) = schema.get("enum") {
        return values.as_array().map(|values| Allowed::Values(values));
    }
    match schema.get("type")?.as_str()? {
        "integer" => Some(Allowed::Type("number")),
        name => Some(Allowed::Type(name)),
    }
}

/// The name of its JSON type.
pub(super) fn class(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(super) fn class_words(class: &str) -> &'static str {
    match class {
        "boolean" => "true or false",
        "number" => "a number",
        "string" => "text",
        "array" => "a list",
        "object" => "a map",
        _ => "nothing",
    }
}

/// As expressions compare: 1 is 1.0.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

pub(super) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Of literals that JSON has; null is left out.
pub(super) fn literal_json(literal: &LiteralValue) -> Option<Value> {
    match literal {
        LiteralValue::Boolean(it) => Some((*it.inner()).into()),
        LiteralValue::Double(it) => Some((*it.inner()).into()),
        LiteralValue::Int(it) => Some((*it.inner()).into()),
        LiteralValue::UInt(it) => Some((*it.inner()).into()),
        LiteralValue::String(it) => Some(it.inner().into()),
        LiteralValue::Bytes(_) | LiteralValue::Null => None,
    }
}
