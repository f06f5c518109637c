//! What waits for the running turn to end, in the order it was sent: turns, turns that were taken back, and changes that
//! hold for the turns after them. And what a client says about a turn that is just being stopped: it means whatever is
//! there when that turn has ended, however fast that is.

use std::collections::VecDeque;

use serde_json::Value;
use tenon_core::Failure;
use tenon_wire::input::{ControlRequest, Turn};

use crate::cancel::Cancel;

/// What is done when everything before it is.
pub enum Waiting<C> {
    Turn(Box<Turn>),
    /// Its client cancelled it before it began. It has its result in its place.
    TakenBack(Box<Turn>),
    /// It was sent after an `initialize` that was refused.
    Refused {
        prompt_id: Option<String>,
        failure: Failure,
    },
    /// It holds from here on.
    Change(C),
}

/// A change that can be made.
pub struct Prepared<C> {
    /// What the client is answered.
    pub answer: Value,
    /// `None` when there is nothing to change.
    pub change: Option<C>,
}

/// What a client said about a turn that was being stopped.
pub(crate) enum Held {
    Cancel(Cancel),
    Request { id: String, request: Box<ControlRequest> },
}

/// What waits, and how far the session has come.
pub struct Queue<C> {
    pub(crate) waiting: VecDeque<Waiting<C>>,
    pub(crate) held: VecDeque<Held>,
    /// The name of the turn that ended last.
    pub(crate) ended: Option<String>,
    /// What the last result says, as an exit code.
    pub(crate) last_code: Option<u8>,
    /// Why nothing more is begun.
    pub(crate) given_up: Option<Failure>,
    /// The line whose version there is not: it is told when everything before it is.
    pub(crate) refused: Option<RefusedVersion>,
}

pub(crate) struct RefusedVersion {
    pub(crate) prompt_id: Option<String>,
    pub(crate) message: String,
}

impl<C> Default for Queue<C> {
    fn default() -> Queue<C> {
        Queue {
            waiting: VecDeque::new(),
            held: VecDeque::new(),
            ended: None,
            last_code: None,
            given_up: None,
            refused: None,
        }
    }
}

impl<C> Queue<C> {
    /// The first turn of a session, which nobody sent over lines.
    pub fn with_first(turn: Option<Turn>) -> Queue<C> {
        let waiting = turn.map(|turn| Waiting::Turn(Box::new(turn))).into_iter().collect();
        Queue { waiting, ..Queue::default() }
    }

    pub(crate) fn push(&mut self, turn: Turn) {
        self.waiting.push_back(Waiting::Turn(Box::new(turn)));
    }

    /// How many turns are still to begin.
    pub(crate) fn turns(&self) -> usize {
        self.waiting.iter().filter(|waiting| matches!(waiting, Waiting::Turn(_))).count()
    }

    /// Takes back the turn of this name. Whether there was one.
    pub(crate) fn take_back(&mut self, name: &str) -> bool {
        for waiting in &mut self.waiting {
            if let Waiting::Turn(turn) = waiting
                && turn.prompt_id.as_deref() == Some(name)
            {
                *waiting = Waiting::TakenBack(std::mem::take(turn));
                return true;
            }
        }
        false
    }
}
