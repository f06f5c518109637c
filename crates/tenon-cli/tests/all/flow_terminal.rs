//! `tenon flow run` on a terminal: what is drawn while steps run, and what is left of it when they are over.

use std::io::Read;
use std::process::Stdio;

use pty_process::Size;
use pty_process::blocking::{Command, open};
use tenon_testkit::{Gate, Server, json, reply};

use super::tenon;

/// What a person looks at: lines of so many columns, and the bytes that were sent there.
struct Screen {
    columns: usize,
    lines: Vec<String>,
    row: usize,
    column: usize,
    /// How often something was drawn over.
    moves: usize,
}

impl Screen {
    fn new(columns: usize) -> Screen {
        Screen { columns, lines: vec![String::new()], row: 0, column: 0, moves: 0 }
    }

    /// Knows what a drawing is made of: text, new lines, up, and clear the line. A line that is too long goes on in the next.
    fn see(&mut self, text: &str) {
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '\r' => self.column = 0,
                '\n' => self.next_line(),
                '\u{1b}' => {
                    assert_eq!(rest.next(), Some('['), "{text:?}");
                    let mut number = String::new();
                    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                        number.push(digit);
                    }
                    match rest.next() {
                        Some('A') => {
                            self.moves += 1;
                            self.row -= number.parse::<usize>().unwrap();
                        }
                        Some('K') => self.lines[self.row].clear(),
                        other => panic!("{other:?} in {text:?}"),
                    }
                    while self.lines.len() <= self.row {
                        self.lines.push(String::new());
                    }
                }
                c => {
                    let wide = if c > '\u{2e80}' { 2 } else { 1 };
                    if self.column + wide > self.columns {
                        self.column = 0;
                        self.next_line();
                    }
                    self.lines[self.row].push(c);
                    self.column += wide;
                }
            }
        }
    }

    fn next_line(&mut self) {
        self.row += 1;
        if self.lines.len() <= self.row {
            self.lines.push(String::new());
        }
    }
}

/// Where stdout goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stdout {
    Piped,
    /// To the terminal, where stderr goes too.
    There,
}

struct Seen {
    screen: Screen,
    bytes: String,
    stdout: String,
    code: i32,
}

fn run_at_terminal(
    document: &str,
    columns: u16,
    env: &[(&str, &str)],
    flags: &[&str],
    wait_for: &str,
) -> Seen {
    run_with(Stdout::Piped, document, columns, env, flags, wait_for)
}

fn run_with(
    stdout: Stdout,
    document: &str,
    columns: u16,
    env: &[(&str, &str)],
    flags: &[&str],
    wait_for: &str,
) -> Seen {
    let gate = Gate::new();
    if wait_for.is_empty() {
        gate.open();
    }
    let server = Server::start([reply().text("done").usage(10, 1).hold(&gate).forever()]);
    let setup = tenon().file("flow.yaml", document);
    let (mut terminal, other_end) = open().unwrap();
    terminal.resize(Size::new(24, columns)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenon"))
        .args(["flow", "run", "flow.yaml", "--run-id", "r"])
        .args(flags)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TERM", "xterm")
        .env("HOME", setup.home())
        .env("TENON_HOME", setup.tenon_home())
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", "test-key")
        .env("OPENAI_MODEL", "模型模型模型模型模型")
        .current_dir(setup.workspace())
        .stdin(Stdio::null());
    if stdout == Stdout::Piped {
        command = command.stdout(Stdio::piped());
    }
    for (name, value) in env {
        command = command.env(name, value);
    }
    let mut child = command.spawn(other_end).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    // The other end is closed when it is over, which a terminal reports as an error.
    while let Ok(read @ 1..) = terminal.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..read]);
        // Nobody is answered before there was something to see.
        if String::from_utf8_lossy(&bytes).contains(wait_for) {
            gate.open();
        }
    }
    let mut stdout = String::new();
    if let Some(mut piped) = child.stdout.take() {
        piped.read_to_string(&mut stdout).unwrap();
    }
    let code = child.wait().unwrap().code().unwrap_or(-1);
    let bytes = String::from_utf8(bytes).unwrap();
    let mut screen = Screen::new(columns.into());
    screen.see(&bytes);
    Seen { screen, bytes, stdout, code }
}

