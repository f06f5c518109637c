//! Turns a reply into the list of things the server does: writes, waits, cuts. A pure function, so that
//! what a script means can be read (and tested) without a socket.
//!
//! A stream goes through three steps: its blocks (`render/`, one file for each wire), the script (where to
//! wait, hang or cut), and the writes (chunked encoding, pieces of a given size).

mod blocks;
mod chat;
mod errors;
mod gemini;
mod messages;
mod parts;
mod responses;

use std::time::Duration;

use serde_json::{Value, json};

use self::blocks::{Block, BlockKind, Blocks};
use crate::Wire;
use crate::reply::{Body, Fault, Finish, Framing, Gate, Reply};

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

/// What the request says about the form of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ask {
    pub wire: Wire,
    pub delivery: Delivery,
    pub encrypted_reasoning: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Delivery {
    Events,
    Object,
    /// A JSON array: Gemini's stream for those who forget `alt=sse`.
    List,
}

impl Ask {
    pub fn of(path: &str, body: &Value) -> Self {
        let wire = Wire::of_path(path);
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let delivery = match wire {
            Wire::Gemini if path.ends_with(":generateContent") => Delivery::Object,
            Wire::Gemini if !query.split('&').any(|pair| pair == "alt=sse") => Delivery::List,
            _ => Delivery::Events,
        };
        let include = body["include"].as_array().map(Vec::as_slice).unwrap_or_default();
        let encrypted_reasoning = include.iter().any(|field| field == "reasoning.encrypted_content");
        Self { wire, delivery, encrypted_reasoning }
    }
}

/// A reply with its place in the script and the request it answers.
struct Speech<'a> {
    reply: &'a Reply,
    number: usize,
    ask: Ask,
}

/// `number` is the place in the script, from 1; it is part of the ids of the answer.
pub(crate) fn render(reply: &Reply, number: usize, ask: Ask) -> Vec<Action> {
    let speech = Speech { reply, number, ask };
    let mut actions = Vec::new();
    actions.extend(reply.delay_before_headers.map(Action::Wait));
    actions.extend(reply.hold.clone().map(Action::Hold));
    actions.extend(reply.hold_until_requests.map(Action::HoldUntilRequests));
    let object = |value: Value| plain(reply, "application/json", value.to_string().as_bytes());
    actions.extend(match (&reply.body, ask.delivery) {
        (Body::Stream, Delivery::Events) => {
            let encoding = match reply.framing {
                Framing::Chunked => "transfer-encoding: chunked",
                Framing::UntilClose => "connection: close",
            };
            let mut actions = vec![Action::Write(head(reply, "text/event-stream; charset=utf-8", encoding))];
            let (blocks, again) = blocks(&speech);
            actions.extend(writes(reply, scripted(reply, blocks), again));
            actions
        }
        (Body::Stream, Delivery::List) => object(json!([whole(&speech)])),
        (Body::Whole, _) | (Body::Stream, Delivery::Object) => object(whole(&speech)),
        (Body::Error(message), _) => object(errors::body(ask.wire, reply.status, message)),
        (Body::Plain { content_type, bytes }, _) => plain(reply, content_type, bytes),
    });
    actions
}

fn whole(speech: &Speech<'_>) -> Value {
    match speech.ask.wire {
        Wire::Chat => chat::whole(speech),
        Wire::Responses => responses::whole(speech),
        Wire::Messages => messages::whole(speech),
        Wire::Gemini => gemini::whole(speech),
    }
}

/// The stream; for an endless one, the bytes to send again and again come second.
fn blocks(speech: &Speech<'_>) -> (Vec<Block>, Option<Vec<u8>>) {
    let mut out = Blocks::new(speech.reply, speech.ask.wire);
    match speech.ask.wire {
        Wire::Chat => chat::stream(speech, &mut out),
        Wire::Responses => responses::stream(speech, &mut out),
        Wire::Messages => messages::stream(speech, &mut out),
        Wire::Gemini => gemini::stream(speech, &mut out),
    }
    let mut blocks = out.finish();
    // An endless stream has no end: its last block is a text delta.
    let again = if speech.reply.fault == Fault::Endless { blocks.pop() } else { None };
    (blocks, again.map(|block| block.bytes))
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

/// A word for how the answer ended, as chat completions says it.
fn finish_word(reply: &Reply) -> Option<String> {
    match &reply.finish {
        Finish::Natural if reply.calls > 0 => Some("tool_calls".into()),
        Finish::Natural => Some("stop".into()),
        Finish::Reason(reason) => Some(reason.clone()),
        Finish::Missing => None,
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
        if block.kind != BlockKind::Uncounted {
            if events > 0 {
                items.extend(reply.delay_between_events.map(Item::Wait));
            }
            events += 1;
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

/// The bytes on the wire: chunked encoding, and the sizes of the writes.
fn writes(reply: &Reply, items: Vec<Item>, again: Option<Vec<u8>>) -> Vec<Action> {
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
    match (again, reply.framing) {
        (Some(bytes), _) => {
            let gap = reply.delay_between_events.unwrap_or(ENDLESS_GAP);
            actions.push(Action::Endless(framed(reply, &bytes), gap));
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
