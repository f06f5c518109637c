//! Whether an expression can mean anything: its names, its steps, the fields of their results, its type.
//!
//! Types are followed as far as `resultSchema`s tell them and no further: what may be anything is not complained
//! about (`cel/shape.rs`). Which fields a value has is in `cel/has_field.rs`, comparisons that never hold are in
//! `cel/never.rs`.

use std::collections::BTreeMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use regex::Regex;
use serde_json::Value;

use super::Expression;
use super::scope::{VARIABLES, literal_text, single_step};
use super::shape::{Shape, element, literal_type, status};
use crate::diagnostic::{Code, Severity, meant, nearest, quoted};

/// What the steps around an expression give.
#[derive(Clone, Debug, Default)]
pub struct Known<'a> {
    pub steps: BTreeMap<&'a str, KnownStep<'a>>,
    /// The schema of `inputs`.
    pub inputs: Option<&'a Value>,
    /// What each item of the `forEach` around it is, where that is known.
    pub item: Option<Shape<'a>>,
    pub stands: Stands<'a>,
}

/// Where an expression stands: which of the names that depend on the place mean something there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stands<'a> {
    pub document: Standing,
    pub turn: InTurn,
    pub last: Last<'a>,
}

/// Whether something may be around the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    #[default]
    Alone,
    /// Inputs, an item and an iteration may come from outside.
    Included,
}

/// Of which kind of loop an expression is evaluated in each turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InTurn {
    #[default]
    Nowhere,
    Items,
    Repeat,
}

/// What the bare `content`, `result` and `status` are of.
#[derive(Clone, Copy, Debug, Default)]
pub enum Last<'a> {
    #[default]
    Nothing,
    /// A step that is known only when it runs.
    Something,
    Step(KnownStep<'a>, &'a str),
}

/// The `result` of a step.
#[derive(Clone, Copy, Debug)]
pub enum KnownStep<'a> {
    Schema(&'a Value),
    /// Always null.
    Nothing,
    /// One object per item under `iterations`; the result of each.
    Items(OfEach<'a>),
    /// An included workflow that declares outputs: their names.
    Outputs(&'a [(String, Expression)]),
    Anything,
}

/// The result of one turn of a `forEach`.
#[derive(Clone, Copy, Debug)]
pub enum OfEach<'a> {
    Schema(&'a Value),
    Nothing,
    Anything,
}

/// What the expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Bool,
    List,
    Anything,
}

/// Something that is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub code: Code,
    pub severity: Severity,
    pub message: String,
    pub hint: String,
    /// In bytes, into the source of the expression.
    pub offset: usize,
}

/// What was found, each step that is named with the place of its name, and what the expression gives.
#[derive(Debug)]
pub struct Checked<'a> {
    pub findings: Vec<Finding>,
    pub steps: Vec<(String, usize)>,
    pub gives: Shape<'a>,
}

impl<'a> Checked<'a> {
    /// Of each element, if the expression gives a list.
    pub(crate) fn each(&self) -> Shape<'a> {
        element(&self.gives)
    }
}

const FUNCTIONS: [&str; 10] =
    ["size", "int", "uint", "double", "string", "bytes", "bool", "type", "dyn", "matches"];
const METHODS: [&str; 5] = ["size", "contains", "startsWith", "endsWith", "matches"];
const MACROS: [&str; 6] = ["has", "all", "exists", "exists_one", "map", "filter"];
/// Names of types are values too: `type(x) == int`.
const TYPES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];

impl Expression {
    pub(crate) fn check<'a>(&self, known: &Known<'a>, wanted: Wanted) -> Checked<'a> {
        let mut check =
            Check { expression: self, known, bound: Vec::new(), findings: Vec::new(), steps: Vec::new() };
        let gives = check.shape(self.tree());
        let fits = match wanted {
            Wanted::Bool => gives.may_be("bool"),
            Wanted::List => gives.may_be("list"),
            Wanted::Anything => true,
        };
        if !fits {
            let (want, hint) = match wanted {
                Wanted::Bool => {
                    ("true or false", "compare it with something: `… == 'completed'`, `size(…) > 0`")
                }
                _ => ("a list", "name a list, or write one: `[…]`"),
            };
            let message = format!("this gives {}, and must give {want}", gives.words());
            check.error(Code::CelType, self.tree(), message, hint);
        }
        Checked { findings: check.findings, steps: check.steps, gives }
    }
}

