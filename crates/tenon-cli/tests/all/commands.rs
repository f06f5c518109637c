//! Commands, typed on a command line and by clients: answered or sent to the model, never mixed up. `@path` is in
//! `mentions.rs`, suggestions in `hints.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tenon_testkit::{Gate, Running, Server, Tenon, Value, json, reply};

use super::output::SCHEMA;
use super::tenon;

pub fn driven(tenon: Tenon, flags: &[&str]) -> Running {
    tenon
        .args(["--input-format", "stream-json", "--output-format", "stream-json"])
        .args(flags)
        .stdin_idle()
        .spawn()
}

pub fn user(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}})
}

pub fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |line| line["type"] == kind
}

fn told(client: &mut Running) -> Value {
    client.json_where(|line| line["subtype"] == "command_result")["data"].clone()
}

/// Types words, and gives what was told of them and the result of the turn.
fn typed(client: &mut Running, text: &str) -> (Value, Value) {
    client.write_json(&user(text));
    (told(client), client.json_where(is("result")))
}

/// What the model was asked last in a request.
pub fn asked(server: &Server, request: usize) -> String {
    match &server.request(request).messages().last().unwrap()["content"] {
        Value::String(text) => text.clone(),
        parts => parts.as_array().unwrap().iter().filter_map(|part| part["text"].as_str()).collect(),
    }
}

#[test]
fn a_cleared_conversation_starts_over_also_when_it_is_resumed() {
    let server = Server::start([reply().text("One."), reply().text("Two."), reply().text("Three.")]);
    let base = tenon().server(&server);
    let mut client = driven(base.clone(), &[]);
    client.write_json(&user("first"));
    client.json_where(is("result"));
    let (command, result) = typed(&mut client, "/clear");
    assert_eq!(command["command"], json!({"kind": "slash", "path": ["clear"], "args": ""}));
    assert_eq!(
        command["result"],
        json!({"type": "message", "level": "info", "content": "The conversation was cleared.", "limitation": null})
    );
    let said = (&result["is_error"], &result["result"]);
    assert_eq!(said, (&json!(false), &json!("The conversation was cleared.")));
    client.write_json(&user("second"));
    client.json_where(is("result"));
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
    assert_eq!(server.request(1).messages().len(), 2, "the system prompt and what was asked");
    let run = base.args(["--continue", "-p", "third"]).run();
    assert_eq!(run.code, 0, "{run}");
    let said: Vec<String> = server.request(2).messages()[1..]
        .iter()
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(said, ["second", "Two.", "third"]);
}

