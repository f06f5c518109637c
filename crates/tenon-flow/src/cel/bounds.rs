//! Which numbers and texts a schema leaves: `minimum`, `maximum`, `multipleOf`, lengths and patterns.
//!
//! What is compared with something outside of them can never hold (`cel/never.rs`).

use cel::common::ast::{CallExpr, Expr, IdedExpr, operators};
use regex::Regex;
use serde_json::Value;

use super::check::{Check, InTurn};
use super::schema_view::View;
use super::scope::Path;
use super::shape::{Shape, class, same, shown};
use crate::diagnostic::quoted;

/// Beyond this, neighbouring whole numbers are one and the same fraction.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Numbers from here to there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    least: Edge,
    most: Edge,
}

/// Where a range ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Edge {
    Nowhere,
    /// The number is in it.
    At(f64),
    /// The number is not in it, but all next to it.
    Beside(f64),
}

impl Range {
    const COUNTS: Range = Range { least: Edge::At(0.0), most: Edge::Nowhere };

    fn only(number: f64) -> Range {
        Range { least: Edge::At(number), most: Edge::At(number) }
    }

    /// Whether a number in it may stand in this relation to `number`.
    fn may(self, relation: &str, number: f64) -> bool {
        let above_least = |at: bool| match self.least {
            Edge::Nowhere => true,
            Edge::At(least) => least < number || at && least == number,
            Edge::Beside(least) => least < number,
        };
        let below_most = |at: bool| match self.most {
            Edge::Nowhere => true,
            Edge::At(most) => most > number || at && most == number,
            Edge::Beside(most) => most > number,
        };
        match relation {
            operators::LESS => above_least(false),
            operators::LESS_EQUALS => above_least(true),
            operators::GREATER => below_most(false),
            operators::GREATER_EQUALS => below_most(true),
            operators::EQUALS | operators::NOT_EQUALS => above_least(true) && below_most(true),
            _ => true,
        }
    }

    fn whole(self) -> Range {
        let least = match self.least {
            Edge::At(least) => Edge::At(least.ceil()),
            Edge::Beside(least) => Edge::At(least.floor() + 1.0),
            Edge::Nowhere => Edge::Nowhere,
        };
        let most = match self.most {
            Edge::At(most) => Edge::At(most.floor()),
            Edge::Beside(most) => Edge::At(most.ceil() - 1.0),
            Edge::Nowhere => Edge::Nowhere,
        };
        Range { least, most }
    }

    fn is_exact(self) -> bool {
        [self.least, self.most].into_iter().all(|edge| match edge {
            Edge::Nowhere => true,
            Edge::At(number) | Edge::Beside(number) => number.abs() < MAX_EXACT,
        })
    }

    fn words(self) -> String {
        match (self.least, self.most) {
            (Edge::At(least), Edge::At(most)) if least == most => format!("`{least}`"),
            (Edge::At(least) | Edge::Beside(least), Edge::At(most) | Edge::Beside(most)) => {
                format!("from {least} to {most}")
            }
            (Edge::At(least), Edge::Nowhere) => format!("{least} or more"),
            (Edge::Beside(least), Edge::Nowhere) => format!("more than {least}"),
            (Edge::Nowhere, Edge::At(most)) => format!("{most} or less"),
            (Edge::Nowhere, Edge::Beside(most)) => format!("less than {most}"),
            (Edge::Nowhere, Edge::Nowhere) => "any number".to_owned(),
        }
    }
}

/// The numbers that a view leaves.
fn range(view: &View<'_>) -> Range {
    let highest = |keyword: &str| view.numbers(keyword).reduce(f64::max);
    let lowest = |keyword: &str| view.numbers(keyword).reduce(f64::min);
    let least = match (highest("minimum"), highest("exclusiveMinimum")) {
        (Some(at), Some(beside)) if beside >= at => Edge::Beside(beside),
        (Some(at), _) => Edge::At(at),
        (None, Some(beside)) => Edge::Beside(beside),
        (None, None) => Edge::Nowhere,
    };
    let most = match (lowest("maximum"), lowest("exclusiveMaximum")) {
        (Some(at), Some(beside)) if beside <= at => Edge::Beside(beside),
        (Some(at), _) => Edge::At(at),
        (None, Some(beside)) => Edge::Beside(beside),
        (None, None) => Edge::Nowhere,
    };
    let range = Range { least, most };
    let is_whole = view.types().is_some_and(|types| types.iter().all(|name| *name == "integer"));
    if is_whole { range.whole() } else { range }
}

/// How long texts, lists and maps may be, by the words of their kind.
fn length(view: &View<'_>, least: &str, most: &str) -> Range {
    let least = view.numbers(least).reduce(f64::max).unwrap_or(0.0);
    let most = view.numbers(most).reduce(f64::min);
    Range { least: Edge::At(least), most: most.map_or(Edge::Nowhere, Edge::At) }.whole()
}

