//! Streamed tool calls in every form that servers are known to send.

use tenon_core::FinishReason;
use tenon_testkit::{Value, json};

use crate::support::{Answer, delta, finish, read, read_events, sse};

/// The calls of an answer whose events carry these lists of `tool_calls`, one list per event.
fn calls(lists: &[Value]) -> Answer {
    let mut events: Vec<Value> = lists.iter().map(|list| delta(json!({ "tool_calls": list }))).collect();
    events.push(finish("tool_calls"));
    read_events(&events)
}

fn named(answer: &Answer) -> Vec<(&str, &str)> {
    answer.calls.iter().map(|(_, name, arguments)| (name.as_str(), arguments.as_str())).collect()
}

/// What is special, the lists of fragments, and the name and arguments of each call they make.
type Case = (&'static str, Vec<Value>, Vec<(&'static str, &'static str)>);

#[test]
fn fragments_find_their_call() {
    let table: Vec<Case> = vec![
        (
            "as OpenAI sends it",
            vec![
                json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "one", "arguments": ""}}]),
                json!([{"index": 0, "function": {"arguments": "{\"x\""}}]),
                json!([{"index": 0, "function": {"arguments": ":1}"}}]),
                json!([{"index": 1, "id": "b", "type": "function", "function": {"name": "two", "arguments": ""}}]),
                json!([{"index": 1, "function": {"arguments": "{}"}}]),
            ],
            vec![("one", "{\"x\":1}"), ("two", "{}")],
        ),
        (
            "several in one event, interleaved",
            vec![
                json!([
                    {"index": 0, "id": "a", "function": {"name": "one"}},
                    {"index": 1, "id": "b", "function": {"name": "two"}},
                ]),
                json!([{"index": 1, "function": {"arguments": "{\"b\""}}, {"index": 0, "function": {"arguments": "{\"a\""}}]),
                json!([{"index": 0, "function": {"arguments": ":1}"}}, {"index": 1, "function": {"arguments": ":2}"}}]),
            ],
            vec![("one", "{\"a\":1}"), ("two", "{\"b\":2}")],
        ),
        (
            "no index, told apart by id",
            vec![
                json!([{"id": "a", "function": {"name": "one", "arguments": "{\"a\""}}]),
                json!([{"id": "b", "function": {"name": "two", "arguments": "{}"}}]),
                json!([{"id": "a", "function": {"arguments": ":1}"}}]),
            ],
            vec![("one", "{\"a\":1}"), ("two", "{}")],
        ),
        (
            "neither index nor id: the last one goes on, a name begins another",
            vec![
                json!([{"function": {"name": "one", "arguments": "{\"a\""}}]),
                json!([{"function": {"arguments": ":1}"}}]),
                json!([{"function": {"name": "two", "arguments": "{}"}}]),
                json!([{"function": {"name": "two", "arguments": "{}"}}]),
            ],
            vec![("one", "{\"a\":1}"), ("two", "{}"), ("two", "{}")],
        ),
        (
            "neither index nor id, several whole calls in one event",
            vec![json!([{"function": {"name": "one"}}, {"function": {"name": "one"}}])],
            vec![("one", ""), ("one", "")],
        ),
        (
            "neither index nor id, the name repeated",
            vec![
                json!([{"function": {"name": "one", "arguments": "{\"a\""}}]),
                json!([{"function": {"name": "one", "arguments": ":1}"}}]),
            ],
            vec![("one", "{\"a\":1}")],
        ),
        (
            "id and name repeated in every fragment",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{"}}]),
                json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "}"}}]),
            ],
            vec![("one", "{}")],
        ),
        (
            "a new id made up for every fragment",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{"}}]),
                json!([{"index": 0, "id": "b", "function": {"arguments": "}"}}]),
            ],
            vec![("one", "{}")],
        ),
        (
            "every call has index 0",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{\"a\":1}"}}]),
                json!([{"index": 0, "id": "b", "function": {"name": "one", "arguments": "{\"a\":"}}]),
                json!([{"index": 0, "function": {"arguments": "2}"}}]),
            ],
            vec![("one", "{\"a\":1}"), ("one", "{\"a\":2}")],
        ),
        (
            "the same id on two indexes",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{}"}}]),
                json!([{"index": 1, "id": "a", "function": {"name": "two", "arguments": "{}"}}]),
            ],
            vec![("one", "{}"), ("two", "{}")],
        ),
        (
            "the name in pieces",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "read_"}}]),
                json!([{"index": 0, "function": {"name": "file"}}]),
                json!([{"index": 0, "function": {"arguments": "{}"}}]),
            ],
            vec![("read_file", "{}")],
        ),
        (
            "arguments before the name",
            vec![
                json!([{"index": 0, "id": "a", "function": {"arguments": "{\"a\""}}]),
                json!([{"index": 0, "function": {"name": "one", "arguments": ":1}"}}]),
            ],
            vec![("one", "{\"a\":1}")],
        ),
        (
            "arguments as an object",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": {"b": 1.50, "a": "ü"}}}]),
            ],
            vec![("one", "{\"b\":1.5,\"a\":\"ü\"}")],
        ),
        (
            "no arguments at all",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": null}}]),
                json!([{"index": 1, "id": "b", "function": {"name": "two"}}]),
            ],
            vec![("one", ""), ("two", "")],
        ),
        (
            "no name",
            vec![json!([{"index": 0, "id": "a", "function": {"arguments": "{}"}}])],
            vec![("", "{}")],
        ),
        (
            "index as text, id as a number",
            vec![
                json!([{"index": "0", "id": 7, "function": {"name": "one", "arguments": "{"}}]),
                json!([{"index": "0", "function": {"arguments": "}"}}]),
            ],
            vec![("one", "{}")],
        ),
    ];
    for (what, lists, expected) in table {
        let answer = calls(&lists);
        assert_eq!(named(&answer), expected, "{what}");
        assert_eq!(answer.finish, Some(FinishReason::ToolCalls), "{what}");
        let mut ids: Vec<&String> = answer.calls.iter().map(|(id, _, _)| id).collect();
        assert!(ids.iter().all(|id| !id.is_empty()), "{what}: every call has an id");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), expected.len(), "{what}: ids are unique");
    }
}

