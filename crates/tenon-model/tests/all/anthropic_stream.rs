//! How the answers of the Messages API are put together.

use proptest::prelude::*;
use tenon_core::{Delta, FinishReason, Usage};
use tenon_testkit::{Server, Value, json, reply};

use crate::anthropic::{
    call, client, delta, deltas, events, json_delta, message_start, read, read_text, start, stop, stopped,
    stream, text_delta,
};
use crate::support::{Answer, ask, request};

fn answer_blocks() -> Vec<Value> {
    vec![
        json!({"type": "ping"}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm. "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Ja 🦀."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln+/="})),
        stop(0),
        start(1, json!({"type": "redacted_thinking", "data": "eHl6"})),
        stop(1),
        start(2, json!({"type": "text", "text": ""})),
        text_delta(2, "Grüße"),
        json!({"type": "ping"}),
        text_delta(2, "!"),
        stop(2),
        call(3, "toolu_1", "read_file"),
        json_delta(3, ""),
        json_delta(3, "{\"file_"),
        json_delta(3, "path\": \"ä\\n\", \"n\": 1.0}"),
        stop(3),
        call(4, "toolu_2", "list"),
        stop(4),
    ]
}

fn answer_stream() -> String {
    events(&[vec![message_start()], answer_blocks(), stopped("tool_use")].concat())
}

#[test]
fn every_kind_of_block_in_its_order() {
    let given: Vec<Delta> = deltas(&answer_stream()).into_iter().map(Result::unwrap).collect();
    let arguments = |index, fragment: &str| Delta::ToolCallArguments { index, fragment: fragment.into() };
    let call =
        |index, id: &str, name: &str| Delta::ToolCallStarted { index, id: id.into(), name: name.into() };
    let usage = |output| Delta::Usage(Usage { input: 5, output, total: 5 + output, ..Usage::default() });
    assert_eq!(
        given,
        [
            usage(1),
            Delta::Thinking("Hm. ".into()),
            Delta::Thinking("Ja 🦀.".into()),
            Delta::ThinkingNative(
                json!({"wire": "anthropic", "provider": "anthropic", "signature": "c2ln+/="})
            ),
            Delta::ThinkingNative(json!({"wire": "anthropic", "provider": "anthropic", "redacted": "eHl6"})),
            Delta::Text("Grüße".into()),
            Delta::Text("!".into()),
            call(0, "toolu_1", "read_file"),
            arguments(0, "{\"file_"),
            arguments(0, "path\": \"ä\\n\", \"n\": 1.0}"),
            Delta::ToolCallEnded { index: 0 },
            call(1, "toolu_2", "list"),
            usage(7),
            arguments(1, "{}"),
            Delta::ToolCallEnded { index: 1 },
            Delta::Finished(FinishReason::ToolCalls),
        ]
    );
}

#[test]
fn a_whole_message_is_the_same_answer() {
    let whole = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [
            {"type": "thinking", "thinking": "Hm. Ja 🦀.", "signature": "c2ln+/="},
            {"type": "redacted_thinking", "data": "eHl6"},
            {"type": "text", "text": "Grüße!", "citations": null},
            {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"file_path": "ä\n", "n": 1}},
            {"type": "tool_use", "id": "toolu_2", "name": "list", "input": {}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 7},
    });
    let whole = whole.to_string().replace("\"n\":1", "\"n\": 1.0");
    let answer = read_text(&whole);
    let mut expected = read_text(&answer_stream());
    expected.calls[0].2 = "{\"file_path\":\"ä\\n\",\"n\": 1.0}".into();
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn the_same_answer_in_every_framing() {
    let script = || {
        reply().reasoning("Hm.").signature("s").text("Grüße").call("c", "f", json!({"a": [1, 2]})).usage(3, 4)
    };
    let server = Server::start([
        script(),
        script().crlf(),
        script().no_space(),
        script().keepalives(),
        script().until_close(),
        script().whole(),
        script().chunk_by(1),
        script().chunk_by(7).crlf().keepalives(),
    ]);
    let client = client(&server);
    let first = ask(&client, request("hi")).await;
    let expected = Answer {
        text: "Grüße".into(),
        thinking: "Hm.".into(),
        native: Some(json!({"wire": "anthropic", "provider": "anthropic", "signature": "s"})),
        calls: vec![("c".into(), "f".into(), r#"{"a":[1,2]}"#.into())],
        usage: Some(Usage { input: 3, output: 4, total: 7, ..Usage::default() }),
        finish: Some(FinishReason::ToolCalls),
        ..Answer::default()
    };
    assert_eq!(first, expected);
    for number in 1..8 {
        assert_eq!(ask(&client, request("hi")).await, first, "framing {number}");
    }
    server.assert_script_done();
}

#[test]
fn stop_reasons() {
    use FinishReason::{Length, Refused, Stop, ToolCalls};
    let text = || vec![start(0, json!({"type": "text", "text": ""})), text_delta(0, "x"), stop(0)];
    let called = || vec![call(0, "a", "f"), json_delta(0, "{}"), stop(0)];
    for (blocks, reason, expected) in [
        (text(), "end_turn", Stop),
        (text(), "stop_sequence", Stop),
        (text(), "pause_turn", Stop),
        (text(), "something_new", Stop),
        (text(), "tool_use", Stop),
        (called(), "tool_use", ToolCalls),
        (called(), "end_turn", ToolCalls),
        (called(), "pause_turn", ToolCalls),
        (called(), "max_tokens", Length),
        (text(), "max_tokens", Length),
        (text(), "model_context_window_exceeded", Length),
        (text(), "refusal", Refused),
        (called(), "refusal", Refused),
        (vec![], "end_turn", Stop),
    ] {
        let body = events(&[vec![message_start()], blocks, stopped(reason)].concat());
        assert_eq!(read_text(&body).finish, Some(expected), "{reason}");
    }
}

#[test]
fn usage_counts_what_went_through_the_cache() {
    let first = |usage: Value| json!({"type": "message_start", "message": {"usage": usage}});
    let last =
        |usage: Value| json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    let cached = Usage { input: 115, output: 9, cache_read: 100, cache_write: 10, reasoning: 0, total: 124 };
    let plain = Usage { input: 5, output: 9, total: 14, ..Usage::default() };
    for (events_given, expected) in [
        (
            vec![
                first(
                    json!({"input_tokens": 5, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 1}),
                ),
                last(json!({"output_tokens": 9})),
            ],
            Some(cached),
        ),
        (
            vec![
                first(json!({"input_tokens": 0, "output_tokens": 0})),
                last(
                    json!({"input_tokens": 5, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 9}),
                ),
            ],
            Some(cached),
        ),
        (
            vec![first(json!({"input_tokens": 5})), last(json!({"input_tokens": 0, "output_tokens": 9}))],
            Some(plain),
        ),
        (vec![first(json!({"input_tokens": "5"})), last(json!({"output_tokens": 9.0}))], Some(plain)),
        (vec![first(Value::Null), last(json!("much"))], None),
        (vec![last(Value::Null)], None),
    ] {
        let body = events(&events_given);
        assert_eq!(read_text(&body).usage, expected, "{body}");
    }
}

#[test]
fn an_answer_is_whole_with_a_reason_or_a_stop() {
    let text = events(&[
        message_start(),
        start(0, json!({"type": "text", "text": ""})),
        text_delta(0, "x"),
        stop(0),
    ]);
    let ends = stopped("end_turn");
    let (reason, end) = (events(&ends[..1]), events(&ends[1..]));
    for (body, whole) in [
        (format!("{text}{reason}{end}"), true),
        (format!("{text}{reason}"), true),
        (format!("{text}{}", reason.trim_end()), true),
        (format!("{text}{reason}data: {{\"ty"), true),
        (format!("{text}{reason}data: [DONE]\n\n"), true),
        (format!("{text}{end}"), true),
        (format!("{text}{}", end.trim_end()), true),
        (text.clone(), false),
        (text.trim_end().to_owned(), false),
        (format!("{text}event: message_stop\n"), false),
        (format!("{text}data: {{\"ty"), false),
        (format!("{text}data: [DONE]\n\n"), false),
        (events(&[json!({"type": "ping"})]), false),
    ] {
        let answer = read_text(&body);
        assert_eq!(answer.error.is_none(), whole, "{body:?}: {answer:?}");
        if !whole {
            let error = answer.error();
            assert_eq!(error.message, "the connection closed in the middle of the answer");
            assert!(error.retryable);
        }
    }
}

#[test]
fn a_call_without_arguments_is_empty_unless_it_was_cut_off() {
    let text = || [start(1, json!({"type": "text", "text": "y"})), stop(1)].to_vec();
    let bare = || [call(0, "a", "f"), stop(0)].to_vec();
    for (what, blocks, reason, arguments) in [
        ("none wanted", bare(), "tool_use", "{}"),
        ("text follows", [bare(), text()].concat(), "max_tokens", "{}"),
        ("cut off", bare(), "max_tokens", ""),
        ("cut off, and its end not told", vec![call(0, "a", "f")], "max_tokens", ""),
        ("its end not told", vec![call(0, "a", "f")], "tool_use", "{}"),
        ("cut in the middle", vec![call(0, "a", "f"), json_delta(0, "{\"b"), stop(0)], "max_tokens", "{\"b"),
    ] {
        let answer = read_text(&events(&[vec![message_start()], blocks, stopped(reason)].concat()));
        assert_eq!(answer.calls, [("a".into(), "f".into(), arguments.into())], "{what}");
    }
}

#[test]
fn odd_streams_are_no_problem() {
    let thinking = |text: &str| json!({"type": "thinking_delta", "thinking": text});
    for (what, blocks, expected) in [
        (
            "unknown events, blocks, deltas and fields",
            vec![
                json!({"type": "future_event", "index": 0, "delta": {"x": 1}}),
                json!({"no": "type"}),
                start(0, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
                json_delta(0, "{\"query\": 1}"),
                stop(0),
                start(
                    1,
                    json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"text": "no"}]}),
                ),
                stop(1),
                start(2, json!({"type": "text", "text": "", "citations": []})),
                delta(2, json!({"type": "citations_delta", "citation": {"cited_text": "no"}})),
                text_delta(2, "a"),
                delta(2, json!({"type": "future_delta", "text": "no"})),
                text_delta(9, ""),
                stop(2),
                stop(7),
                json_delta(8, "{}"),
            ],
            Answer { text: "a".into(), ..Answer::default() },
        ),
        (
            "blocks that are whole at their beginning",
            vec![
                start(0, json!({"type": "thinking", "thinking": "hm", "signature": "s"})),
                stop(0),
                start(1, json!({"type": "text", "text": "a"})),
                text_delta(1, "b"),
                stop(1),
                start(2, json!({"type": "tool_use", "id": "c", "name": "f", "input": {"x": 1}})),
                stop(2),
            ],
            Answer {
                text: "ab".into(),
                thinking: "hm".into(),
                native: Some(json!({"wire": "anthropic", "provider": "anthropic", "signature": "s"})),
                calls: vec![("c".into(), "f".into(), "{\"x\":1}".into())],
                ..Answer::default()
            },
        ),
        (
            "blocks that nobody announced or ended",
            vec![delta(0, thinking("hm")), text_delta(1, "a"), text_delta(1, "b")],
            Answer {
                text: "ab".into(),
                thinking: "hm".into(),
                native: Some(json!({"wire": "anthropic", "provider": "anthropic"})),
                ..Answer::default()
            },
        ),
        (
            "no indexes",
            vec![
                json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": "c", "name": "f"}}),
                json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{\"x\":1}"}}),
                json!({"type": "content_block_stop"}),
            ],
            Answer { calls: vec![("c".into(), "f".into(), "{\"x\":1}".into())], ..Answer::default() },
        ),
        (
            "thinking that is not shown",
            vec![
                start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
                delta(0, json!({"type": "signature_delta", "signature": "s1"})),
                delta(0, json!({"type": "signature_delta", "signature": "s2"})),
                stop(0),
            ],
            Answer {
                native: Some(json!({"wire": "anthropic", "provider": "anthropic", "signature": "s1s2"})),
                ..Answer::default()
            },
        ),
        (
            "thinking that is nothing",
            vec![start(0, json!({"type": "thinking", "thinking": ""})), stop(0)],
            Answer::default(),
        ),
    ] {
        let answer = read_text(&stream(&blocks));
        let finish = if expected.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        let usage = Usage { input: 5, output: 7, total: 12, ..Usage::default() };
        assert_eq!(answer, Answer { finish: Some(finish), usage: Some(usage), ..expected }, "{what}");
    }
}

