//! What a person sees of a workflow while it runs: on a terminal one line for each step under way, drawn again and again below
//! the steps that are over; elsewhere a line when a step starts and one when it ends. Never a payload.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenon_flow::{
    CallPhase, FlowEvent, FlowEventData, MessageLevel, Report, ReportStatus, StepReport, StepStatus,
    TurnPhase, WorkflowOutcome, WorkflowStatus,
};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::stderr::{Level, Reporter, harmless, line};
use crate::sys::{self, TerminalSize};

/// Times are shown in seconds.
const TICK: Duration = Duration::from_secs(1);
/// More would only flicker.
const MIN_BETWEEN_DRAWINGS: Duration = Duration::from_millis(80);
/// Lines that are drawn at once: more than a glance takes in.
const MAX_LINES: usize = 12;
/// Of the screen, for what stays above the drawing and for the line of the cursor below it: what has left the screen cannot be
/// drawn again.
const OTHER_LINES: usize = 2;
/// Of a bar: a tenth each.
const BAR_CELLS: usize = 10;
/// Where the size of a terminal is not known.
const USUAL_SIZE: TerminalSize = TerminalSize { columns: 80, lines: 24 };

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
    drawn: usize,
    drawn_at: Option<Instant>,
}

struct Running {
    order: u64,
    agent: Option<String>,
    since: Instant,
    /// Of a loop: how many rounds or items are over.
    counted: Option<Counted>,
    doing: String,
}

#[derive(Clone, Copy)]
struct Counted {
    done: u32,
    of: u32,
    bar: Bar,
}

/// How far a loop has come is known of items, which are all done in the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bar {
    Drawn,
    None,
}

