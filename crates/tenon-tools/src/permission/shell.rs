//! What rules mean for a command line: every program it runs, every file it plainly touches.
//!
//! The most restrictive part decides. `command_parse.rs` says what the parts are, `shell_rule.rs` whether
//! a rule is about one.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tenon_core::{ApprovalMode, Args, ToolSpec};

use super::{Call, Hit, InForce, ReadyRule, Verdict, is_within};
use crate::bash_builtins as builtins;
use crate::command_parse::{
    self, CommandLine, FileAccess, FileUse, How, Invocation, Move, Part, Role, Unreadable, base_name,
};
use crate::command_word::Word;
use crate::file_glob;
use crate::paths::Trace;
use crate::program_options::HazardKind;
use crate::rule::{self, Specifier};

/// A line that changes folders more often than this leads anywhere.
const MAX_FOLDERS: usize = 16;
/// Where anybody may write: nothing is kept there.
const SINKS: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full"];
/// A part is quoted in a message up to here.
const SHOWN: usize = 80;

/// A command line with the folders its relative paths may start in.
pub(super) struct ShellCall {
    line: Result<CommandLine, Unreadable>,
    /// `None` if they cannot be known.
    folders: Option<Vec<PathBuf>>,
}

impl InForce {
    pub(super) fn shell_call(&self, spec: &ToolSpec, args: &Args) -> Option<ShellCall> {
        if !rule::runs_commands(&spec.name) {
            return None;
        }
        let command = args.get("command").and_then(Value::as_str)?;
        let given = args.get("directory").and_then(Value::as_str).unwrap_or_default();
        let line = command_parse::parse(command, self.rules.home.as_deref());
        let folders = match &line {
            Ok(line) => folders(&self.follow(Path::new(given)).real, &line.moves),
            Err(_) => None,
        };
        Some(ShellCall { line, folders })
    }

