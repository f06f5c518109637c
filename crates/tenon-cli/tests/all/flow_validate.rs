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
fn a_plan_shows_every_include_and_every_timeout() {
    let inner = "name: i\nsteps: [{id: q, timeout: 90s}, {id: r, dependsOn: [q]}]\n";
    let outer = "name: o\nsteps: [{id: a, include: i.yaml, timeout: 1h}, {id: b, include: i.yaml}, {id: c, timeout: 0s}]\n";
    let plan = |format: &str| {
        let tenon = tenon().file("o.yaml", outer).file("i.yaml", inner);
        tenon.args(["flow", "plan", "--format", format, "o.yaml"]).run()
    };
    let graph = plan("json").assert_code(0).json();
    let timeouts = ["/steps/0", "/steps/0/inner/steps/0", "/steps/0/inner/steps/1", "/steps/2"]
        .map(|pointer| graph.pointer(pointer).unwrap()["timeout"].clone());
    assert_eq!(timeouts, [json!("1h"), json!("1m30s"), json!(null), json!(null)]);
    assert!(graph["steps"][0]["inner"].is_object());
    assert_eq!(graph["steps"][1]["inner"], graph["steps"][0]["inner"]);
    assert_eq!(plan("mermaid").assert_code(0).stdout.matches("subgraph").count(), 2);
    let drawn = plan("text").stdout;
    assert!(drawn.contains("in a: i (2 steps)") && drawn.contains("in b: i (2 steps)"), "{drawn}");
    assert_eq!(plan("svg").stdout.matches(">q<").count(), 2);
}

/// Documents that include documents a hundred times each, five deep: some of it is drawn, and everything ends.
#[test]
fn documents_that_include_many_times_over_are_gone_into_once() {
    let leaf = "name: e\nagents: {x: {description: X, tools: [bash]}}\nsteps: [{id: a, agent: x}]\n";
    let given = || {
        (0..5).fold(tenon().file("l5.yaml", leaf), |tenon, level| {
            let steps: Vec<String> =
                (0..100).map(|n| format!("{{id: s{n}, include: l{}.yaml}}", level + 1)).collect();
            tenon.file(format!("l{level}.yaml"), format!("name: l{level}\nsteps: [{}]\n", steps.join(", ")))
        })
    };
    given().args(["flow", "validate", "l0.yaml"]).run().assert_code(0);
    let run = given().args(["flow", "plan", "--format", "json", "l0.yaml"]).run();
    let steps = run.assert_code(0).stdout.matches("\"id\"").count();
    assert!((1_900..=2_000).contains(&steps), "{steps}");
    // What is left out is said, and how much.
    let graph = run.json();
    let left_out = left_out(&graph);
    assert!(left_out > 100, "{left_out}");
    assert_eq!(graph["includesLeftOut"], json!(left_out));
    for format in ["text", "mermaid", "svg"] {
        let drawn = given().args(["flow", "plan", "--format", format, "l0.yaml"]).run().stdout;
        let title = format!("l0 (100 steps, without {left_out} included documents)");
        assert!(drawn.contains(&title), "{format}: {}", &drawn[..500]);
        let told = match format {
            "mermaid" => "include l2.yaml #40;left out#58; 100 steps#41;",
            _ => "include l2.yaml (left out: 100 steps)",
        };
        assert!(drawn.contains(told), "{format}: {}", &drawn[..2_000]);
    }
    let run = given().env("OPENAI_API_KEY", "k").args(["flow", "run", "l0.yaml"]).run();
    let refused = "the step `s0.s0.s0.s0.s0.a` lists the tool `bash`";
    assert_eq!(run.assert_code(42).stderr.matches(refused).count(), 1, "{run}");
}

/// Includes of a plan that have no plan of their own.
fn left_out(graph: &tenon_testkit::Value) -> usize {
    let of_step = |step: &tenon_testkit::Value| match &step["inner"] {
        inner if inner.is_object() => left_out(inner),
        _ => usize::from(step["kind"] == "include"),
    };
    graph["steps"].as_array().unwrap().iter().map(of_step).sum()
}

