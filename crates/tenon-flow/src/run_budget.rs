//! `budget.maxTurns` and `budget.maxTokens`: kept before every request of whoever works for a run, or inside a workflow that
//! has them and is included.
//!
//! What a step that has ended leaves of a budget is looked at by the interpreter too (`interpreter/ending.rs`), so that nothing
//! is begun that cannot be done. `budget.maxUsd` needs prices, and is a budget of the caller's.

use std::sync::Arc;

use tenon_core::{Budget, CountedBudget, Counts};

use crate::paid::total;
use crate::{LoadedWorkflow, RunSpec, Spent, StepError, StepLog};

/// As messages quote them.
pub(crate) const TURNS: &str = "`budget.maxTurns` of the document";
pub(crate) const TOKENS: &str = "`budget.maxTokens` of the document";
/// Those of an included document, until its name is put in (`interpreter/ending.rs`).
const TURNS_INSIDE: &str = "`budget.maxTurns` of the included document";
const TOKENS_INSIDE: &str = "`budget.maxTokens` of the included document";

/// The budget of a whole run. What it has used before counts, whether or not it is told again.
pub(crate) fn of_run(spec: &RunSpec, log: &dyn StepLog, beside: Arc<dyn Budget>) -> Arc<dyn Budget> {
    let mut before = spec.before;
    before.add(&total(&log.dropped()));
    before.add(&log.paid_inside(&spec.place));
    counted(&spec.workflow, [TURNS, TOKENS], &before, &beside).unwrap_or(beside)
}

/// The budget of an included workflow, within that of whatever includes it.
pub(crate) fn of_included(
    workflow: &LoadedWorkflow,
    before: &Spent,
    beside: &Arc<dyn Budget>,
) -> Option<Arc<dyn Budget>> {
    counted(workflow, [TURNS_INSIDE, TOKENS_INSIDE], before, beside)
}

/// Whether a request was refused because of what an included document says.
pub(crate) fn is_of_included(error: &StepError) -> bool {
    [TURNS_INSIDE, TOKENS_INSIDE].iter().any(|set_by| error.message.contains(set_by))
}

/// `None` where the document bounds neither.
fn counted(
    workflow: &LoadedWorkflow,
    [turns_set_by, tokens_set_by]: [&'static str; 2],
    before: &Spent,
    beside: &Arc<dyn Budget>,
) -> Option<Arc<dyn Budget>> {
    let budget = &workflow.workflow.budget;
    let limits = Counts {
        turns: budget.max_turns.map(|turns| (turns, turns_set_by)),
        tokens: budget.max_tokens.map(|tokens| (tokens, tokens_set_by)),
    };
    (limits != Counts::default())
        .then(|| Arc::new(CountedBudget::new(limits, &before.used(), Arc::clone(beside))) as Arc<dyn Budget>)
}
