//! Mermaid, for pages that render it.

use tenon_core::harmless_line;

use super::{Plan, PlanKind, PlanStep};

pub(super) fn draw(plan: &Plan) -> String {
    let title = match plan.left_out() {
        0 => harmless_line(&plan.name).into_owned(),
        _ => plan.title(),
    };
    // A JSON string is a YAML string.
    let title = serde_json::Value::from(title);
    let mut text = format!("---\ntitle: {title}\n---\nflowchart TD\n");
    level(plan, "s", "  ", &mut text);
    text
}

/// `prefix` is what the names of nodes begin with: they are numbers, because a name may hold anything.
fn level(plan: &Plan, prefix: &str, indent: &str, text: &mut String) {
    for (index, step) in plan.steps.iter().enumerate() {
        let node = format!("{prefix}{index}");
        match step.inner.plan() {
            None => {
                // A decision has its own shape.
                let (open, close) = match step.kind {
                    PlanKind::Approval { .. } => ("{{", "}}"),
                    _ => ("[", "]"),
                };
                text.push_str(&format!("{indent}{node}{open}\"{}\"{close}\n", label(step)));
            }
            Some(inner) => {
                text.push_str(&format!("{indent}subgraph {node}[\"{}\"]\n", label(step)));
                level(inner, &format!("{node}_"), &format!("{indent}  "), text);
                text.push_str(&format!("{indent}end\n"));
            }
        }
    }
    for (from, to) in &plan.edges {
        text.push_str(&format!("{indent}{prefix}{from} --> {prefix}{to}\n"));
    }
}

fn label(step: &PlanStep) -> String {
    let lines = step.lines().into_iter().chain(step.details());
    lines.map(|line| escaped(&line)).collect::<Vec<_>>().join("<br/>")
}

/// Everything that is not plainly a part of a name, as a character code.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || " _-.,".contains(c) {
            shown.push(c);
        } else {
            shown.push_str(&format!("#{};", u32::from(c)));
        }
    }
    shown
}
