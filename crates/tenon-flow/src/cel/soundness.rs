//! The checks against what evaluation does, over random schemas, values that fit them, and expressions.
//!
//! What evaluates to something over any value that fits is never called an error; what is well typed by the way it was
//! made is never called one either; and what holds for some value that fits is never said never to hold.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Expression, Known, KnownStep, Scope, StepView, Wanted};
use crate::diagnostic::{Code, Severity};
use crate::exact_json;

const FIELDS: [&str; 5] = ["f0", "f1", "f2", "f3", "f4"];
/// Integers that are not what a machine word makes of them.
const BIG: [&str; 8] = [
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "9007199254740993",
    "1E5",
    "-0",
    "3.00",
];
/// Numbers that a fraction of the machine would write differently.
const ODD: [&str; 7] = ["1.10", "0.10", "1E400", "-1e400", "1E-7", "123456789012345678901234567890", "2.0"];
/// Values tried for each expression.
const VALUES: usize = 12;

/// Numbers from a seed: what is made of them is made again from the seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())].clone()
    }
}

fn schema(dice: &mut Dice, depth: usize) -> Value {
    let simple = if depth == 0 { 10 } else { 14 };
    match dice.roll(simple) {
        0 => json!({"type": "boolean"}),
        1 => json!({"type": "integer"}),
        2 => json!({"type": "integer", "minimum": dice.roll(4), "maximum": 4 + dice.roll(4)}),
        3 => {
            json!({"type": "number", "exclusiveMinimum": dice.roll(4), "exclusiveMaximum": 4 + dice.roll(4)})
        }
        4 => json!({"type": "string"}),
        5 => json!({"enum": ["a", "b", 3]}),
        6 => json!({"type": ["string", "null"]}),
        7 => json!({"type": ["integer", "string", "boolean"]}),
        8 => json!({"const": dice.of(&[json!("a"), json!(2), json!(true), Value::Null])}),
        9 => json!({}),
        10 => json!({"type": "array", "items": schema(dice, depth - 1), "maxItems": 3}),
        11 => object(dice, depth - 1),
        12 => json!({"anyOf": [schema(dice, depth - 1), schema(dice, depth - 1)]}),
        _ => json!({"type": "integer", "multipleOf": 2}),
    }
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    let mut properties = Map::new();
    for field in FIELDS.iter().take(2 + dice.roll(4)) {
        properties.insert((*field).to_owned(), schema(dice, depth));
    }
    json!({"type": "object", "properties": properties})
}

/// A value that the schema allows.
fn fitting(dice: &mut Dice, schema: &Value) -> Value {
    let word = |dice: &mut Dice| json!(dice.of(&["", "a", "b", "3", "true", "1h", "2026-01-01T00:00:00Z"]));
    if let Some(only) = schema.get("const") {
        return only.clone();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return dice.of(values);
    }
    if let Some(ways) = schema.get("anyOf").and_then(Value::as_array) {
        let way = dice.of(ways);
        return fitting(dice, &way);
    }
    let of_type = match schema.get("type") {
        Some(Value::Array(several)) => dice.of(several).as_str().unwrap_or("null").to_owned(),
        Some(Value::String(one)) => one.clone(),
        _ => dice.of(&["boolean", "integer", "number", "string", "array", "object", "null"]).to_owned(),
    };
    let edge =
        |keyword: &str, otherwise: i64| schema.get(keyword).and_then(Value::as_i64).unwrap_or(otherwise);
    let is_open = |keywords: &[&str]| keywords.iter().all(|keyword| schema.get(keyword).is_none());
    // What no machine word holds, or what is written in another way.
    if dice.roll(4) == 0 {
        let odd: &[&str] = match of_type.as_str() {
            "integer" if is_open(&["minimum", "maximum", "multipleOf"]) => &BIG,
            "number" if is_open(&["exclusiveMinimum", "exclusiveMaximum"]) => &ODD,
            _ => &[],
        };
        if !odd.is_empty() {
            return exact_json::read(dice.of(odd)).unwrap();
        }
    }
    match of_type.as_str() {
        "boolean" => json!(dice.roll(2) == 1),
        "integer" => {
            let (least, most) = (edge("minimum", -3), edge("maximum", 12));
            let number = least + dice.roll((most - least + 1) as usize) as i64;
            let number = if schema.get("multipleOf").is_some() { number * 2 } else { number };
            // `3.0` is an integer too.
            if dice.roll(5) == 0 {
                serde_json::from_str(&format!("{number}.0")).unwrap()
            } else {
                json!(number)
            }
        }
        "number" => {
            let (least, most) = (edge("exclusiveMinimum", -3), edge("exclusiveMaximum", 12));
            let tenths = least * 10 + 1 + dice.roll(((most - least) * 10 - 1) as usize) as i64;
            if tenths % 10 == 0 && dice.roll(2) == 0 {
                json!(tenths / 10)
            } else {
                json!(tenths as f64 / 10.0)
            }
        }
        "string" => word(dice),
        "array" => {
            let items = schema.get("items").cloned().unwrap_or_else(|| json!({"type": "integer"}));
            (0..dice.roll(4)).map(|_| fitting(dice, &items)).collect()
        }
        "object" => {
            let mut members = Map::new();
            for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if dice.roll(8) > 0 {
                    members.insert(name.clone(), fitting(dice, schema));
                }
            }
            Value::Object(members)
        }
        _ => Value::Null,
    }
}

