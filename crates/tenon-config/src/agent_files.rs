//! Agents that the user or a trusted project defines: `agents/*.md` in `$TENON_HOME` and in `.tenon`.
//!
//! A file is front matter (`front_matter.rs`) and a body, which is the agent's system prompt. A file that is
//! not understood is reported and skipped: half a definition might be freer than the whole. What an agent
//! may then do is decided where it is started; a definition only ever takes away.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenon_core::ApprovalMode;

use crate::duration::parse_duration;
use crate::files::{Confine, Found, Size, read_capped};
use crate::front_matter::{Field, FieldValue, read_front_matter};
use crate::problem::{nearest, quotable, shown_path};

pub(crate) const AGENTS_FOLDER: &str = "agents";
/// A system prompt of about 16,000 tokens: longer is a mistake, and every turn would pay for it.
const MAX_AGENT_FILE_BYTES: u64 = 64 * 1024;
/// Every description is part of every request.
pub(crate) const MAX_DESCRIPTION_CHARS: usize = 1_000;
const MAX_NAME_CHARS: usize = 64;
/// More files than anybody writes by hand.
const MAX_AGENT_FILES: usize = 100;
const KEYS: [&str; 8] =
    ["name", "description", "tools", "disallowedTools", "model", "approvalMode", "maxTurns", "maxTime"];

/// One definition, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFile {
    pub path: PathBuf,
    pub name: String,
    /// When to ask this agent, for the model that may.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// The only tools it gets; `None` is all that its caller has.
    pub tools: Option<Vec<String>>,
    pub disallowed_tools: Vec<String>,
    /// `None` is its caller's.
    pub model: Option<String>,
    pub approval_mode: Option<ApprovalMode>,
    pub max_turns: Option<u32>,
    pub max_time: Option<Duration>,
}

/// A file that was read and not yet understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawAgentFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// The `*.md` files of a folder, by name. A folder that is not there has none.
pub(crate) fn read_agent_folder(
    folder: &Path,
    confine: Confine<'_>,
    warnings: &mut Vec<String>,
) -> Vec<RawAgentFile> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    paths.sort();
    if paths.len() > MAX_AGENT_FILES {
        warnings.push(format!(
            "`{}` holds {} agents, and {MAX_AGENT_FILES} are the most; the last ones are skipped",
            shown_path(folder),
            paths.len()
        ));
        paths.truncate(MAX_AGENT_FILES);
    }
    let mut files = Vec::new();
    for path in paths {
        match read_capped(&path, MAX_AGENT_FILE_BYTES, confine) {
            Ok(Found::Missing) => {}
            Ok(Found::Bytes { bytes, size: Size::Whole }) => files.push(RawAgentFile { path, bytes }),
            Ok(Found::Bytes { size: Size::Cut { .. }, .. }) => {
                let why = format!("it is larger than {} KiB", MAX_AGENT_FILE_BYTES / 1024);
                warnings.push(skipped(&path, None, &why));
            }
            Err(problem) => warnings.push(skipped(&path, None, &problem.to_string())),
        }
    }
    files
}

/// Understands what was read; the first file of a name keeps it.
pub(crate) fn understand_all(files: &[RawAgentFile], warnings: &mut Vec<String>) -> Vec<AgentFile> {
    let mut agents: Vec<AgentFile> = Vec::new();
    for file in files {
        match understand(file) {
            Ok(agent) => match agents.iter().find(|other| other.name == agent.name) {
                Some(other) => warnings.push(skipped(
                    &file.path,
                    None,
                    &format!("`{}` names its agent `{}` too", shown_path(&other.path), agent.name),
                )),
                None => agents.push(agent),
            },
            Err(Wrong { line, message }) => warnings.push(skipped(&file.path, line, &message)),
        }
    }
    agents
}

/// `higher` over `lower`, by name.
pub(crate) fn overlay(lower: Vec<AgentFile>, higher: Vec<AgentFile>) -> Vec<AgentFile> {
    let mut agents = lower;
    agents.retain(|agent| higher.iter().all(|other| other.name != agent.name));
    agents.extend(higher);
    agents
}

fn skipped(path: &Path, line: Option<usize>, why: &str) -> String {
    let line = line.map(|line| format!(":{line}")).unwrap_or_default();
    format!("`{}{line}` defines no agent and is skipped: {why}", shown_path(path))
}

