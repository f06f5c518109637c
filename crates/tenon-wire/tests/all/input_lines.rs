//! What is read of a client's lines, where it is more than a shape.

use serde_json::{Value, json};
use tenon_core::{Part, Role};
use tenon_wire::input::{
    CommandKind, ControlRequest, FileData, Input, InputPart, Line, SessionRef, Turn, TurnOrigin, read_line,
};

#[track_caller]
fn turn(line: Value) -> Turn {
    match read_line(line.to_string().as_bytes()) {
        Ok(Some(Line { input: Input::Turn(turn), .. })) => *turn,
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
        "continuation": true,
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
}

#[test]
fn where_a_turn_comes_from() {
    let with = |session: Value, origin: Value| {
        let call = (origin == "tool_response").then_some("c1");
        turn(json!({
            "session_id": session, "tool_call_id": call, "input": {"origin": origin, "parts": ["x"]},
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
    let answered = || InputPart::FunctionResponse {
        name: Some("f".into()),
        response: json!({"output": 1}),
        is_error: false,
    };
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
        (json!({"functionResponse": {"name": "f", "response": {"output": 1}}}), answered()),
        (json!({"type": "functionResponse", "name": "f", "response": {"output": 1}}), answered()),
        (json!({"fileData": {"fileUri": "file:///a.txt"}}), path(None)),
        (json!({"type": "fileData", "fileUri": "file://localhost/a.txt"}), path(None)),
        (json!({"type": "file_data", "file_data": {"file_uri": "file:///%61.txt"}}), path(None)),
        (json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}}), inline()),
        (json!({"type": "inlineData", "mimeType": "image/png", "data": "AA=="}), inline()),
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
        (json!({"subtype": "interrupt", "payload": null}), ControlRequest::Interrupt),
    ] {
        let mut line = line;
        line["type"] = json!("control_request");
        line["request_id"] = json!("f2");
        match read_line(line.to_string().as_bytes()) {
            Ok(Some(Line { input: Input::ControlRequest { id, request }, .. })) => {
                assert_eq!((&*id, *request), ("f2", wanted));
            }
            other => panic!("{line} is {other:?}"),
        }
    }
    for wrong in [
        json!({"subtype": "interrupt", "payload": 1}),
        json!({"subtype": "set_model", "model": "m1", "payload": {"model": "m5"}}),
    ] {
        let mut wrong = wrong;
        wrong["type"] = json!("control_request");
        wrong["request_id"] = json!("f2");
        assert_eq!(read_line(wrong.to_string().as_bytes()).unwrap_err().request_id.as_deref(), Some("f2"));
    }
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

/// Addresses are percent-encoded; paths are as they are.
#[test]
fn addresses_of_files_are_decoded() {
    for (uri, wanted) in [
        ("file:///a%20b/%C3%A4.txt", Ok("/a b/ä.txt")),
        ("file:///100%25", Ok("/100%")),
        ("/a%20b.txt", Ok("/a%20b.txt")),
        ("a%2.txt", Ok("a%2.txt")),
        ("file:///a%2", Err("two hexadecimal digits")),
        ("file:///a%zz", Err("two hexadecimal digits")),
        ("gs://bucket/a", Err("only files of this machine")),
    ] {
        let line = json!({"input": {"parts": [{"file_data": {"file_uri": uri}}]}});
        match (read_line(line.to_string().as_bytes()), wanted) {
            (Ok(Some(Line { input: Input::Turn(turn), .. })), Ok(path)) => {
                let wanted = InputPart::File(FileData::Path { path: path.to_owned(), mime: None });
                assert_eq!(turn.parts, [wanted], "{uri}");
            }
            (Err(error), Err(why)) => assert!(error.message.contains(why), "{uri}: {error}"),
            (read, _) => panic!("{uri} is {read:?}"),
        }
    }
}

/// What cannot be done is refused, under the id of the turn.
#[test]
fn what_a_line_asks_for_is_never_ignored() {
    let messages = json!([{"role": "user", "content": "hi"}]);
    let call = json!({"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f"}}]});
    let user = json!({"role": "user", "content": "hi"});
    for (line, wanted) in [
        (json!({"input": {"parts": ["x"]}, "options": {"frobnicate": 1}}), "there is no option `frobnicate`"),
        (json!({"messages": messages, "response_format": {"type": "json_object"}}), "`response_format`"),
        (json!({"messages": messages, "tools": []}), "`tools` cannot be honoured"),
        (json!({"messages": messages, "n": 2}), "`n`: there is one answer"),
        (json!({"messages": messages, "stream": true}), "`--output-format`"),
        (json!({"messages": messages, "seed": 7}), "`seed` is not understood"),
        (json!({"messages": [call, user]}), "the call `c1` in `messages` has no answer"),
        (
            json!({"messages": [{"role": "tool", "tool_call_id": "c9", "content": "r"}, user]}),
            "no call before has this id",
        ),
        (
            json!({"type": "user", "message": {"role": "assistant", "content": "x"}}),
            "`message.role` is `assistant`",
        ),
        (json!({"input": {"parts": ["x"]}, "tool_request": {"call_id": "c1"}}), "needs the `name` of a tool"),
        (json!({"input": {"parts": ["x"]}, "tool_request": {"name": "f"}}), "a turn of its own"),
        (json!({"input": {}, "continuation": true, "tool_request": {"name": "f"}}), "a turn of its own"),
        (json!({"input": {"tool_request": []}}), "must be an object or a list of objects"),
        (json!({"input": {"tool_request": {"name": "f", "args": "x"}}}), "`args` of a `tool_request`"),
        (json!({"input": {"tool_request": {"name": "f"}}, "tool_request": {"name": "f"}}), "stands twice"),
        (
            json!({"input": {}, "tool_request": [{"name": "f", "call_id": "c"}, {"name": "g", "callId": "c"}]}),
            "two calls of a `tool_request` have this id",
        ),
        (json!({"input": {"origin": "system", "parts": ["x"]}, "tool_call_id": "c1"}), "needs the `origin`"),
        (
            json!({
                "input": {"origin": "tool_response", "parts": ["x"]}, "tool_call_id": "c1",
                "tool_request": {"call_id": "c2"},
            }),
            "both the call `c1` and the call `c2`",
        ),
        (
            json!({"input": {"origin": "tool_response", "parts": ["x"]}, "tool_call_id": ""}),
            "`tool_call_id` is empty",
        ),
    ] {
        let mut line = line;
        line["prompt_id"] = json!("p7");
        let error = read_line(line.to_string().as_bytes()).unwrap_err();
        assert!(error.message.contains(wanted), "{line}: {error}");
        assert_eq!(error.prompt_id.as_deref(), Some("p7"));
    }
    for key in ["request_id", "prompt_id"] {
        let line = json!({"type": "control/cancel", key: ""});
        let error = read_line(line.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.message, format!("`{key}` is empty"));
    }
    assert!(turn(json!({"messages": messages, "n": 1, "stream": false, "tools": null})).history.is_empty());
}

