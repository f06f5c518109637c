//! Expressions: conditions, `until`, `forEach`, outputs and the parts of templates, in CEL.
//!
//! An [`Expression`] is compiled once, when the document is loaded, and evaluated against a [`Scope`] of finished
//! steps. Evaluation is a pure function of the scope: no clock, no order of hash maps, and a budget counted in
//! work, not in time (`cel/budget.rs`), so that the same journal gives the same answer everywhere. Which steps and
//! fields an expression may name is checked in `cel/check.rs`.

mod arithmetic;
mod bounds;
mod budget;
mod calls;
mod check;
mod compare;
mod convert;
mod has_field;
mod hyphens;
mod kinds;
mod never;
mod plain;
mod presence;
mod rewrite;
mod schema_view;
mod scope;
mod shape;
mod slips;
#[cfg(test)]
mod soundness;
mod times;
mod walk;
mod written_number;

use std::sync::{Arc, LazyLock};

use cel::common::ast::{Expr, IdedExpr};
use cel::common::types::{CelBool, CelList};
use cel::common::value::Val;
use cel::{Env, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

use crate::diagnostic::quoted;

pub(crate) use check::{
    AskedFailure, Finding, InTurn, Known, KnownStep, Last, OfEach, Standing, Stands, Wanted,
};
pub(crate) use schema_view::{FieldIs, View, views};
pub use scope::{Scope, StepView};
pub(crate) use shape::{Shape, of_views};

/// Longer expressions belong into a step. The text alone bounds how long reading it can take.
pub const MAX_EXPRESSION_BYTES: usize = 4096;
/// Brackets, or signs, one inside the other. People stop well below this.
const MAX_EXPRESSION_DEPTH: usize = 64;
/// Deeper trees are evaluated on a stack of their own: the one we are called on is not ours to fill.
const MAX_DEPTH_HERE: usize = 16;
/// Room for a chain of [`MAX_OPERATORS`], which is as deep as it is long; only what is used is taken.
const EVALUATION_STACK: usize = 64 * 1024 * 1024;

/// With no more operators, dots and brackets than this, no tree is too deep for an ordinary stack.
const MAX_JOINTS_HERE: usize = 48;
/// Longer than any expression that a person keeps in mind.
pub const MAX_OPERATORS: usize = 500;
/// Room for the parser at [`MAX_OPERATORS`]; only what is used is taken.
const PARSER_STACK: usize = 64 * 1024 * 1024;

/// Without optional values (`a.?b`), which the format does not have.
static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib().with_optional_support(false)));

/// A compiled expression. Cheap to clone.
#[derive(Clone)]
pub struct Expression {
    inner: Arc<Compiled>,
    /// Where it stands, for messages: `line 4`.
    stands_in: Option<Arc<str>>,
}

struct Compiled {
    source: String,
    /// As it is evaluated: steps by name, and every operation counted.
    metered: IdedExpr,
    /// As it was written, for the checks.
    written: Written,
    depth: usize,
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
            return Err(CelSyntax::too_large(message, 0));
        }
        let (text, stands) = rewrite::hyphenated_ids(source, ids);
        rewrite::shallow(&text).map_err(too_deep)?;
        let joints = rewrite::joints(&text);
        if joints > MAX_OPERATORS {
            let message = format!(
                "the expression has {joints} operators, dots and brackets, and may have {MAX_OPERATORS}"
            );
            return Err(CelSyntax::too_large(message, 0));
        }
        let compile = || Compiled::of(source, &text, &stands);
        // `1+1+1+…` is as deep as it is long.
        let compiled =
            if joints <= MAX_JOINTS_HERE { compile() } else { on_own_stack(PARSER_STACK, compile) }?;
        Ok(Expression { inner: Arc::new(compiled), stands_in: None })
    }

    /// The same, standing in `line 4`.
    pub(crate) fn standing_in(self, place: &str) -> Expression {
        Expression { stands_in: Some(Arc::from(place)), ..self }
    }

    /// For a message about it: its text, and where it stands.
    pub(crate) fn named(&self) -> String {
        let text = quoted(self.source().trim());
        match &self.stands_in {
            Some(place) => format!("`{text}` ({place})"),
            None => format!("`{text}`"),
        }
    }

    /// What is done with the tree, where there is room for it.
    fn with_room<T: Send, E: Send + From<NoRoom>>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        if self.inner.depth <= MAX_DEPTH_HERE { work() } else { on_own_stack(EVALUATION_STACK, work) }
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
        self.with_room(evaluate)
    }

    /// What a plain path names, as it was written: numbers with their digits, keys in their order.
    fn at_path(&self, scope: &Scope) -> Option<Result<Value, CelError>> {
        let path = scope::Path::of(self.tree())?;
        Some(path.value(scope))
    }

    /// Where a node is in the text: a field at its name, a call at the name of the function.
    fn offset_of(&self, node: &IdedExpr) -> usize {
        let source = &self.inner.source;
        let offset = self.inner.written.offset_of(node);
        if let Expr::Select(select) = &node.expr
            && select.test
        {
            // `has` is where its bracket is; what it asks for comes after what that is asked of.
            let from = self.inner.written.offset_of(&select.operand);
            return rewrite::field_after(source, from, &select.field).unwrap_or(offset);
        }
        match source.as_bytes().get(offset) {
            Some(b'.') => offset + 1,
            Some(b'(') => {
                let before = source[..offset].trim_end();
                let name = before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
                if name.len() == before.len() { offset } else { name.len() }
            }
            _ => offset,
        }
    }

    fn tree(&self) -> &IdedExpr {
        &self.inner.written.tree
    }
}

