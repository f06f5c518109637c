//! Runs that are told to stop while something does not: what was used, said and accepted before is not lost.

use std::sync::Arc;

use tenon_contract::{Contract, Schema};
use tenon_core::{
    Args, BoxFut, ErrorClass, EventKind, Failure, Signal, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec,
};

use crate::stage::{Performance, Stage, does, says};

/// Never ends, whatever it is told.
struct Hang(Arc<ToolSpec>);

impl Tool for Hang {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _ctx: ToolCtx, _args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(std::future::pending())
    }
}

fn agent(prompt: &str) -> String {
    format!(r#"{{"description":"a task","prompt":"{prompt}"}}"#)
}

/// The run is told to stop when the last of these has happened.
fn stopped_after(stage: Stage, last: &'static str) -> Performance {
    let spec = |name: &str, kind| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: serde_json::json!({"type": "object"}),
        kind,
    };
    for (name, kind) in [("hang", ToolKind::Execute), ("hang_reading", ToolKind::Read)] {
        stage.agent.registry.add(Arc::new(Hang(Arc::new(spec(name, kind))))).unwrap();
    }
    let mut stage = stage;
    // Nothing is to be waited for: everything that ends has ended.
    stage.agent.background.shutdown = std::time::Duration::from_millis(300);
    let stop = stage.agent.stop.clone();
    let stage = stage.on(move |event| {
        let what = match &event.kind {
            EventKind::ToolStarted { call_id, .. } => format!("calls {call_id}"),
            EventKind::RunFinished(_) => format!("{} ends", event.parent.as_deref().unwrap_or("run")),
            _ => return,
        };
        if what == last {
            stop.now(Failure::new(ErrorClass::Interrupted(Signal::Term), "stop"));
        }
    });
    stage.play()
}

#[test]
fn an_accepted_answer_stays_accepted_and_every_call_is_seen_to_end() {
    let submit = ("s", "submit_result", r#"{"n":1}"#);
    let hang = ("h", "hang", "{}");
    for order in [[submit, hang], [hang, submit]] {
        let mut stage = Stage::new(vec![("prompt", vec![does(&order).using(100, 10)])]);
        stage.agent.contract =
            Some(Contract::submit_result(Schema::compile(r#"{"type":"object"}"#).unwrap()));
        let seen = stopped_after(stage, "calls h");
        assert_eq!(seen.ending(), Ok(r#"{"n":1}"#));
        assert_eq!(seen.outcome.usage().total, 110);
        let mut ends: Vec<(&str, bool)> = Vec::new();
        for event in &seen.events {
            if let EventKind::ToolFinished(report) = &event.kind {
                ends.push((&report.call_id, report.error.is_some()));
            }
        }
        ends.sort_unstable();
        assert_eq!(ends, [("h", true), ("s", false)], "{:?}", seen.told());
    }
}

/// Not accepted is not accepted.
#[test]
fn an_answer_that_does_not_fit_is_no_answer() {
    let schema = r#"{"type":"object","required":["x"],"properties":{"x":{"type":"integer"}}}"#;
    let mut stage =
        Stage::new(vec![("prompt", vec![does(&[("s", "submit_result", "{}"), ("h", "hang", "{}")])])]);
    stage.agent.contract = Some(Contract::submit_result(Schema::compile(schema).unwrap()));
    assert_eq!(stopped_after(stage, "calls h").ending(), Err("interrupted: stop".into()));
}

#[test]
fn what_agents_used_is_counted_however_deep_the_one_is_that_hangs() {
    let stage = Stage::new(vec![
        ("prompt", vec![does(&[("a", "agent", &agent("work"))]).using(100, 1)]),
        ("work", vec![does(&[("b", "agent", &agent("deep"))]).using(200, 2)]),
        (
            "deep",
            vec![does(&[("c", "look", "{}")]).using(300, 3), does(&[("d", "hang", "{}")]).using(400, 4)],
        ),
    ]);
    let seen = stopped_after(stage, "calls d");
    assert_eq!(seen.ending(), Err("interrupted: stop".into()));
    assert_eq!((seen.outcome.usage().input, seen.outcome.usage().output), (1000, 10));
    let told = seen.told();
    for line in ["b: gets d", "b: ends", "a: gets b", "a: ends", "run: gets a"] {
        assert_eq!(told.iter().filter(|told| *told == line).count(), 1, "{line}: {told:?}");
    }
}

#[test]
fn an_agent_that_is_done_counts_though_what_runs_beside_it_hangs() {
    let stage = Stage::new(vec![
        ("prompt", vec![does(&[("a", "agent", &agent("work")), ("h", "hang_reading", "{}")]).using(100, 1)]),
        ("work", vec![says("done").using(200, 2)]),
    ]);
    let seen = stopped_after(stage, "a ends");
    assert_eq!((seen.outcome.usage().input, seen.outcome.usage().output), (300, 3));
}
