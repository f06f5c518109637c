//! `==`, `!=`, `<`, `<=`, `>`, `>=` and `in` as the format promises them: integers by every digit.
//!
//! Numbers as they were written (`cel/written_number.rs`) are compared with each other and with integers by their digits, with
//! what was calculated or written as a fraction in an expression as a `double`. Everything else is compared as CEL does.

use std::cmp::Ordering;

use cel::common::ast::operators;
use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelUInt};
use cel::common::value::{CowVal, Val};
use cel::{ExecutionError, FunctionContext};

use super::written_number::{WrittenNumber, by_digits, plain};

/// What stands for a relation in a tree that is evaluated; no such name can be written.
pub(super) fn stand_in(operator: &str) -> Option<&'static str> {
    STAND_INS.iter().find(|(_, known)| *known == operator).map(|(name, _)| *name)
}

pub(super) const STAND_INS: [(&str, &str); 7] = [
    ("@equals", operators::EQUALS),
    ("@differs", operators::NOT_EQUALS),
    ("@less", operators::LESS),
    ("@less_equals", operators::LESS_EQUALS),
    ("@greater", operators::GREATER),
    ("@greater_equals", operators::GREATER_EQUALS),
    ("@within", operators::IN),
];

pub(super) fn compare<'c, 'v>(
    operator: &str,
    call: &mut FunctionContext<'c, 'v>,
) -> Result<CowVal<'c, 'v>, ExecutionError> {
    let (Some(right), Some(left)) = (call.args.pop(), call.args.pop()) else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let answer = match operator {
        operators::EQUALS => is_same(left.as_ref(), right.as_ref()),
        operators::NOT_EQUALS => !is_same(left.as_ref(), right.as_ref()),
        operators::IN => is_in(left, right.as_ref())?,
        operators::LESS => order(operator, left, right)? == Ordering::Less,
        operators::LESS_EQUALS => order(operator, left, right)? != Ordering::Greater,
        operators::GREATER => order(operator, left, right)? == Ordering::Greater,
        _ => order(operator, left, right)? != Ordering::Less,
    };
    Ok(CowVal::owned(CelBool::from(answer)))
}

/// Whether two values are the same, also deep inside lists and maps.
pub(super) fn is_same(left: &dyn Val, right: &dyn Val) -> bool {
    if let (Some(left), Some(right)) = (left.downcast_ref::<CelList>(), right.downcast_ref::<CelList>()) {
        let (left, right) = (left.inner(), right.inner());
        return left.len() == right.len()
            && left.iter().zip(right.iter()).all(|(left, right)| is_same(left.as_ref(), right.as_ref()));
    }
    if let (Some(left), Some(right)) = (left.downcast_ref::<CelMap>(), right.downcast_ref::<CelMap>()) {
        let Some(lookup) = right.as_indexer() else { return false };
        return left.inner().len() == right.inner().len()
            && left.inner().iter().all(|(key, value)| {
                lookup.get(key.inner()).is_ok_and(|other| is_same(value.as_ref(), other.as_ref()))
            });
    }
    match numbers(left, right) {
        Numbers::Ordered(order) => order == Some(Ordering::Equal),
        Numbers::Others => left.equals(right),
    }
}

fn is_in(left: CowVal<'_, '_>, right: &dyn Val) -> Result<bool, ExecutionError> {
    if let Some(list) = right.downcast_ref::<CelList>() {
        return Ok(list.inner().iter().any(|item| is_same(item.as_ref(), left.as_ref())));
    }
    let left = plain(left);
    let unfit = || unfit(operators::IN, left.as_ref(), right);
    match right.as_container().ok_or_else(unfit)?.contains(left.as_ref()) {
        Err(ExecutionError::UnexpectedType { .. }) => Err(unfit()),
        answer => answer,
    }
}

fn order(operator: &str, left: CowVal<'_, '_>, right: CowVal<'_, '_>) -> Result<Ordering, ExecutionError> {
    if let Numbers::Ordered(Some(order)) = numbers(left.as_ref(), right.as_ref()) {
        return Ok(order);
    }
    let (left, right) = (plain(left), plain(right));
    let unfit = || unfit(operator, left.as_ref(), right.as_ref());
    match left.as_comparer().ok_or_else(unfit)?.compare(right.as_ref()) {
        Err(ExecutionError::UnexpectedType { .. } | ExecutionError::ValuesNotComparable(..)) => Err(unfit()),
        answer => answer,
    }
}

fn unfit(operator: &str, left: &dyn Val, right: &dyn Val) -> ExecutionError {
    let types = [left, right].map(|value| value.get_type().name().to_owned());
    ExecutionError::no_such_overload(operator, types.into())
}

/// Two values of which one is a number as it was written.
enum Numbers {
    /// How they compare; nothing for what is no number to compare with.
    Ordered(Option<Ordering>),
    /// No such number is among them, or something else than numbers.
    Others,
}

fn numbers(left: &dyn Val, right: &dyn Val) -> Numbers {
    let digits = match (left.downcast_ref::<WrittenNumber>(), right.downcast_ref::<WrittenNumber>()) {
        (None, None) => return Numbers::Others,
        (Some(left), Some(right)) => Some(by_digits(left.text(), right.text())),
        (Some(left), None) => whole(right).map(|right| by_digits(left.text(), &right)),
        (None, Some(right)) => whole(left).map(|left| by_digits(&left, right.text())),
    };
    match (digits, double(left), double(right)) {
        (Some(order), _, _) => Numbers::Ordered(Some(order)),
        (None, Some(left), Some(right)) => Numbers::Ordered(left.partial_cmp(&right)),
        (None, _, _) => Numbers::Ordered(None),
    }
}

fn whole(value: &dyn Val) -> Option<String> {
    let signed = value.downcast_ref::<CelInt>().map(|whole| whole.inner().to_string());
    signed.or_else(|| value.downcast_ref::<CelUInt>().map(|whole| whole.inner().to_string()))
}

fn double(value: &dyn Val) -> Option<f64> {
    let written = value.downcast_ref::<WrittenNumber>().map(WrittenNumber::double);
    written.or_else(|| value.downcast_ref::<CelDouble>().map(|double| *double.inner()))
}
