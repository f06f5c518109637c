//! `result.my-field`: to CEL a subtraction, to whoever wrote it a name.
//!
//! Ids of steps that are known are put in their place before the text is parsed (`cel/rewrite.rs`). What is left is told
//! apart here: a step that is not there, or a field that must be written in brackets.

use cel::common::ast::{Expr, IdedExpr};

use super::check::Check;
use super::schema_view::View;
use super::scope::VARIABLES;
use super::shape::Shape;
use crate::diagnostic::{Code, quoted};

impl<'a> Check<'_, 'a> {
    /// Whether the field at `node` is only the beginning of a name with hyphens; if so, that has been told.
    pub(super) fn is_hyphenated(&mut self, node: &IdedExpr, operand: &Shape<'a>, field: &str) -> bool {
        if !matches!(node.expr, Expr::Select(_)) {
            return false;
        }
        let start = self.expression.offset_of(node);
        let Some(written) = hyphenated(self.expression.source(), start, field) else { return false };
        let is_step = matches!(operand, Shape::Steps);
        let Some(name) = self.meant_by(written, operand, field) else { return false };
        let name = name.to_owned();
        if is_step && self.known.steps.contains_key(name.as_str()) {
            let message = format!("here `{}` is a subtraction", quoted(&name));
            let hint = format!("write `steps[\"{}\"]`", quoted(&name));
            self.error(Code::CelUnknownStep, node, message, hint);
        } else if is_step {
            let message = format!("there is no step `{}` here", quoted(&name));
            let hint = self.step_meant(&name);
            self.error(Code::CelUnknownStep, node, message, hint);
        } else {
            let path = path_before(self.expression.source(), start);
            let message = format!("after a dot, `{}` is a subtraction", quoted(&name));
            let hint = format!("write `{path}[\"{}\"]`; a subtraction has spaces around it", quoted(&name));
            self.error(Code::CelUnknownField, node, message, hint);
        }
        self.told.push(start..start + written.len());
        self.tell_rest(start + written.len());
        true
    }

    /// What is asked further on of something that is not there means nothing either.
    pub(super) fn tell_rest(&mut self, from: usize) {
        let rest = self.expression.source().get(from..).unwrap_or_default();
        let is_path = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let length = rest.find(|c: char| !is_path(c)).unwrap_or(rest.len());
        if rest.starts_with('.') {
            self.told.push(from..from + length);
        }
    }

    /// The name that a run of letters and hyphens stands for, unless it is a subtraction.
    fn meant_by<'t>(&self, written: &'t str, operand: &Shape<'a>, field: &str) -> Option<&'t str> {
        if matches!(operand, Shape::Steps) {
            return Some(written);
        }
        let longest = prefixes(written).find(|name| *name != field && has_name(operand, name));
        if let Some(name) = longest
            && !has_name(operand, field)
        {
            return Some(name);
        }
        let after = written[field.len() + 1..].split('-').next().unwrap_or_default();
        let is_name = after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_known = VARIABLES.contains(&after) || self.bound.iter().any(|(name, _)| name == after);
        (is_name && !is_known).then(|| longest.unwrap_or(written))
    }
}

/// The letters, digits and hyphens from `start` on, if there is more of them than the field.
fn hyphenated<'s>(source: &'s str, start: usize, field: &str) -> Option<&'s str> {
    let rest = source.get(start..)?;
    let after = rest.strip_prefix(field)?;
    if !after.starts_with('-') {
        return None;
    }
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
    let run = rest[..end].trim_end_matches('-');
    // `count-size(list)` ends in a call.
    let is_call = rest[run.len()..].trim_start().starts_with('(');
    (run.len() > field.len() && !is_call).then_some(run)
}

/// `a-b-c`, `a-b`, `a`.
fn prefixes(run: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(run), |so_far| so_far.rsplit_once('-').map(|(before, _)| before))
}

fn has_name(shape: &Shape<'_>, name: &str) -> bool {
    match shape {
        Shape::Schema(it) => it.views.iter().flat_map(View::properties).any(|(known, _)| known == name),
        Shape::Fields(_, fields) => fields.iter().any(|(known, _)| *known == name),
        Shape::OneOf(values) => values.iter().any(|value| value.get(name).is_some()),
        _ => false,
    }
}

/// What stands before the dot of a field, as far as it is a path.
fn path_before(source: &str, field: usize) -> &str {
    let before = source[..field].trim_end().trim_end_matches('.').trim_end();
    let is_path = |c: char| c.is_alphanumeric() || "_.-[]'\"".contains(c);
    let from = before
        .rfind(|c: char| !is_path(c))
        .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
    match &before[from..] {
        "" => "…",
        path => path,
    }
}
