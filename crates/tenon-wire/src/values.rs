//! Values that stand on the wire of every dialect.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::value::RawValue;
use tenon_core::{AnsiStripper, ErrorClass, Id};

/// An id in the form of a UUID.
#[derive(Clone, Copy, Serialize)]
#[serde(transparent)]
pub(crate) struct Uuid(pub Id);

impl JsonSchema for Uuid {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Uuid".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "uuid" })
    }
}

/// JSON that is passed on as it came: every digit, every key in its place.
#[derive(Clone, Copy, Serialize)]
#[serde(transparent)]
pub(crate) struct Raw<'a>(pub &'a RawValue);

impl JsonSchema for Raw<'_> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Raw".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}

/// The names of all classes, each once, from the one list there is.
pub(crate) fn error_classes(_: &mut SchemaGenerator) -> Schema {
    let mut names: Vec<&str> = ErrorClass::ALL.into_iter().map(ErrorClass::name).collect();
    names.dedup();
    json_schema!({ "type": "string", "enum": names })
}

/// Text without terminal sequences.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(AnsiStripper::default().push_text(text))
}
