//! `grep_search`: lines of files that match a regular expression.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use globset::GlobSet;
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::WalkState;
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
    let found = Found::new(limit);
    walk::walker(&place, Ignored::Skipped).build_parallel().run(|| {
        let mut searcher = searcher();
        let (found, matcher, names, place) = (&found, &matcher, &names, &place);
        Box::new(move |entry| {
            let Ok(entry) = entry else { return WalkState::Continue };
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            let path = entry.path();
            if found.is_behind_the_last(path) {
                return WalkState::Skip;
            }
            let relative = walk::below(place, path);
            if !entry.file_type().is_some_and(|kind| kind.is_file())
                || workspace.is_hidden(path)
                || names.as_ref().is_some_and(|names| !names.matches(relative, path))
            {
                return WalkState::Continue;
            }
            let Ok(file) = File::open(path) else { return WalkState::Continue };
            let mut sink = LineSink {
                hits: Hits::default(),
                limit,
                matcher,
                path,
                workspace,
                name: None,
                binary: false,
            };
            // A file that cannot be read to its end shows what was found until then.
            let _ = searcher.search_reader(matcher, Cancellable { inner: file, cancel }, &mut sink);
            if !sink.binary && !sink.hits.lines.is_empty() {
                found.add(path, sink.hits);
            }
            WalkState::Continue
        })
    });
    Ok(ToolOutcome::ok(found.text(pattern, &workspace.show(&place))))
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .line_terminator(LineTerminator::crlf())
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_BYTES))
        .build()
}

/// `*.rs` is about names, `src/**` about paths.
struct NameFilter {
    pattern: GlobSet,
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

/// The matching lines so far. Files are searched side by side and shown in the order of their paths, so
/// that two searches of the same files give the same answer.
struct Found {
    limit: u64,
    files: Mutex<Files>,
    /// Set once the caps are reached: then only files before the last one matter.
    is_full: AtomicBool,
}

#[derive(Default)]
struct Files {
    by_path: BTreeMap<PathBuf, Hits>,
    sum: Size,
}

/// The matching lines of one file, as many as can be shown at all.
#[derive(Default)]
struct Hits {
    lines: Vec<String>,
    size: Size,
}

#[derive(Clone, Copy, Default)]
struct Size {
    lines: u64,
    chars: usize,
}

impl Size {
    /// Whether nothing more fits.
    fn is_full(self, limit: u64) -> bool {
        self.lines >= limit.min(GENERIC.lines as u64) || self.chars >= GENERIC.chars
    }

    fn plus(self, line: &str) -> Size {
        Size { lines: self.lines + 1, chars: self.chars + line.chars().count() + 1 }
    }

    fn fits(self, limit: u64) -> bool {
        self.lines <= limit.min(GENERIC.lines as u64) && self.chars <= GENERIC.chars
    }
}

impl Found {
    fn new(limit: u64) -> Found {
        Found { limit, files: Mutex::default(), is_full: AtomicBool::new(false) }
    }

    fn add(&self, path: &Path, hits: Hits) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.sum.lines += hits.size.lines;
        files.sum.chars += hits.size.chars;
        files.by_path.insert(path.to_owned(), hits);
        // The last file goes when those before it fill the answer, and one more line.
        while let Some(last) = files.by_path.last_entry() {
            let size = last.get().size;
            let rest = Size { lines: files.sum.lines - size.lines, chars: files.sum.chars - size.chars };
            if !rest.is_full(self.limit.saturating_add(1)) {
                break;
            }
            files.by_path.pop_last();
            files.sum = rest;
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    /// Whether nothing at or below this path would be shown.
    fn is_behind_the_last(&self, path: &Path) -> bool {
        self.is_full.load(Ordering::Relaxed) && {
            let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.by_path.last_key_value().is_some_and(|(last, _)| path > last.as_path())
        }
    }

    fn text(&self, pattern: &str, place: &str) -> String {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut size = Size::default();
        let mut text = String::new();
        let mut is_cut = self.is_full.load(Ordering::Relaxed);
        for line in files.by_path.values().flat_map(|hits| &hits.lines) {
            let next = size.plus(line);
            if !next.fits(self.limit) {
                is_cut = true;
                break;
            }
            size = next;
            text.push_str(line);
            text.push('\n');
        }
        let count = size.lines;
        if count == 0 {
            return format!("No matches for `{pattern}` in `{place}`.");
        }
        let lines = if count == 1 { "line matches" } else { "lines match" };
        let more = if is_cut { "The first " } else { "" };
        let rest =
            if is_cut { "[there are more; a narrower pattern, `glob` or `path` shows them]\n" } else { "" };
        format!("{more}{count} {lines} `{pattern}` in `{place}`:\n{text}{rest}")
    }
}

struct LineSink<'a> {
    hits: Hits,
    limit: u64,
    matcher: &'a RegexMatcher,
    path: &'a Path,
    workspace: &'a Workspace,
    /// As it is shown, once there is something to show.
    name: Option<String>,
    binary: bool,
}

impl Sink for LineSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let bytes = matched.bytes().strip_suffix(b"\n").unwrap_or(matched.bytes());
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let start = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
        let number = matched.line_number().unwrap_or_default();
        let name = self.name.get_or_insert_with(|| self.workspace.show(self.path));
        let line = format!("{name}:{number}:{}", excerpt(bytes, start));
        self.hits.size = self.hits.size.plus(&line);
        self.hits.lines.push(line);
        // One line more than is shown, so that it is known that there is one.
        Ok(self.hits.size.fits(self.limit))
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
