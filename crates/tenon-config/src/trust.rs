//! Is this project trusted? Decided by `trust.json` in `$TENON_HOME`, which pins the exact content of the
//! project's settings files by hash: a changed file is untrusted again.
//!
//! What an untrusted project may still do is in `tighten.rs`.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::agent_files::RawAgentFile;
use crate::command_files::RawCommandFile;
use crate::config_error::ConfigError;
use crate::files::{Confine, Found, Size, read_capped};
use crate::load::{read_project_mcp, read_project_settings};
use crate::problem::shown_path;
use crate::project::{
    MCP_FILE, PROJECT_AGENTS, PROJECT_COMMANDS, PROJECT_SKILLS, ProjectFiles, SETTINGS_FILE,
};
use crate::settings::Settings;
use crate::skill_files::RawSkillFile;
use crate::surroundings::Surroundings;
use crate::tighten::tighten;

const STORE_FILE: &str = "trust.json";
/// Tens of thousands of projects.
const MAX_STORE_BYTES: u64 = 16 * 1024 * 1024;

/// This project's trust, and what it would use it for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustReport {
    pub project_root: PathBuf,
    pub state: TrustState,
    /// Settings keys that only a trusted project may set.
    pub asks_for: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustState {
    Trusted,
    /// It was trusted, and its files are different now.
    Changed,
    Untrusted,
}

pub fn show(surroundings: &Surroundings) -> Result<TrustReport, ConfigError> {
    let files = ProjectFiles::read(surroundings, &mut Vec::new())?;
    let state = Store::read(tenon_home(surroundings)?)?.state(&files);
    report(files, state)
}

/// Trusts the project's files as they are now.
pub fn add(surroundings: &Surroundings) -> Result<TrustReport, ConfigError> {
    let home = tenon_home(surroundings)?;
    let files = ProjectFiles::read(surroundings, &mut Vec::new())?;
    let key = store_key(&files.root).ok_or_else(|| ConfigError::Untrustable {
        path: files.root.clone(),
        reason: "its path is not UTF-8".to_owned(),
    })?;
    let mut store = Store::read(home)?;
    let pinned = pin(&files);
    let report = report(files, TrustState::Trusted)?;
    store.projects.insert(key, pinned);
    store.write(home)?;
    Ok(report)
}

/// Forgets the project. The report says what it was before.
pub fn remove(surroundings: &Surroundings) -> Result<TrustReport, ConfigError> {
    let home = tenon_home(surroundings)?;
    let files = ProjectFiles::read(surroundings, &mut Vec::new())?;
    let mut store = Store::read(home)?;
    let before = store.state(&files);
    if store_key(&files.root).is_some_and(|key| store.projects.remove(&key).is_some()) {
        store.write(home)?;
    }
    Ok(TrustReport { project_root: files.root, state: before, asks_for: Vec::new() })
}

/// The state for a run. A store that cannot be believed trusts nobody, and says so.
pub(crate) fn state(
    surroundings: &Surroundings,
    files: &ProjectFiles,
    warnings: &mut Vec<String>,
) -> TrustState {
    let Some(home) = &surroundings.tenon_home else { return TrustState::Untrusted };
    match Store::read(home) {
        Ok(store) => store.state(files),
        Err(error) => {
            warnings.push(format!("no project is trusted: {error}"));
            TrustState::Untrusted
        }
    }
}

fn report(files: ProjectFiles, state: TrustState) -> Result<TrustReport, ConfigError> {
    let mut unseen = Vec::new();
    let (_, mut asks_for) = tighten(Settings::default(), read_project_settings(&files, &mut unseen)?);
    if !read_project_mcp(&files, &mut unseen)?.mcp_servers.is_empty() {
        asks_for.push(MCP_FILE.to_owned());
    }
    if !files.agents.is_empty() {
        asks_for.push(PROJECT_AGENTS.to_owned());
    }
    if !files.skills.is_empty() {
        asks_for.push(PROJECT_SKILLS.to_owned());
    }
    if !files.commands.is_empty() {
        asks_for.push(PROJECT_COMMANDS.to_owned());
    }
    Ok(TrustReport { project_root: files.root, state, asks_for })
}

fn tenon_home(surroundings: &Surroundings) -> Result<&Path, ConfigError> {
    surroundings.tenon_home.as_deref().ok_or(ConfigError::NoTenonHome)
}

