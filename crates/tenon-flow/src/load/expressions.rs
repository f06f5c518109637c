//! Expressions and templates of one document: compiled, checked against what is around them, and shown where they are.

use std::path::Path;

use super::checks::Check;
use super::written::Written;
use crate::cel::{
    AskedFailure, CelSyntax, Expression, Finding, Known, Shape, Standing, Stands, SyntaxKind, Wanted,
};
use crate::diagnostic::{Code, Severity, quoted};
use crate::document::Place;
use crate::template::Template;

/// The steps an expression can name, and what is around it.
#[derive(Clone)]
pub(super) struct Around<'a> {
    pub(super) known: Known<'a>,
    /// Steps that have finished before it is evaluated.
    pub(super) before: Vec<&'a str>,
    /// Those of them that have not failed then, else it would not be evaluated.
    pub(super) needed: Vec<&'a str>,
    /// Steps that wait for this one.
    pub(super) after: Vec<&'a str>,
    /// The step it belongs to.
    pub(super) own: &'a str,
    /// The loop that the step is in, and the steps of the same loop.
    pub(super) inside: Option<Inside<'a>>,
    /// Where it is evaluated after each turn of a loop with steps of its own: one of these.
    pub(super) after_steps: Option<&'a str>,
}

#[derive(Clone)]
pub(super) struct Inside<'a> {
    pub(super) of: &'a str,
    pub(super) beside: Vec<&'a str>,
}

impl<'a> Around<'a> {
    /// The same around an expression that stands elsewhere.
    pub(super) fn standing(&self, stands: Stands<'a>) -> Around<'a> {
        let mut around = self.clone();
        around.known.stands = stands;
        around
    }

    /// Why a step is never there, and what to write instead.
    fn never_there(&self, id: &str) -> Option<(String, String)> {
        let inner = self.after_steps.filter(|_| id == self.own && !self.before.contains(&id))?;
        let message =
            format!("step `{id}` is not there when its `until` is evaluated: it goes on until then");
        let hint = format!(
            "what a turn came to is `result`, `content` and `status`; a step of the loop is `steps.{inner}`"
        );
        Some((message, hint))
    }

    /// Why a step may not be there, and what to do about it.
    fn unfinished(&self, id: &str, asked: Asked) -> (String, String) {
        let waiting = |of: &str| match asked {
            Asked::Anything => format!("add `{id}` to `dependsOn`{of}"),
            // Somebody who follows that advice has a step that never runs.
            Asked::Failure => {
                format!(
                    "take it out: what depends on `{id}` does not run when it failed; {WHERE_FAILURES_ARE}"
                )
            }
        };
        if id == self.own {
            let message = format!("step `{id}` has not run when this is evaluated: it is this step");
            let hint = "name a step that comes before; whether a loop goes on is decided by its `until`";
            return (message, hint.to_owned());
        }
        if let Some(inside) = &self.inside {
            if inside.of == id {
                let message =
                    format!("step `{id}` has not finished when this is evaluated: this is a part of it");
                let hint = "name a step of the same loop that comes before, or one that the loop depends on";
                return (message, hint.to_owned());
            }
            if !inside.beside.contains(&id) {
                let message =
                    format!("step `{id}` may not have finished: the loop around this does not depend on it");
                return (message, waiting(&format!(" of `{}`", inside.of)));
            }
        }
        if self.after.contains(&id) {
            let message = format!("step `{id}` has not run when this is evaluated: it waits for this step");
            return (message, format!("move this to a step after `{id}`, or take the dependency out"));
        }
        let message = format!("step `{id}` may not have finished: this step does not depend on it");
        (message, waiting(""))
    }
}

/// What is asked of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Anything,
    /// Whether it failed, or was cancelled.
    Failure,
}

const WHERE_FAILURES_ARE: &str = "what failed is told by the status of the run, its exit code and its report";

/// Which steps an expression can count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Those before it.
    Before,
    /// Every step of the document.
    All,
}

