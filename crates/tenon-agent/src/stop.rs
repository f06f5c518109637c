//! Stopping a run from outside, with the reason why.

use std::sync::{Arc, OnceLock};

use tenon_core::{Cancel, ErrorClass, Failure};

/// Shared by whoever may stop the run (signal handlers, a client) and the run itself. The first reason
/// given stands.
#[derive(Clone, Default)]
pub struct Stop {
    cancel: Cancel,
    reason: Arc<OnceLock<Failure>>,
}

impl Stop {
    /// Stops when `cancel` falls, or by itself.
    pub fn within(cancel: &Cancel) -> Stop {
        Stop { cancel: cancel.child_token(), reason: Arc::default() }
    }

    pub fn now(&self, reason: Failure) {
        // A later reason loses: the run is already ending because of the first.
        let _ = self.reason.set(reason);
        self.cancel.cancel();
    }

    /// Why the run was stopped.
    pub fn failure(&self) -> Failure {
        let unknown = || Failure::new(ErrorClass::Internal, "the run was stopped");
        self.reason().cloned().unwrap_or_else(unknown)
    }

    /// The same, where somebody gave a reason.
    pub fn reason(&self) -> Option<&Failure> {
        self.reason.get()
    }

    /// Fires when the run is asked to stop.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}
