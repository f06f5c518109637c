//! Work in the background, through the binary: when it is told, how a run ends that still has some, and that
//! nothing outlives it.

use std::time::Duration;

use tenon_testkit::{Gate, Reply, Server, Signal, Tenon, Value, json, reply};

use super::subagents::{tasks_are_whole, until};
use super::tenon;

/// Ends a hang; nothing here takes long.
const SOON: Duration = Duration::from_secs(30);
const SCHEMA: &str = r#"{"type":"object","required":["n"]}"#;

fn background(prompt: &str) -> Value {
    json!({"description": "a task", "prompt": prompt, "run_in_background": true})
}

fn to(prompt: &str) -> Reply {
    let prompt = prompt.to_owned();
    reply().when(move |body| body["messages"][1]["content"] == prompt.as_str())
}

fn run_of(server: &Server) -> Tenon {
    tenon().server(server).args(["-m", "test-model", "-y", "-o", "stream-json", "-p", "go"])
}

fn with_wait(tenon: Tenon, ms: u64) -> Tenon {
    tenon.home_file("settings.json", json!({"tasks": {"waitMs": ms}}).to_string())
}

/// `type/subtype` of every line, with who it is about.
fn kinds(lines: &[Value]) -> Vec<String> {
    let kind = |line: &Value| match line["subtype"].as_str() {
        Some("task_notification") => format!("task {}", line["data"]["status"].as_str().unwrap()),
        Some("task_started") => "task started".to_owned(),
        Some(other) => other.to_owned(),
        None => {
            let block = &line["message"]["content"][0];
            let parent =
                line["parent_tool_use_id"].as_str().map(|parent| format!("{parent} ")).unwrap_or_default();
            format!("{parent}{} {}", line["type"].as_str().unwrap(), block["type"].as_str().unwrap())
        }
    };
    lines.iter().map(kind).collect()
}

#[test]
fn an_agent_in_the_background_is_told_when_it_ends() {
    let gate = Gate::new();
    let server = Server::start([
        to("go").call("c1", "agent", background("search")),
        to("search").text("Found it.").usage(30, 3).hold(&gate),
        to("go").text("Waiting."),
        to("go").text("It was there."),
    ]);
    let mut running = run_of(&server).spawn();
    // It has been asked, and the run has answered and waits.
    running.json_where(|line| line["message"]["content"][0]["text"] == "Waiting.");
    server.wait_for_requests(3, SOON);
    gate.open();
    let run = running.wait();
    run.assert_code(0);
    server.assert_script_done();
    let lines = run.json_lines();
    assert_eq!(
        kinds(&lines),
        [
            "init",
            "assistant tool_use",
            "task started",
            "user tool_result",
            "c1 user text",
            "assistant text",
            "user text",
            "task completed",
            "assistant text",
            "success"
        ],
        "{run}"
    );
    let (started, ended) = (&lines[2]["data"], &lines[7]["data"]);
    assert_eq!(started["task_id"], ended["task_id"]);
    assert_eq!(
        (&started["tool_use_id"], &started["description"]),
        (&json!("c1"), &json!("general-purpose: a task"))
    );
    assert_eq!(started["subagent_type"], "general-purpose");
    assert_eq!((&ended["tool_use_id"], &ended["usage"]["total_tokens"]), (&json!("c1"), &json!(33)));
    assert_eq!(ended["usage"]["tool_uses"], 0);
    assert_eq!(
        lines[6]["message"]["content"][0]["text"],
        "Background agent \"general-purpose: a task\" completed."
    );
    assert_eq!((&lines[9]["result"], &lines[9]["num_turns"]), (&json!("It was there."), &json!(3)));
    let told = server.request(3).last_message()["content"].to_string();
    assert!(told.contains("completed.\\nIts output is in /") && told.ends_with("Found it.\""), "{told}");
    let file = ended["output_file"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), "Found it.");
    tasks_are_whole(&run);
}

#[test]
fn a_finished_command_is_told_in_a_drain_turn() {
    let gate = Gate::new();
    let server = Server::start([
        to("go").call(
            "c1",
            "run_shell_command",
            json!({"command": "cat go; echo done", "is_background": true}),
        ),
        to("go").call("c2", "list_directory", json!({"path": "."})).hold(&gate),
        to("go").text("Seen."),
    ]);
    let tenon = run_of(&server);
    let fifo = tenon.workspace().join("go");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut running = tenon.spawn();
    server.wait_for_requests(2, SOON);
    // The command ends while the model writes; clients are told at once.
    std::fs::write(&fifo, "hello\n").unwrap();
    running
        .json_where(|line| line["subtype"] == "task_notification" && line["data"]["status"] == "completed");
    gate.open();
    let run = running.wait();
    run.assert_code(0);
    let told = server.request(2).last_message()["content"].to_string();
    assert!(told.contains("hello") && told.contains("done") && told.contains("Its output is in /"), "{told}");
    tasks_are_whole(&run);
}

#[test]
fn commands_are_not_waited_for_but_stopped_and_reported() {
    let server = Server::start([
        to("go").call(
            "c1",
            "run_shell_command",
            json!({"command": "echo $$ > pid; exec sleep 1000", "is_background": true}),
        ),
        to("go").text("Done.").when(|_| true),
    ]);
    let run = run_of(&server).run();
    run.assert_code(0);
    assert_eq!(run.last_json()["result"], "Done.");
    let lines = run.json_lines();
    assert_eq!(kinds(&lines)[lines.len() - 2], "task cancelled", "{run}");
    tasks_are_whole(&run);
    if let Ok(pid) = std::fs::read_to_string(run.workspace().join("pid")) {
        assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists(), "{pid} is left");
    }
}

