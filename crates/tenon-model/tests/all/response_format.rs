//! Text that stands for a terminal call, however it arrives.

use std::sync::{Arc, Mutex};

use futures_util::stream;
use proptest::prelude::*;
use tenon_core::{
    Cancel, Delta, DeltaStream, FinishReason, Message, ModelClient, Part, Request, ResponseFormat, Role,
    ToolCall, ToolResult,
};
use tenon_model::TextAsCall;
use tenon_testkit::json;

use crate::support::{Answer, ask, block_on, request};

/// Gives these deltas, and keeps what it was asked.
struct Scripted {
    deltas: Vec<Delta>,
    asked: Mutex<Option<Request>>,
}

impl ModelClient for Scripted {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        *self.asked.lock().unwrap() = Some(request);
        Box::pin(stream::iter(self.deltas.clone().into_iter().map(Ok)))
    }
}

fn formatted() -> Request {
    let format = ResponseFormat { name: "structured_output".into(), schema: json!({"type": "object"}) };
    Request { response_format: Some(format), ..request("hi") }
}

fn translated(deltas: Vec<Delta>) -> Answer {
    let client = TextAsCall::new(Arc::new(Scripted { deltas, asked: Mutex::default() }));
    block_on(ask(&client, formatted()))
}

fn texts(pieces: &[&str], reason: FinishReason) -> Answer {
    let texts = pieces.iter().map(|piece| Delta::Text((*piece).to_owned()));
    translated(texts.chain([Delta::Finished(reason)]).collect())
}

/// The arguments of the one call, and the text beside it.
fn taken(answer: &Answer) -> (Option<&str>, &str) {
    assert!(answer.calls.len() <= 1, "{answer:?}");
    let call = answer.calls.first().map(|(_, name, arguments)| {
        assert_eq!(name, "structured_output");
        arguments.as_str()
    });
    (call, &answer.text)
}

#[test]
fn what_is_the_payload_and_what_is_not() {
    for (text, payload, rest) in [
        ("{\"a\":1}", Some("{\"a\":1}"), ""),
        ("\n {\"a\": 1}\n", Some("{\"a\": 1}\n"), ""),
        ("[1]", Some("[1]"), ""),
        ("\"{}\"", Some("\"{}\""), ""),
        ("```json\n{\"a\": 1}\n```", Some("{\"a\": 1}"), ""),
        ("```\n{\"a\": 1}\n```\n\n", Some("{\"a\": 1}"), ""),
        ("```json\n{\"a\": 1}\n```\nThere.", Some("{\"a\": 1}"), "There."),
        ("```json {\"a\": \"``` }```\"} ```", Some("{\"a\": \"``` }```\"}"), ""),
        ("```json\r\n{\"a\": \"x\\n```\"}\r\n```", Some("{\"a\": \"x\\n```\"}"), ""),
        // Not JSON: a bad answer, which the model is told about.
        ("No idea.", Some("No idea."), ""),
        ("``not a fence``", Some("``not a fence``"), ""),
        ("```python\nprint(1)\n```", Some("```python\nprint(1)\n```"), ""),
        ("", None, ""),
        (" \n", None, ""),
    ] {
        assert_eq!(taken(&texts(&[text], FinishReason::Stop)), (payload, rest), "{text:?}");
    }
    // A refusal is no answer, and neither is the beginning of a remark.
    assert_eq!(taken(&texts(&["I will not."], FinishReason::Refused)), (None, "I will not."));
    assert_eq!(taken(&texts(&["Well, "], FinishReason::Length)), (None, "Well, "));
    assert_eq!(taken(&texts(&["{\"a\": "], FinishReason::Length)), (Some("{\"a\": "), ""));
}

#[test]
fn text_beside_calls_is_a_remark() {
    let call = Delta::ToolCallStarted { index: 0, id: "a".into(), name: "look".into() };
    let answer = translated(vec![
        Delta::Text("Let me ".into()),
        Delta::Text("look.".into()),
        call.clone(),
        Delta::Text(" Done.".into()),
        Delta::Finished(FinishReason::ToolCalls),
    ]);
    assert_eq!(answer.text, "Let me look. Done.");
    assert_eq!(answer.calls, [("a".to_owned(), "look".to_owned(), String::new())]);
    // JSON beside a call is still an answer: what becomes of the two is not decided here.
    let answer = translated(vec![Delta::Text("{}".into()), call, Delta::Finished(FinishReason::ToolCalls)]);
    let names: Vec<&str> = answer.calls.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(names, ["structured_output", "look"]);
}

#[test]
fn earlier_answers_go_out_as_text() {
    let call = |id: &str, terminal: bool| {
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: if terminal { "structured_output" } else { "look" }.into(),
            arguments: "{\"a\":0}".into(),
            terminal,
            native: None,
        })
    };
    let result = |id: &str, is_error: bool| {
        let (call_id, name, content) = (id.to_owned(), "any".to_owned(), "/a: too small".to_owned());
        Part::ToolResult(ToolResult { call_id, name, content, is_error, media: Vec::new(), stored: None })
    };
    let mut request = formatted();
    request.messages.push(Message { role: Role::Assistant, parts: vec![call("t", true), call("o", false)] });
    request.messages.push(Message { role: Role::User, parts: vec![result("t", true), result("o", false)] });
    let inner = Arc::new(Scripted { deltas: Vec::new(), asked: Mutex::default() });
    block_on(ask(&TextAsCall::new(inner.clone()), request.clone()));
    let asked = inner.asked.lock().unwrap().take().unwrap();
    assert_eq!(asked.messages[1].text(), "{\"a\":0}");
    assert_eq!(asked.messages[1].tool_calls().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["o"]);
    assert_eq!(
        asked.messages[2].text(),
        "That answer does not fit the schema:\n/a: too small\nWrite the whole answer again, as JSON and nothing else."
    );
    assert!(matches!(&asked.messages[2].parts[1], Part::ToolResult(result) if result.call_id == "o"));
    // Without a response format nothing is touched.
    request.response_format = None;
    block_on(ask(&TextAsCall::new(inner.clone()), request));
    let asked = inner.asked.lock().unwrap().take().unwrap();
    assert_eq!(asked.messages[1].tool_calls().count(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(256)))]

    /// Where the pieces of a text end does not matter.
    #[test]
    fn prop_pieces_do_not_matter(
        text in r#"[ \n]{0,2}(```)?(json|js)?[ \n]?(\{("[a`\\n ]{0,4}"|[a`{} \n]){0,8}\})?[\n ]{0,2}(```)?[a \n]{0,3}"#,
        cuts in prop::collection::vec(0_usize..40, 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&text[from..cut]);
            from = cut;
        }
        pieces.push(&text[from..]);
        let (whole, split) = (texts(&[&text], FinishReason::Stop), texts(&pieces, FinishReason::Stop));
        prop_assert_eq!(taken(&whole), taken(&split));
    }
}
