//! What is known of an expression before it is evaluated: ids with hyphens, fields of every kind of step, comparisons that
//! cannot hold, limits.

use std::fs;

use tenon_flow::{
    CelSyntax, Diagnostic, Expression, LoadError, LoadOptions, MAX_OPERATORS, Scope, SyntaxKind, load,
};

const SCHEMAS: &str = "name: n
inputs: {type: object, properties: {mode: {enum: [fast, slow]}}}
agents:
  t:
    description: d
    resultSchema:
      type: object
      additionalProperties: false
      properties:
        ok: {type: boolean}
        n: {type: integer}
        level: {const: high}
        word: {type: [string, 'null']}
        list: {type: array, items: {enum: [low, high]}}
        objects: {type: array, items: {type: object, additionalProperties: false, properties: {name: {type: string}}}}
        either:
          anyOf:
            - {type: object, additionalProperties: false, properties: {left: {type: string}}}
            - {$ref: '#/$defs/right'}
        all: {allOf: [{type: object, properties: {one: {type: string}}}, {properties: {two: {type: string}}}]}
        some: {oneOf: [{enum: [a]}, {enum: [b]}, {type: 'null'}]}
      $defs: {right: {type: object, additionalProperties: false, properties: {right: {type: integer}}}}
steps:
  - {id: a-b, agent: t}
  - {id: each, agent: t, dependsOn: [a-b], loop: {forEach: steps.a-b.result.objects}}
  - {id: sub, include: inner.yaml}
  - id: s
    dependsOn: [a-b, each, sub]
";

fn found(step: &str) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    let inner = "name: i\nsteps: [{id: x}]\noutputs: {answer: steps.x.content}";
    fs::write(folder.path().join("inner.yaml"), inner).unwrap();
    let path = folder.path().join("flow.yaml");
    fs::write(&path, format!("{SCHEMAS}    {step}\n")).unwrap();
    match load(&path, &LoadOptions::default()) {
        Ok(loaded) => loaded.warnings,
        Err(LoadError::Invalid(found)) => found,
        Err(error) => panic!("{error}"),
    }
}

fn told(step: &str) -> Vec<String> {
    found(step).iter().map(|one| format!("{} {}", one.code.text(), one.message)).collect()
}

#[test]
fn an_id_with_a_hyphen_stands_anywhere() {
    for step in [
        "condition: has(steps.a-b)",
        "condition: has(steps.a-b.result)",
        "condition: has(steps.a-b.result.ok) && !has(steps.a-b.result.n)",
        "condition: steps['a-b'].result.ok || steps.a-b.result.ok",
        "condition: steps.a-b.result.list.exists(x, x == 'low' && steps.a-b.result.ok)",
        "condition: steps.a-b.result.list.all(x, x in steps.a-b.result.list)",
        "condition: size(steps.a-b.result.list.filter(x, steps.a-b.result.ok)) > 0",
        "condition: '[steps.a-b.content][0] == steps.a-b.status'",
        "condition: \"{'k': steps.a-b.result.n}['k'] > 1\"",
        "condition: steps.a-b.result.n-steps.a-b.result.n == 0",
        "condition: steps.a-b.result.list[steps.a-b.result.n] == 'low'",
        "condition: 'steps.a-b.result.ok ? steps.a-b.result.ok : !steps.a-b.result.ok'",
        "instructions: 'a-b ${{ steps.a-b.content }} steps.a-b ${{ steps.a-b.result.list[0] }}'",
        "loop: {forEach: 'steps.a-b.result.list.map(x, x + steps.a-b.content)'}",
        "loop: {maxIterations: 2, until: steps.in-ner.status == 'failed' || has(steps.in-ner), steps: [{id: in-ner}]}",
    ] {
        assert_eq!(told(step), Vec::<String>::new(), "{step}");
    }
    assert_eq!(told("condition: has(steps.a-c)"), ["cel_unknown_step there is no step `a-c` here"],);
    assert_eq!(
        told("condition: has(steps['a-b'])"),
        ["cel_syntax not an expression: `has` takes a path that ends in a field"],
    );
    // Evaluated, they mean what they say.
    let scope = tenon_flow::Scope::new().with_step(
        "a-b",
        std::sync::Arc::new(tenon_flow::StepView::new("completed", "c", Some(serde_json::json!({"n": 3})))),
    );
    let is = |text: &str| Expression::compile(text, ["a-b", "a", "_0b"]).unwrap().evaluate_bool(&scope);
    for (text, wanted) in [
        ("has(steps.a-b)", true),
        ("has(steps.a-b.result.n) && !has(steps.a-b.result.m)", true),
        ("'steps.a-b' == 'steps.' + 'a-b'", true),
        ("steps.a-b.result.n-1 == 2", true),
    ] {
        assert_eq!(is(text), Ok(wanted), "{text}");
    }
}

