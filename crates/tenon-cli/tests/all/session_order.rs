//! What happens when in a session: results in the order of their turns, changes from their place on, one outcome for
//! whatever is said in one go, and a last result that agrees with the exit code.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

use tenon_testkit::{Gate, Run, Server, Signal, Tenon, Value, json, reply};

use super::driving::{Driver, LINES, driven, user};
use super::pipes::command;
use super::tenon;

/// Ends a hang; nothing here takes long.
const SOON: Duration = Duration::from_secs(30);

fn chat(name: &str, text: &str) -> Value {
    json!({"prompt_id": name, "input": {"parts": [{"type": "text", "text": text}]}})
}

fn control(id: &str, request: Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": request})
}

/// All of it in one write.
fn at_once(driver: &mut Driver, lines: &[Value]) {
    let said: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    driver.client.write(said.concat());
}

fn is_result(line: &Value) -> bool {
    line["type"] == "result" || line["metadata"]["final"] == true
}

/// The exit code that a result stands for.
fn code(result: &Value) -> i64 {
    if result["type"] == "result" {
        return result["error"]["code"].as_i64().unwrap_or(0);
    }
    let annotations = result["annotations"].as_array().expect("annotations");
    annotations.iter().find_map(|one| one["exit_code"].as_i64()).expect("an exit code")
}

fn results(run: &Run) -> Vec<Value> {
    run.json_lines().into_iter().filter(is_result).collect()
}

/// Every turn is a beginning, whatever comes between, and a result; nothing of a turn stands outside.
#[track_caller]
fn is_framed(run: &Run) {
    let mut is_open = false;
    for line in run.json_lines() {
        let begins = line["subtype"] == "init"
            || !line["metadata"]["protocol_version"].is_null() && line["metadata"]["final"] != true;
        let is_between = line["type"].as_str().is_some_and(|kind| {
            kind.starts_with("control_")
                || matches!(kind, "result/cancel" | "result/heartbeat" | "result/error")
        }) || line["subtype"] == "input_error"
            || line["subtype"] == "unsupported_protocol"
            || line["metadata"]["error"] == "unsupported_protocol";
        if is_between {
            continue;
        }
        assert_eq!(begins, !is_open, "{line}\n{run}");
        is_open = !is_result(&line);
    }
    assert!(!is_open, "{run}");
}

#[test]
fn a_signal_ends_the_running_turn_first_and_then_those_that_wait() {
    for (signal, number) in [(Signal::Interrupt, 130), (Signal::Terminate, 143)] {
        for dialect in ["qwen", "claude", "openai"] {
            let server = Server::start([reply().text("never").hold(&Gate::new())]);
            let mut driver = driven(&server, &["--dialect", dialect]);
            let taken_back = json!({"type": "control/cancel", "prompt_id": "p2"});
            at_once(&mut driver, &[chat("p1", "a"), chat("p2", "b"), chat("p3", "c"), taken_back]);
            driver.until(|line| line["type"] == "result/cancel");
            server.wait_for_requests(1, SOON);
            driver.client.signal(signal);
            let run = driver.client.wait();
            run.assert_code(number);
            let results = results(&run);
            let codes: Vec<i64> = results.iter().map(code).collect();
            assert_eq!(codes, [i64::from(number), 130, i64::from(number)], "{run}");
            if dialect == "openai" {
                let names: Vec<&Value> = results.iter().map(|result| &result["prompt_id"]).collect();
                assert_eq!(names, ["p1", "p2", "p3"], "{run}");
            }
            is_framed(&run);
        }
    }
}

/// Nothing runs and nothing waits: the last result says why it is over all the same.
#[test]
fn a_signal_between_turns_is_told_in_a_result() {
    for dialect in ["qwen", "openai"] {
        let server = Server::start([reply().text("One.")]);
        let mut driver = driven(&server, &["--dialect", dialect]);
        driver.send(&user("one"));
        driver.until(is_result);
        driver.client.signal(Signal::Terminate);
        let run = driver.client.wait();
        run.assert_code(143);
        assert_eq!(results(&run).iter().map(code).collect::<Vec<_>>(), [0, 143], "{run}");
        is_framed(&run);
    }
}

