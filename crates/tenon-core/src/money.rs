//! What tokens cost, and one budget for everybody who spends from it.
//!
//! Prices come from `tenon-config` (a table of list prices, overridden by settings); here is only how a
//! [`Usage`] becomes dollars and how a [`MoneyBudget`] is kept. Who is asked what, and when, is the agent's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Budget, Estimate, Exceeded, Reservation, Usage};

const TOKENS_PER_PRICE: f64 = 1_000_000.0;
/// Sums of binary fractions end in noise; a ten-billionth of a dollar is below any price.
const COST_DIGITS: f64 = 1e10;

/// Dollars per million tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    pub rates: Rates,
    /// Other rates for larger requests. The one with the most tokens below the request's input holds.
    pub above: Vec<Above>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Input that went through no cache.
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

/// Rates for requests whose input is larger than this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Above {
    pub tokens: u64,
    pub rates: Rates,
}

impl Price {
    /// A server on this machine, a cassette.
    pub const FREE: Price = Price {
        rates: Rates { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0 },
        above: Vec::new(),
    };

    /// What one request costs. Cached tokens, which `input` includes, have prices of their own.
    pub fn of(&self, usage: Usage) -> f64 {
        let rates = self.rates_for(usage.input);
        let read = usage.cache_read.min(usage.input);
        let written = usage.cache_write.min(usage.input - read);
        let fresh = usage.input - read - written;
        dollars(fresh, rates.input)
            + dollars(read, rates.cache_read)
            + dollars(written, rates.cache_write)
            + dollars(usage.output, rates.output)
    }

    /// What input of this size can cost at most: all of it new, and all of it kept for later.
    pub fn of_input_at_most(&self, tokens: u64) -> f64 {
        let rates = self.rates_for(tokens);
        dollars(tokens, rates.input.max(rates.cache_write))
    }

    pub fn is_free(&self) -> bool {
        let free = |rates: Rates| {
            rates.input == 0.0 && rates.output == 0.0 && rates.cache_read == 0.0 && rates.cache_write == 0.0
        };
        free(self.rates) && self.above.iter().all(|above| free(above.rates))
    }

    fn rates_for(&self, input: u64) -> Rates {
        let applies = self.above.iter().filter(|above| input > above.tokens);
        applies.max_by_key(|above| above.tokens).map_or(self.rates, |above| above.rates)
    }
}

fn dollars(tokens: u64, rate: f64) -> f64 {
    tokens as f64 * rate / TOKENS_PER_PRICE
}

/// Dollars that were spent, as far as anybody knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    Usd(f64),
    /// Something was used that has no price, or nobody said how much was used.
    Unknown,
}

impl Default for Cost {
    fn default() -> Cost {
        Cost::Usd(0.0)
    }
}

impl Cost {
    /// The cost of an answer. Without a count of tokens it is known only where they cost nothing.
    pub fn of(price: Option<&Price>, usage: Option<Usage>) -> Cost {
        match (price, usage) {
            (Some(price), _) if price.is_free() => Cost::Usd(0.0),
            (Some(price), Some(usage)) => Cost::Usd(price.of(usage)),
            _ => Cost::Unknown,
        }
    }

    pub fn add(&mut self, other: Cost) {
        *self = match (*self, other) {
            (Cost::Usd(left), Cost::Usd(right)) => Cost::Usd(left + right),
            _ => Cost::Unknown,
        };
    }

    /// `None` when it is not known.
    pub fn usd(self) -> Option<f64> {
        match self {
            Cost::Usd(dollars) => Some((dollars * COST_DIGITS).round() / COST_DIGITS),
            Cost::Unknown => None,
        }
    }
}

/// What is known about a model before it is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFacts {
    pub price: Option<Price>,
    /// The most tokens that a request may hold.
    pub max_input: Option<u64>,
    /// The most tokens that an answer may hold.
    pub max_output: Option<u64>,
}

/// Facts by the name under which a model is asked.
#[derive(Clone, Debug, Default)]
pub struct Models(Arc<BTreeMap<String, ModelFacts>>);

