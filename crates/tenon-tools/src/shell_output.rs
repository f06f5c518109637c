//! The output of a command while it comes: as text in a file once there is much of it or it has to outlive
//! the call, and as what the model gets to read.
//!
//! The same object goes on when a command goes to the background, so nothing can get lost or out of order
//! on the way. Who reads the pipes is in `shell_run.rs`.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use encoding_rs::Encoding;
use tenon_core::{AnsiStripper, HidingStream};

use crate::OutputStore;
use crate::decode::Decoder;
use crate::line_view::LineView;
use crate::output::{Kept, Parts, SHELL_CHARS, cut_notice, first_chars, head_chars, last_chars};

/// A command that prints without end must not fill the disk.
const MAX_FILE: u64 = 2 * 1024 * 1024 * 1024;
const TAIL_CHARS: usize = SHELL_CHARS - SHELL_CHARS / 5;
/// The end is trimmed when it has grown to this many bytes, so that trimming stays rare.
const TAIL_BYTES: usize = TAIL_CHARS * 8;

/// Where a piece of output comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
    /// Both at once, as a terminal gets them.
    Terminal,
}

/// Takes what a command writes.
pub(crate) trait TakesOutput: Send {
    fn take(&mut self, stream: Stream, bytes: &[u8]);
}

/// Text out of the bytes of one stream: decoded, without terminal sequences.
pub(crate) struct StreamText {
    decode: Decoder,
    strip: AnsiStripper,
    /// A carriage return that may be the terminal's own, written before every end of line.
    held_return: bool,
}

impl StreamText {
    pub fn new(locale: Option<&'static Encoding>) -> StreamText {
        StreamText { decode: Decoder::new(locale), strip: AnsiStripper::default(), held_return: false }
    }

    pub fn push(&mut self, stream: Stream, bytes: &[u8]) -> String {
        let mut decoded = String::with_capacity(bytes.len());
        match stream {
            Stream::Stdout | Stream::Stderr => self.decode.push(bytes, &mut decoded),
            Stream::Terminal => {
                let bytes = self.without_terminal_returns(bytes);
                self.decode.push(&bytes, &mut decoded);
            }
        }
        self.stripped(&decoded)
    }

    /// What is left when the stream is over.
    pub fn finish(&mut self) -> String {
        let mut decoded = String::new();
        if std::mem::take(&mut self.held_return) {
            self.decode.push(b"\r", &mut decoded);
        }
        self.decode.finish(&mut decoded);
        self.stripped(&decoded)
    }

    fn stripped(&mut self, decoded: &str) -> String {
        let mut text = String::with_capacity(decoded.len());
        self.strip.push(decoded, &mut text);
        text
    }

    fn without_terminal_returns(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::with_capacity(bytes.len() + 1);
        for byte in bytes {
            if std::mem::take(&mut self.held_return) && *byte != b'\n' {
                plain.push(b'\r');
            }
            match byte {
                b'\r' => self.held_return = true,
                byte => plain.push(*byte),
            }
        }
        plain
    }
}

pub(crate) struct Capture {
    store: OutputStore,
    tool: &'static str,
    stdout: StreamText,
    stderr: StreamText,
    view: View,
    whole: Whole,
    /// Lines that ended, and bytes as the command wrote them.
    pub lines: u64,
    pub bytes: u64,
}

/// A command's output when there is no more to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// What the model gets to read, within the cap.
    pub shown: String,
    /// Its last lines, within `chars`.
    tail: String,
    /// What could not be kept in the file the model was promised.
    pub lost: Option<Lost>,
}

impl Output {
    pub fn tail(&self, chars: usize) -> &str {
        last_chars(&self.tail, chars)
    }
}

/// Output that did not make it to its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub why: String,
    pub chunks: u64,
    pub bytes: u64,
}

impl Capture {
    pub fn new(store: OutputStore, tool: &'static str, locale: Option<&'static Encoding>) -> Capture {
        Capture {
            store,
            tool,
            stdout: StreamText::new(locale),
            stderr: StreamText::new(locale),
            view: View::default(),
            whole: Whole::Held(String::new()),
            lines: 0,
            bytes: 0,
        }
    }

    /// From here on everything goes to a file, from the first byte: where it is, or why there is none. A
    /// file that could not be made is not tried again.
    pub fn keep_in_file(&mut self) -> Result<PathBuf, String> {
        if let Whole::Held(text) = &mut self.whole {
            let text = std::mem::take(text);
            self.whole = Whole::create(&self.store, self.tool);
            self.whole.write(&text);
        }
        match &self.whole {
            Whole::Open { path, .. } | Whole::Full { path, .. } => Ok(path.clone()),
            Whole::Failed { lost, .. } => Err(lost.why.clone()),
            Whole::Held(_) => Err(String::new()),
        }
    }

