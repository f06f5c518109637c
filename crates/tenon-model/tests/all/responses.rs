//! Responses streams in full, with any of their repetitions left out, and in one piece.

use futures_util::StreamExt;
use tenon_core::{Cancel, Delta, FinishReason, ModelClient, ModelError, Usage};
use tenon_model::OpenAiResponses;
use tenon_testkit::{Value, json};

use crate::support::{Scripted, block_on, endpoint, request, sse};

/// The deltas of one body, fragments of the same thing joined, and the error at their end.
pub fn deltas_of(chunks: Vec<Vec<u8>>) -> (Vec<Delta>, Option<ModelError>) {
    let client = OpenAiResponses::new(endpoint("http://127.0.0.1/v1"), Scripted::new([chunks]));
    let mut joined: Vec<Delta> = Vec::new();
    let mut error = None;
    block_on(async {
        let mut stream = client.stream(request("hi"), Cancel::new());
        while let Some(delta) = stream.next().await {
            match delta {
                Ok(delta) => join(&mut joined, delta),
                Err(failed) => error = Some(failed),
            }
        }
    });
    (joined, error)
}

fn join(joined: &mut Vec<Delta>, delta: Delta) {
    match (joined.last_mut(), delta) {
        (Some(Delta::Text(text)), Delta::Text(more)) => text.push_str(&more),
        (Some(Delta::Thinking(text)), Delta::Thinking(more)) => text.push_str(&more),
        (
            Some(Delta::ToolCallArguments { index, fragment }),
            Delta::ToolCallArguments { index: same, fragment: more },
        ) if *index == same => fragment.push_str(&more),
        (_, delta) => joined.push(delta),
    }
}

pub fn read(events: &[Value]) -> Vec<Delta> {
    let (deltas, error) = deltas_of(vec![sse(events).into_bytes()]);
    assert_eq!(error, None, "{events:#?}");
    deltas
}

pub fn failure(events: &[Value]) -> ModelError {
    let (deltas, error) = deltas_of(vec![sse(events).into_bytes()]);
    error.unwrap_or_else(|| panic!("no error: {deltas:?}"))
}

pub fn completed() -> Value {
    json!({"type": "response.completed", "response": {"id": "r1", "status": "completed"}})
}

pub fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

pub fn call(number: usize, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
        "name": "read_file", "arguments": arguments, "status": "completed"})
}

pub fn reasoning(text: &str) -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}],
        "encrypted_content": "gAAAAA=="})
}

fn native(item: Value) -> Delta {
    Delta::ThinkingNative(json!({"wire": "openai_responses", "provider": "openai", "item": item}))
}

fn call_deltas(index: usize, number: usize, arguments: &str) -> Vec<Delta> {
    let id = format!("call_{number}");
    let native = json!({"wire": "openai_responses", "provider": "openai", "id": format!("fc_{number}")});
    vec![
        Delta::ToolCallStarted { index, id, name: "read_file".into() },
        Delta::ToolCallArguments { index, fragment: arguments.into() },
        Delta::ToolCallNative { index, native },
        Delta::ToolCallEnded { index },
    ]
}

/// Everything a server says about one answer, in all four ways.
fn full_stream() -> Vec<Value> {
    let usage = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 64},
        "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 8}, "total_tokens": 120});
    vec![
        json!({"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}}),
        json!({"type": "response.in_progress", "response": {"id": "r1"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
        json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": "I "}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": "think."}),
        json!({"type": "response.reasoning_summary_text.done", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "text": "I think."}),
        json!({"type": "response.reasoning_summary_part.done", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "part": {"type": "summary_text", "text": "I think."}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning("I think.")}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "id": "msg_1", "role": "assistant", "content": []}}),
        json!({"type": "response.content_part.added", "item_id": "msg_1", "output_index": 1, "content_index": 0, "part": {"type": "output_text", "text": ""}}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": "Let me "}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": "see 🦀."}),
        json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 1, "content_index": 0, "text": "Let me see 🦀."}),
        json!({"type": "response.content_part.done", "item_id": "msg_1", "output_index": 1, "content_index": 0, "part": {"type": "output_text", "text": "Let me see 🦀."}}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": message("Let me see 🦀.")}),
        json!({"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read_file", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 2, "delta": "{\"a\":"}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 2, "delta": "1}"}),
        json!({"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 2, "arguments": "{\"a\":1}"}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": call(1, "{\"a\":1}")}),
        json!({"type": "response.output_item.done", "output_index": 3, "item": call(2, "{}")}),
        json!({"type": "response.completed", "response": {"id": "r1", "status": "completed", "usage": usage,
            "output": [reasoning("I think."), message("Let me see 🦀."), call(1, "{\"a\":1}"), call(2, "{}")]}}),
    ]
}

