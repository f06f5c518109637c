//! Which event gives which line.
//!
//! `stream-json` writes an answer in the pieces it comes in; `json` writes one object at the end; `text`
//! writes the final text of a success and nothing else. Sub-agents are not shown: this dialect has no word
//! for whom a line belongs to, and their result is the result of the call they work for.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tenon_core::{
    AnsiStripper, Ending, ErrorClass, Event, EventKind, Id, Outcome, Part, PartKind, Timestamp,
    ToolErrorKind, ToolReport, Usage,
};

use super::types::{
    Document, ErrorLine, ErrorObject, Heartbeat, Init, Line, Message, ResultLine, Role, Severity, Status,
    StreamStats, StreamTokens, ToolError, ToolResult, ToolUse,
};
use crate::cap::shown;
use crate::json_line;
use crate::stats::stats;
use crate::text::encode_text;
use crate::values::{Raw, Uuid, plain};
use crate::{Encoder, EncoderOptions, Format, SCHEMA_VERSION};

pub(crate) struct GeminiEncoder {
    options: EncoderOptions,
    session_id: Id,
    /// The texts that are being written, by part: an escape sequence may be split over two pieces.
    open: BTreeMap<usize, AnsiStripper>,
}

impl GeminiEncoder {
    pub fn new(options: EncoderOptions) -> GeminiEncoder {
        GeminiEncoder { session_id: options.session_id, options, open: BTreeMap::new() }
    }
}

impl Encoder for GeminiEncoder {
    fn encode(&mut self, event: &Event, out: &mut Vec<u8>) {
        if event.parent.is_some() {
            return;
        }
        if let EventKind::RunStarted(info) = &event.kind {
            self.session_id = info.session_id;
        }
        match self.options.format {
            Format::Text => encode_text(event, out),
            Format::Json => {
                if let EventKind::RunFinished(outcome) = &event.kind {
                    write(&document(outcome, self.session_id), out);
                }
            }
            Format::StreamJson | Format::StreamChunkJson => self.encode_line(event, out),
        }
    }
}

impl GeminiEncoder {
    fn encode_line(&mut self, event: &Event, out: &mut Vec<u8>) {
        let timestamp = || event.time.to_iso8601();
        match &event.kind {
            EventKind::RunStarted(info) => write(
                &Line::Init(Init {
                    timestamp: timestamp(),
                    session_id: Uuid(info.session_id),
                    model: &info.model,
                    schema_version: SCHEMA_VERSION,
                    cli_version: &info.cli_version,
                }),
                out,
            ),
            EventKind::UserMessage { text, .. } => write(
                &Line::Message(Message {
                    timestamp: timestamp(),
                    role: Role::User,
                    content: plain(text),
                    delta: None,
                }),
                out,
            ),
            EventKind::TurnStarted { .. } => self.open.clear(),
            EventKind::PartStarted { part, kind: PartKind::Text, .. } => {
                self.open.insert(*part, AnsiStripper::default());
            }
            EventKind::PartDelta { part, text } => {
                if let Some(strip) = self.open.get_mut(part) {
                    write_delta(strip.push_text(text), event.time, out);
                }
            }
            EventKind::PartStopped { part, content } => match content {
                Part::ToolCall(call) => {
                    let input = call.input();
                    write(
                        &Line::ToolUse(ToolUse {
                            timestamp: timestamp(),
                            tool_name: &call.name,
                            tool_id: &call.id,
                            parameters: Raw(&input),
                        }),
                        out,
                    );
                }
                _ => drop(self.open.remove(part)),
            },
            EventKind::ToolFinished(report) => write(&tool_result(report, timestamp()), out),
            EventKind::Warning { message } | EventKind::RecordingDegraded { message } => {
                write_warning(message, timestamp(), out)
            }
            EventKind::Retrying { attempt, wait_ms, class, message, .. } => {
                let told = format!("{class}: {message}; attempt {attempt} follows in {wait_ms} ms");
                write_warning(&told, timestamp(), out);
            }
            EventKind::ModelFallback { from, to, .. } => {
                let told = format!("`{from}` could not answer; `{to}` is asked from here on");
                write_warning(&told, timestamp(), out);
            }
            EventKind::Heartbeat => write(&Line::Heartbeat(Heartbeat { timestamp: timestamp() }), out),
            EventKind::RunFinished(outcome) => {
                if let Ending::Failure(failure) = &outcome.ending
                    && let Some(severity) = announced(failure)
                {
                    write_error(severity, &failure.message, timestamp(), out);
                }
                write(&Line::Result(Box::new(result_line(outcome, timestamp()))), out);
            }
            // This dialect has no line for them.
            _ => {}
        }
    }
}

fn write<T: serde::Serialize>(value: &T, out: &mut Vec<u8>) {
    json_line::append(out, value);
    out.push(b'\n');
}

/// What tenon itself says in the assistant's place.
pub(crate) fn said(time: Timestamp, content: &str) -> Line<'_> {
    Line::Message(Message {
        timestamp: time.to_iso8601(),
        role: Role::Assistant,
        content: plain(content),
        delta: None,
    })
}

