//! Recorded traffic is answered from the file: elsewhere, in another order, and not when it differs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_core::{
    Cancel, ErrorClass, Message, ModelClient, Part, Request, Role, Secret, Secrets, ToolCall, ToolKind,
    ToolResult, ToolSpec,
};
use tenon_model::{
    Anthropic, Endpoint, Gemini, OpenAiChat, OpenAiResponses, Places, Protocol, Recorder, Replayer,
    RetryPolicy, Retrying, Transport,
};
use tenon_testkit::{Server, Wire, json, reply};

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

    fn recording(&self, server: &Server) -> (Box<dyn ModelClient>, Arc<Recorder>) {
        self.recording_on(Wire::Chat, server)
    }

    fn recording_on(&self, wire: Wire, server: &Server) -> (Box<dyn ModelClient>, Arc<Recorder>) {
        let recorder = Recorder::create(
            &self.path(),
            http(),
            places("/home/ann"),
            Secrets::from_iter([Secret::new(KEY)]),
        )
        .unwrap();
        let recorder = Arc::new(recorder);
        let protocol = match wire {
            Wire::Chat => Protocol::OpenAiChat,
            Wire::Responses => Protocol::OpenAiResponses,
            Wire::Messages => Protocol::Anthropic,
            Wire::Gemini => Protocol::Gemini,
        };
        (speaking(protocol, endpoint(&server.base_url()), recorder.clone()), recorder)
    }

    /// A client on another machine, without a key.
    fn replaying(&self) -> Box<dyn ModelClient> {
        let replayer = Replayer::open(&self.path(), places("/Users/bob")).unwrap();
        let elsewhere = Endpoint { api_key: None, ..endpoint("https://api.example.com/v1") };
        let protocol = replayer.protocol().expect("an exchange");
        speaking(protocol, elsewhere, Arc::new(replayer))
    }

    fn problem(&self, text: &str) -> String {
        std::fs::write(self.path(), text).unwrap();
        let error = Replayer::open(&self.path(), Places::default()).err().expect("an error");
        assert_eq!(error.class, ErrorClass::Input);
        assert!(error.hint.is_some());
        error.message.replace(&self.path().display().to_string(), "FILE")
    }
}

