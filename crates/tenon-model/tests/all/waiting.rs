//! How long an answer is waited for, and what may come after its end. The clock is not the real one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tenon_core::{BoxFut, Cancel, ErrorClass, FinishReason, ModelClient, ModelError};
use tenon_model::{Anthropic, Gemini, HttpRequest, HttpResponse, OpenAiChat, OpenAiResponses, Transport};
use tokio::time::{Instant, pause, sleep};

use crate::support::{Answer, ask, endpoint, request};

const SIGNS: [&str; 3] = [": PROCESSING\n\n", "\n", "x"];

/// What a wire says in these tests.
struct Wire {
    client: fn(Arc<dyn Transport>) -> Box<dyn ModelClient>,
    /// The text `a`.
    text: &'static str,
    /// An event that says nothing.
    nothing: &'static str,
    /// The reason for the end, and no more than that. On the wire that has `None` the answer is then over.
    end: Option<&'static str>,
}

const CHAT: Wire = Wire {
    client: |transport| Box::new(OpenAiChat::new(endpoint("http://127.0.0.1/v1"), transport)),
    text: r#"data: {"choices":[{"index":0,"delta":{"content":"a"}}]}"#,
    nothing: r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
    end: Some(r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#),
};

const WIRES: [Wire; 4] = [
    CHAT,
    Wire {
        client: |transport| Box::new(Anthropic::new(endpoint("http://127.0.0.1"), transport)),
        text: r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
        nothing: r#"data: {"type":"ping"}"#,
        end: Some(r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#),
    },
    Wire {
        client: |transport| Box::new(OpenAiResponses::new(endpoint("http://127.0.0.1/v1"), transport)),
        text: r#"data: {"type":"response.output_text.delta","output_index":0,"delta":"a"}"#,
        nothing: r#"data: {"type":"response.in_progress"}"#,
        end: None,
    },
    Wire {
        client: |transport| Box::new(Gemini::new(endpoint("http://127.0.0.1"), transport)),
        text: r#"data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#,
        nothing: r#"data: {"candidates":[{"content":{"parts":[{"text":""}]}}]}"#,
        end: Some(r#"data: {"candidates":[{"finishReason":"STOP"}]}"#),
    },
];

impl Wire {
    async fn ask(&self, status: u16, steps: Vec<Step>) -> (Answer, Duration) {
        let start = Instant::now();
        let client = (self.client)(Arc::new(Slow { status, steps }));
        (ask(&*client, request("hi")).await, start.elapsed())
    }
}

#[derive(Clone)]
enum Step {
    Say(String),
    Wait(Duration),
    Break,
    /// The two steps before this one, for ever.
    Repeat,
}

fn event(text: &str) -> Step {
    Step::Say(format!("{text}\n\n"))
}

/// Says this again and again.
fn every(gap: Duration, text: &str) -> [Step; 3] {
    [Step::Wait(gap), Step::Say(text.to_owned()), Step::Repeat]
}

/// Answers with these steps, and keeps the connection open after the last one.
struct Slow {
    status: u16,
    steps: Vec<Step>,
}

impl Transport for Slow {
    fn send(&self, _exchange: HttpRequest, _cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
        let body = stream::unfold((self.steps.clone(), 0), |(steps, mut at)| async move {
            loop {
                match steps.get(at) {
                    None => std::future::pending().await,
                    Some(Step::Wait(time)) => sleep(*time).await,
                    Some(Step::Repeat) => {
                        at -= 2;
                        continue;
                    }
                    Some(Step::Say(text)) => {
                        let bytes = Bytes::from(text.clone());
                        return Some((Ok(bytes), (steps, at + 1)));
                    }
                    Some(Step::Break) => {
                        let error = ModelError::new(ErrorClass::Network, "the connection broke");
                        return Some((Err(error), (steps, at + 1)));
                    }
                }
                at += 1;
            }
        });
        let status = self.status;
        Box::pin(async move { Ok(HttpResponse { status, headers: Vec::new(), body: Box::pin(body) }) })
    }
}

const SECOND: Duration = Duration::from_secs(1);
const TEN_MINUTES: Duration = Duration::from_secs(600);

#[tokio::test]
async fn signs_of_life_are_not_an_answer() {
    pause();
    for wire in WIRES {
        let nothing = format!("{}\n\n", wire.nothing);
        for sign in SIGNS.into_iter().chain([nothing.as_str()]) {
            for (start, said) in [(wire.nothing, ""), (wire.text, "a"), (":", "")] {
                let steps = [vec![event(start)], every(SECOND / 2, sign).to_vec()].concat();
                let (answer, time) = wire.ask(200, steps).await;
                assert_eq!(answer.text, said, "{start} {sign:?}");
                let error = answer.error();
                assert_eq!(
                    error.message,
                    "the server kept the connection open for 600 s without saying anything"
                );
                assert_eq!((error.class, error.retryable), (ErrorClass::Network, true));
                assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("`timeouts.idle`")));
                assert_eq!(time.as_secs(), TEN_MINUTES.as_secs(), "{start} {sign:?}");
            }
        }
    }
}

#[tokio::test]
async fn blank_lines_and_spaces_are_not_an_answer() {
    pause();
    for (start, message) in [
        ("\n", "the server kept the connection open for 600 s without saying anything"),
        ("{", "the server had not sent all of its answer after 600 s"),
    ] {
        let steps = [vec![Step::Say(start.to_owned())], every(SECOND / 2, " ").to_vec()].concat();
        let (answer, time) = CHAT.ask(200, steps).await;
        assert_eq!(answer.error().message, message);
        assert_eq!((answer.error().class, answer.error().retryable), (ErrorClass::Network, true));
        assert_eq!(time.as_secs(), TEN_MINUTES.as_secs());
    }
}

#[tokio::test]
async fn a_slow_answer_is_waited_for() {
    pause();
    for wire in WIRES {
        let Some(end) = wire.end else { continue };
        let mut steps = Vec::new();
        for _ in 0..5 {
            steps.extend([event(wire.text), Step::Wait(TEN_MINUTES - SECOND)]);
        }
        steps.push(event(end));
        let (answer, _) = wire.ask(200, steps).await;
        assert_eq!((answer.text.as_str(), answer.finish), ("aaaaa", Some(FinishReason::Stop)), "{answer:?}");
    }
}

/// The first byte has a deadline of its own.
#[tokio::test]
async fn the_wait_begins_with_the_first_byte() {
    pause();
    let wait = Step::Wait(2 * TEN_MINUTES);
    let steps = vec![wait, event(CHAT.text), event("data: [DONE]")];
    let (answer, _) = CHAT.ask(200, steps).await;
    assert_eq!((answer.text.as_str(), answer.error), ("a", None));
}

#[tokio::test]
async fn a_server_that_never_closes_is_not_waited_for() {
    pause();
    for wire in WIRES {
        let Some(end) = wire.end else { continue };
        for after in [vec![], every(SECOND / 4, ": PROCESSING\n\n").to_vec()] {
            let steps = [vec![event(wire.text), event(end)], after].concat();
            let (answer, time) = wire.ask(200, steps).await;
            assert_eq!((answer.text.as_str(), answer.finish), ("a", Some(FinishReason::Stop)), "{answer:?}");
            assert_eq!(time.as_secs(), 1, "{end}");
        }
    }
}

#[tokio::test]
async fn what_comes_soon_after_the_end_counts() {
    pause();
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let late = |text| [Step::Wait(SECOND / 2), event(text)];
    let end = CHAT.end.unwrap();
    let steps = [&[event(end)][..], &late(CHAT.text), &late(CHAT.text), &late(CHAT.text), &late(usage)];
    let (answer, _) = CHAT.ask(200, steps.concat()).await;
    assert_eq!((answer.text.as_str(), answer.error.as_ref()), ("aaa", None));
    assert_eq!(answer.usage.map(|usage| usage.total), Some(5));
}

#[tokio::test]
async fn what_breaks_after_the_end_does_not_matter() {
    pause();
    for wire in WIRES {
        let Some(end) = wire.end else { continue };
        for after in [
            event(r#"data: {"error":{"message":"m","code":503}}"#),
            event("event: error\ndata: it broke"),
            event("data: garbage"),
            event("data: {\"choi"),
            Step::Break,
        ] {
            let (answer, _) = wire.ask(200, vec![event(wire.text), event(end), after]).await;
            assert_eq!((answer.text.as_str(), answer.finish), ("a", Some(FinishReason::Stop)), "{answer:?}");
            assert_eq!(answer.error, None);
        }
    }
}

#[tokio::test]
async fn an_error_after_a_bad_end_explains_it() {
    let end = r#"data: {"choices":[{"delta":{},"finish_reason":"error"}]}"#;
    let report = r#"data: {"error":{"message":"too busy","code":503}}"#;
    let (answer, _) = CHAT.ask(200, vec![event(end), event(report)]).await;
    assert_eq!(answer.error().class, ErrorClass::Overloaded);
    assert!(answer.error().message.ends_with(": too busy"), "{}", answer.error().message);
}

#[tokio::test]
async fn the_words_of_an_error_are_not_waited_for_long() {
    pause();
    for wire in WIRES {
        let (answer, time) = wire.ask(503, every(SECOND / 2, "x").to_vec()).await;
        assert_eq!((answer.error().class, answer.error().http_status), (ErrorClass::Overloaded, Some(503)));
        assert_eq!(time.as_secs(), 10);
    }
}
