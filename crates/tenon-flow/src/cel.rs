//! Expressions: conditions, `until`, `forEach`, outputs and the parts of templates, in CEL.
//!
//! An [`Expression`] is compiled once, when the document is loaded, and evaluated against a [`Scope`] of finished
//! steps. Evaluation is a pure function of the scope: no clock, no order of hash maps, and a budget counted in
//! work, not in time (`cel/budget.rs`), so that the same journal gives the same answer everywhere. Which steps and
//! fields an expression may name is checked in `cel/check.rs`.

mod budget;
mod check;
mod convert;
mod plain;
mod presence;
mod rewrite;
mod scope;
mod shape;
mod walk;

use std::sync::{Arc, LazyLock};

use cel::common::ast::IdedExpr;
use cel::common::types::{CelBool, CelList};
use cel::common::value::Val;
use cel::{Env, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

pub(crate) use check::{InTurn, Known, KnownStep, Last, Standing, Stands, Wanted};
pub use scope::{Scope, StepView};

/// Longer expressions belong into a step. The text alone bounds how long reading it can take.
pub const MAX_EXPRESSION_BYTES: usize = 4096;
/// Levels of a tree. People stop well below this.
const MAX_EXPRESSION_DEPTH: usize = 64;
/// Deeper trees are evaluated on a stack of their own: the one we are called on is not ours to fill.
const MAX_DEPTH_HERE: usize = 16;
const EVALUATION_STACK: usize = 16 * 1024 * 1024;

/// With no more operators, dots and brackets than this, no tree is too deep for an ordinary stack.
const MAX_JOINTS_HERE: usize = 48;
const MAX_JOINTS: usize = 500;
/// Room for the parser at [`MAX_JOINTS`]; only what is used is taken.
const PARSER_STACK: usize = 64 * 1024 * 1024;

static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

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
    written: Written,
    depth: usize,
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
        let written = match plain::read(&text) {
            Some((tree, offsets)) => Written::Plain { tree, offsets },
            None => Written::Program(parse(&text, &moved)?),
        };
        let depth = walk::depth(written.tree());
        if depth > MAX_EXPRESSION_DEPTH {
            return Err(too_deep());
        }
        let metered = budget::metered(presence::whole_paths(scope::by_name(written.tree())));
        let source = source.to_owned();
        Ok(Expression { inner: Arc::new(Compiled { source, metered, written, depth, moved }) })
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

    fn evaluate<T: Send>(
        &self,
        scope: &Scope,
        read: impl FnOnce(&dyn Val) -> Result<T, CelError> + Send,
    ) -> Result<T, CelError> {
        let evaluate = || {
            let meter = budget::Meter::default();
            let context = budget::context(scope, &meter);
            let outcome = CelValue::resolve_val(&self.inner.metered, &context);
            // An operator may have swallowed the error that said so.
            if meter.is_exhausted() {
                return Err(CelError::Budget);
            }
            read(outcome.map_err(CelError::from)?.as_ref())
        };
        if self.inner.depth <= MAX_DEPTH_HERE { evaluate() } else { on_own_stack(EVALUATION_STACK, evaluate) }
    }

    /// What a plain path names, as it was written: numbers with their digits, keys in their order.
    fn at_path(&self, scope: &Scope) -> Option<Result<Value, CelError>> {
        let path = scope::Path::of(self.tree())?;
        Some(path.value(scope))
    }

    /// Where a byte of the compiled text is in the text that was written.
    fn offset_of(&self, node: &IdedExpr) -> usize {
        let offset = self.inner.moved.original(self.inner.written.offset_of(node));
        // A field is shown at its name, not at the dot before it.
        let is_dot = self.inner.source.as_bytes().get(offset) == Some(&b'.');
        if is_dot { offset + 1 } else { offset }
    }

    fn tree(&self) -> &IdedExpr {
        self.inner.written.tree()
    }
}

/// A tree with the places of its nodes.
enum Written {
    Program(Program),
    Plain { tree: IdedExpr, offsets: Vec<usize> },
}

impl Written {
    fn tree(&self) -> &IdedExpr {
        match self {
            Written::Program(program) => program.expression(),
            Written::Plain { tree, .. } => tree,
        }
    }

    /// In bytes, into the rewritten text.
    fn offset_of(&self, node: &IdedExpr) -> usize {
        match self {
            Written::Program(program) => {
                program.source_info().offset_for(node.id).map_or(0, |(start, _)| start as usize)
            }
            Written::Plain { offsets, .. } => {
                usize::try_from(node.id).ok().and_then(|id| offsets.get(id)).copied().unwrap_or(0)
            }
        }
    }
}

fn too_deep() -> CelSyntax {
    let message = format!("the expression is nested more than {MAX_EXPRESSION_DEPTH} levels deep");
    CelSyntax { message, offset: 0 }
}

/// The tree of a text, if it is one and not too deep.
fn parse(text: &str, moved: &rewrite::Moved) -> Result<Program, CelSyntax> {
    let parse = || {
        let program = STANDARD.compile(text).map_err(|errors| CelSyntax::of(&errors, text, moved))?;
        // A tree that is too deep is also taken apart here, where there is room for it.
        if walk::depth(program.expression()) > MAX_EXPRESSION_DEPTH {
            return Err(too_deep());
        }
        Ok(program)
    };
    match rewrite::joints(text) {
        0..=MAX_JOINTS_HERE => parse(),
        // `1+1+1+…` is as deep as it is long, to a parser.
        joints if joints <= MAX_JOINTS => on_own_stack(PARSER_STACK, parse),
        joints => {
            let message =
                format!("the expression has {joints} operators and brackets, and may have {MAX_JOINTS}");
            Err(CelSyntax { message, offset: 0 })
        }
    }
}

/// What cannot be started has not been answered.
fn on_own_stack<T: Send, E: Send + From<NoRoom>>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().stack_size(bytes).spawn_scoped(scope, work);
        worker.ok().and_then(|worker| worker.join().ok()).unwrap_or_else(|| Err(NoRoom.into()))
    })
}

struct NoRoom;

impl NoRoom {
    const MESSAGE: &str = "this machine has no room for so long an expression";
}

impl From<NoRoom> for CelSyntax {
    fn from(_: NoRoom) -> CelSyntax {
        CelSyntax { message: NoRoom::MESSAGE.to_owned(), offset: 0 }
    }
}

impl From<NoRoom> for CelError {
    fn from(_: NoRoom) -> CelError {
        CelError::Evaluation { message: NoRoom::MESSAGE.to_owned() }
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
        CelSyntax { message: in_words(&first.msg), offset: moved.original(line_start + within) }
    }
}

/// What a parser says, without its grammar.
fn in_words(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default().trim_start_matches("Syntax error: ");
    // The text it stumbled over is the first in quotes, unless the whole input is quoted.
    let token = message.split_once('\'').and_then(|(_, rest)| rest.split_once('\'')).map(|(token, _)| token);
    match token {
        Some("<EOF>") => "it ends too early".to_owned(),
        Some(token)
            if message.contains("expecting") || message.contains("input") || message.contains("token") =>
        {
            format!("`{}` is not expected here", convert::cut(token.trim()))
        }
        _ => convert::cut(message),
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
                CelError::MissingKey { key: convert::shown_index(index) }
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
