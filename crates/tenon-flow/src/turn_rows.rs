//! An agent's turns as rows of the journal, and back.

use std::io;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tenon_core::{
    BoxFut, FinishReason, JournalMessage, LeftBehind, Message, Origin, Part, Role, Secrets, Timestamp,
    ToolResult, TurnJournal, TurnRecord, Usage,
};

use crate::journal::{Entry, JournalError, Lease, RowKind};

/// Keeps the turns of one step's agent.
pub(crate) struct TurnRows {
    pub lease: Arc<Lease>,
    pub key: String,
    pub secrets: Secrets,
    /// Told to whoever keeps the steps: see `journal_log.rs`.
    pub broken: Arc<OnceLock<Broken>>,
}

/// Why something could not be kept, and what can be done about it.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub why: String,
    pub hint: Option<&'static str>,
}

impl Broken {
    pub fn of(error: &JournalError) -> Broken {
        Broken { why: error.to_string(), hint: error.hint() }
    }
}

impl TurnJournal for TurnRows {
    fn write(&self, record: TurnRecord) -> BoxFut<'_, io::Result<()>> {
        Box::pin(async move {
            let Some((kind, payload)) = written(&record, &self.secrets).map_err(io::Error::other)? else {
                return Ok(());
            };
            let entry = Entry { key: self.key.clone(), kind, at: Timestamp::now(), payload };
            self.lease.append(vec![entry]).await.map_err(|error| {
                // The first reason counts.
                let _ = self.broken.set(Broken::of(&error));
                io::Error::other(error)
            })
        })
    }
}

#[derive(Serialize, Deserialize)]
struct Told {
    message: JournalMessage,
    origin: String,
    /// Ids of the messages of other agents that it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mail: Vec<String>,
    /// Ids of tasks in the background of whose end it tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ended: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct ModelTurn {
    turn: u32,
    model: String,
    message: JournalMessage,
    usage: Usage,
    finish: String,
}

#[derive(Serialize, Deserialize)]
struct ToolStarted {
    turn: u32,
    call_id: String,
    name: String,
}

/// The result is the one part of the message.
#[derive(Serialize, Deserialize)]
struct ToolDone {
    turn: u32,
    message: JournalMessage,
    #[serde(default, skip_serializing_if = "LeftBehind::is_empty")]
    left: LeftBehind,
}

#[derive(Serialize, Deserialize)]
struct Compacted {
    messages: Vec<JournalMessage>,
    before_tokens: u64,
    after_tokens: u64,
}

#[derive(Serialize, Deserialize)]
struct Besides {
    model: String,
    usage: Usage,
}

/// `None` for what a step that goes on does not need: it goes through its turns again.
fn written(record: &TurnRecord, secrets: &Secrets) -> Result<Option<(RowKind, String)>, serde_json::Error> {
    let whole = |message: &Message| JournalMessage::of(message, secrets);
    Ok(Some(match record {
        TurnRecord::UserMessage { message, origin, mail, ended } => {
            let origin = origin_name(*origin).to_owned();
            let told = Told { message: whole(message), origin, mail: mail.clone(), ended: ended.clone() };
            (RowKind::Told, serde_json::to_string(&told)?)
        }
        TurnRecord::ModelTurn { turn, model, message, usage, finish } => {
            let finish = finish_name(*finish).to_owned();
            let (turn, model, message) = (*turn, model.clone(), whole(message));
            let turn = ModelTurn { turn, model, message, usage: *usage, finish };
            (RowKind::ModelTurn, serde_json::to_string(&turn)?)
        }
        TurnRecord::ToolStarted { turn, call_id, name } => {
            let started = ToolStarted { turn: *turn, call_id: call_id.clone(), name: name.clone() };
            (RowKind::ToolStarted, serde_json::to_string(&started)?)
        }
        TurnRecord::ToolFinished { turn, result, left } => {
            let parts = vec![Part::ToolResult(result.clone())];
            let message = whole(&Message { role: Role::User, parts });
            let done = ToolDone { turn: *turn, message, left: left.clone().without(secrets) };
            (RowKind::ToolDone, serde_json::to_string(&done)?)
        }
        TurnRecord::Compacted { messages, before_tokens, after_tokens } => {
            let messages = messages.iter().map(whole).collect();
            let compacted =
                Compacted { messages, before_tokens: *before_tokens, after_tokens: *after_tokens };
            (RowKind::Compacted, serde_json::to_string(&compacted)?)
        }
        TurnRecord::Besides { model, usage } => {
            let besides = Besides { model: model.clone(), usage: *usage };
            (RowKind::Besides, serde_json::to_string(&besides)?)
        }
        TurnRecord::Stopped { .. } | TurnRecord::Withdrawn => return Ok(None),
    }))
}

