//! May this call run? Deny rules, then ask rules, then allow rules, then the mode.
//!
//! The answer depends on the call alone. Who is asked, and what happens when nobody answers, is the
//! agent's business; which tools exist at all is in `registry.rs`.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tenon_core::{ApprovalMode, Args, ToolKind, ToolSpec};

use crate::path_rule::{Bases, PathMatcher};
use crate::paths::{self, Trace};
use crate::rule::Specifier;
use crate::shell_rule::{self, Mention};
use crate::{Rule, RuleError};

const SHELL: &str = "run_shell_command";
/// The argument that names a tool's file.
const PATH_ARGUMENTS: &[(&str, &str)] = &[
    ("read_file", "file_path"),
    ("write_file", "file_path"),
    ("edit", "file_path"),
    ("list_directory", "path"),
    ("glob", "path"),
    ("grep_search", "path"),
];

impl Permissions {
    pub fn decide(&self, spec: &ToolSpec, args: &Args) -> Verdict {
        let call = Call { spec, args, path: self.path_of(spec, args) };
        if let Some(verdict) = self.denied_by_rule(&call) {
            return verdict;
        }
        if let Some(verdict) = self.protected(&call) {
            return verdict;
        }
        if self.mode == ApprovalMode::Plan && spec.kind != ToolKind::Read {
            return Verdict::Deny {
                reason: format!("`plan` mode only reads, so `{}` was refused", spec.name),
                hint: Some(format!("`--approval-mode {}` allows it", allowing_mode(spec).name())),
            };
        }
        if let Some(verdict) = self.asked_by_rule(&call) {
            return verdict;
        }
        if let Some(rule) = self.rules.allow.iter().find(|rule| rule.allows(&call)) {
            return Verdict::Allow { why: AllowedBy::Rule(rule.rule.to_string()) };
        }
        self.by_mode(&call)
    }

    /// Whether a deny rule takes the tool away altogether, so that the model is not even offered it.
    pub fn removes(&self, tool: &str) -> bool {
        self.rules.deny.iter().any(|rule| rule.rule.is_whole() && rule.rule.covers(tool))
    }

    /// Whether searches and listings must pass over this file: a rule forbids reading it, or wants to be
    /// asked first, and a search asks nobody.
    pub fn hides(&self, path: &Path) -> bool {
        let mut rules = self
            .rules
            .deny
            .iter()
            .chain(&self.rules.ask)
            .filter(|rule| rule.rule.is_about_reading() && rule.paths.is_some())
            .peekable();
        // Most runs have no such rule, and following a path costs a look at every folder on the way.
        if rules.peek().is_none() {
            return false;
        }
        let trace = self.follow(path);
        rules.any(|rule| rule.names(&trace))
    }
}

/// What may happen to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow {
        why: AllowedBy,
    },
    /// Somebody has to agree. `hint` names the flag that would have made this unnecessary.
    Ask {
        reason: String,
        hint: String,
    },
    Deny {
        reason: String,
        hint: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedBy {
    /// It changes nothing.
    ReadOnly,
    Mode(ApprovalMode),
    /// The rule as it was written.
    Rule(String),
}

#[derive(Clone, Debug, Default)]
pub struct PermissionOptions {
    pub mode: ApprovalMode,
    pub allow: Vec<Rule>,
    pub ask: Vec<Rule>,
    pub deny: Vec<Rule>,
    /// Where relative paths start.
    pub cwd: PathBuf,
    /// Where a rule's `/` starts; `cwd` if it is not known.
    pub project_root: Option<PathBuf>,
    /// Where a rule's `~/` starts.
    pub home: Option<PathBuf>,
}

/// The rules of a run and its mode. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Permissions {
    mode: ApprovalMode,
    rules: Arc<Rules>,
}

#[derive(Debug)]
struct Rules {
    allow: Vec<ReadyRule>,
    ask: Vec<ReadyRule>,
    deny: Vec<ReadyRule>,
    cwd: PathBuf,
}

/// A rule with its path, if it has one, bound to the folders of this run.
#[derive(Debug)]
struct ReadyRule {
    rule: Rule,
    paths: Option<PathMatcher>,
}

struct Call<'a> {
    spec: &'a ToolSpec,
    args: &'a Args,
    path: Option<Trace>,
}

