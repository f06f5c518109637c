//! The records of a session file: one JSON object on each line, its `type` first.
//!
//! | `type` | written |
//! |---|---|
//! | `session` | first: format, id, folder, title, version, where it was forked from |
//! | `user` | before the request that tells the model |
//! | `assistant` | after a model turn |
//! | `tool_started` | before a tool runs, on disk before it does |
//! | `tool_result` | after it |
//! | `compacted` | from here on the conversation consists of its messages |
//! | `stopped` | at the end of a run that ended before its turn did: what was seen of the last answer, what calls without a result are answered, what the model is told about it |
//! | `withdrawn` | at the end of a run whose prompt was refused: the conversation is what it was before |
//! | `run_finished` | at the end of a run |
//!
//! Messages are stored redacted and without known keys. Other types are skipped when read: a later version may
//! add some. Numbers are never read through a tagged enum (`arbitrary_precision` breaks them there).

use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenon_core::{
    DurableEvent, DurableMessage, Event, EventKind, Id, LeftBehind, Message, Origin, Outcome, Part, Role,
    Secrets, Timestamp, ToolResult, TurnRecord,
};

/// The version of this format. A file of a later one is not touched.
pub const FORMAT: u32 = 1;

/// How the first line of every file begins; [`COMPLETE`] or [`DEGRADED`] follow.
pub(crate) const HEAD_START: &str = r#"{"type":"session","format":1,"recording":""#;
/// As long as each other: a disk that is full still takes the one in place of the other.
pub(crate) const COMPLETE: &str = "complete";
pub(crate) const DEGRADED: &str = "degraded";

/// The first record: whose session this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub id: Id,
    /// When it was made, as in `2026-08-21T16:16:56.123Z`.
    pub created: String,
    pub cwd: PathBuf,
    pub title: String,
    /// The version of tenon that made it.
    pub version: String,
    pub forked_from: Option<Id>,
}

impl Head {
    pub(crate) fn line(&self, secrets: &Secrets) -> Vec<u8> {
        let rest = json!({
            "id": self.id, "time": self.created, "cwd": secrets.hide(&self.cwd.to_string_lossy()),
            "title": secrets.hide(&self.title), "tenon": self.version, "forked_from": self.forked_from,
        })
        .to_string();
        let mut line = format!("{HEAD_START}{COMPLETE}\",").into_bytes();
        line.extend_from_slice(&rest.as_bytes()[1..]);
        line.push(b'\n');
        line
    }
}

/// What is stored of one thing that happened.
pub(crate) fn line(record: &TurnRecord, provider: &str, model: &str, secrets: &Secrets) -> Vec<u8> {
    let time = Timestamp::now().to_iso8601();
    let stored = |message: &Message| message.redact().without(secrets);
    match record {
        TurnRecord::UserMessage { message, origin, ended, .. } => {
            let mut told = json!({
                "type": "user", "time": time, "origin": origin.name(), "message": stored(message),
            });
            if !ended.is_empty() {
                told["ended"] = json!(ended);
            }
            json_line(&told)
        }
        TurnRecord::ModelTurn { turn, model, message, usage, finish: _ } => json_line(&json!({
            "type": "assistant", "time": time, "turn": turn, "model": model, "provider": provider, "usage": usage,
            "message": stored(message),
        })),
        TurnRecord::ToolStarted { turn, call_id, name } => json_line(&json!({
            "type": "tool_started", "time": time, "turn": turn, "call_id": secrets.hide(call_id), "name": name,
        })),
        TurnRecord::ToolFinished { turn, result, left } => {
            let mut done = json!({
                "type": "tool_result", "time": time, "turn": turn, "message": stored(&answer(result)),
            });
            if !left.is_empty() {
                done["left"] = json!(left.clone().without(secrets));
            }
            json_line(&done)
        }
        TurnRecord::Compacted { messages, before_tokens, after_tokens } => json_line(&json!({
            "type": "compacted", "time": time, "before_tokens": before_tokens, "after_tokens": after_tokens,
            "model": model, "provider": provider,
            "messages": messages.iter().map(stored).collect::<Vec<DurableMessage>>(),
        })),
        TurnRecord::Stopped { closed, said, note } => json_line(&json!({
            "type": "stopped", "time": time, "results": stored(&answers(closed)),
            "message": said.as_ref().map(stored), "note": note.as_ref().map(stored),
        })),
        // What a session says it cost is in how its runs finished.
        TurnRecord::Besides { .. } => Vec::new(),
        TurnRecord::Withdrawn => json_line(&json!({ "type": "withdrawn", "time": time })),
    }
}

