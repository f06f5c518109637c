//! The event stream: order, nesting, what is told live, and what may be stored.

use proptest::prelude::*;
use tenon_agent::Audience;
use tenon_core::{Delta, EventKind, FinishReason, Part, REDACTED_ARGS};

use crate::script::{Answer, Scene, calls, text};

const SCHEMA: &str = r#"{"type":"object","properties":{"secret":{"type":"string"}},"required":["secret"]}"#;

fn names(events: &[tenon_core::Event]) -> Vec<&'static str> {
    events
        .iter()
        .map(|event| match &event.kind {
            EventKind::RunStarted(_) => "run",
            EventKind::UserMessage { .. } => "told",
            EventKind::Asking { .. } => "ask",
            EventKind::TurnStarted { .. } => "turn",
            EventKind::PartStarted { .. } => "start",
            EventKind::PartDelta { .. } => "delta",
            EventKind::PartStopped { .. } => "stop",
            EventKind::StructuredPartial { .. } => "partial",
            EventKind::TurnFinished { .. } => "end",
            EventKind::ToolStarted { .. } => "tool",
            EventKind::ToolFinished(_) => "done",
            EventKind::RunFinished(_) => "finish",
            _ => "other",
        })
        .collect()
}

#[test]
fn a_live_audience_sees_deltas_and_another_only_whole_parts() {
    let answer =
        || vec![Ok(Delta::Thinking("hm".into())), Ok(Delta::Text("a".into())), Ok(Delta::Text("b".into()))];
    let mut live = Scene::new(vec![answer()]);
    live.audience = Audience::Live;
    assert_eq!(
        names(&live.play().events),
        [
            "run", "told", "ask", "turn", "start", "delta", "stop", "start", "delta", "delta", "stop", "end",
            "finish"
        ]
    );
    assert_eq!(
        names(&Scene::new(vec![answer()]).play().events),
        ["run", "told", "ask", "turn", "start", "stop", "start", "stop", "end", "finish"]
    );
}

/// It has been given, and paid for.
#[test]
fn an_empty_answer_has_its_end() {
    for audience in [Audience::Whole, Audience::Live] {
        let mut scene = Scene::new(vec![vec![Ok(Delta::Finished(FinishReason::Stop))]]);
        scene.audience = audience;
        assert_eq!(names(&scene.play().events), ["run", "told", "ask", "end", "finish"]);
    }
}

#[test]
fn interleaved_calls_and_late_text_never_overlap() {
    let answer: Answer = vec![
        Ok(Delta::Text("before".into())),
        Ok(Delta::ToolCallStarted { index: 0, id: "a".into(), name: "look".into() }),
        Ok(Delta::ToolCallStarted { index: 1, id: "b".into(), name: "look".into() }),
        Ok(Delta::ToolCallArguments { index: 1, fragment: "{\"x\"".into() }),
        Ok(Delta::Text("late".into())),
        Ok(Delta::ToolCallArguments { index: 0, fragment: "{}".into() }),
        Ok(Delta::ToolCallArguments { index: 1, fragment: ":1}".into() }),
        Ok(Delta::Finished(FinishReason::ToolCalls)),
    ];
    let mut scene = Scene::new(vec![answer, text("done")]);
    scene.audience = Audience::Live;
    let played = scene.play();
    let parts: Vec<String> = played
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::PartStopped { content: Part::Text { text }, .. } => Some(text.clone()),
            EventKind::PartStopped { content: Part::ToolCall(call), .. } => {
                Some(format!("{} {}", call.id, call.arguments))
            }
            _ => None,
        })
        .collect();
    assert_eq!(parts, ["before", "a {}", "b {\"x\":1}", "late", "done"]);
    let seqs: Vec<u64> = played.events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_broken_attempt_leaves_no_trace_with_a_whole_audience() {
    let error = tenon_core::ModelError::new(tenon_core::ErrorClass::Network, "cut");
    let answer = vec![
        Ok(Delta::Text("half".into())),
        Ok(Delta::ToolCallStarted { index: 0, id: "a".into(), name: "look".into() }),
        Ok(Delta::Retrying { attempt: 2, attempts: 5, wait: std::time::Duration::ZERO, error }),
        Ok(Delta::Text("whole".into())),
    ];
    let played = Scene::new(vec![answer]).play();
    assert_eq!(
        names(&played.events),
        ["run", "told", "ask", "other", "turn", "start", "stop", "end", "finish"]
    );
    assert_eq!(played.outcome.metrics.models["scripted"].requests, 2);
    assert_eq!(played.outcome.metrics.models["scripted"].errors, 1);
}

