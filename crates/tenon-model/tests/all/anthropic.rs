//! Helpers for the tests of the Messages API: a client on scripted bytes or on a scripted server, events.

use tenon_core::{Cancel, Delta, ModelClient, ModelError, Request};
use tenon_model::{Anthropic, Endpoint, HttpRequest};
use tenon_testkit::{Server, Value, json};

use crate::support::{Answer, Scripted, ask, block_on, endpoint, http, request};

pub fn client(server: &Server) -> Anthropic {
    Anthropic::new(endpoint_at(&server.origin()), http())
}

pub fn endpoint_at(base_url: &str) -> Endpoint {
    Endpoint { provider: "anthropic".into(), ..endpoint(base_url) }
}

/// The request that is sent.
pub fn sent_from(endpoint: Endpoint, request: Request) -> HttpRequest {
    let transport = Scripted::new([vec![stream(&[]).into_bytes()]]);
    block_on(ask(&Anthropic::new(endpoint, transport.clone()), request));
    transport.seen.lock().unwrap().remove(0)
}

pub fn sent(request: Request) -> Value {
    serde_json::from_str(&sent_from(endpoint_at("http://127.0.0.1:1"), request).body).unwrap()
}

/// The answer to one body, given in these pieces.
pub fn read(chunks: Vec<Vec<u8>>) -> Answer {
    let client = Anthropic::new(endpoint_at("http://127.0.0.1"), Scripted::new([chunks]));
    block_on(ask(&client, request("hi")))
}

pub fn read_text(body: &str) -> Answer {
    read(vec![body.as_bytes().to_vec()])
}

/// Every delta that one body gives.
pub fn deltas(body: &str) -> Vec<Result<Delta, ModelError>> {
    use futures_util::StreamExt;
    let client =
        Anthropic::new(endpoint_at("http://127.0.0.1"), Scripted::new([vec![body.as_bytes().to_vec()]]));
    block_on(client.stream(request("hi"), Cancel::new()).collect())
}

/// An event with its name, as it is in its `type`.
pub fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message"))
}

pub fn events(events: &[Value]) -> String {
    events.iter().map(event).collect()
}

/// A whole stream around these blocks, with the stop reason `end_turn`.
pub fn stream(blocks: &[Value]) -> String {
    let (start, stop) = (message_start(), stopped("end_turn"));
    [vec![start], blocks.to_vec(), stop].concat().iter().map(event).collect()
}

pub fn message_start() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 1},
    }})
}

pub fn stopped(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]
}

pub fn start(index: usize, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

pub fn delta(index: usize, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

pub fn stop(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

pub fn text_delta(index: usize, text: &str) -> Value {
    delta(index, json!({"type": "text_delta", "text": text}))
}

pub fn json_delta(index: usize, text: &str) -> Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": text}))
}

pub fn call(index: usize, id: &str, name: &str) -> Value {
    start(index, json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
}
