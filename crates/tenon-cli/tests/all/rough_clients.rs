//! Clients that leave at any moment, write nonsense, write too much, or do not read: never a panic, a hang or a lost
//! result.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;
use tenon_testkit::{Reply, Run, Running, Server, Signal, Tenon, Value, cases, json, reply};
use tenon_wire::input::{ControlRequest, Input, Line, read_line};
use tenon_wire::{Dialect, published_schema};

use super::pipes::command;
use super::tenon;

const LINES: [&str; 4] = ["--input-format", "stream-json", "--output-format", "stream-json"];
/// Dialects with a reader of lines.
const DIALECTS: [Dialect; 3] = [Dialect::Qwen, Dialect::Claude, Dialect::OpenAi];

static SCHEMAS: LazyLock<Vec<jsonschema::Validator>> = LazyLock::new(|| {
    let schema = |dialect| jsonschema::validator_for(&published_schema(dialect)).expect("a schema");
    DIALECTS.into_iter().map(schema).collect()
});

fn client(server: &Server, dialect: Dialect) -> Tenon {
    tenon().server(server).args(LINES).args(["--dialect", dialect.name(), "--core-tools", "write_file"])
}

fn user(text: &str) -> Value {
    json!({"type": "user", "session_id": "", "message": {"role": "user", "content": text}, "parent_tool_use_id": null})
}

/// Answers each question by its own words, however many come.
fn model() -> Server {
    let asked = |question: &'static str| {
        move |body: &Value| {
            body["messages"]
                .as_array()
                .and_then(|all| all.last())
                .is_some_and(|last| last["content"] == question)
        }
    };
    let answers = ["one", "two", "three"]
        .map(|word| reply().text(format!("Answer {word}.")).when(asked(word)).forever());
    let writes = reply()
        .call("c1", "write_file", json!({"file_path": "a.txt", "content": "a"}))
        .when(asked("write"))
        .forever();
    let told = |body: &Value| {
        body["messages"].as_array().and_then(|all| all.last()).is_some_and(|last| last["role"] == "tool")
    };
    let done: Reply = reply().text("Answer write.").when(told).forever();
    // After an interruption other words are the last ones.
    let anything = reply().text("Answer.").forever();
    Server::start(answers.into_iter().chain([writes, done, anything]))
}

/// The answers of all turns, in their order, whatever the dialect; every line is of the published schema.
#[track_caller]
fn answers(dialect: Dialect, run: &Run) -> Vec<String> {
    let schema = &SCHEMAS[DIALECTS.iter().position(|known| *known == dialect).expect("a dialect of lines")];
    let mut answers = Vec::new();
    for line in run.json_lines() {
        if let Err(error) = schema.validate(&line) {
            panic!("{}: {error}\n{line}\n{run}", dialect.name());
        }
        if line["type"] == "result" {
            answers.push(line["result"].as_str().unwrap_or("failed").to_owned());
        } else if line["metadata"]["final"] == true {
            answers.push(line["choices"][0]["message"]["content"].as_str().unwrap_or("failed").to_owned());
        }
    }
    assert!(!run.stderr.contains("panicked"), "{run}");
    answers
}

fn refused(run: &Run) -> Vec<u64> {
    let is_refusal = |line: &Value| line["subtype"] == "input_error" || line["type"] == "result/error";
    let number = |line: &Value| line["data"]["line"].as_u64().or(line["line"].as_u64());
    run.json_lines().iter().filter(|line| is_refusal(line)).filter_map(number).collect()
}

