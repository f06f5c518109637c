//! What turns are called, which version of the protocol is spoken, and in which dialect a session begins.

use tenon_testkit::{Server, Value, json, reply};

use super::driving::{LINES, driven};
use super::tenon;

fn is_final(line: &Value) -> bool {
    line["metadata"]["final"] == true
}

fn chat(session: Value, text: &str) -> Value {
    json!({"session_id": session, "input": {"parts": [{"type": "text", "text": text}]}})
}

/// The one rule: the client's name, or the session and the number of the turn in it. Every line of a turn has it.
#[test]
fn every_line_of_a_turn_carries_its_name() {
    let write = reply().call("c1", "write_file", json!({"file_path": "a.txt", "content": "x"}));
    let server = Server::start([
        reply().text("One."),
        write,
        reply().text("Two."),
        reply().text("New."),
        reply().text("Named."),
        reply().text("Third."),
    ]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    driver.send(&chat(json!(null), "one"));
    let first = driver.until(is_final);
    let session = first["session_id"].as_str().unwrap().to_owned();
    let name = |session: &str, number: u32| json!(format!("{session}########{number}"));
    assert_eq!(first["prompt_id"], name(&session, 1));

    driver.send(&chat(json!(null), "two"));
    let asked = driver.until(|line| line["subtype"] == "can_use_tool");
    assert_eq!(asked["prompt_id"], name(&session, 2));
    driver.reply(&asked["request_id"], json!({"behavior": "approve"}));
    assert_eq!(driver.until(is_final)["prompt_id"], name(&session, 2));

    driver.send(&chat(json!("_new"), "new"));
    let new = driver.until(is_final);
    let other = new["session_id"].as_str().unwrap().to_owned();
    assert_ne!(other, session);
    assert_eq!(new["prompt_id"], name(&other, 1));

    let mut named = chat(json!(null), "named");
    named["prompt_id"] = json!("mine");
    driver.send(&named);
    assert_eq!(driver.until(is_final)["prompt_id"], "mine");

    driver.send(&chat(json!(null), "/help"));
    let command = driver.until(|line| line["type"] == "result/command");
    assert_eq!(command["prompt_id"], name(&other, 3));
    assert_eq!(driver.until(is_final)["prompt_id"], name(&other, 3));

    driver.send(&json!({"prompt_id": "p9", "input": {"parts": ["x"]}, "options": {"frobnicate": 1}}));
    let error = driver.until(|line| line["type"] == "result/error");
    assert_eq!((&error["prompt_id"], &error["line"]), (&json!("p9"), &json!(7)));
    driver.send(&json!({"prompt_id": "p10", "session_id": "0", "input": {"parts": ["x"]}}));
    let error = driver.until(|line| line["type"] == "result/error");
    assert_eq!(error["prompt_id"], "p10");
    driver.finish().assert_code(0);

    let run = tenon().server(&server).args(["-p", "/help", "-o", "stream-json", "--dialect", "openai"]).run();
    let lines = run.assert_code(0).json_lines();
    let names: std::collections::BTreeSet<String> =
        lines.iter().map(|line| line["prompt_id"].to_string()).collect();
    assert_eq!(names.len(), 1, "{run}");
    assert!(names.iter().all(|name| name.contains("########1")), "{names:?}");
}

/// Wherever the version stands, whoever asked hears why it is over, under its own id.
#[test]
fn another_version_is_refused_in_every_line_and_dialect() {
    let initialize = json!({
        "type": "control_request", "request_id": "r1",
        "request": {"subtype": "initialize", "protocol_version": "9"},
    });
    let lines = [
        json!({"type": "heartbeat_request", "protocol_version": 9}),
        json!({"type": "user", "protocol_version": 9, "message": {"role": "user", "content": "hi"}}),
        json!({"prompt_id": "p1", "metadata": {"protocol_version": 9}, "input": {"parts": ["hi"]}}),
        initialize,
    ];
    let server = Server::start([]);
    for dialect in ["qwen", "claude", "openai"] {
        for line in &lines {
            let mut driver = driven(&server, &["--dialect", dialect]);
            driver.send(line);
            if line["request_id"] == "r1" {
                let answer = driver.answer("r1");
                assert_eq!(answer["subtype"], "error", "{answer}");
                assert!(answer["error"].to_string().contains("unsupported_protocol"), "{answer}");
            }
            if dialect == "openai" {
                let told = driver.until(|line| line["object"] == "chat.completion");
                assert_eq!(told["metadata"]["error"], "unsupported_protocol", "{told}");
                if line["prompt_id"] == "p1" {
                    assert_eq!(told["prompt_id"], "p1");
                }
            } else {
                driver.until(|line| line["subtype"] == "unsupported_protocol");
                let result = driver.result();
                assert_eq!(result["is_error"], true, "{result}");
            }
            let run = driver.client.wait();
            assert_eq!(run.code, 1, "{dialect} {line}: {run}");
        }
    }
    let mut driver = driven(&server, &["--dialect", "openai"]);
    driver.send(&json!({"type": "heartbeat_request", "protocol_version": "1"}));
    driver.until(|line| line["type"] == "result/heartbeat");
    driver.finish().assert_code(0);
}

/// The first line says how lines are read and written, as it was asked for.
#[test]
fn the_first_line_names_both_formats() {
    for input in ["stream-json", "stream-chunk-json"] {
        for output in ["stream-json", "stream-chunk-json"] {
            let server = Server::start([reply().text("Hi.")]);
            let flags = ["--input-format", input, "--output-format", output, "--dialect", "openai"];
            let line = json!({"messages": [{"role": "user", "content": "hi"}]});
            let run = tenon().server(&server).args(flags).stdin(format!("{line}\n")).run();
            let told = &run.assert_code(0).json_lines()[0]["metadata"];
            assert_eq!((&told["input_format"], &told["output_format"]), (&json!(input), &json!(output)));
        }
    }
}

/// Lines that say nothing do not decide whose language it is, and are answered in the one that it turns out to be.
#[test]
fn a_blank_or_broken_first_line_does_not_choose_the_dialect() {
    let request = r#"{"model":"test-model","messages":[{"role":"user","content":"Hello"}]}"#;
    for (before, errors) in
        [("\n", 0), ("\u{feff}", 0), ("  \r\n\n", 0), ("{broken\n", 1), ("[1]\n\n\"x\"\n", 2)]
    {
        let server = Server::start([reply().text("Hello.")]);
        let run = tenon().server(&server).args(LINES).stdin(format!("{before}{request}\n")).run();
        let lines = run.assert_code(0).json_lines();
        let refused: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result/error").collect();
        assert_eq!(refused.len(), errors, "{before:?}: {run}");
        let last = lines.last().unwrap();
        assert_eq!(last["choices"][0]["message"]["content"], "Hello.", "{run}");
    }
    // Nothing follows: the answer comes all the same.
    let server = Server::start([reply().text("Hi.")]);
    let mut driver = driven(&server, &[]);
    driver.client.write("{broken\n");
    let error = driver.until(|line| line["subtype"] == "input_error");
    assert_eq!(error["data"]["line"], 1);
    assert_eq!(driver.turn("hi")["result"], "Hi.");
    driver.finish().assert_code(0);
}