#[test]
fn a_version_that_there_is_not_is_told_after_everything_before_it() {
    for dialect in ["qwen", "claude", "openai"] {
        let server = Server::start([reply().text("never").hold(&Gate::new())]);
        let mut driver = driven(&server, &["--dialect", dialect]);
        at_once(&mut driver, &[chat("p1", "a"), chat("p2", "b")]);
        server.wait_for_requests(1, SOON);
        let request = json!({"subtype": "get_usage_info", "protocol_version": 9});
        driver.send(&control("r1", request));
        let run = driver.client.wait();
        run.assert_code(1);
        let lines = run.json_lines();
        let codes: Vec<i64> = results(&run).iter().map(code).collect();
        let last = lines.last().expect("lines");
        if dialect == "openai" {
            assert_eq!(codes, [1, 1], "{run}");
            assert_eq!(last["metadata"]["error"], "unsupported_protocol", "{run}");
            assert!(last["prompt_id"].as_str().is_some_and(|name| name.ends_with("########3")), "{run}");
        } else {
            assert_eq!(codes, [1, 1, 1], "{run}");
            assert!(is_result(last), "{run}");
        }
        let answers = lines.iter().filter(|line| line["type"] == "control_response").count();
        assert_eq!(answers, 1, "{run}");
        is_framed(&run);
    }
}

/// A start that failed is what the process ends with, whatever a command said meanwhile.
#[test]
fn a_failed_start_is_the_last_result() {
    let said = format!("{}\n", user("/help"));
    let run = tenon().args(LINES).stdin(said).run();
    run.assert_code(41);
    assert_eq!(results(&run).iter().map(code).collect::<Vec<_>>(), [0, 41], "{run}");
    is_framed(&run);
    let run = tenon().args(LINES).stdin("").run();
    run.assert_code(41);
    assert_eq!(results(&run).iter().map(code).collect::<Vec<_>>(), [41], "{run}");
}

#[test]
fn another_model_and_effort_hold_for_the_turns_sent_after_them() {
    let gate = Gate::new();
    let server = Server::start([
        reply().text("1").hold(&gate),
        reply().text("2"),
        reply().text("3"),
        reply().text("4"),
        reply().text("5"),
    ]);
    let mut driver = driven(&server, &[]);
    at_once(
        &mut driver,
        &[
            user("one"),
            user("two"),
            control("m", json!({"subtype": "set_model", "model": "second"})),
            user("three"),
            control("e", json!({"subtype": "set_effort", "effort": "high"})),
            control("bad", json!({"subtype": "set_model", "model": "local/gpt-9"})),
            user("four"),
            control("back", json!({"subtype": "set_model"})),
            user("five"),
        ],
    );
    // All of it is answered while the first turn still runs.
    assert_eq!(driver.answer("m")["response"]["model"], "second");
    assert_eq!(driver.answer("e")["response"]["applied"], true);
    assert_eq!(driver.answer("bad")["subtype"], "error");
    assert_eq!(driver.answer("back")["response"]["model"], "test-model");
    let models = driver.told(json!({"subtype": "get_available_models"}));
    assert_eq!(
        (&models["models"][0]["id"], &models["models"][0]["isCurrent"]),
        (&json!("test-model"), &json!(true))
    );
    gate.open();
    let run = driver.finish();
    run.assert_code(0);
    let asked: Vec<Value> = server
        .requests()
        .iter()
        .map(|request| json!([request.body["model"], request.body["reasoning_effort"]]))
        .collect();
    assert_eq!(
        asked,
        [
            json!(["test-model", null]),
            json!(["test-model", null]),
            json!(["second", null]),
            json!(["second", "high"]),
            json!(["test-model", "high"]),
        ]
    );
}

