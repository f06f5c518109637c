//! Gemini's `streamGenerateContent`.
//!
//! One request is one POST (`gemini/body.rs`). The answer is a stream of chunks (`gemini/chunk.rs`), each a
//! piece of one candidate, or a list of the same chunks from servers that do not stream events;
//! `gemini/assemble.rs` turns them into deltas. `gemini/native.rs` has what must go back with a turn, and
//! `gemini/stray.rs` finds errors that are written into a stream as if it were none.

mod assemble;
mod body;
mod chunk;
mod native;
mod stray;

use std::sync::Arc;

use tenon_core::{Cancel, DeltaStream, ModelClient, ModelError, Request, Secret, Secrets};

use crate::answer::read_answer;
use crate::call_id::CallIds;
use crate::delta_stream::Out;
use crate::endpoint::shown_url;
use crate::errors::{self, Asked, MAX_ERROR_BODY_BYTES};
use crate::retry_after::retry_after;
use crate::transport::read_start;
use crate::wire::{self, Wire};
use crate::{Endpoint, HttpRequest, HttpResponse, Transport};
use assemble::Assembler;

/// The version that is asked for where the base URL names none: the one that has tools for all models.
const API_VERSION: &str = "v1beta";
const KEY_HEADER: &str = "x-goog-api-key";

pub struct Gemini {
    server: Arc<Server>,
}

struct Server {
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
    secrets: Secrets,
}

impl Gemini {
    pub fn new(endpoint: Endpoint, transport: Arc<dyn Transport>) -> Gemini {
        let secrets = endpoint.secrets();
        Gemini { server: Arc::new(Server { endpoint, transport, secrets }) }
    }
}

impl ModelClient for Gemini {
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
        let body = stray::as_events(response.body);
        let url = shown_url(&url(&self.endpoint, &request.model));
        read_answer(body, &mut assembler, &asked, &url, self.transport.patience(), out).await
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
        let response = self.transport.send(self.exchange(request)?, cancel.clone()).await?;
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        let (status, wait) = (response.status, retry_after(&response));
        let body = read_start(response.body, MAX_ERROR_BODY_BYTES).await;
        Err(errors::from_status(status, &body, wait, asked))
    }

    fn exchange(&self, request: &Request) -> Result<HttpRequest, ModelError> {
        let mut headers = self.endpoint.plain_headers();
        let mut secret_headers = self.endpoint.secret_headers();
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        headers.push(("accept".to_owned(), "text/event-stream, application/json".to_owned()));
        // A header of the user's own goes before the key.
        let has_own = secret_headers.iter().any(|(name, _)| {
            name.eq_ignore_ascii_case(KEY_HEADER) || name.eq_ignore_ascii_case("authorization")
        });
        if let Some(key) = self.endpoint.api_key.as_ref().filter(|_| !has_own) {
            secret_headers.push((KEY_HEADER.to_owned(), Secret::new(key.expose().trim())));
        }
        let url = url(&self.endpoint, &request.model);
        let body = body::json(request, &self.endpoint.provider)?;
        Ok(HttpRequest { url, headers, secret_headers, body })
    }
}

/// The address for a model. The base URL goes without a version, but one at its end is kept.
fn url(endpoint: &Endpoint, model: &str) -> String {
    let base = endpoint.base_url.split('?').next().unwrap_or_default().trim_end_matches('/');
    let version = match base.rsplit('/').next() {
        Some("v1" | "v1beta" | "v1alpha") => String::new(),
        _ => format!("/{API_VERSION}"),
    };
    let model = in_a_path(model.strip_prefix("models/").unwrap_or(model));
    let url = endpoint.url(&format!("{version}/models/{model}:streamGenerateContent"));
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}alt=sse")
}

/// A model's name must not end the path.
fn in_a_path(model: &str) -> String {
    let mut path = String::with_capacity(model.len());
    for byte in model.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b'@' => {
                path.push(char::from(byte));
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_model() {
        let standard = "http://h/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse";
        for (base, model, expected) in [
            ("http://h", "gemini-3-pro", standard),
            ("http://h/", "models/gemini-3-pro", standard),
            ("http://h/v1beta", "gemini-3-pro", standard),
            ("http://h/v1beta/", "gemini-3-pro", standard),
            ("http://h/v1", "m", "http://h/v1/models/m:streamGenerateContent?alt=sse"),
            ("http://h/v1/gateway", "m", "http://h/v1/gateway/v1beta/models/m:streamGenerateContent?alt=sse"),
            ("http://h?x=1", "m", "http://h/v1beta/models/m:streamGenerateContent?x=1&alt=sse"),
            ("http://h", "a b?c#d", "http://h/v1beta/models/a%20b%3Fc%23d:streamGenerateContent?alt=sse"),
        ] {
            let endpoint = Endpoint {
                provider: "gemini".into(),
                base_url: base.into(),
                api_key: None,
                headers: Vec::new(),
            };
            assert_eq!(url(&endpoint, model), expected, "{base} {model}");
        }
    }
}
