//! Agents that a client defines when it begins a session, as the two SDKs write them.
//!
//! They are what files define (`agent_files.rs`), in other words. What a definition asks for and nobody here can
//! do leaves it out: half an agent might be freer than the whole.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use tenon_core::ApprovalMode;

use crate::agent_files::{AgentFile, MAX_DESCRIPTION_CHARS, agent_name};
use crate::problem::quotable;

/// What messages name as the place of such a definition.
const PLACE: &str = "initialize";
/// Names that mean a model only to one vendor's own program. Whoever uses them means "a good one", which the
/// caller's is.
const FOREIGN_MODELS: [&str; 4] = ["inherit", "sonnet", "opus", "haiku"];
/// For people and other programs: nothing here depends on them.
const IGNORED: [&str; 5] = ["level", "filePath", "color", "isBuiltin", "source"];

/// The agents of one list that can be used, and what is wrong with each of the others.
pub fn read_client_agents(definitions: &[Value]) -> (Vec<AgentFile>, Vec<String>) {
    let mut agents: Vec<AgentFile> = Vec::new();
    let mut problems = Vec::new();
    for (at, definition) in definitions.iter().enumerate() {
        match named_agent(at, definition) {
            Err(why) => problems.push(why),
            Ok(agent) if agents.iter().any(|other| other.name == agent.name) => {
                problems.push(format!("there are two agents called `{}`, and the first counts", agent.name));
            }
            Ok(agent) => agents.push(agent),
        }
    }
    (agents, problems)
}

fn named_agent(at: usize, definition: &Value) -> Result<AgentFile, String> {
    let Value::Object(fields) = definition else {
        return Err(format!("`agents[{at}]` must be an object"));
    };
    agent(fields).map_err(|why| match fields.get("name").and_then(Value::as_str) {
        Some(name) => format!("the agent `{}`: {why}", quotable(name)),
        None => format!("`agents[{at}]`: {why}"),
    })
}

fn agent(fields: &Map<String, Value>) -> Result<AgentFile, String> {
    let mut agent = AgentFile {
        path: PathBuf::from(PLACE),
        name: String::new(),
        description: String::new(),
        prompt: String::new(),
        tools: None,
        disallowed_tools: Vec::new(),
        model: None,
        approval_mode: None,
        max_turns: None,
        max_time: None,
    };
    for (key, value) in fields {
        if value.is_null() || IGNORED.contains(&key.as_str()) {
            continue;
        }
        match key.as_str() {
            "name" => agent.name = agent_name(text(key, value)?)?,
            "description" => {
                let description = text(key, value)?;
                if description.chars().count() > MAX_DESCRIPTION_CHARS {
                    return Err(format!("`description` is longer than {MAX_DESCRIPTION_CHARS} characters"));
                }
                agent.description = description.to_owned();
            }
            "prompt" | "systemPrompt" => agent.prompt = text(key, value)?.to_owned(),
            "tools" => {
                let tools = texts(key, value)?;
                agent.tools = (!tools.is_empty() && tools != ["*"]).then_some(tools);
            }
            "disallowedTools" => agent.disallowed_tools = texts(key, value)?,
            "model" => {
                let model = text(key, value)?;
                agent.model = (!FOREIGN_MODELS.contains(&model)).then(|| model.to_owned());
            }
            "permissionMode" | "approvalMode" => {
                let mode = ApprovalMode::parse(text(key, value)?).map_err(|error| error.to_string())?;
                agent.approval_mode = Some(mode);
            }
            "maxTurns" => agent.max_turns = Some(count(key, value)?),
            "runConfig" => run_config(&mut agent, value)?,
            unknown => return Err(format!("`{}` is not known here", quotable(unknown))),
        }
    }
    for (key, given) in
        [("name", &agent.name), ("description", &agent.description), ("prompt", &agent.prompt)]
    {
        if given.is_empty() {
            return Err(format!("`{key}` is missing"));
        }
    }
    Ok(agent)
}

