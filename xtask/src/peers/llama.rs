//! llama.cpp's HTTP server as a child of ours, on a port of its own choice.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::peers::workspace;

/// Loading takes seconds on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(120);
/// Often enough to see it while it loads.
const POLL: Duration = Duration::from_millis(5);

/// Ends when dropped.
pub struct Llama {
    child: Child,
    lines: Receiver<String>,
    port: u16,
    /// `http://127.0.0.1:PORT`
    pub origin: String,
}

impl Llama {
    /// Returns when the port is known, long before the model is loaded.
    pub fn start(python: &Path) -> Result<Self, Failure> {
        let log = std::fs::File::create(workspace::target().join("peers").join("llama.log"))?;
        let mut child = Command::new(python)
            .arg(workspace::script("llama_server.py"))
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
        let mut server = Self { child, lines, port: 0, origin: String::new() };
        let port = server.line_after("port ")?;
        server.port = port.parse().map_err(|_| Failure::other(format!("`{port}` is no port")))?;
        server.origin = format!("http://127.0.0.1:{port}");
        Ok(server)
    }

    /// Blocks until it answers at all, with 503 while it loads.
    pub fn wait_for_answers(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + READY_LIMIT;
        while Instant::now() < deadline {
            if self.answers() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        Err(Failure::other("llama.cpp's server does not answer; see `peers/llama.log` in the target folder"))
    }

    /// Blocks until the model is loaded.
    pub fn wait_until_ready(&self) -> Result<(), Failure> {
        self.line_after("ready").map(drop)
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let asked = stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut first = [0; 8];
        asked.and_then(|()| stream.read_exact(&mut first)).is_ok()
    }

    /// The rest of the first line that starts so; its library may print others.
    fn line_after(&self, start: &str) -> Result<String, Failure> {
        let deadline = Instant::now() + READY_LIMIT;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let Some(rest) = line.strip_prefix(start) {
                return Ok(rest.to_owned());
            }
        }
        Err(Failure::other("llama.cpp's server did not start; see `peers/llama.log` in the target folder"))
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
