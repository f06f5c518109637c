//! Shapes schemas and arguments for a provider without changing what they mean.
//!
//! A payload is always checked against the user's own schema, so what is sent may only ever be looser or
//! written differently. Every provider refuses something: branches at the root (`adapt/object_root.rs`), forms of
//! older drafts (`adapt/modern.rs`), whatever is outside its part of JSON Schema (`adapt/gemini.rs`). OpenAI's
//! strict mode is used where the schema allows it (`adapt/strict.rs`), and what it did to the schema is taken back
//! on the answer (`adapt/undo.rs`). Where something was lost, the whole schema goes into the tool's description.

mod gemini;
mod modern;
mod object_root;
mod offer;
mod overlap;
mod strict;
mod subschemas;
mod undo;

use std::borrow::Cow;

use serde_json::{Value, json};
use tenon_core::ToolCall;

use crate::endpoint::host;
use object_root::{Exactness, object_root};
pub(crate) use offer::{Offer, Strictness, answer_schema, offers};
use subschemas::refers_to_places;
pub use undo::Undo;

/// A schema in a description is paid for with every request, and beyond this it is no help to a model either.
pub const MAX_DESCRIBED_SCHEMA_BYTES: usize = 32 * 1024;

/// What Anthropic takes as the name of a property at the root.
const MAX_ANTHROPIC_NAME: usize = 64;

/// For whom a schema is shaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    OpenAiChat,
    OpenAiResponses,
    Anthropic,
    Gemini,
    /// Any other server with one of OpenAI's interfaces. What it takes is not known, so schemas go as they
    /// were written, apart from `"type": "object"` at the root.
    Compatible,
}

impl Target {
    /// The target for chat completions at this address.
    pub fn of_chat(base_url: &str) -> Target {
        if is_openai(base_url) { Target::OpenAiChat } else { Target::Compatible }
    }

    /// The target for the Responses API at this address.
    pub fn of_responses(base_url: &str) -> Target {
        if is_openai(base_url) { Target::OpenAiResponses } else { Target::Compatible }
    }
}

/// How OpenAI says that a schema is outside its strict mode, in lower case.
const REFUSED_SCHEMA_WORDS: [&str; 3] =
    ["invalid schema for", "invalid_json_schema", "invalid_function_parameters"];

/// Does this error blame a schema? Without strict mode it may pass: rules change faster than we do.
pub(crate) fn blames_schema(status: u16, body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    status == 400 && REFUSED_SCHEMA_WORDS.iter().any(|words| body.contains(words))
}

fn is_openai(base_url: &str) -> bool {
    // Regions have hosts of their own: `eu.api.openai.com`.
    host(base_url).is_some_and(|host| host == "api.openai.com" || host.ends_with(".api.openai.com"))
}

/// A schema as one provider is sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapted {
    pub parameters: Value,
    /// May the server be told to write nothing but what `parameters` allows?
    pub strict: bool,
    /// To be appended to the tool's description: the whole schema, where `parameters` says less.
    pub in_description: Option<String>,
    /// What was done, each a few words for a person; empty when the schema is sent as written.
    pub notes: Vec<String>,
    /// To be taken back on the answer.
    pub undo: Undo,
}

impl Adapted {
    /// What is sent, in one line for a person.
    pub fn summary(&self) -> String {
        let (unfit, changes): (Vec<_>, Vec<_>) =
            self.notes.iter().map(String::as_str).partition(|note| note.starts_with(NOT_STRICT));
        let mut parts = if changes.is_empty() { vec!["as written"] } else { changes };
        parts.extend(self.strict.then_some("strict"));
        parts.extend(unfit);
        parts.join(", ")
    }
}

const NOT_STRICT: &str = "not strict";
const REWORDED: &str = "written differently, means the same";

