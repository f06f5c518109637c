//! May this call run? Deny rules, then ask rules, then allow rules, then the mode.
//!
//! What rules mean for a command line is in `permission/shell.rs`; how they change while a run goes on is in
//! `permission/changes.rs`. The answer depends on the call alone. Who is asked, and what happens when nobody answers,
//! is the agent's business; which tools exist at all is in `registry.rs`.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tenon_core::{ApprovalMode, Args, ToolKind, ToolSpec};

use crate::file_words;
use crate::path_rule::{Bases, PathMatcher};
use crate::paths::{self, Trace};
use crate::rule::{NAMED_BY, Specifier};
use crate::{Rule, RuleError};

mod changes;
mod shell;

pub use changes::Permissions;
use shell::ShellCall;

/// The argument that names a tool's file.
const PATH_ARGUMENTS: &[(&str, &str)] = &[
    ("read_file", "file_path"),
    ("write_file", "file_path"),
    ("edit", "file_path"),
    ("list_directory", "path"),
    ("glob", "path"),
    ("grep_search", "path"),
];

impl InForce {
    pub fn decide(&self, spec: &ToolSpec, args: &Args) -> Verdict {
        let call = Call { spec, args, path: self.path_of(spec, args), shell: self.shell_call(spec, args) };
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
        match call.shell.as_ref().map(|shell| self.covered(&call, shell)) {
            Some(Ok(rules)) => Verdict::Allow { why: AllowedBy::Rule(rules) },
            Some(Err(uncovered)) => self.by_mode(&call, Some(uncovered)),
            None => self.by_mode(&call, None),
        }
    }

    /// Whether a deny rule takes the tool away altogether, so that the model is not even offered it.
    pub fn removes(&self, tool: &str) -> bool {
        self.rules.deny.iter().any(|rule| rule.rule.is_whole() && rule.rule.covers(tool))
    }

    /// Why no call of this tool can run while nobody is there to be asked. A narrowed allow rule lets some run.
    pub fn forbids(&self, spec: &ToolSpec) -> Option<Forbidden> {
        let speaks_of_it = |rule: &ReadyRule| rule.rule.covers(&spec.name);
        if let Some(rule) =
            self.rules.deny.iter().find(|rule| rule.rule.is_whole() && rule.rule.covers(&spec.name))
        {
            return Some(Forbidden {
                reason: format!("`{}` is denied by the rule `{}`", spec.name, rule.rule),
                hint: format!("take `{}` out of `--exclude-tools` or `permissions.deny`", rule.rule),
            });
        }
        if let Some(rule) =
            self.rules.ask.iter().find(|rule| rule.rule.is_whole() && rule.rule.covers(&spec.name))
        {
            return Some(Forbidden {
                reason: format!("the rule `{}` asks before `{}` runs", rule.rule, spec.name),
                hint: format!("take `{}` out of `permissions.ask` to stop asking", rule.rule),
            });
        }
        match (self.mode, spec.kind) {
            (_, ToolKind::Read) | (ApprovalMode::Yolo, _) | (ApprovalMode::AutoEdit, ToolKind::Edit) => None,
            (ApprovalMode::Plan, _) => Some(Forbidden {
                reason: format!("`plan` mode only reads, and `{}` does more", spec.name),
                hint: format!("`--approval-mode {}` allows it", allowing_mode(spec).name()),
            }),
            _ if self.rules.allow.iter().any(speaks_of_it) => None,
            (mode, _) => Some(Forbidden {
                reason: format!(
                    "`{}` {}, which `{}` mode allows only with approval",
                    spec.name,
                    does(spec.kind),
                    mode.name()
                ),
                hint: hint(spec),
            }),
        }
    }

