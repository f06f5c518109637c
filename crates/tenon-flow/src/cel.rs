//! Expressions: conditions, `until`, `forEach`, outputs and the parts of templates, in CEL.
//!
//! An [`Expression`] is compiled once, when the document is loaded, and evaluated against a [`Scope`] of finished
//! steps. Evaluation is a pure function of the scope: no clock, no order of hash maps, and a budget counted in
//! work, not in time (`cel/budget.rs`), so that the same journal gives the same answer everywhere. Which steps and
//! fields an expression may name is checked in `cel/check.rs`.

mod budget;
mod check;
mod convert;
mod rewrite;
mod scope;
mod walk;

use std::sync::Arc;

use cel::common::ast::IdedExpr;
use cel::common::types::{CelBool, CelList};
use cel::common::value::Val;
use cel::{Env, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

pub(crate) use check::{Known, KnownStep, Wanted};
pub use scope::{Scope, StepView};

/// Longer expressions belong into a step. The text alone bounds how long reading it can take.
pub const MAX_EXPRESSION_BYTES: usize = 4096;
/// Deeper trees would be evaluated on a stack that is not ours to fill.
const MAX_EXPRESSION_DEPTH: usize = 64;

/// A compiled expression. Cheap to clone.
#[derive(Clone)]
pub struct Expression {
    inner: Arc<Compiled>,
}

struct Compiled {
    source: String,
    /// As it is evaluated: steps by name, and every operation counted.
    metered: IdedExpr,
    /// As it was written, for the checks.
    program: Program,
    moved: rewrite::Moved,
}

impl Expression {
    /// `ids` are the steps the text may name, which is how `steps.health-check.status` is told from a subtraction.
    pub fn compile<'a>(
        source: &str,
        ids: impl IntoIterator<Item = &'a str>,
    ) -> Result<Expression, CelSyntax> {
        if source.len() > MAX_EXPRESSION_BYTES {
            let message =
                format!("the expression has {} bytes, and may have {MAX_EXPRESSION_BYTES}", source.len());
            return Err(CelSyntax { message, offset: 0 });
        }
        let (text, moved) = rewrite::hyphenated_ids(source, ids);
        rewrite::shallow(&text).map_err(|offset| CelSyntax {
            message: "the expression is nested too deeply".to_owned(),
            offset: moved.original(offset),
        })?;
        let program = Env::stdlib().compile(&text).map_err(|errors| CelSyntax::of(&errors, &text, &moved))?;
        if walk::depth(program.expression()) > MAX_EXPRESSION_DEPTH {
            let message = format!("the expression is nested more than {MAX_EXPRESSION_DEPTH} levels deep");
            return Err(CelSyntax { message, offset: 0 });
        }
        let metered = budget::metered(scope::by_name(program.expression()));
        Ok(Expression { inner: Arc::new(Compiled { source: source.to_owned(), metered, program, moved }) })
    }

    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// A condition.
    pub fn evaluate_bool(&self, scope: &Scope) -> Result<bool, CelError> {
        self.evaluate(scope, |value| match value.downcast_ref::<CelBool>() {
            Some(answer) => Ok(*answer.inner()),
            None => Err(CelError::NotBool { got: value.get_type().name().to_owned() }),
        })
    }

    /// The items of a `forEach`.
    pub fn evaluate_list(&self, scope: &Scope) -> Result<Vec<Value>, CelError> {
        if let Some(found) = self.at_path(scope) {
            return match found? {
                Value::Array(items) => Ok(items),
                other => Err(CelError::NotList { got: convert::type_name(&other).to_owned() }),
            };
        }
        self.evaluate(scope, |value| match value.downcast_ref::<CelList>() {
            Some(list) => list.inner().iter().map(|item| convert::to_json(item.as_ref())).collect(),
            None => Err(CelError::NotList { got: value.get_type().name().to_owned() }),
        })
    }

    /// Any value: an output, a part of a template.
    pub fn evaluate_value(&self, scope: &Scope) -> Result<Value, CelError> {
        match self.at_path(scope) {
            Some(found) => found,
            None => self.evaluate(scope, convert::to_json),
        }
    }

    fn evaluate<T>(
        &self,
        scope: &Scope,
        read: impl FnOnce(&dyn Val) -> Result<T, CelError>,
    ) -> Result<T, CelError> {
        let meter = budget::Meter::default();
        let context = budget::context(scope, &meter);
        let outcome = CelValue::resolve_val(&self.inner.metered, &context);
        // An operator may have swallowed the error that said so.
        if meter.is_exhausted() {
            return Err(CelError::Budget);
        }
        read(outcome.map_err(CelError::from)?.as_ref())
    }

    /// What a plain path names, as it was written: numbers with their digits, keys in their order.
    fn at_path(&self, scope: &Scope) -> Option<Result<Value, CelError>> {
        let path = scope::Path::of(self.inner.program.expression())?;
        Some(path.value(scope))
    }

    /// Where a byte of the compiled text is in the text that was written.
    fn offset_of(&self, node: &IdedExpr) -> usize {
        let offset = self.inner.program.source_info().offset_for(node.id).map_or(0, |(start, _)| start);
        self.inner.moved.original(offset as usize)
    }

    fn tree(&self) -> &IdedExpr {
        self.inner.program.expression()
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Expression").field(&self.inner.source).finish()
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.inner.source == other.inner.source
    }
}

