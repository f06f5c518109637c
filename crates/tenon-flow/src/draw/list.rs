//! A level of steps as lines, for terminals that are too narrow for its boxes.

use super::{Plan, further, hanging};

/// Each step after everything it depends on, with what it depends on and what it is made of.
pub(super) fn lines(plan: &Plan, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let further = " ".repeat(further(columns));
    let room = columns - further.len();
    for (number, index) in plan.order.iter().enumerate() {
        let step = &plan.steps[*index];
        let mut head = format!("{}. {}", number + 1, step.lines().join(" "));
        let before = plan.edges.iter().filter(|(_, to)| to == index);
        let before: Vec<_> = before.map(|(from, _)| plan.steps[*from].name()).collect();
        if !before.is_empty() {
            head.push_str(&format!(" after {}", before.join(", ")));
        }
        lines.extend(hanging(&head, columns));
        let details = step.details().into_iter().flat_map(|detail| hanging(&detail, room));
        lines.extend(details.map(|line| format!("{further}{line}")));
    }
    lines
}
