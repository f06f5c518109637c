//! Recorded traffic is answered from the file: elsewhere, in another order, and not when it differs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_core::{
    Cancel, ErrorClass, Message, ModelClient, Part, Request, Role, ToolCall, ToolKind, ToolResult, ToolSpec,
};
use tenon_model::{Endpoint, OpenAiChat, Places, Recorder, Replayer, RetryPolicy, Retrying, Secret};
use tenon_testkit::{Server, json, reply};

use crate::support::{Answer, KEY, ask, endpoint, http, request};

struct Tape {
    folder: tempfile::TempDir,
}

impl Tape {
    fn new() -> Tape {
        Tape { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("run.jsonl")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    fn recording(&self, server: &Server) -> (OpenAiChat, Arc<Recorder>) {
        let recorder =
            Recorder::create(&self.path(), http(), places("/home/ann"), vec![Secret::new(KEY)]).unwrap();
        let recorder = Arc::new(recorder);
        (OpenAiChat::new(endpoint(&server.base_url()), recorder.clone()), recorder)
    }

    /// A client on another machine, without a key.
    fn replaying(&self) -> OpenAiChat {
        let replayer = Replayer::open(&self.path(), places("/Users/bob")).unwrap();
        let elsewhere = Endpoint { api_key: None, ..endpoint("https://api.example.com/v1") };
        OpenAiChat::new(elsewhere, Arc::new(replayer))
    }

    fn problem(&self, text: &str) -> String {
        std::fs::write(self.path(), text).unwrap();
        let error = Replayer::open(&self.path(), Places::default()).err().expect("an error");
        assert_eq!(error.class, ErrorClass::Input);
        assert!(error.hint.is_some());
        error.message.replace(&self.path().display().to_string(), "FILE")
    }
}

fn places(home: &str) -> Places {
    Places { cwd: Path::new(home).join("project"), home: home.into(), temp: vec!["/tmp".into()] }
}

/// The second request of a run in `home`: a call was made and answered.
fn second(home: &str, call_id: &str, arguments: &str) -> Request {
    let call = Part::ToolCall(ToolCall {
        id: call_id.into(),
        name: "read_file".into(),
        arguments: arguments.into(),
        terminal: false,
        native: None,
    });
    let result = Part::ToolResult(ToolResult {
        call_id: call_id.into(),
        name: "read_file".into(),
        content: format!("{home}/project/a.txt read in {} ms", home.len()),
        is_error: false,
        stored: None,
    });
    let messages = vec![
        Message::user("hi"),
        Message { role: Role::Assistant, parts: vec![call] },
        Message { role: Role::User, parts: vec![result] },
    ];
    Request { messages, ..request("") }
}

#[tokio::test]
async fn a_run_replays_on_another_machine() {
    let tape = Tape::new();
    let arguments =
        json!({"file_path": "/home/ann/project/src/a.txt", "cache": "/tmp/x", "other": "/home/ann/b"});
    let server = Server::start([
        reply()
            .reasoning("Hm.")
            .text("Let me see.")
            .call("call_7", "read_file", arguments.clone())
            .usage(10, 5),
        reply().text(format!("The key is {KEY}, the file /home/ann/project/a.txt.")),
    ]);
    let (client, recorder) = tape.recording(&server);
    let first = ask(&client, request("hi")).await;
    ask(&client, second("/home/ann", "call_7", &arguments.to_string())).await;
    recorder.check().unwrap();

    let text = tape.text();
    assert!(!text.contains(KEY) && !text.contains("uthorization") && !text.contains("ann"), "{text}");
    assert_eq!(text.lines().count(), 3);
    assert_eq!(text.lines().next(), Some(r#"{"tenon_cassette":1}"#));

    let replaying = tape.replaying();
    let replayed = ask(&replaying, request("hi")).await;
    let moved =
        json!({"file_path": "/Users/bob/project/src/a.txt", "cache": "/tmp/x", "other": "/Users/bob/b"})
            .to_string();
    let calls = vec![("call_7".into(), "read_file".into(), moved.clone())];
    assert_eq!(replayed, Answer { calls, ..first });
    // Another id, another duration, another key order, other folders: still the same request.
    let reordered =
        json!({"cache": "/tmp/x", "other": "/Users/bob/b", "file_path": "/Users/bob/project/src/a.txt"});
    let replayed = ask(&replaying, second("/Users/bob", "call_99", &reordered.to_string())).await;
    assert_eq!(replayed.text, "The key is ***, the file /Users/bob/project/a.txt.");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_read_a_cassette() {
    use std::os::unix::fs::PermissionsExt;
    let tape = Tape::new();
    std::fs::write(tape.path(), "something older and longer than a header").unwrap();
    std::fs::set_permissions(tape.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    tape.recording(&Server::start([]));
    assert_eq!(tape.text(), "{\"tenon_cassette\":1}\n");
    assert_eq!(std::fs::metadata(tape.path()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_cassette_that_cannot_be_written() {
    let error = Recorder::create(Path::new("/no/such/folder/x"), http(), Places::default(), Vec::new())
        .err()
        .unwrap();
    assert_eq!(error.class, ErrorClass::Input);
    assert!(
        error.message.starts_with("the cassette `/no/such/folder/x` could not be written: "),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn prompt_model_and_tool_descriptions_may_change_but_not_tool_names() {
    let tape = Tape::new();
    let server = Server::start([reply().text("ok"), reply().text("ok")]);
    let tool = |name: &str, description: &str| ToolSpec {
        name: name.into(),
        description: description.into(),
        parameters: json!({}),
        kind: ToolKind::Read,
    };
    let asked = |names: [&str; 2], description: &str| Request {
        tools: names.map(|name| tool(name, description)).to_vec(),
        ..request("hi")
    };
    let (client, _) = tape.recording(&server);
    ask(&client, asked(["a", "b"], "old")).await;
    ask(&client, asked(["a", "b"], "old")).await;
    let changed = Request { model: "other".into(), system: "New prompt.".into(), ..asked(["b", "a"], "new") };
    let replaying = tape.replaying();
    assert_eq!(ask(&replaying, changed).await.text, "ok");
    let answer = ask(&replaying, asked(["a", "c"], "old")).await;
    assert_eq!(
        answer.error().hint.as_deref(),
        Some(
            "the first difference to the closest recorded request is at `/tools/1`: recorded \"b\", now \"c\""
        )
    );
}

#[tokio::test]
async fn exchanges_answer_in_any_order_and_once() {
    let tape = Tape::new();
    let server = Server::start([
        reply().when_contains("first").text("1"),
        reply().when_contains("second").text("2"),
        reply().when_contains("first").text("1 again"),
    ]);
    let (client, _) = tape.recording(&server);
    for text in ["first", "second", "first"] {
        ask(&client, request(text)).await;
    }
    let replaying = tape.replaying();
    let (second, first) = tokio::join!(ask(&replaying, request("second")), ask(&replaying, request("first")));
    assert_eq!((second.text.as_str(), first.text.as_str()), ("2", "1"));
    assert_eq!(ask(&replaying, request("first")).await.text, "1 again");
    let answer = ask(&replaying, request("first")).await;
    let error = answer.error();
    assert_eq!((error.class, error.retryable), (ErrorClass::Input, false));
    assert_eq!(error.message, "the cassette has no answer for request 4");
    assert!(error.hint.as_ref().unwrap().starts_with("all 3 recorded answers have been used"));
}

#[tokio::test]
async fn a_request_that_differs_is_told_where() {
    let tape = Tape::new();
    let server = Server::start([reply().text("1"), reply().text("2")]);
    let (client, _) = tape.recording(&server);
    ask(&client, request("hi")).await;
    ask(&client, second("/home/ann", "c", r#"{"file_path":"a.txt"}"#)).await;
    let replaying = tape.replaying();
    let answer = ask(&replaying, second("/Users/bob", "c", r#"{"file_path":"b.txt"}"#)).await;
    assert_eq!(answer.error().message, "the cassette has no answer for request 1");
    assert_eq!(
        answer.error().hint.as_deref(),
        Some(
            "the first difference to the closest recorded request is at \
             `/messages/1/tool_calls/0/arguments/file_path`: recorded \"a.txt\", now \"b.txt\""
        )
    );
}

#[tokio::test]
async fn failures_and_cut_answers_replay_as_they_were() {
    let tape = Tape::new();
    let server = Server::start([
        reply().status(429).header("retry-after-ms", "1"),
        reply().text("half").text("more").cut_after_events(2),
        reply().whole().text("whole"),
    ]);
    let policy = RetryPolicy { base: std::time::Duration::from_millis(1), ..RetryPolicy::default() };
    let (client, recorder) = tape.recording(&server);
    let recorded = ask(&Retrying::new(Arc::new(client), policy), request("hi")).await;
    assert_eq!((recorded.text.as_str(), recorded.retries.len()), ("whole", 2));
    recorder.check().unwrap();
    assert!(tape.text().lines().nth(2).unwrap().ends_with(r#","cut":true}}"#), "{}", tape.text());
    let replayed = ask(&Retrying::new(Arc::new(tape.replaying()), policy), request("hi")).await;
    assert_eq!((replayed.text.as_str(), replayed.retries.len()), ("whole", 2));
}

#[tokio::test]
async fn a_cancelled_answer_is_still_written() {
    let tape = Tape::new();
    let server = Server::start([reply().text("half").text("more").hang_after_events(2)]);
    let (client, _) = tape.recording(&server);
    let cancel = Cancel::new();
    let mut stream = client.stream(request("hi"), cancel.clone());
    futures_util::StreamExt::next(&mut stream).await;
    drop(stream);
    let text = tape.text();
    assert!(text.contains("half") && text.trim_end().ends_with(r#","cut":true}}"#), "{text}");
}

#[tokio::test]
async fn a_cassette_can_be_written_by_hand() {
    let tape = Tape::new();
    let events = r#"[{"choices":[{"delta":{"content":"in {{cwd}}"}}]},{"choices":[{"finish_reason":"stop"}]},"[DONE]"]"#;
    let broken = r#"[{"sse_event":"error","sse_data":{"message":"down","code":503}}]"#;
    let line = |text: &str, events: &str| {
        format!(
            r#"{{"request":{{"body":{{"messages":[{{"role":"user","content":"{text}"}}]}}}},"response":{{"status":200,"events":{events}}}}}"#
        )
    };
    let text = format!("{{\"tenon_cassette\":1}}\n\n{}\n{}\n", line("hi", events), line("ho", broken));
    std::fs::write(tape.path(), text).unwrap();
    let replaying = tape.replaying();
    assert_eq!(ask(&replaying, request("hi")).await.text, "in /Users/bob/project");
    assert_eq!(ask(&replaying, request("ho")).await.error().class, ErrorClass::Overloaded);
}

#[test]
fn cassettes_that_cannot_be_used() {
    let tape = Tape::new();
    let missing = Replayer::open(&tape.path(), Places::default()).err().unwrap();
    assert!(missing.message.contains("cannot be read"), "{}", missing.message);
    let header = "{\"tenon_cassette\":1}\n";
    for (text, message) in [
        (String::new(), "line 1 is not the header `{\"tenon_cassette\":1}`"),
        ("{}\n".into(), "line 1 is not the header `{\"tenon_cassette\":1}`"),
        ("{\"tenon_cassette\":2}\n".into(), "line 1 says version 2, and only version 1 is known"),
        (format!("{header}{{\"request\":{{\"bo"), "line 2 is cut off: the recording was interrupted"),
        (format!("{header}\n[]\n"), "line 3 is not a recorded exchange: "),
    ] {
        let problem = tape.problem(&text);
        assert!(problem.starts_with(&format!("the cassette `FILE` cannot be used: {message}")), "{problem}");
    }
}
