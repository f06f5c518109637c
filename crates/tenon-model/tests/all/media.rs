//! Images in a conversation: how each wire writes them, which are left out, and models that cannot see.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::stream;
use tenon_core::{
    Cancel, Delta, DeltaStream, ErrorClass, FinishReason, Media, Message, ModelClient, ModelError, Part,
    Request, Role, ToolCall, ToolResult,
};
use tenon_model::{Anthropic, Carries, Gemini, OpenAiChat, OpenAiResponses, WithoutUnseen};
use tenon_testkit::{Server, Value, Wire, json, reply};

use crate::support::{ask, block_on, endpoint, http, request};

fn media(mime: &str, data: &str) -> Media {
    Media { mime: mime.into(), data: data.into() }
}

fn result(id: &str, is_error: bool, media: Vec<Media>) -> Part {
    let (call_id, name, content) = (id.to_owned(), "shot".to_owned(), format!("{id} is done"));
    Part::ToolResult(ToolResult { call_id, name, content, is_error, media, stored: None })
}

/// A user shows something; two tools show something, one of which failed.
fn conversation() -> Request {
    let call = |id: &str| {
        let (name, arguments) = ("shot".to_owned(), "{}".to_owned());
        Part::ToolCall(ToolCall { id: id.into(), name, arguments, terminal: false, native: None })
    };
    let mut request = request("");
    let asked = vec![Part::Text { text: "What is this?".into() }, Part::Media(media("image/png", "AAAA"))];
    request.messages = vec![
        Message { role: Role::User, parts: asked },
        Message { role: Role::Assistant, parts: vec![call("a"), call("b")] },
        Message {
            role: Role::User,
            parts: vec![
                result("a", false, vec![media("image/jpeg", "BBBB")]),
                result("b", true, vec![media("image/gif", "CCCC")]),
            ],
        },
    ];
    request
}

fn sent(wire: Wire) -> Value {
    sent_of(wire, conversation())
}

fn sent_of(wire: Wire, request: Request) -> Value {
    let server = Server::start([reply().text("A picture.")]);
    let client: Arc<dyn ModelClient> = match wire {
        Wire::Chat => Arc::new(OpenAiChat::new(endpoint(&server.base_url()), http())),
        Wire::Responses => Arc::new(OpenAiResponses::new(endpoint(&server.base_url()), http())),
        Wire::Messages => Arc::new(Anthropic::new(endpoint(&server.origin()), http())),
        Wire::Gemini => Arc::new(Gemini::new(endpoint(&server.origin()), http())),
    };
    block_on(ask(&WithoutUnseen::new(client, Carries::Images), request));
    server.request(0).body
}

#[test]
fn chat_shows_images_after_the_results() {
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        sent(Wire::Chat)["messages"].as_array().unwrap()[1..],
        [
            json!({"role": "user", "content": [text("What is this?"), image("data:image/png;base64,AAAA")]}),
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "shot", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "shot", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": "a", "content": "a is done"}),
            json!({"role": "tool", "tool_call_id": "b", "content": "b is done"}),
            json!({"role": "user", "content": [
                text("`shot` returned:"), image("data:image/jpeg;base64,BBBB"),
                text("`shot` returned:"), image("data:image/gif;base64,CCCC")]}),
        ]
    );
}

#[test]
fn responses_show_images_after_the_results() {
    let image = |url: &str| json!({"type": "input_image", "image_url": url, "detail": "auto"});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let input = sent(Wire::Responses)["input"].clone();
    assert_eq!(input[0]["content"], json!([text("What is this?"), image("data:image/png;base64,AAAA")]));
    assert_eq!(
        (&input[3]["type"], &input[4]["type"]),
        (&json!("function_call_output"), &json!("function_call_output"))
    );
    assert_eq!(
        input[5]["content"],
        json!([
            text("`shot` returned:"),
            image("data:image/jpeg;base64,BBBB"),
            text("`shot` returned:"),
            image("data:image/gif;base64,CCCC")
        ])
    );
}