#[test]
fn what_goes_back_with_thinking_follows_it_at_once() {
    let begin = start(0, json!({"type": "thinking", "thinking": "hm", "signature": "s"}));
    let native =
        Delta::ThinkingNative(json!({"wire": "anthropic", "provider": "anthropic", "signature": "s"}));
    for (what, next, given) in [
        ("announced text", start(1, json!({"type": "text", "text": "x"})), Delta::Text("x".into())),
        ("text that nobody announced", text_delta(1, "x"), Delta::Text("x".into())),
        ("a call", call(1, "c", "f"), Delta::ToolCallStarted { index: 0, id: "c".into(), name: "f".into() }),
    ] {
        let deltas: Vec<Delta> =
            deltas(&events(&[begin.clone(), next])).into_iter().filter_map(Result::ok).collect();
        assert_eq!(deltas, [Delta::Thinking("hm".into()), native.clone(), given], "{what}");
    }
}

#[test]
fn events_may_have_only_a_name_or_only_a_type() {
    let body = answer_stream();
    let only_types: String =
        body.lines().filter(|line| !line.starts_with("event:")).map(|line| format!("{line}\n")).collect();
    assert_eq!(read_text(&only_types), read_text(&body));
    let named = "event: content_block_delta\ndata: {\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\nevent: message_stop\ndata: {}\n\n";
    assert_eq!(read_text(named).text, "x");
}

