//! What an expression sees: finished steps by id, and the values of the place where it stands.
//!
//! A step is converted when it is first looked at and kept, so a scope of a hundred large results costs nothing
//! until an expression names one of them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::CelInt;
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use serde_json::{Map, Value};

use super::{CelError, convert};

/// How a single step is called in a compiled tree; no name in the text can contain a dot.
pub(super) const STEP_PREFIX: &str = "steps.";
/// The same for a step that is null when it is not there.
pub(super) const MAYBE_STEP_PREFIX: &str = "steps?.";

/// Everything an expression may name besides steps and what it binds itself.
pub(super) const VARIABLES: [&str; 8] =
    ["steps", "inputs", "item", "index", "iteration", "content", "result", "status"];

/// A finished step as expressions see it.
#[derive(Default)]
pub struct StepView {
    pub content: String,
    pub status: String,
    /// Absent where the step gives no structured result.
    pub result: Option<Value>,
    converted: OnceLock<Box<dyn Val>>,
}

impl StepView {
    pub fn new(status: impl Into<String>, content: impl Into<String>, result: Option<Value>) -> StepView {
        StepView { content: content.into(), status: status.into(), result, converted: OnceLock::new() }
    }

    fn converted(&self) -> &dyn Val {
        self.converted
            .get_or_init(|| {
                let result = self.result.as_ref().unwrap_or(&Value::Null);
                let entries = [
                    ("content", Value::String(self.content.clone())),
                    ("status", Value::String(self.status.clone())),
                ];
                let entries = entries
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), convert::to_cel(value)))
                    .chain([("result".to_owned(), convert::to_cel(result))]);
                convert::map(entries)
            })
            .as_ref()
    }

    fn as_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("content".to_owned(), self.content.clone().into());
        members.insert("status".to_owned(), self.status.clone().into());
        members.insert("result".to_owned(), self.result.clone().unwrap_or(Value::Null));
        Value::Object(members)
    }
}

impl std::fmt::Debug for StepView {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("StepView").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The values of one evaluation. Steps that are not in it are missing keys.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    steps: BTreeMap<String, Arc<StepView>>,
    last: Option<Arc<StepView>>,
    item: Option<Arc<Value>>,
    inputs: Option<Arc<Value>>,
    index: u64,
    iteration: u64,
}

impl Scope {
    pub fn new() -> Scope {
        Scope::default()
    }

    /// `steps.<id>`.
    pub fn with_step(mut self, id: impl Into<String>, record: Arc<StepView>) -> Scope {
        self.add_step(id, record);
        self
    }

    pub fn add_step(&mut self, id: impl Into<String>, record: Arc<StepView>) {
        self.steps.insert(id.into(), record);
    }

    /// Without steps of these names: others of the same name are meant from here on.
    pub fn without_steps<'a>(mut self, ids: impl IntoIterator<Item = &'a str>) -> Scope {
        ids.into_iter().for_each(|id| drop(self.steps.remove(id)));
        self
    }

    /// The bare `content`, `result` and `status`.
    pub fn with_last(mut self, record: Arc<StepView>) -> Scope {
        self.last = Some(record);
        self
    }

    /// The element of a `forEach` and its position, from 0.
    pub fn with_item(mut self, item: Arc<Value>, index: usize) -> Scope {
        self.item = Some(item);
        self.index = index as u64;
        self
    }

    /// Of a repeating loop, from 0.
    pub fn with_iteration(mut self, iteration: usize) -> Scope {
        self.iteration = iteration as u64;
        self
    }

    pub fn with_inputs(mut self, inputs: Arc<Value>) -> Scope {
        self.inputs = Some(inputs);
        self
    }

    /// A variable as JSON.
    fn json(&self, name: &str) -> Option<Value> {
        let empty = || Value::Object(Map::new());
        Some(match name {
            "steps" => {
                Value::Object(self.steps.iter().map(|(id, step)| (id.clone(), step.as_json())).collect())
            }
            "inputs" => self.inputs.as_deref().cloned().unwrap_or_else(empty),
            "item" => self.item.as_deref().cloned().unwrap_or(Value::Null),
            "index" => self.index.into(),
            "iteration" => self.iteration.into(),
            "content" => self.last.as_deref().map(|last| last.content.clone()).unwrap_or_default().into(),
            "status" => self.last.as_deref().map(|last| last.status.clone()).unwrap_or_default().into(),
            "result" => self.last.as_deref().and_then(|last| last.result.clone()).unwrap_or_else(empty),
            _ => return None,
        })
    }
}

impl VariableResolver for Scope {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        if let Some(id) = name.strip_prefix(STEP_PREFIX) {
            return self.steps.get(id).map(|step| CowVal::Borrowed(step.converted()));
        }
        if let Some(id) = name.strip_prefix(MAYBE_STEP_PREFIX) {
            let step = self.steps.get(id).map(|step| CowVal::Borrowed(step.converted()));
            return Some(step.unwrap_or_else(|| CowVal::Owned(convert::to_cel(&Value::Null))));
        }
        match name {
            "index" => Some(CowVal::owned(whole(self.index))),
            "iteration" => Some(CowVal::owned(whole(self.iteration))),
            other => self.json(other).map(|value| CowVal::Owned(convert::to_cel(&value))),
        }
    }
}

