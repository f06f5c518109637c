//! Suggestions while somebody types: commands at once, files when the tree is known.

use tenon_testkit::{Running, Server, Value, json};

use super::commands::driven;
use super::tenon;

fn hint(trigger: &str, text: &str, prompt_id: &str) -> Value {
    json!({
        "type": "command_hint_request", "prompt_id": prompt_id, "trigger": trigger, "text": text,
        "cursor": text.encode_utf16().count(), "context": {"cwd": "/", "selected_text": ""},
    })
}

fn answer(client: &mut Running, prompt_id: &str, status: &str) -> Value {
    client.json_where(|line| {
        line["type"] == "result/command_hint" && line["prompt_id"] == prompt_id && line["status"] == status
    })
}

fn labels(line: &Value) -> Vec<String> {
    let items = line["suggestions"].as_array().unwrap();
    items.iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn commands_are_suggested_at_once() {
    let server = Server::start([]);
    let mut client =
        driven(tenon().server(&server).home_file("commands/git/commit.md", "x"), &["--dialect", "openai"]);
    client.write_json(&hint("slash", "/c", "p1"));
    let line = answer(&mut client, "p1", "ok");
    assert_eq!(labels(&line)[..3], ["chat", "clear", "compress"], "{line}");
    assert_eq!(line["trigger"], "slash");
    assert_eq!(line["metadata"]["is_perfect_match"], false);
    let first = &line["suggestions"][0];
    assert_eq!((&first["value"], first["description"].is_string()), (&json!("chat"), true));
    for (text, wanted, perfect) in [
        ("/clear", &["clear"][..], true),
        ("/gitcom", &["git:commit"], false),
        ("/chat re", &["resume"], false),
        ("/memory ", &["add", "refresh", "show"], false),
        ("/tools read_f", &["read_file"], false),
        ("/zzz", &[], false),
    ] {
        client.write_json(&hint("slash", text, text));
        let line = answer(&mut client, text, "ok");
        assert_eq!(labels(&line), wanted, "{text}");
        assert_eq!(line["metadata"]["is_perfect_match"], perfect, "{text}");
    }
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
}

#[test]
fn files_are_loading_and_then_there_without_secrets() {
    let server = Server::start([]);
    let base = tenon()
        .server(&server)
        .file("src/main.rs", "")
        .file("src/deep/main_loop.rs", "")
        .file("my notes.md", "")
        .file(".env", "")
        .file(".gitignore", "target/\n")
        .file("target/main.o", "");
    let mut client = driven(base, &[]);
    client.write_json(&hint("at", "fix @main", "p1"));
    let first = client.json_where(|line| line["type"] == "result/command_hint");
    assert_eq!((&first["status"], &first["suggestions"]), (&json!("loading"), &json!([])), "{first}");
    let line = answer(&mut client, "p1", "ok");
    assert_eq!(labels(&line), ["src/main.rs", "src/deep/main_loop.rs"], "{line}");
    for (text, wanted, perfect) in [
        ("@src/main.rs", &["src/main.rs", "src/deep/main_loop.rs"][..], true),
        ("@notes", &["my notes.md"], false),
        ("@env", &[], false),
        ("@deep", &["src/deep/", "src/deep/main_loop.rs"], false),
    ] {
        client.write_json(&hint("at", text, text));
        let line = answer(&mut client, text, "ok");
        assert_eq!(labels(&line), wanted, "{text}");
        assert_eq!(line["metadata"]["is_perfect_match"], perfect, "{text}");
        if text == "@notes" {
            assert_eq!(line["suggestions"][0]["value"], "my\\ notes.md");
        }
    }
    client.close_stdin();
    let run = client.wait();
    assert_eq!(run.code, 0, "{run}");
    let loading = run.json_lines().iter().filter(|line| line["status"] == "loading").count();
    assert_eq!(loading, 1, "the tree is known after the first time\n{run}");
}

/// Whoever types in a folder means its files first; where `@` does not reach, there are none.
#[test]
fn files_of_the_folder_that_somebody_is_in_come_first() {
    let server = Server::start([]);
    let base = tenon().server(&server).file("main.rs", "").file("sub/deep/main.rs", "").file("sub/x.rs", "");
    let sub = base.workspace().join("sub");
    let elsewhere = base.home().to_owned();
    let mut client = driven(base, &[]);
    let typed = |text: &str, id: &str, cwd: &std::path::Path| {
        let mut asked = hint("at", text, id);
        asked["context"]["cwd"] = json!(cwd);
        asked
    };
    for (text, wanted, perfect) in
        [("@main", &["sub/deep/main.rs", "main.rs"][..], false), ("@x.rs", &["sub/x.rs"], true)]
    {
        client.write_json(&typed(text, text, &sub));
        let line = answer(&mut client, text, "ok");
        assert_eq!(labels(&line), wanted, "{text}");
        assert_eq!(line["metadata"]["is_perfect_match"], perfect, "{text}");
    }
    client.write_json(&typed("@main", "p", &elsewhere));
    let line = answer(&mut client, "p", "error");
    assert!(line["message"].as_str().is_some_and(|why| why.contains("is not in the workspace")), "{line}");
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
}

/// Typing goes on, or somebody gives up: only the last request of a prompt is answered.
#[test]
fn what_was_typed_over_or_cancelled_is_not_answered() {
    let server = Server::start([]);
    let mut client = driven(tenon().server(&server).file("a.txt", ""), &[]);
    client.write_json(&hint("at", "@z", "p1"));
    client.write_json(&json!({"type": "command_hint_cancel", "prompt_id": "p1"}));
    client.write_json(&hint("at", "@y", "p2"));
    client.write_json(&hint("at", "@a", "p2"));
    let line = answer(&mut client, "p2", "ok");
    assert_eq!(labels(&line), ["a.txt"]);
    client.write_json(&hint("at", "@a", "p3"));
    answer(&mut client, "p3", "ok");
    client.close_stdin();
    let run = client.wait();
    assert_eq!(run.code, 0, "{run}");
    let ok: Vec<Value> = run.json_lines().into_iter().filter(|line| line["status"] == "ok").collect();
    let of = |id: &str| ok.iter().filter(|line| line["prompt_id"] == id).count();
    assert_eq!(of("p3"), 1, "{run}");
    // Answers that were ready before the next line was read are right; later ones are not given.
    assert!(of("p1") <= 1 && of("p2") <= 2, "{run}");
}

#[test]
fn a_session_that_could_not_start_says_why() {
    let mut client = driven(tenon().file(".tenon/settings.json", "{"), &[]);
    client.write_json(&hint("at", "@a", "p1"));
    let line = answer(&mut client, "p1", "error");
    assert!(line["message"].as_str().unwrap().contains("settings.json"), "{line}");
    client.close_stdin();
    assert_ne!(client.wait().code, 0);
}