#[test]
fn messages_show_images_in_the_results_unless_those_failed() {
    let image = |mime: &str, data: &str| json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}});
    let messages = sent(Wire::Messages)["messages"].clone();
    let without_marks = |mut block: Value| {
        block.as_object_mut().unwrap().remove("cache_control");
        block
    };
    let blocks = |at: usize| -> Vec<Value> {
        messages[at]["content"].as_array().unwrap().iter().cloned().map(without_marks).collect()
    };
    assert_eq!(blocks(0), [json!({"type": "text", "text": "What is this?"}), image("image/png", "AAAA")]);
    assert_eq!(
        blocks(2),
        [
            json!({"type": "tool_result", "tool_use_id": "a",
                "content": [{"type": "text", "text": "a is done"}, image("image/jpeg", "BBBB")]}),
            json!({"type": "tool_result", "tool_use_id": "b", "content": "b is done", "is_error": true}),
            image("image/gif", "CCCC"),
        ]
    );
}

#[test]
fn gemini_shows_images_as_parts_of_the_turn() {
    let contents = sent(Wire::Gemini)["contents"].clone();
    let image = |mime: &str, data: &str| json!({"inlineData": {"mimeType": mime, "data": data}});
    assert_eq!(contents[0]["parts"], json!([{"text": "What is this?"}, image("image/png", "AAAA")]));
    let parts = contents[2]["parts"].as_array().unwrap();
    assert!(parts[0]["functionResponse"].is_object() && parts[1]["functionResponse"].is_object());
    assert_eq!(
        parts[2..],
        [
            json!({"text": "`shot` returned:"}),
            image("image/jpeg", "BBBB"),
            json!({"text": "`shot` returned:"}),
            image("image/gif", "CCCC")
        ]
    );
}

/// Answers from a list; keeps what it was asked.
#[derive(Default)]
struct Scripted {
    answers: Mutex<VecDeque<Result<Delta, ModelError>>>,
    asked: Mutex<Vec<Request>>,
}

impl Scripted {
    fn new(answers: Vec<Result<Delta, ModelError>>) -> Arc<Scripted> {
        Arc::new(Scripted { answers: Mutex::new(answers.into()), asked: Mutex::default() })
    }

    /// The media of each request, and all text of its last message.
    fn seen(&self) -> Vec<(Vec<String>, String)> {
        let asked = self.asked.lock().unwrap();
        let media_of = |part: &Part| match part {
            Part::Media(media) => vec![media.mime.clone()],
            Part::ToolResult(result) => result.media.iter().map(|media| media.mime.clone()).collect(),
            _ => Vec::new(),
        };
        let text_of = |part: &Part| match part {
            Part::Text { text } => text.clone(),
            Part::ToolResult(result) => result.content.clone(),
            _ => String::new(),
        };
        asked
            .iter()
            .map(|request| {
                let parts = || request.messages.iter().flat_map(|message| &message.parts);
                (parts().flat_map(media_of).collect(), parts().map(text_of).collect())
            })
            .collect()
    }
}

impl ModelClient for Scripted {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        self.asked.lock().unwrap().push(request);
        let answer =
            self.answers.lock().unwrap().pop_front().unwrap_or(Ok(Delta::Finished(FinishReason::Stop)));
        Box::pin(stream::iter([answer]))
    }
}

fn refusal(status: u16, message: &str) -> Result<Delta, ModelError> {
    Err(ModelError { http_status: Some(status), ..ModelError::new(ErrorClass::Protocol, message) })
}

