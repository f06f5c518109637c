//! What is read of a client's lines, where it is more than a shape.

use serde_json::{Value, json};
use tenon_core::{Part, Role};
use tenon_wire::input::{
    CommandKind, ControlRequest, FileData, Input, InputPart, SessionRef, Turn, TurnOrigin, read_line,
};

#[track_caller]
fn turn(line: Value) -> Turn {
    match read_line(line.to_string().as_bytes()) {
        Ok(Some(Input::Turn(turn))) => *turn,
        other => panic!("{line} is {other:?}"),
    }
}

#[test]
fn a_plain_request_brings_its_conversation_along() {
    let image = "data:image/png;base64,AA==";
    let read = turn(json!({"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": image}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "image_url", "image_url": image}]},
    ], "model": "m", "temperature": 0.5, "max_tokens": 7}));
    assert_eq!(read.session, SessionRef::New);
    let inline = InputPart::File(FileData::Inline { data: "AA==".into(), mime: "image/png".into() });
    assert_eq!(read.parts, [InputPart::Text("b".into()), inline]);
    assert_eq!(read.preamble.as_deref(), Some("Be brief."));
    let roles: Vec<Role> = read.history.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
    assert!(matches!(&read.history[0].parts[..], [Part::Text { .. }, Part::Media(_)]));
    assert!(matches!(&read.history[1].parts[..], [Part::ToolCall(call)] if call.name == "f"));
    assert!(matches!(&read.history[2].parts[..], [Part::ToolResult(result)] if result.content == "r"));
    assert_eq!(read.options.model.as_deref(), Some("m"));
    assert_eq!((read.options.temperature, read.options.max_output_tokens), (Some(0.5), Some(7)));
}

/// Every field of a chat request, under its own name.
#[test]
fn a_chat_request_is_read_whole() {
    let read = turn(json!({
        "session_id": "session-123", "prompt_id": "session-123########7", "model": "qwen-coder",
        "input": {
            "origin": "system", "parts": [{"type": "text", "text": "hi"}],
            "command": {"kind": "at", "path": ["main.py"], "args": "x"},
        },
        "options": {"temperature": 0.2, "tool_overrides": ["edit"], "model": "other"},
        "continuation": true, "protocol_version": 1,
    }));
    assert_eq!(read.session, SessionRef::Id("session-123".into()));
    assert_eq!(read.prompt_id.as_deref(), Some("session-123########7"));
    assert_eq!(read.origin, TurnOrigin::System);
    assert_eq!(read.parts, [InputPart::Text("hi".into())]);
    let command = read.command.unwrap();
    assert_eq!(
        (command.kind, command.path, command.args),
        (CommandKind::At, vec!["main.py".into()], "x".into())
    );
    assert_eq!(read.options.model.as_deref(), Some("other"), "the options of a request stand over its model");
    assert_eq!(read.options.tools, Some(vec!["edit".to_owned()]));
    assert!(read.continuation);
    assert_eq!(read.protocol_version.as_deref(), Some("1"));
}

#[test]
fn where_a_turn_comes_from() {
    let with = |session: Value, origin: Value| {
        turn(json!({
            "session_id": session, "tool_call_id": "c1", "input": {"origin": origin, "parts": ["x"]},
        }))
    };
    for (session, wanted) in [
        (json!(null), SessionRef::Current),
        (json!(""), SessionRef::Current),
        (json!("_new"), SessionRef::New),
        (json!("abc"), SessionRef::Id("abc".into())),
    ] {
        assert_eq!(with(session, json!(null)).session, wanted);
    }
    for (origin, wanted) in [
        (json!(null), TurnOrigin::User),
        (json!("user"), TurnOrigin::User),
        (json!("system"), TurnOrigin::System),
        (json!("tool_response"), TurnOrigin::ToolResponse { call_id: "c1".into() }),
    ] {
        assert_eq!(with(json!(null), origin).origin, wanted);
    }
}

/// Parts in the spellings of several clients.
#[test]
fn parts_of_every_shape() {
    let path = |mime: Option<&str>| {
        InputPart::File(FileData::Path { path: "/a.txt".into(), mime: mime.map(str::to_owned) })
    };
    let inline = || InputPart::File(FileData::Inline { data: "AA==".into(), mime: "image/png".into() });
    let answered = || InputPart::FunctionResponse { name: Some("f".into()), response: json!({"output": 1}) };
    let table = [
        (json!("bare"), InputPart::Text("bare".into())),
        (json!({"text": "untyped"}), InputPart::Text("untyped".into())),
        (json!({"type": "text", "text": "typed"}), InputPart::Text("typed".into())),
        (
            json!({"type": "file_data", "file_uri": "file:///a.txt", "mime_type": "text/plain"}),
            path(Some("text/plain")),
        ),
        (json!({"file_data": {"fileUri": "/a.txt", "mimeType": "text/plain"}}), path(Some("text/plain"))),
        (json!({"type": "file_data", "path": "/a.txt"}), path(None)),
        (json!({"inline_data": {"mime_type": "image/png", "data": "AA=="}}), inline()),
        (
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
            inline(),
        ),
        (json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}), inline()),
        (json!({"type": "function_response", "name": "f", "response": {"output": 1}}), answered()),
        (json!({"function_response": {"name": "f", "response": {"output": 1}}}), answered()),
    ];
    for (part, wanted) in table {
        assert_eq!(turn(json!({"input": {"parts": [part.clone()]}})).parts, [wanted], "{part}");
    }
}

#[test]
fn the_details_of_a_request_may_stand_in_a_payload() {
    let set = |model: &str| ControlRequest::SetModel { model: Some(model.to_owned()) };
    for (line, wanted) in [
        (json!({"subtype": "set_model", "payload": {"model": "m5"}}), set("m5")),
        (json!({"request": {"subtype": "set_model", "payload": {"model": "m5"}}}), set("m5")),
        (json!({"subtype": "set_model", "model": "m1", "payload": {"model": "m5"}}), set("m1")),
        (json!({"subtype": "interrupt", "payload": null}), ControlRequest::Interrupt),
    ] {
        let mut line = line;
        line["type"] = json!("control_request");
        line["request_id"] = json!("f2");
        match read_line(line.to_string().as_bytes()) {
            Ok(Some(Input::ControlRequest { id, request })) => assert_eq!((&*id, *request), ("f2", wanted)),
            other => panic!("{line} is {other:?}"),
        }
    }
    let wrong = json!({"type": "control_request", "request_id": "f2", "subtype": "interrupt", "payload": 1});
    assert_eq!(read_line(wrong.to_string().as_bytes()).unwrap_err().request_id.as_deref(), Some("f2"));
}

#[test]
fn an_answer_without_content_is_an_error_to_whoever_asked() {
    for line in [
        json!({"type": "control_response", "request_id": "a"}),
        json!({"type": "control_response", "request_id": "a", "response": "yes"}),
    ] {
        let error = read_line(line.to_string().as_bytes()).unwrap_err();
        assert_eq!((error.unanswered.as_deref(), error.request_id), (Some("a"), None), "{line}");
    }
    let error = read_line(br#"{"type": "control_response"}"#).unwrap_err();
    assert_eq!(error.unanswered, None);
}
