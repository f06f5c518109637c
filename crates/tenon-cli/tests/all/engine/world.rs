//! The world around runs that are killed: a model whose answers depend on nothing but what it is asked, commands that leave
//! a trace, and the checks that hold however often a run was cut off.
//!
//! The documents are in `documents.rs`; who kills, and when, is in `crashes.rs` and `sixteen.rs`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tenon_testkit::{Captured, Reply, Run, Running, Server, Tenon, Value, assert_flow_events, json, reply};

use super::documents::{GOAL_FILE, HELP, NEWS, NOTE};

pub const RUN: &str = "crashing";
/// How the agent tells the model of a call whose end nobody wrote down.
pub const INTERRUPTED: &str = "Interrupted: ";
/// What it is told of a command that was stopped with its run.
const CANCELLED: &str = "The command was cancelled before it was done.";
/// Of all steps of the documents together: what can be under way at once.
const AT_ONCE: usize = 8;

/// One run's surroundings.
pub struct World {
    pub tenon: Tenon,
    pub server: Server,
    /// What a document is made for, where there is none.
    goal: Option<String>,
    /// Processes so far: each has a key of its own, so that its requests are told from those of others.
    lives: usize,
}

/// A row of the journal.
#[derive(Clone, Debug)]
pub struct Row {
    pub key: String,
    pub kind: String,
    pub payload: String,
}

impl World {
    pub fn new(files: &[(&str, &str)]) -> World {
        World::with(files, Server::answering(answer))
    }

    pub fn with(files: &[(&str, &str)], server: Server) -> World {
        let tenon = files.iter().fold(crate::tenon(), |tenon, (name, text)| tenon.file(name, text));
        let goal = files.iter().find(|(name, _)| *name == GOAL_FILE).map(|(_, text)| (*text).to_owned());
        World { tenon, server, goal, lives: 0 }
    }

    /// The next process of this world: a new run if there is none yet, or the one that was cut off.
    pub fn process(&mut self) -> Tenon {
        match self.has_run() {
            true => self.command(&["flow", "resume", RUN]),
            false => match self.goal.clone() {
                Some(goal) => self.command(&["goal", &goal, "--yes", "--run-id", RUN]),
                None => self.command(&["flow", "run", "flow.yaml", "--run-id", RUN]),
            },
        }
    }

    pub fn command(&mut self, words: &[&str]) -> Tenon {
        let tenon = self.tenon.clone();
        self.alive(tenon, words)
    }

    /// The same, started by another program.
    pub fn inside(&mut self, program: &str, arguments: &[&str], words: &[&str]) -> Tenon {
        let around = Tenon::new(program)
            .cwd(self.tenon.workspace())
            .env("TENON_HOME", self.tenon.tenon_home())
            .args(arguments);
        self.alive(around, words)
    }

    fn alive(&mut self, tenon: Tenon, words: &[&str]) -> Tenon {
        self.alive_as(tenon, words, "json")
    }

    fn alive_as(&mut self, tenon: Tenon, words: &[&str], format: &str) -> Tenon {
        self.lives += 1;
        tenon
            .server(&self.server)
            .env("OPENAI_API_KEY", format!("test-key-{}", self.lives))
            .args(words)
            .args(["-y", "-o", format])
    }

    pub fn spawn(&mut self) -> Running {
        self.process().spawn()
    }

    /// The next process, as far as it comes. What a run that goes on tells is a story that can be true.
    pub fn finish(&mut self) -> Run {
        if !self.has_run() || self.goal.is_some() {
            return self.process().run();
        }
        let tenon = self.tenon.clone();
        let mut run = self.alive_as(tenon, &["flow", "resume", RUN], "stream-json").run();
        let events = run.json_lines();
        if events.first().is_some_and(|event| event["type"] == "plan_ready") {
            assert_flow_events(&events);
        }
        run.stdout = events.last().map(|event| event["data"].to_string()).unwrap_or_default();
        run
    }