impl Models {
    /// Two providers may know a model by the same name; then the dearer price and the smaller sizes hold.
    pub fn new(known: impl IntoIterator<Item = (String, ModelFacts)>) -> Models {
        let mut models: BTreeMap<String, ModelFacts> = BTreeMap::new();
        for (name, facts) in known {
            models.entry(name).and_modify(|other| *other = cautious(other, &facts)).or_insert(facts);
        }
        Models(Arc::new(models))
    }

    /// A model that nobody described has no price and no known size.
    pub fn facts(&self, name: &str) -> &ModelFacts {
        static UNKNOWN: ModelFacts = ModelFacts { price: None, max_input: None, max_output: None };
        self.0.get(name).unwrap_or(&UNKNOWN)
    }

    pub fn price(&self, name: &str) -> Option<&Price> {
        self.facts(name).price.as_ref()
    }

    /// A model whose price nobody knows, if there is one.
    pub fn unpriced(&self) -> Option<&str> {
        self.0.iter().find(|(_, facts)| facts.price.is_none()).map(|(name, _)| name.as_str())
    }
}

fn cautious(left: &ModelFacts, right: &ModelFacts) -> ModelFacts {
    let sum = |price: &Price| price.rates.input + price.rates.output;
    let smaller = |left: Option<u64>, right: Option<u64>| match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    };
    ModelFacts {
        price: match (&left.price, &right.price) {
            (Some(left), Some(right)) => Some(if sum(left) >= sum(right) { left } else { right }.clone()),
            _ => None,
        },
        max_input: smaller(left.max_input, right.max_input),
        max_output: smaller(left.max_output, right.max_output),
    }
}

/// A limit in dollars, shared by everybody who holds a clone: a run, its sub-agents, a workflow.
///
/// A request is let through only while what was spent, what is set aside for requests under way and the
/// input of this one stay below the limit. What an answer costs is known only afterwards, so the limit can
/// be passed by one answer per agent, and not by more.
#[derive(Clone, Debug)]
pub struct MoneyBudget {
    limit: f64,
    ledger: Arc<Mutex<Ledger>>,
}

#[derive(Debug, Default)]
struct Ledger {
    spent: f64,
    reserved: f64,
}

impl MoneyBudget {
    pub fn new(limit_usd: f64) -> MoneyBudget {
        MoneyBudget { limit: limit_usd, ledger: Arc::default() }
    }

    pub fn spent(&self) -> f64 {
        self.with(|ledger| ledger.spent)
    }

    /// Set aside for requests under way.
    pub fn reserved(&self) -> f64 {
        self.with(|ledger| ledger.reserved)
    }

    fn with<T>(&self, read: impl FnOnce(&mut Ledger) -> T) -> T {
        read(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Budget for MoneyBudget {
    fn reserve(&self, estimate: Estimate) -> Result<Reservation, Exceeded> {
        let Some(price) = estimate.price else {
            return Err(Exceeded::NoPrice { model: estimate.model, limit: self.limit });
        };
        if price.is_free() {
            return Ok(Reservation::nothing());
        }
        let amount = price.of_input_at_most(estimate.input_tokens);
        self.with(|ledger| {
            if ledger.spent + ledger.reserved + amount >= self.limit {
                return Err(Exceeded::Money {
                    spent: ledger.spent,
                    reserved: ledger.reserved,
                    next: amount,
                    limit: self.limit,
                });
            }
            ledger.reserved += amount;
            Ok(())
        })?;
        let budget = self.clone();
        Ok(Reservation::new(move |cost| {
            budget.with(|ledger| {
                // Never below nothing: sums of fractions leave a rest.
                ledger.reserved = (ledger.reserved - amount).max(0.0);
                match cost {
                    // Given back: nothing was used.
                    None => {}
                    Some(Cost::Usd(cost)) => ledger.spent += cost,
                    // Somebody answered and nobody counted: what was set aside is the best guess.
                    Some(Cost::Unknown) => ledger.spent += amount,
                }
            });
        }))
    }
}
