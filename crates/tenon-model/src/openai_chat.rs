//! OpenAI chat completions, streaming, and every server that speaks something close to it.
//!
//! One request is one POST (`openai_chat/body.rs`). The answer is an event stream of chunks
//! (`openai_chat/chunk.rs`), or a whole JSON object from servers that do not stream; either way
//! `openai_chat/assemble.rs` turns it into deltas. This file drives the exchange: it decides which of the
//! two came, when the answer is over, and whether it was whole.

mod assemble;
mod body;
mod chunk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tenon_core::{Cancel, DeltaStream, ModelClient, ModelError, Part, Request};

use crate::delta_stream::{Out, deltas};
use crate::endpoint::shown_url;
use crate::errors::{self, Asked, MAX_ERROR_BODY_BYTES};
use crate::peek::{Peeked, peek};
use crate::retry_after::retry_after;
use crate::sse::{self, Events};
use crate::transport::{read_all, read_start};
use crate::{ByteStream, Endpoint, HttpRequest, HttpResponse, Secret, Transport};
use assemble::Assembler;
use body::StreamOptions;
use chunk::Chunk;

/// After the finish reason only usage and `[DONE]` are due. Servers that send neither and keep the
/// connection open are not waited for longer than this.
const TAIL_WAIT: Duration = Duration::from_secs(5);

pub struct OpenAiChat {
    server: Arc<Server>,
}

struct Server {
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
    secrets: Vec<Secret>,
    /// The server has refused `stream_options` before.
    refuses_stream_options: AtomicBool,
}

impl OpenAiChat {
    pub fn new(endpoint: Endpoint, transport: Arc<dyn Transport>) -> OpenAiChat {
        let secrets = endpoint.secrets();
        let refuses_stream_options = AtomicBool::new(false);
        OpenAiChat { server: Arc::new(Server { endpoint, transport, secrets, refuses_stream_options }) }
    }
}

impl ModelClient for OpenAiChat {
    fn stream(&self, request: Request, cancel: Cancel) -> DeltaStream {
        let server = self.server.clone();
        deltas(cancel.clone(), move |out| async move {
            server
                .answer(&request, &cancel, &out)
                .await
                .map_err(|error| ModelError { provider: Some(server.endpoint.provider.clone()), ..error })
        })
    }
}

impl Server {
    async fn answer(&self, request: &Request, cancel: &Cancel, out: &Out) -> Result<(), ModelError> {
        let asked =
            Asked { provider: &self.endpoint.provider, model: &request.model, secrets: &self.secrets };
        let response = self.ask(request, cancel, &asked).await?;
        let call_ids =
            request.messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
                Part::ToolCall(call) => Some(call.id.clone()),
                _ => None,
            });
        let answer = Answer { assembler: Assembler::new(call_ids), asked: &asked, out };
        match peek(response.body).await? {
            Peeked::Json(body) => answer.whole(body).await,
            Peeked::Html => Err(errors::web_page(&shown_url(&self.url()))),
            Peeked::Events(body) => answer.streamed(body).await,
        }
    }

    /// The answer to the request, once it is a success.
    async fn ask(
        &self,
        request: &Request,
        cancel: &Cancel,
        asked: &Asked<'_>,
    ) -> Result<HttpResponse, ModelError> {
        loop {
            let options = if self.refuses_stream_options.load(Ordering::Relaxed) {
                StreamOptions::Omit
            } else {
                StreamOptions::IncludeUsage
            };
            let exchange = self.exchange(request, options)?;
            let response = self.transport.send(exchange, cancel.clone()).await?;
            if (200..300).contains(&response.status) {
                return Ok(response);
            }
            let (status, wait) = (response.status, retry_after(&response));
            let body = read_start(response.body, MAX_ERROR_BODY_BYTES).await;
            let about_options = matches!(status, 400 | 422) && body.contains("stream_options");
            if about_options && options == StreamOptions::IncludeUsage {
                self.refuses_stream_options.store(true, Ordering::Relaxed);
                continue;
            }
            return Err(errors::from_status(status, &body, wait, asked));
        }
    }

    fn exchange(&self, request: &Request, options: StreamOptions) -> Result<HttpRequest, ModelError> {
        let mut headers = self.endpoint.plain_headers();
        let mut secret_headers = self.endpoint.secret_headers();
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        headers.push(("accept".to_owned(), "text/event-stream, application/json".to_owned()));
        if let Some(key) = &self.endpoint.api_key {
            let value = Secret::new(format!("Bearer {}", key.expose().trim()));
            secret_headers.push(("authorization".to_owned(), value));
        }
        let url = self.url();
        let body = body::json(request, options, &url)?;
        Ok(HttpRequest { url, headers, secret_headers, body })
    }

    fn url(&self) -> String {
        self.endpoint.url("/chat/completions")
    }
}