/// One line of a client.
#[derive(Clone, Debug)]
enum Step {
    Initialize,
    Turn(&'static str),
    SetModel(&'static str),
    Request(&'static str),
    Cancel,
    /// The turn of this line, if it is one.
    CancelTurn(usize),
    Nonsense,
    FromTheFuture,
    Heartbeat,
    Hint(&'static str),
    AnotherVersion,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Initialize),
        8 => prop::sample::select(vec!["one", "two", "three", "write", "/clear", "/help"]).prop_map(Step::Turn),
        2 => prop::sample::select(vec!["other-model", "local/gpt-9"]).prop_map(Step::SetModel),
        4 => prop::sample::select(vec!["interrupt", "continue_last_turn", "get_usage_info"]).prop_map(Step::Request),
        2 => Just(Step::Cancel),
        2 => (0_usize..16).prop_map(Step::CancelTurn),
        1 => Just(Step::Nonsense),
        1 => Just(Step::FromTheFuture),
        1 => Just(Step::Heartbeat),
        1 => prop::sample::select(vec!["slash", "at"]).prop_map(Step::Hint),
    ]
}

/// What a client says in one go, each line with a name of its own.
fn said(steps: &[Step]) -> String {
    let request = |at: usize, request: Value| {
        json!({"type": "control_request", "request_id": format!("r{at}"), "request": request}).to_string()
    };
    let line = |(at, step): (usize, &Step)| {
        match step {
        Step::Initialize => request(at, json!({"subtype": "initialize", "hooks": null})),
        Step::Turn(text) if at % 2 == 0 => {
            let mut line = user(text);
            line["prompt_id"] = json!(format!("p{at}"));
            line.to_string()
        }
        Step::Turn(text) => {
            json!({"prompt_id": format!("p{at}"), "input": {"parts": [{"type": "text", "text": text}]}})
                .to_string()
        }
        Step::SetModel(model) => request(at, json!({"subtype": "set_model", "model": model})),
        Step::Request(subtype) => request(at, json!({"subtype": subtype})),
        Step::Cancel => json!({"type": "control/cancel", "request_id": format!("r{at}")}).to_string(),
        Step::CancelTurn(turn) => {
            json!({"type": "control/cancel", "prompt_id": format!("p{turn}")}).to_string()
        }
        Step::Nonsense => "garbage".to_owned(),
        Step::FromTheFuture => json!({"type": "from_the_future", "n": 1.0}).to_string(),
        Step::Heartbeat => json!({"type": "heartbeat_request"}).to_string(),
        Step::Hint(trigger) => {
            json!({"type": "command_hint_request", "prompt_id": format!("h{at}"), "trigger": trigger, "text": "cl"})
                .to_string()
        }
        Step::AnotherVersion => json!({"type": "heartbeat_request", "protocol_version": 9}).to_string(),
    }
    };
    steps.iter().enumerate().map(line).map(|line| line + "\n").collect()
}

/// What these bytes ask for, told by the reader alone.
#[derive(Debug, Default)]
struct AskedFor {
    /// Names of turns, and what is answered if nobody stops anything.
    turns: Vec<(String, Option<String>)>,
    requests: Vec<String>,
    cancels: usize,
    beats: usize,
    hints: Vec<String>,
    refused: Vec<u64>,
    stops: bool,
    other_version: bool,
}

fn asked_for(said: &[u8]) -> AskedFor {
    let mut asked = AskedFor::default();
    for (at, line) in said.split(|byte| *byte == b'\n').enumerate() {
        let line = match read_line(line) {
            Ok(Some(line)) => line,
            Ok(None) => continue,
            Err(_) => {
                asked.refused.push(at as u64 + 1);
                continue;
            }
        };
        if line.protocol_version.is_some() {
            asked.other_version = true;
            break;
        }
        match line {
            Line { input: Input::Turn(turn), .. } => match &turn.parts[..] {
                [tenon_wire::input::InputPart::Text(text)] => {
                    let answer = (!text.starts_with('/')).then(|| format!("Answer {text}."));
                    asked.turns.push((turn.prompt_id.expect("a name"), answer));
                }
                other => panic!("{other:?}"),
            },
            Line { input: Input::ControlRequest { id, request }, .. } => {
                asked.requests.push(id);
                asked.stops |= matches!(*request, ControlRequest::Interrupt);
            }
            Line { input: Input::Cancel { request_id, .. }, .. } => {
                asked.cancels += 1;
                asked.requests.extend(request_id);
                asked.stops = true;
            }
            Line { input: Input::Hint(hint), .. } => asked.hints.extend(hint.prompt_id),
            Line { input: Input::Heartbeat { .. }, .. } => asked.beats += 1,
            Line { .. } => {}
        }
    }
    asked
}

/// What was told, by kind.
#[derive(Debug, Default)]
struct Told {
    /// The names of turns, where the dialect has them, and their exit codes, in order.
    results: Vec<(Option<String>, i64)>,
    requests: Vec<String>,
    cancels: usize,
    beats: usize,
    hints: Vec<String>,
    continued: usize,
    unsupported: usize,
}

/// Also whether each turn has one beginning and one end.
#[track_caller]
fn told(run: &Run) -> Told {
    let mut told = Told::default();
    let mut is_open = false;
    for line in run.json_lines() {
        let kind = line["type"].as_str().unwrap_or_default();
        let metadata = &line["metadata"];
        let opens = metadata["final"] != true && metadata["error"].is_null();
        if line["subtype"] == "init" || !metadata["protocol_version"].is_null() && opens {
            assert!(!is_open, "{line}\n{run}");
            is_open = true;
        }
        match kind {
            "result" => told.results.push((None, line["error"]["code"].as_i64().unwrap_or(0))),
            "control_response" => {
                let inner = &line["response"];
                let id = inner["request_id"].as_str().or(line["request_id"].as_str());
                told.requests.push(id.expect("an id").to_owned());
                let answers = [&inner["response"], &inner["result"]];
                told.continued += answers.iter().filter(|answer| answer["accepted"] == true).count();
            }
            "result/cancel" => told.cancels += 1,
            "result/heartbeat" => told.beats += 1,
            "system" if line["subtype"] == "heartbeat" => told.beats += 1,
            "result/command_hint" if line["status"] != "loading" => {
                told.hints.extend(line["prompt_id"].as_str().map(str::to_owned))
            }
            _ => {}
        }
        told.unsupported += usize::from(
            line["subtype"] == "unsupported_protocol" || line["metadata"]["error"] == "unsupported_protocol",
        );
        if line["metadata"]["final"] == true {
            let annotations = line["annotations"].as_array().expect("annotations");
            let code = annotations.iter().find_map(|one| one["exit_code"].as_i64()).expect("a code");
            told.results.push((line["prompt_id"].as_str().map(str::to_owned), code));
        }
        if kind == "result" || line["metadata"]["final"] == true {
            assert!(is_open, "{line}\n{run}");
            is_open = false;
        }
    }
    assert!(!is_open, "{run}");
    told
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20, ..ProptestConfig::with_cases(cases(24)) })]

    /// Whatever is said, and after any byte of it: what came whole is answered once, turns in their order, half a line is
    /// refused, and the session ends in order, or with what the last result says.
    #[test]
    fn a_client_may_close_its_side_after_any_byte(
        mut steps in prop::collection::vec(step(), 1..16),
        version in prop::option::weighted(0.15, 0_usize..16),
        cut in prop_oneof![Just(1.0), 0.0..=1.0],
        dialect in 0_usize..3,
    ) {
        if let Some(at) = version {
            steps.insert(at.min(steps.len()), Step::AnotherVersion);
        }
        let said = said(&steps);
        let said = &said.as_bytes()[..(cut * said.len() as f64) as usize];
        let (server, dialect) = (model(), DIALECTS[dialect]);
        let run = client(&server, dialect).stdin(said).run();
        let (asked, answers) = (asked_for(said), answers(dialect, &run));
        let told = told(&run);
        let code = i32::from(asked.other_version);
        prop_assert_eq!(run.code, code, "{}", run);
        prop_assert_eq!(refused(&run), asked.refused, "{}", run);
        prop_assert_eq!(sorted(told.requests), sorted(asked.requests), "{}", run);
        prop_assert_eq!((told.cancels, told.beats), (asked.cancels, asked.beats), "{}", run);
        prop_assert_eq!(sorted(told.hints), sorted(asked.hints), "{}", run);
        prop_assert_eq!(told.unsupported, usize::from(asked.other_version), "{}", run);
        if dialect == Dialect::OpenAi {
            let of_client = |name: &&String| name.starts_with('p');
            let names: Vec<&String> = told.results.iter().filter_map(|(name, _)| name.as_ref()).filter(of_client).collect();
            prop_assert_eq!(names, asked.turns.iter().map(|(name, _)| name).collect::<Vec<_>>(), "{}", run);
        }
        let own = usize::from(asked.other_version && dialect != Dialect::OpenAi);
        prop_assert_eq!(told.results.len(), asked.turns.len() + told.continued + own, "{}", run);
        if asked.other_version {
            prop_assert!(dialect == Dialect::OpenAi || told.results.last().is_some_and(|last| last.1 == 1), "{}", run);
        } else if !asked.stops {
            for ((_, wanted), answer) in asked.turns.iter().zip(&answers) {
                prop_assert!(wanted.as_ref().is_none_or(|wanted| wanted == answer), "{answer}\n{}", run);
            }
        }
    }

    /// At any moment of it: what is told is what came first, in its order, and the last result agrees with the exit code.
    #[test]
    fn a_client_may_be_stopped_at_any_moment(
        steps in prop::collection::vec(step(), 1..16),
        results in 0_usize..3,
        dialect in 0_usize..3,
    ) {
        let (server, dialect) = (model(), DIALECTS[dialect]);
        let mut client = client(&server, dialect).stdin_idle().spawn();
        let said = said(&steps);
        client.write(format!("{}\n{said}", json!({"type": "heartbeat_request"})));
        client.json();
        // Turns that ask nobody for anything come to their end by themselves.
        let is_plain = |step: &&Step| matches!(step, Step::Turn("one" | "two" | "three" | "/clear" | "/help"));
        let plain = steps.iter().take_while(|step| !matches!(step, Step::Turn("write"))).filter(is_plain).count();
        for _ in 0..results.min(plain) {
            client.json_where(|line| line["type"] == "result" || line["metadata"]["final"] == true);
        }
        client.signal(Signal::Terminate);
        let run = client.wait();
        prop_assert_eq!(run.code, 143, "{}", run);
        answers(dialect, &run);
        let (told, asked) = (told(&run), asked_for(said.as_bytes()));
        prop_assert_eq!(told.results.last().map(|last| last.1), Some(143), "{}", run);
        if dialect == Dialect::OpenAi {
            let names = told.results.iter().filter_map(|(name, _)| name.as_ref()).filter(|name| name.starts_with('p'));
            let in_order: Vec<&String> = asked.turns.iter().map(|(name, _)| name).collect();
            let names: Vec<&String> = names.collect();
            prop_assert_eq!(&names[..], &in_order[..names.len()], "{}", run);
        }
        let mut once = told.requests.clone();
        once.sort();
        once.dedup();
        prop_assert_eq!(once.len(), told.requests.len(), "{}", run);
    }

    /// At any line that it is told: every turn that it sent is answered.
    #[test]
    fn a_client_may_close_its_side_at_any_line_it_is_told(last in 0_usize..24, dialect in 0_usize..3) {
        let (server, dialect) = (model(), DIALECTS[dialect]);
        let mut client = client(&server, dialect).stdin_idle().spawn();
        let sent = converse(&mut client, last);
        client.close_stdin();
        let run = client.wait();
        prop_assert_eq!(run.code, 0, "closed at line {}\n{}", last, run);
        let wanted: Vec<String> = sent.iter().map(|word| format!("Answer {word}.")).collect();
        prop_assert_eq!(answers(dialect, &run), wanted, "closed at line {}\n{}", last, run);
    }
}

