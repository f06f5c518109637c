//! What is measured, and what is good enough. Whole programs, on loopback HTTP, in turns, medians.
//!
//! The goals are constants here; `subject.rs` knows the command lines, `report.rs` draws the table.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::concurrent::held_memory;
use crate::greeting::time_to_greeting;
use crate::hints::{Hinted, hints};
use crate::long_session;
use crate::many::{By, ManyRuns};
use crate::measure::{Sample, measure, peak_rss_floor};
use crate::report::{Goal, Row, Unit, print};
use crate::search::{Searched, searches};
use crate::serve::{LONG_STREAM_CHUNKS, Scenario, ServerProcess};
use crate::subject::{Output, Place, Subject};
use crate::workflow::{Work, measured, validation, write_journal};
use crate::{Failure, Verdict};

const RUNS: usize = 30;
/// A run of tenon should cost about what one HTTP exchange costs anyone.
const CPU_GOAL_CURLS: f64 = 3.0;
const RSS_GOAL: f64 = 20e6;
/// Below what a person or a supervising program notices.
const FIRST_BYTE_GOAL: f64 = 15e-3;
/// A client sends its first prompt after this; the programs that SDKs were made for need half a second and more.
const GREETING_GOAL: f64 = 20e-3;
/// A fast model sends hundreds of events per second: this keeps a stream below a percent of a core.
const EVENT_CPU_GOAL: f64 = 5e-6;
/// A session of many days, most of it summed up long ago.
const SESSION_BYTES: usize = 50_000_000;
const SESSION_GOAL: f64 = 300e-3;
/// A small build agent runs twenty of them.
const CONCURRENT: usize = 20;
const CONCURRENT_PSS_GOAL: f64 = 200e6;
/// What one process of a service holds.
pub const MANY: usize = 500;
const MANY_RSS_GOAL: f64 = 120e6;
/// Most of the time of a run is the network's.
const MANY_RATE_GOAL: f64 = 0.7;
/// A search in this process should not lose to starting the program made for it.
const SEARCH_GOAL_RG: f64 = 1.5;
/// The engine should not be seen beside a hundred model calls.
const WORKFLOW_STEPS: usize = 100;
const WORKFLOW_CPU_GOAL: f64 = 50e-3;
/// Before every run, and at every key in an editor.
const VALIDATION_GOAL: f64 = 5e-3;
const WORKFLOW_ITEMS: usize = 1000;
const WORKFLOW_RSS_GOAL: f64 = 150e6;
/// What keeping a step costs should not be seen beside the step.
const KEPT_STEP_CPU_GOAL: f64 = 1e-3;
/// A person waits for the list of a year's runs.
const LISTED_RUNS: usize = 10_000;
const LIST_GOAL: f64 = 50e-3;
const RUNS_AT_ONCE: usize = 100;
/// Below what a typing person notices, and what they put up with once.
const HINT_WARM_GOAL: f64 = 50e-3;
const HINT_COLD_GOAL: f64 = 500e-3;
/// Each is hundreds of exchanges already.
const MANY_ROUNDS: usize = 7;

struct Options {
    runs: usize,
    peers: Vec<Subject>,
    binary: Option<PathBuf>,
    on_miss: OnMiss,
}

enum OnMiss {
    Report,
    Fail,
}

pub fn run(args: &[String]) -> Result<Verdict, Failure> {
    let options = parse(args)?;
    let binary = match options.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => build()?,
    };
    let mut subjects = vec![Subject::Tenon { binary }, Subject::Curl];
    subjects.extend(options.peers);
    let place = Place::new()?;
    let bench = Bench { runs: options.runs, place: &place, subjects: &subjects };

    let mut rows = bench.one_turn()?;
    rows.push(bench.first_byte()?);
    rows.push(bench.greeting()?);
    rows.push(bench.long_stream()?);
    rows.extend(bench.long_session()?);
    rows.push(bench.many_at_once()?);
    rows.extend(bench.many_in_one_process()?);
    rows.extend(bench.workflows()?);
    rows.extend(bench.kept_runs()?);
    rows.extend(bench.searches()?);
    rows.extend(bench.hints()?);
    // Last, when we are at our largest.
    let floor = peak_rss_floor(&place.stderr())?;
    let names: Vec<&str> = subjects.iter().map(Subject::name).collect();
    let all_met = print(&names, &rows, options.runs, floor);
    Ok(match options.on_miss {
        OnMiss::Fail if !all_met => Verdict::Bad,
        _ => Verdict::Good,
    })
}

