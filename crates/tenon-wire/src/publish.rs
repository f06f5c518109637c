//! The JSON Schema of a dialect's types.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::SCHEMA_VERSION;

/// Draft 2020-12, for what is written; `name` is the dialect's.
pub(crate) fn publish<Output: JsonSchema>(name: &str) -> Value {
    published::<Output>(SchemaSettings::draft2020_12().for_serialize(), name)
}

/// The same, for what is read.
pub(crate) fn publish_input<Input: JsonSchema>(name: &str) -> Value {
    published::<Input>(SchemaSettings::draft2020_12().for_deserialize(), name)
}

fn published<Lines: JsonSchema>(settings: SchemaSettings, name: &str) -> Value {
    let mut schema = settings.into_generator().into_root_schema_for::<Lines>();
    schema.insert("$id".to_owned(), format!("urn:tenon:wire:{name}:{SCHEMA_VERSION}").into());
    schema.into()
}
