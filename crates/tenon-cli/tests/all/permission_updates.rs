//! What a client allows with an answer: from that answer on, in the running turn, for helpers and the turns after it; and
//! what it is offered to allow, in the shape of its dialect.

use tenon_testkit::{Server, Value, json, reply};

use super::driving::{Driver, driven};

fn asks(line: &Value) -> bool {
    line["type"] == "control_request" && line["request"]["subtype"] == "can_use_tool"
}

fn write(id: &str, file: &str) -> tenon_testkit::Reply {
    reply().call(id, "write_file", json!({"file_path": file, "content": "x"}))
}

fn shell(id: &str, command: &str) -> tenon_testkit::Reply {
    reply().call(id, "run_shell_command", json!({"command": command}))
}

/// How often it is asked during a turn; the first question is answered with these changes, the others with no.
#[track_caller]
fn asked_in_turn(driver: &mut Driver, text: &str, updates: Value) -> (usize, Value) {
    driver.send(&super::driving::user(text));
    let mut count = 0;
    loop {
        let line = driver.until(|line| asks(line) || line["type"] == "result");
        if line["type"] == "result" {
            return (count, line);
        }
        count += 1;
        let answer = match count {
            1 => json!({
                "behavior": "allow", "updatedInput": line["request"]["input"], "updatedPermissions": updates,
            }),
            _ => json!({"behavior": "deny", "message": "once is enough"}),
        };
        driver.reply(&line["request_id"], answer);
    }
}

#[test]
fn what_an_answer_allows_is_not_asked_again() {
    let rule = |tool: &str, content: Option<&str>| match content {
        Some(content) => json!({"toolName": tool, "ruleContent": content}),
        None => json!({"toolName": tool}),
    };
    let add = |rule: Value| json!([{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}]);
    let table = [
        (add(rule("write_file", None)), false),
        (add(rule("Edit", Some("*.txt"))), false),
        (json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]), false),
        (json!([{"type": "setMode", "mode": "acceptEdits", "destination": "userSettings"}]), true),
    ];
    for (updates, warned) in table {
        // Two calls of one turn, then one of the next.
        let both = reply().call("c1", "write_file", json!({"file_path": "a.txt", "content": "x"})).call(
            "c2",
            "write_file",
            json!({"file_path": "b.txt", "content": "x"}),
        );
        let server =
            Server::start([both, reply().text("Done."), write("c3", "c.txt"), reply().text("Again.")]);
        let mut driver = driven(&server, &["--dialect", "claude"]);
        let (asked, result) = asked_in_turn(&mut driver, "write", updates.clone());
        assert_eq!(asked, 1, "{updates}: {result}");
        let told = result["warnings"].to_string();
        assert_eq!(told.contains("nothing is written to `userSettings`"), warned, "{told}");
        let (asked, _) = asked_in_turn(&mut driver, "again", json!([]));
        assert_eq!(asked, 0, "{updates}");
        let run = driver.finish();
        run.assert_code(0);
        for file in ["a.txt", "b.txt", "c.txt"] {
            assert!(run.workspace().join(file).exists(), "{updates}: {file}");
        }
    }
}

