//! However Gemini's answer is cut, it is the same answer; and what is sent back is what came.

use proptest::prelude::*;
use tenon_core::{Delta, Message, Part, Request, Role, ToolCall};
use tenon_testkit::{Value, cases, json};

use crate::chunking::{byte_pieces, cuts};
use crate::gemini::{deltas, finish, parts};
use crate::gemini_body::sent;
use crate::support::{request, sse};

/// The parts of an answer as Gemini sends them.
fn any_part() -> impl Strategy<Value = Value> {
    let signature = || prop::option::of("[a-zA-Z0-9+/=]{1,12}");
    let texts = ("\\PC{0,20}", any::<bool>(), signature()).prop_map(|(text, thought, signature)| {
        let mut part = json!({ "text": text });
        if thought {
            part["thought"] = json!(true);
        }
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    });
    let calls =
        ("\\PC{0,12}", prop::option::of("[a-z]{1,6}"), signature()).prop_map(|(text, id, signature)| {
            let mut part = json!({"functionCall": {"name": "tool", "args": {"a": text, "n": 1}}});
            if let Some(id) = id {
                part["functionCall"]["id"] = json!(id);
            }
            if let Some(signature) = signature {
                part["thoughtSignature"] = json!(signature);
            }
            part
        });
    prop_oneof![2 => texts, 1 => calls]
}

/// What of an answer is sent back: text that came in pieces as one, without thoughts that nobody signed.
fn returned(came: &[Value]) -> Vec<Value> {
    let mut expected: Vec<Value> = Vec::new();
    let mut goes_on = false;
    for part in came {
        let is_signed = part.get("thoughtSignature").is_some();
        let is_thought = part.get("thought").is_some();
        match part["text"].as_str() {
            None => expected.push(part.clone()),
            Some("") if !is_signed => continue,
            Some(_) if is_thought && !is_signed => {}
            Some(text) if !is_thought && !is_signed && goes_on => {
                let so_far = format!("{}{text}", expected.last().unwrap()["text"].as_str().unwrap());
                *expected.last_mut().unwrap() = json!({ "text": so_far });
            }
            Some(_) => expected.push(part.clone()),
        }
        goes_on = part.get("text").is_some() && !is_thought && !is_signed;
    }
    expected
}

/// An answer as the agent keeps it.
fn folded(deltas: Vec<Delta>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for delta in deltas {
        match (delta, parts.last_mut()) {
            (Delta::Text(more), Some(Part::Text { text })) => text.push_str(&more),
            (Delta::Text(text), _) => parts.push(Part::Text { text }),
            (Delta::Thinking(more), Some(Part::Thinking { text, native: None })) => text.push_str(&more),
            (Delta::Thinking(text), _) => parts.push(Part::Thinking { text, native: None }),
            (Delta::ThinkingNative(value), Some(Part::Thinking { native: native @ None, .. })) => {
                *native = Some(value);
            }
            (Delta::ThinkingNative(value), _) => {
                parts.push(Part::Thinking { text: String::new(), native: Some(value) });
            }
            (Delta::ToolCallStarted { id, name, .. }, _) => {
                let (arguments, native) = (String::new(), None);
                parts.push(Part::ToolCall(ToolCall { id, name, arguments, terminal: false, native }));
            }
            (Delta::ToolCallArguments { fragment, .. }, Some(Part::ToolCall(call))) => {
                call.arguments.push_str(&fragment);
            }
            (Delta::ToolCallNative { native, .. }, Some(Part::ToolCall(call))) => call.native = Some(native),
            (Delta::ToolCallEnded { .. } | Delta::Finished(_), _) => {}
            (other, last) => panic!("{other:?} after {last:?}"),
        }
    }
    parts
}

/// Ids that we make are random.
fn without_ids(deltas: Vec<Delta>) -> Vec<Delta> {
    deltas
        .into_iter()
        .map(|delta| match delta {
            Delta::ToolCallStarted { index, name, .. } => {
                Delta::ToolCallStarted { index, id: String::new(), name }
            }
            other => other,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(192)))]

    #[test]
    fn an_answer_goes_back_as_it_came(
        groups in prop::collection::vec(prop::collection::vec(any_part(), 0..4), 1..5),
        byte_cuts in cuts(),
        line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        as_list in any::<bool>(),
    ) {
        let mut events: Vec<Value> = groups.iter().map(|group| parts(json!(group))).collect();
        events.push(finish("STOP"));
        let body = match as_list {
            true => json!(events).to_string(),
            false => sse(&events).replace('\n', line_end),
        };
        let (seen, error) = deltas(request("q"), byte_pieces(body.as_bytes(), &byte_cuts));
        prop_assert_eq!(error, None);
        let messages = vec![Message::user("q"), Message { role: Role::Assistant, parts: folded(seen) }];
        let body = sent(Request { model: "gemini-2.5-pro".into(), messages, ..request("") });
        let came = groups.concat();
        let found = body["contents"][1]["parts"].as_array().cloned().unwrap_or_default();
        prop_assert_eq!(found, returned(&came));
    }

    /// Whatever a server sends: an end, no panic, an error or a finish, and the same for every cut.
    #[test]
    fn any_bytes_come_to_an_end(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6),
        lines in prop::collection::vec("(data: |data:|event: |: |\\{|\\[|)[\\[\\]{}\":,a-z0-9\\\\ ]{0,40}(\n|\r\n|\n\n)", 0..8),
    ) {
        for body in [chunks.concat(), lines.concat().into_bytes()] {
            let (seen, error) = deltas(request("q"), vec![body.clone()]);
            let finished = matches!(seen.last(), Some(Delta::Finished(_)));
            prop_assert!(error.is_some() != finished, "{:?} {:?}", seen, error);
            let (again, same) = deltas(request("q"), body.chunks(1).map(<[u8]>::to_vec).collect());
            prop_assert_eq!((without_ids(again), same), (without_ids(seen), error));
        }
    }

    /// Whatever JSON stands in the fields of a chunk.
    #[test]
    fn any_field_types_come_to_an_end(values in prop::collection::vec(json_value(), 12)) {
        let mut values = values.into_iter();
        let mut next = || values.next().unwrap_or(Value::Null);
        let event = json!({
            "usageMetadata": next(), "promptFeedback": {"blockReason": next(), "blockReasonMessage": next()},
            "candidates": [{"index": next(), "finishReason": next(), "finishMessage": next(), "content": {"parts": [
                {"text": next(), "thought": next(), "thoughtSignature": next()},
                {"functionCall": {"id": next(), "name": next(), "args": next()}},
            ]}}],
        });
        let (seen, error) = deltas(request("q"), vec![sse(&[event, finish("STOP")]).into_bytes()]);
        prop_assert!(error.is_some() != matches!(seen.last(), Some(Delta::Finished(_))), "{:?} {:?}", seen, error);
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u8>().prop_map(|small| Value::from(f64::from(small) / 2.0)),
        "\\PC{0,8}".prop_map(Value::from),
        Just(json!("STOP")),
        Just(json!(0)),
        Just(json!([{"a": 1}])),
        Just(
            json!({"promptTokenCount": "x", "candidatesTokenCount": 1e300, "thoughtsTokenCount": 18446744073709551615_u64})
        ),
    ]
}
