//! Agents that work for a call: what they get, what they may not, and what comes back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenon_agent::{AgentType, Cap, Limits, NamedModel, ToolChoices};
use tenon_core::{
    ApprovalMode, BoxFut, Budget, ErrorClass, Estimate, EventKind, Exceeded, FinishReason, ModelClient,
    ModelError, Reservation, TaskStatus, ToolDisplay, Used,
};
use tenon_tools::{OutputStore, PermissionOptions, Permissions, Rule};

use crate::stage::{Gate, Line, Stage, does, fails, says};

fn ask(prompt: &str) -> String {
    format!(r#"{{"description":"a task","prompt":"{prompt}"}}"#)
}

fn ask_type(prompt: &str, kind: &str) -> String {
    format!(r#"{{"description":"a task","prompt":"{prompt}","subagent_type":"{kind}"}}"#)
}

fn own(name: &str) -> AgentType {
    AgentType { name: name.into(), prompt: Some("You are strict.".into()), ..AgentType::built_in().remove(0) }
}

#[test]
fn an_agent_works_for_a_call_and_its_last_words_are_the_result() {
    let seen = Stage::new(vec![
        (
            "prompt",
            vec![
                does(&[("a", "agent", &ask("count the files"))]).using(10, 1),
                says("there are 3").using(20, 2),
            ],
        ),
        ("count the files", vec![does(&[("a", "look", "{}")]).using(100, 5), says("3 files").using(200, 7)]),
    ])
    .play();
    assert_eq!(seen.ending(), Ok("there are 3"));
    assert_eq!(
        seen.told(),
        [
            "run: starts",
            "run: hears prompt",
            "run: calls a",
            "a: starts",
            "a: hears count the files",
            // The same id again, which would be two calls of one name.
            "a: calls a_2",
            "a: gets a_2",
            "a: says 3 files",
            "a: ends",
            "run: gets a",
            "run: says there are 3",
            "run: ends"
        ]
    );
    assert_eq!(seen.result_of("a"), "3 files");
    // What it used is the run's.
    assert_eq!((seen.outcome.usage().input, seen.outcome.usage().output), (330, 15));
    assert_eq!(seen.outcome.turns, 2);
    assert_eq!(seen.outcome.metrics.tools["look"].success, 1);
    // Whoever shows the call can show what the agent was asked, and how far it came.
    let shown = seen.events.iter().find_map(|event| match &event.kind {
        EventKind::ToolFinished(report) if report.call_id == "a" => report.drawing.as_deref(),
        _ => None,
    });
    let Some(ToolDisplay::TaskExecution(task)) = shown else { panic!("{shown:?}") };
    assert_eq!(
        (task.status, task.result.as_deref(), task.tool_calls, task.usage.input),
        (TaskStatus::Completed, Some("3 files"), 1, 300)
    );
    // Nothing of its conversation is kept as the run's.
    let records = format!("{:?}", seen.journal.records());
    assert!(!records.contains("a_2") && records.contains("3 files"), "{records}");
    // It has what its caller has, but for schedules and the way to answer.
    let request = &seen.requests_of("count the files")[0];
    let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["look", "write_file", "agent", "send_message"]);
    assert!(request.system.contains("You work for another agent"), "{}", request.system);
}

#[test]
fn two_agents_at_once_keep_their_events_apart() {
    let (first, second) = (Gate::new(), Gate::new());
    let starts = |call: &'static str| {
        move |event: &tenon_core::Event| {
            event.parent.as_deref() == Some(call) && matches!(event.kind, EventKind::ToolFinished(_))
        }
    };
    let seen = Stage::new(vec![
        ("prompt", vec![does(&[("a", "agent", &ask("one")), ("b", "agent", &ask("two"))]), says("both")]),
        // `one` can end only after `two` has begun to work, and `two` only after `one` has ended.
        ("one", vec![does(&[("a1", "look", "{}")]), says("first").after(&first)]),
        ("two", vec![does(&[("b1", "look", "{}")]), says("second").after(&second)]),
    ])
    .opens(&first, starts("b"))
    .opens(&second, |event| {
        event.parent.as_deref() == Some("a") && matches!(event.kind, EventKind::RunFinished(_))
    })
    .play();
    assert_eq!(seen.ending(), Ok("both"));
    assert_eq!((seen.result_of("a").as_str(), seen.result_of("b").as_str()), ("first", "second"));
    for (call, words) in [("a", "first"), ("b", "second")] {
        let of_agent: Vec<String> =
            seen.told().into_iter().filter(|line| line.starts_with(&format!("{call}:"))).collect();
        let expected = [
            "starts",
            if call == "a" { "hears one" } else { "hears two" },
            &format!("calls {call}1"),
            &format!("gets {call}1"),
            &format!("says {words}"),
            "ends",
        ]
        .map(|what| format!("{call}: {what}"));
        assert_eq!(of_agent, expected);
    }
    let at = |line: &str| seen.told().iter().position(|told| told == line).unwrap();
    assert!(at("b: gets b1") < at("a: ends") && at("a: ends") < at("b: says second"));
    // Numbers of events are each agent's own, and ids everybody's.
    let mut ids: Vec<_> = seen.events.iter().map(|event| event.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), seen.events.len());
}

