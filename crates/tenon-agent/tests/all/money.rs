//! What tokens cost, who pays, and when nobody asks any more.

use std::sync::Arc;

use futures_util::FutureExt;
use proptest::prelude::*;
use tenon_core::{
    Above, BoxFut, Budget, Cost, Delta, ErrorClass, Estimate, Exceeded, FinishReason, Metrics, ModelError,
    ModelFacts, Models, MoneyBudget, Price, Rates, Reservation, USUAL_OUTPUT_TOKENS, Usage, Used,
};
use tenon_testkit::cases;

use crate::script::{Answer, Scene, calls, text};

/// Dollars per token, to make sums easy to read.
fn price(input: f64, output: f64) -> Price {
    let (input, output) = (input * 1e6, output * 1e6);
    let rates = Rates { input, output, cache_read: input / 10.0, cache_write: input * 1.25 };
    Price { rates, above: Vec::new() }
}

fn facts(price: Price) -> ModelFacts {
    ModelFacts { price: Some(price), ..ModelFacts::default() }
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, total: input + output, ..Usage::default() }
}

fn used(cost: Cost) -> Used {
    Used { cost, ..Used::default() }
}

fn with_usage(mut answer: Answer, usage: Usage) -> Answer {
    answer.insert(0, Ok(Delta::Usage(usage)));
    answer
}

fn estimate(price: &Price, input_tokens: u64) -> Estimate {
    Estimate { model: "m".into(), input_tokens, max_output_tokens: None, price: Some(price.clone()) }
}

#[test]
fn tokens_are_priced_apart_by_how_they_came() {
    let rates = Rates { input: 1.0, output: 10.0, cache_read: 0.1, cache_write: 1.25 };
    let twice = Rates { input: 2.0, output: 20.0, cache_read: 0.2, cache_write: 2.5 };
    let thrice = Rates { input: 3.0, output: 30.0, cache_read: 0.3, cache_write: 3.75 };
    let above = vec![Above { tokens: 2_000_000, rates: thrice }, Above { tokens: 1_000_000, rates: twice }];
    let price = Price { rates, above };
    let usage = |input, output, cache_read, cache_write| Usage {
        input,
        output,
        cache_read,
        cache_write,
        ..Usage::default()
    };
    for (usage, dollars) in [
        (usage(1_000_000, 0, 0, 0), 1.0),
        (usage(0, 1_000_000, 0, 0), 10.0),
        (usage(1_000_000, 0, 1_000_000, 0), 0.1),
        (usage(1_000_000, 0, 0, 1_000_000), 1.25),
        (usage(1_000_000, 100_000, 500_000, 300_000), 0.2 + 0.05 + 0.375 + 1.0),
        // More cached than read is a server that counts apart: nothing is paid twice.
        (usage(100_000, 0, 500_000, 500_000), 0.01),
        // Larger requests, all of them at the larger rate.
        (usage(1_000_001, 0, 0, 0), 2.000_002),
        (usage(2_000_000, 100_000, 0, 0), 6.0),
        (usage(2_000_001, 100_000, 0, 0), 9.000_003),
    ] {
        let cost = Cost::of(Some(&price), Some(usage)).usd();
        assert_eq!(cost, Some(dollars), "{usage:?}");
    }
}

#[test]
fn what_nobody_knows_is_not_zero() {
    let price = price(1.0, 1.0);
    assert_eq!(Cost::of(None, Some(usage(1, 1))).usd(), None);
    assert_eq!(Cost::of(Some(&price), None).usd(), None);
    assert_eq!(Cost::of(Some(&Price::FREE), None).usd(), Some(0.0));
    let mut sum = Cost::Usd(1.0);
    sum.add(Cost::Unknown);
    sum.add(Cost::Usd(1.0));
    assert_eq!(sum.usd(), None);
}