/// Every command as it is meant and as it is not: what it is answered with. Nothing reaches the model.
#[test]
fn all_commands_with_good_and_bad_arguments() {
    let server = Server::start([]);
    let mut client = driven(tenon().server(&server), &[]);
    let ok: [(&str, &str, &str); 14] = [
        ("/help", "message", "Commands:\n  /chat list | save TAG"),
        ("/help clear", "message", "/clear: Forget"),
        ("?", "message", "Commands:"),
        ("? model", "message", "/model [NAME]:"),
        ("/clear", "message", "The conversation is empty already."),
        ("/model", "dialog", "`test-model` is asked."),
        ("/model other", "message", "`other` is asked from here on."),
        ("/tools", "message", ""),
        ("/tools read_file", "tool", "read_file: Reads a text file"),
        ("/mcp", "message", "No MCP servers are configured."),
        ("/chat list", "message", "The current session has 0 history records. No chats"),
        ("/chat resume", "dialog", "No chats of this folder are saved."),
        ("/stats", "message", "Session "),
        ("/memory", "message", "There are no standing instructions"),
    ];
    for (text, kind, begins) in ok {
        let (command, result) = typed(&mut client, text);
        let answer = &command["result"];
        assert_eq!(answer["type"], kind, "{text}: {answer}");
        assert_eq!(answer["level"], "info", "{text}: {answer}");
        assert!(answer["content"].as_str().unwrap().starts_with(begins), "{text}: {answer}");
        assert_eq!((&result["is_error"], &result["result"]), (&json!(false), &answer["content"]), "{text}");
    }
    for text in ["/compress", "/compact"] {
        let (command, _) = typed(&mut client, text);
        let nothing = "There is nothing to compress yet: the last turn always stays.";
        assert_eq!(command["result"]["content"], nothing, "{command}");
    }
    let bad: [(&str, &str); 16] = [
        ("/chat save x", "there is nothing to save: the conversation is empty"),
        ("/help nobody", "there is no command `/nobody`"),
        ("/clear all", "`/clear` takes nothing after its name\nhint: usage: `/clear`"),
        ("/model a b", "`/model` takes one name"),
        ("/tools nothing", "no tool `nothing` is offered"),
        ("/mcp x", "`/mcp` takes nothing after its name"),
        ("/stats x", "`/stats` takes nothing after its name"),
        ("/chat save", "`/chat` save needs a tag"),
        ("/chat save ../x", "`../x` is no tag"),
        ("/chat resume gone", "there is no saved chat `gone`"),
        ("/chat delete gone", "there is no saved chat `gone`"),
        ("/chat list x", "`/chat` list takes nothing after it"),
        ("/chat burn", "`/chat` knows no `burn`"),
        ("/memory add", "`/memory` add needs a text"),
        ("/memory forget", "`/memory` knows no `forget`"),
        ("/claer", "there is no command `/claer`; did you mean `/clear`?"),
    ];
    for (text, says) in bad {
        let (command, result) = typed(&mut client, text);
        let answer = &command["result"];
        assert_eq!(
            (&answer["type"], &answer["level"]),
            (&json!("message"), &json!("error")),
            "{text}: {answer}"
        );
        assert!(answer["content"].as_str().unwrap().starts_with(says), "{text}: {answer}");
        assert_eq!((&result["is_error"], &result["error"]["code"]), (&json!(true), &json!(42)), "{text}");
    }
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_commands_answer_is_the_answer_of_a_run_in_every_format() {
    let server = Server::start([]);
    let base = tenon().server(&server);
    let words = base.clone().args(["/help", "clear"]).run();
    let run = base.clone().args(["-p", "/help clear"]).run();
    assert_eq!((words.code, &words.stdout), (0, &run.stdout), "{words}");
    let said = "/clear: Forget the conversation and start over.";
    assert_eq!((run.code, run.stdout.as_str()), (0, format!("{said}\n").as_str()), "{run}");
    for dialect in ["qwen", "claude", "gemini", "openai"] {
        let run = base.clone().args(["-p", "/help clear", "-o", "json", "--dialect", dialect]).run();
        assert_eq!(run.code, 0, "{run}");
        assert!(run.stdout.contains(said), "{run}");
        let run = base.clone().args(["-p", "/help clear", "-o", "stream-json", "--dialect", dialect]).run();
        assert_eq!(run.code, 0, "{run}");
        let lines = run.json_lines();
        let told = match dialect {
            "qwen" | "claude" => {
                let line = lines.iter().find(|line| line["subtype"] == "command_result").unwrap();
                line["data"]["result"]["limitation"].clone()
            }
            "openai" => {
                let line = lines.iter().find(|line| line["type"] == "result/command").unwrap();
                line["result"]["limitation"].clone()
            }
            _ => {
                let line = lines.iter().find(|line| line["role"] == "assistant").unwrap();
                assert_eq!(line["content"], said);
                continue;
            }
        };
        assert!(told.as_str().unwrap().starts_with("the control channel is off"), "{run}");
    }
    let run = base.clone().args(["-p", "/model other"]).run();
    assert!(run.code == 42 && run.stderr.contains("hint: `--model other` asks this one"), "{run}");
    let run = base.clone().args(["-p", "/stats", "--result-file", "out.txt"]).run();
    assert_eq!(run.code, 0, "{run}");
    assert_eq!(run.read("out.txt"), run.stdout);
    let run = base.args(["-p", "/stats"]).stdin("a diff\n").run();
    assert!(run.code == 0 && run.stderr.contains("what came on stdin is not used"), "{run}");
    assert_eq!(server.requests().len(), 0);
    let sessions: Vec<_> = fs::read_dir(run.tenon_home().join("projects")).into_iter().flatten().collect();
    assert!(sessions.is_empty(), "a command that is only answered is no session: {sessions:?}");
}

#[test]
fn unknown_commands_are_never_sent_to_a_model() {
    let server = Server::start([reply().text("Sent."), reply().text("Sent."), reply().text("Sent.")]);
    let base = tenon().server(&server);
    let run = base.clone().args(["-p", "/hlep"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (42, ""), "{run}");
    assert!(run.stderr.contains("there is no command `/hlep`; did you mean `/help`?"), "{run}");
    assert!(run.stderr.contains("--literal-prompt"), "{run}");
    // Known before anything is paid for, also without a key.
    assert_eq!(tenon().args(["-p", "/hlep"]).run().code, 42);
    assert_eq!(server.requests().len(), 0);
    // Words that only look like one, and words that nobody typed.
    for sent in [
        base.clone().args(["-p", "/hlep", "--literal-prompt"]),
        base.clone().args(["-p", "/usr/bin is a folder"]),
        base.clone().file("prompt.txt", "/hlep").args(["--prompt-file", "prompt.txt"]),
    ] {
        let run = sent.run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "Sent.\n"), "{run}");
    }
    assert_eq!(asked(&server, 0), "/hlep");
    assert_eq!(asked(&server, 2), "/hlep");
    server.push(reply().text("Sent."));
    let run = base.stdin("/hlep").run();
    assert_eq!((run.code, asked(&server, 3).as_str()), (0, "/hlep"), "{run}");
}

