//! Comparisons that never hold, or always do: with a word outside an `enum`, a number out of range, another type.
//!
//! Null is ruled out only where a value is there or missing altogether; the result of a step is null when it was skipped.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use serde_json::Value;

use super::bounds::misfit;
use super::check::{AskedFailure, Check};
use super::kinds::Kinds;
use super::scope::{Path, literal_text};
use super::shape::{Allowed, Shape, allowed, element, literal_json, shown};
use crate::diagnostic::{Code, nearest, quoted};

/// Statuses of a step after which nothing runs that depends on it.
const FAILURES: [&str; 2] = ["failed", "cancelled"];

/// An operand and what is known of it.
type Side<'n, 'a> = (&'n IdedExpr, &'n Shape<'a>);

impl<'a> Check<'_, 'a> {
    pub(super) fn compared(&mut self, node: &IdedExpr, call: &CallExpr, shapes: &[Shape<'a>]) {
        let ([left, right], [of_left, of_right]) = (call.args.as_slice(), shapes) else { return };
        let (left, right) = ((left, of_left), (right, of_right));
        match call.func_name.as_str() {
            operators::EQUALS | operators::NOT_EQUALS => {
                let always =
                    if call.func_name == operators::NOT_EQUALS { ", so `!=` always holds" } else { "" };
                if call.func_name == operators::EQUALS {
                    self.asked_failure(left.0, right.0);
                    self.asked_failure(right.0, left.0);
                }
                let _ = self.never(left, right.0, always)
                    || self.never(right, left.0, always)
                    || self.never_meet(node, left, right, always)
                    || self.never_alike(node, left, right, always);
            }
            operators::IN => self.looked_up(node, left, right),
            relation => {
                let _ = self.never_ordered(left, relation, right.0)
                    || self.never_ordered(right, reversed(relation), left.0);
            }
        }
    }

    /// Whether that can hold depends on which steps come before, which is not known here.
    fn asked_failure(&mut self, path: &IdedExpr, literal: &IdedExpr) {
        let Some(word) = literal_text(literal).filter(|word| FAILURES.contains(word)) else { return };
        let Some(id) = Path::of(path).as_ref().and_then(Path::step_of_status).map(str::to_owned) else {
            return;
        };
        let failure = AskedFailure { id, word: word.to_owned(), offset: self.expression.offset_of(literal) };
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    fn looked_up(&mut self, node: &IdedExpr, left: Side<'_, 'a>, right: Side<'_, 'a>) {
        if let Expr::List(list) = &right.0.expr {
            for one in &list.elements {
                self.asked_failure(left.0, one);
                let shape = self.of_path(one);
                let _ = self.never(left, one, "") || self.never_alike(one, left, (one, &shape), "");
            }
            return;
        }
        let kinds = right.1.kinds();
        if let Some(field) = literal_text(left.0)
            && kinds.is_within(Kinds::MAP | Kinds::NULL)
        {
            // As with `has`: a field that cannot be there is told.
            self.field(left.0, right.1, field, true);
        } else if kinds.is_within(Kinds::LIST | Kinds::NULL) {
            let one = element(right.1);
            let _ =
                self.never((right.0, &one), left.0, "") || self.never_alike(node, left, (right.0, &one), "");
        }
    }

    /// A path and a literal that its schema rules out.
    fn never(&mut self, (path, shape): Side<'_, 'a>, literal: &IdedExpr, always: &str) -> bool {
        let Expr::Literal(value) = &literal.expr else { return false };
        if matches!(value, LiteralValue::Null) {
            return self.never_null(path, shape, literal, always);
        }
        let Some(value) = literal_json(value) else { return false };
        if let Some(number) = value.as_f64()
            && let Some((words, hint)) = self.out_of_range(path, shape, operators::EQUALS, number)
        {
            let message = format!("this is never `{}`: it is {words}{always}", shown(&value));
            self.warning(Code::CelType, literal, message, hint);
            return true;
        }
        if Path::of(path).is_none() {
            return false;
        }
        let Some(allowed) = allowed(shape) else { return false };
        let word = quoted(&shown(&value));
        if !allowed.has(&value) {
            let message = match &allowed {
                Allowed::Values(_) => format!("this is never `{word}`, only {}{always}", allowed.words()),
                Allowed::Classes(_) => format!("this is {}, and never `{word}`{always}", allowed.words()),
            };
            self.warning(Code::CelType, literal, message, instead(&allowed, &value));
            return true;
        }
        let Shape::Schema(it) = shape else { return false };
        let reasons: Option<Vec<String>> = it.views.iter().map(|view| misfit(view, &value)).collect();
        let Some(mut reasons) = reasons.filter(|reasons| !reasons.is_empty()) else { return false };
        reasons.dedup();
        let message = format!("this is never `{word}`: it is {}{always}", reasons.join(", or "));
        self.warning(Code::CelType, literal, message, "compare it with what its schema allows");
        true
    }

    fn never_null(&mut self, path: &IdedExpr, shape: &Shape<'a>, literal: &IdedExpr, always: &str) -> bool {
        if shape.may_be(Kinds::NULL) {
            return false;
        }
        let message = format!("this is never null, it is {}{always}", shape.words());
        let hint = match &path.expr {
            Expr::Select(_) => "whether a field is there is asked by `has(…)`",
            _ => "compare it with a value that it can have",
        };
        self.warning(Code::CelType, literal, message, hint);
        true
    }

    /// Two paths that have no value in common.
    fn never_meet(
        &mut self,
        node: &IdedExpr,
        (left, of_left): Side<'_, 'a>,
        (right, of_right): Side<'_, 'a>,
        always: &str,
    ) -> bool {
        if Path::of(left).is_none() || Path::of(right).is_none() {
            return false;
        }
        let (Some(these), Some(those)) = (allowed(of_left), allowed(of_right)) else { return false };
        // Both may be missing.
        let is_null = of_left.may_be(Kinds::NULL) && of_right.may_be(Kinds::NULL);
        if is_null || !these.is_apart_from(&those) {
            return false;
        }
        let message = format!("these are never the same: {} and {}{always}", these.words(), those.words());
        self.warning(Code::CelType, node, message, "compare what can be alike");
        true
    }

    /// Two values of different types, computed or not.
    fn never_alike(
        &mut self,
        node: &IdedExpr,
        (left, of_left): Side<'_, 'a>,
        (right, of_right): Side<'_, 'a>,
        always: &str,
    ) -> bool {
        let (these, those) = (of_left.kinds(), of_right.kinds());
        let are_numbers = these.meets(Kinds::NUMBER) && those.meets(Kinds::NUMBER);
        // Two literals are somebody's joke, or a way to say `true` and `false`.
        let are_literals = [left, right].iter().all(|side| matches!(side.expr, Expr::Literal(_)));
        if are_numbers || these.meets(those) || are_literals {
            return false;
        }
        let message =
            format!("these are never the same: {} and {}{always}", of_left.words(), of_right.words());
        let hint = match (these.meets(Kinds::NUMBER), those.meets(Kinds::STRING)) {
            (true, true) => "write the number without quotes, or make text of it by `string(…)`",
            _ => "compare what can be alike",
        };
        self.warning(Code::CelType, node, message, hint);
        true
    }

    /// A number that is never so large, or so small.
    fn never_ordered(&mut self, (node, shape): Side<'_, 'a>, relation: &str, literal: &IdedExpr) -> bool {
        let Expr::Literal(value) = &literal.expr else { return false };
        let Some(number) = literal_json(value).and_then(|value| value.as_f64()) else { return false };
        let Some((words, hint)) = self.out_of_range(node, shape, relation, number) else { return false };
        let message = format!("this never holds: the number is {words}");
        self.warning(Code::CelType, literal, message, hint);
        true
    }

    /// What is known of a literal or a path, without saying it again. Of anything else nothing: it would be looked at as
    /// often as it is deep.
    pub(super) fn of_path(&mut self, node: &IdedExpr) -> Shape<'a> {
        if !matches!(node.expr, Expr::Literal(_)) && Path::of(node).is_none() {
            return Shape::Anything;
        }
        let (findings, steps, told) = (self.findings.len(), self.steps.len(), self.told.len());
        let shape = self.shape(node);
        self.findings.truncate(findings);
        self.steps.truncate(steps);
        self.told.truncate(told);
        shape
    }
}

/// The same relation read from the right.
fn reversed(relation: &str) -> &str {
    match relation {
        operators::LESS => operators::GREATER,
        operators::LESS_EQUALS => operators::GREATER_EQUALS,
        operators::GREATER => operators::LESS,
        operators::GREATER_EQUALS => operators::LESS_EQUALS,
        other => other,
    }
}

/// What could stand there.
fn instead(allowed: &Allowed<'_>, value: &Value) -> String {
    let text = value.as_str();
    match (allowed, text) {
        (Allowed::Values(values), Some(text)) => {
            match nearest(text, values.iter().filter_map(|value| value.as_str())) {
                Some(meant) => format!("did you mean `{}`?", quoted(meant)),
                None => "write one of them".to_owned(),
            }
        }
        (Allowed::Values(_), None) => "write one of them".to_owned(),
        (Allowed::Classes(classes), text) => match (classes.as_slice(), text) {
            (["boolean"], Some("true" | "false")) | (["number"], Some(_))
                if text.is_some_and(|text| serde_json::from_str::<Value>(text).is_ok()) =>
            {
                format!("write `{}` without quotes", quoted(&shown(value)))
            }
            (["string"], None) => format!("write `'{}'` in quotes", quoted(&shown(value))),
            (["array"], _) => "whether a list has an element is written `element in list`".to_owned(),
            (["object"], _) => "name a field of it".to_owned(),
            _ => format!("compare it with {}", allowed.words()),
        },
    }
}
