//! Which folder is the project, and the files in it that decide what may happen.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::agent_files::{RawAgentFile, read_agent_folder};
use crate::command_files::{RawCommandFile, read_command_folder};
use crate::config_error::ConfigError;
use crate::files::{Confine, Found, Size, read_capped};
use crate::skill_files::{RawSkillFile, read_skill_folder};
use crate::surroundings::Surroundings;

/// A settings file larger than this is something else.
pub(crate) const MAX_SETTINGS_BYTES: u64 = 4 * 1024 * 1024;

pub(crate) const SETTINGS_FILE: &str = ".tenon/settings.json";
pub(crate) const MCP_FILE: &str = ".mcp.json";
pub(crate) const PROJECT_AGENTS: &str = ".tenon/agents";
pub(crate) const PROJECT_SKILLS: &str = ".tenon/skills";
pub(crate) const PROJECT_COMMANDS: &str = ".tenon/commands";

/// The nearest folder from `cwd` upwards that holds `.git` or `.tenon`, else `cwd`. Canonical.
pub fn project_root(surroundings: &Surroundings) -> PathBuf {
    let cwd = canonical(&surroundings.cwd);
    let marked = cwd.ancestors().find(|folder| {
        let is_project =
            folder.join(".git").exists() || is_project_folder(&folder.join(".tenon"), surroundings);
        // Anybody can put a `.git` into `/tmp`; that does not make it the project of all below it.
        is_project && (*folder == cwd || !is_shared(folder))
    });
    marked.unwrap_or(&cwd).to_owned()
}

/// A project's `.tenon`, not the user's own, which would make the home folder a project.
fn is_project_folder(folder: &Path, surroundings: &Surroundings) -> bool {
    folder.is_dir() && !is_users_own(folder, surroundings)
}

fn is_users_own(folder: &Path, surroundings: &Surroundings) -> bool {
    let folder = canonical(folder);
    let default = surroundings.home.as_ref().map(|home| home.join(".tenon"));
    surroundings.tenon_home.iter().chain(&default).any(|own| canonical(own) == folder)
}

/// Writable by everybody, with the bit that keeps users apart: `/tmp` and its like.
fn is_shared(folder: &Path) -> bool {
    const STICKY_AND_WRITABLE_BY_ALL: u32 = 0o1002;
    fs::metadata(folder).is_ok_and(|metadata| {
        metadata.permissions().mode() & STICKY_AND_WRITABLE_BY_ALL == STICKY_AND_WRITABLE_BY_ALL
    })
}

/// The real path, or the given one where there is nothing.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The project's own settings, each file read once: what is pinned is what is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProjectFiles {
    pub(crate) root: PathBuf,
    pub(crate) settings: Option<Vec<u8>>,
    pub(crate) mcp: Option<Vec<u8>>,
    /// By file name.
    pub(crate) agents: Vec<RawAgentFile>,
    /// By the name of their folder.
    pub(crate) skills: Vec<RawSkillFile>,
    /// By their path below the folder of commands.
    pub(crate) commands: Vec<RawCommandFile>,
}

impl ProjectFiles {
    /// Settings that cannot be read are an error, for they may hold deny rules; `.mcp.json` only adds.
    pub(crate) fn read(
        surroundings: &Surroundings,
        warnings: &mut Vec<String>,
    ) -> Result<ProjectFiles, ConfigError> {
        let root = project_root(surroundings);
        // The home folder may be a project too (dotfiles in git); its `.tenon` is still the user's.
        let mut files = ProjectFiles::default();
        if !is_users_own(&root.join(".tenon"), surroundings) {
            let confine = Confine::Inside(&root);
            files.settings = read_settings_file(&root.join(SETTINGS_FILE), confine)?;
            files.agents = read_agent_folder(&root.join(PROJECT_AGENTS), confine, warnings);
            files.skills = read_skill_folder(&root.join(PROJECT_SKILLS), confine, warnings);
            files.commands = read_command_folder(&root.join(PROJECT_COMMANDS), confine, warnings);
        }
        files.mcp =
            read_settings_file(&root.join(MCP_FILE), Confine::Inside(&root)).unwrap_or_else(|error| {
                warnings.push(format!("{error}; it is ignored"));
                None
            });
        Ok(ProjectFiles { root, ..files })
    }
}

pub(crate) fn read_settings_file(path: &Path, confine: Confine<'_>) -> Result<Option<Vec<u8>>, ConfigError> {
    let unreadable = |reason: String| ConfigError::Unreadable { path: path.to_owned(), reason };
    match read_capped(path, MAX_SETTINGS_BYTES, confine) {
        Ok(Found::Missing) => Ok(None),
        Ok(Found::Bytes { bytes, size: Size::Whole }) => Ok(Some(bytes)),
        Ok(Found::Bytes { size: Size::Cut { .. }, .. }) => {
            Err(unreadable(format!("it is larger than {} MiB", MAX_SETTINGS_BYTES / 1024 / 1024)))
        }
        Err(problem) => Err(unreadable(problem.to_string())),
    }
}

pub(crate) fn as_text<'b>(path: &Path, bytes: &'b [u8]) -> Result<&'b str, ConfigError> {
    std::str::from_utf8(bytes).map_err(|error| ConfigError::Unreadable {
        path: path.to_owned(),
        reason: format!("it is not UTF-8 (byte {})", error.valid_up_to() + 1),
    })
}
