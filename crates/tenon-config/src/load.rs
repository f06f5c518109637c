//! Reads all layers and merges them: defaults < user < trusted project < environment < `--settings`.
//! Other flags are the binary's to lay on top.

use std::path::{Path, PathBuf};

use tenon_core::HookLayer;

use crate::agent_files::{AGENTS_FOLDER, AgentFile, overlay, read_agent_folder, understand_all};
use crate::command_files::{
    COMMANDS_FOLDER, CommandFile, CommandSource, overlay_commands, read_command_folder, understand_commands,
};
use crate::config_error::ConfigError;
use crate::files::Confine;
use crate::memory::{MemoryFile, MemoryPlaces, read_memory};
use crate::problem::{Problem, quotable};
use crate::project::{
    MCP_FILE, PROJECT_AGENTS, PROJECT_COMMANDS, PROJECT_SKILLS, ProjectFiles, SETTINGS_FILE, as_text,
    project_root, read_settings_file,
};
use crate::read_settings::{Expand, Layer, read_mcp_file, read_settings};
use crate::reader::listed;
use crate::settings::Settings;
use crate::skill_files::{SKILLS_FOLDER, SkillFile, overlay_skills, read_skill_folder, understand_skills};
use crate::surroundings::Surroundings;
use crate::tighten::tighten;
use crate::trust::{self, TrustState};

pub fn load(
    surroundings: &Surroundings,
    sources: &Sources,
    trust: ProjectTrust,
) -> Result<Loaded, ConfigError> {
    let mut warnings = Vec::new();
    let mut settings = Settings::default();
    let mut ignored_from_project = Vec::new();
    let mut agents = Vec::new();
    let mut skills = Vec::new();
    let mut commands = Vec::new();
    if sources.has(FileLayer::User) {
        settings = settings.overlaid(read_user(surroundings, &mut warnings)?.with_hooks_of(HookLayer::User));
        agents = read_user_agents(surroundings, &mut warnings);
        skills = read_user_skills(surroundings, &mut warnings);
        commands = read_user_commands(surroundings, &mut warnings);
    }
    if sources.has(FileLayer::Project) {
        let files = ProjectFiles::read(surroundings, &mut warnings)?;
        (settings, ignored_from_project) = add_project(settings, &files, surroundings, trust, &mut warnings)?;
        let is_used = !ignored_from_project.iter().any(|key| key == PROJECT_AGENTS);
        if is_used {
            agents = overlay(agents, understand_all(&files.agents, &mut warnings));
        }
        if !ignored_from_project.iter().any(|key| key == PROJECT_SKILLS) {
            skills = overlay_skills(skills, understand_skills(&files.skills, &mut warnings));
        }
        let from = match ignored_from_project.iter().any(|key| key == PROJECT_COMMANDS) {
            true => CommandSource::UntrustedProject,
            false => CommandSource::Project,
        };
        commands = overlay_commands(commands, understand_commands(&files.commands, from, &mut warnings));
    }
    settings = settings.overlaid(from_environment(surroundings)?);
    if let Some(extra) = &sources.extra {
        settings = settings.overlaid(read_extra(extra, &mut warnings)?.with_hooks_of(HookLayer::Flag));
    }
    let root = project_root(surroundings);
    let memory = match sources.memory {
        MemoryUse::Skip => Vec::new(),
        MemoryUse::Read => {
            let user = surroundings.tenon_home.as_deref().filter(|_| sources.has(FileLayer::User));
            let project =
                sources.has(FileLayer::Project).then_some((root.as_path(), surroundings.cwd.as_path()));
            read_memory(&MemoryPlaces { user, project }, &mut warnings)
        }
    };
    Ok(Loaded {
        settings,
        warnings,
        ignored_from_project,
        project_root: root,
        memory,
        agents,
        skills,
        commands,
    })
}