#[test]
fn ids_are_kept_made_and_unique() {
    let blocks =
        [call(0, "toolu_1", "f"), stop(0), call(1, "", "f"), stop(1), call(2, "toolu_1", "f"), stop(2)];
    let ids: Vec<String> = read_text(&stream(&blocks)).calls.into_iter().map(|(id, _, _)| id).collect();
    assert_eq!(ids[0], "toolu_1");
    assert!(ids[1].starts_with("call_") && ids[2].starts_with("call_") && ids[1] != ids[2], "{ids:?}");
}

/// `bytes` cut at these places.
fn pieces(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().copied().chain([bytes.len()]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    starts.zip(ends).map(|(start, end)| bytes[start..end].to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(128)))]

    #[test]
    fn any_cut_gives_the_same_answer(
        cuts in prop::collection::vec(any::<usize>(), 0..16),
        line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        text in "\\PC{1,30}",
        thought in "\\PC{1,30}",
        argument in "\\PC{0,30}",
        fragments in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let arguments = json!({ "a": argument }).to_string();
        let mut blocks = vec![
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": thought})),
            delta(0, json!({"type": "signature_delta", "signature": "s"})),
            stop(0),
            start(1, json!({"type": "text", "text": ""})),
            text_delta(1, &text),
            stop(1),
            call(2, "c", "f"),
        ];
        let mut rest = arguments.as_str();
        for cut in fragments {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(cut % (rest.len() + 1)));
            blocks.push(json_delta(2, piece));
            rest = after;
        }
        blocks.extend([json_delta(2, rest), stop(2)]);
        let body = stream(&blocks).replace('\n', line_end);
        let expected = Answer {
            text,
            thinking: thought,
            native: Some(json!({"wire": "anthropic", "provider": "anthropic", "signature": "s"})),
            calls: vec![("c".into(), "f".into(), arguments)],
            usage: Some(Usage { input: 5, output: 7, total: 12, ..Usage::default() }),
            finish: Some(FinishReason::ToolCalls),
            ..Answer::default()
        };
        prop_assert_eq!(read(pieces(body.as_bytes(), &cuts)), expected);
    }

    /// Whatever a server sends: an end, no panic, and an error or a finish.
    #[test]
    fn any_order_of_events_comes_to_an_end(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..24),
        cut in any::<prop::sample::Index>(),
    ) {
        let all = [vec![message_start()], answer_blocks(), stopped("tool_use")].concat();
        let picked: Vec<Value> = picks.iter().map(|pick| pick.get(&all).clone()).collect();
        let body = events(&picked);
        let body = &body[..body.floor_char_boundary(cut.index(body.len() + 1))];
        let answer = read_text(body);
        prop_assert!(answer.error.is_some() != answer.finish.is_some(), "{:?}", answer);
    }

    /// Whatever JSON stands in the fields of an event.
    #[test]
    fn any_field_types_come_to_an_end(
        kind in prop::sample::select(vec![
            "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        ]),
        block in prop::sample::select(vec!["text", "thinking", "redacted_thinking", "tool_use", "text_delta", "input_json_delta"]),
        values in prop::collection::vec(odd_value(), 9),
    ) {
        let mut values = values.into_iter();
        let mut next = || values.next().unwrap_or(Value::Null);
        let odd = json!({
            "type": kind, "index": next(), "usage": next(),
            "content_block": {"type": block, "text": next(), "thinking": next(), "data": next(), "id": next(), "name": next(), "input": next()},
            "delta": {"type": block, "text": next(), "partial_json": {}, "stop_reason": null},
        });
        let answer = read_text(&events(&[vec![odd], stopped("end_turn")].concat()));
        prop_assert!(answer.finish.is_some(), "{:?}", answer);
    }
}

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(json!([1, {"text": "x"}])),
        Just(json!({"input_tokens": "x", "output_tokens": 1e300})),
    ]
}
