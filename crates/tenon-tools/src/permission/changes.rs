//! The permissions of a run: rules and a mode that may change while it goes on, for everybody who works in it.
//!
//! Clones are the same permissions: what an answer of the client allows holds for the running turn, its helpers
//! and the turns after it. A helper with a mode of its own keeps that mode. What a rule means is in `../permission.rs`.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use tenon_core::{ApprovalMode, Args, PermissionChange, RuleBehavior, ToolSpec};

use super::{Forbidden, InForce, PermissionOptions, ReadyRule, RuleFrom, Rules, Verdict};
use crate::path_rule::Bases;
use crate::paths;
use crate::{Rule, RuleError, Workspace};

/// What may happen in a run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Permissions {
    /// A mode that stays, whatever becomes of the one that is shared.
    own_mode: Option<ApprovalMode>,
    shared: Arc<RwLock<Shared>>,
}

#[derive(Debug)]
struct Shared {
    now: InForce,
    /// The mode that an approved plan goes back to.
    before_plan: ApprovalMode,
    bases: Bases,
    /// The folders that a change may add to.
    workspace: Weak<Workspace>,
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
        let ready = |rules: Vec<Rule>| {
            rules.into_iter().map(|rule| ReadyRule::new(rule, &bases, RuleFrom::Start)).collect()
        };
        let allow: Result<Vec<ReadyRule>, RuleError> = ready(options.allow);
        let ask: Result<Vec<ReadyRule>, RuleError> = ready(options.ask);
        let deny: Result<Vec<ReadyRule>, RuleError> = ready(options.deny);
        let copy = options.copy.as_deref().map(real);
        let rules = Rules { allow: allow?, ask: ask?, deny: deny?, cwd, home: bases.home.clone(), copy };
        let now = InForce { mode: options.mode, rules: Arc::new(rules) };
        let before_plan = match now.mode {
            ApprovalMode::Plan => ApprovalMode::default(),
            mode => mode,
        };
        let shared = Shared { now, before_plan, bases, workspace: Weak::new() };
        Ok(Permissions { own_mode: None, shared: Arc::new(RwLock::new(shared)) })
    }

    pub fn decide(&self, spec: &ToolSpec, args: &Args) -> Verdict {
        self.now().decide(spec, args)
    }

    /// Whether a deny rule takes the tool away altogether, so that the model is not even offered it.
    pub fn removes(&self, tool: &str) -> bool {
        self.now().removes(tool)
    }

    /// Why no call of this tool can run while nobody is there to be asked. A narrowed allow rule lets some run.
    pub fn forbids(&self, spec: &ToolSpec) -> Option<Forbidden> {
        self.now().forbids(spec)
    }

    /// The domains that allow rules name for `web_fetch`.
    pub fn allowed_domains(&self) -> Vec<String> {
        self.now().allowed_domains()
    }

    /// Whether searches and listings must pass over this file: a rule forbids reading it, or wants to be
    /// asked first, and a search asks nobody.
    pub fn hides(&self, path: &Path) -> bool {
        self.now().hides(path)
    }

    pub fn mode(&self) -> ApprovalMode {
        self.own_mode.unwrap_or_else(|| self.read().now.mode)
    }

    /// The same rules in a mode of their own, which no change reaches.
    pub fn with_mode(&self, mode: ApprovalMode) -> Permissions {
        Permissions { own_mode: Some(mode), shared: Arc::clone(&self.shared) }
    }

    /// For everybody who shares them, from here on.
    pub fn set_mode(&self, mode: ApprovalMode) {
        let mut shared = self.write();
        shared.now.mode = mode;
        if mode != ApprovalMode::Plan {
            shared.before_plan = mode;
        }
    }

    /// A plan was approved: the mode before it holds again. `None` where the plan's is a mode of its own.
    pub fn leave_plan(&self) -> Option<ApprovalMode> {
        if self.own_mode.is_some() {
            return None;
        }
        let mut shared = self.write();
        if shared.now.mode == ApprovalMode::Plan {
            shared.now.mode = shared.before_plan;
        }
        Some(shared.now.mode)
    }

    /// One more thing is allowed. What is denied or asked for stays so. The rule must name tools alone: a path has
    /// no folder here to start from.
    pub fn allow(&self, rule: Rule) {
        let mut shared = self.write();
        let rules = Arc::make_mut(&mut shared.now.rules);
        rules.allow.push(ReadyRule { rule, paths: None, from: RuleFrom::Start });
    }

    /// Further folders are opened here.
    pub fn open_folders_in(&self, workspace: &Arc<Workspace>) {
        self.write().workspace = Arc::downgrade(workspace);
    }

    /// What came with an answer, for everybody who shares them. On an error nothing has changed.
    pub fn change(&self, change: &PermissionChange) -> Result<(), String> {
        match change {
            PermissionChange::AddRules { behavior, rules } => {
                let added = self.ready(rules)?;
                self.rules(*behavior, |known| {
                    let is_new = |rule: &ReadyRule| known.iter().all(|other| !other.rule.is_same(&rule.rule));
                    let added: Vec<ReadyRule> = added.into_iter().filter(is_new).collect();
                    known.extend(added);
                });
            }
            PermissionChange::ReplaceRules { behavior, rules } => {
                let added = self.ready(rules)?;
                self.rules(*behavior, |known| {
                    known.retain(|rule| rule.from == RuleFrom::Start);
                    known.extend(added);
                });
            }
            PermissionChange::RemoveRules { behavior, rules } => {
                let removed = self.ready(rules)?;
                let of_start = self.rules(*behavior, |known| {
                    let is_removed =
                        |rule: &ReadyRule| removed.iter().any(|other| other.rule.is_same(&rule.rule));
                    known.retain(|rule| rule.from == RuleFrom::Start || !is_removed(rule));
                    known.iter().find(|rule| is_removed(rule)).map(|rule| rule.rule.to_string())
                });
                if let Some(rule) = of_start {
                    return Err(format!("`{rule}` is of the settings or a flag, and stays"));
                }
            }
            PermissionChange::SetMode(mode) => self.set_mode(*mode),
            PermissionChange::AddDirectories(paths) => {
                self.workspace()?.add_roots(paths).map_err(|error| error.to_string())?;
            }
            PermissionChange::RemoveDirectories(paths) => self.workspace()?.remove_roots(paths)?,
        }
        Ok(())
    }

    fn workspace(&self) -> Result<Arc<Workspace>, String> {
        self.read().workspace.upgrade().ok_or_else(|| "there is no workspace here to change".to_owned())
    }

    fn ready(&self, rules: &[String]) -> Result<Vec<ReadyRule>, String> {
        let shared = self.read();
        let ready = |text: &String| {
            let rule = Rule::parse(text).map_err(|error| error.to_string())?;
            if !rule.names_a_tool() {
                return Err(format!("there is no tool `{}`", rule.tool()));
            }
            ReadyRule::new(rule, &shared.bases, RuleFrom::Answer).map_err(|error| error.to_string())
        };
        rules.iter().map(ready).collect()
    }

    fn rules<T>(&self, behavior: RuleBehavior, change: impl FnOnce(&mut Vec<ReadyRule>) -> T) -> T {
        let mut shared = self.write();
        let rules = Arc::make_mut(&mut shared.now.rules);
        change(match behavior {
            RuleBehavior::Allow => &mut rules.allow,
            RuleBehavior::Ask => &mut rules.ask,
            RuleBehavior::Deny => &mut rules.deny,
        })
    }

    fn now(&self) -> InForce {
        let now = self.read().now.clone();
        InForce { mode: self.own_mode.unwrap_or(now.mode), ..now }
    }

    fn read(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}
