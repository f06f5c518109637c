//! Expressions and templates of one document: compiled, checked against what is around them, and shown where they are.

use super::checks::Check;
use crate::cel::{CelSyntax, Expression, Known, Stands, Wanted};
use crate::diagnostic::{Code, Severity};
use crate::document::Place;
use crate::template::Template;

/// The steps an expression can name, and what is around it.
pub(super) struct Around<'a> {
    pub(super) known: Known<'a>,
    /// Steps that have finished before it is evaluated.
    pub(super) before: Vec<&'a str>,
    /// The step it belongs to.
    pub(super) own: &'a str,
}

impl<'a> Around<'a> {
    /// The same around an expression that stands elsewhere.
    pub(super) fn standing(&self, stands: Stands<'a>) -> Around<'a> {
        let known = Known { stands, ..self.known.clone() };
        Around { known, before: self.before.clone(), own: self.own }
    }
}

/// Which steps an expression can count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Those before it.
    Before,
    /// Every step of the document.
    All,
}

impl Check<'_> {
    pub(super) fn expression(
        &mut self,
        source: &str,
        pointer: &str,
        around: &Around<'_>,
        wanted: Wanted,
        seen: Seen,
    ) -> Option<Expression> {
        let place = self.places.of(pointer);
        match Expression::compile(source, around.known.steps.keys().copied()) {
            Ok(expression) => {
                let ok = self.findings(&expression, around, wanted, seen, |offset| (source, place, offset));
                ok.then_some(expression)
            }
            Err(error) => {
                self.syntax(&error, source, place);
                None
            }
        }
    }

    pub(super) fn template(&mut self, text: &str, pointer: &str, around: &Around<'_>) -> Option<Template> {
        let place = self.places.of(pointer);
        let ids: Vec<&str> = around.known.steps.keys().copied().collect();
        match Template::compile(text, &ids) {
            Ok(template) => {
                let mut ok = true;
                for (expression, start) in template.expressions() {
                    let at = |offset| (text, place, start + offset);
                    ok &= self.findings(expression, around, Wanted::Anything, Seen::Before, at);
                }
                ok.then_some(template)
            }
            Err(error) => {
                self.syntax(&error, text, place);
                None
            }
        }
    }

    fn syntax(&mut self, error: &CelSyntax, text: &str, place: Place) {
        let place = inside(self.text, place, text, error.offset);
        self.problems.error(Code::CelSyntax, place, format!("not an expression: {}", error.message));
    }

    /// Whether there is no error among what is found.
    fn findings<'t>(
        &mut self,
        expression: &Expression,
        around: &Around<'_>,
        wanted: Wanted,
        seen: Seen,
        at: impl Fn(usize) -> (&'t str, Place, usize),
    ) -> bool {
        let checked = expression.check(&around.known, wanted);
        let place = |offset: usize| {
            let (text, place, offset) = at(offset);
            inside(self.text, place, text, offset)
        };
        let mut ok = true;
        for finding in checked.findings {
            ok &= finding.severity != Severity::Error;
            let place = place(finding.offset);
            let problem = match finding.severity {
                Severity::Error => self.problems.error(finding.code, place, finding.message),
                Severity::Warning => self.problems.warning(finding.code, place, finding.message),
            };
            problem.hint = finding.hint;
        }
        for (id, offset) in checked.steps {
            if seen == Seen::Before && !around.before.contains(&id.as_str()) {
                if id == around.own {
                    let message = format!("step `{id}` has not run when this is evaluated: it is this step");
                    self.problems.warning(Code::CelUnknownStep, place(offset), message);
                    continue;
                }
                let message = format!("step `{id}` may not have finished: this step does not depend on it");
                self.problems
                    .warning(Code::CelUnknownStep, place(offset), message)
                    .hint(format!("add `{id}` to `dependsOn`"));
            }
        }
        ok
    }
}

/// The place of a byte inside a value. Quotes, indentation and line breaks stand between the two, so the line of the
/// value is looked for in the source, from where the value begins.
fn inside(source: &str, place: Place, value: &str, offset: usize) -> Place {
    let offset = (0..=offset.min(value.len())).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
    let line_start = value[..offset].rfind('\n').map_or(0, |at| at + 1);
    let line = value[line_start..].lines().next().unwrap_or_default().trim_end();
    let within = value[line_start..offset].chars().count();
    if line.trim().is_empty() {
        return place;
    }
    for (index, text) in source.lines().enumerate().skip(place.line.saturating_sub(1) as usize) {
        // Of the first line, only what follows the place.
        let from = match index + 1 == place.line as usize {
            true => text
                .char_indices()
                .nth(place.column.saturating_sub(1) as usize)
                .map_or(text.len(), |(at, _)| at),
            false => 0,
        };
        if let Some(found) = text[from..].find(line) {
            let column = text[..from + found].chars().count() + within + 1;
            let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            return Place { line: count(index + 1), column: count(column) };
        }
        // A value does not begin far below its place.
        if index > place.line as usize + value.lines().count() + 1 {
            break;
        }
    }
    place
}