/// Documents may hold what would act on a terminal: it is shown by its number, in its line.
#[test]
fn nothing_in_a_document_acts_on_a_terminal() {
    let document = r#"
name: "n\e[31m\nx"
agents:
  w: {description: "d\e[31m", model: "m1\e[2J"}
steps:
  - id: a
    agent: w
    condition: "'\e[31mx\a'\n!= 'y'"
    contextFiles: ["f\e[31m\n.txt"]
  - id: b
    loop: {forEach: "['\e[2J',\n'b\tc', '\x9b2J']"}
  - id: c
    dependsOn: [a]
    loop: {maxIterations: 1, until: "content != '\e]0;title\a'"}
  - id: q
    approve: {message: "Sure \e[31m?"}
  - id: e
    include: "s\e[31m.yaml"
"#;
    let inner = "name: \"s\\nt\\e[31m\"\nsteps: [{id: x}]\n";
    let given = || tenon().file("a.yaml", document).file("s\u{1b}[31m.yaml", inner);
    let acts = |text: &str| text.contains(|c: char| c.is_control() && c != '\n');
    for format in ["text", "mermaid", "svg"] {
        let run = given().args(["flow", "plan", "a.yaml", "--format", format]).run();
        assert!(!acts(&run.assert_code(0).stdout), "{format}: {run}");
    }
    let drawn = given().args(["flow", "plan", "a.yaml"]).run().stdout;
    for line in [
        "n[31m x (5 steps)",
        "a: if '\\u{1b}[31mx\\u{7}' != 'y'",
        "b: forEach ['\\u{1b}[2J', 'b c', '\\u{9b}2J']",
        "c: until content != '\\u{1b}]0;title\\u{7}'",
        "q: asks Sure [31m?",
        "e: include s\\u{1b}[31m.yaml",
        "in e: s t[31m (1 step)",
    ] {
        assert!(drawn.lines().any(|shown| shown == line), "{line}: {drawn}");
    }
    let run = given().args(["flow", "validate", "a.yaml"]).run();
    assert!(!acts(&run.assert_code(0).stdout), "{run}");
    assert!(run.stdout.contains("the context file `f\\u{1b}[31m\\u{a}.txt` cannot be read"), "{run}");
    let name = "b\u{1b}[31m\nok: c.yaml (1 step).yaml";
    let run = tenon().file(name, "name: n\n").args(["flow", "validate", name]).run();
    let lines: Vec<&str> = run.assert_code(52).stdout.lines().collect();
    assert!(!acts(&run.stdout) && !lines.iter().any(|line| line.starts_with("ok: ")), "{run}");
}

/// What is there and is no UTF-8 text is not valid; where it stops being text is said, in the file that it is in.
#[test]
fn files_that_are_not_utf_8_are_not_valid() {
    let latin = b"name: n\nsteps: [{id: a, instructions: \"caf\xe9\"}]\n".to_vec();
    let utf_16: Vec<u8> =
        std::iter::once(0xfeff).chain(VALID.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let plain = "save the file as UTF-8; it may be in an older encoding, such as Latin-1";
    let marked = "it begins with the byte order mark of UTF-16: save it as UTF-8, or convert it (`iconv -f UTF-16 -t UTF-8`)";
    let (byte, wide) = ("the byte 0xE9 is no UTF-8 text", "the file is UTF-16, and must be UTF-8 text");
    let include = "name: o\nincludes: {i: parts/i.yaml}\nsteps: [{id: a, include: i}, {id: b, include: parts/i.yaml}]\n";
    let reference = "name: o\nsteps: [{id: a, instructions: \"@parts/i.yaml\"}]\n";
    let table: [(&[u8], &[u8], _, _, _, _, _); 6] = [
        (&latin, b"", "a.yaml", 2, 35, byte, plain),
        (&utf_16, b"", "a.yaml", 1, 1, wide, marked),
        (include.as_bytes(), &latin, "parts/i.yaml", 2, 35, byte, plain),
        (include.as_bytes(), &utf_16, "parts/i.yaml", 1, 1, wide, marked),
        (reference.as_bytes(), &latin, "parts/i.yaml", 2, 35, byte, plain),
        (reference.as_bytes(), &utf_16, "parts/i.yaml", 1, 1, wide, marked),
    ];
    for (document, other, file, line, column, message, hint) in table {
        let given = || tenon().file("a.yaml", document).file("parts/i.yaml", other);
        let run = given().args(["flow", "validate", "--format", "json", "a.yaml"]).run();
        let expected = json!({"diagnostics": [{
            "code": "validation", "category": "validation", "severity": "error", "file": file, "line": line,
            "column": column, "message": message, "hint": hint
        }]});
        assert_eq!(run.assert_code(52).json(), expected, "{run}");
        given().args(["flow", "plan", "a.yaml"]).run().assert_code(52);
        let run = given().env("OPENAI_API_KEY", "k").args(["flow", "run", "a.yaml"]).run();
        let told = format!("{file}:{line}:{column}: error[validation]: {message}");
        assert!(run.assert_code(52).stderr.contains(&told), "{run}");
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
