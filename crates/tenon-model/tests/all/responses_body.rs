//! What is sent on the Responses wire.

use std::sync::Arc;

use tenon_core::{Message, Part, Request, Role, ToolCall, ToolChoice, ToolKind, ToolResult, ToolSpec};
use tenon_model::{Endpoint, OpenAiResponses};
use tenon_testkit::{Server, Value, json, reply};

use crate::responses::completed;
use crate::support::{Scripted, ask, block_on, endpoint, http, request, sse};

fn sent(request: Request) -> Value {
    let transport = Scripted::new([vec![sse(&[completed()]).into_bytes()]]);
    let client = OpenAiResponses::new(endpoint("http://127.0.0.1:1/v1"), transport.clone());
    block_on(ask(&client, request));
    let seen = transport.seen.lock().unwrap();
    assert_eq!(seen[0].url, "http://127.0.0.1:1/v1/responses");
    serde_json::from_str(&seen[0].body).unwrap()
}

fn tool(name: &str, parameters: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.into(),
        description: format!("Does {name}."),
        parameters: serde_json::from_str(parameters).unwrap(),
        kind: ToolKind::Read,
    })
}

fn call(id: &str, arguments: &str, native: Option<Value>) -> Part {
    let (name, arguments) = ("read_file".into(), arguments.into());
    Part::ToolCall(ToolCall { id: id.into(), name, arguments, terminal: false, native })
}