#[test]
fn without_a_key_commands_that_need_no_model_are_answered() {
    for (text, code) in [("/help", 0), ("/memory", 0), ("/chat list", 0), ("/tools", 41), ("/stats", 41)] {
        let run = tenon().args(["-p", text]).run();
        assert_eq!(run.code, code, "{text}\n{run}");
    }
}

#[test]
fn a_contract_is_for_a_models_answer() {
    let server = Server::start([reply().call("c1", "structured_output", json!({"risk": "low"}))]);
    let base = tenon().server(&server).home_file("commands/rate.md", "Rate {{args}}.");
    let run = base.clone().args(["-p", "/stats", "--json-schema", SCHEMA]).run();
    assert_eq!((run.code, run.stdout.as_str()), (42, ""), "{run}");
    assert!(run.stderr.contains("`/stats` is answered by tenon itself"), "{run}");
    let run = base.args(["-p", "/rate this", "--json-schema", SCHEMA]).run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{run}");
    assert_eq!(asked(&server, 0), "Rate this.");
}

#[test]
fn commands_of_the_user_and_of_a_trusted_project() {
    let server = Server::start((0..6).map(|_| reply().text("Done.")));
    let base = tenon()
        .server(&server)
        .file("notes.md", "be kind\n")
        .home_file("commands/review.md", "---\ndescription: Look at it\nmodel: x\n---\nMine: $ARGUMENTS")
        .home_file("commands/git/commit.md", "Commit {{args}} as @notes.md says.")
        .file(".tenon/commands/review.md", "The project's.")
        .file(".tenon/commands/deep/er/go.md", "Go.")
        .file(".tenon/commands/clear.md", "Not mine to take.");
    // Not trusted: listed, refused, and in nobody's way.
    let mut client = driven(base.clone(), &[]);
    client.write_json(
        &json!({"type": "control_request", "request_id": "r", "request": {"subtype": "initialize"}}),
    );
    let commands = client.json_where(is("control_response"))["response"]["response"]["commands"].clone();
    let named =
        |name: &str| commands.as_array().unwrap().iter().find(|command| command["name"] == name).cloned();
    assert_eq!(named("review").unwrap()["description"], "Look at it");
    assert_eq!(named("deep:er:go").unwrap()["description"], "A prompt from a file. (project, not trusted)");
    let (command, result) = typed(&mut client, "/deep:er:go");
    assert_eq!(command["result"]["level"], "error");
    assert!(result["error"]["message"].as_str().unwrap().contains("the project is not trusted"), "{result}");
    client.write_json(&user("/review now"));
    let submitted = told(&mut client);
    assert_eq!(submitted["result"]["type"], "submit_prompt");
    assert_eq!(submitted["result"]["content"], "Mine: now");
    assert_eq!(client.json_where(is("result"))["result"], "Done.");
    assert_eq!(asked(&server, 0), "Mine: now");
    client.write_json(&json!({
        "input": {"origin": "user", "parts": [], "command": {"kind": "slash", "path": ["git", "commit"], "args": "all"}},
    }));
    client.json_where(is("result"));
    assert_eq!(
        asked(&server, 1),
        "Commit all as @notes.md says.\n\n[The file `notes.md`:]\nbe kind\n[End of `notes.md`]"
    );
    client.close_stdin();
    let run = client.wait();
    assert_eq!(run.code, 0, "{run}");
    assert!(run.stderr.contains(".tenon/commands"), "what is ignored is listed\n{run}");
    assert!(run.stderr.contains("`model` of its front matter has no effect"), "{run}");
    // Trusted: its own come first.
    let run = base.clone().args(["--trust-project", "-p", "/review now"]).run();
    assert_eq!(run.code, 0, "{run}");
    assert_eq!(asked(&server, 2), "The project's.\n\nnow");
    assert!(run.stderr.contains("`/clear` is a command of tenon itself"), "{run}");
    let run = base.args(["--trust-project", "-p", "/deep:er:go"]).run();
    assert_eq!((run.code, asked(&server, 3).as_str()), (0, "Go."), "{run}");
}