fn write_delta(content: String, time: Timestamp, out: &mut Vec<u8>) {
    if content.is_empty() {
        return;
    }
    let message = Message {
        timestamp: time.to_iso8601(),
        role: Role::Assistant,
        content: Cow::Owned(content),
        delta: Some(true),
    };
    write(&Line::Message(message), out);
}

fn write_warning(message: &str, timestamp: String, out: &mut Vec<u8>) {
    write_error(Severity::Warning, message, timestamp, out);
}

fn write_error(severity: Severity, message: &str, timestamp: String, out: &mut Vec<u8>) {
    write(&Line::Error(ErrorLine { timestamp, severity, message: plain(message) }), out);
}

/// Failures that clients of this dialect are told of before the result. The result alone tells of the others.
fn announced(failure: &tenon_core::Failure) -> Option<Severity> {
    match failure.class {
        ErrorClass::RepeatedCall => Some(Severity::Warning),
        ErrorClass::Turns | ErrorClass::Refused | ErrorClass::Truncated => Some(Severity::Error),
        _ => None,
    }
}

fn tool_result(report: &ToolReport, timestamp: String) -> Line<'_> {
    let error =
        report.error.map(|kind| ToolError { r#type: tool_error(kind), message: shown(&report.content) });
    Line::ToolResult(ToolResult {
        timestamp,
        tool_id: &report.call_id,
        status: if error.is_some() { Status::Error } else { Status::Success },
        output: shown(&report.content),
        error,
    })
}

fn tool_error(kind: ToolErrorKind) -> &'static str {
    match kind {
        ToolErrorKind::InvalidArguments => "invalid_tool_params",
        ToolErrorKind::Unknown => "tool_not_registered",
        ToolErrorKind::Denied => "policy_violation",
        ToolErrorKind::Cancelled => "execution_cancelled",
        ToolErrorKind::TimedOut => "execution_timeout",
        ToolErrorKind::Failed => "execution_failed",
    }
}

fn document(outcome: &Outcome, session_id: Id) -> Document<'_> {
    let warnings = outcome.warnings.iter().map(|warning| plain(warning)).collect();
    let (response, payload, error) = match &outcome.ending {
        Ending::Success(success) => {
            // A payload is a value, and its text is that value: nothing is taken out of it.
            let text = match &success.payload {
                Some(_) => Cow::Borrowed(success.text.as_str()),
                None => plain(&success.text),
            };
            (Some(text), success.payload.as_deref().map(Raw), None)
        }
        Ending::Failure(failure) => (None, None, Some(error_object(failure))),
    };
    Document {
        version: SCHEMA_VERSION,
        session_id: Uuid(session_id),
        stats: error.is_none().then(|| stats(&outcome.metrics)),
        response,
        structured_result: payload,
        error,
        warnings,
    }
}

fn result_line(outcome: &Outcome, timestamp: String) -> ResultLine<'_> {
    let (status, error, payload) = match &outcome.ending {
        Ending::Success(success) => (Status::Success, None, success.payload.as_deref()),
        Ending::Failure(failure) => (Status::Error, Some(error_object(failure)), None),
    };
    let response = match &outcome.ending {
        Ending::Success(success) if payload.is_some() => Some(success.text.as_str()),
        _ => None,
    };
    let models = &outcome.metrics.models;
    ResultLine {
        timestamp,
        status,
        error,
        stats: StreamStats {
            tokens: tokens(outcome.usage()),
            duration_ms: outcome.duration_ms,
            tool_calls: outcome.metrics.tools.values().map(|tool| tool.success + tool.fail).sum(),
            models: models.iter().map(|(name, model)| (name.as_str(), tokens(model.usage))).collect(),
        },
        response,
        structured_result: payload.map(Raw),
    }
}

fn tokens(usage: Usage) -> StreamTokens {
    StreamTokens {
        total_tokens: usage.total,
        input_tokens: usage.input,
        output_tokens: usage.output,
        cached: usage.cache_read,
        input: usage.input.saturating_sub(usage.cache_read),
    }
}

fn error_object(failure: &tenon_core::Failure) -> ErrorObject<'_> {
    ErrorObject {
        r#type: error_type(failure.class),
        message: plain(&failure.message),
        code: failure.exit_code(),
    }
}

fn error_type(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Turns => "MaxSessionTurnsError",
        ErrorClass::SchemaRetries => "MaxSchemaRetriesError",
        ErrorClass::Budget | ErrorClass::BudgetUsd => "BudgetExceededError",
        ErrorClass::Auth => "FatalAuthenticationError",
        ErrorClass::Input | ErrorClass::Usage => "FatalInputError",
        ErrorClass::Sandbox => "FatalSandboxError",
        ErrorClass::Config => "FatalConfigError",
        ErrorClass::Interrupted(_) => "FatalCancellationError",
        ErrorClass::Contract => "StructuredOutputError",
        ErrorClass::RateLimited | ErrorClass::Overloaded => "RetryableQuotaError",
        ErrorClass::Network | ErrorClass::Protocol => "ApiError",
        ErrorClass::Refused | ErrorClass::Truncated => "InvalidStreamError",
        ErrorClass::RepeatedCall => "LoopDetectedError",
        ErrorClass::Tool | ErrorClass::Output | ErrorClass::Internal => "Error",
    }
}
