//! Does somebody at the terminal want the plan to be run? Without a terminal nobody is asked, and nobody has said yes.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};

use tenon_agent::Stop;
use tokio::sync::oneshot;

use crate::stderr;

/// Answers that are neither yes nor no, before it is a no.
const TRIES: usize = 3;
const QUESTION: &str = "Run this plan? [y/N] ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    Given,
    Refused,
    NobodyThere,
    /// The run was interrupted while the question stood.
    Stopped,
}

/// There is no time limit: it is a person who is asked.
pub async fn ask(stop: &Stop) -> Approval {
    let Some(terminal) = terminal() else { return Approval::NobodyThere };
    let (sender, answer) = oneshot::channel();
    // A blocking read cannot be cancelled, so it has a thread of its own, which the end of the process ends.
    std::thread::spawn(move || {
        // Whoever asked may have left.
        let _ = sender.send(answered(BufReader::new(terminal)));
    });
    tokio::select! {
        () = stop.cancel().cancelled() => {
            stderr::line("");
            Approval::Stopped
        }
        answer = answer => answer.unwrap_or(Approval::Refused),
    }
}

pub fn can_ask() -> bool {
    terminal().is_some()
}

/// Where to read an answer: stdin may be what the steps are to know.
fn terminal() -> Option<Box<dyn Read + Send>> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    match File::open("/dev/tty") {
        Ok(tty) => Some(Box::new(tty)),
        Err(_) if std::io::stdin().is_terminal() => Some(Box::new(std::io::stdin())),
        Err(_) => None,
    }
}

fn answered(mut terminal: impl BufRead) -> Approval {
    for _ in 0..TRIES {
        stderr::draw(QUESTION);
        let mut answer = String::new();
        match terminal.read_line(&mut answer) {
            Ok(0) | Err(_) => return Approval::Refused,
            Ok(_) => {}
        }
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => return Approval::Given,
            "" | "n" | "no" => return Approval::Refused,
            _ => {}
        }
    }
    Approval::Refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        let table = [
            ("y\n", Approval::Given),
            ("YES\n", Approval::Given),
            ("  yes \n", Approval::Given),
            ("n\n", Approval::Refused),
            ("\n", Approval::Refused),
            ("", Approval::Refused),
            ("yes please\ny\n", Approval::Given),
            ("a\nb\nc\ny\n", Approval::Refused),
        ];
        for (typed, wanted) in table {
            assert_eq!(answered(typed.as_bytes()), wanted, "{typed:?}");
        }
    }
}
