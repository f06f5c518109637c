//! `has(a.b.c)`: whether all of a path is there.
//!
//! CEL asks only for the last field and fails when something before it is missing or null. A step that was skipped
//! has no result, though, and that is just what `has` is asked about: so the whole path is handed to `@has`.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::CelBool;
use cel::common::value::{CowVal, Val};
use cel::{ExecutionError, FunctionContext};

use super::scope::{MAYBE_STEP_PREFIX, STEP_PREFIX};
use super::written_number::plain;

pub(super) const HAS: &str = "@has";

/// The tree with `@has(start, key, …)` for every `has`.
pub(super) fn whole_paths(mut tree: IdedExpr) -> IdedExpr {
    replace(&mut tree);
    tree
}

fn replace(node: &mut IdedExpr) {
    if matches!(&node.expr, Expr::Select(select) if select.test) {
        let mut keys = Vec::new();
        let mut start = std::mem::take(node);
        let id = start.id;
        loop {
            start = match start.expr {
                Expr::Select(select) if select.test == keys.is_empty() => {
                    let field = LiteralValue::String(select.field.into());
                    keys.push(IdedExpr { id: start.id, expr: Expr::Literal(field) });
                    *select.operand
                }
                Expr::Call(mut call)
                    if call.func_name == operators::INDEX
                        && call.target.is_none()
                        && call.args.len() == 2 =>
                {
                    keys.extend(call.args.pop());
                    call.args.pop().unwrap_or_default()
                }
                Expr::Ident(name) => {
                    let name = match name.strip_prefix(STEP_PREFIX) {
                        Some(step) => format!("{MAYBE_STEP_PREFIX}{step}"),
                        None => name,
                    };
                    break start = IdedExpr { id: start.id, expr: Expr::Ident(name) };
                }
                other => break start = IdedExpr { id: start.id, expr: other },
            };
        }
        keys.push(start);
        keys.reverse();
        *node = IdedExpr {
            id,
            expr: Expr::Call(CallExpr { func_name: HAS.to_owned(), target: None, args: keys }),
        };
    }
    super::walk::children_mut(node).into_iter().for_each(replace);
}

pub(super) fn has<'c, 'v>(call: &mut FunctionContext<'c, 'v>) -> Result<CowVal<'c, 'v>, ExecutionError> {
    let (start, keys) = call.args.split_first().ok_or_else(ExecutionError::missing_argument_or_target)?;
    Ok(CowVal::owned(CelBool::from(is_there(start.as_ref(), keys)?)))
}

fn is_there(value: &dyn Val, keys: &[CowVal<'_, '_>]) -> Result<bool, ExecutionError> {
    let Some((key, rest)) = keys.split_first() else { return Ok(true) };
    let unfit = || {
        let types = [value, key.as_ref()].map(|value| value.get_type().name().to_owned());
        ExecutionError::no_such_overload("_._", types.into())
    };
    if value.get_type().name() == "null_type" {
        return Ok(false);
    }
    let key = plain(CowVal::Borrowed(key.as_ref()));
    match value.as_indexer().ok_or_else(unfit)?.get(key.as_ref()) {
        Ok(found) => is_there(found.as_ref(), rest),
        Err(ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_)) => Ok(false),
        Err(ExecutionError::UnexpectedType { .. }) => Err(unfit()),
        Err(error) => Err(error),
    }
}