#[test]
fn the_servers_id_is_kept_and_a_missing_one_is_made() {
    let answer = calls(&[json!([
        {"index": 0, "id": "toolu_1", "function": {"name": "one"}},
        {"index": 1, "id": "", "function": {"name": "two"}},
        {"index": 2, "id": null, "function": {"name": "three"}},
    ])]);
    assert_eq!(answer.calls[0].0, "toolu_1");
    assert!(answer.calls[1].0.starts_with("call_"), "{:?}", answer.calls);
    assert!(answer.calls[2].0.starts_with("call_"), "{:?}", answer.calls);
}

#[test]
fn the_older_form_of_a_call() {
    let answer = read_events(&[
        delta(json!({"function_call": {"name": "one", "arguments": ""}})),
        delta(json!({"function_call": {"arguments": "{\"a\""}})),
        delta(json!({"function_call": {"arguments": ":1}"}})),
        finish("function_call"),
    ]);
    assert_eq!(named(&answer), vec![("one", "{\"a\":1}")]);
    assert_eq!(answer.finish, Some(FinishReason::ToolCalls));
}

#[test]
fn raw_numbers_in_object_arguments_are_untouched() {
    let event = r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"n","arguments":{"x": 1e2, "y": 1.0}}}]}}]}"#;
    let answer =
        read(vec![format!("data: {event}\n\n{}data: [DONE]\n\n", sse(&[finish("stop")])).into_bytes()]);
    assert_eq!(named(&answer), vec![("n", r#"{"x": 1e2, "y": 1.0}"#)]);
    assert_eq!(answer.finish, Some(FinishReason::ToolCalls), "`stop` with calls means calls");
}

#[test]
fn a_whole_message_as_an_event() {
    let calls = json!([
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"n\":1}"}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": {"n": 2}}},
    ]);
    let message = json!({"role": "assistant", "content": "x", "reasoning": "hm", "tool_calls": calls});
    let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let empty_delta =
        json!({"choices": [{"index": 0, "delta": {}, "message": message, "finish_reason": "tool_calls"}]});
    let no_reason = json!({"choices": [{"index": 0, "message": message}]});
    for events in [
        vec![whole.clone()],
        vec![empty_delta.clone()],
        vec![no_reason, finish("tool_calls")],
        // What has been streamed is not taken again.
        vec![
            delta(json!({"reasoning": "hm"})),
            delta(json!({"content": "x"})),
            delta(json!({"tool_calls": [
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"n\":1}"}},
                {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{\"n\":2}"}},
            ]})),
            whole,
        ],
    ] {
        let answer = read_events(&events);
        assert_eq!((answer.text.as_str(), answer.thinking.as_str()), ("x", "hm"), "{events:?}");
        assert_eq!(
            answer.calls,
            [("a".into(), "f".into(), r#"{"n":1}"#.into()), ("b".into(), "g".into(), r#"{"n":2}"#.into()),],
            "{events:?}"
        );
        assert_eq!(answer.finish, Some(FinishReason::ToolCalls));
    }
}
