//! `tenon flow show RUN --html`: a run as one page that needs nothing but a browser: no script, no request, no other file.
//!
//! [`page`] is a pure function of a [`RunView`]. Texts and their escaping are in `page/html.rs`, the graph is drawn by `draw/svg.rs`
//! with the statuses of `page/marks.rs`, bars of time are in `page/time.rs`, questions to people in `page/questions.rs`, what is said of each step in
//! `page/steps.rs`, what agents told each other in `page/talk.rs`, and how all of it looks in `page/page.css`. What was said in the run is
//! left out unless it is asked for.

mod html;
mod marks;
mod questions;
mod steps;
mod talk;
mod time;

use std::fmt::Write as _;

use crate::draw::Plan;
use crate::{Answer, RunState, RunView, StepError, StepErrorClass, StepStatus, ViewStatus, WorkflowStatus};
use html::{duration, moment, money, number, payload, text};

const STYLE: &str = include_str!("page/page.css");
/// Everything a page may load: its own styles, and the empty icon that keeps browsers from asking for one.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

const FULL: &str = "<p class=\"note\">There is more than a page can hold: some texts below are left out. \
    <code>tenon flow show RUN --payloads</code> and <code>tenon flow export RUN</code> have all of them.</p>\n";

/// Whether a page holds what was said in the run: prompts, answers, arguments, results, and errors that may quote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payloads {
    LeftOut,
    Shown,
}

/// The whole page. The same view always gives the same page.
pub fn page(view: &RunView, payloads: Payloads) -> String {
    let name = text(&view.name);
    let id = text(&view.id);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{name} · {id}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#steps\">Skip to the steps</a>\n"
    );
    head(&mut page, view);
    page.push_str("<main>\n");
    note(&mut page, view, payloads);
    outcome(&mut page, view, payloads);
    questions::section(&mut page, view);
    graph(&mut page, view, payloads);
    time::section(&mut page, view);
    let before_texts = page.len();
    steps::section(&mut page, view, payloads);
    talk::section(&mut page, view, payloads);
    if page.len() >= html::MAX_BYTES {
        page.insert_str(before_texts, FULL);
    }
    page.push_str("</main>\n<footer><p>Made by <code>tenon flow show</code>. This page loads nothing and runs no script.</p></footer>\n</body>\n</html>\n");
    page
}

