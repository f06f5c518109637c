//! `budget.maxTurns` and `budget.maxTokens`: kept before every request of whoever works for a run, or inside a workflow that
//! has them and is included.
//!
//! What a step that has ended leaves of a budget is looked at by the interpreter too (`interpreter/ending.rs`), so that nothing
//! is begun that cannot be done. `budget.maxUsd` needs prices, and is a budget of the caller's.

use std::sync::Arc;

use tenon_core::{Budget, CountedBudget, Counts};

use crate::paid::total;
use crate::{LoadedWorkflow, RunSpec, Spent, StepLog};

/// As messages quote them.
pub(crate) const TURNS: &str = "`budget.maxTurns` of the document";
pub(crate) const TOKENS: &str = "`budget.maxTokens` of the document";

/// The budget of a whole run. What it has used before counts, whether or not it is told again.
pub(crate) fn of_run(spec: &RunSpec, log: &dyn StepLog, beside: Arc<dyn Budget>) -> Arc<dyn Budget> {
    let mut before = spec.before;
    before.add(&total(&log.dropped()));
    before.add(&log.paid_inside(&spec.place));
    counted(&spec.workflow, &before, &beside).unwrap_or(beside)
}

/// `None` where the document bounds neither.
pub(crate) fn counted(
    workflow: &LoadedWorkflow,
    before: &Spent,
    beside: &Arc<dyn Budget>,
) -> Option<Arc<dyn Budget>> {
    let budget = &workflow.workflow.budget;
    let limits = Counts {
        turns: budget.max_turns.map(|turns| (turns, TURNS)),
        tokens: budget.max_tokens.map(|tokens| (tokens, TOKENS)),
    };
    (limits != Counts::default())
        .then(|| Arc::new(CountedBudget::new(limits, &before.used(), Arc::clone(beside))) as Arc<dyn Budget>)
}
