//! The pieces of what is said: text, files, images and answers of functions, in the spellings of several clients.

use serde_json::{Map, Value};

use super::line::{InputError, text};

#[derive(Clone, Debug, PartialEq)]
pub enum InputPart {
    Text(String),
    File(FileData),
    /// What a tool of the client's answered.
    FunctionResponse {
        name: Option<String>,
        response: Value,
        /// The client says that it failed.
        is_error: bool,
    },
}

/// A file by its address, or its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileData {
    Path { path: String, mime: Option<String> },
    Inline { data: String, mime: String },
}

/// A string, or a list of blocks in any of the shapes that clients send.
pub(super) fn content_parts(content: &Value) -> Result<Vec<InputPart>, InputError> {
    match content {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![InputPart::Text(text.clone())]),
        Value::Array(blocks) => blocks.iter().map(block).collect(),
        _ => Err(InputError::new("content must be a string or a list of blocks")),
    }
}

/// A block that says in which member its content is, in both spellings.
const NESTED: [(&str, Kind); 6] = [
    ("function_response", Kind::FunctionResponse),
    ("functionResponse", Kind::FunctionResponse),
    ("file_data", Kind::File),
    ("fileData", Kind::File),
    ("inline_data", Kind::File),
    ("inlineData", Kind::File),
];

#[derive(Clone, Copy)]
enum Kind {
    FunctionResponse,
    File,
}

fn block(block: &Value) -> Result<InputPart, InputError> {
    let fields = match block {
        Value::String(text) => return Ok(InputPart::Text(text.clone())),
        Value::Object(fields) => fields,
        _ => return Err(InputError::new("a block must be an object or a string")),
    };
    let kind = text(fields, "type")?;
    match kind.as_deref() {
        Some("text" | "input_text") => plain_text(fields),
        None if fields.contains_key("text") => plain_text(fields),
        Some("image") => anthropic_image(fields),
        Some("document") => document(fields),
        Some("image_url") => image_url(fields),
        None => match NESTED.iter().find(|(name, _)| fields.contains_key(*name)) {
            Some((name, kind)) => nested(*kind, inside(fields, name)?),
            None => Err(InputError::new("a block needs a `type`")),
        },
        Some(named) => match NESTED.iter().find(|(name, _)| *name == named) {
            // The content stands inside, or beside the type.
            Some((name, kind)) if fields.contains_key(*name) => nested(*kind, inside(fields, name)?),
            Some((_, kind)) => nested(*kind, fields),
            None => Err(InputError::new(format!(
                "blocks of type `{named}` are not understood; `text`, `image`, `image_url`, `document`, `file_data`, \
                 `inline_data` and `function_response` are"
            ))),
        },
    }
}

fn plain_text(fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    match text(fields, "text")? {
        Some(text) => Ok(InputPart::Text(text)),
        None => Err(InputError::new("a `text` block needs `text`")),
    }
}

fn inside<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a Map<String, Value>, InputError> {
    let inner = fields.get(name).and_then(Value::as_object);
    inner.ok_or_else(|| InputError::new(format!("`{name}` must be an object")))
}

fn nested(kind: Kind, fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    match kind {
        Kind::FunctionResponse => function_response(fields),
        Kind::File => file_data(fields),
    }
}

fn function_response(fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    let response = fields.get("response").or(fields.get("output")).or(fields.get("content"));
    let Some(response) = response.cloned() else {
        return Err(InputError::new("a `function_response` needs `response`"));
    };
    let is_error = match fields.get("is_error") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is_error)) => *is_error,
        Some(_) => return Err(InputError::new("`is_error` of a `function_response` must be true or false")),
    };
    Ok(InputPart::FunctionResponse { name: text(fields, "name")?, response, is_error })
}

fn file_data(fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    let (mime, other_mime) = (text(fields, "mime_type")?, text(fields, "mimeType")?);
    let mime = mime.or(other_mime);
    let mut paths = Vec::new();
    for key in ["file_uri", "fileUri", "path"] {
        if let Some(address) = text(fields, key)? {
            paths.push(local_path(&address)?);
        }
    }
    if let Some(data) = text(fields, "data")? {
        let mime = mime.ok_or_else(|| InputError::new("inline `data` needs `mime_type`"))?;
        return Ok(InputPart::File(FileData::Inline { data, mime }));
    }
    match paths.into_iter().next() {
        Some(path) => Ok(InputPart::File(FileData::Path { path, mime })),
        None => Err(InputError::new("`file_data` needs `file_uri`, `path` or `data`")),
    }
}

/// A path as it is, or what a `file://` address stands for.
fn local_path(address: &str) -> Result<String, InputError> {
    let Some(encoded) = address.strip_prefix("file://") else {
        return match address.contains("://") {
            true => Err(InputError::new(format!(
                "`{address}`: only files of this machine can be given (`file://` or a path)"
            ))),
            false => Ok(address.to_owned()),
        };
    };
    let encoded = match encoded.strip_prefix("localhost") {
        Some(path) if path.starts_with('/') => path,
        _ => encoded,
    };
    percent_decoded(encoded).ok_or_else(|| {
        InputError::new(format!("`{address}`: a `%` in an address is followed by two hexadecimal digits"))
    })
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        decoded.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(decoded).ok()
}

fn anthropic_image(fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    let source = &fields.get("source").cloned().unwrap_or_default();
    match (source["type"].as_str(), source["data"].as_str(), source["media_type"].as_str()) {
        (Some("base64"), Some(data), Some(mime)) => {
            Ok(InputPart::File(FileData::Inline { data: data.to_owned(), mime: mime.to_owned() }))
        }
        _ => Err(InputError::new("an `image` block needs a `source` of type `base64`")),
    }
}

/// A document with its content: text is put into the message, anything else is a file.
fn document(fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    let source = &fields.get("source").cloned().unwrap_or_default();
    let title = text(fields, "title")?;
    match (source["type"].as_str(), source["data"].as_str(), source["media_type"].as_str()) {
        (Some("text"), Some(data), _) => Ok(InputPart::Text(match title {
            Some(title) => format!("[The document `{title}`:]\n{data}\n"),
            None => format!("[A document:]\n{data}\n"),
        })),
        (Some("base64"), Some(data), Some(mime)) => {
            Ok(InputPart::File(FileData::Inline { data: data.to_owned(), mime: mime.to_owned() }))
        }
        _ => Err(InputError::new("a `document` block needs a `source` of type `text` or `base64`")),
    }
}

fn image_url(fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    let image = fields.get("image_url").cloned().unwrap_or_default();
    let url = image.as_str().or_else(|| image["url"].as_str()).unwrap_or_default();
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((mime, data)) => {
            Ok(InputPart::File(FileData::Inline { data: data.to_owned(), mime: mime.to_owned() }))
        }
        None => Err(InputError::new("an `image_url` must be a `data:` address with base64 content")),
    }
}