    /// Says yes, twice, to whatever a run waits for; whether it waited.
    pub fn answered(&self, run: &Run) -> bool {
        let report = run.json();
        let questions = report["questions"].as_array().cloned().unwrap_or_default();
        for question in &questions {
            let step = question["step_id"].as_str().unwrap();
            for said in ["approved by ", "already approved by "] {
                let run = self.tenon.clone().args(["flow", "approve", RUN, step]).run();
                assert!(run.assert_code(0).stdout.starts_with(said), "{run}");
            }
        }
        !questions.is_empty()
    }

    /// What the last process asked.
    pub fn asked_by_last(&self) -> Vec<Captured> {
        let key = format!("Bearer test-key-{}", self.lives);
        let requests = self.server.requests().into_iter();
        requests.filter(|request| request.header("authorization") == Some(key.as_str())).collect()
    }

    pub fn database(&self) -> PathBuf {
        self.tenon.tenon_home().join("runs.db")
    }

    pub fn has_run(&self) -> bool {
        self.look("SELECT 1 FROM runs WHERE run_id = ?1", |_| Ok(())).is_ok_and(|found| !found.is_empty())
    }

    pub fn rows(&self) -> Vec<Row> {
        let read =
            |row: &rusqlite::Row<'_>| Ok(Row { key: row.get(0)?, kind: row.get(1)?, payload: row.get(2)? });
        self.look("SELECT key, kind, payload FROM events WHERE run_id = ?1 ORDER BY seq", read)
            .unwrap_or_default()
    }

    /// Reads a copy of the file: whoever comes next is to find it as the crash left it.
    fn look<T>(
        &self,
        query: &str,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("runs.db");
        for side in ["", "-wal"] {
            let from = PathBuf::from(format!("{}{side}", self.database().display()));
            // There may be none.
            let _ = std::fs::copy(from, format!("{}{side}", copy.display()));
        }
        let connection = Connection::open_with_flags(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mut statement = connection.prepare(query)?;
        statement.query_map([RUN], read)?.collect()
    }

    /// How many rows there are now, of a run that is going on.
    pub fn watch(&self) -> Watch {
        Watch { path: self.database(), connection: None }
    }

    /// `start` and `done` of every effect.
    pub fn effects(&self) -> BTreeMap<String, Effect> {
        effects(&self.tenon.workspace().join("effects"))
    }
}

/// Counts rows in a file that others write.
pub struct Watch {
    path: PathBuf,
    connection: Option<Connection>,
}

impl Watch {
    pub fn rows(&mut self) -> usize {
        if self.connection.is_none() {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            self.connection = Connection::open_with_flags(&self.path, flags).ok();
        }
        let Some(connection) = &self.connection else { return 0 };
        let count = connection
            .prepare_cached("SELECT count(*) FROM events WHERE run_id = ?1")
            .and_then(|mut query| query.query_row([RUN], |row| row.get::<_, i64>(0)));
        // The tables may not be there yet.
        count.ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    pub started: usize,
    pub done: usize,
}

fn effects(path: &Path) -> BTreeMap<String, Effect> {
    let mut found: BTreeMap<String, Effect> = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        match line.split_once(' ') {
            Some(("start", key)) => found.entry(key.to_owned()).or_default().started += 1,
            Some(("done", key)) => found.entry(key.to_owned()).or_default().done += 1,
            _ => panic!("a torn line: {line}"),
        }
    }
    found
}

/// A run to compare with: nobody interferes.
pub struct Whole {
    pub report: Value,
    pub rows: usize,
    pub asked: BTreeMap<String, usize>,
    pub effects: BTreeMap<String, Effect>,
    pub took: Duration,
}

impl Whole {
    pub fn of(files: &[(&str, &str)]) -> Whole {
        let mut world = World::new(files);
        let began = std::time::Instant::now();
        let mut run = world.finish();
        while world.answered(&run) {
            run = world.finish();
        }
        let took = began.elapsed();
        run.assert_code(0);
        let asked = marks(&world.server.requests());
        let rows = world.rows();
        assert_eq!(marks_of_rows(&rows), asked, "every answer is in the journal, once");
        let effects = world.effects();
        assert!(effects.values().all(|effect| effect.started == effect.done && effect.done > 0));
        Whole { report: run.json(), rows: rows.len(), asked, effects, took }
    }

