//! Takes a session up again: repairs what a crash left, closes calls without a result, and goes on writing.
//!
//! Nothing that was written whole is lost, and nothing is carried out again: a call that had begun is closed
//! with an honest word. Which lines are read is decided in `scan.rs`, what they tell in `story.rs`, what the
//! model is shown of it in `shown_history.rs`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_agent::tell;
use tenon_core::{Id, LeftBehind, Message};

use crate::lock::{Refused, Writer};
use crate::record::{COMPLETE, Head, closing_line, notice_line};
use crate::scan::LastLine;
use crate::session_file::{Entry, Open, Recorder, SessionFile, create_new, mark};
use crate::shown_history::shown;
use crate::story::Story;
use crate::{Place, SessionError};

/// Who is asked from now on.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub provider: &'a str,
    pub model: &'a str,
}

/// A session as it stands.
#[derive(Debug)]
pub struct Resumed {
    /// `None` where the first record is lost.
    pub head: Option<Head>,
    /// The conversation, in a form that every provider takes.
    pub history: Vec<Message>,
    /// What the person should know: half-written and broken lines, calls that were interrupted.
    pub warnings: Vec<String>,
    /// What the conversation knows of files and tools, for [`tenon_tools::Registry::recall`].
    pub known: LeftBehind,
}

/// Takes up a session, to be written further under its own id. `head` is for a file whose first record is
/// lost.
pub fn open(
    place: &Place,
    head: &Head,
    asked: Asked<'_>,
    recorder: Recorder,
) -> Result<(SessionFile, Resumed), SessionError> {
    let id = head.id;
    let path = place.session_file(id);
    let file = match OpenOptions::new().read(true).append(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(SessionError::Missing { id }),
        // It can be read at least, and the run can do without a recording.
        Err(error) => return Ok((not_recorded(path, error), read(place, id, asked)?)),
    };
    let writer = Writer::take(&file, &path).map_err(|refused| match refused {
        Refused::InUse(pid) => SessionError::InUse { id, pid },
        Refused::Gone => SessionError::Missing { id },
    })?;
    let story = Story::read(&file, &path, id, asked)?;
    let mut open = Open {
        _writer: writer,
        file: Arc::new(file),
        path: path.clone(),
        end: story.scan.end,
        last: story.last.clone(),
        entry: Entry::Synced,
        mirror: recorder.mirror.clone(),
    };
    let mut warnings = warnings(&story, &path);
    let repaired = repair(&mut open, &story, head, &recorder, &mut warnings);
    let session = match repaired.and_then(|()| close(&mut open, &story, &recorder)) {
        Ok(()) => {
            // Every call has an answer now, so nothing is uncertain any longer.
            if story.scan.head.as_ref().is_some_and(|head| !head.recording_complete) {
                let _ = mark(&path, COMPLETE);
            }
            SessionFile::on(open, recorder)
        }
        Err(error) => not_recorded(path, error),
    };
    Ok((session, resumed(story, warnings)))
}

/// A new session with the same history. The old one is not touched, and may be in use.
pub fn fork(
    place: &Place,
    from: Id,
    mut head: Head,
    asked: Asked<'_>,
    recorder: Recorder,
) -> Result<(SessionFile, Resumed), SessionError> {
    let source = place.session_file(from);
    let file = open_to_read(&source, from)?;
    let story = Story::read(&file, &source, from, asked)?;
    if let Some(old) = &story.scan.head {
        head.title.clone_from(&old.head.title);
    }
    head.forked_from = Some(from);
    let id = head.id;
    let path = place.session_file(id);
    if path.exists() {
        return Err(SessionError::Exists { id });
    }
    let session = copy(&file, &story, &path, &head, &recorder).and_then(|mut open| {
        close(&mut open, &story, &recorder)?;
        Ok(open)
    });
    let session = match session {
        Ok(open) => SessionFile::on(open, recorder),
        Err(error) => not_recorded(path, error),
    };
    let warnings = warnings(&story, &source);
    let mut resumed = resumed(story, warnings);
    resumed.head = Some(head);
    Ok((session, resumed))
}

/// Only looks: nothing is locked, repaired or written.
pub fn read(place: &Place, id: Id, asked: Asked<'_>) -> Result<Resumed, SessionError> {
    let path = place.session_file(id);
    let story = Story::read(&open_to_read(&path, id)?, &path, id, asked)?;
    let warnings = warnings(&story, &path);
    Ok(resumed(story, warnings))
}

fn resumed(mut story: Story, warnings: Vec<String>) -> Resumed {
    for note in [story.gap(), story.lost_work()].into_iter().flatten() {
        tell(&mut story.history, note);
    }
    Resumed {
        head: story.scan.head.map(|read| read.head),
        history: shown(story.history),
        warnings,
        known: story.known,
    }
}

