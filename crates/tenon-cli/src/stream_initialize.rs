//! How a client wants its session: hooks that call it back, servers of tools in its process and elsewhere, agents
//! of its own. After a refused request no turn runs (`tenon-session/src/control.rs`): a guard may have been among what
//! it asked for. What cannot be one is left out with a warning: an agent, or a hook of an event that never happens.
//!
//! A client starts the process and answers for it: what it names is meant, as on the command line.

use std::time::Duration;

use serde_json::{Value, json};
use tenon_config::{McpServers, read_client_agents, read_client_mcp_servers};
use tenon_core::{
    Effort, ErrorClass, Failure, Hook, HookEvent, HookLayer, HookOrder, HookRule, HookRun, HookWait,
    McpConnection, McpServerConfig, McpState, McpTrust,
};
use tenon_tools::mcp_server_word;
use tenon_wire::input::{ClientHook, Initialize};

use crate::plan::embedded_prompt;
use crate::stream_session::{Live, StreamHost};

impl StreamHost {
    pub(crate) fn set_up(&mut self, wanted: &Initialize) -> Result<Value, Failure> {
        let effort = wanted.effort.as_deref().map(Effort::parse).transpose();
        let effort = effort.map_err(|error| refused(format!("`effort` of `initialize`: {error}")))?;
        let limit = wanted.timeouts.hook_callback.map(Duration::from_millis);
        let (servers, mut warnings) = self.servers_of_client(wanted)?;
        let unknown = wanted.timeouts.unknown.iter();
        warnings
            .extend(unknown.map(|name| format!("`timeout.{name}` of `initialize` says nothing to tenon")));
        let mut rules = Vec::new();
        for hook in &wanted.hooks {
            match HookEvent::parse(&hook.event) {
                Some(event) => rules.push(hook_rule(event, hook, limit)),
                None if HookEvent::UNKNOWN_HERE.contains(&hook.event.as_str()) => {
                    let event = &hook.event;
                    warnings.push(format!("`{event}` never happens in tenon, so its hooks are never called"));
                }
                // It may be a guard, written in another way.
                None => {
                    let message = format!("`hooks` of `initialize`: nothing here is called `{}`", hook.event);
                    return Err(refused(message));
                }
            }
        }
        let (agents, problems) = read_client_agents(&wanted.agents);
        warnings.extend(problems.iter().map(|why| format!("an agent of `initialize` is left out: {why}")));
        warnings.extend(
            wanted.ignored.iter().map(|name| format!("`{name}` of `initialize` has no effect in tenon")),
        );
        // A failed start is told with every turn; the client is answered all the same.
        let Ok(live) = self.live() else { return Ok(json!({ "subtype": "initialize" })) };
        if !rules.is_empty() {
            live.agent.hooks = live
                .agent
                .hooks
                .with_rules(rules)
                .map_err(|error| refused(format!("`hooks` of `initialize`: {error}")))?;
        }
        for (name, config) in servers {
            live.parts.mcp.add(name, config)?;
        }
        live.parts.mcp.client_is_there();
        self.change_system_prompt(wanted);
        let args = self.args.clone();
        let live = self.live()?;
        if agents.is_empty() {
            live.offer_helpers();
        } else {
            live.parts.agents.retain(|known| agents.iter().all(|agent| agent.name != known.name));
            live.parts.agents.extend(agents);
            warnings.extend(self.rebuild(args)?);
        }
        let commands = self.listed_commands();
        let models = self.described_models();
        let live = self.live()?;
        live.agent.warnings.extend(warnings);
        let effort_status = effort.map(|effort| live.set_effort(effort));
        let mut answer = json!({
            "subtype": "initialize",
            "session_id": live.agent.info.session_id,
            "capabilities": {
                "can_handle_can_use_tool": true, "can_handle_hook_callback": true,
                "can_set_permission_mode": true, "can_set_model": true, "can_set_effort": true,
                "can_get_context_usage": true, "can_get_available_models": true,
                "can_get_usage_info": true, "can_handle_mcp_message": true,
            },
            "commands": commands,
            "agents": described_agents(live),
            "models": models,
            "account": {},
            "output_style": "default",
            "available_output_styles": ["default"],
        });
        if let Some(status) = effort_status {
            answer["effort_status"] = status;
        }
        Ok(answer)
    }

    /// As with the flags, which it takes the place of.
    fn change_system_prompt(&mut self, wanted: &Initialize) {
        if wanted.system_prompt.is_none() && wanted.append_system_prompt.is_none() {
            return;
        }
        let (Some(kit), Ok(live)) = (&mut self.kit, &mut self.live) else { return };
        kit.system.replace = wanted.system_prompt.clone().or(kit.system.replace.take());
        kit.system.append = wanted.append_system_prompt.clone().or(kit.system.append.take());
        live.agent.system = match live.parts.connections.is_embedded() {
            true => embedded_prompt(&kit.system),
            false => kit.system.with(&kit.memory()),
        };
    }

    /// Those in the client's process, and those that are started like configured ones.
    fn servers_of_client(&self, wanted: &Initialize) -> Result<(McpServers, Vec<String>), Failure> {
        let (mut servers, mut warnings) = read_client_mcp_servers(&wanted.mcp_servers, &self.here)?;
        let hosted = wanted.client_mcp_servers.iter().cloned();
        servers.extend(hosted.map(|name| (name, hosted_by_client())));
        if self.args.safe_mode && !servers.is_empty() {
            warnings.push("`--safe-mode` leaves out the MCP servers of the client".to_owned());
            servers.clear();
        }
        for (at, (name, _)) in servers.iter().enumerate() {
            if !name.chars().any(|c| c.is_ascii_alphanumeric()) {
                return Err(refused(format!("an MCP server cannot be called `{name}`")));
            }
            let word = mcp_server_word(name);
            if let Some((other, _)) = servers[..at].iter().find(|(other, _)| mcp_server_word(other) == word) {
                let message =
                    format!("the MCP servers `{other}` and `{name}` would have tools of the same names");
                return Err(refused(message));
            }
        }
        Ok((servers, warnings))
    }
}

/// As the SDKs type them.
fn described_agents(live: &Live) -> Vec<Value> {
    let described = |name: &String| {
        let file = live.parts.agents.iter().find(|agent| agent.name == *name);
        json!({ "name": name, "description": file.map(|agent| agent.description.as_str()).unwrap_or_default() })
    };
    live.agent.info.agents.iter().map(described).collect()
}

fn hosted_by_client() -> McpServerConfig {
    McpServerConfig {
        connection: McpConnection::Client,
        timeout: None,
        include_tools: None,
        exclude_tools: Vec::new(),
        trust: McpTrust::Believed,
        state: McpState::Used,
    }
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::new(ErrorClass::Input, message)
}

/// `limit` is for hooks that have none of their own.
fn hook_rule(event: HookEvent, hook: &ClientHook, limit: Option<Duration>) -> HookRule {
    let called = |callback_id: &String| Hook {
        run: HookRun::Client {
            callback_id: callback_id.clone(),
            timeout: hook.timeout_secs.map(Duration::from_secs).or(limit),
        },
        name: None,
        status_message: None,
        wait: HookWait::ForItsAnswer,
        on_error: None,
    };
    HookRule {
        event,
        matcher: hook.matcher.clone().unwrap_or_default(),
        order: HookOrder::SideBySide,
        layer: HookLayer::Client,
        hooks: hook.callback_ids.iter().map(called).collect(),
    }
}
