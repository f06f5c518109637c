//! A run that was cut off after any of its records goes on as if it had not been.

use tenon_agent::{INTERRUPTED, Replay};
use tenon_core::{FinishReason, LeftBehind, Message, Part, TurnRecord};

use crate::script::{Answer, Played, Scene, calls, text};

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

/// Two reads side by side and a write, a rejected answer, another write, a reminder, the answer.
fn script() -> Vec<Answer> {
    vec![
        calls(&[("a", "look", "{}"), ("b", "look", r#"{"n":2}"#), ("c", "write_file", "{}")]),
        calls(&[("d", "structured_output", r#"{"n":"x"}"#)]),
        calls(&[("d", "write_file", r#"{"n":3}"#)]),
        text("I forgot."),
        calls(&[("e", "structured_output", r#"{"n":1}"#)]),
    ]
}

fn scene(answers: Vec<Answer>, records: &[TurnRecord]) -> Played {
    let mut scene = Scene::new(answers).schema(SCHEMA);
    scene.limits.nudges = 1;
    scene.replay = Replay::of(records.iter().cloned());
    scene.play()
}

/// The conversation, readable and comparable.
fn shown(history: &[Message]) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::ToolCall(call) => format!("{}({}) {}", call.id, call.name, call.arguments),
        Part::ToolResult(result) => format!("{} -> {} {}", result.call_id, result.is_error, result.content),
        other => format!("{other:?}"),
    };
    history.iter().map(|message| message.parts.iter().map(part).collect::<Vec<_>>().join(" | ")).collect()
}

/// What was used. How long that took is this machine's business.
fn models(played: &Played) -> std::collections::BTreeMap<String, tenon_core::ModelMetrics> {
    let mut models = played.outcome.metrics.models.clone();
    models.values_mut().for_each(|model| model.latency_ms = 0);
    models
}

#[test]
fn every_cut_gives_the_same_run() {
    let whole = scene(script(), &[]);
    assert_eq!(whole.payload(), Some(r#"{"n":1}"#));
    assert_eq!(whole.ran, ["a", "b", "c", "d_2"]);
    let records = whole.journal.records();
    assert!(records.len() > 12, "{}", records.len());
    for cut in 0..=records.len() {
        let (before, after) = records.split_at(cut);
        let turns = |records: &[TurnRecord]| {
            records.iter().filter(|record| matches!(record, TurnRecord::ModelTurn { .. })).count()
        };
        let again = scene(script().split_off(turns(before)), before);

        assert_eq!(again.model.requests.lock().unwrap().len(), turns(after), "cut at {cut}");
        assert_eq!(again.payload(), whole.payload(), "cut at {cut}");
        assert_eq!(again.outcome.turns, whole.outcome.turns, "cut at {cut}");
        assert_eq!(models(&again), models(&whole), "cut at {cut}");

        let started = |id: &str| {
            before.iter().any(|r| matches!(r, TurnRecord::ToolStarted { call_id, .. } if call_id == id))
        };
        let finished = |id: &str| {
            before
                .iter()
                .any(|r| matches!(r, TurnRecord::ToolFinished { result, .. } if result.call_id == id))
        };
        let left: Vec<&String> = whole.ran.iter().filter(|id| !started(id)).collect();
        assert_eq!(again.ran.iter().collect::<Vec<_>>(), left, "cut at {cut}");
        let expected: Vec<String> = shown(&whole.history)
            .into_iter()
            .map(|line| {
                let unknown = whole.ran.iter().filter(|id| started(id) && !finished(id));
                unknown.fold(line, |line, id| {
                    line.replace(&format!("{id} -> false ran {id}"), &format!("{id} -> true {INTERRUPTED}"))
                })
            })
            .collect();
        assert_eq!(shown(&again.history), expected, "cut at {cut}");

        // Together the two runs leave what one would have left; what was unknown is written down as such.
        let kinds = |records: &[TurnRecord]| {
            let mut kinds: Vec<String> = records.iter().map(kind).collect();
            kinds.sort();
            kinds
        };
        let both: Vec<TurnRecord> = before.iter().cloned().chain(again.journal.records()).collect();
        assert_eq!(kinds(&both), kinds(&records), "cut at {cut}");
    }
}

fn kind(record: &TurnRecord) -> String {
    match record {
        TurnRecord::UserMessage { message, .. } => format!("told {}", message.text()),
        TurnRecord::ModelTurn { turn, .. } => format!("turn {turn}"),
        TurnRecord::ToolStarted { call_id, .. } => format!("started {call_id}"),
        TurnRecord::ToolFinished { result, .. } => format!("finished {}", result.call_id),
        TurnRecord::Compacted { .. } => "compacted".to_owned(),
        TurnRecord::Besides { .. } => "besides".to_owned(),
        TurnRecord::Stopped { .. } => "stopped".to_owned(),
        TurnRecord::Withdrawn => "withdrawn".to_owned(),
    }
}

#[test]
fn an_answer_that_was_cut_by_its_length_is_judged_again() {
    let turn = TurnRecord::ModelTurn {
        turn: 1,
        model: "scripted".to_owned(),
        message: Message {
            role: tenon_core::Role::Assistant,
            parts: vec![Part::Text { text: "half".to_owned() }],
        },
        usage: tenon_core::Usage::default(),
        finish: FinishReason::Length,
    };
    let mut scene = Scene::new(Vec::new());
    scene.replay = Replay::of([turn]);
    assert_eq!(scene.play().class(), "truncated");
}

#[test]
fn only_background_work_of_whose_end_nobody_was_told_is_lost() {
    let call = |id: &str| {
        Part::ToolCall(tenon_core::ToolCall {
            id: id.to_owned(),
            name: "look".to_owned(),
            arguments: "{}".to_owned(),
            terminal: false,
            native: None,
        })
    };
    let parts = ["a", "b", "c", "s"].map(call).to_vec();
    let begun = |id: &str| tenon_core::BegunTask {
        task_id: format!("bg_{id}"),
        kind: tenon_core::TaskKind::Shell,
        description: "work".to_owned(),
    };
    let done = |id: &str, left: LeftBehind| TurnRecord::ToolFinished {
        turn: 1,
        result: tenon_core::ToolResult {
            call_id: id.to_owned(),
            name: "look".to_owned(),
            content: "runs".to_owned(),
            is_error: false,
            media: Vec::new(),
            stored: None,
        },
        left,
    };
    let begins = |id: &str| done(id, LeftBehind { begun: vec![begun(id)], ..LeftBehind::default() });
    let told = |text: &str, ended: &[&str]| TurnRecord::UserMessage {
        message: Message::user(text),
        origin: tenon_core::Origin::Notice,
        mail: Vec::new(),
        ended: ended.iter().map(|id| (*id).to_owned()).collect(),
    };
    let prompt = TurnRecord::UserMessage {
        message: Message::user("prompt"),
        origin: tenon_core::Origin::Prompt,
        mail: Vec::new(),
        ended: Vec::new(),
    };
    let turn = TurnRecord::ModelTurn {
        turn: 1,
        model: "scripted".to_owned(),
        message: Message { role: tenon_core::Role::Assistant, parts },
        usage: tenon_core::Usage::default(),
        finish: FinishReason::ToolCalls,
    };
    // One was stopped by the model, one had ended and that was told last; the third is lost.
    let stops = done("s", LeftBehind { ended: vec!["bg_a".to_owned()], ..LeftBehind::default() });
    let records =
        [prompt, turn, begins("a"), begins("b"), begins("c"), stops, told("b has ended", &["bg_b"])];
    let mut scene = Scene::new(vec![text("done")]);
    scene.replay = Replay::of(records);
    let played = scene.play();
    let asked =
        played.model.requests.lock().unwrap()[0].messages.iter().map(Message::text).collect::<String>();
    assert!(asked.contains("b has ended"), "{asked}");
    assert_eq!(asked.matches("is not known").count(), 1, "{asked}");
    assert!(asked.contains("bg_c (work) was under way"), "{asked}");
    let kept: Vec<Vec<String>> = played
        .journal
        .records()
        .into_iter()
        .filter_map(|record| match record {
            TurnRecord::UserMessage { ended, .. } => Some(ended),
            _ => None,
        })
        .collect();
    assert_eq!(kept, [vec!["bg_c".to_owned()]]);
}

#[test]
fn a_conversation_that_was_made_shorter_stays_so() {
    let short = vec![Message::user("summary"), Message::user("prompt")];
    let records = [TurnRecord::Compacted { messages: short, before_tokens: 10, after_tokens: 5 }];
    let mut scene = Scene::new(vec![text("done")]);
    scene.replay = Replay::of(records);
    let played = scene.play();
    let asked: Vec<String> =
        played.model.requests.lock().unwrap()[0].messages.iter().map(Message::text).collect();
    assert_eq!(asked, ["summary", "prompt"]);
}
