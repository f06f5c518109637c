//! What can only fail is told before a run, at its place; what may succeed is left alone.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_flow::{Code, Diagnostic, Expression, Scope, Severity, StepView};

const HEAD: &str = "name: n
inputs: {type: object, properties: {n: {type: number, minimum: 0, exclusiveMaximum: 1}, s: {type: string}}}
agents:
  t:
    description: d
    resultSchema:
      type: object
      required: [ok]
      properties:
        ok: {type: boolean}
        n: {type: integer, minimum: 1, maximum: 10}
        even: {type: integer, multipleOf: 2}
        real: {type: number, exclusiveMinimum: 0}
        text: {type: string}
        code: {type: string, minLength: 2, maxLength: 4, pattern: '^[A-Z]+$'}
        maybe: {type: [string, 'null']}
        mixed: {type: [string, integer]}
        level: {enum: [1, 2, 3]}
        list: {type: array, items: {type: string}, maxItems: 5, minItems: 1}
        any: {}
        map: {type: object}
        'my-field': {type: string}
        my: {type: integer}
        'a-b-c': {type: integer}
        in: {type: boolean}
steps:
  - {id: a, agent: t}
  - {id: bare}
";

/// What is said of a condition, and the column of each within it, from 0.
fn of(condition: &str) -> Vec<(Diagnostic, usize)> {
    let line =
        format!("  - {{id: z, dependsOn: [a, bare], condition: \"{}\"}}", condition.replace('"', "\\\""));
    let start = line.find("\"").unwrap() + 2;
    let found = crate::every_code::found(&format!("{HEAD}{line}\n"));
    let at = |one: &Diagnostic| {
        // Quotes inside are written with a backslash.
        let column = one.column as usize - start;
        let escaped = line[start - 1..].chars().take(column).filter(|c| *c == '\\').count();
        column - escaped
    };
    found.into_iter().map(|one| (one.clone(), at(&one))).collect()
}

/// A condition with `‸` before what is wrong, and what is said of it.
fn assert_told(marked: &str, code: Code, severity: Severity, message: &str, hint: &str) {
    let mark = marked.find('‸').unwrap_or_else(|| panic!("no mark in {marked}"));
    let told = of(&marked.replace('‸', ""));
    let told: Vec<_> = told
        .iter()
        .map(|(one, at)| (one.code, one.severity, one.message.as_str(), one.hint.as_str(), *at))
        .collect();
    assert_eq!(told, [(code, severity, message, hint, mark)], "{marked}");
}

