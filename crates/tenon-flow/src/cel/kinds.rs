//! Sets of CEL's types, and what its operators and functions make of them.
//!
//! A set with several members is a value of which only that much is known. An operator that is defined for no pair of
//! members cannot succeed, whatever the values turn out to be; everything else is left to the run.

use std::ops::BitOr;

use cel::common::ast::operators;

/// Types that a value may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u16);

impl Kinds {
    pub(super) const NONE: Kinds = Kinds(0);
    pub(super) const BOOL: Kinds = Kinds(1);
    pub(super) const INT: Kinds = Kinds(1 << 1);
    pub(super) const UINT: Kinds = Kinds(1 << 2);
    pub(super) const DOUBLE: Kinds = Kinds(1 << 3);
    pub(super) const STRING: Kinds = Kinds(1 << 4);
    pub(super) const BYTES: Kinds = Kinds(1 << 5);
    pub(super) const LIST: Kinds = Kinds(1 << 6);
    pub(super) const MAP: Kinds = Kinds(1 << 7);
    pub(super) const NULL: Kinds = Kinds(1 << 8);
    pub(super) const TYPE: Kinds = Kinds(1 << 9);
    pub(super) const TIMESTAMP: Kinds = Kinds(1 << 10);
    pub(super) const DURATION: Kinds = Kinds(1 << 11);
    const COUNT: u16 = 12;
    pub(super) const ANY: Kinds = Kinds((1 << Kinds::COUNT) - 1);
    /// JSON has one kind of number: `3` is an int here, `3.0` and `2.5` are doubles, and both fit `integer`'s schema or
    /// `number`'s.
    pub(super) const NUMBER: Kinds = Kinds(Kinds::INT.0 | Kinds::UINT.0 | Kinds::DOUBLE.0);
    /// What can be looked up in a map.
    const KEY: Kinds = Kinds(Kinds::BOOL.0 | Kinds::NUMBER.0 | Kinds::STRING.0);
    const SIZED: Kinds = Kinds(Kinds::STRING.0 | Kinds::BYTES.0 | Kinds::LIST.0 | Kinds::MAP.0);

    pub(super) fn meets(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_within(self, other: Kinds) -> bool {
        self.0 & !other.0 == 0
    }

    pub(super) fn without(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    fn each(self) -> impl Iterator<Item = Kinds> {
        (0..Kinds::COUNT).map(|bit| Kinds(1 << bit)).filter(move |kind| self.meets(*kind))
    }

    /// Of a type by its name in JSON Schema.
    pub(super) fn of_json(name: &str) -> Kinds {
        match name {
            "boolean" => Kinds::BOOL,
            "integer" | "number" => Kinds::NUMBER,
            "string" => Kinds::STRING,
            "array" => Kinds::LIST,
            "object" => Kinds::MAP,
            _ => Kinds::NULL,
        }
    }

    /// As JSON calls them, where all of them are JSON.
    pub(super) fn json_classes(self) -> Option<Vec<&'static str>> {
        let mut classes = Vec::new();
        for kind in self.each() {
            let class = match kind {
                Kinds::BOOL => "boolean",
                Kinds::INT | Kinds::UINT | Kinds::DOUBLE => "number",
                Kinds::STRING => "string",
                Kinds::LIST => "array",
                Kinds::MAP => "object",
                Kinds::NULL => "null",
                _ => return None,
            };
            if !classes.contains(&class) {
                classes.push(class);
            }
        }
        Some(classes)
    }

    /// In words, unless that would be a list of everything.
    pub(super) fn words(self) -> String {
        /// More than this is not said.
        const SHOWN: usize = 3;
        if self.each_word().len() > SHOWN { "something else".to_owned() } else { self.all_words() }
    }

    /// In words, all of them.
    pub(super) fn all_words(self) -> String {
        match self.each_word().as_slice() {
            [] => "nothing".to_owned(),
            [only] => (*only).to_owned(),
            [before @ .., last] => format!("{} or {last}", before.join(", ")),
        }
    }

    fn each_word(self) -> Vec<&'static str> {
        let mut words = Vec::new();
        for word in self.each().map(Kinds::word) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words
    }