pub(super) struct Check<'c, 'a> {
    expression: &'c Expression,
    pub(super) known: &'c Known<'a>,
    bound: Vec<(String, Shape<'a>)>,
    findings: Vec<Finding>,
    steps: Vec<(String, usize)>,
}

impl<'a> Check<'_, 'a> {
    pub(super) fn error(&mut self, code: Code, node: &IdedExpr, message: String, hint: impl Into<String>) {
        self.find(Severity::Error, code, node, message, hint);
    }

    pub(super) fn warning(&mut self, code: Code, node: &IdedExpr, message: String, hint: impl Into<String>) {
        self.find(Severity::Warning, code, node, message, hint);
    }

    fn find(
        &mut self,
        severity: Severity,
        code: Code,
        node: &IdedExpr,
        message: String,
        hint: impl Into<String>,
    ) {
        let offset = self.expression.offset_of(node);
        self.findings.push(Finding { code, severity, message, hint: hint.into(), offset });
    }

    fn shape(&mut self, node: &IdedExpr) -> Shape<'a> {
        match &node.expr {
            Expr::Unspecified => Shape::Anything,
            Expr::Literal(literal) => Shape::Of(literal_type(literal)),
            Expr::Ident(name) => self.name(node, name),
            Expr::Select(select) => {
                let operand = self.shape(&select.operand);
                let field = self.field(node, &operand, &select.field, select.test);
                if select.test { Shape::Of("bool") } else { field }
            }
            Expr::Call(call) => self.call(node, call),
            Expr::List(list) => {
                let mut shapes: Vec<Shape<'a>> =
                    list.elements.iter().map(|element| self.shape(element)).collect();
                let one = if shapes.len() == 1 { shapes.pop() } else { None };
                Shape::List(Box::new(one.unwrap_or(Shape::Anything)))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.shape(&entry.key);
                        self.shape(&entry.value);
                    }
                }
                Shape::Of("map")
            }
            Expr::Struct(it) => {
                let message = format!("there is no type `{}`", quoted(&it.type_name));
                self.error(Code::CelType, node, message, "a map is written `{'key': value}`");
                Shape::Anything
            }
            Expr::Comprehension(it) => self.comprehension(it),
        }
    }

    fn name(&mut self, node: &IdedExpr, name: &str) -> Shape<'a> {
        if let Some((_, shape)) = self.bound.iter().rev().find(|(bound, _)| bound == name) {
            return shape.clone();
        }
        match name {
            "steps" => Shape::Steps,
            "inputs" => match self.known.inputs {
                Some(schema) => Shape::described(schema, "`inputs`"),
                None if self.known.stands.document == Standing::Included => Shape::Of("map"),
                None => Shape::Undeclared,
            },
            "item" | "index" | "iteration" => self.of_turn(node, name),
            "content" | "result" | "status" => self.of_last(node, name),
            name if TYPES.contains(&name) => Shape::Of("type"),
            _ => {
                let known = VARIABLES.iter().copied().chain(self.bound.iter().map(|(name, _)| name.as_str()));
                let hint = match (self.known.steps.contains_key(name), nearest(name, known)) {
                    (true, _) => format!("a step is written `steps.{name}`"),
                    _ if matches!(name, "True" | "TRUE" | "yes" | "on") => "write `true`".to_owned(),
                    _ if matches!(name, "False" | "FALSE" | "no" | "off") => "write `false`".to_owned(),
                    _ if matches!(name, "None" | "nil" | "NULL" | "undefined") => "write `null`".to_owned(),
                    (false, Some(meant)) => format!("did you mean `{meant}`?"),
                    (false, None) => {
                        let names: Vec<String> = VARIABLES.iter().map(|name| format!("`{name}`")).collect();
                        format!(
                            "text stands in quotes, `'{}'`; an expression sees {}",
                            quoted(name),
                            names.join(", ")
                        )
                    }
                };
                let message = format!("`{}` is not a name an expression can use", quoted(name));
                self.error(Code::CelType, node, message, hint);
                Shape::Anything
            }
        }
    }

    fn of_turn(&mut self, node: &IdedExpr, name: &str) -> Shape<'a> {
        let (wanted, kind) = match name {
            "iteration" => (InTurn::Repeat, "a repeating loop"),
            _ => (InTurn::Items, "a `forEach`"),
        };
        let stands = &self.known.stands;
        let (always, shape) = match (name, &self.known.item) {
            ("item", Some(item)) if stands.turn == InTurn::Items => ("null", item.clone()),
            ("item", _) => ("null", Shape::Anything),
            _ => ("0", Shape::Of("int")),
        };
        if stands.turn != wanted && stands.document == Standing::Alone {
            let message = format!("`{name}` is always {always} here: this is not inside {kind}");
            let hint = match stands.turn {
                InTurn::Repeat => "in a repeating loop there is `iteration`",
                InTurn::Items => "in a `forEach` there are `item` and `index`",
                InTurn::Nowhere => "name what is meant: `steps.<id>.…` or `inputs.…`",
            };
            self.warning(Code::CelUnknownField, node, message, hint);
        }
        shape
    }

    fn of_last(&mut self, node: &IdedExpr, name: &str) -> Shape<'a> {
        let shape = match (name, self.known.stands.last) {
            ("result", Last::Step(step, id)) => result_of(step, id),
            ("result", _) => Shape::Anything,
            ("status", Last::Something | Last::Step(..)) => status(),
            _ => Shape::Of("string"),
        };
        if matches!(self.known.stands.last, Last::Nothing) {
            let message = format!("`{name}` is always empty here: no step is meant");
            let hint = format!("name the step: `steps.<id>.{name}`");
            self.warning(Code::CelUnknownField, node, message, hint);
        }
        shape
    }

    pub(super) fn step(&mut self, node: &IdedExpr, id: &str) -> Shape<'a> {
        let Some(step) = self.known.steps.get(id) else {
            let message = format!("there is no step `{}` here", quoted(id));
            let hint = self.step_meant(id);
            self.error(Code::CelUnknownStep, node, message, hint);
            return Shape::Anything;
        };
        self.steps.push((id.to_owned(), self.expression.offset_of(node)));
        Shape::Step(*step, id.to_owned())
    }

    fn step_meant(&self, id: &str) -> String {
        meant(id, self.known.steps.keys().copied(), "there are no steps here")
    }

    fn call(&mut self, node: &IdedExpr, call: &CallExpr) -> Shape<'a> {
        if call.func_name == operators::INDEX
            && let [operand, key] = call.args.as_slice()
        {
            let shape = self.shape(operand);
            self.shape(key);
            return match (literal_text(key), &shape) {
                (
                    Some(field),
                    Shape::Steps
                    | Shape::Step(..)
                    | Shape::Nothing(_)
                    | Shape::Undeclared
                    | Shape::Fields(..)
                    | Shape::OneOf(_)
                    | Shape::Schema(_),
                ) => self.field(node, &shape, field, false),
                _ => element(&shape),
            };
        }
        if self.misspelt_hyphenated(call) {
            return Shape::Anything;
        }
        let target = call.target.as_deref().map(|target| self.shape(target));
        let shapes: Vec<Shape<'a>> = call.args.iter().map(|argument| self.shape(argument)).collect();
        self.compared(node, call, &shapes);
        match call.func_name.as_str() {
            operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
                for (shape, argument) in shapes.iter().zip(&call.args) {
                    if !shape.may_be("bool") {
                        let message = format!("this gives {}, where true or false is needed", shape.words());
                        let hint = "compare it with something: `… == 'completed'`, `size(…) > 0`";
                        self.error(Code::CelType, argument, message, hint);
                    }
                }
                Shape::Of("bool")
            }
            operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::IN => Shape::Of("bool"),
            operators::CONDITIONAL => match shapes.as_slice() {
                [_, left, right] if left.type_name() == right.type_name() => left.clone(),
                _ => Shape::Anything,
            },
            operators::ADD => match shapes.as_slice() {
                [Shape::List(_), _] => Shape::List(Box::new(Shape::Anything)),
                [Shape::Of(name), Shape::Of(_)] => Shape::Of(name),
                [left, right] if [left, right].iter().all(|it| it.type_name() == Some("string")) => {
                    Shape::Of("string")
                }
                _ => Shape::Anything,
            },
            operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
            | operators::NEGATE
            | operators::NOT_STRICTLY_FALSE => Shape::Anything,
            name => self.function(node, name, target.as_ref(), call),
        }
    }

    /// `steps.tset-it.status`, where `test-it` is a step: a subtraction only by its looks.
    fn misspelt_hyphenated(&mut self, call: &CallExpr) -> bool {
        let (operators::SUBSTRACT, [left, right]) = (call.func_name.as_str(), call.args.as_slice()) else {
            return false;
        };
        let (Some(before), Some(after)) = (single_step(&left.expr), first_name(right)) else { return false };
        let is_known = VARIABLES.contains(&after) || self.bound.iter().any(|(name, _)| name == after);
        if is_known || self.known.steps.contains_key(before) {
            return false;
        }
        let id = format!("{before}-{after}");
        let hint = self.step_meant(&id);
        let message = format!("there is no step `{}` here", quoted(&id));
        self.error(Code::CelUnknownStep, left, message, hint);
        true
    }

    fn function(
        &mut self,
        node: &IdedExpr,
        name: &str,
        target: Option<&Shape<'a>>,
        call: &CallExpr,
    ) -> Shape<'a> {
        let known: &[&str] = if target.is_some() { &METHODS } else { &FUNCTIONS };
        if !known.contains(&name) {
            let message = format!("there is no function `{}` with these arguments", quoted(name));
            let hint = function_meant(name, known, call);
            self.error(Code::CelType, node, message, hint);
            return Shape::Anything;
        }
        match (name, target) {
            ("contains" | "startsWith" | "endsWith" | "matches", Some(target))
                if !target.may_be("string") =>
            {
                let message = format!("`{name}` is for text, and this is {}", target.words());
                let hint = match name {
                    "contains" if target.may_be("list") => {
                        "whether a list has an element is written `element in list`"
                    }
                    "contains" if target.may_be("map") => {
                        "whether a map has a field is written `has(map.field)`"
                    }
                    _ => "make it text by `string(…)`",
                };
                self.error(Code::CelType, node, message, hint);
            }
            _ => {}
        }
        if name == "matches"
            && let Some(pattern) = call.args.last().and_then(literal_text)
            && let Err(error) = Regex::new(pattern)
        {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim();
            let message = format!("`{}` is not a pattern: {reason}", quoted(pattern));
            let hint = "write a backslash before a sign that is meant itself: `r'\\('`";
            self.error(Code::CelType, node, message, hint);
        }
        match name {
            "size" | "int" => Shape::Of("int"),
            "uint" => Shape::Of("uint"),
            "double" => Shape::Of("double"),
            "string" => Shape::Of("string"),
            "bytes" => Shape::Of("bytes"),
            "type" => Shape::Of("type"),
            "dyn" => Shape::Anything,
            _ => Shape::Of("bool"),
        }
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> Shape<'a> {
        let range = self.shape(&it.iter_range);
        if !(range.may_be("list") || range.may_be("map")) {
            let message = format!("this is {}, and cannot be gone through", range.words());
            self.error(Code::CelType, &it.iter_range, message, "name a list or a map");
        }
        let item = match &range {
            Shape::Steps | Shape::Step(..) | Shape::Fields(..) => Shape::Of("string"),
            range => element(range),
        };
        self.bound.push((it.iter_var.clone(), item));
        self.bound.push((it.accu_var.clone(), Shape::Anything));
        let of_list = matches!(it.accu_init.expr, Expr::List(_));
        let appended = appended(&it.loop_step).map(|element| self.shape(element));
        // The step as a whole, unless all of it has been looked at.
        match &it.loop_step.expr {
            Expr::Call(call) if appended.is_some() && call.func_name == operators::CONDITIONAL => {
                if let Some(guard) = call.args.first() {
                    self.shape(guard);
                }
            }
            _ if appended.is_some() => {}
            _ => {
                self.shape(&it.loop_step);
            }
        }
        self.bound.truncate(self.bound.len() - 2);
        match appended {
            Some(element) if of_list => Shape::List(Box::new(element)),
            _ => Shape::Of("bool"),
        }
    }
}

