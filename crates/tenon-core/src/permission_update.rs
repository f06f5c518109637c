//! Changes to what is allowed that come with an answer to a question of permission. What they do is
//! `tenon-tools/src/permission.rs`; how clients write them is `tenon-wire/src/input/permission_update.rs`.

use std::path::PathBuf;

use crate::ApprovalMode;

/// One change, and for how long it was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionUpdate {
    pub change: PermissionChange,
    pub destination: Destination,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionChange {
    AddRules {
        behavior: RuleBehavior,
        rules: Vec<String>,
    },
    /// These, and no others that came with an answer.
    ReplaceRules {
        behavior: RuleBehavior,
        rules: Vec<String>,
    },
    RemoveRules {
        behavior: RuleBehavior,
        rules: Vec<String>,
    },
    SetMode(ApprovalMode),
    AddDirectories(Vec<PathBuf>),
    RemoveDirectories(Vec<PathBuf>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleBehavior {
    Allow,
    Ask,
    Deny,
}

/// Where a client wants a change to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Session,
    /// A file of settings, as the client calls it. Nothing is written there.
    Settings(String),
}

/// All changes of one answer, and what could not be read of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionUpdates {
    pub updates: Vec<PermissionUpdate>,
    pub problems: Vec<String>,
}

impl PermissionUpdates {
    pub fn is_empty(&self) -> bool {
        self.updates.is_empty() && self.problems.is_empty()
    }
}
