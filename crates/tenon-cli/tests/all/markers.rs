//! Payloads and keys stay where their owner put them: random markers in the arguments of terminal calls, in keys and in
//! headers, over every way a run can end. No byte of them anywhere under the home folder, in telemetry, on
//! stderr at any level, in a child's environment or in a report; no key in a cassette or on stdout.
//!
//! `PROPTEST_CASES` says how many runs there are. A failure names its seed; `TENON_MARKER_SEED` repeats that one.

use std::path::Path;

use tenon_testkit::{Collector, Gate, Reply, Run, Server, Signal, Tenon, Value, Wire, cases, json, reply};

use crate::tenon;

const SCHEMA: &str = r#"{"type":"object","properties":{"risk":{"enum":["low","high"]},"note":{"type":"string"},"deep":{"type":"object"}},"required":["risk","note"]}"#;
const SETTINGS: &str = r#"{
    "retry": {"attempts": 2, "baseMs": 1, "maxTotalMs": 2000},
    "timeouts": {"connect": "2s", "firstByte": "5s", "idle": "1s", "telemetryFlush": "10s"},
    "providers": {"openai": {"headers": {"x-team-token": "$TEAM_TOKEN"}}},
    "telemetry": {"headers": {"x-collector": "$COLLECTOR_TOKEN"}}
}"#;

#[test]
fn no_marker_is_found_where_it_does_not_belong() {
    let endings = Ending::ALL.len() as u64;
    let seeds = match std::env::var("TENON_MARKER_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        // Every ending once.
        None => 0..u64::from(cases(0)).max(endings),
    };
    for seed in seeds {
        let ending = Ending::ALL[(seed % endings) as usize];
        let story = Story::new(seed, ending);
        story.play();
    }
}

/// How a run ends, with the exit code that shows that it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Success,
    SuccessAfterRejection,
    SiblingsSkipped,
    SchemaRetries,
    Turns,
    ToolCalls,
    RepeatedCall,
    Contract,
    Truncated,
    Refused,
    RateLimited,
    Overloaded,
    Auth,
    NetworkCutInTheCall,
    Protocol,
    ServerQuotesThePayload,
    ServerQuotesTheKey,
    Interrupted,
    Undeliverable,
    BadSchema,
    NoPrompt,
}

impl Ending {
    const ALL: [Ending; 21] = [
        Ending::Success,
        Ending::SuccessAfterRejection,
        Ending::SiblingsSkipped,
        Ending::SchemaRetries,
        Ending::Turns,
        Ending::ToolCalls,
        Ending::RepeatedCall,
        Ending::Contract,
        Ending::Truncated,
        Ending::Refused,
        Ending::RateLimited,
        Ending::Overloaded,
        Ending::Auth,
        Ending::NetworkCutInTheCall,
        Ending::Protocol,
        Ending::ServerQuotesThePayload,
        Ending::ServerQuotesTheKey,
        Ending::Interrupted,
        Ending::Undeliverable,
        Ending::BadSchema,
        Ending::NoPrompt,
    ];

    fn code(self) -> i32 {
        match self {
            Ending::Success | Ending::SuccessAfterRejection | Ending::SiblingsSkipped => 0,
            Ending::SchemaRetries | Ending::Turns => 53,
            Ending::ToolCalls => 55,
            Ending::Auth => 41,
            Ending::Undeliverable | Ending::NoPrompt => 42,
            Ending::BadSchema => 52,
            Ending::Interrupted => 130,
            _ => 1,
        }
    }
}

struct Story {
    seed: u64,
    ending: Ending,
    payload: String,
    key: String,
    header: String,
    collector_key: String,
}