#[test]
fn what_can_only_fail_is_an_error_at_its_place() {
    let number = "text is put together with text: `… + string(…)`; a number is made of text by `int(…)`";
    let compare = "compare it with something: `… == 'completed'`, `size(…) > 0`";
    let calculate = "calculate with numbers; they are made of text by `int(…)` or `double(…)`";
    let order = "make a number of the text by `int(…)` or `double(…)`, or write the number without quotes";
    let table = [
        ("'1' ‸+ size(steps.a.result.list) == '12'", "`+` is not for text and a number", number),
        ("steps.a.content ‸+ 1 == 'x'", "`+` is not for text and a number", number),
        ("steps.a.result.list ‸+ 'x' == []", "`+` is not for a list and text", number),
        ("steps.a.result.ok ‸- 1 == 0", "`-` is not for true or false and a number", calculate),
        ("steps.a.status ‸* 2 == 0", "`*` is not for text and a number", calculate),
        ("5.0 ‸% 2.0 == 1.0", "`%` is not for these two kinds of numbers", "make both whole by `int(…)`"),
        ("1 ‸+ 2u == 3", "`+` is not for these two kinds of numbers", "make both alike by `int(…)`"),
        (
            "int(‸true) == 1",
            "`int` is for a number, text or a point in time, and this is true or false",
            "write `… ? 1 : 0`",
        ),
        ("!‸5", "this gives a number, where true or false is needed", compare),
        (
            "‸-'a' == 1",
            "`-` is for numbers, and this is text",
            "make a number of it by `int(…)` or `double(…)`",
        ),
        (
            "‸-steps.a.result.ok == 1",
            "`-` is for numbers, and this is true or false",
            "make a number of it by `int(…)` or `double(…)`",
        ),
        ("‸1 && true", "this gives a number, where true or false is needed", compare),
        ("steps.a.result.ok && steps.a.‸content", "this gives text, where true or false is needed", compare),
        (
            "size(‸5) > 0",
            "`size` is for text, bytes, a list or a map, and this is a number",
            "as in `size(value)`",
        ),
        (
            "size(steps.a.result.‸n) > 0",
            "`size` is for text, bytes, a list or a map, and this is a number",
            "as in `size(value)`",
        ),
        ("'a' ‸< 1", "text cannot be compared with a number by size", order),
        (
            "steps.a.result.ok && steps.a.result.n ‸> 'x'",
            "a number cannot be compared with text by size",
            order,
        ),
        (
            "steps.a.result.list ‸> 3",
            "a list cannot be compared with a number by size",
            "compare how many there are: `size(list) > 0`",
        ),
        (
            "null ‸< 3",
            "nothing cannot be compared with a number by size",
            "compare numbers with numbers and text with text",
        ),
        (
            "1 in ‸5",
            "`in` looks into a list or a map, and this is a number",
            "name a list or a map, or write a list: `… in ['a', 'b']`",
        ),
        (
            "'x' in steps.a.‸content",
            "`in` looks into a list or a map, and this is text",
            "whether a text has a part is written `text.contains('part')`",
        ),
        (
            "steps.a.result.list in steps.a.result.‸map",
            "a list is never a field of a map",
            "a field is named by text: `'field' in map`",
        ),
        ("‸1 ? true : false", "this gives a number, where true or false is needed", compare),
        ("steps.a.‸status ? true : false", "this gives text, where true or false is needed", compare),
        ("5[‸0] == 1", "a number has no elements", "only lists and maps are indexed"),
        ("steps.a.content[‸0] == 'x'", "text has no elements", "only lists and maps are indexed"),
        (
            "steps.a.result.list[‸'x'] == 'x'",
            "a list is indexed by a number, and this is text",
            "number the element, from 0: `list[0]`; or go through them: `list.exists(it, …)`",
        ),
        ("steps.a.result.map[‸[1]] == 'x'", "a list is no name of a field", "name the field: `map['field']`"),
        ("steps.a.content.‸x == 1", "text has no `x`", "only maps have fields: take the last part out"),
        ("steps.a.content.‸size > 1", "text has no `size`", "write `size(…)`"),
        ("‸size() == 1", "`size` takes one value in its brackets, and here are 0", "as in `size(value)`"),
        (
            "‸size('a', 'b') == 1",
            "`size` takes one value in its brackets, and here are 2",
            "as in `size(value)`",
        ),
        (
            "'a'.‸matches('a', 'b')",
            "`matches` takes one value in its brackets, and here are 2",
            "as in `text.matches('…')`",
        ),
        (
            "'a'.‸contains()",
            "`contains` takes one value in its brackets, and here are 0",
            "as in `text.contains('…')`",
        ),
        ("'a'.contains(‸1)", "`contains` is for text, and this is a number", "make it text by `string(…)`"),
        (
            "steps.a.result.list.‸contains('x')",
            "`contains` is for text, and this is a list",
            "whether a list has an element is written `element in list`",
        ),
        (
            "‸contains(steps.a.content, 'x')",
            "there is no function `contains` with these arguments",
            "as in `text.contains('…')`",
        ),
        ("'5'.‸int() == 5", "there is no function `int` with these arguments", "as in `int(value)`"),
        (
            "‸now() > 3",
            "there is no function `now` with these arguments",
            "an expression has no clock: let a step submit the time",
        ),
        (
            "steps.a.result.list.‸exists(true)",
            "there is no function `exists` with these arguments",
            "as in `list.exists(element, …)`: a name of your own, and what is asked of it",
        ),
        ("steps.a.result.list.exists(x, ‸x)", "this gives text, where true or false is needed", compare),
        (
            "steps.a.result.list.filter(x, ‸x) == []",
            "this gives text, where true or false is needed",
            compare,
        ),
        ("steps.a.result.list.map(x, x ‸+ 1) == []", "`+` is not for text and a number", number),
        ("[1, 2].all(x, x ‸> 'a')", "a number cannot be compared with text by size", order),
        (
            "steps.a.result.‸n.all(x, true)",
            "this is a number, and cannot be gone through",
            "name a list or a map",
        ),
        ("‸5", "this gives a number, and must give true or false", compare),
        ("‸size(steps.a.result.list)", "this gives a number, and must give true or false", compare),
        ("steps.a.result.ok ‸? 1 : 2", "this gives a number, and must give true or false", compare),
        (
            "duration(‸5) > duration('1s')",
            "`duration` is for text or a span of time, and this is a number",
            "as in `duration('1h30m')`",
        ),
        (
            "timestamp(‸true) > timestamp(0)",
            "`timestamp` is for a number, text or a point in time, and this is true or false",
            "as in `timestamp('2026-01-31T09:00:00Z')`",
        ),
        (
            "steps.a.content.‸getHours() > 3",
            "`getHours` is for a point in time or a span of time, and this is text",
            "as in `timestamp(text).getHours()`",
        ),
        (
            "timestamp(steps.a.content) ‸> steps.a.content",
            "a point in time cannot be compared with text by size",
            "make a time of the text by `timestamp(…)` or `duration(…)`",
        ),
    ];
    for (marked, message, hint) in table {
        assert_told(marked, Code::CelType, Severity::Error, message, hint);
    }
}