fn run_config(agent: &mut AgentFile, value: &Value) -> Result<(), String> {
    let Value::Object(fields) = value else { return Err("`runConfig` must be an object".to_owned()) };
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match key.as_str() {
            "max_turns" => agent.max_turns = Some(count(key, value)?),
            "max_time_minutes" => {
                let minutes = value.as_f64().filter(|minutes| minutes.is_finite() && *minutes > 0.0);
                let seconds = minutes.map(|minutes| minutes * 60.0);
                let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                agent.max_time = Some(time.ok_or("`max_time_minutes` must be a number above 0")?);
            }
            unknown => return Err(format!("`runConfig.{}` is not known here", quotable(unknown))),
        }
    }
    Ok(())
}

fn text<'v>(key: &str, value: &'v Value) -> Result<&'v str, String> {
    match value.as_str().map(str::trim) {
        Some("") => Err(format!("`{key}` is empty")),
        Some(text) => Ok(text),
        None => Err(format!("`{key}` must be a string")),
    }
}

fn texts(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let items = value.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)));
    let texts = items.and_then(|items| items.collect::<Option<Vec<String>>>());
    texts.ok_or_else(|| format!("`{key}` must be a list of strings"))
}

fn count(key: &str, value: &Value) -> Result<u32, String> {
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
    count.ok_or_else(|| format!("`{key}` must be a number from 1"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_clients_words_are_understood() {
        let definitions = [
            json!({"name": "reviewer", "description": "reviews", "systemPrompt": "Review.", "level": "session",
                "tools": ["read_file"], "runConfig": {"max_turns": 3, "max_time_minutes": 0.5}, "color": "red"}),
            json!({"name": "tester", "description": "tests", "prompt": "Test.", "tools": null, "model": "sonnet",
                "disallowedTools": ["Bash"], "maxTurns": 2, "permissionMode": "plan"}),
        ];
        let (agents, problems) = read_client_agents(&definitions);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            agents,
            [
                AgentFile {
                    path: "initialize".into(),
                    name: "reviewer".into(),
                    description: "reviews".into(),
                    prompt: "Review.".into(),
                    tools: Some(vec!["read_file".into()]),
                    disallowed_tools: vec![],
                    model: None,
                    approval_mode: None,
                    max_turns: Some(3),
                    max_time: Some(Duration::from_secs(30)),
                },
                AgentFile {
                    path: "initialize".into(),
                    name: "tester".into(),
                    description: "tests".into(),
                    prompt: "Test.".into(),
                    tools: None,
                    disallowed_tools: vec!["Bash".into()],
                    model: None,
                    approval_mode: Some(ApprovalMode::Plan),
                    max_turns: Some(2),
                    max_time: None,
                },
            ]
        );
    }

    #[test]
    fn half_a_definition_is_none() {
        let whole = json!({"name": "a", "description": "d", "prompt": "p"});
        for (key, value, error) in [
            ("prompt", json!(""), "the agent `a`: `prompt` is empty"),
            ("prompt", json!(null), "the agent `a`: `prompt` is missing"),
            ("name", json!(7), "`agents[0]`: `name` must be a string"),
            ("tools", json!("all"), "the agent `a`: `tools` must be a list of strings"),
            ("maxTurns", json!(0), "the agent `a`: `maxTurns` must be a number from 1"),
            (
                "runConfig",
                json!({"max_time_minutes": -1}),
                "the agent `a`: `max_time_minutes` must be a number above 0",
            ),
            ("runConfig", json!({"x": 1}), "the agent `a`: `runConfig.x` is not known here"),
            ("memory", json!("user"), "the agent `a`: `memory` is not known here"),
        ] {
            let mut definition = whole.clone();
            definition[key] = value;
            assert_eq!(read_client_agents(&[definition]), (vec![], vec![error.to_owned()]));
        }
        let (agents, problems) = read_client_agents(&[json!(1), whole.clone(), whole]);
        assert_eq!(agents.len(), 1);
        let expected =
            ["`agents[0]` must be an object", "there are two agents called `a`, and the first counts"];
        assert_eq!(problems, expected);
    }
}