#[test]
fn who_takes_over_is_told_and_counted() {
    let used = |input| Delta::Usage(tenon_core::Usage { input, total: input, ..Default::default() });
    let switched = |from: &str, to: &str, fallback| Delta::SwitchedModel {
        from: from.into(),
        to: to.into(),
        status: Some(429),
        fallback,
    };
    let answer = vec![
        Ok(Delta::Text("half".into())),
        Ok(used(5)),
        Ok(switched("scripted", "second", 1)),
        Ok(switched("second", "third", 2)),
        Ok(Delta::ToolCallStarted { index: 0, id: "a".into(), name: "look".into() }),
        Ok(used(7)),
    ];
    let played = Scene::new(vec![answer, text("done")]).play();
    let told: Vec<String> = played
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::TurnStarted { model, .. } => Some(format!("turn of {model}")),
            EventKind::ModelFallback { from, to, fallback, .. } => {
                Some(format!("{from} to {to} ({fallback})"))
            }
            _ => None,
        })
        .collect();
    assert_eq!(told, ["scripted to second (1)", "second to third (2)", "turn of third", "turn of third"]);
    let models = &played.outcome.metrics.models;
    let counts = |name: &str| (models[name].requests, models[name].errors, models[name].usage.input);
    assert_eq!(counts("scripted"), (1, 1, 5));
    assert_eq!(counts("second"), (1, 1, 0));
    assert_eq!(counts("third"), (2, 0, 7));
    let asked: Vec<String> =
        played.model.requests.lock().unwrap().iter().map(|request| request.model.clone()).collect();
    assert_eq!(asked, ["scripted", "third"]);
}

#[test]
fn snapshots_of_a_payload_only_grow() {
    let fragments = ["{\"secret\":\"a", "bc\"", ",\"list\":[1,", "2,3", "]}"];
    let mut answer: Answer =
        vec![Ok(Delta::ToolCallStarted { index: 0, id: "a".into(), name: "structured_output".into() })];
    answer.extend(
        fragments.map(|fragment| Ok(Delta::ToolCallArguments { index: 0, fragment: fragment.into() })),
    );
    let mut scene = Scene::new(vec![answer]).schema(SCHEMA);
    scene.audience = Audience::LiveWithSnapshots;
    let played = scene.play();
    let snapshots: Vec<String> = played
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::StructuredPartial { snapshot, .. } => Some(snapshot.get().to_owned()),
            _ => None,
        })
        .collect();
    // The second one waits until the answer ends, because snapshots are rare on purpose.
    assert_eq!(snapshots, ["{\"secret\":\"abc\"}", "{\"secret\":\"abc\",\"list\":[1,2,3]}"]);
}

