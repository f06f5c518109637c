//! `tenon flow list|show|cancel|delete|export`: the runs that are kept. What is in one is put together by
//! `tenon_flow::RunView`; here it is only written down, without prompts, answers and results unless they are asked for.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenon_core::{ErrorClass, Failure, Timestamp};
use tenon_flow::{
    Answer, AttemptView, CallView, Cancelling, ErrorReport, Given, Journal, JournalError, KeptQuestion,
    NotRun, Payloads, RunStep, RunSummary, RunView, Spent, StepError, Tokens, TurnView, WorkflowStatus,
    is_tool_of_steps, page, says_nothing_of_the_run,
};

use crate::flow_args::ReportFormat;
use crate::flow_folder::{RunFolder, remove_copies};
use crate::manual::print;
use crate::result_file::ResultFile;
use crate::stderr::{Level, Reporter, harmless, line};
use crate::{flow_journal, flow_questions, flow_resume, flow_talk, surroundings};

/// How long `cancel` waits for the other process: it looks twice a second, and its steps have two seconds to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(15);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

pub fn list(limit: usize, format: ReportFormat) -> u8 {
    done(listed(limit).map(|(runs, asks)| {
        let code = match format {
            ReportFormat::Json => {
                let runs: Vec<Value> = runs.iter().map(|run| summary_json(run, &asks)).collect();
                print(format!("{}\n", Value::Array(runs)).as_bytes())
            }
            ReportFormat::Text if runs.is_empty() => {
                line("there are no runs");
                0
            }
            ReportFormat::Text => print(table(&runs, &asks).as_bytes()),
        };
        tell_damaged(&runs);
        code
    }))
}

/// Below the list, and not in it: whoever reads the list wants the others.
fn tell_damaged(runs: &[RunSummary]) {
    for run in runs {
        if let Some(why) = &run.damage {
            let id = harmless(&run.id).replace('\n', " ");
            line(&format!("warning: the run `{id}` is damaged: {}", harmless(why)));
        }
    }
}

pub fn show(run: &str, format: ReportFormat, payloads: bool) -> u8 {
    let shown = if payloads { Shown::Everything } else { Shown::NoPayloads };
    done(view(run).map(|view| match format {
        ReportFormat::Text => print(harmless(&text(&view, shown)).as_bytes()),
        ReportFormat::Json => print(format!("{}\n", view_json(&view, shown)).as_bytes()),
    }))
}

pub fn write_page(run: &str, file: &Path, payloads: bool) -> u8 {
    let payloads = if payloads { Payloads::Shown } else { Payloads::LeftOut };
    let file = ResultFile::of("--html", file, &surroundings::started_in());
    let written = file.check_kind().and_then(|()| {
        let page = page(&view(run)?, payloads);
        match payloads {
            Payloads::LeftOut => file.write_text(&page),
            // As the journal itself.
            Payloads::Shown => file.write_private(&page),
        }
    });
    done(written.map(|()| 0))
}

pub fn cancel(run: &str) -> u8 {
    done(cancelled(run))
}

pub fn delete(runs: &[String]) -> u8 {
    done(deleted(runs))
}

pub fn export(run: &str) -> u8 {
    done(exported(run))
}

/// Whether what was said in a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    NoPayloads,
    Everything,
}

pub fn done(result: Result<u8, Failure>) -> u8 {
    result.unwrap_or_else(|failure| {
        Reporter { level: Level::Quiet, heartbeats: false, is_terminal: false }.failure(&failure);
        failure.exit_code()
    })
}

fn failure(error: JournalError) -> Failure {
    flow_journal::failure(&error)
}

/// The journal, and the run in it.
pub fn found(run: &str) -> Result<(Journal, String), Failure> {
    let journal = flow_journal::existing(&surroundings::collect(None))?;
    let journal = journal.ok_or_else(|| failure(JournalError::Unknown { id: run.to_owned() }))?;
    let id = journal.find(run).map_err(failure)?;
    Ok((journal, id))
}

/// A run as it is kept.
pub fn view(run: &str) -> Result<RunView, Failure> {
    let (journal, id) = found(run)?;
    let stored = journal.load(&id).map_err(failure)?;
    RunView::of(&stored).map_err(failure)
}

/// What suspended runs wait for, by run.
type Asks = HashMap<String, Vec<KeptQuestion>>;

fn listed(limit: usize) -> Result<(Vec<RunSummary>, Asks), Failure> {
    match flow_journal::existing(&surroundings::collect(None))? {
        Some(journal) => {
            let mut runs = journal.list(limit).map_err(failure)?;
            let asks = flow_questions::of_runs(&journal, &mut runs).map_err(failure)?;
            Ok((runs, asks))
        }
        None => Ok(Default::default()),
    }
}

