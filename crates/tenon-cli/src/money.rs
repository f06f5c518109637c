//! `--max-budget-usd`, `limits.budgetUsd` and a document's `budget.maxUsd`: the budget of a run, or why it cannot be kept.

use std::sync::Arc;

use tenon_config::{Settings, prices_as_of};
use tenon_core::{Budget, ErrorClass, Failure, Models, MoneyBudget, NoBudget};
use tenon_flow::MoneyLimit;

use crate::args::RunArgs;

const FLAG: &str = "`--max-budget-usd`";
const SETTING: &str = "`limits.budgetUsd` of the settings";

/// The budget of a single run.
pub fn budget(args: &RunArgs, settings: &Settings, models: &Models) -> Result<Arc<dyn Budget>, Failure> {
    keep(allowed(args, settings)?, models)
}

/// What whoever runs it allows.
pub fn allowed(args: &RunArgs, settings: &Settings) -> Result<Option<MoneyLimit>, Failure> {
    let (usd, set_by) = match args.max_budget_usd {
        Some(limit) => (flag(limit)?, FLAG),
        None => (settings.limits.budget_usd().at_most(), SETTING),
    };
    Ok(usd.map(|usd| MoneyLimit { usd, set_by }))
}

/// A budget that nobody can keep is refused before anything is asked.
pub fn keep(limit: Option<MoneyLimit>, models: &Models) -> Result<Arc<dyn Budget>, Failure> {
    let Some(MoneyLimit { usd, set_by }) = limit else { return Ok(Arc::new(NoBudget)) };
    match models.unpriced() {
        Some(model) => Err(Failure::new(
            ErrorClass::Config,
            format!("{set_by} cannot be kept: what the model `{model}` costs is not known"),
        )
        .hint(format!(
            "set its price in the settings, `\"prices\": {{ \"{model}\": {{ \"input\": …, \"output\": … }} }}` in dollars per million tokens (the list of known prices is of {}), or bound the run by its turns and by `--max-wall-time`",
            prices_as_of()
        ))),
        None => Ok(Arc::new(MoneyBudget::new(usd).set_by(set_by))),
    }
}

fn flag(limit: f64) -> Result<Option<f64>, Failure> {
    match limit {
        -1.0 => Ok(None),
        limit if limit.is_finite() && limit >= 0.0 => Ok(Some(limit)),
        _ => Err(Failure::new(
            ErrorClass::Usage,
            format!("`--max-budget-usd {limit}` is not an amount of money"),
        )
        .hint("it takes dollars, 0 or more, or -1 for no limit")),
    }
}