fn full_answer() -> Vec<Delta> {
    let usage =
        Usage { input: 100, output: 20, cache_read: 64, reasoning: 8, total: 120, ..Usage::default() };
    let mut deltas = vec![
        Delta::Thinking("I think.".into()),
        native(reasoning("I think.")),
        Delta::Text("Let me see 🦀.".into()),
    ];
    deltas.extend(call_deltas(2, 1, "{\"a\":1}"));
    deltas.extend(call_deltas(3, 2, "{}"));
    deltas.push(Delta::Usage(usage));
    deltas.push(Delta::Finished(FinishReason::ToolCalls));
    deltas
}

#[test]
fn a_full_stream_gives_everything_once() {
    assert_eq!(read(&full_stream()), full_answer());
}

#[test]
fn whatever_is_left_out_is_taken_from_elsewhere() {
    let of_kind = |event: &Value, words: &[&str]| {
        words.iter().any(|word| event["type"].as_str().is_some_and(|kind| kind.contains(word)))
    };
    for left_out in [
        &["delta"][..],
        &["_text.done", "arguments.done", "part.done"],
        &["output_item.added", "part.added"],
        &["output_item.done"],
        &["delta", "_text.done", "arguments.done", "part"],
        &["added", "_text", "arguments", "part"],
        &["delta", "output_item.done"],
        &["created", "in_progress", "item", "part", "_text", "arguments"],
    ] {
        let events: Vec<Value> =
            full_stream().into_iter().filter(|event| !of_kind(event, left_out)).collect();
        // The order of what comes late differs; what there is does not.
        let sorted = |deltas: Vec<Delta>| {
            let mut deltas: Vec<String> = deltas.iter().map(unnumbered).collect();
            deltas.sort();
            deltas
        };
        assert_eq!(sorted(read(&events)), sorted(full_answer()), "without {left_out:?}");
    }
}

/// Indices of calls are the stream's own.
fn unnumbered(delta: &Delta) -> String {
    let printed = format!("{delta:?}");
    match printed.find("index: ") {
        Some(at) => {
            printed[..at].to_owned()
                + printed[at..]
                    .split_once([',', ' '])
                    .map_or("", |(_, rest)| rest)
                    .split_once([',', ' '])
                    .map_or("", |(_, rest)| rest)
        }
        None => printed,
    }
}

#[test]
fn the_final_response_may_come_without_output() {
    let mut events = full_stream();
    for output in [json!([]), Value::Null] {
        events.last_mut().unwrap()["response"]["output"] = output;
        assert_eq!(read(&events), full_answer());
    }
}

#[test]
fn a_stream_of_done_items_only() {
    let mut message = message("hi");
    message.as_object_mut().unwrap().remove("id");
    let mut one = call(1, "{}");
    one.as_object_mut().unwrap().remove("id");
    let events = [
        json!({"type": "response.created", "response": {"id": "r1"}}),
        json!({"type": "response.output_item.done", "item": message}),
        json!({"type": "response.output_item.done", "item": one}),
        json!({"type": "response.output_item.done", "item": call(2, "{\"b\":2}")}),
        json!({"type": "response.completed", "response": {"id": "r1", "usage": {"input_tokens": 0,
            "input_tokens_details": null, "output_tokens": 0, "output_tokens_details": null, "total_tokens": 0}}}),
    ];
    let mut expected = vec![
        Delta::Text("hi".into()),
        Delta::ToolCallStarted { index: 1, id: "call_1".into(), name: "read_file".into() },
        Delta::ToolCallArguments { index: 1, fragment: "{}".into() },
        Delta::ToolCallEnded { index: 1 },
    ];
    expected.extend(call_deltas(2, 2, "{\"b\":2}"));
    expected.push(Delta::Finished(FinishReason::ToolCalls));
    assert_eq!(read(&events), expected);
}

#[test]
fn an_answer_in_one_piece() {
    let mut response = full_stream().pop().unwrap()["response"].take();
    response["object"] = json!("response");
    let (deltas, error) = deltas_of(vec![response.to_string().into_bytes()]);
    assert_eq!((deltas, error), (full_answer(), None));
}