fn path(dice: &mut Dice) -> String {
    let mut path = format!("steps.s.result.{}", dice.of(&FIELDS));
    if dice.roll(4) == 0 {
        path = format!("{path}.{}", dice.of(&FIELDS));
    }
    match dice.roll(16) {
        0 => "steps.s.status".to_owned(),
        1 => "steps.s.content".to_owned(),
        2 => "steps.s.result".to_owned(),
        3 => "index".to_owned(),
        4 => format!("{path}[0]"),
        _ => path,
    }
}

fn literal(dice: &mut Dice) -> String {
    let literals = [
        "0",
        "1",
        "2",
        "3",
        "-2",
        "7",
        "11",
        "2u",
        "18446744073709551615u",
        "9223372036854775807",
        "1e30",
        "1.10",
        "0.5",
        "2.0",
        "'a'",
        "'b'",
        "'3'",
        "''",
        "true",
        "false",
        "null",
        "[1, 'a']",
        "{'f0': 1}",
        "b'a'",
        "'1h'",
        "'2026-01-01T00:00:00Z'",
        "[]",
    ];
    dice.of(&literals).to_owned()
}

/// Anything that can be written without operators that pass something over.
fn strict(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        return if dice.roll(2) == 0 { path(dice) } else { literal(dice) };
    }
    let one = strict(dice, depth - 1);
    let other = strict(dice, dice_depth(depth));
    match dice.roll(9) {
        0..=3 => {
            let sign = dice.of(&["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", " in "]);
            format!("({one}){sign}({other})")
        }
        4 => format!("({one})[{other}]"),
        5 => {
            let function = dice.of(&[
                "size",
                "int",
                "uint",
                "double",
                "string",
                "bytes",
                "bool",
                "type",
                "dyn",
                "timestamp",
                "duration",
            ]);
            format!("{function}({one})")
        }
        6 => {
            let method = dice.of(&["contains", "startsWith", "endsWith", "matches"]);
            format!("({one}).{method}({other})")
        }
        7 => {
            let method = dice.of(&["size()", "getHours()", "getFullYear()", "getDate('UTC')", "f0"]);
            format!("({one}).{method}")
        }
        _ => match dice.roll(4) {
            0 => format!("!({one})"),
            1 => format!("-({one})"),
            2 => format!("has({})", path(dice)),
            _ => format!("[{one}, {other}]"),
        },
    }
}

fn dice_depth(depth: usize) -> usize {
    depth.saturating_sub(2)
}

/// What is known to be of a kind, by the way it is made: numbers that may be missing come from a field of their own.
#[derive(Clone, Copy)]
enum Of {
    Bool,
    Int,
    Text,
    Texts,
}

/// The schema that [`typed`] is about.
fn plain_schema() -> Value {
    json!({"type": "object", "properties": {
        "ok": {"type": "boolean"},
        "n": {"type": "integer", "minimum": 0, "maximum": 9},
        "t": {"type": "string"},
        "l": {"type": "array", "items": {"type": "string"}},
    }})
}

