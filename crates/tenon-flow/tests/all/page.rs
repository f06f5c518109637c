//! The page of a run: what is on it, what is left out, and that nothing on it acts. How it looks is tried in a browser (`xtask`).

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use tenon_core::{Timestamp, Usage};
use tenon_flow::{
    Address, Answer, AttemptView, CallView, CoordinatorView, DropReason, Given, JsonText, LoadOptions,
    MessageFate, MessageType, MessageView, NotRun, NoteView, Payloads, RunState, RunStep, RunView, Segment,
    Shown, Spent, StepError, StepErrorClass, StepKey, StepKind, StepRecord, StepStatus, TalkView, TurnView,
    ViewStatus, WorkflowOutcome, WorkflowStatus, load_text, page,
};
use tenon_testkit::cases;

/// 2026-01-31 12:00 UTC
const NOON: u64 = 1_769_860_800_000;

const DOCUMENT: &str = "
name: \"Release & <notes>\"
agents:
  tester: { description: Tests. }
steps:
  - id: build
    instructions: Build it.
  - id: test
    agent: tester
    dependsOn: [build]
    instructions: Test it.
  - id: each
    dependsOn: [build]
    instructions: Note ${{ item }}.
    loop: { forEach: [MARK-item, b] }
  - id: ship
    dependsOn: [test, each]
    condition: steps.test.status == 'completed' && steps.build.content != 'MARK-literal'
    instructions: Ship it.
";

fn spent(tokens: u64) -> Spent {
    let usage = Usage { input: tokens, output: tokens / 10, total: tokens + tokens / 10, ..Usage::default() };
    Spent { usage, cost_usd: Some(tokens as f64 / 1e6), turns: 1 }
}

fn record(status: StepStatus, content: &str, error: Option<StepError>) -> Arc<StepRecord> {
    Arc::new(StepRecord {
        status,
        content: content.to_owned(),
        result: (status == StepStatus::Completed)
            .then(|| JsonText::of(&serde_json::json!({"passed": "MARK-result"}))),
        spent: spent(1000),
        duration_ms: 2000,
        attempts: 1,
        error,
        not_run: None,
        shown: Shown::Capped,
    })
}

fn attempt(key: &StepKey, number: u32, from: u64, to: Option<u64>, error: Option<StepError>) -> AttemptView {
    let call = CallView {
        id: "c1".to_owned(),
        name: "read_file".to_owned(),
        arguments: r#"{"file_path":"MARK-arguments"}"#.to_owned(),
        started: Some(Timestamp(NOON + from)),
        ended: Some(Timestamp(NOON + from + 10)),
        result: Some("MARK-gave".to_owned()),
        is_error: false,
    };
    AttemptView {
        key: key.clone(),
        number,
        started: Timestamp(NOON + from),
        ended: to.map(|to| Timestamp(NOON + to)),
        prompt: Some("## Task\nMARK-prompt".to_owned()),
        turns: vec![TurnView {
            at: Timestamp(NOON + from + 5),
            model: "test-model".to_owned(),
            text: "MARK-answer </script><script>alert(1)</script> \u{202e}gnp.exe".to_owned(),
            usage: Usage::default(),
            calls: vec![call],
        }],
        error,
        spent: spent(1000),
    }
}

fn step(id: &str, key: StepKey, status: ViewStatus, from: u64, to: Option<u64>) -> RunStep {
    let ended = match status {
        ViewStatus::Ended(ended) => Some(record(ended, "MARK-content", None)),
        _ => None,
    };
    RunStep {
        id: id.to_owned(),
        agent: (id == "test").then(|| "tester".to_owned()),
        kind: StepKind::Agent,
        status,
        started: Some(Timestamp(NOON + from)),
        ended: to.map(|to| Timestamp(NOON + to)),
        record: ended,
        spent: spent(1000),
        attempts: vec![attempt(&key, 1, from, to, None)],
        key,
    }
}

fn top(id: &str) -> StepKey {
    StepKey::run("run_1").child(Segment::new(id))
}

