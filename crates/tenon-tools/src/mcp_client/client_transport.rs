//! A server that whoever drives the run hosts: its messages travel through [`Client::mcp`]. A request that is
//! cancelled is withdrawn from the client as well.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tenon_core::{Cancel, Client, ClientError, JsonRpc};
use tokio::sync::mpsc;

use super::lock;

pub(super) struct ClientTransport {
    server: Arc<str>,
    client: Arc<dyn Client>,
    cancel: Cancel,
    /// Requests that wait for an answer, by their ids as JSON.
    waiting: Arc<Mutex<HashMap<String, Cancel>>>,
    answers: mpsc::UnboundedReceiver<RxJsonRpcMessage<RoleClient>>,
    answered: mpsc::UnboundedSender<RxJsonRpcMessage<RoleClient>>,
}

impl ClientTransport {
    pub fn new(server: &str, client: Arc<dyn Client>) -> ClientTransport {
        let (answered, answers) = mpsc::unbounded_channel();
        ClientTransport {
            server: server.into(),
            client,
            cancel: Cancel::new(),
            waiting: Arc::default(),
            answers,
            answered,
        }
    }
}

impl Transport<RoleClient> for ClientTransport {
    type Error = ClientError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        let (server, client, cancel) =
            (Arc::clone(&self.server), Arc::clone(&self.client), self.cancel.clone());
        let (answered, waiting) = (self.answered.clone(), Arc::clone(&self.waiting));
        async move {
            let message = serde_json::to_value(message)
                .map_err(|error| ClientError::Refused(format!("a message could not be written: {error}")))?;
            let wants_answer = message.get("id").is_some() && message.get("method").is_some();
            if message["method"] == "notifications/cancelled" {
                let cancelled = message["params"]["requestId"].to_string();
                if let Some(cancel) = lock(&waiting).remove(&cancelled) {
                    cancel.cancel();
                }
            }
            let cancel = cancel.child_token();
            let id = wants_answer.then(|| message["id"].to_string());
            if let Some(id) = &id {
                lock(&waiting).insert(id.clone(), cancel.clone());
            }
            let answer = client.mcp(&server, JsonRpc(message), cancel).await;
            if let Some(id) = &id {
                lock(&waiting).remove(id);
            }
            let JsonRpc(answer) = answer?;
            // What comes back for a notification is a receipt.
            if wants_answer {
                let answer = serde_json::from_value(answer)
                    .map_err(|_| ClientError::Refused("its answer is no JSON-RPC message".to_owned()))?;
                // Nobody waits for it any more: the connection is being closed.
                let _ = answered.send(answer);
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        // Once closed, nothing more comes: we hold a sender, so the channel alone would wait for ever.
        let cancel = self.cancel.clone();
        cancel.run_until_cancelled(self.answers.recv()).await.flatten()
    }

    async fn close(&mut self) -> Result<(), ClientError> {
        self.cancel.cancel();
        Ok(())
    }
}
