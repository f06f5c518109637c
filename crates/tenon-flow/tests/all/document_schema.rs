//! The published schema: as it is published, and as it judges.

use std::path::{Path, PathBuf};

use tenon_contract::Schema;
use tenon_flow::{OBJECTS, document_schema, parse};

#[test]
fn the_published_file_is_the_schema() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas/flow-document.json");
    let text = format!("{:#}\n", document_schema());
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "UPDATE_SCHEMAS=1 rewrites it");
}

#[test]
fn it_accepts_what_the_reader_accepts_and_refuses_what_has_the_wrong_shape() {
    let schema = Schema::compile(&document_schema().to_string()).unwrap();
    let fits = |document: &str| schema.check(document).is_ok();
    let full = r#"{"name": "n", "description": "d", "version": 1,
        "agents": {"a": {"description": "d", "prompt": "p", "model": "m", "tools": ["read"], "disallowedTools": [], "maxTurns": 0, "temperature": 2.0, "topP": 0, "resultSchema": {"type": "object"}}},
        "includes": {"x": "x.yaml"}, "inputs": {"type": "object"},
        "steps": [{"id": "s", "agent": "a", "instructions": "i", "dependsOn": [], "contextFiles": ["f"], "model": "m", "timeout": "1h30s", "retries": 1, "maxRetries": 0, "condition": "true",
            "loop": {"maxIterations": 2, "until": "true", "untilAgent": "a", "delay": "5s", "outputMode": "last", "maxConcurrency": 0, "steps": [{"id": "i"}]}},
            {"id": "e", "loop": {"forEach": [1, {}]}}, {"id": "n", "include": "x"}, {"id": "q", "approve": "Go?"},
            {"id": "r", "condition": "true", "approve": {"message": "Go?", "timeout": "1h", "onTimeout": "fail", "onDeny": "continue", "data": {"type": "object"}}}],
        "outputs": {"o": "steps.s.content"}, "options": {"maxConcurrency": 1, "onStepFailure": "abort", "timeout": "1m", "stepTimeout": "1s", "isolation": "worktree", "scheduler": "least-busy", "maxRetries": 1},
        "budget": {"maxUsd": 1.5, "maxTokens": 10, "maxTurns": 3}, "prices": {"m": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}}, "$schema": "./flow-document.json"}"#;
    assert!(fits(full));
    for object in OBJECTS {
        for field in object.fields {
            assert!(full.contains(&format!("\"{}\"", field.name)), "`{}` is not in the document", field.name);
        }
    }
    for wrong in [
        r#"{"steps": [{"id": "s"}]}"#,
        r#"{"name": "n", "steps": []}"#,
        r#"{"name": "n", "steps": [{"id": "S"}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "timeout": "30"}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "loop": {}}]}"#,
        r#"{"name": "n", "version": 0, "steps": [{"id": "s"}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": null}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": " "}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": {"timeout": "1h"}}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": {"message": ""}}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": true}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": "Go?", "instructions": "i"}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": "Go?", "include": "x.yaml"}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": "Go?", "loop": {"maxIterations": 1}}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": "Go?", "timeout": "1h"}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": "Go?", "retries": 1}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": {"message": "Go?", "onTimeout": "deny"}}]}"#,
        r#"{"name": "n", "steps": [{"id": "s", "approve": {"message": "Go?", "timeout": "1h", "onTimeout": "approve", "data": {"type": "object"}}}]}"#,
        r#"{"name": "n", "extra": 1, "steps": [{"id": "s"}]}"#,
        r#"{"name": "n", "agents": {"a": {}}, "steps": [{"id": "s"}]}"#,
    ] {
        assert!(!fits(wrong), "{wrong}");
        assert!(parse(wrong, Path::new("f.json")).is_err(), "{wrong}");
    }
}
