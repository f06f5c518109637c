//! What a document's agents ask for by name, tools and models: are the tools there, and can they run in the present mode?
//!
//! A list restricts, it never grants. A document that lists what it cannot have would only find out in the middle of a run, so
//! this is asked before the first model call.

use std::sync::Arc;

use tenon_contract::SUBMIT_RESULT;
use tenon_tools::{Forbidden, Permissions, Registry};

use crate::isolation::Isolation;
use crate::load::Entered;
use crate::shared::SHARED_TOOLS;
use crate::tool_aliases::{is_denied, meant, own_name};
use crate::{LoadedAgent, LoadedStep, LoadedWorkflow, LoopKind, ModelPrice, StepBody, ToolChoice};

/// A tool that a step's agent lists and cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableTool {
    /// `deploy.check`
    pub step: String,
    pub agent: String,
    /// As the document writes it.
    pub tool: String,
    pub reason: String,
    pub hint: String,
}

impl UnusableTool {
    /// A result is handed in whether or not the tool for that is listed.
    fn wants(&self) -> &'static str {
        if self.tool == SUBMIT_RESULT { "hands in its result by" } else { "lists" }
    }
}

/// In the order of the steps; each agent of a step once, and each document once.
pub fn unusable_tools(
    flow: &LoadedWorkflow,
    registry: &Registry,
    permissions: &Permissions,
) -> Vec<UnusableTool> {
    let mut found = Vec::new();
    let of_run = registry.names();
    in_steps(&flow.steps, "", &mut Entered::default(), &mut |step, agent| {
        if agent.spec.result_schema.is_some() && permissions.removes(SUBMIT_RESULT) {
            let Forbidden { reason, hint } = denied(SUBMIT_RESULT);
            let (step, agent, tool) = (step.to_owned(), agent.name.clone(), SUBMIT_RESULT.to_owned());
            found.push(UnusableTool { step, agent, tool, reason, hint });
        }
        let ToolChoice::Only(names) = &agent.spec.tools else { return };
        let unwanted = |name: &str| is_denied(&agent.spec.disallowed_tools, meant(name, &of_run), &of_run);
        // What agents of a workflow have in common is there whatever the run has, and the last one comes with a schema.
        let is_shared = |name: &str| SHARED_TOOLS.contains(&name) || name == SUBMIT_RESULT;
        for tool in names.iter().filter(|name| !unwanted(name) && !is_shared(name)) {
            if let Some(Forbidden { reason, hint }) = why_not(meant(tool, &of_run), registry, permissions) {
                let (step, agent) = (step.to_owned(), agent.name.clone());
                found.push(UnusableTool { step, agent, tool: tool.clone(), reason, hint });
            }
        }
    });
    found
}

/// All of them in one sentence per step, and what to do about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRefusal {
    pub message: String,
    pub hint: String,
}

/// `None` where everything can be used.
pub fn tool_refusal(unusable: &[UnusableTool]) -> Option<ToolRefusal> {
    let first = unusable.first()?;
    let mut sentences: Vec<(&str, String)> = Vec::new();
    let mut hints: Vec<&str> = vec![&first.hint];
    for one in unusable {
        match sentences.last_mut() {
            Some((step, sentence)) if *step == one.step => {
                sentence.push_str(&format!("; it also {} `{}`, and {}", one.wants(), one.tool, one.reason));
            }
            _ => {
                let sentence = format!(
                    "the step `{}` {} the tool `{}`, and {}",
                    one.step,
                    one.wants(),
                    one.tool,
                    one.reason
                );
                sentences.push((&one.step, sentence));
            }
        }
        if !hints.contains(&one.hint.as_str()) {
            hints.push(&one.hint);
        }
    }
    let sentences: Vec<String> = sentences.into_iter().map(|(_, sentence)| sentence).collect();
    Some(ToolRefusal { message: sentences.join("; "), hint: hints.join("; ") })
}

/// Calls `see` with every model that steps and agents name, into loops and included workflows.
pub fn each_model(flow: &LoadedWorkflow, see: &mut impl FnMut(&str)) {
    models_of(&flow.steps, &mut Entered::default(), see);
    in_steps(&flow.steps, "", &mut Entered::default(), &mut |_, agent| {
        if let Some(model) = &agent.spec.model {
            see(model);
        }
    });
}

/// Whether steps are to work in copies of the repository, those of included workflows among them.
pub fn is_isolated(flow: &LoadedWorkflow) -> bool {
    fn inside(steps: &[LoadedStep], entered: &mut Entered) -> bool {
        steps.iter().any(|step| match &step.body {
            StepBody::Approve(_) | StepBody::Agent => false,
            StepBody::Include(included) => entered.is_first(included) && isolates(included, entered),
            StepBody::Loop(repeated) => inside(&repeated.steps, entered),
        })
    }
    fn isolates(flow: &LoadedWorkflow, entered: &mut Entered) -> bool {
        let own = Isolation::of(flow.workflow.options.isolation.as_deref());
        own == Isolation::Worktree || inside(&flow.steps, entered)
    }
    isolates(flow, &mut Entered::default())
}

/// Calls `see` with every price that documents give: the outer document first, then what it includes.
pub fn each_price(flow: &LoadedWorkflow, see: &mut impl FnMut(&str, &ModelPrice)) {
    flow.workflow.prices.iter().for_each(|(model, price)| see(model, price));
    prices_of(&flow.steps, &mut Entered::default(), see);
}