#[test]
fn a_calculation_with_fixed_values_that_fails_is_told() {
    for (marked, reason) in [
        ("1 ‸/ 0 == 1", "division by zero"),
        (
            "‸int('x') == 1",
            "Error executing function 'int': string parse error: invalid digit found in string",
        ),
        ("9223372036854775807 ‸+ 1 > 0", "`add` overflows"),
        ("[1, 2]‸[5] == 1", "there is no `5`"),
    ] {
        let told = of(&marked.replace('‸', ""));
        let [(only, at)] = told.as_slice() else { panic!("{marked}: {told:?}") };
        assert_eq!((only.severity, *at), (Severity::Error, marked.find('‸').unwrap()), "{marked}: {only}");
        assert!(only.message.starts_with("this always fails: "), "{marked}: {}", only.message);
        if !marked.contains("int(") {
            assert_eq!(only.message, format!("this always fails: {reason}"), "{marked}");
        }
    }
    for condition in
        ["timestamp('yesterday') > timestamp(0)", "duration('1 day') > duration('1h')", "bool('maybe')"]
    {
        let told = of(condition);
        assert!(matches!(told.as_slice(), [(one, _)] if one.is_error()), "{condition}: {told:?}");
    }
    // Where it may be passed over, it is a warning.
    let told = of("steps.a.result.ok || 1 / 0 == 1");
    assert!(matches!(told.as_slice(), [(one, _)] if !one.is_error()), "{told:?}");
}

#[test]
fn what_may_succeed_is_left_alone() {
    for condition in [
        "steps.a.result.mixed + 1 > 2 || steps.a.result.mixed + 'x' == 'x'",
        "steps.a.result.any > 1 && steps.a.result.any.contains('x') && steps.a.result.any[0] == 1",
        "1 + 2.5 > 3 && steps.a.result.n + 1 > 2 && steps.a.result.n + 1.5 > 2.0 && steps.a.result.n % 2 == 0",
        "steps.a.result.real + 1 > 2 && steps.a.result.real % 2 == 0",
        "steps.a.result.maybe > 'a' && size(steps.a.result.maybe) > 0 && steps.a.result.maybe == null",
        "steps.a.result == null || steps.a.result != null || steps.bare.result == null",
        "size(steps.a.result) > 0 && 'ok' in steps.a.result && steps.a.result['ok']",
        "size(steps.a.result.list) > 4 && steps.a.result.list[0] + 'x' == 'ax'",
        "(steps.a.result.ok ? 'a' : 'b') == 'b' && (steps.a.result.ok ? 1 : 'b') == 'b'",
        "(steps.a.result.ok ? steps.a.result.map : null) != null",
        "int(steps.a.content) > 3 && double('1.5') > 1 && string(1) == '1' && bytes('a') == b'a'",
        "type(steps.a.result.n) == int && dyn(1) == 'a' && type(timestamp(0)) == google.protobuf.Timestamp",
        "[1, 'a', true].exists(x, x == 'a') && {'a': 1}.a == 1 && {1: 'x'}[1] == 'x'",
        "timestamp(steps.a.content) - timestamp('2026-01-01T00:00:00Z') > duration('24h')",
        "timestamp(steps.a.content).getHours('Europe/Vienna') > 3 && duration('90m').getMinutes() == 90",
        "timestamp(1) + duration('1s') == timestamp(2) && duration('1s') + timestamp(1) == timestamp(2)",
        "steps.a.result.n >= 10 && steps.a.result.n <= 1 && 10 <= steps.a.result.n",
        "inputs.n > 0 && inputs.n < 1 && inputs.n == 0 && inputs.n == 0.5",
        "steps.a.result.even == 4 && steps.a.result.code == 'AB' && steps.a.result.level > 2",
        "steps.a.result.my-1 == 4 && steps.a.result.my - 1 == 4 && steps.a.result['my-field'] == 'x'",
        "has(steps.a.result.my-field) && has(steps.a.result.a-b-c)",
        "index == 0 || iteration == 0",
    ] {
        let told: Vec<_> =
            of(condition).into_iter().filter(|(one, _)| !one.message.contains("is always 0 here")).collect();
        assert!(told.is_empty(), "{condition}: {told:?}");
    }
    // Those of a step without a schema are a map under their bare name.
    let until =
        "name: n\nsteps: [{id: s, loop: {maxIterations: 2, until: result.size() == 0 && size(result) == 0}}]";
    assert_eq!(crate::every_code::found(until), []);
}

