//! The line between a provider's wire and whatever carries it.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt;
use tenon_core::{BoxFut, Cancel, ErrorClass, ModelError, Secret};
use tokio::time::{Instant, timeout_at};

use crate::Timeouts;

/// Carries one POST to a server and its answer back: the network, a recorder around it, or a recording.
pub trait Transport: Send + Sync {
    fn send(&self, exchange: HttpRequest, cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>>;

    /// How long a server may keep the connection open without saying anything of its answer.
    fn patience(&self) -> Duration {
        Timeouts::default().patience()
    }
}

/// One POST with a JSON body.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// Headers whose whole value is secret: never recorded, never sent in the clear beyond this machine.
    pub secret_headers: Vec<(String, Secret)>,
    pub body: String,
}

impl HttpRequest {
    /// The path of the address, without the host and the query.
    pub(crate) fn path(&self) -> String {
        reqwest::Url::parse(&self.url).map(|url| url.path().to_owned()).unwrap_or_default()
    }
}

/// Status and headers have arrived; the body is still coming.
pub struct HttpResponse {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: ByteStream,
}

impl HttpResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A body as it arrives. An error ends it.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, ModelError>> + Send>>;

/// The largest answer that is read, streamed or whole. Far beyond any output limit of a model.
pub(crate) const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The whole body as bytes.
pub(crate) async fn read_all(mut body: ByteStream) -> Result<Vec<u8>, ModelError> {
    let mut whole = Vec::new();
    while let Some(chunk) = body.next().await {
        whole.extend_from_slice(&chunk?);
        if whole.len() > MAX_ANSWER_BYTES {
            let message = format!("the answer is larger than {} MiB", MAX_ANSWER_BYTES >> 20);
            return Err(ModelError::new(ErrorClass::Protocol, message));
        }
    }
    Ok(whole)
}

/// What an error was is told by its status; the words for it are not waited for longer than this.
const START_WAIT: Duration = Duration::from_secs(10);

/// The first `limit` bytes of a body as text; what goes wrong after its start does not matter.
pub(crate) async fn read_start(mut body: ByteStream, limit: usize) -> String {
    let mut start = Vec::new();
    let until = Instant::now() + START_WAIT;
    while let Ok(Some(Ok(chunk))) = timeout_at(until, body.next()).await {
        start.extend_from_slice(&chunk);
        if start.len() >= limit {
            start.truncate(limit);
            break;
        }
    }
    String::from_utf8_lossy(&start).into_owned()
}
