//! What is said, in the spellings of several clients. Read by `../parts.rs`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Words, or blocks.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

/// Words alone, as a text or as blocks of it.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(super) enum Words {
    Text(String),
    Blocks(Vec<TextBlock>),
}

/// A piece of what is said.
pub(super) struct Block;

impl JsonSchema for Block {
    fn schema_name() -> Cow<'static, str> {
        "Block".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let answer = generator.subschema_for::<FunctionResponse>().to_value();
        let file = generator.subschema_for::<FileData>().to_value();
        let nested = [
            ("function_response", &answer),
            ("functionResponse", &answer),
            ("file_data", &file),
            ("fileData", &file),
            ("inline_data", &file),
            ("inlineData", &file),
        ];
        let mut blocks = vec![
            generator.subschema_for::<TextBlock>().to_value(),
            generator.subschema_for::<ImageBlock>().to_value(),
            generator.subschema_for::<DocumentBlock>().to_value(),
        ];
        let mut earlier = vec![json!({ "required": ["text"] })];
        for (name, content) in nested {
            let inside = json!({
                "type": "object", "required": ["type", name],
                "properties": { "type": { "const": name }, name: content },
            });
            let mut beside = json!({
                "required": ["type"], "properties": { "type": { "const": name } },
                "not": { "required": [name] },
            });
            if let (Value::Object(beside), Value::Object(content)) = (&mut beside, content) {
                beside.extend(content.clone());
            }
            let untyped = json!({
                "type": "object", "required": [name],
                "properties": { "type": { "type": "null" }, name: content },
                "not": { "anyOf": earlier },
            });
            blocks.extend([inside, beside, untyped]);
            earlier.push(json!({ "required": [name] }));
        }
        json_schema!({ "description": "A piece of what is said.", "anyOf": blocks })
    }
}

/// A piece of text, with or without a type.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(super) enum TextBlock {
    Bare(String),
    Typed(TypedText),
    Untyped(UntypedText),
}

#[derive(JsonSchema)]
pub(super) struct TypedText {
    r#type: TextType,
    text: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TextType {
    Text,
    InputText,
}

#[derive(JsonSchema)]
pub(super) struct UntypedText {
    #[serde(default)]
    r#type: (),
    text: String,
}

/// An image, with its content.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ImageBlock {
    Image { source: ImageSource },
    ImageUrl { image_url: ImageUrl },
}

#[derive(JsonSchema)]
struct ImageSource {
    #[schemars(schema_with = "base64")]
    r#type: String,
    /// Base64.
    data: String,
    media_type: String,
}

/// A document, with its content.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum DocumentBlock {
    Document { source: DocumentSource, title: Option<String> },
}

#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum DocumentSource {
    /// Put into the message.
    Text { data: String },
    /// A file: base64, with its MIME type.
    Base64 { data: String, media_type: String },
}

/// The address, or an object with it.
#[derive(JsonSchema)]
#[serde(untagged)]
enum ImageUrl {
    Bare(#[schemars(schema_with = "data_address")] String),
    Object {
        #[schemars(schema_with = "data_address")]
        url: String,
    },
}

/// What a tool of the client's answered.
#[derive(JsonSchema)]
#[schemars(extend("anyOf" = [
    { "type": "object", "required": ["response"] },
    { "type": "object", "required": ["output"] },
    { "type": "object", "required": ["content"] },
]))]
struct FunctionResponse {
    name: Option<String>,
    /// The function failed; so it did when its `response` is an object with an `error`.
    is_error: Option<bool>,
}

/// A file of this machine, or its content: `data` with a MIME type, or an address.
#[derive(JsonSchema)]
#[schemars(extend("anyOf" = [
    {
        "type": "object", "required": ["data", "mime_type"],
        "properties": { "data": { "type": "string" }, "mime_type": { "type": "string" } },
    },
    {
        "type": "object", "required": ["data", "mimeType"],
        "properties": { "data": { "type": "string" }, "mimeType": { "type": "string" } },
    },
    {
        "type": "object", "required": ["file_uri"],
        "properties": { "data": { "type": "null" }, "file_uri": { "type": "string" } },
    },
    {
        "type": "object", "required": ["fileUri"],
        "properties": { "data": { "type": "null" }, "fileUri": { "type": "string" } },
    },
    {
        "type": "object", "required": ["path"],
        "properties": { "data": { "type": "null" }, "path": { "type": "string" } },
    },
]))]
struct FileData {
    /// Base64.
    data: Option<String>,
    mime_type: Option<String>,
    #[serde(rename = "mimeType")]
    other_mime_type: Option<String>,
    /// `file://…`, percent-encoded, or a path as it is.
    #[serde(default)]
    #[schemars(schema_with = "local_address")]
    file_uri: Option<String>,
    #[serde(rename = "fileUri", default)]
    #[schemars(schema_with = "local_address")]
    other_file_uri: Option<String>,
    #[serde(default)]
    #[schemars(schema_with = "local_address")]
    path: Option<String>,
}

fn base64(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "const": "base64" })
}

fn data_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^data:[\\s\\S]*;base64," })
}

/// Files of this machine only.
fn local_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["string", "null"],
        "anyOf": [
            { "pattern": "^file://([^%]|%[0-9A-Fa-f]{2})*$" },
            { "not": { "pattern": "://" } },
        ],
    })
}