fn result(call_id: &str, content: &str, is_error: bool) -> Part {
    let (call_id, name, content) = (call_id.into(), "read_file".into(), content.into());
    Part::ToolResult(ToolResult {
        call_id,
        name,
        content,
        is_error,
        media: Vec::new(),
        stored: Some("not this".into()),
    })
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

fn thinking(native: Value) -> Part {
    Part::Thinking { text: "shown".into(), native: Some(native) }
}

fn kept(provider: &str, key: &str, value: Value) -> Value {
    json!({"wire": "openai_responses", "provider": provider, key: value})
}

fn reasoning(id: &str) -> Value {
    json!({"id": id, "type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "gAAA/+==", "n": serde_json::from_str::<Value>("1.50").unwrap()})
}

fn user(parts: Vec<Part>) -> Message {
    Message { role: Role::User, parts }
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { role: Role::Assistant, parts }
}

#[test]
fn a_first_request() {
    assert_eq!(
        sent(request("hi")).to_string(),
        r#"{"model":"test-model","instructions":"Be brief.","input":[{"type":"message","role":"user","content":"hi"}],"stream":true,"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"tenon-213f09fa7d52c8de"}"#
    );
    let plain = sent(Request { system: String::new(), max_output_tokens: Some(7), ..request("hi") });
    assert_eq!((plain.get("instructions"), &plain["max_output_tokens"]), (None, &json!(7)));
}

#[test]
fn a_conversation_with_tools_and_errors() {
    let schema = r#"{"zeta":1,"type":"object","properties":{"b":{"maximum":1.50}}}"#;
    let request = Request {
        messages: vec![
            Message::user("read"),
            assistant(vec![
                text("Reading."),
                call("a", "{ \"file_path\" : \"x\", \"n\": 1.0 }", None),
                call("b", "not json", None),
                text(""),
                call("c", "", None),
            ]),
            user(vec![
                text("And?"),
                result("a", "one", false),
                result("b", "Error: no such file", true),
                result("c", "", false),
            ]),
            assistant(vec![]),
            assistant(vec![text("Done.")]),
            user(vec![]),
        ],
        tools: vec![tool("read_file", r#"{"properties":{}}"#), tool("structured_output", schema)],
        tool_choice: ToolChoice::Force("structured_output".into()),
        ..request("")
    };
    let said = |role: &str, text: &str| json!({"type": "message", "role": role, "content": text});
    let called = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "read_file", "arguments": arguments});
    let output =
        |id: &str, output: &str| json!({"type": "function_call_output", "call_id": id, "output": output});
    let body = sent(request.clone());
    let expected = json!({
        "model": "test-model",
        "instructions": "Be brief.",
        "input": [
            said("user", "read"),
            said("assistant", "Reading."),
            called("a", "{ \"file_path\" : \"x\", \"n\": 1.0 }"),
            called("b", "{\"_raw\":\"not json\"}"),
            called("c", "{}"),
            output("a", "one"),
            output("b", "Error: no such file"),
            output("c", ""),
            said("user", "And?"),
            said("assistant", "Done."),
            said("user", ""),
        ],
        "tools": [
            {"type": "function", "name": "read_file", "description": "Does read_file.",
                "parameters": {"type": "object", "properties": {}}, "strict": false},
            {"type": "function", "name": "structured_output", "description": "Does structured_output.",
                "parameters": serde_json::from_str::<Value>(schema).unwrap(), "strict": false},
        ],
        "tool_choice": {"type": "function", "name": "structured_output"},
        "parallel_tool_calls": true,
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": body["prompt_cache_key"],
    });
    assert_eq!(body.to_string(), expected.to_string());
    assert_eq!(sent(Request { tool_choice: ToolChoice::Auto, ..request })["tool_choice"], json!("auto"));
}

#[test]
fn reasoning_goes_back_as_it_came_and_where_it_came() {
    let id = |id: &str| Some(kept("openai", "id", json!(id)));
    let messages = vec![
        Message::user("q"),
        assistant(vec![
            thinking(kept("openai", "item", reasoning("rs_1"))),
            call("a", "{}", id("fc_1")),
            thinking(kept("openai", "item", reasoning("rs_2"))),
            text("So."),
            call("b", "{}", id("fc_2")),
            // Nothing follows: the turn was broken off.
            thinking(kept("openai", "item", reasoning("rs_3"))),
        ]),
        user(vec![result("a", "1", false), result("b", "2", false)]),
        // Of other wires, of another provider, and of none: not sent, and neither are ids of their calls.
        assistant(vec![
            thinking(json!({"wire": "anthropic", "signature": "x"})),
            thinking(json!({"field": "reasoning_content"})),
            thinking(kept("azure", "item", reasoning("rs_4"))),
            Part::Thinking { text: "mine".into(), native: None },
            call("c", "{}", id("fc_3")),
        ]),
        user(vec![result("c", "3", false)]),
        assistant(vec![
            thinking(kept("openai", "item", reasoning("rs_5"))),
            call("d", "{}", Some(kept("azure", "id", json!("fc_4")))),
        ]),
        user(vec![result("d", "4", false)]),
    ];
    let called =
        |id: &str| json!({"type": "function_call", "call_id": id, "name": "read_file", "arguments": "{}"});
    let with_id = |item: &str, id: &str| json!({"type": "function_call", "id": item, "call_id": id, "name": "read_file", "arguments": "{}"});
    let output =
        |id: &str, output: &str| json!({"type": "function_call_output", "call_id": id, "output": output});
    let expected = json!([
        {"type": "message", "role": "user", "content": "q"},
        reasoning("rs_1"),
        with_id("fc_1", "a"),
        reasoning("rs_2"),
        {"type": "message", "role": "assistant", "content": "So."},
        with_id("fc_2", "b"),
        output("a", "1"),
        output("b", "2"),
        called("c"),
        output("c", "3"),
        reasoning("rs_5"),
        called("d"),
        output("d", "4"),
    ]);
    assert_eq!(sent(Request { messages, ..request("") })["input"].to_string(), expected.to_string());
}

#[test]
fn the_cache_key_is_of_prompt_and_tools_only() {
    let key = |request: Request| sent(request)["prompt_cache_key"].as_str().unwrap().to_owned();
    let base = || Request { tools: vec![tool("a", "{}")], ..request("hi") };
    assert_eq!(
        key(base()),
        key(Request { messages: vec![Message::user("other")], model: "m".into(), ..base() })
    );
    assert_ne!(key(base()), key(Request { system: "Else.".into(), ..base() }));
    assert_ne!(key(base()), key(Request { tools: vec![tool("a", r#"{"x":1}"#)], ..base() }));
}

#[tokio::test]
async fn headers_and_path() {
    let server = Server::start([reply().raw_stream(sse(&[completed()])).forever()]);
    let client = OpenAiResponses::new(endpoint(&server.base_url()), http());
    ask(&client, request("hi")).await;
    let seen = server.request(0);
    assert_eq!(seen.path, "/v1/responses");
    assert_eq!(seen.header("authorization"), Some("Bearer sk-test-1234567890"));
    let headers = vec![("Authorization".into(), "Bearer own-token".into())];
    let own = Endpoint { headers, ..endpoint(&server.base_url()) };
    ask(&OpenAiResponses::new(own, http()), request("hi")).await;
    assert_eq!(server.request(1).header("authorization"), Some("Bearer own-token"));
}

#[tokio::test]
async fn what_a_server_refuses_is_left_out_from_then_on() {
    let refused = |field: &str| {
        reply()
            .status(400)
            .json(json!({"error": {"message": format!("Unknown parameter: '{field}'."), "param": field}}))
    };
    let fine = || reply().raw_stream(sse(&[completed()]));
    let server = Server::start([refused("include"), refused("store"), fine(), fine(), fine()]);
    let client = OpenAiResponses::new(endpoint(&server.base_url()), http());
    for model in ["a", "a", "b"] {
        let answer = ask(&client, Request { model: model.into(), ..request("hi") }).await;
        assert_eq!(answer.error, None);
    }
    let has = |field: &str| -> Vec<bool> {
        server.requests().iter().map(|request| request.body.get(field).is_some()).collect()
    };
    assert_eq!(has("include"), [true, false, false, false, true]);
    assert_eq!(has("store"), [true, true, false, false, true]);
    assert_eq!(has("prompt_cache_key"), [true; 5]);
    server.assert_script_done();
}

#[tokio::test]
async fn reasoning_that_the_server_cannot_read_is_left_out() {
    let refusal = json!({"error": {"code": "invalid_encrypted_content", "message": "The encrypted content could not be verified."}});
    let server = Server::start([reply().status(400).json(refusal), reply().raw_stream(sse(&[completed()]))]);
    let client = OpenAiResponses::new(endpoint(&server.base_url()), http());
    let turn = assistant(vec![
        thinking(kept("openai", "item", reasoning("rs_1"))),
        call("a", "{}", Some(kept("openai", "id", json!("fc_1")))),
    ]);
    let messages = vec![Message::user("q"), turn, user(vec![result("a", "1", false)])];
    assert_eq!(ask(&client, Request { messages, ..request("") }).await.error, None);
    let kinds = |number: usize| -> Vec<String> {
        let body = server.request(number).body;
        body["input"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["type"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(kinds(0), ["message", "reasoning", "function_call", "function_call_output"]);
    assert_eq!(kinds(1), ["message", "function_call", "function_call_output"]);
    assert_eq!(server.request(1).body["input"][1].get("id"), None);
    assert_eq!(server.request(1).body["include"], json!(["reasoning.encrypted_content"]));
}

#[tokio::test]
async fn a_server_that_always_blames_a_field_is_not_asked_forever() {
    let refusal = reply().status(400).json(json!({"error": {"message": "`store` is bad"}})).forever();
    let server = Server::start([refusal]);
    let client = OpenAiResponses::new(endpoint(&server.base_url()), http());
    assert_eq!(ask(&client, request("hi")).await.error().http_status, Some(400));
    assert_eq!(server.requests().len(), 2);
    // It was not the field, so it is sent again.
    ask(&client, request("hi")).await;
    assert!(server.request(2).body.get("store").is_some());
}