/// The schema for a terminal tool. It has passed the gate of contracts.
pub fn adapt(schema: &Value, target: Target) -> Adapted {
    let mut adapted = adapt_loosely(schema, target);
    if !matches!(target, Target::OpenAiChat | Target::OpenAiResponses) {
        return adapted;
    }
    if adapted.in_description.is_some() || adapted.notes.iter().any(|note| note == TOO_LARGE) {
        adapted.notes.push(NOT_STRICT.to_owned());
        return adapted;
    }
    match strict::strict(&adapted.parameters) {
        Ok((parameters, undo)) => {
            if undo.is_needed() {
                adapted.notes.push("optional properties asked for as nullable".to_owned());
            } else if parameters != adapted.parameters {
                adapted.notes.push(REWORDED.to_owned());
            }
            if parameters != adapted.parameters {
                adapted.parameters = parameters;
            }
            Adapted { strict: true, undo, ..adapted }
        }
        Err(unfit) => {
            let place =
                if unfit.pointer.is_empty() { "the root".to_owned() } else { format!("`{}`", unfit.pointer) };
            adapted.notes.push(format!("{NOT_STRICT}: {place} {}", unfit.why));
            adapted
        }
    }
}

const TOO_LARGE: &str = "the full schema is too large for the description";

/// The schema for any tool: never strict, so there is nothing to take back.
pub(crate) fn adapt_loosely(schema: &Value, target: Target) -> Adapted {
    let mut adapted = Adapted {
        parameters: schema.clone(),
        strict: false,
        in_description: None,
        notes: Vec::new(),
        undo: Undo::default(),
    };
    let mut is_lossy = false;
    let refers_to_places = refers_to_places(schema);
    if target != Target::Compatible && modern::modernise(&mut adapted.parameters) {
        adapted.notes.push("older forms written as in 2020-12".to_owned());
    }
    let is_moved = adapted.parameters != *schema || odd_names(schema, target).is_some();
    let is_plain = schema.get("type").is_some_and(|name| name == "object");
    let rooted = match target {
        // What a reference leads to would be another thing than it was.
        _ if refers_to_places && (is_moved || !is_plain) => {
            Some(object_root::any_object(vec!["$ref".to_owned()]))
        }
        _ => object_root(&adapted.parameters),
    };
    if let Some(rooted) = rooted {
        is_lossy |= rooted.exactness != Exactness::Same;
        adapted.notes.push(root_note(&rooted));
        adapted.parameters = rooted.schema;
    }
    adapted.parameters = tool_parameters(&adapted.parameters).into_owned();
    match target {
        Target::OpenAiChat | Target::OpenAiResponses => {
            // Both say nothing that was not said before.
            modern::name_items(&mut adapted.parameters);
            if let Value::Object(keywords) = &mut adapted.parameters {
                keywords.entry("properties").or_insert_with(|| json!({}));
            }
        }
        Target::Anthropic => {
            if let Some(names) = odd_names(&adapted.parameters, target) {
                adapted.notes.push(undeclare(&names, &mut adapted.parameters));
                is_lossy = true;
            }
        }
        Target::Gemini => {
            let (parameters, lost) = gemini::subset(&adapted.parameters);
            if lost.is_empty() && parameters != adapted.parameters {
                adapted.notes.push(REWORDED.to_owned());
            }
            adapted.parameters = parameters;
            if !lost.is_empty() {
                let lost: Vec<_> = lost.iter().map(|keyword| format!("`{keyword}`")).collect();
                adapted.notes.push(format!("{} left out or loosened", lost.join(", ")));
                is_lossy = true;
            }
        }
        Target::Compatible => {}
    }
    if is_lossy {
        describe(schema, &mut adapted);
    }
    adapted
}

fn root_note(rooted: &object_root::Rooted) -> String {
    let names: Vec<_> = rooted.replaced.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    match rooted.exactness {
        Exactness::Same => format!("root {names} merged into one object"),
        Exactness::Looser => format!("root {names} loosened to one object"),
        Exactness::AnyObject => format!("root {names} replaced by {{\"type\":\"object\"}}"),
    }
}

fn describe(schema: &Value, adapted: &mut Adapted) {
    let text = schema.to_string();
    if text.len() > MAX_DESCRIBED_SCHEMA_BYTES {
        adapted.notes.push(TOO_LARGE.to_owned());
        return;
    }
    adapted.in_description = Some(format!("The arguments must fit this JSON Schema: {text}"));
    adapted.notes.push("full schema in the description".to_owned());
}

