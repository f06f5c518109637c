//! `tenon sessions list|show|delete`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tenon_config::Surroundings;
use tenon_core::{ErrorClass, Failure, Timestamp};
use tenon_session::{Found, Listed, State};

use crate::args::SessionsCommand;
use crate::manual::print;
use crate::stderr::{Level, Reporter, harmless, line};
use crate::{session, surroundings};

/// A tool's answer is shown as far as a person wants to read it; `--json` has the whole.
const SHOWN_LINES: usize = 20;
const SHOWN_CHARS: usize = 2000;

pub fn main(cwd: Option<PathBuf>, command: SessionsCommand) -> u8 {
    let here = surroundings::collect(cwd.as_deref());
    let done = match command {
        SessionsCommand::List { all, json } => list(&here, all, json),
        SessionsCommand::Show { session, json } => show(&here, &session, json),
        SessionsCommand::Delete { sessions, older_than, all } => {
            delete(&here, &sessions, older_than.as_deref(), all)
        }
    };
    done.unwrap_or_else(|failure| {
        Reporter { level: Level::Quiet, heartbeats: false, is_terminal: false }.failure(&failure);
        failure.exit_code()
    })
}

fn sessions(here: &Surroundings, all: bool) -> Result<Vec<Listed>, Failure> {
    let (Some((place, cwd)), Some(home)) = (session::place(here), &here.tenon_home) else {
        return Ok(Vec::new());
    };
    let listed = if all { tenon_session::list_all(home) } else { tenon_session::list(&place, &cwd) };
    listed.map_err(|error| session::cannot_list(&place, &error))
}

fn list(here: &Surroundings, all: bool, json: bool) -> Result<u8, Failure> {
    let sessions = sessions(here, all)?;
    if json {
        let listed: Vec<Value> = sessions.iter().map(as_json).collect();
        return Ok(print(format!("{}\n", Value::Array(listed)).as_bytes()));
    }
    if sessions.is_empty() {
        line(if all { "there are no sessions" } else { "there are no sessions of this folder" });
        return Ok(0);
    }
    let mut table = format!("{:36}  {:16}  {:>7}  {:8}  TITLE\n", "ID", "UPDATED (UTC)", "SIZE", "STATE");
    for session in &sessions {
        let updated = iso(session.updated);
        let updated = format!("{} {}", &updated[..10], &updated[11..16]);
        let title = match (all, &session.head) {
            (true, Some(head)) => format!("{}  ({})", head.title, head.cwd.display()),
            _ => session.title().to_owned(),
        };
        let (size, state) = (size(session.bytes), state(session.state));
        // A `String` takes everything.
        let _ = writeln!(table, "{}  {updated}  {size:>7}  {state:8}  {}", session.id, harmless(&title));
    }
    Ok(print(table.as_bytes()))
}

fn as_json(session: &Listed) -> Value {
    let (name, exit_code, pid) = match session.state {
        State::Finished { exit_code } => ("finished", Some(exit_code), None),
        State::Unfinished => ("unfinished", None, None),
        State::InUse { pid } => ("in_use", None, Some(pid)),
    };
    let head = session.head.as_ref();
    json!({
        "id": session.id, "title": session.title(), "cwd": head.map(|head| head.cwd.display().to_string()),
        "created": head.map(|head| &head.created), "updated": iso(session.updated), "bytes": session.bytes,
        "state": name, "exit_code": exit_code, "pid": pid,
        "forked_from": head.and_then(|head| head.forked_from), "file": session.path().display().to_string(),
    })
}

fn state(state: State) -> String {
    match state {
        State::Finished { exit_code: 0 } => "done".to_owned(),
        State::Finished { exit_code } => format!("exit {exit_code}"),
        State::Unfinished => "cut off".to_owned(),
        State::InUse { .. } => "in use".to_owned(),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

fn iso(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)).to_iso8601()
}

/// Of this folder, or else of any.
fn resolve(here: &Surroundings, wanted: &str) -> Result<Listed, Failure> {
    let near = sessions(here, false)?;
    let all = match tenon_session::find(&near, wanted) {
        Found::One(session) => return Ok(session.clone()),
        Found::Several(candidates) => return Err(session::ambiguous(wanted, &candidates)),
        Found::Nothing => sessions(here, true)?,
    };
    match tenon_session::find(&all, wanted) {
        Found::One(session) => Ok(session.clone()),
        Found::Several(candidates) => Err(session::ambiguous(wanted, &candidates)),
        Found::Nothing => Err(session::missing(wanted, &near, here)),
    }
}

fn show(here: &Surroundings, wanted: &str, json: bool) -> Result<u8, Failure> {
    let session = resolve(here, wanted)?;
    let path = session.path();
    let cannot_read = |error: std::io::Error| {
        Failure::new(ErrorClass::Input, format!("`{}` cannot be read: {error}", path.display()))
    };
    let mut records = BufReader::new(std::fs::File::open(&path).map_err(cannot_read)?);
    let mut stdout = std::io::stdout().lock();
    let mut record = Vec::new();
    loop {
        record.clear();
        if records.read_until(b'\n', &mut record).map_err(cannot_read)? == 0 {
            break;
        }
        // A record without its end is still being written, or never was.
        if record.last() != Some(&b'\n') {
            break;
        }
        let written = match json {
            true => stdout.write_all(&record),
            false => stdout.write_all(harmless(&readable(&record)).as_bytes()),
        };
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(0),
            Err(error) => {
                let message = format!("stdout could not be written: {error}");
                return Err(Failure::new(ErrorClass::Internal, message));
            }
        }
    }
    drop(stdout);
    Ok(print(b""))
}

