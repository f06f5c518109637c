//! What becomes of the calls of one turn: every example of the design, by what ran and what was told.

use tenon_agent::{ACCEPTED, SKIPPED, SKIPPED_RETRY};

use crate::script::{Scene, calls, text};

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
const BAD: &str = r#"{"n":"x"}"#;
const GOOD: &str = r#"{"n":1}"#;
const WRONG_TYPE: &str = "/n: expected integer, got string";
const SUBMITTED: &str = r#"{"status":"ok"}"#;

fn report(id: &str, content: &str, error: bool) -> (String, String, bool) {
    (id.into(), content.into(), error)
}

#[test]
fn a_sibling_of_an_accepted_call_never_runs() {
    let played = Scene::new(vec![calls(&[("a", "write_file", "{}"), ("b", "structured_output", GOOD)])])
        .schema(SCHEMA)
        .play();
    assert_eq!(played.payload(), Some(GOOD));
    assert_eq!(played.ran, Vec::<String>::new());
    assert_eq!(played.reports(), [report("a", SKIPPED, false), report("b", ACCEPTED, false)]);
}

#[test]
fn the_first_valid_terminal_call_wins() {
    let batch = calls(&[
        ("a", "structured_output", BAD),
        ("b", "structured_output", GOOD),
        ("c", "structured_output", r#"{"n":2}"#),
    ]);
    let played = Scene::new(vec![batch]).schema(SCHEMA).play();
    assert_eq!(played.payload(), Some(GOOD));
    assert_eq!(
        played.reports(),
        [report("a", WRONG_TYPE, true), report("b", ACCEPTED, false), report("c", SKIPPED, false)]
    );
}

#[test]
fn a_sibling_of_a_rejected_call_is_skipped_and_may_be_repeated() {
    let played = Scene::new(vec![
        calls(&[("a", "structured_output", BAD), ("b", "write_file", "{}")]),
        calls(&[("c", "write_file", "{}")]),
        calls(&[("d", "structured_output", GOOD)]),
    ])
    .schema(SCHEMA)
    .play();
    assert_eq!(played.payload(), Some(GOOD));
    assert_eq!(played.ran, ["c"]);
    assert_eq!(
        played.reports(),
        [
            report("a", WRONG_TYPE, true),
            report("b", SKIPPED_RETRY, false),
            report("c", "ran c", false),
            report("d", ACCEPTED, false)
        ]
    );
}

#[test]
fn without_a_terminal_call_everything_runs_and_the_run_goes_on() {
    let played = Scene::new(vec![
        calls(&[("a", "look", "{}"), ("b", "write_file", "{}")]),
        calls(&[("c", "structured_output", GOOD)]),
    ])
    .schema(SCHEMA)
    .play();
    assert_eq!(played.ran, ["a", "b"]);
    assert_eq!(played.outcome.turns, 2);
}

#[test]
fn siblings_of_submit_result_all_run_and_then_the_run_ends() {
    let mut scene =
        Scene::new(vec![calls(&[("a", "submit_result", GOOD), ("b", "write_file", "{}")])]).schema(SCHEMA);
    scene.submit_result = true;
    let played = scene.play();
    assert_eq!(played.payload(), Some(GOOD));
    assert_eq!(played.ran, ["b"]);
    assert_eq!(played.reports(), [report("a", SUBMITTED, false), report("b", "ran b", false)]);
}

#[test]
fn of_several_submit_results_in_one_turn_the_first_that_fits_wins_and_every_other_tool_runs() {
    let mut scene = Scene::new(vec![calls(&[
        ("a", "submit_result", BAD),
        ("b", "write_file", "{}"),
        ("c", "submit_result", GOOD),
        ("d", "submit_result", GOOD),
        ("panic", "look", "{}"),
    ])])
    .schema(SCHEMA);
    scene.submit_result = true;
    let played = scene.play();
    assert_eq!(played.payload(), Some(GOOD));
    assert_eq!(played.ran, ["b"], "and the one that broke down did not undo the result");
    let rejected = r#"{"status":"error","message":"validation failed: /n: expected integer, got string"}"#;
    let skipped =
        r#"{"status":"skipped","message":"another call of `submit_result` in this turn was accepted"}"#;
    assert_eq!(
        played.reports(),
        [
            report("a", rejected, true),
            report("b", "ran b", false),
            report("c", SUBMITTED, false),
            report("d", skipped, false),
            report("panic", "The tool `look` broke down.", true),
        ]
    );
}

#[test]
fn results_come_in_the_order_of_the_calls_and_a_broken_tool_is_only_a_failed_call() {
    let played = Scene::new(vec![
        calls(&[
            ("a", "look", "{}"),
            ("panic", "look", "{}"),
            ("c", "nothing_like_it", "{}"),
            ("d", "write_file", "[1]"),
            ("e", "write_file", r#""{\"x\":1}""#),
            ("f", "write_file", ""),
        ]),
        text("done"),
    ])
    .play();
    assert_eq!(played.class(), "success");
    assert_eq!(
        played.reports(),
        [
            report("a", "ran a", false),
            report("panic", "The tool `look` broke down.", true),
            report("c", "There is no tool `nothing_like_it`. The tools are: `look`, `write_file`.", true),
            report("d", "The arguments must be a JSON object.", true),
            report("e", "ran e", false),
            report("f", "ran f", false),
        ]
    );
    let told: Vec<String> = played.model.requests.lock().unwrap()[1].messages[2]
        .parts
        .iter()
        .map(|part| match part {
            tenon_core::Part::ToolResult(result) => result.call_id.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["a", "panic", "c", "d", "e", "f"]);
}

#[test]
fn ids_that_a_server_repeats_are_made_unique() {
    let played = Scene::new(vec![
        calls(&[("call_0", "look", "{}")]),
        calls(&[("call_0", "look", r#"{"n":1}"#), ("", "look", r#"{"n":2}"#)]),
        text("done"),
    ])
    .play();
    assert_eq!(played.ran, ["call_0", "call_0_2", "call_2"]);
}

#[test]
fn the_journal_has_the_intent_before_the_effect() {
    let played = Scene::new(vec![calls(&[("a", "look", "{}")]), text("done")]).play();
    let kinds: Vec<&str> = played
        .journal
        .records()
        .iter()
        .map(|record| match record {
            tenon_core::TurnRecord::UserMessage { .. } => "told",
            tenon_core::TurnRecord::Compacted { .. } => "compacted",
            tenon_core::TurnRecord::ModelTurn { .. } => "turn",
            tenon_core::TurnRecord::ToolStarted { .. } => "started",
            tenon_core::TurnRecord::ToolFinished { .. } => "finished",
            tenon_core::TurnRecord::Besides { .. } => "besides",
            tenon_core::TurnRecord::Stopped { .. } => "stopped",
            tenon_core::TurnRecord::Withdrawn => "withdrawn",
        })
        .collect();
    assert_eq!(kinds, ["told", "turn", "started", "finished", "turn"]);
}

#[test]
fn calls_that_nobody_looked_at_are_in_no_statistics() {
    let both = calls(&[("a", "look", "{}"), ("t", "structured_output", "{}")]);
    let played = Scene::new(vec![both]).schema("{}").play();
    assert_eq!((played.payload(), played.ran.len()), (Some("{}"), 0));
    let counted: Vec<(&str, u64)> =
        played.outcome.metrics.tools.iter().map(|(name, tool)| (name.as_str(), tool.success)).collect();
    assert_eq!(counted, [("structured_output", 1)]);
}