fn parse(args: &[String]) -> Result<Options, Failure> {
    let mut options = Options { runs: RUNS, peers: Vec::new(), binary: None, on_miss: OnMiss::Report };
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| Failure::usage(format!("`{flag}` needs a value")));
        match flag.as_str() {
            "--check" => options.on_miss = OnMiss::Fail,
            "--binary" => options.binary = Some(value()?.into()),
            "--runs" => {
                let runs = value()?;
                options.runs = runs.parse().ok().filter(|runs| *runs > 0).ok_or_else(|| {
                    Failure::usage(format!("`--runs` takes a number above 0, not `{runs}`"))
                })?;
            }
            "--peer" => {
                let peer = value()?;
                let (name, command) = peer
                    .split_once('=')
                    .ok_or_else(|| Failure::usage(format!("`--peer` takes NAME=COMMAND, not `{peer}`")))?;
                options.peers.push(Subject::Peer { name: name.into(), command: command.into() });
            }
            _ => return Err(Failure::usage(format!("no such option: `{flag}`"))),
        }
    }
    Ok(options)
}

/// Builds the release binary and says where it is.
fn build() -> Result<PathBuf, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built =
        Command::new(cargo).args(["build", "--release", "-p", "tenon-cli"]).current_dir(&root).status()?;
    if !built.success() {
        return Err(Failure::other("`cargo build --release -p tenon-cli` failed"));
    }
    // A relative target folder counts from where the build ran.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    Ok(root.join(target).join("release").join("tenon"))
}

struct Bench<'a> {
    runs: usize,
    place: &'a Place,
    subjects: &'a [Subject],
}

