//! Conversations that fill their model's context, through the binary and a real socket.

use tenon_testkit::{Captured, Reply, Server, Tenon, Value, Wire, json, reply};

use super::output::{SCHEMA, result_of};
use super::tenon;

const NOTES: &str = "NOTES: a.txt is about alpha.";
const AFTER: &str = "go\n\n[The conversation up to here was replaced by these notes to save room.]\nNOTES: a.txt is about alpha.\n[End of the notes. Go on with the task from here.]";
const WINDOW: &str = r#"{"context": {"window": 12000}, "retry": {"attempts": 1}}"#;

/// About 5,000 tokens of a word.
fn file(word: &str) -> String {
    format!("{}\n", word.repeat(80 / word.len())).repeat(250)
}

fn agent(wire: Wire, server: &Server) -> Tenon {
    tenon().server_on(server, wire).file("a.txt", file("alpha")).file("b.txt", file("beta")).args([
        "-p",
        "go",
        "--system-prompt",
        "S",
        "--core-tools",
        "read_file",
    ])
}

fn read(id: &str, file: &str) -> Reply {
    reply().call(id, "read_file", json!({"file_path": file}))
}

/// Two files are read; the second one fills a context of 12,000.
fn script(last: Reply) -> [Reply; 4] {
    [
        read("c1", "a.txt").usage(500, 20),
        read("c2", "b.txt").usage(6000, 20),
        reply().text(NOTES).usage(5500, 30),
        last.usage(6100, 10),
    ]
}

fn roles(request: &Captured) -> Vec<&str> {
    request.messages().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[test]
fn the_server_gets_the_task_the_notes_and_the_last_turn() {
    let server = Server::start(script(reply().text("Done.")));
    let run = agent(Wire::Chat, &server).args(["-o", "stream-json", "--settings", WINDOW]).run();
    run.assert_code(0);
    let requests = server.requests();
    let summary = &requests[2];
    assert_eq!(roles(summary), ["system", "user"]);
    assert_eq!(summary.body.get("tools"), None);
    assert_eq!(summary.body["max_tokens"], 1920);
    let told = summary.user_text();
    assert!(told.starts_with("<conversation>\n[user] go\n[agent calls read_file] {\"file_path\":\"a.txt\"}\n[read_file answered] "), "{told}");
    assert!(
        told.contains(&file("alpha")) && !told.contains("beta"),
        "whole outputs, and nothing of what stays"
    );
    let after = &requests[3];
    assert_eq!(roles(after), ["system", "user", "assistant", "tool"]);
    assert_eq!(after.messages()[0], requests[1].messages()[0], "the system prompt");
    assert_eq!(after.messages()[1], json!({"role": "user", "content": AFTER}));
    assert_eq!(after.messages()[2]["tool_calls"][0]["id"], "c2");
    assert_eq!(after.tool_result("c2"), file("beta"));
    assert_eq!(after.body["tools"], requests[0].body["tools"]);

    let lines = run.json_lines();
    let boundary: Vec<&Value> = lines.iter().filter(|line| line["subtype"] == "compact_boundary").collect();
    assert_eq!(boundary.len(), 1, "{run}");
    let assistants = lines.iter().filter(|line| line["type"] == "assistant").count();
    assert_eq!(assistants, 3, "the notes are nobody's message: {run}");
    let result = result_of(&run);
    assert_eq!((&result["num_turns"], &result["result"]), (&json!(3), &json!("Done.")));
    assert_eq!(result["stats"]["models"]["test-model"]["api"]["totalRequests"], 4);
    assert_eq!(result["usage"]["input_tokens"], 500 + 6000 + 5500 + 6100);
}

#[test]
fn summaries_are_no_turns_and_a_contract_holds_after_them() {
    let last = || reply().call("c3", "structured_output", json!({"risk": "low"}));
    for wire in Wire::ALL {
        let server = Server::start(script(last()));
        let run = agent(wire, &server)
            .args(["--json-schema", SCHEMA, "--max-session-turns", "3", "--settings", WINDOW])
            .run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{wire:?} {run}");
        server.assert_script_done();
        let after = &server.requests()[3];
        assert!(after.user_text().contains(NOTES), "{wire:?}: {}", after.user_text());
        assert_eq!(after.tool_result("c2"), file("beta"), "{wire:?}");
        assert!(after.tool_names().contains(&"structured_output"), "{wire:?}");
    }
}

#[test]
fn a_refused_request_is_sent_again_shorter_on_every_wire() {
    for wire in Wire::ALL {
        let refusal = match wire {
            Wire::Messages => {
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9000 tokens > 8000 maximum"}})
            }
            Wire::Gemini => {
                json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (9000) exceeds the maximum number of tokens allowed (8000)."}})
            }
            _ => {
                json!({"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is 8000 tokens."}})
            }
        };
        let server = Server::start([
            read("c1", "a.txt").usage(500, 20),
            read("c2", "b.txt").usage(6000, 20),
            reply().status(400).json(refusal),
            reply().text(NOTES).usage(5500, 30),
            reply().text("Done.").usage(6100, 10),
        ]);
        // Nobody said how large the context is.
        let run = agent(wire, &server).args(["-o", "json"]).run();
        let result = result_of(run.assert_code(0));
        assert_eq!((&result["result"], &result["num_turns"]), (&json!("Done."), &json!(3)), "{wire:?} {run}");
        server.assert_script_done();
        assert!(server.requests()[4].user_text().contains(NOTES), "{wire:?}");
    }
}

