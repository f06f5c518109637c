//! `tenon flow approve`: a person's answer to a question of a run, and what a run that waits for one says when it is set aside.
//!
//! The answer is a row of the run's journal; whoever runs the run finds it there, and a run that nobody runs goes on from it when it
//! is resumed. Which answer stands is decided by `tenon_flow::Journal::reply`.

use std::path::Path;

use tenon_core::{ErrorClass, Failure};
use tenon_flow::{
    Decision, Journal, KeptQuestion, Question, QuestionReport, Reply, Resolution, RunState, Settled,
};

use crate::flow_args::{FlowApproveArgs, FlowResumeArgs};
use crate::flow_hint::quoted;
use crate::flow_runs::{done, found};
use crate::flow_usage::{self, Asked};
use crate::input::read_text_file;
use crate::manual::print;
use crate::stderr::{harmless, line};
use crate::usage::UsageError;
use crate::{flow_journal, flow_run, run, surroundings, sys};

/// Questions that are named when there is no such one.
const SHOWN_QUESTIONS: usize = 5;

pub fn main(args: FlowApproveArgs) -> u8 {
    // What is wrong with the flags is told before anything is answered.
    let asked = match resumed(&args) {
        Ok(asked) => asked,
        Err(error) => return run::usage_error_of("tenon flow approve", &error),
    };
    match (approve(&args), asked) {
        (Ok(said), None) => {
            let code = print(format!("{}\n", said.words).as_bytes());
            said.hint();
            code
        }
        (Ok(said), Some(asked)) => {
            // stdout is the run's.
            line(&said.words);
            match said.state() {
                Some(RunState::Running) => {
                    said.hint();
                    0
                }
                _ => flow_run::start(asked),
            }
        }
        (Err(failure), _) => done(Err(failure)),
    }
}

/// What is asked for with `--resume`: the same as by `tenon flow resume RUN`.
fn resumed(args: &FlowApproveArgs) -> Result<Option<Asked>, UsageError> {
    if !args.at_once {
        return Ok(None);
    }
    let mut resume = FlowResumeArgs { run: args.go_on.run.clone(), ..args.go_on };
    resume.run.words.insert(0, args.run.clone());
    flow_usage::check_resume(resume).map(Some)
}

/// What came of an answer.
struct Said {
    words: String,
    /// The run, where it is not over: what it goes on from was just said.
    run: Option<(Journal, String, RunState)>,
}

impl Said {
    fn state(&self) -> Option<RunState> {
        self.run.as_ref().map(|(.., state)| *state)
    }

    fn hint(&self) {
        if let Some((journal, id, state)) = &self.run {
            go_on(journal, id, *state);
        }
    }
}

/// What a suspended run waits for, with the lines that answer it.
pub fn tell_waiting(run_id: &str, questions: &[Question]) {
    for question in questions {
        let request = &question.request;
        let until = question.expires().map(|at| format!(" (until {})", at.to_iso8601())).unwrap_or_default();
        line(&format!("suspended: step {} asks{until}: {}", request.step_id, harmless(&request.message)));
        let (run, step) = (quoted(run_id), quoted(&request.step_id));
        let data = if request.data.is_some() { " --data JSON" } else { "" };
        line(&format!("  tenon flow approve {run} {step}{data}"));
        line(&format!("  tenon flow approve {run} {step} --deny"));
    }
}

/// A run that is kept nowhere cannot be found again by whoever would answer.
pub fn needs_journal(step: &str) -> Failure {
    Failure::new(
        ErrorClass::Input,
        format!("the step `{step}` asks for an approval, and a run that is not kept cannot wait for one"),
    )
    .hint("leave `--no-journal` out")
}

fn approve(args: &FlowApproveArgs) -> Result<Said, Failure> {
    let (journal, id) = found(&args.run)?;
    let asked = question(&journal, &id, &args.step)?;
    let wanted = if args.deny { Decision::Denied } else { Decision::Approved };
    let given = args.data.as_deref().map(text_of).transpose()?;
    let data = match (&given, wanted) {
        (Some(text), _) => Some(asked.question.read_data(text).map_err(unfit)?),
        // Whatever it would have been, what was settled before is told.
        (None, Decision::Approved) if asked.question.request.data.is_some() && asked.is_open() => {
            let message = format!("to approve `{}`, `--data` is needed", args.step);
            return Err(Failure::new(ErrorClass::Input, message).hint(schema_hint(&asked.question)));
        }
        (None, _) => None,
    };
    let reply = Reply { decision: wanted, by: user_name(), data };
    match journal.reply(&id, &asked, reply.clone()).map_err(|error| flow_journal::failure(&error))? {
        Settled::Now { question, resolution, state } => {
            let words = format!("{}: {} of {id}", resolution.words(&question.request), args.step);
            Ok(Said { words, run: Some((journal, id, state)) })
        }
        Settled::Before { question, resolution } => {
            let state = journal.state(&id).map_err(|error| flow_journal::failure(&error))?;
            let words = settled(&args.step, &id, &Answered { question, resolution, state }, &reply)?;
            Ok(Said { words, run: None })
        }
        Settled::Over { state } => {
            let message = format!("the run `{id}` no longer asks `{}`: it is {}", args.step, state.name());
            Err(Failure::new(ErrorClass::Input, message).hint(format!(
                "`tenon flow resume {id}` goes on with it, and asks again what it needs to know"
            )))
        }
    }
}

