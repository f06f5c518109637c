//! What a run on this machine keeps of its steps, as far as `local_run.rs` is concerned.
//!
//! [`NoLog`] keeps nothing; `journal_log.rs` keeps everything in the journal.

use std::sync::Arc;

use tenon_core::{BoxFut, NoJournal, Timestamp, TurnJournal, TurnRecord};

use crate::approval_wait::Approvals;
use crate::signal::Signals;
use crate::{Completion, Earlier, Spent, StepKey, StepRequest};

pub trait StepLog: Send + Sync {
    /// How what is about to start ended when the run was here before, and its place among all endings.
    fn ended(&self, key: &StepKey, request: &StepRequest) -> Option<(u64, Completion)>;

    /// Kept when this returns; only then does the work begin.
    fn begins(&self, key: &StepKey, request: &StepRequest) -> BoxFut<'static, Result<Begun, String>>;

    /// Kept when this returns; only then is anything decided upon it.
    fn ends(&self, completions: Vec<Completion>) -> BoxFut<'static, Result<(), String>>;

    /// When the workflow at this place began.
    fn began(&self, place: &StepKey) -> BoxFut<'static, Result<Timestamp, String>>;

    /// What the agent of a step has done so far, and where more of it is kept.
    fn turns(&self, key: &StepKey) -> Turns;

    /// Whether the workflow at this place was begun before the run was cut off.
    fn has_begun(&self, _place: &StepKey) -> bool {
        false
    }

    /// What was paid for and is no longer part of any step: attempts that were given up when the run went on.
    fn dropped(&self) -> Vec<(StepKey, Spent)> {
        Vec::new()
    }

    /// What is known of the processes that had the run before.
    fn earlier(&self) -> Earlier {
        Earlier::default()
    }

    /// A moment by the time of work, which stands still while nobody runs the run.
    fn worked(&self, at: Timestamp) -> Timestamp {
        at
    }

    /// What attempts at this step, and at what is inside it, had cost that were given up.
    fn given_up(&self, _key: &StepKey) -> Option<Spent> {
        None
    }

    /// What has been paid for inside something that has not ended.
    fn paid_inside(&self, _key: &StepKey) -> Spent {
        Spent::default()
    }

    /// What has been paid for inside it over all attempts, those that were given up too.
    fn paid_in_all_attempts(&self, _key: &StepKey) -> Spent {
        Spent::default()
    }

    /// What has happened beside the steps' turns so far, and where more of it is kept.
    fn signals(&self) -> Signals;

    /// What can be done about it, when something could not be kept.
    fn hint(&self) -> Option<&'static str> {
        None
    }

    /// Where people answer; nowhere in a run that nobody can find again.
    fn approvals(&self) -> Option<Arc<dyn Approvals>> {
        None
    }
}

/// Something that may start now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// How long a sleep lasts from now on, when it began earlier.
    pub left_ms: Option<u64>,
    /// When a question was first asked.
    pub asked: Option<Timestamp>,
}

/// The turns of one step's agent.
#[derive(Clone)]
pub struct Turns {
    /// From before the run was cut off.
    pub records: Vec<TurnRecord>,
    pub journal: Arc<dyn TurnJournal>,
}

impl Turns {
    /// A step that begins, and that nobody keeps.
    pub fn none() -> Turns {
        Turns { records: Vec::new(), journal: Arc::new(NoJournal) }
    }
}

/// Keeps nothing.
pub struct NoLog;

impl StepLog for NoLog {
    fn ended(&self, _key: &StepKey, _request: &StepRequest) -> Option<(u64, Completion)> {
        None
    }

    fn begins(&self, _key: &StepKey, _request: &StepRequest) -> BoxFut<'static, Result<Begun, String>> {
        Box::pin(async { Ok(Begun::default()) })
    }

    fn ends(&self, _completions: Vec<Completion>) -> BoxFut<'static, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn began(&self, _place: &StepKey) -> BoxFut<'static, Result<Timestamp, String>> {
        Box::pin(async { Ok(Timestamp::now()) })
    }

    fn turns(&self, _key: &StepKey) -> Turns {
        Turns::none()
    }

    fn signals(&self) -> Signals {
        Signals::none()
    }
}
