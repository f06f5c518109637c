//! `grep_search`: lines of files that match a regular expression.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use globset::GlobMatcher;
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use serde_json::json;
use tenon_core::{Args, Cancel, ToolKind, ToolOutcome, ToolSpec};

use crate::Workspace;
use crate::args::{ArgReader, Refusal};
use crate::blocking::Cancellable;
use crate::file_tool::{FileTool, Work};
use crate::output::{GENERIC, first_chars};
use crate::walk::{self, Ignored};

/// Longer lines are shown in part: generated files have lines of megabytes.
const MAX_LINE: usize = 500;
/// How much of a cut line stands before the match.
const BEFORE_MATCH: usize = 100;
/// A single line must not fill the memory: files with longer ones are skipped as if binary.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

pub(crate) fn tool(workspace: Arc<Workspace>) -> FileTool {
    let spec = ToolSpec {
        name: "grep_search".to_owned(),
        description:
            "Searches file contents with a regular expression (`(?i)` ignores case) and lists matching \
                      lines as `file:line:text`. Ignored and binary files are left out."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "description": "The regular expression, matched line by line." },
                "glob": { "type": "string", "description": "Only files that match, such as `*.rs` or `src/**/*.{ts,tsx}`." },
                "path": { "type": "string", "description": "Absolute path of the file or folder to search. Default: the working folder." },
                "limit": { "type": "integer", "minimum": 1, "description": "At most this many lines." }
            },
            "required": ["pattern"]
        }),
        kind: ToolKind::Read,
    };
    FileTool { spec: Arc::new(spec), workspace, work: Work::Read(search) }
}

fn search(
    spec: &ToolSpec,
    workspace: &Workspace,
    args: &Args,
    cancel: &Cancel,
) -> Result<ToolOutcome, Refusal> {
    let args = ArgReader::new(spec, args);
    let pattern = args.text("pattern")?;
    if pattern.is_empty() {
        return Err(Refusal::arguments("`pattern` must not be empty."));
    }
    let names = args.optional_text("glob")?.map(NameFilter::new).transpose()?;
    let limit = args.optional_count("limit")?.unwrap_or(u64::MAX);
    if limit == 0 {
        return Err(Refusal::arguments("`limit` must be at least 1."));
    }
    let matcher = RegexMatcherBuilder::new()
        // `^` and `$` are about lines, whichever way these end.
        .multi_line(true)
        .crlf(true)
        .build(pattern)
        .map_err(|error| Refusal::arguments(format!("`{pattern}` is not a regular expression: {error}.")))?;
    let place = walk::start(workspace, &args)?;
    let mut found = Found::new(limit);
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .line_terminator(LineTerminator::crlf())
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_BYTES))
        .build();
    // In the order of paths: two searches of the same files give the same answer.
    for entry in walk::walker(&place, Ignored::Skipped).sort_by_file_path(Path::cmp).build().flatten() {
        if cancel.is_cancelled() || found.full {
            break;
        }
        let path = entry.path();
        let relative = path.strip_prefix(&place).unwrap_or(path);
        if !entry.file_type().is_some_and(|kind| kind.is_file())
            || workspace.is_hidden(path)
            || names.as_ref().is_some_and(|names| !names.matches(relative, path))
        {
            continue;
        }
        let Ok(file) = File::open(path) else { continue };
        let before = found.lines.len();
        let sink =
            LineSink { found: &mut found, matcher: &matcher, name: workspace.show(path), binary: false };
        // A file that cannot be read to its end shows what was found until then.
        let binary = search_file(&mut searcher, file, cancel, sink);
        if binary {
            found.forget_after(before);
        }
    }
    Ok(ToolOutcome::ok(found.text(pattern, &workspace.show(&place))))
}

/// True if the file turned out to be binary.
fn search_file(searcher: &mut Searcher, file: File, cancel: &Cancel, mut sink: LineSink<'_>) -> bool {
    let source = Cancellable { inner: file, cancel };
    let matcher = sink.matcher;
    let _ = searcher.search_reader(matcher, source, &mut sink);
    sink.binary
}

/// `*.rs` is about names, `src/**` about paths.
struct NameFilter {
    pattern: GlobMatcher,
    whole_path: bool,
}

impl NameFilter {
    fn new(text: &str) -> Result<NameFilter, Refusal> {
        let text = text.trim_start_matches("./").trim_start_matches('/');
        Ok(NameFilter { pattern: walk::pattern(text)?, whole_path: text.contains('/') })
    }

    fn matches(&self, relative: &Path, path: &Path) -> bool {
        if self.whole_path {
            self.pattern.is_match(relative)
        } else {
            path.file_name().is_some_and(|name| self.pattern.is_match(name))
        }
    }
}

/// The matching lines so far, within the caps.
struct Found {
    limit: u64,
    lines: Vec<String>,
    chars: usize,
    /// No more lines fit; there was at least one more.
    full: bool,
}

impl Found {
    fn new(limit: u64) -> Found {
        Found { limit, lines: Vec::new(), chars: 0, full: false }
    }

    fn add(&mut self, line: String) {
        let length = line.chars().count() + 1;
        let fits = (self.lines.len() as u64) < self.limit
            && self.lines.len() < GENERIC.lines
            && self.chars + length <= GENERIC.chars;
        if fits {
            self.chars += length;
            self.lines.push(line);
        } else {
            self.full = true;
        }
    }

    fn forget_after(&mut self, count: usize) {
        self.chars -= self.lines.drain(count..).map(|line| line.chars().count() + 1).sum::<usize>();
        self.full = false;
    }

    fn text(&self, pattern: &str, place: &str) -> String {
        let count = self.lines.len();
        if count == 0 {
            return format!("No matches for `{pattern}` in `{place}`.");
        }
        let lines = if count == 1 { "line matches" } else { "lines match" };
        let more = if self.full { "The first " } else { "" };
        let mut text =
            format!("{more}{count} {lines} `{pattern}` in `{place}`:\n{}\n", self.lines.join("\n"));
        if self.full {
            text.push_str("[there are more; a narrower pattern, `glob` or `path` shows them]\n");
        }
        text
    }
}

struct LineSink<'a> {
    found: &'a mut Found,
    matcher: &'a RegexMatcher,
    name: String,
    binary: bool,
}

impl Sink for LineSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let bytes = matched.bytes().strip_suffix(b"\n").unwrap_or(matched.bytes());
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let start = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
        let number = matched.line_number().unwrap_or_default();
        self.found.add(format!("{}:{number}:{}", self.name, excerpt(bytes, start)));
        Ok(!self.found.full)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}

/// The line, or the part of a long one around its match.
fn excerpt(line: &[u8], match_start: usize) -> String {
    if line.len() <= MAX_LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let from = if match_start + BEFORE_MATCH < MAX_LINE { 0 } else { match_start - BEFORE_MATCH };
    let from = (from..line.len()).find(|at| !is_continuation(line[*at])).unwrap_or(from);
    let text = String::from_utf8_lossy(&line[from..line.len().min(from + MAX_LINE * 4)]).into_owned();
    let shown = first_chars(&text, MAX_LINE);
    let before = if from > 0 { "…" } else { "" };
    let after = if from + shown.len() < line.len() { "…" } else { "" };
    format!("{before}{shown}{after}")
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}