pub(super) fn result_of<'a>(step: KnownStep<'a>, id: &str) -> Shape<'a> {
    match step {
        KnownStep::Schema(schema) => Shape::described(schema, format!("step `{id}`")),
        KnownStep::Nothing => Shape::Nothing(id.to_owned()),
        KnownStep::Items(each) => items_of(each, id),
        KnownStep::Outputs(outputs) => {
            let names = outputs.iter().map(|(name, _)| (name.as_str(), Shape::Anything));
            let inner = [("innerSteps", Shape::Of("map"))];
            Shape::Fields(format!("the workflow that step `{id}` includes"), names.chain(inner).collect())
        }
        KnownStep::Anything => Shape::Anything,
    }
}

/// The result of a `forEach`.
fn items_of<'a>(each: OfEach<'a>, id: &str) -> Shape<'a> {
    let result = match each {
        OfEach::Schema(schema) => Shape::described(schema, format!("an item of step `{id}`")),
        OfEach::Nothing => Shape::Nothing(id.to_owned()),
        OfEach::Anything => Shape::Anything,
    };
    let fields = vec![
        ("id", Shape::Of("string")),
        ("index", Shape::Of("int")),
        ("item", Shape::Anything),
        ("content", Shape::Of("string")),
        ("status", status()),
        ("result", result),
    ];
    let one = Shape::Fields(format!("an item of step `{id}`"), fields);
    let iterations = ("iterations", Shape::List(Box::new(one)));
    Shape::Fields(format!("step `{id}`, which goes over items,"), vec![iterations])
}

