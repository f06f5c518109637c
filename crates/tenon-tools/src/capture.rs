//! The output of a command while it comes: the beginning and the end in memory, all of it in a file once it
//! is too large for the model.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use crate::OutputStore;
use tenon_core::AnsiStripper;

use crate::ansi::Utf8Decoder;
use crate::output::{Kept, Parts, SHELL_CHARS, cut_notice, first_chars, head_chars, last_chars};

/// A command that prints without end must not fill the disk.
const MAX_FILE: u64 = 2 * 1024 * 1024 * 1024;
const TAIL_CHARS: usize = SHELL_CHARS - SHELL_CHARS / 5;
/// The end is trimmed when it has grown to this many bytes, so that trimming stays rare.
const TAIL_BYTES: usize = TAIL_CHARS * 8;

pub(crate) struct Capture {
    store: OutputStore,
    tool: String,
    strip: AnsiStripper,
    decode: Utf8Decoder,
    /// Everything, while that is little; then the beginning.
    head: String,
    tail: String,
    file: Option<KeptFile>,
    chars: u64,
    /// Lines that ended, and bytes, as the command wrote them.
    pub lines: u64,
    pub bytes: u64,
}

impl Capture {
    pub fn new(store: OutputStore, tool: &str) -> Capture {
        Capture {
            store,
            tool: tool.to_owned(),
            strip: AnsiStripper::default(),
            decode: Utf8Decoder::default(),
            head: String::new(),
            tail: String::new(),
            file: None,
            chars: 0,
            lines: 0,
            bytes: 0,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let mut plain = Vec::with_capacity(bytes.len());
        self.strip.push(bytes, &mut plain);
        let mut text = String::with_capacity(plain.len());
        self.decode.push(&plain, &mut text);
        self.add(&text);
    }

    /// What the model gets to read: all of it, or the beginning and the end with a word on the rest.
    pub fn finish(mut self) -> String {
        let mut rest = String::new();
        self.decode.finish(&mut rest);
        self.add(&rest);
        let Some(file) = self.file else { return self.head };
        let tail = last_chars(&self.tail, TAIL_CHARS).to_owned();
        let shown = self.head.chars().count() + tail.chars().count();
        let parts = Parts { head: self.head, tail, chars_cut: self.chars - shown as u64 };
        cut_notice(&file.finish(), &parts)
    }

    fn add(&mut self, text: &str) {
        self.chars += text.chars().count() as u64;
        if let Some(file) = &mut self.file {
            file.write(text);
            self.tail.push_str(text);
            if self.tail.len() > TAIL_BYTES {
                self.tail = last_chars(&self.tail, TAIL_CHARS).to_owned();
            }
            return;
        }
        self.head.push_str(text);
        if self.chars > SHELL_CHARS as u64 {
            let mut file = KeptFile::create(&self.store, &self.tool);
            file.write(&self.head);
            let head = first_chars(&self.head, head_chars(SHELL_CHARS)).len();
            self.tail = self.head.split_off(head);
            self.file = Some(file);
        }
    }
}

/// The file for the whole output, or the reason why there is none.
enum KeptFile {
    Open { path: PathBuf, file: BufWriter<File>, written: u64 },
    Full(PathBuf),
    Failed(String),
}

impl KeptFile {
    fn create(store: &OutputStore, tool: &str) -> KeptFile {
        match store.create(tool) {
            Ok((path, file)) => KeptFile::Open { path, file: BufWriter::new(file), written: 0 },
            Err(error) => KeptFile::Failed(error.to_string()),
        }
    }

    /// Writes to the page cache: short enough to be done where the output is read.
    fn write(&mut self, text: &str) {
        let KeptFile::Open { path, file, written } = self else { return };
        if *written + text.len() as u64 > MAX_FILE {
            let flushed = file.flush();
            *self = match flushed {
                Ok(()) => KeptFile::Full(path.clone()),
                Err(error) => failed(path, &error),
            };
            return;
        }
        *written += text.len() as u64;
        if let Err(error) = file.write_all(text.as_bytes()) {
            *self = failed(path, &error);
        }
    }

    fn finish(mut self) -> Kept {
        if let KeptFile::Open { path, file, .. } = &mut self
            && let Err(error) = file.flush()
        {
            self = failed(path, &error);
        }
        match self {
            KeptFile::Open { path, .. } => Kept::In(path),
            KeptFile::Full(path) => Kept::PartlyIn(path),
            KeptFile::Failed(why) => Kept::Nowhere(why),
        }
    }
}

/// A file with a hole in it would be worse than none.
fn failed(path: &PathBuf, error: &std::io::Error) -> KeptFile {
    let _ = fs::remove_file(path);
    KeptFile::Failed(error.to_string())
}