#[test]
fn one_name_at_two_providers_has_the_dearer_price_and_the_smaller_size() {
    let cheap = ModelFacts { max_input: Some(10), ..facts(price(1.0, 1.0)) };
    let dear = ModelFacts { max_input: Some(20), ..facts(price(2.0, 1.0)) };
    for pair in [[cheap.clone(), dear.clone()], [dear.clone(), cheap.clone()]] {
        let models = Models::new(pair.map(|facts| ("m".to_owned(), facts)));
        assert_eq!(models.facts("m"), &ModelFacts { max_input: Some(10), ..dear.clone() });
        assert_eq!(models.unpriced(), None);
    }
    let models = Models::new([("m".to_owned(), dear), ("m".to_owned(), ModelFacts::default())]);
    assert_eq!(models.unpriced(), Some("m"));
}

#[test]
fn a_run_costs_what_each_answer_costs_and_broken_answers_too() {
    let broken = vec![
        Ok(Delta::Usage(usage(100, 1))),
        Ok(Delta::Retrying {
            attempt: 2,
            attempts: 5,
            wait: std::time::Duration::ZERO,
            error: ModelError::new(ErrorClass::Network, "gone"),
        }),
        Ok(Delta::Usage(usage(100, 10))),
    ];
    let answers =
        vec![[broken, calls(&[("a", "look", "{}")])].concat(), with_usage(text("Done."), usage(200, 20))];
    let played = Scene::new(answers).facts(facts(price(0.01, 0.1))).play();
    assert_eq!(played.outcome.cost_usd, Some(4.0 + 3.1));
    let metrics = &played.outcome.metrics.models["scripted"];
    assert_eq!((metrics.requests, metrics.errors), (3, 1));
    assert_eq!(metrics.usage, Usage { total: 431, ..usage(400, 31) });
}

#[test]
fn an_answer_without_a_count_leaves_the_cost_unknown() {
    let answers = || vec![text("Done.")];
    assert_eq!(Scene::new(answers()).facts(facts(price(1.0, 1.0))).play().outcome.cost_usd, None);
    assert_eq!(Scene::new(answers()).facts(facts(Price::FREE)).play().outcome.cost_usd, Some(0.0));
    assert_eq!(Scene::new(answers()).play().outcome.cost_usd, None, "nobody knows the price");
}

#[test]
fn who_answered_is_who_is_paid() {
    let answer = vec![
        Ok(Delta::Usage(usage(10, 0))),
        Ok(Delta::SwitchedModel { from: "scripted".into(), to: "other".into(), status: None, fallback: 1 }),
        Ok(Delta::Usage(usage(100, 0))),
        Ok(Delta::Text("Hi.".into())),
        Ok(Delta::Finished(FinishReason::Stop)),
    ];
    let mut scene = Scene::new(vec![answer]);
    scene.models = Models::new([
        ("scripted".to_owned(), facts(price(1.0, 0.0))),
        ("other".to_owned(), facts(price(0.01, 0.0))),
    ]);
    let played = scene.play();
    assert_eq!(played.outcome.cost_usd, Some(11.0));
    let cost = |name: &str| played.outcome.metrics.models[name].cost;
    assert_eq!((cost("scripted"), cost("other")), (Cost::Usd(10.0), Cost::Usd(1.0)));
}

#[test]
fn what_sub_agents_used_is_the_callers() {
    let mut caller = Metrics::default();
    let mut other = Metrics { lines_added: 2, lines_removed: 1, ..Metrics::default() };
    let model = other.models.entry("m".into()).or_default();
    (model.requests, model.errors, model.latency_ms) = (2, 1, 5);
    (model.usage, model.cost) = (usage(10, 1), Cost::Usd(0.5));
    let tool = other.tools.entry("look".into()).or_default();
    (tool.success, tool.fail, tool.duration_ms) = (3, 1, 7);
    tool.decisions.insert(tenon_core::Decision::AutoAccept, 4);
    caller.merge(&other);
    assert_eq!(caller, other);
    caller.merge(&other);
    assert_eq!((caller.models["m"].requests, caller.models["m"].usage.input), (4, 20));
    assert_eq!((caller.tools["look"].success, caller.lines_added), (6, 4));
    assert_eq!(caller.tools["look"].decisions[&tenon_core::Decision::AutoAccept], 8);
    assert_eq!(caller.cost().usd(), Some(1.0));
}