fn head(page: &mut String, view: &RunView) {
    let status = Look::of_run(view.state);
    // A `String` takes everything.
    let _ = write!(
        page,
        "<header>\n<h1>{}</h1>\n<p>{}</p>\n<dl class=\"facts\">\n",
        text(&view.name),
        status.badge(view.state.name())
    );
    let took = view.pauses.between(view.created, view.updated.max(time::last(view)));
    let facts = [
        ("Run", format!("<code>{}</code>", text(&view.id))),
        ("Began", moment(view.created)),
        (if view.state == RunState::Running { "So far" } else { "Took" }, duration(took)),
        ("Tokens", number(view.spent.usage.total)),
        ("Cost", money(view.spent.cost_usd)),
        ("Folder", format!("<code>{}</code>", text(&view.cwd))),
    ];
    for (name, value) in facts {
        let _ = writeln!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    page.push_str("</dl>\n</header>\n");
}

fn note(page: &mut String, view: &RunView, payloads: Payloads) {
    if payloads == Payloads::Shown {
        return;
    }
    let _ = writeln!(
        page,
        "<p class=\"note\">Prompts, answers, results, messages and texts in expressions are left out. \
         <code>tenon flow show {} --html FILE --payloads</code> writes a page that has them.</p>",
        text(&view.id)
    );
}

fn outcome(page: &mut String, view: &RunView, payloads: Payloads) {
    let outcome = view.outcome.as_ref();
    let failure = outcome.and_then(|outcome| outcome.error.as_ref());
    let answer = outcome.and_then(|outcome| outcome.answer.as_ref()).filter(|_| payloads == Payloads::Shown);
    let context = view.given.context.as_deref().filter(|_| payloads == Payloads::Shown);
    let inputs =
        Some(view.given.inputs.as_str()).filter(|inputs| payloads == Payloads::Shown && *inputs != "{}");
    if failure.is_none() && answer.is_none() && context.is_none() && inputs.is_none() {
        return;
    }
    page.push_str("<section aria-labelledby=\"outcome-heading\">\n<h2 id=\"outcome-heading\">Outcome</h2>\n");
    if let Some(failure) = failure {
        error(page, failure, payloads);
    }
    if let Some(answer) = answer {
        let shown = match answer {
            Answer::Content(text) => text.clone(),
            Answer::Outputs(json) | Answer::Result(json) | Answer::Sinks(json) => {
                format!("{:#}", json.to_value())
            }
        };
        payload(page, 3, "Answer", &shown);
    }
    if let Some(inputs) = inputs {
        payload(page, 3, "Inputs", inputs);
    }
    if let Some(context) = context {
        payload(page, 3, "Context of every step", context);
    }
    page.push_str("</section>\n");
}

/// An error by its class, and in its words unless these may quote what was said in the run.
fn error(page: &mut String, error: &StepError, payloads: Payloads) {
    let class = error.class.name();
    let _ = write!(page, "<p class=\"error\"><strong>error[{class}]</strong> ");
    match payloads == Payloads::Shown || says_nothing_of_the_run(error.class) {
        true => {
            page.push_str(&text(&error.message));
            if let Some(hint) = &error.hint {
                let _ = write!(page, " <span class=\"hint\">hint: {}</span>", text(hint));
            }
        }
        false => {
            page.push_str("<span class=\"hint\">(its words may quote the run, so they are left out)</span>")
        }
    }
    page.push_str("</p>\n");
}

/// Classes whose messages are made of limits, times and addresses: they can be shown where nothing of the run's is.
pub fn says_nothing_of_the_run(class: StepErrorClass) -> bool {
    matches!(
        class,
        StepErrorClass::Auth
            | StepErrorClass::Sandbox
            | StepErrorClass::Budget
            | StepErrorClass::RateLimited
            | StepErrorClass::Overloaded
            | StepErrorClass::Interrupted
            | StepErrorClass::Timeout
            | StepErrorClass::LoopExhausted
            | StepErrorClass::Isolation
            | StepErrorClass::Denied
            | StepErrorClass::Journal
    )
}

fn graph(page: &mut String, view: &RunView, payloads: Payloads) {
    let plan = match payloads {
        Payloads::Shown => Plan::of_loaded(&view.document),
        Payloads::LeftOut => Plan::of_loaded(&view.document).without_literals(),
    };
    let marks = marks::of(view);
    let _ = writeln!(
        page,
        "<section aria-labelledby=\"graph-heading\">\n<h2 id=\"graph-heading\">Graph</h2>\n\
         <div class=\"scroll\" role=\"region\" aria-labelledby=\"graph-heading\" tabindex=\"0\">\n{}</div>\n</section>",
        plan.draw_marked(&marks)
    );
}

/// How a status looks: a class for its colour, and a sign for those who see none.
#[derive(Clone, Copy, Debug)]
struct Look {
    class: &'static str,
    sign: char,
}

impl Look {
    fn of(status: ViewStatus) -> Look {
        let (class, sign) = match status {
            ViewStatus::Waiting => ("waiting", '○'),
            ViewStatus::Running => ("running", '●'),
            ViewStatus::Unfinished => ("unfinished", '◐'),
            ViewStatus::Suspended => ("unfinished", '?'),
            ViewStatus::Ended(StepStatus::Completed) => ("completed", '✓'),
            ViewStatus::Ended(StepStatus::Failed) => ("failed", '✕'),
            ViewStatus::Ended(StepStatus::Skipped) => ("skipped", '–'),
            ViewStatus::Ended(StepStatus::Cancelled) => ("cancelled", '⊘'),
        };
        Look { class, sign }
    }

    fn of_run(state: RunState) -> Look {
        let (class, sign) = match state {
            RunState::Running => ("running", '●'),
            RunState::Interrupted => ("unfinished", '◐'),
            RunState::Ended(WorkflowStatus::Completed) => ("completed", '✓'),
            RunState::Ended(WorkflowStatus::Partial) => ("unfinished", '◐'),
            RunState::Ended(WorkflowStatus::Failed | WorkflowStatus::BudgetExceeded) => ("failed", '✕'),
            RunState::Ended(WorkflowStatus::Cancelled) => ("cancelled", '⊘'),
            RunState::Ended(WorkflowStatus::Suspended) => ("unfinished", '?'),
        };
        Look { class, sign }
    }

    fn badge(self, name: &str) -> String {
        let Look { class, sign } = self;
        let name = name.replace('_', " ");
        format!("<span class=\"badge {class}\"><span aria-hidden=\"true\">{sign}</span> {name}</span>")
    }
}