fn contract_error() -> StepError {
    StepError::new(StepErrorClass::Contract, "it said: MARK-error").hint("MARK-hint")
}

/// A run that failed: every kind of status, an attempt that was repeated, items of a loop.
fn view() -> RunView {
    let completed = ViewStatus::Ended(StepStatus::Completed);
    let mut test = step("test", top("test"), ViewStatus::Ended(StepStatus::Failed), 3_000, Some(9_000));
    test.record = Some(record(StepStatus::Failed, "MARK-content", Some(contract_error())));
    test.attempts = vec![
        attempt(
            &test.key,
            1,
            3_000,
            Some(5_000),
            Some(StepError::new(StepErrorClass::Timeout, "took longer than 2 s")),
        ),
        attempt(&test.key, 2, 6_000, Some(9_000), Some(contract_error())),
    ];
    let mut each = step("each", top("each"), completed, 3_000, Some(8_000));
    each.attempts = Vec::new();
    each.kind = StepKind::ForEach { items: 2 };
    let item = |index: u32, from: u64| {
        let key = StepKey::run("run_1").child(Segment::new("each").index(index));
        step(&format!("each[{index}]"), key, completed, from, Some(from + 2_000))
    };
    let mut ship = step("ship", top("ship"), ViewStatus::Ended(StepStatus::Cancelled), 0, None);
    ship.record = Some(Arc::new(StepRecord::not_run(
        StepStatus::Cancelled,
        NotRun::DependencyFailed("test".to_owned()),
    )));
    ship.started = None;
    ship.attempts = Vec::new();
    let mut steps = vec![
        step("build", top("build"), completed, 0, Some(3_000)),
        test,
        each,
        item(0, 3_000),
        item(1, 6_000),
        ship,
    ];
    for step in &mut steps {
        if let (Some(from), Some(to), Some(record)) = (step.started, step.ended, &mut step.record) {
            Arc::make_mut(record).duration_ms = to.0 - from.0;
        }
    }
    let mut total = spent(5000);
    total.turns = 5;
    let outcome = WorkflowOutcome {
        status: WorkflowStatus::Partial,
        answer: Some(Answer::Content("MARK-outcome".to_owned())),
        steps: Vec::new(),
        spent: total,
        duration_ms: 9_000,
        error: Some(contract_error()),
        coordinator: None,
        open: Vec::new(),
        questions: Vec::new(),
    };
    RunView {
        pauses: tenon_flow::Pauses::default(),
        planning: None,
        id: "run_1".to_owned(),
        name: "Release & <notes>".to_owned(),
        state: RunState::Ended(WorkflowStatus::Partial),
        created: Timestamp(NOON),
        updated: Timestamp(NOON + 9_500),
        cwd: "/home/you/<project>".to_owned(),
        given: Given {
            inputs: JsonText::of(&serde_json::json!({"topic": "MARK-input"})),
            context: Some("MARK-context".to_owned()),
            kept: Default::default(),
        },
        document: Arc::new(
            load_text(DOCUMENT, Path::new("release.yaml"), Path::new("/"), &LoadOptions::default()).unwrap(),
        ),
        steps,
        talk: talk(),
        spent: total,
        questions: Vec::new(),
        outcome: Some(outcome),
    }
}

/// Messages of every fate, an entry, a coordinator.
fn talk() -> TalkView {
    let step = |id: &str| Address::Step(id.to_owned());
    let message = |number: u32, to: Address, fate: MessageFate| MessageView {
        id: format!("msg-send-{number}"),
        from: step("build"),
        is_known: to.step_id() != Some("MARK-nowhere"),
        to,
        msg_type: MessageType::Info,
        text: "MARK-message </script>".to_owned(),
        sent: Timestamp(NOON + 1_000),
        fate,
    };
    TalkView {
        messages: vec![
            message(1, step("test"), MessageFate::Read(Timestamp(NOON + 2_000))),
            message(2, step("MARK-nowhere"), MessageFate::Dropped(DropReason::UnknownStep)),
            message(3, Address::Coordinator, MessageFate::Waiting),
        ],
        memory: vec![NoteView {
            key: "tester/MARK-key".to_owned(),
            value: "MARK-value".to_owned(),
            written: Timestamp(NOON + 1_000),
        }],
        coordinator: Some(CoordinatorView {
            summary: Some("MARK-summary".to_owned()),
            turns: attempt(&top("build"), 1, 0, None, None).turns,
            spent: spent(300),
        }),
    }
}

