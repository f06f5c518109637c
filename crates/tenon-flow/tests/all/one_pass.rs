//! Everything that is wrong is told in one pass, at its place, and nothing that follows from it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tenon_flow::{Diagnostic, LoadError, LoadOptions, document_schema, load, parse};

fn found(document: &str) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("there.yaml"), "name: t\nsteps: [{id: x}]").unwrap();
    let path = folder.path().join("flow.yaml");
    fs::write(&path, document).unwrap();
    match load(&path, &LoadOptions::default()) {
        Ok(loaded) => loaded.warnings,
        Err(LoadError::Invalid(found)) => found,
        Err(error) => panic!("{error}"),
    }
}

/// The code of each, and the word it points at.
fn told(document: &str) -> Vec<String> {
    let word = |one: &Diagnostic| -> String {
        let line = document.lines().nth(one.line as usize - 1).unwrap_or_default();
        let rest = line.chars().skip(one.column as usize - 1);
        rest.take_while(|c| c.is_alphanumeric() || "_.{[".contains(*c)).collect()
    };
    found(document).iter().map(|one| format!("{} {}", one.code.text(), word(one))).collect()
}

#[test]
fn one_problem_hides_no_other() {
    let table: [(&str, &[&str]); 6] = [
        (
            "  - {id: a, include: nofile.yaml, model: m}",
            &["include_missing nofile.yaml", "include_has_model m"],
        ),
        (
            "  - id: b\n    loop: {forEach: [1], until: \"steps.nope.status == 'x'\", untilAgent: ghost}",
            &[
                "foreach_with_until ",
                "cel_unknown_step nope.status",
                "foreach_with_untilagent ghost",
                "untilagent_bad_ref ghost",
            ],
        ),
        (
            "  - id: b\n    loop: {forEach: [1], until: \"iteration > 1 && content == 'x'\"}",
            &["foreach_with_until "],
        ),
        (
            "  - id: c\n    loop:\n      maxIterations: 2\n      steps:\n        - id: n\n          loop: {forEach: steps.nope.result, steps: [{id: z, agent: ghost, dependsOn: [y], condition: 1 +}]}",
            &[
                "nested_loop_prohibited {forEach",
                "cel_unknown_step nope.result",
                "missing_agent ghost",
                "missing_dep y",
                "cel_syntax ",
            ],
        ),
        (
            "  - id: a\n    include: there.yaml\n    loop: {maxIterations: 1, until: steps.nope.x, steps: [{id: q, agent: ghost, condition: 1 +}]}",
            &[
                "include_has_loop {maxIterations",
                "cel_unknown_step nope.x",
                "missing_agent ghost",
                "cel_syntax ",
            ],
        ),
        (
            "  - id: a\n    approve: Go on?\n    loop: {maxIterations: 1, until: steps.nope.x}",
            &["approve_conflict {maxIterations", "cel_unknown_step nope.x"],
        ),
    ];
    for (steps, expected) in table {
        assert_eq!(told(&format!("name: n\nsteps:\n{steps}\n")), expected, "{steps}");
    }
}

#[test]
fn an_include_that_no_step_uses_is_looked_at_as_well() {
    let found =
        found("name: n\nincludes: {a: there.yaml, b: gone.yaml, c: ../out.yaml, d: .}\nsteps: [{id: s}]\n");
    let told: Vec<String> = found.iter().map(|one| format!("{} {}", one.code.text(), one.message)).collect();
    assert_eq!(
        told,
        [
            "include_missing `gone.yaml` cannot be read: there is no such file; no step includes `b`",
            "include_escape `../out.yaml` is outside the folder of the document; no step includes `c`",
            "include_missing `.` cannot be read: it is not a file; no step includes `d`",
        ]
    );
    assert!(!found.iter().any(Diagnostic::is_error));
}

