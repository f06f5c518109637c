//! A client that takes nothing for granted: it shows the bytes and the chunks as they came.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use tenon_testkit::{Server, Value, Wire};

pub struct Connection(BufReader<TcpStream>);

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    /// The pieces of a chunked body, or the one piece of a plain one.
    pub chunks: Vec<Vec<u8>>,
    pub end: End,
}

#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    Cut,
}

impl Connection {
    pub fn open(server: &Server) -> Self {
        Self::to(server.port())
    }

    pub fn to(port: u16) -> Self {
        Self(BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap()))
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset is an end like any other.
        let _ = self.0.read_to_end(&mut bytes);
        bytes
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.get_ref().write_all(bytes).unwrap();
    }

    pub fn post(&mut self, body: &str) {
        self.post_on(Wire::Chat, body);
    }

    pub fn post_on(&mut self, wire: Wire, body: &str) {
        let (path, length) = (wire.path(), body.len());
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        self.send(format!("{head}{body}").as_bytes());
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    pub fn receive(&mut self) -> Response {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let line = self.line();
            assert!(!line.is_empty(), "the connection closed inside the head: {head:?}");
            head.push_str(&line);
        }
        let lower = head.to_ascii_lowercase();
        let length = lower.split("content-length: ").nth(1).map(|rest| rest.lines().next().unwrap());
        let (chunks, end) = match length {
            Some(length) => self.plain(length.parse().unwrap()),
            None if lower.contains("transfer-encoding: chunked") => self.chunked(),
            None => {
                let mut body = Vec::new();
                self.0.read_to_end(&mut body).unwrap();
                (vec![body], End::Complete)
            }
        };
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head, chunks, end }
    }

    fn plain(&mut self, length: u64) -> (Vec<Vec<u8>>, End) {
        let mut body = Vec::new();
        self.0.by_ref().take(length).read_to_end(&mut body).unwrap();
        let end = if body.len() as u64 == length { End::Complete } else { End::Cut };
        (vec![body], end)
    }

    fn chunked(&mut self) -> (Vec<Vec<u8>>, End) {
        let mut chunks = Vec::new();
        while let Some(chunk) = self.chunk() {
            if chunk.is_empty() {
                return (chunks, End::Complete);
            }
            chunks.push(chunk);
        }
        (chunks, End::Cut)
    }

    /// The next chunk; `None` when the connection closed instead.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.line();
        if line.is_empty() {
            return None;
        }
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.0.read_exact(&mut chunk).ok()?;
        assert!(chunk.ends_with(b"\r\n"), "a chunk without its end");
        chunk.truncate(size);
        Some(chunk)
    }
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8(self.chunks.concat()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// The payloads of the `data:` lines that are JSON.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        let payloads = text.lines().filter_map(|line| line.strip_prefix("data:"));
        payloads.filter_map(|payload| serde_json::from_str(payload).ok()).collect()
    }
}

/// One request on a connection of its own.
pub fn ask(server: &Server, body: &str) -> Response {
    ask_on(server, Wire::Chat, body)
}

pub fn ask_on(server: &Server, wire: Wire, body: &str) -> Response {
    let mut connection = Connection::open(server);
    connection.post_on(wire, body);
    connection.receive()
}