    /// Everything that must hold of a run that was cut off and went on, up to its end.
    pub fn check(&self, world: &World, run: &Run, story: &str) {
        let rows = world.rows();
        assert_eq!(run.code, 0, "{story}\n{run}");
        let report = run.json();
        let is_unknown = |row: &&Row| {
            let told = [INTERRUPTED, CANCELLED].iter().any(|words| row.payload.contains(words));
            row.kind == "tool_done" && told
        };
        let unknown: Vec<&Row> = rows.iter().filter(is_unknown).collect();
        // What the model was told decides what it does, so a run with an unknown call may have other turns; what comes
        // out is the same.
        if unknown.is_empty() {
            assert_eq!(timeless(&report), timeless(&self.report), "{story}");
            assert_eq!(marks_of_rows(&rows), self.asked, "{story}");
        }
        for part in ["status", "outputs"] {
            assert_eq!(report[part], self.report[part], "{story}");
        }
        for (id, step) in self.report["steps"].as_object().unwrap() {
            for part in ["status", "result", "content", "error"] {
                let (now, then) = (timeless(&report["steps"][id][part]), timeless(&step[part]));
                assert_eq!(now, then, "{story}: {part} of {id}");
            }
        }
        check_talk(world, unknown.is_empty(), story);
        // Every effect is done once, or the model was told that nobody knows.
        let effects = world.effects();
        for (key, whole) in &self.effects {
            let Effect { done, .. } = effects.get(key).copied().unwrap_or_default();
            let call = format!("\"{key}\"");
            let unknown = unknown.iter().filter(|row| row.payload.contains(&call)).count();
            assert!(done <= whole.done, "{story}: `{key}` was done {done} times, not {}", whole.done);
            assert!(
                done + unknown >= whole.done,
                "{story}: `{key}` is lost: {:?}",
                rows.iter().filter(|row| row.payload.contains(&call)).collect::<Vec<_>>()
            );
        }
        assert!(effects.keys().all(|key| self.effects.contains_key(key)), "{story}");
        // No turn stands in the journal twice, and what was spent is what stands there.
        let mut turns: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut tokens = 0;
        for row in rows.iter().filter(|row| row.kind == "besides") {
            let payload: Value = serde_json::from_str(&row.payload).unwrap();
            tokens += payload["usage"]["total"].as_u64().unwrap();
        }
        for row in rows.iter().filter(|row| row.kind == "model_turn") {
            let payload: Value = serde_json::from_str(&row.payload).unwrap();
            *turns.entry((row.key.clone(), payload["turn"].to_string())).or_default() += 1;
            tokens += payload["usage"]["total"].as_u64().unwrap();
        }
        assert!(turns.values().all(|times| *times == 1), "{story}: {turns:?}");
        assert_eq!(report["usage"]["total"].as_u64(), Some(tokens), "{story}");
    }
}

/// Every message is read once, and so is the note, unless the model was told that nobody knows whether it was sent.
fn check_talk(world: &World, all_known: bool, story: &str) {
    let mut heard =
        world.server.requests().into_iter().filter(|request| prompt(&request.body).contains("DO:hear"));
    let Some(heard) = heard.next_back() else { return };
    let text = heard.body["messages"].to_string();
    for words in NEWS.into_iter().chain([NOTE]) {
        let times = text.matches(words).count();
        assert!(times <= 1, "{story}: `{words}` was read {times} times");
        assert!(times == 1 || !all_known, "{story}: `{words}` was lost");
    }
}

/// What the last process asked, and which of its answers came into the journal.
pub fn check_segment(world: &World, before: &[Row], crashed: bool, story: &str) {
    let asked = marks(&world.asked_by_last());
    let (old, now) = (marks_of_rows(before), marks_of_rows(&world.rows()));
    for mark in old.keys() {
        assert!(old[mark] <= now.get(mark).copied().unwrap_or(0), "{story}: {mark} is gone from the journal");
    }
    let mut lost = 0;
    for (mark, times) in &asked {
        let gained = now.get(mark).copied().unwrap_or(0) - old.get(mark).copied().unwrap_or(0);
        assert!(gained <= *times, "{story}: {mark} came into the journal without being asked");
        lost += times - gained;
    }
    // An answer that was not kept was under way when the process died. Nothing else is asked twice: an answer that had
    // been kept would have to come into the journal again.
    let allowed = if crashed { AT_ONCE } else { 0 };
    assert!(lost <= allowed, "{story}: {lost} answers were paid for and not kept");
}

/// The report without what depends on time.
pub fn timeless(report: &Value) -> Value {
    match report {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(name, _)| !["duration_ms", "at"].contains(&name.as_str()))
                .map(|(name, value)| (name.clone(), timeless(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(timeless).collect()),
        other => other.clone(),
    }
}

/// How often each answer was asked for.
fn marks(requests: &[Captured]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    // What helpers say is told by whom they helped; of their turns only the cost is kept.
    for request in requests.iter().filter(|request| !prompt(&request.body).starts_with(HELP)) {
        *counts.entry(mark(&request.body)).or_default() += 1;
    }
    counts
}

/// How often each answer stands in the journal.
fn marks_of_rows(rows: &[Row]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in rows.iter().filter(|row| row.kind == "model_turn") {
        let mark = marks_in(&row.payload).into_iter().next_back();
        *counts
            .entry(mark.unwrap_or_else(|| panic!("an answer without a mark: {}", row.payload)))
            .or_default() += 1;
    }
    counts
}

/// The task of a step and the number of the turn: what an answer is an answer to.
fn mark(body: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    // Messages stand below the task, in the order in which they came.
    prompt(body).split("[Message ").next().map(|text| undated(text.trim_end())).hash(&mut hasher);
    format!("m{:016x}t{}e", hasher.finish(), turn(body))
}

/// Without the moments of answers to questions.
fn undated(text: &str) -> String {
    let mut parts = text.split("\"at\":\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('"').map_or("", |(_, rest)| rest))
}

fn marks_in(text: &str) -> Vec<String> {
    let is_mark = |word: &str| {
        let (digits, rest) = word.strip_prefix('m')?.split_at_checked(16)?;
        let number = rest.strip_prefix('t')?.split_once('e')?.0;
        let legal = digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit());
        legal.then(|| format!("m{digits}t{number}e"))
    };
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(is_mark).collect()
}

fn prompt(body: &Value) -> &str {
    body["messages"][1]["content"].as_str().unwrap_or_default()
}

/// Answers of the model so far.
fn turn(body: &Value) -> usize {
    body["messages"]
        .as_array()
        .map_or(0, |messages| messages.iter().filter(|message| message["role"] == "assistant").count())
}

fn last_result(body: &Value) -> &str {
    let last = body["messages"].as_array().and_then(|messages| messages.last());
    last.and_then(|message| message["content"].as_str()).unwrap_or_default()
}

/// A command whose trace shows whether it was begun and whether it was finished.
pub fn effect(key: &str) -> Value {
    json!({"command": format!("echo start {key} >> effects; sleep 0.01; echo done {key} >> effects")})
}

/// The model: the same question has the same answer, whoever asks and however often.
pub fn answer(body: &Value) -> Reply {
    let (prompt, turn, mark) = (prompt(body), turn(body), mark(body));
    let said = || reply().usage(100 + turn as u64, 10);
    if prompt.starts_with(HELP) {
        return match turn {
            0 => said().call(&mark, "list_directory", json!({"path": "."})),
            _ => said().text("helped"),
        };
    }
    if prompt.starts_with("## Goal\nDO:plan") {
        // The first plan names an agent that nobody knows.
        let agent = if turn == 0 { "nobody" } else { "worker" };
        return said().call(&mark, "structured_output", planned(agent));
    }
    let task = prompt
        .split_once("## Task\nDO:")
        .map_or("judge", |(_, rest)| rest.lines().next().unwrap_or_default());
    let word = task.split(' ').next().unwrap_or_default();
    let submit = |result: Value| said().call(&mark, "submit_result", result);
    match word {
        "judge" => {
            let rounds = prompt.matches("polished").count();
            submit(json!({"done": rounds >= 2})).text(format!("verdict {mark}"))
        }
        // The first try does not fit.
        "types" if turn == 0 => submit(json!({"list": "x"})).text("types"),
        "types" => submit(json!({"list": ["p", "q", "r"]})).text("types"),
        "count" => {
            let before = prompt.matches("## Previous Iteration Result").count();
            let n = prompt.rsplit_once("{\"n\":").map_or(0, |(_, rest)| {
                rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<i64>().unwrap_or(0)
                    + 1
            });
            submit(json!({"n": if before == 0 { 0 } else { n }}))
        }
        "flaky" => flaky(body, turn, &mark, said(), submit(json!({"ok": true}))),
        "say" if turn == 0 => {
            said().call(&mark, "shared_memory_write", json!({"key": "hours", "value": NOTE}))
        }
        "say" if turn == 1 => said().call(&mark, "send_message", json!({"to": "hear", "text": NEWS[0]})),
        "say" if turn == 2 => said().call(&mark, "run_shell_command", effect(&mark)),
        "also" if turn == 0 => said().call(&mark, "send_message", json!({"to": "hear", "text": NEWS[1]})),
        "hear" if turn == 0 => said().call(&mark, "shared_memory_read", json!({"key": "talker/hours"})),
        "batch" if turn < 2 => {
            let call = |reply: Reply, n: usize| {
                let id = format!("{mark}_{n}");
                reply.call(&id, "run_shell_command", effect(&id))
            };
            call(call(said().text(format!("batch {mark}")), 1), 2)
                .call(&format!("{mark}_3"), "list_directory", json!({"path": "."}))
                .call(&format!("{mark}_4"), "list_directory", json!({"path": "."}))
        }
        "left" | "right" | "item" | "polish" | "inner-a" | "inner-b" | "end" | "first" | "leaf-a"
            if turn < 2 && has_shell(body) =>
        {
            said().text(format!("turn {mark}")).call(&mark, "run_shell_command", effect(&mark))
        }
        "lead" if turn == 0 => {
            let help = |n: u32| json!({"description": "help", "prompt": format!("{HELP} {n}")});
            let second = format!("{mark}_2");
            said().text(format!("lead {mark}")).call(&mark, "agent", help(1)).call(&second, "agent", help(2))
        }
        "polish" => said().text(format!("polished {mark}")),
        _ => said().text(format!("done {mark}")),
    }
}

fn planned(agent: &str) -> Value {
    json!({
        "name": "planned",
        "agents": {"worker": {"description": "works", "tools": ["run_shell_command"]}},
        "steps": [
            {"id": "left", "agent": agent, "instructions": "DO:left"},
            {"id": "right", "agent": "worker", "instructions": "DO:right"},
            {"id": "end", "agent": "worker", "instructions": "DO:end", "dependsOn": ["left", "right"]},
        ],
    })
}

fn has_shell(body: &Value) -> bool {
    body["tools"]
        .as_array()
        .is_some_and(|tools| tools.iter().any(|tool| tool["function"]["name"] == "run_shell_command"))
}

/// Fails at the first attempt and succeeds at the second; which one it is, a file knows. A call whose end is not known is
/// made again: counted twice, it does no harm.
fn flaky(body: &Value, turn: usize, mark: &str, said: Reply, submit: Reply) -> Reply {
    if turn == 0 || last_result(body).contains(INTERRUPTED) {
        let command = "echo x >> attempts; echo n=$(cat attempts | wc -l)";
        return said.call(mark, "run_shell_command", json!({"command": command}));
    }
    let told =
        body["messages"].as_array().into_iter().flatten().filter_map(|message| message["content"].as_str());
    let numbers = told.flat_map(|text| text.split("n=").filter_map(|rest| rest.chars().next()?.to_digit(10)));
    let attempt = numbers.last();
    match attempt {
        Some(2..) => submit,
        // Asked again for a result, it has none.
        _ => said.text(format!("no idea {mark}")),
    }
}