/// Why a value does not fit this way, in words.
pub(super) fn misfit(view: &View<'_>, value: &Value) -> Option<String> {
    if let Some(values) = view.values() {
        let words = || values.iter().map(|value| format!("`{}`", quoted(&shown(value)))).collect::<Vec<_>>();
        return (!values.iter().any(|allowed| same(allowed, value)))
            .then(|| format!("only {}", words().join(", ")));
    }
    if view.types().is_some_and(|types| !types.iter().any(|name| is_of(name, value))) {
        return Some("of another type".to_owned());
    }
    match value {
        Value::Number(number) => {
            let number = number.as_f64().filter(|number| number.abs() < MAX_EXACT)?;
            let range = range(view);
            if range.is_exact() && !range.may(operators::EQUALS, number) {
                return Some(range.words());
            }
            let step = view.numbers("multipleOf").find(|step| {
                // Fractions are not exact enough to judge.
                step.fract() == 0.0 && *step >= 1.0 && (number / step).fract() != 0.0
            });
            step.map(|step| format!("a multiple of {step}"))
        }
        Value::String(text) => {
            let length = length(view, "minLength", "maxLength");
            let chars = text.chars().count() as f64;
            if !length.may(operators::EQUALS, chars) {
                return Some(format!("{} characters long", length.words()));
            }
            let pattern = view.texts("pattern").find(|pattern| is_unlike(text, pattern));
            pattern.map(|pattern| format!("like the pattern `{}`", quoted(pattern)))
        }
        _ => None,
    }
}

/// Only where both dialects of patterns mean the same.
fn is_unlike(text: &str, pattern: &str) -> bool {
    let is_plain = text.is_ascii() && pattern.is_ascii();
    is_plain && Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(text))
}

fn is_of(json_type: &str, value: &Value) -> bool {
    match json_type {
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        name => name == class(value),
    }
}

impl<'a> Check<'_, 'a> {
    /// Why a comparison of a value with a number never holds, and what to do about it.
    pub(super) fn out_of_range(
        &mut self,
        node: &IdedExpr,
        shape: &Shape<'a>,
        relation: &str,
        number: f64,
    ) -> Option<(String, String)> {
        let ranges = self.ranges(node, shape)?;
        let is_never = !ranges.is_empty()
            && number.abs() < MAX_EXACT
            && ranges.iter().all(|range| range.is_exact() && !range.may(relation, number));
        if !is_never {
            return None;
        }
        let mut words: Vec<String> = ranges.iter().map(|range| range.words()).collect();
        words.dedup();
        let hint = match (&node.expr, self.known.stands.turns) {
            (Expr::Ident(name), Some(turns)) if name == "iteration" => {
                format!(
                    "`iteration` counts from 0: in the last of {turns} turns it is {}",
                    turns.saturating_sub(1)
                )
            }
            (Expr::Ident(name), _) if name == "index" || name == "iteration" => {
                format!("`{name}` counts from 0")
            }
            _ => "compare it with a number that it can be".to_owned(),
        };
        Some((words.join(" or "), hint))
    }

    /// The numbers that a value may be; nothing where that is not known.
    fn ranges(&mut self, node: &IdedExpr, shape: &Shape<'a>) -> Option<Vec<Range>> {
        if let Some(counted) = counted(node) {
            return Some(self.sizes(counted));
        }
        let is_bound = |name: &str| self.bound.iter().any(|(bound, _)| bound == name);
        match &node.expr {
            Expr::Ident(name) if name == "index" && !is_bound(name) => return Some(vec![Range::COUNTS]),
            Expr::Ident(name) if name == "iteration" && !is_bound(name) => {
                let turns = self.known.stands.turns.filter(|_| self.known.stands.turn == InTurn::Repeat);
                let most = turns.map_or(Edge::Nowhere, |turns| Edge::At(f64::from(turns) - 1.0));
                return Some(vec![Range { most, ..Range::COUNTS }]);
            }
            _ => {}
        }
        Path::of(node)?;
        match shape {
            Shape::OneOf(values) => {
                Some(values.iter().filter_map(|it| it.as_f64()).map(Range::only).collect())
            }
            Shape::Schema(it) => {
                let mut ranges = Vec::new();
                for view in &it.views {
                    match (view.values(), view.types()) {
                        (Some(values), _) => {
                            ranges.extend(values.iter().filter_map(|it| it.as_f64()).map(Range::only));
                        }
                        (None, None) => return None,
                        (None, Some(types)) if types.iter().any(|it| matches!(*it, "integer" | "number")) => {
                            ranges.push(range(view));
                        }
                        (None, Some(_)) => {}
                    }
                }
                Some(ranges)
            }
            _ => None,
        }
    }

    /// How many there may be of what is counted.
    fn sizes(&mut self, counted: &IdedExpr) -> Vec<Range> {
        let Shape::Schema(it) = self.of_path(counted) else { return vec![Range::COUNTS] };
        let mut ranges = Vec::new();
        for view in &it.views {
            let Some(types) = view.types() else { return vec![Range::COUNTS] };
            for name in types {
                match name {
                    "array" => ranges.push(length(view, "minItems", "maxItems")),
                    "string" => ranges.push(length(view, "minLength", "maxLength")),
                    "object" => ranges.push(length(view, "minProperties", "maxProperties")),
                    _ => {}
                }
            }
        }
        if ranges.is_empty() { vec![Range::COUNTS] } else { ranges }
    }
}

/// What is counted in `size(x)` and `x.size()`.
fn counted(node: &IdedExpr) -> Option<&IdedExpr> {
    match &node.expr {
        Expr::Call(CallExpr { func_name, target, args }) if func_name == "size" => {
            match (target, args.as_slice()) {
                (Some(target), []) => Some(target),
                (None, [only]) => Some(only),
                _ => None,
            }
        }
        _ => None,
    }
}
