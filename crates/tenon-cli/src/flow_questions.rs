//! What people are asked by runs, as `tenon flow list` and `show` tell it. Answering is `flow_approve.rs`.
//!
//! A question's text is what the document wants whoever approves to read, so it is told whether or not payloads are; what
//! was given with an answer is a payload.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use tenon_flow::{
    Journal, JournalError, KeptQuestion, Payloads, QuestionReport, RunState, RunSummary, RunView,
    WorkflowStatus,
};

use crate::flow_hint::quoted;
use crate::stderr::harmless;

/// The open questions of the runs that are set aside, by run. A run whose questions cannot be read is marked as damaged.
pub fn of_runs(
    journal: &Journal,
    runs: &mut [RunSummary],
) -> Result<HashMap<String, Vec<KeptQuestion>>, JournalError> {
    let mut asks = HashMap::new();
    for run in runs.iter_mut().filter(|run| run.state == RunState::Ended(WorkflowStatus::Suspended)) {
        match journal.questions(&run.id) {
            Ok(mut questions) => {
                questions.retain(KeptQuestion::is_open);
                asks.insert(run.id.clone(), questions);
            }
            Err(JournalError::Damaged { why, .. }) => {
                run.damage.get_or_insert(why);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(asks)
}

/// Below a run in a list.
pub fn lines(questions: &[KeptQuestion]) -> String {
    let line = |kept: &KeptQuestion| {
        let request = &kept.question.request;
        format!("  asks {}: {}\n", request.step_id, harmless(&request.message).replace('\n', " "))
    };
    questions.iter().map(line).collect()
}

/// In the head of a run that is shown.
pub fn text(view: &RunView) -> String {
    let mut text = String::new();
    for kept in view.open_questions() {
        let request = &kept.question.request;
        let (run, step) = (quoted(&view.id), quoted(&request.step_id));
        let until =
            kept.question.expires().map(|at| format!(", until {}", at.to_iso8601())).unwrap_or_default();
        // A `String` takes everything.
        let _ = writeln!(text, "{:9} {}: {}", "asks", request.step_id, request.message);
        let _ = writeln!(text, "{:9} since {}{until}", "", kept.question.asked.to_iso8601());
        let _ = writeln!(text, "{:9} tenon flow approve {run} {step} [--deny]", "");
    }
    for kept in &view.questions {
        let (request, Some(answer)) = (&kept.question.request, &kept.resolution) else { continue };
        let (words, at) = (answer.words(request), answer.at.to_iso8601());
        let _ = writeln!(text, "{:9} {}: {words}, {at}", "asked", request.step_id);
    }
    text
}

/// One of a run that is shown; with what was given only where payloads are shown.
pub fn json(view: &RunView, kept: &KeptQuestion, payloads: Payloads) -> Value {
    let request = &kept.question.request;
    let mut json = json!(QuestionReport::new(&kept.question));
    json["open"] = json!(kept.is_open() && view.state.hears_answers());
    json["answer"] = json!(kept.resolution.as_ref().map(|answer| json!({
        "approved": answer.approves(request), "by": answer.by, "at": answer.at.to_iso8601(),
    })));
    if let (Payloads::Shown, Some(answer)) = (payloads, &kept.resolution) {
        json["answer"]["data"] = answer.data.as_ref().map_or(Value::Null, |data| data.to_value());
    }
    json
}
