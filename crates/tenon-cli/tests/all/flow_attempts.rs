//! Events of what is tried again, of calls that never ran, and of runs that are set aside: what a consumer can rely on.

use std::time::Duration;

use tenon_testkit::{Reply, Run, Server, Signal, Tenon, Value, assert_flow_events, json, reply};

use super::flow_events::events;
use super::flow_resume::{place, run_in};
use super::flow_run::{at, flow};

const SOON: Duration = Duration::from_secs(30);

/// Tried again at once.
fn cut(task: &str) -> Reply {
    at(task).text("cut").finish("length").usage(7, 3)
}

/// `step_start b.x@2`, and of errors what is tried again.
fn story(events: &[Value]) -> Vec<String> {
    let told = events.iter().filter(|event| {
        let name = event["type"].as_str().unwrap();
        name.starts_with("step_") || name == "error"
    });
    told.map(|event| {
        let (name, data) = (event["type"].as_str().unwrap(), &event["data"]);
        let status = data["status"].as_str().map(|status| format!(" {status}")).unwrap_or_default();
        let of = |key: &str| data[key].as_u64().map(|n| format!(" {key} {n}")).unwrap_or_default();
        let step = event["step_id"].as_str().unwrap();
        format!(
            "{name} {step}@{}{status}{}{}{}",
            event["attempt"],
            of("attempts"),
            of("item"),
            of("iteration")
        )
    })
    .collect()
}

const INNER: &str = "name: inner\nsteps:\n  - {id: x, instructions: Do x.}\n  - {id: y, instructions: Do y., dependsOn: [x]}\n";
const BODY: &str = "steps: [{id: x, instructions: Do x.}, {id: y, instructions: Do y., dependsOn: [x]}]";

fn tried_again(step: &str, script: Vec<Reply>) -> Vec<Value> {
    let server = Server::start(script);
    let document = format!("name: n\nsteps:\n  - {{id: b, retries: 1, {step}}}\n");
    let run = flow(&server, &document).file("inner.yaml", INNER).args(["-o", "stream-json"]).run();
    let events = events(run.assert_code(0));
    assert_flow_events(&events);
    server.assert_script_done();
    events
}

fn second_time() -> Vec<Reply> {
    vec![cut("Do x."), at("Do x.").text("X.").usage(7, 3), at("Do y.").text("Y.").usage(7, 3)]
}

#[test]
fn an_include_that_is_tried_again_counts_the_attempts_of_what_is_inside() {
    let events = tried_again("include: inner.yaml", second_time());
    assert_eq!(
        story(&events),
        [
            "step_start b@1",
            "step_start b.x@1",
            "step_end b.x@1 failed",
            "step_skipped b.y@1 cancelled",
            "error b@1 attempts 1",
            "step_start b.x@2",
            "step_end b.x@2 completed",
            "step_start b.y@2",
            "step_end b.y@2 completed",
            "step_end b@1 completed",
        ]
    );
    let turns = events.iter().filter(|event| event["type"] == "agent_turn");
    let turns: Vec<String> =
        turns.map(|turn| format!("{}@{}", turn["step_id"].as_str().unwrap(), turn["attempt"])).collect();
    assert_eq!(turns, ["b.x@1", "b.x@1", "b.x@2", "b.x@2", "b.y@2", "b.y@2"]);
    let runs = events.iter().filter(|event| event["step_id"].is_null());
    assert!(runs.clone().count() == 3 && runs.clone().all(|event| event["attempt"].is_null()));
    assert_eq!(events.last().unwrap()["data"]["usage"]["total"], 30);
}

#[test]
fn a_turn_of_a_loop_that_is_tried_again_is_told_of_its_loop() {
    for (step, id, of) in [
        (format!("loop: {{forEach: [1], {BODY}}}"), "b[0]", "item 0"),
        (format!("loop: {{maxIterations: 1, {BODY}}}"), "b.0", "iteration 0"),
    ] {
        let events = tried_again(&step, second_time());
        let wanted = [
            "step_start b@1".to_owned(),
            format!("step_start {id}.x@1"),
            format!("step_end {id}.x@1 failed"),
            format!("step_skipped {id}.y@1 cancelled"),
            format!("error b@1 attempts 1 {of}"),
            format!("step_start {id}.x@2"),
            format!("step_end {id}.x@2 completed"),
            format!("step_start {id}.y@2"),
            format!("step_end {id}.y@2 completed"),
            "step_progress b@1".to_owned(),
            "step_end b@1 completed".to_owned(),
        ];
        assert_eq!(story(&events), wanted);
    }
}

