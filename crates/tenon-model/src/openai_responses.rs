//! The Responses API of OpenAI, streaming, and servers that speak something close to it.
//!
//! One request is one POST with the whole conversation (`openai_responses/body.rs`); nothing is stored on the
//! server. The answer is an event stream (`openai_responses/events.rs`), or the response in one piece; either
//! way `openai_responses/assemble.rs` turns it into deltas. What a server refuses is left out and asked again
//! (`openai_responses/refusals.rs`). This file makes the exchange and says what an event is; `answer.rs`
//! drives it.

mod assemble;
mod body;
mod events;
mod native;
mod refusals;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tenon_core::{Cancel, DeltaStream, FinishReason, ModelClient, ModelError, Request, Secrets};

use crate::adapt::{Offer, Target, offers};
use crate::answer::{Give, Next, Reader, Trouble, read_answer};
use crate::call_id::CallIds;
use crate::delta_stream::Out;
use crate::endpoint::shown_url;
use crate::errors::{self, Asked, MAX_ERROR_BODY_BYTES};
use crate::loose_json::text;
use crate::restore::Restoring;
use crate::retry_after::retry_after;
use crate::sse;
use crate::transport::read_start;
use crate::wire::{self, Wire};
use crate::{Endpoint, HttpResponse, Transport};
use assemble::{Assembler, End, Pieces, Source};
use events::{Event, Part, Response, Said};
use refusals::Omitted;

pub struct OpenAiResponses {
    server: Arc<Server>,
}

struct Server {
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
    secrets: Secrets,
    /// What the server has refused before, for each model: not all of them can do the same.
    omitted: Mutex<HashMap<String, Omitted>>,
}

impl OpenAiResponses {
    pub fn new(endpoint: Endpoint, transport: Arc<dyn Transport>) -> OpenAiResponses {
        let secrets = endpoint.secrets();
        OpenAiResponses {
            server: Arc::new(Server { endpoint, transport, secrets, omitted: Mutex::default() }),
        }
    }
}

impl ModelClient for OpenAiResponses {
    fn stream(&self, request: Request, cancel: Cancel) -> DeltaStream {
        wire::stream(&self.server, request, cancel)
    }
}

impl Wire for Server {
    fn provider(&self) -> &str {
        &self.endpoint.provider
    }

    async fn answer(&self, request: &Request, cancel: &Cancel, out: &Out) -> Result<(), ModelError> {
        let provider = &self.endpoint.provider;
        let asked = Asked::of(provider, request, &self.secrets);
        let (response, offers) = self.ask(request, cancel, &asked).await?;
        let mut reader = Restoring::new(Assembler::new(provider, CallIds::of(request)), &offers);
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
        let target = Target::of_responses(&self.endpoint.base_url);
        let mut omitted = self.omitted_for(&request.model);
        loop {
            let offers = offers(request, target, omitted.strictness());
            let body = body::json(request, &offers, target, &self.endpoint.provider, omitted)?;
            let exchange = self.endpoint.post_with_bearer(self.url(), body);
            let response = self.transport.send(exchange, cancel.clone()).await?;
            if (200..300).contains(&response.status) {
                self.remember(&request.model, omitted);
                return Ok((response, offers));
            }
            let (status, wait) = (response.status, retry_after(&response));
            let body = read_start(response.body, MAX_ERROR_BODY_BYTES).await;
            match omitted.after(status, &body) {
                Some(more) => omitted = more,
                None => return Err(errors::from_status(status, &body, wait, asked)),
            }
        }
    }

    fn omitted_for(&self, model: &str) -> Omitted {
        let omitted = self.omitted.lock().unwrap_or_else(PoisonError::into_inner);
        omitted.get(model).copied().unwrap_or_default()
    }

    /// Only what has led to an answer is remembered: a server may blame the wrong thing.
    fn remember(&self, model: &str, omitted: Omitted) {
        if omitted != Omitted::default() {
            let mut known = self.omitted.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(model.to_owned(), omitted);
        }
    }

    fn url(&self) -> String {
        self.endpoint.url("/responses")
    }
}