struct Answer<'a> {
    assembler: Assembler,
    asked: &'a Asked<'a>,
    out: &'a Out,
}

impl Answer<'_> {
    /// A server that answered in one piece although a stream was asked for.
    async fn whole(mut self, body: ByteStream) -> Result<(), ModelError> {
        let bytes = read_all(body).await?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_start_matches('\u{feff}');
        let Ok(chunk) = serde_json::from_str::<Chunk<'_>>(text) else {
            // An error in a list is still an error; anything else is not an answer.
            return Err(match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                Ok(_) => errors::from_error_json(text, self.asked),
                Err(_) => errors::not_json(text, self.asked),
            });
        };
        if chunk.is_error() || chunk.choices.is_none() {
            return Err(errors::from_error_json(text, self.asked));
        }
        self.assembler.whole(&chunk, &mut |delta| self.out.push(delta));
        self.finish()
    }

    async fn streamed(mut self, body: ByteStream) -> Result<(), ModelError> {
        let mut events = Events::new(body);
        loop {
            let event = match self.assembler.is_finished() {
                true => tokio::time::timeout(TAIL_WAIT, events.next()).await.unwrap_or(None),
                false => events.next().await,
            };
            let event = match event {
                Some(Ok(event)) => event,
                // The answer itself is complete: what breaks after it does not matter.
                None | Some(Err(_)) if self.assembler.is_finished() => return self.finish(),
                None => return Err(errors::half_an_answer()),
                Some(Err(error)) => return Err(error),
            };
            match self.event(&event)? {
                Next::More => self.out.pause().await,
                Next::Done => {
                    // Taking the end of the body, where it is already there, lets the connection be reused.
                    let _ = events.next().now_or_never();
                    return self.finish();
                }
            }
        }
    }

    fn event(&mut self, event: &sse::Event) -> Result<Next, ModelError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Next::More);
        }
        if data == "[DONE]" {
            return Ok(Next::Done);
        }
        if event.name.as_deref() == Some("error") {
            return Err(errors::from_error_json(data, self.asked));
        }
        let Ok(chunk) = serde_json::from_str::<Chunk<'_>>(data) else {
            return Err(match event.ending {
                sse::Ending::EndOfBody if self.assembler.is_finished() => return Ok(Next::Done),
                sse::Ending::EndOfBody => errors::half_an_answer(),
                sse::Ending::Closed => errors::not_json(data, self.asked),
            });
        };
        if chunk.is_error() {
            return Err(errors::from_error_json(data, self.asked));
        }
        self.assembler.chunk(&chunk, &mut |delta| self.out.push(delta));
        Ok(Next::More)
    }

    fn finish(mut self) -> Result<(), ModelError> {
        if self.assembler.ended_in_error() {
            return Err(errors::network("the server ended the answer with an error that it did not explain"));
        }
        self.assembler.finish(&mut |delta| self.out.push(delta));
        Ok(())
    }
}

enum Next {
    More,
    Done,
}