#[test]
fn files_in_braces_are_read_and_nothing_is_run() {
    let server = Server::start([reply().text("Done.")]);
    let base = tenon()
        .server(&server)
        .file("my notes.md", "be kind\n")
        .home_file("commands/read.md", "As @{my notes.md} says: println!{x} {{args}}")
        .home_file("commands/diff.md", "Look at !{touch ran} closely.");
    let run = base.clone().args(["-p", "/read now"]).run();
    assert_eq!(run.code, 0, "{run}");
    let wanted = "As @{my notes.md} says: println!{x} now\n\n[The file `my notes.md`:]\nbe kind\n[End of `my notes.md`]";
    assert_eq!(asked(&server, 0), wanted);
    let run = base.args(["-p", "/diff"]).run();
    assert!(run.code == 42 && run.stderr.contains("`/diff` wants `touch ran` to be run"), "{run}");
    assert!(!run.workspace().join("ran").exists());
}

#[test]
fn a_changed_command_is_untrusted_again() {
    let server = Server::start([reply().text("Done.")]);
    let base = tenon().server(&server).file(".tenon/commands/go.md", "Go.");
    assert_eq!(base.clone().args(["trust"]).run().code, 0);
    assert_eq!(base.clone().args(["-p", "/go"]).run().code, 0);
    let changed = base.file(".tenon/commands/go.md", "Go and do harm.");
    let run = changed.args(["-p", "/go"]).run();
    assert_eq!(run.code, 42, "{run}");
    assert_eq!(server.requests().len(), 1);
}

/// A file that is no command is told and skipped, and the others work.
#[test]
fn files_that_are_no_commands() {
    let server = Server::start([reply().text("Done.")]);
    let base = tenon()
        .server(&server)
        .home_file("commands/good.md", "Good.")
        .home_file("commands/open.md", "---\ndescription: x\n")
        .home_file("commands/nested.md", "---\na:\n  b: c\n---\nx")
        .home_file("commands/latin.md", b"caf\xe9")
        .home_file("commands/empty.md", " \n")
        .home_file("commands/two words.md", "x")
        .home_file("commands/big.md", vec![b'x'; 10_000_000])
        .file(".tenon/commands/other.md", "x");
    let out = base.workspace().join(".tenon/commands/out.md");
    std::os::unix::fs::symlink("/etc/hostname", out).unwrap();
    let loop_ = base.workspace().join(".tenon/commands/loop");
    std::os::unix::fs::symlink(base.workspace(), loop_).unwrap();
    let run = base.args(["-p", "/good", "--trust-project"]).run();
    assert_eq!((run.code, asked(&server, 0).as_str()), (0, "Good."), "{run}");
    for (file, why) in [
        ("open.md", "not closed"),
        ("nested.md", "nested values"),
        ("latin.md", "not UTF-8"),
        ("empty.md", "no text"),
        ("two words.md", "no name for a command"),
        ("big.md", "larger than 64 KiB"),
        ("out.md", "leads out of the project"),
    ] {
        let line = run.stderr.lines().find(|line| line.contains(file));
        assert!(line.is_some_and(|line| line.contains(why)), "{file}: {why}\n{run}");
    }
}

