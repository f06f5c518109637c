//! Approval steps in documents: what is wrong with one, and how a plan shows it. What they do is in `flow_approve.rs`.

use super::flow_approve::{GATED, flow};
use super::flow_resume::place;

#[test]
fn what_is_wrong_with_an_approval_is_told_with_its_place() {
    let step =
        |step: &str| format!("name: x\nagents: {{w: {{description: d}}}}\nsteps:\n  - id: gate\n{step}");
    let table = [
        ("    approve: Go?\n    agent: w\n", "6:12", "approve_conflict"),
        ("    approve: Go?\n    instructions: Do it.\n", "6:19", "approve_conflict"),
        ("    approve: Go?\n    loop: {maxIterations: 2}\n", "6:11", "approve_conflict"),
        ("    approve: Go?\n    include: other.yaml\n", "6:14", "approve_conflict"),
        ("    approve: Go?\n    timeout: 1h\n", "6:14", "approve_conflict"),
        ("    approve: Go?\n    retries: 2\n", "6:14", "approve_conflict"),
        ("    approve: Go?\n    model: m\n", "6:12", "approve_conflict"),
        ("    approve: {message: Go?, onTimeout: deny}\n", "5:40", "validation"),
        ("    approve: {message: Go?, timeout: 1h, onTimeout: never}\n", "5:53", "validation"),
        (
            "    approve: {message: Go?, timeout: 1h, onTimeout: approve, data: {type: object}}\n",
            "5:53",
            "approve_conflict",
        ),
        ("    approve: {message: Go?, data: {type: thing}}\n", "5:36", "schema_invalid"),
        ("    approve: {message: '${{ steps.nobody.content }}'}\n", "5:", "cel_unknown_step"),
        ("    approve: {}\n", "5:14", "validation"),
        ("    approve: ''\n", "5:14", "validation"),
        ("    approve:\n", "5:5", "validation"),
        ("    approve: true\n", "5:14", "validation"),
        ("    approve: [a]\n", "5:14", "validation"),
        ("    approve: {message: Go?, prompt: x}\n", "5:29", "unknown_field"),
        ("    approval: Go?\n", "5:5", "unknown_field"),
    ];
    for (text, at, code) in table {
        let place = place(&step(text));
        let run = flow(&place, &["validate", "flow.yaml", "--format", "json"]);
        let problems = run.assert_code(52).json()["diagnostics"].clone();
        let told: Vec<String> = problems
            .as_array()
            .unwrap()
            .iter()
            .map(|it| format!("{}:{} {}", it["line"], it["column"], it["code"].as_str().unwrap()))
            .collect();
        let is_told = told.iter().any(|told| told.starts_with(at) && told.ends_with(code));
        assert!(is_told, "{text}: {told:?}\n{run}");
        assert!(
            problems
                .as_array()
                .unwrap()
                .iter()
                .all(|it| it["hint"].as_str().is_some_and(|it| !it.is_empty()))
        );
    }
    let misread = GATED.replace("result.approved", "result.aproved");
    let run = flow(&place(&misread), &["validate", "flow.yaml"]);
    assert!(run.assert_code(52).stdout.contains("error[cel_unknown_field]"), "{run}");
}

#[test]
fn a_plan_shows_who_is_asked() {
    let document = "name: x\nsteps:\n  - id: gate\n    approve: {message: 'Go on?', timeout: 2h}\n";
    let place = place(document);
    for (format, wanted) in [
        ("text", "[approve]"),
        ("text", "gate: asks Go on?"),
        ("text", "gate: deny after 2h"),
        ("mermaid", "s0{{\"gate<br/>#91;approve#93;"),
        ("svg", "[approve]"),
        ("json", "\"kind\": \"approval\""),
        ("json", "\"approve\": \"Go on?\""),
    ] {
        let run = flow(&place, &["plan", "flow.yaml", "--format", format]);
        assert!(run.assert_code(0).stdout.contains(wanted), "{format}: {run}");
    }
}