#[test]
fn the_name_of_an_event_may_stand_in_its_line_only() {
    let body: String = full_stream()
        .into_iter()
        .map(|mut event| {
            let kind = event.as_object_mut().unwrap().shift_remove("type").unwrap();
            format!("event: {}\ndata: {event}\n\n", kind.as_str().unwrap())
        })
        .collect();
    assert_eq!(deltas_of(vec![body.into_bytes()]), (full_answer(), None));
}

#[test]
fn servers_that_do_not_count_or_name_their_items() {
    let change = |change: &dyn Fn(usize, &mut Value)| {
        let mut events = full_stream();
        for (number, event) in events.iter_mut().enumerate() {
            change(number, event);
        }
        read(&events)
    };
    let remove = |event: &mut Value, key: &str| {
        event.as_object_mut().unwrap().remove(key);
    };
    // No index at all, or always the same one.
    assert_eq!(change(&|_, event| remove(event, "output_index")), full_answer());
    let always_zero = change(&|_, event| {
        if event.get("output_index").is_some() {
            event["output_index"] = json!(0);
        }
    });
    assert_eq!(always_zero, full_answer());
    // No ids in events, and a new one every time.
    assert_eq!(change(&|_, event| remove(event, "item_id")), full_answer());
    let neither = change(&|_, event| {
        remove(event, "item_id");
        remove(event, "output_index");
    });
    assert_eq!(neither, full_answer());
    let new_ids = change(&|number, event| {
        if event.get("item_id").is_some() {
            event["item_id"] = json!(format!("new_{number}"));
        }
        if event["type"] == "response.output_item.added" {
            event["item"]["id"] = json!(format!("new_{number}"));
        }
    });
    assert_eq!(new_ids, full_answer());
}

#[test]
fn calls_may_be_interleaved() {
    let added = |index: usize| json!({"type": "response.output_item.added", "output_index": index, "item": call(index, "")});
    let piece = |index: usize, delta: &str| json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta});
    let done = |index: usize, arguments: &str| json!({"type": "response.output_item.done", "output_index": index, "item": call(index, arguments)});
    let events = [
        added(0),
        added(1),
        piece(1, "{\"b\""),
        piece(0, "{\"a\""),
        piece(1, ":2}"),
        done(1, "{\"b\":2}"),
        piece(0, ":1}"),
        done(0, "{\"a\":1}"),
        completed(),
    ];
    let arguments = |index: usize| -> String {
        let fragments = read(&events).into_iter().filter_map(move |delta| match delta {
            Delta::ToolCallArguments { index: of, fragment } if of == index => Some(fragment),
            _ => None,
        });
        fragments.collect()
    };
    assert_eq!((arguments(0), arguments(1)), ("{\"a\":1}".into(), "{\"b\":2}".into()));
}

#[test]
fn a_call_without_its_call_id_or_its_name_at_first() {
    let item = json!({"type": "function_call", "id": "fc_9", "name": "f", "arguments": "{}"});
    let events = [json!({"type": "response.output_item.done", "item": item}), completed()];
    assert_eq!(read(&events)[0], Delta::ToolCallStarted { index: 0, id: "fc_9".into(), name: "f".into() });
    let nameless = [
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": "{\"a\""}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": ":1}"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": call(1, "{\"a\":1}")}),
        completed(),
    ];
    let mut expected = call_deltas(0, 1, "{\"a\":1}");
    expected.push(Delta::Finished(FinishReason::ToolCalls));
    assert_eq!(read(&nameless), expected);
}

#[test]
fn arguments_that_are_an_object_and_arguments_that_were_spoiled() {
    let item = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}});
    let events = [json!({"type": "response.output_item.done", "item": item}), completed()];
    assert!(read(&events).contains(&Delta::ToolCallArguments { index: 0, fragment: "{\"a\":1}".into() }));

    let spoiled = [
        json!({"type": "response.output_item.added", "output_index": 0, "item": call(1, "")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"a\":"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "\"b\""}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": call(1, "{\"a\":[\"b\"]}")}),
        completed(),
    ];
    let restored = Delta::ToolCallRestored { index: 0, arguments: "{\"a\":[\"b\"]}".into() };
    assert!(read(&spoiled).contains(&restored));
    // Written in another way it is still the same.
    let mut spaced = spoiled;
    spaced[2]["delta"] = json!("[\"b\"]}");
    spaced[3]["item"]["arguments"] = json!("{ \"a\": [ \"b\" ] }");
    let deltas = read(&spaced);
    assert!(deltas.contains(&Delta::ToolCallArguments { index: 0, fragment: "{\"a\":[\"b\"]}".into() }));
    assert!(!deltas.iter().any(|delta| matches!(delta, Delta::ToolCallRestored { .. })));
}