fn not_recorded(path: PathBuf, error: io::Error) -> SessionFile {
    let why = SessionError::Unwritable { path, error };
    SessionFile::unwritable(format!("this run is not recorded: {why}"))
}

fn open_to_read(path: &Path, id: Id) -> Result<File, SessionError> {
    File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SessionError::Missing { id },
        _ => SessionError::Unreadable { path: path.to_path_buf(), error },
    })
}

fn warnings(story: &Story, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let left_out = match story.scan.broken {
        0 => None,
        1 => Some("1 line of `{}` cannot be read and is left out; it is still there".to_owned()),
        many => Some(format!("{many} lines of `{{}}` cannot be read and are left out; they are still there")),
    };
    warnings.extend(left_out.map(|text| text.replace("{}", &path.display().to_string())));
    if story.gap().is_some() {
        let message = "the recording of an earlier run stopped before its end: what it did after that is not in the session";
        warnings.push(message.to_owned());
    }
    if !story.interrupted.is_empty() {
        let names: Vec<String> = story.interrupted.iter().map(|name| format!("`{name}`")).collect();
        warnings.push(format!(
            "the last run was cut off during {}: it may or may not have taken effect, and is not repeated",
            names.join(", ")
        ));
    }
    warnings
}

/// Puts half a line aside and ends a last line that lacks its end.
fn repair(
    open: &mut Open,
    story: &Story,
    head: &Head,
    recorder: &Recorder,
    warnings: &mut Vec<String>,
) -> io::Result<()> {
    let scan = &story.scan;
    if scan.torn > 0 {
        let kept = put_aside(&open.file, scan.end, &open.path)?;
        open.file.set_len(scan.end)?;
        warnings.push(format!(
            "the last record of the session was half-written and is left out; it is kept in `{}`",
            kept.display()
        ));
    }
    if scan.last_line == LastLine::WithoutItsEnd {
        open.append(b"\n")?;
    }
    if scan.end == 0 {
        open.append(&head.line(&recorder.secrets))?;
    }
    Ok(())
}

/// Copies what stands after the last whole record into a file of its own.
fn put_aside(mut file: &File, from: u64, path: &Path) -> io::Result<PathBuf> {
    let mut number = 1_u32;
    let (mut kept, aside) = loop {
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".torn-{number}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside) {
            Ok(kept) => break (kept, PathBuf::from(aside)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    };
    file.seek(SeekFrom::Start(from))?;
    io::copy(&mut file, &mut kept)?;
    kept.sync_data()?;
    Ok(aside)
}

/// Keeps the answers that the calls were given instead of results, and the notes about what was not recorded.
fn close(open: &mut Open, story: &Story, recorder: &Recorder) -> io::Result<()> {
    for result in &story.closings {
        open.append(&closing_line(result, &recorder.secrets))?;
    }
    if let Some(message) = story.gap() {
        open.append(&notice_line(message, Vec::new(), &recorder.secrets))?;
    }
    if let Some(message) = story.lost_work() {
        let ended = story.lost.iter().map(|task| task.task_id.clone()).collect();
        open.append(&notice_line(message, ended, &recorder.secrets))?;
    }
    Ok(())
}

/// What follows the last compaction, under a new first record: complete under its name, or not there.
fn copy(mut file: &File, story: &Story, path: &Path, head: &Head, recorder: &Recorder) -> io::Result<Open> {
    let scan = &story.scan;
    let unfinished = path.with_extension("jsonl.new");
    let mut copy = create_new(&unfinished)?;
    let written = (|| {
        copy.write_all(&head.line(&recorder.secrets))?;
        file.seek(SeekFrom::Start(scan.from))?;
        let mut rest = io::BufReader::new(file.take(scan.end - scan.from));
        if scan.from == 0 && scan.head.is_some() {
            io::BufRead::skip_until(&mut rest, b'\n')?;
        }
        io::copy(&mut rest, &mut copy)?;
        if scan.last_line == LastLine::WithoutItsEnd {
            copy.write_all(b"\n")?;
        }
        copy.sync_data()?;
        std::fs::rename(&unfinished, path)
    })();
    if let Err(error) = written {
        let _ = std::fs::remove_file(&unfinished);
        return Err(error);
    }
    let writer = Writer::take(&copy, path).map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
    let end = copy.metadata()?.len();
    if let Some(mirror) = &recorder.mirror {
        mirror.tell_all(path)?;
    }
    Ok(Open {
        _writer: writer,
        file: Arc::new(copy),
        path: path.to_path_buf(),
        end,
        last: story.last.clone(),
        entry: Entry::New,
        mirror: recorder.mirror.clone(),
    })
}
