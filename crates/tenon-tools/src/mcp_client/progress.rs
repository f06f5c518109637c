//! Which call a sign of progress belongs to. A call's token is known only once it is sent, so what came
//! before is kept for a moment.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use serde_json::Number;
use tenon_core::ToolProgress;
use tokio::sync::Notify;

use crate::output::first_chars;

/// Nobody reads faster; a server that reports every byte must not flood the client.
const PAUSE: Duration = Duration::from_millis(100);
/// What came before its call was known. More is a server that reports for calls nobody made.
const MAX_EARLY: usize = 16;
/// A message is a line for people.
const MAX_MESSAGE: usize = 500;

pub(super) type Tell = Arc<dyn Fn(ToolProgress) + Send + Sync>;

/// The calls of a connection that are under way.
#[derive(Default)]
pub(super) struct Progress(Mutex<State>);

#[derive(Default)]
struct State {
    calls: HashMap<ProgressToken, Call>,
    early: VecDeque<ProgressNotificationParam>,
}

struct Call {
    tell: Tell,
    moved: Arc<Notify>,
    told: Option<Instant>,
}

/// Forgets the call when it is dropped. `moved` wakes with every sign of progress.
pub(super) struct Listening<'a> {
    progress: &'a Progress,
    token: ProgressToken,
    pub moved: Arc<Notify>,
}

impl Progress {
    pub fn listen(&self, token: ProgressToken, tell: Tell) -> Listening<'_> {
        let moved = Arc::new(Notify::new());
        let mut state = self.state();
        let mut call = Call { tell, moved: Arc::clone(&moved), told: None };
        state.early.retain(|early| {
            let ours = early.progress_token == token;
            if ours {
                call.step(early);
            }
            !ours
        });
        state.calls.insert(token.clone(), call);
        Listening { progress: self, token, moved }
    }

    pub fn step(&self, step: ProgressNotificationParam) {
        let mut state = self.state();
        match state.calls.get_mut(&step.progress_token) {
            Some(call) => call.step(&step),
            None => {
                if state.early.len() == MAX_EARLY {
                    state.early.pop_front();
                }
                state.early.push_back(step);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    fn step(&mut self, step: &ProgressNotificationParam) {
        self.moved.notify_one();
        if self.told.is_some_and(|told| told.elapsed() < PAUSE) {
            return;
        }
        self.told = Some(Instant::now());
        let Some(progress) = number(step.progress) else { return };
        let message = step.message.as_deref().map(|message| first_chars(message, MAX_MESSAGE).to_owned());
        (self.tell)(ToolProgress::Steps { progress, total: step.total.and_then(number), message });
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.progress.state().calls.remove(&self.token);
    }
}

/// Whole numbers are written without a fraction, as servers write them.
fn number(value: f64) -> Option<Number> {
    /// Beyond this a double no longer counts in ones.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}
