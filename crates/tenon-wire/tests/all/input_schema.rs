//! The published schema of a client's lines: current, true of the examples there are, and never wider than the
//! reader.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tenon_wire::input::{ControlRequest, Input, Line, read_line};
use tenon_wire::{Dialect, published_input_schema};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| published_input_schema(Dialect::OpenAi).unwrap());
static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| jsonschema::validator_for(&SCHEMA).unwrap());

#[test]
fn the_checked_in_schemas_are_current() {
    for dialect in Dialect::ALL {
        let file = format!("../../schemas/{}-input.json", dialect.name());
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
        let Some(schema) = published_input_schema(dialect) else {
            assert!(!path.exists(), "{} is of a dialect that reads nothing", path.display());
            continue;
        };
        let current = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            fs::write(&path, &current).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == current, "{} is stale; run with `UPDATE_SCHEMAS=1`", path.display());
    }
}

/// Lines that clients are known to send, and what they are taken for.
fn lines() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({
                "session_id": "session-123", "prompt_id": "session-123########7", "model": "qwen-coder",
                "input": {
                    "origin": "user",
                    "parts": [{"type": "text", "text": "Please fix the bug in @main.py"}],
                    "command": null,
                },
                "options": {"temperature": 0.2, "tool_overrides": ["EditTool"]},
            }),
            "turn",
        ),
        (
            json!({
                "session_id": "session-123", "prompt_id": "session-123########8",
                "input": {
                    "origin": "user", "parts": [{"type": "text", "text": ""}],
                    "command": {"kind": "slash", "path": ["chat", "list"], "args": ""},
                },
            }),
            "turn",
        ),
        (
            json!({
                "type": "command_hint_request", "session_id": "session-123",
                "prompt_id": "session-123########preview", "trigger": "slash", "text": "/c", "cursor": 2,
                "context": {"cwd": "/workspace/demo", "selected_text": ""},
            }),
            "hint",
        ),
        (json!({"type": "command_hint_cancel", "prompt_id": "session-123########preview"}), "hint cancel"),
        (json!({"type": "heartbeat_request", "session_id": "session-123"}), "heartbeat"),
        (
            json!({
                "type": "control/cancel", "session_id": "session-123", "prompt_id": "session-123########8",
                "reason": "escape",
            }),
            "cancel",
        ),
        (
            json!({
                "type": "control_response", "request_id": "req-1",
                "response": {
                    "subtype": "success",
                    "result": {"behavior": "approve", "message": "Allowed to execute."},
                },
            }),
            "response",
        ),
        (
            json!({
                "type": "control_response", "request_id": "req-1",
                "response": {"subtype": "error", "error": {"message": "no", "retryable": false}},
            }),
            "response",
        ),
        (json!({"model": "qwen-coder", "messages": [{"role": "user", "content": "Hello"}]}), "turn"),
        (
            json!({
                "type": "user", "session_id": "S", "message": {"role": "user", "content": "text"},
                "parent_tool_use_id": null,
            }),
            "turn",
        ),
        (
            json!({
                "type": "user", "session_id": "default", "parent_tool_use_id": null,
                "message": {"role": "user", "content": [
                    {"type": "text", "text": "hi"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                    {"type": "file_data", "file_uri": "file:///home/someone/a.txt"},
                    {"type": "file_data", "data": "AA==", "mime_type": "image/png"},
                    {"type": "function_response", "name": "f", "response": {"output": 1}},
                ]},
            }),
            "turn",
        ),
        (
            json!({
                "type": "control_request", "request_id": "r1",
                "request": {"subtype": "initialize", "hooks": null},
            }),
            "request",
        ),
        (
            json!({
                "type": "control_request", "request_id": "r1",
                "request": {
                    "subtype": "initialize",
                    "hooks": {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["h0"], "timeout": 60}]},
                    "timeout": {"canUseTool": 1000},
                    "sdkMcpServers": {"tools": {"type": "sdk", "name": "tools"}},
                    "mcpServers": {"s": {"command": "x"}},
                    "agents": [{"name": "a", "description": "d"}],
                },
            }),
            "request",
        ),
        (json!({"type": "control_request", "request_id": "r1", "subtype": "interrupt"}), "request"),
        (
            json!({
                "type": "control_response",
                "response": {"subtype": "success", "request_id": "r1", "response": {"behavior": "allow"}},
            }),
            "response",
        ),
        (
            json!({
                "type": "control_response",
                "response": {"subtype": "error", "request_id": "r1", "error": "no"},
            }),
            "response",
        ),
        (json!({"type": "control_cancel_request", "request_id": "r1"}), "request cancel"),
        (
            json!({
                "session_id": "_new",
                "input": {"origin": "tool_response", "parts": [{"type": "function_response", "response": 1}]},
                "tool_call_id": "call_1",
            }),
            "turn",
        ),
        (
            json!({
                "input": {"origin": "tool_response", "parts": "done"},
                "tool_request": {"call_id": "call_1", "name": "f", "args": {}},
            }),
            "turn",
        ),
        (json!({"input": {}, "continuation": true}), "turn"),
        (
            json!({
                "prompt_id": "p1", "input": {"origin": "user", "parts": []},
                "tool_request": {"callId": "c", "name": "read_file", "args": {"file_path": "a"}, "isClientInitiated": true},
            }),
            "turn",
        ),
        (json!({"input": {"tool_request": [{"name": "f"}, {"name": "g", "args": null}]}}), "turn"),
        (
            json!({"input": {"origin": "tool_response",
                "parts": [{"functionResponse": {"name": "f", "response": {"error": "no"}, "is_error": true}}]},
                "tool_call_id": "c"}),
            "turn",
        ),
        (
            json!({"type": "control_request", "request_id": "r1", "subtype": "set_model", "payload": {"model": "m"}}),
            "request",
        ),
        (
            json!({
                "type": "control_request", "request_id": "r1",
                "request": {"subtype": "mcp_toggle", "payload": {"server_name": "s", "enabled": true}},
            }),
            "request",
        ),
        (
            json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "promote_to_background", "call_id": "c"}}),
            "request",
        ),
        (
            json!({"messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r"}]},
                {"role": "user", "content": [{"fileData": {"fileUri": "file:///a%20b"}}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}]},
            ], "n": 1, "stream": false, "temperature": 1}),
            "turn",
        ),
        (json!({"input": {"command": {"kind": "question"}}}), "turn"),
        (json!({"input": {"command": {"path": "help", "args": "x"}}}), "turn"),
        (json!({"type": "assistant", "message": {}}), "unknown"),
        (json!({"protocol_version": 1, "input": {"parts": ["hi"]}}), "turn"),
        (json!({"metadata": {"protocol_version": "1"}, "input": {"parts": [{"text": "hi"}]}}), "turn"),
    ]
}

