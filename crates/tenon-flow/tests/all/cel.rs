//! Expressions: what they see, what they give, and how much they may do.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_flow::{CelError, Expression, NoValue, Scope, StepView, Template};

fn step(status: &str, content: &str, result: Option<Value>) -> Arc<StepView> {
    Arc::new(StepView::new(status, content, result))
}

/// Steps as the expressions of the format's documentation name them.
fn scope() -> Scope {
    let findings = json!([
        {"severity": "critical", "file": "a.rs", "line": 12345678901234567i64},
        {"severity": "low", "file": "b.rs", "line": 3},
    ]);
    Scope::new()
        .with_step(
            "design",
            step(
                "completed",
                "done",
                Some(json!({"features": ["authentication", "x"], "modules": ["auth"]})),
            ),
        )
        .with_step("test", step("completed", "PASS", Some(json!({"passed": true, "failed_count": 0}))))
        .with_step("scan", step("completed", "", Some(json!({"severity": "critical", "findings": findings}))))
        .with_step("health-check", step("completed", "unhealthy", None))
        .with_step("list-services", step("completed", "", Some(json!({"services": ["a", "b"]}))))
        .with_step("classify", step("completed", "", Some(json!({"priority": 3, "score": 2.5}))))
        .with_step("skipped", step("skipped", "", None))
        .with_last(step("completed", "no issues, done, LGTM", Some(json!({"score": 96, "improvements": 1}))))
        .with_item(Arc::new(json!({"name": "web", "port": 8080})), 2)
        .with_iteration(3)
        .with_inputs(Arc::new(json!({"version": "1.2", "dry": false})))
}

const IDS: [&str; 7] = ["design", "test", "scan", "health-check", "list-services", "classify", "skipped"];