/// A command that waits is before what was asked for after it.
#[test]
fn a_change_is_made_after_the_commands_that_wait() {
    let gate = Gate::new();
    let server = Server::start([reply().text("1").hold(&gate), reply().text("2"), reply().text("3")]);
    let mut driver = driven(&server, &[]);
    at_once(
        &mut driver,
        &[
            user("one"),
            user("/model second"),
            user("two"),
            control("m", json!({"subtype": "set_model", "model": "third"})),
            user("three"),
        ],
    );
    driver.answer("m");
    gate.open();
    driver.finish().assert_code(0);
    let asked: Vec<Value> = server.requests().iter().map(|request| request.body["model"].clone()).collect();
    assert_eq!(asked, ["test-model", "second", "third"]);
}

/// As the permission handlers of SDKs do it: in the middle of a turn, for that turn.
#[test]
fn the_permission_mode_holds_at_once() {
    let gate = Gate::new();
    let server = Server::start([
        reply().call("c1", "write_file", json!({"file_path": "a.txt", "content": "a"})).hold(&gate),
        reply().text("Written."),
    ]);
    let mut driver = driven(&server, &[]);
    driver.send(&user("write"));
    server.wait_for_requests(1, SOON);
    driver.told(json!({"subtype": "set_permission_mode", "mode": "yolo"}));
    gate.open();
    assert_eq!(driver.result()["result"], "Written.");
    let run = driver.finish();
    assert_eq!(run.read("a.txt"), "a");
    assert!(run.json_lines().iter().all(|line| line["type"] != "control_request"), "{run}");
}

/// Whatever is faster, the end of the turn or the next line: it is the same.
#[test]
fn what_is_interrupted_and_continued_in_one_write_is_both() {
    for _ in 0..8 {
        let gate = Gate::new();
        let server = Server::start([reply().text("Went on.").hold(&gate).forever()]);
        let mut driver = driven(&server, &[]);
        at_once(
            &mut driver,
            &[
                user("slow"),
                control("i", json!({"subtype": "interrupt"})),
                control("c", json!({"subtype": "continue_last_turn"})),
                control("i2", json!({"subtype": "interrupt"})),
                control("c2", json!({"subtype": "continue_last_turn"})),
            ],
        );
        driver.client.json_where(|line| line["response"]["request_id"] == "c2");
        gate.open();
        driver.client.close_stdin();
        let run = driver.client.wait();
        run.assert_code(0);
        let answer = |id: &str| {
            let lines = run.json_lines();
            let mut of_id = lines.into_iter().filter(|line| line["response"]["request_id"] == id);
            let answer = of_id.next().expect("an answer")["response"]["response"].clone();
            assert!(of_id.next().is_none(), "{run}");
            answer
        };
        assert_eq!(answer("c")["accepted"], true, "{run}");
        assert_eq!(answer("c2")["accepted"], true, "{run}");
        assert_eq!(results(&run).iter().map(code).collect::<Vec<_>>(), [130, 130, 0], "{run}");
        assert_eq!(results(&run)[2]["result"], "Went on.", "{run}");
        is_framed(&run);
    }
}