#[test]
fn an_agent_that_fails_says_so_and_the_run_goes_on() {
    let overloaded = ModelError::new(ErrorClass::Overloaded, "the server is busy");
    let forbidden = ModelError::new(ErrorClass::Auth, "the key was refused");
    let cases: Vec<(Vec<Line>, AgentType, &str)> = vec![
        (vec![fails(overloaded)], own("t"), "The agent `t` failed (overloaded): the server is busy"),
        (vec![fails(forbidden)], own("t"), "The agent `t` failed (auth): the key was refused"),
        (vec![says("No.").cut(FinishReason::Refused)], own("t"), "The agent `t` failed (refused): "),
        (vec![says("Half").cut(FinishReason::Length)], own("t"), "The agent `t` failed (truncated): "),
        (vec![says("")], own("t"), "The agent `t` failed (protocol): the model gave an empty answer"),
        (
            vec![does(&[("x", "look", "{}")])],
            AgentType { max_turns: Some(1), ..own("t") },
            "The agent `t` failed (turns): the turn limit was reached: 1 of 1 turns used (`maxTurns`)",
        ),
        (
            vec![says("late").after(&Gate::new())],
            AgentType { max_time: Some(Duration::from_millis(5)), ..own("t") },
            "The agent `t` failed (budget): the wall-time budget of 5 ms was used up (`maxTime`)",
        ),
    ];
    for (lines, kind, expected) in cases {
        let mut stage = Stage::new(vec![
            ("prompt", vec![does(&[("a", "agent", &ask_type("work", "t"))]), says("went on")]),
            ("work", lines),
        ]);
        stage.types.push(kind);
        let seen = stage.play();
        assert_eq!(seen.ending(), Ok("went on"), "{expected}");
        let result = seen.result_of("a");
        assert!(result.starts_with(expected), "{result}");
        let failed = seen.events.iter().any(
            |event| matches!(&event.kind, EventKind::ToolFinished(report) if report.call_id == "a" && report.error.is_some()),
        );
        assert!(failed, "{expected}");
    }
}

