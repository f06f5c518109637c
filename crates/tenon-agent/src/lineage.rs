//! Where an agent stands among those that work for one run, and what they share.
//!
//! Shared by all of them: the ids of calls (events of a sub-agent are told apart by the call it works for,
//! so no two calls may have one id) and the count of tool calls (a cap that a sub-agent could get around
//! would be none). Turns are counted by each agent alone.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenon_core::{Message, Metrics, Outcome, PermissionDenial};

/// Background agents of one run at the same time, at all depths together: each is a conversation that costs
/// money and holds a connection.
pub(crate) const MAX_BACKGROUND_AGENTS: u32 = 10;

#[derive(Clone, Default)]
pub struct Lineage {
    /// `None` for the run itself.
    pub(crate) work: Option<WorksFor>,
    /// 0 for the run itself.
    depth: u32,
    shared: Arc<Shared>,
    /// What agents that worked for this one used and were denied.
    helpers: Arc<Mutex<Helpers>>,
    /// The same of the agent that this one works for.
    of_caller: Option<Arc<Mutex<Helpers>>>,
}

/// What a sub-agent works for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorksFor {
    pub(crate) call_id: String,
    /// The terminal tool of the run. It is not the sub-agent's to call.
    pub(crate) terminal_tool: Option<String>,
}

/// Ids of so many calls are remembered, the latest ones, and those of the conversation. A client that still waits for a
/// call before them has lost count itself.
const REMEMBERED_CALLS: usize = 10_000;

/// Ids that are taken.
#[derive(Default)]
struct CallIds {
    /// With the number that the next call of the same id is tried with.
    taken: HashMap<Arc<str>, u32>,
    /// The oldest first.
    order: VecDeque<Arc<str>>,
}

impl CallIds {
    fn take(&mut self, id: &str) -> bool {
        if self.taken.contains_key(id) {
            return false;
        }
        let id: Arc<str> = id.into();
        self.taken.insert(Arc::clone(&id), 2);
        self.order.push_back(id);
        true
    }

    fn forget_oldest(&mut self) {
        while self.order.len() > REMEMBERED_CALLS {
            if let Some(id) = self.order.pop_front() {
                self.taken.remove(&id);
            }
        }
    }
}

#[derive(Default)]
struct Shared {
    call_ids: Mutex<CallIds>,
    tool_calls: AtomicU32,
    background_agents: AtomicU32,
}

#[derive(Clone, Default)]
pub(crate) struct Helpers {
    pub(crate) metrics: Metrics,
    pub(crate) denials: Vec<PermissionDenial>,
}

impl Lineage {
    /// The standing of an agent that works for a call of this one.
    pub(crate) fn below(&self, call_id: &str, terminal_tool: Option<&str>) -> Lineage {
        let inherited = self.work.as_ref().and_then(|work| work.terminal_tool.clone());
        Lineage {
            work: Some(WorksFor {
                call_id: call_id.to_owned(),
                terminal_tool: terminal_tool.map(str::to_owned).or(inherited),
            }),
            depth: self.depth + 1,
            shared: Arc::clone(&self.shared),
            helpers: Arc::default(),
            of_caller: Some(Arc::clone(&self.helpers)),
        }
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) fn call_id(&self) -> Option<&str> {
        self.work.as_ref().map(|work| work.call_id.as_str())
    }

    /// The terminal tool that this agent may not call.
    pub(crate) fn forbidden_tool(&self) -> Option<&str> {
        self.work.as_ref().and_then(|work| work.terminal_tool.as_deref())
    }

    /// Some servers number the calls of every answer from zero; results are matched by id, so an id that
    /// was used before gets a suffix.
    pub(crate) fn unused_call_id(&self, id: String) -> String {
        let mut ids = lock(&self.shared.call_ids);
        let id = match id.as_str() {
            "" => {
                ids.take("call");
                "call"
            }
            id => id,
        };
        let mut next = ids.taken.get(id).copied().unwrap_or(2);
        let mut candidate = id.to_owned();
        while !ids.take(&candidate) {
            candidate = format!("{id}_{next}");
            next += 1;
        }
        if let Some(number) = ids.taken.get_mut(id) {
            *number = next;
        }
        ids.forget_oldest();
        candidate
    }

    /// Tool calls of all agents so far.
    pub(crate) fn tool_calls(&self) -> u32 {
        self.shared.tool_calls.load(Ordering::Relaxed)
    }

    pub(crate) fn count_tool_call(&self) {
        self.shared.tool_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// A place for one more agent in the background, if there is one.
    pub(crate) fn background_place(&self) -> Option<BackgroundPlace> {
        let taken = &self.shared.background_agents;
        let more = |n: u32| (n < MAX_BACKGROUND_AGENTS).then_some(n + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(BackgroundPlace(Arc::clone(&self.shared)))
    }

    /// Counts what an agent used that worked for this one.
    pub(crate) fn add_helper(&self, outcome: &Outcome) {
        lock(&self.helpers).add(&outcome.metrics, &outcome.denials);
    }

    /// An agent that is dropped in the middle has no outcome. What it used was paid for all the same.
    pub(crate) fn leave_to_caller(&self, metrics: &Metrics, denials: &[PermissionDenial]) {
        let Some(caller) = &self.of_caller else { return };
        let own = self.take_helpers();
        let mut helpers = lock(caller);
        helpers.add(&own.metrics, &own.denials);
        helpers.add(metrics, denials);
    }

    /// What has not been counted yet: the runs of a session count each agent once.
    pub(crate) fn take_helpers(&self) -> Helpers {
        std::mem::take(&mut *lock(&self.helpers))
    }

    /// A run begins: calls are counted from here on, if it is nobody's helper.
    pub(crate) fn begin_run(&self, history: &[Message]) {
        if self.work.is_none() {
            self.shared.tool_calls.store(0, Ordering::Relaxed);
        }
        let mut ids = lock(&self.shared.call_ids);
        ids.forget_oldest();
        for call in history.iter().flat_map(Message::tool_calls) {
            ids.take(&call.id);
        }
    }
}

impl Helpers {
    fn add(&mut self, metrics: &Metrics, denials: &[PermissionDenial]) {
        self.metrics.merge(metrics);
        self.denials.extend(denials.iter().cloned());
    }
}

/// Given back when dropped.
pub(crate) struct BackgroundPlace(Arc<Shared>);

impl Drop for BackgroundPlace {
    fn drop(&mut self) {
        self.0.background_agents.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