/// The agent of the loop itself: one start, one end, and an error in between.
#[test]
fn a_step_that_is_tried_again_by_itself_starts_once() {
    let events = tried_again(
        "instructions: Do b., loop: {forEach: [1], maxConcurrency: 1}",
        vec![cut("Do b."), at("Do b.").text("B.")],
    );
    assert_eq!(
        story(&events),
        [
            "step_start b@1",
            "step_start b[0]@1",
            "error b[0]@1 attempts 1",
            "step_end b[0]@1 completed",
            "step_progress b@1",
            "step_end b@1 completed",
        ]
    );
}

/// Attempts around a step are counted over all of its levels, and no number comes twice.
#[test]
fn attempts_inside_attempts_go_on_counting() {
    let document = "name: n\nsteps:\n  - {id: a, retries: 2, include: middle.yaml}\n";
    let middle = format!(
        "name: middle\nsteps:\n  - {{id: l, retries: 1, loop: {{forEach: [1], {BODY}}}}}\n  - {{id: z, instructions: Do z., dependsOn: [l]}}\n"
    );
    let whole = || vec![cut("Do x."), at("Do x.").text("X."), at("Do y.").text("Y.")];
    let mut script = whole();
    script.push(cut("Do z."));
    script.extend(whole());
    script.push(at("Do z.").text("Z."));
    let server = Server::start(script);
    let run = flow(&server, document).file("middle.yaml", &middle).args(["-o", "stream-json"]).run();
    let events = events(run.assert_code(0));
    assert_flow_events(&events);
    server.assert_script_done();
    let starts: Vec<String> = story(&events)
        .into_iter()
        .filter_map(|line| Some(line.strip_prefix("step_start ")?.to_owned()))
        .collect();
    assert_eq!(
        starts,
        [
            "a@1",
            "a.l@1",
            "a.l[0].x@1",
            "a.l[0].x@2",
            "a.l[0].y@2",
            "a.z@1",
            "a.l@2",
            "a.l[0].x@3",
            "a.l[0].x@4",
            "a.l[0].y@4",
            "a.z@2",
        ]
    );
}

fn killed(place: &Tenon, script: Vec<Reply>) {
    let count = script.len();
    let server = Server::start(script);
    let mut running = run_in(place, &server, &["run", "flow.yaml", "--run-id", "r1"]).spawn();
    server.wait_for_requests(count, SOON);
    running.signal(Signal::Kill);
    running.wait();
}

fn resumed(place: &Tenon, script: Vec<Reply>) -> Vec<Value> {
    let server = Server::start(script);
    let run = run_in(place, &server, &["resume", "r1", "-o", "stream-json"]).run();
    let events = events(run.assert_code(0));
    assert_flow_events(&events);
    server.assert_script_done();
    events
}

#[test]
fn a_run_that_goes_on_tells_the_attempt_that_it_is_in() {
    for (step, id) in [
        ("include: inner.yaml".to_owned(), "b"),
        (format!("loop: {{forEach: [1], {BODY}}}"), "b[0]"),
        (format!("loop: {{maxIterations: 1, {BODY}}}"), "b.0"),
    ] {
        let document = format!("name: n\nsteps:\n  - {{id: b, retries: 1, {step}}}\n");
        let place = place(&document).file("inner.yaml", INNER);
        killed(
            &place,
            vec![cut("Do x."), at("Do x.").text("X."), at("Do y.").text("Y.").hang_after_events(0)],
        );
        let told = story(&resumed(&place, vec![at("Do y.").text("Y.")]));
        let told: Vec<&str> =
            told.iter().map(String::as_str).filter(|line| !line.starts_with("step_progress")).collect();
        let mut wanted = vec![
            "step_start b@1".to_owned(),
            format!("step_restored {id}.x@2 completed"),
            format!("step_start {id}.y@2"),
            format!("step_end {id}.y@2 completed"),
            "step_end b@1 completed".to_owned(),
        ];
        if id != "b" {
            // Of the same workflow: what was over comes first.
            wanted.swap(0, 1);
        }
        assert_eq!(told, wanted);
        // Once more, from what is kept.
        let told = story(&resumed(&place, Vec::new()));
        assert_eq!(told.last().unwrap(), "step_restored b@1 completed");
        assert!(
            told.iter().all(|line| line.starts_with("step_restored") && !line.contains("failed")),
            "{told:?}"
        );
    }
}

