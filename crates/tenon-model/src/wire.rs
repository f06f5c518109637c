//! What the clients of the four wires have in common: a server that answers one request, made into a client.
//!
//! Each wire is a file of its own (`openai_chat.rs`, `openai_responses.rs`, `anthropic.rs`, `gemini.rs`); asking again is
//! `retry.rs`.

use std::future::Future;
use std::sync::Arc;

use tenon_core::{Cancel, DeltaStream, ModelError, Request};

use crate::delta_stream::{Out, deltas};

/// A server behind its wire.
pub(crate) trait Wire: Send + Sync + 'static {
    /// Under which the provider is known to the user.
    fn provider(&self) -> &str;

    /// Asks once and passes the answer on as it comes.
    fn answer(
        &self,
        request: &Request,
        cancel: &Cancel,
        out: &Out,
    ) -> impl Future<Output = Result<(), ModelError>> + Send;
}

/// The answer as a stream. Its error says who was asked.
pub(crate) fn stream(wire: &Arc<impl Wire>, request: Request, cancel: Cancel) -> DeltaStream {
    let wire = wire.clone();
    deltas(cancel.clone(), move |out| async move {
        wire.answer(&request, &cancel, &out)
            .await
            .map_err(|error| ModelError { provider: Some(wire.provider().to_owned()), ..error })
    })
}