    /// The domains that allow rules name for `web_fetch`.
    pub fn allowed_domains(&self) -> Vec<String> {
        let domain = |rule: &ReadyRule| {
            let text = rule.rule.to_string();
            let inner = text.split_once('(')?.1.strip_suffix(')')?;
            Some(inner.trim().strip_prefix("domain:")?.trim().to_owned())
        };
        self.rules.allow.iter().filter(|rule| rule.rule.tool() == "web_fetch").filter_map(domain).collect()
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

/// Why a tool is of no use, and what would change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    pub reason: String,
    pub hint: String,
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
    /// A copy of the project that is worked in. What is protected in it counts from there: it may itself lie in a folder
    /// that is.
    pub copy: Option<PathBuf>,
}

/// The rules and the mode at one moment. Cheap to clone.
#[derive(Clone, Debug)]
struct InForce {
    mode: ApprovalMode,
    rules: Arc<Rules>,
}

#[derive(Clone, Debug)]
struct Rules {
    allow: Vec<ReadyRule>,
    ask: Vec<ReadyRule>,
    deny: Vec<ReadyRule>,
    cwd: PathBuf,
    home: Option<PathBuf>,
    copy: Option<PathBuf>,
}

/// A rule with its path, if it has one, bound to the folders of this run.
#[derive(Clone, Debug)]
struct ReadyRule {
    rule: Rule,
    paths: Option<PathMatcher>,
    from: RuleFrom,
}

/// Who made a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleFrom {
    /// Flags and settings.
    Start,
    /// An answer to a question, while the run went on.
    Answer,
}

struct Call<'a> {
    spec: &'a ToolSpec,
    args: &'a Args,
    path: Option<Trace>,
    /// The command line of a tool that takes one.
    shell: Option<ShellCall>,
}

impl InForce {
    fn denied_by_rule(&self, call: &Call<'_>) -> Option<Verdict> {
        let of_call = self.rules.deny.iter().find_map(|rule| Some((rule, rule.hit(call)?)));
        let of_line = || self.line_hit(&self.rules.deny, call);
        let (rule, hit) = match of_call.or_else(of_line) {
            Some(found) => found,
            None => return self.unknowable(call),
        };
        let reason = match hit {
            Hit::Call => format!("`{}` is denied by the rule `{}`", call.spec.name, rule.rule),
            Hit::Part(part) => format!("`{part}` is denied by the rule `{}`", rule.rule),
            Hit::Unknown(what) => format!("{what}, and the rule `{}` denies some", rule.rule),
        };
        Some(Verdict::Deny { reason, hint: None })
    }

    fn asked_by_rule(&self, call: &Call<'_>) -> Option<Verdict> {
        let of_call = self.rules.ask.iter().find_map(|rule| Some((rule, rule.hit(call)?)));
        let (rule, hit) = of_call.or_else(|| self.line_hit(&self.rules.ask, call))?;
        let reason = match hit {
            Hit::Call => format!("the rule `{}` asks before `{}` runs", rule.rule, call.spec.name),
            Hit::Part(part) => format!("the rule `{}` asks before `{part}` is used", rule.rule),
            Hit::Unknown(what) => format!("{what}, and the rule `{}` asks about some", rule.rule),
        };
        Some(Verdict::Ask {
            reason,
            hint: format!("take `{}` out of `permissions.ask` to stop asking", rule.rule),
        })
    }

    /// Files through which an edit would later run programs or change what is allowed.
    fn protected(&self, call: &Call<'_>) -> Option<Verdict> {
        if self.mode == ApprovalMode::Yolo {
            return None;
        }
        let edited = call.path.as_ref().filter(|_| call.spec.kind == ToolKind::Edit);
        let path = match (edited, &call.shell) {
            (Some(trace), _) => trace.names().find(|name| self.is_protected(name))?.to_owned(),
            (None, Some(shell)) => self.protected_write(shell)?,
            (None, None) => return None,
        };
        Some(Verdict::Deny {
            reason: format!("`{}` is protected from changes", self.show(&path)),
            hint: Some("only `--approval-mode yolo` lifts this protection".to_owned()),
        })
    }

    fn is_protected(&self, path: &Path) -> bool {
        let in_copy = self.rules.copy.as_ref().and_then(|copy| path.strip_prefix(copy).ok());
        is_protected(in_copy.unwrap_or(path))
    }