#[test]
fn a_page_is_as_it_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/page.html");
    let made = page(&view(), Payloads::Shown);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &made).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == made, "UPDATE_GOLDEN=1 rewrites {}", path.display());
}

#[test]
fn what_was_said_is_left_out_unless_asked_for() {
    let made = page(&view(), Payloads::LeftOut);
    assert!(!made.contains("MARK"), "{}", &made[made.find("MARK").unwrap_or(0)..]);
    // What is no payload is there.
    for part in [
        "error[contract]",
        "took longer",
        "The step test, which it depends on, failed.",
        "test-model",
        "1,100",
        "dropped: unknown-step",
        "waiting",
        "1 entry of <code>tester</code>",
        "330 tokens",
        "2 items",
        "steps.test.status == &#39;completed&#39;",
    ] {
        assert_eq!(made.contains(part), part != "took longer", "{part}");
    }
    let made = page(&view(), Payloads::Shown);
    let marks = [
        "prompt",
        "answer",
        "arguments",
        "gave",
        "result",
        "error",
        "hint",
        "outcome",
        "input",
        "context",
        "literal",
        "item",
        "message",
        "key",
        "value",
        "summary",
        "nowhere",
    ];
    for mark in marks {
        assert!(made.contains(&format!("MARK-{mark}")), "{mark}");
    }
    // Of a step with attempts, the content is in their turns.
    assert!(made.contains("MARK-content"));
}

#[test]
fn a_page_acts_on_nothing_and_asks_for_nothing() {
    let made = page(&view(), Payloads::Shown);
    for part in [
        "<script",
        "javascript:",
        "http://",
        "https://",
        "//cdn",
        "url(http",
        "@import",
        "onload=",
        "onclick=",
        "\u{202e}",
    ] {
        let allowed =
            if part == "http://" { made.matches("xmlns=\"http://www.w3.org/2000/svg\"").count() } else { 0 };
        assert_eq!(made.matches(part).count(), allowed, "{part}");
    }
    assert!(made.contains("&lt;/script&gt;&lt;script&gt;") && made.contains("⟨U+202E⟩gnp.exe"));
    assert!(made.contains("<title>Release &amp; &lt;notes&gt; · run_1</title>"));
    // Every step is led to from graph and time, and is there.
    for index in 0..view().steps.len() {
        assert_eq!(made.matches(&format!("id=\"step-{index}\"")).count(), 1);
    }
    // And once from each message that it sent.
    assert_eq!(made.matches("href=\"#step-0\"").count(), 2 + view().talk.messages.len());
}

#[test]
fn elements_are_closed_in_their_order() {
    for payloads in [Payloads::LeftOut, Payloads::Shown] {
        balanced(&page(&view(), payloads));
    }
}

