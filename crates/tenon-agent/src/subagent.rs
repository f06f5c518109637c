//! `agent`: has another agent work on a part of the task, in the foreground or in the background.
//!
//! This decides what a sub-agent gets of its caller: never more tools, a freer mode or higher limits, the
//! same budget, and an end when its caller ends. How it is put together is in `template.rs`, what kinds
//! there are in `agent_type.rs`, and how its answer in the background reaches the model in `drain.rs`.

use std::io::{self, Write};
use std::sync::{Arc, PoisonError};

use serde_json::json;
use tenon_core::{
    Args, BoxFut, Ending, ErrorClass, EventSink, Failure, Message, Outcome, Sampling, TaskExecution,
    TaskKind, TaskStatus, Tool, ToolCtx, ToolDisplay, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
    TurnJournal, TurnRecord,
};
use tenon_tools::{ArgReader, NewTask, Offered, OutputStore, Refusal, Settled};

use crate::agent_type::{AgentType, GENERAL, ToolChoices};
use crate::limits::{Cap, SetBy};
use crate::lineage::MAX_BACKGROUND_AGENTS;
use crate::send_message::SendMessage;
use crate::system_prompt::{HowToAnswer, SharedMemory, system_prompt};
use crate::{Agent, AgentTemplate, Assignment, Folder, Limits, OwnTools, Stop, run};

pub(crate) const AGENT_TOOL: &str = "agent";
/// Of an answer the end matters most. About 8,000 tokens.
const MAX_ANSWER_CHARS: usize = 32_000;
/// A description is a line in a list.
const MAX_DESCRIPTION_CHARS: usize = 200;
/// Tools that a sub-agent does not take over: those for starting agents, of which it gets its own, and those for
/// what belongs to the run and to whoever drives it.
pub const OF_THE_RUN: &[&str] = &[
    AGENT_TOOL,
    SendMessage::NAME,
    "cron_create",
    "cron_list",
    "cron_delete",
    "todo_write",
    "ask_user_question",
    "exit_plan_mode",
];
const PARAMETERS: [&str; 4] = ["description", "prompt", "subagent_type", "run_in_background"];

const FOR_ANOTHER: &str = "You work for another agent, which gave you the task and sees nothing of your work but your last message: \
put into it everything it needs to know, and what you could not do.";

/// How deep agents may start agents, unless the command line says otherwise.
pub const DEFAULT_MAX_DEPTH: u32 = 5;

/// The agents a run may ask for help.
#[derive(Clone)]
pub struct Subagents {
    pub types: Vec<AgentType>,
    /// The run itself is at depth 0.
    pub max_depth: u32,
    /// Where long answers are kept in full.
    pub outputs: OutputStore,
    pub own_tools: OwnTools,
    /// Standing instructions, which hold for helpers too.
    pub memory: SharedMemory,
}

impl Subagents {
    /// The same with other types.
    pub fn with_types(&self, types: Vec<AgentType>) -> Arc<Subagents> {
        Arc::new(Subagents { types, ..self.clone() })
    }

    /// The same for an agent that works in another folder: its helpers work there, too.
    pub fn working_with(&self, own_tools: OwnTools) -> Arc<Subagents> {
        Arc::new(Subagents { own_tools, ..self.clone() })
    }

    /// Offers `agent` and `send_message` to the agent's model, unless a rule removes them or it is at the
    /// greatest depth. Again, when what helpers are made of has changed, in the place of those before.
    pub fn offer_to(self: &Arc<Self>, agent: &mut Agent) {
        if agent.lineage.depth() >= self.max_depth || agent.permissions.removes(AGENT_TOOL) {
            return;
        }
        agent.info.agents = self.types.iter().map(|known| known.name.clone()).collect();
        let template = AgentTemplate::of(agent, Arc::clone(&self.own_tools));
        let tool = AgentTool { spec: Arc::new(self.spec()), subagents: Arc::clone(self), template };
        let send = SendMessage::new(agent.background.clone());
        for tool in [Arc::new(tool) as Arc<dyn Tool>, Arc::new(send)] {
            let name = tool.spec().name.clone();
            if agent.permissions.removes(&name) || agent.registry.replace(Arc::clone(&tool)) {
                continue;
            }
            if agent.registry.add(tool).is_ok() {
                // The terminal tool stays last.
                let terminal = agent.contract.as_ref().map(|contract| contract.tool);
                let last = agent.info.tools.last().is_some_and(|last| Some(last.as_str()) == terminal);
                agent.info.tools.insert(agent.info.tools.len() - usize::from(last), name);
            }
        }
    }

