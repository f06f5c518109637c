//! Tools, thoughts and news, as annotations.

use std::borrow::Cow;

use tenon_core::{
    EventKind, Origin, PermissionAsk, TaskEnd, TaskStart, Timestamp, ToolDisplay as Drawing, ToolErrorKind,
    ToolReport,
};

use super::types::Ansi;
use super::types::{
    Annotation, Channel, Confirmation, DiffStat, EventMetrics, LogScope, ResultDisplay, SessionEvent, Source,
    Span, Style, Terminal, Thought, Todo, ToolDisplay, ToolStatus,
};
use crate::cap::capped;
use crate::values::Uuid;

/// What all annotations of one line have in common.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub session_id: Uuid,
    pub time: Timestamp,
}

/// A call that waits until somebody agrees.
pub(super) fn asked(ask: &PermissionAsk, place: Place) -> Annotation<'_> {
    Annotation::ToolDisplay(Box::new(ToolDisplay {
        tool_call_id: &ask.call_id,
        session_id: place.session_id,
        tool_name: &ask.tool,
        status: ToolStatus::Confirming,
        result_display: None,
        confirmation: Some(Confirmation { reason: &ask.reason, arguments: &ask.input }),
        pending: true,
        timestamp: place.time.seconds(),
        log_scope: LogScope::Tool,
    }))
}

pub(super) fn started<'a>(call_id: &'a str, name: &'a str, place: Place) -> Annotation<'a> {
    Annotation::ToolDisplay(Box::new(ToolDisplay {
        tool_call_id: call_id,
        session_id: place.session_id,
        tool_name: name,
        status: ToolStatus::Executing,
        result_display: None,
        confirmation: None,
        pending: false,
        timestamp: place.time.seconds(),
        log_scope: LogScope::Tool,
    }))
}

pub(super) fn finished<'a>(report: &'a ToolReport, place: Place) -> Annotation<'a> {
    let status = match report.error {
        None => ToolStatus::Success,
        Some(ToolErrorKind::Cancelled) => ToolStatus::Canceled,
        Some(_) => ToolStatus::Error,
    };
    let display = match report.drawing.as_deref() {
        Some(drawing) => draw(drawing),
        None => ResultDisplay::String { text: capped(&report.content) },
    };
    Annotation::ToolDisplay(Box::new(ToolDisplay {
        tool_call_id: &report.call_id,
        session_id: place.session_id,
        tool_name: &report.name,
        status,
        result_display: Some(display),
        confirmation: None,
        pending: false,
        timestamp: place.time.seconds(),
        log_scope: LogScope::Tool,
    }))
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
        Drawing::PlanSummary { plan } => ResultDisplay::PlanSummary { plan: capped(plan) },
        Drawing::TaskExecution(task) => ResultDisplay::TaskExecution {
            subagent_type: &task.subagent_type,
            description: &task.description,
            status: task.status.name(),
            result: task.result.as_deref().map(capped),
            tool_calls: task.tool_calls,
            total_tokens: task.usage.total,
            duration_ms: task.duration_ms,
        },
    }
}

/// The first line is what the thought is about.
pub(super) fn thought(text: &str) -> Annotation<'static> {
    let text = text.trim();
    let (subject, description) = text.split_once('\n').unwrap_or((text, ""));
    let subject = subject.trim().trim_matches('*').trim();
    Annotation::Thought(Thought {
        subject: Cow::Owned(subject.to_owned()),
        description: Cow::Owned(description.trim().to_owned()),
    })
}

/// How the content of this line belongs on a terminal.
pub(super) fn assistant_text(content: &str, ansi: Vec<Ansi>, prompt_id: &str) -> Annotation<'static> {
    let end = content.encode_utf16().count();
    Annotation::Terminal(Terminal {
        channel: Channel::Stdout,
        source: Source::Assistant,
        spans: vec![Span { start: 0, end, style: Style { theme_token: "Foreground" } }],
        ansi,
        console_level: None,
        exit_code: None,
        prompt_id: prompt_id.to_owned(),
        log_scope: LogScope::System,
        text: None,
    })
}

/// A line of our own, which people read on stderr as well.
pub(super) fn console<'a>(message: &'a str, level: &'static str, prompt_id: &str) -> Annotation<'a> {
    Annotation::Terminal(Terminal {
        channel: Channel::Stderr,
        source: Source::Console,
        spans: Vec::new(),
        ansi: Vec::new(),
        console_level: Some(level),
        exit_code: None,
        prompt_id: prompt_id.to_owned(),
        log_scope: LogScope::System,
        text: Some(capped(message)),
    })
}

/// The end of the process.
pub(super) fn ended(exit_code: u8, prompt_id: &str) -> Annotation<'static> {
    Annotation::Terminal(Terminal {
        channel: Channel::Stdout,
        source: Source::System,
        spans: Vec::new(),
        ansi: Vec::new(),
        console_level: None,
        exit_code: Some(exit_code),
        prompt_id: prompt_id.to_owned(),
        log_scope: LogScope::System,
        text: None,
    })
}

/// News that are no part of the conversation; `None` where an event is none.
pub(super) fn news(kind: &EventKind) -> Option<Annotation<'_>> {
    let (event, message, metrics): (_, Cow<'_, str>, _) = match kind {
        EventKind::Retrying { attempt, wait_ms, class, message } => {
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
        EventKind::UserMessage { text, .. } => ("Notification", capped(text), None),
        _ => return None,
    };
    Some(Annotation::SessionEvent(SessionEvent { event, message, metrics }))
}
