//! `read_file`: lines of a text file, or an image.
//!
//! The file is streamed: however large it is, only what the model gets to see is held in memory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tenon_core::{Args, Cancel, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec};

use crate::Workspace;
use crate::args::{ArgReader, Refusal};
use crate::blocking::Cancellable;
use crate::file_tool::{FileTool, Work};
use crate::media;
use crate::nearest::nearest;
use crate::output::GENERIC;
use crate::workspace::{CHUNK, FingerprintHasher};

/// A zero byte in the first few kilobytes makes a file binary, as it does for grep.
const SNIFFED: usize = 8 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";
/// A character takes at most this many bytes.
const BYTES_PER_CHAR: usize = 4;

pub(crate) fn tool(workspace: Arc<Workspace>) -> FileTool {
    let description = format!(
        "Reads a text file, or an image (PNG, JPEG, GIF, WebP). Shows at most {} lines or {} characters; use `offset` and `limit` for the rest. \
         A file must have been read before it can be changed with edit or write_file.",
        GENERIC.lines, GENERIC.chars
    );
    let parameters = json!({
        "type": "object",
        "properties": {
            "file_path": { "type": "string", "description": "Absolute path of the file." },
            "offset": { "type": "integer", "minimum": 0, "description": "First line to show, counted from 0." },
            "limit": { "type": "integer", "minimum": 1, "description": "How many lines to show." }
        },
        "required": ["file_path"]
    });
    let spec = ToolSpec { name: "read_file".to_owned(), description, parameters, kind: ToolKind::Read };
    FileTool { spec: Arc::new(spec), workspace, work: Work::Read(read) }
}

fn read(
    spec: &ToolSpec,
    workspace: &Workspace,
    args: &Args,
    cancel: &Cancel,
) -> Result<ToolOutcome, Refusal> {
    let args = ArgReader::new(spec, args);
    let given = args.filled_text("file_path")?;
    let offset = args.optional_count("offset")?.unwrap_or(0);
    let limit = args.optional_count("limit")?.unwrap_or(u64::MAX);
    if limit == 0 {
        return Err(Refusal::arguments("`limit` must be at least 1."));
    }
    show(workspace, given, offset, limit, cancel)
}

/// At most `limit` lines from `offset` on.
pub(crate) fn show(
    workspace: &Workspace,
    given: &str,
    offset: u64,
    limit: u64,
    cancel: &Cancel,
) -> Result<ToolOutcome, Refusal> {
    let path = workspace.resolve_readable(given)?;
    let file = open(workspace, given, &path)?;
    let mut lines = Lines::new(offset, limit.min(GENERIC.lines as u64));
    let mut hash = FingerprintHasher::default();
    let mut source = BufReader::with_capacity(CHUNK, Cancellable { inner: file, cancel });
    let mut first = true;
    loop {
        let chunk = source.fill_buf().map_err(|error| unreadable(given, &error))?;
        if chunk.is_empty() {
            break;
        }
        hash.update(chunk);
        let mut text = chunk;
        if first {
            if media::image_type(chunk).is_some() {
                return image(given, source);
            }
            refuse_binary(given, chunk)?;
            text = chunk.strip_prefix(BOM).unwrap_or(chunk);
            first = false;
        }
        lines.push(text);
        let length = chunk.len();
        source.consume(length);
    }
    let shown = lines.finish();
    if shown.total > 0 && offset >= shown.total {
        return Err(Refusal::failed(format!(
            "`{given}` has {} lines, so there is none at offset {offset}.",
            shown.total
        )));
    }
    let seen = workspace.remember(&path, hash.finish());
    Ok(ToolOutcome::ok(shown.text()).having_seen(seen))
}

/// An image, whole or not at all.
fn image(given: &str, source: impl Read) -> Result<ToolOutcome, Refusal> {
    let mut bytes = Vec::new();
    source
        .take(media::MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(given, &error))?;
    let image = media::from_bytes("", &bytes)
        .map_err(|why| Refusal::failed(format!("`{given}` is an image that cannot be shown: {why}.")))?;
    let content = format!("`{given}`: {}", image.described());
    Ok(ToolOutcome { media: vec![image], ..ToolOutcome::ok(content) })
}

/// Opens a plain file and nothing else. Opening a pipe or a device could wait forever, so the open itself
/// must not wait, and the look at what it is comes after it.
fn open(workspace: &Workspace, given: &str, path: &Path) -> Result<File, Refusal> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Refusal::failed(missing(workspace, given, path)));
        }
        Err(error) => return Err(unreadable(given, &error)),
    };
    let meta = file.metadata().map_err(|error| unreadable(given, &error))?;
    if meta.is_dir() {
        return Err(Refusal::failed(format!("`{given}` is a folder; list_directory shows what is in it.")));
    }
    if !meta.is_file() {
        return Err(Refusal::failed(format!("`{given}` is not a plain file (a pipe, socket or device).")));
    }
    Ok(file)
}

