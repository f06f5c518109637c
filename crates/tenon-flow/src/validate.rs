//! What may not be combined in a document: names that lead nowhere, cycles, loops that contradict themselves.
//!
//! Everything here follows from the document alone. All problems are found in one pass.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::diagnostic::{Code, Problems, nearest, quoted};
use crate::document::{Items, Loop, Places, Step, Workflow};
use crate::fields::{ID_PATTERN, MAX_STEPS};
use crate::isolation::WORKTREE;
use crate::parse::join;
use crate::topology;

/// Ids of steps inside loops are less strict.
const LOOSE_ID_PATTERN: &str = "^[a-zA-Z][a-zA-Z0-9_-]*$";
/// Names of outputs become keys of the result.
const OUTPUT_PATTERN: &str = "^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$";

static ID: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(ID_PATTERN).ok());
static LOOSE_ID: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(LOOSE_ID_PATTERN).ok());
static OUTPUT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(OUTPUT_PATTERN).ok());

fn fits(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

pub(crate) fn validate(workflow: &Workflow, places: &Places, problems: &mut Problems<'_>) {
    let mut check = Check { workflow, places, problems };
    check.agents();
    if workflow.steps.len() > MAX_STEPS {
        let message = format!("workflow has too many steps ({} > max {MAX_STEPS})", workflow.steps.len());
        check.error(Code::TooLarge, "/steps", message);
    }
    check.isolation();
    check.steps(&workflow.steps, "", Level::Top);
    for (name, _) in &workflow.outputs {
        if !fits(&OUTPUT, name) {
            let message = format!("the output `{}` must match {OUTPUT_PATTERN}", quoted(name));
            check.error(Code::Validation, &join("/outputs", name), message);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Top,
    InLoop,
}

struct Check<'c, 'a> {
    workflow: &'c Workflow,
    places: &'c Places,
    problems: &'c mut Problems<'a>,
}

impl Check<'_, '_> {
    fn error(&mut self, code: Code, pointer: &str, message: impl Into<String>) {
        self.problems.error(code, self.places.of(pointer), message);
    }

    fn hinted(&mut self, code: Code, pointer: &str, message: String, hint: Option<String>) {
        let problem = self.problems.error(code, self.places.of(pointer), message);
        if let Some(hint) = hint {
            problem.hint(hint);
        }
    }

    /// Other values are of other runners. Steps run all the same, so it only warns.
    fn isolation(&mut self) {
        let Some(wanted) = self.workflow.options.isolation.as_deref().filter(|wanted| *wanted != WORKTREE)
        else {
            return;
        };
        let message = format!("there is no `isolation: {}` here, so steps are not isolated", quoted(wanted));
        let place = self.places.of("/options/isolation");
        let hint = format!("`{WORKTREE}` gives each step a git worktree of its own");
        self.problems.warning(Code::Validation, place, message).hint(hint);
    }

    fn agents(&mut self) {
        for (name, agent) in &self.workflow.agents {
            let pointer = join("/agents", name);
            if !fits(&ID, name) {
                let message = format!("agent name `{}` must match {ID_PATTERN}", quoted(name));
                self.error(Code::Validation, &pointer, message);
            }
            if agent.description.is_empty() {
                let message = format!("agent `{}` is missing the required field `description`", quoted(name));
                self.error(Code::AgentMissingDescription, &pointer, message);
            }
        }
    }

    /// `inside` is the pointer of the object that has the steps.
    fn steps(&mut self, steps: &[Step], inside: &str, level: Level) {
        let list = join(inside, "steps");
        let mut first: HashMap<&str, usize> = HashMap::new();
        for (index, step) in steps.iter().enumerate() {
            let pointer = join(&list, &index.to_string());
            self.id(step, index, &pointer, level);
            if !step.id.is_empty() && first.insert(&step.id, index).is_some() {
                let message = format!("duplicate step ID `{}`", quoted(&step.id));
                self.error(Code::DuplicateStep, &join(&pointer, "id"), message);
            }
            self.step(step, &pointer, level);
        }
        for (index, step) in steps.iter().enumerate() {
            for (position, id) in step.depends_on.iter().enumerate() {
                if first.contains_key(id.as_str()) {
                    continue;
                }
                let pointer = format!("{list}/{index}/dependsOn/{position}");
                let message =
                    format!("`{}` (referenced by step `{}`) is not a step", quoted(id), quoted(&step.id));
                let hint = nearest(id, first.keys().copied()).map(|meant| format!("did you mean `{meant}`?"));
                self.hinted(Code::MissingDep, &pointer, message, hint);
            }
        }
        // A name that leads nowhere is no edge, and hides no cycle.
        if let Err(left) = topology::order(steps) {
            let names: Vec<&str> = left.iter().map(|index| steps[*index].id.as_str()).collect();
            let pointer = format!("{list}/{}", left.first().copied().unwrap_or(0));
            let message =
                format!("workflow steps contain a dependency cycle (nodes: {})", quoted_list(&names));
            let at = if self.places.of(&join(&pointer, "dependsOn")) == self.places.of(&pointer) {
                pointer
            } else {
                join(&pointer, "dependsOn")
            };
            self.error(Code::Cycle, &at, message);
        }
    }

    fn id(&mut self, step: &Step, index: usize, pointer: &str, level: Level) {
        let at = join(pointer, "id");
        if step.id.is_empty() {
            self.error(Code::InvalidStepId, &at, format!("step at index {index} has an empty ID"));
        } else if !fits(&LOOSE_ID, &step.id) {
            let message = format!("step ID `{}` must match pattern {LOOSE_ID_PATTERN}", quoted(&step.id));
            self.error(Code::InvalidStepId, &at, message);
        } else if level == Level::Top && !fits(&ID, &step.id) {
            let message = format!("step ID `{}` must match pattern {ID_PATTERN}", quoted(&step.id));
            self.error(Code::InvalidStepId, &at, message);
        }
    }

    fn step(&mut self, step: &Step, pointer: &str, level: Level) {
        if let Some(agent) = &step.agent {
            self.agent_exists(Code::MissingAgent, &join(pointer, "agent"), agent, "unknown agent");
        }
        if step.include.is_some() {
            self.include(step, pointer);
        }
        match (&step.repeat, level) {
            (Some(_), Level::InLoop) => {
                let message = format!("inner step `{}` has a nested loop (prohibited)", quoted(&step.id));
                let hint = "put the inner loop into a workflow of its own and `include` it".to_owned();
                self.hinted(Code::NestedLoopProhibited, &join(pointer, "loop"), message, Some(hint));
            }
            (Some(repeat), Level::Top) => self.repeat(repeat, &join(pointer, "loop")),
            (None, _) => {}
        }
    }

    fn agent_exists(&mut self, code: Code, pointer: &str, agent: &str, words: &str) {
        if self.workflow.agents.contains_key(agent) {
            return;
        }
        let none = if self.workflow.agents.is_empty() { " (no agents defined)" } else { "" };
        let message = format!("{words} `{}`{none}", quoted(agent));
        let meant = nearest(agent, self.workflow.agents.keys().map(String::as_str));
        self.hinted(code, pointer, message, meant.map(|meant| format!("did you mean `{meant}`?")));
    }

    /// An included workflow brings its own of these.
    fn include(&mut self, step: &Step, pointer: &str) {
        let conflicts = [
            (step.agent.is_some(), "agent", Code::IncludeHasAgent),
            (!step.instructions.is_empty(), "instructions", Code::IncludeHasInstructions),
            (step.repeat.is_some(), "loop", Code::IncludeHasLoop),
            (step.condition.is_some(), "condition", Code::IncludeHasCondition),
            (!step.context_files.is_empty(), "contextFiles", Code::IncludeHasContextfiles),
            (step.model.is_some(), "model", Code::IncludeHasModel),
        ];
        for (_, field, code) in conflicts.into_iter().filter(|(given, _, _)| *given) {
            let message = format!("step `{}` has include and {field}", quoted(&step.id));
            self.error(code, &join(pointer, field), message);
        }
    }

    fn repeat(&mut self, repeat: &Loop, pointer: &str) {
        match &repeat.for_each {
            Some(items) => {
                let excluded = [
                    (repeat.max_iterations.is_some(), "maxIterations", Code::ForeachWithMaxIterations),
                    (repeat.until.is_some(), "until", Code::ForeachWithUntil),
                    (repeat.until_agent.is_some(), "untilAgent", Code::ForeachWithUntilagent),
                    (repeat.delay.is_some(), "delay", Code::ForeachWithDelay),
                ];
                for (_, field, code) in excluded.into_iter().filter(|(given, _, _)| *given) {
                    let message = format!("forEach is mutually exclusive with {field}");
                    self.error(code, &join(pointer, field), message);
                }
                if matches!(items, Items::List(items) if items.is_empty()) {
                    self.error(Code::ForeachEmptyArray, &join(pointer, "forEach"), "forEach array is empty");
                }
            }
            // A `forEach` of the wrong type has been reported; it was meant all the same.
            None if repeat.max_iterations.is_none() && !self.was_written(pointer, "forEach") => {
                let hint =
                    "say how often at most with `maxIterations`, or over what with `forEach`".to_owned();
                let message = "repeat-until loop requires maxIterations > 0".to_owned();
                self.hinted(Code::LoopMissingMaxIterations, pointer, message, Some(hint));
            }
            None => {}
        }
        if let Some(judge) = &repeat.until_agent {
            self.judge(judge, &join(pointer, "untilAgent"));
        }
        self.steps(&repeat.steps, pointer, Level::InLoop);
    }

    fn was_written(&self, pointer: &str, field: &str) -> bool {
        self.places.has(&join(pointer, field))
    }

    /// A judge says whether the loop is done, so its result must be able to.
    fn judge(&mut self, judge: &str, pointer: &str) {
        let Some(agent) = self.workflow.agents.get(judge) else {
            self.agent_exists(Code::UntilagentBadRef, pointer, judge, "untilAgent references unknown agent");
            return;
        };
        let missing = match &agent.result_schema {
            None => Some("must have resultSchema"),
            Some(schema) => undone(schema),
        };
        if let Some(missing) = missing {
            let message = format!("untilAgent `{}` {missing}", quoted(judge));
            let hint = "a judge submits `done`: `resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}`";
            self.hinted(Code::Validation, pointer, message, Some(hint.to_owned()));
        }
    }
}

/// What a judge's schema lacks.
fn undone(schema: &Value) -> Option<&'static str> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Some("resultSchema must have properties");
    };
    match properties.get("done") {
        None => return Some("resultSchema must have properties.done"),
        Some(Value::Object(done)) => {
            if done.get("type").and_then(Value::as_str) != Some("boolean") {
                return Some("resultSchema properties.done must have type boolean");
            }
        }
        Some(_) => return Some("resultSchema properties.done must be an object"),
    }
    match schema.get("required") {
        Some(Value::Array(required)) if required.iter().any(|name| name == "done") => None,
        None | Some(Value::Array(_)) => Some("resultSchema must have 'done' in required array"),
        Some(_) => Some("resultSchema.required must be an array"),
    }
}

fn quoted_list(names: &[&str]) -> String {
    /// More names than this are not read.
    const SHOWN: usize = 12;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| quoted(name)).collect();
    if names.len() > SHOWN {
        shown.push(format!("and {} more", names.len() - SHOWN));
    }
    shown.join(" → ")
}
