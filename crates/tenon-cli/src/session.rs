//! Which session a run belongs to, and the opening of its file. What is in the file is `tenon-session`'s;
//! `tenon sessions` is in `sessions_command.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tenon_config::{Settings, Surroundings};
use tenon_core::{
    ErrorClass, Failure, Id, LeftBehind, Message, NoJournal, Outcome, Secrets, Timestamp, TurnJournal,
};
use tenon_session::{
    Asked, Found, Head, Listed, Mirror, Place, Recorder, SessionError, SessionFile, title_of,
};

use crate::args::RunArgs;
use crate::plan::VERSION;
use crate::stderr::Reporter;
use crate::sys;

/// How many sessions a message names.
const SHOWN_CANDIDATES: usize = 5;

/// Where a run's conversation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    New,
    Resumed(Id),
    /// The history of that one, under an id of its own.
    Forked(Id),
}

/// What the flags name, found before anything is read or paid for.
pub struct Named {
    pub origin: Origin,
    pub warnings: Vec<String>,
}

pub fn find(args: &RunArgs, here: &Surroundings) -> Result<Named, Failure> {
    let mut warnings = Vec::new();
    let named = match (&args.resume, args.continue_last) {
        (Some(wanted), _) => Some(resolve(wanted.as_deref().unwrap_or_default(), here)?),
        (None, true) => {
            let latest = latest(here)?;
            if latest.is_none() {
                let message = "`--continue`: there is no session of this folder yet, so a new one begins";
                warnings.push(message.to_owned());
            }
            latest
        }
        (None, false) => None,
    };
    let origin = match named {
        None => Origin::New,
        Some(id) if args.fork_session || args.no_session => Origin::Forked(id),
        Some(id) => Origin::Resumed(id),
    };
    Ok(Named { origin, warnings })
}

/// The sessions of the folder a run works in; `None` without a home.
pub fn place(here: &Surroundings) -> Option<(Place, PathBuf)> {
    let cwd = here.cwd.canonicalize().unwrap_or_else(|_| here.cwd.clone());
    here.tenon_home.as_ref().map(|home| (Place::of(home, &cwd), cwd))
}

fn latest(here: &Surroundings) -> Result<Option<Id>, Failure> {
    let Some((place, cwd)) = place(here) else { return Ok(None) };
    tenon_session::most_recent(&place, &cwd).map_err(|error| cannot_list(&place, &error))
}

fn resolve(wanted: &str, here: &Surroundings) -> Result<Id, Failure> {
    let sessions = match place(here) {
        Some((place, cwd)) => {
            tenon_session::list(&place, &cwd).map_err(|error| cannot_list(&place, &error))?
        }
        None => Vec::new(),
    };
    match tenon_session::find(&sessions, wanted) {
        Found::One(session) => Ok(session.id),
        Found::Several(candidates) => Err(ambiguous(wanted, &candidates)),
        Found::Nothing => Err(missing(wanted, &sessions, here)),
    }
}

pub fn ambiguous(wanted: &str, candidates: &[&Listed]) -> Failure {
    let count = candidates.len();
    Failure::new(ErrorClass::Input, format!("`{wanted}` fits {count} sessions: {}", named(candidates)))
        .hint("give more of the id or of the title; `tenon sessions list` has them all")
}

pub fn missing(wanted: &str, sessions: &[Listed], here: &Surroundings) -> Failure {
    let failure = Failure::new(ErrorClass::Input, format!("there is no session `{wanted}` of this folder"));
    let elsewhere = here.tenon_home.as_deref().and_then(|home| tenon_session::list_all(home).ok());
    if let Some(all) = &elsewhere
        && let Found::One(session) = tenon_session::find(all, wanted)
        && let Some(head) = &session.head
    {
        let folder = head.cwd.display();
        return failure.hint(format!("it is one of `{folder}`: work there, or add `-C {folder}`"));
    }
    match sessions {
        [] => failure.hint("this folder has no sessions; `tenon sessions list --all` has those of others"),
        _ => {
            let latest: Vec<&Listed> = sessions.iter().collect();
            failure.hint(format!("the latest are {}; `tenon sessions list` has them all", named(&latest)))
        }
    }
}

fn named(sessions: &[&Listed]) -> String {
    let shown = sessions.iter().take(SHOWN_CANDIDATES);
    let mut names: Vec<String> =
        shown.map(|session| format!("`{}` ({})", session.id, session.title())).collect();
    if sessions.len() > SHOWN_CANDIDATES {
        names.push(format!("and {} more", sessions.len() - SHOWN_CANDIDATES));
    }
    names.join(", ")
}

pub fn cannot_list(place: &Place, error: &std::io::Error) -> Failure {
    Failure::new(ErrorClass::Input, format!("`{}` cannot be read: {error}", place.chats().display()))
}

/// A session while its run goes on.
pub struct Session {
    pub journal: Arc<dyn TurnJournal>,
    pub history: Vec<Message>,
    /// What the conversation knows of files and tools.
    pub known: LeftBehind,
    file: Option<Arc<SessionFile>>,
}

/// What a new first record says.
pub struct Beginning<'a> {
    pub id: Id,
    pub cwd: &'a Path,
    pub prompt: &'a str,
    /// Whoever is told what is written.
    pub mirror: Option<Mirror>,
    pub file: Begun,
}

/// When there is a file of a new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    AtOnce,
    /// A client may never ask anything.
    WithTheFirstTurn,
}