fn whole(count: u64) -> CelInt {
    CelInt::from(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The tree with each single step under a name of its own, so that naming one does not convert the others.
pub(super) fn by_name(tree: &IdedExpr) -> IdedExpr {
    let mut tree = tree.clone();
    rename(&mut tree, &mut Vec::new());
    tree
}

fn rename(node: &mut IdedExpr, bound: &mut Vec<String>) {
    if !bound.iter().any(|name| name == "steps")
        && let Some(id) = single_step(&node.expr)
    {
        node.expr = Expr::Ident(format!("{STEP_PREFIX}{id}"));
        return;
    }
    match &mut node.expr {
        Expr::Comprehension(it) => {
            rename(&mut it.iter_range, bound);
            rename(&mut it.accu_init, bound);
            bound.push(it.iter_var.clone());
            for part in [&mut it.loop_cond, &mut it.loop_step, &mut it.result] {
                rename(part, bound);
            }
            bound.pop();
        }
        _ => super::walk::children_mut(node).into_iter().for_each(|child| rename(child, bound)),
    }
}

/// The id in `steps.<id>` and `steps["<id>"]`.
pub(super) fn single_step(expr: &Expr) -> Option<&str> {
    let is_steps = |node: &IdedExpr| matches!(&node.expr, Expr::Ident(name) if name == "steps");
    match expr {
        Expr::Select(select) if !select.test && is_steps(&select.operand) => Some(&select.field),
        Expr::Call(CallExpr { func_name, target: None, args }) if func_name == operators::INDEX => {
            match args.as_slice() {
                [operand, key] if is_steps(operand) => literal_text(key),
                _ => None,
            }
        }
        _ => None,
    }
}

pub(super) fn literal_text(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// A variable and fields of it: nothing is computed, so nothing is converted.
pub(super) struct Path<'a> {
    variable: &'a str,
    keys: Vec<Key<'a>>,
}

enum Key<'a> {
    Field(&'a str),
    Index(i64),
}

impl<'a> Path<'a> {
    pub(super) fn of(tree: &'a IdedExpr) -> Option<Path<'a>> {
        let mut keys = Vec::new();
        let mut node = tree;
        loop {
            match &node.expr {
                Expr::Ident(variable) => {
                    keys.reverse();
                    return Some(Path { variable, keys });
                }
                Expr::Select(select) if !select.test => {
                    keys.push(Key::Field(&select.field));
                    node = &select.operand;
                }
                Expr::Call(CallExpr { func_name, target: None, args }) if func_name == operators::INDEX => {
                    let [operand, key] = args.as_slice() else { return None };
                    keys.push(match &key.expr {
                        Expr::Literal(LiteralValue::String(text)) => Key::Field(text.inner()),
                        Expr::Literal(LiteralValue::Int(index)) => Key::Index(*index.inner()),
                        _ => return None,
                    });
                    node = operand;
                }
                _ => return None,
            }
        }
    }

    /// The step, of `steps.<id>.status`.
    pub(super) fn step_of_status(&self) -> Option<&'a str> {
        match (self.variable.trim_start_matches('.'), self.keys.as_slice()) {
            ("steps", [Key::Field(id), Key::Field("status")]) => Some(id),
            _ => None,
        }
    }

    pub(super) fn value(&self, scope: &Scope) -> Result<Value, CelError> {
        let missing = |key: &str| CelError::MissingKey { key: key.to_owned() };
        let (start, keys): (Value, &[Key<'_>]) = match (self.variable, self.keys.as_slice()) {
            // One step of many: the others are not copied.
            ("steps", [Key::Field(id), Key::Field("result"), rest @ ..]) => {
                let step = scope.steps.get(*id).ok_or_else(|| missing(id))?;
                return descend(step.result.as_ref().unwrap_or(&Value::Null), rest).cloned();
            }
            ("steps", [Key::Field(id), rest @ ..]) => {
                (scope.steps.get(*id).ok_or_else(|| missing(id))?.as_json(), rest)
            }
            (name, keys) => {
                let value = scope.json(name).ok_or_else(|| CelError::Evaluation {
                    message: format!("undeclared reference to `{}`", convert::cut(name)),
                })?;
                (value, keys)
            }
        };
        descend(&start, keys).cloned()
    }
}

fn descend<'v>(value: &'v Value, keys: &[Key<'_>]) -> Result<&'v Value, CelError> {
    let mut value = value;
    for key in keys {
        let shown = || match key {
            Key::Field(name) => (*name).to_owned(),
            Key::Index(index) => index.to_string(),
        };
        let found = match (key, value) {
            (Key::Field(name), Value::Object(members)) => members.get(*name),
            (Key::Index(index), Value::Array(items)) => {
                usize::try_from(*index).ok().and_then(|index| items.get(index))
            }
            (_, Value::Null) | (Key::Index(_), Value::Object(_)) => None,
            (_, other) => {
                let message = format!("a {} has no `{}`", convert::type_name(other), convert::cut(&shown()));
                return Err(CelError::Evaluation { message });
            }
        };
        value = found.ok_or_else(|| CelError::MissingKey { key: shown() })?;
    }
    Ok(value)
}
