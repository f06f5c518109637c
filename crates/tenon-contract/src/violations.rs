//! Puts into words how a value misses its schema.
//!
//! The words go to a model that has to repair the value: where, what is expected, what is there. `anyOf`
//! and `oneOf` have a file of their own, `union.rs`.

use std::collections::HashSet;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;

use crate::pointer::{join, steps, type_name};
use crate::validate::Violation;
use crate::{show, union};

/// What was checked, against what.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// As it was written.
    pub schema: &'a Value,
    pub payload: Option<&'a Value>,
    /// The names the schema gives to properties, where violations may be stored.
    pub property_names: Option<&'a HashSet<String>>,
    /// Unions around the one that is described.
    pub unions: u8,
}

pub(crate) struct Finding {
    pub violation: Violation,
    /// The same without anything the model wrote.
    pub stored: String,
}

pub(crate) fn findings(error: &ValidationError<'_>, scope: &Scope<'_>) -> Vec<Finding> {
    let keyword = error.kind().keyword();
    describe(error, scope)
        .into_iter()
        .map(|violation| {
            let known = known_part(&violation.path, scope);
            let stored = format!("{}: {keyword}", crate::pointer::shown(&known));
            Finding { violation, stored }
        })
        .collect()
}

/// One error in words; the properties it is about are named at their own pointers.
pub(crate) fn describe(error: &ValidationError<'_>, scope: &Scope<'_>) -> Vec<Violation> {
    let path = error.instance_path().as_str();
    let each_unexpected = |names: &[String]| {
        names
            .iter()
            .map(|name| Violation { path: join(path, name), message: unexpected(name, error, scope) })
            .collect()
    };
    match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            each_unexpected(unexpected)
        }
        // How `additionalProperties: false` fails where nothing else speaks of properties: once, for the
        // whole object, with the first of its values.
        Kind::FalseSchema if error.schema_path().as_str().ends_with("/additionalProperties") => {
            match scope.payload.and_then(|payload| payload.pointer(path)) {
                Some(Value::Object(members))
                    if error.instance().as_ref() != &Value::Object(members.clone()) =>
                {
                    each_unexpected(&members.keys().cloned().collect::<Vec<_>>())
                }
                _ => vec![Violation { path: path.to_owned(), message: message(error, scope) }],
            }
        }
        Kind::Required { property } => {
            let name = property.as_str().map_or_else(|| property.to_string(), str::to_owned);
            vec![Violation { path: join(path, &name), message: "required property is missing".to_owned() }]
        }
        _ => vec![Violation { path: path.to_owned(), message: message(error, scope) }],
    }
}

fn message(error: &ValidationError<'_>, scope: &Scope<'_>) -> String {
    let value: &Value = error.instance();
    let got = || show::value(value);
    match error.kind() {
        Kind::Type { kind } => type_message(&type_names(kind), value),
        Kind::Enum { options } => {
            let choices = show::choices(options.as_array().into_iter().flatten());
            format!("expected one of {choices}, got {}", got())
        }
        Kind::Constant { expected_value } => {
            format!("expected {}, got {}", show::value(expected_value), got())
        }
        Kind::Minimum { limit } => format!("expected at least {limit}, got {}", got()),
        Kind::Maximum { limit } => format!("expected at most {limit}, got {}", got()),
        Kind::ExclusiveMinimum { limit } => format!("expected more than {limit}, got {}", got()),
        Kind::ExclusiveMaximum { limit } => format!("expected less than {limit}, got {}", got()),
        Kind::MultipleOf { multiple_of } => format!("expected a multiple of {multiple_of}, got {}", got()),
        Kind::MinLength { limit } => sized("at least", *limit, "character", value),
        Kind::MaxLength { limit } => sized("at most", *limit, "character", value),
        Kind::MinItems { limit } => sized("at least", *limit, "item", value),
        Kind::MaxItems { limit } => sized("at most", *limit, "item", value),
        Kind::AdditionalItems { limit } => sized("at most", *limit as u64, "item", value),
        Kind::MinProperties { limit } => sized("at least", *limit, "property", value),
        Kind::MaxProperties { limit } => sized("at most", *limit, "property", value),
        Kind::Pattern { pattern } => {
            // The schema's own spelling, not the one the engine was given.
            let written = scope.schema.pointer(error.schema_path().as_str()).and_then(Value::as_str);
            format!("expected a string matching the pattern {}, got {}", written.unwrap_or(pattern), got())
        }
        Kind::Format { format } => format!("expected the format {format}, got {}", got()),
        Kind::UniqueItems => unique_message(value),
        Kind::Contains => contains_message(error, scope),
        Kind::UnevaluatedItems { unexpected } => {
            format!("has {} more than allowed", show::count(unexpected.len() as u64, "item"))
        }
        Kind::FalseSchema => "nothing is allowed here".to_owned(),
        Kind::Not { schema } => {
            format!("expected a value that does not fit {}, got {}", show::value(schema), got())
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => union::message(error, context, scope),
        Kind::OneOfMultipleValid { context } => union::too_many(context),
        Kind::PropertyNames { error: inner } => {
            format!(
                "the property name {} is not allowed: {}",
                show::value(inner.instance()),
                message(inner, scope)
            )
        }
        Kind::ContentEncoding { content_encoding } => format!("expected text encoded as {content_encoding}"),
        Kind::ContentMediaType { content_media_type } => {
            format!("expected text of type {content_media_type}")
        }
        Kind::FromUtf8 { .. } => "expected encoded text in UTF-8".to_owned(),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            "the value could not be checked against its pattern".to_owned()
        }
        Kind::Custom { message, .. } => message.clone(),
        Kind::Referencing(cause) => format!("a reference in the schema cannot be resolved: {cause}"),
        Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } | Kind::Required { .. } => {
            describe(error, scope).iter().map(Violation::line).collect::<Vec<_>>().join(", ")
        }
    }
}

