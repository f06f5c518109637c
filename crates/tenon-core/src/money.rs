//! What tokens cost, and one budget for everybody who spends from it.
//!
//! Prices come from `tenon-config` (a table of list prices, overridden by settings); here is only how a
//! [`Usage`] becomes dollars and how a [`MoneyBudget`] is kept. Who is asked what, and when, is the agent's.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::purse::{Answer, Purse};
use crate::{BoxFut, Budget, Estimate, Exceeded, Reservation, Usage, Used};

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

    /// What so much output costs, after input of this size.
    fn of_output(&self, input_tokens: u64, output_tokens: u64) -> f64 {
        dollars(output_tokens, self.rates_for(input_tokens).output)
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

/// An amount as messages show it: four decimals, or as many as a small one needs to be told from nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dollars(pub f64);

impl std::fmt::Display for Dollars {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const DECIMALS: usize = 4;
        const MOST_DECIMALS: usize = 10;
        let Dollars(amount) = *self;
        if amount == 0.0 {
            return out.write_str("$0");
        }
        // Two digits that say something.
        let needed = (-amount.abs().log10()).ceil().max(0.0) as usize + 1;
        let decimals = needed.clamp(DECIMALS, MOST_DECIMALS);
        write!(out, "${amount:.decimals$}")
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

/// What an answer is thought to hold while nobody knows better. Most hold less; the longest so far replaces it.
pub const USUAL_OUTPUT_TOKENS: u64 = 4096;

/// How a person who has said nothing else set the limit.
const FLAG: &str = "`--max-budget-usd`";

/// A limit in dollars, shared by everybody who holds a clone: a run, its sub-agents, a workflow.
///
/// Before a request is sent, what it may cost is set aside: its input, and an answer as dear as the dearest so far (at first
/// one of [`USUAL_OUTPUT_TOKENS`], never more than the model can write). A request that does not fit beside those under way
/// waits for them, in the order of arrival. One that is alone is sent as long as its input fits. So the limit can be passed by
/// one answer, and by as much as answers under way at the same time are dearer than any before them.
#[derive(Clone, Debug)]
pub struct MoneyBudget {
    limit: f64,
    set_by: &'static str,
    purse: Arc<Purse<Ledger>>,
}

#[derive(Debug, Default)]
struct Ledger {
    spent: f64,
    reserved: f64,
    under_way: u32,
    /// What the dearest answer cost beyond the input that was expected.
    dearest_answer: f64,
    /// The most that would have been spent with what was refused, answers included.
    wanted: Option<f64>,
}

/// What a request may cost.
#[derive(Clone, Copy, Debug)]
struct Amount {
    input: f64,
    output: f64,
}

impl MoneyBudget {
    pub fn new(limit_usd: f64) -> MoneyBudget {
        MoneyBudget { limit: limit_usd, set_by: FLAG, purse: Arc::default() }
    }

    /// What a person wrote the limit in, for messages: a flag, a setting, a field of a document.
    #[must_use]
    pub fn set_by(self, name: &'static str) -> MoneyBudget {
        MoneyBudget { set_by: name, ..self }
    }

    pub fn spent(&self) -> f64 {
        self.purse.with(|ledger| ledger.spent)
    }

    /// Set aside for requests under way.
    pub fn reserved(&self) -> f64 {
        self.purse.with(|ledger| ledger.reserved)
    }

    fn ask(&self, ledger: &mut Ledger, price: &Price, estimate: &Estimate) -> Answer<Amount> {
        let most = estimate.max_output_tokens.unwrap_or(u64::MAX);
        let input = price.of_input_at_most(estimate.input_tokens);
        let usual = price.of_output(estimate.input_tokens, USUAL_OUTPUT_TOKENS.min(most));
        let dearest = ledger.dearest_answer.min(price.of_output(estimate.input_tokens, most));
        let amount = Amount { input, output: usual.max(dearest) };
        let taken = ledger.spent + ledger.reserved;
        let fits = taken + amount.input + amount.output < self.limit;
        if !fits && ledger.under_way > 0 {
            return Answer::Wait;
        }
        if !fits && taken + amount.input >= self.limit {
            let wanted = taken + amount.input + amount.output;
            ledger.wanted = Some(ledger.wanted.map_or(wanted, |before| before.max(wanted)));
            return Answer::Refused(Exceeded::Money {
                spent: ledger.spent,
                next: amount.input,
                limit: self.limit,
                set_by: self.set_by,
            });
        }
        ledger.reserved += amount.input + amount.output;
        ledger.under_way += 1;
        Answer::Granted(amount)
    }

    fn settle(&self, amount: Amount, cost: Option<Cost>) {
        let sum = amount.input + amount.output;
        self.purse.settle(|ledger| {
            ledger.under_way = ledger.under_way.saturating_sub(1);
            // Never below nothing, and nothing when nobody asks: sums of fractions leave a rest.
            ledger.reserved = if ledger.under_way == 0 { 0.0 } else { (ledger.reserved - sum).max(0.0) };
            match cost {
                // Given back: nothing was used.
                None => {}
                Some(Cost::Usd(cost)) => {
                    ledger.spent += cost;
                    ledger.dearest_answer = ledger.dearest_answer.max(cost - amount.input);
                }
                // Somebody answered and nobody counted: what was set aside is the best guess.
                Some(Cost::Unknown) => ledger.spent += sum,
            }
        });
    }
}

impl Budget for MoneyBudget {
    fn reserve(&self, estimate: Estimate) -> BoxFut<'_, Result<Reservation, Exceeded>> {
        Box::pin(async move {
            let Some(price) = &estimate.price else {
                let (model, limit, set_by) = (estimate.model, self.limit, self.set_by);
                return Err(Exceeded::NoPrice { model, limit, set_by });
            };
            if price.is_free() {
                return Ok(Reservation::nothing());
            }
            let amount = self.purse.grant(|ledger| self.ask(ledger, price, &estimate)).await?;
            let budget = self.clone();
            Ok(Reservation::new(move |used| budget.settle(amount, used.map(|used| used.cost))))
        })
    }

    fn count(&self, used: Used) {
        // What nobody knows the price of cannot be counted.
        if let Cost::Usd(dollars) = used.cost {
            self.purse.with(|ledger| ledger.spent += dollars);
        }
    }

    fn wanted(&self) -> Option<f64> {
        self.purse.with(|ledger| ledger.wanted)
    }
}
