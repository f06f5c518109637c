//! What agents of one process have in common, and how one more is put together.
//!
//! A template is taken from an agent, or filled in by whoever runs many. An agent made from it works for a
//! call: it shares the model's connection, the client, the budget and the counts, and has a conversation,
//! tools, permissions and background work of its own. What a sub-agent may be is decided in `subagent.rs`; the
//! steps of a workflow are put together here too.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenon_contract::Contract;
use tenon_core::{
    Budget, Client, IdSource, Message, ModelClient, Models, Reasoning, RunInfo, Sampling, Tool, TraceContext,
    TurnJournal,
};
use tenon_tools::{HookAgent, Hooks, Permissions, Registry, Tasks, WeakRegistry};

use crate::{Agent, Audience, Background, Limits, Lineage, Replay, SchemaMode, SessionEnd, Stop};

/// Tools that belong to one agent, because they know its background work.
pub type OwnTools = Arc<dyn Fn(&Tasks) -> Vec<Arc<dyn Tool>> + Send + Sync>;

#[derive(Clone)]
pub struct AgentTemplate {
    pub model: Arc<dyn ModelClient>,
    pub client: Arc<dyn Client>,
    pub budget: Arc<dyn Budget>,
    pub ids: Arc<IdSource>,
    /// Who runs, with what: an agent made from this has its own model, tools and mode in it.
    pub info: RunInfo,
    pub audience: Audience,
    /// What is known of the models that any of them may ask.
    pub models: Models,
    pub reasoning: Reasoning,
    pub compact_at: f64,
    pub hooks: Hooks,
    pub limits: Limits,
    pub permissions: Permissions,
    pub registry: WeakRegistry,
    pub own_tools: OwnTools,
    pub lineage: Lineage,
    pub background: Background,
    /// The terminal tool of the agent this was taken from.
    pub terminal_tool: Option<String>,
    /// Of the agent this was taken from.
    pub journal: Arc<dyn TurnJournal>,
}

/// What one agent made from a template is to do, and with what.
pub struct Assignment {
    /// The call it works for.
    pub call_id: String,
    /// The name of its kind, for hooks.
    pub kind: String,
    pub system: String,
    pub prompt: Message,
    /// What its answer has to fit, if anything.
    pub contract: Option<Contract>,
    /// `None` is the template's.
    pub model: Option<NamedModel>,
    pub sampling: Sampling,
    /// Its own list; see [`AgentTemplate::tools`].
    pub registry: Registry,
    pub permissions: Permissions,
    pub folder: Folder,
    pub limits: Limits,
    /// Keeps what it does as it does it.
    pub journal: Arc<dyn TurnJournal>,
    pub stop: Stop,
    pub trace: Option<TraceContext>,
}

/// Where an agent works.
pub enum Folder {
    OfTemplate,
    /// Somewhere else, with tools that work there.
    Other {
        path: PathBuf,
        own_tools: OwnTools,
    },
}

/// A model and the name it is asked by.
#[derive(Clone)]
pub struct NamedModel {
    pub client: Arc<dyn ModelClient>,
    pub name: String,
}

impl AgentTemplate {
    pub fn of(agent: &Agent, own_tools: OwnTools) -> AgentTemplate {
        AgentTemplate {
            model: Arc::clone(&agent.model),
            client: Arc::clone(&agent.client),
            budget: Arc::clone(&agent.budget),
            ids: Arc::clone(&agent.ids),
            info: agent.info.clone(),
            audience: agent.audience,
            models: agent.models.clone(),
            reasoning: agent.reasoning,
            compact_at: agent.compact_at,
            hooks: agent.hooks.clone(),
            limits: agent.limits,
            permissions: agent.permissions.clone(),
            registry: agent.registry.downgrade(),
            own_tools,
            lineage: agent.lineage.clone(),
            background: agent.background.clone(),
            terminal_tool: agent.contract.as_ref().map(|contract| contract.tool.to_owned()),
            journal: Arc::clone(&agent.journal),
        }
    }

    pub fn agent(&self, assignment: Assignment) -> Agent {
        let Assignment {
            call_id,
            kind,
            system,
            prompt,
            contract,
            model,
            sampling,
            registry,
            permissions,
            folder,
            limits,
            journal,
            stop,
            trace,
        } = assignment;
        let (cwd, own_tools) = match folder {
            Folder::OfTemplate => (self.info.cwd.clone(), Arc::clone(&self.own_tools)),
            Folder::Other { path, own_tools } => (path, own_tools),
        };
        // Schedules belong to the run itself.
        let background = Background {
            wait: self.background.wait,
            shutdown: self.background.shutdown,
            stop_within: Some(self.background.time_for_helpers()),
            ..Background::plain(Arc::clone(&self.ids))
        };
        for tool in own_tools(&background.tasks) {
            registry.replace(tool);
        }
        let (client, model) = match model {
            Some(model) => (model.client, model.name),
            None => (Arc::clone(&self.model), self.info.model.clone()),
        };
        let mut tools = registry.names();
        let offered = contract.as_ref().filter(|contract| !permissions.removes(contract.tool));
        tools.extend(offered.map(|contract| contract.tool.to_owned()));
        let info = RunInfo {
            cwd,
            model,
            permission_mode: permissions.mode().name().to_owned(),
            tools,
            ..self.info.clone()
        };
        Agent {
            model: client,
            system,
            history: Vec::new(),
            prompt: Some(prompt),
            registry,
            permissions,
            contract,
            schema_mode: SchemaMode::Tool,
            limits,
            client: Arc::clone(&self.client),
            journal,
            budget: Arc::clone(&self.budget),
            stop,
            ids: Arc::clone(&self.ids),
            info,
            audience: self.audience,
            // A denial is the run's to fail for; it is counted there.
            fail_on_denied: false,
            heartbeat: None::<Duration>,
            deliver: None,
            models: self.models.clone(),
            sampling,
            reasoning: self.reasoning,
            max_output_tokens: None,
            compact_at: self.compact_at,
            hooks: self.hooks.for_agent(HookAgent { id: call_id.clone(), kind }),
            session_start: None,
            session_end: SessionEnd::Later,
            trace,
            replay: Replay::default(),
            warnings: Vec::new(),
            lineage: self.lineage.below(&call_id, self.terminal_tool.as_deref()),
            background,
        }
    }
}