#[test]
fn every_kind_of_step_has_its_fields() {
    for step in [
        "condition: steps.each.result.iterations.all(i, i.status == 'completed' && i.result.ok && i.item.name != i.id)",
        "condition: steps.each.result.iterations[0].index == 0",
        "condition: steps.sub.result.answer == 'x'",
        "condition: size(steps.sub.result.innerSteps) > 0",
        "condition: steps.a-b.result.either.left == 'x' || steps.a-b.result.either.right == 1",
        "condition: steps.a-b.result.all.one == steps.a-b.result.all.two",
        "condition: steps.a-b.result.word == 'x' || steps.a-b.result.word == null",
        "loop: {forEach: steps.a-b.result.objects, steps: [{id: i, instructions: '${{ item.name }}'}]}",
        "loop: {forEach: [{a: 1}, {b: 2}], steps: [{id: i, condition: has(item.a) || has(item.c), instructions: '${{ item.b }}'}]}",
    ] {
        assert_eq!(told(step), Vec::<String>::new(), "{step}");
    }
    for (step, wanted) in [
        (
            "condition: steps.each.result.items == []",
            "cel_unknown_field step `each`, which goes over items, gives no `items`",
        ),
        (
            "condition: steps.each.result.iterations.exists(i, i.state == 'x')",
            "cel_unknown_field an item of step `each` gives no `state`",
        ),
        (
            "condition: steps.each.result.iterations.exists(i, i.result.okay)",
            "cel_unknown_field the schema of an item of step `each` does not allow `okay`",
        ),
        (
            "condition: steps.sub.result.anwser == 'x'",
            "cel_unknown_field the workflow that step `sub` includes gives no `anwser`",
        ),
        (
            "condition: steps.a-b.result.either.middle == 'x'",
            "cel_unknown_field the schema of step `a-b` does not allow `middle`",
        ),
        (
            "condition: steps.a-b.result.all.three == 'x'",
            "cel_unknown_field the schema of step `a-b` does not mention `three`",
        ),
        (
            "loop: {forEach: steps.a-b.result.objects, steps: [{id: i, instructions: '${{ item.nmae }}'}]}",
            "cel_unknown_field the schema of an element of step `a-b` does not allow `nmae`",
        ),
        (
            "instructions: '${{ item.nmae }}'\n    loop: {forEach: steps.a-b.result.objects}",
            "cel_unknown_field the schema of an element of step `a-b` does not allow `nmae`",
        ),
        (
            "loop: {forEach: [{a: 1}, {b: 2}], steps: [{id: i, instructions: '${{ item.c }}'}]}",
            "cel_unknown_field no item of the list has `c`",
        ),
    ] {
        assert_eq!(told(step), [wanted], "{step}");
    }
}