/// Talks like a client of an SDK until it has been told so many lines; says what it asked.
fn converse(client: &mut Running, lines: usize) -> Vec<&'static str> {
    let mut to_ask = ["one", "write", "two", "three"].into_iter();
    let mut sent = Vec::new();
    let mut ask_next = |client: &mut Running| {
        if let Some(word) = to_ask.next() {
            client.write_json(&user(word));
            sent.push(word);
        }
        sent.clone()
    };
    let mut asked = Vec::new();
    let request = json!({"subtype": "initialize"});
    client.write_json(&json!({"type": "control_request", "request_id": "r1", "request": request}));
    for _ in 0..lines {
        let line = client.json();
        let is_result = line["type"] == "result" || line["metadata"]["final"] == true;
        if line["type"] == "control_response" || is_result {
            let before = asked.len();
            asked = ask_next(client);
            if asked.len() == before {
                break;
            }
        } else if line["type"] == "control_request" {
            let allowed = json!({"behavior": "allow"});
            let id = &line["request_id"];
            client.write_json(&json!({
                "type": "control_response", "request_id": id,
                "response": {"subtype": "success", "request_id": id, "response": allowed},
            }));
        }
    }
    asked
}

#[test]
fn a_thousand_lines_of_nonsense_are_answered_each_with_its_number() {
    let kinds: [&[u8]; 10] = [
        b"garbage",
        b"{\"type\":\"user\"",
        b"\xff\xfe{}",
        b"\0",
        b"{\"type\":\"user\",\"message\":{\"content\":\"\xc3\x28\"}}",
        b"{\"type\":\"us\0er\"}",
        b"[]",
        b"{}",
        b"{\"type\":null}",
        b"{\"input\":{\"parts\":[{\"type\":\"hologram\"}]}}",
    ];
    let mut said: Vec<u8> = (0..1000).flat_map(|at| [kinds[at % kinds.len()], b"\n"].concat()).collect();
    said.extend(format!("{}\n", user("one")).bytes());
    for dialect in DIALECTS {
        let server = model();
        let run = client(&server, dialect).stdin(said.clone()).run();
        run.assert_code(0);
        assert_eq!(refused(&run), (1..=1000).collect::<Vec<u64>>());
        // What would have been a turn has a result, where a line of its own does not say so already.
        let failed = if dialect == Dialect::OpenAi { 0 } else { 100 };
        let mut expected = vec!["failed"; failed];
        expected.push("Answer one.");
        assert_eq!(answers(dialect, &run), expected);
    }
}