#[test]
fn a_comparison_that_never_holds_is_a_warning() {
    let number = "compare it with a number that it can be";
    let schema = "compare it with what its schema allows";
    let has = "whether a field is there is asked by `has(…)`";
    let alike = "compare what can be alike";
    for (marked, message, hint) in [
        ("steps.a.result.n > ‸10", "this never holds: the number is from 1 to 10", number),
        ("steps.a.result.n < ‸1", "this never holds: the number is from 1 to 10", number),
        ("‸0 >= steps.a.result.n", "this never holds: the number is from 1 to 10", number),
        ("steps.a.result.n == ‸11", "this is never `11`: it is from 1 to 10", number),
        ("steps.a.result.n != ‸0", "this is never `0`: it is from 1 to 10, so `!=` always holds", number),
        ("steps.a.result.n in [‸0, 5]", "this is never `0`: it is from 1 to 10", number),
        ("steps.a.result.n == ‸2.5", "this is never `2.5`: it is of another type", schema),
        ("steps.a.result.even == ‸3", "this is never `3`: it is a multiple of 2", schema),
        ("steps.a.result.real <= ‸0", "this never holds: the number is more than 0", number),
        ("inputs.n >= ‸1", "this never holds: the number is from 0 to 1", number),
        ("steps.a.result.level > ‸3", "this never holds: the number is `1` or `2` or `3`", number),
        ("steps.a.result.code == ‸'A'", "this is never `A`: it is from 2 to 4 characters long", schema),
        ("steps.a.result.code == ‸'ab'", "this is never `ab`: it is like the pattern `^[A-Z]+$`", schema),
        ("size(steps.a.result.list) > ‸5", "this never holds: the number is from 1 to 5", number),
        ("steps.a.result.list.size() == ‸0", "this is never `0`: it is from 1 to 5", number),
        ("size(steps.a.content) < ‸0", "this never holds: the number is 0 or more", number),
        ("steps.a.result.n == ‸null", "this is never null, it is a number", has),
        ("steps.a.status == ‸null", "this is never null, it is text", has),
        (
            "size(steps.a.content) ‸== '3'",
            "these are never the same: a number and text",
            "write the number without quotes, or make text of it by `string(…)`",
        ),
        ("type(steps.a.result.n) ‸== 'int'", "these are never the same: a type and text", alike),
        (
            "steps.a.content.contains('x') ‸== 'yes'",
            "these are never the same: true or false and text",
            alike,
        ),
        (
            "steps.a.result.n ‸in steps.a.result.list",
            "these are never the same: a number and text",
            "write the number without quotes, or make text of it by `string(…)`",
        ),
    ] {
        assert_told(marked, Code::CelType, Severity::Warning, message, hint);
    }
    let until = |until: &str| {
        let text = format!("name: n\nsteps: [{{id: s, loop: {{maxIterations: 5, until: {until}}}}}]");
        let found = crate::every_code::found(&text);
        found.into_iter().map(|one| (one.message, one.hint)).collect::<Vec<_>>()
    };
    assert_eq!(until("iteration >= 4 || iteration == 0"), []);
    let hint = "`iteration` counts from 0: in the last of 5 turns it is 4";
    let never = "this never holds: the number is from 0 to 4";
    assert_eq!(until("iteration >= 5"), [(never.to_owned(), hint.to_owned())]);
    assert_eq!(
        until("iteration == 5"),
        [("this is never `5`: it is from 0 to 4".to_owned(), hint.to_owned())]
    );
}