impl Check<'_> {
    /// The expression if it can be used, and what its elements are if it gives a list.
    pub(super) fn expression<'a>(
        &mut self,
        source: &str,
        pointer: &str,
        around: &Around<'a>,
        wanted: Wanted,
        seen: Seen,
    ) -> Option<(Expression, Shape<'a>)> {
        let written = Written { value: source, pointer, start: self.places.of(pointer) };
        let mut found = Vec::new();
        let compiled = Expression::compile(source, around.known.steps.keys().copied());
        let usable = match compiled {
            Ok(expression) => {
                let each = findings(&expression, around, wanted, seen, &mut found);
                each.map(|each| {
                    let stands_in = self.shown(written, &[0]).concat();
                    (expression.standing_in(&stands_in), each)
                })
            }
            Err(error) => {
                found.push(unreadable(error));
                None
            }
        };
        self.tell(written, found);
        usable
    }

    pub(super) fn template(&mut self, text: &str, pointer: &str, around: &Around<'_>) -> Option<Template> {
        let written = Written { value: text, pointer, start: self.places.of(pointer) };
        let ids: Vec<&str> = around.known.steps.keys().copied().collect();
        let (template, errors) = Template::read(text, &ids);
        let mut found: Vec<Finding> = errors.into_iter().map(unreadable).collect();
        let mut ok = found.is_empty();
        for (offset, inside) in bare_braces(text) {
            let message =
                format!("`{{{{ {} }}}}` is text: an expression stands in `${{{{ … }}}}`", quoted(inside));
            let hint = "write a `$` before the braces".to_owned();
            found.push(Finding { severity: Severity::Warning, code: Code::CelSyntax, offset, message, hint });
        }
        for (expression, start) in template.expressions() {
            let first = found.len();
            ok &= findings(expression, around, Wanted::Anything, Seen::Before, &mut found).is_some();
            found[first..].iter_mut().for_each(|finding| finding.offset += start);
        }
        self.tell(written, found);
        let offsets: Vec<usize> = template.expressions().map(|(_, offset)| offset).collect();
        ok.then(|| template.standing_in(self.shown(written, &offsets)))
    }

    /// Where bytes of a text stand, for messages of a run: in the document that is run, or in another file.
    fn shown(&self, written: Written<'_>, offsets: &[usize]) -> Vec<String> {
        if offsets.is_empty() {
            return Vec::new();
        }
        let (source, places) = self.texts.places(written, offsets);
        let of_file = match source.file == self.file && self.standing == Standing::Alone {
            true => String::new(),
            false => {
                let folder = self.file.parent().unwrap_or(Path::new(""));
                format!(" of `{}`", source.file.strip_prefix(folder).unwrap_or(source.file).display())
            }
        };
        places.into_iter().map(|Place { line, .. }| format!("line {line}{of_file}")).collect()
    }

    /// At bytes of a text, in whichever file that is; all of them at once, since each needs a walk through the text.
    fn tell(&mut self, written: Written<'_>, mut found: Vec<Finding>) {
        if found.is_empty() {
            return;
        }
        found.sort_by_key(|finding| finding.offset);
        let offsets: Vec<usize> = found.iter().map(|finding| finding.offset).collect();
        let (source, places) = self.texts.places(written, &offsets);
        for (Finding { severity, code, message, hint, .. }, place) in found.into_iter().zip(places) {
            self.problems.add(&source, severity, code, place, message, hint);
        }
    }
}

fn unreadable(error: CelSyntax) -> Finding {
    let CelSyntax { kind, message, hint, offset } = error;
    let (code, message) = match kind {
        SyntaxKind::Unreadable => (Code::CelSyntax, format!("not an expression: {message}")),
        SyntaxKind::TooLarge => (Code::TooLarge, message),
    };
    Finding { severity: Severity::Error, code, offset, message, hint }
}

/// What the elements of its value are, if there is no error among what is `found`.
fn findings<'a>(
    expression: &Expression,
    around: &Around<'a>,
    wanted: Wanted,
    seen: Seen,
    found: &mut Vec<Finding>,
) -> Option<Shape<'a>> {
    let checked = expression.check(&around.known, wanted);
    let each = checked.each();
    let first = found.len();
    found.extend(checked.findings);
    for AskedFailure { id, word, offset } in &checked.failures {
        if seen == Seen::Before && around.needed.contains(&id.as_str()) {
            let message = format!("this is never `{word}` here: what depends on `{id}` does not run then");
            let hint = format!("take it out: {WHERE_FAILURES_ARE}");
            let (severity, code) = (Severity::Warning, Code::CelType);
            found.push(Finding { severity, code, offset: *offset, message, hint });
        }
    }
    for (id, offset) in checked.steps {
        if seen == Seen::Before && !around.before.contains(&id.as_str()) {
            let never = around.never_there(&id);
            let severity = if never.is_some() { Severity::Error } else { Severity::Warning };
            let (message, hint) = never.unwrap_or_else(|| {
                let is_asked = checked.failures.iter().any(|failure| failure.id == id);
                around.unfinished(&id, if is_asked { Asked::Failure } else { Asked::Anything })
            });
            found.push(Finding { severity, code: Code::CelUnknownStep, offset, message, hint });
        }
    }
    found[first..].iter().all(|finding| finding.severity != Severity::Error).then_some(each)
}

/// `{{ steps.a.content }}`, as other systems write it.
fn bare_braces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices("{{").filter_map(|(at, open)| {
        let inside = text[at + open.len()..].split("}}").next()?.trim();
        let word = inside.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let is_ours = matches!(word, "steps" | "inputs" | "item" | "index" | "iteration");
        (is_ours && !text[..at].ends_with('$')).then_some((at, inside))
    })
}
