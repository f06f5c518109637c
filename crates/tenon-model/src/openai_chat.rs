//! OpenAI chat completions, streaming, and every server that speaks something close to it.
//!
//! One request is one POST (`openai_chat/body.rs`). The answer is an event stream of chunks
//! (`openai_chat/chunk.rs`), or a whole JSON object from servers that do not stream; either way
//! `openai_chat/assemble.rs` turns it into deltas. This file makes the exchange and says what an event is;
//! `answer.rs` drives it.

mod assemble;
mod body;
mod chunk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenon_core::{Cancel, DeltaStream, ModelClient, ModelError, Request, Secrets, ToolChoice};

use crate::adapt::{Offer, Strictness, Target, blames_schema, offers};
use crate::answer::{Give, Next, Reader, Trouble, read_answer};
use crate::call_id::CallIds;
use crate::delta_stream::Out;
use crate::endpoint::shown_url;
use crate::errors::{self, Asked, MAX_ERROR_BODY_BYTES};
use crate::restore::Restoring;
use crate::retry_after::retry_after;
use crate::sse;
use crate::transport::read_start;
use crate::wire::{self, Wire};
use crate::{Endpoint, HttpResponse, Transport};
use assemble::Assembler;
use body::{StreamOptions, Terms};
use chunk::Chunk;

pub struct OpenAiChat {
    server: Arc<Server>,
}

struct Server {
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
    secrets: Secrets,
    /// The server has refused `stream_options` before.
    refuses_stream_options: AtomicBool,
    /// The server has refused a schema in strict mode before.
    refuses_strict: AtomicBool,
    refuses_forced: AtomicBool,
}

impl OpenAiChat {
    pub fn new(endpoint: Endpoint, transport: Arc<dyn Transport>) -> OpenAiChat {
        let secrets = endpoint.secrets();
        let server = Server {
            endpoint,
            transport,
            secrets,
            refuses_stream_options: AtomicBool::new(false),
            refuses_strict: AtomicBool::new(false),
            refuses_forced: AtomicBool::new(false),
        };
        OpenAiChat { server: Arc::new(server) }
    }
}

impl ModelClient for OpenAiChat {
    fn stream(&self, request: Request, cancel: Cancel) -> DeltaStream {
        wire::stream(&self.server, request, cancel)
    }
}

impl Wire for Server {
    fn provider(&self) -> &str {
        &self.endpoint.provider
    }

    async fn answer(&self, request: &Request, cancel: &Cancel, out: &Out) -> Result<(), ModelError> {
        let asked = Asked::of(&self.endpoint.provider, request, &self.secrets);
        let (response, offers) = self.ask(request, cancel, &asked).await?;
        let mut reader = Restoring::new(Assembler::new(CallIds::of(request)), &offers);
        let (url, patience) = (shown_url(&self.url()), self.transport.patience());
        read_answer(response.body, &mut reader, &asked, &url, patience, out).await
    }
}

impl Server {
    /// The answer to the request, once it is a success, and what the tools were offered as.
    async fn ask<'a>(
        &self,
        request: &'a Request,
        cancel: &Cancel,
        asked: &Asked<'_>,
    ) -> Result<(HttpResponse, Vec<Offer<'a>>), ModelError> {
        let target = Target::of_chat(&self.endpoint.base_url);
        loop {
            let options = if self.refuses_stream_options.load(Ordering::Relaxed) {
                StreamOptions::Omit
            } else {
                StreamOptions::IncludeUsage
            };
            let strictness = if self.refuses_strict.load(Ordering::Relaxed) {
                Strictness::Never
            } else {
                Strictness::WherePossible
            };
            let forced = request.tool_choice != ToolChoice::Auto;
            let refuses_forced = self.refuses_forced.load(Ordering::Relaxed);
            let choice = if refuses_forced { &ToolChoice::Auto } else { &request.tool_choice };
            let offers = offers(request, target, strictness);
            let url = self.url();
            let body = body::json(request, &offers, &Terms { choice, target, options, strictness }, &url)?;
            let exchange = self.endpoint.post_with_bearer(url, body);
            let response = self.transport.send(exchange, cancel.clone()).await?;
            if (200..300).contains(&response.status) {
                return Ok((response, offers));
            }
            let (status, wait) = (response.status, retry_after(&response));
            let body = read_start(response.body, MAX_ERROR_BODY_BYTES).await;
            let about_options = matches!(status, 400 | 422) && body.contains("stream_options");
            if about_options && options == StreamOptions::IncludeUsage {
                self.refuses_stream_options.store(true, Ordering::Relaxed);
                continue;
            }
            // Models that always think cannot be told which tool to call; asking is then all there is.
            if forced && !refuses_forced && matches!(status, 400 | 422) && body.contains("tool_choice") {
                self.refuses_forced.store(true, Ordering::Relaxed);
                continue;
            }
            if strictness != Strictness::Never && target != Target::Compatible && blames_schema(status, &body)
            {
                self.refuses_strict.store(true, Ordering::Relaxed);
                continue;
            }
            return Err(errors::from_status(status, &body, wait, asked));
        }
    }

    fn url(&self) -> String {
        self.endpoint.url("/chat/completions")
    }
}

impl Reader for Assembler {
    fn event(&mut self, event: &sse::Event, give: Give<'_>) -> Result<Next, Trouble> {
        let data = event.data.trim();
        if data == "[DONE]" {
            return Ok(Next::Done);
        }
        if event.name.as_deref() == Some("error") {
            return Err(Trouble::ErrorReport);
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|_| Trouble::NotJson)?;
        if chunk.is_error() {
            return Err(Trouble::ErrorReport);
        }
        self.chunk(&chunk, give);
        Ok(Next::More)
    }

    fn whole(&mut self, json: &str, give: Give<'_>) -> Result<(), Trouble> {
        let chunk: Chunk<'_> = serde_json::from_str(json).map_err(|_| Trouble::NotJson)?;
        if chunk.is_error() || chunk.choices.is_none() {
            return Err(Trouble::ErrorReport);
        }
        self.whole_message(&chunk, give);
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.knows_reason()
    }

    fn finish(&mut self, give: Give<'_>) -> Result<(), ModelError> {
        if self.ended_in_error() {
            return Err(errors::unexplained());
        }
        self.give_rest(give);
        Ok(())
    }
}