/// A tree with the places of its nodes.
struct Written {
    tree: IdedExpr,
    places: Offsets,
}

enum Offsets {
    Program(Program),
    Plain(Vec<usize>),
}

impl Written {
    /// In bytes.
    fn offset_of(&self, node: &IdedExpr) -> usize {
        match &self.places {
            Offsets::Program(program) => {
                program.source_info().offset_for(node.id).map_or(0, |(start, _)| start as usize)
            }
            Offsets::Plain(offsets) => {
                usize::try_from(node.id).ok().and_then(|id| offsets.get(id)).copied().unwrap_or(0)
            }
        }
    }
}

/// Whether a tree without names can be evaluated.
fn fixed(tree: &IdedExpr, scope: &Scope) -> Result<(), CelError> {
    let meter = budget::Meter::default();
    let context = budget::context(scope, &meter);
    let metered = budget::metered(presence::whole_paths(tree.clone()));
    let outcome = CelValue::resolve_val(&metered, &context).map(|_| ()).map_err(CelError::from);
    if meter.is_exhausted() { Err(CelError::Budget) } else { outcome }
}

fn too_deep(offset: usize) -> CelSyntax {
    let message = format!("the expression is nested more than {MAX_EXPRESSION_DEPTH} levels deep");
    CelSyntax::too_large(message, offset)
}

