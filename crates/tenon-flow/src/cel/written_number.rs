//! A number as it was written: fractions, exponents, and integers that no machine word holds.
//!
//! To CEL it is a `double`. What only passes through an expression keeps its text; what is calculated with or handed to a
//! function becomes a plain number first ([`plain`]), and an integer of more than 64 bits is refused there, since a
//! `double` would silently be another number. How it is compared is `cel/compare.rs`.

use std::any::Any;
use std::cmp::Ordering;

use cel::ExecutionError;
use cel::common::traits::Negator;
use cel::common::types::{CelDouble, CelInt, CelUInt, DOUBLE_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use serde_json::Number;

static DOUBLE: Type = DOUBLE_TYPE;

#[derive(Clone, Debug)]
pub(super) struct WrittenNumber(Number);

impl WrittenNumber {
    pub(super) fn new(number: Number) -> WrittenNumber {
        WrittenNumber(number)
    }

    pub(super) fn number(&self) -> &Number {
        &self.0
    }

    pub(super) fn text(&self) -> &str {
        self.0.as_str()
    }

    /// What is nearest to it; infinite for what is too large.
    pub(super) fn double(&self) -> f64 {
        self.text().parse().unwrap_or(f64::NAN)
    }

    /// An integer that is written as one and has more than 64 bits.
    pub(super) fn is_big(&self) -> bool {
        !self.text().contains(['.', 'e', 'E']) && self.0.as_i64().is_none() && self.0.as_u64().is_none()
    }

    /// What expressions calculate with.
    fn plain(&self) -> Box<dyn Val> {
        match (self.0.as_i64(), self.0.as_u64()) {
            (Some(whole), _) => Box::new(CelInt::from(whole)),
            (None, Some(whole)) => Box::new(CelUInt::from(whole)),
            (None, None) => Box::new(CelDouble::from(self.double())),
        }
    }
}

/// The value as a number of CEL's own, if it is one that was written; anything else as it is.
pub(super) fn plain<'b, 'v>(value: CowVal<'b, 'v>) -> CowVal<'b, 'v> {
    match value.downcast_ref::<WrittenNumber>() {
        Some(written) => CowVal::Owned(written.plain()),
        None => value,
    }
}

/// The same for a calculation, which a `double` in place of a large integer would falsify.
pub(super) fn calculable<'b, 'v>(
    value: CowVal<'b, 'v>,
    operator: &str,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    match value.downcast_ref::<WrittenNumber>() {
        Some(written) if written.is_big() => Err(ExecutionError::function_error(operator, TOO_BIG)),
        _ => Ok(plain(value)),
    }
}

/// What an integer beyond 64 bits is told.
pub(super) const TOO_BIG: &str = "an integer of more than 64 bits can be compared and passed on, not calculated with; `double(…)` takes the nearest fraction";

impl Val for WrittenNumber {
    fn get_type(&self) -> &Type {
        &DOUBLE
    }

    fn cel_type() -> &'static Type {
        &DOUBLE
    }

    fn as_negator<'b, 'v>(&'b self) -> Option<&'b (dyn Negator + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        super::compare::is_same(self, other)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for WrittenNumber {}

impl Negator for WrittenNumber {
    fn negate<'v>(&self) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let text = self.text();
        let negated = text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned);
        // A number with the other sign is one too; one more digit may fit into 64 bits.
        match negated.parse::<i64>() {
            Ok(whole) => Ok(Box::new(CelInt::from(whole))),
            Err(_) => Ok(Box::new(WrittenNumber(Number::from_string_unchecked(negated)))),
        }
    }
}

/// Which of two numbers is the larger one, by their digits.
pub(super) fn by_digits(left: &str, right: &str) -> Ordering {
    let (left, right) = (Decimal::of(left), Decimal::of(right));
    match (left.sign(), right.sign()) {
        (1, 1) => left.magnitude(&right),
        (-1, -1) => right.magnitude(&left),
        (left, right) => left.cmp(&right),
    }
}

/// `0.digits` times ten to the power of `exponent`.
struct Decimal {
    is_negative: bool,
    /// Without zeros at either end; none for zero.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Of the text of a JSON number.
    fn of(text: &str) -> Decimal {
        let (text, is_negative) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // Past what a power can be counted in, only its sign matters.
        let beyond = if power.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
        let power: i64 =
            power.parse().ok().filter(|power: &i64| power.abs() < i64::MAX / 2).unwrap_or(beyond);
        let written = whole.len() + fraction.len();
        let digits: Vec<u8> =
            whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0').collect();
        let exponent = power + whole.len() as i64 - (written - digits.len()) as i64;
        let length = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        Decimal { is_negative, digits: digits[..length].to_vec(), exponent }
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    fn magnitude(&self, other: &Decimal) -> Ordering {
        self.exponent.cmp(&other.exponent).then_with(|| self.digits.cmp(&other.digits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_decide() {
        use Ordering::{Equal, Greater, Less};
        for (left, right, order) in [
            ("18446744073709551616", "18446744073709551615", Greater),
            ("-18446744073709551616", "-18446744073709551615", Less),
            ("123456789012345678901234567890", "123456789012345678901234567891", Less),
            ("1e30", "1000000000000000000000000000000", Equal),
            ("1E400", "1e401", Less),
            ("1.10", "1.1", Equal),
            ("0.001", "1e-3", Equal),
            ("-0", "0.0e5", Equal),
            ("-1", "0", Less),
            ("9", "10", Less),
            ("0.9", "0.10", Greater),
            ("1e99999999999999999999", "2", Greater),
            ("1e-99999999999999999999", "2", Less),
            ("-1e99999999999999999999", "2", Less),
        ] {
            assert_eq!(by_digits(left, right), order, "{left} {right}");
            assert_eq!(by_digits(right, left), order.reverse(), "{right} {left}");
        }
    }
}
