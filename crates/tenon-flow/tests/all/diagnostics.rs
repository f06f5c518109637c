//! What a person sees: whole reports, compared with files. `UPDATE_GOLDEN=1` rewrites them.

use std::path::{Path, PathBuf};

use tenon_flow::{Diagnostic, Drawing, LoadError, LoadOptions, Plan, load, parse};
use unicode_width::UnicodeWidthStr;

fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents")
}

fn compare(file: &str, text: &str) {
    let path = documents().join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{file} differs; UPDATE_GOLDEN=1 rewrites it");
}

fn told(problems: &[Diagnostic]) -> String {
    let root = documents();
    let shown = problems.iter().map(|problem| format!("{problem}\n\n")).collect::<String>();
    shown.replace(&format!("{}/", root.display()), "")
}

#[test]
fn problems_are_shown_with_their_line() {
    for name in ["shape.yaml", "shape.json", "meaning.yaml", "expressions.yaml", "files.yaml"] {
        let path = documents().join(name);
        let problems = match load(&path, &LoadOptions::default()) {
            Err(LoadError::Invalid(problems)) => problems,
            other => panic!("{name}: {other:?}"),
        };
        compare(&format!("{name}.txt"), &told(&problems));
    }
}

#[test]
fn plans_are_drawn() {
    let table = [
        ("review.yaml", Drawing::Boxes, "review.txt"),
        ("review.yaml", Drawing::Mermaid, "review.mmd"),
        ("review.yaml", Drawing::Svg, "review.svg"),
        ("review.yaml", Drawing::Json, "review.json"),
        ("lattice.yaml", Drawing::Boxes, "lattice.txt"),
        ("lattice.yaml", Drawing::Svg, "lattice.svg"),
    ];
    for (name, drawing, golden) in table {
        let text = std::fs::read_to_string(documents().join(name)).unwrap();
        let document = parse(&text, Path::new(name)).unwrap();
        compare(golden, &Plan::of(&document.workflow).draw(drawing));
    }
}

/// Bodies of loops with their edges, included documents, conditions, items and rounds are in all of them.
#[test]
fn plans_are_whole() {
    let workflow = load(&documents().join("nested.yaml"), &LoadOptions::default()).unwrap();
    let plan = Plan::of_loaded(&workflow);
    for (drawing, golden) in [
        (Drawing::Boxes, "nested.txt"),
        (Drawing::Mermaid, "nested.mmd"),
        (Drawing::Svg, "nested.svg"),
        (Drawing::Json, "nested.json"),
    ] {
        compare(golden, &plan.draw(drawing));
    }
    compare("nested-narrow.txt", &plan.draw_within(32));
}

/// Whatever there is to draw, no line is longer than the terminal is wide.
#[test]
fn drawings_stay_within_the_terminal() {
    let wide: String =
        (0..40).map(|n| format!("  - {{id: step-number-{n}, dependsOn: [first]}}\n")).collect();
    let wide = format!("name: wide\nsteps:\n  - {{id: first}}\n{wide}");
    let long = format!(
        "name: 流程流程流程流程流程流程流程流程\nsteps:\n  - {{id: {}, condition: \"'条件条件条件条件条件' != ''\"}}\n",
        "a".repeat(64)
    );
    let texts = [wide, long].into_iter().chain(
        ["lattice.yaml", "nested.yaml"].map(|name| std::fs::read_to_string(documents().join(name)).unwrap()),
    );
    let alone = texts.map(|text| Plan::of(&parse(&text, Path::new("f.yaml")).unwrap().workflow));
    let nested = load(&documents().join("nested.yaml"), &LoadOptions::default()).unwrap();
    for plan in alone.chain([Plan::of_loaded(&nested)]) {
        for columns in [2, 3, 5, 8, 13, 20, 21, 24, 40, 79, 120, 200] {
            let drawn = plan.draw_within(columns);
            let longest = drawn.lines().map(UnicodeWidthStr::width).max().unwrap();
            assert!(longest <= columns, "{longest} of {columns}:\n{drawn}");
            // A long name goes on in the next line.
            let whole: String = drawn.split_whitespace().collect();
            for step in &plan.steps {
                assert!(whole.contains(&step.id), "{} is missing in {columns} columns:\n{drawn}", step.id);
            }
        }
    }
}

#[test]
fn drawings_escape_what_a_name_may_hold() {
    let text = "name: \"a <b> & \\\"c\\\" ]]> `d`\"\nsteps: [{id: a}]";
    let plan = Plan::of(&parse(text, Path::new("f.yaml")).unwrap().workflow);
    let svg = plan.draw(Drawing::Svg);
    assert!(svg.contains("a &lt;b&gt; &amp; &quot;c&quot; ]]&gt; `d` (1 step)"), "{svg}");
    assert!(plan.draw(Drawing::Mermaid).starts_with("---\ntitle: \"a <b> & \\\"c\\\" ]]> `d`\"\n---\n"));
}