#[test]
fn names_with_hyphens_and_reserved_words_say_how_to_write_them() {
    let field = |marked: &str, message: &str, hint: &str| {
        assert_told(marked, Code::CelUnknownField, Severity::Error, message, hint);
    };
    let brackets = |path: &str| format!("write `{path}`; a subtraction has spaces around it");
    // `my` is a field too, and `field` is nothing.
    field(
        "steps.a.result.‸my-field == 'x'",
        "after a dot, `my-field` is a subtraction",
        &brackets("steps.a.result[\"my-field\"]"),
    );
    field(
        "steps.a.result.ok && steps.a.result.‸a-b-c > 1",
        "after a dot, `a-b-c` is a subtraction",
        &brackets("steps.a.result[\"a-b-c\"]"),
    );
    field(
        "steps.a.result.‸my-field.contains('x')",
        "after a dot, `my-field` is a subtraction",
        &brackets("steps.a.result[\"my-field\"]"),
    );
    field(
        "inputs.‸next-step == 'x'",
        "after a dot, `next-step` is a subtraction",
        &brackets("inputs[\"next-step\"]"),
    );
    let step = |marked: &str, message: &str, hint: &str| {
        assert_told(marked, Code::CelUnknownStep, Severity::Error, message, hint);
    };
    step("steps.‸a-bb.status == 'completed'", "there is no step `a-bb` here", "there are `a`, `bare`, `z`");
    step("steps.‸bare-1.status == 'completed'", "there is no step `bare-1` here", "did you mean `bare`?");
    step("has(steps.‸a-bb.result)", "there is no step `a-bb` here", "there are `a`, `bare`, `z`");
    for (marked, message, hint) in [
        (
            "steps.a.result.‸in",
            "not an expression: `in` is a word of the language, not a name",
            "write `steps.a.result[\"in\"]`",
        ),
        (
            "has(steps.a.result.‸in)",
            "not an expression: `in` is a word of the language, not a name",
            "write `\"in\" in steps.a.result` instead of `has(…)`",
        ),
    ] {
        assert_told(marked, Code::CelSyntax, Severity::Error, message, hint);
    }
}

fn value(source: &str) -> Result<Value, String> {
    let step = StepView::new(
        "completed",
        "2026-03-01T00:30:00+05:00",
        Some(json!({"my-field": 3, "a": {"b-c": 1}, "at": "2026-01-31T23:59:59.5Z"})),
    );
    let scope = Scope::new().with_step("a", Arc::new(step));
    let compiled = Expression::compile(source, ["a"]).map_err(|error| error.to_string())?;
    compiled.evaluate_value(&scope).map_err(|error| error.to_string())
}

