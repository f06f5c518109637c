//! Each step: how it stands, what it used, and, where that is wanted, what was said in it.

use std::fmt::Write as _;

use super::html::{duration, moment, money, number, payload, text};
use super::{Look, Payloads, error};
use crate::{AttemptView, CallView, NotRun, Pauses, RunStep, RunView, StepStatus, TurnView, ViewStatus};

/// Steps of a page, items and rounds included. More make a page that no browser opens.
const MAX_STEPS: usize = 1_000;

/// Where a step is on the page.
pub(super) fn anchor(index: usize) -> String {
    format!("step-{index}")
}

pub(super) fn section(page: &mut String, view: &RunView, payloads: Payloads) {
    page.push_str(
        "<section id=\"steps\" aria-labelledby=\"steps-heading\">\n<h2 id=\"steps-heading\">Steps</h2>\n",
    );
    let (shown, more) = most_of(view.steps.iter().enumerate(), MAX_STEPS);
    for (index, shown) in shown {
        step(page, index, shown, &view.pauses, payloads);
    }
    if more > 0 {
        // A `String` takes everything.
        let _ = writeln!(page, "<p class=\"note\">{} more steps are not shown.</p>", number(more as u64));
    }
    page.push_str("</section>\n");
}

/// Whether the page has a place for the step.
pub(super) fn is_shown(view: &RunView, index: usize) -> bool {
    most_of(view.steps.iter().enumerate(), MAX_STEPS).0.iter().any(|(shown, _)| *shown == index)
}

