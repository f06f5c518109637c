//! Whether an expression can mean anything: its names, its steps, the fields of their results, its type.
//!
//! Types are followed as far as `resultSchema`s tell them and no further: what may be anything is not complained
//! about (`cel/shape.rs`). Operators and functions are in `cel/calls.rs`, which fields a value has is in
//! `cel/has_field.rs`, comparisons that never hold are in `cel/never.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use serde_json::Value;

use super::kinds::Kinds;
use super::scope::VARIABLES;
use super::shape::{Absent, Described, Shape, element, literal_kind, status};
use super::{CelSyntax, Expression};
use crate::diagnostic::{Code, Severity, meant, nearest, quoted};
use crate::interpreter::includes::INNER_STEPS;

/// What the steps around an expression give.
#[derive(Clone, Debug, Default)]
pub struct Known<'a> {
    /// Shared: there is one such list for every step of a loop.
    pub steps: Arc<BTreeMap<&'a str, KnownStep<'a>>>,
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
    /// How often a repeating loop goes round at most.
    pub turns: Option<u32>,
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
    /// Where it asks whether a step failed.
    pub failures: Vec<AskedFailure>,
    pub gives: Shape<'a>,
}

/// `steps.<id>.status == 'failed'`, or `'cancelled'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedFailure {
    pub id: String,
    pub word: String,
    /// Of the word, in bytes.
    pub offset: usize,
}

impl<'a> Checked<'a> {
    /// Of each element, if the expression gives a list.
    pub(crate) fn each(&self) -> Shape<'a> {
        element(&self.gives)
    }
}

/// Names of types are values too: `type(x) == int`.
const TYPES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];
/// Those with dots in them.
const LONG_TYPES: [&str; 2] = ["google.protobuf.Timestamp", "google.protobuf.Duration"];

impl Expression {
    pub(crate) fn check<'a>(&self, known: &Known<'a>, wanted: Wanted) -> Checked<'a> {
        match self.with_room(|| Ok::<_, CelSyntax>(self.checked(known, wanted))) {
            Ok(checked) => checked,
            Err(error) => {
                let (code, severity) = (Code::TooLarge, Severity::Error);
                let finding = Finding { code, severity, message: error.message, hint: error.hint, offset: 0 };
                Checked {
                    findings: vec![finding],
                    steps: Vec::new(),
                    failures: Vec::new(),
                    gives: Shape::Anything,
                }
            }
        }
    }

    fn checked<'a>(&self, known: &Known<'a>, wanted: Wanted) -> Checked<'a> {
        let mut check = Check {
            expression: self,
            known,
            bound: Vec::new(),
            guards: 0,
            told: Vec::new(),
            findings: Vec::new(),
            steps: Vec::new(),
            failures: Vec::new(),
        };
        let gives = check.shape(self.tree());
        let fits = match wanted {
            Wanted::Bool => gives.may_be(Kinds::BOOL),
            Wanted::List => gives.may_be(Kinds::LIST),
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
        Checked { findings: check.findings, steps: check.steps, failures: check.failures, gives }
    }
}

pub(super) struct Check<'c, 'a> {
    pub(super) expression: &'c Expression,
    pub(super) known: &'c Known<'a>,
    pub(super) bound: Vec<(String, Shape<'a>)>,
    /// How many operators around this may pass it over.
    pub(super) guards: usize,
    /// Parts of the text about which everything has been said, from a byte to a byte.
    pub(super) told: Vec<std::ops::Range<usize>>,
    pub(super) findings: Vec<Finding>,
    pub(super) steps: Vec<(String, usize)>,
    pub(super) failures: Vec<AskedFailure>,
}

impl<'a> Check<'_, 'a> {
    pub(super) fn error(&mut self, code: Code, node: &IdedExpr, message: String, hint: impl Into<String>) {
        self.find(Severity::Error, code, node, message, hint);
    }

    pub(super) fn warning(&mut self, code: Code, node: &IdedExpr, message: String, hint: impl Into<String>) {
        self.find(Severity::Warning, code, node, message, hint);
    }

    pub(super) fn find(
        &mut self,
        severity: Severity,
        code: Code,
        node: &IdedExpr,
        message: String,
        hint: impl Into<String>,
    ) {
        let offset = self.expression.offset_of(node);
        if !self.is_told(offset) {
            self.findings.push(Finding { code, severity, message, hint: hint.into(), offset });
        }
    }

    pub(super) fn is_told(&self, offset: usize) -> bool {
        self.told.iter().any(|range| range.contains(&offset))
    }