fn table(runs: &[RunSummary], asks: &Asks) -> String {
    let width = runs.iter().map(|run| run.id.len()).max().unwrap_or(0).max("RUN".len());
    let mut table =
        format!("{:width$}  {:16}  {:15}  {:>9}  WORKFLOW\n", "RUN", "BEGUN (UTC)", "STATUS", "COST");
    for run in runs {
        let cost = run.cost_usd.map(|cost| format!("${cost:.4}")).unwrap_or_default();
        let (begun, status) = (minute(run.created), run.state.name());
        // A `String` takes everything.
        let _ = writeln!(
            table,
            "{:width$}  {begun}  {status:15}  {cost:>9}  {}",
            run.id,
            harmless(&run.name).replace('\n', " ")
        );
        table.push_str(&asks.get(&run.id).map(|asks| flow_questions::lines(asks)).unwrap_or_default());
    }
    table
}

fn summary_json(run: &RunSummary, asks: &Asks) -> Value {
    let waits_for = asks.get(&run.id).into_iter().flatten().map(|kept| &kept.question.request.step_id);
    json!({
        "waits_for": waits_for.collect::<Vec<_>>(),
        "run_id": run.id, "name": run.name, "status": run.state.name(), "created": run.created.to_iso8601(),
        "updated": run.updated.to_iso8601(), "total_cost_usd": run.cost_usd, "damage": run.damage,
    })
}

/// `2026-01-31 12:30`
fn minute(at: Timestamp) -> String {
    let iso = at.to_iso8601();
    format!("{} {}", iso.get(..10).unwrap_or(&iso), iso.get(11..16).unwrap_or_default())
}

fn text(view: &RunView, shown: Shown) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        // A `String` takes everything.
        let _ = writeln!(text, "{name:9} {value}");
    };
    row("run", &view.id);
    row("workflow", &view.name);
    row("document", &view.document.pinned.path.display().to_string());
    row("folder", &view.cwd);
    row("status", view.state.name());
    row("begun", &view.created.to_iso8601());
    row("updated", &view.updated.to_iso8601());
    row("used", &used(&view.spent));
    if let Some(planning) = &view.planning {
        row("planning", &used(&planning.spent));
    }
    if let Some(error) = view.outcome.as_ref().and_then(|outcome| outcome.error.as_ref()) {
        row("error", &format!("{}: {}", error.class.name(), words_of(error, shown)));
    }
    if shown == Shown::Everything {
        row("inputs", view.given.inputs.as_str());
        if let Some(context) = &view.given.context {
            row("context", context);
        }
        if let Some(answer) = view.outcome.as_ref().and_then(|outcome| outcome.answer.as_ref()) {
            row("output", answer.text());
        }
    }
    text.push_str(&flow_questions::text(view));
    text.push('\n');
    for step in &view.steps {
        step_text(&mut text, step, shown);
    }
    text.push_str(&flow_talk::text(&view.talk, shown));
    text
}

fn step_text(text: &mut String, step: &RunStep, shown: Shown) {
    let indent = "  ".repeat(step.depth());
    let agent = step.agent.as_deref().map(|agent| format!(" ({agent})")).unwrap_or_default();
    let took = step.took_ms().map(|ms| format!(" · {:.1} s", ms as f64 / 1000.0)).unwrap_or_default();
    let attempts = match step.attempts.len() {
        0 | 1 => String::new(),
        many => format!(" · {many} attempts"),
    };
    let used = if step.started.is_some() { format!(" · {}", used(&step.spent)) } else { String::new() };
    // A `String` takes everything.
    let _ = writeln!(text, "{indent}{}{agent}: {}{took}{used}{attempts}", step.id, step.status.name());
    let record = step.record.as_ref();
    if let Some(error) = record.and_then(|record| record.error.as_ref()) {
        let _ = writeln!(text, "{indent}  error[{}]: {}", error.class.name(), words_of(error, shown));
    }
    if let Some(why) = record.and_then(|record| record.not_run.as_ref()) {
        let _ = writeln!(text, "{indent}  {}", not_run(why));
    }
    if shown == Shown::NoPayloads {
        return;
    }
    for attempt in &step.attempts {
        let number =
            if step.attempts.len() > 1 { format!(", attempt {}", attempt.number) } else { String::new() };
        if let Some(prompt) = &attempt.prompt {
            let _ = writeln!(text, "{indent}  # prompt{number}\n{}", indented(prompt, &indent));
        }
        for turn in &attempt.turns {
            let _ = writeln!(text, "{indent}  # {}\n{}", turn.model, indented(&turn.text, &indent));
            for call in &turn.calls {
                let _ = writeln!(text, "{indent}  → {} {}", call.name, call.arguments);
                if let Some(result) = &call.result {
                    let _ = writeln!(text, "{indent}  ← {}", indented(result, &indent).trim_start());
                }
            }
        }
    }
    if let Some(result) = record.and_then(|record| record.result.as_ref()) {
        let _ = writeln!(text, "{indent}  # result\n{indent}    {}", result.as_str());
    }
    text.push('\n');
}

