//! Commands that may outlive a process that is killed: written down while they run, and ended by whoever goes on with its work.
//!
//! Each has a file, named by the number of the process that leads its session and holding when that process was started, where
//! the number counts, and the same of whoever started it. Only a process that is still the same is ended, with its session, and
//! only after its starter. Between the start of a command and its file there is a moment in which a kill leaves it unknown. What
//! ends commands of a process that lives is `running.rs`.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::sys::ProcessGroup;

/// For nobody else's eyes: others could name processes that are not ours.
const PRIVATE_FOLDER: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// Where the commands of one run are written down. Clones are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandBook {
    folder: PathBuf,
}

impl CommandBook {
    /// The folder is made when there is something to write down.
    pub fn at(folder: impl Into<PathBuf>) -> CommandBook {
        CommandBook { folder: folder.into() }
    }

    /// Ends the commands of a process that is gone. Its successor calls this before it starts any itself. How many there were.
    pub fn end_left_over(&self) -> usize {
        let Ok(entries) = fs::read_dir(&self.folder) else { return 0 };
        let mut ended = 0;
        for path in entries.flatten().map(|entry| entry.path()) {
            match found(&path) {
                Found::HasItsStarter => continue,
                Found::LeftOver(group) => {
                    group.kill();
                    ended += 1;
                }
                Found::Nobody => {}
            }
            // A file that stays is looked at again, and names nobody then.
            let _ = fs::remove_file(path);
        }
        ended
    }

    /// Nothing will be written down any more.
    pub fn put_away(&self) {
        // With the folder of the run; what still holds something stays.
        let _ = fs::remove_dir(&self.folder);
        let _ = self.folder.parent().map(fs::remove_dir);
    }

    /// `None` where nobody could tell the process from a later one with the same number.
    pub(crate) fn note(&self, group: ProcessGroup) -> Option<NotedCommand> {
        let pid = u32::try_from(group.id()).ok()?;
        let starter = std::process::id();
        let (started, its_start, place) = (process_started(pid)?, process_started(starter)?, process_place());
        if place.is_empty() {
            return None;
        }
        DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(&self.folder).ok()?;
        let path = self.folder.join(pid.to_string());
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE_FILE).open(&path).ok()?;
        let noted = NotedCommand { path };
        writeln!(file, "{started} {starter} {its_start} {place}").ok()?;
        Some(noted)
    }
}

/// Whom a file names.
enum Found {
    /// Whoever started it lives, and ends it itself.
    HasItsStarter,
    LeftOver(ProcessGroup),
    Nobody,
}

fn found(path: &Path) -> Found {
    let named = || {
        let pid: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let line = fs::read_to_string(path).ok()?;
        let mut fields = line.strip_suffix('\n')?.splitn(4, ' ');
        let (started, starter) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        let (its_start, place) = (fields.next()?.to_owned(), fields.next()?);
        (place == process_place()).then_some((pid, started, starter, its_start))
    };
    let Some((pid, started, starter, its_start)) = named() else { return Found::Nobody };
    if process_started(starter) == Some(its_start) {
        return Found::HasItsStarter;
    }
    let is_the_same = process_started(pid) == Some(started);
    is_the_same.then(|| ProcessGroup::led_by(pid)).flatten().map_or(Found::Nobody, Found::LeftOver)
}

/// A command that is written down as long as this lives.
pub(crate) struct NotedCommand {
    path: PathBuf,
}

impl Drop for NotedCommand {
    fn drop(&mut self) {
        // Whoever finds it later finds another process, or none.
        let _ = fs::remove_file(&self.path);
    }
}

/// When a process was started, by the kernel's count. `None` for one that is gone, or where there is no `/proc`.
pub fn process_started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything; the time is the 22nd.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    // A zombie does nothing any more.
    if state == "Z" { None } else { fields.nth(18).map(str::to_owned) }
}

/// Where a process number means the same process; empty where the kernel does not say. Containers of one machine share its
/// start and count their processes each for itself.
pub fn process_place() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let processes = fs::read_link("/proc/self/ns/pid");
    match (boot, processes) {
        (Ok(boot), Ok(processes)) => format!("{}/{}", boot.trim(), processes.display()),
        _ => String::new(),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_the_very_process_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let book = CommandBook::at(folder.path().join("run").join("commands"));
        assert_eq!(book.end_left_over(), 0, "nothing was written down");
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = other.id();
        let place = process_place();
        let started = process_started(pid).unwrap();
        fs::create_dir_all(&book.folder).unwrap();
        let gone = u32::MAX;
        let texts = [
            (pid.to_string(), format!("1 {gone} 1 {place}\n")),
            (pid.to_string(), format!("{started} {gone} 1 elsewhere\n")),
            (pid.to_string(), format!("{started} {gone} 1 {place}")),
            (pid.to_string(), String::new()),
            // No leader of a session.
            (pid.to_string(), format!("{started} {gone} 1 {place}\n")),
            ("1".to_owned(), format!("{} {gone} 1 {place}\n", process_started(1).unwrap_or_default())),
            ("x".to_owned(), format!("{started} {gone} 1 {place}\n")),
        ];
        for (name, text) in texts {
            fs::write(book.folder.join(&name), &text).unwrap();
            assert_eq!(book.end_left_over(), 0, "{name}: {text}");
            assert!(!book.folder.join(&name).exists());
        }
        let noted = book.note(ProcessGroup::of(pid).unwrap()).unwrap();
        assert_eq!(book.end_left_over(), 0, "whoever started it lives");
        assert!(noted.path.exists());
        drop(noted);
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
        book.put_away();
        assert!(!folder.path().join("run").exists());
    }
}