/// One record for a person; empty for one that says nothing to people.
fn readable(record: &[u8]) -> String {
    let Ok(record) = serde_json::from_slice::<Value>(record) else {
        return "(a line that cannot be read)\n\n".to_owned();
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let time = text(&record["time"]);
    match record["type"].as_str().unwrap_or_default() {
        "session" => format!(
            "session {}\ntitle   {}\nfolder  {}\nbegun   {time}\n\n",
            text(&record["id"]),
            text(&record["title"]),
            text(&record["cwd"])
        ),
        "user" if record["origin"] == "prompt" => format!("# you, {time}\n{}\n", parts(&record["message"])),
        "user" => format!("# {}, {time}\n{}\n", text(&record["origin"]), parts(&record["message"])),
        "assistant" => format!("# {}, {time}\n{}\n", text(&record["model"]), parts(&record["message"])),
        "tool_result" => format!("{}\n", parts(&record["message"])),
        "compacted" => format!(
            "# summed up, {time}: {} tokens became {}\n\n",
            record["before_tokens"], record["after_tokens"]
        ),
        "run_finished" => match record["failure"]["message"].as_str() {
            None => format!("# finished, {time}\n\n"),
            Some(message) => format!("# failed, {time}: {message}\n\n"),
        },
        _ => String::new(),
    }
}

fn parts(message: &Value) -> String {
    let mut shown = String::new();
    for part in message["parts"].as_array().into_iter().flatten() {
        let text = |key: &str| part[key].as_str().unwrap_or_default();
        // A `String` takes everything.
        let _ = match part["type"].as_str().unwrap_or_default() {
            "text" => writeln!(shown, "{}", text("text")),
            "thinking" if !text("text").is_empty() => writeln!(shown, "(thinks) {}", capped(text("text"))),
            "tool_call" => writeln!(shown, "→ {} {}", text("name"), capped(text("arguments"))),
            "tool_result" => {
                let verdict = if part["is_error"] == true { " (error)" } else { "" };
                writeln!(shown, "← {}{verdict}\n{}", text("name"), capped(text("content")))
            }
            "media" => writeln!(shown, "({})", text("mime")),
            _ => Ok(()),
        };
    }
    shown
}

fn capped(text: &str) -> String {
    let mut shown: String = text.lines().take(SHOWN_LINES).collect::<Vec<_>>().join("\n");
    if let Some((end, _)) = shown.char_indices().nth(SHOWN_CHARS) {
        shown.truncate(end);
    }
    let left_out = text.trim_end().len().saturating_sub(shown.len());
    match left_out {
        0 => shown,
        _ => format!("{shown}\n… {left_out} more bytes"),
    }
}

fn delete(here: &Surroundings, named: &[String], older_than: Option<&str>, all: bool) -> Result<u8, Failure> {
    // All are found before the first is deleted.
    let mut doomed: Vec<Listed> =
        named.iter().map(|wanted| resolve(here, wanted)).collect::<Result<_, _>>()?;
    let old = match older_than {
        None => Vec::new(),
        Some(age) => {
            let limit = SystemTime::now().checked_sub(parse_age(age)?).unwrap_or(UNIX_EPOCH);
            let mut sessions = sessions(here, all)?;
            sessions.retain(|session| session.updated < limit);
            sessions
        }
    };
    doomed.extend(old);
    doomed.sort_by_key(|session| session.id);
    doomed.dedup_by_key(|session| session.id);
    let mut deleted = String::new();
    let mut failed = None;
    for session in &doomed {
        match tenon_session::delete(&session.place, session.id) {
            Ok(()) => {
                let _ = writeln!(deleted, "deleted {}  {}", session.id, harmless(session.title()));
            }
            Err(error) => failed = Some(delete_failure(&error, session)),
        }
    }
    if doomed.is_empty() {
        line("there is nothing to delete");
    }
    let code = print(deleted.as_bytes());
    failed.map_or(Ok(code), Err)
}

fn delete_failure(error: &tenon_session::SessionError, session: &Listed) -> Failure {
    match error {
        tenon_session::SessionError::InUse { .. } => {
            Failure::new(ErrorClass::Input, error.to_string()).hint("delete it when its run has ended")
        }
        _ => {
            Failure::new(ErrorClass::Input, format!("the session {} cannot be deleted: {error}", session.id))
        }
    }
}

/// `30d`, `12h` or `90m`.
fn parse_age(text: &str) -> Result<Duration, Failure> {
    let seconds = |unit: char| match unit {
        'd' => Some(24 * 60 * 60),
        'h' => Some(60 * 60),
        'm' => Some(60),
        _ => None,
    };
    let parsed = text.trim().char_indices().next_back().and_then(|(at, unit)| {
        let count: u64 = text.trim()[..at].trim().parse().ok()?;
        count.checked_mul(seconds(unit)?).map(Duration::from_secs)
    });
    parsed.ok_or_else(|| {
        Failure::new(ErrorClass::Usage, format!("`--older-than {text}` is not an age"))
            .hint("write days, hours or minutes: `30d`, `12h`, `90m`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (text, seconds) in
            [("30d", Some(2_592_000)), (" 12h ", Some(43_200)), ("0m", Some(0)), ("1 d", Some(86_400))]
        {
            assert_eq!(parse_age(text).ok().map(|age| age.as_secs()), seconds, "{text}");
        }
        for text in ["", "d", "30", "-1d", "1.5d", "99999999999999999999d", "18446744073709551615d", "é"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
    }
}
