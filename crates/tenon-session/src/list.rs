//! Finds, lists and deletes sessions. Only the first and the last bytes of a file are read, so that thousands
//! of them are listed at once.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tenon_core::Id;

use crate::lock::{Refused, Writer, writer_of};
use crate::place::projects;
use crate::record::{Head, exit_code_in, id_of, read_head};
use crate::{Place, SessionError};

/// A first record is a few hundred bytes; a path can have 4096.
const HEAD_BYTES: usize = 16 * 1024;
/// The end of a run is a few hundred bytes, with a long message a few thousand.
const TAIL_BYTES: u64 = 16 * 1024;

/// A session in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    pub id: Id,
    pub place: Place,
    /// `None` where the first record cannot be read.
    pub head: Option<Head>,
    /// When it was last written.
    pub updated: SystemTime,
    pub bytes: u64,
    pub state: State,
}

/// What became of the last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Finished {
        exit_code: u8,
    },
    /// It was cut off.
    Unfinished,
    /// Somebody says that they write it; a crash can leave this behind.
    InUse {
        pid: u32,
    },
}

impl Listed {
    pub fn title(&self) -> &str {
        self.head.as_ref().map(|head| head.title.as_str()).unwrap_or_default()
    }

    pub fn path(&self) -> PathBuf {
        self.place.session_file(self.id)
    }
}

/// The sessions of one folder, the latest first. Names of folders can coincide, so `cwd` has to be the one
/// that a session was begun in; one whose first record is lost may be anybody's.
pub fn list(place: &Place, cwd: &Path) -> io::Result<Vec<Listed>> {
    let mut sessions = all_in(place)?;
    sessions.retain(|session| is_of(session.head.as_ref(), cwd));
    Ok(sessions)
}

/// Those of all folders.
pub fn list_all(tenon_home: &Path) -> io::Result<Vec<Listed>> {
    let mut sessions = Vec::new();
    for place in places(tenon_home)? {
        sessions.extend(all_in(&place)?);
    }
    sort(&mut sessions);
    Ok(sessions)
}

/// The session of this folder that was written last.
pub fn most_recent(place: &Place, cwd: &Path) -> io::Result<Option<Id>> {
    let mut files = Vec::new();
    for (path, id) in session_files(place)?.sessions {
        // It may be deleted at this moment.
        let Ok(meta) = path.metadata() else { continue };
        files.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), id, path));
    }
    files.sort_by_key(|(updated, id, _)| std::cmp::Reverse((*updated, *id)));
    let is_ours = |path: &Path| File::open(path).is_ok_and(|file| is_of(head_of(&file).as_ref(), cwd));
    Ok(files.into_iter().find(|(_, _, path)| is_ours(path)).map(|(_, id, _)| id))
}

fn is_of(head: Option<&Head>, cwd: &Path) -> bool {
    head.is_none_or(|head| head.cwd == cwd)
}

/// What a name in a command stands for.
#[derive(Debug)]
pub enum Found<'a> {
    One(&'a Listed),
    Nothing,
    Several(Vec<&'a Listed>),
}

/// By id, by title, or by the beginning of either where that is enough.
pub fn find<'a>(sessions: &'a [Listed], wanted: &str) -> Found<'a> {
    let wanted = wanted.trim();
    if wanted.is_empty() {
        return Found::Nothing;
    }
    let lower = wanted.to_lowercase();
    let id = |session: &Listed| session.id.to_string();
    let title = |session: &Listed| session.title().to_lowercase();
    let whole: Vec<&Listed> =
        sessions.iter().filter(|session| id(session) == lower || title(session) == lower).collect();
    let found = match whole.is_empty() {
        false => whole,
        true => sessions
            .iter()
            .filter(|session| id(session).starts_with(&lower) || title(session).starts_with(&lower))
            .collect(),
    };
    match found.as_slice() {
        [] => Found::Nothing,
        [one] => Found::One(one),
        _ => Found::Several(found),
    }
}