    fn spec(&self) -> ToolSpec {
        let types: Vec<String> =
            self.types.iter().map(|known| format!("- `{}`: {}", known.name, known.description)).collect();
        ToolSpec {
            name: AGENT_TOOL.to_owned(),
            description: format!(
                "Has another agent work on a part of the task. It starts with nothing but your prompt and answers with \
                 one text. Several calls in one turn work side by side. In the background (`run_in_background`) it \
                 works while you go on, and its answer reaches you when it is there. The types are:\n{}",
                types.join("\n")
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "description": { "type": "string", "description": "The task in three to five words, for people." },
                    "prompt": { "type": "string", "description": "The whole task, with everything the agent needs to know." },
                    "subagent_type": {
                        "type": "string",
                        "enum": self.types.iter().map(|known| known.name.as_str()).collect::<Vec<_>>(),
                        "description": format!("Who works on it; `{GENERAL}` unless you say otherwise.")
                    },
                    "run_in_background": { "type": "boolean", "description": "Go on without waiting for the answer." }
                },
                "required": ["description", "prompt"],
                "additionalProperties": false
            }),
            // It does nothing by itself: whatever the agent then does is judged call by call. So nobody needs to be
            // asked, and several agents work side by side.
            kind: ToolKind::Read,
        }
    }
}

struct AgentTool {
    spec: Arc<ToolSpec>,
    subagents: Arc<Subagents>,
    template: AgentTemplate,
}

impl Tool for AgentTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move {
            match self.order(&args) {
                Ok(order) if order.in_background => self.start_in_background(ctx, order),
                Ok(order) => self.run_in_foreground(ctx, order).await,
                Err(refusal) => refusal.into(),
            }
        })
    }
}

/// What a call asks for.
struct Order<'a> {
    known: &'a AgentType,
    description: String,
    prompt: String,
    in_background: bool,
}

