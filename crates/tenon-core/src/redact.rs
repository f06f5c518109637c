//! What may be kept on disk or sent off the machine.
//!
//! The arguments of a terminal call are the payload. They are never stored, whatever became of the call:
//! each attempt is replaced by the same placeholder. The agent marks terminal calls, so redaction never
//! guesses by name, and a tool result that quotes a payload brings the text to store instead.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{
    Ending, Event, EventKind, HookReport, Media, Message, Outcome, Part, PartKind, RawJson, Role, Secrets,
    ToolProgress,
};

/// Other programs match on this text.
pub const REDACTED_NOTE: &str = "structured_output payload (see stdout result)";
/// The placeholder that stands where the arguments of a terminal call were.
pub const REDACTED_ARGS: &str = r#"{"__redacted":"structured_output payload (see stdout result)"}"#;

/// An event without payloads. The only way to one is [`Event::redact`].
#[derive(Clone, Debug)]
pub struct DurableEvent(Event);

/// A message without payloads. The only ways to one are [`Message::redact`] and reading one back
/// (`stored_message.rs`).
#[derive(Clone, Debug)]
pub struct DurableMessage(Message);

impl DurableEvent {
    /// The redacted event, for readers that show rather than store it.
    pub fn event(&self) -> &Event {
        &self.0
    }
}

impl DurableMessage {
    pub(crate) fn read(message: Message) -> DurableMessage {
        DurableMessage(message)
    }

    pub fn into_message(self) -> Message {
        self.0
    }

    /// The same without known keys, should a tool or a model have come upon one.
    #[must_use]
    pub fn without(mut self, secrets: &Secrets) -> DurableMessage {
        hide(&mut self.0, secrets);
        self
    }

    pub fn message(&self) -> &Message {
        &self.0
    }
}

impl Event {
    pub fn redact(&self) -> DurableEvent {
        let kind = match &self.kind {
            EventKind::PartStopped { part, content } => {
                EventKind::PartStopped { part: *part, content: redact_part(content) }
            }
            EventKind::StructuredPartial { call_id, .. } => {
                EventKind::StructuredPartial { call_id: call_id.clone(), snapshot: placeholder() }
            }
            // A delta does not say whose it is; the finished part does. Durable readers want the latter.
            EventKind::PartDelta { part, .. } => EventKind::PartDelta { part: *part, text: String::new() },
            EventKind::ToolFinished(report) => {
                let mut report = report.clone();
                report.drawing = None;
                if let Some(stored) = report.stored.take() {
                    report.content = stored;
                }
                EventKind::ToolFinished(report)
            }
            EventKind::HookEnded(report) => {
                let (stdout, stderr) = (String::new(), String::new());
                EventKind::HookEnded(HookReport { stdout, stderr, ..report.clone() })
            }
            EventKind::RunFinished(outcome) => EventKind::RunFinished(Arc::new(redact_outcome(outcome))),
            other => other.clone(),
        };
        DurableEvent(Event { kind, parent: self.parent.clone(), ..*self })
    }
}

/// Takes known keys out of a message.
pub(crate) fn hide(message: &mut Message, secrets: &Secrets) {
    let hide_text = |text: &mut String| {
        if let Cow::Owned(hidden) = secrets.hide(text) {
            *text = hidden;
        }
    };
    for part in &mut message.parts {
        match part {
            Part::Text { text } => hide_text(text),
            Part::Thinking { text, native } => {
                hide_text(text);
                native.iter_mut().for_each(|native| secrets.hide_in(native));
            }
            Part::ToolCall(call) => {
                [&mut call.id, &mut call.name, &mut call.arguments].into_iter().for_each(hide_text);
                call.native.iter_mut().for_each(|native| secrets.hide_in(native));
            }
            Part::ToolResult(result) => {
                [&mut result.call_id, &mut result.name, &mut result.content].into_iter().for_each(hide_text);
            }
            Part::Media(_) => {}
        }
    }
}

impl Message {
    pub fn redact(&self) -> DurableMessage {
        DurableMessage(Message { role: self.role, parts: self.parts.iter().map(redact_part).collect() })
    }
}