fn taken_for(input: &Input) -> &'static str {
    match input {
        Input::Turn(_) => "turn",
        Input::ControlRequest { .. } => "request",
        Input::ControlResponse { .. } => "response",
        Input::ControlCancel { .. } => "request cancel",
        Input::Cancel { .. } => "cancel",
        Input::Hint(_) => "hint",
        Input::HintCancel { .. } => "hint cancel",
        Input::Heartbeat { .. } => "heartbeat",
        Input::Unknown { .. } => "unknown",
    }
}

#[test]
fn known_lines_are_valid_and_read() {
    for (line, wanted) in lines() {
        let read = read_line(line.to_string().as_bytes()).unwrap().unwrap();
        assert_eq!(taken_for(&read.input), wanted, "{line}");
        let errors: Vec<String> = VALIDATOR.iter_errors(&line).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{line}\n{errors:?}");
    }
}

#[test]
fn wrong_lines_are_neither() {
    for line in [
        json!({}),
        json!([]),
        json!({"type": 7}),
        json!({"type": "user"}),
        json!({"type": "user", "message": {"role": "user"}}),
        json!({"type": "user", "message": {"content": 7}}),
        json!({"type": "user", "message": {"content": [{"type": "hologram"}]}}),
        json!({"type": "user", "message": {"content": [{"type": "image_url", "image_url": "https://x/y.png"}]}}),
        json!({"type": "user", "message": {"content": [{"type": "file_data", "file_uri": "gs://x/y"}]}}),
        json!({"type": "control_request"}),
        json!({"type": "control_request", "request_id": "r", "request": {"subtype": "set_model", "model": " "}}),
        json!({"type": "control_request", "request_id": "r", "request": {"subtype": "set_permission_mode", "mode": "x"}}),
        json!({"type": "control_request", "request_id": "r", "request": {"subtype": "mcp_toggle", "serverName": "s"}}),
        json!({"type": "control_response"}),
        json!({"type": "control_response", "response": {"subtype": "success"}}),
        json!({"type": "command_hint_request", "trigger": "hash"}),
        json!({"type": "command_hint_request", "trigger": "at", "cursor": -1}),
        json!({"input": {}}),
        json!({"input": {"parts": []}}),
        json!({"input": {"origin": "tool_response", "parts": ["x"]}}),
        json!({"input": {"origin": "nobody", "parts": ["x"]}}),
        json!({"input": {"parts": ["x"]}, "continuation": "yes"}),
        json!({"input": {"parts": ["x"]}, "tool_request": {"name": "f"}}),
        json!({"input": {}, "tool_request": {"call_id": "c"}}),
        json!({"input": {}, "tool_request": {"name": ""}}),
        json!({"input": {}, "tool_request": {"name": "f", "args": []}}),
        json!({"input": {"origin": "tool_response", "parts": ["x"]}, "tool_request": [{"call_id": "c"}]}),
        json!({"input": {"parts": [{"type": "function_response", "response": 1, "is_error": "yes"}]}}),
        json!({"input": {"parts": ["x"]}, "options": {"temperature": "hot"}}),
        json!({"input": {"parts": ["x"]}, "options": {"max_tokens": -1}}),
        json!({"messages": []}),
        json!({"messages": [{"role": "wizard", "content": "x"}]}),
        json!({"messages": [{"role": "tool", "content": "x"}]}),
    ] {
        assert!(read_line(line.to_string().as_bytes()).is_err(), "{line} is read");
        assert!(!VALIDATOR.is_valid(&line), "{line} is valid");
    }
}

