//! Text, thinking, usage and endings in the forms that servers are known to send.

use tenon_core::{ErrorClass, FinishReason, Usage};
use tenon_testkit::{Server, Value, json, reply};

use crate::support::{Answer, ask, client, delta, finish, read, read_events, request, sse};

#[tokio::test]
async fn a_usual_answer() {
    let server = Server::start([reply()
        .reasoning("Hm. ")
        .reasoning("Yes.")
        .text("Hel")
        .text("lo ü 🦀")
        .call("call_1", "read_file", json!({"file_path": "a.txt"}))
        .usage(12, 5)]);
    let answer = ask(&client(&server), request("hi")).await;
    let expected = Answer {
        text: "Hello ü 🦀".into(),
        thinking: "Hm. Yes.".into(),
        native: Some(json!({"field": "reasoning_content"})),
        calls: vec![("call_1".into(), "read_file".into(), r#"{"file_path":"a.txt"}"#.into())],
        usage: Some(Usage { input: 12, output: 5, total: 17, ..Usage::default() }),
        finish: Some(FinishReason::ToolCalls),
        ..Answer::default()
    };
    assert_eq!(answer, expected);
    server.assert_script_done();
}

#[tokio::test]
async fn the_same_answer_in_every_framing() {
    let script = || reply().reasoning("Hm.").text("Grüße").call("c", "f", json!({"a": [1, 2]})).usage(3, 4);
    let server = Server::start([
        script(),
        script().crlf(),
        script().no_space(),
        script().keepalives(),
        script().no_done(),
        script().until_close(),
        script().until_close().no_done(),
        script().usage_with_finish(),
        script().whole(),
        script().chunk_by(1),
        script().chunk_by(7).crlf().keepalives(),
    ]);
    let client = client(&server);
    let first = ask(&client, request("hi")).await;
    assert_eq!(first.text, "Grüße");
    for number in 1..11 {
        assert_eq!(ask(&client, request("hi")).await, first, "framing {number}");
    }
    server.assert_script_done();
}

#[test]
fn odd_chunks_are_no_problem() {
    let answer = read_events(&[
        json!({"choices": []}),
        json!({"choices": null}),
        json!({"prompt_filter_results": [{}], "choices": []}),
        delta(json!({"role": "assistant", "content": null})),
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"role": "assistant", "content": "a", "extra": {"deep": [1]}})),
        json!({"choices": [{"index": 0}]}),
        json!({"choices": [{"index": 0, "delta": null}]}),
        json!({"choices": [{"index": 1, "delta": {"content": "another choice"}}]}),
        json!({"choices": [{"delta": {"content": "b", "tool_calls": null}}]}),
        delta(json!({"content": [{"type": "text", "text": "c"}, {"type": "image"}]})),
        delta(json!({"content": {"odd": true}})),
        json!({"usage": null, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"object": "chat.completion.chunk"}),
    ]);
    assert_eq!(answer, Answer { text: "abc".into(), finish: Some(FinishReason::Stop), ..Answer::default() });
}

#[test]
fn thinking_comes_in_one_of_three_fields() {
    for (event, field) in [
        (json!({"reasoning_content": "hm"}), "reasoning_content"),
        (json!({"reasoning": "hm"}), "reasoning"),
        (json!({"reasoning_text": "hm"}), "reasoning_text"),
        (json!({"reasoning_content": "hm", "reasoning": "hm"}), "reasoning_content"),
        (json!({"reasoning_content": null, "reasoning": "hm", "content": ""}), "reasoning"),
    ] {
        let answer = read_events(&[delta(event.clone()), finish("stop")]);
        assert_eq!(
            (answer.thinking.as_str(), answer.native),
            ("hm", Some(json!({ "field": field }))),
            "{event}"
        );
    }
}

#[test]
fn finish_reasons() {
    let call = || {
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}))
    };
    let text = || delta(json!({"content": "x"}));
    for (events, expected) in [
        (vec![text(), finish("stop")], FinishReason::Stop),
        (vec![call(), finish("tool_calls")], FinishReason::ToolCalls),
        (vec![call(), finish("stop")], FinishReason::ToolCalls),
        (vec![text(), finish("tool_calls")], FinishReason::Stop),
        (vec![call(), finish("function_call")], FinishReason::ToolCalls),
        (vec![text(), finish("length")], FinishReason::Length),
        (vec![call(), finish("length")], FinishReason::Length),
        (vec![text(), finish("max_tokens")], FinishReason::Length),
        (vec![text(), finish("content_filter")], FinishReason::Refused),
        (vec![text(), finish("eos")], FinishReason::Stop),
        (vec![delta(json!({"refusal": "No."})), finish("stop")], FinishReason::Refused),
        (vec![finish("stop")], FinishReason::Stop),
        (vec![text()], FinishReason::Stop),
        (vec![], FinishReason::Stop),
    ] {
        assert_eq!(read_events(&events).finish, Some(expected), "{events:?}");
    }
    assert_eq!(read_events(&[delta(json!({"refusal": "No."})), finish("stop")]).text, "No.");
}

