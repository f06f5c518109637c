//! Are the events of a workflow run a story that can be true? Every step that starts ends once in each attempt at what is around it,
//! one that was over does not start again, agents work only in steps that have started, every call has its start and its end, nothing
//! happens in a loop or an include before it has started, numbers go on without a gap, and the last line adds up.

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
    let (step, data) = (event["step_id"].as_str().unwrap_or_default(), &event["data"]);
    let said = |key: &str| data[key].as_str().unwrap_or_default();
    let attempt = match event["attempt"].as_u64() {
        Some(attempt) if attempt > 1 => format!("@{attempt}"),
        _ => String::new(),
    };
    format!(
        "{} {} {step}{attempt} {}{} {}",
        event["seq"],
        name(event),
        said("status"),
        said("phase"),
        said("tool_call_id")
    )
}

fn name(event: &Value) -> &str {
    event["type"].as_str().unwrap_or_default()
}

/// What has been told so far.
#[derive(Default)]
struct Told<'a> {
    /// Steps under way, in which attempt at what is around them.
    open: BTreeMap<&'a str, u64>,
    /// The latest attempt in which each step was told to be over.
    over: BTreeMap<&'a str, u64>,
    /// How each step stands.
    standing: BTreeMap<&'a str, &'a str>,
    /// Of each step, by the call that its agent works for: whether a model is asked.
    asked: BTreeSet<(&'a str, &'a str)>,
    calls: BTreeSet<(&'a str, &'a str, &'a str)>,
    includes: BTreeSet<&'a str>,
    /// Before the ids of what is inside: how often all of that was tried again.
    tried_again: Vec<String>,
    resumed: bool,
}

fn check(events: &[Value]) -> Result<(), String> {
    let mut told = Told::default();
    // What had ended before is told again from the inside out.
    let is_restored = |event: &&Value| name(event) == "step_restored";
    let over_before: BTreeSet<&str> =
        events.iter().filter(is_restored).filter_map(|event| event["step_id"].as_str()).collect();
    for (position, event) in events.iter().enumerate() {
        let wrong = |what: &str| Err(format!("{what}: {}", shown(event)));
        if event["seq"].as_u64() != Some(position as u64 + 1) {
            return wrong(&format!("its number is not {}", position + 1));
        }
        let step = event["step_id"].as_str().unwrap_or_default();
        let unstarted = containers(step).into_iter().find(|around| !told.open.contains_key(around.as_str()));
        match (name(event), &unstarted) {
            (
                "step_start" | "step_end" | "step_progress" | "agent_turn" | "tool_call" | "error",
                Some(around),
            ) => return wrong(&format!("`{around}` around it is not under way")),
            ("step_skipped", Some(around)) if !over_before.contains(around.as_str()) => {
                return wrong(&format!("`{around}` around it is not under way"));
            }
            _ => {}
        }
        if let Err(what) = told.hear(event, step) {
            return wrong(&what);
        }
    }
    let last = events.last().ok_or("nothing is told")?;
    if name(last) != "workflow_end" {
        return Err("it has no end".to_owned());
    }
    match told.open.first_key_value() {
        Some((step, _)) if last["data"]["status"] != "suspended" => {
            return Err(format!("`{step}` has no end"));
        }
        _ => {}
    }
    if let Some((step, _, call)) = told.calls.first() {
        return Err(format!("the call `{call}` of `{step}` has no end"));
    }
    adds_up(events, &told)
}

