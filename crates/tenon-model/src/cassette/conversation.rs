//! The conversation of a request on any wire, in one form: the messages of chat completions, without the
//! system prompt, and the names of the tools. This is what a cassette keeps of a body.
//!
//! What only a provider understands (signatures, reasoning, marks for a cache) is left out.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::Protocol;

/// The part of a request body that a cassette keeps: model, conversation, names of the tools.
pub(super) fn recorded_body(protocol: Protocol, path: &str, body: &Value) -> Value {
    let model = match protocol {
        Protocol::Gemini => json!(model_in_path(path)),
        _ => body["model"].clone(),
    };
    let messages = match protocol {
        Protocol::OpenAiChat => chat(body),
        Protocol::OpenAiResponses => responses(body),
        Protocol::Anthropic => anthropic(body),
        Protocol::Gemini => gemini(body),
    };
    json!({ "model": model, "messages": messages, "tools": tool_names(body) })
}

fn model_in_path(path: &str) -> Option<&str> {
    path.rsplit_once("/models/")?.1.rsplit_once(':').map(|(model, _)| model)
}

/// The names of the offered tools: alone in a recorded body, in a declaration in a request.
pub(super) fn tool_names(body: &Value) -> Vec<&str> {
    let declared = list(&body["tools"]).iter().flat_map(|tool| match &tool["functionDeclarations"] {
        Value::Array(tools) => tools.as_slice(),
        _ => std::slice::from_ref(tool),
    });
    declared
        .filter_map(|tool| {
            tool.as_str().or_else(|| tool["function"]["name"].as_str()).or(tool["name"].as_str())
        })
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What stands for an image in a cassette: enough to tell it from another one.
fn media_mark(mime: &str, data: &str) -> Value {
    // FNV-1a, which stays the same from version to version.
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = data.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    json!(format!("{mime} {} {hash:016x}", data.len()))
}

/// The media in a list of blocks, on any wire.
fn media_of(content: &Value) -> Vec<Value> {
    list(content).iter().filter_map(media_in).collect()
}

fn media_in(block: &Value) -> Option<Value> {
    let url = block["image_url"]["url"].as_str().or(block["image_url"].as_str());
    if let Some((mime, data)) = url.and_then(|url| url.strip_prefix("data:")?.split_once(";base64,")) {
        return Some(media_mark(mime, data));
    }
    let inline = &block["inlineData"];
    let (mime, data) = match inline.is_object() {
        true => (&inline["mimeType"], &inline["data"]),
        false => (&block["source"]["media_type"], &block["source"]["data"]),
    };
    Some(media_mark(mime.as_str()?, data.as_str()?))
}

/// Adds the media to the message they stand in.
fn with_media(mut message: Value, media: Vec<Value>) -> Value {
    if !media.is_empty() {
        message["media"] = Value::Array(media);
    }
    message
}

fn is_prompt(message: &Value) -> bool {
    message["role"] == "system" || message["role"] == "developer"
}

/// The messages of chat completions, and so of a recorded body: as they stand, but for media.
pub(super) fn chat(body: &Value) -> Vec<Value> {
    let messages = list(&body["messages"]).iter().filter(|message| !is_prompt(message));
    messages
        .map(|message| {
            let media = media_of(&message["content"]);
            let mut message = message.clone();
            if !media.is_empty() {
                message["content"] = json!(text_of(&message["content"]));
            }
            with_media(message, media)
        })
        .collect()
}

/// A list of items; those of the model that follow each other are one turn.
fn responses(body: &Value) -> Vec<Value> {
    let mut out = Messages::default();
    for item in list(&body["input"]).iter().filter(|item| !is_prompt(item)) {
        match item["type"].as_str().unwrap_or("message") {
            "message" if item["role"] == "assistant" => out.answered(&text_of(&item["content"])),
            "message" => out.said(&text_of(&item["content"]), media_of(&item["content"])),
            "function_call" => out.called(&item["call_id"], &item["name"], &item["arguments"]),
            "function_call_output" => out.result(&item["call_id"], &text_of(&item["output"]), Vec::new()),
            _ => {}
        }
    }
    out.finish()
}

fn anthropic(body: &Value) -> Vec<Value> {
    let mut out = Messages::default();
    for message in list(&body["messages"]) {
        let is_answer = message["role"] == "assistant";
        if let Value::String(text) = &message["content"] {
            if is_answer { out.answered(text) } else { out.said(text, Vec::new()) }
        }
        for block in list(&message["content"]) {
            match block["type"].as_str().unwrap_or_default() {
                "text" if is_answer => out.answered(&text_of(&block["text"])),
                "text" => out.said(&text_of(&block["text"]), Vec::new()),
                "image" => out.said("", media_in(block).into_iter().collect()),
                "tool_use" => out.called(&block["id"], &block["name"], &block["input"]),
                "tool_result" => {
                    let content = &block["content"];
                    out.result(&block["tool_use_id"], &text_of(content), media_of(content));
                }
                _ => {}
            }
        }
    }
    out.finish()
}

fn gemini(body: &Value) -> Vec<Value> {
    let mut out = Messages::default();
    let (mut calls, mut results) = (Counted::default(), Counted::default());
    for content in list(&body["contents"]) {
        for part in list(&content["parts"]) {
            let (call, result) = (&part["functionCall"], &part["functionResponse"]);
            if call.is_object() {
                out.called(&calls.id(call), &call["name"], &call["args"]);
            } else if result.is_object() {
                out.result(&results.id(result), &only_text(&result["response"]), Vec::new());
            } else if let Some(media) = media_in(part) {
                out.said("", vec![media]);
            } else if part["thought"] != true {
                let text = text_of(&part["text"]);
                if content["role"] == "model" { out.answered(&text) } else { out.said(&text, Vec::new()) }
            }
        }
    }
    out.finish()
}

/// Servers need not give a call an id; then calls and results of a name belong together in their order.
#[derive(Default)]
struct Counted(HashMap<String, usize>);

impl Counted {
    fn id(&mut self, part: &Value) -> Value {
        if part["id"].is_string() {
            return part["id"].clone();
        }
        let name = part["name"].as_str().unwrap_or_default();
        let number = self.0.entry(name.to_owned()).or_default();
        *number += 1;
        json!(format!("{name}_{number}"))
    }
}

/// The text in `{"output": "…"}` or `{"error": "…"}`.
fn only_text(response: &Value) -> String {
    match response.as_object().and_then(|members| members.values().next()) {
        Some(Value::String(text)) => text.clone(),
        _ => response.to_string(),
    }
}

/// A text, or the texts in a list of blocks.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Messages of chat completions, put together piece by piece.
#[derive(Default)]
struct Messages {
    done: Vec<Value>,
    answer: Answer,
}

/// What the model says and does in one turn.
#[derive(Default)]
struct Answer {
    text: String,
    calls: Vec<Value>,
}

impl Messages {
    fn answered(&mut self, text: &str) {
        self.answer.text.push_str(text);
    }

    fn called(&mut self, id: &Value, name: &Value, arguments: &Value) {
        let function = json!({ "name": name, "arguments": arguments });
        self.answer.calls.push(json!({ "id": id, "type": "function", "function": function }));
    }

    fn said(&mut self, text: &str, media: Vec<Value>) {
        self.end_answer();
        self.done.push(with_media(json!({ "role": "user", "content": text }), media));
    }

    fn result(&mut self, id: &Value, text: &str, media: Vec<Value>) {
        self.end_answer();
        let message = json!({ "role": "tool", "tool_call_id": id, "content": text });
        self.done.push(with_media(message, media));
    }

    fn end_answer(&mut self) {
        let Answer { text, calls } = std::mem::take(&mut self.answer);
        if text.is_empty() && calls.is_empty() {
            return;
        }
        let content = (!text.is_empty()).then_some(text);
        let mut message = json!({ "role": "assistant", "content": content });
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        self.done.push(message);
    }

    fn finish(mut self) -> Vec<Value> {
        self.end_answer();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One conversation, as each wire writes it.
    #[test]
    fn a_conversation_is_the_same_on_every_wire() {
        let chat = json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "Looking.", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "read", "arguments": {"n": 1}}},
                    {"id": "b", "type": "function", "function": {"name": "read", "arguments": {"n": 2}}}]},
                {"role": "tool", "tool_call_id": "a", "content": "one"},
                {"role": "tool", "tool_call_id": "b", "content": "two"},
                {"role": "user", "content": "go on"},
                {"role": "assistant", "content": "Done."},
            ],
            "tools": [{"type": "function", "function": {"name": "read", "parameters": {}}}],
        });
        let responses = json!({
            "model": "m",
            "instructions": "Be brief.",
            "input": [
                {"role": "developer", "content": "More."},
                {"role": "user", "content": "hi"},
                {"type": "reasoning", "id": "r", "encrypted_content": "x", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
                {"type": "function_call", "id": "fc", "call_id": "a", "name": "read", "arguments": {"n": 1}},
                {"type": "function_call", "call_id": "b", "name": "read", "arguments": {"n": 2}},
                {"type": "function_call_output", "call_id": "a", "output": "one"},
                {"type": "function_call_output", "call_id": "b", "output": "two"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]},
                {"role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
            ],
            "tools": [{"type": "function", "name": "read", "parameters": {}}],
        });
        let anthropic = json!({
            "model": "m",
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "a", "name": "read", "input": {"n": 1}},
                    {"type": "tool_use", "id": "b", "name": "read", "input": {"n": 2}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "two"}]},
                    {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}]},
                {"role": "assistant", "content": "Done."},
            ],
            "tools": [{"name": "read", "input_schema": {}}],
        });
        let gemini = json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [
                    {"text": "Hm.", "thought": true, "thoughtSignature": "s"},
                    {"text": "Looking."},
                    {"functionCall": {"id": "a", "name": "read", "args": {"n": 1}}, "thoughtSignature": "s"},
                    {"functionCall": {"id": "b", "name": "read", "args": {"n": 2}}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "a", "name": "read", "response": {"output": "one"}}},
                    {"functionResponse": {"id": "b", "name": "read", "response": {"error": "two"}}},
                    {"text": "go on"}]},
                {"role": "model", "parts": [{"text": "Done."}]},
            ],
            "tools": [{"functionDeclarations": [{"name": "read", "parametersJsonSchema": {}}]}],
        });
        let expected = recorded_body(Protocol::OpenAiChat, "", &chat);
        assert_eq!(expected["messages"].as_array().map(Vec::len), Some(6));
        assert_eq!(expected["tools"], json!(["read"]));
        for (protocol, body) in [
            (Protocol::OpenAiResponses, responses),
            (Protocol::Anthropic, anthropic),
            (Protocol::Gemini, gemini),
        ] {
            let path = "/v1beta/models/m:streamGenerateContent";
            assert_eq!(recorded_body(protocol, path, &body), expected, "{protocol:?}");
        }
        // What was recorded is read again as it stands.
        assert_eq!(recorded_body(Protocol::OpenAiChat, "", &expected), expected);
    }

    #[test]
    fn calls_without_ids_belong_to_their_results_by_order() {
        let call = |name: &str| json!({"functionCall": {"name": name, "args": {}}});
        let result = |name: &str, text: &str| json!({"functionResponse": {"name": name, "response": {"output": text}}});
        let body = json!({"contents": [
            {"role": "model", "parts": [call("a"), call("b"), call("a")]},
            {"role": "user", "parts": [result("a", "1"), result("b", "2"), result("a", "3")]},
        ]});
        let messages = gemini(&body);
        let called: Vec<&Value> = list(&messages[0]["tool_calls"]).iter().map(|call| &call["id"]).collect();
        let answered: Vec<&Value> = messages[1..].iter().map(|message| &message["tool_call_id"]).collect();
        assert_eq!(called, answered);
        assert_eq!(called, ["a_1", "b_1", "a_2"]);
    }
}