    /// What the model would read of the output so far.
    pub fn so_far(&self) -> String {
        let (shown, parts) = self.view.parts();
        parts.map_or(shown, |parts| format!("{}\n\n[…]\n\n{}", parts.head, parts.tail))
    }

    /// The end of a command that was waited for: all of its output, or the beginning and the end with a word
    /// on the rest. A file that nobody needs is taken away.
    pub fn finish(mut self) -> String {
        self.flush();
        let (shown, parts) = self.view.parts();
        match parts {
            None => {
                self.whole.discard();
                shown
            }
            Some(parts) => cut_notice(&self.whole.finish(), &parts),
        }
    }

    /// The end of a command in the background: its file is closed and stays.
    pub fn close(mut self) -> Output {
        self.flush();
        let shown = self.so_far();
        let (all, parts) = self.view.parts();
        let tail = parts.map_or(all, |parts| parts.tail);
        Output { shown, tail, lost: self.whole.close() }
    }

    fn flush(&mut self) {
        for text in [self.stdout.finish(), self.stderr.finish()] {
            self.add(&text);
        }
    }

    fn add(&mut self, text: &str) {
        self.whole.write(text);
        self.view.push(text);
        if let Whole::Held(held) = &self.whole
            && held.len() > SHELL_CHARS
            && held.chars().count() > SHELL_CHARS
        {
            // Why there is no file is known to it; the model hears of that at the end.
            let _ = self.keep_in_file();
        }
    }
}

impl TakesOutput for Capture {
    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let text = match stream {
            Stream::Stdout | Stream::Terminal => self.stdout.push(stream, bytes),
            Stream::Stderr => self.stderr.push(stream, bytes),
        };
        self.lines += text.matches('\n').count() as u64;
        self.add(&text);
    }
}

/// The beginning and the end of what a person would see.
#[derive(Default)]
struct View {
    lines: LineView,
    /// Everything, while that is little; then the beginning.
    head: String,
    tail: Option<String>,
    chars: u64,
}

impl View {
    fn push(&mut self, text: &str) {
        let mut settled = String::with_capacity(text.len());
        self.lines.push(text, &mut settled);
        self.chars += settled.chars().count() as u64;
        match &mut self.tail {
            None => {
                self.head.push_str(&settled);
                if self.chars > SHELL_CHARS as u64 {
                    let at = first_chars(&self.head, head_chars(SHELL_CHARS)).len();
                    self.tail = Some(self.head.split_off(at));
                }
            }
            Some(tail) => {
                tail.push_str(&settled);
                if tail.len() > TAIL_BYTES {
                    *tail = last_chars(tail, TAIL_CHARS).to_owned();
                }
            }
        }
    }

    /// All of it, or (if it is too large) its parts.
    fn parts(&self) -> (String, Option<Parts>) {
        let line = self.lines.line();
        let chars = self.chars + line.chars().count() as u64;
        let mut all = self.head.clone();
        all.extend(self.tail.as_deref());
        all.push_str(line);
        if chars <= SHELL_CHARS as u64 {
            return (all, None);
        }
        let head = first_chars(&all, head_chars(SHELL_CHARS)).to_owned();
        let tail = last_chars(&all[head.len()..], TAIL_CHARS).to_owned();
        let shown = (head.chars().count() + tail.chars().count()) as u64;
        (String::new(), Some(Parts { head, tail, chars_cut: chars - shown }))
    }
}

/// The whole output.
enum Whole {
    /// In memory, while that is little.
    Held(String),
    Open {
        path: PathBuf,
        file: File,
        written: u64,
        hiding: HidingStream,
    },
    /// The file reached its limit.
    Full {
        path: PathBuf,
        lost: Lost,
    },
    /// There is no file, or it ends before the output does.
    Failed {
        path: Option<PathBuf>,
        lost: Lost,
    },
}

impl Whole {
    fn create(store: &OutputStore, tool: &str) -> Whole {
        match store.create(tool) {
            Ok((path, file)) => Whole::Open { path, file, written: 0, hiding: store.hiding() },
            Err(error) => Whole::failed(None, error.to_string()),
        }
    }

    fn failed(path: Option<PathBuf>, why: String) -> Whole {
        tracing::warn!(why, "a command's output cannot be kept");
        Whole::Failed { path, lost: Lost { why, chunks: 0, bytes: 0 } }
    }