fn redact_part(part: &Part) -> Part {
    let mut part = part.clone();
    match &mut part {
        Part::ToolCall(call) if call.terminal => {
            call.arguments = REDACTED_ARGS.to_owned();
            call.native = None;
        }
        Part::ToolResult(result) => {
            if let Some(stored) = result.stored.take() {
                result.content = stored;
            }
        }
        Part::Text { .. } | Part::Thinking { .. } | Part::ToolCall(_) | Part::Media(_) => {}
    }
    part
}

fn redact_outcome(outcome: &Outcome) -> Outcome {
    let mut outcome = outcome.clone();
    match &mut outcome.ending {
        Ending::Success(success) if success.payload.is_some() => {
            success.payload = Some(placeholder());
            success.text = REDACTED_ARGS.to_owned();
        }
        Ending::Success(_) => {}
        Ending::Failure(failure) => {
            if let Some(structured) = &mut failure.structured {
                structured.candidate = structured.candidate.as_ref().map(|_| placeholder());
                structured.violations.clear();
            }
        }
    }
    outcome
}

fn placeholder() -> RawJson {
    serde_json::value::RawValue::from_string(REDACTED_ARGS.to_owned()).unwrap_or_default()
}

impl Serialize for DurableEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = &self.0;
        let (name, data) = event_json(&event.kind);
        json!({ "seq": event.seq, "time": event.time, "id": event.id, "parent": event.parent, "type": name, "data": data })
            .serialize(serializer)
    }
}

impl Serialize for DurableMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        message_json(&self.0).serialize(serializer)
    }
}

pub(crate) fn message_json(message: &Message) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let parts: Vec<Value> = message.parts.iter().map(part_json).collect();
    json!({ "role": role, "parts": parts })
}

fn part_json(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({ "type": "text", "text": text }),
        Part::Thinking { text, native } => json!({ "type": "thinking", "text": text, "native": native }),
        Part::ToolCall(call) => json!({
            "type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments,
            "terminal": call.terminal, "native": call.native,
        }),
        Part::ToolResult(result) => {
            let mut json = json!({
                "type": "tool_result", "call_id": result.call_id, "name": result.name,
                "content": result.content, "is_error": result.is_error,
            });
            if !result.media.is_empty() {
                json["media"] = result.media.iter().map(media_json).collect();
            }
            json
        }
        Part::Media(media) => {
            let mut json = media_json(media);
            json["type"] = json!("media");
            json
        }
    }
}

fn media_json(media: &Media) -> Value {
    json!({ "mime": media.mime, "data": &*media.data })
}

