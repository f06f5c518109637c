//! `budget.maxTurns` and `budget.maxTokens`: kept before every request of whoever works for a run, or inside a workflow that
//! has them and is included.
//!
//! What a step that has ended leaves of a budget is looked at by the interpreter too ([`used_up`]), so that nothing is begun that
//! cannot be done. `budget.maxUsd` needs prices, and is a budget of the caller's; inside an included workflow the interpreter looks
//! at it.

use std::sync::Arc;

use tenon_core::{Budget, CountedBudget, Counts, Dollars, Whose};

use crate::paid::total;
use crate::{LoadedWorkflow, MoneyLimit, RunSpec, Spent, StepError, StepErrorClass, StepLog};

const USD: &str = "maxUsd";
const TOKENS: &str = "maxTokens";
const TURNS: &str = "maxTurns";

/// The budget of a whole run. What it has used before counts, whether or not it is told again.
pub(crate) fn of_run(spec: &RunSpec, log: &dyn StepLog, beside: Arc<dyn Budget>) -> Arc<dyn Budget> {
    let mut before = spec.before;
    before.add(&total(&log.dropped()));
    before.add(&log.paid_inside(&spec.place));
    counted(&spec.workflow, Whose::Run, &before, &beside).unwrap_or(beside)
}

/// The budget of an included workflow, within that of whatever includes it. `name` is what messages call its document.
pub(crate) fn of_included(
    workflow: &LoadedWorkflow,
    name: &Arc<str>,
    before: &Spent,
    beside: &Arc<dyn Budget>,
) -> Option<Arc<dyn Budget>> {
    counted(workflow, Whose::Document(Arc::clone(name)), before, beside)
}

/// Whether a request was refused because of what this document says, and not one around it.
pub(crate) fn is_of(error: &StepError, whose: &Whose) -> bool {
    error.class == StepErrorClass::Budget
        && [TURNS, TOKENS].iter().any(|field| error.message.contains(&set_by(field, whose)))
}

/// A budget of which nothing is left.
pub(crate) struct UsedUp {
    /// `the run has used 3 of its 3 model turns`
    pub message: String,
    /// As messages quote it.
    pub set_by: String,
}

/// Whether a workflow has used what it may.
pub(crate) fn used_up(
    workflow: &LoadedWorkflow,
    whose: &Whose,
    caller: Option<MoneyLimit>,
    spent: &Spent,
) -> Option<UsedUp> {
    let budget = &workflow.workflow.budget;
    let over =
        |what: String, set_by: String| Some(UsedUp { message: format!("{whose} has used {what}"), set_by });
    if let (Some(MoneyLimit { usd, set_by: by_caller }), Some(used)) =
        (MoneyLimit::of(caller, workflow), spent.cost_usd)
        // Where nothing may be spent, there is work that costs nothing: the purse refuses the rest.
        && used > 0.0
        && used >= usd
    {
        let set_by = match whose {
            Whose::Run => by_caller.to_owned(),
            // What the caller allows is the run's.
            Whose::Document(_) => set_by(USD, whose),
        };
        return over(format!("{} of the {} it may spend", Dollars(used), Dollars(usd)), set_by);
    }
    if let Some(max) = budget.max_tokens
        && spent.usage.total >= max
    {
        let used = spent.usage.total;
        return over(format!("{used} of the {max} tokens it may use"), set_by(TOKENS, whose));
    }
    if let Some(max) = budget.max_turns
        && spent.turns >= max
    {
        let used = spent.turns;
        return over(format!("{used} of its {max} model turns"), set_by(TURNS, whose));
    }
    None
}

/// As messages quote it.
fn set_by(field: &str, whose: &Whose) -> String {
    match whose {
        Whose::Run => format!("`budget.{field}` of the document"),
        Whose::Document(name) => format!("`budget.{field}` of `{name}`"),
    }
}

/// `None` where the document bounds neither.
fn counted(
    workflow: &LoadedWorkflow,
    whose: Whose,
    before: &Spent,
    beside: &Arc<dyn Budget>,
) -> Option<Arc<dyn Budget>> {
    let budget = &workflow.workflow.budget;
    if budget.max_turns.is_none() && budget.max_tokens.is_none() {
        return None;
    }
    let limits = Counts {
        turns: budget.max_turns.map(|turns| (turns, set_by(TURNS, &whose).into())),
        tokens: budget.max_tokens.map(|tokens| (tokens, set_by(TOKENS, &whose).into())),
        whose,
    };
    Some(Arc::new(CountedBudget::new(limits, &before.used(), Arc::clone(beside))))
}