    fn word(self) -> &'static str {
        match self {
            Kinds::BOOL => "true or false",
            Kinds::INT | Kinds::UINT | Kinds::DOUBLE => "a number",
            Kinds::STRING => "text",
            Kinds::BYTES => "bytes",
            Kinds::LIST => "a list",
            Kinds::MAP => "a map",
            Kinds::TYPE => "a type",
            Kinds::TIMESTAMP => "a point in time",
            Kinds::DURATION => "a span of time",
            _ => "nothing",
        }
    }
}

impl BitOr for Kinds {
    type Output = Kinds;

    fn bitor(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }
}

/// What an operator gives for operands of these kinds; [`Kinds::NONE`] where it can only fail.
pub(super) fn operation(operator: &str, left: Kinds, right: Kinds) -> Kinds {
    let mut gives = Kinds::NONE;
    for left in left.each() {
        for right in right.each() {
            gives = gives | pair(operator, left, right);
        }
    }
    gives
}

fn pair(operator: &str, left: Kinds, right: Kinds) -> Kinds {
    let is_number = left.is_within(Kinds::NUMBER);
    let is_mixed = left != right
        && is_number
        && right.is_within(Kinds::NUMBER)
        && (left == Kinds::DOUBLE || right == Kinds::DOUBLE);
    match operator {
        operators::ADD | operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE if is_mixed => {
            Kinds::DOUBLE
        }
        operators::ADD => match (left, right) {
            (Kinds::TIMESTAMP, Kinds::DURATION) | (Kinds::DURATION, Kinds::TIMESTAMP) => Kinds::TIMESTAMP,
            (left, right) if left != right => Kinds::NONE,
            (Kinds::STRING | Kinds::BYTES | Kinds::LIST | Kinds::DURATION, _) => left,
            _ if is_number => left,
            _ => Kinds::NONE,
        },
        operators::SUBSTRACT => match (left, right) {
            (Kinds::TIMESTAMP, Kinds::DURATION) => Kinds::TIMESTAMP,
            (Kinds::TIMESTAMP, Kinds::TIMESTAMP) => Kinds::DURATION,
            (left, right) if left == right && (is_number || left == Kinds::DURATION) => left,
            _ => Kinds::NONE,
        },
        operators::MULTIPLY | operators::DIVIDE if left == right && is_number => left,
        operators::MODULO if left == right && is_number && left != Kinds::DOUBLE => left,
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            let is_ordered = match left {
                Kinds::BOOL | Kinds::STRING | Kinds::BYTES | Kinds::TIMESTAMP | Kinds::DURATION => {
                    left == right
                }
                _ => is_number && right.is_within(Kinds::NUMBER),
            };
            if is_ordered { Kinds::BOOL } else { Kinds::NONE }
        }
        operators::IN if right == Kinds::LIST => Kinds::BOOL,
        operators::IN if right == Kinds::MAP && left.is_within(Kinds::KEY) => Kinds::BOOL,
        operators::INDEX if left == Kinds::LIST && right.is_within(Kinds::NUMBER) => Kinds::ANY,
        operators::INDEX if left == Kinds::MAP && right.is_within(Kinds::KEY) => Kinds::ANY,
        _ => Kinds::NONE,
    }
}

/// Of `-x`.
pub(super) fn negated(operand: Kinds) -> Kinds {
    let int = if operand.meets(Kinds::INT) { Kinds::INT } else { Kinds::NONE };
    let double = if operand.meets(Kinds::DOUBLE) { Kinds::DOUBLE } else { Kinds::NONE };
    int | double
}

/// What a function takes, the value it is called on first, and what it gives.
pub(super) struct Signature {
    pub(super) name: &'static str,
    pub(super) how: Called,
    pub(super) takes: &'static [Kinds],
    pub(super) gives: Kinds,
}

/// `size(x)` or `x.size()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    Alone,
    OnValue,
}

const fn alone(name: &'static str, takes: &'static [Kinds], gives: Kinds) -> Signature {
    Signature { name, how: Called::Alone, takes, gives }
}

const fn on_value(name: &'static str, takes: &'static [Kinds], gives: Kinds) -> Signature {
    Signature { name, how: Called::OnValue, takes, gives }
}

