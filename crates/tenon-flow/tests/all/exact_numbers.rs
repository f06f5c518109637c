//! Numbers in expressions: what only passes through keeps its text, integers are compared by every digit.

use std::sync::Arc;

use serde_json::Value;
use tenon_flow::{CelError, Expression, JsonText, Scope, StepView, Template};

const RESULT: &str = r#"{"ids":[123456789012345678901234567890,18446744073709551616,18446744073709551615,1.10],
    "o":[{"id":123456789012345678901234567890,"p":0.10}],"e":1E5,"two":2.0,"z":-0,"huge":1E400}"#;

fn scope() -> Scope {
    let result: JsonText = serde_json::from_str(RESULT).unwrap();
    let item: JsonText = serde_json::from_str(r#"{"id":123456789012345678901234567890,"p":1E-7}"#).unwrap();
    Scope::new()
        .with_step("s", Arc::new(StepView::new("completed", "", Some(result.to_value()))))
        .with_item(Arc::new(item.to_value()), 0)
}

fn value(source: &str) -> Result<Value, CelError> {
    Expression::compile(source, ["s"]).unwrap().evaluate_value(&scope())
}

#[test]
fn what_passes_through_keeps_its_text() {
    let ids = "[123456789012345678901234567890,18446744073709551616,18446744073709551615,1.10]";
    for (source, expected) in [
        ("steps.s.result.ids", ids),
        ("steps.s.result.ids.filter(x, true)", ids),
        ("steps.s.result.ids.map(x, x)", ids),
        ("[] + steps.s.result.ids", ids),
        ("true ? steps.s.result.ids[0] : 1", "123456789012345678901234567890"),
        (
            "{'id': steps.s.result.o[0].id, 'whole': steps.s.result.o[0]}",
            r#"{"id":123456789012345678901234567890,"whole":{"id":123456789012345678901234567890,"p":0.10}}"#,
        ),
        ("string(steps.s.result.ids[0])", r#""123456789012345678901234567890""#),
        ("steps.s.result.ids.map(x, string(x))[3]", r#""1.10""#),
        ("steps.s.result.e", "1E5"),
        ("[steps.s.result.e, steps.s.result.z, steps.s.result.huge]", "[1E5,-0,1E400]"),
        ("[item]", r#"[{"id":123456789012345678901234567890,"p":1E-7}]"#),
        ("-steps.s.result.ids[0]", "-123456789012345678901234567890"),
    ] {
        assert_eq!(value(source).map(|value| value.to_string()).as_deref(), Ok(expected), "{source}");
    }
    let items = Expression::compile("steps.s.result.ids.filter(x, x > 2)", ["s"]).unwrap();
    let items: Vec<String> = items
        .evaluate_list(&scope())
        .unwrap()
        .iter()
        .map(|item| JsonText::of(item).as_str().to_owned())
        .collect();
    assert_eq!(items, ["123456789012345678901234567890", "18446744073709551616", "18446744073709551615"]);
    let text = "${{ steps.s.result.e }} ${{ item }} ${{ [item.id] }}";
    let template = Template::compile(text, &["s"]).unwrap();
    assert_eq!(
        template.render(&scope()).unwrap(),
        r#"1E5 {"id":123456789012345678901234567890,"p":1E-7} [123456789012345678901234567890]"#
    );
}

#[test]
fn they_are_compared_by_their_digits_and_calculated_with_or_refused() {
    for (source, expected) in [
        ("steps.s.result.ids[1] == steps.s.result.ids[2]", false),
        ("steps.s.result.ids[1] > steps.s.result.ids[2]", true),
        ("steps.s.result.ids[1] in steps.s.result.ids", true),
        ("steps.s.result.ids[1] in [steps.s.result.ids[2]]", false),
        ("steps.s.result.ids == steps.s.result.ids.map(x, x)", true),
        ("steps.s.result.o[0] == item", false),
        ("steps.s.result.o[0].id == item.id", true),
        ("steps.s.result.ids[3] == 1.1", true),
        ("1.1 == steps.s.result.ids[3]", true),
        ("1 < steps.s.result.ids[3] && steps.s.result.ids[3] < 2", true),
        ("steps.s.result.e == 100000 && 100000 == steps.s.result.e", true),
        ("steps.s.result.z == 0 && steps.s.result.two == 2 && 2u == steps.s.result.two", true),
        ("steps.s.result.huge > 1e300 && steps.s.result.huge > steps.s.result.ids[0]", true),
        ("{'a': [1.1]} == {'a': [steps.s.result.ids[3]]}", true),
        (
            "'a' == steps.s.result.ids[3] || steps.s.result.ids[3] == 'a' || steps.s.result.ids[3] == null",
            false,
        ),
        ("type(steps.s.result.ids[3]) == double", true),
        ("steps.s.result.ids.exists_one(x, x == steps.s.result.ids[0])", true),
        ("['a', 'b', 'c'][steps.s.result.two] == 'c'", true),
    ] {
        assert_eq!(value(source), Ok(Value::Bool(expected)), "{source}");
    }
    for (source, expected) in [
        ("steps.s.result.ids[3] + 1", "2.1"),
        ("steps.s.result.two * 2", "4.0"),
        ("int(steps.s.result.two) + 1", "3"),
        ("steps.s.result.z + 1", "1"),
        ("double(steps.s.result.ids[1]) > 1.0", "true"),
    ] {
        assert_eq!(value(source).map(|value| value.to_string()).as_deref(), Ok(expected), "{source}");
    }
    for source in ["steps.s.result.ids[0] + 1", "1 - steps.s.result.ids[0]", "steps.s.result.ids[1] * 1.0"] {
        let Err(CelError::Evaluation { message }) = value(source) else { panic!("{source}") };
        assert!(message.starts_with("an integer of more than 64 bits"), "{source}: {message}");
    }
    for source in [
        "int(steps.s.result.ids[1])",
        "uint(steps.s.result.ids[1])",
        "steps.s.result.ids[2] + 1",
        "steps.s.result.ids[3] < 'a'",
        "'a' < steps.s.result.ids[3]",
        "steps.s.result.ids[3] % 2",
        "{steps.s.result.ids[3]: 1}",
        "steps.s.result.ids[steps.s.result.ids[3]]",
        "steps.s.result.ids[3] in 5",
        "size(steps.s.result.ids[3])",
    ] {
        assert!(matches!(value(source), Err(CelError::Evaluation { .. })), "{source}: {:?}", value(source));
    }
}
