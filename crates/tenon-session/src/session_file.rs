//! Writes a session while it happens: one line for each record, each line in one write, at the end of the file.
//!
//! A tool's start is on the disk before the tool runs, so that a crash never lets it be repeated unawares;
//! everything else is with the kernel at once, which survives the process, and on the disk at the end of the
//! run. When writing fails the session ends there: the run goes on and says so once. Taking a session up
//! again is in `resume.rs`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenon_core::{BoxFut, Outcome, Secrets, TurnJournal, TurnRecord};

use crate::lock::{Refused, Writer};
use crate::mirror::Mirror;
use crate::place::make_folder;
use crate::record::{By, COMPLETE, DEGRADED, HEAD_START, Head, finished_line, line};
use crate::{Place, SessionError, title_of};

/// How a session is written: what must not stand in it, and who is behind a model's name.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    pub secrets: Secrets,
    /// Model and provider: the one chosen, then the fallbacks.
    pub providers: Vec<(String, String)>,
    /// Whoever is told what is written.
    pub mirror: Option<Mirror>,
}

impl Recorder {
    fn provider_of(&self, model: &str) -> &str {
        let known = self.providers.iter().find(|(known, _)| known == model).or(self.providers.first());
        known.map(|(_, provider)| provider.as_str()).unwrap_or_default()
    }
}

/// A session that is being written. Dropping it lets others write it.
pub struct SessionFile {
    recorder: Recorder,
    state: Mutex<State>,
}

enum State {
    /// Nothing has happened yet, so there is no file.
    Awaited(Box<Awaited>),
    On(Open),
    /// Nothing more is written.
    Off {
        /// Why, until it has been told.
        to_tell: Option<String>,
    },
}

struct Awaited {
    place: Place,
    head: Head,
}

pub(crate) struct Open {
    /// First, so that it goes before the file and its lock.
    pub(crate) _writer: Writer,
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
    /// Where the last whole record ends.
    pub(crate) end: u64,
    /// Who gave the last answer.
    pub(crate) last: By,
    /// The folder's entry of a new file is on the disk.
    pub(crate) entry: Entry,
    pub(crate) mirror: Option<Mirror>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    New,
    Synced,
}

impl SessionFile {
    /// Begins a new session.
    pub fn create(place: &Place, head: &Head, recorder: Recorder) -> Result<SessionFile, SessionError> {
        Ok(SessionFile::on(SessionFile::begin(place, head, &recorder)?, recorder))
    }

    /// The same with the first record, which also gives it a title if it has none: a client that asks nothing leaves
    /// nothing behind.
    pub fn awaited(place: &Place, head: &Head, recorder: Recorder) -> Result<SessionFile, SessionError> {
        if place.session_file(head.id).exists() {
            return Err(SessionError::Exists { id: head.id });
        }
        let awaited = Awaited { place: place.clone(), head: head.clone() };
        Ok(SessionFile { recorder, state: Mutex::new(State::Awaited(Box::new(awaited))) })
    }

