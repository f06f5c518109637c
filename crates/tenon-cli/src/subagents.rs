//! Agents that help and work in the background, as flags, settings and files want them: the wiring of
//! `tenon-agent/src/subagent.rs` and `drain.rs`.

use std::sync::Arc;
use std::time::Duration;

use tenon_agent::{
    AgentType, Background, DEFAULT_MAX_DEPTH, DEFAULT_WAIT, NamedModel, OwnTools, SharedMemory, Subagents,
    ToolChoices,
};
use tenon_config::{AgentFile, Settings};
use tenon_core::{ErrorClass, Failure, IdSource, Timestamp};
use tenon_tools::{Clock, OutputStore, Rule, Schedules, Selection};

use crate::args::RunArgs;
use crate::sys;

/// Deeper is a mistake, and so is nothing at all.
const DEPTHS: std::ops::RangeInclusive<u32> = 1..=100;

/// What a run has in the background.
pub fn background(settings: &Settings, ids: &Arc<IdSource>) -> Background {
    let schedules = Schedules::new(Arc::new(LocalClock), Arc::clone(ids));
    let wait = settings.tasks.wait_ms.map_or(DEFAULT_WAIT, Duration::from_millis);
    let mut background = Background::new(Arc::clone(ids), schedules, wait);
    background.shutdown = settings.timeouts.shutdown();
    background
}

/// What helpers are made of, besides what they have from the agent they help.
pub struct Helpers {
    pub types: Vec<AgentType>,
    pub outputs: OutputStore,
    pub own_tools: OwnTools,
    pub memory: SharedMemory,
}

impl Helpers {
    pub fn subagents(self, args: &RunArgs) -> Result<Arc<Subagents>, Failure> {
        let max_depth = max_depth(args)?;
        let Helpers { types, outputs, own_tools, memory } = self;
        Ok(Arc::new(Subagents { types, max_depth, outputs, own_tools, memory }))
    }
}

/// As the flag says it.
pub fn max_depth(args: &RunArgs) -> Result<u32, Failure> {
    match args.max_subagent_depth {
        None => Ok(DEFAULT_MAX_DEPTH),
        Some(depth) if DEPTHS.contains(&depth) => Ok(depth),
        Some(depth) => Err(Failure::new(
            ErrorClass::Usage,
            format!("`--max-subagent-depth {depth}` is not from {} to {}", DEPTHS.start(), DEPTHS.end()),
        )
        .hint("`--exclude-tools agent` does without agents")),
    }
}

/// The models that definitions name, each once.
pub fn named_models(files: &[AgentFile]) -> Vec<String> {
    let mut names: Vec<String> = files.iter().filter_map(|file| file.model.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// The built-in types and those from files, which take the place of a built-in one of their name. A file that
/// cannot be used is reported and left out.
pub fn agent_types(
    files: &[AgentFile],
    model: impl Fn(&str) -> Result<NamedModel, String>,
    warnings: &mut Vec<String>,
) -> Vec<AgentType> {
    let mut types = AgentType::built_in();
    for file in files {
        match agent_type(file, &model) {
            Ok(defined) => {
                types.retain(|known| known.name != defined.name);
                types.push(defined);
            }
            Err(why) => warnings.push(format!(
                "the agent `{}` of `{}` is left out: {why}",
                file.name,
                file.path.display()
            )),
        }
    }
    types
}

fn agent_type(
    file: &AgentFile,
    model: &impl Fn(&str) -> Result<NamedModel, String>,
) -> Result<AgentType, String> {
    let tools = match &file.tools {
        Some(names) => ToolChoices::Only(tool_names(names)?),
        None => ToolChoices::All,
    };
    Ok(AgentType {
        name: file.name.clone(),
        description: file.description.clone(),
        prompt: Some(file.prompt.clone()),
        tools,
        without: tool_names(&file.disallowed_tools)?,
        model: file.model.as_deref().map(model).transpose()?,
        mode: file.approval_mode,
        max_turns: file.max_turns,
        max_time: file.max_time,
    })
}

/// Names of tools, aliases resolved. One that no tool has would look like a choice and be none.
pub fn tool_names(names: &[String]) -> Result<Vec<String>, String> {
    for name in names {
        let rule = Rule::parse(name).map_err(|error| error.to_string())?;
        if !rule.names_a_tool() {
            let hint =
                rule.probably_meant().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(format!("there is no tool `{}`{hint}", rule.tool()));
        }
    }
    Selection::core_tools(names.iter().map(String::as_str)).map_err(|error| error.to_string())
}

/// The time where this process runs.
struct LocalClock;

impl Clock for LocalClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn offset_at(&self, unix_seconds: i64) -> i64 {
        sys::utc_offset_at(unix_seconds)
    }
}
