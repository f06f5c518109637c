//! Comparisons that never hold, or always do: with a word outside an `enum`, with another type.
//!
//! Null is never ruled out: a step may have been skipped. Only plain paths are judged, since what is computed may be
//! anything.

use cel::common::ast::{CallExpr, Expr, IdedExpr, operators};
use serde_json::Value;

use super::check::Check;
use super::scope::Path;
use super::shape::{Allowed, Shape, allowed, class, element, literal_json, shown};
use crate::diagnostic::{Code, nearest, quoted};

impl<'a> Check<'_, 'a> {
    pub(super) fn compared(&mut self, node: &IdedExpr, call: &CallExpr, shapes: &[Shape<'a>]) {
        let ([left, right], [of_left, of_right]) = (call.args.as_slice(), shapes) else { return };
        match call.func_name.as_str() {
            operators::EQUALS | operators::NOT_EQUALS => {
                let always =
                    if call.func_name == operators::NOT_EQUALS { ", so `!=` always holds" } else { "" };
                self.never(left, of_left, right, always);
                self.never(right, of_right, left, always);
                self.never_meet(node, (left, of_left), (right, of_right), always);
            }
            operators::IN => match &right.expr {
                Expr::List(list) => {
                    for one in &list.elements {
                        self.never(left, of_left, one, "");
                    }
                }
                _ => self.never(right, &element(of_right), left, ""),
            },
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
                self.no_order(node, of_left, of_right);
            }
            _ => {}
        }
    }

    /// A path and a literal that its schema rules out.
    fn never(&mut self, path: &IdedExpr, shape: &Shape<'a>, literal: &IdedExpr, always: &str) {
        let (Some(_), Expr::Literal(value)) = (Path::of(path), &literal.expr) else { return };
        let (Some(value), Some(allowed)) = (literal_json(value), allowed(shape)) else { return };
        if allowed.has(&value) {
            return;
        }
        let word = quoted(&shown(&value));
        let message = match &allowed {
            Allowed::Values(_) => format!("this is never `{word}`, only {}{always}", allowed.words()),
            Allowed::Classes(_) => format!("this is {}, and never `{word}`{always}", allowed.words()),
        };
        self.warning(Code::CelType, literal, message, instead(&allowed, &value));
    }

    /// Two paths that have no value in common.
    fn never_meet(
        &mut self,
        node: &IdedExpr,
        (left, of_left): (&IdedExpr, &Shape<'a>),
        (right, of_right): (&IdedExpr, &Shape<'a>),
        always: &str,
    ) {
        if Path::of(left).is_none() || Path::of(right).is_none() {
            return;
        }
        let (Some(these), Some(those)) = (allowed(of_left), allowed(of_right)) else { return };
        if these.is_apart_from(&those) {
            let message =
                format!("these are never the same: {} and {}{always}", these.words(), those.words());
            self.warning(Code::CelType, node, message, "compare what can be alike");
        }
    }

    /// Text has no place among numbers. What may be null is compared only where it is there.
    fn no_order(&mut self, node: &IdedExpr, left: &Shape<'a>, right: &Shape<'a>) {
        let (Some(these), Some(those)) =
            (allowed(left).and_then(one_class), allowed(right).and_then(one_class))
        else {
            return;
        };
        let has_order = |class: &str| matches!(class, "number" | "string" | "boolean");
        if these == those && has_order(these) {
            return;
        }
        let words = |class| Allowed::Classes(vec![class]).words();
        let message = format!("{} cannot be compared with {} by size", words(these), words(those));
        let hint = match (these, those) {
            ("array", _) | (_, "array") => "compare how many there are: `size(list) > 0`",
            ("string", "number") | ("number", "string") => {
                "make a number of the text by `int(…)` or `double(…)`, or write the number without quotes"
            }
            _ => "compare numbers with numbers and text with text",
        };
        self.error(Code::CelType, node, message, hint);
    }
}

/// The one kind of value that is left.
fn one_class(allowed: Allowed<'_>) -> Option<&'static str> {
    let classes: Vec<&'static str> = match &allowed {
        Allowed::Values(values) => values.iter().map(|value| class(value)).collect(),
        Allowed::Classes(classes) => classes.clone(),
    };
    let first = *classes.first()?;
    classes.iter().all(|class| *class == first).then_some(first)
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
