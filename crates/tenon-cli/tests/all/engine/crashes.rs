//! Random crashes: the binary is killed, half of the times when the journal has come to some row, half after some
//! time, again and again, until the run is over. What comes out is what comes out of a run that nobody interferes with.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tenon_testkit::{Run, Running, Signal, cases};

use super::documents::DOCUMENTS;
use super::world::{Row, Whole, World, check_segment};

/// Worlds at a time: a run waits for its disk and its commands most of the time.
const AT_ONCE: usize = 4;
/// How often one run is killed at most.
const MAX_CRASHES: u64 = 4;
/// 128 and the number of the signal.
const KILLED: i32 = 137;
/// How often the journal is looked at.
const POLL: Duration = Duration::from_millis(1);

#[test]
fn runs_that_are_killed_at_random_end_as_if_they_had_not_been() {
    let wanted = cases(12) as usize;
    let wholes: Vec<Whole> = DOCUMENTS.iter().map(|files| Whole::of(files)).collect();
    let (crashes, worlds, by_row) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while crashes.load(Ordering::SeqCst) < wanted {
                    let seed = worlds.fetch_add(1, Ordering::SeqCst);
                    let document = seed % DOCUMENTS.len();
                    let killed = one_run(seed, DOCUMENTS[document], &wholes[document]);
                    crashes.fetch_add(killed.at_rows + killed.at_times, Ordering::SeqCst);
                    by_row.fetch_add(killed.at_rows, Ordering::SeqCst);
                }
            });
        }
    });
    let (crashes, by_row) = (crashes.into_inner(), by_row.into_inner());
    assert!(by_row * 4 >= crashes && by_row * 4 <= crashes * 3, "{by_row} of {crashes} by row");
    println!("{crashes} crashes, {by_row} of them at a row, in {} runs", worlds.into_inner());
}

#[derive(Default)]
struct Killed {
    at_rows: usize,
    at_times: usize,
}

/// One run with its crashes, to its end.
fn one_run(seed: usize, files: &[(&str, &str)], whole: &Whole) -> Killed {
    let mut random = Random::new(seed);
    let mut world = World::new(files);
    let mut killed = Killed::default();
    let mut story = format!("seed {seed}");
    for number in 0..1 + random.below(MAX_CRASHES) {
        let before = world.rows();
        let running = world.spawn();
        // In turns, whichever comes first.
        let died = if (seed as u64 + number).is_multiple_of(2) {
            let row = before.len()
                + 1
                + random.below((whole.rows - before.len().min(whole.rows)) as u64 + 1) as usize;
            story += &format!(", row {row}");
            at_row(running, &world, row)
        } else {
            let after = whole.took.mul_f64(random.below(1100) as f64 / 1000.0);
            story += &format!(", {after:?}");
            at_time(running, after)
        };
        check_segment(&world, &before, true, &story);
        match died {
            Died::Killed if (seed as u64 + number).is_multiple_of(2) => killed.at_rows += 1,
            Died::Killed => killed.at_times += 1,
            // It was faster.
            Died::Ended(run) => {
                check_segment(&world, &before, false, &story);
                if world.answered(&run) {
                    story += ", answered";
                    continue;
                }
                whole.check(&world, &run, &story);
                return killed;
            }
        }
    }
    loop {
        let before: Vec<Row> = world.rows();
        let run = world.finish();
        check_segment(&world, &before, false, &story);
        if world.answered(&run) {
            continue;
        }
        whole.check(&world, &run, &story);
        return killed;
    }
}

pub enum Died {
    Killed,
    Ended(Box<Run>),
}

/// Kills it as soon as the journal has so many rows.
pub fn at_row(running: Running, world: &World, row: usize) -> Died {
    let mut watch = world.watch();
    kill_when(running, || watch.rows() >= row)
}

fn at_time(running: Running, after: Duration) -> Died {
    let began = Instant::now();
    kill_when(running, || began.elapsed() >= after)
}

pub fn kill_when(mut running: Running, mut moment: impl FnMut() -> bool) -> Died {
    loop {
        if running.has_ended() {
            break;
        }
        if moment() {
            running.signal(Signal::Kill);
            break;
        }
        std::thread::sleep(POLL);
    }
    let run = running.wait();
    if run.code == KILLED { Died::Killed } else { Died::Ended(Box::new(run)) }
}

/// The same numbers every time.
struct Random(u64);

impl Random {
    fn new(seed: usize) -> Random {
        Random((seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