impl Story {
    fn new(seed: u64, ending: Ending) -> Story {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995;
        let mut marker = |kind: &str| {
            let mut text = format!("{kind}-");
            for _ in 0..4 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                text.push_str(&format!("{:04x}", state & 0xffff));
            }
            text
        };
        let (payload, key) = (marker("payload"), marker("sk"));
        Story { seed, ending, payload, key, header: marker("hdr"), collector_key: marker("otl") }
    }

    fn fits(&self) -> Value {
        json!({"risk": "low", "note": self.payload, "deep": {"more": [self.payload]}})
    }

    fn does_not_fit(&self) -> Value {
        json!({"risk": self.payload, "note": self.payload, (&*self.payload): 1})
    }

    /// Shows the command its environment, and keeps it.
    fn look_around(&self) -> Reply {
        let command = "env > child.txt; tr '\\0' '\\n' < /proc/self/environ >> child.txt";
        reply()
            .call("look", "run_shell_command", json!({"command": command, "is_background": false}))
            .usage(9, 9)
    }

    fn script(&self, gate: &Gate) -> Vec<Reply> {
        let call = |id: &str, arguments: Value| reply().call(id, "structured_output", arguments).usage(5, 5);
        let no = |id: &str| call(id, self.does_not_fit());
        let yes = |id: &str| call(id, self.fits());
        let text = self.fits().to_string();
        let rest = match self.ending {
            Ending::Success | Ending::Undeliverable => vec![yes("t1")],
            Ending::SuccessAfterRejection => {
                vec![no("t1"), call("t2", json!({"note": self.payload})), yes("t3")]
            }
            Ending::SiblingsSkipped => {
                let both = no("t1").call("s1", "list_directory", json!({"path": "."}));
                vec![both, yes("t2").call("s2", "list_directory", json!({"path": "."}))]
            }
            Ending::SchemaRetries | Ending::Turns => vec![no("t1"), no("t2"), no("t3")],
            Ending::ToolCalls => vec![no("t1"), reply().call("x", "list_directory", json!({"path": "."}))],
            Ending::RepeatedCall => (1..=5).map(|n| no(&format!("t{n}"))).collect(),
            Ending::Contract => vec![no("t1"), reply().text("I would rather not.").usage(1, 1)],
            Ending::Truncated => {
                let half = &text[..text.len() - 3];
                let cut = reply().call_raw("t1", "structured_output", half).finish("length");
                vec![cut, reply().text("cut").finish("length")]
            }
            Ending::Refused => vec![no("t1"), reply().text("no").finish("content_filter")],
            Ending::RateLimited => vec![no("t1"), reply().status(429).forever()],
            Ending::Overloaded => vec![no("t1"), reply().status(503).forever()],
            Ending::Auth => vec![no("t1"), reply().status(401)],
            Ending::NetworkCutInTheCall => {
                vec![yes("t1").cut_after_events(2), yes("t2").cut_after_events(2)]
            }
            Ending::Protocol => {
                let broken = format!("data: {{\"choices\": [{{\"delta\": {} }}\n\n", json!(self.payload));
                vec![no("t1"), reply().raw_stream(broken).forever()]
            }
            Ending::ServerQuotesThePayload => {
                let quoted = format!("messages.3 is not valid: {}", self.does_not_fit());
                vec![no("t1"), reply().status(400).json(json!({"error": {"message": quoted}}))]
            }
            Ending::ServerQuotesTheKey => {
                let quoted = format!("no such key: {} ({})", self.key, self.header);
                vec![reply().status(400).json(json!({"error": {"message": quoted}}))]
            }
            Ending::Interrupted => vec![no("t1"), reply().text("never").hold(gate)],
            Ending::BadSchema | Ending::NoPrompt => Vec::new(),
        };
        let looks = matches!(self.ending, Ending::BadSchema | Ending::NoPrompt | Ending::ServerQuotesTheKey);
        let first = (!looks).then(|| self.look_around());
        first.into_iter().chain(rest).collect()
    }

    fn tenon(&self, server: &Server, collector: &Collector) -> Tenon {
        let mut setup = tenon()
            .server_on(server, Wire::Chat)
            .env("OPENAI_API_KEY", &self.key)
            .env("TEAM_TOKEN", &self.header)
            .env("COLLECTOR_TOKEN", &self.collector_key)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
            .env("OTEL_EXPORTER_OTLP_HEADERS", format!("x-api-key={}", self.collector_key))
            .home_file("settings.json", SETTINGS)
            .arg("-y");
        // Both halves of the tree of possibilities, in an order of their own.
        let bit = |n: u64| (self.seed / Ending::ALL.len() as u64 + self.seed) >> n & 1 == 1;
        setup = match (bit(0), bit(1)) {
            (false, false) => setup,
            (true, false) => setup.args(["-o", "json"]),
            (false, true) => setup.args(["-o", "stream-json"]),
            (true, true) => setup.args(["-o", "stream-json", "--include-partial-messages"]),
        };
        if bit(2) {
            setup = setup.args(["--record", "cassette.jsonl"]);
        }
        // Every other run is as talkative as can be.
        if self.seed.is_multiple_of(2) {
            setup = setup.arg("--verbose").env("RUST_LOG", "trace");
        }
        match self.ending {
            Ending::BadSchema => setup.args(["-p", "hi", "--json-schema", r#"{"propertees": {}}"#]),
            Ending::NoPrompt => setup.args(["--json-schema", SCHEMA]),
            Ending::Undeliverable => {
                setup.args(["-p", "hi", "--json-schema", SCHEMA, "--result-file", "gone/result.json"])
            }
            Ending::SchemaRetries => {
                setup.args(["-p", "hi", "--json-schema", SCHEMA, "--max-schema-retries", "2"])
            }
            Ending::Turns => setup.args(["-p", "hi", "--json-schema", SCHEMA, "--max-session-turns", "3"]),
            Ending::ToolCalls => setup.args(["-p", "hi", "--json-schema", SCHEMA, "--max-tool-calls", "1"]),
            _ => setup.args(["-p", "hi", "--json-schema", SCHEMA]),
        }
    }

    fn play(&self) {
        let gate = Gate::new();
        let server = Server::start(self.script(&gate));
        let collector = Collector::start();
        let setup = self.tenon(&server, &collector);
        let run = match self.ending {
            Ending::Interrupted => {
                let mut running = setup.spawn();
                server.wait_for_requests(3, std::time::Duration::from_secs(30));
                running.signal(Signal::Interrupt);
                running.wait()
            }
            _ => setup.run(),
        };
        let what = format!("TENON_MARKER_SEED={} ({:?})", self.seed, self.ending);
        assert_eq!(run.code, self.ending.code(), "{what}: {run}");
        assert!(!collector.spans().is_empty(), "{what}: nothing was exported");
        self.check(&run, &collector, &what);

        let doctor = self.doctor(&run, &collector);
        for (place, text) in
            [("doctor", doctor.stdout.as_bytes()), ("doctor's stderr", doctor.stderr.as_bytes())]
        {
            self.assert_clean(text, &self.all(), place, &what);
        }
        let written = std::fs::read(run.workspace().join("report.json")).expect("a report");
        self.assert_clean(&written, &self.all(), "the report", &what);
    }

    /// In the home of the run, with its sessions.
    fn doctor(&self, run: &Run, collector: &Collector) -> Run {
        let home = run.tenon_home();
        tenon()
            .env("TENON_HOME", home)
            .env("OPENAI_API_KEY", &self.key)
            .env("OPENAI_BASE_URL", format!("http://user:{}@127.0.0.1:9/v1", self.key))
            .env("OPENAI_MODEL", "m")
            .env("TEAM_TOKEN", &self.header)
            .env("COLLECTOR_TOKEN", &self.collector_key)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
            .env("OTEL_EXPORTER_OTLP_HEADERS", format!("x-api-key={}", self.collector_key))
            .args(["doctor".as_ref(), "--report".as_ref(), run.workspace().join("report.json").as_os_str()])
            .run()
    }

    fn all(&self) -> [&str; 4] {
        [&self.payload, &self.key, &self.header, &self.collector_key]
    }

    fn keys(&self) -> [&str; 3] {
        [&self.key, &self.header, &self.collector_key]
    }

    fn check(&self, run: &Run, collector: &Collector, what: &str) {
        self.assert_clean(run.stderr.as_bytes(), &self.all(), "stderr", what);
        self.assert_clean(&collector.bytes(), &self.all(), "telemetry", what);
        self.assert_clean(run.stdout.as_bytes(), &self.keys(), "stdout", what);
        let home = run.tenon_home();
        let home = home.parent().expect("a home");
        let mut sessions = 0;
        for_each_file(home, &mut |path, bytes| {
            sessions += usize::from(path.extension().is_some_and(|extension| extension == "jsonl"));
            self.assert_clean(bytes, &self.all(), &path.display().to_string(), what);
            self.assert_clean(path.as_os_str().as_encoded_bytes(), &self.all(), "a file's name", what);
        });
        let recorded = !matches!(self.ending, Ending::BadSchema | Ending::NoPrompt | Ending::Undeliverable);
        assert_eq!(sessions > 0, recorded, "{what}: a search of nothing finds nothing: {run}");
        for_each_file(run.workspace(), &mut |path, bytes| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Files that the user asks for hold what the model said, and never a key.
            let wrong: &[&str] = if name == "child.txt" { &self.all() } else { &self.keys() };
            self.assert_clean(bytes, wrong, &name, what);
        });
        let looked = !matches!(
            self.ending,
            Ending::BadSchema | Ending::NoPrompt | Ending::ServerQuotesTheKey | Ending::Undeliverable
        );
        assert_eq!(run.workspace().join("child.txt").exists(), looked, "{what}: {run}");
    }

    #[track_caller]
    fn assert_clean(&self, bytes: &[u8], markers: &[&str], place: &str, what: &str) {
        for marker in markers {
            let found = bytes.windows(marker.len()).position(|window| window == marker.as_bytes());
            if let Some(at) = found {
                let around = &bytes[at.saturating_sub(200)..(at + 100).min(bytes.len())];
                panic!("{what}: `{marker}` is in {place}: {}", String::from_utf8_lossy(around));
            }
        }
    }
}

fn for_each_file(folder: &Path, see: &mut impl FnMut(&Path, &[u8])) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            for_each_file(&path, see);
        } else if let Ok(bytes) = std::fs::read(&path) {
            see(&path, &bytes);
        }
    }
}