/// The version may stand in any line, wherever its details are.
#[test]
fn a_client_states_its_version_in_any_line() {
    let request = |request: Value| json!({"type": "control_request", "request_id": "r", "request": request});
    for line in [
        json!({"protocol_version": 9, "input": {"parts": ["x"]}}),
        json!({"metadata": {"protocol_version": "9"}, "messages": [{"role": "user", "content": "x"}]}),
        json!({"protocol_version": "9", "type": "heartbeat_request"}),
        json!({"protocol_version": 9, "type": "user", "message": {"content": "x"}}),
        json!({"protocol_version": 9, "type": "from_the_future"}),
        json!({"protocol_version": 9, "type": "control_request", "request_id": "r", "subtype": "interrupt"}),
        request(json!({"subtype": "initialize", "protocol_version": 9})),
        request(json!({"subtype": "initialize", "payload": {"protocol_version": 9}})),
    ] {
        let read = read_line(line.to_string().as_bytes()).unwrap().unwrap();
        assert_eq!(read.protocol_version.as_deref(), Some("9"), "{line}");
    }
    let wrong = request(json!({"subtype": "initialize", "protocol_version": []}));
    assert_eq!(read_line(wrong.to_string().as_bytes()).unwrap_err().request_id.as_deref(), Some("r"));
}

#[test]
fn permissions_that_come_with_an_answer() {
    use tenon_core::{ApprovalMode, Destination, PermissionChange, RuleBehavior};
    let read = tenon_wire::input::permission_updates(&json!({"behavior": "allow", "updatedPermissions": [
        {
            "type": "addRules", "behavior": "allow", "destination": "session",
            "rules": [{"toolName": "Bash", "ruleContent": "cargo test"}, {"toolName": "edit"}, "Read(src/**)"],
        },
        {"type": "setMode", "mode": "acceptEdits", "destination": "userSettings"},
        {"type": "addDirectories", "directories": ["/tmp"]},
        {"type": "makeCoffee"},
        {"type": "addRules", "rules": [], "behavior": "perhaps"},
    ]}));
    let rules = ["Bash(cargo test)", "edit", "Read(src/**)"].map(str::to_owned).to_vec();
    let changes: Vec<_> = read.updates.iter().map(|update| update.change.clone()).collect();
    assert_eq!(
        changes,
        [
            PermissionChange::AddRules { behavior: RuleBehavior::Allow, rules },
            PermissionChange::SetMode(ApprovalMode::AutoEdit),
            PermissionChange::AddDirectories(vec!["/tmp".into()]),
        ]
    );
    assert_eq!(read.updates[1].destination, Destination::Settings("userSettings".to_owned()));
    assert_eq!(read.problems.len(), 2, "{:?}", read.problems);
    assert!(
        tenon_wire::input::permission_updates(&json!({"updatedPermissions": 7})).problems[0]
            .contains("a list")
    );
}
