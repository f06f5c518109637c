//! Whoever drives the run, for questions that are asked within it: what an answer changes about permissions holds
//! from that answer on. What is worth a warning meanwhile is kept here for the result.
//!
//! What a change does is `tenon-tools/src/permission/changes.rs`. What cannot be done is told with the result, and the
//! answer itself stands.

use std::sync::{Arc, Mutex, PoisonError};

use tenon_core::{
    BoxFut, Cancel, Client, ClientError, Destination, EventKind, HookCall, HookReply, JsonRpc, PermissionAsk,
    PermissionChange, PermissionReply, PermissionUpdates, SandboxState,
};
use tenon_tools::Permissions;

use crate::Emitter;

pub(crate) struct Granted {
    client: Arc<dyn Client>,
    permissions: Permissions,
    emitter: Arc<Emitter>,
    sandbox: SandboxState,
    warnings: Mutex<Vec<String>>,
}

impl Granted {
    pub fn new(
        client: Arc<dyn Client>,
        permissions: Permissions,
        emitter: Arc<Emitter>,
        sandbox: SandboxState,
    ) -> Granted {
        Granted { client, permissions, emitter, sandbox, warnings: Mutex::default() }
    }

    /// What could not be done as it was asked for.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn apply(&self, given: PermissionUpdates) {
        for problem in given.problems {
            self.warn(format!("the answer's permissions cannot be used: {problem}"));
        }
        for update in given.updates {
            match self.permissions.change(&update.change) {
                Err(why) => self.warn(format!("the answer's permissions cannot be used: {why}")),
                Ok(()) => {
                    if let Destination::Settings(name) = &update.destination {
                        self.warn(format!(
                            "the answer's permissions hold for this process: nothing is written to `{name}`"
                        ));
                    }
                    let opens = matches!(update.change, PermissionChange::AddDirectories(_));
                    if opens && matches!(self.sandbox, SandboxState::Files | SandboxState::FilesAndNetwork) {
                        self.warn(
                            "the answer's folders are open to file tools, and not to commands in the sandbox"
                                .to_owned(),
                        );
                    }
                }
            }
        }
    }

    /// Said at once, and once more with the result.
    pub fn warn(&self, message: String) {
        self.emitter.emit(EventKind::Warning { message: message.clone() });
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
}

impl Client for Granted {
    fn permission(&self, ask: PermissionAsk, cancel: Cancel) -> BoxFut<'_, PermissionReply> {
        Box::pin(async move {
            match self.client.permission(ask, cancel).await {
                PermissionReply::Allow { updated_input, updates } => {
                    self.apply(updates);
                    PermissionReply::allow(updated_input)
                }
                other => other,
            }
        })
    }

    fn hook(&self, call: HookCall, cancel: Cancel) -> BoxFut<'_, Result<HookReply, ClientError>> {
        self.client.hook(call, cancel)
    }

    fn mcp(
        &self,
        server: &str,
        message: JsonRpc,
        cancel: Cancel,
    ) -> BoxFut<'_, Result<JsonRpc, ClientError>> {
        self.client.mcp(server, message, cancel)
    }

    fn unusable_answer(&self, why: String) {
        self.client.unusable_answer(why);
    }

    fn can_be_asked(&self) -> bool {
        self.client.can_be_asked()
    }
}