#[test]
fn what_is_not_understood_starts_nobody() {
    for (arguments, expected) in [
        (r#"{"description":"d"}"#, "`agent` needs `prompt`."),
        (r#"{"description":"d","prompt":" "}"#, "`prompt` must not be empty."),
        (
            r#"{"description":"d","prompt":"p","subagent_type":"nobody"}"#,
            "There is no agent `nobody`. There are `general-purpose`, `explore`.",
        ),
        (
            r#"{"description":"d","prompt":"p","model":"x"}"#,
            "`agent` does not know `model`; it takes `description`, `prompt`, `subagent_type`, `run_in_background`.",
        ),
        (
            r#"{"description":"d","prompt":"p","run_in_background":"yes"}"#,
            "`run_in_background` of `agent` must be true or false, not a string.",
        ),
    ] {
        let seen =
            Stage::new(vec![("prompt", vec![does(&[("a", "agent", arguments)]), says("done")])]).play();
        assert_eq!(seen.result_of("a"), expected);
    }
}

/// Rules and mode of the run hold for its agents, and types only take away.
#[test]
fn an_agent_is_never_freer_than_its_caller() {
    let write = || does(&[("w", "write_file", r#"{"file_path":"/x"}"#)]);
    let only = |names: &[&str]| ToolChoices::Only(names.iter().map(|name| (*name).to_owned()).collect());
    struct Case {
        mode: ApprovalMode,
        deny: &'static [&'static str],
        kind: AgentType,
        ran: &'static [&'static str],
        told: &'static str,
    }
    let cases = [
        Case { mode: ApprovalMode::Yolo, deny: &[], kind: own("t"), ran: &["w"], told: "ran w" },
        Case {
            mode: ApprovalMode::Yolo,
            deny: &[],
            kind: AgentType { mode: Some(ApprovalMode::Plan), ..own("t") },
            ran: &[],
            told: "Denied: `plan` mode only reads",
        },
        Case {
            mode: ApprovalMode::Plan,
            deny: &[],
            kind: AgentType { mode: Some(ApprovalMode::Yolo), ..own("t") },
            ran: &[],
            told: "Denied: `plan` mode only reads",
        },
        Case {
            mode: ApprovalMode::Default,
            deny: &[],
            kind: AgentType { mode: Some(ApprovalMode::AutoEdit), ..own("t") },
            ran: &[],
            told: "Denied: `write_file` changes files, which `default` mode allows only with approval",
        },
        Case {
            mode: ApprovalMode::Yolo,
            deny: &["Edit(//x)"],
            kind: own("t"),
            ran: &[],
            told: "Denied: `/x` is denied by the rule `Edit(//x)`",
        },
        Case {
            mode: ApprovalMode::Yolo,
            deny: &[],
            kind: AgentType { tools: only(&["look"]), ..own("t") },
            ran: &[],
            told: "There is no tool `write_file`",
        },
        Case {
            mode: ApprovalMode::Yolo,
            deny: &[],
            kind: AgentType { without: vec!["write_file".into()], ..own("t") },
            ran: &[],
            told: "There is no tool `write_file`",
        },
        Case {
            mode: ApprovalMode::Yolo,
            deny: &[],
            kind: AgentType { tools: ToolChoices::ReadOnly, ..own("t") },
            ran: &[],
            told: "There is no tool `write_file`",
        },
    ];
    for Case { mode, deny, kind, ran, told } in cases {
        let mut stage = Stage::new(vec![
            ("prompt", vec![does(&[("a", "agent", &ask_type("work", "t"))]), says("done")]),
            ("work", vec![write(), says("tried")]),
        ]);
        stage.agent.permissions = Permissions::new(PermissionOptions {
            mode,
            deny: deny.iter().map(|rule| Rule::parse(rule).unwrap()).collect(),
            cwd: "/".into(),
            ..PermissionOptions::default()
        })
        .unwrap();
        stage.types.push(kind);
        let seen = stage.play();
        assert_eq!(seen.ending(), Ok("done"));
        assert_eq!(seen.ran, ran, "{told}");
        assert!(seen.result_of("w").starts_with(told), "{}", seen.result_of("w"));
        // A denial of an agent is one of the run.
        assert_eq!(seen.outcome.denials.len(), usize::from(told.starts_with("Denied")), "{told}");
    }
}

#[test]
fn a_denial_of_an_agent_fails_a_run_that_fails_on_denials() {
    let mut stage = Stage::new(vec![
        ("prompt", vec![does(&[("a", "agent", &ask_type("work", "t"))]), says("done")]),
        ("work", vec![does(&[("w", "write_file", "{}")]), says("tried")]),
    ]);
    stage.types.push(AgentType { mode: Some(ApprovalMode::Plan), ..own("t") });
    stage.agent.fail_on_denied = true;
    let seen = stage.play();
    assert!(seen.ending().unwrap_err().starts_with("tool: 1 tool call was denied"), "{:?}", seen.ending());
}

#[test]
fn the_agent_tool_is_not_offered_at_the_greatest_depth_nor_where_a_rule_removes_it() {
    let mut stage = Stage::new(vec![
        ("prompt", vec![does(&[("a", "agent", &ask("one"))]), says("0")]),
        ("one", vec![does(&[("b", "agent", &ask("two"))]), says("1")]),
        ("two", vec![does(&[("c", "agent", &ask("three"))]), says("2")]),
    ]);
    stage.max_depth = 2;
    let seen = stage.play();
    assert_eq!((seen.result_of("a").as_str(), seen.result_of("b").as_str()), ("1", "2"));
    assert!(seen.result_of("c").starts_with("There is no tool `agent`"), "{}", seen.result_of("c"));
    let offered = |prompt: &str| {
        let request = seen.requests_of(prompt).remove(0);
        request.tools.iter().filter(|tool| tool.name == "agent" || tool.name == "send_message").count()
    };
    assert_eq!((offered("prompt"), offered("one"), offered("two")), (2, 2, 0));

    let mut stage = Stage::new(vec![("prompt", vec![says("alone")])]);
    stage.agent.permissions = Permissions::new(PermissionOptions {
        deny: vec![Rule::parse("agent").unwrap()],
        cwd: "/".into(),
        ..PermissionOptions::default()
    })
    .unwrap();
    let seen = stage.play();
    assert!(seen.requests_of("prompt")[0].tools.iter().all(|tool| tool.name != "agent"));
}

#[test]
fn the_terminal_tool_is_not_an_agents_to_call_and_its_arguments_are_never_kept() {
    let answer = r#"{"secret":"marker"}"#;
    let seen = Stage::new(vec![
        (
            "prompt",
            vec![
                does(&[("a", "agent", &ask("work"))]),
                does(&[("z", "structured_output", r#"{"ok":true}"#)]),
            ],
        ),
        ("work", vec![does(&[("s", "structured_output", answer), ("l", "look", "{}")]), says("in words")]),
    ])
    .schema(r#"{"type":"object"}"#)
    .play();
    assert_eq!(seen.ending(), Ok(r#"{"ok":true}"#));
    assert_eq!(seen.result_of("a"), "in words");
    let refused = "`structured_output` is the run's own to call, and you work for it: answer in plain text.";
    assert_eq!(seen.result_of("s"), refused);
    assert_eq!(seen.ran, ["l"], "a call that means nothing suppresses nothing");
    let request = &seen.requests_of("work")[0];
    assert!(request.tools.iter().all(|tool| tool.name != "structured_output"));
    for event in &seen.events {
        let kept = serde_json::to_string(&event.redact()).unwrap();
        assert!(!kept.contains("marker"), "{kept}");
    }
}

#[test]
fn tool_calls_are_counted_together_and_turns_apart() {
    let look = |id: &'static str| does(&[(id, "look", "{}")]);
    let parts = || {
        vec![
            ("prompt", vec![does(&[("a", "agent", &ask("work"))]), look("z"), says("done")]),
            ("work", vec![look("x"), look("y"), says("worked")]),
        ]
    };
    let play = |tool_calls: u32, turns: u32| {
        let mut stage = Stage::new(parts());
        stage.agent.limits =
            Limits { tool_calls: Cap::AtMost(tool_calls), turns: Cap::AtMost(turns), ..Limits::default() };
        stage.play()
    };
    // `agent`, two of the agent, and one more of the run.
    let seen = play(4, 3);
    assert_eq!((seen.ending(), seen.outcome.turns), (Ok("done"), 3));
    let seen = play(2, 3);
    assert!(
        seen.result_of("a").contains("failed (budget): the tool-call budget was reached: 2 of 2"),
        "{}",
        seen.result_of("a")
    );
    assert!(seen.ending().unwrap_err().starts_with("budget: the tool-call budget was reached: 2 of 2"));
    let seen = play(4, 2);
    assert!(
        seen.result_of("a").contains("failed (turns): the turn limit was reached: 2 of 2"),
        "{}",
        seen.result_of("a")
    );
}

/// Lets so many requests through, whoever asks.
struct Purse(AtomicU32);

impl Budget for Purse {
    fn reserve(&self, _estimate: Estimate) -> BoxFut<'_, Result<Reservation, Exceeded>> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let refused = Exceeded::Money { spent: 1.0, next: 0.5, limit: 1.0, set_by: "the purse" };
        Box::pin(async move { left.map(|_| Reservation::new(|_| ())).map_err(|_| refused) })
    }

    fn count(&self, _used: Used) {}
}

#[test]
fn the_budget_is_one_for_all() {
    let play = |requests: u32| {
        let mut stage = Stage::new(vec![
            ("prompt", vec![does(&[("a", "agent", &ask("work"))]), says("done")]),
            ("work", vec![does(&[("x", "look", "{}")]), says("worked")]),
        ]);
        stage.agent.budget = Arc::new(Purse(AtomicU32::new(requests)));
        stage.play()
    };
    assert_eq!(play(4).ending(), Ok("done"));
    let seen = play(2);
    assert!(
        seen.ending().unwrap_err().starts_with("budget: the money budget was reached"),
        "{:?}",
        seen.ending()
    );
    let told = seen.journal.records();
    assert!(format!("{told:?}").contains("failed (budget): the money budget was reached"), "{told:?}");
}

#[test]
fn an_agent_may_have_a_model_and_instructions_of_its_own() {
    let mut stage = Stage::new(vec![
        (
            "prompt",
            vec![
                does(&[("a", "agent", &ask_type("work", "t")), ("b", "agent", &ask_type("play", "u"))]),
                says("done"),
            ],
        ),
        ("work", vec![says("worked")]),
        ("play", vec![says("played")]),
    ]);
    let named = NamedModel { client: Arc::clone(&stage.cast) as Arc<dyn ModelClient>, name: "small".into() };
    stage.types.push(AgentType { model: Some(named), ..own("t") });
    stage.types.push(own("u"));
    let seen = stage.play();
    assert_eq!(seen.requests_of("work")[0].model, "small");
    assert_eq!(seen.requests_of("play")[0].model, "scripted");
    assert!(seen.requests_of("work")[0].system.starts_with("You are strict.\n\n"));
    assert_eq!(seen.outcome.metrics.models["small"].requests, 1);
}

#[test]
fn of_a_long_answer_the_end_is_told_and_the_whole_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("BEGIN{}END", "x".repeat(40_000));
    let mut stage = Stage::new(vec![
        ("prompt", vec![does(&[("a", "agent", &ask("work"))]), says("done")]),
        ("work", vec![says(&long)]),
    ]);
    stage.outputs = OutputStore::at(folder.path().join("outputs"));
    let seen = stage.play();
    let result = seen.result_of("a");
    assert!(result.starts_with("[the beginning was cut off; the whole is in "), "{}", &result[..200]);
    assert!(result.ends_with("xxEND") && result.chars().count() < 32_300);
    let path = result.split("the whole is in ").nth(1).unwrap().split(']').next().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), long);
}

/// A run that is stopped stops its agents, and one that is dropped leaves nobody at work.
#[test]
fn agents_end_with_their_caller() {
    let stop = Arc::new(Mutex::new(None));
    let mut stage = Stage::new(vec![
        ("prompt", vec![does(&[("a", "agent", &ask("work"))])]),
        ("work", vec![does(&[("b", "agent", &ask("deep"))])]),
        ("deep", vec![says("never").after(&Gate::new())]),
    ]);
    *stop.lock().unwrap() = Some(stage.agent.stop.clone());
    stage = stage.on(move |event| {
        if event.parent.as_deref() == Some("b") && matches!(event.kind, EventKind::Asking { .. }) {
            let stop = stop.lock().unwrap().take().unwrap();
            stop.now(tenon_core::Failure::new(ErrorClass::Interrupted(tenon_core::Signal::Term), "stop"));
        }
    });
    let seen = stage.play();
    assert_eq!(seen.ending(), Err("interrupted: stop".into()));
    let told = seen.told();
    assert!(told.contains(&"b: ends".to_owned()) && told.contains(&"a: ends".to_owned()), "{told:?}");
}
