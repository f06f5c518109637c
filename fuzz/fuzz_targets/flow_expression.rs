//! Any text as an expression: compiled or not, evaluated or refused, within its budget.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tenon_flow::{Expression, Scope, StepView, Template};

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
    if let Ok(template) = Template::compile(text, &["a", "b-c"]) {
        let _ = template.render(&scope);
    }
});
