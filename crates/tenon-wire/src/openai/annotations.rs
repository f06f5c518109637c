//! Tools, thoughts and news, as annotations.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tenon_core::{
    EventKind, Origin, PermissionAsk, TaskEnd, TaskStart, Timestamp, ToolCall, ToolDisplay as Drawing,
    ToolErrorKind, ToolProgress, ToolReport,
};

use super::annotation_types::{
    Annotation, Ansi, Channel, Confirmation, DiffStat, EventMetrics, LogScope, ResultDisplay, SessionEvent,
    Source, Span, StructuredPartial, Style, Terminal, Thought, Todo, ToolDisplay, ToolStatus,
};
use crate::cap::{capped, shown as plain_text};
use crate::values::{Raw, Uuid, plain};

/// What all annotations of one line have in common.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub session_id: Uuid,
    pub time: Timestamp,
}

/// A call as the model made it.
pub(super) fn pending(call: &ToolCall, place: Place) -> Annotation<'_> {
    shown(ToolDisplay {
        pending: true,
        arguments: Some(capped(&call.arguments)),
        ..display(&call.id, &call.name, ToolStatus::Pending, place)
    })
}

/// A call that waits until somebody agrees.
pub(super) fn asked(ask: &PermissionAsk, place: Place) -> Annotation<'_> {
    let kind = match ask.tool.as_str() {
        "run_shell_command" | "monitor" => "command",
        "edit" | "write_file" => "edit",
        tool if tool.starts_with("mcp__") => "mcp",
        _ => "info",
    };
    shown(ToolDisplay {
        confirmation: Some(Confirmation { kind, reason: &ask.reason, arguments: &ask.input }),
        pending: true,
        ..display(&ask.call_id, &ask.tool, ToolStatus::Confirming, place)
    })
}

pub(super) fn started<'a>(call_id: &'a str, name: &'a str, place: Place) -> Annotation<'a> {
    shown(display(call_id, name, ToolStatus::Executing, place))
}

pub(super) fn finished<'a>(report: &'a ToolReport, place: Place) -> Annotation<'a> {
    let status = match report.error {
        None => ToolStatus::Success,
        Some(ToolErrorKind::Cancelled) => ToolStatus::Canceled,
        Some(_) => ToolStatus::Error,
    };
    let drawn = match report.drawing.as_deref() {
        Some(drawing) => draw(drawing),
        None => ResultDisplay::String { text: plain_text(&report.content) },
    };
    shown(ToolDisplay {
        result_display: Some(drawn),
        ..display(&report.call_id, &report.name, status, place)
    })
}

fn display<'a>(call_id: &'a str, name: &'a str, status: ToolStatus, place: Place) -> ToolDisplay<'a> {
    ToolDisplay {
        tool_call_id: call_id,
        session_id: place.session_id,
        tool_name: name,
        status,
        result_display: None,
        confirmation: None,
        pending: false,
        arguments: None,
        timestamp: place.time.seconds(),
        log_scope: LogScope::Tool,
    }
}

fn shown(display: ToolDisplay<'_>) -> Annotation<'_> {
    Annotation::ToolDisplay(Box::new(display))
}

fn draw(drawing: &Drawing) -> ResultDisplay<'_> {
    match drawing {
        Drawing::FileDiff(diff) => ResultDisplay::FileDiff {
            file_name: &diff.file_name,
            diff: capped(&diff.diff),
            original: diff.original.as_deref().map(Cow::Borrowed),
            modified: diff.modified.as_deref().map(Cow::Borrowed),
            stat: DiffStat {
                ai_added_lines: diff.lines_added,
                ai_removed_lines: diff.lines_removed,
                user_added_lines: 0,
                user_removed_lines: 0,
            },
        },
        Drawing::TodoList(items) => ResultDisplay::TodoList {
            todos: items
                .iter()
                .map(|item| Todo { id: &item.id, content: &item.content, status: item.status.name() })
                .collect(),
        },
        Drawing::PlanSummary { plan } => ResultDisplay::PlanSummary { plan: plain_text(plan) },
        Drawing::TaskExecution(task) => ResultDisplay::TaskExecution {
            subagent_type: &task.subagent_type,
            description: &task.description,
            status: task.status.name(),
            result: task.result.as_deref().map(plain_text),
            tool_calls: task.tool_calls,
            total_tokens: task.usage.total,
            duration_ms: task.duration_ms,
        },
    }
}

/// The first line is what the thought is about.
pub(super) fn thought(text: &str) -> Annotation<'static> {
    let text = plain(text);
    let text = text.trim();
    let (subject, description) = text.split_once('\n').unwrap_or((text, ""));
    let subject = subject.trim().trim_matches('*').trim();
    Annotation::Thought(Thought {
        subject: Cow::Owned(subject.to_owned()),
        description: Cow::Owned(description.trim().to_owned()),
        log_scope: LogScope::Debug,
    })
}