#[test]
fn without_a_summary_older_outputs_are_left_out_and_that_is_said() {
    let server = Server::start([
        read("c1", "a.txt").usage(500, 20),
        read("c2", "b.txt").usage(6000, 20),
        reply().status(500),
        reply().text("Done.").usage(6100, 10),
    ]);
    let run = agent(Wire::Chat, &server).args(["-o", "json", "--settings", WINDOW]).run();
    run.assert_code(0);
    let after = &server.requests()[3];
    assert_eq!(roles(after), ["system", "user", "assistant", "tool", "assistant", "tool"]);
    assert_eq!(after.tool_result("c1"), "[output of 20250 bytes left out to save room]");
    assert_eq!(after.tool_result("c2"), file("beta"));
    assert!(run.stderr.contains("could not be summarised to make room"), "{run}");
}

#[test]
fn a_prompt_that_does_not_fit_fails_without_asking() {
    let server = Server::start([reply().text("never")]);
    let run = agent(Wire::Chat, &server)
        .args(["-o", "json", "--stdin", "wait", "--settings", WINDOW])
        .stdin("word ".repeat(20_000))
        .run();
    let error = result_of(run.assert_code(1))["error"].clone();
    assert_eq!(error["class"], "protocol", "{error}");
    assert!(error["hint"].as_str().unwrap().contains("context.window"), "{error}");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn hooks_are_told_of_a_compaction_and_may_prevent_it() {
    let hooks = |command: &str| {
        format!(
            r#"{{"context": {{"window": 12000}}, "hooks": {{"PreCompact": [{{"hooks": [{{"type": "command", "command": "{command}"}}]}}], "PostCompact": [{{"hooks": [{{"type": "command", "command": "cat > post.json"}}]}}]}}}}"#
        )
    };
    let server = Server::start(script(reply().text("Done.")));
    let run = agent(Wire::Chat, &server).home_file("settings.json", hooks("cat > pre.json")).run();
    run.assert_code(0);
    let told = |file: &str| serde_json::from_str::<Value>(&run.read(file)).unwrap();
    let pre = told("pre.json");
    assert_eq!((&pre["hook_event_name"], &pre["trigger"]), (&json!("PreCompact"), &json!("auto")), "{pre}");
    assert_eq!(told("post.json")["compact_summary"], NOTES);

    let server = Server::start([
        read("c1", "a.txt").usage(500, 20),
        read("c2", "b.txt").usage(6000, 20),
        reply().text("Done.").usage(11_500, 10),
    ]);
    let run = agent(Wire::Chat, &server).home_file("settings.json", hooks("echo not now >&2; exit 2")).run();
    run.assert_code(0);
    assert!(run.stderr.contains("kept the conversation from being compacted: not now"), "{run}");
    assert_eq!(server.requests()[2].tool_result("c1"), file("alpha"));
}

/// What a provider caches is a beginning that stays as it is, byte for byte.
#[test]
fn each_request_begins_like_the_one_before_it() {
    for wire in Wire::ALL {
        let turn = |n: usize| {
            reply().text(format!("Step {n}.")).call(
                &format!("c{n}"),
                "read_file",
                json!({"file_path": "a.txt", "limit": n}),
            )
        };
        let server = Server::start([turn(1), turn(2), turn(3), reply().text("Done.")]);
        agent(wire, &server).args(["-y"]).run().assert_code(0);
        let bodies: Vec<String> = server.requests().iter().map(|request| beginning(wire, request)).collect();
        for pair in bodies.windows(2) {
            assert!(pair[1].starts_with(&pair[0]), "{wire:?}\n{}\n{}", pair[0], pair[1]);
            assert!(pair[1].len() > pair[0].len());
        }
    }
}

/// Everything up to the end of the conversation, as it was sent, without what marks a place for a cache.
fn beginning(wire: Wire, request: &Captured) -> String {
    let list = match wire {
        Wire::Chat | Wire::Messages => "messages",
        Wire::Responses => "input",
        Wire::Gemini => "contents",
    };
    let mut body = request.body.clone();
    unmark(&mut body);
    let conversation = body[list].take().to_string();
    let rest: Vec<String> =
        body.as_object().unwrap().iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{}\n{}", rest.join("\n"), conversation.strip_suffix(']').unwrap())
}

fn unmark(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.remove("cache_control");
            object.values_mut().for_each(unmark);
        }
        Value::Array(list) => list.iter_mut().for_each(unmark),
        _ => {}
    }
}