impl Permissions {
    pub fn new(options: PermissionOptions) -> Result<Permissions, RuleError> {
        let real =
            |path: &Path| paths::trace(Path::new("/"), path).map_or_else(|_| path.to_owned(), |t| t.real);
        let cwd = real(&options.cwd);
        let bases = Bases {
            project_root: options.project_root.as_deref().map_or_else(|| cwd.clone(), real),
            home: options.home.as_deref().map(real),
            cwd: cwd.clone(),
        };
        let ready = |rules: Vec<Rule>| rules.into_iter().map(|rule| ReadyRule::new(rule, &bases)).collect();
        let allow: Result<Vec<ReadyRule>, RuleError> = ready(options.allow);
        let ask: Result<Vec<ReadyRule>, RuleError> = ready(options.ask);
        let deny: Result<Vec<ReadyRule>, RuleError> = ready(options.deny);
        let rules = Rules { allow: allow?, ask: ask?, deny: deny?, cwd };
        Ok(Permissions { mode: options.mode, rules: Arc::new(rules) })
    }

    pub fn mode(&self) -> ApprovalMode {
        self.mode
    }

    /// The same rules in another mode.
    pub fn with_mode(&self, mode: ApprovalMode) -> Permissions {
        Permissions { mode, rules: self.rules.clone() }
    }

    fn denied_by_rule(&self, call: &Call<'_>) -> Option<Verdict> {
        let (rule, hit) = self.rules.deny.iter().find_map(|rule| Some((rule, rule.hit(call)?)))?;
        let tool = &call.spec.name;
        let reason = match hit {
            Hit::Call => format!("`{tool}` is denied by the rule `{}`", rule.rule),
            Hit::Path(path) => format!("`{path}` is denied by the rule `{}`", rule.rule),
            Hit::Unknowable => format!(
                "the rule `{}` denies commands whose text does not show what they run (expansions, `eval`, another shell)",
                rule.rule
            ),
        };
        Some(Verdict::Deny { reason, hint: None })
    }

    fn asked_by_rule(&self, call: &Call<'_>) -> Option<Verdict> {
        let (rule, hit) = self.rules.ask.iter().find_map(|rule| Some((rule, rule.hit(call)?)))?;
        let reason = match hit {
            Hit::Call => format!("the rule `{}` asks before `{}` runs", rule.rule, call.spec.name),
            Hit::Path(path) => format!("the rule `{}` asks before `{path}` is used", rule.rule),
            Hit::Unknowable => {
                format!(
                    "the rule `{}` asks before a command whose text does not show what it runs",
                    rule.rule
                )
            }
        };
        Some(Verdict::Ask {
            reason,
            hint: format!("take `{}` out of `permissions.ask` to stop asking", rule.rule),
        })
    }

    /// Files through which an edit would later run programs or change what is allowed.
    fn protected(&self, call: &Call<'_>) -> Option<Verdict> {
        if self.mode == ApprovalMode::Yolo || call.spec.kind != ToolKind::Edit {
            return None;
        }
        let path = call.path.as_ref()?.names().find(|name| is_protected(name))?;
        Some(Verdict::Deny {
            reason: format!("`{}` is protected from changes", self.show(path)),
            hint: Some("only `--approval-mode yolo` lifts this protection".to_owned()),
        })
    }

    fn by_mode(&self, call: &Call<'_>) -> Verdict {
        let spec = call.spec;
        match (spec.kind, self.mode) {
            (ToolKind::Read, _) => return Verdict::Allow { why: AllowedBy::ReadOnly },
            (_, ApprovalMode::Yolo) | (ToolKind::Edit, ApprovalMode::AutoEdit) => {
                return Verdict::Allow { why: AllowedBy::Mode(self.mode) };
            }
            _ => {}
        }
        let does = match spec.kind {
            ToolKind::Read | ToolKind::Other => "has effects",
            ToolKind::Edit => "changes files",
            ToolKind::Execute => "runs commands",
        };
        let mut hint = hint(spec);
        let narrowed = |rule: &&ReadyRule| !rule.rule.is_whole() && rule.rule.covers(&spec.name);
        if let Some(rule) = self.rules.allow.iter().find(narrowed)
            && spec.name == SHELL
        {
            hint.push_str(&format!(
                "; `{}` does not allow commands yet, because they are not parsed",
                rule.rule
            ));
        }
        Verdict::Ask {
            reason: format!(
                "`{}` {does}, which `{}` mode allows only with approval",
                spec.name,
                self.mode.name()
            ),
            hint,
        }
    }