#[test]
fn a_pdf_is_a_document_on_every_wire() {
    let url = "data:application/pdf;base64,AAAA";
    let source = json!({"type": "base64", "media_type": "application/pdf", "data": "AAAA"});
    let file = json!({"type": "file", "file": {"filename": "document.pdf", "file_data": url}});
    let input_file = json!({"type": "input_file", "filename": "document.pdf", "file_data": url});
    let inline = json!({"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}});
    for (wire, at, wanted) in [
        (Wire::Chat, "/messages/1/content/1", file),
        (Wire::Responses, "/input/0/content/1", input_file),
        (Wire::Messages, "/messages/0/content/1", json!({"type": "document", "source": source})),
        (Wire::Gemini, "/contents/0/parts/1", inline),
    ] {
        let mut request = request("");
        let parts = vec![Part::Text { text: "Read.".into() }, Part::Media(media("application/pdf", "AAAA"))];
        request.messages = vec![Message { role: Role::User, parts }];
        let body = sent_of(wire, request);
        let mut found = body.pointer(at).cloned().unwrap_or_default();
        // Where a conversation may be kept for later is marked on its last block.
        if let Some(fields) = found.as_object_mut() {
            fields.remove("cache_control");
        }
        assert_eq!(found, wanted, "{wire:?}: {body}");
    }
}

#[test]
fn what_a_wire_does_not_carry_is_named_instead() {
    let mut request = request("");
    let shown = vec![media("audio/wav", "AAAA"), media("image/png", "AAAA"), media("image/tiff", "AAAA")];
    request.messages = vec![Message { role: Role::User, parts: vec![result("a", false, shown)] }];
    for (carries, expected) in
        [(Carries::Images, vec!["image/png"]), (Carries::ImagesAndMore, vec!["audio/wav", "image/png"])]
    {
        let inner = Scripted::new(Vec::new());
        block_on(ask(&WithoutUnseen::new(inner.clone(), carries), request.clone()));
        let (media, text) = inner.seen().remove(0);
        assert_eq!(media, expected);
        assert!(
            text.contains("\n[image/tiff, 3 bytes: not shown: models of this kind are shown no such files]"),
            "{text}"
        );
    }
}

#[test]
fn the_newest_are_kept_when_there_are_too_many_or_too_much() {
    let mut request = request("");
    let one = |n: usize| {
        let part = Part::Media(Media { mime: "image/png".into(), data: format!("{n:04}").into() });
        Message { role: Role::User, parts: vec![part] }
    };
    request.messages = (0..25).map(one).collect();
    let inner = Scripted::new(Vec::new());
    block_on(ask(&WithoutUnseen::new(inner.clone(), Carries::Images), request.clone()));
    let asked = inner.asked.lock().unwrap().remove(0);
    let kept = |message: &Message| matches!(message.parts[0], Part::Media(_));
    assert_eq!(
        asked.messages.iter().map(kept).collect::<Vec<_>>(),
        [vec![false; 5], vec![true; 20]].concat()
    );

    let large = Media { mime: "image/png".into(), data: "A".repeat(5 * 1024 * 1024).into() };
    request.messages = vec![Message { role: Role::User, parts: vec![Part::Media(large); 4] }];
    block_on(ask(&WithoutUnseen::new(inner.clone(), Carries::Images), request));
    assert_eq!(inner.seen()[0].0.len(), 2);
}

#[test]
fn a_model_that_refuses_images_is_asked_without_them_from_then_on() {
    let inner = Scripted::new(vec![refusal(400, "this model does not support image input")]);
    let client = WithoutUnseen::new(inner.clone(), Carries::Images);
    block_on(ask(&client, conversation()));
    block_on(ask(&client, conversation()));
    let counts: Vec<usize> = inner.seen().iter().map(|(media, _)| media.len()).collect();
    assert_eq!(counts, [3, 0, 0]);
    assert!(inner.seen()[2].1.contains("[image/jpeg, 3 bytes: not shown: this model cannot see it]"));
    // Another model may see.
    let other = Request { model: "other".into(), ..conversation() };
    block_on(ask(&client, other));
    assert_eq!(inner.seen()[3].0.len(), 3);
}

#[test]
fn other_failures_are_nobody_s_blindness() {
    for (status, message) in
        [(429, "too many image requests"), (400, "the schema is wrong"), (401, "no image for you")]
    {
        let inner = Scripted::new(vec![refusal(status, message)]);
        block_on(ask(&WithoutUnseen::new(inner.clone(), Carries::Images), conversation()));
        assert_eq!(inner.asked.lock().unwrap().len(), 1, "{status} {message}");
    }
    // Without an image it cannot be the image.
    let inner = Scripted::new(vec![refusal(400, "image")]);
    block_on(ask(&WithoutUnseen::new(inner.clone(), Carries::Images), request("hi")));
    assert_eq!(inner.asked.lock().unwrap().len(), 1);
}
