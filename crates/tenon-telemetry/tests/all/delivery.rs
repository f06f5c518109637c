//! What reaches a collector that behaves, and what becomes of the rest.

use std::time::Duration;

use proptest::prelude::*;
use tenon_core::EventKind;
use tenon_telemetry::{Signal, Undelivered};
use tenon_testkit::cases;

use crate::support::{Answer, Memory, Stage, answered, asking, begins, called, calls, config, ends, start};

const FLUSH: Duration = Duration::from_secs(2);

/// A run of so many tool calls in one turn: three spans more.
fn run_of(calls_made: usize, stage: &mut Stage) {
    stage.event(None, begins()).event(None, asking(1)).event(None, answered(1));
    for n in 0..calls_made {
        let id = format!("c{n}");
        stage.event(None, calls(&id, "glob")).event(None, called(&id, "glob", 1));
    }
    stage.event(None, ends());
}

fn lost(spans: u64, reason: &str) -> Option<Undelivered> {
    Some(Undelivered { spans, metrics: true, reason: reason.to_owned() })
}

#[tokio::test(start_paused = true)]
async fn a_long_run_is_sent_in_batches() {
    let memory = Memory::answering([]);
    let exporter = start(&config(), &memory);
    run_of(1_200, &mut Stage::new(&exporter));
    assert_eq!(exporter.finish(FLUSH).await, None);
    assert_eq!((memory.spans().len(), memory.count(Signal::Traces)), (1_203, 3));
    assert_eq!(memory.count(Signal::Metrics), 1);
    assert!(!memory.metrics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_queue_has_an_end() {
    let memory = Memory::answering([Answer::Unreachable]);
    let exporter = start(&config(), &memory);
    run_of(5_000, &mut Stage::new(&exporter));
    assert_eq!(exporter.finish(FLUSH).await, lost(5_003, "connection refused"));
    // The first refusal ends it: nobody is there to take the others.
    assert_eq!(memory.count(Signal::Traces), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_collector_could_not_take_is_tried_once_per_interval() {
    let memory = Memory::answering([Answer::Unreachable, Answer::Status(503), Answer::Status(200)]);
    let exporter = start(&config(), &memory);
    run_of(2, &mut Stage::new(&exporter));
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(memory.count(Signal::Traces), 2, "one for each interval");
    assert_eq!(exporter.finish(FLUSH).await, None);
    let spans = memory.spans();
    assert_eq!(spans.len(), 15, "the same five, three times");
}

#[tokio::test(start_paused = true)]
async fn what_a_collector_refuses_is_not_tried_again() {
    let memory = Memory::answering([Answer::Status(400), Answer::Status(200)]);
    let exporter = start(&config(), &memory);
    run_of(2, &mut Stage::new(&exporter));
    tokio::time::sleep(Duration::from_secs(6)).await;
    let refused = Undelivered { spans: 5, metrics: false, reason: "the collector answered 400".to_owned() };
    assert_eq!(exporter.finish(FLUSH).await, Some(refused));
    assert_eq!(memory.count(Signal::Traces), 1);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_never_answers_costs_the_deadline_and_no_more() {
    let memory = Memory::answering([Answer::Never]);
    let exporter = start(&config(), &memory);
    run_of(2, &mut Stage::new(&exporter));
    let before = tokio::time::Instant::now();
    assert_eq!(exporter.finish(FLUSH).await, lost(5, "the collector did not answer within 2 s"));
    assert_eq!(before.elapsed(), FLUSH);
}

#[tokio::test(start_paused = true)]
async fn nothing_happened_nothing_is_sent() {
    let memory = Memory::answering([Answer::Unreachable]);
    let exporter = start(&config(), &memory);
    assert_eq!(exporter.finish(FLUSH).await, None);
    assert_eq!(memory.parcels.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_are_hidden_in_names_and_ids_too() {
    let memory = Memory::answering([]);
    let exporter = start(&config(), &memory);
    exporter.keep_secret([tenon_core::Secret::new("sk-123456")].into_iter().collect());
    Stage::new(&exporter)
        .event(None, begins())
        .event(None, EventKind::Asking { turn: 1, model: "m".to_owned() })
        .event(None, calls("call_sk-123456", "glob"))
        .event(None, called("call_sk-123456", "glob", 1))
        .event(None, ends());
    exporter.finish(FLUSH).await;
    let parcels = memory.parcels.lock().unwrap();
    assert!(parcels.iter().all(|(_, body)| !String::from_utf8_lossy(body).contains("sk-123456")));
    assert!(parcels.iter().any(|(_, body)| String::from_utf8_lossy(body).contains("call_***")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64)))]

    /// Whatever names and numbers there are, the bytes decode to them.
    #[test]
    fn everything_written_is_read_back(
        id in "\\PC{0,40}", name in "[a-z_é]{1,20}", tokens in any::<u32>(), duration in 0..10_000_u64, turn in any::<u32>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let memory = Memory::answering([]);
        runtime.block_on(async {
            let exporter = start(&config(), &memory);
            let usage = tenon_core::Usage { input: u64::from(tokens), cache_read: 1, ..Default::default() };
            Stage::new(&exporter)
                .event(None, begins())
                .event(None, asking(turn))
                .event(None, EventKind::TurnFinished { turn, usage })
                .event(None, calls(&id, &name))
                .at(20_000)
                .event(None, called(&id, &name, duration))
                .event(None, ends());
            assert_eq!(exporter.finish(FLUSH).await, None);
        });
        let spans = memory.spans();
        let text = |span: usize, key: &str| {
            let value = spans[span].attributes.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
            value.and_then(|value| value.value)
        };
        use opentelemetry_proto::tonic::common::v1::any_value::Value;
        let call = spans.iter().position(|span| span.name == format!("execute_tool {name}")).unwrap();
        prop_assert_eq!(text(call, "gen_ai.tool.call.id"), Some(Value::StringValue(id)));
        prop_assert_eq!(spans[call].end_time_unix_nano - spans[call].start_time_unix_nano, duration * 1_000_000);
        let chat = spans.iter().position(|span| span.name == "chat m").unwrap();
        prop_assert_eq!(text(chat, "gen_ai.usage.input_tokens"), Some(Value::IntValue(i64::from(tokens))));
        let of_turn = spans.iter().position(|span| span.name == "turn").unwrap();
        prop_assert_eq!(text(of_turn, "tenon.turn"), Some(Value::IntValue(i64::from(turn))));
    }
}
