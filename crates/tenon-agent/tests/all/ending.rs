//! How runs end, and that limits mean what they say.

use tenon_agent::{Cap, Limits, NOT_RUN, SchemaMode};
use tenon_core::ApprovalMode;
use tenon_core::{Delta, Ending, ErrorClass, EventKind, Failure, FinishReason, ModelError, Part};

use crate::script::{Played, Scene, calls, text};

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

fn failure(played: &Played) -> Failure {
    match &played.outcome.ending {
        Ending::Failure(failure) => (**failure).clone(),
        Ending::Success(success) => panic!("succeeded: {success:?}"),
    }
}

fn bad_attempt(n: usize) -> Vec<Result<Delta, ModelError>> {
    let arguments: &'static str = Box::leak(format!(r#"{{"n":"{n}"}}"#).into_boxed_str());
    calls(&[("s", "structured_output", arguments)])
}

#[test]
fn n_retries_are_n_plus_one_attempts() {
    for retries in [0, 1, 3] {
        let mut scene = Scene::new((0..10).map(bad_attempt).collect()).schema(SCHEMA);
        scene.limits.schema_retries = Cap::AtMost(retries);
        let played = scene.play();
        assert_eq!(played.outcome.exit_code(), 53);
        let failure = failure(&played);
        assert_eq!(failure.class, ErrorClass::SchemaRetries);
        let structured = failure.structured.expect("what the contract had received");
        assert_eq!(structured.attempts, retries + 1);
        assert_eq!(structured.candidate.unwrap().get(), format!(r#"{{"n":"{retries}"}}"#));
        assert_eq!(structured.violations[0].path, "/n");
    }
}

/// It bounds how often the model is asked again, which costs money. In one answer the first that fits wins.
#[test]
fn the_cap_on_attempts_is_looked_at_after_each_turn() {
    let bad = ("a", "structured_output", r#"{"n":"x"}"#);
    for (batch, wanted) in [
        (calls(&[bad, ("b", "structured_output", r#"{"n":1}"#)]), None),
        (calls(&[bad, ("b", "structured_output", r#"{"n":"y"}"#)]), Some("schema_retries")),
    ] {
        let mut scene = Scene::new(vec![batch]).schema(SCHEMA);
        scene.limits.schema_retries = Cap::AtMost(0);
        let played = scene.play();
        match wanted {
            None => assert_eq!(played.payload(), Some(r#"{"n":1}"#)),
            Some(class) => assert_eq!(played.class(), class),
        }
    }
}

#[test]
fn turn_limits() {
    for (turns, asked) in [(0, 0), (1, 1), (3, 3)] {
        let answers = (0..asked)
            .map(|n| calls(&[("a", "look", if n % 2 == 0 { "{}" } else { r#"{"x":1}"# })]))
            .collect();
        let mut scene = Scene::new(answers);
        scene.limits = Limits { turns: Cap::AtMost(turns), ..Limits::default() };
        let played = scene.play();
        assert_eq!((played.outcome.turns, played.outcome.exit_code()), (asked, 53));
    }
}

#[test]
fn the_turn_limit_of_a_structured_run_says_where_to_look() {
    let mut scene = Scene::new(vec![calls(&[("a", "look", "{}")])]).schema(SCHEMA);
    scene.limits.turns = Cap::AtMost(1);
    let hint = failure(&scene.play()).hint.unwrap();
    for part in [
        "`--json-schema` is active",
        "`structured_output` was never called",
        "denied",
        "the schema can be satisfied",
    ] {
        assert!(hint.contains(part), "{hint}");
    }
}

#[test]
fn the_tool_call_budget_stops_before_the_call_that_exceeds_it() {
    let mut scene =
        Scene::new(vec![calls(&[("a", "look", "{}"), ("b", "look", "{}"), ("c", "write_file", "{}")])]);
    scene.limits.tool_calls = Cap::AtMost(1);
    let played = scene.play();
    assert_eq!(played.ran, ["a"]);
    assert_eq!(played.outcome.exit_code(), 55);
    assert_eq!(
        failure(&played).message,
        "the tool-call budget was reached: 1 of 1 calls used, and the model asked for another (`--max-tool-calls`)"
    );
    // The conversation goes on where it stopped: every call has an answer.
    let answers: Vec<(String, String)> = played.history[2]
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::ToolResult(result) => Some((result.call_id.clone(), result.content.clone())),
            _ => None,
        })
        .collect();
    let answered = |id: &str, content: &str| (id.to_owned(), content.to_owned());
    assert_eq!(answers, [answered("a", "ran a"), answered("b", NOT_RUN), answered("c", NOT_RUN)]);
    assert_eq!(played.history.len(), 3);
}

#[test]
fn the_terminal_tool_is_not_counted() {
    let mut scene = Scene::new(vec![calls(&[("a", "structured_output", r#"{"n":1}"#)])]).schema(SCHEMA);
    scene.limits.tool_calls = Cap::AtMost(0);
    assert_eq!(scene.play().payload(), Some(r#"{"n":1}"#));
}

#[test]
fn five_identical_calls_in_a_row_end_the_run() {
    let same = || calls(&[("a", "look", r#"{"x":1,"y":2}"#)]);
    let reordered = || calls(&[("a", "look", r#"{ "y": 2, "x": 1 }"#)]);
    let played = Scene::new(vec![same(), reordered(), same(), same(), same()]).play();
    assert_eq!(played.class(), "repeated_call");
    assert_eq!(played.ran.len(), 4);

    let other = calls(&[("a", "look", "{}")]);
    let broken_by_another =
        Scene::new(vec![same(), same(), other, same(), same(), same(), same(), text("ok")]).play();
    assert_eq!(broken_by_another.class(), "success");

    let invalid = || calls(&[("a", "structured_output", r#"{"n":"x"}"#)]);
    let terminal = Scene::new((0..5).map(|_| invalid()).collect()).schema(SCHEMA).play();
    assert_eq!(terminal.class(), "repeated_call");
    assert_eq!(failure(&terminal).structured.unwrap().attempts, 5);
}

#[test]
fn plain_text_is_no_answer_to_a_contract() {
    let played = Scene::new(vec![text("  I would say low.  ")]).schema(SCHEMA).play();
    let failure = failure(&played);
    assert_eq!(
        failure.message,
        "the model answered in plain text instead of calling `structured_output` after 1 turn; it said (20 chars): \"I would say low.\""
    );
    assert_eq!(failure.exit_code(), 1);

    let long = "x".repeat(500);
    let played = Scene::new(vec![text(&long)]).schema(SCHEMA).play();
    assert!(
        super::ending::failure(&played).message.ends_with(&format!("(200+ chars): \"{}\"", "x".repeat(200)))
    );
}

#[test]
fn a_nudge_offers_only_the_way_out() {
    let mut scene =
        Scene::new(vec![text("hm"), calls(&[("a", "structured_output", r#"{"n":1}"#)])]).schema(SCHEMA);
    scene.limits.nudges = 1;
    let played = scene.play();
    assert_eq!(played.payload(), Some(r#"{"n":1}"#));
    let requests = played.model.requests.lock().unwrap();
    assert_eq!(requests[0].tools.len(), 3);
    assert_eq!(
        requests[1].tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["structured_output"]
    );
    assert_eq!(requests[1].tool_choice, tenon_core::ToolChoice::Force("structured_output".into()));
}

#[test]
fn a_schema_can_be_asked_for_as_a_response_format() {
    let answer = || calls(&[("a", "structured_output", r#"{"n":1}"#)]);
    // (mode, answers, for each request: tools, forced, in a response format)
    let table = [
        (SchemaMode::Tool, vec![answer()], vec![(3, false, false)]),
        (SchemaMode::ResponseFormat, vec![answer()], vec![(2, false, true)]),
        (SchemaMode::Auto, vec![answer()], vec![(3, false, false)]),
        (SchemaMode::Auto, vec![text("hm"), answer()], vec![(3, false, false), (1, true, false)]),
        (
            SchemaMode::Auto,
            vec![text("hm"), text("hm"), answer()],
            vec![(3, false, false), (1, true, false), (0, false, true)],
        ),
    ];
    for (mode, answers, expected) in table {
        let mut scene = Scene::new(answers).schema(SCHEMA);
        scene.schema_mode = mode;
        let played = scene.play();
        assert_eq!(played.payload(), Some(r#"{"n":1}"#), "{mode:?}");
        let requests = played.model.requests.lock().unwrap();
        let seen: Vec<_> = requests
            .iter()
            .map(|request| {
                let forced = request.tool_choice != tenon_core::ToolChoice::Auto;
                (request.tools.len(), forced, request.response_format.is_some())
            })
            .collect();
        assert_eq!(seen, expected, "{mode:?}");
        let warned = played.events.iter().filter(|event| matches!(event.kind, EventKind::Warning { .. }));
        assert_eq!(warned.count(), usize::from(seen.len() == 3));
        let format = requests.last().and_then(|request| request.response_format.as_ref());
        assert!(
            format
                .is_none_or(|format| format.name == "structured_output" && format.schema["type"] == "object")
        );
    }
    // When that does not help either, it ends.
    let mut scene = Scene::new(vec![text("hm"), text("hm"), text("hm")]).schema(SCHEMA);
    scene.schema_mode = SchemaMode::Auto;
    assert_eq!(scene.play().class(), "contract");
}

#[test]
fn cut_and_refused_answers_have_their_class() {
    let cut = vec![Ok(Delta::Text("half".into())), Ok(Delta::Finished(FinishReason::Length))];
    assert_eq!(Scene::new(vec![cut]).play().class(), "truncated");

    let refused = vec![Ok(Delta::Text("I can't.".into())), Ok(Delta::Finished(FinishReason::Refused))];
    assert_eq!(Scene::new(vec![refused]).play().class(), "refused");

    // A terminal call that was cut is an attempt, and the model gets another.
    let mut cut_call = calls(&[("a", "structured_output", r#"{"n":"#)]);
    cut_call.pop();
    cut_call.push(Ok(Delta::Finished(FinishReason::Length)));
    let played =
        Scene::new(vec![cut_call, calls(&[("b", "structured_output", r#"{"n":1}"#)])]).schema(SCHEMA).play();
    assert_eq!(played.payload(), Some(r#"{"n":1}"#));
}

#[test]
fn an_empty_answer_is_an_error_unless_tools_did_the_work() {
    assert_eq!(Scene::new(vec![text("")]).play().class(), "protocol");
    assert_eq!(Scene::new(vec![calls(&[("a", "look", "{}")]), text("")]).play().class(), "success");
}

#[test]
fn denials_are_counted_and_can_fail_the_run() {
    for (fail_on_denied, class, code) in [(false, "success", 0), (true, "tool", 1)] {
        let mut scene = Scene::new(vec![calls(&[("a", "write_file", "{}")]), text("could not")]);
        scene.mode = ApprovalMode::Default;
        scene.fail_on_denied = fail_on_denied;
        let played = scene.play();
        assert_eq!((played.class(), played.outcome.exit_code()), (class, code));
        assert_eq!(played.ran, Vec::<String>::new());
        assert_eq!(played.outcome.denials[0].tool_name, "write_file");
        assert!(played.reports()[0].2);
    }
}

#[test]
fn a_model_that_calls_a_removed_terminal_tool_is_told_apart_from_one_that_loops() {
    let call = || calls(&[("a", "structured_output", r#"{"n":1}"#)]);
    let mut scene = Scene::new((0..5).map(|_| call()).collect()).schema(SCHEMA);
    scene.deny = vec!["structured_output"];
    let played = scene.play();
    assert_eq!(played.class(), "repeated_call");
    assert!(failure(&played).hint.unwrap().contains("removed by a deny rule"));
}

#[test]
fn a_denied_terminal_tool_is_not_offered_and_the_failure_says_so() {
    let mut scene = Scene::new(vec![text("plain")]).schema(SCHEMA);
    scene.deny = vec!["structured_output"];
    let played = scene.play();
    assert_eq!(played.class(), "contract");
    assert!(failure(&played).hint.unwrap().contains("removed by a deny rule"));
    let requests = played.model.requests.lock().unwrap();
    assert_eq!(
        requests[0].tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["look", "write_file"]
    );
}

#[test]
fn a_rejected_call_without_arguments_offered_an_empty_object() {
    let mut scene = Scene::new(vec![calls(&[("a", "structured_output", "")])]).schema(SCHEMA);
    scene.limits.schema_retries = Cap::AtMost(0);
    let structured = failure(&scene.play()).structured.unwrap();
    assert_eq!(structured.candidate.unwrap().get(), "{}");
}