/// What a run is to know.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// One line each, among them the one that lists what an untrusted project asked for.
    pub warnings: Vec<String>,
    /// The keys in that line.
    pub ignored_from_project: Vec<String>,
    pub project_root: PathBuf,
    pub memory: Vec<MemoryFile>,
    /// The user's, then a trusted project's, each name once.
    pub agents: Vec<AgentFile>,
    pub skills: Vec<SkillFile>,
    /// The user's and the project's, each name once.
    pub commands: Vec<CommandFile>,
}

/// Which files are looked at (`--setting-sources`, `--bare`, `--safe-mode`, `--settings`).
#[derive(Clone, Debug)]
pub struct Sources {
    /// Settings and memory of these.
    pub files: Vec<FileLayer>,
    pub memory: MemoryUse,
    pub extra: Option<ExtraSettings>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLayer {
    User,
    Project,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    Read,
    Skip,
}

/// The value of `--settings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtraSettings {
    File(PathBuf),
    Json(String),
}

impl ExtraSettings {
    /// Text that begins with `{` is JSON, anything else a path against `started_in`.
    pub fn parse(value: &str, started_in: &Path) -> ExtraSettings {
        if value.trim_start().starts_with('{') {
            ExtraSettings::Json(value.to_owned())
        } else {
            ExtraSettings::File(started_in.join(value))
        }
    }
}

/// Where trust in the project comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectTrust {
    /// `tenon trust`, if the files have not changed since.
    Pinned,
    /// `--trust-project`.
    Granted,
}

impl Sources {
    pub fn all() -> Sources {
        Sources { files: vec![FileLayer::User, FileLayer::Project], memory: MemoryUse::Read, extra: None }
    }

    /// `--bare`: only the environment and `--settings`.
    pub fn none() -> Sources {
        Sources { files: Vec::new(), memory: MemoryUse::Skip, extra: None }
    }

    /// The value of `--setting-sources`; empty means none. `local` is accepted and has no file.
    pub fn parse(list: &str) -> Result<Sources, ConfigError> {
        let mut sources = Sources { files: Vec::new(), ..Sources::all() };
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "user" => sources.files.push(FileLayer::User),
                "project" => sources.files.push(FileLayer::Project),
                "local" => {}
                _ => {
                    return Err(ConfigError::SettingSources(format!(
                        "`--setting-sources` names `{}`, but may name `user`, `project` and `local`",
                        quotable(name)
                    )));
                }
            }
        }
        Ok(sources)
    }

    fn has(&self, layer: FileLayer) -> bool {
        self.files.contains(&layer)
    }
}

fn read_user(surroundings: &Surroundings, warnings: &mut Vec<String>) -> Result<Settings, ConfigError> {
    let Some(path) = surroundings.user_settings() else { return Ok(Settings::default()) };
    match read_settings_file(&path, Confine::Anywhere)? {
        Some(bytes) => {
            accept(read_settings(as_text(&path, &bytes)?, &path, Expand::From(&surroundings.env)), warnings)
        }
        None => Ok(Settings::default()),
    }
}

fn read_user_agents(surroundings: &Surroundings, warnings: &mut Vec<String>) -> Vec<AgentFile> {
    let Some(home) = &surroundings.tenon_home else { return Vec::new() };
    let files = read_agent_folder(&home.join(AGENTS_FOLDER), Confine::Anywhere, warnings);
    understand_all(&files, warnings)
}

fn read_user_skills(surroundings: &Surroundings, warnings: &mut Vec<String>) -> Vec<SkillFile> {
    let Some(home) = &surroundings.tenon_home else { return Vec::new() };
    let files = read_skill_folder(&home.join(SKILLS_FOLDER), Confine::Anywhere, warnings);
    understand_skills(&files, warnings)
}

fn read_user_commands(surroundings: &Surroundings, warnings: &mut Vec<String>) -> Vec<CommandFile> {
    let Some(home) = &surroundings.tenon_home else { return Vec::new() };
    let files = read_command_folder(&home.join(COMMANDS_FOLDER), Confine::Anywhere, warnings);
    understand_commands(&files, CommandSource::User, warnings)
}