#[test]
fn each_cancel_of_one_write_means_one_turn() {
    let slow = || reply().text("never").hold(&Gate::new()).forever();
    for dialect in ["qwen", "openai"] {
        for _ in 0..4 {
            let server = Server::start([slow()]);
            let mut driver = driven(&server, &["--dialect", dialect]);
            let bare = json!({"type": "control/cancel"});
            let named = json!({"type": "control/cancel", "prompt_id": "p1", "request_id": "r1"});
            at_once(
                &mut driver,
                &[chat("p1", "a"), chat("p2", "b"), bare.clone(), named, bare.clone(), bare.clone(), bare],
            );
            driver.client.close_stdin();
            let run = driver.client.wait();
            run.assert_code(0);
            let lines = run.json_lines();
            let mut told: Vec<String> = lines
                .iter()
                .filter(|line| line["type"] == "result/cancel")
                .map(|line| format!("{} {}", line["prompt_id"], line["status"]))
                .collect();
            told.sort();
            let wanted =
                [r#""p1" "noop""#, r#""p1" "ok""#, r#""p2" "ok""#, r#"null "noop""#, r#"null "noop""#];
            assert_eq!(told, wanted, "{run}");
            assert_eq!(lines.iter().filter(|line| line["type"] == "control_response").count(), 1, "{run}");
            assert_eq!(results(&run).iter().map(code).collect::<Vec<_>>(), [130, 130], "{run}");
            is_framed(&run);
        }
    }
}

#[test]
fn a_turn_that_was_taken_back_has_its_result_in_its_place() {
    let gate = Gate::new();
    let server = Server::start([reply().text("1").hold(&gate), reply().text("2"), reply().text("4")]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    at_once(
        &mut driver,
        &[
            chat("p1", "a"),
            chat("p2", "b"),
            chat("p3", "c"),
            chat("p4", "d"),
            json!({"type": "control/cancel", "prompt_id": "p3"}),
            json!({"type": "control/cancel", "prompt_id": "p3"}),
        ],
    );
    assert_eq!(driver.until(|line| line["type"] == "result/cancel")["status"], "ok");
    assert_eq!(driver.until(|line| line["type"] == "result/cancel")["status"], "noop");
    gate.open();
    let run = driver.finish();
    let told: Vec<(String, i64)> = results(&run)
        .iter()
        .map(|result| (result["prompt_id"].as_str().unwrap_or_default().to_owned(), code(result)))
        .collect();
    let wanted = [("p1", 0), ("p2", 0), ("p3", 130), ("p4", 0)].map(|(name, code)| (name.to_owned(), code));
    assert_eq!(told, wanted, "{run}");
    is_framed(&run);
}

/// Refused, answered without a model, with files: every turn looks the same from outside.
#[test]
fn every_turn_begins_and_ends_in_the_same_way() {
    let missing = json!({"input": {"parts": [{"type": "file_data", "uri": "nowhere.txt"}]}});
    let mut bad_model = chat("p", "b");
    bad_model["options"] = json!({"model": "local/gpt-9"});
    let mut bad_tool = chat("p", "b");
    bad_tool["options"] = json!({"tool_overrides": ["no such tool!"]});
    let turns = [
        chat("p", "@a.txt"),
        chat("p", "see @a.txt"),
        chat("p", "/help"),
        chat("p", "/no_such_command"),
        bad_model,
        bad_tool,
        missing,
    ];
    for dialect in ["qwen", "claude", "openai"] {
        let server = Server::start([reply().text("Seen.").forever()]);
        for turn in &turns {
            let run = tenon()
                .server(&server)
                .file("a.txt", "alpha")
                .args(LINES)
                .args(["--dialect", dialect])
                .stdin(format!("{turn}\n"))
                .run();
            run.assert_code(0);
            assert!(run.json_lines().iter().filter(|line| is_result(line)).count() <= 1, "{run}");
            if run
                .json_lines()
                .iter()
                .all(|line| line["subtype"] != "input_error" && line["type"] != "result/error")
            {
                assert!(is_result(run.json_lines().last().expect("lines")), "{turn}\n{run}");
            }
            is_framed(&run);
        }
    }
    // On a command line too.
    let server = Server::start([reply().text("Seen.")]);
    let run =
        tenon().server(&server).file("a.txt", "alpha").args(["-o", "stream-json", "-p", "@a.txt"]).run();
    run.assert_code(0);
    is_framed(&run);
}

#[test]
fn a_refused_turn_changes_nothing() {
    let server = Server::start([reply().text("One."), reply().text("Two.")]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    driver.send(&chat("p1", "first"));
    let first = driver.until(is_result);
    let other = json!([{"role": "user", "content": "other"}, {"role": "assistant", "content": "talk"}, {"role": "user", "content": "x"}]);
    driver.send(&json!({"model": "local/gpt-9", "messages": other}));
    assert_eq!(code(&driver.until(is_result)), 52);
    let mut elsewhere = chat("p3", "x");
    elsewhere["session_id"] = json!("_new");
    elsewhere["options"] = json!({"model": "local/gpt-9"});
    driver.send(&elsewhere);
    assert_eq!(code(&driver.until(is_result)), 52);
    driver.send(&chat("p4", "second"));
    let last = driver.until(is_result);
    assert_eq!(last["session_id"], first["session_id"]);
    driver.finish().assert_code(0);
    let request = server.request(1);
    let said: Vec<&Value> = request.messages()[1..].iter().map(|message| &message["content"]).collect();
    assert_eq!(said, ["first", "One.", "second"]);
    assert_eq!(request.body["model"], "test-model");
}

#[test]
fn usage_is_that_of_the_session_there_is() {
    let answer = |text: &str, tokens| reply().text(text).usage(tokens, 1).finish("stop");
    let server = Server::start([answer("1", 10), answer("2", 20), answer("3", 40), answer("4", 80)]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    let used = |driver: &mut Driver| {
        let told = driver.told(json!({"subtype": "get_usage_info"}));
        (told["range"].clone(), told["turns"].clone(), told["input_tokens"].clone())
    };
    let session = |turns: u64, tokens: u64| (json!("session"), json!(turns), json!(tokens));
    driver.send(&chat("p1", "a"));
    let first = driver.until(is_result)["session_id"].clone();
    driver.send(&chat("p2", "b"));
    driver.until(is_result);
    assert_eq!(used(&mut driver), session(2, 30));
    let mut other = chat("p3", "c");
    other["session_id"] = json!("_new");
    driver.send(&other);
    driver.until(is_result);
    assert_eq!(used(&mut driver), session(1, 40));
    let mut back = chat("p4", "d");
    back["session_id"] = first;
    driver.send(&back);
    driver.until(is_result);
    assert_eq!(used(&mut driver), session(3, 110));
    driver.finish().assert_code(0);
}

/// The reader leaves, stdin stays open: nobody is told more than one sentence, and with `-q` nothing.
#[test]
fn a_client_that_leaves_is_no_error_to_read_about() {
    let server = Server::start([reply().text("One.").forever()]);
    for (flags, wanted) in
        [(&["-q"][..], ""), (&[], "warning: the client stopped reading, so the session ended\n")]
    {
        let tenon = tenon();
        let mut child = command(&tenon, &server)
            .args(LINES)
            .args(["-m", "test-model"])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary");
        drop(child.stdout.take());
        let mut stdin = child.stdin.take().expect("a pipe");
        // It may be gone before the last of it is written.
        let _ = write!(stdin, "{}\n{}\n", user("one"), user("two"));
        assert_eq!(child.wait().expect("our child").code(), Some(1));
        let mut stderr = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("its words");
        assert_eq!(stderr, wanted, "{flags:?}");
    }
}

#[test]
fn a_client_says_how_long_it_may_take() {
    let server =
        Server::start([reply().call("c1", "list_directory", json!({"path": "."})), reply().text("Done.")]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    let hooks = json!({"PreToolUse": [{"matcher": "list_directory", "hookCallbackIds": ["h0"]}]});
    let timeout = json!({"canUseTool": 60000, "hookCallback": 1, "mcpMessage": 30000, "controlRequest": 1, "patience": 5});
    driver.told(json!({"subtype": "initialize", "hooks": hooks, "timeout": timeout}));
    driver.send(&chat("p1", "look"));
    // Nobody answers the hook.
    let result = driver.until(is_result);
    let told = result["metadata"]["warnings"].to_string();
    assert!(told.contains("`timeout.patience` of `initialize` says nothing to tenon"), "{result}");
    assert!(!told.contains("controlRequest"), "{result}");
    let why = driver.refused(json!({"subtype": "initialize", "timeout": {"mcpMessage": "soon"}}));
    assert_eq!(why, "`timeout.mcpMessage` must be a whole number of milliseconds");
    driver.finish().assert_code(0);
}

/// The download is the turn's that needs it; whoever greets is answered at once.
#[test]
fn weights_that_are_missing_hold_up_no_greeting() {
    let setup: Tenon = tenon().env("TENON_OFFLINE", "1").args(LINES).args(["-m", "local"]);
    let mut driver = Driver::start(setup);
    let greeted = driver.told(json!({"subtype": "initialize", "hooks": null}));
    assert_eq!(greeted["capabilities"]["can_set_model"], true, "{greeted}");
    let result = driver.turn("hello");
    assert!(result["error"]["message"].as_str().is_some_and(|why| why.contains("TENON_OFFLINE")), "{result}");
    let run = driver.finish();
    run.assert_code(0);
    is_framed(&run);
}
