//! How long a client waits for its greeting: from the start of the process to the answer to `initialize`, which
//! SDKs wait for before they send anything else.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;

const INITIALIZE: &str =
    r#"{"type":"control_request","request_id":"r1","request":{"subtype":"initialize","hooks":null}}"#;

/// Starts a session, greets it, and ends it.
pub fn time_to_greeting(command: &mut Command, stderr: &std::path::Path) -> Result<Duration, Failure> {
    command.args(["--input-format", "stream-json", "--output-format", "stream-json", "--channel=SDK"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(stderr)?);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let mut answer = String::new();
    if let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) {
        writeln!(stdin, "{INITIALIZE}")?;
        BufReader::new(stdout).read_line(&mut answer)?;
    }
    let took = start.elapsed();
    // Its stdin has ended, and so does it.
    let status = child.wait()?;
    if status.success() && answer.contains("control_response") && answer.contains("success") {
        return Ok(took);
    }
    let said = std::fs::read_to_string(stderr).unwrap_or_default();
    Err(Failure::other(format!("`initialize` was answered with `{}` ({status})\n{said}", answer.trim_end())))
}
