//! Work in the background: when clients see it, when the model hears of it, and how it ends.

use std::time::Duration;

use tenon_agent::{Cap, Limits, Stop};
use tenon_core::{ErrorClass, Event, EventKind, Failure, Origin, Request, Signal, TaskStatus, TurnRecord};

use crate::stage::{From, Gate, Line, Stage, does, does_with, fails, says};

/// Long enough for any test, so that nothing is decided by it.
const LONG: Duration = Duration::from_secs(60);

fn background(prompt: &str) -> String {
    format!(r#"{{"description":"a task","prompt":"{prompt}","run_in_background":true}}"#)
}

fn is_end(event: &Event) -> bool {
    matches!(event.kind, EventKind::TaskEnded(_))
}

fn run_says(words: &'static str) -> impl Fn(&Event) -> bool + Send + Sync {
    move |event| {
        event.parent.is_none()
            && matches!(&event.kind, EventKind::PartStopped { content: tenon_core::Part::Text { text }, .. } if text == words)
    }
}

/// What the last message of a request says.
fn last_words(request: &Request) -> String {
    request.messages.last().unwrap().text()
}

/// The id of the only task, as the model was told.
fn task_of(request: &Request) -> String {
    let told = format!("{:?}", request.messages);
    let at = told.find("bg_").expect("a task was named");
    told[at..at + 11].to_owned()
}

const ANSWER: &str = "Background agent \"general-purpose: a task\" completed.\nfound it";

#[test]
fn an_agent_that_ends_after_the_answer_is_waited_for_and_told() {
    let gate = Gate::new();
    let seen = Stage::new(vec![
        (
            "prompt",
            vec![does(&[("a", "agent", &background("search"))]), says("waiting"), says("it was there")],
        ),
        ("search", vec![says("found it").after(&gate).using(7, 3)]),
    ])
    .waiting(LONG)
    .opens(&gate, run_says("waiting"))
    .play();
    assert_eq!(seen.ending(), Ok("it was there"));
    assert_eq!(
        seen.told(),
        [
            "run: starts",
            "run: hears prompt",
            "run: calls a",
            "run: task starts",
            "run: gets a",
            "run: says waiting",
            "a: starts",
            "a: hears search",
            "a: says found it",
            "a: ends",
            "run: hears Background agent \"general-purpose: a task\" completed.",
            "run: task completed",
            "run: says it was there",
            "run: ends"
        ]
    );
    let last = seen.requests_of("prompt").pop().unwrap();
    assert_eq!(last_words(&last), ANSWER);
    // What it used is the run's, and its own.
    assert_eq!(seen.outcome.usage().input, 7);
    let end = seen.events.iter().find_map(|event| match &event.kind {
        EventKind::TaskEnded(end) => Some(end),
        _ => None,
    });
    assert_eq!(end.unwrap().usage.unwrap().total, 10);
    // The model's news is part of the conversation that is kept.
    let kept = seen.journal.records().into_iter().find_map(|record| match record {
        TurnRecord::UserMessage { message, origin: Origin::Notice, .. } => Some(message.text()),
        _ => None,
    });
    assert_eq!(kept.as_deref(), Some(ANSWER));
    seen.assert_tasks_are_whole();
}

#[test]
fn an_agent_that_ends_before_the_answer_is_told_with_the_next_request() {
    let gate = Gate::new();
    let seen = Stage::new(vec![
        (
            "prompt",
            vec![
                does(&[("a", "agent", &background("search"))]),
                does(&[("b", "look", "{}")]).after(&gate),
                says("done"),
            ],
        ),
        ("search", vec![says("found it")]),
    ])
    .opens(&gate, is_end)
    .play();
    assert_eq!(seen.ending(), Ok("done"));
    // While the model wrote, clients were told; the model heard it beside the result of its call.
    let at = |line: &str| seen.told().iter().position(|told| told == line).unwrap();
    assert!(at("run: task completed") < at("run: calls b"));
    assert_eq!(last_words(&seen.requests_of("prompt")[2]), ANSWER);
    assert_eq!(seen.outcome.turns, 3);
}

#[test]
fn news_that_comes_while_the_model_finishes_makes_one_more_turn() {
    let gate = Gate::new();
    let seen = Stage::new(vec![
        (
            "prompt",
            vec![
                does(&[("a", "agent", &background("search"))]),
                says("enough").after(&gate),
                says("and this"),
            ],
        ),
        ("search", vec![says("found it")]),
    ])
    .waiting(Duration::ZERO)
    .opens(&gate, is_end)
    .play();
    assert_eq!((seen.ending(), seen.outcome.turns), (Ok("and this"), 3));
}

#[test]
fn a_failed_agent_is_told_as_failed() {
    let refused = tenon_core::ModelError::new(ErrorClass::Auth, "the key was refused");
    let seen = Stage::new(vec![
        ("prompt", vec![does(&[("a", "agent", &background("search"))]), says("waiting"), says("pity")]),
        ("search", vec![fails(refused)]),
    ])
    .waiting(LONG)
    .play();
    assert_eq!(seen.ending(), Ok("pity"));
    assert_eq!(
        seen.ends(),
        [(TaskStatus::Failed, "Background agent \"general-purpose: a task\" failed.".into())]
    );
    let told = last_words(&seen.requests_of("prompt")[2]);
    assert!(told.ends_with("The agent `general-purpose` failed (auth): the key was refused"), "{told}");
}

/// Plain text while agents are at work is no broken contract yet; a terminal call in a drain turn ends the run
/// as in any other.
#[test]
fn a_contract_may_be_fulfilled_in_a_drain_turn() {
    let gate = Gate::new();
    let parts = |last: Vec<Line>| {
        let mut run = vec![does(&[("a", "agent", &background("search"))]), says("waiting")];
        run.extend(last);
        vec![("prompt", run), ("search", vec![says("found it").after(&gate)])]
    };
    let play = |last: Vec<Line>, nudges: u32| {
        let mut stage = Stage::new(parts(last)).schema(r#"{"type":"object","required":["n"]}"#).waiting(LONG);
        stage.agent.limits.nudges = nudges;
        stage.opens(&gate, run_says("waiting")).play()
    };
    let answers = || vec![does(&[("z", "structured_output", r#"{"n":1}"#), ("w", "write_file", "{}")])];
    let seen = play(answers(), 0);
    assert_eq!((seen.ending(), seen.outcome.turns, seen.ran.len()), (Ok(r#"{"n":1}"#), 3, 0));
    // Rejected there, it may be repeated there.
    let twice =
        vec![does(&[("y", "structured_output", "{}")]), does(&[("z", "structured_output", r#"{"n":2}"#)])];
    assert_eq!(play(twice, 0).ending(), Ok(r#"{"n":2}"#));
    // Once nothing is to come any more, text is what it always was.
    let seen = play(vec![says("no answer")], 0);
    assert!(
        seen.ending().unwrap_err().starts_with("contract: the model answered in plain text"),
        "{:?}",
        seen.ending()
    );
    assert_eq!(seen.outcome.turns, 3);
    // And a reminder comes only then.
    let reminded = play(vec![says("no answer"), does(&[("z", "structured_output", r#"{"n":3}"#)])], 1);
    assert_eq!((reminded.ending(), reminded.outcome.turns), (Ok(r#"{"n":3}"#), 4));
}

#[test]
fn an_accepted_answer_stops_what_is_still_at_work() {
    let seen = Stage::new(vec![
        (
            "prompt",
            vec![
                does(&[("a", "agent", &background("one")), ("b", "agent", &background("two"))]),
                does(&[("z", "structured_output", "{}")]),
            ],
        ),
        ("one", vec![says("never").after(&Gate::new())]),
        ("two", vec![does(&[("c", "agent", &background("three"))]), says("never").after(&Gate::new())]),
        ("three", vec![says("never").after(&Gate::new())]),
    ])
    .schema(r#"{"type":"object"}"#)
    .waiting(LONG)
    .play();
    assert_eq!(seen.ending(), Ok("{}"));
    assert!(seen.ends().iter().all(|(status, _)| *status == TaskStatus::Cancelled), "{:?}", seen.ends());
    seen.assert_tasks_are_whole();
    assert_eq!(seen.outcome.warnings, Vec::<String>::new(), "that is how a contract ends");
}

#[test]
fn a_signal_after_the_answer_was_accepted_changes_nothing() {
    let mut stage = Stage::new(vec![
        (
            "prompt",
            vec![does(&[("a", "agent", &background("one"))]), does(&[("z", "structured_output", "{}")])],
        ),
        ("one", vec![says("never").after(&Gate::new())]),
    ])
    .schema(r#"{"type":"object"}"#);
    let stop: Stop = stage.agent.stop.clone();
    stage = stage.on(move |event| {
        if is_end(event) {
            stop.now(Failure::new(ErrorClass::Interrupted(Signal::Int), "stop"));
        }
    });
    let seen = stage.play();
    assert_eq!(seen.ending(), Ok("{}"));
    seen.assert_tasks_are_whole();
}

#[test]
fn a_stop_after_the_last_answer_leaves_it_the_answer() {
    let mut stage = Stage::new(vec![("prompt", vec![says("done")])]).waiting(LONG);
    let stop = stage.agent.stop.clone();
    stage = stage.on(move |event| {
        if run_says("done")(event) {
            stop.now(Failure::new(ErrorClass::Interrupted(Signal::Int), "stop"));
        }
    });
    assert_eq!(stage.play().ending(), Ok("done"));
}

#[test]
fn a_run_waits_no_longer_than_it_may_and_says_what_it_stopped() {
    let seen = Stage::new(vec![
        ("prompt", vec![does(&[("a", "agent", &background("search"))]), says("I did my part")]),
        ("search", vec![says("never").after(&Gate::new())]),
    ])
    .waiting(Duration::from_millis(20))
    .play();
    assert_eq!(seen.ending(), Ok("I did my part"));
    let said =
        "1 background agent was stopped at the end of the run, after 20 ms of waiting (`tasks.waitMs`)";
    assert_eq!(seen.outcome.warnings, [said]);
    assert_eq!(seen.ends().len(), 1);
    assert_eq!(seen.ends()[0].0, TaskStatus::Cancelled);
    seen.assert_tasks_are_whole();
}

#[test]
fn a_stopped_run_and_one_at_its_limit_stop_their_agents() {
    let parts = || {
        vec![
            ("prompt", vec![does(&[("a", "agent", &background("search"))]), says("waiting")]),
            ("search", vec![says("never").after(&Gate::new())]),
        ]
    };
    let mut stage = Stage::new(parts()).waiting(LONG);
    let stop = stage.agent.stop.clone();
    stage = stage.on(move |event| {
        if run_says("waiting")(event) {
            stop.now(Failure::new(ErrorClass::Interrupted(Signal::Term), "stop"));
        }
    });
    let seen = stage.play();
    assert_eq!(seen.ending(), Err("interrupted: stop".into()));
    seen.assert_tasks_are_whole();
    let stopped = "Background agent \"general-purpose: a task\" was stopped.";
    assert_eq!(seen.ends(), [(TaskStatus::Cancelled, stopped.to_owned())]);

    let mut stage = Stage::new(parts()).waiting(LONG);
    stage.agent.limits = Limits { turns: Cap::AtMost(1), ..Limits::default() };
    let seen = stage.play();
    assert!(seen.ending().unwrap_err().starts_with("turns: "));
    seen.assert_tasks_are_whole();

    let mut stage = Stage::new(parts()).waiting(LONG);
    stage.agent.limits = Limits { wall_time: Some(Duration::from_millis(20)), ..Limits::default() };
    let seen = stage.play();
    assert!(
        seen.ending().unwrap_err().starts_with("budget: the wall-time budget of 20 ms"),
        "{:?}",
        seen.ending()
    );
    seen.assert_tasks_are_whole();
}

#[test]
fn a_drain_turn_is_a_turn_and_counts_as_one() {
    let gate = Gate::new();
    let mut stage = Stage::new(vec![
        ("prompt", vec![does(&[("a", "agent", &background("search"))]), says("waiting")]),
        ("search", vec![says("found it").after(&gate)]),
    ])
    .waiting(LONG)
    .opens(&gate, run_says("waiting"));
    stage.agent.limits = Limits { turns: Cap::AtMost(2), ..Limits::default() };
    let seen = stage.play();
    assert!(
        seen.ending().unwrap_err().starts_with("turns: the turn limit was reached: 2 of 2"),
        "{:?}",
        seen.ending()
    );
}

#[test]
fn ten_agents_work_at_once_and_the_eleventh_is_refused() {
    let gate = Gate::new();
    let ids: Vec<String> = (0..11).map(|n| format!("c{n}")).collect();
    let prompts: Vec<String> = (0..11).map(|n| format!("job {n}")).collect();
    let arguments: Vec<String> = prompts.iter().map(|prompt| background(prompt)).collect();
    let made: Vec<(&str, &str, &str)> = ids
        .iter()
        .zip(&arguments)
        .map(|(id, arguments)| (id.as_str(), "agent", arguments.as_str()))
        .collect();
    let mut parts = vec![("prompt", vec![does(&made), says("waiting")])];
    parts.extend(prompts.iter().take(10).map(|prompt| (prompt.as_str(), vec![says("done").after(&gate)])));
    // All are told in as few turns as there are: however they come, every one is heard.
    parts[0].1.extend((0..10).map(|_| says("more")));
    let seen = Stage::new(parts).waiting(LONG).opens(&gate, run_says("waiting")).play();
    assert!(seen.ending().is_ok());
    assert!(
        seen.result_of("c10").starts_with("10 agents work in the background already."),
        "{}",
        seen.result_of("c10")
    );
    assert_eq!(seen.ends().iter().filter(|(status, _)| *status == TaskStatus::Completed).count(), 10);
    let heard: usize = seen
        .requests_of("prompt")
        .last()
        .unwrap()
        .messages
        .iter()
        .map(|message| message.text().matches("completed.\ndone").count())
        .sum();
    assert_eq!(heard, 10);
    seen.assert_tasks_are_whole();
}

#[test]
fn a_message_reaches_an_agent_before_its_next_turn() {
    let (first, second) = (Gate::new(), Gate::new());
    let sent =
        |event: &Event| matches!(&event.kind, EventKind::ToolFinished(report) if report.call_id == "m");
    let seen = Stage::new(vec![
        (
            "prompt",
            vec![
                does(&[("a", "agent", &background("search"))]),
                does_with("m", "send_message", |request| {
                    format!(r#"{{"task_id":"{}","message":"look in the cellar"}}"#, task_of(request))
                })
                .after(&first),
                says("waiting"),
                does_with("n", "send_message", |request| {
                    format!(r#"{{"task_id":"{}","message":"too late"}}"#, task_of(request))
                }),
                does(&[("o", "send_message", r#"{"task_id":"bg_nobody","message":"hello"}"#)]),
                says("done"),
            ],
        ),
        ("search", vec![says("upstairs").after(&second), says("found it in the cellar")]),
    ])
    .waiting(LONG)
    .opens(&first, |event| event.parent.is_some() && matches!(event.kind, EventKind::Asking { .. }))
    .opens(&second, sent)
    .play();
    assert_eq!(seen.ending(), Ok("done"));
    let heard = &seen.requests_of("search")[1];
    assert_eq!(last_words(heard), "The agent that you work for says: look in the cellar");
    assert!(seen.told().contains(&"a: hears look in the cellar".to_owned()), "{:?}", seen.told());
    assert!(seen.result_of("n").contains("cannot be spoken to: it is completed"), "{}", seen.result_of("n"));
    assert_eq!(seen.result_of("o"), "There is no background task `bg_nobody`.");
}

#[test]
fn long_news_loses_its_middle_and_much_news_comes_in_parts() {
    let gate = Gate::new();
    let long = |mark: &str| format!("{mark}{}{mark}", "x".repeat(31_000));
    let seen = Stage::new(vec![
        (
            "prompt",
            vec![
                does(&[
                    ("a", "agent", &background("one")),
                    ("b", "agent", &background("two")),
                    ("c", "agent", &background("three")),
                ]),
                does(&[("l", "look", "{}")]).after(&gate),
                says("some"),
                says("all"),
            ],
        ),
        ("one", vec![says(&long("A"))]),
        ("two", vec![says(&long("B"))]),
        ("three", vec![says(&long("C"))]),
    ])
    .opens(&gate, {
        let ended = std::sync::atomic::AtomicU32::new(0);
        move |event| is_end(event) && ended.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 2
    })
    .play();
    assert_eq!(seen.ending(), Ok("all"));
    let requests = seen.requests_of("prompt");
    let (third, fourth) = (last_words(&requests[2]), last_words(&requests[3]));
    assert!(third.chars().count() <= 64_000 && third.contains("A\n\nBackground"), "two fit");
    assert!(fourth.contains("Cxxx") && !fourth.contains("Bxxx"));
}

/// 2026-11-15 12:00:59.990 UTC: in a moment it is 12:01.
const JUST_BEFORE: u64 = 1_794_744_059_990;

#[test]
fn a_scheduled_prompt_comes_as_a_turn() {
    let create = r#"{"cron":"1 12 * * *","prompt":"look again","recurring":false}"#;
    let seen = Stage::new(vec![(
        "prompt",
        vec![
            does(&[("c", "cron_create", create)]),
            says("until then"),
            does(&[("l", "cron_list", "{}")]),
            says("done"),
        ],
    )])
    .clock(From::millis(JUST_BEFORE))
    .play();
    assert_eq!(seen.ending(), Ok("done"));
    let created = seen.result_of("c");
    assert!(created.contains("was created. It comes once, in 0 s, and ends with this run."), "{created}");
    let told = last_words(&seen.requests_of("prompt")[2]);
    assert!(
        told.starts_with("The schedule cron_") && told.ends_with("(`1 12 * * *`) is due: look again"),
        "{told}"
    );
    assert_eq!(seen.result_of("l"), "There are no schedules.");
    assert!(
        seen.told().iter().any(|line| line.starts_with("run: hears Schedule cron_")),
        "{:?}",
        seen.told()
    );
}

#[test]
fn a_schedule_keeps_no_run_alive() {
    // The first time comes at once, the next only in a minute: longer than the run may wait.
    let create = r#"{"cron":"* * * * *","prompt":"again"}"#;
    let seen =
        Stage::new(vec![("prompt", vec![does(&[("c", "cron_create", create)]), says("one"), says("two")])])
            .clock(From::millis(JUST_BEFORE))
            .waiting(Duration::from_secs(30))
            .play();
    assert_eq!((seen.ending(), seen.outcome.turns), (Ok("two"), 3));
    assert_eq!(seen.outcome.warnings, Vec::<String>::new());
}

#[test]
fn schedules_are_checked_listed_and_deleted() {
    let cases = [
        (r#"{"cron":"* * * *","prompt":"p"}"#, "`cron`: `* * * *` has 4 fields, and cron has five"),
        (r#"{"cron":"0 0 30 2 *","prompt":"p"}"#, "`cron`: `0 0 30 2 *` never comes"),
        (r#"{"cron":"* * * * *","prompt":" "}"#, "`prompt` must not be empty."),
        (r#"{"cron":"* * * * *","prompt":"p","durable":true}"#, "`durable` schedules do not exist"),
    ];
    for (arguments, expected) in cases {
        let seen = Stage::new(vec![("prompt", vec![does(&[("c", "cron_create", arguments)]), says("done")])])
            .clock(From::millis(0))
            .play();
        assert!(seen.result_of("c").starts_with(expected), "{}", seen.result_of("c"));
    }
    let seen = Stage::new(vec![(
        "prompt",
        vec![
            does(&[("c", "cron_create", r#"{"cron":"0 3 * * *","prompt":"p"}"#)]),
            does(&[("l", "cron_list", "{}")]),
            does_with("d", "cron_delete", |request| {
                let told = format!("{:?}", request.messages);
                let at =
                    told.find("cron_").map(|at| at + told[at..].find("schedule cron_").unwrap() + 9).unwrap();
                format!(r#"{{"id":"{}"}}"#, &told[at..at + 13])
            }),
            does(&[("e", "cron_delete", r#"{"id":"cron_none"}"#)]),
            does(&[("f", "cron_list", "{}")]),
            says("done"),
        ],
    )])
    .clock(From::millis(0))
    .play();
    assert!(
        seen.result_of("l").contains("`0 3 * * *` again and again, next in 10800 s: p")
            || seen.result_of("l").contains("next in 10799 s: p"),
        "{}",
        seen.result_of("l")
    );
    assert!(seen.result_of("d").ends_with("was deleted."), "{}", seen.result_of("d"));
    assert_eq!(seen.result_of("e"), "There is no schedule `cron_none`.");
    assert_eq!(seen.result_of("f"), "There are no schedules.");
}