/// The properties at the root that Anthropic refuses for their names.
fn odd_names(schema: &Value, target: Target) -> Option<Vec<String>> {
    let is_fine = |name: &str| {
        (1..=MAX_ANTHROPIC_NAME).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    let properties = schema.get("properties").filter(|_| target == Target::Anthropic)?.as_object()?;
    let odd: Vec<String> = properties.keys().filter(|name| !is_fine(name)).cloned().collect();
    (!odd.is_empty()).then_some(odd)
}

fn undeclare(names: &[String], schema: &mut Value) -> String {
    if let Value::Object(keywords) = schema {
        if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
            properties.retain(|name, _| !names.contains(name));
        }
        // What is no longer declared would count as unknown.
        keywords.shift_remove("additionalProperties");
        keywords.shift_remove("unevaluatedProperties");
    }
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{} not declared (the provider refuses the name)", names.join(", "))
}

/// The parameters of a tool with `"type": "object"` at the root; everything else stays as it was written.
/// Arguments are always an object, so saying it changes nothing.
pub fn tool_parameters(schema: &Value) -> Cow<'_, Value> {
    let Value::Object(keywords) = schema else {
        return Cow::Owned(json!({ "type": "object" }));
    };
    match keywords.get("type") {
        None => {
            let mut keywords = keywords.clone();
            keywords.shift_insert(0, "type".to_owned(), json!("object"));
            Cow::Owned(Value::Object(keywords))
        }
        Some(Value::Array(types)) if types.iter().any(|name| name == "object") => {
            let mut keywords = keywords.clone();
            keywords.insert("type".to_owned(), json!("object"));
            Cow::Owned(Value::Object(keywords))
        }
        Some(_) => Cow::Borrowed(schema),
    }
}

/// The arguments of a call as text for the history: as they came, where they are an object. Servers parse
/// them, so what was no object must become one.
pub(crate) fn object_arguments(call: &ToolCall) -> Cow<'_, str> {
    let is_object = call.arguments.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
    match is_object {
        true => Cow::Borrowed(call.arguments.as_str()),
        false => Cow::Owned(call.input().get().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_root_type_is_touched() {
        for (schema, expected) in [
            (r#"{}"#, r#"{"type":"object"}"#),
            (r#"true"#, r#"{"type":"object"}"#),
            (
                r#"{"z":1,"properties":{"b":{"maximum":1.50},"a":{}}}"#,
                r#"{"type":"object","z":1,"properties":{"b":{"maximum":1.50},"a":{}}}"#,
            ),
            (r#"{"title":"t","type":["object","null"],"x":1}"#, r#"{"title":"t","type":"object","x":1}"#),
            (
                r#"{"$schema":"s","type":"object","properties":{"n":{"maximum":123456789012345678901234567890}}}"#,
                r#"{"$schema":"s","type":"object","properties":{"n":{"maximum":123456789012345678901234567890}}}"#,
            ),
        ] {
            let schema: Value = serde_json::from_str(schema).unwrap();
            assert_eq!(serde_json::to_string(&tool_parameters(&schema)).unwrap(), expected);
        }
    }

    #[test]
    fn openai_is_told_by_its_host() {
        for (url, expected) in [
            ("https://api.openai.com/v1", Target::OpenAiChat),
            ("https://api.openai.com", Target::OpenAiChat),
            ("https://eu.api.openai.com/v1", Target::OpenAiChat),
            ("https://API.OpenAI.com/v1", Target::OpenAiChat),
            ("https://api.openai.com.example.org/v1", Target::Compatible),
            ("https://example.org/api.openai.com/v1", Target::Compatible),
            ("https://notapi.openai.com/v1", Target::Compatible),
            ("http://127.0.0.1:8080/v1", Target::Compatible),
            ("nonsense", Target::Compatible),
        ] {
            assert_eq!(Target::of_chat(url), expected, "{url}");
        }
    }
}