/// The record behind a row, if it is one of an agent's turns.
pub(crate) fn read(entry: &Entry) -> Option<Result<TurnRecord, String>> {
    let record = match entry.kind {
        RowKind::Told => parsed(entry).and_then(|Told { message, origin, mail, ended }| {
            let (message, origin) = (message.into_message(), origin_named(&origin)?);
            Ok(TurnRecord::UserMessage { message, origin, mail, ended })
        }),
        RowKind::ModelTurn => parsed(entry).and_then(|ModelTurn { turn, model, message, usage, finish }| {
            let (message, finish) = (message.into_message(), finish_named(&finish)?);
            Ok(TurnRecord::ModelTurn { turn, model, message, usage, finish })
        }),
        RowKind::ToolStarted => parsed(entry)
            .map(|ToolStarted { turn, call_id, name }| TurnRecord::ToolStarted { turn, call_id, name }),
        RowKind::ToolDone => parsed(entry).and_then(|ToolDone { turn, message, left }| {
            Ok(TurnRecord::ToolFinished { turn, result: only_result(message)?, left })
        }),
        RowKind::Compacted => {
            parsed(entry).map(|Compacted { messages, before_tokens, after_tokens }| TurnRecord::Compacted {
                messages: messages.into_iter().map(JournalMessage::into_message).collect(),
                before_tokens,
                after_tokens,
            })
        }
        RowKind::Besides => {
            parsed(entry).map(|Besides { model, usage }| TurnRecord::Besides { model, usage })
        }
        RowKind::Scheduled
        | RowKind::Timer
        | RowKind::Clock
        | RowKind::Asked
        | RowKind::Resolved
        | RowKind::Completed
        | RowKind::Failed
        | RowKind::Signal
        | RowKind::Paused
        | RowKind::Spent => return None,
    };
    Some(record)
}

fn parsed<'a, T: Deserialize<'a>>(entry: &'a Entry) -> Result<T, String> {
    serde_json::from_str(&entry.payload).map_err(|error| error.to_string())
}

fn only_result(message: JournalMessage) -> Result<ToolResult, String> {
    match message.into_message().parts.pop() {
        Some(Part::ToolResult(result)) => Ok(result),
        _ => Err("it holds no result".to_owned()),
    }
}

const ORIGINS: [(Origin, &str); 3] =
    [(Origin::Prompt, "prompt"), (Origin::Reminder, "reminder"), (Origin::Notice, "notice")];

fn origin_name(origin: Origin) -> &'static str {
    ORIGINS.iter().find(|(known, _)| *known == origin).map_or("prompt", |(_, name)| name)
}

fn origin_named(name: &str) -> Result<Origin, String> {
    let found = ORIGINS.iter().find(|(_, known)| *known == name);
    found.map(|(origin, _)| *origin).ok_or_else(|| format!("nobody is called `{name}`"))
}

const FINISHES: [(FinishReason, &str); 4] = [
    (FinishReason::Stop, "stop"),
    (FinishReason::ToolCalls, "tool_calls"),
    (FinishReason::Length, "length"),
    (FinishReason::Refused, "refused"),
];

fn finish_name(finish: FinishReason) -> &'static str {
    FINISHES.iter().find(|(known, _)| *known == finish).map_or("stop", |(_, name)| name)
}

fn finish_named(name: &str) -> Result<FinishReason, String> {
    let found = FINISHES.iter().find(|(_, known)| *known == name);
    found.map(|(finish, _)| *finish).ok_or_else(|| format!("no answer ends with `{name}`"))
}