#[test]
fn a_conversation_is_saved_under_a_name_and_taken_up_again() {
    let call = reply().call("c1", "structured_output", json!({"risk": "low"}));
    let server = Server::start([call, reply().text("Second.")]);
    let base = tenon().server(&server);
    let mut client = driven(base.clone(), &["--dialect", "claude", "--json-schema", SCHEMA]);
    client.write_json(&user("my key is test-key"));
    client.json_where(is("result"));
    // Each turn of this session is to end in a payload.
    let (command, _) = typed(&mut client, "/chat save before-lunch");
    assert_eq!(command["result"]["level"], "error", "{command}");
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
    let run = base.clone().args(["-c", "-p", "/chat save before-lunch"]).run();
    assert_eq!(run.stdout, "The conversation was saved as `before-lunch` (1 message).\n", "{run}");
    let mut client = driven(base, &[]);
    let (command, _) = typed(&mut client, "/chat list");
    assert!(
        command["result"]["content"].as_str().unwrap().contains("before-lunch - 1 message,"),
        "{command}"
    );
    let (command, _) = typed(&mut client, "/chat resume");
    assert_eq!(command["result"]["dialog"], "chat resume");
    assert_eq!(command["result"]["items"][0]["value"], "before-lunch");
    let (command, _) = typed(&mut client, "/chat resume before-lunch");
    assert_eq!(command["result"]["level"], "info", "{command}");
    client.write_json(&user("and now"));
    assert_eq!(client.json_where(is("result"))["result"], "Second.");
    let messages = server.request(1).messages().to_vec();
    assert!(messages[1]["content"].as_str().unwrap().starts_with("my key is "), "{messages:?}");
    let (command, _) = typed(&mut client, "/chat delete before-lunch");
    assert_eq!(command["result"]["content"], "`before-lunch` was deleted.");
    typed(&mut client, "/chat save other");
    client.close_stdin();
    let run = client.wait();
    let projects = fs::read_dir(run.tenon_home().join("projects")).unwrap();
    let folder =
        projects.map(|entry| entry.unwrap().path().join("saved")).find(|path| path.exists()).unwrap();
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
    let stored = fs::read_to_string(&files[0]).unwrap();
    assert!(!stored.contains("test-key") && !stored.contains(r#"risk"#), "{stored}");
}

#[test]
fn memory_that_is_added_holds_from_the_next_turn_on() {
    let server = Server::start([reply().text("One."), reply().text("Two.")]);
    let base = tenon().server(&server).file("AGENTS.md", "Be brief.");
    let mut client = driven(base, &[]);
    let (command, _) = typed(&mut client, "/memory");
    assert!(command["result"]["content"].as_str().unwrap().contains("Be brief."), "{command}");
    let (command, _) = typed(&mut client, "/memory add Never\n use tabs; test-key");
    assert!(command["result"]["content"].as_str().unwrap().contains("TENON.md"), "{command}");
    client.write_json(&user("go"));
    client.json_where(is("result"));
    let system = server.request(0).messages()[0]["content"].as_str().unwrap().to_owned();
    assert!(system.contains("Be brief.") && system.contains("- Never use tabs; ***"), "{system}");
    client.close_stdin();
    let run = client.wait();
    let kept = fs::read_to_string(run.tenon_home().join("TENON.md")).unwrap();
    assert!(kept.starts_with("- Never use tabs; ") && !kept.contains("test-key"), "{kept}");
}

#[test]
fn a_conversation_is_compressed_on_request() {
    let long = "word ".repeat(400);
    let server = Server::start([
        reply().text(long.clone()),
        reply().text("Second."),
        reply().text("Notes: they talked."),
        reply().text("Third."),
    ]);
    let mut client = driven(tenon().server(&server), &[]);
    for text in ["first", "second"] {
        client.write_json(&user(text));
        client.json_where(is("result"));
    }
    client.write_json(&user("/compress keep the names"));
    let boundary = client.json_where(|line| line["subtype"] == "compact_boundary");
    assert_eq!(boundary["data"]["trigger"], "manual", "{boundary}");
    let command = told(&mut client);
    assert_eq!(command["command"], json!({"kind": "slash", "path": ["compress"], "args": "keep the names"}));
    let said = command["result"]["content"].as_str().unwrap().to_owned();
    assert!(said.starts_with("The conversation was compressed from about"), "{said}");
    assert_eq!(client.json_where(is("result"))["result"], said.as_str());
    assert!(asked(&server, 2).contains("Whoever asked for the notes adds: keep the names"));
    client.write_json(&user("third"));
    client.json_where(is("result"));
    let sent = server.request(3).messages()[1..].to_vec();
    let sent = format!("{sent:?}");
    assert!(
        sent.contains("Notes: they talked.") && sent.contains("Second.") && !sent.contains(&long),
        "{sent}"
    );
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
}

#[test]
fn a_summary_that_is_no_shorter_is_thrown_away() {
    let server = Server::start([
        reply().text("One."),
        reply().text("Two."),
        reply().text("S"),
        reply().text("Three."),
    ]);
    let base = tenon().server(&server);
    base.clone().args(["-p", "a"]).run().assert_code(0);
    base.clone().args(["-c", "-p", "b"]).run().assert_code(0);
    let run = base.clone().args(["-c", "-p", "/compress"]).run();
    assert!(run.code == 0 && run.stdout.starts_with("The conversation stays as it is"), "{run}");
    let run = base.clone().args(["-c", "-p", "/stats"]).run();
    assert!(run.stdout.contains("2 earlier turns; since then 0 turns"), "{run}");
    base.args(["-c", "-p", "c"]).run().assert_code(0);
    assert_eq!(server.request(3).messages().len(), 6, "the system prompt and everything that was said");
}

#[test]
fn a_compression_can_be_interrupted_and_changes_nothing() {
    let gate = Gate::new();
    let server = Server::start([
        reply().text("word ".repeat(400)),
        reply().text("Second."),
        reply().text("never").hold(&gate),
        reply().text("Third."),
    ]);
    let mut client = driven(tenon().server(&server), &[]);
    for text in ["first", "second"] {
        client.write_json(&user(text));
        client.json_where(is("result"));
    }
    client.write_json(&user("/compress"));
    server.wait_for_requests(3, Duration::from_secs(30));
    let interrupt =
        json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}});
    client.write_json(&interrupt);
    assert_eq!(told(&mut client)["result"]["level"], "error");
    assert_eq!(client.json_where(is("result"))["error"]["class"], "interrupted");
    gate.open();
    client.write_json(&user("third"));
    assert_eq!(client.json_where(is("result"))["result"], "Third.");
    assert_eq!(server.request(3).messages().len(), 6, "system, two turns, and the third question");
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
}