#[test]
fn nothing_durable_holds_a_payload() {
    let mut scene = Scene::new(vec![
        calls(&[("a", "structured_output", r#"{"secret":["hunter2"],"hunter2":1}"#)]),
        calls(&[("b", "structured_output", r#"{"secret":"hunter2"}"#)]),
    ])
    .schema(r#"{"type":"object","properties":{"secret":{"type":"string"}},"required":["secret"],"additionalProperties":false}"#);
    scene.audience = Audience::LiveWithSnapshots;
    let played = scene.play();
    assert_eq!(played.payload(), Some(r#"{"secret":"hunter2"}"#));
    let stored: Vec<String> =
        played.events.iter().map(|event| serde_json::to_string(&event.redact()).unwrap()).collect();
    for line in &stored {
        assert!(!line.contains("hunter2"), "{line}");
    }
    let placeholder = serde_json::to_string(REDACTED_ARGS).unwrap();
    assert_eq!(stored.iter().filter(|line| line.contains(&placeholder)).count(), 3);
    for record in played.journal.records() {
        if let tenon_core::TurnRecord::ModelTurn { message, .. } = record {
            assert!(!serde_json::to_string(&message.redact()).unwrap().contains("hunter2"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(64)))]

    /// However an answer is cut into deltas, live deltas add up to the finished parts.
    #[test]
    fn prop_deltas_add_up(pieces in proptest::collection::vec((0_u8..3, "[a-z ]{1,8}"), 1..20)) {
        let mut answer: Answer = Vec::new();
        let mut started = [false; 2];
        for (kind, piece) in &pieces {
            match kind {
                0 => answer.push(Ok(Delta::Text(piece.clone()))),
                1 => answer.push(Ok(Delta::Thinking(piece.clone()))),
                _ => {
                    let index = piece.len() % 2;
                    if !started[index] {
                        started[index] = true;
                        answer.push(Ok(Delta::ToolCallStarted { index, id: format!("c{index}"), name: "nope".into() }));
                    }
                    answer.push(Ok(Delta::ToolCallArguments { index, fragment: piece.clone() }));
                }
            }
        }
        let mut scene = Scene::new(vec![answer, text("done")]);
        scene.audience = Audience::Live;
        let played = scene.play();
        let mut open: std::collections::BTreeMap<usize, String> = Default::default();
        for event in &played.events {
            match &event.kind {
                EventKind::TurnFinished { .. } => open.clear(),
                EventKind::PartStarted { part, .. } => { open.insert(*part, String::new()); }
                EventKind::PartDelta { part, text } => open.get_mut(part).unwrap().push_str(text),
                EventKind::PartStopped { part, content } => {
                    let whole = match content {
                        Part::Text { text } | Part::Thinking { text, .. } => text,
                        Part::ToolCall(call) => &call.arguments,
                        Part::ToolResult(_) | Part::Media(_) => unreachable!(),
                    };
                    prop_assert_eq!(&open[part], whole);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_call_that_has_ended_lets_what_follows_keep_its_place() {
    let native = serde_json::json!({"signature": "s"});
    let answer: Answer = vec![
        Ok(Delta::ThinkingNative(native.clone())),
        Ok(Delta::ToolCallStarted { index: 0, id: "a".into(), name: "look".into() }),
        Ok(Delta::ToolCallArguments { index: 0, fragment: r#"{"x":null}"#.into() }),
        Ok(Delta::ToolCallNative { index: 0, native: native.clone() }),
        Ok(Delta::ToolCallRestored { index: 0, arguments: "{}".into() }),
        Ok(Delta::ToolCallEnded { index: 0 }),
        Ok(Delta::Text("between".into())),
        Ok(Delta::ToolCallStarted { index: 1, id: "b".into(), name: "look".into() }),
        Ok(Delta::ToolCallEnded { index: 1 }),
        Ok(Delta::Finished(FinishReason::ToolCalls)),
    ];
    let mut scene = Scene::new(vec![answer, text("done")]);
    scene.audience = Audience::Live;
    let played = scene.play();
    let sent_back = played.model.requests.lock().unwrap()[1].messages[1].clone();
    let shown: Vec<String> = sent_back
        .parts
        .iter()
        .map(|part| match part {
            Part::Thinking { text, native } => format!("thinking {text:?} {}", native.is_some()),
            Part::Text { text } => text.clone(),
            Part::ToolCall(call) => format!("{} {} {}", call.id, call.arguments, call.native.is_some()),
            Part::ToolResult(_) | Part::Media(_) => unreachable!(),
        })
        .collect();
    assert_eq!(shown, ["thinking \"\" true", "a {} true", "between", "b  false"]);
}

#[test]
fn snapshots_of_a_large_payload_are_few() {
    let mut answer: Answer =
        vec![Ok(Delta::ToolCallStarted { index: 0, id: "a".into(), name: "structured_output".into() })];
    let mut fragment =
        |text: &str| answer.push(Ok(Delta::ToolCallArguments { index: 0, fragment: text.into() }));
    fragment(r#"{"secret":"x","items":["#);
    for n in 0..20_000 {
        fragment(&format!(r#"{{"number":{n},"name":"some name"}},"#));
    }
    fragment("0]}");
    let mut scene = Scene::new(vec![answer]).schema(SCHEMA);
    scene.audience = Audience::LiveWithSnapshots;
    let played = scene.play();
    let told: usize = played
        .events
        .iter()
        .map(|event| match &event.kind {
            EventKind::StructuredPartial { snapshot, .. } => snapshot.get().len(),
            _ => 0,
        })
        .sum();
    let payload = played.payload().unwrap().len();
    assert!(told < 8 * payload, "{told} bytes of snapshots for {payload}");
}
