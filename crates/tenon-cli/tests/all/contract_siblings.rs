//! The terminal tool among other calls, through the binary: which of them run, what the model is told, and who may
//! forbid it.

use tenon_testkit::{Reply, Run, Server, Value, Wire, json, reply};

use super::contract::{TOOL, hand_in, verdict};
use super::output::{SCHEMA, asked, result_of};
use super::wire;

/// A run of one batch (and what follows), with everything allowed.
fn batch(script: Vec<Reply>) -> (Server, Run) {
    let server = Server::start(script);
    let run = asked(&server).args(["-y", "--json-schema", SCHEMA, "-o", "stream-json"]).run();
    server.assert_script_done();
    (server, run)
}

/// The tool results of a run, by call.
pub fn results(run: &Run) -> Vec<(String, bool, String)> {
    let lines = super::output::published(run);
    let users = lines.iter().filter(|line| line["type"] == "user");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    users
        .map(|line| &line["message"]["content"][0])
        .map(|r| (text(&r["tool_use_id"]), r["is_error"] == true, text(&r["content"])))
        .collect()
}

const SKIPPED: &str =
    "Skipped: this turn's structured_output contract took precedence as the terminal output.";
const SKIPPED_RETRY: &str = "Skipped: this turn's structured_output contract took precedence as the terminal output. Re-issue this call in a separate turn if needed.";
const ACCEPTED: &str = "Accepted: the payload fits the schema.";
const REJECTED: &str = "/risk: expected one of \"low\", \"high\", got 1";

fn write(reply: Reply) -> Reply {
    reply.call("w", "write_file", json!({"file_path": "made.txt", "content": "x"}))
}

pub fn owned(results: &[(&str, bool, &str)]) -> Vec<(String, bool, String)> {
    results.iter().map(|(id, error, text)| ((*id).to_owned(), *error, (*text).to_owned())).collect()
}

#[test]
fn siblings_of_a_terminal_call_never_run() {
    let good = json!({"risk": "low"});
    let bad = json!({"risk": 1});
    // [write_file, structured_output]
    let (_, run) = batch(vec![write(reply()).call("s", TOOL, good.clone())]);
    assert_eq!(results(&run), owned(&[("w", false, SKIPPED), ("s", false, ACCEPTED)]));
    assert!(!run.workspace().join("made.txt").exists());
    // [structured_output(bad), structured_output(good)]
    let (_, run) = batch(vec![hand_in("s1", bad.clone()).call("s2", TOOL, good.clone())]);
    assert_eq!(results(&run), owned(&[("s1", true, REJECTED), ("s2", false, ACCEPTED)]));
    assert_eq!(result_of(&run)["structured_result"], good);
    // [structured_output(bad), write_file], then both again, one by one
    let (server, run) = batch(vec![write(hand_in("s1", bad)), write(reply()), hand_in("s2", good.clone())]);
    assert_eq!(results(&run)[..2], owned(&[("s1", true, REJECTED), ("w", false, SKIPPED_RETRY)]));
    assert_eq!(server.request(1).tool_result("s1"), REJECTED);
    assert_eq!(server.request(1).tool_result("w"), SKIPPED_RETRY);
    assert_eq!(run.read("made.txt"), "x");
    run.assert_code(0);
    // [first, second, third]: the first that fits wins
    let second = json!({"risk": "high"});
    let (_, run) =
        batch(vec![hand_in("s1", good.clone()).call("s2", TOOL, second).call("s3", TOOL, json!({}))]);
    assert_eq!(
        results(&run),
        owned(&[("s1", false, ACCEPTED), ("s2", false, SKIPPED), ("s3", false, SKIPPED)])
    );
    assert_eq!(result_of(&run)["structured_result"], good);
    // [read_file, write_file] without a terminal call: both run, the run goes on
    let both = reply().call("r", "read_file", json!({"file_path": "made.txt"}));
    let (_, run) = batch(vec![
        write(reply()),
        both.call("e", "list_directory", json!({"path": "."})),
        hand_in("s", good),
    ]);
    let ids: Vec<String> = results(&run).into_iter().map(|(id, _, _)| id).collect();
    assert_eq!(ids, ["w", "r", "e", "s"]);
    run.assert_code(0);
}

