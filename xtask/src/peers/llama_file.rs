//! llama.cpp's HTTP server on a model file of ours, to compare with. The one that serves a whole package is in `llama.rs`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use tenon_testkit::Value;

use crate::Failure;
use crate::peers::python::{self, Dependencies, Packages};
use crate::peers::script::Script;

const LLAMA: Packages =
    Packages { name: "llama-alone", pins: &["xllamacpp==2026.10.11549"], dependencies: Dependencies::Left };

/// Ends when dropped.
pub struct LlamaFile {
    _script: Script,
    port: u16,
}

impl LlamaFile {
    pub fn start(file: &Path) -> Result<LlamaFile, Failure> {
        let script = Script::start(&python::with(&LLAMA)?, "llama_file", [file])?;
        let port = script.port_after("port ")?;
        script.line_after("ready")?;
        Ok(LlamaFile { _script: script, port })
    }

    pub fn post(&self, path: &str, asked: &Value) -> Result<Value, Failure> {
        let body = asked.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        body.parse().map_err(|error| Failure::other(format!("{error}: {answer}")))
    }
}