impl Compiled {
    fn of(source: &str, text: &str, stands: &[rewrite::Stand]) -> Result<Compiled, CelSyntax> {
        let mut written = match plain::read(text) {
            Some((tree, offsets)) => Written { tree, places: Offsets::Plain(offsets) },
            None => {
                let program =
                    STANDARD.compile(text).map_err(|errors| CelSyntax::of(&errors, text, stands))?;
                Written { tree: program.expression().clone(), places: Offsets::Program(program) }
            }
        };
        rewrite::restore(&mut written.tree, stands);
        if text.contains('.') {
            rewrite::from_the_root(&mut written.tree, &mut Vec::new());
        }
        let metered = budget::metered(presence::whole_paths(scope::by_name(&written.tree)));
        let depth = walk::depth(&written.tree);
        Ok(Compiled { source: source.to_owned(), metered, written, depth })
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
        CelSyntax::too_large(NoRoom::MESSAGE.to_owned(), 0)
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
    /// What to do about it.
    pub hint: String,
    /// In bytes, into the text that was given.
    pub offset: usize,
    pub kind: SyntaxKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxKind {
    /// It cannot be read.
    Unreadable,
    /// It is longer or deeper than an expression may be.
    TooLarge,
}

impl CelSyntax {
    fn too_large(message: String, offset: usize) -> CelSyntax {
        let hint = "let a step work it out and submit the answer, or split the expression".to_owned();
        CelSyntax { message, hint, offset, kind: SyntaxKind::TooLarge }
    }

    fn of(errors: &cel::ParseErrors, text: &str, stands: &[rewrite::Stand]) -> CelSyntax {
        if errors.errors.iter().any(|error| error.pos.0 < 1 || error.msg.contains("Recursion limit")) {
            let message = "the expression is nested too deeply: every `? :` after another is a level";
            return CelSyntax::too_large(message.to_owned(), 0);
        }
        if let Some(slip) = slips::find(text) {
            return slip;
        }
        // What its grammar says comes before what follows from it.
        let is_grammar = |error: &&cel::ParseError| error.msg.starts_with("Syntax error");
        let first = errors.errors.iter().find(is_grammar).or(errors.errors.first());
        let (message, hint, offset) = match first {
            None => ("it cannot be read".to_owned(), READ_CEL, 0),
            Some(error) => {
                let (message, hint) = in_words(&error.msg);
                match byte_of(text, error.pos) {
                    end if end >= text.trim_end().len() => (ENDS.to_owned(), COMPLETE, end),
                    offset => (rewrite::as_written(&message, stands), hint, offset),
                }
            }
        };
        CelSyntax { message, hint: hint.to_owned(), offset, kind: SyntaxKind::Unreadable }
    }
}

/// The byte of a line and a column, both from 1.
fn byte_of(text: &str, (line, column): (isize, isize)) -> usize {
    let line_start: usize =
        text.split_inclusive('\n').take(usize::try_from(line - 1).unwrap_or(0)).map(str::len).sum();
    let rest = text.get(line_start..).unwrap_or_default();
    let within = rest
        .char_indices()
        .nth(usize::try_from(column - 1).unwrap_or(0))
        .map_or(rest.trim_end().len(), |(at, _)| at);
    line_start + within
}

const ENDS: &str = "it ends too early";
const COMPLETE: &str = "complete it: after an operator or a dot something must follow";
/// Where there is nothing more to say.
const READ_CEL: &str = "as in `steps.test.status == 'completed' && steps.test.result.passed`";

/// What a parser says, without its grammar, and what to do about it.
fn in_words(message: &str) -> (String, &'static str) {
    let message = message.lines().next().unwrap_or_default().trim_start_matches("Syntax error: ");
    if message.contains("unsupported syntax") {
        let hint = "ask with `has(…)` whether something is there: `has(a.b) ? a.b : 'none'`";
        return ("`?` after a dot or in brackets is not supported".to_owned(), hint);
    }
    if message.contains("has() macro") {
        let hint = "write `has(steps.plan.result.field)`: the last part is a field, not an index";
        return ("`has` takes a path that ends in a field".to_owned(), hint);
    }
    if message.contains("must be a simple name") {
        let hint = "as in `list.exists(element, element == 'x')`";
        return ("the first of the two is a name of your own for the element".to_owned(), hint);
    }
    if let Some(word) = message.strip_prefix("reserved identifier: ") {
        return (format!("`{}` is a reserved word", convert::cut(word)), "take another name");
    }
    if message.contains("int literal") || message.contains("double literal") {
        return (
            "a number is too large".to_owned(),
            "integers have 64 bits; write it with a `.0` for a fraction",
        );
    }
    // The text it stumbled over, which may have quotes of its own.
    let token = message.split_once('\'').and_then(|(_, rest)| {
        rest.rsplit_once("' expecting").or_else(|| rest.rsplit_once('\'')).map(|(token, _)| token.trim())
    });
    match token {
        Some("<EOF>") => (ENDS.to_owned(), COMPLETE),
        Some(",") => {
            ("`,` is not expected here".to_owned(), "a list is written in brackets: `['one', 'two']`")
        }
        Some(token) if !token.is_empty() && (message.contains("expecting") || message.contains("input")) => {
            let hint = "take it out, or put an operator (`&&`, `||`, `==`, `+`) before it";
            (format!("`{}` is not expected here", convert::cut(token)), hint)
        }
        Some(token) if !token.is_empty() && message.contains("token") => {
            (format!("`{}` means nothing here", convert::cut(token)), "take it out, or put it in quotes")
        }
        _ => ("it cannot be read from here on".to_owned(), READ_CEL),
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