#[test]
fn servers_may_say_it_in_their_own_way() {
    let call = || hand_in("c", json!({"risk": "low"}));
    let variants = [
        call().finish("stop"),
        call().finish("length"),
        call().text("Well.").reasoning("Hm."),
        call().whole(),
        call().no_done(),
        call().until_close().no_done(),
        call().crlf().keepalives().no_space().chunk_by(7),
    ];
    for (number, variant) in variants.into_iter().enumerate() {
        let server = Server::start([variant]);
        let run = asked(&server).args(["--json-schema", SCHEMA]).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{number}: {run}");
    }
}

#[test]
fn the_same_valid_answer_five_times_over_is_an_answer() {
    let five = (0..5).fold(reply(), |reply, n| reply.call(&format!("s{n}"), TOOL, json!({"risk": "low"})));
    let (_, run) = batch(vec![five]);
    assert_eq!(verdict(&run), Ok("{\"risk\":\"low\"}".to_owned()));
}

#[test]
fn a_reminder_offers_the_terminal_tool_alone() {
    for (nudges, replies, code) in [("0", 1, 1), ("1", 2, 1), ("2", 3, 1), ("1", 1, 0), ("2", 2, 0)] {
        let mut script: Vec<Reply> = (0..replies).map(|_| reply().text("Fine.")).collect();
        if code == 0 {
            script.push(hand_in("c", json!({"risk": "low"})));
        }
        let server = Server::start(script);
        let run = asked(&server).args(["--json-schema", SCHEMA, "--schema-nudge", nudges]).run();
        run.assert_code(code);
        server.assert_script_done();
        for reminded in server.requests().iter().skip(1) {
            assert_eq!(reminded.tool_names(), [TOOL]);
            assert_eq!(reminded.forced_tool().as_deref(), Some(TOOL));
            let said = reminded.user_text();
            assert!(said.lines().last().is_some_and(|line| line.contains("`structured_output`")), "{said}");
        }
    }
}

/// How often a model may try is counted over its turns: within one, the first that fits wins.
#[test]
fn the_first_valid_answer_of_a_turn_wins_however_many_stand_before_it() {
    let many = (0..30).fold(reply(), |reply, n| reply.call(&format!("s{n}"), TOOL, json!({"risk": n})));
    let (_, run) = batch(vec![many.clone().call("good", TOOL, json!({"risk": "low"}))]);
    assert_eq!(verdict(&run), Ok("{\"risk\":\"low\"}".to_owned()));
    let (_, run) = batch(vec![many]);
    assert_eq!(result_of(run.assert_code(53))["structured_error"]["attempts"], 30);
}

/// What was not offered is not run, whatever a model calls.
#[test]
fn a_reminded_model_can_do_nothing_else() {
    let write = reply().call("w", "write_file", json!({"file_path": "made.txt", "content": "x"}));
    let server = Server::start([reply().text("Fine."), write, hand_in("c", json!({"risk": "low"}))]);
    let run = asked(&server)
        .args(["--json-schema", SCHEMA, "--schema-nudge", "1", "--approval-mode", "yolo"])
        .run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{run}");
    assert!(!run.workspace().join("made.txt").exists(), "{run}");
    assert_eq!(
        server.request(2).tool_result("w"),
        "`write_file` is not offered any more: call `structured_output` with your answer."
    );
}