/// The question that a step of the run asks, or asked.
fn question(journal: &Journal, id: &str, step: &str) -> Result<KeptQuestion, Failure> {
    let all = journal.questions(id).map_err(|error| flow_journal::failure(&error))?;
    // A step that was tried again asked again.
    if let Some(asked) = all.iter().rev().find(|kept| kept.question.request.step_id == step) {
        return Ok(asked.clone());
    }
    let open: Vec<String> = all
        .iter()
        .filter(|kept| kept.is_open())
        .map(|kept| format!("`{}`", kept.question.request.step_id))
        .take(SHOWN_QUESTIONS)
        .collect();
    let hint = match open.is_empty() {
        true => format!("it waits for no approval now; `tenon flow show {id}` shows how it stands"),
        false => format!("it waits for {}", open.join(", ")),
    };
    Err(Failure::new(ErrorClass::Input, format!("the run `{id}` has asked no `{step}`")).hint(hint))
}

/// A question that was settled before, and how its run stands.
struct Answered {
    question: Question,
    resolution: Resolution,
    state: RunState,
}

/// The first answer stands. To say the same again is no mistake.
fn settled(step: &str, id: &str, answered: &Answered, reply: &Reply) -> Result<String, Failure> {
    let Answered { question, resolution: first, state } = answered;
    let (words, at) = (first.words(&question.request), first.at.to_iso8601());
    let is_approval = reply.decision == Decision::Approved;
    let same_data = reply.data.is_none() || reply.data == first.data;
    if first.approves(&question.request) == is_approval && same_data {
        return Ok(format!("already {words} at {at}: {step} of {id}"));
    }
    let but = if first.approves(&question.request) == is_approval { ", with other data" } else { "" };
    // What nobody said to the end of the run is asked again by a run that goes on.
    let is_asked_again = first.fails(&question.request) && first.decision == Decision::TimedOut;
    let resume = format!("`tenon flow resume {}`", quoted(id));
    let (rest, hint) = match (is_asked_again, state.hears_answers()) {
        (true, false) => ("", format!("{resume} asks again")),
        (true, true) => (
            "; that stands until the run has ended",
            format!("{resume} comes to its end, and asks again after that"),
        ),
        (false, _) => {
            let hint = "the first answer holds for the run; begin another run for another one, or change the question in the document";
            ("; that stands", hint.to_owned())
        }
    };
    Err(Failure::new(ErrorClass::Input, format!("`{step}` of `{id}` was {words} at {at}{but}{rest}"))
        .hint(hint))
}

fn go_on(journal: &Journal, id: &str, state: RunState) {
    match state {
        RunState::Running => {
            let process = journal.holder(id).ok().flatten();
            let who = process.map(|pid| format!("process {pid}")).unwrap_or_else(|| "its process".to_owned());
            line(&format!("the run is being run, and {who} goes on with it"));
        }
        RunState::Interrupted | RunState::Ended(_) => {
            let open = journal.questions(id).unwrap_or_default();
            for kept in open.iter().filter(|kept| kept.is_open()) {
                line(&format!("still asked: {}", kept.question.request.step_id));
            }
            line("hint: to go on with the run:");
            line(&format!("  tenon flow resume {}", quoted(id)));
        }
    }
}

fn text_of(given: &str) -> Result<String, Failure> {
    match given.trim().strip_prefix('@') {
        Some(file) => read_text_file(Path::new(file), &surroundings::started_in(), "--data"),
        None => Ok(given.to_owned()),
    }
}

fn unfit(why: String) -> Failure {
    Failure::new(ErrorClass::Input, format!("`--data` does not fit: {why}"))
        .hint("`tenon flow show RUN --format json` has the question with its schema")
}

fn schema_hint(question: &Question) -> String {
    let report = QuestionReport::new(question);
    format!("a JSON object that fits {}", report.data.unwrap_or_default())
}

/// Who answers: the name of the user of this process.
fn user_name() -> String {
    let id = sys::user_id();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = passwd.lines().find_map(|user| {
        let mut fields = user.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    });
    // Users of a directory service are in no file.
    let told = || ["LOGNAME", "USER"].iter().find_map(|name| std::env::var(name).ok());
    named.or_else(|| told().filter(|name| !name.is_empty())).unwrap_or_else(|| format!("user {id}"))
}