    pub(super) fn shape(&mut self, node: &IdedExpr) -> Shape<'a> {
        match &node.expr {
            Expr::Unspecified => Shape::Anything,
            Expr::Literal(literal) => Shape::Of(literal_kind(literal)),
            Expr::Ident(name) => self.name(node, name),
            Expr::Select(select) if !select.test && is_long_type(node) => Shape::Of(Kinds::TYPE),
            Expr::Select(select) => {
                let operand = self.shape(&select.operand);
                let field = self.field(node, &operand, &select.field, select.test);
                if select.test { Shape::Of(Kinds::BOOL) } else { field }
            }
            Expr::Call(call) => self.call(node, call),
            Expr::List(list) => {
                let shapes: Vec<Shape<'a>> =
                    list.elements.iter().map(|element| self.shape(element)).collect();
                Shape::List(Box::new(shapes.into_iter().reduce(Shape::or).unwrap_or(Shape::Anything)))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.shape(&entry.key);
                        self.shape(&entry.value);
                    }
                }
                Shape::Of(Kinds::MAP)
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
                None if self.known.stands.document == Standing::Included => Shape::Of(Kinds::MAP),
                None => Shape::Undeclared,
            },
            "item" | "index" | "iteration" => self.of_turn(node, name),
            "content" | "result" | "status" => self.of_last(node, name),
            name if TYPES.contains(&name) => Shape::Of(Kinds::TYPE),
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
                self.tell_rest(self.expression.offset_of(node) + name.len());
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
            _ => ("0", Shape::Of(Kinds::INT)),
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
            ("result", Last::Step(step, id)) => match result_of(step, id) {
                Shape::Nothing(id) => Shape::NoFields(id),
                Shape::Schema(it) => Shape::Schema(Described { absent: Absent::Never, ..it }),
                other => other,
            },
            ("result", _) => Shape::Anything,
            ("status", Last::Something | Last::Step(..)) => status(),
            _ => Shape::Of(Kinds::STRING),
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

    pub(super) fn step_meant(&self, id: &str) -> String {
        meant(id, self.known.steps.keys().copied(), "there are no steps here")
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> Shape<'a> {
        let range = self.shape(&it.iter_range);
        if !range.may_be(Kinds::LIST | Kinds::MAP) {
            let message = format!("this is {}, and cannot be gone through", range.words());
            self.error(Code::CelType, &it.iter_range, message, "name a list or a map");
        }
        let item = match &range {
            Shape::Steps | Shape::Step(..) | Shape::Fields(..) => Shape::Of(Kinds::STRING),
            // Of a map these are its keys.
            range if range.may_be(Kinds::MAP) => Shape::Anything,
            range => element(range),
        };
        self.guards += 1;
        self.bound.push((it.iter_var.clone(), item));
        self.bound.push((it.accu_var.clone(), Shape::Anything));
        let of_list = matches!(it.accu_init.expr, Expr::List(_));
        let appended = appended(&it.loop_step).map(|element| self.shape(element));
        // The step as a whole, unless all of it has been looked at.
        match &it.loop_step.expr {
            Expr::Call(call) if appended.is_some() && call.func_name == operators::CONDITIONAL => {
                if let Some(guard) = call.args.first() {
                    let shape = self.shape(guard);
                    self.must_be_bool(guard, &shape);
                }
            }
            _ if appended.is_some() => {}
            _ => {
                self.shape(&it.loop_step);
            }
        }
        self.bound.truncate(self.bound.len() - 2);
        self.guards -= 1;
        match appended {
            Some(element) if of_list => Shape::List(Box::new(element)),
            _ => Shape::Of(Kinds::BOOL),
        }
    }
}

pub(super) fn result_of<'a>(step: KnownStep<'a>, id: &str) -> Shape<'a> {
    match step {
        KnownStep::Schema(schema) => Shape::result(schema, format!("step `{id}`")),
        KnownStep::Nothing => Shape::Nothing(id.to_owned()),
        KnownStep::Items(each) => items_of(each, id),
        KnownStep::Outputs(outputs) => {
            let names = outputs.iter().map(|(name, _)| (name.as_str(), Shape::Anything));
            // An output of that name comes first, and wins.
            let inner = [(INNER_STEPS, Shape::Of(Kinds::MAP))];
            Shape::Fields(format!("the workflow that step `{id}` includes"), names.chain(inner).collect())
        }
        KnownStep::Anything => Shape::Anything,
    }
}

/// The result of a `forEach`.
fn items_of<'a>(each: OfEach<'a>, id: &str) -> Shape<'a> {
    let result = match each {
        OfEach::Schema(schema) => Shape::result(schema, format!("an item of step `{id}`")),
        OfEach::Nothing => Shape::Nothing(id.to_owned()),
        OfEach::Anything => Shape::Anything,
    };
    let fields = vec![
        ("id", Shape::Of(Kinds::STRING)),
        ("index", Shape::Of(Kinds::NUMBER)),
        ("item", Shape::Anything),
        ("content", Shape::Of(Kinds::STRING)),
        ("status", status()),
        ("result", result),
    ];
    let one = Shape::Fields(format!("an item of step `{id}`"), fields);
    let iterations = ("iterations", Shape::List(Box::new(one)));
    Shape::Fields(format!("step `{id}`, which goes over items,"), vec![iterations])
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

/// `google.protobuf.Timestamp`, which only looks like a path.
fn is_long_type(node: &IdedExpr) -> bool {
    fn dotted(node: &IdedExpr) -> Option<String> {
        match &node.expr {
            Expr::Ident(name) => Some(name.clone()),
            Expr::Select(select) => Some(format!("{}.{}", dotted(&select.operand)?, select.field)),
            _ => None,
        }
    }
    // Asked of every path, so the last name decides first.
    let is_last = |name: &&&str| matches!(&node.expr, Expr::Select(it) if name.ends_with(&it.field));
    LONG_TYPES.iter().filter(is_last).any(|name| dotted(node).is_some_and(|it| it == **name))
}
