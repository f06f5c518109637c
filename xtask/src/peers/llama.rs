//! llama.cpp's HTTP server as a child of ours, on a port of its own choice.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::peers::script::{READY_LIMIT, Script};

/// Often enough to see it while it loads.
const POLL: Duration = Duration::from_millis(5);

/// Ends when dropped.
pub struct Llama {
    script: Script,
    port: u16,
    /// `http://127.0.0.1:PORT`
    pub origin: String,
}

impl Llama {
    /// Returns when the port is known, long before the model is loaded.
    pub fn start(python: &Path) -> Result<Self, Failure> {
        let script = Script::start(python, "llama_server", [""; 0])?;
        let port = script.port_after("port ")?;
        Ok(Self { script, port, origin: format!("http://127.0.0.1:{port}") })
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
        Err(self.script.failed())
    }

    /// Blocks until the model is loaded.
    pub fn wait_until_ready(&self) -> Result<(), Failure> {
        self.script.line_after("ready").map(drop)
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let asked = stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut first = [0; 8];
        asked.and_then(|()| stream.read_exact(&mut first)).is_ok()
    }
}
