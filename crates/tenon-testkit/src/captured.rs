//! A request as it arrived, and readers that understand it on every wire: one test reads them all.

use std::time::Instant;

use serde_json::Value;

use crate::{Wire, http};

#[derive(Clone, Debug)]
pub struct Captured {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// The body as JSON; `null` when it is not JSON.
    pub body: Value,
    pub raw: Vec<u8>,
    pub at: Instant,
}

impl Captured {
    pub fn header(&self, name: &str) -> Option<&str> {
        http::header(&self.headers, name)
    }

    /// The wire it came on, by its path.
    pub fn wire(&self) -> Wire {
        Wire::of_path(&self.path)
    }

    /// The conversation that was sent: `messages`, `input` or `contents`, as it stands.
    #[track_caller]
    pub fn messages(&self) -> &[Value] {
        let field = match self.wire() {
            Wire::Chat | Wire::Messages => "messages",
            Wire::Responses => "input",
            Wire::Gemini => "contents",
        };
        self.body[field].as_array().unwrap_or_else(|| panic!("no `{field}` in {}", self.body))
    }

    #[track_caller]
    pub fn last_message(&self) -> &Value {
        self.messages().last().unwrap_or_else(|| panic!("the conversation is empty"))
    }

    /// The names of the offered tools, in order.
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools().into_iter().filter_map(|tool| tool["name"].as_str()).collect()
    }

    /// The declaration of an offered tool: the object with its `name` and `description`.
    #[track_caller]
    pub fn tool(&self, name: &str) -> &Value {
        self.tools()
            .into_iter()
            .find(|tool| tool["name"] == name)
            .unwrap_or_else(|| panic!("`{name}` is not offered; these are: {:?}", self.tool_names()))
    }

    /// The schema of the arguments of an offered tool.
    #[track_caller]
    pub fn tool_parameters(&self, name: &str) -> Value {
        let tool = self.tool(name);
        let fields = ["parameters", "input_schema", "parametersJsonSchema"];
        let found = fields.into_iter().find_map(|field| tool.get(field));
        found.unwrap_or_else(|| panic!("`{name}` has no schema: {tool}")).clone()
    }

    /// The only tool that may be called, where one must be.
    pub fn forced_tool(&self) -> Option<String> {
        let choice = &self.body["tool_choice"];
        let gemini = &self.body["toolConfig"]["functionCallingConfig"];
        let allowed = match self.wire() {
            Wire::Chat if choice.is_object() => vec![choice["function"]["name"].as_str()?],
            Wire::Responses | Wire::Messages if choice["name"].is_string() => vec![choice["name"].as_str()?],
            Wire::Chat | Wire::Responses if choice == "required" => self.tool_names(),
            Wire::Messages if choice["type"] == "any" => self.tool_names(),
            Wire::Gemini if gemini["mode"] == "ANY" => match gemini["allowedFunctionNames"].as_array() {
                Some(names) => names.iter().filter_map(Value::as_str).collect(),
                None => self.tool_names(),
            },
            _ => return None,
        };
        match allowed.as_slice() {
            [only] => Some((*only).to_owned()),
            _ => None,
        }
    }

    /// The text of the answer to this call.
    #[track_caller]
    pub fn tool_result(&self, call_id: &str) -> String {
        let answer = match self.wire() {
            Wire::Chat => self
                .messages()
                .iter()
                .find(|message| message["role"] == "tool" && message["tool_call_id"] == call_id)
                .map(|message| text_or_json(&message["content"])),
            Wire::Responses => self
                .messages()
                .iter()
                .find(|item| item["type"] == "function_call_output" && item["call_id"] == call_id)
                .map(|item| text_or_json(&item["output"])),
            Wire::Messages => self
                .contents("content")
                .find(|block| block["type"] == "tool_result" && block["tool_use_id"] == call_id)
                .map(|block| text_or_json(&block["content"])),
            Wire::Gemini => self
                .contents("parts")
                .map(|part| &part["functionResponse"])
                .find(|answer| answer["id"] == call_id)
                .map(|answer| only_string(&answer["response"])),
        };
        answer.unwrap_or_else(|| panic!("no result of `{call_id}` in {}", self.body))
    }

    /// What the user said, all messages, one below the other; results of tools are not part of it.
    pub fn user_text(&self) -> String {
        self.text_of_role(&["user"])
    }

    /// The instructions above the conversation.
    pub fn system_text(&self) -> String {
        match self.wire() {
            Wire::Chat => self.text_of_role(&["system", "developer"]),
            Wire::Responses => {
                let instructions = text_of(&self.body["instructions"]);
                let messages = self.text_of_role(&["system", "developer"]);
                lines([instructions, messages])
            }
            Wire::Messages => text_of(&self.body["system"]),
            Wire::Gemini => text_of(&self.body["systemInstruction"]["parts"]),
        }
    }

    fn tools(&self) -> Vec<&Value> {
        let tools = self.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
        match self.wire() {
            Wire::Chat => tools.map(|tool| &tool["function"]).collect(),
            Wire::Responses | Wire::Messages => tools.collect(),
            Wire::Gemini => {
                tools.filter_map(|tool| tool["functionDeclarations"].as_array()).flatten().collect()
            }
        }
    }

    /// The members of this list in every message.
    fn contents<'a>(&'a self, field: &'a str) -> impl Iterator<Item = &'a Value> {
        self.messages().iter().filter_map(move |message| message[field].as_array()).flatten()
    }

    fn text_of_role(&self, roles: &[&str]) -> String {
        if let Some(input) = self.body["input"].as_str() {
            return if roles.contains(&"user") { input.to_owned() } else { String::new() };
        }
        let said = |message: &&Value| message["role"].as_str().is_some_and(|role| roles.contains(&role));
        let field = if self.wire() == Wire::Gemini { "parts" } else { "content" };
        lines(self.messages().iter().filter(said).map(|message| text_of(&message[field])))
    }
}

/// A string, or the texts in a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            lines(parts.iter().filter_map(|part| part["text"].as_str()).map(str::to_owned))
        }
        _ => String::new(),
    }
}

fn text_or_json(content: &Value) -> String {
    let text = text_of(content);
    if text.is_empty() && !content.is_string() { content.to_string() } else { text }
}

/// The text of `{"output": "…"}`, whatever its key; other objects as JSON.
fn only_string(response: &Value) -> String {
    let members: Vec<&Value> = response.as_object().into_iter().flat_map(|object| object.values()).collect();
    match members.as_slice() {
        [Value::String(text)] => text.clone(),
        _ => response.to_string(),
    }
}

fn lines(texts: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join("\n")
}