#[test]
fn the_terminal_tool_is_gated_by_deny_rules_alone() {
    let all: Vec<&str> = super::TOOLS.iter().copied().chain([TOOL]).collect();
    let deny = r#"{"permissions":{"deny":["structured_output"]}}"#;
    let exclude = r#"{"tools":{"exclude":["structured_output"]}}"#;
    for (settings, flags, offered) in [
        ("{}", vec![], all.clone()),
        ("{}", vec!["--core-tools", "read_file"], vec!["read_file", TOOL]),
        (r#"{"tools":{"core":["glob"]}}"#, vec![], vec!["glob", TOOL]),
        ("{}", vec!["--exclude-tools", TOOL], super::TOOLS.to_vec()),
        ("{}", vec!["--core-tools", "read_file", "--exclude-tools", TOOL], vec!["read_file"]),
        (deny, vec![], super::TOOLS.to_vec()),
        (exclude, vec![], super::TOOLS.to_vec()),
        ("{}", vec!["--bare"], vec!["read_file", "edit", "run_shell_command", TOOL]),
        (deny, vec!["--bare"], vec!["read_file", "edit", "run_shell_command", TOOL]),
        (exclude, vec!["--bare"], vec!["read_file", "edit", "run_shell_command", TOOL]),
        (deny, vec!["--bare", "--exclude-tools", TOOL], vec!["read_file", "edit", "run_shell_command"]),
        (
            "{}",
            vec!["--approval-mode", "plan"],
            // Where the plan is handed in, after `web_fetch`.
            all.iter()
                .flat_map(
                    |name| if *name == "web_fetch" { vec![*name, "exit_plan_mode"] } else { vec![*name] },
                )
                .collect(),
        ),
    ] {
        let is_offered = offered.contains(&TOOL);
        let server = Server::start([
            hand_in("c", json!({"risk": "low"})).when(move |_| is_offered),
            reply().text("In plain text."),
        ]);
        let run = asked(&server)
            .home_file("settings.json", settings)
            .args(["--json-schema", SCHEMA])
            .args(&flags)
            .run();
        assert_eq!(server.request(0).tool_names(), offered, "{settings} {flags:?}");
        if is_offered {
            assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{run}");
        } else {
            assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run}");
            // `--bare` says how many rules of the settings it leaves out.
            let stderr = run.stderr.replace("warning: `--bare` leaves out 1 deny rule of the settings\n", "");
            assert_eq!(
                stderr,
                "error[contract]: the model answered in plain text instead of calling `structured_output` after 1 turn; it said (14 chars): \"In plain text.\"\nhint: `structured_output` is removed by a deny rule: check `--exclude-tools` and `permissions.deny` in the settings\n"
            );
        }
    }
}

#[test]
fn a_model_that_calls_the_removed_tool_is_told_it_is_not_there() {
    let server =
        Server::start([hand_in("c1", json!({"risk": "low"})), hand_in("c2", json!({"risk": "high"}))]);
    let run = asked(&server)
        .args(["--json-schema", SCHEMA, "--exclude-tools", TOOL, "--max-session-turns", "2"])
        .run();
    assert_eq!((run.code, run.stdout.as_str()), (53, ""), "{run}");
    assert!(server.request(1).tool_result("c1").starts_with("There is no tool `structured_output`"));
    assert!(run.stderr.contains("`structured_output` is removed by a deny rule"), "{run}");
}

#[test]
fn the_terminal_tool_costs_no_tool_call() {
    let server = Server::start([hand_in("c1", json!({})), hand_in("c2", json!({"risk": "low"}))]);
    let run = asked(&server).args(["--json-schema", SCHEMA, "--max-tool-calls", "0"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{run}");
}

#[test]
fn every_request_carries_the_schema_as_it_was_written() {
    let schema = r#"{"description":"d","properties":{"z":{"minimum":1.50},"a":{"maximum":123456789012345678901234567890}},"type":"object"}"#;
    let server = Server::start([hand_in("c1", json!({"a": "x", "z": 1})), hand_in("c2", json!({}))]);
    asked(&server).args(["--json-schema", schema]).run().assert_code(0);
    let field = match wire() {
        Wire::Chat | Wire::Responses => "parameters",
        Wire::Messages => "input_schema",
        Wire::Gemini => "parametersJsonSchema",
    };
    for request in server.requests() {
        let sent = String::from_utf8(request.raw).expect("text");
        assert!(sent.contains(&format!(r#""{field}":{schema}"#)), "{sent}");
    }
}