    /// `uncovered` says what kept narrowed allow rules from covering a command.
    fn by_mode(&self, call: &Call<'_>, uncovered: Option<String>) -> Verdict {
        let spec = call.spec;
        match (spec.kind, self.mode) {
            (ToolKind::Read, _) => return Verdict::Allow { why: AllowedBy::ReadOnly },
            (_, ApprovalMode::Yolo) | (ToolKind::Edit, ApprovalMode::AutoEdit) => {
                return Verdict::Allow { why: AllowedBy::Mode(self.mode) };
            }
            _ => {}
        }
        let does = does(spec.kind);
        let mut reason =
            format!("`{}` {does}, which `{}` mode allows only with approval", spec.name, self.mode.name());
        let narrowed = |rule: &&ReadyRule| !rule.rule.is_whole() && rule.rule.covers(&spec.name);
        if let Some(why) = uncovered.filter(|_| self.rules.allow.iter().any(|rule| narrowed(&rule))) {
            reason.push_str(&format!("; no allow rule covers it: {why}"));
        }
        Verdict::Ask { reason, hint: hint(spec) }
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
    /// A file, or a part of a command line.
    Part(String),
    /// It may: this cannot be told.
    Unknown(String),
}

impl ReadyRule {
    fn new(rule: Rule, bases: &Bases, from: RuleFrom) -> Result<ReadyRule, RuleError> {
        let paths = match rule.specifier() {
            Specifier::Path(pattern) => Some(
                PathMatcher::new(pattern, bases)
                    .map_err(|why| RuleError::Path { rule: rule.to_string(), why })?,
            ),
            Specifier::Whole
            | Specifier::Command(_)
            | Specifier::Domain(_)
            | Specifier::Named { .. }
            | Specifier::Other => None,
        };
        Ok(ReadyRule { rule, paths, from })
    }

    /// For deny and ask rules: in doubt the rule applies. Rules on commands are `line_hit`'s.
    fn hit(&self, call: &Call<'_>) -> Option<Hit> {
        if !self.rule.covers(&call.spec.name) {
            return None;
        }
        match self.rule.specifier() {
            Specifier::Whole | Specifier::Other => Some(Hit::Call),
            Specifier::Path(_) => {
                let trace = call.path.as_ref()?;
                self.names(trace).then(|| Hit::Part(trace.lexical.display().to_string()))
            }
            Specifier::Domain(domain) => match call.host() {
                None => Some(Hit::Call),
                Some(host) => is_within(&host, domain).then_some(Hit::Part(host)),
            },
            Specifier::Named { .. } => self.is_named(call).then_some(Hit::Call),
            Specifier::Command(_) => None,
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
                Specifier::Domain(domain) => call.host().is_some_and(|host| is_exactly(&host, domain)),
                Specifier::Named { .. } => self.is_named(call),
                Specifier::Command(_) | Specifier::Other => false,
            }
    }

    fn is_named(&self, call: &Call<'_>) -> bool {
        let Specifier::Named { name, arguments } = self.rule.specifier() else { return false };
        let is = |argument: &str, value: &str| call.args.get(argument).and_then(Value::as_str) == Some(value);
        let named = NAMED_BY.iter().find(|(tool, _)| *tool == call.spec.name).map(|(_, argument)| *argument);
        let name_fits = match (name, named) {
            (None, _) => true,
            (Some(name), Some(argument)) => is(argument, name),
            (Some(_), None) => false,
        };
        name_fits && arguments.iter().all(|(argument, value)| is(argument, value))
    }

    fn names(&self, trace: &Trace) -> bool {
        self.paths.as_ref().is_some_and(|paths| trace.names().any(|name| paths.matches(name)))
    }
}

impl Call<'_> {
    /// The host of the address this call fetches.
    fn host(&self) -> Option<String> {
        self.args.get("url").and_then(Value::as_str).and_then(file_words::host)
    }
}

/// For deny and ask rules: the host and all below it.
fn is_within(host: &str, domain: &str) -> bool {
    let domain = domain.strip_prefix("*.").unwrap_or(domain);
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// For allow rules: the host alone, or with `*.` those below it.
fn is_exactly(host: &str, domain: &str) -> bool {
    match domain.strip_prefix("*.") {
        Some(parent) => host != parent && is_within(host, parent),
        None => host == domain,
    }
}

fn does(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read | ToolKind::Other => "has effects",
        ToolKind::Edit => "changes files",
        ToolKind::Execute => "runs commands",
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