/// Killed while the first attempt is under way: the second one is told by the process that makes it.
#[test]
fn an_attempt_that_is_made_after_a_kill_is_the_second() {
    for (step, id) in
        [("include: inner.yaml".to_owned(), "b"), (format!("loop: {{forEach: [1], {BODY}}}"), "b[0]")]
    {
        let document = format!("name: n\nsteps:\n  - {{id: b, retries: 1, {step}}}\n");
        let place = place(&document).file("inner.yaml", INNER);
        killed(&place, vec![at("Do x.").text("X."), at("Do y.").text("Y.").hang_after_events(0)]);
        let script = vec![cut("Do y."), at("Do x.").text("X."), at("Do y.").text("Y.")];
        let told = story(&resumed(&place, script));
        for wanted in [
            format!("step_restored {id}.x@1 completed"),
            format!("step_end {id}.y@1 failed"),
            format!("step_start {id}.x@2"),
            format!("step_end {id}.y@2 completed"),
        ] {
            assert!(told.contains(&wanted), "{wanted} {told:#?}");
        }
        let error = told.iter().find(|line| line.starts_with("error b@1 attempts 1"));
        assert!(error.is_some(), "{told:#?}");
    }
}

fn calls(run: &Run) -> Vec<Value> {
    let events = events(run);
    assert_flow_events(&events);
    let calls = events.into_iter().filter(|event| event["type"] == "tool_call");
    calls.map(|event| event["data"].clone()).collect()
}

#[test]
fn a_call_that_never_ran_has_its_start_too() {
    let server = Server::start([
        reply()
            .text("Looking.")
            .call("c1", "nosuch", json!({"x": 1}))
            .call("c2", "run_shell_command", json!({"command": "ls /"}))
            .call("c3", "write_file", json!({"file_path": "q.txt", "content": "x"}))
            .call_raw("c4", "read_file", "{bad json")
            .call_raw("c5", "read_file", "[1]")
            .call_raw("c6", "list_directory", ""),
        reply().text("Done."),
    ]);
    let document = "name: n\nsteps:\n  - {id: a, instructions: Do a.}\n";
    let run = flow(&server, document).args(["-o", "stream-json"]).run();
    let calls = calls(run.assert_code(0));
    let told: Vec<String> = calls
        .iter()
        .map(|call| {
            let said = |key: &str| call[key].as_str().unwrap();
            format!("{} {} {}", said("tool_call_id"), said("phase"), call["input"])
        })
        .collect();
    assert_eq!(
        told,
        [
            r#"c1 start {"x":1}"#,
            "c1 end null",
            r#"c2 start {"command":"ls /"}"#,
            "c2 end null",
            r#"c3 start {"file_path":"q.txt","content":"x"}"#,
            "c3 end null",
            r#"c4 start {"_raw":"{bad json"}"#,
            "c4 end null",
            r#"c5 start {"_raw":"[1]"}"#,
            "c5 end null",
            "c6 start {}",
            "c6 end null",
        ],
        "{run}"
    );
}

/// The call beside an accepted result, the result itself, and one that is refused.
#[test]
fn calls_around_a_result_are_paired() {
    let schema = "{type: object, required: [ok], properties: {ok: {type: boolean}}}";
    let document = format!(
        "name: n\nagents: {{a: {{description: d, resultSchema: {schema}}}}}\nsteps:\n  - {{id: a, agent: a, instructions: Do a.}}\n"
    );
    let server = Server::start([
        reply().call("c1", "submit_result", json!({"ok": 1})).call("c1b", "nosuch", json!({})),
        reply()
            .call("c2", "submit_result", json!({"ok": true}))
            .call("c3", "submit_result", json!({"ok": false}))
            .call("c4", "list_directory", json!({"path": "."})),
    ]);
    let calls = calls(flow(&server, &document).args(["-o", "stream-json"]).run().assert_code(0));
    assert_eq!(calls.len(), 10, "{calls:#?}");
}

/// A command that runs, and does not want to stop, when the run is stopped.
#[test]
fn a_call_that_is_cut_off_has_its_end() {
    let document = "name: n\nsteps:\n  - {id: a, instructions: Do a.}\n  - {id: b, instructions: Do b., dependsOn: [a]}\n";
    let server = Server::start([at("Do a.").call(
        "c1",
        "run_shell_command",
        json!({"command": "trap '' TERM INT; touch started; sleep 60"}),
    )]);
    let tenon = flow(&server, document).args(["-o", "stream-json", "--yolo"]);
    let mut running = tenon.spawn();
    wait_for(&tenon.workspace().join("started"));
    running.signal(Signal::Interrupt);
    let run = running.wait();
    let calls = calls(run.assert_code(130));
    assert_eq!((calls.len(), &calls[1]["is_error"]), (2, &json!(true)), "{run}");
}

