//! However a Responses stream is cut, and whichever of its repetitions it leaves out, it is the same answer.

use proptest::prelude::*;
use tenon_core::FinishReason;
use tenon_model::OpenAiResponses;
use tenon_testkit::{Value, json};

use crate::support::{Answer, Scripted, ask, block_on, endpoint, request, sse};

fn answer(chunks: Vec<Vec<u8>>) -> Answer {
    let client = OpenAiResponses::new(endpoint("http://127.0.0.1/v1"), Scripted::new([chunks]));
    block_on(ask(&client, request("hi")))
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(any::<usize>(), 0..10)
}

fn places(length: usize, cuts: &[usize]) -> Vec<(usize, usize)> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (length + 1)).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().copied().chain([length]);
    [0].into_iter().chain(cuts.iter().copied()).zip(ends).collect()
}

fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut % (text.len() + 1))).collect();
    places(text.len(), &cuts).into_iter().map(|(start, end)| text[start..end].to_owned()).collect()
}

/// Which events a server sends for each item, and how it says which item they are about.
#[derive(Clone, Debug)]
struct Told {
    added: bool,
    deltas: bool,
    part_done: bool,
    item_done: bool,
    index: bool,
    ids: bool,
}

fn told() -> impl Strategy<Value = Told> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(added, deltas, part_done, item_done, index, ids)| Told {
            added,
            deltas,
            part_done,
            item_done,
            index,
            ids,
        },
    )
}

/// The events of one item: `kind` is the middle of their names, `field` holds the whole at a part's end.
fn item_events(
    at: usize,
    item: &Value,
    kind: &str,
    field: &str,
    parts: &[String],
    told: &Told,
) -> Vec<Value> {
    let mut empty = item.clone();
    for key in ["content", "summary", "encrypted_content"] {
        empty.as_object_mut().unwrap().shift_remove(key);
    }
    if empty.get("arguments").is_some() {
        empty["arguments"] = json!("");
    }
    let mut events = Vec::new();
    if told.added {
        events.push(json!({"type": "response.output_item.added", "item": empty}));
    }
    if told.deltas {
        events.extend(
            parts.iter().map(|piece| json!({"type": format!("response.{kind}.delta"), "delta": piece})),
        );
    }
    if told.part_done {
        events.push(json!({"type": format!("response.{kind}.done"), field: parts.concat()}));
    }
    if told.item_done {
        events.push(json!({"type": "response.output_item.done", "item": item}));
    }
    for event in &mut events {
        if told.index {
            event["output_index"] = json!(at);
        }
        if told.ids && event.get("item").is_none() {
            event["item_id"] = item["id"].clone();
        }
        if !told.ids
            && let Some(item) = event.get_mut("item").and_then(Value::as_object_mut)
        {
            item.shift_remove("id");
        }
    }
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(192)))]

    #[test]
    fn any_cut_and_any_omission_give_the_same_answer(
        thought in "\\PC{1,30}", text in "\\PC{1,30}", first in "\\PC{1,30}", second in "[ -~]{1,30}",
        cuts in prop::collection::vec(cuts(), 5),
        told in told(),
        line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        event_lines in any::<bool>(),
    ) {
        let arguments = [json!({ "a": first }).to_string(), json!({ "b": second, "n": 1 }).to_string()];
        let items = [
            json!({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": thought}], "encrypted_content": "e"}),
            json!({"type": "message", "id": "msg", "role": "assistant", "content": [{"type": "output_text", "text": text}]}),
            json!({"type": "function_call", "id": "fc_0", "call_id": "id_0", "name": "one", "arguments": arguments[0]}),
            json!({"type": "function_call", "id": "fc_1", "call_id": "id_1", "name": "two", "arguments": arguments[1]}),
        ];
        let kinds = [("reasoning_summary_text", "text"), ("output_text", "text"), ("function_call_arguments", "arguments"), ("function_call_arguments", "arguments")];
        let wholes = [&thought, &text, &arguments[0], &arguments[1]];
        let mut events = Vec::new();
        for (at, item) in items.iter().enumerate() {
            events.extend(item_events(at, item, kinds[at].0, kinds[at].1, &pieces(wholes[at], &cuts[at]), &told));
        }
        events.push(json!({"type": "response.completed", "response": {"status": "completed", "output": items}}));
        let mut body = sse(&events);
        if event_lines {
            body = body.replace("data:", "event: anything\ndata:");
        }
        let body = body.replace('\n', line_end).into_bytes();
        let chunks = places(body.len(), &cuts[4]).into_iter().map(|(start, end)| body[start..end].to_vec()).collect();
        let answer = answer(chunks);
        let mut calls = answer.calls.clone();
        calls.sort();
        let [one, two] = arguments;
        prop_assert_eq!(calls, [("id_0".to_owned(), "one".to_owned(), one), ("id_1".to_owned(), "two".to_owned(), two)]);
        prop_assert_eq!((answer.thinking, answer.text), (thought, text));
        prop_assert_eq!((answer.finish, answer.error), (Some(FinishReason::ToolCalls), None));
        prop_assert_eq!(&answer.native.unwrap()["item"]["encrypted_content"], &items[0]["encrypted_content"]);
    }

    /// Whatever a server sends: an end, no panic, and an error or a finish.
    #[test]
    fn any_fields_come_to_an_end(
        kinds in prop::collection::vec(prop::sample::select(vec![
            "output_item.added", "output_item.done", "output_text.delta", "output_text.done", "refusal.delta",
            "reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_text.delta",
            "reasoning_summary_part.added", "content_part.done", "function_call_arguments.delta",
            "function_call_arguments.done", "completed", "incomplete", "failed",
        ]), 1..8),
        values in prop::collection::vec(value(), 64),
    ) {
        let mut values = values.into_iter().cycle();
        let mut next = || values.next().unwrap_or_default();
        let events: Vec<Value> = kinds.iter().map(|kind| {
            let item = json!({"type": next(), "id": next(), "call_id": next(), "name": next(), "arguments": next(), "content": next(), "summary": next()});
            json!({
                "type": format!("response.{kind}"), "output_index": next(), "item_id": next(), "content_index": next(),
                "delta": next(), "text": next(), "arguments": next(), "part": next(), "item": item,
                "response": {"output": [item, next()], "usage": next(), "status": next(), "incomplete_details": next()},
            })
        }).collect();
        let body = sse(&events).into_bytes();
        let whole = answer(vec![body.clone()]);
        prop_assert!(whole.error.is_some() != whole.finish.is_some(), "{:?}", whole);
        let bytes = answer(body.chunks(1).map(<[u8]>::to_vec).collect());
        prop_assert_eq!(without_ids(bytes), without_ids(whole));
    }
}

/// Ids that we make are random.
fn without_ids(mut answer: Answer) -> Answer {
    answer.calls.iter_mut().for_each(|(id, _, _)| id.clear());
    answer
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!("message")),
        Just(json!("reasoning")),
        Just(json!("function_call")),
        Just(json!(0)),
        Just(json!(1)),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,4}".prop_map(Value::from),
        Just(json!([{"type": "output_text", "text": "a"}, {"refusal": "b"}, 7])),
        Just(json!({"a": 1})),
        Just(json!({"type": "function_call", "name": "f", "arguments": "{}"})),
    ]
}
