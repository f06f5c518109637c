//! Gemini's answers: what a stream of chunks becomes.

use futures_util::StreamExt;
use tenon_core::{Cancel, Delta, FinishReason, ModelClient, ModelError, Request, Secret, Usage};
use tenon_model::{Endpoint, Gemini};
use tenon_testkit::{Value, json};

use crate::support::{KEY, Scripted, block_on, request, sse};

pub fn endpoint(base_url: &str) -> Endpoint {
    Endpoint {
        provider: "gemini".into(),
        base_url: base_url.into(),
        api_key: Some(Secret::new(KEY)),
        headers: Vec::new(),
    }
}

/// The deltas of one body, given in these pieces, and the error that ended them.
pub fn deltas(request: Request, pieces: Vec<Vec<u8>>) -> (Vec<Delta>, Option<ModelError>) {
    let client = Gemini::new(endpoint("http://127.0.0.1"), Scripted::new([pieces]));
    block_on(async {
        let mut stream = client.stream(request, Cancel::new());
        let mut seen = Vec::new();
        while let Some(delta) = stream.next().await {
            match delta {
                Ok(delta) => seen.push(delta),
                Err(error) => return (seen, Some(error)),
            }
        }
        (seen, None)
    })
}

pub fn read_text(body: &str) -> (Vec<Delta>, Option<ModelError>) {
    deltas(request("hi"), vec![body.as_bytes().to_vec()])
}

/// The deltas of an answer that is whole.
fn read(events: &[Value]) -> Vec<Delta> {
    let (seen, error) = read_text(&sse(events));
    assert_eq!(error, None);
    seen
}

/// A chunk with these parts.
pub fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], "modelVersion": "m", "responseId": "r"})
}

pub fn finish(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}]})
}

pub fn signed(what: &str, bytes: usize, signature: &str) -> Delta {
    Delta::ThinkingNative(
        json!({"wire": "gemini", "provider": "gemini", "signed": what, "bytes": bytes, "thoughtSignature": signature}),
    )
}

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

#[test]
fn text_thoughts_and_usage() {
    let events = [
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "**Plan**", "thought": true}]}, "index": 0}],
            "usageMetadata": {"promptTokenCount": 120, "totalTokenCount": 135, "thoughtsTokenCount": 15}}),
        parts(json!([{"text": "He"}, {"text": "llo"}])),
        json!({"candidates": [{"content": {"parts": [{"text": " 🦀"}], "role": "model"}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 120, "candidatesTokenCount": 8, "totalTokenCount": 143,
                "thoughtsTokenCount": 15, "cachedContentTokenCount": 100}}),
    ];
    let usage = |output, total, cache_read| {
        Delta::Usage(Usage { input: 120, output, cache_read, cache_write: 0, reasoning: 15, total })
    };
    assert_eq!(
        read(&events),
        [
            usage(15, 135, 0),
            Delta::Thinking("**Plan**".into()),
            text("He"),
            text("llo"),
            usage(23, 143, 100),
            text(" 🦀"),
            Delta::Finished(FinishReason::Stop),
        ]
    );
}

