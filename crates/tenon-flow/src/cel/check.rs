//! Whether an expression can mean anything: its names, its steps, the fields of their results, its type.
//!
//! Types are followed as far as `resultSchema`s tell them and no further: what may be anything is not complained
//! about (`cel/shape.rs`). A field that the schema of a step rules out is an error; one that it merely does not mention is a warning.

use std::collections::BTreeMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use regex::Regex;
use serde_json::Value;

use super::Expression;
use super::scope::{Path, VARIABLES, literal_text, single_step};
use super::shape::{
    Allowed, Shape, allowed, class, class_words, element, followed, literal_json, literal_type, same, shown,
    status,
};
use crate::diagnostic::{Code, Severity, nearest, quoted};

/// What the steps around an expression give.
#[derive(Clone, Debug, Default)]
pub struct Known<'a> {
    pub steps: BTreeMap<&'a str, KnownStep<'a>>,
    /// The schema of `inputs`.
    pub inputs: Option<&'a Value>,
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
    /// One object per item under `iterations`.
    Items,
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
    pub hint: Option<String>,
    /// In bytes, into the source of the expression.
    pub offset: usize,
}

/// What was found, and each step that is named with the place of its name.
#[derive(Debug, Default)]
pub struct Checked {
    pub findings: Vec<Finding>,
    pub steps: Vec<(String, usize)>,
}

const FUNCTIONS: [&str; 10] =
    ["size", "int", "uint", "double", "string", "bytes", "bool", "type", "dyn", "matches"];
const METHODS: [&str; 5] = ["size", "contains", "startsWith", "endsWith", "matches"];
const MACROS: [&str; 6] = ["has", "all", "exists", "exists_one", "map", "filter"];
/// Names of types are values too: `type(x) == int`.
const TYPES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];
const STEP_FIELDS: [&str; 3] = ["content", "status", "result"];

impl Expression {
    pub(crate) fn check(&self, known: &Known<'_>, wanted: Wanted) -> Checked {
        let mut check = Check { expression: self, known, bound: Vec::new(), checked: Checked::default() };
        let shape = check.shape(self.tree());
        let fits = match wanted {
            Wanted::Bool => shape.may_be("bool"),
            Wanted::List => shape.may_be("list"),
            Wanted::Anything => true,
        };
        if !fits {
            let want = if wanted == Wanted::Bool { "true or false" } else { "a list" };
            check.error(
                Code::CelType,
                self.tree(),
                format!("this gives {}, and must give {want}", shape.words()),
                None,
            );
        }
        check.checked
    }
}

struct Check<'c, 'a> {
    expression: &'c Expression,
    known: &'c Known<'a>,
    bound: Vec<(String, Shape<'a>)>,
    checked: Checked,
}

impl<'a> Check<'_, 'a> {
    fn error(&mut self, code: Code, node: &IdedExpr, message: String, hint: Option<String>) {
        self.find(Severity::Error, code, node, message, hint);
    }