/// `expected boolean, got string`: the type says it all, unless a number is not whole.
pub(crate) fn type_message(expected: &[&str], value: &Value) -> String {
    let got = type_name(value);
    let expected_text = show::alternatives(expected);
    if got == "number" && expected.contains(&"integer") {
        return format!("expected {expected_text}, got number {}", show::value(value));
    }
    format!("expected {expected_text}, got {got}")
}

pub(crate) fn type_names(kind: &TypeKind) -> Vec<&'static str> {
    match kind {
        TypeKind::Single(single) => vec![single.as_str()],
        TypeKind::Multiple(several) => several.iter().map(|single| single.as_str()).collect(),
    }
}

fn sized(bound: &str, limit: u64, thing: &str, value: &Value) -> String {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    };
    format!("expected {bound} {}, got {size}", show::count(limit, thing))
}

fn unique_message(value: &Value) -> String {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut seen = std::collections::HashMap::new();
    for (index, item) in items.iter().enumerate() {
        if let Some(earlier) = seen.insert(item.to_string(), index) {
            return format!(
                "expected items that differ, but items {earlier} and {index} are both {}",
                show::value(item)
            );
        }
    }
    "expected items that differ".to_owned()
}

fn contains_message(error: &ValidationError<'_>, scope: &Scope<'_>) -> String {
    let path = error.schema_path().as_str();
    let (parent, keyword) = path.rsplit_once('/').unwrap_or(("", path));
    let schema = scope.schema.pointer(parent);
    let wanted =
        schema.and_then(|schema| schema.get("contains")).map_or_else(|| "`contains`".to_owned(), show::value);
    let limit = || schema.and_then(|schema| schema.get(keyword)).and_then(Value::as_u64).unwrap_or_default();
    match keyword {
        "minContains" => format!("expected at least {} that fit {wanted}", show::count(limit(), "item")),
        "maxContains" => format!("expected at most {} that fit {wanted}", show::count(limit(), "item")),
        _ => format!("expected an item that fits {wanted}"),
    }
}

fn unexpected(name: &str, error: &ValidationError<'_>, scope: &Scope<'_>) -> String {
    let (parent, _) = error.schema_path().as_str().rsplit_once('/').unwrap_or_default();
    let declared =
        scope.schema.pointer(parent).and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let missing = declared
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .filter(|declared| error.instance().get(declared).is_none());
    match show::nearest(name, missing) {
        Some(near) => format!("unexpected property, did you mean {}?", show::value(&Value::from(near))),
        None => "unexpected property".to_owned(),
    }
}

/// The pointer up to the first name that the schema does not know.
fn known_part(path: &str, scope: &Scope<'_>) -> String {
    let mut known = String::new();
    let mut here = scope.payload;
    for step in steps(path) {
        let is_item = here.is_some_and(Value::is_array);
        if !is_item && !scope.property_names.is_some_and(|names| names.contains(&step)) {
            break;
        }
        here = match here {
            Some(Value::Array(items)) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            Some(Value::Object(members)) => members.get(&step),
            _ => None,
        };
        known = join(&known, &step);
    }
    known
}