#[test]
fn rules_are_replaced_and_removed_and_a_mode_is_told() {
    let change = |kind: &str, behavior: &str, content: &str| {
        json!([{
            "type": kind, "behavior": behavior, "destination": "session",
            "rules": [{"toolName": "run_shell_command", "ruleContent": content}],
        }])
    };
    let server = Server::start([
        shell("c1", "echo one"),
        reply().text("1"),
        shell("c2", "echo one"),
        reply().text("2"),
        shell("c3", "echo two"),
        reply().text("3"),
        shell("c4", "echo one"),
        reply().text("4"),
    ]);
    let mut driver = driven(&server, &["--dialect", "qwen"]);
    let asked = |driver: &mut Driver, updates: Value| asked_in_turn(driver, "go", updates).0;
    assert_eq!(asked(&mut driver, change("addRules", "allow", "echo one")), 1);
    assert_eq!(asked(&mut driver, json!([])), 0, "it is allowed now");
    assert_eq!(asked(&mut driver, change("replaceRules", "allow", "echo two")), 1);
    assert_eq!(asked(&mut driver, json!([])), 1, "it was replaced");
    driver.finish().assert_code(0);

    let server =
        Server::start([shell("c1", "echo one"), reply().text("1"), shell("c2", "rm x"), reply().text("2")]);
    let mut driver = driven(
        &server,
        &["--dialect", "qwen", "-y", "--settings", r#"{"permissions":{"ask":["Bash(echo one)"]}}"#],
    );
    let mut both = change("addRules", "deny", "rm x").as_array().unwrap().clone();
    both.extend(change("removeRules", "ask", "echo one").as_array().unwrap().clone());
    both.push(json!({"type": "setMode", "mode": "default"}));
    both.push(json!({"type": "addRules", "behavior": "allow", "rules": [{"toolName": "no_such_tool"}]}));
    let (asked, result) = asked_in_turn(&mut driver, "go", Value::Array(both));
    assert_eq!(asked, 1);
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("is of the settings or a flag, and stays"), "{warnings}");
    assert!(warnings.contains("there is no tool `no_such_tool`"), "{warnings}");
    let (asked, result) = asked_in_turn(&mut driver, "go", json!([]));
    assert_eq!((asked, result["permission_denials"].as_array().unwrap().len()), (0, 1), "{result}");
    let modes: Vec<&Value> = driver
        .seen
        .iter()
        .filter(|line| line["subtype"] == "init")
        .map(|line| &line["permission_mode"])
        .collect();
    assert_eq!(modes, [&json!("yolo"), &json!("default")]);
    driver.finish().assert_code(0);
}

#[test]
fn folders_are_opened_by_an_answer() {
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("secret.txt"), "from elsewhere").unwrap();
    let path = other.path().join("secret.txt");
    let read = |id: &str| reply().call(id, "read_file", json!({"file_path": path}));
    let server = Server::start([read("c1"), write("c2", "a.txt"), read("c3"), reply().text("Done.")]);
    let mut driver = driven(&server, &["--dialect", "claude", "--sandbox=off"]);
    let updates =
        json!([{"type": "addDirectories", "directories": [other.path()], "destination": "session"}]);
    let (asked, result) = asked_in_turn(&mut driver, "read", updates);
    assert_eq!((asked, &result["warnings"]), (1, &json!([])), "{result}");
    assert!(!server.request(1).tool_result("c1").contains("from elsewhere"));
    assert!(server.request(3).tool_result("c3").contains("from elsewhere"));
    driver.finish().assert_code(0);
}

/// What is offered comes in the words of the dialect, and in `claude` it can be sent back as it is.
#[test]
fn suggestions_have_the_shape_of_the_dialect() {
    let types = |line: &Value| -> Vec<String> {
        let items = line["request"]["permission_suggestions"].as_array().unwrap();
        items.iter().map(|item| item["type"].as_str().unwrap().to_owned()).collect()
    };
    let server = || {
        Server::start([
            shell("c1", "echo hi"),
            shell("c2", "echo hi"),
            write("c3", "a.txt"),
            reply().text("Done."),
        ])
    };
    let of_qwen = server();
    let mut driver = driven(&of_qwen, &["--dialect", "qwen"]);
    driver.send(&super::driving::user("go"));
    for wanted in [&["allow", "deny"][..], &["allow", "deny"], &["allow", "deny", "modify"]] {
        let asked = driver.until(asks);
        assert_eq!(types(&asked), wanted);
        driver.reply(&asked["request_id"], json!({"behavior": "deny", "message": "no"}));
    }
    driver.result();
    driver.finish().assert_code(0);

    let of_claude = server();
    let mut driver = driven(&of_claude, &["--dialect", "claude"]);
    driver.send(&super::driving::user("go"));
    let asked = driver.until(asks);
    let suggested = &asked["request"]["permission_suggestions"];
    assert_eq!(
        suggested,
        &json!([{
            "type": "addRules", "rules": [{"toolName": "run_shell_command", "ruleContent": "echo hi"}],
            "behavior": "allow", "destination": "session",
        }])
    );
    let answer = json!({"behavior": "allow", "updatedPermissions": suggested});
    driver.reply(&asked["request_id"], answer);
    // The second command is allowed now; the write is not.
    let asked = driver.until(asks);
    assert_eq!(asked["request"]["tool_name"], "write_file");
    assert_eq!(types(&asked), ["setMode"]);
    driver.reply(&asked["request_id"], json!({"behavior": "deny", "message": "no"}));
    driver.result();
    driver.finish().assert_code(0);
}
