//! What a person reads while a run goes on: stderr, one line at a time, never a payload.
//!
//! Lines are made from redacted events. Nothing else in the program prints to stderr.

use std::io::Write;

use tenon_core::{DurableEvent, Ending, Event, EventKind, Failure, Outcome};

pub use tenon_core::harmless;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Quiet,
    Normal,
    Verbose,
}

#[derive(Clone, Copy, Debug)]
pub struct Reporter {
    pub level: Level,
    /// Heartbeats are events in `stream-json`; elsewhere a person has only stderr.
    pub heartbeats: bool,
    pub is_terminal: bool,
}

impl Reporter {
    pub fn report(&self, event: &Event) {
        match &event.kind {
            EventKind::Warning { .. }
            | EventKind::RecordingDegraded { .. }
            | EventKind::Retrying { .. }
            | EventKind::ModelFallback { .. }
                if self.level >= Level::Normal => {}
            EventKind::Heartbeat if self.heartbeats => {}
            EventKind::ToolFinished(_)
            | EventKind::TurnFinished { .. }
            | EventKind::Compacted { .. }
            | EventKind::HookStarted(_)
            | EventKind::HookEnded(_)
                if self.level == Level::Verbose => {}
            _ => return,
        }
        self.show(&event.redact());
    }

    fn show(&self, event: &DurableEvent) {
        match &event.event().kind {
            EventKind::Warning { message } | EventKind::RecordingDegraded { message } => {
                line(&format!("warning: {message}"))
            }
            EventKind::Retrying { attempt, wait_ms, class, message, .. }
                if *attempt <= 2 || self.level == Level::Verbose =>
            {
                let seconds = *wait_ms as f64 / 1000.0;
                line(&format!("retry: attempt {attempt} in {seconds:.1} s after error[{class}]: {message}"));
            }
            EventKind::ModelFallback { from, to, status, .. } => {
                let answered = status.map(|status| format!(" (answered {status})")).unwrap_or_default();
                line(&format!(
                    "fallback: `{from}` cannot answer now{answered}; `{to}` is asked from here on"
                ));
            }
            EventKind::Heartbeat => line("heartbeat: the run goes on"),
            EventKind::ToolFinished(report) => {
                let verdict = if report.error.is_some() { "failed" } else { "done" };
                line(&format!("tool: {} {verdict} in {} ms", report.name, report.duration_ms));
            }
            EventKind::HookStarted(hook) => {
                let shown = hook.status_message.as_deref().unwrap_or(&hook.name);
                line(&format!("hook: {}: {shown}", hook.event.name()));
            }
            EventKind::HookEnded(hook) => line(&format!(
                "hook: {}: {} {} in {} ms",
                hook.event.name(),
                hook.name,
                hook.end.name(),
                hook.duration_ms
            )),
            EventKind::Compacted { before_tokens, after_tokens, .. } => {
                line(&format!("compacted: about {before_tokens} tokens to {after_tokens}"));
            }
            EventKind::TurnFinished { turn, usage } => {
                line(&format!("turn {turn}: {} tokens in, {} out", usage.input, usage.output));
            }
            _ => {}
        }
    }

    pub fn warn(&self, message: &str) {
        if self.level >= Level::Normal {
            line(&format!("warning: {message}"));
        }
    }

    pub fn note(&self, message: &str) {
        if self.level >= Level::Normal {
            line(message);
        }
    }

    /// The last words: why the run failed, or, for a person at a terminal, what it used.
    pub fn finish(&self, outcome: &Outcome) {
        match &outcome.ending {
            Ending::Failure(failure) => self.failure(failure),
            Ending::Success(_) if self.is_terminal && self.level >= Level::Normal => {
                let usage = outcome.usage();
                let cost = outcome.cost_usd.map_or("cost unknown".to_owned(), |cost| format!("${cost:.4}"));
                line(&format!(
                    "{} turns · {} tokens · {cost} · {:.1} s",
                    outcome.turns,
                    usage.total,
                    outcome.duration_ms as f64 / 1000.0
                ));
            }
            Ending::Success(_) => {}
        }
    }

    pub fn failure(&self, failure: &Failure) {
        line(&format!("error[{}]: {}", failure.class.name(), failure.message));
        if let Some(hint) = &failure.hint {
            line(&format!("hint: {hint}"));
        }
    }
}

/// Writes one line, in one piece: stdout may be on the same terminal. When stderr is gone there is nobody left to tell.
pub fn line(text: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{}\n", harmless(text)).as_bytes());
}

/// Text that moves the cursor on purpose; never anybody else's words.
pub fn draw(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