fn wait_for(file: &std::path::Path) {
    let until = std::time::Instant::now() + SOON;
    while !file.exists() {
        assert!(std::time::Instant::now() < until, "{}", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The end of a call that an earlier process began.
#[test]
fn a_call_of_another_process_is_told_with_its_arguments() {
    let place = place("name: n\nsteps:\n  - {id: a, instructions: Do a.}\n");
    let server = Server::start([at("Do a.").call(
        "c1",
        "run_shell_command",
        json!({"command": "touch started; sleep 60"}),
    )]);
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "--yolo"]).spawn();
    wait_for(&place.workspace().join("started"));
    running.signal(Signal::Kill);
    running.wait();
    let server = Server::start([at("Do a.").text("A.")]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "stream-json", "--yolo"]).run();
    let calls = calls(run.assert_code(0));
    assert_eq!(calls.len(), 2, "{run}");
    assert_eq!(calls[0]["input"]["command"], "touch started; sleep 60");
}

#[test]
fn a_run_that_is_set_aside_has_every_step_and_what_they_used() {
    let document = "name: n
prices: { test-model: { input: 1, output: 1 } }
steps:
  - {id: z, instructions: Do z., dependsOn: [l, i]}
  - {id: a, instructions: Do a.}
  - id: l
    loop:
      forEach: [1, 2]
      steps:
        - {id: w, instructions: Do w.}
        - {id: k, dependsOn: [w], approve: 'Item ${{ item }}?'}
  - {id: i, include: outer.yaml}
  - {id: r, loop: {maxIterations: 2, steps: [{id: w, instructions: Do w.}, {id: k, dependsOn: [w], approve: 'Round ${{ iteration }}?'}]}}
  - {id: s, instructions: Do s., condition: 'false'}
";
    let outer = "name: outer\nsteps:\n  - {id: o, instructions: Do o.}\n  - {id: in, dependsOn: [o], include: inner.yaml}\n";
    let inner = "name: inner\nsteps:\n  - {id: x, instructions: Do x.}\n  - {id: q, dependsOn: [x], approve: 'Well?'}\n";
    let place = place(document).file("outer.yaml", outer).file("inner.yaml", inner);
    let server = Server::start([reply().text("Yes.").usage(1000, 100).forever()]);
    let args = ["run", "flow.yaml", "--run-id", "r1", "-o", "stream-json", "-m", "test-model"];
    let run = run_in(&place, &server, &args).run();
    let mut told = events(run.assert_code(42));
    for _ in 0..2 {
        assert_flow_events(&told);
        let end = &told.last().unwrap()["data"];
        let steps: Vec<String> = end["steps"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(id, step)| format!("{id} {} {}", step["status"].as_str().unwrap(), step["usage"]["total"]))
            .collect();
        assert_eq!(
            steps,
            [
                "z waiting 0",
                "a completed 1100",
                "l suspended 2200",
                "i suspended 2200",
                "r suspended 1100",
                "s skipped 0"
            ],
            "{run}"
        );
        assert_eq!((&end["usage"]["total"], &end["questions"].as_array().unwrap().len()), (&json!(6600), &4));
        assert_eq!(end["total_cost_usd"], json!(0.0066));
        // A run that goes on without an answer says the same.
        told = events(
            run_in(&place, &server, &["resume", "r1", "-o", "stream-json", "-m", "test-model"])
                .run()
                .assert_code(42),
        );
    }
    assert!(
        run.stderr.contains("workflow suspended: 1 completed, 1 skipped, 3 suspended, 1 waiting"),
        "{run}"
    );
}

#[test]
fn verbose_tells_every_request() {
    let document = "name: n\nsteps:\n  - {id: a, instructions: Do a.}\n  - {id: each, instructions: Do each., loop: {forEach: [1]}}\n";
    let server = Server::start([
        at("Do a.").call("c", "list_directory", json!({"path": "."})).usage(10, 1),
        at("Do a.").text("A.").usage(20, 2),
        at("Do each.").text("E.").usage(30, 3),
    ]);
    let run = flow(&server, document).arg("--verbose").run();
    run.assert_code(0);
    for line in [
        "step a: turn 1: 10 tokens in, 1 out\n",
        "step a: turn 2: 20 tokens in, 2 out\n",
        "step each[0]: turn 1: 30 tokens in, 3 out\n",
        "step a: list_directory done in ",
    ] {
        assert!(run.stderr.contains(line), "{line} {run}");
    }
    let run = flow(&Server::start([reply().text("A.").usage(10, 1).forever()]), document).run();
    assert!(!run.assert_code(0).stderr.contains("tokens in"), "{run}");
}