fn speaking(protocol: Protocol, endpoint: Endpoint, transport: Arc<dyn Transport>) -> Box<dyn ModelClient> {
    match protocol {
        Protocol::OpenAiChat => Box::new(OpenAiChat::new(endpoint, transport)),
        Protocol::OpenAiResponses => Box::new(OpenAiResponses::new(endpoint, transport)),
        Protocol::Anthropic => Box::new(Anthropic::new(endpoint, transport)),
        Protocol::Gemini => Box::new(Gemini::new(endpoint, transport)),
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
        media: Vec::new(),
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
    for wire in Wire::ALL {
        let tape = Tape::new();
        let arguments =
            json!({"file_path": "/home/ann/project/src/a.txt", "cache": "/tmp/x", "other": "/home/ann/b"});
        let server = Server::start([
            reply()
                .reasoning("Hm.")
                .signature("c2lnbmF0dXJl")
                .text("Let me see.")
                .call("call_7", "read_file", arguments.clone())
                .usage(10, 5),
            reply().text_chunks([format!("The key is {KEY}, the file /home/a"), "nn/project/a.txt.".into()]),
        ]);
        let (client, recorder) = tape.recording_on(wire, &server);
        let first = ask(&*client, request("hi")).await;
        ask(&*client, second("/home/ann", "call_7", &arguments.to_string())).await;
        recorder.check().unwrap();

        let text = tape.text();
        for hidden in [KEY, "uthorization", "x-api-key", "/ann", "Be brief.", "\"cut\""] {
            assert!(!text.contains(hidden), "{wire:?}: `{hidden}` in {text}");
        }
        assert_eq!(text.lines().count(), 3);
        assert_eq!(text.lines().next(), Some(r#"{"tenon_cassette":1}"#));

        let replaying = tape.replaying();
        let replayed = ask(&*replaying, request("hi")).await;
        let moved =
            json!({"file_path": "/Users/bob/project/src/a.txt", "cache": "/tmp/x", "other": "/Users/bob/b"})
                .to_string();
        let calls = vec![("call_7".into(), "read_file".into(), moved.clone())];
        assert_eq!(replayed, Answer { calls, ..first }, "{wire:?}");
        // Another id, another duration, another key order, other folders: still the same request.
        let reordered =
            json!({"cache": "/tmp/x", "other": "/Users/bob/b", "file_path": "/Users/bob/project/src/a.txt"});
        let replayed = ask(&*replaying, second("/Users/bob", "call_99", &reordered.to_string())).await;
        assert_eq!(replayed.text, "The key is ***, the file /Users/bob/project/a.txt.", "{wire:?}");
    }
}

/// The same is kept of a request, whatever it was made in.
#[tokio::test]
async fn what_is_kept_of_a_request_is_the_same_on_every_wire() {
    let kept = async |wire: Wire| {
        let tape = Tape::new();
        let server = Server::start([reply().text("1"), reply().text("2")]);
        let (client, _) = tape.recording_on(wire, &server);
        let tool = ToolSpec {
            name: "read_file".into(),
            description: "Reads.".into(),
            parameters: json!({"type": "object"}),
            kind: ToolKind::Read,
        };
        let request = Request { tools: vec![Arc::new(tool)], ..second("/home/ann", "c", r#"{"n":1.50}"#) };
        ask(&*client, request).await;
        let text = tape.text();
        let line: tenon_testkit::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        assert_eq!(line["request"]["path"], wire.path().split('?').next().unwrap().replace("v1beta", "v1"));
        let mut body = line["request"]["body"].clone();
        // Where arguments are text on the wire they stay text.
        let arguments = &mut body["messages"][1]["tool_calls"][0]["function"]["arguments"];
        if let Some(text) = arguments.as_str() {
            *arguments = serde_json::from_str(text).unwrap();
        }
        // Gemini takes only the ids that it gave.
        body.to_string().replace("read_file_1", "c")
    };
    let chat = kept(Wire::Chat).await;
    for wire in Wire::ALL {
        assert_eq!(kept(wire).await, chat, "{wire:?}");
    }
}

#[tokio::test]
async fn an_answer_in_another_protocol_is_none() {
    let tape = Tape::new();
    let server = Server::start([reply().text("ok")]);
    let (client, _) = tape.recording_on(Wire::Messages, &server);
    ask(&*client, request("hi")).await;
    let replayer = Replayer::open(&tape.path(), Places::default()).unwrap();
    assert_eq!(replayer.protocol(), Some(Protocol::Anthropic));
    let other = OpenAiChat::new(endpoint("https://api.example.com/v1"), Arc::new(replayer));
    let answer = ask(&other, request("hi")).await;
    let hint = answer.error().hint.clone().unwrap();
    assert!(hint.ends_with("at `/protocol`: recorded \"anthropic\", now \"openai\""), "{hint}");
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
    let error =
        Recorder::create(Path::new("/no/such/folder/x"), http(), Places::default(), Secrets::default())
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
    let tool = |name: &str, description: &str| {
        Arc::new(ToolSpec {
            name: name.into(),
            description: description.into(),
            parameters: json!({}),
            kind: ToolKind::Read,
        })
    };
    let asked = |names: [&str; 2], description: &str| Request {
        tools: names.map(|name| tool(name, description)).to_vec(),
        ..request("hi")
    };
    let (client, _) = tape.recording(&server);
    ask(&*client, asked(["a", "b"], "old")).await;
    ask(&*client, asked(["a", "b"], "old")).await;
    let changed = Request { model: "other".into(), system: "New prompt.".into(), ..asked(["b", "a"], "new") };
    let replaying = tape.replaying();
    assert_eq!(ask(&*replaying, changed).await.text, "ok");
    let answer = ask(&*replaying, asked(["a", "c"], "old")).await;
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
        ask(&*client, request(text)).await;
    }
    let replaying = tape.replaying();
    let (second, first) =
        tokio::join!(ask(&*replaying, request("second")), ask(&*replaying, request("first")));
    assert_eq!((second.text.as_str(), first.text.as_str()), ("2", "1"));
    assert_eq!(ask(&*replaying, request("first")).await.text, "1 again");
    let answer = ask(&*replaying, request("first")).await;
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
    ask(&*client, request("hi")).await;
    ask(&*client, second("/home/ann", "c", r#"{"file_path":"a.txt"}"#)).await;
    let replaying = tape.replaying();
    let answer = ask(&*replaying, second("/Users/bob", "c", r#"{"file_path":"b.txt"}"#)).await;
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
    for wire in Wire::ALL {
        let tape = Tape::new();
        let server = Server::start([
            reply().status(429).header("retry-after-ms", "1"),
            reply().text("half").text("more").cut_after_events(2),
            reply().whole().text("whole"),
        ]);
        let policy = RetryPolicy { base: std::time::Duration::from_millis(1), ..RetryPolicy::default() };
        let (client, recorder) = tape.recording_on(wire, &server);
        let recorded = ask(&Retrying::new(client.into(), policy), request("hi")).await;
        assert_eq!((recorded.text.as_str(), recorded.retries.len()), ("whole", 2), "{wire:?}");
        recorder.check().unwrap();
        assert!(tape.text().lines().nth(2).unwrap().ends_with(r#","cut":true}}"#), "{}", tape.text());
        let replayed = ask(&Retrying::new(tape.replaying().into(), policy), request("hi")).await;
        assert_eq!((replayed.text.as_str(), replayed.retries.len()), ("whole", 2), "{wire:?}");
    }
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
    assert_eq!(ask(&*replaying, request("hi")).await.text, "in /Users/bob/project");
    assert_eq!(ask(&*replaying, request("ho")).await.error().class, ErrorClass::Overloaded);
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
