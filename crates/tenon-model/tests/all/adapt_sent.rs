//! An adapted schema on its way: what a provider is really sent, and what is taken back from its answer. The rules
//! themselves are in `adapt.rs`.

use std::sync::{Arc, Mutex};

use futures_util::stream;
use serde_json::{Value, json};
use tenon_core::{BoxFut, Cancel, ModelClient, ModelError, Request, ToolChoice, ToolKind, ToolSpec};
use tenon_model::{HttpRequest, HttpResponse, OpenAiChat, OpenAiResponses, Transport};
use tenon_testkit::{Server, reply};

use crate::adapt::parse;
use crate::support::{Scripted, ask, block_on, client, delta, endpoint, finish, request, sse};

const OPTIONAL: &str = r#"{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer"}},"required":["a"],"additionalProperties":false}"#;

fn offered(schema: &str) -> Request {
    let tool = |name: &str| {
        Arc::new(ToolSpec {
            name: name.into(),
            description: format!("Does {name}."),
            parameters: parse(schema),
            kind: ToolKind::Read,
        })
    };
    Request {
        tools: vec![tool("read_file"), tool("structured_output")],
        terminal_tool: Some("structured_output".into()),
        tool_choice: ToolChoice::Auto,
        ..request("hi")
    }
}

/// What was sent to this address, and the arguments of the calls that came back.
fn exchanged(
    client: impl FnOnce(Arc<dyn Transport>) -> Box<dyn ModelClient>,
    body: String,
    request: Request,
) -> (Value, Vec<String>) {
    let transport = Scripted::new([vec![body.into_bytes()]]);
    let answer = block_on(ask(&*client(transport.clone()), request));
    assert_eq!(answer.error, None);
    let sent = serde_json::from_str(&transport.seen.lock().unwrap()[0].body).unwrap();
    (sent, answer.calls.into_iter().map(|(_, _, arguments)| arguments).collect())
}

fn chat(base_url: &str, request: Request) -> (Value, Vec<String>) {
    let call = |index: u8, name: &str, arguments: &str| json!({"index": index, "id": format!("c{index}"), "function": {"name": name, "arguments": arguments}});
    let body = sse(&[
        delta(
            json!({"tool_calls": [call(0, "structured_output", "{\"a\":\"x\","), call(1, "read_file", "{\"n\":null}")]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"n\":null}"}}]})),
        finish("tool_calls"),
    ]);
    exchanged(|transport| Box::new(OpenAiChat::new(endpoint(base_url), transport)), body, request)
}

#[test]
fn only_the_terminal_tool_on_openai_is_strict() {
    let (sent, arguments) = chat("https://api.openai.com/v1", offered(OPTIONAL));
    let functions: Vec<&Value> =
        sent["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]).collect();
    assert_eq!(functions[0]["parameters"].to_string(), OPTIONAL);
    assert_eq!(functions[0].get("strict"), None);
    assert_eq!(functions[1]["strict"], json!(true));
    assert_eq!(functions[1]["parameters"]["required"], json!(["a", "n"]));
    assert_eq!(functions[1]["parameters"]["properties"]["n"], json!({ "type": ["integer", "null"] }));
    assert_eq!(arguments, [r#"{"a":"x"}"#, r#"{"n":null}"#]);

    let (sent, arguments) = chat("https://example.com/v1", offered(OPTIONAL));
    let function = &sent["tools"][1]["function"];
    assert_eq!((function.get("strict"), function["parameters"].to_string()), (None, OPTIONAL.to_owned()));
    assert_eq!(arguments, [r#"{"a":"x","n":null}"#, r#"{"n":null}"#]);

    let none = Request { terminal_tool: None, ..offered(OPTIONAL) };
    let (sent, _) = chat("https://api.openai.com/v1", none);
    assert_eq!(sent["tools"][1]["function"].get("strict"), None);
}

#[test]
fn responses_are_strict_and_taken_back_too() {
    let item = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "structured_output", "arguments": "{\"a\":\"x\",\"n\":null}"});
    let answer = json!({"id": "r", "object": "response", "status": "completed", "output": [item]});
    let responses = |base_url: &str| {
        let base_url = base_url.to_owned();
        exchanged(
            move |transport| Box::new(OpenAiResponses::new(endpoint(&base_url), transport)),
            answer.to_string(),
            offered(OPTIONAL),
        )
    };
    let (sent, arguments) = responses("https://api.openai.com/v1");
    assert_eq!((&sent["tools"][0]["strict"], &sent["tools"][1]["strict"]), (&json!(false), &json!(true)));
    assert_eq!(arguments, [r#"{"a":"x"}"#]);
    let (sent, arguments) = responses("http://127.0.0.1:1/v1");
    assert_eq!(sent["tools"][1]["strict"], json!(false));
    assert_eq!(arguments, [r#"{"a":"x","n":null}"#]);
}

#[test]
fn the_whole_schema_goes_into_the_description_where_something_was_lost() {
    let schema = r#"{"oneOf":[{"required":["a"]},{"required":["b"]}]}"#;
    let (sent, _) = chat("https://api.openai.com/v1", offered(schema));
    let function = &sent["tools"][1]["function"];
    assert_eq!(function["parameters"], json!({ "type": "object", "properties": {} }));
    assert_eq!(
        function["description"],
        json!(format!("Does structured_output.\n\nThe arguments must fit this JSON Schema: {schema}"))
    );
}

/// A server whose rules for strict mode are others than ours.
#[derive(Default)]
struct RefusesStrict {
    asked: Mutex<Vec<bool>>,
}

impl Transport for RefusesStrict {
    fn send(&self, exchange: HttpRequest, _cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
        let is_strict = exchange.body.contains("\"strict\":true");
        self.asked.lock().unwrap().push(is_strict);
        let (status, body) = match is_strict {
            true => (400, r#"{"error":{"message":"Invalid schema for function 'structured_output': 'x' is not permitted.","code":"invalid_function_parameters"}}"#.to_owned()),
            false => (200, sse(&[finish("stop")])),
        };
        let body = Box::pin(stream::iter([Ok(body.into())]));
        Box::pin(async move { Ok(HttpResponse { status, headers: Vec::new(), body }) })
    }
}

#[test]
fn a_strict_schema_that_the_server_refuses_is_sent_again_without() {
    let transport = Arc::new(RefusesStrict::default());
    let client = OpenAiChat::new(endpoint("https://api.openai.com/v1"), transport.clone());
    for _ in 0..2 {
        assert_eq!(block_on(ask(&client, offered(OPTIONAL))).error, None);
    }
    assert_eq!(*transport.asked.lock().unwrap(), [true, false, false]);
}

#[tokio::test]
async fn a_server_on_this_machine_gets_the_schema_as_written() {
    let server = Server::start([reply().call("c1", "structured_output", json!({"a": "x", "n": null}))]);
    let answer = ask(&client(&server), offered(OPTIONAL)).await;
    assert_eq!(answer.calls[0].2, r#"{"a":"x","n":null}"#);
    let request = &server.requests()[0];
    assert_eq!(request.tool_parameters("structured_output"), parse(OPTIONAL));
    assert_eq!(request.body["tools"][1]["function"].get("strict"), None);
}
