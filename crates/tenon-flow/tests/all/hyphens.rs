//! Ids with hyphens, with white space and brackets anywhere: what `steps["a-b"]` gives, `steps . a-b` gives.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use tenon_flow::{Expression, Scope, StepView};

const IDS: [&str; 6] = ["a", "a-b", "a-b-c", "b", "in-ner", "x-1"];

fn scope() -> Scope {
    let mut scope = Scope::new();
    for (number, id) in IDS.iter().enumerate() {
        let result = json!({"n": number * 7 + 1, "a-b": id, "list": [number, 2]});
        scope.add_step(*id, Arc::new(StepView::new("completed", *id, Some(result))));
    }
    scope
}

/// A text with the ids in brackets, and the same with dots and whatever may stand between.
#[derive(Clone, Debug)]
struct Both {
    plain: String,
    dotted: String,
}

impl Both {
    fn map(self, with: impl Fn(&str) -> String) -> Both {
        Both { plain: with(&self.plain), dotted: with(&self.dotted) }
    }

    fn and(self, other: Both, with: impl Fn(&str, &str) -> String) -> Both {
        Both { plain: with(&self.plain, &other.plain), dotted: with(&self.dotted, &other.dotted) }
    }
}

fn space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", " ", "\n  ", "\t", "\r\n"])
}

fn step() -> impl Strategy<Value = Both> {
    let names =
        prop::sample::select(vec!["steps", "(steps)", "( steps )", "((steps))", ".steps", "(\n.steps)"]);
    (names, space(), space(), prop::sample::select(IDS.to_vec())).prop_map(|(steps, before, after, id)| {
        Both { plain: format!("steps[\"{id}\"]"), dotted: format!("{steps}{before}.{after}{id}") }
    })
}

fn number() -> impl Strategy<Value = Both> {
    let leaf = prop_oneof![
        (step(), space()).prop_map(|(step, space)| step.map(|step| format!("{step}{space}.result.n"))),
        (step(), space()).prop_map(|(step, space)| step.map(|step| format!("size({space}{step}.content)"))),
        (step(), step()).prop_map(|(list, at)| {
            list.and(at, |list, at| format!("{list}.result.list[{at}.result.n > 3 ? 0 : 1]"))
        }),
        (step(), step()).prop_map(|(list, other)| {
            list.and(other, |list, other| {
                format!("size({list}.result.list.filter(x, x < {other}.result.n && has({other}.result.n)))")
            })
        }),
        step().prop_map(|step| step
            .map(|step| format!("(has({step}.result.nope) ? 1 : 'steps.a-b' in [{step}.content] ? 2 : 3)"))),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        let signs = prop::sample::select(vec!["+", "-", "*", " - ", "\n-"]);
        prop_oneof![
            (inner.clone(), signs, inner.clone())
                .prop_map(|(left, sign, right)| left.and(right, |left, right| format!("{left}{sign}{right}"))),
            inner.prop_map(|inner| inner.map(|inner| format!("({inner})"))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: tenon_testkit::cases(512), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn dots_mean_what_brackets_mean(both in number()) {
        let value = |text: &str| Expression::compile(text, IDS).unwrap_or_else(|error| panic!("{text}: {error}")).evaluate_value(&scope());
        prop_assert_eq!(value(&both.dotted), value(&both.plain), "{:?}", both);
    }

    /// Whatever is written, it is read or refused.
    #[test]
    fn nothing_breaks_it(parts in prop::collection::vec(prop::sample::select(vec![
        "steps", ".", "a-b", "a", "-", "b", " ", "\n", "(", ")", "[", "]", "'", "\"", "has", "in", "x-1", "\\", "é", "//", ",", "'a-b'", "result",
    ]), 0..24)) {
        let text = parts.concat();
        if let Ok(expression) = Expression::compile(&text, IDS) {
            let _ = expression.evaluate_value(&scope());
        }
    }
}
