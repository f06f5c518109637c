//! Runs the built binary the way a script would: no inherited environment, a home and a workspace of its
//! own, and a hard limit on its life.
//!
//! A finished run is a `Run`; a run one talks to while it lives is in `process.rs`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Running, seen};
use crate::{Server, Wire};

/// A hang is a failed test, never a stuck job. Far above what a run takes on a busy machine.
const LIFE_LIMIT: Duration = Duration::from_secs(60);
/// `scrub` finds our temporary folders by this name.
pub(crate) const SCRATCH_PREFIX: &str = "tenon-test-";

/// A command line of the binary, with its surroundings.
#[derive(Clone)]
pub struct Tenon {
    binary: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
    stdin: Stdin,
    cwd: PathBuf,
    limit: Duration,
    scratch: Arc<Scratch>,
}

#[derive(Clone)]
enum Stdin {
    Closed,
    Idle,
    Text(Vec<u8>),
}

/// The folders of one `Tenon`, removed with the last value that needs them.
pub(crate) struct Scratch {
    _root: TempDir,
    home: PathBuf,
    workspace: PathBuf,
}

impl Tenon {
    /// `Tenon::new(env!("CARGO_BIN_EXE_tenon"))`
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let scratch = Arc::new(Scratch::new());
        Self {
            binary: binary.into(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: Stdin::Closed,
            cwd: scratch.workspace.clone(),
            limit: LIFE_LIMIT,
            scratch,
        }
    }

    /// Talks to this server as `test-model`, with the key `test-key`.
    pub fn server(self, server: &Server) -> Self {
        self.env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "test-key")
            .env("OPENAI_MODEL", "test-model")
    }

    /// Talks to this server on this wire, as `test-model` with the key `test-key`.
    pub fn server_on(self, server: &Server, wire: Wire) -> Self {
        self.origin_on(&server.origin(), wire)
    }

    /// The same for any address (`http://127.0.0.1:PORT`), such as that of a `Chaos`.
    pub fn origin_on(self, origin: &str, wire: Wire) -> Self {
        let named = self.args(["-m", &wire.model()]);
        wire.env_at(origin).into_iter().fold(named, |tenon, (name, value)| tenon.env(name, value))
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    pub fn env(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn env_remove(mut self, name: &str) -> Self {
        self.env.retain(|(key, _)| key != name);
        self
    }

    /// This text, then the end; with `spawn`, the end comes with `close_stdin`.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = Stdin::Text(text.into());
        self
    }

    /// Nothing to read (the default).
    pub fn stdin_closed(mut self) -> Self {
        self.stdin = Stdin::Closed;
        self
    }

    /// An open pipe that nobody writes to; with `spawn`, the one that the test writes to.
    pub fn stdin_idle(mut self) -> Self {
        self.stdin = Stdin::Idle;
        self
    }

    /// Where it is started, instead of the private workspace.
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.cwd = path.into();
        self
    }

    /// Kills it after this long instead of the usual minute.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Writes a file of the workspace, with its folders.
    #[track_caller]
    pub fn file(self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        write_file(&self.scratch.workspace.join(path), content.as_ref());
        self
    }

    /// Writes a file of `$TENON_HOME`, such as `settings.json`.
    #[track_caller]
    pub fn home_file(self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        write_file(&self.tenon_home().join(path), content.as_ref());
        self
    }

    /// The private workspace, the folder it is started in unless `cwd` says otherwise.
    pub fn workspace(&self) -> &Path {
        &self.scratch.workspace
    }

    /// The private `$HOME`.
    pub fn home(&self) -> &Path {
        &self.scratch.home
    }

    /// The private `$TENON_HOME`.
    pub fn tenon_home(&self) -> PathBuf {
        self.scratch.home.join(".tenon")
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(&self) -> Run {
        let mut running = self.start();
        if !matches!(self.stdin, Stdin::Idle) {
            running.close_stdin();
        }
        running.wait()
    }

    /// Starts it and returns while it runs. To write to it, give it a stdin first: `stdin_idle()`, or
    /// `stdin(…)` for the opening words.
    #[track_caller]
    pub fn spawn(&self) -> Running {
        self.start()
    }

    #[track_caller]
    fn start(&self) -> Running {
        let mut command = Command::new(&self.binary);
        command
            .args(&self.args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("TENON_HOME", self.tenon_home())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.cwd)
            .stdin(if matches!(self.stdin, Stdin::Closed) { Stdio::null() } else { Stdio::piped() });
        let mut running = Running::start(command, self.command_line(), self.limit, self.scratch.clone());
        if let Stdin::Text(text) = &self.stdin {
            running.write(text);
        }
        running
    }

    fn command_line(&self) -> String {
        let mut line = self.binary.display().to_string();
        for arg in &self.args {
            line.push_str(&format!(" {}", quoted(&arg.to_string_lossy())));
        }
        line
    }
}

impl Scratch {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix(SCRATCH_PREFIX).tempdir().expect("a temporary folder");
        // The binary reports real paths; where the temporary folder is a link, tests would compare two names.
        let path = root.path().canonicalize().expect("the folder just made");
        let (home, workspace) = (path.join("home"), path.join("workspace"));
        std::fs::create_dir_all(home.join(".tenon")).expect("a private home");
        std::fs::create_dir_all(&workspace).expect("a private workspace");
        Self { _root: root, home, workspace }
    }
}

#[track_caller]
fn write_file(path: &Path, content: &[u8]) {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    }
    std::fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) {
        arg.to_owned()
    } else {
        format!("'{}'", arg.replace('\'', r"'\''"))
    }
}

/// A run that has ended. Shown whole when an assertion on it fails.
pub struct Run {
    /// The exit code, or 128 plus the signal that ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub(crate) command: String,
    pub(crate) scratch: Arc<Scratch>,
}

impl Run {
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "wrong exit code\n{self}");
        self
    }

    /// Every line of stdout as JSON.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line: &str| {
            let line = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("not JSON ({error}): `{line}`\n{self}"));
            seen(&line);
            line
        };
        self.stdout.lines().map(parse).collect()
    }

    /// The whole of stdout as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON value ({error})\n{self}"))
    }

    /// The last line of stdout as JSON: in a stream, the result.
    #[track_caller]
    pub fn last_json(&self) -> Value {
        let line = self.stdout.lines().last().unwrap_or_else(|| panic!("stdout is empty\n{self}"));
        serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON ({error}): `{line}`\n{self}"))
    }

    /// The workspace it ran in; it lives as long as this value.
    pub fn workspace(&self) -> &Path {
        &self.scratch.workspace
    }

    pub fn tenon_home(&self) -> PathBuf {
        self.scratch.home.join(".tenon")
    }

    /// A file of the workspace as text.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.workspace().join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}\n{self}", path.display()))
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, code, stdout, stderr, .. } = self;
        write!(f, "$ {command}\nexit code {code}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---")
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