/// Something the model is told that no run recorded.
pub(crate) fn notice_line(message: Message, ended: Vec<String>, secrets: &Secrets) -> Vec<u8> {
    let told = TurnRecord::UserMessage { message, origin: Origin::Notice, mail: Vec::new(), ended };
    line(&told, "", "", secrets)
}

/// The word for a call that a crash left without a result.
pub(crate) fn closing_line(result: &ToolResult, secrets: &Secrets) -> Vec<u8> {
    json_line(&json!({
        "type": "tool_result", "time": Timestamp::now().to_iso8601(), "closed": true,
        "message": answer(result).redact().without(secrets),
    }))
}

/// How a run ended. The answer itself stands in the last `assistant` record, or is the payload.
pub(crate) fn finished_line(outcome: &Arc<Outcome>, secrets: &Secrets) -> Vec<u8> {
    let time = Timestamp::now();
    let event = Event {
        seq: 0,
        time,
        id: Id::from_random([0; 16]),
        parent: None,
        kind: EventKind::RunFinished(Arc::clone(outcome)),
    };
    let mut data = data_of(&event.redact());
    secrets.hide_in(&mut data);
    let mut record = json!({ "type": RUN_FINISHED, "time": time.to_iso8601() });
    if let (Value::Object(record), Value::Object(data)) = (&mut record, data) {
        record.extend(data.into_iter().filter(|(name, _)| name != "text"));
    }
    json_line(&record)
}

fn data_of(event: &DurableEvent) -> Value {
    match serde_json::to_value(event) {
        Ok(Value::Object(mut event)) => event.remove("data").unwrap_or_default(),
        _ => Value::Null,
    }
}

fn answer(result: &ToolResult) -> Message {
    answers(std::slice::from_ref(result))
}

fn answers(results: &[ToolResult]) -> Message {
    Message { role: Role::User, parts: results.iter().cloned().map(Part::ToolResult).collect() }
}

fn results_in(message: DurableMessage) -> impl Iterator<Item = ToolResult> {
    message.into_message().parts.into_iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    })
}

fn json_line(record: &Value) -> Vec<u8> {
    let mut line = record.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// A record as it is read back.
#[derive(Debug)]
pub(crate) enum Record {
    /// What somebody asked.
    Prompt(Message),
    /// What the model was told besides, and of which tasks it tells the end.
    Told(Message, Vec<String>),
    Assistant {
        message: Message,
        by: By,
    },
    ToolStarted {
        call_id: String,
    },
    ToolResult(ToolResult, LeftBehind),
    Compacted {
        messages: Vec<Message>,
        by: By,
    },
    Stopped {
        closed: Vec<ToolResult>,
        said: Option<Message>,
        note: Option<Message>,
    },
    Withdrawn,
    /// The end of a run, a first record, or a type of a later version.
    Other,
}

/// Who gave an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct By {
    pub(crate) provider: String,
    pub(crate) model: String,
}

#[derive(Debug)]
pub(crate) struct NotARecord;

impl From<serde_json::Error> for NotARecord {
    fn from(_: serde_json::Error) -> NotARecord {
        NotARecord
    }
}