fn expression(source: &str) -> Expression {
    Expression::compile(source, IDS).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn holds(source: &str) -> Result<bool, CelError> {
    expression(source).evaluate_bool(&scope())
}

fn value(source: &str) -> Result<Value, CelError> {
    expression(source).evaluate_value(&scope())
}

#[test]
fn expressions_of_the_format_mean_what_they_say() {
    let table = [
        ("steps.design.result.features.exists(f, f == 'authentication')", true),
        ("steps.test.status == 'completed' && steps.test.result.passed == true", true),
        ("steps.scan.result.severity == 'critical'", true),
        ("steps.scan.result.findings.exists(f, f.severity == 'critical')", true),
        ("steps.scan.result.findings.all(f, f.severity == 'critical')", false),
        ("steps.scan.result.findings.exists_one(f, f.severity == 'low')", true),
        ("steps.health-check.status == 'completed'", true),
        ("steps.health-check.content.contains('unhealthy')", true),
        ("steps['health-check'].content.startsWith('un')", true),
        ("steps.skipped.status != 'skipped'", false),
        ("steps.classify.result.priority >= 3", true),
        ("steps.classify.result.priority == 3.0", true),
        ("steps.classify.result.score > 2", true),
        ("size(steps.list-services.result.services) > 0", true),
        ("steps.list-services.result.services.size() == 2", true),
        ("'auth' in steps.design.result.modules", true),
        ("'severity' in steps.scan.result", true),
        ("has(steps.scan.result.severity) && steps.scan.result.severity == 'critical'", true),
        ("has(steps.scan.result.nope)", false),
        ("has(steps.skipped.result.severity)", false),
        ("!has(steps.skipped.result.severity) || steps.skipped.result.severity == 'low'", true),
        ("has(steps.skipped.result.severity) ? false : true", true),
        ("has(steps.health-check.result.a.b.c)", false),
        ("has(steps.health-check.result)", true),
        ("has(steps.scan.result.nope.more['x'].most)", false),
        ("has(steps.unknown.result.severity)", false),
        ("has(steps.unknown)", false),
        ("has(steps.scan)", true),
        ("has(steps.scan.result.findings[1].file)", true),
        ("has(steps.scan.result.findings[7].file)", false),
        ("steps.scan.result.findings.all(f, has(f.file) && !has(f.at.line))", true),
        ("has(item.name) && !has(item.owner.name) && has(result.score)", true),
        ("has({'a': {'b': has(steps.skipped.result.x)}}.a.b)", true),
        ("steps.scan.result.nope == 1 || true", true),
        ("true || steps.scan.result.nope == 1", true),
        ("content.contains('LGTM')", true),
        ("content.endsWith('LGTM')", true),
        ("content.matches('^no issues, .*$')", true),
        ("matches(content, 'x{5}')", false),
        ("result.score >= 95", true),
        ("iteration >= 3 && result.improvements < 2", true),
        ("index == 2 && item.port == 8080 && item['name'] == 'web'", true),
        ("inputs.version == '1.2' && !inputs.dry", true),
        ("status == \"completed\"", true),
        ("steps.classify.result.priority > 2 ? true : false", true),
        ("int('7') + 1 == 8 && double(2) == 2.0 && string(3) == '3'", true),
        ("steps.scan.result.findings.filter(f, f.line > 5).map(f, f.file) == ['a.rs']", true),
        ("steps.scan.result.findings.map(f, f.severity == 'low', f.file)[0] == 'b.rs'", true),
        ("type(index) == int", true),
        ("size('añb') == 3", true),
        ("true", true),
    ];
    for (source, expected) in table {
        assert_eq!(holds(source), Ok(expected), "{source}");
    }
}

#[test]
fn missing_data_can_be_told_from_other_errors() {
    for source in [
        "steps.scan.result.nope == 1",
        "steps.health-check.result.passed",
        "steps.health-check.result.passed == true",
        "steps['unknown'].status == 'completed'",
        "steps.unknown.status == 'completed'",
        "steps.scan.result.findings[7].file == 'x'",
        "item.nope == 2",
        "steps.skipped.result['x'] == 1",
    ] {
        assert!(matches!(holds(source), Err(CelError::MissingKey { .. })), "{source}: {:?}", holds(source));
    }
    for source in [
        "1 / 0 == 1",
        "steps.test.content + 1 == 2",
        "undefined_var > 0",
        "content.matches('(')",
        "has(steps.test.content.x)",
    ] {
        assert!(matches!(holds(source), Err(CelError::Evaluation { .. })), "{source}: {:?}", holds(source));
    }
    assert_eq!(holds("\"hello\""), Err(CelError::NotBool { got: "string".to_owned() }));
    assert_eq!(holds("steps.test.result"), Err(CelError::NotBool { got: "map".to_owned() }));
}

#[test]
fn values_keep_their_numbers_and_paths_their_order() {
    assert_eq!(value("steps.scan.result.findings[0].line"), Ok(json!(12345678901234567i64)));
    assert_eq!(value("steps.classify.result.priority + 1"), Ok(json!(4)));
    assert_eq!(value("[1, 2].map(x, x * 2)"), Ok(json!([2, 4])));
    assert_eq!(value("steps.classify.result.priority * 2 - 1"), Ok(json!(5)));
    assert_eq!(value("{'b': 1, 'a': [true, null, 2.5]}"), Ok(json!({"a": [true, null, 2.5], "b": 1})));
    let written: Value = serde_json::from_str(r#"{"z": 1.10, "a": 123456789012345678901234567890}"#).unwrap();
    let scope = Scope::new().with_step("s", step("completed", "", Some(written.clone())));
    let path = Expression::compile("steps.s.result", ["s"]).unwrap();
    assert_eq!(path.evaluate_value(&scope).unwrap().to_string(), written.to_string());
    assert_eq!(value("result.nothing"), Err(CelError::MissingKey { key: "nothing".to_owned() }));
    assert_eq!(Expression::compile("result", []).unwrap().evaluate_value(&Scope::new()), Ok(json!({})));
}

#[test]
fn for_each_takes_every_kind_of_list() {
    let list = |source: &str| expression(source).evaluate_list(&scope());
    assert_eq!(list("steps.list-services.result.services"), Ok(vec![json!("a"), json!("b")]));
    assert_eq!(list("[1, 'two', [3]]"), Ok(vec![json!(1), json!("two"), json!([3])]));
    let critical = list("steps.scan.result.findings.filter(f, f.severity == 'critical')").unwrap();
    assert_eq!(critical.len(), 1);
    assert_eq!(list("steps.scan.result.findings.map(f, f.file)"), Ok(vec![json!("a.rs"), json!("b.rs")]));
    assert_eq!(list("steps.scan.result"), Err(CelError::NotList { got: "map".to_owned() }));
    assert_eq!(list("'text'"), Err(CelError::NotList { got: "string".to_owned() }));
    // The keys of a map come in one order, on every machine.
    assert_eq!(list("{'c': 1, 'a': 2, 'b': 3}.map(k, k)"), Ok(vec![json!("a"), json!("b"), json!("c")]));
}

#[test]
fn ids_with_hyphens_are_ids_only_where_they_are_steps() {
    let compile = |source: &str, ids: &[&str]| Expression::compile(source, ids.iter().copied());
    let scope = Scope::new()
        .with_step("a-b", step("completed", "1", Some(json!({"n": 5}))))
        .with_step("a-b-c", step("failed", "2", None))
        .with_step("a", step("completed", "3", Some(json!({"b": 9}))));
    let table = [
        ("steps.a-b.content", json!("1")),
        ("steps.a-b-c.status", json!("failed")),
        ("steps.a-b.result.n - 1", json!(4)),
        ("'steps.a-b' + steps.a-b.content", json!("steps.a-b1")),
        ("\"it's steps.a-b \" + steps.a-b.content", json!("it's steps.a-b 1")),
        ("r'\\' + steps.a-b.content", json!("\\1")),
        ("[steps.a-b.content,steps.a-b-c.content]", json!(["1", "2"])),
    ];
    for (source, expected) in table {
        let compiled =
            compile(source, &["a", "a-b", "a-b-c"]).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(compiled.evaluate_value(&scope), Ok(expected), "{source}");
    }
    // A variable of the same name hides the steps.
    let hidden = compile("[{'a': 1}].exists(steps, steps.a == 1)", &["a"]).unwrap();
    assert_eq!(hidden.evaluate_bool(&scope), Ok(true));
}

/// Paths are read without the general parser; in a list the same text goes through it.
#[test]
fn plain_paths_mean_what_the_parser_makes_of_them() {
    let sources = [
        "steps",
        "steps.a",
        "steps.a.result",
        "steps.a-b.result.n",
        "steps['a-b'].result[\"n\"]",
        "steps.a.result.l[1]",
        "steps.a.result.l[01]",
        "steps.a.result.l[9999999999999999999]",
        "steps.a.result['']",
        "steps.a.result['a\\'b']",
        "true",
        "null",
        "in",
        "while",
        "item.for",
        "steps.1a",
        "steps..a",
        "steps.",
        "steps.a.",
        "steps.a[",
        "steps.a[1",
        "steps.a[']",
        "steps.a['x'",
        "steps .a",
        "steps.a b",
        "a.b-c",
        "int",
        "1",
        "r'x'",
        "steps.a.result.é",
        "steps.a.result['é']",
        "steps.a.result.l[0].x[1].y",
        "item",
        "item[0]",
        "result.x",
        "status",
        "inputs.a.b",
    ];
    let result = json!({"n": 5, "l": [{"x": [0, {"y": 7}]}, 2], "é": 3});
    let scope = Scope::new()
        .with_step("a", step("completed", "c", Some(result.clone())))
        .with_step("a-b", step("completed", "c", Some(result)))
        .with_item(Arc::new(json!([4])), 0);
    let outcome = |source: &str| {
        Expression::compile(source, ["a", "a-b"]).ok().map(|compiled| {
            compiled.evaluate_value(&scope).map_err(|error| matches!(error, CelError::MissingKey { .. }))
        })
    };
    for source in sources {
        assert_eq!(outcome(source), outcome(&format!("[{source}][0]")), "{source}");
    }
}

#[test]
fn errors_of_syntax_say_where() {
    let at = |source: &str| Expression::compile(source, ["a-b"]).unwrap_err().offset;
    assert_eq!(at("!!!"), 3);
    assert_eq!(at("steps.a-b.status == "), 19);
    assert_eq!(at("a == 'b"), 5);
    assert!(Expression::compile("", []).is_err());
    assert!(Expression::compile(&"a".repeat(5000), []).is_err());
}

/// An attack is refused by what it costs, or answered; a clock is not asked.
#[test]
fn no_expression_can_hang() {
    let numbers: Vec<Value> = (0..2000).map(Value::from).collect();
    let scope = Scope::new().with_step(
        "n",
        step("completed", &"a".repeat(1_000_000), Some(json!({"l": numbers, "s": "x".repeat(100_000)}))),
    );
    let l = "steps.n.result.l";
    let nested = format!("{l}.all(a, {l}.all(b, {l}.all(c, {l}.all(d, a + b + c + d >= 0))))");
    let swallowed = format!("{l}.exists(a, {l}.exists(b, {l}.exists(c, a + b + c < 0))) || true");
    let doubled = (0..14).fold("steps.n.result.s".to_owned(), |inner, depth| {
        format!("[{inner}].map(v{depth}, v{depth} + v{depth})[0]")
    });
    let listed = (0..14).fold(l.to_owned(), |inner, depth| {
        format!("[{inner}].map(v{depth}, [v{depth}, v{depth}, v{depth}])")
    });
    let compared = format!("{l}.all(a, {l} == {l})");
    let patterns = format!("{l}.all(a, 'x'.matches('((x{{0,50}}){{0,50}}' + string(a) + '){{0,50}}'))");
    let copied = format!("{l}.map(a, {l}).map(b, b).map(c, c).size() > 0");
    let attacks = [
        nested.as_str(),
        &swallowed,
        &doubled,
        &listed,
        &compared,
        &patterns,
        &copied,
        "steps.n.content.matches('(a*)*(a*)*(a*)*b')",
    ];
    for source in attacks {
        let outcome = match Expression::compile(source, ["n"]) {
            Ok(compiled) => compiled.evaluate_value(&scope).map(|_| "a value"),
            Err(error) => panic!("{source}: {error}"),
        };
        if source != attacks[7] {
            assert_eq!(outcome, Err(CelError::Budget), "{source}");
        }
    }
}

#[test]
fn deep_and_long_text_is_refused_without_harm() {
    let deep =
        |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
    let attacks = [
        deep("(", ")", 2000),
        deep("[", "]", 1000),
        "!".repeat(3000) + "true",
        "-".repeat(3000) + "1",
        vec!["1"; 2000].join("+"),
        vec!["true"; 800].join("&&"),
        vec!["a?1"; 600].join(":") + ":2",
        "a.".repeat(2000) + "b",
        "a".to_owned() + &"[0]".repeat(1300),
        "x.map(a,".repeat(400),
        "{1:".repeat(1000),
        "size(".repeat(800),
        "[".repeat(4000),
        "'".repeat(4001),
    ];
    for source in attacks {
        // Whatever it is, it is decided, and nothing overflows.
        if let Ok(compiled) = Expression::compile(&source, []) {
            let _ = compiled.evaluate_value(&Scope::new());
        }
    }
}

#[test]
fn templates_put_values_into_text() {
    let render = |text: &str| Template::compile(text, &IDS).unwrap().render(&scope());
    assert_eq!(render("plain"), Ok("plain".to_owned()));
    assert_eq!(render(""), Ok(String::new()));
    assert_eq!(
        render("Deploy ${{ inputs.version }} to ${{item.name}}:${{ item.port }}."),
        Ok("Deploy 1.2 to web:8080.".to_owned())
    );
    assert_eq!(render("${{ steps.list-services.result }}"), Ok(r#"{"services":["a","b"]}"#.to_owned()));
    assert_eq!(render("${{ {'a': {'b': '}}'}}['a']['b'] }}!"), Ok("}}!".to_owned()));
    assert_eq!(render("a $${{ not this }} b"), Ok("a ${{ not this }} b".to_owned()));
    assert_eq!(render("$ {{ x }} $x ${x} {{ x }}"), Ok("$ {{ x }} $x ${x} {{ x }}".to_owned()));
    assert!(matches!(render("${{ inputs.nope }}"), Err(NoValue { error: CelError::MissingKey { .. }, .. })));
    assert!(Template::compile("open ${{ inputs.x", &IDS).is_err());
    assert_eq!(Template::compile("ab ${{ }}", &IDS).unwrap_err().offset, 3);
    assert_eq!(Template::compile("ab ${{ 1 + }}", &IDS).unwrap_err().offset, 10);
}

/// Whatever the documentation, the examples and the fixtures of version 1 write, by where it stands there.
#[test]
fn every_expression_that_documents_of_the_format_are_known_to_use_can_be_evaluated() {
    let done =
        |result: Value| step("completed", "PASS: LGTM, CHANGES_REQUESTED, error, unhealthy", Some(result));
    let finding = json!({"severity": "critical"});
    let steps = [
        ("design", json!({"features": ["authentication"], "modules": ["auth"]})),
        ("test", json!({"passed": false})),
        ("config", json!({"allow_skip": true})),
        ("scan", json!({"severity": "critical", "findings": [finding, {"severity": "low"}]})),
        ("run-tests", json!({})),
        ("review", json!({"approved": true})),
        ("implement", json!({})),
        ("health-check", json!({})),
        ("code_review", json!({})),
        ("check", json!({"issues_found": true, "issues": ["a"]})),
        ("tests", json!({})),
        ("precheck", json!({"should_proceed": true, "should_deploy": true})),
        ("classify", json!({"priority": 3})),
        ("build", json!({})),
        ("audit", json!({"passed": false, "warnings_only": true})),
        ("analyze", json!({"severity": "high", "files": ["a.rs"]})),
        ("list-services", json!({"services": ["api"]})),
        ("list_services", json!({"services": ["api"]})),
        ("draft", json!({"length": 101})),
        ("prev", json!({})),
        ("plan", json!({"tasks": [{"name": "a"}]})),
        ("list", json!({"items": [1]})),
    ];
    let last = step(
        "completed",
        "healthy, done, no issues",
        Some(json!({"score": 95, "improvements": 1, "passed": true})),
    );
    let mut scope = Scope::new().with_last(last).with_iteration(3);
    for (id, result) in &steps {
        scope = scope.with_step(*id, done(result.clone()));
    }
    let compiled = |source: &str| {
        Expression::compile(source, steps.iter().map(|(id, _)| *id))
            .unwrap_or_else(|error| panic!("{source}: {error}"))
    };
    for (source, wanted) in [
        ("steps.design.result.features.exists(f, f == 'authentication')", true),
        ("steps.test.status == 'completed' && steps.test.result.passed == true", false),
        ("steps.scan.result.severity == 'critical'", true),
        ("steps.scan.result.findings.exists(f, f.severity == 'critical')", true),
        ("steps.run-tests.status == 'completed'", true),
        ("steps.review.content.contains('LGTM')", true),
        ("steps.implement.status == 'completed'", true),
        ("steps.health-check.content.contains('unhealthy')", true),
        ("steps.design.status == 'completed'", true),
        ("steps.code_review.content.contains('CHANGES_REQUESTED')", true),
        ("steps.check.status == 'completed'", true),
        ("steps.tests.status == 'completed' && steps.tests.content.contains('PASS')", true),
        (
            "steps.test.status == 'completed' && (steps.test.result.passed == true || steps.config.result.allow_skip == true)",
            true,
        ),
        ("steps.scan.status != 'skipped'", true),
        ("steps.precheck.result.should_proceed", true),
        ("steps.precheck.result.should_deploy == true", true),
        ("steps.classify.result.priority >= 3", true),
        ("steps.build.content.contains('error')", true),
        ("steps.audit.result.passed || steps.audit.result.warnings_only", true),
        ("steps.analyze.result.severity == 'critical'", false),
        ("size(steps.list-services.result.services) > 0", true),
        ("'auth' in steps.design.result.modules", true),
        ("steps.draft.result.length > 100", true),
        ("steps.prev.status == 'completed'", true),
        ("true", true),
        ("false", false),
        ("steps.review.result.approved == true", true),
        ("steps.plan.status == 'completed'", true),
        ("has(steps.analyze.result.severity) && steps.analyze.result.severity == 'high'", true),
        ("content.contains('healthy')", true),
        ("content.contains('done')", true),
        ("content.contains('no issues')", true),
        ("result.score >= 95", true),
        ("iteration >= 3 && result.improvements < 2", true),
        ("iteration > 2", true),
        ("result.passed == true", true),
        ("result.size() == 0", false),
        ("status == \"completed\"", true),
    ] {
        assert_eq!(compiled(source).evaluate_bool(&scope), Ok(wanted), "{source}");
    }
    for (source, wanted) in [
        ("steps.list-services.result.services", json!(["api"])),
        ("steps.list_services.result.services", json!(["api"])),
        ("steps.plan.result.tasks", json!([{"name": "a"}])),
        ("steps.scan.result.findings.filter(f, f.severity == 'critical')", json!([finding])),
        ("steps.analyze.result.files", json!(["a.rs"])),
        ("steps.list.result.items", json!([1])),
    ] {
        assert_eq!(
            compiled(source).evaluate_list(&scope),
            Ok(wanted.as_array().unwrap().clone()),
            "{source}"
        );
    }
    // What is written there and is no condition: a list has no `contains`, and neither text nor a count is true or false.
    for source in [
        "steps.design.result.features.contains('authentication')",
        "steps.check.result.issues_found && size(steps.check.result.issues_found) > 0",
        "\"hello\"",
        "undefined_var > 0",
    ] {
        let outcome =
            Expression::compile(source, steps.iter().map(|(id, _)| *id)).map(|it| it.evaluate_bool(&scope));
        assert!(!matches!(outcome, Ok(Ok(_))), "{source}: {outcome:?}");
    }
    assert!(Expression::compile("!!!invalid (", ["a"]).is_err());
}