#[test]
fn comparisons_that_never_hold_or_always_do_are_told() {
    let only = "only `completed`, `failed`, `skipped`, `cancelled`";
    for (condition, wanted) in [
        ("steps.a-b.status != 'success'", format!("this is never `success`, {only}, so `!=` always holds")),
        ("steps.a-b.status in ['completed', 'done']", format!("this is never `done`, {only}")),
        ("'medium' in steps.a-b.result.list", "this is never `medium`, only `low`, `high`".to_owned()),
        ("steps.a-b.result.level == 'low'", "this is never `low`, only `high`".to_owned()),
        ("steps.a-b.result.some == 'c'", "this is never `c`, only `a`, `b`, `null`".to_owned()),
        ("steps.a-b.result.word == 3", "this is text or nothing, and never `3`".to_owned()),
        (
            "steps.a-b.result.ok != 'true'",
            "this is true or false, and never `true`, so `!=` always holds".to_owned(),
        ),
        ("inputs.mode == 'quick'", "this is never `quick`, only `fast`, `slow`".to_owned()),
        ("steps.a-b.content == 3", "this is text, and never `3`".to_owned()),
        (
            "steps.a-b.result.level == inputs.mode",
            "these are never the same: `high` and `fast`, `slow`".to_owned(),
        ),
        ("steps.a-b.result.n == steps.a-b.content", "these are never the same: a number and text".to_owned()),
    ] {
        let found = found(&format!("condition: \"{condition}\""));
        let messages: Vec<&str> = found.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(messages, [wanted.as_str()], "{condition}");
        assert!(!found[0].is_error(), "{condition}");
    }
    for (condition, wanted) in [
        ("steps.a-b.result.n > '3'", "a number cannot be compared with text by size"),
        ("steps.a-b.result.list > 3", "a list cannot be compared with a number by size"),
    ] {
        assert_eq!(
            told(&format!("condition: \"{condition}\"")),
            [format!("cel_type {wanted}")],
            "{condition}"
        );
    }
    for condition in [
        "steps.a-b.status != 'failed' && steps.a-b.status in ['completed', 'skipped']",
        "'low' in steps.a-b.result.list",
        "steps.a-b.result.some == 'b' || steps.a-b.result.some == null",
        "steps.a-b.result.n >= 3 || steps.a-b.result.n < 2.5",
        "steps.a-b.content < 'x' && steps.a-b.result.word < 'x'",
        "inputs.mode in ['fast', 'slow']",
        "steps.a-b.content == steps.a-b.result.word",
    ] {
        assert_eq!(told(&format!("condition: \"{condition}\"")), Vec::<String>::new(), "{condition}");
    }
}

/// Nothing runs after a step that failed, so nobody is told to wait for one to ask that.
#[test]
fn asking_whether_a_dependency_failed_is_told_to_be_in_vain() {
    let told = |steps: &str| -> Vec<(String, String)> {
        let found = crate::every_code::found(&format!(
            "name: n\nsteps: [{{id: x}}, {{id: y, dependsOn: [x]}}, {steps}]"
        ));
        found.into_iter().inspect(|one| assert!(!one.is_error())).map(|one| (one.message, one.hint)).collect()
    };
    let never = |word: &str, id: &str| {
        let message = format!("this is never `{word}` here: what depends on `{id}` does not run then");
        let hint = "take it out: what failed is told by the status of the run, its exit code and its report";
        (message, hint.to_owned())
    };
    for (steps, word, id) in [
        ("{id: z, dependsOn: [x], condition: steps.x.status == 'failed'}", "failed", "x"),
        ("{id: z, dependsOn: [y], condition: \"'cancelled' == steps['x'].status\"}", "cancelled", "x"),
        ("{id: z, dependsOn: [y], condition: \"steps.y.status in ['skipped', 'failed']\"}", "failed", "y"),
        (
            "{id: z, dependsOn: [x], loop: {forEach: [1], steps: [{id: i, condition: steps.x.status == 'failed'}]}}",
            "failed",
            "x",
        ),
        (
            "{id: z, loop: {forEach: [1], steps: [{id: h}, {id: i, dependsOn: [h], condition: steps.h.status == 'failed'}]}}",
            "failed",
            "h",
        ),
    ] {
        assert_eq!(told(steps), [never(word, id)], "{steps}");
    }
    let unfinished = told("{id: z, condition: steps.x.status == 'failed'}");
    let hint = "take it out: what depends on `x` does not run when it failed; what failed is told by the status of the run, its exit code and its report";
    assert_eq!(unfinished[0].1, hint);
    assert_eq!(unfinished.len(), 1);
    for steps in [
        "{id: z, dependsOn: [x], condition: steps.x.status != 'failed'}",
        "{id: z, dependsOn: [x], condition: steps.x.status == 'skipped'}",
        "{id: z, loop: {maxIterations: 2, until: steps.i.status == 'failed', steps: [{id: i}]}}",
    ] {
        assert_eq!(told(steps), [], "{steps}");
    }
}