fn add_project(
    settings: Settings,
    files: &ProjectFiles,
    surroundings: &Surroundings,
    trust: ProjectTrust,
    warnings: &mut Vec<String>,
) -> Result<(Settings, Vec<String>), ConfigError> {
    let project = read_project_settings(files, warnings)?;
    let state = match trust {
        ProjectTrust::Granted => TrustState::Trusted,
        ProjectTrust::Pinned => trust::state(surroundings, files, warnings),
    };
    if state == TrustState::Trusted {
        let servers = read_project_mcp(files, warnings)?;
        let project = project.with_hooks_of(HookLayer::Project);
        return Ok((settings.overlaid(servers).overlaid(project), Vec::new()));
    }
    let (settings, mut ignored) = tighten(settings, project);
    // Not even read: it is shared with other programs, and a broken one is none of an untrusting user's
    // business.
    ignored.extend(files.mcp.as_ref().map(|_| MCP_FILE.to_owned()));
    ignored.extend((!files.agents.is_empty()).then(|| PROJECT_AGENTS.to_owned()));
    ignored.extend((!files.skills.is_empty()).then(|| PROJECT_SKILLS.to_owned()));
    ignored.extend((!files.commands.is_empty()).then(|| PROJECT_COMMANDS.to_owned()));
    if !ignored.is_empty() {
        warnings.push(trust::ignored_line(files, state, &ignored));
    }
    Ok((settings, ignored))
}

/// What `.tenon/settings.json` says, trusted or not.
pub(crate) fn read_project_settings(
    files: &ProjectFiles,
    warnings: &mut Vec<String>,
) -> Result<Settings, ConfigError> {
    let Some(bytes) = &files.settings else { return Ok(Settings::default()) };
    let path = files.root.join(SETTINGS_FILE);
    accept(read_settings(as_text(&path, bytes)?, &path, Expand::Never), warnings)
}

/// The servers of `.mcp.json`.
pub(crate) fn read_project_mcp(
    files: &ProjectFiles,
    warnings: &mut Vec<String>,
) -> Result<Settings, ConfigError> {
    let Some(bytes) = &files.mcp else { return Ok(Settings::default()) };
    let path = files.root.join(MCP_FILE);
    accept(read_mcp_file(as_text(&path, bytes)?, &path), warnings)
}

fn from_environment(surroundings: &Surroundings) -> Result<Settings, ConfigError> {
    let variable = |name: &str| surroundings.env.get(name).filter(|value| !value.trim().is_empty()).cloned();
    let dialect = variable("TENON_DIALECT");
    if let Some(value) = dialect.as_ref().filter(|value| !Settings::DIALECTS.contains(&value.as_str())) {
        return Err(ConfigError::Environment {
            variable: "TENON_DIALECT",
            value: quotable(value),
            allowed: listed(&Settings::DIALECTS),
        });
    }
    Ok(Settings { model: variable("TENON_MODEL"), dialect, ..Settings::default() })
}

fn read_extra(extra: &ExtraSettings, warnings: &mut Vec<String>) -> Result<Settings, ConfigError> {
    match extra {
        ExtraSettings::Json(text) => {
            accept(read_settings(text, Path::new("--settings"), Expand::Never), warnings)
        }
        ExtraSettings::File(path) => {
            let bytes = read_settings_file(path, Confine::Anywhere)?.ok_or_else(|| {
                ConfigError::Unreadable { path: path.clone(), reason: "there is no such file".to_owned() }
            })?;
            accept(read_settings(as_text(path, &bytes)?, path, Expand::Never), warnings)
        }
    }
}

fn accept(layer: Layer, warnings: &mut Vec<String>) -> Result<Settings, ConfigError> {
    if !layer.errors.is_empty() {
        return Err(ConfigError::Invalid(layer.errors));
    }
    warnings.extend(layer.warnings.iter().map(Problem::one_line));
    Ok(layer.settings)
}