fn typed(dice: &mut Dice, of: Of, depth: usize) -> String {
    let result = "steps.s.result";
    if depth == 0 {
        return match of {
            Of::Bool => dice.of(&[format!("{result}.ok"), "true".to_owned(), format!("has({result}.n)")]),
            Of::Int => {
                dice.of(&[format!("{result}.n"), "3".to_owned(), "index".to_owned(), "iteration".to_owned()])
            }
            Of::Text => dice.of(&[format!("{result}.t"), "'a'".to_owned(), "steps.s.content".to_owned()]),
            Of::Texts => dice.of(&[format!("{result}.l"), "['a', 'b']".to_owned(), "[]".to_owned()]),
        };
    }
    let inner = |dice: &mut Dice, of: Of| typed(dice, of, depth - 1);
    match of {
        Of::Bool => match dice.roll(9) {
            0 => format!("({}) && ({})", inner(dice, Of::Bool), inner(dice, Of::Bool)),
            1 => format!("({}) || !({})", inner(dice, Of::Bool), inner(dice, Of::Bool)),
            2 => format!("({}) < ({}) + 1", inner(dice, Of::Int), inner(dice, Of::Int)),
            3 => format!("({}) == ({})", inner(dice, Of::Text), inner(dice, Of::Text)),
            4 => format!("({}).contains({})", inner(dice, Of::Text), inner(dice, Of::Text)),
            5 => format!("({}) in ({})", inner(dice, Of::Text), inner(dice, Of::Texts)),
            6 => format!("({}).exists(x, x == ({}))", inner(dice, Of::Texts), inner(dice, Of::Text)),
            7 => format!(
                "({}) ? ({}) : ({})",
                inner(dice, Of::Bool),
                inner(dice, Of::Bool),
                inner(dice, Of::Bool)
            ),
            _ => format!("({}).all(x, size(x) >= ({}))", inner(dice, Of::Texts), inner(dice, Of::Int)),
        },
        Of::Int => match dice.roll(4) {
            0 => format!("({}) + ({})", inner(dice, Of::Int), inner(dice, Of::Int)),
            1 => format!("size({})", inner(dice, Of::Texts)),
            2 => format!("size({})", inner(dice, Of::Text)),
            _ => format!(
                "(({}) ? ({}) : ({}))",
                inner(dice, Of::Bool),
                inner(dice, Of::Int),
                inner(dice, Of::Int)
            ),
        },
        Of::Text => match dice.roll(4) {
            0 => format!("({}) + ({})", inner(dice, Of::Text), inner(dice, Of::Text)),
            1 => format!("string({})", inner(dice, Of::Int)),
            2 => format!("({})[0]", inner(dice, Of::Texts)),
            _ => format!("(({}) ? ({}) : 'z')", inner(dice, Of::Bool), inner(dice, Of::Text)),
        },
        Of::Texts => match dice.roll(3) {
            0 => format!("({}) + ({})", inner(dice, Of::Texts), inner(dice, Of::Texts)),
            1 => format!("({}).filter(x, ({}))", inner(dice, Of::Texts), inner(dice, Of::Bool)),
            _ => format!("({}).map(x, x + ({}))", inner(dice, Of::Texts), inner(dice, Of::Text)),
        },
    }
}

/// What is called wrong with a text, by severity.
fn said(text: &str, schema: &Value, severity: Severity) -> Vec<String> {
    let Ok(expression) = Expression::compile(text, ["s"]) else { return Vec::new() };
    let known = Known { steps: Arc::new([("s", KnownStep::Schema(schema))].into()), ..Known::default() };
    let found = expression.check(&known, Wanted::Anything).findings;
    let of_types = found.into_iter().filter(|one| one.severity == severity && one.code == Code::CelType);
    of_types.map(|one| one.message).collect()
}

/// What it gives, and nothing where it fails.
fn given(text: &str, result: Option<Value>) -> Option<Value> {
    let expression = Expression::compile(text, ["s"]).ok()?;
    let step = Arc::new(StepView::new("completed", "a", result));
    expression.evaluate_value(&Scope::new().with_step("s", step)).ok()
}

/// What hands a value on, or takes it out of where it was put.
fn passed_on(dice: &mut Dice, depth: usize) -> String {
    let inner = if depth == 0 { "steps.s.result.f0".to_owned() } else { passed_on(dice, depth - 1) };
    let ways = [
        format!("[1, {inner}][1]"),
        format!("{{'a': {inner}}}.a"),
        format!("{{'a': {inner}}}['a']"),
        format!("[{inner}].filter(x, true)[0]"),
        format!("[{inner}].map(x, x)[0]"),
        format!("[1].map(x, {inner})[0]"),
        format!("(true ? {inner} : 0)"),
        format!("(false ? 0 : {inner})"),
        format!("([0] + [{inner}])[1]"),
        format!("dyn({inner})"),
        format!("(-(-({inner})))"),
        format!("({inner})"),
    ];
    dice.of(&ways)
}

