//! Turns a reply into the list of things the server does: writes, waits, cuts. A pure function, so that
//! what a script means can be read (and tested) without a socket.
//!
//! A stream goes through three steps: its blocks (`data:` lines), the script (where to wait, hang or
//! cut), and the writes (chunked encoding, pieces of a given size).

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::reply::{Body, Fault, Finish, Framing, Gate, Reply, Step, UsagePlace};

/// How much of a generated stream goes into one write.
const BULK_WRITE_BYTES: usize = 64 * 1024;
/// An endless stream without a delay of its own must not eat a core.
const ENDLESS_GAP: Duration = Duration::from_millis(1);
/// A fixed time of creation keeps whole outputs comparable.
const CREATED: u64 = 1_700_000_000;

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Wait(Duration),
    Hold(Gate),
    HoldUntilRequests(usize),
    Write(Vec<u8>),
    /// Silence until the client leaves.
    Hang,
    /// Write this again and again until the client leaves.
    Endless(Vec<u8>, Duration),
    /// Close the connection; the last action of a list.
    Close,
}

pub(crate) fn render(reply: &Reply, id: &str) -> Vec<Action> {
    let mut actions = Vec::new();
    actions.extend(reply.delay_before_headers.map(Action::Wait));
    actions.extend(reply.hold.clone().map(Action::Hold));
    actions.extend(reply.hold_until_requests.map(Action::HoldUntilRequests));
    match &reply.body {
        Body::Stream => {
            let encoding = match reply.framing {
                Framing::Chunked => "transfer-encoding: chunked",
                Framing::UntilClose => "connection: close",
            };
            actions.push(Action::Write(head(reply, "text/event-stream; charset=utf-8", encoding)));
            actions.extend(writes(reply, id, scripted(reply, blocks(reply, id))));
        }
        Body::Whole => {
            let whole = whole_completion(reply, id).to_string().into_bytes();
            actions.extend(plain(reply, "application/json", &whole));
        }
        Body::Plain { content_type, bytes } => actions.extend(plain(reply, content_type, bytes)),
    }
    actions
}

fn head(reply: &Reply, content_type: &str, framing: &str) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} {}\r\n", reply.status, reason(reply.status));
    head.push_str(&format!("content-type: {content_type}\r\n{framing}\r\n"));
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Scripted",
    }
}

fn plain(reply: &Reply, content_type: &str, body: &[u8]) -> Vec<Action> {
    let length = format!("content-length: {}", body.len());
    let framing = if reply.framing == Framing::Chunked { length.as_str() } else { "connection: close" };
    let (kept, cut) = match reply.fault {
        Fault::CutAfterBytes(bytes) => (&body[..bytes.min(body.len())], true),
        _ => (body, false),
    };
    let mut actions = vec![Action::Write(head(reply, content_type, framing))];
    let piece = reply.chunk_by.unwrap_or(kept.len().max(1));
    actions.extend(kept.chunks(piece).map(|piece| Action::Write(piece.to_vec())));
    if cut || reply.framing == Framing::UntilClose {
        actions.push(Action::Close);
    }
    actions
}

/// A piece of the stream that belongs together.
struct Block {
    bytes: Vec<u8>,
    kind: BlockKind,
}

#[derive(Clone, Copy, PartialEq)]
enum BlockKind {
    Event,
    /// An event of a generated stream: it may share a write with its neighbours.
    BulkEvent,
    Comment,
}