#[test]
fn times_are_the_standards() {
    for (source, wanted) in [
        ("timestamp(steps.a.content)", json!("2026-02-28T19:30:00Z")),
        ("string(timestamp(steps.a.result.at))", json!("2026-01-31T23:59:59.5Z")),
        // Of UTC, whatever the text was written in.
        ("timestamp(steps.a.content).getHours()", json!(19)),
        ("timestamp(steps.a.content).getHours('+05:00')", json!(0)),
        ("timestamp(steps.a.content).getDate('Asia/Karachi')", json!(1)),
        ("timestamp(steps.a.content).getMonth()", json!(1)),
        ("timestamp(steps.a.content).getFullYear()", json!(2026)),
        ("timestamp(steps.a.content).getDayOfMonth()", json!(27)),
        ("timestamp(steps.a.content).getDayOfWeek()", json!(6)),
        ("timestamp(steps.a.content).getDayOfYear()", json!(58)),
        ("timestamp(steps.a.result.at).getMilliseconds()", json!(500)),
        ("timestamp(steps.a.result.at).getSeconds()", json!(59)),
        ("timestamp('2026-01-01T00:00:00Z') - timestamp('2025-12-31T00:00:00Z')", json!("86400s")),
        ("duration('1h30m') + duration('30s')", json!("5430s")),
        ("duration('1h30m').getMinutes()", json!(90)),
        ("duration('-1.5s').getMilliseconds()", json!(-1500)),
        ("timestamp(0) + duration('24h') == timestamp('1970-01-02T00:00:00Z')", json!(true)),
        ("timestamp('2026-01-01T02:00:00+02:00') == timestamp('2026-01-01T00:00:00Z')", json!(true)),
        ("int(timestamp('1970-01-01T00:01:00Z'))", json!(60)),
        ("[timestamp(1), timestamp(0)].exists(t, t < timestamp(1))", json!(true)),
        ("type(timestamp(0)) == google.protobuf.Timestamp", json!(true)),
        ("type(duration('1s')) == google.protobuf.Duration", json!(true)),
        (
            "{'at': timestamp(0), 'for': [duration('1s')]}",
            json!({"at": "1970-01-01T00:00:00Z", "for": ["1s"]}),
        ),
    ] {
        assert_eq!(value(source), Ok(wanted), "{source}");
    }
    for source in [
        "timestamp('2026-13-01T00:00:00Z')",
        "timestamp('10000-01-01T00:00:00Z')",
        "timestamp(99999999999999)",
        "timestamp('9999-12-31T23:59:59Z') + duration('1s')",
        "duration('3000000h')",
        "duration('1h') + duration('9223372036s') + duration('9223372036s')",
        "timestamp(0).getHours('Mars/Base')",
        "timestamp(0).getHours('99:99')",
        "now()",
    ] {
        assert!(value(source).is_err(), "{source}: {:?}", value(source));
    }
}

#[test]
fn a_dot_at_the_beginning_changes_nothing() {
    for (with, without) in [
        (".steps.a.content", "steps.a.content"),
        ("[.steps.a.result][0].a", "steps.a.result.a"),
        (".steps.a.content == steps.a.content", "true"),
        ("[1].map(x, .steps.a.status)[0]", "steps.a.status"),
        ("has(.steps.a.result.my-field)", "true"),
        ("has(steps.a.result.a.b-c) && !has(steps.a.result.a.b-d)", "true"),
    ] {
        assert_eq!(value(with), value(without), "{with}");
        assert!(value(with).is_ok(), "{with}: {:?}", value(with));
    }
    let scope = Scope::new().with_step("a-b", Arc::new(StepView::new("failed", "", None)));
    let is = |text| Expression::compile(text, ["a-b"]).unwrap().evaluate_bool(&scope);
    assert_eq!(is(".steps.a-b.status == 'failed'"), Ok(true));
    assert_eq!(
        crate::every_code::found(
            "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: .steps.a.status == 'skipped'}]"
        ),
        []
    );
}

#[test]
fn a_map_is_never_added_to_a_list() {
    assert!(value("[1] + steps.a.result").is_err());
    assert!(value("[[1]].map(x, x + {'a': 1, 'b': 2})").is_err());
    assert_eq!(value("[1] + [2] + [[3]]"), Ok(json!([1, 2, [3]])));
    assert_eq!(value("'a'.matches('a', 'b')").map_err(|_| ()), Err(()));
}

/// A model that writes `3` and one that writes `3.0` mean the same.
#[test]
fn whole_numbers_and_fractions_are_calculated_with_together() {
    for (source, wanted) in [
        ("1 + 2.5", json!(3.5)),
        ("2.5 - 1", json!(1.5)),
        ("steps.a.result['my-field'] * 0.5", json!(1.5)),
        ("1.5 / 3", json!(0.5)),
        ("7 / 2", json!(3)),
        ("7 / 2.0", json!(3.5)),
        ("2 * 3", json!(6)),
        ("[1, 2.5].map(x, x * 2)", json!([2, 5.0])),
        ("[1, 2.5].map(x, x + 1).filter(x, x > 2.2)", json!([3.5])),
        ("steps.a.result['my-field'] + 1", json!(4)),
    ] {
        assert_eq!(value(source), Ok(wanted), "{source}");
    }
    for source in ["9223372036854775807 + 1", "1 / 0", "5.5 % 2"] {
        assert!(value(source).is_err(), "{source}");
    }
}