fn prices_of(steps: &[LoadedStep], entered: &mut Entered, see: &mut impl FnMut(&str, &ModelPrice)) {
    for step in steps {
        match &step.body {
            StepBody::Agent | StepBody::Approve(_) => {}
            StepBody::Include(included) => {
                if entered.is_first(included) {
                    included.workflow.prices.iter().for_each(|(model, price)| see(model, price));
                    prices_of(&included.steps, entered, see);
                }
            }
            StepBody::Loop(repeated) => prices_of(&repeated.steps, entered, see),
        }
    }
}

fn models_of(steps: &[LoadedStep], entered: &mut Entered, see: &mut impl FnMut(&str)) {
    for step in steps {
        if let Some(model) = &step.spec.model {
            see(model);
        }
        match &step.body {
            StepBody::Agent | StepBody::Approve(_) => {}
            StepBody::Include(included) => {
                if entered.is_first(included) {
                    models_of(&included.steps, entered, see);
                }
            }
            StepBody::Loop(repeated) => models_of(&repeated.steps, entered, see),
        }
    }
}

/// Calls `see` for the agents of all steps, with the steps' names, into loops and included workflows.
fn in_steps(
    steps: &[LoadedStep],
    around: &str,
    entered: &mut Entered,
    see: &mut impl FnMut(&str, &Arc<LoadedAgent>),
) {
    for step in steps {
        let name = if around.is_empty() { step.id.clone() } else { format!("{around}.{}", step.id) };
        match &step.body {
            StepBody::Agent | StepBody::Approve(_) => {}
            StepBody::Include(included) => {
                if entered.is_first(included) {
                    in_steps(&included.steps, &name, entered, see);
                }
            }
            StepBody::Loop(repeated) => {
                in_steps(&repeated.steps, &name, entered, see);
                if let LoopKind::RepeatUntil { judge: Some(judge), .. } = &repeated.kind {
                    see(&format!("{name}.judge"), judge);
                }
            }
        }
        if let Some(agent) = &step.agent {
            see(&name, agent);
        }
    }
}

fn why_not(tool: &str, registry: &Registry, permissions: &Permissions) -> Option<Forbidden> {
    match registry.get(tool) {
        Some(found) => permissions.forbids(found.spec()),
        None if permissions.removes(tool) => Some(denied(tool)),
        None => Some(Forbidden {
            reason: format!("`{tool}` is not among the tools of this run"),
            hint: what_brings(tool),
        }),
    }
}

fn denied(tool: &str) -> Forbidden {
    Forbidden {
        reason: format!("`{tool}` is denied by a rule"),
        hint: format!("take `{tool}` out of `--exclude-tools` or `permissions.deny`"),
    }
}

/// What would have to be otherwise for a tool to be there.
fn what_brings(tool: &str) -> String {
    match tool {
        "agent" => "`--core-tools`, `tools.core` and `--bare` leave it out where they do not name it, and so does `--max-subagent-depth 1`: a step is an agent of the run".to_owned(),
        "skill" => "it is there when there is a skill: a `SKILL.md` below `skills` of `$TENON_HOME`, or of `.tenon` in a trusted project".to_owned(),
        "tool_search" => "it is there when a run has many tools".to_owned(),
        "web_search" => "tenon has none of its own; tools of MCP servers are written `mcp__server__tool`".to_owned(),
        _ if tool.starts_with("mcp__") || tool == "read_mcp_resource" => {
            "it is there when its MCP server is; `tenon mcp list` shows the servers and their tools".to_owned()
        }
        _ => "`--core-tools`, `tools.core` and `--bare` leave out what they do not name".to_owned(),
    }
}

/// Why no step can have this tool, and what to do instead, where that is known without any run.
pub(crate) fn never_of_steps(tool: &str) -> Option<(&'static str, &'static str)> {
    const LEAVE_OUT: &str = "take it out of `tools`";
    match tool {
        "todo_write" => {
            Some(("it is the list of tasks of a single run, and a workflow has its steps", LEAVE_OUT))
        }
        "cron_create" | "cron_list" | "cron_delete" => {
            Some(("schedules belong to a single run, and a step is over with its answer", LEAVE_OUT))
        }
        "ask_user_question" => {
            Some(("nobody sits before a workflow to be asked", "a step with `approve` asks a person"))
        }
        "exit_plan_mode" => {
            Some(("it hands a plan to whoever drives a single run", "a step with `approve` asks a person"))
        }
        "structured_output" => Some((
            "it comes with `--json-schema`, which a workflow has not",
            "give the agent a `resultSchema`, which brings `submit_result`",
        )),
        _ => None,
    }
}

/// Tools that steps have besides those of the run.
pub(crate) const STEP_TOOLS: [&str; 4] =
    ["submit_result", "send_message", "shared_memory_read", "shared_memory_write"];
/// Of the planner and the coordinator.
const OTHER_TOOLS: [&str; 4] = ["structured_output", "forward_to_agent", "narrate", "finalize"];

/// Whether there is a tool of this name, as far as it is known without the run's own servers.
pub fn is_tool_of_steps(name: &str) -> bool {
    let name = own_name(name);
    STEP_TOOLS.contains(&name)
        || OTHER_TOOLS.contains(&name)
        || tenon_tools::known_tool_names().any(|known| known == name)
}