pub fn indented(text: &str, indent: &str) -> String {
    text.lines().map(|line| format!("{indent}    {line}")).collect::<Vec<_>>().join("\n")
}

pub fn used(spent: &Spent) -> String {
    let cost = spent.cost_usd.map(|cost| format!(" · ${cost:.4}")).unwrap_or_default();
    format!("{} tokens{cost}", spent.usage.total)
}

/// Why a step did not run, without anything that was said in it.
fn not_run(why: &NotRun) -> String {
    match why {
        NotRun::ConditionFalse => "its condition was false".to_owned(),
        NotRun::MissingData(_) => "its condition asks for something that no step left behind".to_owned(),
        NotRun::DependencyFailed(step) => format!("the step `{step}`, which it depends on, failed"),
        NotRun::RunEnded => "the run ended first".to_owned(),
        NotRun::BudgetExceeded => "not started: the budget is used up".to_owned(),
    }
}

/// What stands for an error that may quote a prompt or an answer.
const UNSHOWN: &str = "(its words may quote the run; `--payloads` shows them)";

fn is_told(error: &StepError, shown: Shown) -> bool {
    shown == Shown::Everything || says_nothing_of_the_run(error.class)
}

fn words_of(error: &StepError, shown: Shown) -> &str {
    if is_told(error, shown) { &error.message } else { UNSHOWN }
}

fn error_json(error: &StepError, shown: Shown) -> ErrorReport {
    let report = ErrorReport::from(error);
    match is_told(error, shown) {
        true => report,
        false => ErrorReport { message: UNSHOWN.to_owned(), hint: None, ..report },
    }
}

fn view_json(view: &RunView, shown: Shown) -> Value {
    let outcome = view.outcome.as_ref();
    let payloads = if shown == Shown::Everything { Payloads::Shown } else { Payloads::LeftOut };
    let questions: Vec<Value> =
        view.questions.iter().map(|kept| flow_questions::json(view, kept, payloads)).collect();
    let mut run = json!({
        "run_id": view.id, "name": view.name, "status": view.state.name(),
        "created": view.created.to_iso8601(), "updated": view.updated.to_iso8601(),
        "document": view.document.pinned.path.display().to_string(), "document_hash": view.document.hash,
        "cwd": view.cwd, "usage": Tokens::from(view.spent.usage), "total_cost_usd": view.spent.cost_usd,
        "error": outcome.and_then(|outcome| outcome.error.as_ref()).map(|error| error_json(error, shown)),
        "planning": view.planning.as_ref().map(|planning| attempt_json(planning, shown)),
        "steps": view.steps.iter().map(|step| step_json(step, shown)).collect::<Vec<_>>(),
        "questions": questions,
    });
    flow_talk::add_json(&mut run, &view.talk, shown);
    if shown == Shown::Everything {
        run["inputs"] = view.given.inputs.to_value();
        run["context"] = json!(view.given.context);
        run["outputs"] =
            outcome.and_then(|outcome| outcome.answer.clone()).map_or(Value::Null, |answer| match answer {
                Answer::Content(text) => json!(text),
                Answer::Outputs(json) | Answer::Result(json) | Answer::Sinks(json) => json.to_value(),
            });
    }
    run
}

fn step_json(step: &RunStep, shown: Shown) -> Value {
    let record = step.record.as_ref();
    let mut shown_step = json!({
        "step_id": step.id, "agent": step.agent, "status": step.status.name(),
        "started": step.started.map(Timestamp::to_iso8601), "ended": step.ended.map(Timestamp::to_iso8601),
        "usage": Tokens::from(step.spent.usage), "cost": step.spent.cost_usd,
        "error": record.and_then(|record| record.error.as_ref()).map(|error| error_json(error, shown)),
        "not_run": record.and_then(|record| record.not_run.as_ref()).map(not_run),
        "attempts": step.attempts.iter().map(|attempt| attempt_json(attempt, shown)).collect::<Vec<_>>(),
    });
    if shown == Shown::Everything {
        shown_step["content"] = json!(record.map(|record| &record.content));
        shown_step["result"] =
            record.and_then(|record| record.result.as_ref()).map_or(Value::Null, |result| result.to_value());
    }
    shown_step
}

