//! Small constructors: a request, a client on a scripted server or on scripted bytes, a collected answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tenon_core::{
    BoxFut, Cancel, Delta, DeltaStream, FinishReason, Message, ModelClient, ModelError, Reasoning, Request,
    Sampling, Secret, ToolChoice, Usage,
};
use tenon_model::{Endpoint, Http, HttpOptions, HttpRequest, HttpResponse, OpenAiChat, Transport};
use tenon_testkit::{Server, Value, json};

pub const KEY: &str = "sk-test-1234567890";

pub fn request(text: &str) -> Request {
    Request {
        model: "test-model".into(),
        system: "Be brief.".into(),
        messages: vec![Message::user(text)],
        tools: Vec::new(),
        terminal_tool: None,
        tool_choice: ToolChoice::Auto,
        response_format: None,
        max_output_tokens: None,
        sampling: Sampling::default(),
        reasoning: Reasoning::default(),
        restartable: true,
    }
}

pub fn endpoint(base_url: &str) -> Endpoint {
    Endpoint {
        provider: "openai".into(),
        base_url: base_url.into(),
        api_key: Some(Secret::new(KEY)),
        headers: Vec::new(),
    }
}

pub fn http() -> Arc<Http> {
    Arc::new(Http::new(HttpOptions { user_agent: "tenon/test".into(), ..HttpOptions::default() }))
}

pub fn client(server: &Server) -> OpenAiChat {
    OpenAiChat::new(endpoint(&server.base_url()), http())
}

/// What a stream gave, folded.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    pub call_natives: Vec<(usize, Value)>,
    pub text: String,
    pub thinking: String,
    pub native: Option<Value>,
    /// Id, name, arguments, in order of their announcement.
    pub calls: Vec<(String, String, String)>,
    pub usage: Option<Usage>,
    pub finish: Option<FinishReason>,
    pub retries: Vec<(u32, std::time::Duration)>,
    /// From, to, status.
    pub switches: Vec<(String, String, Option<u16>)>,
    pub error: Option<ModelError>,
}

impl Answer {
    pub fn error(&self) -> &ModelError {
        self.error.as_ref().unwrap_or_else(|| panic!("no error: {self:?}"))
    }
}

pub async fn collect(mut deltas: DeltaStream) -> Answer {
    let mut answer = Answer::default();
    let mut indexes: Vec<usize> = Vec::new();
    while let Some(delta) = deltas.next().await {
        assert!(answer.error.is_none(), "an error ends the stream");
        let delta = match delta {
            Ok(delta) => delta,
            Err(error) => {
                answer.error = Some(error);
                continue;
            }
        };
        assert!(
            answer.finish.is_none() || matches!(delta, Delta::Retrying { .. } | Delta::SwitchedModel { .. }),
            "nothing after the finish: {delta:?}"
        );
        match delta {
            Delta::Text(text) => answer.text.push_str(&text),
            Delta::Thinking(text) => answer.thinking.push_str(&text),
            Delta::ThinkingNative(native) => answer.native = Some(native),
            Delta::ToolCallStarted { index, id, name } => {
                assert!(!indexes.contains(&index), "call {index} started twice");
                indexes.push(index);
                answer.calls.push((id, name, String::new()));
            }
            Delta::ToolCallArguments { index, fragment } => {
                let at = indexes.iter().position(|known| *known == index).expect("a started call");
                answer.calls[at].2.push_str(&fragment);
            }
            Delta::ToolCallRestored { index, arguments } => {
                let at = indexes.iter().position(|known| *known == index).expect("a started call");
                answer.calls[at].2 = arguments;
            }
            Delta::ToolCallNative { index, native } => answer.call_natives.push((index, native)),
            Delta::ToolCallEnded { .. } => {}
            Delta::Usage(usage) => answer.usage = Some(usage),
            Delta::Finished(reason) => answer.finish = Some(reason),
            Delta::Retrying { attempt, wait, .. } => {
                indexes.clear();
                let (mut retries, switches) = (answer.retries, answer.switches);
                retries.push((attempt, wait));
                answer = Answer { retries, switches, ..Answer::default() };
            }
            Delta::SwitchedModel { from, to, status, .. } => {
                indexes.clear();
                let (retries, mut switches) = (answer.retries, answer.switches);
                switches.push((from, to, status));
                answer = Answer { retries, switches, ..Answer::default() };
            }
        }
    }
    answer
}

pub async fn ask(client: &dyn ModelClient, request: Request) -> Answer {
    collect(client.stream(request, Cancel::new())).await
}

/// A transport that answers from memory, body chunk by body chunk.
#[derive(Default)]
pub struct Scripted {
    answers: Mutex<VecDeque<Vec<Vec<u8>>>>,
    pub seen: Mutex<Vec<HttpRequest>>,
}

impl Scripted {
    pub fn new(answers: impl IntoIterator<Item = Vec<Vec<u8>>>) -> Arc<Scripted> {
        Arc::new(Scripted { answers: Mutex::new(answers.into_iter().collect()), seen: Mutex::default() })
    }
}

impl Transport for Scripted {
    fn send(&self, exchange: HttpRequest, _cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
        self.seen.lock().unwrap().push(exchange);
        let chunks = self.answers.lock().unwrap().pop_front().expect("a scripted answer");
        let body = stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))));
        Box::pin(async { Ok(HttpResponse { status: 200, headers: Vec::new(), body: Box::pin(body) }) })
    }
}

/// The answer to one body, given in these pieces.
pub fn read(chunks: Vec<Vec<u8>>) -> Answer {
    let client = OpenAiChat::new(endpoint("http://127.0.0.1/v1"), Scripted::new([chunks]));
    block_on(ask(&client, request("hi")))
}

/// The answer to a stream of these events and `[DONE]`.
pub fn read_events(events: &[Value]) -> Answer {
    read(vec![format!("{}data: [DONE]\n\n", sse(events)).into_bytes()])
}

pub fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// A chunk with this delta.
pub fn delta(delta: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

pub fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
