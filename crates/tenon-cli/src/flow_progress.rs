//! What a person sees of a workflow while it runs: on a terminal one line for each step under way, drawn again and again below
//! the steps that are over; elsewhere a line when a step starts and one when it ends. Loops that go round often are counted. Never
//! a payload.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenon_flow::{
    CallPhase, FlowEvent, FlowEventData, MessageLevel, Report, ReportStatus, StepReport, StepStatus,
    TurnPhase, WorkflowOutcome, WorkflowStatus,
};

use crate::args::OutputFormat;
use crate::flow_drawing::{Bar, Counted, Running, cleared, drawing, size};
use crate::stderr::{self, Level, Reporter, line};

/// Times are shown in seconds.
const TICK: Duration = Duration::from_secs(1);
/// More would only flicker.
const MIN_BETWEEN_DRAWINGS: Duration = Duration::from_millis(80);

pub struct Progress {
    reporter: Reporter,
    style: Style,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Silent,
    Lines,
    /// Drawn again in place.
    Live,
}

#[derive(Default)]
struct State {
    running: BTreeMap<String, Running>,
    /// In the order in which steps started.
    next: u64,
    /// Lines that are drawn now.
    drawn: Vec<String>,
    drawn_at: Option<Instant>,
}

impl Progress {
    /// `format` is what stdout is written in.
    pub fn new(reporter: Reporter, format: OutputFormat) -> Progress {
        let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        // A terminal that cannot move its cursor says so by this name.
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        // Lines that come between two drawings would be taken for part of the first.
        let is_between = match format {
            OutputFormat::Text | OutputFormat::Json => false,
            OutputFormat::StreamJson | OutputFormat::StreamChunkJson => std::io::stdout().is_terminal(),
        };
        let can_draw = reporter.is_terminal && !is_ci && !is_dumb && !is_between;
        let style = match (reporter.level, can_draw) {
            (Level::Quiet, _) => Style::Silent,
            // A line for everything would be drawn over.
            (Level::Normal, true) => Style::Live,
            (Level::Normal | Level::Verbose, _) => Style::Lines,
        };
        Progress { reporter, style, state: Mutex::default() }
    }