/// How the content of this line belongs on a terminal.
pub(super) fn assistant_text(content: &str, ansi: Vec<Ansi>, prompt_id: &str) -> Annotation<'static> {
    let end = content.encode_utf16().count();
    Annotation::Terminal(Terminal {
        spans: vec![Span { start: 0, end, style: Style { theme_token: "Foreground" } }],
        ansi,
        ..terminal(Channel::Stdout, Source::Assistant, prompt_id)
    })
}

/// What a helper says, for the agent that asked it.
pub(super) fn helper_text<'a>(text: &str, prompt_id: &str) -> Annotation<'a> {
    Annotation::Terminal(Terminal {
        log_scope: LogScope::Tool,
        text: Some(Cow::Owned(capped(text).into_owned())),
        ..terminal(Channel::Stdout, Source::Tool, prompt_id)
    })
}

/// How far a tool is.
pub(super) fn progress(progress: &ToolProgress, prompt_id: &str) -> Annotation<'static> {
    const SECOND_MS: u64 = 1000;
    let text = match progress {
        ToolProgress::Shell { elapsed_ms, total_lines, .. } => {
            format!("running for {} s, {total_lines} lines so far", elapsed_ms / SECOND_MS)
        }
        ToolProgress::Steps { progress, total, message } => {
            let of = total.as_ref().map(|total| format!(" of {total}")).unwrap_or_default();
            let said = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
            format!("step {progress}{of}{said}")
        }
    };
    Annotation::Terminal(Terminal {
        log_scope: LogScope::Tool,
        text: Some(Cow::Owned(plain_text(&text).into_owned())),
        ..terminal(Channel::Stdout, Source::Tool, prompt_id)
    })
}

/// A line of our own, which people read on stderr as well.
pub(super) fn console<'a>(message: &'a str, level: &'static str, prompt_id: &str) -> Annotation<'a> {
    Annotation::Terminal(Terminal {
        console_level: Some(level),
        text: Some(plain_text(message)),
        ..terminal(Channel::Stderr, Source::Console, prompt_id)
    })
}

/// The end of the process.
pub(super) fn ended(exit_code: u8, prompt_id: &str) -> Annotation<'static> {
    Annotation::Terminal(Terminal {
        exit_code: Some(exit_code),
        ..terminal(Channel::Stdout, Source::System, prompt_id)
    })
}

fn terminal<'a>(channel: Channel, source: Source, prompt_id: &str) -> Terminal<'a> {
    Terminal {
        channel,
        source,
        spans: Vec::new(),
        ansi: Vec::new(),
        console_level: None,
        exit_code: None,
        prompt_id: prompt_id.to_owned(),
        log_scope: LogScope::System,
        text: None,
    }
}

/// News that are no part of the conversation; `None` where an event is none.
pub(super) fn news(kind: &EventKind) -> Option<Annotation<'_>> {
    let (event, message, metrics): (_, Cow<'_, str>, _) = match kind {
        EventKind::Retrying { attempt, wait_ms, class, message, .. } => {
            ("Retry", format!("{class}: {message}; attempt {attempt} follows in {wait_ms} ms").into(), None)
        }
        EventKind::ModelFallback { from, to, .. } => {
            ("ModelFallback", format!("`{from}` could not answer; `{to}` is asked from here on").into(), None)
        }
        EventKind::Compacted { before_tokens, after_tokens, .. } => (
            "ChatCompressed",
            "Older parts of the conversation were replaced by a summary.".into(),
            Some(EventMetrics { original_tokens: *before_tokens, compressed_tokens: *after_tokens }),
        ),
        EventKind::TaskStarted(TaskStart { task_id, description, .. }) => {
            ("TaskStarted", format!("{task_id}: {description}").into(), None)
        }
        EventKind::TaskEnded(TaskEnd { task_id, status, summary, .. }) => {
            ("TaskFinished", format!("{task_id} ({}): {summary}", status.name()).into(), None)
        }
        // Who asked knows what was asked.
        EventKind::UserMessage { origin: Origin::Prompt, .. } => return None,
        EventKind::UserMessage { text, .. } => ("Notification", plain_text(text), None),
        _ => return None,
    };
    Some(session_event(event, message, metrics))
}

pub(super) fn session_event<'a>(
    event: &'static str,
    message: Cow<'a, str>,
    metrics: Option<EventMetrics>,
) -> Annotation<'a> {
    Annotation::SessionEvent(SessionEvent { event, message, metrics, log_scope: LogScope::System })
}

/// The payload so far.
pub(super) fn partial<'a>(call_id: &'a str, snapshot: &'a RawValue) -> Annotation<'a> {
    Annotation::StructuredPartial(StructuredPartial {
        tool_call_id: call_id,
        snapshot: Raw(snapshot),
        complete: false,
        log_scope: LogScope::Debug,
    })
}