fn blocks(reply: &Reply, id: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let event = |payload: &str, kind| Block { bytes: sse(reply, payload), kind };
    let delta =
        |delta: Value| event(&chunk(reply, id, delta, Value::Null, None).to_string(), BlockKind::Event);

    blocks.push(delta(json!({"role": "assistant", "content": ""})));
    for step in &reply.steps {
        match step {
            Step::Delta(value) => blocks.push(delta(value.clone())),
            Step::Event(payload) => blocks.push(event(payload, BlockKind::Event)),
            Step::Raw(bytes) => blocks.push(Block { bytes: bytes.clone(), kind: BlockKind::Event }),
            Step::Comment(text) => blocks.push(comment(reply, text)),
            Step::Bulk(count) => blocks.extend((0..*count).map(|number| {
                let delta = json!({"content": format!("chunk {number} ")});
                event(&chunk(reply, id, delta, Value::Null, None).to_string(), BlockKind::BulkEvent)
            })),
        }
    }
    let usage_with_finish = match reply.usage_place {
        UsagePlace::WithFinish => reply.usage.clone(),
        UsagePlace::OwnChunk => None,
    };
    if let Some(reason) = finish_reason(reply) {
        let last = chunk(reply, id, json!({}), json!(reason), usage_with_finish);
        blocks.push(event(&last.to_string(), BlockKind::Event));
    }
    if let (Some(usage), UsagePlace::OwnChunk) = (&reply.usage, reply.usage_place) {
        let mut chunk = envelope(reply, id, "chat.completion.chunk");
        chunk.insert("choices".into(), json!([]));
        chunk.insert("usage".into(), usage.clone());
        blocks.push(event(&Value::Object(chunk).to_string(), BlockKind::Event));
    }
    if reply.done {
        blocks.push(event("[DONE]", BlockKind::Event));
    }
    if reply.keepalives {
        blocks = blocks.into_iter().flat_map(|block| [comment(reply, "keepalive"), block]).collect();
    }
    blocks
}

fn sse(reply: &Reply, payload: &str) -> Vec<u8> {
    let end = reply.line_end;
    format!("{}{payload}{end}{end}", reply.data_prefix).into_bytes()
}

fn comment(reply: &Reply, text: &str) -> Block {
    let end = reply.line_end;
    Block { bytes: format!(": {text}{end}{end}").into_bytes(), kind: BlockKind::Comment }
}

fn finish_reason(reply: &Reply) -> Option<String> {
    match &reply.finish {
        Finish::Natural if reply.calls > 0 => Some("tool_calls".into()),
        Finish::Natural => Some("stop".into()),
        Finish::Reason(reason) => Some(reason.clone()),
        Finish::Missing => None,
    }
}

fn envelope(reply: &Reply, id: &str, object: &str) -> Map<String, Value> {
    let mut envelope = Map::new();
    envelope.insert("id".into(), json!(id));
    envelope.insert("object".into(), json!(object));
    envelope.insert("created".into(), json!(CREATED));
    envelope.insert("model".into(), json!(reply.model));
    envelope
}

fn chunk(reply: &Reply, id: &str, delta: Value, finish_reason: Value, usage: Option<Value>) -> Value {
    let mut chunk = envelope(reply, id, "chat.completion.chunk");
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    chunk.insert("choices".into(), json!([choice]));
    if let Some(usage) = usage {
        chunk.insert("usage".into(), usage);
    }
    Value::Object(chunk)
}

/// The deltas folded into the object that a request without `stream` would get.
fn whole_completion(reply: &Reply, id: &str) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    message.insert("content".into(), Value::Null);
    let mut calls: Vec<Value> = Vec::new();
    for step in &reply.steps {
        let Step::Delta(delta) = step else { continue };
        for field in ["content", "reasoning_content", "reasoning"] {
            if let Some(text) = delta[field].as_str() {
                let before = message.get(field).and_then(Value::as_str).unwrap_or_default();
                message.insert(field.into(), json!(format!("{before}{text}")));
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            fold_call(&mut calls, call);
        }
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), json!(calls));
    }
    let mut whole = envelope(reply, id, "chat.completion");
    let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason(reply)});
    whole.insert("choices".into(), json!([choice]));
    if let Some(usage) = &reply.usage {
        whole.insert("usage".into(), usage.clone());
    }
    Value::Object(whole)
}

fn fold_call(calls: &mut Vec<Value>, delta: &Value) {
    let index = delta["index"].as_u64().map_or(calls.len(), |index| index as usize);
    let piece = delta["function"]["arguments"].as_str().unwrap_or_default();
    if let Some(call) = calls.get_mut(index) {
        let before = call["function"]["arguments"].as_str().unwrap_or_default();
        call["function"]["arguments"] = json!(format!("{before}{piece}"));
    } else {
        let function = json!({"name": delta["function"]["name"], "arguments": piece});
        calls.push(json!({"id": delta["id"], "type": "function", "function": function}));
    }
}

/// What happens in the stream, in order.
enum Item {
    Block(Block),
    Wait(Duration),
    Hold(Gate),
    Hang,
    Cut,
}

