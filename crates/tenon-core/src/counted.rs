//! Turns and tokens: one limit for everybody who asks models on behalf of a run, beside whatever else bounds it.
//!
//! Dollars are `money.rs`. Who is asked what, and when, is the agent's.

use std::fmt;
use std::sync::Arc;

use crate::money::USUAL_OUTPUT_TOKENS;
use crate::purse::{Answer, Purse};
use crate::{BoxFut, Budget, Estimate, Exceeded, Reservation, Used};

/// The most of each; `None` is no limit. With each goes what a person wrote it in, for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub whose: Whose,
    /// Answers of models.
    pub turns: Option<(u32, Arc<str>)>,
    /// In and out.
    pub tokens: Option<(u64, Arc<str>)>,
}

/// Who has used up what it may, for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    #[default]
    Run,
    /// A document inside the run that has limits of its own, by its name.
    Document(Arc<str>),
}

impl fmt::Display for Whose {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Run => out.write_str("the run"),
            Whose::Document(name) => write!(out, "`{name}`"),
        }
    }
}

/// Limits on turns and tokens, shared by everybody who holds a clone, in front of another budget.
///
/// A turn is set aside before a request is sent and given back when nobody answers, so that no more are taken than may be.
/// Tokens are known only when an answer is there. What a request is thought to hold, and an answer as long as the longest so
/// far, is set aside; a request that does not fit beside those under way waits for them. One that is alone is sent as long as
/// anything is left, so that the limit can be passed by one request, however many ask at once.
#[derive(Clone)]
pub struct CountedBudget {
    limits: Counts,
    purse: Arc<Purse<Ledger>>,
    beside: Arc<dyn Budget>,
}

#[derive(Debug, Default)]
struct Ledger {
    turns: u32,
    tokens: u64,
    under_way: u32,
    reserved: u64,
    /// The most tokens that an answer had beyond the input that was expected.
    longest_answer: u64,
}

/// What a request may come to.
#[derive(Clone, Copy, Debug)]
struct Amount {
    input: u64,
    output: u64,
}

impl CountedBudget {
    /// `before` is all that the run has used already, so that [`Budget::count`] adds nothing to it.
    pub fn new(limits: Counts, before: &Used, beside: Arc<dyn Budget>) -> CountedBudget {
        let ledger = Ledger { turns: before.turns, tokens: before.usage.total, ..Ledger::default() };
        let purse = Purse::default();
        purse.with(|empty| *empty = ledger);
        CountedBudget { limits, purse: Arc::new(purse), beside }
    }

    fn ask(&self, ledger: &mut Ledger, estimate: &Estimate) -> Answer<Amount> {
        let most = estimate.max_output_tokens.unwrap_or(u64::MAX);
        let output = USUAL_OUTPUT_TOKENS.max(ledger.longest_answer).min(most);
        let amount = Amount { input: estimate.input_tokens, output };
        let whose = || self.limits.whose.clone();
        if let Some((limit, set_by)) = &self.limits.turns {
            let (used, limit) = (ledger.turns, *limit);
            if used >= limit {
                let set_by = Arc::clone(set_by);
                return Answer::Refused(Exceeded::Turns { whose: whose(), used, limit, set_by });
            }
            if used.saturating_add(ledger.under_way) >= limit {
                return Answer::Wait;
            }
        }
        if let Some((limit, set_by)) = &self.limits.tokens {
            let (used, limit) = (ledger.tokens, *limit);
            if used >= limit {
                let set_by = Arc::clone(set_by);
                return Answer::Refused(Exceeded::Tokens { whose: whose(), used, limit, set_by });
            }
            let taken = used.saturating_add(ledger.reserved).saturating_add(amount.sum());
            if taken > limit && ledger.under_way > 0 {
                return Answer::Wait;
            }
        }
        ledger.under_way += 1;
        ledger.reserved = ledger.reserved.saturating_add(amount.sum());
        Answer::Granted(amount)
    }

    fn settle(&self, amount: Amount, used: Option<Used>) {
        self.purse.settle(|ledger| {
            ledger.under_way = ledger.under_way.saturating_sub(1);
            ledger.reserved = ledger.reserved.saturating_sub(amount.sum());
            let Some(used) = used else { return };
            ledger.turns = ledger.turns.saturating_add(used.turns);
            // Somebody answered and nobody counted: what was set aside is the best guess.
            let tokens = match used.usage.total {
                0 if used.turns > 0 => amount.sum(),
                total => total,
            };
            ledger.tokens = ledger.tokens.saturating_add(tokens);
            ledger.longest_answer = ledger.longest_answer.max(tokens.saturating_sub(amount.input));
        });
    }
}

impl Amount {
    fn sum(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl Budget for CountedBudget {
    fn reserve(&self, estimate: Estimate) -> BoxFut<'_, Result<Reservation, Exceeded>> {
        Box::pin(async move {
            let amount = self.purse.grant(|ledger| self.ask(ledger, &estimate)).await?;
            let budget = self.clone();
            // Given back also when the other budget refuses, or nobody waits for it any longer.
            let own = Reservation::new(move |used| budget.settle(amount, used));
            let beside = self.beside.reserve(estimate).await?;
            Ok(own.and(beside))
        })
    }

    fn count(&self, used: Used) {
        self.beside.count(used);
    }

    fn wanted(&self) -> Option<f64> {
        self.beside.wanted()
    }
}