#[test]
fn a_request_that_would_reach_the_budget_is_not_sent() {
    // The second request is thought to hold more than 100 tokens, at 0.0125 each when they are kept.
    let answers = || {
        vec![
            with_usage(calls(&[("a", "look", "{}")]), usage(100, 10)),
            with_usage(text("Done."), usage(110, 1)),
        ]
    };
    let play = |limit: f64| {
        let mut scene = Scene::new(answers()).facts(facts(price(0.01, 0.1)));
        let budget = MoneyBudget::new(limit);
        scene.budget = Arc::new(budget.clone());
        (scene.play(), budget)
    };
    let (played, budget) = play(100.0);
    assert_eq!((played.class(), budget.spent()), ("success", played.outcome.cost_usd.unwrap()));
    let (played, budget) = play(2.5);
    assert_eq!((played.class(), played.outcome.turns), ("budget", 2));
    assert_eq!(played.model.requests.lock().unwrap().len(), 1, "the second was not sent");
    assert_eq!((budget.spent(), budget.reserved()), (2.0, 0.0));
    assert_eq!(played.outcome.cost_usd, Some(2.0));
    let tenon_core::Ending::Failure(failure) = &played.outcome.ending else { panic!("{:?}", played.outcome) };
    assert_eq!(failure.exit_code(), 55);
    for words in ["$2.0000 of $2.5000 spent", "--max-budget-usd"] {
        assert!(failure.message.contains(words), "{}", failure.message);
    }
    assert_eq!(play(0.0).0.model.requests.lock().unwrap().len(), 0);
}

/// Asked once: granted or refused at once, or `None` when there is somebody to wait for.
fn at_once(budget: &MoneyBudget, estimate: Estimate) -> Option<Result<Reservation, Exceeded>> {
    budget.reserve(estimate).now_or_never()
}

#[test]
fn reservations_are_given_back_settled_or_guessed() {
    // An answer holds two tokens at most.
    let price = price(1.0, 1.0);
    let ask = |tokens| Estimate { max_output_tokens: Some(2), ..estimate(&price, tokens) };
    let budget = MoneyBudget::new(20.0).set_by("`the purse`");
    let reserve = |tokens| at_once(&budget, ask(tokens));
    let first = reserve(4).unwrap().unwrap();
    assert_eq!(budget.reserved(), 7.0, "input at the rate of what is kept for later, and an answer");
    let second = reserve(4).unwrap().unwrap();
    assert!(reserve(4).is_none(), "7 + 7 + 7 is more than 20, and two requests may be cheaper than thought");
    drop(first);
    let third = reserve(4).unwrap().unwrap();
    second.settle(used(Cost::Usd(12.0)));
    assert_eq!((budget.spent(), budget.reserved()), (12.0, 7.0));
    assert!(reserve(4).is_none());
    drop(third);
    let alone = reserve(4).unwrap().unwrap();
    assert!(reserve(1).is_none(), "nobody beside it");
    alone.settle(used(Cost::Usd(7.0)));
    assert_eq!((budget.spent(), budget.reserved()), (19.0, 0.0));
    let refused = reserve(1).unwrap().map(drop).unwrap_err();
    assert_eq!(
        refused,
        Exceeded::Money { spent: 19.0, next: 1.25, limit: 20.0, set_by: "`the purse`" },
        "its input alone reaches the limit"
    );
    assert!(refused.to_string().ends_with("before its answer (`the purse`)"), "{refused}");
    let budget = MoneyBudget::new(10.0);
    at_once(&budget, ask(4)).unwrap().unwrap().settle(used(Cost::Unknown));
    assert_eq!((budget.spent(), budget.reserved()), (7.0, 0.0), "somebody answered and nobody counted");
    budget.count(used(Cost::Usd(1.5)));
    budget.count(used(Cost::Unknown));
    assert_eq!(budget.spent(), 8.5, "what was spent before counts, as far as anybody knows");
    let unpriced = Estimate { price: None, ..ask(1) };
    assert!(matches!(at_once(&budget, unpriced), Some(Err(Exceeded::NoPrice { .. }))));
    at_once(&MoneyBudget::new(0.0), estimate(&Price::FREE, 1_000_000)).unwrap().unwrap();
}