#[test]
fn what_the_format_leaves_empty_is_left_out() {
    let text = "name: n\nagents: {a: {description: d, model: ''}}\nsteps:\n  - {id: s, agent: '', model: '', include: '', timeout: 600h}\n  - {id: l, timeout: 99999999999999999999h, loop: {maxIterations: 1, untilAgent: ''}}\n";
    let document = parse(text, Path::new("flow.yaml")).unwrap_or_else(|found| panic!("{found:?}"));
    let step = &document.workflow.steps[0];
    assert_eq!((&step.agent, &step.model, &step.include), (&None, &None, &None));
    assert_eq!(step.timeout, Some(Duration::from_secs(600 * 3600)));
    assert!(document.workflow.steps[1].timeout > Some(Duration::from_secs(1_000_000_000)));
    assert_eq!(found(text), []);
    let schema = tenon_contract::Schema::compile(&document_schema().to_string()).unwrap();
    let accepts = |step: &str| {
        schema.check(&format!(r#"{{"$schema": "./flow.json", "name": "n", "steps": [{step}]}}"#)).is_ok()
    };
    assert!(accepts(r#"{"id": "s", "agent": "", "model": "", "include": "", "timeout": "600h"}"#));
    assert!(accepts(r#"{"id": "s", "agent": "", "model": "", "include": "x.yaml"}"#));
    assert!(accepts(r#"{"id": "s", "agent": "a", "include": ""}"#));
    assert!(accepts(r#"{"id": "s", "approve": "Go on?", "include": "", "agent": ""}"#));
    assert!(accepts(r#"{"id": "s", "loop": {"forEach": [1], "untilAgent": ""}}"#));
    assert!(!accepts(r#"{"id": "s", "agent": "a", "include": "x.yaml"}"#));
    assert!(!accepts(r#"{"id": "s", "agent": " "}"#));
    let blank = parse("name: n\nsteps: [{id: s, agent: ' '}]", Path::new("flow.yaml")).unwrap_err();
    assert_eq!(blank[0].message, "`agent` must not be empty");
}

#[test]
fn an_editor_may_be_told_where_the_schema_is() {
    let json = r#"{"$schema": "https://example.com/flow.json", "name": "n", "steps": [{"id": "s"}]}"#;
    assert!(parse(json, Path::new("flow.json")).is_ok());
    assert!(parse("$schema: ./flow.json\nname: n\nsteps: [{id: s}]", Path::new("flow.yaml")).is_ok());
    let found =
        parse(r#"{"$schema": 5, "name": "n", "steps": [{"id": "s"}]}"#, Path::new("flow.json")).unwrap_err();
    assert_eq!(found[0].message, "`$schema` must be text, got a number");
    let found = parse("name: n\nsteps: [{id: s, $schema: x}]", Path::new("flow.yaml")).unwrap_err();
    assert_eq!(found[0].code.text(), "unknown_field");
}

#[test]
fn hints_help_and_places_are_right() {
    let table = [
        (
            "name: n\nsteps: [{id: s}]\nbudget: {maxTurns: -1}",
            "3:20 maxTurns must be positive | write 1 or more, or leave it out for no limit",
        ),
        (
            "name: n\nsteps: [{id: s}]\nbudget: {maxTurns: 0}",
            "3:20 maxTurns must be positive | write 1 or more, or leave it out for no limit",
        ),
        (
            "name: n\nsteps:\n  - {id: s, output: x}",
            "3:13 `output` is not a field of a step | what a step gives is `steps.<id>.result` and `.content`; what a run gives stands under `outputs` of the document",
        ),
        (
            "name: n\nversion: 1\nsteps: null",
            "3:1 workflow must have at least one step | each step begins with `- id: …` on a line of its own below `steps:`",
        ),
        (
            "name: n\nsteps: [{id: s}]\noutputs:\n  \"p q\": steps.s.content",
            "4:3 the output `p q` must match ^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$ | begin with a letter or `_`; then letters, digits, `_` and `-`, 64 in all",
        ),
        (
            "name: n\n? [a, b]\n: c\nsteps: [{id: s}]",
            "2:3 a key is text, not a list or a map | write a name before the `:`; text with brackets or braces stands in quotes",
        ),
        (
            "name: n\nsteps: [{id: s, condition: steps.x.status == 'y'}, {agent: ''}]",
            "2:52 step at index 1 has an empty ID | give it a name: `id: …`",
        ),
    ];
    for (document, expected) in table {
        let found = parse(document, Path::new("flow.yaml")).unwrap_err();
        let told: Vec<String> = found
            .iter()
            .map(|one| format!("{}:{} {} | {}", one.line, one.column, one.message, one.hint))
            .collect();
        assert_eq!(told, [expected], "{document}");
    }
    let empty = found("name: n\nsteps: [{id: s, condition: steps.x.status == 'y'}, {agent: ''}]");
    assert!(empty.iter().any(|one| one.message == "there is no step `x` here"), "{empty:?}");
    assert!(!empty.iter().any(|one| one.hint.contains("``")), "{empty:?}");
}

/// Each of them costs a walk through the text it is in: a long list of them ends, and says so.
#[test]
fn more_problems_than_anybody_reads_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let wrong: String = (0..1_500).map(|n| format!("${{{{ steps.no{n}.content }}}}\n")).collect();
    fs::write(folder.path().join("wrong.md"), wrong).unwrap();
    let path = folder.path().join("flow.yaml");
    fs::write(&path, "name: n\nsteps:\n  - {id: a, instructions: \"@wrong.md\"}\n").unwrap();
    let Err(LoadError::Invalid(found)) = load(&path, &LoadOptions::default()) else { panic!() };
    let lines: Vec<u32> = found.iter().map(|one| one.line).collect();
    assert_eq!(lines, (1..=1_001).collect::<Vec<_>>());
    assert!(found[..1_000].iter().all(|one| one.code.text() == "cel_unknown_step"));
    let last = &found[1_000];
    assert_eq!(last.code.text(), "too_large");
    assert_eq!(last.message, "there are 500 more problems like these, which are not shown");
}

/// What a loop's own names do to others.
#[test]
fn names_that_a_loop_takes_are_told() {
    let judge = "agents:\n  j: {description: J, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}\n";
    let table: [(&str, &[&str]); 4] = [
        (
            "maxIterations: 2, untilAgent: j, steps: [{id: judge}]",
            &["`judge` is also what events and reports call the `untilAgent` of this loop"],
        ),
        ("maxIterations: 2, until: 'true', steps: [{id: judge}]", &[]),
        (
            "forEach: [x], steps: [{id: a}, {id: b, dependsOn: [a], condition: steps.a.status == 'completed'}]",
            &["`a` is also a step outside the loop, which is out of sight in here"],
        ),
        (
            "forEach: [x], steps: [{id: a}, {id: b, condition: steps.a.status == 'completed'}]",
            &[
                "`a` is also a step outside the loop, which is out of sight in here",
                "step `a` may not have finished: this step does not depend on it",
            ],
        ),
    ];
    for (repeat, wanted) in table {
        let document = format!(
            "name: n\n{judge}steps:\n  - {{id: a}}\n  - id: l\n    dependsOn: [a]\n    loop: {{{repeat}}}\n"
        );
        let told: Vec<String> = found(&document).into_iter().map(|one| one.message).collect();
        assert_eq!(told, wanted, "{repeat}");
    }
}

/// A name that is there twice hides nothing, in either format.
#[test]
fn names_that_are_there_twice_are_all_told() {
    let document =
        r#"{"name": "n", "name": "m", "steps": [{"id": "a", "id": "b", "condition": "steps.no.status"}]}"#;
    let read = |file: &str| -> Vec<(String, u32)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        fs::write(&path, document).unwrap();
        let Err(LoadError::Invalid(found)) = load(&path, &LoadOptions::default()) else { panic!() };
        found.iter().map(|one| (one.code.text().to_owned(), one.column)).collect()
    };
    let (json, yaml) = (read("flow.json"), read("flow.yaml"));
    assert_eq!(json, yaml);
    let codes: Vec<&str> = json.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!(codes.len(), 3, "{json:?}");
}

/// What is wrong with a file that a document names is said in that file.
#[test]
fn files_that_name_files_are_followed_as_long_as_they_hold_nothing_else() {
    let table = [
        ("@there.md", None),
        ("  @there.md\n", None),
        ("\u{feff}@there.md\r\n", None),
        (
            "\u{feff}@gone.md",
            Some("greet.md:1:1: error[ref_missing]: `gone.md` cannot be read: there is no such file"),
        ),
        // A text that happens to begin like that.
        ("@alice reviews the code.\nBe kind.", None),
        (
            "@gone.md",
            Some("greet.md:1:1: error[ref_missing]: `gone.md` cannot be read: there is no such file"),
        ),
        (
            "\n  @../out.md",
            Some("greet.md:2:3: error[ref_escape]: `../out.md` is outside the folder of the document"),
        ),
        ("@greet.md", Some("greet.md:1:1: error[ref_missing]: @-ref cycle detected at `greet.md` (depth 1)")),
    ];
    for (text, wanted) in table {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("there.md"), "There.").unwrap();
        fs::write(folder.path().join("greet.md"), text).unwrap();
        let path = folder.path().join("flow.yaml");
        fs::write(&path, "name: n\nsteps: [{id: a, instructions: '@greet.md'}]").unwrap();
        let told = match load(&path, &LoadOptions::default()) {
            Ok(_) => None,
            Err(LoadError::Invalid(found)) => {
                let all = found[0].to_string().replace(&format!("{}/", folder.path().display()), "");
                assert_eq!(found.len(), 1, "{all}");
                all.lines().next().map(str::to_owned)
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(told.as_deref(), wanted, "{text:?}");
    }
}