/// Whole numbers around every edge, and their order.
fn whole(dice: &mut Dice) -> i128 {
    const EDGES: [i128; 6] = [0, 1 << 53, 1 << 63, 1 << 64, 1 << 65, 1 << 100];
    let number = dice.of(&EDGES) + dice.roll(5) as i128 - 2;
    if dice.roll(2) == 0 { number } else { -number }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: tenon_testkit::cases(512), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_evaluates_is_no_error(seed: u64) {
        let mut dice = Dice(seed);
        let schema = object(&mut dice, 2);
        let depth = 1 + dice.roll(3);
        let text = strict(&mut dice, depth);
        let errors = said(&text, &schema, Severity::Error);
        if !errors.is_empty() {
            for _ in 0..VALUES {
                let value = fitting(&mut dice, &schema);
                // Its value may have no JSON form; whether there is one is what counts.
                let outcome = given(&format!("[{text}].size()"), Some(value.clone()));
                prop_assert!(outcome.is_none(), "{text}\n{errors:?}\n{schema}\n{value}");
            }
            prop_assert!(given(&format!("[{text}].size()"), None).is_none(), "{text}\n{errors:?} of null");
        }
    }

    #[test]
    fn what_is_well_typed_is_no_error(seed: u64) {
        let mut dice = Dice(seed);
        let schema = plain_schema();
        let depth = 1 + dice.roll(3);
        let of = dice.of(&[Of::Bool, Of::Int, Of::Text, Of::Texts]);
        let text = typed(&mut dice, of, depth);
        // Only an index of a list that is fixed may be said to fail.
        let errors: Vec<String> = said(&text, &schema, Severity::Error)
            .into_iter()
            .filter(|message| !message.contains("always fails"))
            .collect();
        prop_assert!(errors.is_empty(), "{text}\n{errors:?}");
    }

    #[test]
    fn what_holds_for_some_value_is_not_said_never_to(seed: u64) {
        let mut dice = Dice(seed);
        let schema = object(&mut dice, 2);
        let mut side = match dice.roll(3) {
            0 => format!("size({})", path(&mut dice)),
            _ => path(&mut dice),
        };
        let mut other = literal(&mut dice);
        if dice.roll(3) == 0 {
            std::mem::swap(&mut side, &mut other);
        }
        let sign = dice.of(&["==", "<", "<=", ">", ">=", " in "]);
        let text = format!("{side}{sign}{other}");
        let never = said(&text, &schema, Severity::Warning);
        // Of a list that is written out, one element is said never to be the one.
        let is_written_out = sign == " in " && other.starts_with('[');
        if !is_written_out && !never.is_empty() {
            for _ in 0..VALUES {
                let value = fitting(&mut dice, &schema);
                let outcome = given(&text, Some(value.clone()));
                prop_assert!(outcome != Some(json!(true)), "{text}\n{never:?}\n{schema}\n{value}");
            }
            prop_assert!(given(&text, None) != Some(json!(true)), "{text}\n{never:?} of null");
        }
    }

    #[test]
    fn what_passes_through_keeps_its_text(seed: u64) {
        let mut dice = Dice(seed);
        let written = dice.of(&[&BIG[..], &ODD[..]].concat());
        let result = exact_json::read(&format!("{{\"f0\":{written}}}")).unwrap();
        let depth = dice.roll(3);
        let text = passed_on(&mut dice, depth);
        // An unsigned number cannot be negated, which is an error and no other number.
        let is_refused = written == "18446744073709551615" && text.contains('-');
        let given_back = given(&text, Some(result.clone())).map(|value| value.to_string());
        if !is_refused {
            // Zero has no sign once it was negated.
            let expected = if written == "-0" && text.contains('-') { "0" } else { written };
            prop_assert_eq!(given_back.as_deref(), Some(expected), "{}", text);
        }
        prop_assert_eq!(given("string(dyn(steps.s.result.f0))", Some(result)), Some(json!(written)));
    }

    #[test]
    fn integers_are_compared_by_every_digit(seed: u64) {
        let mut dice = Dice(seed);
        let (left, right) = (whole(&mut dice), whole(&mut dice));
        let result = exact_json::read(&format!("{{\"a\":{left},\"b\":{right}}}")).unwrap();
        for (sign, holds) in [
            ("==", left == right), ("!=", left != right), ("<", left < right),
            ("<=", left <= right), (">", left > right), (">=", left >= right),
        ] {
            let text = format!("steps.s.result.a {sign} steps.s.result.b");
            prop_assert_eq!(given(&text, Some(result.clone())), Some(json!(holds)), "{} {} {}", left, sign, right);
        }
        for text in [
            "[steps.s.result.a] == [steps.s.result.b]",
            "{'x': [steps.s.result.a]} == {'x': [steps.s.result.b]}",
            "steps.s.result.a in [0.5, steps.s.result.b]",
            "[steps.s.result.b].exists(x, x == steps.s.result.a)",
        ] {
            prop_assert_eq!(given(text, Some(result.clone())), Some(json!(left == right)), "{} {} {}", text, left, right);
        }
        // Calculated with, they are right or refused.
        for (sign, exact) in [("+", left.checked_add(right)), ("-", left.checked_sub(right)), ("*", left.checked_mul(right))] {
            let text = format!("steps.s.result.a {sign} steps.s.result.b");
            if let Some(value) = given(&text, Some(result.clone())) {
                prop_assert_eq!(Some(value.to_string()), exact.map(|exact| exact.to_string()), "{} {} {}", left, sign, right);
            }
        }
    }
}