const TO_INT: Kinds = Kinds(Kinds::NUMBER.0 | Kinds::STRING.0 | Kinds::TIMESTAMP.0);
const TO_NUMBER: Kinds = Kinds(Kinds::NUMBER.0 | Kinds::STRING.0);
const TO_STRING: Kinds = Kinds(TO_INT.0 | Kinds::BOOL.0 | Kinds::BYTES.0 | Kinds::DURATION.0);
const TO_BYTES: Kinds = Kinds(Kinds::STRING.0 | Kinds::BYTES.0);
const TO_BOOL: Kinds = Kinds(Kinds::BOOL.0 | Kinds::STRING.0);
const TO_TIMESTAMP: Kinds = Kinds(Kinds::STRING.0 | Kinds::INT.0 | Kinds::TIMESTAMP.0);
const TO_DURATION: Kinds = Kinds(Kinds::STRING.0 | Kinds::DURATION.0);
/// Of a day as well as of a span of time.
const TIMED: Kinds = Kinds(Kinds::TIMESTAMP.0 | Kinds::DURATION.0);
const TWO_TEXTS: &[Kinds] = &[Kinds::STRING, Kinds::STRING];
const IN_ZONE: &[Kinds] = &[Kinds::TIMESTAMP, Kinds::STRING];

pub(super) const SIGNATURES: &[Signature] = &[
    alone("size", &[Kinds::SIZED], Kinds::INT),
    alone("int", &[TO_INT], Kinds::INT),
    alone("uint", &[TO_NUMBER], Kinds::UINT),
    alone("double", &[TO_NUMBER], Kinds::DOUBLE),
    alone("string", &[TO_STRING], Kinds::STRING),
    alone("bytes", &[TO_BYTES], Kinds::BYTES),
    alone("bool", &[TO_BOOL], Kinds::BOOL),
    alone("type", &[Kinds::ANY], Kinds::TYPE),
    alone("dyn", &[Kinds::ANY], Kinds::ANY),
    alone("matches", TWO_TEXTS, Kinds::BOOL),
    alone("timestamp", &[TO_TIMESTAMP], Kinds::TIMESTAMP),
    alone("duration", &[TO_DURATION], Kinds::DURATION),
    on_value("size", &[Kinds::SIZED], Kinds::INT),
    on_value("contains", TWO_TEXTS, Kinds::BOOL),
    on_value("startsWith", TWO_TEXTS, Kinds::BOOL),
    on_value("endsWith", TWO_TEXTS, Kinds::BOOL),
    on_value("matches", TWO_TEXTS, Kinds::BOOL),
    on_value("getFullYear", &[Kinds::TIMESTAMP], Kinds::INT),
    on_value("getFullYear", IN_ZONE, Kinds::INT),
    on_value("getMonth", &[Kinds::TIMESTAMP], Kinds::INT),
    on_value("getMonth", IN_ZONE, Kinds::INT),
    on_value("getDayOfYear", &[Kinds::TIMESTAMP], Kinds::INT),
    on_value("getDayOfYear", IN_ZONE, Kinds::INT),
    on_value("getDayOfMonth", &[Kinds::TIMESTAMP], Kinds::INT),
    on_value("getDayOfMonth", IN_ZONE, Kinds::INT),
    on_value("getDate", &[Kinds::TIMESTAMP], Kinds::INT),
    on_value("getDate", IN_ZONE, Kinds::INT),
    on_value("getDayOfWeek", &[Kinds::TIMESTAMP], Kinds::INT),
    on_value("getDayOfWeek", IN_ZONE, Kinds::INT),
    on_value("getHours", &[TIMED], Kinds::INT),
    on_value("getHours", IN_ZONE, Kinds::INT),
    on_value("getMinutes", &[TIMED], Kinds::INT),
    on_value("getMinutes", IN_ZONE, Kinds::INT),
    on_value("getSeconds", &[TIMED], Kinds::INT),
    on_value("getSeconds", IN_ZONE, Kinds::INT),
    on_value("getMilliseconds", &[TIMED], Kinds::INT),
    on_value("getMilliseconds", IN_ZONE, Kinds::INT),
];
