//! What the model is asked, in the words of the conversation: the schema stands where it is read last.

use serde_json::{Value, json};
use tenon_core::{Message, Part, Request, Role, ToolSpec};

use crate::chat::{Speaker, Turn};

/// A schema longer than this is not shown: reading it takes longer than it helps so small a model, and the grammar
/// keeps to it anyway.
const MAX_SHOWN_SCHEMA: usize = 2_000;

/// What kind of answer a request wants.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Text,
    /// The arguments of this call, and nothing else.
    Payload {
        tool: String,
        schema: Value,
    },
    /// A call of one of these; text is the call of [`ANSWER`].
    Calls {
        schema: Value,
    },
}

/// Stands for an answer in text where tools are offered.
pub(crate) const ANSWER: &str = "answer";

impl Task {
    pub(crate) fn of(request: &Request) -> Task {
        if let Some(format) = &request.response_format {
            return Task::Payload { tool: format.name.clone(), schema: format.schema.clone() };
        }
        let terminal = request.terminal_tool.as_deref();
        match (&request.tools[..], terminal) {
            ([], _) => Task::Text,
            ([only], Some(name)) if only.name == name => {
                Task::Payload { tool: only.name.clone(), schema: only.parameters.clone() }
            }
            (tools, terminal) => {
                let mut calls: Vec<Value> = tools
                    .iter()
                    .map(|tool| (tool.name.as_str(), &tool.parameters))
                    .enumerate()
                    .map(call)
                    .collect();
                if terminal.is_none() {
                    let text = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
                    calls.push(call((calls.len(), (ANSWER, &text))));
                }
                Task::Calls { schema: json!({ "anyOf": calls }) }
            }
        }
    }
}

fn call((index, (name, parameters)): (usize, (&str, &Value))) -> Value {
    let mut parameters = parameters.clone();
    move_references(&mut parameters, &format!("#/anyOf/{index}/properties/arguments"));
    json!({
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": false,
    })
}

/// References inside a schema that now stands at `place`.
fn move_references(schema: &mut Value, place: &str) {
    match schema {
        Value::Object(members) => {
            for (keyword, value) in members {
                match value {
                    Value::String(target) if keyword == "$ref" && target.starts_with('#') => {
                        *target = format!("{place}{}", &target[1..]);
                    }
                    value => move_references(value, place),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_references(item, place)),
        _ => {}
    }
}

/// The conversation, ending with the user.
pub(crate) fn turns(request: &Request, task: &Task) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    if !request.system.trim().is_empty() {
        turns.push(Turn { role: Speaker::System, text: request.system.trim().to_owned() });
    }
    for message in &request.messages {
        let role = match message.role {
            Role::User => Speaker::User,
            Role::Assistant => Speaker::Assistant,
        };
        let text = text_of(message);
        match turns.last_mut() {
            // Templates expect the speakers to take turns.
            Some(last) if last.role == role => last.text.push_str(&format!("\n\n{text}")),
            _ => turns.push(Turn { role, text }),
        }
    }
    let asked = asked(request, task);
    match turns.last_mut() {
        Some(last) if last.role == Speaker::User => {
            last.text = [last.text.as_str(), &asked]
                .iter()
                .filter(|text| !text.is_empty())
                .copied()
                .collect::<Vec<_>>()
                .join("\n\n");
        }
        _ => turns.push(Turn { role: Speaker::User, text: asked }),
    }
    turns
}

fn asked(request: &Request, task: &Task) -> String {
    match task {
        Task::Text => String::new(),
        Task::Payload { schema, .. } => {
            let shown = schema.to_string();
            match shown.len() <= MAX_SHOWN_SCHEMA {
                true => format!("Answer with a JSON object that fits this JSON Schema:\n{shown}"),
                false => "Answer with a JSON object.".to_owned(),
            }
        }
        Task::Calls { .. } => {
            let tools = request.tools.iter().map(|tool: &std::sync::Arc<ToolSpec>| {
                let description: String = tool.description.chars().take(200).collect();
                format!("- {}: {description} Arguments: {}", tool.name, short(&tool.parameters))
            });
            let tools: Vec<String> = tools.collect();
            format!("Call one of these tools, as {{\"name\": …, \"arguments\": …}}:\n{}", tools.join("\n"))
        }
    }
}

fn short(parameters: &Value) -> String {
    let text = parameters.to_string();
    if text.len() <= MAX_SHOWN_SCHEMA { text } else { "{}".to_owned() }
}

fn text_of(message: &Message) -> String {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.clone()),
        Part::ToolCall(call) if call.terminal => Some(call.arguments.clone()),
        Part::ToolCall(call) => {
            Some(format!("{{\"name\": {}, \"arguments\": {}}}", json!(call.name), call.input()))
        }
        Part::ToolResult(result) => Some(match result.is_error {
            true => format!("`{}` failed: {}", result.name, result.content),
            false => format!("Result of `{}`:\n{}", result.name, result.content),
        }),
        // So small a model sees nothing and has no thoughts of its own to read again.
        Part::Thinking { .. } | Part::Media(_) => None,
    });
    parts.collect::<Vec<_>>().join("\n\n")
}
