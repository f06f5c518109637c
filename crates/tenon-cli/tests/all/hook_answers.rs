//! What hooks may answer: before a call and after it, about a permission, at the beginning of a run and about its end.

use tenon_testkit::{Run, Server, Tenon, Value, json, reply};

use crate::hooks::{Called, LOG, PROJECT, USER, call, command, log_of, rule, settings, shell};
use crate::output::result_of;
use crate::tenon;

/// What becomes of `echo ran` when a hook of the user's says this.
#[derive(Debug)]
struct Row<'a> {
    script: &'a str,
    args: &'a [&'a str],
    ran: bool,
    /// In what the model is told.
    told: &'a str,
    /// On stderr.
    shown: &'a str,
}

#[test]
fn answers_before_a_call() {
    let specific = |fields: &str| {
        format!(r#"echo '{{"hookSpecificOutput": {{"hookEventName": "PreToolUse", {fields}}}}}'"#)
    };
    let allow = specific(r#""permissionDecision": "allow""#);
    let deny = specific(r#""permissionDecision": "deny", "permissionDecisionReason": "no way""#);
    let ask = specific(r#""permissionDecision": "ask", "permissionDecisionReason": "is it fine?""#);
    let updated = specific(r#""updatedInput": {"command": "echo changed"}"#);
    let updated_denied = specific(r#""updatedInput": {"command": "rm -f nothing"}"#);
    let updated_wrong = specific(r#""updatedInput": {"comand": "x"}"#);
    let context = specific(r#""additionalContext": "mind the gap""#);
    let yolo = &["--yolo"][..];
    let none = &[][..];
    let denies = &["--yolo", "--exclude-tools", "Bash(rm *)"][..];
    let rows = [
        // Exit codes.
        Row { script: "true", args: yolo, ran: true, told: "Output: ran", shown: "" },
        Row { script: "true", args: none, ran: false, told: "runs commands", shown: "" },
        Row {
            script: "echo why not >&2; exit 2",
            args: yolo,
            ran: false,
            told: "hook refused it: why not",
            shown: "why not",
        },
        Row {
            script: r#"echo '{"reason": "by JSON"}' >&2; exit 2"#,
            args: yolo,
            ran: false,
            told: "refused it: by JSON",
            shown: "",
        },
        Row {
            script: r#"echo '{"decision": "allow"}'; exit 2"#,
            args: yolo,
            ran: false,
            told: "it gave no reason",
            shown: "",
        },
        // Words.
        Row { script: &allow, args: none, ran: true, told: "Output: ran", shown: "" },
        Row {
            script: r#"echo '{"decision": "approve"}'"#,
            args: none,
            ran: true,
            told: "Output: ran",
            shown: "",
        },
        Row {
            script: &deny,
            args: yolo,
            ran: false,
            told: "Denied: a `PreToolUse` hook refused it: no way",
            shown: "no way",
        },
        Row {
            script: r#"echo '{"decision": "block", "reason": "blocked"}'"#,
            args: yolo,
            ran: false,
            told: "refused it: blocked",
            shown: "",
        },
        // Nobody is there to be asked.
        Row {
            script: &ask,
            args: yolo,
            ran: false,
            told: "wants somebody to agree: is it fine?",
            shown: "nobody is there",
        },
        // Allowing lifts no rule and no mode.
        Row {
            script: &allow,
            args: &["--exclude-tools", "Bash(echo *)"],
            ran: false,
            told: "denied by the rule",
            shown: "",
        },
        Row {
            script: &allow,
            args: &["--approval-mode", "plan"],
            ran: false,
            told: "`plan` mode only reads",
            shown: "",
        },
        Row {
            script: &allow,
            args: &["--settings", r#"{"permissions": {"ask": ["Bash(echo *)"]}}"#],
            ran: false,
            told: "asks before",
            shown: "",
        },
        // Other arguments are another call.
        Row { script: &updated, args: yolo, ran: false, told: "Output: changed", shown: "" },
        Row { script: &updated, args: none, ran: false, told: "runs commands", shown: "" },
        Row {
            script: &updated_denied,
            args: denies,
            ran: false,
            told: "denied by the rule `Bash(rm *)`",
            shown: "",
        },
        Row {
            script: &updated_wrong,
            args: yolo,
            ran: false,
            told: "needs `command`; it does not know `comand`",
            shown: "",
        },
        // Words for the model and for people.
        Row { script: &context, args: yolo, ran: true, told: "Told by hooks:\nmind the gap", shown: "" },
        Row {
            script: r#"echo '{"systemMessage": "look here"}'"#,
            args: yolo,
            ran: true,
            told: "Output: ran",
            shown: "warning: the `PreToolUse` hook `check` says: look here",
        },
        Row { script: "echo not JSON", args: yolo, ran: true, told: "Output: ran", shown: "says: not JSON" },
        Row {
            script: r#"echo '["a list"]'"#,
            args: yolo,
            ran: true,
            told: "Output: ran",
            shown: r#"says: ["a list"]"#,
        },
        Row {
            script: r#"echo '{"suppressOutput": true, "unknown": 1}'"#,
            args: yolo,
            ran: true,
            told: "Output: ran",
            shown: "",
        },
    ];
    for row in rows {
        let setup = tenon().home_file(USER, settings("PreToolUse", command(row.script))).args(row.args);
        check(&row, shell(setup, "echo ran"));
    }
}

#[track_caller]
fn check(row: &Row<'_>, called: Called) {
    let ran = called.told.contains("Output: ran");
    assert_eq!(ran, row.ran, "{row:?}\n{}\n{}", called.told, called.run);
    assert!(called.told.contains(row.told), "{row:?}\n{}\n{}", called.told, called.run);
    assert!(called.run.stderr.contains(row.shown), "{row:?}\n{}", called.run);
    called.run.assert_code(0);
}

#[test]
fn a_guard_that_fails_lets_nobody_through_unless_it_is_the_projects() {
    let failures = [
        ("exit 1", "it exited with code 1"),
        ("echo broken >&2; exit 7", "it exited with code 7: broken"),
        ("kill -9 $$", "it was ended by SIGKILL"),
        ("no-such-program-anywhere", "it exited with code 127"),
        (r#"echo '{"decision": "allow"'"#, "its answer is not valid JSON"),
        (r#"echo '{"decision": "dney"}'"#, "`decision` of its answer must be"),
        (r#"echo '{"decision": 5}'"#, "`decision` of its answer must be a string"),
        (r#"echo '{"hookSpecificOutput": []}'"#, "`hookSpecificOutput` of its answer must be an object"),
        ("head -c 3000000 /dev/zero | tr '\\0' x", "it printed more than 1048576 bytes"),
        ("sleep 1000", "it did not answer within 200 ms"),
    ];
    let hook = |script: &str, on_error: Option<&str>| {
        let mut hook = command(script);
        hook["timeout"] = json!(if script.starts_with("sleep") { 200 } else { 60_000 });
        if let Some(on_error) = on_error {
            hook["onError"] = json!(on_error);
        }
        settings("PreToolUse", hook)
    };
    for (script, why) in failures {
        let blocked = Row { script, args: &[], ran: false, told: why, shown: why };
        let warned = Row { script, args: &[], ran: true, told: "Output: ran", shown: why };
        let yolo = || tenon().arg("--yolo");
        check(&blocked, shell(yolo().home_file(USER, hook(script, None)), "echo ran"));
        check(&warned, shell(yolo().home_file(USER, hook(script, Some("warn"))), "echo ran"));
        let trusting = || yolo().arg("--trust-project");
        check(&warned, shell(trusting().file(PROJECT, hook(script, None)), "echo ran"));
        check(&blocked, shell(trusting().file(PROJECT, hook(script, Some("block"))), "echo ran"));
        check(&blocked, shell(yolo().args(["--settings", &hook(script, None)]), "echo ran"));
    }
}

// --- the final answer

const SCHEMA: &str = r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#;

fn answer(setup: Tenon, answers: &[&str]) -> (Server, Run) {
    let replies = answers
        .iter()
        .enumerate()
        .map(|(n, answer)| reply().call_raw(&format!("c{n}"), "structured_output", answer));
    let server = Server::start(replies);
    let run = setup.server(&server).args(["-p", "Go.", "-o", "json", "--json-schema", SCHEMA]).run();
    (server, run)
}

#[test]
fn hooks_see_the_final_answer_as_it_was_written() {
    let hooks = json!({ "hooks": {
        "PreToolUse": rule(json!([command(LOG)])),
        "PostToolUse": rule(json!([command(LOG)])),
        "PostToolUseFailure": rule(json!([command(LOG)])),
        "Stop": rule(json!([command(LOG)])),
    } });
    let setup = tenon().home_file(USER, hooks.to_string());
    let (_, run) = answer(setup, &[r#"{"n": "marker-1"}"#, r#"{"n": 12e0, "marker": 2}"#]);
    run.assert_code(0);
    let log = run.read("log");
    let names: Vec<Value> = log_of(&run).iter().map(|line| line["hook_event_name"].clone()).collect();
    assert_eq!(names, ["PreToolUse", "PostToolUseFailure", "PreToolUse", "PostToolUse", "Stop"]);
    assert!(log.contains(r#""tool_name":"structured_output","tool_input":{"n": "marker-1"}"#), "{log}");
    assert!(log.contains(r#""tool_input":{"n": 12e0, "marker": 2}"#), "{log}");
}

#[test]
fn a_hook_may_refuse_and_change_the_final_answer() {
    let refuse = r#"jq -e '.tool_input.n > 5' > /dev/null || { echo "n is too small" >&2; exit 2; }"#;
    let setup = tenon().home_file(USER, settings("PreToolUse", command(refuse)));
    let (server, run) = answer(setup, &[r#"{"n": 1}"#, r#"{"n": 7}"#]);
    run.assert_code(0);
    assert_eq!(result_of(&run)["structured_result"], json!({"n": 7}));
    assert!(server.request(1).tool_result("c0").contains("the answer was refused: n is too small"), "{run}");
    // What a hook says about a payload may quote it.
    assert!(!run.stderr.contains("too small"), "{run}");

    let change = r#"echo '{"hookSpecificOutput": {"updatedInput": {"n": 99}}}'"#;
    let (_, run) = answer(tenon().home_file(USER, settings("PreToolUse", command(change))), &[r#"{"n": 1}"#]);
    assert_eq!(result_of(&run)["structured_result"], json!({"n": 99}));

    // What it is changed to is checked like anything else.
    let change = r#"echo '{"hookSpecificOutput": {"updatedInput": {"n": "x"}}}'"#;
    let setup = tenon().home_file(USER, settings("PreToolUse", command(change)));
    let (_, run) = answer(setup.args(["--max-schema-retries", "0"]), &[r#"{"n": 1}"#]);
    run.assert_code(53);
    // An accepted answer is not undone.
    for event in ["PostToolUse", "Stop"] {
        let hook = command(r#"echo '{"continue": false, "decision": "block", "reason": "marker"}'"#);
        let (_, run) = answer(tenon().home_file(USER, settings(event, hook)), &[r#"{"n": 1}"#]);
        run.assert_code(0);
        assert_eq!(result_of(&run)["structured_result"], json!({"n": 1}), "{event}");
    }
}

#[test]
fn what_hooks_say_about_a_payload_is_not_shown() {
    for script in [r#"jq -r '{systemMessage: (.tool_input | tostring)} | tostring'"#, "cat >&2; exit 1"] {
        for event in ["PreToolUse", "PostToolUse"] {
            let mut hook = command(script);
            hook["onError"] = json!("warn");
            let setup = tenon().home_file(USER, settings(event, hook)).arg("--verbose");
            let (_, run) = answer(setup, &[r#"{"n": 424242}"#]);
            run.assert_code(0);
            assert!(!run.stderr.contains("424242"), "{run}");
            assert!(run.stderr.contains("not shown, it may quote the payload"), "{run}");
        }
    }
}

#[test]
fn a_permission_request_is_answered_by_a_hook() {
    let answer = |decision: &str| {
        command(&format!(
            r#"echo '{{"hookSpecificOutput": {{"hookEventName": "PermissionRequest", "decision": {decision}}}}}'"#
        ))
    };
    for (decision, told) in [
        (r#"{"behavior": "allow"}"#, "Output: ran"),
        (r#"{"behavior": "allow", "updatedInput": {"command": "echo changed"}}"#, "Output: changed"),
        (r#"{"behavior": "deny", "message": "not today"}"#, "`PermissionRequest` hook refused it: not today"),
    ] {
        let called =
            shell(tenon().home_file(USER, settings("PermissionRequest", answer(decision))), "echo ran");
        assert!(called.told.contains(told), "{decision}: {}", called.told);
    }
    // What a rule denies is never asked about.
    let setup = tenon()
        .home_file(USER, settings("PermissionRequest", answer(r#"{"behavior": "allow"}"#)))
        .args(["--exclude-tools", "Bash(echo *)"]);
    assert!(shell(setup, "echo ran").told.contains("denied by the rule"));
}

#[test]
fn what_hooks_say_after_a_call_reaches_the_model() {
    let context = r#"echo '{"hookSpecificOutput": {"additionalContext": "tests are red"}}'"#;
    for (event, script, told) in [
        ("PostToolUse", context, "Told by hooks:\ntests are red"),
        ("PostToolUse", "echo wrong style >&2; exit 2", "A `PostToolUse` hook objects: wrong style"),
        ("PostToolUse", r#"echo '{"decision": "block", "reason": "r"}'"#, "hook objects: r"),
    ] {
        let setup = tenon().arg("--yolo").home_file(USER, settings(event, command(script)));
        let called = shell(setup, "echo ran");
        assert!(called.told.contains("Output: ran") && called.told.contains(told), "{}", called.told);
        // Clients are shown the tool's words, not the hooks'.
        assert!(!called.run.stdout.contains(told), "{}", called.run);
    }
    let setup = tenon().home_file(USER, settings("PostToolUseFailure", command(context)));
    let failed = call(setup, "read_file", json!({"file_path": "none"}));
    assert!(failed.told.contains("tests are red"), "{}", failed.told);
    let setup = tenon().arg("--yolo").home_file(USER, settings("PostToolBatch", command(context)));
    let batch = shell(setup, "echo ran");
    assert!(batch.server.request(1).last_message().to_string().contains("tests are red"), "{}", batch.run);
}

#[test]
fn the_beginning_of_a_run_may_add_and_refuse() {
    let say = |text: &str| {
        command(&format!(r#"echo '{{"hookSpecificOutput": {{"additionalContext": "{text}"}}}}'"#))
    };
    let hooks = json!({ "hooks": {
        "SessionStart": [{ "matcher": "startup", "hooks": [say("from the start")] }, { "matcher": "resume", "hooks": [say("resumed")] }],
        "UserPromptSubmit": rule(json!([say("from the prompt")])),
    } });
    let server = Server::start([reply().text("Hello.")]);
    let run = tenon().home_file(USER, hooks.to_string()).server(&server).args(["-p", "Hi."]).run();
    run.assert_code(0);
    let asked = server.request(0).user_text();
    assert!(asked.starts_with("Hi.") && asked.contains("from the start\n\nfrom the prompt"), "{asked}");
    assert!(!asked.contains("resumed"), "{asked}");

    let server = Server::start([]);
    let run = tenon()
        .home_file(USER, settings("UserPromptSubmit", command("echo it names a customer >&2; exit 2")))
        .server(&server)
        .args(["-p", "Hi.", "-o", "json"])
        .run();
    run.assert_code(1);
    let error = result_of(&run)["error"].clone();
    assert_eq!(error["class"], "refused");
    assert_eq!(error["message"], "a `UserPromptSubmit` hook refused the prompt: it names a customer");
}

#[test]
fn a_hook_ends_the_run() {
    for event in ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch"] {
        let stop = command(r#"echo '{"continue": false, "stopReason": "enough"}'"#);
        let server = Server::start([
            reply().call("c1", "run_shell_command", json!({"command": "echo ran > ran"})),
            reply().text("Not asked."),
        ]);
        let run = tenon()
            .arg("--yolo")
            .home_file(USER, settings(event, stop))
            .server(&server)
            .args(["-p", "Go.", "-o", "json"])
            .run();
        run.assert_code(1);
        let error = result_of(&run)["error"].clone();
        assert_eq!(error["class"], "refused", "{run}");
        assert_eq!(error["message"], format!("a `{event}` hook stopped the run: enough"));
        assert!(server.requests().len() <= 1, "{event}: {run}");
        assert_eq!(run.workspace().join("ran").exists(), event.starts_with("Post"), "{event}");
    }
}

#[test]
fn a_stop_hook_sends_the_model_back_to_work_until_the_cap() {
    let server = Server::start([reply().text("Done?"), reply().text("Done??"), reply().text("Done!")]);
    let script = format!(r#"{LOG}; [ "$(wc -l < log)" -gt 2 ] || {{ echo "run the tests" >&2; exit 2; }}"#);
    let run =
        tenon().home_file(USER, settings("Stop", command(&script))).server(&server).args(["-p", "Go."]).run();
    run.assert_code(0);
    assert_eq!(run.stdout, "Done!\n");
    let asked = server.request(1).last_message().to_string();
    assert!(asked.contains("A `Stop` hook does not let you stop yet: run the tests"), "{asked}");
    let active: Vec<Value> = log_of(&run).iter().map(|line| line["stop_hook_active"].clone()).collect();
    assert_eq!(active, [false, true, true]);

    let mut with_cap: Value =
        serde_json::from_str(&settings("Stop", command("echo never >&2; exit 2"))).unwrap();
    for cap in [0, 2] {
        with_cap["stopHookBlockingCap"] = json!(cap);
        let server = Server::start((0..=cap).map(|_| reply().text("Done.")));
        let run = tenon().home_file(USER, with_cap.to_string()).server(&server).args(["-p", "Go."]).run();
        run.assert_code(0);
        server.assert_script_done();
        assert!(run.stderr.contains(&format!("after {cap} times (`stopHookBlockingCap`)")), "{run}");
    }
}
