//! The graph as JSON, for programs that draw it themselves.

use serde_json::{Value, json};

use super::{Plan, PlanKind, PlanStep};

pub(super) fn draw(plan: &Plan) -> String {
    let id = |index: &usize| plan.steps[*index].id.as_str();
    let edges: Vec<Value> =
        plan.edges.iter().map(|(from, to)| json!({"from": id(from), "to": id(to)})).collect();
    let steps: Vec<Value> = plan.steps.iter().map(step).collect();
    let order: Vec<&str> = plan.order.iter().map(id).collect();
    let graph = json!({"name": plan.name, "steps": steps, "edges": edges, "order": order});
    format!("{graph:#}\n")
}

fn step(step: &PlanStep) -> Value {
    let kind = match step.kind {
        PlanKind::Agent => "agent",
        PlanKind::Include => "include",
        PlanKind::RepeatUntil => "repeat-until",
        PlanKind::ForEach => "for-each",
    };
    json!({
        "id": step.id,
        "kind": kind,
        "agent": step.agent,
        "condition": step.has_condition,
        "files": step.files,
        "layer": step.layer,
        "inner": step.inner,
    })
}
