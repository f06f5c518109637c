//! Any text as an expression: compiled or not, checked in a document, evaluated or refused, within its budget.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tenon_flow::{Expression, LoadOptions, Scope, StepView, Template, load_text};

fuzz_target!(|text: &str| {
    let result = json!({"list": [1, 2.5, "x", null, {"k": [true]}], "text": "abc", "n": 7});
    let scope = Scope::new()
        .with_step("a", Arc::new(StepView::new("completed", "content", Some(result))))
        .with_step("b-c", Arc::new(StepView::new("skipped", "", None)));
    if let Ok(expression) = Expression::compile(text, ["a", "b-c"]) {
        let _ = expression.evaluate_value(&scope);
        let _ = expression.evaluate_bool(&scope);
        let _ = expression.evaluate_list(&scope);
    }
    let schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": ["string", "integer"]}, "maxItems": 3},
        "n": {"type": "integer", "minimum": 1}, "text": {"type": "string"}, "my-field": {}}});
    let document = json!({"name": "n", "agents": {"t": {"description": "d", "resultSchema": schema}}, "steps": [
        {"id": "a", "agent": "t"}, {"id": "b-c"},
        {"id": "s", "dependsOn": ["a", "b-c"], "condition": text, "loop": {"forEach": text}}]});
    let folder = Path::new("/nowhere");
    let loaded = load_text(&document.to_string(), Path::new("f.json"), folder, &LoadOptions::default());
    let found = loaded.map_or_else(|error| error.into_diagnostics(), |loaded| loaded.warnings);
    assert!(found.iter().all(|problem| problem.line == 1 && problem.column >= 1));
    if let Ok(template) = Template::compile(text, &["a", "b-c"]) {
        let _ = template.render(&scope);
    }
});