#[test]
fn calls_come_whole_and_as_written() {
    let body = concat!(
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[",
        "{\"functionCall\":{\"id\":\"fc-1\",\"name\":\"read_file\",\"args\":{ \"n\": 1.50, \"big\":123456789012345678901234567890,\"e\":1E2 }},\"thoughtSignature\":\"CiQB\"},",
        "{\"functionCall\":{\"id\":\"fc-2\",\"name\":\"ls\"}},",
        "{\"text\":\"Both.\"}]},\"finishReason\":\"STOP\",\"index\":0}]}\r\n\r\n",
    );
    let (seen, error) = read_text(body);
    assert_eq!(error, None);
    let started =
        |index, id: &str, name: &str| Delta::ToolCallStarted { index, id: id.into(), name: name.into() };
    let arguments = |index, text: &str| Delta::ToolCallArguments { index, fragment: text.into() };
    assert_eq!(
        seen,
        [
            started(0, "fc-1", "read_file"),
            arguments(0, r#"{ "n": 1.50, "big":123456789012345678901234567890,"e":1E2 }"#),
            Delta::ToolCallNative {
                index: 0,
                native: json!({"wire": "gemini", "provider": "gemini", "id": "fc-1", "thoughtSignature": "CiQB"}),
            },
            Delta::ToolCallEnded { index: 0 },
            started(1, "fc-2", "ls"),
            arguments(1, "{}"),
            Delta::ToolCallNative {
                index: 1,
                native: json!({"wire": "gemini", "provider": "gemini", "id": "fc-2"})
            },
            Delta::ToolCallEnded { index: 1 },
            text("Both."),
            Delta::Finished(FinishReason::ToolCalls),
        ]
    );
}

#[test]
fn calls_without_an_id_get_one() {
    let call = || json!({"functionCall": {"name": "ls", "args": {}}});
    let seen = read(&[parts(json!([call(), call()])), finish("STOP")]);
    let ids: Vec<&String> = seen
        .iter()
        .filter_map(|delta| match delta {
            Delta::ToolCallStarted { id, .. } => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.starts_with("call_")), "{ids:?}");
    assert!(!seen.iter().any(|delta| matches!(delta, Delta::ToolCallNative { .. })), "{seen:?}");
}

#[test]
fn signatures_stay_with_their_part() {
    let seen = read(&[
        parts(json!([{"text": "Hm", "thought": true}])),
        parts(json!([{"text": "ja", "thought": true, "thoughtSignature": "A"}])),
        parts(json!([{"text": "Grü"}, {"text": "ße", "thoughtSignature": "B"}])),
        parts(json!([{"text": "", "thoughtSignature": "C"}, {"text": ""}])),
        finish("STOP"),
    ]);
    assert_eq!(
        seen,
        [
            Delta::Thinking("Hm".into()),
            Delta::Thinking("ja".into()),
            signed("thought", 2, "A"),
            text("Grü"),
            text("ße"),
            signed("text", 3, "B"),
            signed("text", 0, "C"),
            Delta::Finished(FinishReason::Stop),
        ]
    );
}

#[test]
fn reasons_for_the_end() {
    use FinishReason::{Length, Refused, Stop, ToolCalls};
    let call = json!([{"functionCall": {"name": "ls", "args": {}}}]);
    for (reason, with_text, with_call) in [
        ("STOP", Stop, ToolCalls),
        ("SOMETHING_NEW", Stop, ToolCalls),
        ("MAX_TOKENS", Length, Length),
        ("SAFETY", Refused, Refused),
        ("RECITATION", Refused, Refused),
        ("BLOCKLIST", Refused, Refused),
        ("PROHIBITED_CONTENT", Refused, Refused),
        ("SPII", Refused, Refused),
        ("LANGUAGE", Refused, Refused),
        ("IMAGE_SAFETY", Refused, Refused),
        ("MODEL_ARMOR", Refused, Refused),
    ] {
        for (content, expected) in [(json!([{"text": "x"}]), with_text), (call.clone(), with_call)] {
            let seen = read(&[parts(content), finish(reason)]);
            assert_eq!(seen.last(), Some(&Delta::Finished(expected)), "{reason}");
        }
    }
}

#[test]
fn other_shapes_of_the_same_answer() {
    let (first, last) = (parts(json!([{"text": "a"}])), parts(json!([{"text": "b"}])));
    let mut last = last;
    last["candidates"][0]["finishReason"] = json!("STOP");
    let expected = [text("a"), text("b"), Delta::Finished(FinishReason::Stop)];
    for body in [
        sse(&[first.clone(), last.clone()]),
        format!("{}data: [DONE]\n\n", sse(&[first.clone(), last.clone()])),
        format!("data: {first}\r\n\r\n: keep-alive\r\n\r\ndata: {last}"),
        format!("[{first}\n,\n{last}]\n"),
        format!("\u{feff}[{first:#},\r\n{last:#}\n]"),
    ] {
        assert_eq!(read_text(&body), (expected.to_vec(), None), "{body}");
    }
    let whole = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]});
    assert_eq!(read_text(&whole.to_string()).0, [text("a"), Delta::Finished(FinishReason::Stop)]);
}

#[test]
fn what_is_not_known_is_passed_over() {
    let events = [
        json!({"responseId": "r"}),
        json!({"candidates": [{"index": 1, "content": {"parts": [{"text": "another"}]}, "finishReason": "SAFETY"}]}),
        json!({"candidates": [{"content": {}, "finishReason": "FINISH_REASON_UNSPECIFIED"}], "promptFeedback": {}}),
        parts(json!([{"executableCode": {"code": "1"}}, {"text": 7}, {"text": "x", "thought": false}])),
        // What comes after the reason still counts: older models give one with every chunk.
        finish("STOP"),
        parts(json!([{"text": "y"}])),
        json!({"usageMetadata": {"promptTokenCount": 3}}),
    ];
    let usage = Usage { input: 3, total: 3, ..Usage::default() };
    assert_eq!(
        read(&events),
        [text("x"), text("y"), Delta::Usage(usage), Delta::Finished(FinishReason::Stop)]
    );
}
