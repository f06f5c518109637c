//! Commands and `@path`, typed on a command line and by clients: answered or sent to the model, never mixed up.

use std::fs;
use std::path::Path;

use tenon_testkit::{Running, Server, Tenon, Value, json, reply};

use super::output::SCHEMA;
use super::tenon;

fn driven(server: &Server, flags: &[&str]) -> Running {
    tenon()
        .server(server)
        .args(["--input-format", "stream-json", "--output-format", "stream-json"])
        .args(flags)
        .stdin_idle()
        .spawn()
}

fn user(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}})
}

fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
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

fn write(folder: &Path, file: &str, text: impl AsRef<[u8]>) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// What the model was asked last in a request.
fn asked(server: &Server, request: usize) -> String {
    let request = server.request(request);
    let last = request.messages().last().unwrap()["content"].clone();
    match last {
        Value::String(text) => text,
        parts => parts.as_array().unwrap().iter().filter_map(|part| part["text"].as_str()).collect(),
    }
}

#[test]
fn a_cleared_conversation_starts_over_also_when_it_is_resumed() {
    let server = Server::start([reply().text("One."), reply().text("Two."), reply().text("Three.")]);
    let base = tenon().server(&server);
    let mut client = base
        .clone()
        .args(["--input-format", "stream-json", "--output-format", "stream-json"])
        .stdin_idle()
        .spawn();
    client.write_json(&user("first"));
    client.json_where(is("result"));
    let (command, result) = typed(&mut client, "/clear");
    assert_eq!(command["command"], json!({"kind": "slash", "path": ["clear"], "args": ""}));
    assert_eq!(
        command["result"],
        json!({"type": "message", "level": "info", "content": "The conversation was cleared.", "limitation": null})
    );
    assert_eq!(
        (&result["is_error"], &result["result"]),
        (&json!(false), &json!("The conversation was cleared."))
    );
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
