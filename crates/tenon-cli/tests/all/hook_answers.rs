//! What hooks may answer before a call, and about the final answer.

use tenon_testkit::{Run, Server, Tenon, Value, json, reply};

use crate::hooks::{Called, LOG, PROJECT, USER, command, log_of, rule, settings, shell};
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
