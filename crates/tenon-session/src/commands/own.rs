//! Commands of the user's own and of the project: a prompt in a file, with what was typed put into it.
//!
//! Nothing is run: the text goes to the model, with the files that it names with `@` (`at.rs`). Where the files lie and how
//! they are read is `tenon-config/src/command_files.rs`.

use std::path::PathBuf;
use std::sync::Arc;

use tenon_core::Failure;
use tenon_tools::Workspace;

use super::{ListedCommand, Submitting, at, refused, shown};

/// Both stand for what was typed after the name.
const ARGUMENTS: [&str; 2] = ["{{args}}", "$ARGUMENTS"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCommand {
    /// Such as `git:commit`.
    pub name: String,
    pub description: String,
    pub argument_hint: String,
    pub prompt: String,
    pub path: PathBuf,
    pub from: OwnSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnSource {
    User,
    Project,
    /// Nobody has said that this project may put words into the user's mouth.
    UntrustedProject,
}

impl OwnCommand {
    pub(super) fn listed(&self) -> ListedCommand {
        let described = match self.description.as_str() {
            "" => "A prompt from a file.",
            said => said,
        };
        let from = match self.from {
            OwnSource::User => "",
            OwnSource::Project => " (project)",
            OwnSource::UntrustedProject => " (project, not trusted)",
        };
        ListedCommand {
            name: self.name.clone(),
            description: format!("{described}{from}"),
            argument_hint: self.argument_hint.clone(),
        }
    }

    pub(super) fn run(&self, args: &str, workspace: &Arc<Workspace>) -> Result<Submitting, Failure> {
        if self.from == OwnSource::UntrustedProject {
            return Err(refused(format!(
                "`/{}` is a command of this project, and the project is not trusted",
                self.name
            ))
            .hint("read its file, then run `tenon trust`, or add `--trust-project` for this run"));
        }
        if let Some(command) = shell_in(&self.prompt) {
            return Err(refused(format!(
                "`/{}` wants `{command}` to be run (`!{{…}}`), and commands of your own run nothing",
                self.name
            ))
            .hint("ask the model to run it, or pipe what it prints: `… | tenon -p /NAME`"));
        }
        Ok(at::submitting(self.with(args.trim()), workspace))
    }

    /// The prompt with what was typed in its place, or after it where it has none.
    fn with(&self, args: &str) -> String {
        let has_place = ARGUMENTS.iter().any(|place| self.prompt.contains(place));
        if !has_place {
            return match args {
                "" => self.prompt.clone(),
                args => format!("{}\n\n{args}", self.prompt),
            };
        }
        // From left to right, so that what was typed is never looked at for places itself.
        let mut filled = String::with_capacity(self.prompt.len() + args.len());
        let mut rest = self.prompt.as_str();
        while let Some((at, place)) =
            ARGUMENTS.iter().filter_map(|place| Some((rest.find(place)?, *place))).min()
        {
            filled.push_str(&rest[..at]);
            filled.push_str(args);
            rest = &rest[at + place.len()..];
        }
        filled.push_str(rest);
        filled
    }
}

/// What other tools would run in a shell and put in its place. `println!{…}` is none: a word stands before it.
fn shell_in(prompt: &str) -> Option<String> {
    let mut before = "";
    let mut rest = prompt;
    while let Some(at) = rest.find("!{") {
        before = if at > 0 { &rest[..at] } else { before };
        let follows_a_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let command = rest[at + 2..].split(['}', '\n']).next().unwrap_or_default().trim();
        if !follows_a_word && !command.is_empty() {
            return Some(shown(command));
        }
        (before, rest) = rest.split_at(at + 2);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_take_their_places() {
        let table = [
            ("Do it.", "", "Do it."),
            ("Do it.", "now", "Do it.\n\nnow"),
            ("Do {{args}} and $ARGUMENTS.", "a", "Do a and a."),
            ("Do {{args}}.", "{{args}} $ARGUMENTS", "Do {{args}} $ARGUMENTS."),
            ("Do {{args}}.", "", "Do ."),
        ];
        for (prompt, args, wanted) in table {
            let command = OwnCommand {
                name: "c".into(),
                description: String::new(),
                argument_hint: String::new(),
                prompt: prompt.into(),
                path: PathBuf::new(),
                from: OwnSource::User,
            };
            assert_eq!(command.with(args), wanted);
        }
    }
}
