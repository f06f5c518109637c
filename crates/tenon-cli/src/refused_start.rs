//! A client that starts tenon with flags it does not understand still introduces itself: it is answered before the
//! process ends, and does not write into a closed pipe. What was wrong has been told on stderr by then.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use tenon_core::Id;
use tenon_session::Incoming;
use tenon_wire::input::{ControlRequest, Input, read_line};
use tenon_wire::{Dialect, Replies};

use crate::stdin_lines;

/// How long a client may be silent: an SDK introduces itself at once.
const SILENCE: Duration = Duration::from_secs(2);
/// How long the rest of what it was about to write is read, once it was answered.
const AFTERWARDS: Duration = Duration::from_millis(200);

/// Answers the first lines of a client that drives tenon over stdin, and nobody else.
pub fn answer(why: &str) {
    let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if !value_of(&args, "--input-format").is_some_and(|format| format.starts_with("stream-")) {
        return;
    }
    let dialect = value_of(&args, "--dialect").and_then(|name| Dialect::parse(name).ok());
    answer_lines(Vec::new(), stdin_lines::read(), dialect.unwrap_or_default(), why);
}

/// The same where somebody reads already. `first` are lines that were looked at.
pub fn answer_lines(
    first: Vec<Incoming>,
    lines: tokio::sync::mpsc::Receiver<Incoming>,
    dialect: Dialect,
    why: &str,
) {
    let replies = Replies::new(dialect, Id::from_random([0; 16]));
    let lines = in_thread(lines);
    let mut patience = SILENCE;
    let mut first = first.into_iter();
    while let Some(line) = first.next().or_else(|| lines.recv_timeout(patience).ok()) {
        let Some(id) = introduction(&line) else { continue };
        let mut stdout = std::io::stdout().lock();
        // Whoever does not listen has heard it on stderr.
        let _ = stdout.write_all(&replies.control_response(&id, Err(why))).and_then(|()| stdout.flush());
        patience = AFTERWARDS;
    }
}

/// The id of an `initialize` request.
fn introduction(line: &Incoming) -> Option<String> {
    let Incoming::Line { bytes, .. } = line else { return None };
    match read_line(bytes).ok()??.input {
        Input::ControlRequest { id, request } if matches!(*request, ControlRequest::Initialize(_)) => {
            Some(id)
        }
        _ => None,
    }
}

/// There may be no runtime to wait in.
fn in_thread(mut lines: tokio::sync::mpsc::Receiver<Incoming>) -> mpsc::Receiver<Incoming> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        while let Some(line) = lines.blocking_recv() {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// `--flag value` or `--flag=value`; the arguments may be ones that the parser does not understand.
fn value_of<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    args.iter().enumerate().find_map(|(at, arg)| match arg.strip_prefix(flag)? {
        "" => args.get(at + 1).map(String::as_str),
        rest => rest.strip_prefix('='),
    })
}
