//! Turns and tokens that many ask for at once: who is let through, who waits, who is refused.

use std::sync::Arc;

use futures_util::FutureExt;
use proptest::prelude::*;
use tenon_core::{
    Budget, CountedBudget, Counts, Estimate, Exceeded, MoneyBudget, NoBudget, Price, Rates, Reservation,
    Usage, Used, Whose,
};
use tenon_testkit::cases;

fn counted(turns: Option<u32>, tokens: Option<u64>, before: Used) -> CountedBudget {
    CountedBudget::new(limits(Whose::Run, turns, tokens), &before, Arc::new(NoBudget))
}

fn limits(whose: Whose, turns: Option<u32>, tokens: Option<u64>) -> Counts {
    let (of_turns, of_tokens) = ("`the turns`".into(), "`the tokens`".into());
    Counts {
        whose,
        turns: turns.map(|turns| (turns, of_turns)),
        tokens: tokens.map(|tokens| (tokens, of_tokens)),
    }
}

fn estimate(input_tokens: u64, max_output_tokens: Option<u64>) -> Estimate {
    Estimate { model: "m".to_owned(), input_tokens, max_output_tokens, price: None }
}

fn answer(total: u64) -> Used {
    Used { usage: Usage { total, ..Usage::default() }, turns: 1, ..Used::default() }
}

/// `None` when there is somebody to wait for.
fn at_once(budget: &CountedBudget, estimate: Estimate) -> Option<Result<Reservation, Exceeded>> {
    budget.reserve(estimate).now_or_never()
}

#[test]
fn no_more_turns_are_taken_than_may_be() {
    let budget = counted(Some(3), None, answer(1));
    let ask = || at_once(&budget, estimate(1, None));
    let (first, second) = (ask().unwrap().unwrap(), ask().unwrap().unwrap());
    assert!(ask().is_none(), "one was taken before, two are under way, and may come to nothing");
    drop(first);
    let third = ask().unwrap().unwrap();
    second.settle(Used { turns: 0, ..answer(9) });
    let fourth = ask().unwrap().unwrap();
    third.settle(answer(1));
    fourth.settle(answer(1));
    let refused = ask().unwrap().map(drop).unwrap_err();
    let told = "the run has used 3 of its 3 model turns, and needs another (`the turns`)";
    assert_eq!(refused.to_string(), told);
    budget.count(answer(1));
    assert!(matches!(ask(), Some(Err(Exceeded::Turns { used: 3, .. }))), "it was counted when it began");
}

#[test]
fn a_document_with_limits_of_its_own_is_named() {
    let inside = limits(Whose::Document("inc.yaml".into()), Some(1), Some(1));
    let budget = CountedBudget::new(inside, &answer(0), Arc::new(NoBudget));
    let refused = at_once(&budget, estimate(1, None)).unwrap().map(drop).unwrap_err();
    let told = "`inc.yaml` has used 1 of its 1 model turns, and needs another (`the turns`)";
    assert_eq!(refused.to_string(), told);
}

#[test]
fn tokens_are_set_aside_beside_others_and_spent_alone() {
    let budget = counted(None, Some(100), Used::default());
    let first = at_once(&budget, estimate(30, Some(20))).unwrap().unwrap();
    let second = at_once(&budget, estimate(30, Some(20))).unwrap().unwrap();
    assert!(at_once(&budget, estimate(1, Some(1))).is_none(), "50 and 50 and 2");
    first.settle(answer(60));
    assert!(at_once(&budget, estimate(1, Some(1))).is_none(), "60 and 50");
    second.settle(answer(39));
    // One more token, and whoever is alone may ask.
    let last = at_once(&budget, estimate(5000, None)).unwrap().unwrap();
    assert!(at_once(&budget, estimate(1, Some(1))).is_none());
    last.settle(answer(700));
    let refused = at_once(&budget, estimate(1, Some(1))).unwrap().map(drop).unwrap_err();
    let told = "the run has used 799 of the 100 tokens it may use, and needs more (`the tokens`)";
    assert_eq!(refused.to_string(), told);
    // What nobody counted is taken for what was expected.
    let budget = counted(None, Some(100), Used::default());
    at_once(&budget, estimate(40, Some(60))).unwrap().unwrap().settle(answer(0));
    assert!(matches!(at_once(&budget, estimate(1, None)), Some(Err(Exceeded::Tokens { used: 100, .. }))));
}

#[test]
fn what_another_budget_refuses_is_given_back() {
    let rates = Rates { input: 1e6, output: 1e6, cache_read: 1e6, cache_write: 1e6 };
    let price = Some(Price { rates, above: Vec::new() });
    let purse = MoneyBudget::new(10.0);
    let budget =
        CountedBudget::new(limits(Whose::Run, Some(1), None), &Used::default(), Arc::new(purse.clone()));
    let ask = |tokens| Estimate { price: price.clone(), ..estimate(tokens, Some(1)) };
    assert!(matches!(at_once(&budget, ask(11)), Some(Err(Exceeded::Money { .. }))));
    let granted = at_once(&budget, ask(3)).unwrap().unwrap();
    assert_eq!(purse.reserved(), 4.0);
    drop(granted);
    assert_eq!(purse.reserved(), 0.0);
    at_once(&budget, ask(3)).unwrap().unwrap().settle(answer(3));
    assert!(matches!(at_once(&budget, ask(3)), Some(Err(Exceeded::Turns { .. }))));
    assert_eq!(budget.wanted(), purse.wanted());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(24)))]

    /// Agents at once on one budget: exactly as many turns as there are, and at most one request beyond the tokens. Some
    /// requests fail, and come to nothing.
    #[test]
    fn shared_turns_and_tokens_are_kept(
        turns in 1_u32..40,
        tokens in 1_u64..800,
        agents in prop::collection::vec(prop::collection::vec((1_u64..20, 0_u64..30, prop::bool::weighted(0.8)), 1..30), 2..6),
    ) {
        let wanted: u32 = agents.iter().flatten().map(|(_, _, answered)| u32::from(*answered)).sum();
        let largest = agents.iter().flatten().map(|(input, output, _)| input + output).max().unwrap_or(0);
        let budget = counted(Some(turns), Some(tokens), Used::default());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
        let (taken, used, refused) = runtime.block_on(async {
            let agents = agents.into_iter().map(|requests| {
                let budget = budget.clone();
                tokio::spawn(async move {
                    let (mut taken, mut used) = (0, 0);
                    for (input, output, answered) in requests {
                        let Ok(reservation) = budget.reserve(estimate(input, Some(30))).await else {
                            return (taken, used, true);
                        };
                        tokio::task::yield_now().await;
                        if answered {
                            (taken, used) = (taken + 1, used + input + output);
                            reservation.settle(answer(input + output));
                        }
                    }
                    (taken, used, false)
                })
            });
            let agents: Vec<_> = agents.collect();
            let mut sum = (0, 0, false);
            for agent in agents {
                let one = agent.await.unwrap();
                sum = (sum.0 + one.0, sum.1 + one.1, sum.2 || one.2);
            }
            sum
        });
        prop_assert!(taken <= turns);
        prop_assert!(used < tokens + largest, "{used} of {tokens}");
        if refused {
            prop_assert!(taken == turns || used >= tokens);
        } else {
            prop_assert_eq!(taken, wanted);
        }
    }
}