impl Bench<'_> {
    /// A structured run of one turn: wall time, CPU time, peak memory.
    fn one_turn(&self) -> Result<Vec<Row>, Failure> {
        let mut server = ServerProcess::start(Scenario::OneTurn)?;
        // The first run is not counted; its request is what `curl` will post.
        let Some((first, _)) = self.subjects.split_first() else { return Ok(Vec::new()) };
        self.once(first, &server.base_url, Output::Text)?;
        server.save_first_request(&self.place.request())?;

        let samples = self.in_turns(self.subjects, &server.base_url, Output::Text)?;
        let row = |what, goal, unit, of: fn(&Sample) -> f64| {
            let values = samples.iter().map(|samples| Some(median_of(samples, of))).collect();
            Row { what, goal, unit, values }
        };
        let cpu_goal = Goal::TimesCurl(CPU_GOAL_CURLS);
        Ok(vec![
            row("one turn: wall", Goal::None, Unit::Time, |sample| sample.wall.as_secs_f64()),
            row("one turn: CPU", cpu_goal, Unit::Time, |sample| sample.cpu.as_secs_f64()),
            row("one turn: peak RSS", Goal::AtMost(RSS_GOAL), Unit::Bytes, |sample| {
                sample.peak_rss_bytes as f64
            }),
        ])
    }

    /// From the start of the process to the first byte of a stream.
    fn first_byte(&self) -> Result<Row, Failure> {
        let server = ServerProcess::start(Scenario::OneTurn)?;
        let samples = self.in_turns(self.subjects, &server.base_url, Output::Stream)?;
        let first = |sample: &Sample| sample.first_byte.unwrap_or(Duration::MAX).as_secs_f64();
        let values = samples.iter().map(|samples| Some(median_of(samples, first))).collect();
        Ok(Row {
            what: "first byte of a stream",
            goal: Goal::AtMost(FIRST_BYTE_GOAL),
            unit: Unit::Time,
            values,
        })
    }

    /// From the start of the process to the answer to a client's `initialize`.
    fn greeting(&self) -> Result<Row, Failure> {
        let server = ServerProcess::start(Scenario::OneTurn)?;
        let Some((tenon, _)) = self.subjects.split_first() else {
            return Err(Failure::other("there is nobody to greet"));
        };
        let mut times = Vec::with_capacity(self.runs);
        for _ in 0..self.runs {
            let mut command = tenon.session(&server.base_url, self.place)?;
            times.push(time_to_greeting(&mut command, &self.place.stderr())?.as_secs_f64());
        }
        let mut values = vec![Some(median(times))];
        values.resize(self.subjects.len(), None);
        Ok(Row {
            what: "start to the answer to `initialize`",
            goal: Goal::AtMost(GREETING_GOAL),
            unit: Unit::Time,
            values,
        })
    }

    /// CPU time for each event of a long stream: a long run, less a short one with the same flags.
    fn long_stream(&self) -> Result<Row, Failure> {
        let short = ServerProcess::start(Scenario::OneTurn)?;
        let long = ServerProcess::start(Scenario::LongStream)?;
        // What a peer prints of a stream is not comparable; what `curl` does with one is.
        let both = &self.subjects[..2];
        let short = self.in_turns(both, &short.base_url, Output::StreamOfDeltas)?;
        let long = self.in_turns(both, &long.base_url, Output::StreamOfDeltas)?;
        let cpu = |sample: &Sample| sample.cpu.as_secs_f64();
        let mut values: Vec<Option<f64>> = long
            .iter()
            .zip(&short)
            .map(|(long, short)| {
                Some((median_of(long, cpu) - median_of(short, cpu)) / LONG_STREAM_CHUNKS as f64)
            })
            .collect();
        values.resize(self.subjects.len(), None);
        Ok(Row {
            what: "20,000 events: CPU each",
            goal: Goal::AtMost(EVENT_CPU_GOAL),
            unit: Unit::Time,
            values,
        })
    }

    /// A run that goes on with a session of 50 MB, of which little is still sent: how long it takes as a whole,
    /// and how much memory.
    fn long_session(&self) -> Result<Vec<Row>, Failure> {
        let server = ServerProcess::start(Scenario::OneTurn)?;
        let cwd = self.place.workspace().canonicalize()?;
        let session = long_session::write(&self.place.tenon_home(), &cwd, SESSION_BYTES)?.to_string();
        let Some((tenon, _)) = self.subjects.split_first() else { return Ok(Vec::new()) };
        let mut samples = Vec::with_capacity(self.runs);
        for _ in 0..self.runs {
            let mut command = tenon.command(&server.base_url, Output::Text, self.place);
            samples.push(self.finished(tenon, command.args(["--resume", &session]))?);
        }
        let row = |what, goal, unit, value| {
            let mut values = vec![Some(value)];
            values.resize(self.subjects.len(), None);
            Row { what, goal, unit, values }
        };
        let wall = median_of(&samples, |sample| sample.wall.as_secs_f64());
        let peak = median_of(&samples, |sample| sample.peak_rss_bytes as f64);
        Ok(vec![
            row("a run in a session of 50 MB: wall", Goal::AtMost(SESSION_GOAL), Unit::Time, wall),
            row("the same: peak RSS", Goal::AtMost(RSS_GOAL), Unit::Bytes, peak),
        ])
    }

    /// Memory of many structured runs, all waiting for their model.
    fn many_at_once(&self) -> Result<Row, Failure> {
        let mut values = Vec::new();
        for subject in self.subjects {
            values.push(Some(held_memory(subject, CONCURRENT, self.place)?));
        }
        Ok(Row {
            what: "20 at once: sum of PSS",
            goal: Goal::Below(CONCURRENT_PSS_GOAL),
            unit: Unit::Bytes,
            values,
        })
    }

    /// Structured runs in one process: its peak memory while all wait, and how many it does in a second,
    /// compared with a client that posts the same requests and only reads the answers.
    fn many_in_one_process(&self) -> Result<Vec<Row>, Failure> {
        let mut held = ServerProcess::start(Scenario::Held)?;
        let runs = ManyRuns::start(&held.base_url, MANY, By::Tenon)?;
        held.wait_for_requests(MANY)?;
        held.open_gate()?;
        let peak = runs.wait()?.peak_rss_bytes as f64;

        let mut server = ServerProcess::start(Scenario::OneTurn)?;
        // The first run is not counted; its request is what the bare client will post.
        ManyRuns::start(&server.base_url, 1, By::Tenon)?.wait()?;
        let request = self.place.request_of_many();
        server.save_first_request(&request)?;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..MANY_ROUNDS {
            for (by, times) in [(By::Tenon, &mut ours), (By::Bare(&request), &mut bare)] {
                let many = ManyRuns::start(&server.base_url, MANY, by)?.wait()?;
                if let Some(bad) = many.answers.iter().find(|answer| answer.starts_with("failed")) {
                    return Err(Failure::other(format!("one of {MANY} runs in one process {bad}")));
                }
                times.push(many.took.as_secs_f64());
            }
        }
        let row = |what, goal, unit, value| {
            let mut values = vec![Some(value)];
            values.resize(self.subjects.len(), None);
            Row { what, goal, unit, values }
        };
        Ok(vec![
            row("500 runs in one process: peak RSS", Goal::Below(MANY_RSS_GOAL), Unit::Bytes, peak),
            row(
                "the same: rate, as part of a bare client's",
                Goal::AtLeast(MANY_RATE_GOAL),
                Unit::Ratio,
                median(bare) / median(ours),
            ),
        ])
    }

    /// A workflow of many steps with a model that answers at once, less one of a single step; and a loop over many
    /// items, a hundred of them waiting at a time.
    fn workflows(&self) -> Result<Vec<Row>, Failure> {
        let stderr = self.place.stderr();
        let (mut one, mut many, mut items) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.runs {
            one.push(measured(Work::Steps(1), &stderr)?);
            many.push(measured(Work::Steps(WORKFLOW_STEPS), &stderr)?);
            items.push(measured(Work::Items(WORKFLOW_ITEMS), &stderr)?);
        }
        let cpu = |sample: &Sample| sample.cpu.as_secs_f64();
        let row = |what, goal, unit, value| {
            let mut values = vec![Some(value)];
            values.resize(self.subjects.len(), None);
            Row { what, goal, unit, values }
        };
        Ok(vec![
            row(
                "a workflow of 100 steps: CPU beyond one step's",
                Goal::Below(WORKFLOW_CPU_GOAL),
                Unit::Time,
                median_of(&many, cpu) - median_of(&one, cpu),
            ),
            row(
                "validation of a workflow of 100 steps: wall",
                Goal::Below(VALIDATION_GOAL),
                Unit::Time,
                median(validation(WORKFLOW_STEPS, self.runs.max(20))?),
            ),
            row(
                "forEach over 1,000 items, 100 at once: peak RSS",
                Goal::Below(WORKFLOW_RSS_GOAL),
                Unit::Bytes,
                median_of(&items, |sample| sample.peak_rss_bytes as f64),
            ),
        ])
    }

    /// Workflows in a journal: what a step costs, many runs at once, and a list of very many.
    fn kept_runs(&self) -> Result<Vec<Row>, Failure> {
        let stderr = self.place.stderr();
        let (mut one, mut many, mut runs, mut lists) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        write_journal(&self.place.tenon_home().join("runs.db"), LISTED_RUNS)?;
        let Some((tenon, _)) = self.subjects.split_first() else { return Ok(Vec::new()) };
        for _ in 0..self.runs {
            one.push(measured(Work::Kept(1), &stderr)?);
            many.push(measured(Work::Kept(WORKFLOW_STEPS), &stderr)?);
            runs.push(measured(Work::Runs(RUNS_AT_ONCE), &stderr)?);
            let mut list = tenon.session("http://127.0.0.1:1/v1", self.place)?;
            let sample = measure(list.args(["flow", "list"]), &stderr)?;
            if !sample.status.success() || sample.output.is_empty() {
                return Err(Failure::other(format!("`tenon flow list` gave no list ({})", sample.status)));
            }
            lists.push(sample);
        }
        let (cpu, wall) =
            (|sample: &Sample| sample.cpu.as_secs_f64(), |sample: &Sample| sample.wall.as_secs_f64());
        let row = |what, goal, unit, value| {
            let mut values = vec![Some(value)];
            values.resize(self.subjects.len(), None);
            Row { what, goal, unit, values }
        };
        let steps = (WORKFLOW_STEPS - 1) as f64;
        Ok(vec![
            row(
                "a step of a workflow in a journal: CPU",
                Goal::Below(KEPT_STEP_CPU_GOAL),
                Unit::Time,
                (median_of(&many, cpu) - median_of(&one, cpu)) / steps,
            ),
            row(
                "100 runs of ten steps at once, in one journal: wall",
                Goal::None,
                Unit::Time,
                median_of(&runs, wall),
            ),
            row(
                "the same: peak RSS",
                Goal::None,
                Unit::Bytes,
                median_of(&runs, |sample| sample.peak_rss_bytes as f64),
            ),
            row(
                "`flow list` of 10,000 runs: wall",
                Goal::Below(LIST_GOAL),
                Unit::Time,
                median_of(&lists, wall),
            ),
        ])
    }

    /// Searches of a large repository, as part of what the `rg` program takes for them.
    fn searches(&self) -> Result<Vec<Row>, Failure> {
        let Searched { grep, glob } = searches()?;
        let row = |what, (ours, rg): (f64, Option<f64>)| {
            let (goal, unit, value) = match rg {
                Some(rg) => (Goal::AtMost(SEARCH_GOAL_RG), Unit::Ratio, ours / rg),
                None => (Goal::None, Unit::Time, ours),
            };
            let mut values = vec![Some(value)];
            values.resize(self.subjects.len(), None);
            Row { what, goal, unit, values }
        };
        Ok(vec![
            row("grep_search in 50,000 files: wall, × rg", grep),
            row("glob in 50,000 files: wall, × rg", glob),
        ])
    }

    /// Suggestions of files in a very large tree.
    fn hints(&self) -> Result<Vec<Row>, Failure> {
        let Hinted { cold, warm } = hints()?;
        let row = |what, goal, value| {
            let mut values = vec![Some(value)];
            values.resize(self.subjects.len(), None);
            Row { what, goal: Goal::AtMost(goal), unit: Unit::Time, values }
        };
        Ok(vec![
            row("a hint among 100,000 files: the first", HINT_COLD_GOAL, cold),
            row("the same: one letter more", HINT_WARM_GOAL, warm),
        ])
    }

    /// Every subject in turn, again and again, so that a busy moment of the machine hits all of them.
    fn in_turns(
        &self,
        subjects: &[Subject],
        base_url: &str,
        output: Output,
    ) -> Result<Vec<Vec<Sample>>, Failure> {
        let mut samples: Vec<Vec<Sample>> = subjects.iter().map(|_| Vec::with_capacity(self.runs)).collect();
        for _ in 0..self.runs {
            for (subject, samples) in subjects.iter().zip(&mut samples) {
                let mut sample = self.once(subject, base_url, output)?;
                // Kept outputs would make us, and so the next child, larger.
                sample.output = Vec::new();
                samples.push(sample);
            }
        }
        Ok(samples)
    }

    fn once(&self, subject: &Subject, base_url: &str, output: Output) -> Result<Sample, Failure> {
        self.finished(subject, &mut subject.command(base_url, output, self.place))
    }

    fn finished(&self, subject: &Subject, command: &mut Command) -> Result<Sample, Failure> {
        let sample = measure(command, &self.place.stderr())?;
        let printed = String::from_utf8_lossy(&sample.output);
        if sample.status.success() && printed.contains("risk") {
            return Ok(sample);
        }
        let said = std::fs::read_to_string(self.place.stderr()).unwrap_or_default();
        let (name, status) = (subject.name(), sample.status);
        Err(Failure::other(format!(
            "`{name}` gave no result ({status})\n--- stdout\n{printed}\n--- stderr\n{said}"
        )))
    }
}

fn median_of(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> f64 {
    median(samples.iter().map(value).collect())
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[odd / 2],
        even => f64::midpoint(values[even / 2 - 1], values[even / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    #[test]
    fn options_are_read() {
        let args = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let Ok(options) = parse(&args("--runs 3 --peer a=b=c --check --binary x")) else { panic!("refused") };
        assert_eq!(options.runs, 3);
        assert!(
            matches!(&options.peers[..], [Subject::Peer { name, command }] if name == "a" && command == "b=c")
        );
        assert!(matches!(options.on_miss, OnMiss::Fail));
        for bad in ["--runs", "--runs 0", "--runs x", "--peer a", "--what"] {
            assert!(matches!(parse(&args(bad)), Err(Failure::Usage(_))), "{bad}");
        }
    }
}