/// What was probably meant by a function that is not there.
fn function_meant(name: &str, known: &[&str], call: &CallExpr) -> String {
    match name {
        "len" | "length" | "count" => return "write `size(…)`".to_owned(),
        "includes" | "has" if call.target.is_some() => {
            return "write `element in list`, or `text.contains('…')`".to_owned();
        }
        "any" | "some" | "find" => return "write `list.exists(element, …)`".to_owned(),
        "every" => return "write `list.all(element, …)`".to_owned(),
        "toLowerCase" | "lower" | "lowerAscii" | "toUpperCase" | "upper" => {
            return "compare by a pattern: `text.matches('(?i)^…$')`".to_owned();
        }
        "str" | "toString" => return "write `string(…)`".to_owned(),
        "float" | "number" => return "write `double(…)` or `int(…)`".to_owned(),
        _ => {}
    }
    let all = known.iter().chain(&MACROS).copied();
    match nearest(name, all.clone()).filter(|meant| *meant != name) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let names: Vec<String> = all.map(|name| format!("`{name}`")).collect();
            format!("there are {}", names.join(", "))
        }
    }
}

/// The name that an operand begins with: `it` in `it.status == 'completed'`.
fn first_name(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Ident(name) => Some(name),
        Expr::Select(select) => first_name(&select.operand),
        Expr::Call(CallExpr { target: Some(target), .. }) => first_name(target),
        Expr::Call(call) if call.func_name == operators::INDEX => call.args.first().and_then(first_name),
        _ => None,
    }
}

/// The element in `accu + [element]`, with or without a condition.
fn appended(step: &IdedExpr) -> Option<&IdedExpr> {
    let Expr::Call(call) = &step.expr else { return None };
    match (call.func_name.as_str(), call.args.as_slice()) {
        (operators::CONDITIONAL, [_, add, _]) => appended(add),
        (operators::ADD, [_, IdedExpr { expr: Expr::List(list), .. }]) => list.elements.first(),
        _ => None,
    }
}
