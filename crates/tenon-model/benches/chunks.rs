//! What a streamed chunk costs from bytes to delta.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench fails by panicking")]

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures_util::{StreamExt, stream};
use tenon_core::{
    BoxFut, Cancel, Message, ModelClient, ModelError, Reasoning, Request, Sampling, ToolChoice,
};
use tenon_model::{Endpoint, HttpRequest, HttpResponse, OpenAiChat, Transport};

const CHUNKS: usize = 1000;

fn chunks(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut group = criterion.benchmark_group("chunks");
    group.throughput(Throughput::Elements(CHUNKS as u64));
    for (name, delta) in [
        ("text", r#"{"content":" hello"}"#),
        ("arguments", r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a"}}]}"#),
    ] {
        let client = client(delta);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    let mut deltas = client.stream(request(), Cancel::new());
                    while let Some(delta) = deltas.next().await {
                        black_box(delta.unwrap());
                    }
                });
            });
        });
    }
}

fn client(delta: &str) -> OpenAiChat {
    let event = format!(
        r#"data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1763200000,"model":"m","system_fingerprint":"fp","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}]}}"#
    );
    let mut body: Vec<Bytes> = vec![Bytes::from(format!("{event}\n\n")); CHUNKS];
    body.push(Bytes::from_static(
        b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    ));
    let endpoint = Endpoint {
        provider: "bench".into(),
        base_url: "http://127.0.0.1/v1".into(),
        api_key: None,
        headers: Vec::new(),
    };
    OpenAiChat::new(endpoint, Arc::new(Memory(body)))
}

fn request() -> Request {
    Request {
        model: "m".into(),
        system: String::new(),
        messages: vec![Message::user("hi")],
        tools: Vec::new(),
        terminal_tool: None,
        tool_choice: ToolChoice::Auto,
        response_format: None,
        max_output_tokens: None,
        sampling: Sampling::default(),
        reasoning: Reasoning::default(),
        restartable: false,
    }
}

struct Memory(Vec<Bytes>);

impl Transport for Memory {
    fn send(&self, _exchange: HttpRequest, _cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
        let body = Box::pin(stream::iter(self.0.clone().into_iter().map(Ok)));
        Box::pin(async { Ok(HttpResponse { status: 200, headers: Vec::new(), body }) })
    }
}

criterion_group!(benches, chunks);
criterion_main!(benches);