/// With steps of its own a loop is never there by its id when a turn is over; without, it is the turn.
#[test]
fn until_cannot_name_a_loop_that_has_steps() {
    let until = |until: &str, rest: &str| {
        format!("name: n\nsteps: [{{id: l, loop: {{maxIterations: 2, until: \"{until}\"{rest}}}}}]")
    };
    for source in ["steps.l.content == 'x'", "iteration == 1 || steps['l'].result.ok", "has(steps.l.result)"]
    {
        let found = crate::every_code::found(&until(source, ", steps: [{id: a}, {id: b}]"));
        let told: Vec<(bool, &str, &str)> =
            found.iter().map(|one| (one.is_error(), one.message.as_str(), one.hint.as_str())).collect();
        let message = "step `l` is not there when its `until` is evaluated: it goes on until then";
        let hint = "what a turn came to is `result`, `content` and `status`; a step of the loop is `steps.a`";
        assert_eq!(told, [(true, message, hint)], "{source}");
        assert_eq!(found[0].code.text(), "cel_unknown_step");
    }
    for rest in ["", ", steps: [{id: l}]", ", steps: [{id: a}, {id: l}]"] {
        // One of them hides the loop, which is told besides.
        let found = crate::every_code::found(&until("steps.l.content == 'x'", rest));
        assert!(found.iter().all(|one| one.code.text() == "duplicate_step" && !one.is_error()), "{found:?}");
    }
}

#[test]
fn a_step_that_cannot_have_finished_is_told_why() {
    let table = [
        (
            "name: n\nsteps: [{id: x}, {id: l, loop: {forEach: [1], steps: [{id: i, condition: steps.l.status == 'failed'}]}}]",
            "step `l` has not finished when this is evaluated: this is a part of it",
            "name a step of the same loop that comes before, or one that the loop depends on",
        ),
        (
            "name: n\nsteps: [{id: x}, {id: l, loop: {forEach: [1], steps: [{id: i, condition: steps.x.status == 'skipped'}]}}]",
            "step `x` may not have finished: the loop around this does not depend on it",
            "add `x` to `dependsOn` of `l`",
        ),
        (
            "name: n\nsteps: [{id: l, loop: {forEach: [1], steps: [{id: j}, {id: i, condition: steps.j.status == 'skipped'}]}}]",
            "step `j` may not have finished: this step does not depend on it",
            "add `j` to `dependsOn`",
        ),
        (
            "name: n\nsteps: [{id: x, condition: steps.y.status == 'failed'}, {id: y, dependsOn: [x]}]",
            "step `y` has not run when this is evaluated: it waits for this step",
            "move this to a step after `y`, or take the dependency out",
        ),
        (
            "name: n\nsteps: [{id: x, condition: steps.x.status == 'failed'}]",
            "step `x` has not run when this is evaluated: it is this step",
            "name a step that comes before; whether a loop goes on is decided by its `until`",
        ),
    ];
    for (text, message, hint) in table {
        let found = crate::every_code::found(text);
        let told: Vec<(&str, &str)> =
            found.iter().map(|one| (one.message.as_str(), one.hint.as_str())).collect();
        assert_eq!(told, [(message, hint)], "{text}");
    }
}

#[test]
fn what_is_too_long_or_too_deep_is_said_in_words() {
    let refused = |text: String| -> CelSyntax { Expression::compile(&text, []).unwrap_err() };
    for (text, message) in [
        (
            format!("{}1{}", "(".repeat(65), ")".repeat(65)),
            "the expression is nested more than 64 levels deep",
        ),
        (
            format!("{}1{}", "[".repeat(65), "]".repeat(65)),
            "the expression is nested more than 64 levels deep",
        ),
        (
            format!("{}true", "true ? true : ".repeat(120)),
            "the expression is nested too deeply: every `? :` after another is a level",
        ),
        (format!("{}true", "!".repeat(65)), "the expression is nested more than 64 levels deep"),
        (vec!["1"; 600].join(" + "), "the expression has 599 operators, dots and brackets, and may have 500"),
        ("x".repeat(5000), "the expression has 5000 bytes, and may have 4096"),
    ] {
        let error = refused(text.clone());
        assert_eq!((error.message.as_str(), error.kind), (message, SyntaxKind::TooLarge), "{text}");
    }
    assert_eq!(MAX_OPERATORS, 500);
    // What a comma separates stands side by side.
    assert!(Expression::compile(&format!("1 in [{}]", vec!["1"; 1500].join(",")), []).is_ok());
}