#[test]
fn lines_of_ten_megabytes_are_lines() {
    let long = "x".repeat(10 << 20);
    let mut padded = user("one");
    padded["padding"] = json!(long);
    let request = json!({"subtype": "get_usage_info", "padding": long});
    let said = [
        padded.to_string(),
        long.clone(),
        json!({"type": "control_request", "request_id": "r1", "request": request}).to_string(),
        json!({"type": "control_response", "response": {"subtype": "success", "request_id": "none", "response": long}})
            .to_string(),
        user("two").to_string(),
    ];
    let server = model();
    let run = client(&server, Dialect::Qwen).stdin(said.join("\n")).run();
    run.assert_code(0);
    assert_eq!(refused(&run), [2]);
    assert_eq!(answers(Dialect::Qwen, &run), ["Answer one.", "Answer two."]);
    assert!(run.json_lines().iter().any(|line| line["response"]["request_id"] == "r1"));
}

/// What is asked for comes whole to the model too.
#[test]
fn a_message_of_ten_megabytes_has_a_result() {
    let server = Server::start([reply().text("Long.").forever()]);
    let said = format!("{}\n{}\n", user(&"many words ".repeat(1 << 20)), user("two"));
    let run = client(&server, Dialect::Qwen).stdin(said).run();
    run.assert_code(0);
    // The first may be too long for the model; it has a result all the same.
    assert_eq!(answers(Dialect::Qwen, &run).len(), 2, "{}", run.stderr);
    assert_eq!(answers(Dialect::Qwen, &run)[1], "Long.");
}