struct Wrong {
    line: Option<usize>,
    message: String,
}

fn understand(file: &RawAgentFile) -> Result<AgentFile, Wrong> {
    let whole = |message: &str| Wrong { line: None, message: message.to_owned() };
    let text = std::str::from_utf8(&file.bytes).map_err(|_| whole("it is not UTF-8"))?;
    let matter = read_front_matter(text)
        .map_err(|error| Wrong { line: Some(error.line), message: error.message })?
        .ok_or_else(|| {
            whole("it does not begin with front matter (`---`, then `name:` and `description:`)")
        })?;
    let mut agent = AgentFile {
        path: file.path.clone(),
        name: String::new(),
        description: String::new(),
        prompt: matter.body.trim().to_owned(),
        tools: None,
        disallowed_tools: Vec::new(),
        model: None,
        approval_mode: None,
        max_turns: None,
        max_time: None,
    };
    for field in &matter.fields {
        set(&mut agent, field).map_err(|message| Wrong { line: Some(field.line), message })?;
    }
    match () {
        () if agent.name.is_empty() => Err(whole("`name` is missing")),
        () if agent.description.is_empty() => Err(whole("`description` is missing")),
        () if agent.prompt.is_empty() => {
            Err(whole("nothing follows the front matter, and that would be its system prompt"))
        }
        () => Ok(agent),
    }
}

fn set(agent: &mut AgentFile, field: &Field<'_>) -> Result<(), String> {
    let key = field.key;
    match key {
        "name" => agent.name = agent_name(text(field)?)?,
        "description" => {
            let description = text(field)?;
            if description.chars().count() > MAX_DESCRIPTION_CHARS {
                return Err(format!("`description` is longer than {MAX_DESCRIPTION_CHARS} characters"));
            }
            agent.description = description.to_owned();
        }
        "tools" => {
            let tools = field.value.items();
            if tools.is_empty() {
                return Err("`tools` lists none; leave it out for all tools of the caller".to_owned());
            }
            // What other systems write for all tools.
            agent.tools = (tools != ["*"]).then_some(tools);
        }
        "disallowedTools" => agent.disallowed_tools = field.value.items(),
        "model" => agent.model = Some(text(field)?.to_owned()).filter(|model| model != "inherit"),
        "approvalMode" => {
            agent.approval_mode = Some(ApprovalMode::parse(text(field)?).map_err(|error| error.to_string())?);
        }
        "maxTurns" => {
            let text = text(field)?;
            let turns = text.parse().ok().filter(|turns| *turns > 0);
            agent.max_turns = Some(
                turns.ok_or_else(|| format!("`maxTurns` is `{}`, not a number from 1", quotable(text)))?,
            );
        }
        "maxTime" => {
            agent.max_time =
                Some(parse_duration(text(field)?).map_err(|error| format!("`maxTime`: {error}"))?);
        }
        unknown => {
            let unknown = quotable(unknown);
            return Err(match nearest(&unknown, &KEYS) {
                Some(near) => format!("`{unknown}` is not known; did you mean `{near}`?"),
                None => format!(
                    "`{unknown}` is not known; there are {}",
                    KEYS.map(|key| format!("`{key}`")).join(", ")
                ),
            });
        }
    }
    Ok(())
}

fn text<'f>(field: &'f Field<'_>) -> Result<&'f str, String> {
    match &field.value {
        FieldValue::Text(text) if !text.trim().is_empty() => Ok(text.trim()),
        FieldValue::Text(_) => Err(format!("`{}` is empty", field.key)),
        FieldValue::List(items) if items.is_empty() => Err(format!("`{}` is empty", field.key)),
        FieldValue::List(_) => Err(format!("`{}` is one value, not a list", field.key)),
    }
}

/// Models write it as an argument, and people on command lines.
pub(crate) fn agent_name(name: &str) -> Result<String, String> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if first && rest && name.chars().count() <= MAX_NAME_CHARS {
        return Ok(name.to_owned());
    }
    Err(format!(
        "`{}` is no name for an agent: up to {MAX_NAME_CHARS} letters, digits, `-` and `_`, beginning with a letter or digit",
        quotable(name)
    ))
}
