//! The graph as JSON, for programs that draw it themselves.

use serde_json::{Value, json};

use super::{Plan, PlanKind, PlanStep};

pub(super) fn draw(plan: &Plan) -> String {
    format!("{:#}\n", graph(plan))
}

fn graph(plan: &Plan) -> Value {
    let id = |index: &usize| plan.steps[*index].id.as_str();
    let edges: Vec<Value> =
        plan.edges.iter().map(|(from, to)| json!({"from": id(from), "to": id(to)})).collect();
    let steps: Vec<Value> = plan.steps.iter().map(step).collect();
    let order: Vec<&str> = plan.order.iter().map(id).collect();
    json!({"name": plan.name, "steps": steps, "edges": edges, "order": order, "includesLeftOut": plan.left_out()})
}

/// All keys are always there.
fn step(step: &PlanStep) -> Value {
    let mut value = json!({
        "id": step.id,
        "kind": "agent",
        "agent": step.agent,
        "condition": step.condition,
        "files": step.files,
        "layer": step.layer,
        "include": null,
        "forEach": null,
        "maxConcurrency": null,
        "maxIterations": null,
        "until": null,
        "untilAgent": null,
        "approve": null,
        "timeout": step.timeout,
        "onTimeout": null,
        "inner": step.inner.plan().map(graph),
    });
    match &step.kind {
        PlanKind::Agent => {}
        PlanKind::Include { path } => {
            value["kind"] = json!("include");
            value["include"] = json!(path);
        }
        PlanKind::RepeatUntil { at_most, until, judge } => {
            value["kind"] = json!("repeat-until");
            value["maxIterations"] = json!(at_most);
            value["until"] = json!(until);
            value["untilAgent"] = json!(judge);
        }
        PlanKind::ForEach { items, at_a_time } => {
            value["kind"] = json!("for-each");
            value["forEach"] = json!(items);
            value["maxConcurrency"] = json!(at_a_time);
        }
        PlanKind::Approval { message, timeout, on_timeout } => {
            value["kind"] = json!("approval");
            value["approve"] = json!(message);
            value["timeout"] = json!(timeout);
            value["onTimeout"] = json!(timeout.as_ref().map(|_| on_timeout));
        }
    }
    value
}