/// Puts waits and faults between the blocks; nothing follows a hang or a cut.
fn scripted(reply: &Reply, blocks: Vec<Block>) -> Vec<Item> {
    let mut items = Vec::new();
    let mut events = 0;
    let mut bytes_left = match reply.fault {
        Fault::CutAfterBytes(bytes) => bytes,
        _ => usize::MAX,
    };
    let mut held = reply.hold_after_events.clone();
    let total = blocks.iter().filter(|block| block.kind != BlockKind::Comment).count();
    let endless = reply.fault == Fault::Endless;
    for mut block in blocks {
        held = match held {
            Some((at, gate)) if at <= events => {
                items.push(Item::Hold(gate));
                None
            }
            later => later,
        };
        match reply.fault {
            Fault::HangAfterEvents(at) if at <= events => {
                items.push(Item::Hang);
                return items;
            }
            Fault::CutAfterEvents(at) if at <= events => {
                items.push(Item::Cut);
                return items;
            }
            _ => {}
        }
        if block.kind != BlockKind::Comment {
            if events > 0 {
                items.extend(reply.delay_between_events.map(Item::Wait));
            }
            events += 1;
        }
        // An endless stream never reaches its finish reason, its usage or its end mark.
        if endless && events > total - closing_events(reply) {
            return items;
        }
        if block.bytes.len() > bytes_left {
            block.bytes.truncate(bytes_left);
            items.extend([Item::Block(block), Item::Cut]);
            return items;
        }
        bytes_left -= block.bytes.len();
        items.push(Item::Block(block));
    }
    match reply.fault {
        Fault::HangAfterEvents(_) => items.push(Item::Hang),
        Fault::CutAfterEvents(_) | Fault::CutAfterBytes(_) => items.push(Item::Cut),
        Fault::None | Fault::Endless => {}
    }
    items
}

fn closing_events(reply: &Reply) -> usize {
    let usage = reply.usage.is_some() && reply.usage_place == UsagePlace::OwnChunk;
    usize::from(finish_reason(reply).is_some()) + usize::from(usage) + usize::from(reply.done)
}

/// The bytes on the wire: chunked encoding, and the sizes of the writes.
fn writes(reply: &Reply, id: &str, items: Vec<Item>) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut pending = Vec::new();
    for item in items {
        if !matches!(item, Item::Block(_)) {
            flush(reply, &mut pending, &mut actions);
        }
        match item {
            Item::Block(block) if reply.chunk_by.is_some() => pending.extend(block.bytes),
            Item::Block(block) if block.kind == BlockKind::BulkEvent => {
                append(&mut actions, framed(reply, &block.bytes));
            }
            Item::Block(block) => actions.push(Action::Write(framed(reply, &block.bytes))),
            Item::Wait(delay) => actions.push(Action::Wait(delay)),
            Item::Hold(gate) => actions.push(Action::Hold(gate)),
            Item::Hang => {
                actions.push(Action::Hang);
                return actions;
            }
            Item::Cut => {
                actions.push(Action::Close);
                return actions;
            }
        }
    }
    flush(reply, &mut pending, &mut actions);
    match (reply.fault, reply.framing) {
        (Fault::Endless, _) => {
            let more = chunk(reply, id, json!({"content": "and so on "}), Value::Null, None);
            let gap = reply.delay_between_events.unwrap_or(ENDLESS_GAP);
            actions.push(Action::Endless(framed(reply, &sse(reply, &more.to_string())), gap));
        }
        (_, Framing::Chunked) => actions.push(Action::Write(b"0\r\n\r\n".to_vec())),
        (_, Framing::UntilClose) => actions.push(Action::Close),
    }
    actions
}

fn flush(reply: &Reply, pending: &mut Vec<u8>, actions: &mut Vec<Action>) {
    let size = reply.chunk_by.unwrap_or(usize::MAX);
    let bytes = std::mem::take(pending);
    actions.extend(bytes.chunks(size).map(|piece| Action::Write(framed(reply, piece))));
}

fn framed(reply: &Reply, bytes: &[u8]) -> Vec<u8> {
    // An empty chunk would be the end of the body.
    if reply.framing == Framing::UntilClose || bytes.is_empty() {
        return bytes.to_vec();
    }
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    framed
}

fn append(actions: &mut Vec<Action>, bytes: Vec<u8>) {
    match actions.last_mut() {
        Some(Action::Write(last)) if last.len() + bytes.len() <= BULK_WRITE_BYTES => last.extend(bytes),
        _ => actions.push(Action::Write(bytes)),
    }
}