impl AgentTool {
    fn order(&self, args: &Args) -> Result<Order<'_>, Refusal> {
        if let Some(unknown) = args.keys().find(|key| !PARAMETERS.contains(&key.as_str())) {
            return Err(Refusal::arguments(format!(
                "`{AGENT_TOOL}` does not know `{unknown}`; it takes {}.",
                PARAMETERS.map(|name| format!("`{name}`")).join(", ")
            )));
        }
        let reader = ArgReader::new(&self.spec, args);
        let description = reader.filled_text("description")?.trim();
        let named = reader.optional_text("subagent_type")?.map_or(GENERAL, str::trim);
        let types = &self.subagents.types;
        let known = types.iter().find(|known| known.name == named).ok_or_else(|| {
            let names: Vec<String> = types.iter().map(|known| format!("`{}`", known.name)).collect();
            Refusal::arguments(format!("There is no agent `{named}`. There are {}.", names.join(", ")))
        })?;
        Ok(Order {
            known,
            description: description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
            prompt: reader.filled_text("prompt")?.to_owned(),
            in_background: reader.flag("run_in_background")?,
        })
    }

    async fn run_in_foreground(&self, ctx: ToolCtx, order: Order<'_>) -> ToolOutcome {
        let sink = Arc::clone(&ctx.sink);
        let Some(agent) = self.agent(&ctx, &order, Stop::within(&ctx.cancel)) else { return run_is_over() };
        let outcome = run(agent, sink).await.outcome;
        self.template.lineage.add_helper(&outcome);
        let mut result = match answer(&outcome, order.known) {
            Ok(text) => ToolOutcome::ok(self.subagents.outputs.keep_end(AGENT_TOOL, text, MAX_ANSWER_CHARS)),
            Err(_) if ctx.cancel.is_cancelled() => {
                ToolOutcome::error(ToolErrorKind::Cancelled, "The agent was stopped with the run.")
            }
            Err((kind, message)) => ToolOutcome::error(kind, message),
        };
        let status = match result.error {
            None => TaskStatus::Completed,
            Some(ToolErrorKind::Cancelled) => TaskStatus::Cancelled,
            Some(_) => TaskStatus::Failed,
        };
        result.drawing = Some(Box::new(ToolDisplay::TaskExecution(TaskExecution {
            subagent_type: order.known.name.clone(),
            description: order.description,
            status,
            result: Some(result.content.clone()),
            tool_calls: outcome.metrics.tools.values().map(|tool| tool.success + tool.fail).sum(),
            usage: outcome.usage(),
            duration_ms: outcome.duration_ms,
        })));
        result
    }

    fn start_in_background(&self, ctx: ToolCtx, order: Order<'_>) -> ToolOutcome {
        let background = &self.template.background;
        let Some(place) = self.template.lineage.background_place() else {
            return ToolOutcome::error(
                ToolErrorKind::Failed,
                format!(
                    "{MAX_BACKGROUND_AGENTS} agents work in the background already. Wait for one of them, or do without `run_in_background`."
                ),
            );
        };
        let stop = Stop::within(&ctx.cancel);
        let Some(agent) = self.agent(&ctx, &order, stop.clone()) else { return run_is_over() };
        let file = self.subagents.outputs.create(AGENT_TOOL).ok();
        let task = background.tasks.start(NewTask {
            kind: TaskKind::Agent,
            call_id: Some(ctx.call_id.clone()),
            agent_type: Some(order.known.name.clone()),
            description: format!("{}: {}", order.known.name, order.description),
            output_file: file.as_ref().map(|(path, _)| path.clone()),
        });
        let task = match task {
            Ok(task) => task,
            Err(error) => return ToolOutcome::error(ToolErrorKind::Failed, format!("Not started: {error}.")),
        };
        let id = task.id().to_owned();
        let news = Arc::clone(&agent.background.news);
        let agents = Arc::clone(&background.agents);
        agents.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), news);
        let sink = background.behind_door(Arc::clone(&ctx.sink));
        let lineage = self.template.lineage.clone();
        let outputs = self.subagents.outputs.clone();
        let known = order.known.clone();
        let description = order.description;
        let own_id = id.clone();
        let caller = ctx.cancel.clone();
        tokio::spawn(async move {
            let running = run(agent, sink as Arc<dyn EventSink>);
            tokio::pin!(running);
            let outcome = tokio::select! {
                ended = &mut running => ended.outcome,
                () = task.cancel().cancelled() => {
                    stop.now(Failure::new(ErrorClass::Internal, "the agent was stopped"));
                    running.await.outcome
                }
            };
            agents.lock().unwrap_or_else(PoisonError::into_inner).remove(&own_id);
            lineage.add_helper(&outcome);
            drop(place);
            let is_stopped = task.cancel().is_cancelled() || caller.is_cancelled();
            task.settle(settled(&outcome, &known, &description, file, &outputs, is_stopped));
        });
        ToolOutcome::ok(format!(
            "The agent works in the background as {id}. Its answer will be told to you; `send_message` reaches it until then, and `task_stop` ends it."
        ))
    }

    /// `None` when the run is over.
    fn agent(&self, ctx: &ToolCtx, order: &Order<'_>, stop: Stop) -> Option<Agent> {
        let known = order.known;
        let template = &self.template;
        let terminal = template.terminal_tool.as_deref().or(template.lineage.forbidden_tool());
        let registry = template.registry.upgrade()?.with(|spec| {
            let name = spec.name.as_str();
            known.wants(spec) && !OF_THE_RUN.contains(&name) && Some(name) != terminal
        });
        if let ToolChoices::Only(names) = &known.tools {
            // What a definition names is not something to search for.
            names.iter().for_each(|name| {
                registry.offer(name, Offered::Always);
            });
        }
        let permissions = match known.mode {
            Some(mode) if mode < template.permissions.mode() => template.permissions.with_mode(mode),
            _ => template.permissions.clone(),
        };
        let replace = known.prompt.as_deref();
        let memory = self.subagents.memory.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let system = system_prompt(HowToAnswer::InText, &memory, replace, Some(FOR_ANOTHER));
        let mut agent = template.agent(Assignment {
            call_id: ctx.call_id.clone(),
            kind: known.name.clone(),
            system,
            prompt: Message::user(order.prompt.clone()),
            contract: None,
            model: known.model.clone(),
            sampling: Sampling::default(),
            registry,
            permissions,
            folder: Folder::OfTemplate,
            limits: limits(&template.limits, known),
            journal: Arc::new(OnlyCosts { caller: Arc::clone(&template.journal) }),
            stop,
            trace: ctx.trace.as_ref().map(|trace| trace.agent()),
        });
        let delegates =
            template.registry.upgrade()?.get(AGENT_TOOL).is_some_and(|tool| known.wants(tool.spec()));
        if delegates {
            self.subagents.offer_to(&mut agent);
        }
        Some(agent)
    }
}

