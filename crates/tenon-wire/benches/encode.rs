//! What one streamed delta costs, from event to line. Thousands of them pass per run.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tenon_core::{Event, EventKind, Id, IdSource, PartKind, Timestamp};
use tenon_wire::{Dialect, EncoderOptions, Format, encoder};

const DELTAS: u64 = 20_000;

fn deltas(criterion: &mut Criterion) {
    let ids = IdSource::new(Id::from_random([7; 16]));
    let event = |kind| Event { seq: 1, time: Timestamp(0), id: ids.next(), parent: None, kind };
    let opening = [
        event(EventKind::TurnStarted { turn: 1, model: "m".to_owned() }),
        event(EventKind::PartStarted { part: 0, id: ids.next(), kind: PartKind::Text }),
    ];
    let mut group = criterion.benchmark_group("qwen");
    group.throughput(Throughput::Elements(DELTAS));
    for (name, text) in
        [("ascii deltas", " the next few words\n"), ("unicode deltas", " die nächsten „Wörter“\n")]
    {
        let deltas: Vec<Event> =
            (0..DELTAS).map(|_| event(EventKind::PartDelta { part: 0, text: text.to_owned() })).collect();
        group.bench_function(name, |bencher| {
            let mut out = Vec::with_capacity(8 << 20);
            bencher.iter(|| {
                let options = EncoderOptions {
                    partials: true,
                    ..EncoderOptions::new(Format::StreamJson, ids.next(), "0.0.0")
                };
                let mut encoder = encoder(Dialect::Qwen, options);
                out.clear();
                for event in opening.iter().chain(&deltas) {
                    encoder.encode(event, &mut out);
                }
                black_box(out.len())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, deltas);
criterion_main!(benches);
