//! What is known of a value before there is one: from literals, from the fields of steps, from schemas.

use cel::common::ast::LiteralValue;
use serde_json::Value;

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
