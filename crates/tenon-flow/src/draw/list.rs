//! A level of steps as lines, for terminals that are too narrow for its boxes.

use super::{Plan, hanging};

const FURTHER: &str = "    ";

/// Each step after everything it depends on, with what it depends on and what it is made of.
pub(super) fn lines(plan: &Plan, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, index) in plan.order.iter().enumerate() {
        let step = &plan.steps[*index];
        let mut head = format!("{}. {}", number + 1, step.lines().join(" "));
        let before = plan.edges.iter().filter(|(_, to)| to == index);
        let before: Vec<&str> = before.map(|(from, _)| plan.steps[*from].id.as_str()).collect();
        if !before.is_empty() {
            head.push_str(&format!(" after {}", before.join(", ")));
        }
        lines.extend(hanging(&head, columns));
        let room = columns.saturating_sub(FURTHER.len());
        let details = step.details().into_iter().flat_map(|detail| hanging(&detail, room));
        lines.extend(details.map(|line| format!("{FURTHER}{line}")));
    }
    lines
}