/// The binary with its pipes in our hands.
struct Held {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _tenon: Tenon,
}

fn held(server: &Server, flags: &[&str]) -> Held {
    let tenon = tenon();
    let mut child = command(&tenon, server)
        .args(LINES)
        .args(["-m", "test-model"])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary");
    let stdin = child.stdin.take().expect("a pipe");
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    Held { child, stdin, stdout, _tenon: tenon }
}

fn next_result(stdout: &mut impl BufRead) -> Value {
    loop {
        let mut line = String::new();
        assert!(stdout.read_line(&mut line).expect("its output") > 0, "no result came");
        let line: Value = serde_json::from_str(&line).expect("JSON");
        if line["type"] == "result" {
            return line;
        }
    }
}

/// The client keeps its stdin open, so nothing else would tell.
#[test]
fn a_session_whose_reader_left_ends_by_itself() {
    let server = model();
    for turns in [0, 1, 2] {
        let Held { mut child, mut stdin, mut stdout, _tenon } = held(&server, &[]);
        for _ in 0..turns {
            writeln!(stdin, "{}", user("one")).expect("it reads");
            assert_eq!(next_result(&mut stdout)["result"], "Answer one.");
        }
        drop(stdout);
        writeln!(stdin, "{}", user("two")).expect("it reads");
        assert_eq!(child.wait().expect("our child").code(), Some(1), "after {turns} turns");
    }
}

