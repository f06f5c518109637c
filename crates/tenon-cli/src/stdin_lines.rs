//! A client's lines, from stdin. Reading blocks, so it has a thread of its own; how much it may be ahead of
//! the session is bounded, so that a client that writes faster than turns are answered waits.

use std::io::{self, BufRead, BufReader, Read};

use tenon_session::Incoming;
use tokio::sync::mpsc;

/// Longer lines are answered with an error. Enough for a request with many images.
const MAX_LINE: usize = 64 * 1024 * 1024;
/// Lines read ahead.
const READ_AHEAD: usize = 256;
const BUFFER: usize = 64 * 1024;

/// Starts reading. The channel closes at the end of the input, and when it cannot be read any further.
pub fn read() -> mpsc::Receiver<Incoming> {
    let (sender, receiver) = mpsc::channel(READ_AHEAD);
    std::thread::spawn(move || {
        read_all(BufReader::with_capacity(BUFFER, io::stdin().lock()), &sender, MAX_LINE)
    });
    receiver
}

fn read_all(mut input: impl BufRead, sender: &mpsc::Sender<Incoming>, limit: usize) {
    let mut number = 0;
    loop {
        number += 1;
        let incoming = match next_line(&mut input, limit) {
            Ok(Next::Line(bytes)) => Incoming::Line { number, bytes },
            Ok(Next::TooLong) => Incoming::TooLong { number, limit },
            Ok(Next::End) | Err(_) => return,
        };
        if sender.blocking_send(incoming).is_err() {
            return;
        }
    }
}

enum Next {
    Line(Vec<u8>),
    /// Read to its end and thrown away.
    TooLong,
    End,
}

fn next_line(input: &mut impl BufRead, limit: usize) -> io::Result<Next> {
    let mut bytes = Vec::new();
    // One more for the line feed, which does not count.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    input.by_ref().take(most).read_until(b'\n', &mut bytes)?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        return Ok(Next::Line(bytes));
    }
    if bytes.len() > limit {
        drop(bytes);
        skip_line(input)?;
        return Ok(Next::TooLong);
    }
    // The last line may lack its line feed.
    if bytes.is_empty() { Ok(Next::End) } else { Ok(Next::Line(bytes)) }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let (used, is_over) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        input.consume(used);
        if is_over {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_any_length_and_the_ones_after() {
        let text = "a\n\nfour\nmore than four\nb\nlast";
        let (sender, mut receiver) = mpsc::channel(16);
        read_all(BufReader::with_capacity(3, text.as_bytes()), &sender, 4);
        drop(sender);
        let mut lines = Vec::new();
        while let Some(line) = receiver.blocking_recv() {
            lines.push(match line {
                Incoming::Line { number, bytes } => format!("{number}:{}", String::from_utf8(bytes).unwrap()),
                Incoming::TooLong { number, limit } => format!("{number}>{limit}"),
            });
        }
        assert_eq!(lines, ["1:a", "2:", "3:four", "4>4", "5:b", "6:last"]);
    }
}