/// Who answers in the session, and what must not stand in its file.
pub struct Recording {
    pub secrets: Secrets,
    /// Who answers under which model's name, the first one first.
    pub providers: Vec<(String, String)>,
    pub model: String,
}

/// Opens the session; the last thing before a run, so that one that never began leaves nothing behind.
pub fn open(
    args: &RunArgs,
    here: &Surroundings,
    origin: Origin,
    beginning: &Beginning<'_>,
    chosen: &Recording,
    warnings: &mut Vec<String>,
) -> Result<Session, Failure> {
    let recorder = Recorder {
        secrets: chosen.secrets.clone(),
        providers: chosen.providers.clone(),
        mirror: beginning.mirror.clone(),
    };
    let provider = chosen.providers.first().map(|(_, provider)| provider.as_str()).unwrap_or_default();
    let asked = Asked { provider, model: &chosen.model };
    let head = Head {
        id: beginning.id,
        created: Timestamp::now().to_iso8601(),
        cwd: beginning.cwd.to_path_buf(),
        title: title_of(beginning.prompt),
        version: VERSION.to_owned(),
        forked_from: None,
    };
    let Some(home) = &here.tenon_home else {
        return Ok(match args.no_session {
            true => Session::unrecorded(Vec::new()),
            false => Session::recorded(SessionFile::unwritable(
                "the session is not recorded: there is no home folder (neither `TENON_HOME` nor `HOME` is set)"
                    .to_owned(),
            ), Vec::new()),
        });
    };
    let place = Place::of(home, beginning.cwd);
    if args.no_session {
        let Origin::Forked(from) = origin else { return Ok(Session::unrecorded(Vec::new())) };
        let resumed = tenon_session::read(&place, from, asked).map_err(|error| failure(&error))?;
        warnings.extend(resumed.warnings);
        return Ok(Session { known: resumed.known, ..Session::unrecorded(resumed.history) });
    }
    let opened = match origin {
        Origin::New if !sys::can_be_written(home) => {
            return Ok(Session::recorded(SessionFile::unwritable(unwritable_home(home)), Vec::new()));
        }
        Origin::New => match beginning.file {
            Begun::AtOnce => SessionFile::create(&place, &head, recorder),
            Begun::WithTheFirstTurn => SessionFile::awaited(&place, &head, recorder),
        }
        .map(|file| (file, Vec::new(), LeftBehind::default())),
        Origin::Resumed(_) => tenon_session::open(&place, &head, asked, recorder).map(|(file, resumed)| {
            warnings.extend(resumed.warnings);
            (file, resumed.history, resumed.known)
        }),
        Origin::Forked(from) => {
            tenon_session::fork(&place, from, head, asked, recorder).map(|(file, resumed)| {
                warnings.extend(resumed.warnings);
                (file, resumed.history, resumed.known)
            })
        }
    };
    match opened {
        Ok((file, history, known)) => Ok(Session { known, ..Session::recorded(file, history) }),
        Err(why @ SessionError::Unwritable { .. }) => {
            let why = format!("the session is not recorded: {why}");
            Ok(Session::recorded(SessionFile::unwritable(why), Vec::new()))
        }
        Err(error) => Err(failure(&error)),
    }
}

/// One sentence for everything that needs the home.
fn unwritable_home(home: &Path) -> String {
    format!(
        "`{}` cannot be written, so the session is not recorded, and outputs too large for the model are kept \
         only for this run",
        home.display()
    )
}

pub fn failure(error: &SessionError) -> Failure {
    let failure = Failure::new(ErrorClass::Input, error.to_string());
    match error {
        SessionError::InUse { .. } => {
            failure.hint("wait for its end, or go on in a copy with `--fork-session`")
        }
        SessionError::Exists { id } => failure.hint(format!("go on with it: `--resume {id}`")),
        SessionError::Missing { .. } => failure.hint("`tenon sessions list` has the sessions of this folder"),
        SessionError::Newer { .. } => failure.hint("update tenon"),
        SessionError::Unreadable { .. } | SessionError::Unwritable { .. } => failure,
    }
}

impl Session {
    fn recorded(file: SessionFile, history: Vec<Message>) -> Session {
        let file = Arc::new(file);
        Session {
            journal: Arc::clone(&file) as Arc<dyn TurnJournal>,
            history,
            known: LeftBehind::default(),
            file: Some(file),
        }
    }

    fn unrecorded(history: Vec<Message>) -> Session {
        Session { journal: Arc::new(NoJournal), history, known: LeftBehind::default(), file: None }
    }
}

/// What is left to do when the result is out.
pub struct Ending {
    file: Option<Arc<SessionFile>>,
    tenon_home: Option<PathBuf>,
    retention_days: u32,
}

impl Ending {
    pub fn of(session: &Session, here: &Surroundings, settings: &Settings) -> Ending {
        Ending {
            file: session.file.clone(),
            tenon_home: here.tenon_home.clone().filter(|_| session.file.is_some()),
            retention_days: settings.sessions.retention_days(),
        }
    }

    /// Ends the recording of a run, and deletes old sessions if that was not done today.
    pub fn finish(self, outcome: &Arc<Outcome>, reporter: Reporter) {
        if let Some(file) = self.file {
            file.finish(outcome);
            if let Some(why) = file.degraded() {
                reporter.warn(&why);
            }
        }
        if let Some(home) = self.tenon_home {
            // Tomorrow is another day: a session that cannot be deleted is no reason to trouble anybody.
            let _ = tenon_session::clean_once_a_day(&home, self.retention_days, SystemTime::now());
        }
    }
}
