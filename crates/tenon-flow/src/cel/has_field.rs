//! Whether a value can have a field: a step, the result of one, an item, an input.
//!
//! A field that a schema rules out in every way a value may be is an error; one that it merely does not mention is a
//! warning, and none where it is only asked for by `has`.

use cel::common::ast::IdedExpr;
use serde_json::Value;

use super::check::{Check, result_of};
use super::kinds::{Kinds, SIGNATURES};
use super::schema_view::{FieldIs, View, views};
use super::shape::{Absent, Described, Shape, status};
use crate::diagnostic::{Code, Severity, nearest, quoted};

const STEP_FIELDS: [&str; 3] = ["content", "status", "result"];

impl<'a> Check<'_, 'a> {
    pub(super) fn field(
        &mut self,
        node: &IdedExpr,
        operand: &Shape<'a>,
        field: &str,
        is_test: bool,
    ) -> Shape<'a> {
        if self.is_hyphenated(node, operand, field) {
            return Shape::Anything;
        }
        match operand {
            Shape::Steps => self.step(node, field),
            Shape::Step(step, id) => match field {
                "content" => Shape::Of(Kinds::STRING),
                "status" => status(),
                "result" => result_of(*step, id),
                _ => {
                    let message = format!("a step has no `{}`", quoted(field));
                    self.error(Code::CelUnknownField, node, message, hint(field, &STEP_FIELDS, "a step has"));
                    Shape::Anything
                }
            },
            Shape::Undeclared => {
                if !is_test {
                    let message =
                        format!("the document declares no `inputs`, so there is no `{}`", quoted(field));
                    let hint = "describe them with a schema under `inputs`";
                    self.warning(Code::CelUnknownField, node, message, hint);
                }
                Shape::Anything
            }
            Shape::Nothing(id) | Shape::NoFields(id) => {
                if !is_test {
                    let message = format!("step `{id}` gives no structured result, so this is never there");
                    let hint = "give its agent a `resultSchema`, or read `content`";
                    self.warning(Code::CelUnknownField, node, message, hint);
                }
                Shape::Anything
            }
            Shape::Fields(whose, fields) => match fields.iter().find(|(name, _)| *name == field) {
                Some((_, shape)) => shape.clone(),
                None => {
                    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
                    let message = format!("{whose} gives no `{}`", quoted(field));
                    self.error(Code::CelUnknownField, node, message, hint(field, &names, "it gives"));
                    Shape::Anything
                }
            },
            Shape::OneOf(values) => self.of_values(node, values, field, is_test),
            Shape::Schema(described) => self.property(node, described, field, is_test),
            Shape::Anything | Shape::List(_) | Shape::Of(_) => {
                // Null has no fields, and is just what `has` is asked about.
                if !operand.may_be(Kinds::MAP | Kinds::NULL) {
                    self.no_field(node, operand, field, is_test);
                }
                Shape::Anything
            }
        }
    }

    /// Asked for by `has`, it is false where what is before it is missing, so it may succeed; it never holds.
    fn no_field(&mut self, node: &IdedExpr, operand: &Shape<'a>, field: &str, is_test: bool) {
        let message = format!("{} has no `{}`", operand.words(), quoted(field));
        let kinds = operand.kinds().without(Kinds::NULL);
        let is_countable = kinds == Kinds::LIST || kinds == Kinds::STRING;
        let hint = match kinds {
            _ if is_countable && matches!(field, "length" | "size" | "count") => "write `size(…)`".to_owned(),
            Kinds::LIST => {
                "name an element: `list[0].field`, or ask all of them: `list.exists(it, it.field == …)`"
                    .to_owned()
            }
            _ if SIGNATURES.iter().any(|it| it.name == field) => format!("write `{field}(…)`, with brackets"),
            _ => "only maps have fields: take the last part out".to_owned(),
        };
        let severity = if is_test { Severity::Warning } else { Severity::Error };
        self.find(severity, Code::CelType, node, message, hint);
    }

    /// Of items that are written in the document.
    fn of_values(&mut self, node: &IdedExpr, values: &[&'a Value], field: &str, is_test: bool) -> Shape<'a> {
        let there: Vec<&Value> = values.iter().filter_map(|value| value.get(field)).collect();
        if there.is_empty() && !is_test {
            let names: Vec<&str> = values
                .iter()
                .filter_map(|value| value.as_object())
                .flat_map(|map| map.keys())
                .map(String::as_str)
                .collect();
            let message = format!("no item of the list has `{}`", quoted(field));
            self.error(Code::CelUnknownField, node, message, hint(field, &names, "they have"));
        }
        if there.is_empty() { Shape::Anything } else { Shape::OneOf(there) }
    }

    fn property(
        &mut self,
        node: &IdedExpr,
        described: &Described<'a>,
        field: &str,
        is_test: bool,
    ) -> Shape<'a> {
        let ways: Vec<FieldIs<'a>> = described.views.iter().map(|view| view.field(field)).collect();
        let whose = &described.whose;
        let mut there: Vec<View<'a>> = Vec::new();
        for way in &ways {
            match way {
                FieldIs::Described(schemas) => there.extend(views(described.root, schemas)),
                FieldIs::Open => return Shape::Anything,
                FieldIs::Unmentioned | FieldIs::RuledOut | FieldIs::NotAnObject => {}
            }
        }
        let is_unmentioned = ways.iter().any(|way| matches!(way, FieldIs::Unmentioned));
        // In one way it is described, in another it may be anything.
        if !there.is_empty() && is_unmentioned {
            return Shape::Anything;
        }
        if !there.is_empty() || ways.is_empty() {
            let (root, whose) = (described.root, whose.clone());
            return Shape::Schema(Described { root, views: there, whose, absent: Absent::Never });
        }
        if ways.iter().all(|way| matches!(way, FieldIs::NotAnObject)) {
            let operand = Shape::Schema(described.clone());
            self.no_field(node, &operand, field, is_test);
            return Shape::Anything;
        }
        let mut names: Vec<&str> =
            described.views.iter().flat_map(View::properties).map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        let hint = hint(field, &names, "its schema has");
        if !is_unmentioned {
            let message = format!("the schema of {whose} does not allow `{}`", quoted(field));
            self.error(Code::CelUnknownField, node, message, hint);
        } else if !is_test {
            let message = format!("the schema of {whose} does not mention `{}`", quoted(field));
            self.warning(Code::CelUnknownField, node, message, hint);
        }
        Shape::Anything
    }
}

/// The name that was probably meant, or all of them.
fn hint(field: &str, names: &[&str], there_are: &str) -> String {
    match nearest(field, names.iter().copied()) {
        Some(meant) => format!("did you mean `{}`?", quoted(meant)),
        None if names.is_empty() => "it has no fields: take the last part out".to_owned(),
        None => {
            let names: Vec<String> = names.iter().map(|name| format!("`{}`", quoted(name))).collect();
            format!("{there_are} {}", names.join(", "))
        }
    }
}
