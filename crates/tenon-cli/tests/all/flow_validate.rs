//! `tenon flow validate` and `tenon flow plan` as programs and people use them.

use tenon_testkit::json;

use crate::tenon;

const VALID: &str = "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a]}]\n";

#[test]
fn valid_documents_are_said_to_be_so() {
    let run = tenon().file("a.yaml", VALID).file("b.json", r#"{"name": "n", "steps": [{"id": "only"}]}"#);
    let run = run.args(["flow", "validate", "a.yaml", "b.json"]).run();
    assert_eq!(run.assert_code(0).stdout, "ok: a.yaml (2 steps)\nok: b.json (1 step)\n");
    assert_eq!(run.stderr, "");
    let run = tenon().file("a.yaml", VALID).args(["flow", "validate", "--format", "json", "a.yaml"]).run();
    assert_eq!(run.assert_code(0).json(), json!({"diagnostics": []}));
}

#[test]
fn one_document_that_is_not_valid_is_enough() {
    let run = tenon()
        .file("a.yaml", VALID)
        .file("b.yaml", "name: n\nsteps: [{id: a, dependsOn: [c]}]\n")
        .args(["flow", "validate", "a.yaml", "b.yaml", "--format", "json"])
        .run();
    let found = &run.assert_code(52).json()["diagnostics"][0];
    let expected = json!({
        "code": "missing_dep", "category": "missing_dep", "severity": "error", "file": "b.yaml",
        "line": 2, "column": 29, "message": "`c` (referenced by step `a`) is not a step",
        "hint": "there is no other step here: leave `dependsOn` out"
    });
    assert_eq!(*found, expected);
}

#[test]
fn a_document_that_is_not_there_is_bad_input() {
    for command in ["validate", "plan"] {
        let run = tenon().args(["flow", command, "missing.yaml"]).run();
        assert_eq!((run.code, run.stdout.as_str()), (42, ""), "{run}");
        assert!(run.stderr.contains("`missing.yaml` cannot be read"), "{run}");
    }
}

#[test]
fn a_document_that_cannot_be_read_hides_nothing_of_the_others() {
    let wrong = "name: n\nsteps: [{id: a, dependsOn: [c]}]\n";
    let validate = |format: &str, files: &[&str]| {
        let tenon = tenon().file("a.yaml", VALID).file("b.yaml", wrong);
        let tenon = tenon.file("large.yaml", "# too much\n".repeat(100_000));
        tenon.args(["flow", "validate", "--format", format]).args(files).run()
    };
    let table: &[(&[&str], i32, &[&str])] = &[
        (&["missing.yaml", "a.yaml"], 42, &["missing.yaml ref_missing"]),
        (&["b.yaml", "missing.yaml"], 52, &["b.yaml missing_dep", "missing.yaml ref_missing"]),
        (&["large.yaml"], 52, &["large.yaml too_large"]),
    ];
    for (files, code, wanted) in table {
        let report = validate("json", files).assert_code(*code).json();
        let text = |one: &serde_json::Value, key: &str| one[key].as_str().unwrap().to_owned();
        let found = report["diagnostics"].as_array().unwrap().iter();
        let found: Vec<String> =
            found.map(|one| format!("{} {}", text(one, "file"), text(one, "code"))).collect();
        assert_eq!(found, *wanted, "{files:?}");
    }
    let run = validate("text", &["missing.yaml", "b.yaml", "a.yaml"]);
    let stdout = &run.assert_code(52).stdout;
    assert!(stdout.contains("error[missing_dep]") && stdout.ends_with("ok: a.yaml (2 steps)\n"), "{run}");
    assert!(run.stderr.contains("`missing.yaml` cannot be read"), "{run}");
}

/// Models only warn: which one answers is settled when a run begins.
#[test]
fn a_model_nobody_can_reach_is_a_warning() {
    let text = "name: n\nsteps: [{id: a, model: nowhere/large}]\n";
    let run =
        tenon().file("a.yaml", text).env("OPENAI_API_KEY", "k").args(["flow", "validate", "a.yaml"]).run();
    let stdout = &run.assert_code(0).stdout;
    assert!(stdout.contains("warning[unknown_model]: the model `nowhere/large` may not answer"), "{run}");
    assert!(stdout.ends_with("ok: a.yaml (1 step)\n"), "{run}");
}

#[test]
fn a_plan_is_drawn_or_refused() {
    let drawn = |format: &str| {
        let run = tenon().file("a.yaml", VALID).args(["flow", "plan", "a.yaml", "--format", format]).run();
        run.assert_code(0).stdout.clone()
    };
    assert!(drawn("text").starts_with("n (2 steps)\n\n┌────────┐\n│ a      │\n└────────┘\n"));
    assert!(drawn("mermaid").ends_with("  s0 --> s1\n"));
    assert!(drawn("svg").starts_with("<svg "));
    assert!(drawn("json").contains("\"from\": \"a\""));
    let run = tenon().file("a.yaml", "name: n\n").args(["flow", "plan", "a.yaml"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (52, ""), "{run}");
    assert!(run.stderr.contains("error[missing_steps]"), "{run}");
}

#[test]
fn the_schema_of_documents_is_printed() {
    let run = tenon().args(["schema", "print", "flow-document"]).run();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/flow-document.json");
    assert_eq!(run.assert_code(0).stdout, std::fs::read_to_string(root).unwrap());
}
