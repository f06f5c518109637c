//! How a turn that came to no good end is left: the next request and the resumed session agree.

use std::fs;
use std::time::Duration;

use tenon_testkit::{Captured, Gate, Server, Tenon, Value, json, reply};

use super::driving::{Driver, LINES, user};
use super::tenon;

const LONG: Duration = Duration::from_secs(30);
const NOTE: &str = "[Note: this turn was stopped before it was finished: the client interrupted the turn]";

fn driven(setup: &Tenon, flags: &[&str]) -> Driver {
    Driver::start(setup.clone().args(LINES).args(flags))
}

/// Who said what, without the system prompt.
fn said(request: &Captured) -> Vec<String> {
    let text = |message: &Value| match message["tool_calls"].as_array() {
        Some(calls) => format!("{} calls", calls.len()),
        None => message["content"].as_str().unwrap().to_owned(),
    };
    request.messages()[1..]
        .iter()
        .map(|message| format!("{}: {}", message["role"].as_str().unwrap(), text(message)))
        .collect()
}

/// The request after the turn in the same process, and after it was resumed by another one.
#[track_caller]
fn goes_on_from(setup: &Tenon, mut driver: Driver, server: &Server, wanted: &[&str]) {
    let requests = server.requests().len();
    server.push(reply().text("Yes."));
    assert_eq!(driver.turn("And now?")["result"], "Yes.");
    driver.finish().assert_code(0);
    assert_eq!(said(&server.request(requests)), wanted);
    server.push(reply().text("Still."));
    setup.clone().args(["-c", "-p", "And later?"]).run().assert_code(0);
    let mut later = wanted.to_vec();
    later.extend(["assistant: Yes.", "user: And later?"]);
    assert_eq!(said(&server.request(requests + 1)), later, "as it was resumed");
}

#[test]
fn a_prompt_that_is_refused_is_gone_in_memory_and_on_disk() {
    for status in [400, 401, 404, 413, 422] {
        let refused = reply().status(status).json(json!({"error": {"message": "not like this"}}));
        let server = Server::start([reply().text("One."), refused]);
        let setup = tenon().server(&server);
        let mut driver = driven(&setup, &[]);
        driver.turn("good");
        assert_eq!(driver.turn("bad")["is_error"], true);
        goes_on_from(&setup, driver, &server, &["user: good", "assistant: One.", "user: And now?"]);
    }
}

#[test]
fn a_prompt_that_the_model_refuses_is_gone_with_the_refusal() {
    let server = Server::start([reply().text("I will not.").finish("content_filter")]);
    let setup = tenon().server(&server);
    let mut driver = driven(&setup, &[]);
    assert_eq!(driver.turn("bad")["error"]["class"], "refused");
    goes_on_from(&setup, driver, &server, &["user: And now?"]);
}

#[test]
fn a_prompt_that_a_server_could_not_answer_stays() {
    for status in [500, 503, 429] {
        let failed = reply().status(status).json(json!({"error": {"message": "not now"}}));
        let server = Server::start([failed]);
        let setup = tenon().server(&server).home_file("settings.json", r#"{"retry": {"attempts": 1}}"#);
        let mut driver = driven(&setup, &[]);
        assert_eq!(driver.turn("good")["is_error"], true);
        goes_on_from(&setup, driver, &server, &["user: good\n\nAnd now?"]);
    }
}

#[test]
fn an_answer_that_was_cut_off_stays_as_far_as_it_came() {
    let server = Server::start([reply().text("It begins").finish("length")]);
    let setup = tenon().server(&server);
    let mut driver = driven(&setup, &[]);
    assert_eq!(driver.turn("long")["error"]["class"], "truncated");
    goes_on_from(&setup, driver, &server, &["user: long", "assistant: It begins", "user: And now?"]);
}

#[test]
fn an_interrupted_answer_stays_as_far_as_it_was_seen_and_the_model_is_told() {
    // The first event says who speaks, the second the first half.
    let server = Server::start([reply().text_chunks(["Half an ", "answer."]).hang_after_events(2)]);
    let setup = tenon().server(&server);
    let mut driver = driven(&setup, &["--include-partial-messages"]);
    driver.send(&user("tell"));
    driver.until(|line| line["event"]["delta"]["text"] == "Half an ");
    driver.ask(json!({"subtype": "interrupt"}));
    assert_eq!(driver.result()["error"]["class"], "interrupted");
    let note = format!("user: {NOTE}\n\nAnd now?");
    goes_on_from(&setup, driver, &server, &["user: tell", "assistant: Half an ", &note]);
}

#[test]
fn a_turn_that_is_interrupted_before_its_answer_says_so() {
    let gate = Gate::new();
    let server = Server::start([reply().hold(&gate).text("never")]);
    let setup = tenon().server(&server);
    let mut driver = driven(&setup, &[]);
    driver.send(&user("tell"));
    server.wait_for_requests(1, LONG);
    driver.send(&json!({"type": "control/cancel", "reason": "escape"}));
    driver.until(|line| line["type"] == "result/cancel");
    gate.open();
    let asked = format!("user: tell\n\n{NOTE}\n\nAnd now?");
    goes_on_from(&setup, driver, &server, &[&asked]);
}

/// What has not begun does not begin any more, and each call has an answer.
#[test]
fn calls_that_wait_are_not_begun_after_an_interruption() {
    let shell = |command: &str| json!({"command": command, "description": "x"});
    let server = Server::start([reply()
        .call("a", "run_shell_command", shell("touch begun; sleep 60"))
        .call("b", "run_shell_command", shell("touch second"))]);
    let setup = tenon().server(&server);
    let begun = setup.workspace().join("begun");
    let mut driver = driven(&setup, &["-y"]);
    driver.send(&user("go"));
    driver.until(|line| line["type"] == "assistant");
    while !begun.exists() {
        std::thread::yield_now();
    }
    driver.ask(json!({"subtype": "interrupt"}));
    driver.result();
    let note = format!("user: {NOTE}\n\nAnd now?");
    let wanted = [
        "user: go",
        "assistant: 2 calls",
        "tool: The command was cancelled before it was done. It had printed nothing.",
        "tool: Not run: the run was stopped before this call was begun.",
        &note,
    ];
    goes_on_from(&setup, driver, &server, &wanted);
    assert!(!setup.workspace().join("second").exists());
}

#[test]
fn a_client_that_asks_nothing_leaves_no_session() {
    let server = Server::start([reply().text("Hello.")]);
    let setup = tenon().server(&server);
    let mut driver = driven(&setup, &[]);
    driver.told(json!({"subtype": "initialize"}));
    driver.turn("/help");
    driver.finish().assert_code(0);
    let chats = || {
        let projects = fs::read_dir(setup.tenon_home().join("projects")).into_iter().flatten().flatten();
        projects.filter_map(|project| fs::read_dir(project.path().join("chats")).ok()).flatten().count()
    };
    assert_eq!(chats(), 0);
    let mut driver = driven(&setup, &[]);
    driver.turn("Say hello\nto all");
    driver.finish().assert_code(0);
    assert_eq!(chats(), 1);
    let list = setup.clone().args(["sessions", "list"]).run();
    assert!(list.stdout.contains("Say hello"), "{list}");
}