/// At most so many of them, and how many are left out. Those inside a long loop do not crowd out what comes after it: the steps of
/// the document go first.
pub(super) fn most_of<'a>(
    steps: impl Iterator<Item = (usize, &'a RunStep)> + Clone,
    most: usize,
) -> (Vec<(usize, &'a RunStep)>, usize) {
    let own = steps.clone().filter(|(_, step)| step.depth() == 0).count().min(most);
    let (mut own_left, mut inner_left, mut more) = (own, most - own, 0);
    let mut shown = Vec::new();
    for (index, step) in steps {
        let left = if step.depth() == 0 { &mut own_left } else { &mut inner_left };
        match left.checked_sub(1) {
            Some(fewer) => {
                *left = fewer;
                shown.push((index, step));
            }
            None => more += 1,
        }
    }
    (shown, more)
}

fn step(page: &mut String, index: usize, step: &RunStep, pauses: &Pauses, payloads: Payloads) {
    let look = Look::of(step.status);
    let depth = step.depth().min(6);
    // What went wrong is what one looks for.
    let open = if step.status == ViewStatus::Ended(StepStatus::Failed) { " open" } else { "" };
    let _ = write!(
        page,
        "<details id=\"{}\" class=\"step {} depth{depth}\"{open}>\n<summary><h3>{}</h3> {}",
        anchor(index),
        look.class,
        text(&step.id),
        look.badge(step.status.name())
    );
    if let Some(agent) = &step.agent {
        let _ = write!(page, " <span class=\"fact\">{}</span>", text(agent));
    }
    if let Some(took) = step.took_ms() {
        let _ = write!(page, " <span class=\"fact\">{}</span>", duration(took));
    }
    if step.started.is_some() {
        let (tokens, cost) = (number(step.spent.usage.total), money(step.spent.cost_usd));
        let _ =
            write!(page, " <span class=\"fact\">{tokens} tokens</span> <span class=\"fact\">{cost}</span>");
    }
    page.push_str("</summary>\n<div class=\"inside\">\n");
    let record = step.record.as_deref();
    if let Some(failure) = record.and_then(|record| record.error.as_ref()) {
        error(page, failure, payloads);
    }
    if let Some(why) = record.and_then(|record| record.not_run.as_ref()) {
        let _ = writeln!(page, "<p>{}</p>", not_run(why));
    }
    if !step.attempts.is_empty() {
        attempts(page, &step.attempts, pauses);
    } else if step.started.is_none() && record.is_none() {
        page.push_str("<p>It has not started.</p>\n");
    }
    if payloads == Payloads::Shown {
        said(page, step);
    }
    page.push_str("</div>\n</details>\n");
}

fn attempts(page: &mut String, attempts: &[AttemptView], pauses: &Pauses) {
    page.push_str(
        "<div class=\"scroll\" role=\"region\" aria-label=\"Attempts\" tabindex=\"0\">\n<table>\n<thead><tr><th scope=\"col\">Attempt</th><th scope=\"col\">Began</th>\
         <th scope=\"col\" class=\"right\">Took</th><th scope=\"col\">Model</th><th scope=\"col\" class=\"right\">Turns</th>\
         <th scope=\"col\" class=\"right\">Calls</th><th scope=\"col\" class=\"right\">In</th><th scope=\"col\" class=\"right\">Out</th>\
         <th scope=\"col\" class=\"right\">Cost</th><th scope=\"col\">Error</th></tr></thead>\n<tbody>\n",
    );
    for attempt in attempts {
        let took = attempt.ended.map(|ended| duration(pauses.between(attempt.started, ended)));
        let calls: usize = attempt.turns.iter().map(|turn| turn.calls.len()).sum();
        let model = attempt.turns.last().map(|turn| text(&turn.model)).unwrap_or_default();
        let failed = attempt.error.as_ref().map(|error| error.class.name()).unwrap_or_default();
        let spent = &attempt.spent;
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"right\">{}</td><td>{model}</td><td class=\"right\">{}</td>\
             <td class=\"right\">{calls}</td><td class=\"right\">{}</td><td class=\"right\">{}</td><td class=\"right\">{}</td><td>{failed}</td></tr>",
            attempt.number,
            moment(attempt.started),
            took.unwrap_or_default(),
            spent.turns,
            number(spent.usage.input),
            number(spent.usage.output),
            money(spent.cost_usd),
        );
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
}

fn said(page: &mut String, step: &RunStep) {
    for attempt in &step.attempts {
        let of =
            if step.attempts.len() > 1 { format!(" of attempt {}", attempt.number) } else { String::new() };
        if let Some(prompt) = &attempt.prompt {
            payload(page, 4, &format!("Prompt{of}"), prompt);
        }
        for (index, turn) in attempt.turns.iter().enumerate() {
            self::turn(page, turn, &format!("Turn {}{of}", index + 1));
        }
        if let Some(failure) = attempt.error.as_ref().filter(|_| step.attempts.len() > 1) {
            error(page, failure, Payloads::Shown);
        }
    }
    let Some(record) = step.record.as_deref() else { return };
    // The text of a single attempt stands in its turns.
    if !record.content.is_empty() && step.attempts.is_empty() {
        payload(page, 4, "Answer", &record.content);
    }
    if let Some(result) = &record.result {
        payload(page, 4, "Result", &format!("{:#}", result.to_value()));
    }
}

pub(super) fn turn(page: &mut String, turn: &TurnView, heading: &str) {
    if !turn.text.is_empty() {
        payload(page, 4, heading, &turn.text);
    }
    for call in &turn.calls {
        let CallView { name, arguments, result, is_error, .. } = call;
        let failed = if *is_error { ", which failed" } else { "" };
        payload(page, 4, &format!("{heading}: call of {name}{failed}"), arguments);
        if let Some(result) = result {
            payload(page, 4, &format!("{heading}: what {name} gave"), result);
        }
    }
}

fn not_run(why: &NotRun) -> String {
    match why {
        NotRun::ConditionFalse => "Its condition was false.".to_owned(),
        NotRun::MissingData(_) => "Its condition asks for something that no step left behind.".to_owned(),
        NotRun::DependencyFailed(step) => format!("The step {}, which it depends on, failed.", text(step)),
        NotRun::RunEnded => "The run ended first.".to_owned(),
        NotRun::BudgetExceeded => "It was not started: the budget is used up.".to_owned(),
    }
}
