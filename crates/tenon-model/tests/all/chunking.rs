//! However an answer is cut into pieces, it is the same answer.

use proptest::prelude::*;
use tenon_core::FinishReason;
use tenon_testkit::{Value, json};

use crate::support::{Answer, delta, finish, read, sse};

/// `text` cut at these places, rounded to characters.
fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let mut cuts: Vec<usize> =
        cuts.iter().map(|cut| text.floor_char_boundary(cut % (text.len() + 1))).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().copied().chain([text.len()]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    starts.zip(ends).map(|(start, end)| text[start..end].to_owned()).collect()
}

pub fn byte_pieces(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().copied().chain([bytes.len()]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    starts.zip(ends).map(|(start, end)| bytes[start..end].to_vec()).collect()
}

/// Two sequences mixed, each in its own order.
fn interleave(left: Vec<Value>, right: Vec<Value>, picks: &[bool]) -> Vec<Value> {
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    let mut picks = picks.iter().cycle();
    let mut mixed = Vec::new();
    while left.peek().is_some() || right.peek().is_some() {
        let from_left = right.peek().is_none() || (left.peek().is_some() && *picks.next().unwrap_or(&true));
        mixed.extend(if from_left { left.next() } else { right.next() });
    }
    mixed
}

fn call_events(index: usize, name: &str, arguments: &[String]) -> Vec<Value> {
    let open =
        json!({"index": index, "id": format!("id_{index}"), "function": {"name": name, "arguments": ""}});
    let rest = arguments.iter().map(|piece| json!({"index": index, "function": {"arguments": piece}}));
    [open].into_iter().chain(rest).map(|call| delta(json!({"tool_calls": [call]}))).collect()
}

pub fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(any::<usize>(), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(192)))]

    #[test]
    fn any_cut_gives_the_same_answer(
        text in "\\PC{1,40}",
        thought in "\\PC{1,40}",
        first in "\\PC{1,40}",
        second in "[ -~]{1,40}",
        text_cuts in cuts(), thought_cuts in cuts(), first_cuts in cuts(), second_cuts in cuts(), byte_cuts in cuts(),
        picks in prop::collection::vec(any::<bool>(), 1..20),
        line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        comments in any::<bool>(),
    ) {
        let first = json!({ "a": first }).to_string();
        let second = json!({ "b": second, "n": 1 }).to_string();
        let mut events: Vec<Value> =
            pieces(&thought, &thought_cuts).iter().map(|piece| delta(json!({"reasoning_content": piece}))).collect();
        events.extend(pieces(&text, &text_cuts).iter().map(|piece| delta(json!({"content": piece}))));
        events.extend(interleave(
            call_events(0, "one", &pieces(&first, &first_cuts)),
            call_events(1, "two", &pieces(&second, &second_cuts)),
            &picks,
        ));
        events.push(finish("tool_calls"));
        let mut body = sse(&events);
        if comments {
            body = body.replace("data:", ": comment\ndata:");
        }
        let body = format!("{body}data: [DONE]\n\n").replace('\n', line_end);
        let answer = read(byte_pieces(body.as_bytes(), &byte_cuts));
        // The calls are announced in the order in which they appear.
        let mut calls = answer.calls.clone();
        calls.sort();
        let expected = Answer {
            text,
            thinking: thought,
            native: Some(json!({"field": "reasoning_content"})),
            calls: vec![("id_0".into(), "one".into(), first), ("id_1".into(), "two".into(), second)],
            finish: Some(FinishReason::ToolCalls),
            ..Answer::default()
        };
        prop_assert_eq!(Answer { calls, ..answer }, expected);
    }

    /// Whatever a server sends: an end, no panic, and an error or a finish.
    #[test]
    fn any_bytes_come_to_an_end(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6),
        lines in prop::collection::vec("(data: |data:|event: |: |)[\\[\\]{}\":,a-z0-9\\\\ ]{0,40}(\n|\r\n|\n\n)", 0..8),
    ) {
        for body in [chunks.concat(), lines.concat().into_bytes()] {
            let whole = read(vec![body.clone()]);
            prop_assert!(whole.error.is_some() != whole.finish.is_some(), "{:?}", whole);
            prop_assert_eq!(without_ids(read(body.chunks(1).map(<[u8]>::to_vec).collect())), without_ids(whole));
        }
    }

    /// Whatever JSON stands in the fields of a chunk.
    #[test]
    fn any_field_types_come_to_an_end(values in prop::collection::vec(json_value(), 12)) {
        let mut values = values.into_iter();
        let mut next = || values.next().unwrap_or(Value::Null);
        let event = json!({
            "usage": next(), "x_groq": next(),
            "choices": [{"index": 0, "finish_reason": next(), "delta": {
                "content": next(), "reasoning": next(), "refusal": next(),
                "tool_calls": [{"index": next(), "id": next(), "function": {"name": next(), "arguments": next()}}],
            }}],
        });
        let answer = read(vec![format!("data: {event}\n\ndata: [DONE]\n\n").into_bytes()]);
        prop_assert!(answer.error.is_some() != answer.finish.is_some(), "{:?}", answer);
    }
}

/// Ids that we make are random.
fn without_ids(mut answer: Answer) -> Answer {
    answer.calls.iter_mut().for_each(|(id, _, _)| id.clear());
    answer
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u8>().prop_map(|small| Value::from(f64::from(small) / 2.0)),
        "\\PC{0,8}".prop_map(Value::from),
        Just(json!("error")),
        Just(json!({"prompt_tokens": "x", "completion_tokens": 1e300})),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{1,4}", inner, 0..3).prop_map(|map| map.into_iter().collect()),
        ]
    })
}
