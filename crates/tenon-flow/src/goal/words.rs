//! What a planner is told: how workflows work, then the goal, what is known besides, and the tools there are.

use std::fmt::Write as _;

use super::Goal;
use crate::StepParts;
use crate::fields::MAX_TEXT_BYTES;

/// Servers may bring hundreds of tools; a plan names a few.
const MAX_TOOLS: usize = 100;
/// Of what a tool is for.
const MAX_ABOUT_CHARS: usize = 140;

const HOW_TO_PLAN: &str = "You plan work for a team of agents. You are given a goal and answer with one workflow document, which a program \
then runs without supervision, one agent for each step. You do none of the work yourself.

How a workflow runs:
- A step starts when every step in its `dependsOn` is done; steps that do not depend on each other run at the same time.
- The agent of a step knows its `instructions` and what the steps in its `dependsOn` answered, and nothing else: neither the goal nor \
the other steps. Each `instructions` therefore says all that is needed of the goal, in at most {bytes} bytes.
- `agents` are roles, named by steps in `agent`. A role has a `description`, a `prompt` that says who the agent is, the `tools` it may use \
(left out: all of them), and a `resultSchema` if something has to read its answer by field: a JSON Schema of an object that declares each \
property.
- `condition`, `until`, the values of `outputs` and `forEach` are CEL expressions, or `forEach` is a list. They read steps that come before: \
`steps.ID.result.FIELD` where the step's agent has a `resultSchema`, `steps.ID.content` for its text, `steps.ID.status`. A step whose \
`condition` is false is skipped.
- `loop` with `forEach` does the step once for each item, with `${{ item }}` and `${{ index }}` in its instructions. `loop` with `maxIterations` \
and `until` does it again until the expression holds; with `untilAgent` an agent decides. A loop may have `steps` of its own, without loops \
in them.
- `${{ … }}` in `instructions` is replaced by the value of an expression.
- The answer of the workflow is what `outputs` names, else the answer of the one step that no other depends on. Let one last step put the \
answer together.

Plan as few steps as reach the goal well, often two to six; one is right for a small goal. Steps that can be done side by side do not depend \
on each other. Ids are lower-case words joined by `_`. Name only tools that are listed, and plan nothing that was not asked for.

A document, to show its form:
{example}";

/// It is valid, and a test says so.
pub(super) const EXAMPLE: &str = r#"{"name": "compare-licences", "description": "Which licences do the dependencies have, and is any a problem?",
 "agents": {
  "lister": {"description": "Lists dependencies.", "prompt": "You read manifests and report exactly what they say.", "tools": ["read_file", "glob"],
   "resultSchema": {"type": "object", "required": ["dependencies"], "properties": {"dependencies": {"type": "array", "items": {"type": "string"}}}}},
  "lawyer": {"description": "Judges licences.", "prompt": "You know software licences and say what you are not sure of."}},
 "steps": [
  {"id": "list", "agent": "lister", "instructions": "List the direct dependencies that the manifests in this folder declare."},
  {"id": "judge", "agent": "lawyer", "dependsOn": ["list"], "condition": "size(steps.list.result.dependencies) > 0",
   "instructions": "Say for this dependency which licence it has and whether a proprietary product may use it: ${{ item }}",
   "loop": {"forEach": "steps.list.result.dependencies", "outputMode": "cumulative"}},
  {"id": "report", "dependsOn": ["list", "judge"], "instructions": "Write one page: each dependency with its licence, problems first."}]}"#;

/// The same for every goal, so that providers can cache it.
pub(super) fn how_to_plan() -> String {
    HOW_TO_PLAN.replace("{bytes}", &MAX_TEXT_BYTES.to_string()).replace("{example}", EXAMPLE)
}

pub(super) fn task(goal: Goal<'_>, parts: &StepParts) -> String {
    let mut text = format!("## Goal\n{}\n", goal.text.trim());
    if let Some(context) = goal.context {
        let _ =
            write!(text, "\n## Context\nEvery step will be given this as well.\n\n{}\n", context.trim_end());
    }
    text.push_str("\n## Tools\n");
    let tools = usable(parts);
    match tools.is_empty() {
        true => text.push_str("There are none: the agents can only think and write.\n"),
        false => tools.iter().for_each(|(name, about)| {
            let _ = writeln!(text, "- `{name}`: {about}");
        }),
    }
    text
}

/// Tools that a step may have and the present mode allows, with what they are for.
fn usable(parts: &StepParts) -> Vec<(String, String)> {
    let StepParts { registry, template, .. } = parts;
    let mut names = registry.names();
    names.retain(|name| !parts.not_for_steps.contains(&name.as_str()));
    names
        .into_iter()
        .filter_map(|name| {
            let tool = registry.get(&name)?;
            template
                .permissions
                .forbids(tool.spec())
                .is_none()
                .then(|| (name, first_sentence(&tool.spec().description)))
        })
        .take(MAX_TOOLS)
        .collect()
}

fn first_sentence(about: &str) -> String {
    let line = about.trim().lines().next().unwrap_or_default();
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    line[..end].chars().take(MAX_ABOUT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{LoadOptions, load_text, plan_schema};

    #[test]
    fn the_example_is_a_plan() {
        let schema = tenon_contract::Schema::compile(&plan_schema().to_string()).unwrap();
        assert_eq!(schema.warnings(), &[] as &[String]);
        schema.check(EXAMPLE).unwrap_or_else(|rejection| panic!("{}", rejection.told()));
        let loaded =
            load_text(EXAMPLE, Path::new("plan.json"), Path::new("/"), &LoadOptions::default()).unwrap();
        assert_eq!(loaded.warnings, []);
        assert!(how_to_plan().contains("at most 2000 bytes") && !how_to_plan().contains("{example}"));
    }

    #[test]
    fn tools_are_told_in_a_sentence() {
        for (about, wanted) in [
            ("Reads a file. It must be text.", "Reads a file."),
            ("Reads a file\nand more", "Reads a file"),
            ("", ""),
            ("e.g. this", "e.g."),
            (&"ü".repeat(200), &"ü".repeat(MAX_ABOUT_CHARS)),
        ] {
            assert_eq!(first_sentence(about), wanted);
        }
    }
}