    /// Unbuffered, so that whoever reads the file while the command runs sees all of it; into the page cache,
    /// which is short enough to be done where the output is read.
    fn write(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self {
            Whole::Held(held) => held.push_str(text),
            Whole::Full { lost, .. } | Whole::Failed { lost, .. } => {
                lost.chunks += 1;
                lost.bytes += text.len() as u64;
            }
            Whole::Open { path, file, written, hiding } if *written + text.len() as u64 <= MAX_FILE => {
                match file.write_all(hiding.push(text).as_bytes()) {
                    Ok(()) => *written += text.len() as u64,
                    Err(error) => {
                        *self = Whole::failed(Some(std::mem::take(path)), error.to_string());
                        self.write(text);
                    }
                }
            }
            Whole::Open { path, .. } => {
                let why = format!("it has reached {} GiB", MAX_FILE >> 30);
                *self = Whole::Full { path: std::mem::take(path), lost: Lost { why, chunks: 0, bytes: 0 } };
                self.write(text);
            }
        }
    }

    /// Nothing more will come: what looked like the beginning of a key was none.
    fn end(&mut self) {
        let Whole::Open { path, file, hiding, .. } = self else { return };
        let rest = hiding.finish();
        if let Err(error) = file.write_all(rest.as_bytes()) {
            *self = Whole::failed(Some(std::mem::take(path)), error.to_string());
            self.write(&rest);
        }
    }

    /// A file with a hole in it would be worse than none.
    fn finish(mut self) -> Kept {
        self.end();
        match self {
            Whole::Open { path, .. } => Kept::In(path),
            Whole::Full { path, .. } => Kept::PartlyIn(path),
            Whole::Failed { path, lost } => {
                path.into_iter().for_each(|path| drop(fs::remove_file(path)));
                Kept::Nowhere(lost.why)
            }
            // Cut means larger than what is held.
            Whole::Held(_) => Kept::Nowhere(String::new()),
        }
    }

    fn discard(self) {
        if let Whole::Open { path, .. } | Whole::Full { path, .. } | Whole::Failed { path: Some(path), .. } =
            self
        {
            let _ = fs::remove_file(path);
        }
    }

    fn close(mut self) -> Option<Lost> {
        self.end();
        match self {
            Whole::Held(_) | Whole::Open { .. } => None,
            Whole::Full { lost, .. } | Whole::Failed { lost, .. } => {
                tracing::warn!(why = lost.why, chunks = lost.chunks, bytes = lost.bytes, "output was lost");
                Some(lost).filter(|lost| lost.chunks > 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            any::<Vec<u8>>(),
            "[a-zü€\r\n\u{8}]{0,200}".prop_map(String::into_bytes),
            Just(b"\x1b[31mred\x1b[0m \x1b]0;title\x07".to_vec()),
            Just("x".repeat(20_000).into_bytes()),
        ]
    }

    /// The same pieces, some of them cut in two.
    fn cut(pieces: &[(bool, Vec<u8>)], at: &[usize]) -> Vec<(Stream, Vec<u8>)> {
        let mut cuts = at.iter().cycle();
        let mut out = Vec::new();
        for (to_stderr, piece) in pieces {
            let stream = if *to_stderr { Stream::Stderr } else { Stream::Stdout };
            let (first, second) = piece.split_at(cuts.next().map_or(0, |at| at % (piece.len() + 1)));
            out.push((stream, first.to_vec()));
            out.push((stream, second.to_vec()));
        }
        out
    }

    /// What the model reads and what is in the file; the file is asked for before piece `moment`.
    fn captured(pieces: &[(Stream, Vec<u8>)], moment: usize) -> (String, String) {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(OutputStore::at(folder.path().join("outputs")), "x", None);
        let mut file = None;
        for (at, (stream, bytes)) in pieces.iter().enumerate() {
            if at == moment {
                file = Some(capture.keep_in_file().unwrap());
            }
            capture.take(*stream, bytes);
        }
        let file = file.unwrap_or_else(|| capture.keep_in_file().unwrap());
        let output = capture.close();
        assert_eq!(output.lost, None);
        (output.shown, fs::read_to_string(file).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(64)))]

        #[test]
        fn neither_cuts_nor_the_moment_of_the_file_matter(
            pieces in prop::collection::vec((any::<bool>(), bytes()), 0..8),
            cuts in prop::collection::vec(any::<usize>(), 1..5),
            moments in (0_usize..18, 0_usize..18),
        ) {
            let once = captured(&cut(&pieces, &[0]), moments.0);
            let twice = captured(&cut(&pieces, &cuts), moments.1);
            prop_assert_eq!(once, twice);
        }
    }

    #[test]
    fn a_progress_bar_needs_no_file_and_shows_its_last_state() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(OutputStore::at(folder.path().join("outputs")), "x", None);
        (0..=10_000).for_each(|n| capture.take(Stream::Stdout, format!("\r{n} of 10000").as_bytes()));
        assert_eq!(capture.so_far(), "10000 of 10000");
        assert_eq!(capture.finish(), "10000 of 10000");
        assert_eq!(fs::read_dir(folder.path().join("outputs")).unwrap().count(), 0);
    }
}