impl<'a> Told<'a> {
    fn hear(&mut self, event: &'a Value, step: &'a str) -> Result<(), String> {
        let data = &event["data"];
        let said = |key: &str| data[key].as_str().unwrap_or_default();
        let attempt = match (step, event["attempt"].as_u64()) {
            ("", None) => 0,
            ("", Some(_)) => return Err("an attempt at no step".to_owned()),
            (_, None | Some(0)) => return Err("it has no attempt".to_owned()),
            (step, Some(attempt)) => {
                let around = self.tried_again.iter().filter(|inside| step.starts_with(*inside)).count();
                let expected = around as u64 + 1;
                // A judge is outside of the round that it judges.
                let fits = match step.ends_with(".judge") || self.resumed {
                    true => attempt <= expected || self.resumed,
                    false => attempt == expected,
                };
                if !fits {
                    return Err(format!("its attempt is not {expected}"));
                }
                attempt
            }
        };
        let was_over = self.over.get(step).is_some_and(|over| *over >= attempt);
        match name(event) {
            "workflow_start" => self.resumed = data["resumed"] == true,
            "step_start" => {
                if self.open.insert(step, attempt).is_some() {
                    return Err("it had started".to_owned());
                }
                if was_over {
                    return Err("it was over".to_owned());
                }
                if data["include"].is_string() {
                    self.includes.insert(step);
                }
                self.standing.insert(step, "suspended");
            }
            "step_end" => {
                // An expression that decides whether it starts may be what failed.
                let is_unstarted = data["error"]["class"] == "expression";
                match self.open.remove(step) {
                    None if !is_unstarted => return Err("it had not started".to_owned()),
                    Some(started) if started != attempt => {
                        return Err("it started in another attempt".to_owned());
                    }
                    _ => {}
                }
                if was_over {
                    return Err("it was over".to_owned());
                }
                if let Some((_, _, call)) = self.calls.iter().find(|(of, _, _)| *of == step) {
                    return Err(format!("its call `{call}` has no end"));
                }
                self.asked.retain(|(of, _)| *of != step);
                self.over.insert(step, attempt);
                self.standing.insert(step, said("status"));
            }
            "step_restored" | "step_skipped" => {
                if self.open.contains_key(step) {
                    return Err("it is under way".to_owned());
                }
                if was_over {
                    return Err("it was over".to_owned());
                }
                self.over.insert(step, attempt);
                self.standing.insert(step, said("status"));
            }
            "error" if data["retry_after_ms"].is_u64() => {
                if !self.open.contains_key(step) {
                    return Err("it is not under way".to_owned());
                }
                match (data["item"].as_u64(), data["iteration"].as_u64()) {
                    (Some(item), _) => self.tried_again.push(format!("{step}[{item}].")),
                    (None, Some(round)) => self.tried_again.push(format!("{step}.{round}.")),
                    (None, None) if self.includes.contains(step) => self.tried_again.push(format!("{step}.")),
                    (None, None) => {}
                }
            }
            "agent_turn" | "tool_call" | "output"
                if !step.is_empty() && self.open.get(step) != Some(&attempt) =>
            {
                return Err("it is not under way".to_owned());
            }
            "agent_turn" => {
                let who = (step, said("parent_call_id"));
                match said("phase") {
                    "request" => drop(self.asked.insert(who)),
                    _ if !self.asked.remove(&who) => return Err("nobody was asked".to_owned()),
                    _ => {}
                }
            }
            "tool_call" => {
                let call = (step, said("parent_call_id"), said("tool_call_id"));
                let is_start = said("phase") == "start";
                if is_start && !self.calls.insert(call) {
                    return Err("the call had started".to_owned());
                }
                if !is_start && !self.calls.remove(&call) {
                    return Err("the call had not started".to_owned());
                }
                if is_start && data["input"].is_null() {
                    return Err("the call has no arguments".to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether the last line has every step of the document, as it was told, and what they used is what the run has used.
fn adds_up(events: &[Value], told: &Told<'_>) -> Result<(), String> {
    let end = &events.last().ok_or("nothing is told")?["data"];
    let Some(plan) = events.iter().find(|event| name(event) == "plan_ready") else { return Ok(()) };
    if !events.iter().any(|event| name(event) == "workflow_start") {
        return Ok(());
    }
    let none = serde_json::Map::new();
    let steps = end["steps"].as_object().unwrap_or(&none);
    let planned = plan["data"]["workflow"]["steps"].as_array().into_iter().flatten();
    let planned: Vec<&str> = planned.filter_map(|step| step["id"].as_str()).collect();
    let reported: Vec<&str> = steps.keys().map(String::as_str).collect();
    if planned != reported {
        return Err(format!("the steps are {planned:?}, and in the end {reported:?}"));
    }
    for (id, step) in steps {
        let standing = told.standing.get(id.as_str()).copied().unwrap_or("waiting");
        if step["status"] != standing {
            return Err(format!("`{id}` is {standing}, and in the end {}", step["status"]));
        }
    }
    let coordinator = (!end["coordinator"].is_null()).then_some(&end["coordinator"]);
    for kind in ["input", "output", "cache_read", "cache_write", "reasoning", "total"] {
        let used = |of: &Value| of["usage"][kind].as_u64().unwrap_or_default();
        let sum: u64 = steps.values().chain(coordinator).map(used).sum();
        if sum != used(end) {
            return Err(format!("the steps used {sum} tokens ({kind}), and the run {}", used(end)));
        }
    }
    let cost = |of: &Value, key: &str| of[key].as_f64();
    let costs: Option<f64> = steps.values().chain(coordinator).map(|step| cost(step, "cost")).sum();
    match (costs, cost(end, "total_cost_usd")) {
        (Some(sum), Some(total)) if (sum - total).abs() < 1e-9 => Ok(()),
        (None, None) => Ok(()),
        (sum, total) => Err(format!("the steps cost {sum:?}, and the run {total:?}")),
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
