//! Mermaid, for pages that render it.

use super::{Plan, PlanStep};

pub(super) fn draw(plan: &Plan) -> String {
    // A JSON string is a YAML string.
    let title = serde_json::Value::from(plan.name.as_str());
    let mut text = format!("---\ntitle: {title}\n---\nflowchart TD\n");
    for (index, step) in plan.steps.iter().enumerate() {
        if step.inner.is_empty() {
            text.push_str(&format!("  s{index}[\"{}\"]\n", label(step)));
            continue;
        }
        text.push_str(&format!("  subgraph s{index}[\"{}\"]\n", label(step)));
        for (inner, id) in step.inner.iter().enumerate() {
            text.push_str(&format!("    s{index}_{inner}[\"{}\"]\n", escaped(id)));
        }
        text.push_str("  end\n");
    }
    for (from, to) in &plan.edges {
        text.push_str(&format!("  s{from} --> s{to}\n"));
    }
    text
}

fn label(step: &PlanStep) -> String {
    let tags = step.tags();
    let lines = [step.id.as_str(), tags.as_str()];
    lines.iter().filter(|line| !line.is_empty()).map(|line| escaped(line)).collect::<Vec<_>>().join("<br/>")
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
