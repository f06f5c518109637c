//! The scripted model server of the benchmarks, in a process of its own: its memory must not count as the
//! measured program's (a child's peak cannot be below its parent's size), nor its time as ours.
//!
//! `run` is the server's side, `ServerProcess` the handle the benchmarks hold. They talk in lines: the server
//! says its address, then answers each command with `ok`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tenon_testkit::{Gate, Reply, Server, json, reply};

use crate::{Failure, Verdict};

/// Text deltas in the long stream.
pub const LONG_STREAM_CHUNKS: usize = 20_000;
/// A slow peer may take a while to come up twenty times at once; more than this is a hang.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(120);

/// What the server answers to every request.
#[derive(Clone, Copy)]
pub enum Scenario {
    /// A structured result at once.
    OneTurn,
    /// A long stream of text, then the result.
    LongStream,
    /// A structured result when the gate is opened.
    Held,
}

impl Scenario {
    const ALL: [Self; 3] = [Self::OneTurn, Self::LongStream, Self::Held];

    fn name(self) -> &'static str {
        match self {
            Self::OneTurn => "one-turn",
            Self::LongStream => "long-stream",
            Self::Held => "held",
        }
    }

    fn reply(self, gate: &Gate) -> Reply {
        let start = match self {
            Self::OneTurn => reply(),
            Self::LongStream => reply().big(LONG_STREAM_CHUNKS),
            Self::Held => reply().hold(gate),
        };
        start.call("call_1", "structured_output", json!({"risk": "low"})).usage(1200, 30).forever()
    }
}

pub fn run(args: &[String]) -> Result<Verdict, Failure> {
    let [name] = args else { return Err(Failure::usage("`serve` takes one scenario")) };
    let scenario = Scenario::ALL
        .into_iter()
        .find(|scenario| scenario.name() == name)
        .ok_or_else(|| Failure::usage(format!("no such scenario: `{name}`")))?;
    let gate = Gate::new();
    let server = Server::start([scenario.reply(&gate)]);
    println!("{}", server.base_url());
    for line in std::io::stdin().lines() {
        let line = line?;
        match line.split_once(' ') {
            Some(("wait", count)) => {
                let count = count.parse().map_err(|_| Failure::usage("`wait` takes a number"))?;
                server.wait_for_requests(count, ARRIVAL_LIMIT);
            }
            Some(("save", path)) => std::fs::write(path, &server.request(0).raw)?,
            None if line == "open" => gate.open(),
            _ => return Err(Failure::usage(format!("no such server command: `{line}`"))),
        }
        println!("ok");
    }
    Ok(Verdict::Good)
}

/// A running server; ends when dropped.
pub struct ServerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub base_url: String,
}

impl ServerProcess {
    pub fn start(scenario: Scenario) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", scenario.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::other("the model server has no pipes"));
        };
        let mut server =
            Self { child, stdin: Some(stdin), stdout: BufReader::new(stdout), base_url: String::new() };
        server.base_url = server.line()?;
        Ok(server)
    }

    /// Blocks until so many requests arrived.
    pub fn wait_for_requests(&mut self, count: usize) -> Result<(), Failure> {
        self.command(&format!("wait {count}"))
    }

    /// Writes the body of the first request into a file.
    pub fn save_first_request(&mut self, path: &Path) -> Result<(), Failure> {
        self.wait_for_requests(1)?;
        self.command(&format!("save {}", path.display()))
    }

    /// Lets the held requests go.
    pub fn open_gate(&mut self) -> Result<(), Failure> {
        self.command("open")
    }

    fn command(&mut self, command: &str) -> Result<(), Failure> {
        if let Some(stdin) = &mut self.stdin {
            writeln!(stdin, "{command}")?;
        }
        match self.line()?.as_str() {
            "ok" => Ok(()),
            other => Err(Failure::other(format!("the model server answered `{other}` to `{command}`"))),
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The end of its stdin is the server's end.
        self.stdin = None;
        let _ = self.child.wait();
    }
}