    fn find(
        &mut self,
        severity: Severity,
        code: Code,
        node: &IdedExpr,
        message: String,
        hint: Option<String>,
    ) {
        let offset = self.expression.offset_of(node);
        self.checked.findings.push(Finding { code, severity, message, hint, offset });
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
                self.error(Code::CelType, node, message, None);
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
                Some(schema) => Shape::Schema { root: schema, node: schema, whose: "`inputs`".to_owned() },
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
                    (false, Some(meant)) => format!("did you mean `{meant}`?"),
                    (false, None) => {
                        let names: Vec<String> = VARIABLES.iter().map(|name| format!("`{name}`")).collect();
                        format!("an expression sees {}", names.join(", "))
                    }
                };
                let message = format!("`{}` is not a name an expression can use", quoted(name));
                self.error(Code::CelType, node, message, Some(hint));
                Shape::Anything
            }
        }
    }

    fn of_turn(&mut self, node: &IdedExpr, name: &str) -> Shape<'a> {
        let (wanted, kind) = match name {
            "iteration" => (InTurn::Repeat, "a repeating loop"),
            _ => (InTurn::Items, "a `forEach`"),
        };
        let (always, shape) = match name {
            "item" => ("null", Shape::Anything),
            _ => ("0", Shape::Of("int")),
        };
        let stands = &self.known.stands;
        if stands.turn != wanted && stands.document == Standing::Alone {
            let message = format!("`{name}` is always {always} here: this is not inside {kind}");
            self.find(Severity::Warning, Code::CelUnknownField, node, message, None);
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
            self.find(Severity::Warning, Code::CelUnknownField, node, message, Some(hint));
        }
        shape
    }

    fn field(&mut self, node: &IdedExpr, operand: &Shape<'a>, field: &str, is_test: bool) -> Shape<'a> {
        match operand {
            Shape::Steps => self.step(node, field),
            Shape::Step(step, id) => match field {
                "content" => Shape::Of("string"),
                "status" => status(),
                "result" => result_of(*step, id),
                _ => {
                    let message = format!("a step has no `{}`", quoted(field));
                    let hint = match nearest(field, STEP_FIELDS) {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => "a step has `content`, `status` and `result`".to_owned(),
                    };
                    self.error(Code::CelUnknownField, node, message, Some(hint));
                    Shape::Anything
                }
            },
            Shape::Undeclared => {
                if !is_test {
                    let message =
                        format!("the document declares no `inputs`, so there is no `{}`", quoted(field));
                    let hint = "describe them with a schema under `inputs`".to_owned();
                    self.find(Severity::Warning, Code::CelUnknownField, node, message, Some(hint));
                }
                Shape::Anything
            }
            Shape::Nothing(id) => {
                if !is_test {
                    let message = format!("step `{id}` gives no structured result, so this is never there");
                    let hint = "give its agent a `resultSchema`, or read `content`".to_owned();
                    self.find(Severity::Warning, Code::CelUnknownField, node, message, Some(hint));
                }
                Shape::Anything
            }
            Shape::Schema { root, node: schema, whose } => {
                self.property(node, (root, schema, whose), field, is_test)
            }
            Shape::List(_) | Shape::Of("bool" | "int" | "double" | "string") => {
                let message = format!("{} has no `{}`", operand.words(), quoted(field));
                self.error(Code::CelType, node, message, None);
                Shape::Anything
            }
            Shape::Anything | Shape::Of(_) => Shape::Anything,
        }
    }

    fn step(&mut self, node: &IdedExpr, id: &str) -> Shape<'a> {
        let Some(step) = self.known.steps.get(id) else {
            let message = format!("there is no step `{}` here", quoted(id));
            let hint =
                nearest(id, self.known.steps.keys().copied()).map(|meant| format!("did you mean `{meant}`?"));
            self.error(Code::CelUnknownStep, node, message, hint);
            return Shape::Anything;
        };
        self.checked.steps.push((id.to_owned(), self.expression.offset_of(node)));
        Shape::Step(*step, id.to_owned())
    }

    fn property(
        &mut self,
        node: &IdedExpr,
        (root, schema, whose): (&'a Value, &'a Value, &str),
        field: &str,
        is_test: bool,
    ) -> Shape<'a> {
        let Some(schema) = followed(root, schema) else { return Shape::Anything };
        let shape = Shape::Schema { root, node: schema, whose: whose.to_owned() };
        if !shape.may_be("map") {
            let message = format!("{} of {whose} has no `{}`", shape.words(), quoted(field));
            self.error(Code::CelType, node, message, None);
            return Shape::Anything;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        if let Some(property) = properties.and_then(|properties| properties.get(field)) {
            return Shape::Schema { root, node: property, whose: whose.to_owned() };
        }
        let others = schema.get("additionalProperties");
        if schema.get("patternProperties").is_some() || others.is_some_and(Value::is_object) {
            return Shape::Anything;
        }
        let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
            return Shape::Anything;
        };
        let meant = nearest(field, properties.keys().map(String::as_str));
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => {
                let names: Vec<String> =
                    properties.keys().map(|name| format!("`{}`", quoted(name))).collect();
                format!("its schema has {}", names.join(", "))
            }
        };
        if others == Some(&Value::Bool(false)) {
            let message = format!("the schema of {whose} does not allow `{}`", quoted(field));
            self.error(Code::CelUnknownField, node, message, Some(hint));
        } else if !is_test {
            let message = format!("the schema of {whose} does not mention `{}`", quoted(field));
            self.find(Severity::Warning, Code::CelUnknownField, node, message, Some(hint));
        }
        Shape::Anything
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
                    | Shape::Schema { .. },
                ) => self.field(node, &shape, field, false),
                _ => element(&shape),
            };
        }
        if self.misspelt_hyphenated(call) {
            return Shape::Anything;
        }
        let target = call.target.as_deref().map(|target| self.shape(target));
        let shapes: Vec<Shape<'a>> = call.args.iter().map(|argument| self.shape(argument)).collect();
        if call.func_name == operators::EQUALS
            && let ([left, right], [of_left, of_right]) = (call.args.as_slice(), shapes.as_slice())
        {
            self.never_equal(left, of_left, right);
            self.never_equal(right, of_right, left);
        }
        match call.func_name.as_str() {
            operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
                for (shape, argument) in shapes.iter().zip(&call.args) {
                    if !shape.may_be("bool") {
                        let message = format!("this gives {}, where true or false is needed", shape.words());
                        self.error(Code::CelType, argument, message, None);
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

    /// A path and a literal that its schema rules out. Null is never ruled out: a step may have been skipped.
    fn never_equal(&mut self, path: &IdedExpr, shape: &Shape<'a>, literal: &IdedExpr) {
        let (Some(_), Expr::Literal(value)) = (Path::of(path), &literal.expr) else { return };
        let (Some(value), Some(allowed)) = (literal_json(value), allowed(shape)) else { return };
        let message = match allowed {
            Allowed::Values(values) if !values.iter().any(|allowed| same(allowed, &value)) => {
                let names: Vec<String> =
                    values.iter().map(|it| format!("`{}`", quoted(&shown(it)))).collect();
                format!("this is never `{}`, only {}", quoted(&shown(&value)), names.join(", "))
            }
            Allowed::Type(name) if name != class(&value) => {
                format!("this is {}, and never `{}`", class_words(name), quoted(&shown(&value)))
            }
            Allowed::Values(_) | Allowed::Type(_) => return,
        };
        let hint = match (allowed, value.as_str()) {
            (Allowed::Values(values), Some(text)) => nearest(text, values.iter().filter_map(Value::as_str)),
            _ => None,
        };
        let hint = hint.map(|meant| format!("did you mean `{}`?", quoted(meant)));
        self.find(Severity::Warning, Code::CelType, literal, message, hint);
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
        let hint =
            nearest(&id, self.known.steps.keys().copied()).map(|meant| format!("did you mean `{meant}`?"));
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
            let all = known.iter().chain(&MACROS).copied();
            let hint = nearest(name, all).filter(|meant| *meant != name);
            self.error(Code::CelType, node, message, hint.map(|meant| format!("did you mean `{meant}`?")));
            return Shape::Anything;
        }
        match (name, target) {
            ("contains" | "startsWith" | "endsWith" | "matches", Some(target))
                if !target.may_be("string") =>
            {
                let message = format!("`{name}` is for text, and this is {}", target.words());
                let hint = (name == "contains" && target.may_be("list"))
                    .then(|| "whether a list has an element is written `element in list`".to_owned());
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
            self.error(
                Code::CelType,
                node,
                format!("`{}` is not a pattern: {reason}", quoted(pattern)),
                None,
            );
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
            self.error(Code::CelType, &it.iter_range, message, None);
        }
        let item = match &range {
            Shape::Steps | Shape::Step(..) => Shape::Of("string"),
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

fn result_of<'a>(step: KnownStep<'a>, id: &str) -> Shape<'a> {
    match step {
        KnownStep::Schema(schema) => {
            Shape::Schema { root: schema, node: schema, whose: format!("step `{id}`") }
        }
        KnownStep::Nothing => Shape::Nothing(id.to_owned()),
        KnownStep::Items | KnownStep::Anything => Shape::Anything,
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