/// Removes a session with everything that belongs to it, unless somebody writes it.
pub fn delete(place: &Place, id: Id) -> Result<(), SessionError> {
    let path = place.session_file(id);
    let cannot = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => SessionError::Missing { id },
        _ => SessionError::Unwritable { path: path.clone(), error },
    };
    let file = File::open(&path).map_err(cannot)?;
    let writer = Writer::take(&file, &path).map_err(|refused| match refused {
        Refused::InUse(pid) => SessionError::InUse { id, pid },
        Refused::Gone => SessionError::Missing { id },
    })?;
    // The outputs first: without its session nothing would find them again.
    match std::fs::remove_dir_all(place.outputs(id)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot(error)),
        _ => {}
    }
    let mut torn: OsString = path.file_name().unwrap_or_default().to_owned();
    torn.push(".torn-");
    for entry in std::fs::read_dir(place.chats()).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(torn.as_encoded_bytes()) {
            std::fs::remove_file(entry.path()).map_err(cannot)?;
        }
    }
    std::fs::remove_file(&path).map_err(cannot)?;
    drop(writer);
    place.remove_if_empty();
    Ok(())
}

/// The folders of all projects that there are.
pub(crate) fn places(tenon_home: &Path) -> io::Result<Vec<Place>> {
    let entries = match std::fs::read_dir(projects(tenon_home)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(folders.map(|entry| Place::at(entry.path())).collect())
}

/// What lies in a folder of sessions.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) sessions: Vec<(PathBuf, Id)>,
    /// Those that somebody says to write.
    tagged: HashSet<Id>,
}

pub(crate) fn session_files(place: &Place) -> io::Result<Files> {
    let entries = match std::fs::read_dir(place.chats()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Files::default()),
        Err(error) => return Err(error),
    };
    let mut files = Files::default();
    for entry in entries.flatten() {
        let path = entry.path();
        match id_of(&path) {
            Some(id) => files.sessions.push((path, id)),
            None if path.extension().is_some_and(|extension| extension == "pid") => {
                files.tagged.extend(path.file_stem().and_then(|stem| Id::parse(stem.to_str()?)));
            }
            None => {}
        }
    }
    Ok(files)
}

fn all_in(place: &Place) -> io::Result<Vec<Listed>> {
    let Files { sessions: files, tagged } = session_files(place)?;
    let mut sessions: Vec<Listed> =
        files.into_iter().filter_map(|(path, id)| look(place, &path, id, tagged.contains(&id))).collect();
    sort(&mut sessions);
    Ok(sessions)
}

fn sort(sessions: &mut [Listed]) {
    sessions.sort_by_key(|session| std::cmp::Reverse((session.updated, session.id)));
}

/// `None` for one that is deleted at this moment.
fn look(place: &Place, path: &Path, id: Id, tagged: bool) -> Option<Listed> {
    let file = File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    let state = match tagged.then(|| writer_of(path)).flatten().filter(|pid| is_alive(*pid)) {
        Some(pid) => State::InUse { pid },
        None => last_state(&file, meta.len()),
    };
    Some(Listed {
        id,
        place: place.clone(),
        head: head_of(&file),
        updated: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        bytes: meta.len(),
        state,
    })
}

fn head_of(file: &File) -> Option<Head> {
    let mut start = vec![0; HEAD_BYTES];
    let length = file.read_at(&mut start, 0).ok()?;
    let end = start[..length].iter().position(|byte| *byte == b'\n')?;
    read_head(&start[..end]).map(|read| read.head)
}

fn last_state(file: &File, length: u64) -> State {
    let from = length.saturating_sub(TAIL_BYTES);
    let mut tail = vec![0; usize::try_from(length - from).unwrap_or_default()];
    let last = file.read_exact_at(&mut tail, from).ok().and_then(|()| {
        let line = tail.strip_suffix(b"\n")?;
        let start = line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        exit_code_in(&line[start..])
    });
    last.map_or(State::Unfinished, |exit_code| State::Finished { exit_code })
}

/// Is there a process with this number? Where that cannot be seen, its word is taken.
fn is_alive(pid: u32) -> bool {
    let processes = Path::new("/proc/self");
    !processes.exists() || Path::new("/proc").join(pid.to_string()).exists()
}