    fn path_of(&self, spec: &ToolSpec, args: &Args) -> Option<Trace> {
        let (_, argument) = PATH_ARGUMENTS.iter().find(|(tool, _)| *tool == spec.name)?;
        match args.get(*argument) {
            Some(Value::String(path)) => Some(self.follow(Path::new(path))),
            // The search tools start in the working folder.
            _ => Some(self.follow(Path::new("."))),
        }
    }

    fn follow(&self, path: &Path) -> Trace {
        paths::trace(&self.rules.cwd, path).unwrap_or_else(|_| {
            let lexical = paths::fold(&self.rules.cwd.join(path));
            Trace { real: lexical.clone(), lexical, passed: Vec::new() }
        })
    }

    fn show(&self, path: &Path) -> String {
        path.strip_prefix(&self.rules.cwd).unwrap_or(path).display().to_string()
    }
}

/// How a deny or ask rule applies to a call.
enum Hit {
    Call,
    Path(String),
    Unknowable,
}

impl ReadyRule {
    fn new(rule: Rule, bases: &Bases) -> Result<ReadyRule, RuleError> {
        let paths = match rule.specifier() {
            Specifier::Path(pattern) => Some(
                PathMatcher::new(pattern, bases)
                    .map_err(|why| RuleError::Path { rule: rule.to_string(), why })?,
            ),
            Specifier::Whole | Specifier::Command(_) | Specifier::Other => None,
        };
        Ok(ReadyRule { rule, paths })
    }

    /// For deny and ask rules: in doubt the rule applies.
    fn hit(&self, call: &Call<'_>) -> Option<Hit> {
        if !self.rule.covers(&call.spec.name) {
            return None;
        }
        match self.rule.specifier() {
            Specifier::Whole | Specifier::Other => Some(Hit::Call),
            Specifier::Path(_) => {
                let trace = call.path.as_ref()?;
                self.names(trace).then(|| Hit::Path(trace.lexical.display().to_string()))
            }
            Specifier::Command(specifier) => {
                let command = call.args.get("command").and_then(Value::as_str)?;
                match shell_rule::mention(command, specifier) {
                    Mention::None => None,
                    Mention::Program => Some(Hit::Call),
                    Mention::Unknowable => Some(Hit::Unknowable),
                }
            }
        }
    }

    /// For allow rules: in doubt the rule does not apply. What counts is the file that is really touched.
    fn allows(&self, call: &Call<'_>) -> bool {
        self.rule.covers(&call.spec.name)
            && match self.rule.specifier() {
                Specifier::Whole => true,
                Specifier::Path(_) => match (&self.paths, &call.path) {
                    (Some(paths), Some(trace)) => paths.matches(&trace.real),
                    _ => false,
                },
                Specifier::Command(_) | Specifier::Other => false,
            }
    }

    fn names(&self, trace: &Trace) -> bool {
        self.paths.as_ref().is_some_and(|paths| trace.names().any(|name| paths.matches(name)))
    }
}

/// What to pass so that nobody needs to be asked.
fn hint(spec: &ToolSpec) -> String {
    format!("`--allowed-tools {}` or `--approval-mode {}` allows it", spec.name, allowing_mode(spec).name())
}

/// The most careful mode that lets this tool run unasked.
fn allowing_mode(spec: &ToolSpec) -> ApprovalMode {
    match spec.kind {
        ToolKind::Read => ApprovalMode::Default,
        ToolKind::Edit => ApprovalMode::AutoEdit,
        ToolKind::Execute | ToolKind::Other => ApprovalMode::Yolo,
    }
}

/// `.git/hooks`, `.git/config` (also of submodules and worktrees), a `.git` that points elsewhere,
/// `.tenon/` and `.mcp.json`, in any folder, in any case (some file systems do not tell the difference).
fn is_protected(path: &Path) -> bool {
    let parts: Vec<String> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().to_lowercase()),
            _ => None,
        })
        .collect();
    let in_git = parts.iter().position(|part| part == ".git").map(|at| &parts[at + 1..]);
    let git = in_git.is_some_and(|inner| {
        inner.is_empty() || inner.iter().any(|part| part == "hooks" || part.starts_with("config"))
    });
    git || parts.iter().any(|part| part == ".tenon") || parts.last().is_some_and(|part| part == ".mcp.json")
}