/// While nobody reads, the agent pauses, and no timer of the model's connection runs: nothing is lost however long it
/// takes. The second tier waits for a minute.
#[test]
fn a_client_that_stops_reading_for_a_while_loses_nothing() {
    let pause = Duration::from_millis(u64::from(cases(200)));
    let server = Server::start([reply().big(36_000), reply().text("Still here.")]);
    // Shorter than the long pause, and longer than any pause of the server.
    let settings = r#"{"timeouts": {"idle": "20s"}}"#;
    let Held { mut child, mut stdin, mut stdout, _tenon } =
        held(&server, &["--include-partial-messages", "--settings", settings]);
    writeln!(stdin, "{}\n{}", user("go"), user("and then?")).expect("it reads");
    std::thread::sleep(pause);
    let mut pieces = 0;
    let first = loop {
        let mut line = String::new();
        assert!(stdout.read_line(&mut line).expect("its output") > 0, "no result came");
        pieces += usize::from(line.contains("\"text_delta\""));
        if line.starts_with("{\"type\":\"result\"") {
            break serde_json::from_str::<Value>(&line).expect("JSON");
        }
    };
    assert_eq!((pieces, &first["is_error"]), (36_000, &json!(false)), "{first}");
    assert_eq!(next_result(&mut stdout)["result"], "Still here.");
    drop(stdin);
    assert_eq!(child.wait().expect("our child").code(), Some(0));
}

/// A client that asks and asks and does not listen: it is not listened to either, and the memory stays small.
#[test]
fn a_flood_of_requests_whose_answers_nobody_reads_does_not_fill_the_memory() {
    let count = 1000 * u64::from(cases(40));
    let server = model();
    let Held { mut child, mut stdin, mut stdout, _tenon } = held(&server, &[]);
    let pid = child.id();
    let sent = Arc::new(AtomicU64::new(0));
    let sending = Arc::clone(&sent);
    let flood = std::thread::spawn(move || {
        let line = json!({"type": "heartbeat_request"}).to_string() + "\n";
        for _ in 0..count / 100 {
            stdin.write_all(line.repeat(100).as_bytes()).expect("it reads");
            sending.fetch_add(100, Ordering::Relaxed);
        }
        writeln!(stdin, "{}", user("one")).expect("it reads");
        stdin
    });
    // Nobody reads until all is said, or the flood has come to a stop.
    let mut seen = (0, 0);
    while !flood.is_finished() && seen.1 < 10 {
        std::thread::sleep(Duration::from_millis(50));
        let now = sent.load(Ordering::Relaxed);
        seen = if now == seen.0 { (now, seen.1 + 1) } else { (now, 0) };
    }
    let mut line = String::new();
    let mut beats = 0;
    let result = loop {
        line.clear();
        assert!(stdout.read_line(&mut line).expect("its output") > 0, "no result came");
        if line.contains("\"heartbeat\"") {
            beats += 1;
        } else if line.starts_with("{\"type\":\"result\"") {
            break serde_json::from_str::<Value>(&line).expect("JSON");
        }
    };
    assert_eq!((beats, &result["result"]), (count, &json!("Answer one.")));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak < 160 * 1024, "{peak} kB");
    drop(flood.join().expect("the flood"));
    assert_eq!(child.wait().expect("our child").code(), Some(0));
}
