//! Where a plan is kept: the file of `--save`, or one of its own in `plans` of the home folder. Nothing is ever overwritten.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tenon_core::{ErrorClass, Failure};

use crate::goal_approval;
use crate::goal_args::{GoalTask, Keep, Then};

/// Under the home folder of tenon.
const FOLDER: &str = "plans";
/// Of the workflow's name, in the name of the file.
const NAME_CHARS: usize = 40;

#[derive(Clone, Debug)]
pub struct PlanFile {
    path: PathBuf,
    /// As a person would type it.
    named: PathBuf,
    place: Place,
    former: Former,
}

/// What may be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Former {
    Nothing,
    /// The same plan, or nothing yet: this run was cut off while it wrote it.
    OfThisRun,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// What `--save` names.
    Saved,
    /// A folder; the file is called after the workflow, with these digits.
    OfItsOwn { digits: String },
    /// Gone with the run.
    Temporary,
}

impl PlanFile {
    /// Fails before anything is asked if there would be no place for the plan.
    pub fn prepare(
        task: &GoalTask,
        started_in: &Path,
        home: Option<&Path>,
        scratch: &Path,
        run_id: &str,
    ) -> Result<PlanFile, Failure> {
        PlanFile::placed(task, started_in, home, scratch, run_id, Former::Nothing)
    }

    /// The same for a run that was cut off before its plan was kept.
    pub fn again(
        task: &GoalTask,
        started_in: &Path,
        home: Option<&Path>,
        scratch: &Path,
        run_id: &str,
    ) -> Result<PlanFile, Failure> {
        PlanFile::placed(task, started_in, home, scratch, run_id, Former::OfThisRun)
    }

    fn placed(
        task: &GoalTask,
        started_in: &Path,
        home: Option<&Path>,
        scratch: &Path,
        run_id: &str,
        former: Former,
    ) -> Result<PlanFile, Failure> {
        if let Some(named) = &task.save {
            let (path, named) = (started_in.join(named), named.clone());
            let file = PlanFile { path, named, place: Place::Saved, former };
            file.check_free()?;
            return Ok(file);
        }
        // What nobody can approve now is to be run later, so it has to be somewhere.
        let is_for_later = task.then == Then::Ask && !goal_approval::can_ask();
        let folder = match (task.keep, home) {
            _ if task.then == Then::Print => None,
            (Keep::Nothing, _) if !is_for_later => None,
            (_, Some(home)) => Some(home.join(FOLDER)),
            (_, None) => Some(started_in.to_owned()),
        };
        let Some(folder) = folder else {
            let path = scratch.join("plan.yaml");
            return Ok(PlanFile { named: path.clone(), path, place: Place::Temporary, former });
        };
        let tail: String = run_id.chars().rev().filter(char::is_ascii_alphanumeric).take(8).collect();
        let place = Place::OfItsOwn { digits: tail.chars().rev().collect() };
        let file = PlanFile { path: folder.clone(), named: folder, place, former };
        make_folder(&file.path).map_err(|error| file.cannot(error))?;
        if !crate::sys::can_be_written(&file.path) {
            return Err(file.cannot("the folder may not be written to"));
        }
        Ok(file)
    }