fn attempt_json(attempt: &AttemptView, shown: Shown) -> Value {
    let mut json = json!({
        "attempt": attempt.number, "started": attempt.started.to_iso8601(),
        "ended": attempt.ended.map(Timestamp::to_iso8601), "usage": Tokens::from(attempt.spent.usage),
        "cost": attempt.spent.cost_usd, "error": attempt.error.as_ref().map(|error| error_json(error, shown)),
        "turns": attempt.turns.iter().map(|turn| turn_json(turn, shown)).collect::<Vec<_>>(),
    });
    if shown == Shown::Everything {
        json["prompt"] = json!(attempt.prompt);
    }
    json
}

fn turn_json(turn: &TurnView, shown: Shown) -> Value {
    let call = |call: &CallView| {
        let mut json = json!({
            "tool_call_id": call.id, "tool_name": name_of(call, shown),
            "started": call.started.map(Timestamp::to_iso8601), "ended": call.ended.map(Timestamp::to_iso8601),
            "is_error": call.is_error,
        });
        if shown == Shown::Everything {
            json["arguments"] = json!(call.arguments);
            json["output"] = json!(call.result);
        }
        json
    };
    let mut json = json!({
        "at": turn.at.to_iso8601(), "model": turn.model, "usage": Tokens::from(turn.usage),
        "calls": turn.calls.iter().map(call).collect::<Vec<_>>(),
    });
    if shown == Shown::Everything {
        json["content"] = json!(turn.text);
    }
    json
}

/// The name of a tool there is. What a model has made up is something that it said.
fn name_of(call: &CallView, shown: Shown) -> Option<&str> {
    let is_known = shown == Shown::Everything || call.started.is_some() || is_tool_of_steps(&call.name);
    is_known.then_some(call.name.as_str())
}

fn cancelled(run: &str) -> Result<u8, Failure> {
    let (journal, id) = found(run)?;
    match journal.cancel(&id).map_err(failure)? {
        Cancelling::Asked { pid } => {
            let until = Instant::now() + STOPS_WITHIN;
            // Somebody else may go on with it at once.
            while journal.holder(&id).map_err(failure)? == Some(pid) {
                if Instant::now() >= until {
                    let message =
                        format!("process {pid} was asked to stop the run `{id}`, and still runs it");
                    return Err(Failure::new(ErrorClass::Internal, message)
                        .hint(format!("`kill {pid}` ends the process; the run can be resumed")));
                }
                std::thread::sleep(BETWEEN_LOOKS);
            }
            Ok(print(format!("cancelled {id}\n").as_bytes()))
        }
        Cancelling::Marked | Cancelling::Over(WorkflowStatus::Cancelled) => {
            flow_journal::end_left_over(&surroundings::collect(None), &id);
            Ok(print(format!("cancelled {id}\n").as_bytes()))
        }
        Cancelling::Over(status) => {
            line(&format!("the run `{id}` is over already: {}", status.name()));
            Ok(0)
        }
    }
}

fn deleted(runs: &[String]) -> Result<u8, Failure> {
    // All are found before the first is deleted.
    let mut doomed = runs.iter().map(|run| found(run)).collect::<Result<Vec<_>, _>>()?;
    doomed.sort_by(|(_, left), (_, right)| left.cmp(right));
    doomed.dedup_by(|(_, left), (_, right)| left == right);
    let (mut text, mut failed) = (String::new(), None);
    for (journal, id) in &doomed {
        let given = journal.load(id).and_then(|stored| Given::of(&stored));
        match journal.delete(id) {
            Ok(()) => {
                flow_journal::end_left_over(&surroundings::collect(None), id);
                if let Some(copies) = given.ok().as_ref().and_then(flow_resume::scratch) {
                    remove_copies(&copies);
                }
                RunFolder::of(journal, id).remove();
                // A `String` takes everything.
                let _ = writeln!(text, "deleted {id}");
            }
            Err(error) => failed = Some(failure(error)),
        }
    }
    let code = print(text.as_bytes());
    failed.map_or(Ok(code), Err)
}

fn exported(run: &str) -> Result<u8, Failure> {
    let (journal, id) = found(run)?;
    let mut stdout = io::stdout().lock();
    let written = journal.export(&id, &mut stdout).map_err(failure)?;
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => {
            Err(Failure::new(ErrorClass::Internal, format!("stdout could not be written: {error}")))
        }
    }
}