    /// The first of these rules that one of the line's parts falls under.
    pub(super) fn line_hit<'r>(
        &self,
        rules: &'r [ReadyRule],
        call: &Call<'_>,
    ) -> Option<(&'r ReadyRule, Hit)> {
        let shell = call.shell.as_ref()?;
        let Ok(line) = &shell.line else { return None };
        // A rule on commands is about the tools it covers; one on files or hosts, about whoever touches them.
        let concerned = |rule: &&ReadyRule| {
            !matches!(rule.rule.specifier(), Specifier::Command(_)) || rule.rule.covers(&call.spec.name)
        };
        rules.iter().filter(concerned).find_map(|rule| {
            let hit = line.parts.iter().find_map(|part| self.part_hit(rule, part, shell))?;
            Some((rule, hit))
        })
    }

    fn part_hit(&self, rule: &ReadyRule, part: &Part, shell: &ShellCall) -> Option<Hit> {
        match (rule.rule.specifier(), part) {
            (Specifier::Command(pattern), Part::Runs(call)) => {
                pattern.may_cover(call).then(|| Hit::Part(shown(call)))
            }
            (Specifier::Path(_), Part::File(file)) => {
                let concerned = match file.access {
                    FileAccess::Read => rule.rule.is_about_reading(),
                    FileAccess::Write => rule.rule.is_about_editing(),
                };
                concerned.then(|| self.file_hit(rule, file, shell)).flatten()
            }
            (Specifier::Domain(domain), Part::Fetches(host)) => match host {
                Some(host) => is_within(host, domain).then(|| Hit::Part(host.clone())),
                None => Some(Hit::Unknown("the command fetches an address that is not known".to_owned())),
            },
            _ => None,
        }
    }

    fn file_hit(&self, rule: &ReadyRule, file: &FileUse, shell: &ShellCall) -> Option<Hit> {
        match self.traces(&file.path, shell) {
            Some(traces) => {
                let trace = traces.into_iter().find(|trace| rule.names(trace))?;
                Some(Hit::Part(self.show(&trace.lexical)))
            }
            // What a redirection writes is certain to be written, wherever that is.
            None if file.how == How::Redirection && file.access == FileAccess::Write => {
                Some(Hit::Unknown("the command writes a file whose name is not known".to_owned()))
            }
            None => None,
        }
    }

    /// A line whose programs cannot be told falls under every rule that forbids some.
    pub(super) fn unknowable(&self, call: &Call<'_>) -> Option<Verdict> {
        let shell = call.shell.as_ref()?;
        let mut rules = self.rules.deny.iter().chain(&self.rules.ask);
        let on_commands = |rule: &&ReadyRule| {
            matches!(rule.rule.specifier(), Specifier::Command(_)) && rule.rule.covers(&call.spec.name)
        };
        let (rule, why) = match &shell.line {
            Err(why) => {
                let narrowed = |rule: &&ReadyRule| {
                    on_commands(rule)
                        || matches!(rule.rule.specifier(), Specifier::Path(_) | Specifier::Domain(_))
                };
                (rules.find(narrowed)?, why.to_string())
            }
            Ok(line) => (rules.find(on_commands)?, line.parts.iter().find_map(why_unknowable)?),
        };
        Some(Verdict::Deny {
            reason: format!(
                "it cannot be told what this command runs ({why}), and the rule `{}` is about some",
                rule.rule
            ),
            hint: Some("write the command out plainly".to_owned()),
        })
    }

    pub(super) fn protected_write(&self, shell: &ShellCall) -> Option<PathBuf> {
        let Ok(line) = &shell.line else { return None };
        line.parts.iter().find_map(|part| {
            let Part::File(file @ FileUse { access: FileAccess::Write, .. }) = part else { return None };
            let traces = self.traces(&file.path, shell)?;
            traces
                .iter()
                .find_map(|trace| trace.names().find(|name| self.is_protected(name)).map(Path::to_owned))
        })
    }

    /// The narrowed allow rules that together cover the whole line, or what they leave uncovered.
    pub(super) fn covered(&self, call: &Call<'_>, shell: &ShellCall) -> Result<String, String> {
        let line = shell.line.as_ref().map_err(ToString::to_string)?;
        let mut used: Vec<String> = Vec::new();
        for part in &line.parts {
            let rule = match part {
                Part::Runs(program) => self.covers_program(call, program, line, shell)?,
                Part::Unknowable(why) => return Err(why.clone()),
                Part::Sets(name) => return Err(format!("it sets `{name}`")),
                Part::File(file) if file.access == FileAccess::Write && file.how == How::Redirection => {
                    self.covers_write(file, shell)?
                }
                Part::File(_) | Part::Fetches(_) => None,
            };
            used.extend(rule.filter(|rule| !used.contains(rule)));
        }
        if used.is_empty() { Err("none names a program of it".to_owned()) } else { Ok(used.join(", ")) }
    }

    /// The rule that covers a program; `None` for a program that needs none.
    fn covers_program(
        &self,
        call: &Call<'_>,
        program: &Invocation,
        line: &CommandLine,
        shell: &ShellCall,
    ) -> Result<Option<String>, String> {
        let unmoved = self.stays(line, shell);
        let name = base_name(&program.program);
        let cwd =
            shell.folders.as_ref().and_then(|folders| folders.first()).filter(|_| line.moves.is_empty());
        let rule = self.rules.allow.iter().find(|rule| {
            rule.rule.covers(&call.spec.name)
                && matches!(rule.rule.specifier(), Specifier::Command(pattern) if pattern.covers(program, cwd.map(PathBuf::as_path)))
        });
        if let Some(rule) = rule {
            return Ok(Some(rule.rule.to_string()));
        }
        match program.role {
            Role::Harmless | Role::PassesOn | Role::Script => Ok(None),
            Role::Plain if builtins::changes_folder(name) && unmoved => Ok(None),
            Role::Plain => Err(match program.hazards.first() {
                Some(hazard) if hazard.kind == HazardKind::Unknown => {
                    format!("`{}` has a word that may turn out to be any option", shown(program))
                }
                Some(hazard) => format!("`{}` of `{}` reaches beyond it", hazard.word, shown(program)),
                None => format!("`{}`", shown(program)),
            }),
        }
    }

    /// Whether the line stays inside the working folder, and runs nothing that obeys files it finds there.
    fn stays(&self, line: &CommandLine, shell: &ShellCall) -> bool {
        let obeys_folder =
            |part: &Part| matches!(part, Part::Runs(call) if base_name(&call.program) == "git");
        shell.folders.as_ref().is_some_and(|folders| {
            folders.iter().all(|folder| self.follow(folder).real.starts_with(&self.rules.cwd))
        }) && !line.parts.iter().any(obeys_folder)
    }

    /// A redirection is a change of a file, and is allowed as one.
    fn covers_write(&self, file: &FileUse, shell: &ShellCall) -> Result<Option<String>, String> {
        let Some(path) = file.path.known() else {
            return Err("it writes a file whose name is not known".to_owned());
        };
        if SINKS.contains(&path) {
            return Ok(None);
        }
        let uncovered = || format!("it writes `{path}`");
        let traces = self.traces(&file.path, shell).ok_or_else(uncovered)?;
        let in_workspace = || traces.iter().all(|trace| trace.real.starts_with(&self.rules.cwd));
        if self.mode == ApprovalMode::AutoEdit && in_workspace() {
            return Ok(None);
        }
        let allows = |rule: &&ReadyRule| {
            rule.rule.is_about_editing()
                && match rule.rule.specifier() {
                    Specifier::Whole => in_workspace(),
                    _ => rule
                        .paths
                        .as_ref()
                        .is_some_and(|paths| traces.iter().all(|trace| paths.matches(&trace.real))),
                }
        };
        let rule = self.rules.allow.iter().find(allows).ok_or_else(uncovered)?;
        Ok(Some(rule.rule.to_string()))
    }

    /// Every file a word may name; `None` if that cannot be told.
    fn traces(&self, word: &Word, shell: &ShellCall) -> Option<Vec<Trace>> {
        let places = |path: &str| -> Option<Vec<PathBuf>> {
            if path.starts_with('/') {
                return Some(vec![PathBuf::from(path)]);
            }
            Some(shell.folders.as_ref()?.iter().map(|folder| folder.join(path)).collect())
        };
        let paths = match word {
            Word::Known(path) => places(path)?,
            Word::Glob(pattern) => {
                places(pattern)?.iter().flat_map(|pattern| file_glob::expand(pattern)).collect()
            }
            Word::Unknown { .. } => return None,
        };
        Some(paths.iter().map(|path| self.follow(path)).collect())
    }
}

