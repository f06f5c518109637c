//! Reads piped input without ever hanging on a pipe that nobody writes to.

use std::io::Read;
use std::time::Duration;

use tenon_agent::Stop;
use tenon_core::{ErrorClass, Failure};
use tokio::sync::mpsc;

use crate::args::StdinMode;

/// With a prompt given, stdin has this long to show that it has something to say. Many supervisors hand
/// down an open pipe that is never written to.
const FIRST_BYTE: Duration = Duration::from_millis(500);
/// Once input has begun, a silence this long means that its end will not come.
const SILENCE: Duration = Duration::from_secs(10);
/// More than this is almost certainly a mistake, and no model could read it.
const MAX_BYTES: usize = 8 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;

/// What stdin had.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Piped {
    pub text: String,
    pub warning: Option<String>,
}

/// How long to wait for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Stdin is the prompt, or the user said to wait.
    UntilEnd,
    /// A prompt was given too.
    FirstByteThenEnd,
    DoNotLook,
}

pub fn patience(mode: StdinMode, has_prompt: bool, dash: bool, is_terminal: bool) -> Patience {
    match mode {
        StdinMode::Ignore => Patience::DoNotLook,
        StdinMode::Wait => Patience::UntilEnd,
        StdinMode::Auto if dash || !has_prompt => Patience::UntilEnd,
        StdinMode::Auto if is_terminal => Patience::DoNotLook,
        StdinMode::Auto => Patience::FirstByteThenEnd,
    }
}

pub async fn read(patience: Patience, stop: &Stop) -> Result<Piped, Failure> {
    if patience == Patience::DoNotLook {
        return Ok(Piped::default());
    }
    let mut chunks = read_in_thread();
    let mut bytes = Vec::new();
    loop {
        let limit = match (patience, bytes.is_empty()) {
            (Patience::FirstByteThenEnd, true) => Some(FIRST_BYTE),
            (Patience::FirstByteThenEnd, false) => Some(SILENCE),
            (Patience::UntilEnd | Patience::DoNotLook, _) => None,
        };
        let next = async {
            match limit {
                Some(limit) => tokio::time::timeout(limit, chunks.recv()).await.ok(),
                None => Some(chunks.recv().await),
            }
        };
        let next = tokio::select! {
            () = stop.cancel().cancelled() => return Err(stop.failure()),
            next = next => next,
        };
        match next {
            None if bytes.is_empty() => {
                let warning = format!(
                    "nothing came on stdin within {} ms, so the run goes on without it (`--stdin wait` waits, `--stdin ignore` does not look)",
                    FIRST_BYTE.as_millis()
                );
                return Ok(Piped { text: String::new(), warning: Some(warning) });
            }
            None => return Err(cut_short(bytes.len())),
            Some(None) => return Ok(decode(bytes)),
            Some(Some(Ok(chunk))) => {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > MAX_BYTES {
                    return Err(Failure::new(
                        ErrorClass::Input,
                        format!("stdin has more than {} MiB", MAX_BYTES / 1024 / 1024),
                    )
                    .hint("put the data into files in the working folder and let the agent read them"));
                }
            }
            Some(Some(Err(error))) => {
                return Err(Failure::new(ErrorClass::Input, format!("stdin could not be read: {error}"))
                    .hint("`--stdin ignore` does not look at it"));
            }
        }
    }
}

fn cut_short(bytes: usize) -> Failure {
    Failure::new(
        ErrorClass::Input,
        format!("stdin went silent for {} s after {bytes} bytes without ending", SILENCE.as_secs()),
    )
    .hint("close the pipe after writing, or wait for its end with `--stdin wait`")
}

/// A blocking read cannot be cancelled, so it has a thread of its own, which the end of the process ends.
fn read_in_thread() -> mpsc::Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = vec![0; CHUNK];
        loop {
            let chunk = match stdin.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => Ok(buffer[..read].to_vec()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = chunk.is_err();
            if sender.blocking_send(chunk).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

fn decode(bytes: Vec<u8>) -> Piped {
    let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => rest.to_vec(),
        None => bytes,
    };
    match String::from_utf8(bytes) {
        Ok(text) => Piped { text, warning: None },
        Err(error) => Piped {
            text: String::from_utf8_lossy(error.as_bytes()).into_owned(),
            warning: Some("stdin is not valid UTF-8; the invalid bytes were replaced".to_owned()),
        },
    }
}