pub(crate) fn missing(workspace: &Workspace, given: &str, path: &Path) -> String {
    let names: Vec<String> = path
        .parent()
        .and_then(|folder| fs::read_dir(folder).ok())
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| !workspace.is_hidden(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let wanted = path.file_name().unwrap_or_default().to_string_lossy();
    match nearest(&wanted, names.iter().map(String::as_str)) {
        Some(name) => {
            format!(
                "There is no file `{given}`; did you mean `{}`?",
                workspace.show(&path.with_file_name(name))
            )
        }
        None => format!("There is no file `{given}`."),
    }
}

fn unreadable(given: &str, error: &io::Error) -> Refusal {
    Refusal::failed(format!("`{given}` cannot be read: {error}."))
}

fn refuse_binary(given: &str, start: &[u8]) -> Result<(), Refusal> {
    let refuse = |what: &str| Err(Refusal::new(ToolErrorKind::Failed, format!("`{given}` is {what}.")));
    if start.starts_with(b"%PDF-") {
        return refuse("a PDF document, and those cannot be shown yet");
    }
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return refuse("text in UTF-16, and only UTF-8 can be shown; `iconv` can convert it");
    }
    if start[..start.len().min(SNIFFED)].contains(&0) {
        return refuse("a binary file, and only text and images can be shown");
    }
    Ok(())
}

/// Picks the wanted lines out of a stream of chunks, within the caps.
struct Lines {
    offset: u64,
    limit: u64,
    /// Lines that have ended so far.
    ended: u64,
    /// Bytes of the current line are pending.
    open: bool,
    line: Vec<u8>,
    /// The current line is longer than could be shown.
    line_is_cut: bool,
    shown: Vec<String>,
    chars: usize,
    full: bool,
}

struct Shown {
    lines: Vec<String>,
    offset: u64,
    total: u64,
    ends_with_newline: bool,
    line_is_cut: bool,
}

impl Lines {
    fn new(offset: u64, limit: u64) -> Lines {
        Lines {
            offset,
            limit,
            ended: 0,
            open: false,
            line: Vec::new(),
            line_is_cut: false,
            shown: Vec::new(),
            chars: 0,
            full: false,
        }
    }

    fn push(&mut self, mut chunk: &[u8]) {
        while let Some(at) = chunk.iter().position(|byte| *byte == b'\n') {
            self.extend(&chunk[..at]);
            self.end_line();
            chunk = &chunk[at + 1..];
            self.open = false;
        }
        if !chunk.is_empty() {
            self.extend(chunk);
            self.open = true;
        }
    }

    fn is_wanted(&self) -> bool {
        !self.full && self.ended >= self.offset && (self.shown.len() as u64) < self.limit
    }

    fn extend(&mut self, bytes: &[u8]) {
        if !self.is_wanted() {
            return;
        }
        let room = ((GENERIC.chars + 1) * BYTES_PER_CHAR).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self) {
        if self.is_wanted() {
            let bytes = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
            let line = String::from_utf8_lossy(bytes).into_owned();
            let length = line.chars().count();
            if self.chars + length <= GENERIC.chars {
                self.chars += length + 1;
                self.shown.push(line);
            } else {
                // A line that is too long for the whole answer is cut; otherwise it is left for the next call.
                if self.shown.is_empty() {
                    self.shown.push(crate::output::first_chars(&line, GENERIC.chars).to_owned());
                    self.line_is_cut = true;
                }
                self.full = true;
            }
            self.line.clear();
        }
        self.ended += 1;
    }

    fn finish(mut self) -> Shown {
        let ends_with_newline = !self.open;
        if self.open {
            self.end_line();
        }
        Shown {
            lines: self.shown,
            offset: self.offset,
            total: self.ended,
            ends_with_newline,
            line_is_cut: self.line_is_cut,
        }
    }
}

impl Shown {
    fn text(self) -> String {
        if self.total == 0 {
            return "The file is empty.".to_owned();
        }
        let end = self.offset + self.lines.len() as u64;
        let mut text = self.lines.join("\n");
        if self.line_is_cut {
            text.push_str(&format!(
                "\n\n[line {end} is longer than {} characters and was cut; grep_search or run_shell_command can look into it]",
                GENERIC.chars
            ));
        } else if end < self.total || self.ends_with_newline {
            text.push('\n');
        }
        if self.offset == 0 && end == self.total {
            return text;
        }
        format!("Showing lines {}-{end} of {} total lines.\n\n---\n\n{text}", self.offset + 1, self.total)
    }
}
