//! Are the events of a workflow run a story that can be true? Every step that starts ends once, one that had ended before does
//! not start unless it is really tried again, agents work only in steps that have started, nothing happens in a loop or an include
//! before it has started, and numbers go on without a gap.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Panics with what is wrong and the whole story. `events` is one process's, from the first to the last.
pub fn assert_flow_events(events: &[Value]) {
    if let Err(wrong) = check(events) {
        let told: Vec<String> = events.iter().map(shown).collect();
        panic!("{wrong}\n{}", told.join("\n"));
    }
}

fn shown(event: &Value) -> String {
    let step = event["step_id"].as_str().unwrap_or_default();
    format!(
        "{} {} {step} {}",
        event["seq"],
        name(event),
        event["data"]["status"].as_str().unwrap_or_default()
    )
}

fn name(event: &Value) -> &str {
    event["type"].as_str().unwrap_or_default()
}

fn check(events: &[Value]) -> Result<(), String> {
    let mut open = BTreeSet::new();
    let mut restored: BTreeMap<&str, &str> = BTreeMap::new();
    let mut failed = BTreeSet::new();
    // What had ended before is told again from the inside out.
    let is_restored = |event: &&Value| name(event) == "step_restored";
    let over_before: BTreeSet<&str> =
        events.iter().filter(is_restored).filter_map(|event| event["step_id"].as_str()).collect();
    for (position, event) in events.iter().enumerate() {
        let told = shown(event);
        if event["seq"].as_u64() != Some(position as u64 + 1) {
            return Err(format!("its number is not {}: {told}", position + 1));
        }
        let step = event["step_id"].as_str().unwrap_or_default();
        if event["data"]["status"].as_str().is_some_and(|status| status != "completed") {
            failed.insert(step);
        }
        let unstarted = containers(step).into_iter().find(|around| !open.contains(around.as_str()));
        match (name(event), &unstarted) {
            ("step_start" | "step_end" | "step_progress" | "agent_turn" | "tool_call", Some(around)) => {
                return Err(format!("`{around}` around it is not under way: {told}"));
            }
            ("step_skipped", Some(around)) if !over_before.contains(around.as_str()) => {
                return Err(format!("`{around}` around it is not under way: {told}"));
            }
            _ => {}
        }
        match name(event) {
            "step_start" => {
                if !open.insert(step) {
                    return Err(format!("it had started: {told}"));
                }
                if restored.get(step) == Some(&"completed") && !is_tried_again(step, &failed) {
                    return Err(format!("it was done: {told}"));
                }
            }
            "step_end" => {
                // An expression that decides whether it starts may be what failed.
                let is_unstarted = event["data"]["error"]["class"] == "expression";
                if !open.remove(step) && !is_unstarted {
                    return Err(format!("it had not started: {told}"));
                }
            }
            "step_restored" => {
                if open.contains(step) {
                    return Err(format!("it is under way: {told}"));
                }
                restored.insert(step, event["data"]["status"].as_str().unwrap_or_default());
            }
            "step_skipped" if open.contains(step) => return Err(format!("it is under way: {told}")),
            "agent_turn" | "tool_call" if !step.is_empty() && !open.contains(step) => {
                return Err(format!("it is not under way: {told}"));
            }
            _ => {}
        }
    }
    let last = events.last().ok_or("nothing is told")?;
    if name(last) != "workflow_end" {
        return Err("it has no end".to_owned());
    }
    match open.first() {
        Some(step) if last["data"]["status"] != "suspended" => Err(format!("`{step}` has no end")),
        _ => Ok(()),
    }
}

/// The loops and includes that a step is inside of: `a` and `a.b` of `a.b[3].c`, `a` of `a.2` and of `a.2.c`.
fn containers(step: &str) -> Vec<String> {
    let parts: Vec<&str> = step.split('.').collect();
    let is_round = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    let mut around: Vec<String> = (1..=parts.len())
        .filter(|upto| !is_round(parts[upto - 1]))
        .map(|upto| {
            let id = parts[..upto].join(".");
            id.strip_suffix(']')
                .and_then(|id| id.rsplit_once('['))
                .map_or(id.clone(), |(id, _)| id.to_owned())
        })
        .collect();
    around.retain(|id| id != step);
    around
}

/// Whether something failed beside it, or around it: then what is around it is tried again as a whole.
fn is_tried_again(step: &str, failed: &BTreeSet<&str>) -> bool {
    let around = |step: &str| step.rsplit_once('.').map_or(String::new(), |(around, _)| around.to_owned());
    let own = around(step);
    failed.iter().any(|other| own.starts_with(&around(other)))
}
