//! Sessions inside one process: `_new` begins another, a stored id goes on with it, and each has its own file.

use tenon_testkit::{Gate, Running, Server, Value, json, reply};

use super::driving::{Driver, LINES, driven};
use super::tenon;

fn request(session: &str, text: &str) -> Value {
    json!({"session_id": session, "input": {"parts": [{"type": "text", "text": text}]}})
}

#[track_caller]
fn closing(driver: &mut Driver) -> Value {
    driver.until(|line| line["metadata"]["final"] == true)
}

fn said(server: &Server, at: usize) -> Vec<String> {
    let request = server.request(at);
    request.messages()[1..]
        .iter()
        .map(|message| message["content"].as_str().unwrap_or("").to_owned())
        .collect()
}

#[test]
fn a_new_session_starts_empty_and_the_old_one_is_gone_on_with() {
    let server = Server::start(["One.", "Two.", "Three.", "Four."].map(|text| reply().text(text)));
    let mut driver = driven(&server, &["--dialect", "openai"]);
    driver.send(&request("_new", "first"));
    let first = closing(&mut driver)["session_id"].as_str().unwrap().to_owned();
    driver.send(&request("_new", "second"));
    let second = closing(&mut driver)["session_id"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    driver.send(&request(&first, "third"));
    assert_eq!(closing(&mut driver)["session_id"], first.as_str());
    driver.send(&request(&second, "fourth"));
    assert_eq!(closing(&mut driver)["session_id"], second.as_str());
    assert_eq!(said(&server, 0), ["first"]);
    assert_eq!(said(&server, 1), ["second"]);
    assert_eq!(said(&server, 2), ["first", "One.", "third"]);
    assert_eq!(said(&server, 3), ["second", "Two.", "fourth"]);
    let run = driver.finish();
    run.assert_code(0);
    // Each is recorded on its own, and can be gone on with by another process.
    let listed = tenon()
        .env("TENON_HOME", run.tenon_home())
        .cwd(run.workspace())
        .args(["sessions", "list", "--json"])
        .run();
    assert!(listed.stdout.contains(&first) && listed.stdout.contains(&second), "{listed}");
    let again = Server::start([reply().text("Five.")]);
    let resumed = tenon()
        .env("TENON_HOME", run.tenon_home())
        .cwd(run.workspace())
        .server(&again)
        .args(["--resume", &first, "-p", "fifth"])
        .run();
    resumed.assert_code(0);
    assert_eq!(said(&again, 0), ["first", "One.", "third", "Three.", "fifth"]);
}

#[test]
fn a_user_line_begins_a_new_session_too() {
    let server = Server::start([reply().text("One."), reply().text("Two.")]);
    let mut driver = driven(&server, &[]);
    let first = driver.turn("first")["session_id"].clone();
    driver.send(
        &json!({"type": "user", "session_id": "_new", "message": {"role": "user", "content": "second"}}),
    );
    let second = driver.result()["session_id"].clone();
    assert_ne!(first, second);
    assert_eq!(said(&server, 1), ["second"]);
    driver.finish().assert_code(0);
}

#[test]
fn a_session_that_is_not_there_is_an_error_and_changes_nothing() {
    let server = Server::start([reply().text("One."), reply().text("Two.")]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    for unknown in ["7c9e6679-7425-40de-944b-e07fc1f90ae7", "session-123"] {
        driver.send(&request(unknown, "hello?"));
        let error = driver.until(|line| line["type"] == "result/error");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(unknown), "{error}");
    }
    driver.send(&request("", "first"));
    let id = closing(&mut driver)["session_id"].clone();
    driver.send(&request("7c9e6679-7425-40de-944b-e07fc1f90ae7", "hello?"));
    let error = driver.until(|line| line["type"] == "result/error");
    assert_eq!(error["line"], 4);
    driver.send(&request("", "second"));
    assert_eq!(closing(&mut driver)["session_id"], id);
    assert_eq!(said(&server, 1), ["first", "One.", "second"]);
    driver.finish().assert_code(0);
}

/// Whatever becomes of a request, nothing that is said of it is said under the id of another.
#[test]
fn every_answer_has_the_id_of_its_own_request() {
    let server = Server::start([reply().text("One."), reply().text("Two.")]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    let named = |id: &str, session: &str| {
        let mut line = request(session, "hello");
        line["prompt_id"] = json!(id);
        line
    };
    let mut unusable = named("p3", "");
    unusable["options"] = json!({"tool_overrides": ["edti"]});
    driver.send(&named("p1", "session-123"));
    driver.until(|line| line["type"] == "result/error");
    driver.send(&named("p2", ""));
    assert_eq!(closing(&mut driver)["prompt_id"], "p2");
    driver.send(&unusable);
    assert_eq!(closing(&mut driver)["prompt_id"], "p3");
    unusable["prompt_id"] = Value::Null;
    driver.send(&unusable);
    let failed = closing(&mut driver)["prompt_id"].clone();
    driver.send(&request("", "hello"));
    let answered = closing(&mut driver)["prompt_id"].clone();
    assert!(failed.as_str().unwrap().ends_with("########3"), "{failed}");
    assert!(answered.as_str().unwrap().ends_with("########4"), "{answered}");
    driver.finish().assert_code(0);
}

/// Somebody else writes it: it is refused, and the lock of a session that was left is free.
#[test]
fn locks_are_respected_and_given_back() {
    let gate = Gate::new();
    let server = Server::start([
        reply().text("One."),
        reply().text("Two."),
        reply().text("held").hold(&gate),
        reply().text("Three."),
    ]);
    let setup = tenon().server(&server).args(LINES).args(["--dialect", "openai"]);
    let (home, folder) = (setup.tenon_home(), setup.workspace().to_owned());
    let mut driver = Driver::start(setup);
    driver.send(&request("_new", "first"));
    let first = closing(&mut driver)["session_id"].as_str().unwrap().to_owned();
    driver.send(&request("_new", "second"));
    closing(&mut driver);
    // The first was left, so another process may have it.
    let other: Running = tenon()
        .env("TENON_HOME", &home)
        .cwd(&folder)
        .server(&server)
        .args(["--resume", &first, "-p", "mine now"])
        .spawn();
    server.wait_for_requests(3, std::time::Duration::from_secs(30));
    driver.send(&request(&first, "and now?"));
    let error = driver.until(|line| line["type"] == "result/error");
    assert!(error["error"]["message"].as_str().unwrap().contains("is in use by the process"), "{error}");
    gate.open();
    other.wait().assert_code(0);
    driver.send(&request(&first, "and now?"));
    assert_eq!(closing(&mut driver)["session_id"], first.as_str());
    assert_eq!(said(&server, 3), ["first", "One.", "mine now", "held", "and now?"]);
    driver.finish().assert_code(0);
}

#[test]
fn background_work_ends_with_its_session() {
    let server = Server::start([
        reply().call("c1", "run_shell_command", json!({"command": "sleep 1000", "is_background": true})),
        reply().text("Started."),
        reply().text("New."),
    ]);
    let mut driver = driven(&server, &["--dialect", "openai", "--yolo", "--sandbox=off"]);
    driver.send(&request("_new", "sleep"));
    closing(&mut driver);
    driver.send(&request("_new", "fresh"));
    closing(&mut driver);
    // The client was told how the command ended before anything of the next session.
    let at = |text: &str| driver.seen.iter().position(|line| line.to_string().contains(text));
    let (ended, next) = (at("was stopped"), at("New."));
    assert!(ended.is_some() && ended < next, "{:#?}", driver.seen);
    assert_eq!(said(&server, 2), ["fresh"]);
    driver.finish().assert_code(0);
}

#[test]
fn nothing_is_kept_where_nothing_is_to_be_kept() {
    let server = Server::start([reply().text("One."), reply().text("Two.")]);
    let setup = tenon().server(&server).args(LINES).args(["--dialect", "openai", "--no-session"]);
    let mut driver = Driver::start(setup);
    driver.send(&request("_new", "first"));
    let first = closing(&mut driver)["session_id"].clone();
    driver.send(&request("_new", "second"));
    assert_ne!(closing(&mut driver)["session_id"], first);
    let run = driver.finish();
    run.assert_code(0);
    assert!(!run.tenon_home().join("projects").exists(), "{run}");
}