#[test]
fn parts_of_a_summary_stand_apart() {
    let piece = |index: u64, text: &str| json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "summary_index": index, "delta": text});
    let part = || json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1"});
    let without_index = |mut event: Value| {
        event.as_object_mut().unwrap().remove("summary_index");
        event
    };
    let item = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "x",
        "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]});
    let done = json!({"type": "response.output_item.done", "item": item});
    let expected =
        vec![Delta::Thinking("One.\n\nTwo.".into()), native(item), Delta::Finished(FinishReason::Stop)];
    for events in [
        vec![part(), piece(0, "On"), piece(0, "e."), part(), piece(1, "Tw"), piece(1, "o.")],
        vec![piece(0, "One."), piece(1, "Two.")],
        vec![part(), without_index(piece(0, "One.")), part(), without_index(piece(0, "Two."))],
        vec![piece(0, "One.")],
        vec![],
    ] {
        let events: Vec<Value> = events.into_iter().chain([done.clone(), completed()]).collect();
        assert_eq!(read(&events), expected, "{events:#?}");
    }
}

#[test]
fn open_reasoning_and_reasoning_that_cannot_go_back() {
    let open = json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Raw."}]});
    let text = |kind: &str| json!({"type": format!("response.{kind}.delta"), "item_id": "rs_1", "output_index": 0, "delta": "Raw."});
    let done = |item: &Value| json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let thinking = || Delta::Thinking("Raw.".into());
    let finished = || Delta::Finished(FinishReason::Stop);
    let part = json!({"type": "response.content_part.done", "item_id": "rs_1", "output_index": 0, "part": {"type": "reasoning_text", "text": "Raw."}});
    let expected = vec![thinking(), native(open.clone()), finished()];
    assert_eq!(read(&[text("reasoning_text"), part, done(&open), completed()]), expected);
    // The same in both lists counts once.
    let twice = [text("reasoning_text"), text("reasoning_summary_text"), done(&open), completed()];
    assert_eq!(read(&twice), expected);
    assert_eq!(read(&[done(&open), completed()]), expected);
    // Nothing is stored, so an id alone means nothing to the server.
    let empty = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": null});
    assert_eq!(read(&[done(&empty), completed()]), [finished()]);
    assert_eq!(read(&[text("reasoning_summary_text"), done(&empty), completed()]), [thinking(), finished()]);
    // Two items in a row stay two.
    let two = json!({"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "y"});
    let events = [
        done(&open),
        json!({"type": "response.output_item.done", "output_index": 1, "item": two}),
        completed(),
    ];
    assert_eq!(read(&events), [thinking(), native(open), native(two), finished()]);
}

#[test]
fn a_message_of_several_parts_and_several_messages() {
    let item = json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "One. "}, {"type": "output_text", "text": "Two."}]});
    let piece = |index: u64, text: &str| json!({"type": "response.output_text.delta", "item_id": "m", "content_index": index, "delta": text});
    let part = |index: u64, text: &str| json!({"type": "response.output_text.done", "item_id": "m", "content_index": index, "text": text});
    let done = || json!({"type": "response.output_item.done", "item": item});
    let expected = [Delta::Text("One. Two.".into()), Delta::Finished(FinishReason::Stop)];
    for events in [
        vec![piece(0, "One. "), part(0, "One. "), piece(1, "Two."), part(1, "Two."), done(), completed()],
        vec![part(0, "One. "), part(1, "Two."), done(), completed()],
        vec![piece(0, "One. "), done(), completed()],
        vec![part(0, "One. "), part(1, "Two."), completed()],
        vec![done(), completed()],
    ] {
        assert_eq!(read(&events), expected, "{events:#?}");
    }
    let mut second = message("And more.");
    second["id"] = json!("m2");
    let both = json!({"type": "response.completed", "response": {"output": [item, second]}});
    let expected = [Delta::Text("One. Two.And more.".into()), Delta::Finished(FinishReason::Stop)];
    assert_eq!(read(&[piece(0, "One. "), done(), both.clone()]), expected);
    assert_eq!(read(&[both]), expected);
}