/// Text that is not an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CelSyntax {
    pub message: String,
    /// In bytes, into the text that was given.
    pub offset: usize,
}

impl CelSyntax {
    fn of(errors: &cel::ParseErrors, text: &str, moved: &rewrite::Moved) -> CelSyntax {
        let Some(first) = errors.errors.first() else {
            return CelSyntax { message: "the expression cannot be read".to_owned(), offset: 0 };
        };
        let (line, column) = first.pos;
        let line_start: usize =
            text.split_inclusive('\n').take(usize::try_from(line - 1).unwrap_or(0)).map(str::len).sum();
        let rest = text.get(line_start..).unwrap_or_default();
        let within = rest
            .char_indices()
            .nth(usize::try_from(column - 1).unwrap_or(0))
            .map_or(rest.trim_end().len(), |(at, _)| at);
        let message = first.msg.lines().next().unwrap_or_default().trim_start_matches("Syntax error: ");
        CelSyntax { message: convert::cut(message), offset: moved.original(line_start + within) }
    }
}

/// Why an expression gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CelError {
    /// A key, step or element that is not there: of a condition, the documented reason to skip the step.
    #[error("no such key: {key}")]
    MissingKey { key: String },
    #[error("result is {got}, want bool")]
    NotBool { got: String },
    #[error("result is {got}, want list")]
    NotList { got: String },
    /// More work than any sensible expression needs.
    #[error("the expression does more work than one evaluation may ({} units)", budget::MAX_COST)]
    Budget,
    #[error("{message}")]
    Evaluation { message: String },
}

impl From<ExecutionError> for CelError {
    fn from(error: ExecutionError) -> CelError {
        match &error {
            ExecutionError::NoSuchKey(key) => CelError::MissingKey { key: key.to_string() },
            ExecutionError::UndeclaredReference(name) if name.starts_with(scope::STEP_PREFIX) => {
                CelError::MissingKey { key: name[scope::STEP_PREFIX.len()..].to_owned() }
            }
            ExecutionError::IndexOutOfBounds(index) => {
                CelError::MissingKey { key: format!("{}", convert::shown_index(index)) }
            }
            // A step without a structured result has none of its fields.
            ExecutionError::NoSuchOverload(overload)
                if matches!(overload.function(), "_._" | "_[_]")
                    && overload.argument_types().first().is_some_and(|name| name == "null_type") =>
            {
                CelError::MissingKey { key: "null has no fields".to_owned() }
            }
            other => CelError::Evaluation { message: convert::cut(&convert::message(other)) },
        }
    }
}