#[test]
fn a_contract_is_fulfilled_in_a_drain_turn() {
    let gate = Gate::new();
    let server = Server::start([
        to("go").call("c1", "agent", background("search")),
        to("search").text("Found 7.").hold(&gate),
        to("go").text("I wait."),
        to("go").call("c2", "structured_output", json!({"n": 7})),
    ]);
    let mut running = run_of(&server).args(["--json-schema", SCHEMA]).spawn();
    running.json_where(|line| line["message"]["content"][0]["text"] == "I wait.");
    gate.open();
    let run = running.wait();
    run.assert_code(0);
    assert_eq!(run.last_json()["structured_result"], json!({"n": 7}));
    tasks_are_whole(&run);
}

#[test]
fn an_accepted_answer_ends_background_work_and_comes_last() {
    let server = Server::start([
        to("go")
            .call("c1", "agent", background("search"))
            .call("c2", "run_shell_command", json!({"command": "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done", "is_background": true})),
        to("search").text("never").hang_after_events(0),
        to("go").call("c3", "structured_output", json!({"n": 1})),
    ]);
    let run = run_of(&server).args(["--json-schema", SCHEMA]).run();
    run.assert_code(0);
    assert_eq!(run.last_json()["structured_result"], json!({"n": 1}));
    tasks_are_whole(&run);
    if let Ok(pid) = std::fs::read_to_string(run.workspace().join("pid")) {
        let proc = format!("/proc/{}", pid.trim());
        until("the command is gone", || !std::path::Path::new(&proc).exists());
    }
}

#[test]
fn waiting_is_bounded_by_a_setting() {
    let server = Server::start([
        to("go").call("c1", "agent", background("search")),
        to("search").text("never").hang_after_events(0),
        to("go").text("My part is done."),
    ]);
    let run = with_wait(run_of(&server), 10).run();
    run.assert_code(0);
    let said =
        "1 background agent was stopped at the end of the run, after 10 ms of waiting (`tasks.waitMs`)";
    assert_eq!(run.stderr, format!("warning: {said}\n"));
    assert_eq!(
        (&run.last_json()["result"], &run.last_json()["warnings"]),
        (&json!("My part is done."), &json!([said]))
    );
    tasks_are_whole(&run);
    for (value, says) in
        [("-1", "must be a whole number of at least 0"), ("\"1s\"", "must be a whole number")]
    {
        let run = tenon()
            .home_file("settings.json", format!(r#"{{"tasks":{{"waitMs":{value}}}}}"#))
            .args(["-p", "go"])
            .run();
        run.assert_code(52);
        assert!(run.stderr.contains(says), "{run}");
    }
}

#[test]
fn a_signal_while_waiting_ends_the_run_in_order() {
    let server = Server::start([
        to("go").call("c1", "agent", background("search")),
        to("search").text("never").hang_after_events(0),
        to("go").text("Waiting."),
    ]);
    let mut running = run_of(&server).spawn();
    running.json_where(|line| line["message"]["content"][0]["text"] == "Waiting.");
    server.wait_for_requests(3, SOON);
    running.signal(Signal::Terminate);
    let run = running.wait();
    run.assert_code(143);
    tasks_are_whole(&run);
    assert!(kinds(&run.json_lines()).contains(&"task cancelled".to_owned()), "{run}");
}

#[test]
fn a_message_reaches_a_background_agent() {
    let (first, second) = (Gate::new(), Gate::new());
    let server = Server::start([
        to("go").call("c1", "agent", background("search")),
        to("search").text("Upstairs.").hold(&first),
        to("search").text("In the cellar."),
        to("go").call("c2", "list_directory", json!({"path": "."})).hold(&second),
    ]);
    let mut running = run_of(&server).spawn();
    let started = running.json_where(|line| line["subtype"] == "task_started");
    server.wait_for_requests(3, SOON);
    // What the model says next depends on an id that only the run knows.
    let message = json!({"task_id": started["data"]["task_id"], "message": "try the cellar"});
    server.push(to("go").call("c3", "send_message", message));
    server.push(to("go").text("Waiting."));
    server.push(to("go").text("Found."));
    second.open();
    running.json_where(|line| line["message"]["content"][0]["text"] == "Waiting.");
    first.open();
    let run = running.wait();
    run.assert_code(0);
    assert_eq!(run.last_json()["result"], "Found.");
    let heard = server.requests().into_iter().rfind(|request| request.messages()[1]["content"] == "search");
    let heard = heard.unwrap().last_message()["content"].clone();
    assert_eq!(heard, "The agent that you work for says: try the cellar");
    tasks_are_whole(&run);
}

#[test]
fn a_schedule_far_away_does_not_keep_the_run() {
    let server = Server::start([
        to("go").call("c1", "cron_create", json!({"cron": "0 0 29 2 *", "prompt": "leap"})),
        to("go").text("Done."),
    ]);
    let run = run_of(&server).run();
    run.assert_code(0);
    assert_eq!(run.last_json()["result"], "Done.");
    let told = server.request(1).tool_result("c1");
    assert!(told.contains("was created. It comes for the first time in "), "{told}");
    for zone in ["UTC", "America/New_York", "nonsense"] {
        let server = Server::start([
            to("go").call("c1", "cron_create", json!({"cron": "61 * * * *", "prompt": "p"})),
            to("go").text("Done."),
        ]);
        run_of(&server).env("TZ", zone).run().assert_code(0);
        assert!(server.request(1).tool_result("c1").contains("`61` is no minute"));
    }
}
