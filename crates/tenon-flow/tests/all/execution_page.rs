//! The page on execution says what happens: its tables are read and tried.

use std::collections::BTreeMap;
use std::path::Path;

use tenon_flow::{
    DEFAULT_MAX_CONCURRENCY, MAX_INCLUDE_DEPTH, MAX_ITEMS_AT_A_TIME, Purpose, StepError, StepErrorClass,
    StepOutcome, StepOutput, WorkflowOutcome,
};

use crate::documents::{document, document_with};
use crate::sim::{Sim, failed, said, statuses, submitted};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/concepts/workflow-execution.md");
    std::fs::read_to_string(path).unwrap()
}

/// The rows of the table whose first heading this is, cell by cell.
fn table(heading: &str) -> Vec<Vec<String>> {
    let page = page();
    let mut lines = page.lines().skip_while(|line| !line.starts_with(&format!("| {heading} |")));
    assert!(lines.next().is_some(), "no table begins with `{heading}`");
    lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// A `yaml` block, and what the comment before it says about the world.
fn example(file: &str) -> (String, String) {
    let page = page();
    let (_, rest) = page.split_once(&format!("<!-- file {file} -->\n<!-- when ")).expect("the example");
    let (world, rest) = rest.split_once(" -->\n```yaml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    (text.to_owned(), world.to_owned())
}

fn run(text: &str, world: &str) -> (WorkflowOutcome, Sim) {
    let mut words: BTreeMap<String, Vec<StepOutcome>> = BTreeMap::new();
    if let Some(step) = world.strip_suffix(" fails") {
        words.insert(step.to_owned(), vec![failed(StepErrorClass::Auth, "no")]);
    } else if let Some((step, said_by)) = world.split_once(" says ") {
        words.insert(step.to_owned(), said_by.split(", ").map(said).collect());
    } else if let Some((step, result)) = world.split_once(" submits ") {
        words.insert(step.to_owned(), vec![submitted("", serde_json::from_str(result).unwrap())]);
    } else {
        panic!("`{world}`?");
    }
    Sim::new(document(text)).run(&mut |key, _| match words.get_mut(key.segments()[1].id()) {
        Some(list) if !list.is_empty() => list.remove(0),
        _ => said(""),
    })
}

#[test]
fn the_examples_do_what_the_page_says() {
    let (text, world) = example("release.yaml");
    let wanted: Vec<String> =
        table("step").iter().map(|row| format!("{}: {}", row[0].trim_matches('`'), row[1])).collect();
    assert_eq!(statuses(&run(&text, &world).0), wanted);

    let (text, world) = example("refine.yaml");
    let (outcome, sim) = run(&text, &world);
    assert_eq!((statuses(&outcome), sim.started.len()), (vec!["write: completed".to_owned()], 3));

    let (text, world) = example("services.yaml");
    let (outcome, sim) = run(&text, &world);
    assert_eq!(statuses(&outcome), ["list: completed", "check: completed"]);
    assert_eq!(sim.started, ["run/list@1", "run/check[0]/probe@1", "run/check[0]/judge@1"]);
    let result = outcome.step("check").unwrap().result.as_ref().unwrap().to_value();
    assert_eq!(result["iterations"][0]["item"], "api");
}

/// F4, from the table: `retries: 2` here and there, and a step that never works.
#[test]
fn attempts_do_not_multiply() {
    let (two, none) = ("retries: 2", "retries: 0");
    let run = |files: &[(&str, String)], steps: String| {
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let judge = "agents:\n  j: {description: J, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}\n";
        let text = format!("name: w\n{judge}steps:\n  - {steps}\n");
        let mut tried = 0;
        let (outcome, _) = Sim::new(document_with(&files, &text)).run(&mut |_, request| {
            tried += usize::from(request.purpose == Purpose::Work);
            failed(StepErrorClass::Tool, "no")
        });
        assert_eq!(statuses(&outcome), ["s: failed"], "{text}");
        tried
    };
    let inner = |step: &str| ("inner.yaml", format!("name: i\nsteps:\n  - {step}\n"));
    let outer = ("outer.yaml", format!("name: o\nsteps:\n  - {{id: i, include: inner.yaml, {none}}}\n"));
    let one = |own: &str| inner(&format!("{{id: x, {own}}}"));
    let include = |own: &str| format!("{{id: s, include: inner.yaml, {own}}}");
    let body =
        |own: &str, kind: &str, steps: &str| format!("{{id: s, {own}, loop: {{{kind}, steps: [{steps}]}}}}");
    let (repeat, each) = ("maxIterations: 4, until: 'false'", "forEach: [1]");
    let rows = table("`retries: 2` of");
    assert_eq!(rows.len(), 8);
    for row in rows {
        let tried: Vec<usize> = match row[0].as_str() {
            "the step" => vec![run(&[], format!("{{id: s, {two}}}"))],
            "a loop, whose body is one agent or several steps" => vec![
                run(&[], format!("{{id: s, {two}, loop: {{{repeat}}}}}")),
                run(&[], format!("{{id: s, {two}, loop: {{{each}}}}}")),
                run(&[], format!("{{id: s, {two}, loop: {{maxIterations: 4, untilAgent: j}}}}")),
                run(&[], body(two, repeat, "{id: x}")),
                run(&[], body(two, each, "{id: x}, {id: y, dependsOn: [x]}")),
            ],
            "a loop and a step in its body" => {
                vec![
                    run(&[], body(two, repeat, "{id: x, retries: 2}")),
                    run(&[], body(two, each, "{id: x, retries: 2}")),
                ]
            }
            "an include" => vec![run(&[one(none)], include(two))],
            "an include and a step in it" => vec![run(&[one(two)], include(two))],
            "an include and a step of an include in it" => {
                vec![run(&[one(two), outer.clone()], "{id: s, include: outer.yaml, retries: 2}".into())]
            }
            "an include and a loop in it" => vec![
                run(&[inner("{id: x, retries: 2, loop: {forEach: [1]}}")], include(two)),
                run(&[inner("{id: x, retries: 2, loop: {maxIterations: 4, until: 'false'}}")], include(two)),
                run(&[inner("{id: x, retries: 2, loop: {forEach: [1], steps: [{id: y}]}}")], include(two)),
                run(&[inner("{id: x, loop: {forEach: [1], steps: [{id: y, retries: 2}]}}")], include(two)),
            ],
            "a loop, an include in its body, and a step in that" => vec![
                run(&[one(two)], body(two, each, "{id: i, include: inner.yaml, retries: 2}")),
                run(&[one(none)], body(two, repeat, "{id: i, include: inner.yaml, retries: 2}")),
                run(&[one(two)], body(two, repeat, "{id: i, include: inner.yaml}")),
            ],
            other => panic!("`{other}`?"),
        };
        let wanted: usize = row[1].strip_suffix(" times").unwrap().parse().unwrap();
        assert!(tried.iter().all(|tried| *tried == wanted), "{}: {tried:?}", row[0]);
    }
    // A step beside it that had no attempts of its own does not bring them back.
    let two_steps = [("inner.yaml", "name: i\nsteps:\n  - {id: x}\n  - {id: y, retries: 2}\n".to_owned())];
    assert_eq!(run(&two_steps, include(two)), 4);
}

#[test]
fn every_failure_strategy_does_what_its_row_says() {
    for row in table("`options.onStepFailure`") {
        let strategy = row[0].trim_matches('`');
        let mut sim = Sim::new(document(&format!(
            "name: w\noptions: {{onStepFailure: {strategy}}}\nsteps:\n  - {{id: a}}\n  - {{id: b, dependsOn: [a]}}\n  \
             - {{id: c, dependsOn: [b]}}\n  - {{id: d}}\n"
        )));
        sim.fail("run/a@1", StepErrorClass::Auth);
        sim.stop_cancelled();
        if sim.running() == ["run/d@1"] {
            sim.ok("run/d@1", "");
        }
        let status = row[1].trim_matches('`');
        let others = if row[2] == "run" { "completed" } else { "cancelled" };
        assert_eq!(
            sim.statuses(),
            ["a: failed".to_owned(), format!("b: {status}"), format!("c: {status}"), format!("d: {others}")]
        );
    }
}

#[test]
fn every_class_is_tried_again_as_its_row_says() {
    let mut seen = Vec::new();
    for row in table("class") {
        for name in row[0].split(", ").map(|name| name.trim_matches('`')) {
            let class = StepErrorClass::ALL.into_iter().find(|class| class.name() == name);
            let class = class.unwrap_or_else(|| panic!("`{name}` is no class"));
            seen.push(class);
            let tried = |retryable| {
                let mut sim = Sim::new(document("name: w\nsteps:\n  - {id: a, retries: 1}\n"));
                let error = StepError { retryable, ..StepError::new(class, "no") };
                sim.complete("run/a@1", StepOutcome::Failed { error, output: StepOutput::default() });
                (sim.running(), sim.timers())
            };
            let (running, timers) = tried(None);
            match row[1].as_str() {
                both if both.starts_with("the same where the server failed") => {
                    assert_eq!((running, timers), (vec!["run/a@2".to_owned()], vec![]), "{name}");
                    assert_eq!(tried(Some(true)).1, [("run/a@1~backoff".to_owned(), 500)], "{name}");
                }
                "no" => assert_eq!((running, timers), (vec![], vec![]), "{name}"),
                "at once" => assert_eq!((running, timers), (vec!["run/a@2".to_owned()], vec![]), "{name}"),
                pause if pause.starts_with("after half a second") => {
                    assert_eq!(timers, [("run/a@1~backoff".to_owned(), 500)], "{name}");
                }
                other => panic!("`{other}`?"),
            }
        }
    }
    seen.sort();
    let mut all = StepErrorClass::ALL.to_vec();
    all.sort();
    assert_eq!(seen, all);
}

#[test]
fn the_numbers_of_the_page_are_those_of_the_code() {
    let limits = table("limit");
    assert_eq!(limits[0][2], DEFAULT_MAX_CONCURRENCY.to_string());
    assert!(limits[1][2].contains(&format!("never more than {MAX_ITEMS_AT_A_TIME}")), "{limits:?}");
    assert_eq!(MAX_INCLUDE_DEPTH, 5, "the page says so in a word");
    assert_eq!(tenon_flow::CANCEL_GRACE.as_secs(), 2, "the page says so in a word");
}

#[test]
fn every_condition_does_what_its_row_says() {
    let conditions = ["false", "steps.a.result.nothing.here", "1 / size(steps.a.content) > 0"];
    let rows = table("a `condition` that");
    assert_eq!(rows.len(), conditions.len());
    for (row, condition) in rows.iter().zip(conditions) {
        let workflow = document(
            &format!(
                "name: w\nsteps:\n  - {{id: a}}\n  - {{id: b, dependsOn: [a], condition: {condition}}}\n  \
             - {{id: c, dependsOn: [b]}}\n"
            )
            .replace("condition: false", "condition: 'false'"),
        );
        let (outcome, sim) = Sim::new(workflow).run(&mut |_, _| said(""));
        let status = match row[1].as_str() {
            "is skipped" => "b: skipped",
            "fails" => "b: failed",
            other => panic!("`{other}`?"),
        };
        assert_eq!(statuses(&outcome)[1], status, "{condition}");
        assert_eq!(sim.started.contains(&"run/c@1".to_owned()), row[2] == "runs", "{condition}");
    }
}