impl Progress {
    pub fn new(reporter: Reporter) -> Progress {
        let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        // A terminal that cannot move its cursor says so by this name.
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        let style = match (reporter.level, reporter.is_terminal && !is_ci && !is_dumb) {
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
                let counted = start.items.or(start.max_iterations).map(|of| Counted { done: 0, of, bar });
                let agent = event.agent.clone();
                if self.style == Style::Lines && self.is_told(step) {
                    let by = agent.as_deref().map(|agent| format!(" ({agent})")).unwrap_or_default();
                    self.say(&mut state, &format!("step {step}: started{by}"));
                }
                let order = state.next;
                state.next += 1;
                let (since, doing) = (Instant::now(), String::new());
                state.running.insert(step.to_owned(), Running { order, agent, since, counted, doing });
            }
            FlowEventData::StepProgress(progress) => {
                if let Some(counted) = state.running.get_mut(step).and_then(|it| it.counted.as_mut()) {
                    (counted.done, counted.of) = (progress.done, progress.of);
                }
                if self.style == Style::Lines && self.reporter.level == Level::Verbose {
                    self.say(&mut state, &format!("step {step}: {} of {}", progress.done, progress.of));
                }
            }
            FlowEventData::StepEnd(report) => {
                state.running.remove(step);
                if self.is_told(step) || report.status != ReportStatus::Ended(StepStatus::Completed) {
                    self.say(&mut state, &ended(step, report));
                }
            }
            FlowEventData::StepRestored(report) => {
                if self.is_told(step) {
                    self.say(&mut state, &format!("step {step}: {} before", report.status.name()));
                }
            }
            FlowEventData::StepSkipped(skipped) => {
                self.say(
                    &mut state,
                    &format!("step {step}: {} ({})", skipped.status.name(), skipped.message),
                );
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
            FlowEventData::PlanReady(_) | FlowEventData::Output(_) => {}
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

    /// Items of a loop are many: those that go well are counted, and told only to those who want to hear everything.
    fn is_told(&self, step: &str) -> bool {
        self.reporter.level == Level::Verbose || !step.contains('[')
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
        if state.drawn > 0 {
            // Up to the first line of the drawing, and everything below it away.
            let _ = write!(std::io::stderr().lock(), "\x1b[{}A\r\x1b[J", state.drawn);
            state.drawn = 0;
            state.drawn_at = None;
        }
    }

    fn draw(&self, state: &mut State) {
        let is_soon = state.drawn_at.is_some_and(|at| at.elapsed() < MIN_BETWEEN_DRAWINGS);
        if self.style != Style::Live || is_soon {
            return;
        }
        self.clear(state);
        let size = sys::terminal_size(sys::Terminal::Stderr).unwrap_or(USUAL_SIZE);
        let text = drawing(state, size);
        state.drawn = text.len();
        // The first step is shown at once.
        state.drawn_at = (state.drawn > 0).then(Instant::now);
        let mut stderr = std::io::stderr().lock();
        for shown in text {
            // When stderr is gone there is nobody left to tell.
            let _ = writeln!(stderr, "{shown}");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line for each step under way, none longer than the screen is wide, and not more than it is high.
fn drawing(state: &State, size: TerminalSize) -> Vec<String> {
    let mut steps: Vec<(&String, &Running)> = state.running.iter().collect();
    let count = steps.len();
    let room = size.lines.saturating_sub(OTHER_LINES).clamp(1, MAX_LINES + 1);
    // The last line may be needed to say how many there are besides.
    let shown = if count <= room.min(MAX_LINES) { count } else { room - 1 };
    let more = count - shown;
    // The line of a loop stands for all that runs in it: it is the last to go.
    steps.sort_by_key(|(_, running)| (running.counted.is_none(), running.order));
    steps.truncate(shown);
    steps.sort_by_key(|(_, running)| running.order);
    // One less: a line that fills the last column makes some terminals go to the next.
    let width = size.columns.saturating_sub(1);
    let mut lines: Vec<String> = steps.iter().map(|(step, running)| line_of(step, running, width)).collect();
    if more > 0 {
        let besides = if shown == 0 { format!("… {more} steps") } else { format!("… and {more} more") };
        lines.push(cut(&besides, width));
    }
    lines
}

/// What does not fit is left out: what the step is doing, then its bar, its agent, and the middle of its name. How far it has
/// come and how long it takes is always there.
fn line_of(step: &str, running: &Running, width: usize) -> String {
    let plain = |text: &str| harmless(text).replace('\n', " ");
    let step = plain(step);
    let agent = running.agent.as_deref().map(|agent| format!(" ({})", plain(agent))).unwrap_or_default();
    let bar = match running.counted {
        Some(Counted { done, of, bar: Bar::Drawn }) if of > 0 => {
            let full = (u64::from(done) * BAR_CELLS as u64 / u64::from(of)) as usize;
            format!(" [{}{}]", "#".repeat(full), ".".repeat(BAR_CELLS.saturating_sub(full)))
        }
        _ => String::new(),
    };
    let count = running.counted.map(|it| format!(" {}/{}", it.done, it.of)).unwrap_or_default();
    let come = format!("{count} {} s", running.since.elapsed().as_secs());
    let doing = match running.doing.as_str() {
        "" => String::new(),
        doing => format!(" · {}", plain(doing)),
    };
    for (agent, bar) in [(agent.as_str(), bar.as_str()), (agent.as_str(), ""), ("", "")] {
        let line = format!("… {step}{agent}{bar}{come}");
        if line.width() <= width {
            return cut(&format!("{line}{doing}"), width);
        }
    }
    let room = width.saturating_sub("… ".width() + come.width());
    cut(&format!("… {}{come}", shortened(&step, room)), width)
}

/// As much as fits into so many columns.
fn cut(text: &str, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or_default();
        used <= width
    };
    text.chars().take_while(fits).collect()
}

/// Without its middle: ids of steps differ at their ends.
fn shortened(name: &str, width: usize) -> String {
    if name.width() <= width {
        return name.to_owned();
    }
    let tail_width = width.saturating_sub(1) / 2;
    let reversed: String = name.chars().rev().collect();
    let tail: String = cut(&reversed, tail_width).chars().rev().collect();
    cut(&format!("{}…{tail}", cut(name, width.saturating_sub(1 + tail.width()))), width)
}

fn ended(step: &str, report: &StepReport) -> String {
    let seconds = report.duration_ms as f64 / 1000.0;
    match (&report.error, report.status) {
        (Some(error), ReportStatus::Ended(StepStatus::Failed)) => {
            format!("step {step}: failed after {seconds:.1} s{}: {}", cost(report), error.message)
        }
        (_, status) => format!("step {step}: {} in {seconds:.1} s{}", status.name(), cost(report)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_a_line_for_each_step_and_an_end() {
        let mut state = State::default();
        for n in 0..15_u64 {
            state.running.insert(
                format!("step{n}"),
                Running {
                    order: n,
                    agent: Some("coder".into()),
                    since: Instant::now(),
                    counted: (n == 1 || n == 2).then_some(Counted {
                        done: 3,
                        of: 10,
                        bar: if n == 1 { Bar::Drawn } else { Bar::None },
                    }),
                    doing: if n == 0 { "runs \x1b[31mbash".into() } else { String::new() },
                },
            );
        }
        let size = |columns, lines| TerminalSize { columns, lines };
        let lines = drawing(&state, size(40, 50));
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines[0], "… step0 (coder) 0 s · runs \\u{1b}[31mba");
        assert_eq!(lines[1], "… step1 (coder) [###.......] 3/10 0 s");
        assert_eq!(lines[2], "… step2 (coder) 3/10 0 s");
        assert_eq!(lines[MAX_LINES], "… and 3 more");
        assert!(lines.iter().all(|line| line.chars().count() < 40));
        for (height, last) in
            [(14, "… and 4 more"), (6, "… and 12 more"), (3, "… 15 steps"), (1, "… 15 steps")]
        {
            let lines = drawing(&state, size(40, height));
            assert_eq!(lines.last().unwrap(), last);
            assert!(lines.len() <= height.saturating_sub(OTHER_LINES).max(1), "{height}");
        }
        let lines = drawing(&state, size(80, 5));
        assert_eq!(lines[..2], ["… step1 (coder) [###.......] 3/10 0 s", "… step2 (coder) 3/10 0 s"]);
        state.running.retain(|_, running| running.order < 4);
        assert_eq!(drawing(&state, size(80, 6)).len(), 4);
        assert!(drawing(&state, size(1, 1)).iter().all(String::is_empty));
    }

    /// Whatever stands in a line, it fits the screen, and what has been done is the last to go.
    #[test]
    fn a_line_fits_and_keeps_its_count() {
        let running = |agent: &str, doing: &str| Running {
            order: 0,
            agent: Some(agent.into()),
            since: Instant::now(),
            counted: Some(Counted { done: 7, of: 12, bar: Bar::Drawn }),
            doing: doing.into(),
        };
        let long = format!("{}.{}", "a".repeat(64), "z".repeat(64));
        for (step, agent, doing, width, wanted) in [
            ("each", "coder", "asks m", 60, "… each (coder) [#####.....] 7/12 0 s · asks m"),
            ("each", "coder", "asks 模型模型", 48, "… each (coder) [#####.....] 7/12 0 s · asks 模型"),
            ("each", "coder", "asks 模型模型", 49, "… each (coder) [#####.....] 7/12 0 s · asks 模型"),
            ("each", "coder", "asks m", 30, "… each (coder) 7/12 0 s · asks"),
            ("each", "coder", "asks m", 19, "… each 7/12 0 s · a"),
            (long.as_str(), "coder", "asks m", 19, "… aaaa…zzz 7/12 0 s"),
            ("项目项目项目", "coder", "asks m", 19, "… 项目…目 7/12 0 s"),
            (long.as_str(), "coder", "asks m", 5, "…  7/"),
        ] {
            let line = line_of(step, &running(agent, doing), width);
            assert_eq!(line, wanted, "{width}");
            assert!(line.width() <= width, "{line}");
        }
    }
}