#[test]
fn anthropic_is_told_what_to_keep() {
    let turn =
        |n: usize| reply().call(&format!("c{n}"), "read_file", json!({"file_path": "a.txt", "limit": n}));
    let server = Server::start([turn(1), turn(2), turn(3), reply().text("Done.")]);
    agent(Wire::Messages, &server).args(["-y"]).run().assert_code(0);
    let marks = |value: &Value| value.to_string().matches("cache_control").count();
    for (at, request) in server.requests().iter().enumerate() {
        let body = &request.body;
        assert_eq!((marks(&body["system"]), marks(&body["tools"])), (1, 1), "{body}");
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(marks(messages.last().unwrap()), 1, "the last turn is kept for the next request");
        assert!(marks(body) <= 4, "{} marks in request {at}", marks(body));
    }
}

#[test]
fn a_run_with_a_summary_can_be_recorded_and_replayed() {
    let server = Server::start(script(reply().text("Done.")));
    let recorded = agent(Wire::Chat, &server).args(["--settings", WINDOW, "--record", "run.jsonl"]).run();
    recorded.assert_code(0);
    let cassette = recorded.workspace().join("run.jsonl");
    let replayed = tenon()
        .file("a.txt", file("alpha"))
        .file("b.txt", file("beta"))
        .args(["-p", "go", "--system-prompt", "S", "--core-tools", "read_file", "-o", "json"])
        .args(["--settings", WINDOW, "--replay"])
        .arg(&cassette)
        .run();
    let result = result_of(replayed.assert_code(0));
    assert_eq!((&result["result"], &result["total_cost_usd"]), (&json!("Done."), &json!(0.0)), "{replayed}");
}

#[test]
fn a_verbose_run_tells_of_a_compaction() {
    let server = Server::start(script(reply().text("Done.")));
    let run = agent(Wire::Chat, &server).args(["--verbose", "--settings", WINDOW]).run();
    run.assert_code(0);
    let told: Vec<&str> = run.stderr.lines().filter(|line| line.starts_with("compacted: about ")).collect();
    assert_eq!(told.len(), 1, "{run}");
}