/// Every element that is opened is closed, innermost first.
fn balanced(made: &str) {
    const EMPTY: [&str; 2] = ["meta", "link"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = made.strip_prefix("<!doctype html>").unwrap();
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').unwrap();
        let tag = &rest[..end];
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap().trim_end_matches('/');
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{open:?}");
        } else if !tag.ends_with('/') && !EMPTY.contains(&name) {
            open.push(name);
        }
        if name == "style" && !tag.starts_with('/') {
            rest = &rest[rest.find("</style").unwrap()..];
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn huge_runs_make_pages_that_open() {
    let mut huge = view();
    let item = huge.steps[3].clone();
    for index in 0..3_000u32 {
        let key = StepKey::run("run_1").child(Segment::new("each").index(index + 2));
        let mut step = RunStep { id: format!("each[{}]", index + 2), key, ..item.clone() };
        step.attempts[0].turns[0].text = "x".repeat(100_000);
        step.attempts.truncate(usize::from(index < 10));
        huge.steps.push(step);
    }
    let last = RunStep {
        id: "the-last-one".to_owned(),
        key: StepKey::run("run_1").child(Segment::new("the-last-one")),
        ..huge.steps[0].clone()
    };
    huge.steps.push(last);
    let made = page(&huge, Payloads::Shown);
    let shown = |before: &str| made.contains(&format!("{before}the-last-one<"));
    assert!(shown("<h3>") && shown("\">"), "what comes after a long loop is shown, in the bars of time too");
    assert!(made.contains("2,007 more steps are not shown.") && made.contains("more rows are not shown."));
    assert!(
        made.contains("80,000 more characters are not shown.") && made.len() < 5_000_000,
        "{}",
        made.len()
    );
    balanced(&made);
}

#[test]
fn a_page_that_is_full_says_so() {
    let mut huge = view();
    let item = huge.steps[3].clone();
    for index in 0..900_u32 {
        let key = StepKey::run("run_1").child(Segment::new("each").index(index + 2));
        let mut step = RunStep { id: format!("each[{}]", index + 2), key, ..item.clone() };
        step.attempts[0].turns[0].text = "x".repeat(10_000_000 / 900);
        huge.steps.push(step);
    }
    let made = page(&huge, Payloads::Shown);
    assert!(made.len() < 10_000_000, "{}", made.len());
    assert!(made.contains("There is more than a page can hold"));
    assert!(made.contains("11,111 characters are not shown, because the page is full."));
    // Every step is still there.
    assert_eq!(made.matches("<details id=").count(), huge.steps.len());
    balanced(&made);
    assert!(!page(&view(), Payloads::Shown).contains("more than a page can hold"));
}

#[test]
fn runs_that_have_hardly_begun_have_pages() {
    let mut young = view();
    young.state = RunState::Running;
    young.outcome = None;
    young.steps.truncate(1);
    young.steps[0] =
        RunStep { status: ViewStatus::Running, ended: None, record: None, ..young.steps[0].clone() };
    balanced(&page(&young, Payloads::LeftOut));
    young.steps[0] = RunStep {
        status: ViewStatus::Waiting,
        started: None,
        attempts: Vec::new(),
        ..young.steps[0].clone()
    };
    let made = page(&young, Payloads::LeftOut);
    balanced(&made);
    assert!(made.contains("It has not started.") && !made.contains("id=\"time-heading\""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(100)))]
    #[test]
    fn no_text_gets_out_of_its_place(hostile in prop_oneof![any::<String>(), "[<>/\"'&a-z =!\\-]{0,40}".prop_map(|text| format!("</pre></details></svg><script>{text}"))]) {
        let mut odd = view();
        odd.name.clone_from(&hostile);
        odd.cwd.clone_from(&hostile);
        odd.id.clone_from(&hostile);
        odd.given.context = Some(hostile.clone());
        for step in &mut odd.steps {
            step.id.clone_from(&hostile);
            step.agent = Some(hostile.clone());
            for attempt in &mut step.attempts {
                attempt.prompt = Some(hostile.clone());
                attempt.error = Some(StepError::new(StepErrorClass::Auth, hostile.clone()).hint(hostile.clone()));
                for turn in &mut attempt.turns {
                    turn.text.clone_from(&hostile);
                    turn.model.clone_from(&hostile);
                    for call in &mut turn.calls {
                        call.name.clone_from(&hostile);
                        call.arguments.clone_from(&hostile);
                        call.result = Some(hostile.clone());
                    }
                }
            }
        }
        let made = page(&odd, Payloads::Shown);
        prop_assert!(!made.contains("<script"));
        balanced(&made);
    }
}
