//! What may not be combined in a document: names that lead nowhere, cycles, loops that contradict themselves.
//!
//! Everything here follows from the document alone. All problems are found in one pass.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::diagnostic::{Code, Problems, meant, quoted};
use crate::document::{Approval, Items, Loop, OnTimeout, Places, Step, Workflow};
use crate::fields::{ID_PATTERN, LOOSE_ID_PATTERN, MAX_STEPS, OUTPUT_PATTERN};
use crate::isolation::{Isolation, WORKTREE};
use crate::parse::{A_QUESTION, join, name_of};
use crate::topology;

/// What [`ID_PATTERN`] lets a name have.
const MAX_NAME_CHARS: usize = 64;

static ID: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(ID_PATTERN).ok());
static LOOSE_ID: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(LOOSE_ID_PATTERN).ok());
static OUTPUT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(OUTPUT_PATTERN).ok());

fn fits(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

pub(crate) fn validate(workflow: &Workflow, places: &Places, problems: &mut Problems<'_>) {
    let ids =
        workflow.steps.iter().enumerate().rev().map(|(index, step)| (step.id.as_str(), index)).collect();
    let mut check = Check { workflow, ids, places, problems };
    check.agents();
    if workflow.steps.len() > MAX_STEPS {
        let message = format!("workflow has too many steps ({} > max {MAX_STEPS})", workflow.steps.len());
        let hint = "move some of them into a workflow of its own and `include` it";
        check.error(Code::TooLarge, "/steps", message, hint);
    }
    check.isolation();
    check.steps(&workflow.steps, "", Level::Top);
    for (name, _) in &workflow.outputs {
        if !fits(&OUTPUT, name) {
            let message = format!("the output `{}` must match {OUTPUT_PATTERN}", quoted(name));
            let hint = "begin with a letter or `_`; then letters, digits, `_` and `-`, 64 in all";
            check.error(Code::Validation, &name_of(&join("/outputs", name)), message, hint);
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
    /// Of the document's own steps, the first of each id.
    ids: HashMap<&'c str, usize>,
    places: &'c Places,
    problems: &'c mut Problems<'a>,
}

impl Check<'_, '_> {
    fn error(&mut self, code: Code, pointer: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.error(code, self.places.of(pointer), message, hint);
    }

    /// Other values are of other runners. Steps run all the same, so it only warns.
    fn isolation(&mut self) {
        let wanted = self.workflow.options.isolation.as_deref();
        let Some(wanted) = wanted.filter(|wanted| Isolation::of(Some(wanted)) == Isolation::Unknown) else {
            return;
        };
        let message = format!("there is no `isolation: {}` here, so steps are not isolated", quoted(wanted));
        let place = self.places.of("/options/isolation");
        let hint = format!("`{WORKTREE}` gives each step a git worktree of its own");
        self.problems.warning(Code::Validation, place, message, hint);
    }

    fn agents(&mut self) {
        for (name, agent) in &self.workflow.agents {
            let pointer = join("/agents", name);
            if !fits(&ID, name) {
                let message = format!("agent name `{}` must match {ID_PATTERN}", quoted(name));
                self.error(Code::Validation, &pointer, message, name_hint(name));
            }
            if agent.description.is_empty() {
                let message = format!("agent `{}` is missing the required field `description`", quoted(name));
                let hint = "write `description: …` below it: what the agent is, in a few words";
                self.error(Code::AgentMissingDescription, &pointer, message, hint);
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
            match first.get(step.id.as_str()) {
                Some(taken) => {
                    let line = self.places.of(&format!("{list}/{taken}/id")).line;
                    let message = format!("duplicate step ID `{}`", quoted(&step.id));
                    let hint = format!("line {line} has the same one: give one of the two another `id`");
                    self.error(Code::DuplicateStep, &join(&pointer, "id"), message, hint);
                }
                None if step.id.is_empty() => {}
                None => {
                    first.insert(&step.id, index);
                }
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
                let outside = level == Level::InLoop && self.workflow.steps.iter().any(|step| step.id == *id);
                let hint = if outside {
                    format!(
                        "it is outside the loop: add `{}` to `dependsOn` of the step that has the loop",
                        quoted(id)
                    )
                } else {
                    let others = steps.iter().map(|step| step.id.as_str());
                    let others = others.filter(|other| !other.is_empty() && *other != step.id);
                    meant(id, others, "there is no other step here: leave `dependsOn` out")
                };
                self.error(Code::MissingDep, &pointer, message, hint);
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
            let hint = match left.as_slice() {
                [only] => format!("take `{}` out of its own `dependsOn`", quoted(&steps[*only].id)),
                _ => "take one of them out of a `dependsOn`, so that one can begin".to_owned(),
            };
            self.error(Code::Cycle, &at, message, hint);
        }
    }

    fn id(&mut self, step: &Step, index: usize, pointer: &str, level: Level) {
        let at = join(pointer, "id");
        // What is no step at all has been told.
        if !self.places.has(pointer) {
            return;
        }
        if step.id.is_empty() {
            let message = format!("step at index {index} has an empty ID");
            self.error(Code::InvalidStepId, &at, message, "give it a name: `id: …`");
            return;
        }
        let pattern = match level {
            _ if !fits(&LOOSE_ID, &step.id) => LOOSE_ID_PATTERN,
            Level::Top if !fits(&ID, &step.id) => ID_PATTERN,
            Level::Top | Level::InLoop => return,
        };
        let message = format!("step ID `{}` must match pattern {pattern}", quoted(&step.id));
        self.error(Code::InvalidStepId, &at, message, name_hint(&step.id));
    }

    fn step(&mut self, step: &Step, pointer: &str, level: Level) {
        if let Some(agent) = &step.agent {
            self.agent_exists(Code::MissingAgent, &join(pointer, "agent"), agent, "unknown agent");
        }
        if step.include.is_some() {
            self.include(step, pointer);
        }
        if let Some(approval) = &step.approve {
            self.approval(step, approval, pointer);
        }
        let Some(repeat) = &step.repeat else { return };
        let at = join(pointer, "loop");
        if level == Level::InLoop {
            let message = format!("inner step `{}` has a nested loop (prohibited)", quoted(&step.id));
            let hint = "put the inner loop into a workflow of its own and `include` it";
            self.error(Code::NestedLoopProhibited, &at, message, hint);
        }
        // What is wrong inside is wrong wherever the loop goes.
        self.repeat(repeat, &at);
    }

    fn agent_exists(&mut self, code: Code, pointer: &str, agent: &str, words: &str) {
        if self.workflow.agents.contains_key(agent) {
            return;
        }
        let none = if self.workflow.agents.is_empty() { " (no agents defined)" } else { "" };
        let message = format!("{words} `{}`{none}", quoted(agent));
        let names = self.workflow.agents.keys().map(String::as_str);
        let hint = meant(agent, names, "describe it under `agents:`, with a `description`");
        self.error(code, pointer, message, hint);
    }

    /// An included workflow brings its own of these.
    fn include(&mut self, step: &Step, pointer: &str) {
        for field in step.beside_include() {
            let code = match field {
                "agent" => Code::IncludeHasAgent,
                "instructions" => Code::IncludeHasInstructions,
                "loop" => Code::IncludeHasLoop,
                "condition" => Code::IncludeHasCondition,
                "contextFiles" => Code::IncludeHasContextfiles,
                _ => Code::IncludeHasModel,
            };
            let message = format!("step `{}` has include and {field}", quoted(&step.id));
            let hint = match code {
                Code::IncludeHasLoop => {
                    "put the `include` into a step of the loop: `loop: {steps: [{id: …, include: …}]}`"
                        .to_owned()
                }
                Code::IncludeHasCondition => {
                    "write the condition at a step of the included workflow".to_owned()
                }
                _ => format!("take `{field}` out: the included workflow brings its own"),
            };
            self.error(code, &join(pointer, field), message, hint);
        }
    }

    /// A person who is asked needs no agent, and has a time of its own.
    fn approval(&mut self, step: &Step, approval: &Approval, pointer: &str) {
        let conflicts = [
            (step.agent.is_some(), "agent"),
            (!step.instructions.is_empty(), "instructions"),
            (step.include.is_some(), "include"),
            (step.repeat.is_some(), "loop"),
            (!step.context_files.is_empty(), "contextFiles"),
            (step.model.is_some(), "model"),
            (step.timeout.is_some(), "timeout"),
            (step.retries > 0, "retries"),
            (step.max_retries.is_some(), "maxRetries"),
        ];
        for (_, field) in conflicts.into_iter().filter(|(given, _)| *given) {
            let message = format!("step `{}` has approve and {field}", quoted(&step.id));
            let hint = match field {
                "timeout" => "write it inside: `approve: {message: …, timeout: …}`".to_owned(),
                "loop" => "put the question into a step of the loop: `loop: {steps: [{id: …, approve: …}]}`"
                    .to_owned(),
                "retries" | "maxRetries" => format!("take `{field}` out: a question is asked once"),
                _ => format!("take `{field}` out, or do it in another step: this one asks a person"),
            };
            self.error(Code::ApproveConflict, &join(pointer, field), message, hint);
        }
        let at = join(pointer, "approve");
        if approval.message.trim().is_empty() {
            self.error(Code::Validation, &join(&at, "message"), "`approve` asks nothing", A_QUESTION);
        }
        if approval.timeout.is_none() && self.was_written(&at, "onTimeout") {
            let message = "onTimeout needs a timeout: without one the question waits for ever";
            let hint = "add `timeout: 24h` beside it, or take `onTimeout` out";
            self.error(Code::Validation, &join(&at, "onTimeout"), message, hint);
        }
        if approval.data.is_some() && approval.on_timeout == OnTimeout::Approve {
            let message = "onTimeout `approve` and data: nobody gives the data when the time runs out";
            let hint = "write `onTimeout: deny` or `fail`, or take `data` out";
            self.error(Code::ApproveConflict, &join(&at, "onTimeout"), message, hint);
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
                    let hint = format!("a loop goes over items or repeats: take `{field}` or `forEach` out");
                    self.error(code, &join(pointer, field), message, hint);
                }
                if matches!(items, Items::List(items) if items.is_empty()) {
                    let hint = "write the items, or an expression that gives them when it runs";
                    let at = join(pointer, "forEach");
                    self.error(Code::ForeachEmptyArray, &at, "forEach array is empty", hint);
                }
            }
            // A `forEach` of the wrong type has been reported; it was meant all the same.
            None if repeat.max_iterations.is_none() && !self.was_written(pointer, "forEach") => {
                let hint = "say how often at most with `maxIterations`, or over what with `forEach`";
                let message = "repeat-until loop requires maxIterations > 0";
                self.error(Code::LoopMissingMaxIterations, pointer, message, hint);
            }
            None => {}
        }
        match (&repeat.until_agent, &repeat.for_each) {
            (Some(judge), None) => self.judge(judge, &join(pointer, "untilAgent")),
            // Beside `forEach` it has to go, whatever it submits; a name that leads nowhere is told all the same.
            (Some(judge), Some(_)) => self.judge_exists(judge, &join(pointer, "untilAgent")),
            (None, _) => {}
        }
        if repeat.until_agent.is_some() {
            self.like_the_judge(&repeat.steps, pointer);
        }
        self.hidden(&repeat.steps, pointer);
        self.steps(&repeat.steps, pointer, Level::InLoop);
    }

    /// The judge of `refine` is `refine.0.judge` in events and reports, and so is a step of that name.
    fn like_the_judge(&mut self, steps: &[Step], pointer: &str) {
        if let Some(index) = steps.iter().position(|step| step.id == "judge") {
            let message = "`judge` is also what events and reports call the `untilAgent` of this loop";
            let hint = "rename the step, so that the two can be told apart";
            let place = self.places.of(&format!("{pointer}/steps/{index}/id"));
            self.problems.warning(Code::DuplicateStep, place, message, hint);
        }
    }

    /// Ids are of their own list, so a loop may have one that is taken outside; inside, the other is then out of sight.
    fn hidden(&mut self, steps: &[Step], pointer: &str) {
        for (index, step) in steps.iter().enumerate() {
            let Some(outer) = self.ids.get(step.id.as_str()).filter(|_| !step.id.is_empty()) else {
                continue;
            };
            let line = self.places.of(&format!("/steps/{outer}/id")).line;
            let id = quoted(&step.id);
            let message = format!("`{id}` is also a step outside the loop, which is out of sight in here");
            let hint = format!(
                "line {line} has the same `id`: rename one of the two, unless `steps.{id}` in the loop means this one"
            );
            let place = self.places.of(&format!("{pointer}/steps/{index}/id"));
            self.problems.warning(Code::DuplicateStep, place, message, hint);
        }
    }

    fn was_written(&self, pointer: &str, field: &str) -> bool {
        self.places.has(&join(pointer, field))
    }

    fn judge_exists(&mut self, judge: &str, pointer: &str) {
        self.agent_exists(Code::UntilagentBadRef, pointer, judge, "untilAgent references unknown agent");
    }

    /// A judge says whether the loop is done, so its result must be able to.
    fn judge(&mut self, judge: &str, pointer: &str) {
        let Some(agent) = self.workflow.agents.get(judge) else {
            self.judge_exists(judge, pointer);
            return;
        };
        let missing = match &agent.result_schema {
            None => Some("must have resultSchema"),
            Some(schema) => undone(schema),
        };
        if let Some(missing) = missing {
            let message = format!("untilAgent `{}` {missing}", quoted(judge));
            let hint = "a judge submits `done`: `resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}`";
            self.error(Code::Validation, pointer, message, hint);
        }
    }
}

/// A name of the same letters that could stand.
fn name_hint(name: &str) -> String {
    let mut letters = String::new();
    for c in name.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' | '_' | '-' => letters.push(c),
            _ if c.is_alphanumeric() => {}
            _ if letters.ends_with('-') => {}
            _ => letters.push('-'),
        }
    }
    let letters: String = letters
        .trim_start_matches(|c: char| !c.is_ascii_lowercase())
        .trim_end_matches('-')
        .chars()
        .take(MAX_NAME_CHARS)
        .collect();
    let rule = "a small letter first, then small letters, digits, `_` and `-`, 64 in all";
    if letters.is_empty() { rule.to_owned() } else { format!("such as `{letters}`: {rule}") }
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