    fn begin(place: &Place, head: &Head, recorder: &Recorder) -> Result<Open, SessionError> {
        let path = place.session_file(head.id);
        let unwritable = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => SessionError::Exists { id: head.id },
            _ => SessionError::Unwritable { path: path.clone(), error },
        };
        let file = create_new(&path).map_err(unwritable)?;
        let writer = Writer::take(&file, &path).map_err(|refused| match refused {
            Refused::InUse(pid) => SessionError::InUse { id: head.id, pid },
            Refused::Gone => SessionError::Missing { id: head.id },
        })?;
        let mut open = Open {
            _writer: writer,
            file: Arc::new(file),
            path: path.clone(),
            end: 0,
            last: By::default(),
            entry: Entry::New,
            mirror: recorder.mirror.clone(),
        };
        if let Err(error) = open.append(&head.line(&recorder.secrets)) {
            // An empty file would be a session nobody began.
            let _ = std::fs::remove_file(&path);
            return Err(SessionError::Unwritable { path, error });
        }
        Ok(open)
    }

    pub(crate) fn on(open: Open, recorder: Recorder) -> SessionFile {
        SessionFile { recorder, state: Mutex::new(State::On(open)) }
    }

    /// A session that cannot be written from the start; `why` is told with the first record.
    pub fn unwritable(why: String) -> SessionFile {
        let state = State::Off { to_tell: Some(why) };
        SessionFile { recorder: Recorder::default(), state: Mutex::new(state) }
    }

    /// The last record of a run. From here on everything is on the disk.
    pub fn finish(&self, outcome: &Arc<Outcome>) {
        let mut state = self.lock();
        if let State::On(open) = &mut *state {
            let line = finished_line(outcome, &self.recorder.secrets);
            if let Err(error) = open.append(&line).and_then(|()| open.file.sync_data()) {
                *state = open.give_up(&error);
            }
        }
    }

    /// Writes one record; the file that must reach the disk before the run goes on, if any.
    fn write_now(&self, record: &TurnRecord) -> Option<(Arc<File>, Option<PathBuf>)> {
        if matches!(record, TurnRecord::Besides { .. }) {
            return None;
        }
        let mut state = self.lock();
        if let State::Awaited(awaited) = &mut *state {
            if let (TurnRecord::UserMessage { message, .. }, "") = (record, awaited.head.title.as_str()) {
                awaited.head.title = title_of(&message.text());
            }
            *state = match SessionFile::begin(&awaited.place, &awaited.head, &self.recorder) {
                Ok(open) => State::On(open),
                Err(why) => State::Off { to_tell: Some(format!("the session is not recorded: {why}")) },
            };
        }
        let State::On(open) = &mut *state else { return None };
        if let TurnRecord::ModelTurn { model, .. } = record {
            let provider = self.recorder.provider_of(model).to_owned();
            open.last = By { provider, model: model.clone() };
        }
        let line = line(record, &open.last.provider, &open.last.model, &self.recorder.secrets);
        if let Err(error) = open.append(&line) {
            *state = open.give_up(&error);
            return None;
        }
        tracing::trace!(bytes = line.len(), "record written");
        if !matches!(record, TurnRecord::ToolStarted { .. }) {
            return None;
        }
        let folder = match std::mem::replace(&mut open.entry, Entry::Synced) {
            Entry::New => open.path.parent().map(Path::to_path_buf),
            Entry::Synced => None,
        };
        Some((Arc::clone(&open.file), folder))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnJournal for SessionFile {
    fn write(&self, record: TurnRecord) -> BoxFut<'_, io::Result<()>> {
        Box::pin(async move {
            let Some((file, folder)) = self.write_now(&record) else { return Ok(()) };
            let synced = tokio::task::spawn_blocking(move || {
                file.sync_data()?;
                folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all())
            })
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
            if let Err(error) = synced {
                let mut state = self.lock();
                if let State::On(open) = &mut *state {
                    *state = open.give_up(&error);
                }
            }
            Ok(())
        })
    }

    fn degraded(&self) -> Option<String> {
        match &mut *self.lock() {
            State::On(_) | State::Awaited(_) => None,
            State::Off { to_tell } => to_tell.take(),
        }
    }
}

impl Open {
    /// Adds whole lines in one write.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut rest = lines;
        // The system may take less than it was given; what then cannot follow is an error.
        while !rest.is_empty() {
            match (&*self.file).write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.end += lines.len() as u64;
        if let Some(mirror) = &self.mirror {
            mirror.tell(lines);
        }
        Ok(())
    }

    /// Leaves the file as it was after the last whole record, and marked: a call that seems never to have
    /// begun may have begun after all. Half a line that cannot be taken back is found when resuming.
    fn give_up(&mut self, error: &io::Error) -> State {
        let _ = self.file.set_len(self.end);
        let _ = mark(&self.path, DEGRADED);
        let path = self.path.display();
        State::Off {
            to_tell: Some(format!(
                "the session is not recorded any further, because `{path}` cannot be written ({error}); it can be \
                 resumed up to here"
            )),
        }
    }
}

/// Says in the first record whether all that happened was written. In place: that works on a full disk.
pub(crate) fn mark(path: &Path, mark: &str) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut start = vec![0; HEAD_START.len() + COMPLETE.len()];
    file.read_exact_at(&mut start, 0)?;
    match start.starts_with(HEAD_START.as_bytes()) {
        true => file.write_all_at(mark.as_bytes(), HEAD_START.len() as u64),
        false => Ok(()),
    }
}

/// A new file for its owner only, in folders for their owner only.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    let folder = path.parent().unwrap_or(path);
    let create = || OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(path);
    make_folder(folder)?;
    match create() {
        // Somebody who cleaned up took the empty folder away.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folder(folder)?;
            create()
        }
        other => other,
    }
}