/// Reads one line, with or without its end.
pub(crate) fn read(line: &[u8]) -> Result<Record, NotARecord> {
    let kind = kind_of(line).ok_or(NotARecord)?;
    match kind.as_str() {
        "user" => {
            let stored: WithMessage = serde_json::from_slice(line)?;
            let message = stored.message.into_message();
            match stored.origin == Origin::Prompt.name() {
                true => Ok(Record::Prompt(message)),
                false => Ok(Record::Told(message, stored.ended)),
            }
        }
        "assistant" => {
            let stored: WithMessage = serde_json::from_slice(line)?;
            let by = By { provider: stored.provider, model: stored.model };
            Ok(Record::Assistant { message: stored.message.into_message(), by })
        }
        "tool_started" => {
            let stored: Started = serde_json::from_slice(line)?;
            Ok(Record::ToolStarted { call_id: stored.call_id })
        }
        "tool_result" => {
            let stored: WithMessage = serde_json::from_slice(line)?;
            let left = stored.left;
            results_in(stored.message).next().map(|result| Record::ToolResult(result, left)).ok_or(NotARecord)
        }
        "compacted" => {
            let stored: Compacted = serde_json::from_slice(line)?;
            let messages = stored.messages.into_iter().map(DurableMessage::into_message).collect();
            Ok(Record::Compacted { messages, by: By { provider: stored.provider, model: stored.model } })
        }
        "stopped" => {
            let stored: Stopped = serde_json::from_slice(line)?;
            Ok(Record::Stopped {
                closed: results_in(stored.results).collect(),
                said: stored.message.map(DurableMessage::into_message),
                note: stored.note.map(DurableMessage::into_message),
            })
        }
        "withdrawn" => {
            serde_json::from_slice::<serde::de::IgnoredAny>(line)?;
            Ok(Record::Withdrawn)
        }
        _ => {
            serde_json::from_slice::<serde::de::IgnoredAny>(line)?;
            Ok(Record::Other)
        }
    }
}

/// A first record, and whether all that followed it was written.
pub(crate) struct ReadHead {
    pub(crate) head: Head,
    pub(crate) format: u32,
    pub(crate) recording_complete: bool,
}

pub(crate) fn read_head(line: &[u8]) -> Option<ReadHead> {
    let stored: StoredHead =
        serde_json::from_slice(line).ok().filter(|stored: &StoredHead| stored.kind == "session")?;
    let id = Id::parse(&stored.id)?;
    let head = Head {
        id,
        created: stored.time,
        cwd: PathBuf::from(stored.cwd),
        title: stored.title,
        version: stored.tenon,
        forked_from: stored.forked_from.as_deref().and_then(Id::parse),
    };
    Some(ReadHead { head, format: stored.format, recording_complete: stored.recording == COMPLETE })
}

/// The exit code in a `run_finished` record.
pub(crate) fn exit_code_in(line: &[u8]) -> Option<u8> {
    #[derive(Deserialize)]
    struct Finished {
        exit_code: u8,
    }
    let finished = kind_of(line).is_some_and(|kind| kind == RUN_FINISHED);
    finished
        .then(|| serde_json::from_slice::<Finished>(line).ok())
        .flatten()
        .map(|finished| finished.exit_code)
}

/// The id that a session file's name says.
pub(crate) fn id_of(path: &Path) -> Option<Id> {
    let name = path.file_name()?.to_str()?;
    Id::parse(name.strip_suffix(".jsonl")?)
}

/// The record of how a run ended.
pub(crate) const RUN_FINISHED: &str = "run_finished";
const TYPE_FIRST: &[u8] = br#"{"type":""#;
/// How a line begins that ends what came before it.
pub(crate) const COMPACTED_START: &[u8] = br#"{"type":"compacted""#;

/// Ours begin with it; a line that somebody rewrote may have it elsewhere.
pub(crate) fn kind_of(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
    }
    if let Some(rest) = line.strip_prefix(TYPE_FIRST)
        && let Some(end) = rest.iter().take(32).position(|byte| *byte == b'"')
    {
        return String::from_utf8(rest[..end].to_vec()).ok();
    }
    serde_json::from_slice::<Kind>(line).ok().map(|kind| kind.kind)
}

#[derive(Deserialize)]
struct WithMessage {
    message: DurableMessage,
    #[serde(default)]
    model: String,
    #[serde(default)]
    provider: String,
    #[serde(default)]
    origin: String,
    #[serde(default)]
    left: LeftBehind,
    #[serde(default)]
    ended: Vec<String>,
}

#[derive(Deserialize)]
struct Stopped {
    results: DurableMessage,
    message: Option<DurableMessage>,
    note: Option<DurableMessage>,
}

#[derive(Deserialize)]
struct Started {
    call_id: String,
}

#[derive(Deserialize)]
struct Compacted {
    messages: Vec<DurableMessage>,
    #[serde(default)]
    model: String,
    #[serde(default)]
    provider: String,
}

#[derive(Deserialize)]
struct StoredHead {
    #[serde(rename = "type")]
    kind: String,
    format: u32,
    recording: String,
    id: String,
    time: String,
    cwd: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    tenon: String,
    #[serde(default)]
    forked_from: Option<String>,
}