#[test]
fn commands_can_be_switched_off() {
    let server = Server::start([reply().text("Sent.")]);
    let base = tenon().server(&server).home_file("commands/go.md", "Go.");
    let mut client = driven(base.clone(), &["--disabled-slash-commands", "clear,/go,nothing"]);
    client.write_json(&json!({
        "type": "control_request", "request_id": "r", "request": {"subtype": "supported_commands"},
    }));
    let commands = client.json_where(is("control_response"))["response"]["response"]["commands"].clone();
    let names = json!(["chat", "compress", "help", "mcp", "memory", "model", "stats", "tools"]);
    assert_eq!(commands, names);
    for text in ["/clear", "/go"] {
        let (command, _) = typed(&mut client, text);
        let said = format!("`{text}` is not carried out: it was disabled for this session");
        assert_eq!(command["result"]["content"], said.as_str());
    }
    client.write_json(&user("words"));
    let init = client.json_where(|line| line["subtype"] == "init");
    assert_eq!(init["slash_commands"], names);
    client.json_where(is("result"));
    client.close_stdin();
    let run = client.wait();
    assert!(run.stderr.contains("`--disabled-slash-commands`: there is no command `/nothing`"), "{run}");
    let run = base.args(["--safe-mode", "-p", "/help"]).run();
    assert_eq!(run.code, 42, "{run}");
    assert!(run.stderr.contains("commands are off in this session"), "{run}");
}

#[test]
fn a_declared_command_in_the_language_of_the_seed() {
    let server = Server::start([]);
    let mut client = driven(tenon().server(&server), &["--dialect", "openai"]);
    client.write_json(&json!({
        "session_id": "_new", "prompt_id": "p########8",
        "input": {"origin": "user", "parts": [{"type": "text", "text": ""}],
                  "command": {"kind": "slash", "path": ["chat", "list"], "args": ""}},
    }));
    let line = client.json_where(is("result/command"));
    assert_eq!(line["prompt_id"], "p########8");
    assert_eq!(line["command"], json!({"kind": "slash", "path": ["chat", "list"], "args": ""}));
    assert_eq!(
        line["result"],
        json!({
            "type": "message", "level": "info", "limitation": null,
            "content": "The current session has 0 history records. No chats of this folder are saved.",
        })
    );
    let last = client.json_where(|line| line["metadata"]["final"] == true);
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
    assert_eq!(server.requests().len(), 0);
}