fn why_unknowable(part: &Part) -> Option<String> {
    match part {
        Part::Unknowable(why) => Some(why.clone()),
        Part::Runs(call) => {
            let hazard = call.hazards.iter().find(|hazard| hazard.kind == HazardKind::Runs)?;
            Some(format!("`{}` makes `{}` run another program", hazard.word, base_name(&call.program)))
        }
        Part::Sets(_) | Part::File(_) | Part::Fetches(_) => None,
    }
}

/// Every folder the line may be in at some point.
fn folders(start: &Path, moves: &[Move]) -> Option<Vec<PathBuf>> {
    let mut folders = vec![start.to_owned()];
    for step in moves {
        let Move::To(target) = step else { return None };
        let next: Vec<PathBuf> = folders.iter().map(|folder| folder.join(target)).collect();
        next.into_iter().for_each(|folder| {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        });
        if folders.len() > MAX_FOLDERS {
            return None;
        }
    }
    Some(folders)
}

/// A program as it was called, for a message.
fn shown(call: &Invocation) -> String {
    let words = call.args.iter().map(|word| match word {
        Word::Known(text) => text.clone(),
        Word::Glob(pattern) => pattern.replace('\\', ""),
        Word::Unknown { prefix, .. } => format!("{prefix}…"),
    });
    let text = std::iter::once(call.program.clone()).chain(words).collect::<Vec<_>>().join(" ");
    let text = text.replace(['\n', '`'], " ");
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
