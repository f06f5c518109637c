//! Anthropic's Messages API, streaming, and servers that speak it too.
//!
//! One request is one POST (`anthropic/body.rs`). The answer is a stream of events (`anthropic/events.rs`), or a
//! whole message from servers that do not stream; `anthropic/assemble.rs` turns either into deltas.
//! `anthropic/native.rs` has what must go back with thinking. This file makes the exchange, and repeats it at
//! once where the server says what it would have taken instead.

mod assemble;
mod body;
mod events;
mod native;
mod output_limit;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tenon_core::{Cancel, DeltaStream, ModelClient, ModelError, Request, Secret, Secrets, ToolChoice};

use crate::answer::read_answer;
use crate::call_id::CallIds;
use crate::delta_stream::Out;
use crate::endpoint::shown_url;
use crate::errors::{self, Asked, MAX_ERROR_BODY_BYTES};
use crate::reasoning::claude_reasoning;
use crate::retry_after::retry_after;
use crate::transport::read_start;
use crate::wire::{self, Wire};
use crate::{Endpoint, HttpRequest, HttpResponse, Transport};
use assemble::Assembler;
use body::Terms;
use output_limit::told_limit;

/// The version of the wire that this file speaks.
const VERSION: &str = "2023-06-01";
const VERSION_HEADER: &str = "anthropic-version";
const KEY_HEADER: &str = "x-api-key";

/// The wire wants a limit on every request. Long enough for a large file in one call; models that cannot
/// write as much say so, and are believed.
const DEFAULT_MAX_TOKENS: u64 = 32_000;

pub struct Anthropic {
    server: Arc<Server>,
}

struct Server {
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
    secrets: Secrets,
    /// The most that a model may write, where the server has said so.
    limits: Mutex<HashMap<String, u64>>,
    /// The server has refused to force a tool before: models that always think do.
    refuses_force: AtomicBool,
}

impl Anthropic {
    pub fn new(endpoint: Endpoint, transport: Arc<dyn Transport>) -> Anthropic {
        let secrets = endpoint.secrets();
        let (limits, refuses_force) = (Mutex::default(), AtomicBool::new(false));
        Anthropic { server: Arc::new(Server { endpoint, transport, secrets, limits, refuses_force }) }
    }
}

impl ModelClient for Anthropic {
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
        let response = self.ask(request, cancel, &asked).await?;
        let mut assembler = Assembler::new(provider, CallIds::of(request));
        let (url, patience) = (shown_url(&self.url()), self.transport.patience());
        read_answer(response.body, &mut assembler, &asked, &url, patience, out).await
    }
}

impl Server {
    /// The answer to the request, once it is a success.
    async fn ask(
        &self,
        request: &Request,
        cancel: &Cancel,
        asked: &Asked<'_>,
    ) -> Result<HttpResponse, ModelError> {
        let mut terms = self.terms(request)?;
        let mut limit_was_told = false;
        loop {
            let exchange = self.exchange(request, &terms)?;
            let response = self.transport.send(exchange, cancel.clone()).await?;
            if (200..300).contains(&response.status) {
                return Ok(response);
            }
            let (status, wait) = (response.status, retry_after(&response));
            let body = read_start(response.body, MAX_ERROR_BODY_BYTES).await;
            if status == 400 {
                if let Some(limit) = told_limit(&body, terms.max_tokens).filter(|_| !limit_was_told) {
                    limit_was_told = true;
                    terms.max_tokens = limit;
                    self.remember_limit(&request.model, limit);
                    continue;
                }
                if body.contains("tool_choice") && matches!(terms.tool_choice, ToolChoice::Force(_)) {
                    terms.tool_choice = &ToolChoice::Auto;
                    self.refuses_force.store(true, Ordering::Relaxed);
                    continue;
                }
            }
            return Err(errors::from_status(status, &body, wait, asked));
        }
    }

    /// The request's terms, as far as this server is known to take them.
    fn terms<'a>(&self, request: &'a Request) -> Result<Terms<'a>, ModelError> {
        let reasoning = claude_reasoning(request)?;
        let wanted = reasoning.max_tokens(request.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS));
        let limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = limits.get(&request.model).copied().unwrap_or(u64::MAX);
        let tool_choice = match self.refuses_force.load(Ordering::Relaxed) || reasoning.thinks() {
            true => &ToolChoice::Auto,
            false => &request.tool_choice,
        };
        Ok(Terms { max_tokens: wanted.min(limit), reasoning, tool_choice })
    }

    fn remember_limit(&self, model: &str, limit: u64) {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned(), limit);
    }

    fn exchange(&self, request: &Request, terms: &Terms<'_>) -> Result<HttpRequest, ModelError> {
        let mut headers = self.endpoint.plain_headers();
        let mut secret_headers = self.endpoint.secret_headers();
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        headers.push(("accept".to_owned(), "text/event-stream, application/json".to_owned()));
        // A header sent twice is refused, so the user's own goes first.
        if !self.has_header(VERSION_HEADER) {
            headers.push((VERSION_HEADER.to_owned(), VERSION.to_owned()));
        }
        if let Some(key) = self.endpoint.api_key.as_ref().filter(|_| !self.has_header(KEY_HEADER)) {
            secret_headers.push((KEY_HEADER.to_owned(), Secret::new(key.expose().trim())));
        }
        let body = body::json(request, terms, &self.endpoint.provider)?;
        Ok(HttpRequest { url: self.url(), headers, secret_headers, body })
    }

    fn has_header(&self, name: &str) -> bool {
        self.endpoint.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// The base URL names no version; one that does is understood too.
    fn url(&self) -> String {
        let base = self.endpoint.base_url.split('?').next().unwrap_or_default().trim_end_matches('/');
        match base.ends_with("/v1") {
            true => self.endpoint.url("/messages"),
            false => self.endpoint.url("/v1/messages"),
        }
    }
}