fn store_key(root: &Path) -> Option<String> {
    root.to_str().map(str::to_owned)
}

/// A hash over names, presence, lengths and bytes, so that no two different sets of files agree.
fn pin(files: &ProjectFiles) -> Pin {
    let mut context = Context::new(&SHA256);
    for (name, content) in [(SETTINGS_FILE, &files.settings), (MCP_FILE, &files.mcp)] {
        context.update(name.as_bytes());
        match content {
            Some(bytes) => {
                context.update(&[1]);
                context.update(&(bytes.len() as u64).to_be_bytes());
                context.update(bytes);
            }
            None => context.update(&[0]),
        }
    }
    // Nothing is added for a project without agents, skills and commands. An agent's name ends in `.md`, a skill's is
    // told apart by its slash, and a command's by two at its beginning.
    let last = |path: &Path| path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
    let agents = files.agents.iter().map(|RawAgentFile { path, bytes }| (last(path), bytes));
    let skills = files
        .skills
        .iter()
        .map(|RawSkillFile { folder, bytes }| ([&last(folder), b"/SKILL.md".as_slice()].concat(), bytes));
    let commands = files
        .commands
        .iter()
        .map(|RawCommandFile { below, bytes, .. }| ([b"//", below.as_bytes()].concat(), bytes));
    for (name, bytes) in agents.chain(skills).chain(commands) {
        for part in [name.as_slice(), bytes.as_slice()] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
    }
    let sha256 = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Pin { sha256 }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    sha256: String,
}

/// `trust.json`: canonical project path to pin.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    projects: BTreeMap<String, Pin>,
}

impl Store {
    fn read(home: &Path) -> Result<Store, ConfigError> {
        let path = home.join(STORE_FILE);
        let unreadable = |reason: String| ConfigError::Unreadable { path: path.clone(), reason };
        let bytes = match read_capped(&path, MAX_STORE_BYTES, Confine::Anywhere) {
            Ok(Found::Missing) => return Ok(Store::default()),
            Ok(Found::Bytes { bytes, size: Size::Whole }) => bytes,
            Ok(Found::Bytes { size: Size::Cut { .. }, .. }) => {
                return Err(unreadable("it is too large".to_owned()));
            }
            Err(problem) => return Err(unreadable(problem.to_string())),
        };
        const WRITABLE_BY_OTHERS: u32 = 0o022;
        if fs::metadata(&path).is_ok_and(|metadata| metadata.mode() & WRITABLE_BY_OTHERS != 0) {
            return Err(unreadable("others may write to it (`chmod 600` it)".to_owned()));
        }
        serde_json::from_slice(&bytes).map_err(|error| unreadable(format!("it is not valid: {error}")))
    }

    fn state(&self, files: &ProjectFiles) -> TrustState {
        let known = store_key(&files.root).and_then(|key| self.projects.get(&key));
        match known {
            Some(known) if *known == pin(files) => TrustState::Trusted,
            Some(_) => TrustState::Changed,
            None => TrustState::Untrusted,
        }
    }

    fn write(&self, home: &Path) -> Result<(), ConfigError> {
        let path = home.join(STORE_FILE);
        self.write_then_rename(home, &path)
            .map_err(|error| ConfigError::Unwritable { path: path.clone(), reason: error.to_string() })
    }

    /// The file is complete or the old one, whatever happens in between.
    fn write_then_rename(&self, home: &Path, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(home)?;
        let next = home.join(format!(".{STORE_FILE}.{}", std::process::id()));
        // Left over by a process of the same number that died.
        let _ = fs::remove_file(&next);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&next, path)
    }
}

/// Why a project's settings are ignored, and which ones.
pub(crate) fn ignored_line(files: &ProjectFiles, state: TrustState, ignored: &[String]) -> String {
    let reason = match state {
        TrustState::Changed => "changed since it was trusted",
        TrustState::Trusted | TrustState::Untrusted => "is not trusted",
    };
    let keys: Vec<String> = ignored.iter().map(|key| format!("`{key}`")).collect();
    format!(
        "the project `{}` {reason}, so these of its settings are ignored: {}; read them, then run `tenon \
         trust`, or pass `--trust-project`",
        shown_path(&files.root),
        keys.join(", ")
    )
}