    /// The file itself, when the workflow has a name.
    pub fn named(&self, workflow: &str) -> PlanFile {
        match &self.place {
            Place::Saved | Place::Temporary => self.clone(),
            Place::OfItsOwn { digits } => {
                let name = format!("{}-{digits}.yaml", file_name(workflow));
                let (path, named) = (self.path.join(&name), self.named.join(&name));
                PlanFile { path, named, place: Place::Saved, former: self.former }
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn shown(&self) -> String {
        match self.place {
            Place::Temporary => "it was not kept (`--no-journal`)".to_owned(),
            Place::Saved | Place::OfItsOwn { .. } => format!("it is in {}", self.named.display()),
        }
    }

    pub fn stays(&self) -> bool {
        self.place != Place::Temporary
    }

    /// The folder that it stands in, or will.
    pub fn folder(&self) -> PathBuf {
        match &self.place {
            Place::OfItsOwn { .. } => self.path.clone(),
            Place::Saved | Place::Temporary => self.path.parent().unwrap_or(Path::new("/")).to_owned(),
        }
    }

    /// How it is run later.
    pub fn keep_command(&self) -> Option<String> {
        self.stays()
            .then(|| format!("`tenon flow run {}` runs it", shell_word(&self.named.display().to_string())))
    }

    /// Whole or not at all, readable by its owner only, and never over something else.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        if self.place == Place::Temporary
            && let Some(folder) = self.path.parent()
        {
            make_folder(folder).map_err(|error| self.cannot(error))?;
        }
        let new = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        // The name is ours from here on.
        match new(&self.path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.has_former(text) => {}
            Err(error) => return Err(self.cannot(error)),
        }
        let unfinished = self.beside();
        let written = new(&unfinished)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&unfinished, &self.path));
        written.map_err(|error| {
            // The error that matters is the first one.
            let _ = fs::remove_file(&unfinished);
            let _ = fs::remove_file(&self.path);
            self.cannot(error)
        })
    }

    /// Takes away what was only there to be read once.
    pub fn put_away(&self) {
        if self.place == Place::Temporary {
            // Its folder is removed with the run's.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Whether this run itself has left what is there.
    fn has_former(&self, text: &str) -> bool {
        let is_same = || {
            let is_file = fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_file());
            is_file && fs::read(&self.path).is_ok_and(|found| found.is_empty() || found == text.as_bytes())
        };
        self.former == Former::OfThisRun && is_same()
    }

    fn check_free(&self) -> Result<(), Failure> {
        match fs::symlink_metadata(&self.path) {
            Ok(found) if found.is_file() && self.former == Former::OfThisRun => {}
            Ok(_) => return Err(self.cannot("there is something of that name")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(self.cannot(error)),
        }
        if self.path.file_name().is_none() || self.named.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(self.cannot("it names a folder"));
        }
        let folder = self.folder();
        match folder.is_dir() && crate::sys::can_be_written(&folder) {
            true => Ok(()),
            false => Err(self.cannot("its folder is not there, or may not be written to")),
        }
    }

    fn beside(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.unfinished", std::process::id()));
        self.path.with_file_name(name)
    }

    fn cannot(&self, why: impl std::fmt::Display) -> Failure {
        let named = self.named.display();
        let what = match self.place {
            Place::Saved => format!("`--save {named}`"),
            Place::OfItsOwn { .. } | Place::Temporary => format!("the plan's folder `{named}`"),
        };
        Failure::new(ErrorClass::Input, format!("{what} cannot be written: {why}"))
            .hint("`--save FILE` names a file that is not there yet")
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The workflow's name as the name of a file: lower-case words.
fn file_name(workflow: &str) -> String {
    let words = workflow.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join("-").to_lowercase().chars().take(NAME_CHARS).collect();
    if name.is_empty() { "plan".to_owned() } else { name }
}

/// As it is typed in a shell.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_after_their_workflows() {
        for (workflow, wanted) in [
            ("compare-licences", "compare-licences"),
            ("Audit the API!", "audit-the-api"),
            ("../../etc/passwd", "etc-passwd"),
            ("Ünïcode 日本", "n-code"),
            ("日本", "plan"),
            (&"x".repeat(99), &"x".repeat(40)),
        ] {
            assert_eq!(file_name(workflow), wanted);
        }
    }

    #[test]
    fn commands_can_be_pasted() {
        assert_eq!(shell_word("/home/a/plan.yaml"), "/home/a/plan.yaml");
        assert_eq!(shell_word("my plans/it's.yaml"), r"'my plans/it'\''s.yaml'");
    }
}