impl Reader for Assembler {
    fn event(&mut self, event: &sse::Event, give: Give<'_>) -> Result<Next, Trouble> {
        let data = event.data.trim();
        if data == "[DONE]" {
            return Ok(Next::More);
        }
        if event.name.as_deref() == Some("error") {
            return Err(Trouble::ErrorReport);
        }
        let read: Event<'_> = serde_json::from_str(data).map_err(|_| Trouble::NotJson)?;
        let kind = read.kind().or(event.name.as_deref().map(Into::into));
        match kind.as_deref() {
            Some("response.output_item.added") => self.item_added(&read, give),
            Some("response.output_item.done") => self.item_done(&read, give),
            Some("response.output_text.delta") => {
                if let Some(piece) = read.delta.and_then(text) {
                    self.said(&read, Said::Text(piece), Pieces::Fragment, give);
                }
            }
            Some("response.output_text.done") => {
                if let Some(whole) = read.text.and_then(text) {
                    self.said(&read, Said::Text(whole), Pieces::Whole, give);
                }
            }
            Some("response.refusal.delta") => {
                if let Some(piece) = read.delta.and_then(text) {
                    self.said(&read, Said::Refusal(piece), Pieces::Fragment, give);
                }
            }
            Some("response.refusal.done") => {
                if let Some(whole) = read.refusal.and_then(text) {
                    self.said(&read, Said::Refusal(whole), Pieces::Whole, give);
                }
            }
            Some("response.content_part.done") => {
                if let Some(whole) = read.part.and_then(Part::read).and_then(Part::said) {
                    self.said(&read, whole, Pieces::Whole, give);
                }
            }
            Some("response.reasoning_text.delta") => {
                self.thought(&read, Source::Text, Pieces::Fragment, give);
            }
            Some("response.reasoning_text.done") => self.thought(&read, Source::Text, Pieces::Whole, give),
            Some("response.reasoning_summary_part.added") => self.summary_part_added(&read),
            Some("response.reasoning_summary_text.delta") => {
                self.thought(&read, Source::Summary, Pieces::Fragment, give);
            }
            Some("response.reasoning_summary_text.done") => {
                self.thought(&read, Source::Summary, Pieces::Whole, give);
            }
            Some("response.function_call_arguments.delta") => self.arguments(&read, Pieces::Fragment, give),
            Some("response.function_call_arguments.done") => self.arguments(&read, Pieces::Whole, give),
            Some("response.completed" | "response.incomplete" | "response.done") => {
                let says_incomplete = kind.as_deref() == Some("response.incomplete");
                return end(self, &Response::read(read.response), says_incomplete, give).map(|()| Next::Done);
            }
            Some("response.failed" | "response.cancelled") => {
                return Err(failed(&Response::read(read.response)));
            }
            Some("error") => return Err(Trouble::ErrorReport),
            _ if read.is_error() => return Err(Trouble::ErrorReport),
            // Other events, and those that are still to be invented.
            _ => {}
        }
        Ok(Next::More)
    }

    fn whole(&mut self, json: &str, give: Give<'_>) -> Result<(), Trouble> {
        let response: Response<'_> = serde_json::from_str(json).map_err(|_| Trouble::NotJson)?;
        if !response.is_one() {
            return Err(Trouble::ErrorReport);
        }
        end(self, &response, false, give)
    }

    fn is_finished(&self) -> bool {
        self.is_over()
    }

    fn finish(&mut self, give: Give<'_>) -> Result<(), ModelError> {
        self.give_rest(give);
        Ok(())
    }
}

/// Takes the response in its final state.
fn end(
    assembler: &mut Assembler,
    response: &Response<'_>,
    says_incomplete: bool,
    give: Give<'_>,
) -> Result<(), Trouble> {
    let status = response.status();
    match status.as_deref() {
        _ if response.is_error() => return Err(failed(response)),
        Some("failed" | "cancelled") => return Err(failed(response)),
        Some("in_progress" | "queued") => return Err(Trouble::Failed(errors::half_an_answer())),
        _ => {}
    }
    assembler.response(response, give);
    let is_incomplete = says_incomplete || status.as_deref() == Some("incomplete");
    assembler.end(match (is_incomplete, response.incomplete_reason().as_deref()) {
        (false, _) => End::Completed,
        (true, Some("content_filter")) => End::Incomplete(FinishReason::Refused),
        (true, _) => End::Incomplete(FinishReason::Length),
    });
    Ok(())
}

fn failed(response: &Response<'_>) -> Trouble {
    match response.is_error() {
        true => Trouble::ErrorReport,
        false => Trouble::Failed(errors::unexplained()),
    }
}