#[test]
fn usage_wherever_it_stands() {
    let details = json!({
        "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 8},
    });
    let full = Usage { input: 100, output: 20, cache_read: 64, reasoning: 8, total: 120, ..Usage::default() };
    let plain = Usage { input: 3, output: 2, total: 5, ..Usage::default() };
    let last = |usage: Value| vec![finish("stop"), json!({"choices": [], "usage": usage})];
    for (events, expected) in [
        (last(details.clone()), Some(full)),
        (
            vec![
                json!({"usage": details, "choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}),
            ],
            Some(full),
        ),
        (last(json!({"prompt_tokens": 3, "completion_tokens": 2})), Some(plain)),
        (
            last(json!({"prompt_tokens": 3.0, "completion_tokens": "2", "prompt_tokens_details": null})),
            Some(plain),
        ),
        (last(json!({"input_tokens": 3, "output_tokens": 2})), Some(plain)),
        (
            last(json!({"prompt_tokens": 3, "completion_tokens": 2, "prompt_cache_hit_tokens": 1})),
            Some(Usage { cache_read: 1, ..plain }),
        ),
        (
            vec![
                json!({"choices": [], "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}}),
                finish("stop"),
            ],
            Some(plain),
        ),
        (
            vec![
                json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}),
                finish("stop"),
                json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
            ],
            Some(plain),
        ),
        (last(Value::Null), None),
        (last(json!("much")), None),
    ] {
        assert_eq!(read_events(&events).usage, expected, "{events:?}");
    }
}

#[test]
fn an_answer_ends_with_a_reason_or_with_done() {
    let text = sse(&[delta(json!({"content": "x"}))]);
    let reason = sse(&[finish("stop")]);
    for (body, whole) in [
        (format!("{text}{reason}data: [DONE]\n\n"), true),
        (format!("{text}{reason}"), true),
        (format!("{text}data: [DONE]\n\n"), true),
        (format!("{text}data: [DONE]"), true),
        (format!("{text}{}", reason.trim_end()), true),
        (text.clone(), false),
        (text.trim_end().to_owned(), false),
        (format!("{text}data: {{\"choi"), false),
        (format!("{text}{reason}data: {{\"choi"), true),
        (": here\n\n".to_owned(), false),
        ("event: ping\n\n".to_owned(), false),
    ] {
        let answer = read(vec![body.clone().into_bytes()]);
        assert_eq!(answer.error.is_none(), whole, "{body:?}: {answer:?}");
        if !whole {
            let error = answer.error();
            assert_eq!(error.message, "the connection closed in the middle of the answer");
            assert!(error.retryable);
        }
    }
}

#[test]
fn a_success_without_an_answer_says_what_it_was() {
    for body in ["", "\n\n", "\u{feff}", " \r\n"] {
        let answer = read(vec![body.as_bytes().to_vec()]);
        let error = answer.error();
        assert_eq!(error.message, "the server answered 200 with an empty body", "{body:?}");
        assert_eq!((error.class, error.retryable), (ErrorClass::Protocol, true));
    }
    for body in ["Service unavailable", "Error: no such model\ntry another", "null", "\u{feff}database"] {
        let answer = read(vec![body.as_bytes().to_vec()]);
        let error = answer.error();
        let shown = body.trim_start_matches('\u{feff}').replace('\n', " ");
        assert_eq!(
            error.message,
            format!("the server answered 200 with something that is not an answer: `{shown}`")
        );
        assert_eq!((error.class, error.retryable), (ErrorClass::Protocol, false));
        assert!(error.hint.is_some());
    }
}

#[test]
fn a_byte_order_mark_in_pieces_hides_nothing() {
    let whole = json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]});
    let stream = sse(&[delta(json!({"content": "x"})), finish("stop")]);
    for body in [whole.to_string(), stream] {
        let body = format!("\u{feff}{body}").into_bytes();
        for answer in [read(vec![body.clone()]), read(body.chunks(1).map(<[u8]>::to_vec).collect())] {
            assert_eq!((answer.text.as_str(), answer.error), ("x", None));
        }
    }
}

#[test]
fn half_a_surrogate_pair_costs_one_character() {
    let answer = read(vec![
        br#"data: {"choices":[{"delta":{"content":"a\ud83d b"},"finish_reason":"stop"}]}"#.to_vec(),
        b"\n\n".to_vec(),
    ]);
    assert!(answer.error.is_none(), "{answer:?}");
    assert!(answer.text.starts_with('a') && answer.text.ends_with(" b"), "{answer:?}");
}
