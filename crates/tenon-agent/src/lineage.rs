//! Where an agent stands among those that work for one run, and what they share.
//!
//! Shared by all of them: the ids of calls (events of a sub-agent are told apart by the call it works for,
//! so no two calls may have one id) and the count of tool calls (a cap that a sub-agent could get around
//! would be none). Turns are counted by each agent alone.

use std::collections::HashSet;
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
}

/// What a sub-agent works for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorksFor {
    pub(crate) call_id: String,
    /// The terminal tool of the run. It is not the sub-agent's to call.
    pub(crate) terminal_tool: Option<String>,
}

#[derive(Default)]
struct Shared {
    call_ids: Mutex<HashSet<String>>,
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
        let mut used = lock(&self.shared.call_ids);
        let mut candidate = id.clone();
        let mut n = 2_u32;
        while candidate.is_empty() || !used.insert(candidate.clone()) {
            candidate = format!("{}_{n}", if id.is_empty() { "call" } else { &id });
            n += 1;
        }
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

    /// Counts what an agent used that worked for this one. `metrics` only where nobody else counts them.
    pub(crate) fn add_helper(&self, outcome: &Outcome, metrics: CountMetrics) {
        let mut helpers = lock(&self.helpers);
        helpers.denials.extend(outcome.denials.iter().cloned());
        if metrics == CountMetrics::Here {
            helpers.metrics.merge(&outcome.metrics);
        }
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
        let calls = history.iter().flat_map(Message::tool_calls).map(|call| call.id.clone());
        lock(&self.shared.call_ids).extend(calls);
    }
}

/// Where the metrics of a sub-agent are added to its caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountMetrics {
    Here,
    /// With the result of the call it worked for.
    WithTheCall,
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