#[test]
fn an_answer_is_expected_to_be_as_dear_as_the_dearest_so_far() {
    let price = price(0.0, 1.0);
    let budget = MoneyBudget::new(1e6);
    let reserved = |max_output_tokens| {
        let reservation = at_once(&budget, Estimate { max_output_tokens, ..estimate(&price, 1) });
        let reserved = budget.reserved();
        drop(reservation);
        reserved
    };
    assert_eq!(reserved(None), USUAL_OUTPUT_TOKENS as f64);
    at_once(&budget, estimate(&price, 1)).unwrap().unwrap().settle(used(Cost::Usd(9000.0)));
    assert_eq!((reserved(None), reserved(Some(5000)), reserved(Some(100))), (9000.0, 5000.0, 100.0));
}

#[test]
fn whoever_waits_longest_is_next_and_whoever_leaves_holds_up_nobody() {
    let price = price(0.0, 1.0);
    let ask = || Estimate { max_output_tokens: Some(10), ..estimate(&price, 1) };
    let budget = MoneyBudget::new(10.5);
    let under_way = at_once(&budget, ask()).unwrap().unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| budget.reserve(ask())).collect();
    let poll = |one: &mut BoxFut<'_, Result<Reservation, Exceeded>>| one.as_mut().now_or_never();
    assert!(waiting.iter_mut().all(|one| poll(one).is_none()));
    drop(waiting.remove(0));
    assert!(waiting.iter_mut().all(|one| poll(one).is_none()));
    under_way.settle(used(Cost::Usd(0.25)));
    // The later one asks first, and still comes second.
    assert!(poll(&mut waiting[1]).is_none());
    let next = poll(&mut waiting[0]).unwrap().unwrap();
    assert!(poll(&mut waiting[1]).is_none());
    drop(next);
    poll(&mut waiting[1]).unwrap().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(24)))]

    /// Agents at once on one budget, whose answers are as long as was thought: it is passed by one answer at most.
    #[test]
    fn a_shared_budget_is_passed_by_one_answer_at_most(
        limit in 10_u32..200,
        agents in prop::collection::vec(prop::collection::vec((1_u64..20, 0_u64..30), 1..30), 2..6),
    ) {
        let (limit, price) = (f64::from(limit), price(0.4, 0.5));
        let budget = MoneyBudget::new(limit);
        let largest_answer = agents.iter().flatten().map(|(_, output)| *output as f64 * 0.5).fold(0.0, f64::max);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
        let paid: f64 = runtime.block_on(async {
            let agents = agents.into_iter().map(|requests| {
                let (budget, price) = (budget.clone(), price.clone());
                tokio::spawn(async move {
                    let mut paid = 0.0;
                    for (input, output) in requests {
                        let ask = Estimate { max_output_tokens: Some(30), ..estimate(&price, input) };
                        let Ok(reservation) = budget.reserve(ask).await else { break };
                        tokio::task::yield_now().await;
                        let cost = price.of(usage(input, output));
                        paid += cost;
                        reservation.settle(used(Cost::Usd(cost)));
                    }
                    paid
                })
            });
            let agents: Vec<_> = agents.collect();
            let mut sum = 0.0;
            for agent in agents {
                sum += agent.await.unwrap();
            }
            sum
        });
        prop_assert!((budget.spent() - paid).abs() < 1e-6);
        prop_assert!(budget.reserved() < 1e-6);
        prop_assert!(budget.spent() < limit + largest_answer, "{} of {limit}", budget.spent());
    }
}