#[test]
fn what_is_as_long_and_as_deep_as_may_be_works() {
    let value = |text: &str| Expression::compile(text, []).unwrap().evaluate_value(&Scope::new()).unwrap();
    assert_eq!(value(&format!("{}1{}", "(".repeat(64), ")".repeat(64))), 1);
    // Not only what the short way reads.
    assert_eq!(value(&format!("{}1.5{}", "(".repeat(64), ")".repeat(64))), 1.5);
    assert_eq!(value(&format!("size({}1{})", "[".repeat(63), "]".repeat(63))), 1);
    assert_eq!(value(&format!("{}true", "!".repeat(64))), true);
    assert_eq!(value(&vec!["1"; 501].join("+")), 501);
    assert_eq!(value(&vec!["1.0"; 250].join("+")), 250.0);
    assert_eq!(value(&vec!["'a'"; 501].join(" + ")).as_str().map(str::len), Some(501));
    assert_eq!(value(&vec!["true"; 501].join("&&")), true);
    assert_eq!(value(&vec!["false"; 501].join("||")), false);
    assert_eq!(value(&format!("[1]{}", ".map(x, x)".repeat(100))), serde_json::json!([1]));
    // Checked as well as evaluated.
    let sum = vec!["size(steps.a-b.result.list)"; 80].join(" + ");
    assert_eq!(told(&format!("condition: {sum} > 0")), [] as [&str; 0]);
    let sum = format!("{} + steps.nope.result.n", vec!["1"; 400].join("+"));
    assert_eq!(told(&format!("condition: {sum} > 0")), ["cel_unknown_step there is no step `nope` here"]);
}

#[test]
fn an_id_with_a_hyphen_may_have_white_space_and_brackets_around_it() {
    for condition in [
        "steps\n    .a-b\n    .status == 'completed'",
        "steps .a-b.status == 'completed'",
        "steps. a-b.status == 'completed'",
        "steps\t.\ta-b .status == 'completed'",
        "(steps).a-b.status == 'completed'",
        "( ( steps ) ) . a-b.status == 'completed'",
        "!(steps.a-b.result.ok) && ((steps).a-b.result.ok || (steps .a-b).result.ok)",
        "'a-b' in (steps) && (steps).a-b.result.ok",
        "has(steps .a-b) && has((steps).a-b.result.ok)",
        ".steps .a-b.status == 'completed'",
        "size([steps]) == 1 && steps\n.a-b.result.ok",
    ] {
        let escaped = condition.replace('\n', "\\n").replace('\t', "\\t");
        assert_eq!(told(&format!("condition: \"{escaped}\"")), [] as [&str; 0], "{condition}");
    }
    let wrapped = "condition: |\n      steps\n        .a-b\n        .result\n        .ok &&\n      steps\n        .a-b.status == 'completed'";
    assert_eq!(told(wrapped), [] as [&str; 0]);
    // A subtraction with spaces is one; a step that is there is never what was meant instead.
    for (condition, code) in [
        ("steps.a - b == 1", "cel_unknown_step"),
        ("steps.a -b == 1", "cel_unknown_step"),
        ("steps.a- b == 1", "cel_unknown_step"),
        ("[steps][0].a-b.status == 'completed'", "cel_unknown_step"),
        ("(true ? steps : steps).a-b.status == 'completed'", "cel_unknown_field"),
    ] {
        let found = found(&format!("condition: \"{condition}\""));
        assert!(!found.is_empty(), "{condition}");
        assert_eq!(found[0].code.text(), code, "{condition}: {}", found[0].message);
        assert!(
            !found.iter().any(|one| one.hint.contains("mean `a-b`") && one.message.contains("`a-b`")),
            "{found:?}"
        );
    }
}
