//! A network that cuts, delays, repeats, loses and changes what the model says: whatever it does, a run ends
//! soon, in a payload that fits or in the right failure.
//!
//! `PROPTEST_CASES` says how many runs there are. A failure names its seed; `TENON_CHAOS_SEED` repeats that one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenon_testkit::{Chaos, Mischief, Run, Server, Value, Wire, cases, json, reply};

use crate::tenon;

/// Six turns of three attempts, each with a second of silence at the most.
const RUN_LIMIT: Duration = Duration::from_secs(40);
/// Most of a run is waiting.
const RUNS_AT_ONCE: usize = 6;
const SETTINGS: &str = r#"{
    "retry": {"attempts": 3, "baseMs": 1, "maxTotalMs": 4000},
    "timeouts": {"connect": "2s", "firstByte": "3s", "idle": "1s"}
}"#;
const SCHEMA: &str = r#"{"type":"object","properties":{"risk":{"enum":["low","high"]},"note":{"type":"string"}},"required":["risk","note"],"additionalProperties":false}"#;
const NOTE: &str = "The file says hello, and nothing in it is dangerous: a short text, seen whole.";
const FILE_TEXT: &str = "hello from the file";

/// What a broken network can come to. Changed bytes can make an answer end without a call, call something else, or
/// offer what does not fit.
const RIGHT_CLASSES: &[&str] = &[
    "network",
    "protocol",
    "overloaded",
    "contract",
    "truncated",
    "turns",
    "schema_retries",
    "repeated_call",
];

#[test]
fn every_run_ends_in_a_payload_or_the_right_failure() {
    let seeds = match std::env::var("TENON_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..u64::from(cases(60)),
    };
    let next = AtomicU64::new(seeds.start);
    let (succeeded, failures) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match catch_unwind(AssertUnwindSafe(|| run_through_chaos(seed))) {
                        Ok(0) => _ = succeeded.fetch_add(1, Ordering::Relaxed),
                        Ok(_) => {}
                        Err(_) => failures.lock().unwrap().push(seed),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "runs that went wrong, by their seeds (see above): {failures:?}");
    // A network where nothing works, or everything, would have shown nothing.
    let (runs, succeeded) = (seeds.end - seeds.start, succeeded.into_inner());
    assert!(runs < 60 || (runs / 5..runs * 19 / 20).contains(&succeeded), "{succeeded} of {runs} succeeded");
}

/// The exit code of a run that ended as it should.
fn run_through_chaos(seed: u64) -> i32 {
    let wire = Wire::ALL[seed as usize % Wire::ALL.len()];
    let server = Server::start([
        reply()
            .text("Let me look at the file before I say anything about it.")
            .call("call_1", "read_file", json!({"file_path": "a.txt"}))
            .usage(100, 10)
            .when(|body| !body.to_string().contains(FILE_TEXT))
            .forever(),
        reply()
            .reasoning("It is harmless.")
            .call("call_2", "structured_output", json!({"risk": "low", "note": NOTE}))
            .usage(200, 20)
            .forever(),
    ]);
    let chaos = Chaos::start(&server, seed, mischief(seed));
    let is_text = !seed.is_multiple_of(3);
    let tenon = tenon()
        .origin_on(&chaos.origin(), wire)
        .file("a.txt", FILE_TEXT)
        .args(["-p", "Audit a.txt", "--json-schema", SCHEMA, "--settings", SETTINGS])
        .args(["--max-session-turns", "6", "--max-schema-retries", "2"])
        .args(["-o", if is_text { "text" } else { "stream-json" }])
        .limit(RUN_LIMIT);
    let run = tenon.run();
    let wrong = |what: &str| panic!("{what}\nseed {seed}, {}\n{run}", wire.name());
    match (run.code, is_text) {
        (0, true) if !fits(&run.json()) => wrong("the payload does not fit"),
        (0, true) => {}
        (0, false) if !fits(&run.last_json()["structured_result"]) => wrong("the payload does not fit"),
        (0, false) => {}
        (_, true) if !run.stdout.is_empty() => wrong("a failure printed something"),
        (_, false) if run.last_json()["error"]["code"] != run.code => wrong("the result is not the failure"),
        (1 | 53, _) if RIGHT_CLASSES.contains(&class(&run).as_str()) => {}
        _ => wrong("not the right failure"),
    }
    run.code
}

/// From a network with a hiccup to one that hardly works; one kind of mischief, or all.
fn mischief(seed: u64) -> Mischief {
    let strength = [0.3, 1.0, 3.0][(seed / 4 % 3) as usize];
    let all = Mischief {
        cut: 0.01 * strength,
        delay: 0.03 * strength,
        duplicate: 0.005 * strength,
        truncate: 0.005 * strength,
        garble: 0.005 * strength,
    };
    let none = Mischief::default();
    match seed / 12 % 6 {
        0 => Mischief { cut: 2.0 * all.cut, ..none },
        1 => Mischief { delay: 4.0 * all.delay, ..none },
        2 => Mischief { duplicate: 4.0 * all.duplicate, ..none },
        3 => Mischief { truncate: 4.0 * all.truncate, ..none },
        4 => Mischief { garble: 4.0 * all.garble, ..none },
        _ => all,
    }
}

/// By hand: what checks must not be what is checked. A changed letter in a text cannot be seen by anyone.
fn fits(payload: &Value) -> bool {
    let Some(members) = payload.as_object() else { return false };
    members.len() == 2
        && members.get("note").is_some_and(Value::is_string)
        && members.get("risk").is_some_and(|risk| risk == "low" || risk == "high")
}

fn class(run: &Run) -> String {
    let said = run.stderr.lines().rfind(|line| line.starts_with("error[")).unwrap_or_default();
    said.trim_start_matches("error[").split(']').next().unwrap_or_default().to_owned()
}