#[test]
fn endings() {
    let text = || json!({"type": "response.output_text.delta", "delta": "x"});
    let of_call = || json!({"type": "response.output_item.done", "item": call(1, "{}")});
    let ended = |kind: &str, response: Value| json!({"type": kind, "response": response});
    let incomplete = |reason: &str| {
        ended(
            "response.incomplete",
            json!({"status": "incomplete", "incomplete_details": {"reason": reason}}),
        )
    };
    let refusal = || json!({"type": "response.refusal.delta", "delta": "No."});
    let refusal_item = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]});
    for (events, expected) in [
        (vec![text(), completed()], FinishReason::Stop),
        (vec![text(), of_call(), completed()], FinishReason::ToolCalls),
        (vec![completed()], FinishReason::Stop),
        (vec![text(), ended("response.completed", Value::Null)], FinishReason::Stop),
        (vec![text(), json!({"type": "response.completed"})], FinishReason::Stop),
        (vec![text(), ended("response.done", json!({"status": "completed"}))], FinishReason::Stop),
        (vec![text(), incomplete("max_output_tokens")], FinishReason::Length),
        (vec![of_call(), incomplete("max_output_tokens")], FinishReason::Length),
        (vec![text(), incomplete("content_filter")], FinishReason::Refused),
        (vec![text(), incomplete("something new")], FinishReason::Length),
        (vec![text(), ended("response.incomplete", Value::Null)], FinishReason::Length),
        (vec![text(), ended("response.completed", json!({"status": "incomplete"}))], FinishReason::Length),
        (vec![refusal(), completed()], FinishReason::Refused),
        (
            vec![json!({"type": "response.refusal.done", "refusal": "No."}), completed()],
            FinishReason::Refused,
        ),
        (vec![ended("response.completed", json!({"output": [refusal_item]}))], FinishReason::Refused),
    ] {
        assert_eq!(read(&events).last(), Some(&Delta::Finished(expected)), "{events:?}");
    }
    assert_eq!(
        read(&[refusal(), json!({"type": "response.output_item.done", "item": refusal_item}), completed()]),
        [Delta::Text("No.".into()), Delta::Finished(FinishReason::Refused)]
    );
}

#[test]
fn odd_events_are_no_problem() {
    let events = [
        json!({"type": "response.queued"}),
        json!({"type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 0}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "web_search_call"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": null}),
        json!({"type": "response.output_item.done"}),
        json!({"type": "response.output_item.done", "item": [1]}),
        json!({"type": 7}),
        json!({"hello": "world"}),
        json!({"type": "response.output_text.delta", "delta": null}),
        json!({"type": "response.output_text.delta", "delta": {"odd": true}}),
        json!({"type": "response.output_text.delta", "delta": "x", "content_index": "zero", "logprobs": []}),
        json!({"type": "response.output_text.annotation.added", "annotation": {}}),
        json!({"type": "response.function_call_arguments.done", "arguments": 7, "output_index": -1}),
        completed(),
    ];
    assert_eq!(read(&events)[0], Delta::Text("x".into()));
    assert!(matches!(read(&events).last(), Some(Delta::Finished(_))));
}

#[test]
fn an_answer_without_its_last_event_is_half_an_answer() {
    let text = || json!({"type": "response.output_text.delta", "delta": "x"});
    let done = || json!({"type": "response.output_item.done", "item": message("x")});
    let half = "the connection closed in the middle of the answer";
    for events in [vec![text()], vec![text(), done()]] {
        let error = failure(&events);
        assert_eq!((error.message.as_str(), error.retryable), (half, true), "{events:?}");
    }
    for (body, whole) in [
        (format!("{}data: [DONE]\n\n", sse(&[text()])), false),
        (format!("{}data: [DONE]\n\n", sse(&[text(), completed()])), true),
        (sse(&[text(), completed()]).trim_end().to_owned(), true),
        (sse(&[text(), completed()]).trim_end_matches(['\n', '}']).to_owned(), false),
    ] {
        let (_, error) = deltas_of(vec![body.clone().into_bytes()]);
        assert_eq!(error.is_none(), whole, "{body}");
    }
}