fn document() -> String {
    let id = "a".repeat(64);
    format!(
        "name: n\nsteps:\n  - {{ id: {id}, instructions: Long. }}\n  - id: each\n    instructions: Do it.\n    loop: {{ forEach: [1, 2, 3, 4], maxConcurrency: 2 }}\n  - id: again\n    instructions: Again.\n    loop: {{ maxIterations: 3 }}\n"
    )
}

#[test]
fn nothing_is_left_of_a_drawing_however_narrow_the_terminal() {
    for columns in [20, 40, 80, 200] {
        let Seen { screen, bytes, stdout, code } =
            run_at_terminal(&document(), columns, &[], &[], "again 0/3");
        assert_eq!(code, 0, "{bytes}");
        assert!(stdout.contains("done"), "{stdout}");
        assert!(screen.moves > 0, "something was drawn over: {bytes:?}");
        let left = screen.lines.iter().filter(|line| line.starts_with('…')).count();
        assert_eq!(left, 0, "{columns}: {:?}\n{bytes:?}", screen.lines);
        let said = screen.lines.concat();
        for line in
            ["workflow `n`: 3 steps", "step each: completed in ", "step again: completed in ", "tokens · "]
        {
            assert!(said.contains(line), "{columns}: {line}: {:?}", screen.lines);
        }
        assert!(bytes.contains("again 0/3") && bytes.contains("0/4 "), "loops are counted: {bytes:?}");
        assert!(columns < 60 || bytes.contains("each [..........] 0/4"), "{bytes:?}");
    }
}

/// Without a terminal that can move its cursor, and in CI, there are lines and nothing else; `-q` says nothing.
#[test]
fn nothing_is_drawn_where_nothing_can_be() {
    for env in [("TERM", "dumb"), ("CI", "1")] {
        let Seen { bytes, code, .. } = run_at_terminal(&document(), 80, &[env], &[], "step each: started");
        assert_eq!(code, 0, "{bytes}");
        assert!(!bytes.contains('\u{1b}') && bytes.contains("step each: started"), "{env:?}: {bytes:?}");
    }
    assert_eq!(run_at_terminal(&document(), 80, &[], &["-q"], "").bytes, "");
    // No colour is drawn at all: of what is sent besides text, a screen knows where to draw and nothing else.
    assert_eq!(run_at_terminal(&document(), 80, &[("NO_COLOR", "1")], &[], "again 0/3").code, 0);
}

/// Events and progress on one terminal: nothing is drawn over an event, and every line is the one or the other.
#[test]
fn events_on_the_terminal_are_left_alone() {
    let flags = ["-o", "stream-json"];
    let wait_for = "step each: started";
    let Seen { bytes, code, .. } = run_with(Stdout::There, &document(), 80, &[], &flags, wait_for);
    assert_eq!(code, 0, "{bytes}");
    assert!(!bytes.contains('\u{1b}'), "{bytes}");
    let (events, said): (Vec<&str>, Vec<&str>) = bytes.lines().partition(|line| line.starts_with('{'));
    let events: Vec<tenon_testkit::Value> =
        events.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    tenon_testkit::assert_flow_events(&events);
    assert!(said.iter().all(|line| !line.contains('{')), "{said:?}");
    // Elsewhere the same run is drawn.
    assert!(run_at_terminal(&document(), 80, &[], &flags, "again 0/3").bytes.contains('\u{1b}'));
    let seen = run_with(Stdout::There, &document(), 80, &[], &["-o", "json"], "again 0/3");
    let last = seen.screen.lines.concat();
    assert!(seen.bytes.contains('\u{1b}') && last.contains("\"schema_version\":"), "{last}");
}

/// A run that fails leaves its reasons, and no half of a drawing.
#[test]
fn a_run_that_fails_leaves_its_reasons() {
    let document = "name: n\nagents:\n  a: { description: A., maxTurns: 1, resultSchema: { type: object } }\nsteps:\n  - { id: s, agent: a, instructions: Go. }\n";
    let Seen { screen, bytes, stdout, code } = run_at_terminal(document, 60, &[], &["-o", "json"], "… s (a)");
    assert_eq!(code, 1, "{bytes}");
    let report: tenon_testkit::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["status"], json!("failed"));
    assert!(!screen.lines.iter().any(|line| line.starts_with('…')), "{:?}", screen.lines);
    let said = screen.lines.concat();
    assert!(
        said.contains("step s: failed after ") && said.contains("tenon flow resume r"),
        "{:?}",
        screen.lines
    );
}