    /// Draws the seconds as they pass. It ends with the run.
    pub async fn tick(self: Arc<Self>) {
        if self.style != Style::Live {
            return;
        }
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            self.draw(&mut self.state());
        }
    }

    pub fn see(&self, event: &FlowEvent) {
        let step = event.step_id.as_deref().unwrap_or_default();
        let mut state = self.state();
        match &event.data {
            FlowEventData::WorkflowStart(start) => {
                let plural = if start.total == 1 { "" } else { "s" };
                let resumed = if start.resumed { ", resumed" } else { "" };
                let said = format!("workflow `{}`: {} step{plural}{resumed}", start.name, start.total);
                self.say(&mut state, &said);
            }
            FlowEventData::StepStart(start) => {
                let bar = if start.items.is_some() { Bar::Drawn } else { Bar::None };
                let told_at = Instant::now();
                let counted =
                    start.items.or(start.max_iterations).map(|of| Counted { done: 0, of, bar, told_at });
                let agent = event.agent.clone();
                if self.style == Style::Lines && self.is_told(&state, step) {
                    let by = agent.as_deref().map(|agent| format!(" ({agent})")).unwrap_or_default();
                    self.say(&mut state, &format!("step {step}: started{by}"));
                }
                let order = state.next;
                state.next += 1;
                let (since, doing) = (Instant::now(), String::new());
                state.running.insert(step.to_owned(), Running { order, agent, since, counted, doing });
            }
            FlowEventData::StepProgress(progress) => {
                let counted = state.running.get_mut(step).and_then(|it| it.counted.as_mut());
                let is_told = counted.is_some_and(|it| it.come(progress.done, progress.of));
                if self.style == Style::Lines && (is_told || self.reporter.level == Level::Verbose) {
                    self.say(&mut state, &format!("step {step}: {} of {}", progress.done, progress.of));
                }
            }
            FlowEventData::StepEnd(report) => {
                let counted = state.running.remove(step).and_then(|it| it.counted);
                if self.is_told(&state, step) || report.status == ReportStatus::Ended(StepStatus::Failed) {
                    self.say(&mut state, &ended(step, report, counted));
                }
            }
            FlowEventData::StepRestored(report) => {
                if self.is_told(&state, step) {
                    self.say(&mut state, &format!("step {step}: {} before", report.status.name()));
                }
            }
            FlowEventData::StepSkipped(skipped) => {
                if self.is_told(&state, step) {
                    let (status, why) = (skipped.status.name(), &skipped.message);
                    self.say(&mut state, &format!("step {step}: {status} ({why})"));
                }
            }
            FlowEventData::StepSuspended(question) => {
                self.does(&mut state, step, "waits for an approval".to_owned());
                self.say(&mut state, &format!("step {step}: asks for an approval: {}", question.message));
            }
            FlowEventData::AgentTurn(turn) => {
                let doing = match turn.phase {
                    TurnPhase::Request => format!("asks {}", turn.model),
                    TurnPhase::Response => String::new(),
                };
                self.does(&mut state, step, doing);
                if let (Level::Verbose, Some(usage)) = (self.reporter.level, turn.usage) {
                    let used = format!("{} tokens in, {} out", usage.input, usage.output);
                    self.say(&mut state, &format!("{}turn {}: {used}", agent_of(event), turn.turn));
                }
            }
            FlowEventData::ToolCall(call) => {
                match call.phase {
                    CallPhase::Start => self.does(&mut state, step, format!("runs {}", call.tool_name)),
                    CallPhase::End => self.does(&mut state, step, String::new()),
                }
                if self.reporter.level == Level::Verbose && call.phase == CallPhase::End {
                    let verdict = if call.is_error == Some(true) { "failed" } else { "done" };
                    let ms = call.duration_ms.unwrap_or_default();
                    let who = agent_of(event);
                    self.say(&mut state, &format!("{who}{} {verdict} in {ms} ms", call.tool_name));
                }
            }
            FlowEventData::Message(message) => {
                let warning = match message.level {
                    MessageLevel::Note => "",
                    MessageLevel::Warning => "warning: ",
                };
                self.say(&mut state, &format!("{warning}{}{}", of_step(step), message.text));
            }
            FlowEventData::Error(error) => {
                let again = match error.retry_after_ms {
                    Some(0) => "; it is tried again".to_owned(),
                    Some(ms) => format!("; it is tried again in {:.1} s", ms as f64 / 1000.0),
                    None => String::new(),
                };
                let step = match (error.item, error.retry_after_ms.and(error.iteration)) {
                    (Some(item), _) => format!("{step}[{item}]"),
                    (None, Some(iteration)) => format!("{step}.{iteration}"),
                    (None, None) => step.to_owned(),
                };
                self.say(&mut state, &format!("warning: {}{}{again}", of_step(&step), error.error.message));
            }
            FlowEventData::MessageSent(sent) if self.reporter.level == Level::Verbose => {
                self.say(&mut state, &format!("{}wrote {} to {}", of_step(step), sent.id, sent.to));
            }
            FlowEventData::AgentInboxDrain(read) if self.reporter.level == Level::Verbose => {
                self.say(&mut state, &format!("{}read {} from {}", of_step(step), read.id, read.from));
            }
            FlowEventData::MessageDropped(dropped) => {
                let reason = dropped.reason.name();
                let text =
                    format!("{}{} to {} was not read: {reason}", of_step(step), dropped.id, dropped.to);
                self.say(&mut state, &format!("warning: {text}"));
            }
            FlowEventData::CoordinatorNarration(told) => {
                self.say(&mut state, &format!("coordinator: {}", told.text));
            }
            FlowEventData::CoordinatorSynthesis(told) => {
                self.say(&mut state, &format!("coordinator: {}", told.summary));
            }
            FlowEventData::MessageSent(_)
            | FlowEventData::AgentInboxDrain(_)
            | FlowEventData::AgentIdle(_)
            | FlowEventData::AgentWake(_)
            | FlowEventData::MaxWakeCyclesWarning(_)
            | FlowEventData::CoordinatorInboxMessage(_) => {}
            FlowEventData::WorkflowEnd(report) => self.end(&mut state, report),
            FlowEventData::PlanReady(_) | FlowEventData::Output(_) | FlowEventData::Hook(_) => {}
        }
        self.draw(&mut state);
    }

    /// The last words: why it failed, whatever the level, or what it used.
    pub fn finish(&self, outcome: Option<&WorkflowOutcome>) {
        self.clear(&mut self.state());
        let Some(outcome) = outcome.filter(|outcome| outcome.status == WorkflowStatus::Completed) else {
            return;
        };
        if self.reporter.is_terminal && self.reporter.level >= Level::Normal {
            let cost = outcome.spent.cost_usd.map_or("cost unknown".to_owned(), |cost| format!("${cost:.4}"));
            let seconds = outcome.duration_ms as f64 / 1000.0;
            line(&format!("{} tokens · {cost} · {seconds:.1} s", outcome.spent.usage.total));
        }
    }

    /// A run that did not complete says so, also to those who want to hear of errors only.
    fn end(&self, state: &mut State, report: &Report) {
        self.clear(state);
        state.running.clear();
        if report.status == WorkflowStatus::Completed {
            return;
        }
        let counts = counts(report);
        if !counts.is_empty() {
            line(&format!("workflow {}: {counts}", report.status.name().replace('_', " ")));
        }
        if let Some(error) = &report.error {
            line(&format!("error[{}]: {}", error.class, error.message));
            if let Some(hint) = &error.hint {
                line(&format!("hint: {hint}"));
            }
        }
    }

    fn does(&self, state: &mut State, step: &str, doing: String) {
        if let Some(running) = state.running.get_mut(step) {
            running.doing = doing;
        }
    }

    /// What is inside a loop that goes round often is counted, but for what fails, and told only to those who want to hear
    /// everything.
    fn is_told(&self, state: &State, step: &str) -> bool {
        let around = step.match_indices(['.', '[']).map(|(end, _)| &step[..end]);
        let mut loops =
            around.filter_map(|step| state.running.get(step).and_then(|running| running.counted.as_ref()));
        self.reporter.level == Level::Verbose || loops.all(Counted::is_told_one_by_one)
    }

    /// A line that stays.
    fn say(&self, state: &mut State, text: &str) {
        if self.style == Style::Silent {
            return;
        }
        self.clear(state);
        line(text);
    }

    fn clear(&self, state: &mut State) {
        if !state.drawn.is_empty() {
            stderr::draw(&cleared(&std::mem::take(&mut state.drawn), size()));
            state.drawn_at = None;
        }
    }

    fn draw(&self, state: &mut State) {
        let is_soon = state.drawn_at.is_some_and(|at| at.elapsed() < MIN_BETWEEN_DRAWINGS);
        if self.style != Style::Live || is_soon {
            return;
        }
        let size = size();
        let lines = drawing(&state.running, size);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        // In one piece, so that it does not flicker.
        stderr::draw(&format!("{}{text}", cleared(&state.drawn, size)));
        // The first step is shown at once.
        state.drawn_at = (!lines.is_empty()).then(Instant::now);
        state.drawn = lines;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `counted` is how far it has come, if it is a loop.
fn ended(step: &str, report: &StepReport, counted: Option<Counted>) -> String {
    let seconds = report.duration_ms as f64 / 1000.0;
    let come = match (report.status, counted) {
        (ReportStatus::Ended(StepStatus::Completed), _) | (_, None) => String::new(),
        (_, Some(Counted { done, of, .. })) => format!(" ({done} of {of})"),
    };
    match (&report.error, report.status) {
        (Some(error), ReportStatus::Ended(StepStatus::Failed)) => {
            format!("step {step}: failed after {seconds:.1} s{come}{}: {}", cost(report), error.message)
        }
        (_, status) => format!("step {step}: {} in {seconds:.1} s{come}{}", status.name(), cost(report)),
    }
}

/// What the step cost, over all attempts, where it cost anything.
fn cost(report: &StepReport) -> String {
    match report.cost {
        Some(cost) if cost > 0.0 => format!(" · ${cost:.4}"),
        Some(_) => String::new(),
        None => " · cost unknown".to_owned(),
    }
}

/// Whose agent it is: a step's, or the coordinator.
fn agent_of(event: &FlowEvent) -> String {
    match (event.step_id.as_deref(), event.agent.as_deref()) {
        (None, Some(agent)) => format!("{agent}: "),
        (step, _) => of_step(step.unwrap_or_default()),
    }
}

fn of_step(step: &str) -> String {
    if step.is_empty() { String::new() } else { format!("step {step}: ") }
}

/// `2 completed, 1 failed`
fn counts(report: &Report) -> String {
    let ended = [StepStatus::Completed, StepStatus::Failed, StepStatus::Cancelled, StepStatus::Skipped];
    let all =
        ended.map(ReportStatus::Ended).into_iter().chain([ReportStatus::Suspended, ReportStatus::Waiting]);
    let counted = all.filter_map(|status| {
        let n = report.steps.0.iter().filter(|(_, step)| step.status == status).count();
        (n > 0).then(|| format!("{n} {}", status.name()))
    });
    let counted = counted.collect::<Vec<_>>().join(", ");
    let is_done = |step: &StepReport| {
        let ReportStatus::Ended(status) = step.status else { return false };
        matches!(status, StepStatus::Completed | StepStatus::Skipped)
    };
    // A run whose steps are all done fails by what it was to give back.
    let by_outputs =
        report.status == WorkflowStatus::Failed && report.steps.0.iter().all(|(_, step)| is_done(step));
    if by_outputs && !counted.is_empty() { format!("{counted}, but its `outputs` failed") } else { counted }
}