/// Values that a schema describes, made up from a stream of numbers.
struct Maker<'a> {
    root: &'a Value,
    choices: std::slice::Iter<'a, u32>,
}

impl Maker<'_> {
    fn pick(&mut self, count: usize) -> usize {
        let choice = self.choices.next().copied().unwrap_or_default();
        usize::try_from(choice).unwrap_or_default() % count.max(1)
    }

    fn make(&mut self, schema: &Value, depth: usize) -> Value {
        let Value::Object(fields) = schema else { return json!({"any": [1, "x", null]}) };
        if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
            let found = self.root.pointer(target.trim_start_matches('#')).cloned().unwrap();
            let made = self.make(&found, depth);
            return self.with_properties(fields, made, depth);
        }
        if let Some(value) = fields.get("const") {
            return value.clone();
        }
        if let Some(Value::Array(values)) = fields.get("enum") {
            return values[self.pick(values.len())].clone();
        }
        for union in ["oneOf", "anyOf"] {
            // The other unions narrow what is there already.
            if let Some(Value::Array(choices)) = fields.get(union)
                && choices.iter().all(|choice| {
                    ["$ref", "type", "const", "oneOf", "anyOf"].iter().any(|key| choice.get(key).is_some())
                })
            {
                let choice = choices[self.pick(choices.len())].clone();
                let made = self.make(&choice, depth);
                return self.with_properties(fields, made, depth);
            }
        }
        let kind = match fields.get("type") {
            Some(Value::Array(kinds)) => kinds[self.pick(kinds.len())].clone(),
            Some(kind) => kind.clone(),
            None => json!("object"),
        };
        match kind.as_str().unwrap_or_default() {
            "object" => self.with_properties(fields, json!({}), depth),
            "array" => {
                let least = fields.get("minItems").and_then(Value::as_u64).unwrap_or_default();
                let count = usize::try_from(least).unwrap_or_default() + self.pick(3);
                let items = fields.get("items").cloned().unwrap_or(json!(true));
                (0..count.min(4)).map(|_| self.make(&items, depth + 1)).collect()
            }
            "string" => match fields.get("pattern").and_then(Value::as_str) {
                Some(pattern) if pattern.starts_with("^data:") => json!("data:image/png;base64,AA=="),
                _ => json!(["word", "_new", "ä\n\u{2028}", "/help", "1"][self.pick(5)]),
            },
            "integer" => json!(self.pick(1000)),
            "number" => json!([0.5, 2.0, 0.0][self.pick(3)]),
            "boolean" => json!(self.pick(2) == 1),
            _ => Value::Null,
        }
    }

    fn with_properties(&mut self, schema: &Map<String, Value>, made: Value, depth: usize) -> Value {
        let Value::Object(mut made) = made else { return made };
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, property) in properties {
                if required.contains(&name.as_str()) || (depth < 4 && self.pick(3) == 0) {
                    let value = self.make(property, depth + 1);
                    made.insert(name.clone(), value);
                }
            }
        }
        Value::Object(made)
    }
}

/// What a schema cannot speak of: how the items of a list go together, and values with each other.
const BEYOND_A_SCHEMA: [&str; 6] = [
    "two calls of a `tool_request` have this id",
    "the last of `messages` must be a user's",
    "a file by its path can only be in the last message",
    "what a function answered belongs into a message with the role `tool`",
    "has no answer: a message with the role `tool`",
    "and no call before has this id",
];

/// Whether a line is read, as far as a schema can tell.
fn is_read(line: &Value) -> Result<bool, String> {
    match read_line(line.to_string().as_bytes()) {
        Ok(None) => Ok(false),
        Ok(Some(Line { input: Input::ControlRequest { request, .. }, .. })) => {
            Ok(!matches!(*request, ControlRequest::Unknown { .. }))
        }
        Ok(Some(_)) => Ok(true),
        Err(error) => {
            let told = error.to_string();
            let of_both_calls = told.starts_with("the line answers both the call");
            if of_both_calls || BEYOND_A_SCHEMA.iter().any(|end| told.ends_with(end)) {
                return Err(told);
            }
            Ok(false)
        }
    }
}

