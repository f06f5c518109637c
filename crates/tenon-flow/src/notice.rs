//! What the interpreter tells whoever watches a run: steps that start, end, are skipped or tried again.
//!
//! Notices are for people and for events. Nothing that decides reads them.

use std::sync::Arc;

use crate::{NotRun, Question, StepError, StepKey, StepRecord};

#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Also an agent that is no step of its own: of an iteration, an item, a judge.
    Started(Started),
    /// It failed and is tried again after this long.
    Retrying { key: StepKey, what: TriedAgain, error: StepError, after_ms: u64 },
    /// Without having started where its condition could not be evaluated.
    Ended { key: StepKey, agent: Option<String>, record: Arc<StepRecord> },
    /// It had ended before the run was cut off and went on. The interpreter does not know of it.
    Restored { key: StepKey, agent: Option<String>, record: Arc<StepRecord> },
    /// It will not run. Its record says whether it counts as skipped or as cancelled.
    NotRun {
        key: StepKey,
        agent: Option<String>,
        why: NotRun,
        /// The expression that decided it, and where it stands.
        condition: Option<String>,
        record: Arc<StepRecord>,
    },
    /// An iteration or an item of the loop `key` is over: so many of at most so many.
    Progress { key: StepKey, done: u32, of: u32 },
    /// A person is asked, or still is after the run was cut off. The interpreter does not know of it.
    Asked { key: StepKey, question: Question },
    /// A judge gave no verdict; the loop goes on as if it had said no.
    JudgeFailed { key: StepKey, iteration: u32, error: StepError },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriedAgain {
    /// A step, or an agent that is told of as one, with everything inside it.
    Step,
    /// All steps of a round or an item of a loop, which is told of only through them.
    Turn,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    pub key: StepKey,
    pub agent: Option<String>,
    pub kind: StepKind,
    /// Where the step stands in the order of its workflow, and how many there are.
    pub position: u32,
    pub of: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepKind {
    Agent,
    Repeat {
        at_most: u32,
    },
    ForEach {
        items: u32,
    },
    Include {
        name: String,
    },
    /// A question to a person.
    Approval,
}
