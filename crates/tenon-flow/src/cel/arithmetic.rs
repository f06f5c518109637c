//! `+`, `-`, `*` and `/` as the format promises them: a whole number beside one with a fraction becomes one itself.
//!
//! JSON does not tell `3` from `3.0` by type, so whether `result.score * 100` has an answer must not depend on how a model
//! writes a number. Two whole numbers stay whole. A map is added to nothing: a list would take its keys, in no order.

use cel::common::ast::operators;
use cel::common::types::{CelDouble, CelInt, CelMap, CelUInt};
use cel::common::value::{CowVal, Val};
use cel::{ExecutionError, FunctionContext};

use super::written_number::calculable;

/// What stands for an operator in a tree that is evaluated; no such name can be written.
pub(super) fn stand_in(operator: &str) -> Option<&'static str> {
    STAND_INS.iter().find(|(_, known)| *known == operator).map(|(name, _)| *name)
}

pub(super) const ADD: &str = "@add";
pub(super) const STAND_INS: [(&str, &str); 4] = [
    (ADD, operators::ADD),
    ("@subtract", operators::SUBSTRACT),
    ("@multiply", operators::MULTIPLY),
    ("@divide", operators::DIVIDE),
];

pub(super) fn calculate<'c, 'v>(
    operator: &str,
    call: &mut FunctionContext<'c, 'v>,
) -> Result<CowVal<'c, 'v>, ExecutionError> {
    let (Some(right), Some(left)) = (call.args.pop(), call.args.pop()) else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let (left, right) = (calculable(left, operator)?, calculable(right, operator)?);
    let (left, right) = match (number(left.as_ref()), number(right.as_ref())) {
        (Number::Fraction, Number::Whole(number)) => (left, CowVal::owned(CelDouble::from(number))),
        (Number::Whole(number), Number::Fraction) => (CowVal::owned(CelDouble::from(number)), right),
        _ => (left, right),
    };
    let unfit = || {
        let types = [left.as_ref(), right.as_ref()].map(|value| value.get_type().name().to_owned());
        ExecutionError::no_such_overload(operator, types.into())
    };
    let (this, other) = (left.as_ref(), right.as_ref());
    let outcome = match operator {
        operators::ADD if other.downcast_ref::<CelMap>().is_some() => return Err(unfit()),
        operators::ADD => this.as_adder().ok_or_else(unfit)?.add(other),
        operators::SUBSTRACT => this.as_subtractor().ok_or_else(unfit)?.sub(other),
        operators::MULTIPLY => this.as_multiplier().ok_or_else(unfit)?.mul(other),
        _ => this.as_divider().ok_or_else(unfit)?.div(other),
    };
    Ok(CowVal::Owned(outcome?.into_owned()))
}

/// What a value is to a calculation; of a whole number, what it would be as a fraction.
enum Number {
    Whole(f64),
    Fraction,
    None,
}

fn number(value: &dyn Val) -> Number {
    if value.downcast_ref::<CelDouble>().is_some() {
        return Number::Fraction;
    }
    if let Some(number) = value.downcast_ref::<CelInt>() {
        return Number::Whole(*number.inner() as f64);
    }
    match value.downcast_ref::<CelUInt>() {
        Some(number) => Number::Whole(*number.inner() as f64),
        None => Number::None,
    }
}