/// Every value within a line, by its pointer.
fn places(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                places(inner, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), out);
            }
        }
        Value::Array(items) => {
            for (number, inner) in items.iter().enumerate() {
                places(inner, format!("{at}/{number}"), out);
            }
        }
        _ => {}
    }
    out.push(at);
}

/// The line with one thing changed: another value, or a member less, or one more.
fn changed(line: &Value, choices: &[u32]) -> Value {
    let mut all = Vec::new();
    places(line, String::new(), &mut all);
    let choose = |at: usize, count: usize| {
        usize::try_from(choices.get(at).copied().unwrap_or_default()).unwrap() % count.max(1)
    };
    let place = &all[choose(0, all.len())];
    let values = [
        json!(null),
        json!(true),
        json!(""),
        json!("word"),
        json!("file:///a%zz"),
        json!(7),
        json!(-1),
        json!(0.5),
        json!([]),
        json!(["word"]),
        json!({}),
        json!({"text": "x"}),
    ];
    let members = [
        "type",
        "text",
        "payload",
        "request",
        "request_id",
        "prompt_id",
        "session_id",
        "model",
        "temperature",
        "max_tokens",
        "options",
        "tool_call_id",
        "tool_request",
        "continuation",
        "protocol_version",
        "metadata",
        "file_data",
        "data",
        "mimeType",
        "path",
        "command",
        "origin",
        "tools",
        "n",
        "stream",
        "serverName",
        "call_id",
        "tool_use_id",
        "tool_calls",
        "function_call",
        "content",
        "frobnicate",
    ];
    let value = values[choose(1, values.len())].clone();
    let mut line = line.clone();
    match choose(2, 3) {
        0 => {
            if let Some(slot) = line.pointer_mut(place) {
                *slot = value;
            }
        }
        1 => {
            if let Some((parent, name)) = place.rsplit_once('/')
                && let Some(Value::Object(fields)) = line.pointer_mut(parent)
            {
                fields.shift_remove(&name.replace("~1", "/").replace("~0", "~"));
            }
        }
        _ => {
            if let Some(Value::Object(fields)) = line.pointer_mut(place) {
                fields.insert(members[choose(3, members.len())].to_owned(), value);
            }
        }
    }
    line
}

fn same(line: &Value) -> Result<(), TestCaseError> {
    let valid = VALIDATOR.is_valid(line);
    // Otherwise it is valid, as far as it goes; or wrong in another way besides.
    if let Ok(read) = is_read(line) {
        prop_assert_eq!(valid, read, "{}: {:?}", line, read_line(line.to_string().as_bytes()));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(512)))]

    /// What the schema accepts is read, and what it refuses is refused.
    #[test]
    fn schema_and_reader_agree(choices in prop::collection::vec(any::<u32>(), 8..200)) {
        same(&Maker { root: &SCHEMA, choices: choices.iter() }.make(&SCHEMA, 0))?;
    }

    /// The same of lines that clients send, with up to three things changed.
    #[test]
    fn schema_and_reader_agree_on_changed_lines(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(prop::collection::vec(any::<u32>(), 4), 1..4),
    ) {
        let lines = lines();
        let mut line = lines[which.index(lines.len())].0.clone();
        for choices in &changes {
            line = changed(&line, choices);
        }
        same(&line)?;
    }
}

/// Numbers without a pattern.
fn scattered(number: u32) -> u32 {
    let mut x = number.wrapping_add(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// The property above would hold if hardly anything were made up.
#[test]
fn most_lines_that_are_made_up_are_valid() {
    let mut kinds = std::collections::BTreeMap::new();
    for seed in 0..400_u32 {
        let choices: Vec<u32> = (0..200_u32).map(|at| scattered(seed * 200 + at)).collect();
        let line = Maker { root: &SCHEMA, choices: choices.iter() }.make(&SCHEMA, 0);
        let kind = match (VALIDATOR.is_valid(&line), read_line(line.to_string().as_bytes())) {
            (false, _) => "invalid",
            (true, Ok(Some(read))) => taken_for(&read.input),
            (true, _) => "refused",
        };
        *kinds.entry(kind).or_insert(0) += 1;
    }
    assert!(kinds.get("invalid").copied().unwrap_or_default() < 200, "{kinds:?}");
    for kind in ["turn", "request", "response", "hint", "cancel", "heartbeat"] {
        assert!(kinds.contains_key(kind), "no {kind} among {kinds:?}");
    }
}
