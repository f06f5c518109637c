//! When everything happened: a row for each step, a bar for each attempt, on one line of time, without the time in which nobody ran
//! the run.

use std::fmt::Write as _;

use tenon_core::Timestamp;

use super::Look;
use super::html::{duration, number, text};
use super::steps::{anchor, most_of};
use crate::{Pauses, RunState, RunStep, RunView, StepStatus, ViewStatus};

/// More rows than this nobody looks through; the steps below are all there.
const MAX_ROWS: usize = 300;
/// Marks on the line of time.
const MARKS: u64 = 4;
/// In percent: what took no time is still seen.
const LEAST_WIDTH: f64 = 0.4;

pub(super) fn section(page: &mut String, view: &RunView) {
    let Some(line) = Line::of(view) else { return };
    // A `String` takes everything.
    let _ = write!(
        page,
        "<section aria-labelledby=\"time-heading\">\n<h2 id=\"time-heading\">Time</h2>\n\
         <div class=\"scroll\" role=\"region\" aria-labelledby=\"time-heading\" tabindex=\"0\">\n<table class=\"time\">\n\
         <thead><tr><th scope=\"col\">Step</th><th scope=\"col\"><span class=\"hidden\">When</span>{}</th>\
         <th scope=\"col\" class=\"right\">Took</th></tr></thead>\n<tbody>\n",
        line.marks()
    );
    let begun = view.steps.iter().enumerate().filter(|(_, step)| step.started.is_some());
    let (shown, more) = most_of(begun, MAX_ROWS);
    for (index, step) in shown {
        row(page, index, step, &line);
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
    if more > 0 {
        let rows = if more == 1 { "row is" } else { "rows are" };
        let _ = writeln!(page, "<p class=\"note\">{} more {rows} not shown.</p>", number(more as u64));
    }
    if view.pauses.total_ms() > 0 {
        let left_out = duration(view.pauses.total_ms());
        let _ = writeln!(page, "<p class=\"note\">{left_out} in which nobody ran it are left out.</p>");
    }
    page.push_str("</section>\n");
}

fn row(page: &mut String, index: usize, step: &RunStep, line: &Line<'_>) {
    let Some(started) = step.started.map(|at| line.at(at)) else { return };
    let ended = step.ended.map_or(line.end, |at| line.at(at));
    let last = Look::of(step.status).class;
    let mut bars = String::new();
    if step.attempts.is_empty() {
        line.bar(&mut bars, started, ended, &format!("whole {last}"), step.status.name());
    }
    for (number, attempt) in step.attempts.iter().enumerate() {
        let is_last = number + 1 == step.attempts.len();
        let class = match (is_last, &attempt.error) {
            (true, _) => last,
            (false, Some(_)) => Look::of(ViewStatus::Ended(StepStatus::Failed)).class,
            (false, None) => Look::of(ViewStatus::Unfinished).class,
        };
        let (from, until) = (line.at(attempt.started), attempt.ended.map_or(ended, |at| line.at(at)));
        let about = format!("attempt {}, {}", attempt.number, duration(until.saturating_sub(from)));
        line.bar(&mut bars, from, until, class, &about);
    }
    let took = step.took_ms().unwrap_or(ended.saturating_sub(started));
    let (depth, took) = (step.depth().min(6), duration(took));
    let _ = writeln!(
        page,
        "<tr><th scope=\"row\" class=\"depth{depth}\"><a href=\"#{}\">{}</a></th>\
         <td class=\"lane\"><svg width=\"100%\" height=\"16\" role=\"img\" aria-label=\"from {} to {}\">{bars}</svg></td>\
         <td class=\"right\">{took}</td></tr>",
        anchor(index),
        text(&step.id),
        duration(started.saturating_sub(line.begin)),
        duration(ended.saturating_sub(line.begin)),
    );
}

/// When the last thing happened that is known.
pub(super) fn last(view: &RunView) -> Timestamp {
    moments(view).max().unwrap_or(Timestamp(0))
}

fn moments(view: &RunView) -> impl Iterator<Item = Timestamp> {
    view.steps.iter().flat_map(|step| {
        let attempts = step.attempts.iter().flat_map(|attempt| [Some(attempt.started), attempt.ended]);
        [step.started, step.ended].into_iter().chain(attempts).flatten()
    })
}

/// From the first thing that happened to the last, by the time of work.
struct Line<'a> {
    pauses: &'a Pauses,
    begin: u64,
    end: u64,
}

impl Line<'_> {
    fn of(view: &RunView) -> Option<Line<'_>> {
        let pauses = &view.pauses;
        let begin = pauses.worked(moments(view).min()?).0;
        let end = moments(view).max()?;
        let end = if view.state == RunState::Running { end.max(view.updated) } else { end };
        Some(Line { pauses, begin, end: pauses.worked(end).0.max(begin + 1) })
    }

    fn at(&self, at: Timestamp) -> u64 {
        self.pauses.worked(at).0
    }

    fn share(&self, at: u64) -> f64 {
        let whole = (self.end - self.begin) as f64;
        (at.clamp(self.begin, self.end) - self.begin) as f64 * 100.0 / whole
    }

    fn bar(&self, bars: &mut String, from: u64, to: u64, class: &str, about: &str) {
        let width = (self.share(to) - self.share(from)).max(LEAST_WIDTH);
        let x = self.share(from).min(100.0 - width);
        let _ = write!(
            bars,
            "<rect class=\"{class}\" x=\"{x:.3}%\" y=\"2\" width=\"{width:.3}%\" height=\"12\" rx=\"2\"><title>{}</title></rect>",
            text(about)
        );
    }

    fn marks(&self) -> String {
        let mut marks = String::from("<span class=\"marks\" aria-hidden=\"true\">");
        for mark in 0..=MARKS {
            let _ = write!(marks, "<span>{}</span>", duration((self.end - self.begin) * mark / MARKS));
        }
        marks.push_str("</span>");
        marks
    }
}