fn event_json(kind: &EventKind) -> (&'static str, Value) {
    match kind {
        EventKind::RunStarted(info) => (
            "run_started",
            json!({
                "session_id": info.session_id, "cwd": info.cwd, "model": info.model,
                "permission_mode": info.permission_mode, "tools": info.tools, "agents": info.agents,
                "cli_version": info.cli_version, "channel": info.channel,
            }),
        ),
        EventKind::Asking { turn, model } => ("asking", json!({ "turn": turn, "model": model })),
        EventKind::TurnStarted { turn, model } => ("turn_started", json!({ "turn": turn, "model": model })),
        EventKind::PartStarted { part, id, kind } => {
            ("part_started", json!({ "part": part, "id": id, "kind": part_kind_json(kind) }))
        }
        EventKind::PartDelta { part, .. } => ("part_delta", json!({ "part": part })),
        EventKind::PartStopped { part, content } => {
            ("part_stopped", json!({ "part": part, "content": part_json(content) }))
        }
        EventKind::StructuredPartial { call_id, .. } => ("structured_partial", json!({ "call_id": call_id })),
        EventKind::TurnFinished { turn, usage } => ("turn_finished", json!({ "turn": turn, "usage": usage })),
        EventKind::ToolStarted { call_id, name, terminal } => {
            ("tool_started", json!({ "call_id": call_id, "name": name, "terminal": terminal }))
        }
        EventKind::ToolProgress { call_id, progress } => {
            let (elapsed_ms, steps) = match progress {
                ToolProgress::Shell { elapsed_ms, .. } => (Some(elapsed_ms), None),
                ToolProgress::Steps { progress, .. } => (None, Some(progress)),
            };
            ("tool_progress", json!({ "call_id": call_id, "elapsed_ms": elapsed_ms, "progress": steps }))
        }
        EventKind::ToolFinished(report) => (
            "tool_finished",
            json!({
                "call_id": report.call_id, "name": report.name, "terminal": report.terminal,
                "content": report.content, "is_error": report.error.is_some(), "duration_ms": report.duration_ms,
            }),
        ),
        EventKind::Retrying { attempt, wait_ms, class, message, .. } => (
            "retrying",
            json!({ "attempt": attempt, "wait_ms": wait_ms, "class": class, "message": message }),
        ),
        EventKind::ModelFallback { from, to, status, fallback } => {
            ("model_fallback", json!({ "from": from, "to": to, "status": status, "fallback": fallback }))
        }
        EventKind::UserMessage { text, origin } => {
            ("user_message", json!({ "text": text, "origin": origin.name() }))
        }
        EventKind::Compacted { trigger, before_tokens, after_tokens } => (
            "compacted",
            json!({
                "trigger": trigger.name(), "before_tokens": before_tokens, "after_tokens": after_tokens,
            }),
        ),
        EventKind::TaskStarted(task) => (
            "task_started",
            json!({
                "task_id": task.task_id, "call_id": task.call_id, "kind": task.kind.name(),
                "agent_type": task.agent_type, "description": task.description,
            }),
        ),
        EventKind::TaskEnded(task) => (
            "task_ended",
            json!({
                "task_id": task.task_id, "call_id": task.call_id, "kind": task.kind.name(),
                "status": task.status.name(), "summary": task.summary, "output_file": task.output_file,
                "usage": task.usage, "tool_calls": task.tool_calls, "duration_ms": task.duration_ms,
            }),
        ),
        EventKind::HookStarted(hook) => (
            "hook_started",
            json!({
                "event": hook.event.name(), "name": hook.name, "status_message": hook.status_message,
            }),
        ),
        EventKind::HookEnded(hook) => (
            "hook_ended",
            json!({
                "event": hook.event.name(), "name": hook.name, "end": hook.end.name(),
                "exit_code": hook.exit_code, "duration_ms": hook.duration_ms,
            }),
        ),
        EventKind::PermissionAsked(ask) => {
            ("permission_asked", json!({ "call_id": ask.call_id, "name": ask.tool, "reason": ask.reason }))
        }
        EventKind::Warning { message } => ("warning", json!({ "message": message })),
        EventKind::RecordingDegraded { message } => ("recording_degraded", json!({ "message": message })),
        EventKind::Heartbeat => ("heartbeat", Value::Null),
        EventKind::RunFinished(outcome) => ("run_finished", outcome_json(outcome)),
    }
}

fn part_kind_json(kind: &PartKind) -> Value {
    match kind {
        PartKind::Text => json!("text"),
        PartKind::Thinking => json!("thinking"),
        PartKind::ToolCall { call_id, name, terminal } => {
            json!({ "call_id": call_id, "name": name, "terminal": terminal })
        }
    }
}

fn outcome_json(outcome: &Outcome) -> Value {
    let (text, failure) = match &outcome.ending {
        Ending::Success(success) => (Some(&success.text), None),
        Ending::Failure(failure) => (
            None,
            Some(json!({
                "class": failure.class.name(), "message": failure.message, "http_status": failure.http_status,
                "provider": failure.provider,
                "attempts": failure.structured.as_ref().map(|structured| structured.attempts),
            })),
        ),
    };
    json!({
        "exit_code": outcome.exit_code(), "text": text, "failure": failure, "turns": outcome.turns,
        "duration_ms": outcome.duration_ms, "usage": outcome.usage(), "denials": outcome.denials.len(),
    })
}
