//! Any bytes as the answer of a server, whole and in pieces: no panic, one ending, the same deltas.
#![no_main]

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use libfuzzer_sys::fuzz_target;
use tenon_core::{
    BoxFut, Cancel, Delta, Message, ModelClient, ModelError, Reasoning, Request, Sampling, ToolChoice,
};
use tenon_model::{Endpoint, HttpRequest, HttpResponse, OpenAiChat, Transport};

fuzz_target!(|body: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let whole = runtime.block_on(read(vec![body.to_vec()]));
    let pieces = runtime.block_on(read(body.chunks(3).map(<[u8]>::to_vec).collect()));
    assert_eq!(whole, pieces);
});

/// What was given, the ids of calls aside: those we make ourselves are random.
async fn read(chunks: Vec<Vec<u8>>) -> Vec<Result<Delta, ModelError>> {
    let endpoint = Endpoint {
        provider: "fuzz".into(),
        base_url: "http://127.0.0.1/v1".into(),
        api_key: None,
        headers: Vec::new(),
    };
    let request = Request {
        model: "m".into(),
        system: String::new(),
        messages: vec![Message::user("hi")],
        tools: Vec::new(),
        terminal_tool: None,
        tool_choice: ToolChoice::Auto,
        response_format: None,
        max_output_tokens: None,
        restartable: false,
        sampling: Sampling::default(),
        reasoning: Reasoning::default(),
    };
    let mut deltas = OpenAiChat::new(endpoint, Arc::new(Bodies(chunks))).stream(request, Cancel::new());
    let mut given = Vec::new();
    let mut endings = 0;
    while let Some(mut delta) = deltas.next().await {
        assert_eq!(endings, 0, "nothing comes after the end");
        endings += usize::from(matches!(delta, Err(_) | Ok(Delta::Finished(_))));
        if let Ok(Delta::ToolCallStarted { id, .. }) = &mut delta {
            id.clear();
        }
        given.push(delta);
    }
    assert_eq!(endings, 1, "an answer has an end");
    given
}

struct Bodies(Vec<Vec<u8>>);

impl Transport for Bodies {
    fn send(&self, _exchange: HttpRequest, _cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
        let chunks: Vec<Result<Bytes, ModelError>> =
            self.0.iter().cloned().map(|chunk| Ok(chunk.into())).collect();
        let body = Box::pin(stream::iter(chunks));
        Box::pin(async { Ok(HttpResponse { status: 200, headers: Vec::new(), body }) })
    }
}
