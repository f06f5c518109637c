//! A script of ours as a child that says what it does in lines on its stdout. What it installs is in `python.rs`.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::peers::workspace;

/// Loading a model takes seconds on a busy machine.
pub const READY_LIMIT: Duration = Duration::from_secs(120);

/// Ends when dropped.
pub struct Script {
    child: Child,
    lines: Receiver<String>,
    /// What it writes to stderr goes to `peers/NAME.log` in the target folder.
    name: &'static str,
}

impl Script {
    pub fn start(
        python: &Path,
        name: &'static str,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Self, Failure> {
        Self::start_with(python, name, args, [("PYTHONUNBUFFERED", "1")])
    }

    /// With more variables.
    pub fn start_with(
        python: &Path,
        name: &'static str,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        variables: impl IntoIterator<Item = (&'static str, impl AsRef<OsStr>)>,
    ) -> Result<Self, Failure> {
        Self::start_file(python, &workspace::script(&format!("{name}.py")), name, args, variables)
    }

    /// Any file, in the language of `program`.
    pub fn start_file(
        program: &Path,
        file: &Path,
        name: &'static str,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        variables: impl IntoIterator<Item = (&'static str, impl AsRef<OsStr>)>,
    ) -> Result<Self, Failure> {
        let log = std::fs::File::create(workspace::target().join("peers").join(format!("{name}.log")))?;
        let mut child = Command::new(program)
            .arg(file)
            .args(args)
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        Ok(Self { child, lines, name })
    }

    pub fn write_line(&mut self, line: &str) -> Result<(), Failure> {
        match &mut self.child.stdin {
            Some(stdin) => Ok(writeln!(stdin, "{line}")?),
            None => Err(self.failed()),
        }
    }

    /// The rest of the first line that starts so; its libraries may print others.
    pub fn line_after(&self, start: &str) -> Result<String, Failure> {
        let deadline = Instant::now() + READY_LIMIT;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let Some(rest) = line.strip_prefix(start) {
                return Ok(rest.to_owned());
            }
        }
        Err(self.failed())
    }

    /// A line that is a name and a port.
    pub fn port_after(&self, start: &str) -> Result<u16, Failure> {
        let port = self.line_after(start)?;
        port.parse().map_err(|_| Failure::other(format!("`{port}` is no port")))
    }

    /// It did not do what it was started for.
    pub fn failed(&self) -> Failure {
        let name = self.name;
        Failure::other(format!("`{name}` does not answer; see `peers/{name}.log` in the target folder"))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
