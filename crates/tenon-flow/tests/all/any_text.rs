//! No text makes the reader panic, and what it accepts it accepts again in its own words.

use std::path::Path;

use proptest::prelude::*;
use tenon_flow::{Drawing, Expression, LoadOptions, Plan, Scope, Template, clean, load_text, parse};

/// Pieces of documents, put together at random: likelier to get past the first check than letters are.
fn pieces() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "name: n\n",
        "steps:\n",
        "  - id: a\n",
        "    loop:\n",
        "      forEach: [1, *x]\n",
        "&x ",
        "<<: *x\n",
        "agents: {a: {}}\n",
        "{",
        "}",
        "[",
        "]",
        ": ",
        "- ",
        "|\n",
        ">-\n",
        "\"",
        "'",
        "#",
        "\t",
        "\r\n",
        "---\n",
        "...\n",
        "? ",
        "!!str ",
        "%YAML 1.2\n",
        "\u{feff}",
        "\u{202e}",
        "012",
        "~",
        "1e9999",
        "    dependsOn: [a, b]\n",
        "inputs: {type: object}\n",
        "@x",
        "${{ steps.a-b }}",
        "é",
    ]);
    prop::collection::vec(words, 0..24).prop_map(|pieces| pieces.concat())
}

fn expressions() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "steps",
        ".a-b",
        ".a",
        "['a-b']",
        ".result",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        " + ",
        " - ",
        " && ",
        " || ",
        "!",
        "-",
        "1",
        "2.5",
        "'x'",
        "\"",
        "'",
        "\\",
        "r'",
        "'''",
        "has(",
        ".map(x, ",
        ".exists(i, ",
        " ? ",
        " : ",
        ",",
        "item",
        "content",
        "null",
        "true",
        "u",
        "b'a'",
        " in ",
        "é",
        "\n",
        "//",
    ]);
    prop::collection::vec(words, 0..20).prop_map(|pieces| pieces.concat())
}

/// What the fuzz targets start from.
#[test]
fn the_corpora_are_read() {
    let corpus = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        let files = std::fs::read_dir(folder).unwrap();
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect::<Vec<String>>()
    };
    let documents = corpus("flow_document");
    assert!(documents.len() >= 7);
    for text in documents {
        for file in ["f.yaml", "f.json"] {
            if let Ok(document) = parse(&text, Path::new(file)) {
                Plan::of(&document.workflow).draw(Drawing::Boxes);
            }
        }
    }
    let mut compiled = 0;
    for text in corpus("flow_expression") {
        if let Ok(expression) = Expression::compile(&text, ["a", "b-c"]) {
            compiled += 1;
            let _ = expression.evaluate_value(&Scope::new());
        }
        checked(&text);
    }
    assert!(compiled >= 10);
}

/// What is said of an expression before it is evaluated stands inside the document, wherever it stands.
fn checked(text: &str) {
    let schema = serde_json::json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": ["string", "integer"]}, "maxItems": 3},
        "n": {"type": "integer", "minimum": 1, "maximum": 9}, "text": {"type": "string", "pattern": "^a"},
        "a-b": {"type": "boolean"}}});
    let document = serde_json::json!({"name": "n", "agents": {"t": {"description": "d", "resultSchema": schema}}, "steps": [
        {"id": "a", "agent": "t"}, {"id": "b-c"}, {"id": "s", "dependsOn": ["a", "b-c"], "condition": text,
        "loop": {"forEach": text, "steps": [{"id": "i", "instructions": format!("${{{{ {text} }}}}")}]}}]});
    let folder = Path::new("/nowhere");
    let loaded = load_text(&document.to_string(), Path::new("f.json"), folder, &LoadOptions::default());
    let found = loaded.map_or_else(|error| error.into_diagnostics(), |loaded| loaded.warnings);
    for problem in found {
        assert!(problem.line == 1 && problem.column >= 1 && !problem.hint.is_empty(), "{text}: {problem}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: tenon_testkit::cases(256), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn documents(text in prop_oneof![pieces(), any::<String>()]) {
        for file in ["f.yaml", "f.json"] {
            match parse(&text, Path::new(file)) {
                Ok(document) => {
                    let again = document.workflow.normalised().to_string();
                    let plan = Plan::of(&document.workflow);
                    for drawing in [Drawing::Boxes, Drawing::Mermaid, Drawing::Svg, Drawing::Json] {
                        plan.draw(drawing);
                    }
                    prop_assert!(!again.is_empty());
                }
                Err(problems) => {
                    prop_assert!(!problems.is_empty());
                    for problem in problems {
                        prop_assert!(problem.line >= 1 && problem.column >= 1);
                        prop_assert!(!problem.to_string().is_empty());
                    }
                }
            }
        }
    }

    #[test]
    fn expressions_and_templates(text in prop_oneof![expressions(), any::<String>()]) {
        let scope = Scope::new();
        if let Ok(expression) = Expression::compile(&text, ["a-b", "a"]) {
            let _ = expression.evaluate_value(&scope);
            let _ = expression.evaluate_bool(&scope);
            let _ = expression.evaluate_list(&scope);
        }
        if let Ok(template) = Template::compile(&format!("x ${{{{ {text} }}}} y"), &["a-b"]) {
            let _ = template.render(&scope);
        }
        checked(&text);
    }

    #[test]
    fn cleaning_twice_is_cleaning_once(text in any::<String>()) {
        if let Ok(once) = clean(&text) {
            prop_assert_eq!(clean(&once), Ok(once.clone()));
        }
    }
}
