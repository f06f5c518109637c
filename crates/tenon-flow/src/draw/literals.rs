//! A plan without what its document quotes: a text in a condition or an item of a list may be as secret as an answer.

use super::{Inner, Plan, PlanKind};
use crate::StepStatus;

const LEFT_OUT: char = '…';

impl Plan {
    /// Expressions keep their words and numbers, and lose the texts in quotes; lists are counted.
    pub(crate) fn without_literals(mut self) -> Plan {
        for step in &mut self.steps {
            step.condition = step.condition.as_deref().map(without_literals);
            match &mut step.kind {
                // A question is there to be read.
                PlanKind::Agent | PlanKind::Include { .. } | PlanKind::Approval { .. } => {}
                PlanKind::RepeatUntil { until, .. } => *until = until.as_deref().map(without_literals),
                PlanKind::ForEach { items, .. } => {
                    *items = match serde_json::from_str::<Vec<serde_json::Value>>(items) {
                        Ok(list) if list.len() == 1 => "1 item".to_owned(),
                        Ok(list) => format!("{} items", list.len()),
                        Err(_) => without_literals(items),
                    };
                }
            }
            step.inner = match std::mem::replace(&mut step.inner, Inner::Nothing) {
                Inner::Steps(plan) => Inner::Steps(Box::new(plan.without_literals())),
                inner @ (Inner::Nothing | Inner::LeftOut { .. }) => inner,
            };
        }
        self
    }
}

/// An expression with the texts in it left out, but for the names of statuses.
fn without_literals(expression: &str) -> String {
    let mut shown = String::new();
    let mut rest = expression;
    while let Some(at) = rest.find(['\'', '"']) {
        let (before, quoted) = rest.split_at(at);
        shown.push_str(before);
        let one = &quoted[..1];
        let three = one.repeat(3);
        let quote = if quoted.starts_with(&three) { three.as_str() } else { one };
        // In a raw text a backslash is one.
        let is_raw = before.ends_with(['r', 'R']);
        let inside = &quoted[quote.len()..];
        let end = end_of(inside, quote, is_raw);
        let content = &inside[..end];
        let is_status = StepStatus::ALL.iter().any(|status| status.name() == content);
        shown.push_str(quote);
        match content {
            "" => {}
            content if is_status => shown.push_str(content),
            _ => shown.push(LEFT_OUT),
        }
        shown.push_str(quote);
        rest = inside[end..].strip_prefix(quote).unwrap_or_default();
    }
    shown.push_str(rest);
    shown
}

/// Where a text ends: at its quote, or with everything.
fn end_of(inside: &str, quote: &str, is_raw: bool) -> usize {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' && !is_raw {
            escaped = true;
        } else if inside[at..].starts_with(quote) {
            return at;
        }
    }
    inside.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_quotes_are_left_out() {
        for (written, shown) in [
            ("steps.a.status == 'completed'", "steps.a.status == 'completed'"),
            ("steps.a.content.contains('sk-1')", "steps.a.content.contains('…')"),
            (r#"x == "a'b" && y == 'c"d'"#, r#"x == "…" && y == '…'"#),
            (r"x == 'a\'b' || true", "x == '…' || true"),
            (r"x.matches(r'a\') || y == 'b'", "x.matches(r'…') || y == '…'"),
            (r#"x == """a "quoted" one""" && n > 3"#, r#"x == """…""" && n > 3"#),
            ("x == 'never closed", "x == '…'"),
            ("x == '' && 3 < size(y)", "x == '' && 3 < size(y)"),
            ("größe == 'ä'", "größe == '…'"),
        ] {
            assert_eq!(without_literals(written), shown);
        }
    }
}