/// What a helper did reaches its caller as the result of a call, and not otherwise; what it cost is kept as it is spent.
struct OnlyCosts {
    caller: Arc<dyn TurnJournal>,
}

impl TurnJournal for OnlyCosts {
    fn write(&self, record: TurnRecord) -> BoxFut<'_, io::Result<()>> {
        match record {
            TurnRecord::ModelTurn { model, usage, .. } => {
                self.caller.write(TurnRecord::Besides { model, usage })
            }
            // Of helpers of its own, and summaries.
            besides @ TurnRecord::Besides { .. } => self.caller.write(besides),
            _ => Box::pin(async { Ok(()) }),
        }
    }
}

/// The run's caps, and the type's own where they are tighter.
fn limits(of_run: &Limits, known: &AgentType) -> Limits {
    let turns = match (of_run.turns, known.max_turns) {
        (Cap::AtMost(all), Some(own)) if own < all => (Cap::AtMost(own), SetBy::Agent),
        (Cap::Unlimited, Some(own)) => (Cap::AtMost(own), SetBy::Agent),
        (cap, _) => (cap, SetBy::Run),
    };
    // The time of the run ends the sub-agent with the run.
    Limits {
        turns: turns.0,
        turns_set_by: turns.1,
        wall_time: known.max_time,
        wall_time_set_by: SetBy::Agent,
        ..*of_run
    }
}

/// The answer, or what to tell the model instead.
fn answer(outcome: &Outcome, known: &AgentType) -> Result<String, (ToolErrorKind, String)> {
    match &outcome.ending {
        Ending::Success(success) if success.text.trim().is_empty() => {
            Ok("The agent finished its work without a word.".to_owned())
        }
        Ending::Success(success) => Ok(success.text.clone()),
        Ending::Failure(failure) => {
            let kind = match failure.class {
                ErrorClass::Interrupted(_) => ToolErrorKind::Cancelled,
                ErrorClass::Budget if known.max_time.is_some() => ToolErrorKind::TimedOut,
                _ => ToolErrorKind::Failed,
            };
            let class = failure.class.name();
            Err((kind, format!("The agent `{}` failed ({class}): {}", known.name, failure.message)))
        }
    }
}

fn settled(
    outcome: &Outcome,
    known: &AgentType,
    description: &str,
    file: Option<(std::path::PathBuf, std::fs::File)>,
    outputs: &OutputStore,
    is_stopped: bool,
) -> Settled {
    let name = format!("Background agent \"{}: {description}\"", known.name);
    let (status, summary, text) = match (answer(outcome, known), is_stopped) {
        (Ok(text), _) => (TaskStatus::Completed, format!("{name} completed."), text),
        (Err(_), true) => (TaskStatus::Cancelled, format!("{name} was stopped."), String::new()),
        (Err((_, message)), false) => (TaskStatus::Failed, format!("{name} failed."), message),
    };
    let written =
        file.and_then(|(path, mut file)| file.write_all(outputs.hide(&text).as_bytes()).ok().map(|()| path));
    let detail = match written {
        Some(path) => OutputStore::end_of(&text, MAX_ANSWER_CHARS, &path),
        None => outputs.keep_end(AGENT_TOOL, text, MAX_ANSWER_CHARS),
    };
    let tool_calls = outcome.metrics.tools.values().map(|tool| tool.success + tool.fail).sum();
    Settled { status, summary, detail, usage: Some(outcome.usage()), tool_calls }
}

fn run_is_over() -> ToolOutcome {
    ToolOutcome::error(ToolErrorKind::Cancelled, "The run is over, so no agent was started.")
}
