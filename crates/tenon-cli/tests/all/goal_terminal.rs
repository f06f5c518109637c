//! `tenon goal` at a terminal: somebody is asked, and answers.

use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use pty_process::blocking::{Command, Pty, open};
use tenon_testkit::Server;

use super::goal::{hands_in, plan, steps};
use super::tenon;

/// A goal under way, and the terminal it was typed at.
struct AtTerminal {
    terminal: Pty,
    child: std::process::Child,
    seen: String,
    setup: tenon_testkit::Tenon,
    /// Dropped at the end, which calls off the watch.
    _watched: mpsc::Sender<()>,
}

/// A hang is a failed test, never a stuck job. Far above what a run takes on a busy machine.
const LIFE_LIMIT: Duration = Duration::from_secs(60);

/// Ends the process when it lives too long.
fn watch(pid: u32) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        if receiver.recv_timeout(LIFE_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    });
    sender
}

fn begin(server: &Server, stdin: Option<&str>) -> AtTerminal {
    let setup = tenon();
    let (terminal, other_end) = open().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenon"))
        .args(["goal", "see and tell", "--run-id", "run_1"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", setup.home())
        .env("TENON_HOME", setup.tenon_home())
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", "test-key")
        .env("OPENAI_MODEL", "test-model")
        .current_dir(setup.workspace())
        .stdout(Stdio::piped());
    if let Some(text) = stdin {
        std::fs::write(setup.workspace().join("stdin.txt"), text).unwrap();
        command = command.stdin(std::fs::File::open(setup.workspace().join("stdin.txt")).unwrap());
    }
    let child = command.spawn(other_end).unwrap();
    let _watched = watch(child.id());
    AtTerminal { terminal, child, seen: String::new(), setup, _watched }
}

impl AtTerminal {
    /// Reads until this is on the screen.
    fn wait_for(&mut self, text: &str) {
        let mut buffer = [0; 4096];
        while !self.seen.contains(text) {
            match self.terminal.read(&mut buffer) {
                Ok(read) if read > 0 => self.seen.push_str(&String::from_utf8_lossy(&buffer[..read])),
                _ => panic!("`{text}` did not appear:\n{}", self.seen),
            }
        }
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Its exit code, its stdout, and all that was on the screen.
    fn end(mut self) -> (i32, String, String) {
        let mut rest = Vec::new();
        // The other end is closed when it is over, which a terminal reports as an error.
        let _ = self.terminal.read_to_end(&mut rest);
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, stdout, self.seen)
    }

    fn kept_plans(&self) -> usize {
        std::fs::read_dir(self.setup.tenon_home().join("plans")).map(Iterator::count).unwrap_or_default()
    }
}

const QUESTION: &str = "Run this plan? [y/N] ";

#[test]
fn a_yes_runs_the_plan() {
    for stdin in [None, Some("It is spring.")] {
        let server = Server::start([hands_in(&plan())].into_iter().chain(steps()));
        let mut at = begin(&server, stdin);
        at.wait_for(QUESTION);
        assert!(at.seen.contains("│ (reader) │") && at.kept_plans() == 1, "{}", at.seen);
        at.types("y\r");
        let (code, stdout, seen) = at.end();
        assert_eq!((code, stdout.as_str()), (0, "There are trees.\n"), "{seen}");
        server.assert_script_done();
    }
}

#[test]
fn anything_else_runs_nothing_and_keeps_the_plan() {
    for (keys, code) in [("n\r", 42), ("\r", 42), ("later\rwhat\rhm\r", 42), ("\u{4}", 42), ("\u{3}", 130)] {
        let server = Server::start([hands_in(&plan())]);
        let mut at = begin(&server, None);
        at.wait_for(QUESTION);
        at.types(keys);
        let plans = at.kept_plans();
        let home = at.setup.tenon_home();
        let (ended, stdout, seen) = at.end();
        assert_eq!((ended, stdout.as_str(), plans), (code, "", 1), "{keys:?}\n{seen}");
        let command = format!("`tenon flow run {}", home.join("plans/two-steps-run1.yaml").display());
        assert!(seen.contains(&command), "{keys:?}\n{seen}");
        // A terminal breaks long lines, so only the words.
        assert!(seen.replace("\r\n", "").contains("tenon flow resume run_1 --yes"), "{keys:?}\n{seen}");
        server.assert_script_done();
    }
}
