//! Documents of every kind the format knows: those that are valid, and those that are not, each with its category.

use std::path::Path;

use tenon_flow::{
    Code, Diagnostic, Document, Items, OnStepFailure, OutputMode, Scheduler, ToolChoice, order, parse,
};

use crate::fixtures::{FULL, INVALID, VALID};

fn read(text: &str) -> Result<Document, Vec<Diagnostic>> {
    parse(text, Path::new("flow.yaml"))
}

fn valid(text: &str) -> Document {
    read(text).unwrap_or_else(|problems| panic!("{text}\n{}", told(&problems)))
}

fn told(problems: &[Diagnostic]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

fn codes(text: &str) -> Vec<&'static str> {
    match read(text) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().filter(|it| it.is_error()).map(|it| it.code.text()).collect(),
    }
}

#[test]
fn valid_documents_are_valid_and_have_their_order() {
    for (name, text, expected) in VALID {
        let document = valid(text);
        let steps = &document.workflow.steps;
        let sorted: Vec<&str> =
            order(steps).unwrap().into_iter().map(|index| steps[index].id.as_str()).collect();
        assert_eq!(sorted, *expected, "{name}");
    }
}

#[test]
fn invalid_documents_have_their_category_and_no_other() {
    for (name, text, expected) in INVALID {
        let found = codes(text);
        assert!(!found.is_empty(), "{name} is valid");
        assert!(found.iter().all(|code| code == expected), "{name}: {found:?}");
    }
    // Every category of the format's suite has a document here.
    let suite = Code::ALL.iter().filter(|(code, text)| code.category() == *text);
    for (_, text) in suite {
        assert!(INVALID.iter().any(|(_, _, code)| code == text), "no document for `{text}`");
    }
}

#[test]
fn several_problems_of_a_kind_are_all_told() {
    assert_eq!(codes("name: n\nagents: {a: {}, b: {model: m}}\nsteps: [{id: s}]").len(), 2);
    assert_eq!(codes("name: n\nsteps: [{id: a, dependsOn: [b, c]}]").len(), 2);
    let many = "version: 3\nstepz: []\nagents: {a: {temperature: hot}}\nsteps: [{id: 9}, {id: a, agent: q, retries: -1, dependsOn: [zz]}]";
    let mut found = codes(many);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "agent_missing_description",
            "invalid_step_id",
            "missing_agent",
            "missing_dep",
            "missing_name",
            "unknown_field",
            "unknown_version",
            "validation",
            "validation"
        ]
    );
}

#[test]
fn every_field_arrives() {
    let workflow = valid(FULL).workflow;
    assert_eq!(
        (workflow.name.as_str(), workflow.description.as_str(), workflow.version),
        ("everything", "All of it.", 1)
    );
    let worker = &workflow.agents["worker"];
    assert_eq!(worker.prompt, "@prompts/worker.md");
    assert_eq!(worker.model.as_deref(), Some("openai/small"));
    assert_eq!(worker.tools, ToolChoice::Only(vec!["read".to_owned(), "grep".to_owned()]));
    assert_eq!(worker.disallowed_tools, ["bash"]);
    assert_eq!((worker.max_turns, worker.turns()), (10, 10));
    assert_eq!((worker.temperature, worker.top_p), (Some(0.5), Some(0.9)));
    assert!(worker.result_schema.is_some());
    let judge = &workflow.agents["judge"];
    assert_eq!((judge.max_turns, judge.turns(), &judge.tools), (0, 50, &ToolChoice::All));
    let plan = &workflow.steps[0];
    assert_eq!((plan.retries, plan.max_retries, plan.timeout.unwrap().as_secs()), (1, Some(2), 300));
    assert_eq!(
        (plan.context_files.as_slice(), plan.model.as_deref()),
        (["a.txt".to_owned()].as_slice(), Some("other"))
    );
    let repeat = workflow.steps[1].repeat.as_ref().unwrap();
    assert_eq!((repeat.max_iterations, repeat.until_agent.as_deref()), (Some(3), Some("judge")));
    assert_eq!((repeat.delay.unwrap().as_secs(), repeat.output_mode), (2, OutputMode::Cumulative));
    let options = &workflow.options;
    assert_eq!((options.max_concurrency, options.on_step_failure), (Some(2), OnStepFailure::Abort));
    assert_eq!(options.scheduler, Scheduler::RoundRobin);
    assert_eq!(options.timeout.unwrap().as_secs(), 7200);
    assert_eq!(options.step_timeout.unwrap().as_secs(), 600);
    assert_eq!(workflow.steps[3].timeout, None);
}

#[test]
fn yaml_is_read_by_version_1_2() {
    let text = "name: NO\ndescription: 2001-01-01\nsteps: [{id: a, instructions: 012, loop: {forEach: [NO, on, 2001-01-01, 1_000, 0o17, 0x1F, 1e3, .5, -7, ~, 'true', true]}}]";
    let workflow = valid(text).workflow;
    assert_eq!((workflow.name.as_str(), workflow.description.as_str()), ("NO", "2001-01-01"));
    assert_eq!(workflow.steps[0].instructions, "012");
    let Some(Items::List(items)) = &workflow.steps[0].repeat.as_ref().unwrap().for_each else { panic!() };
    assert_eq!(
        serde_json::to_string(items).unwrap(),
        r#"["NO","on","2001-01-01","1_000",15,31,1e3,0.5,-7,null,"true",true]"#
    );
    // A condition may be written as the boolean it is.
    assert_eq!(
        valid("name: n\nsteps: [{id: a, condition: true}]").workflow.steps[0].condition.as_deref(),
        Some("true")
    );
    assert_eq!(codes("name: n\nsteps: [{id: a, retries: 012}]"), ["validation"]);
    assert_eq!(codes("name: n\nsteps: [{id: a, loop: {forEach: [012]}}]"), ["validation"]);
    assert_eq!(valid("name: n\nsteps: [{id: a}]\n---\nname: second\nnonsense: [").workflow.name, "n");
    assert_eq!(
        valid("\u{feff}name: n\r\nsteps:\r\n  - id: a\r\n    instructions: |\r\n      one\r\n      two\r\n")
            .workflow
            .steps[0]
            .instructions,
        "one\ntwo\n"
    );
    let merged = "name: n\nx: &unused 1\n";
    assert_eq!(codes(&format!("{merged}steps: [{{id: a}}]")), ["unknown_field"]);
    let merged = "name: n\nagents:\n  base: &base {description: d, model: m, maxTurns: 3}\n  other:\n    <<: *base\n    model: mine\nsteps: [{id: a}]";
    let other = &valid(merged).workflow.agents["other"];
    assert_eq!((other.model.as_deref(), other.max_turns, other.description.as_str()), (Some("mine"), 3, "d"));
}

#[test]
fn json_is_read_strictly() {
    let read = |text: &str| parse(text, Path::new("flow.JSON"));
    let document = read("{\"name\": \"n\\u00e9\", \"steps\": [{\"id\": \"a\", \"retries\": 2}]}").unwrap();
    assert_eq!((document.workflow.name.as_str(), document.workflow.steps[0].retries), ("né", 2));
    for text in [
        "{\"name\": 5, \"steps\": [{\"id\": \"a\"}]}",
        "{\"name\": \"n\", \"name\": \"n\", \"steps\": [{\"id\": \"a\"}]}",
        "{\"name\": \"n\", \"steps\": [{\"id\": \"a\"}],}",
        "name: n\nsteps: [{id: a}]",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
    let problems =
        read("{\n  \"name\": \"n\",\n  \"steps\": [{\"id\": \"a\", \"retires\": 1}]\n}").unwrap_err();
    assert_eq!(
        (problems[0].line, problems[0].column, problems[0].hint.as_str()),
        (3, 25, "did you mean `retries`?")
    );
}

#[test]
fn text_is_cleaned_or_refused() {
    let workflow =
        valid("name: \"a\\u200bb\\u0007c\"\nsteps: [{id: a, instructions: \"e\\u0301\\tx\\ny\"}]").workflow;
    assert_eq!(workflow.name, "abc");
    assert_eq!(workflow.steps[0].instructions, "é\tx\ny");
    for field in [
        "description: \"\\u2066\"",
        "agents: {a: {description: d, prompt: \"\\u202a\"}}",
        "outputs: {x: \"'\\u2069'\"}",
    ] {
        assert_eq!(codes(&format!("name: n\nsteps: [{{id: a}}]\n{field}")), ["unicode_unsafe"], "{field}");
    }
    assert_eq!(
        codes(
            "name: n\nsteps: [{id: a, loop: {maxIterations: 1, steps: [{id: b, instructions: \"\\u202e\"}]}}]"
        ),
        ["unicode_unsafe"]
    );
    let mixed = valid("name: pаypal\nsteps: [{id: a}]");
    assert_eq!(mixed.warnings.len(), 1);
}

#[test]
fn a_cycle_is_found_beside_a_name_that_leads_nowhere() {
    let text = "name: n\nsteps: [{id: a, dependsOn: [b, nobody]}, {id: b, dependsOn: [a]}, {id: c, dependsOn: [nothing]}]";
    let mut found = codes(text);
    found.sort_unstable();
    assert_eq!(found, ["cycle", "missing_dep", "missing_dep"]);
    assert_eq!(
        codes("name: n\nsteps: [{id: a, dependsOn: [b]}, {id: b}, {id: c, dependsOn: [d]}]"),
        ["missing_dep"]
    );
}

#[test]
fn isolation_of_another_runner_is_a_warning() {
    let warned = valid("name: n\nsteps: [{id: a}]\noptions: {isolation: docker}").warnings;
    let told: Vec<_> = warned.iter().map(|one| (one.line, one.column, one.message.as_str())).collect();
    assert_eq!(told, [(3, 22, "there is no `isolation: docker` here, so steps are not isolated")]);
    for known in ["worktree", "worktree-per-step", "none", "''"] {
        assert_eq!(
            valid(&format!("name: n\nsteps: [{{id: a}}]\noptions: {{isolation: {known}}}")).warnings,
            []
        );
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let long = "x".repeat(2001);
    assert_eq!(codes(&format!("name: n\ndescription: {long}\nsteps: [{{id: a}}]")), ["too_large"]);
    assert_eq!(codes(&format!("name: n\nsteps: [{{id: a, instructions: {long}}}]")), ["too_large"]);
    valid(&format!(
        "name: n\nsteps: [{{id: a, loop: {{maxIterations: 1, steps: [{{id: b, instructions: {long}}}]}}}}]"
    ));
    // Bytes, not characters.
    assert_eq!(
        codes(&format!("name: n\nsteps: [{{id: a, instructions: {}}}]", "é".repeat(1001))),
        ["too_large"]
    );
    let steps: String = (0..101).map(|index| format!("  - id: s{index}\n")).collect();
    assert_eq!(codes(&format!("name: n\nsteps:\n{steps}")), ["too_large"]);
    assert_eq!(codes(&format!("name: n\nsteps: [{{id: a}}]\n# {}", "x".repeat(1024 * 1024))), ["too_large"]);
    let mut bomb = "name: n\nsteps: [{id: a, loop: {forEach: *z}}]\nx0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        .replace("*z", "[1]");
    for level in 1..9 {
        let list = vec![format!("*x{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("x{level}: &x{level} [{list}]\n"));
    }
    assert_eq!(codes(&bomb), ["too_large"]);
    assert_eq!(codes(&format!("name: n\nsteps: {}{}", "[".repeat(200), "]".repeat(200))), ["too_large"]);
    let json = format!("{{\"name\": \"n\", \"steps\": {}{}}}", "[".repeat(5000), "]".repeat(5000));
    assert!(parse(&json, Path::new("f.json")).is_err());
    assert_eq!(codes("name: n\nsteps: &a [*a]"), ["validation"]);
    assert_eq!(codes("name: n\nsteps: [*nobody]"), ["validation"]);
}

#[test]
fn durations_are_whole_hours_minutes_and_seconds() {
    let seconds = |text: &str| {
        let document = read(&format!("name: n\nsteps: [{{id: a, timeout: \"{text}\"}}]"));
        document
            .map(|document| document.workflow.steps[0].timeout.map(|it| it.as_secs()))
            .map_err(|problems| problems[0].message.clone())
    };
    for (text, expected) in
        [("45s", 45), ("2m", 120), ("1h30m", 5400), ("1h30s", 3630), ("1h1m1s", 3661), ("90s", 90)]
    {
        assert_eq!(seconds(text), Ok(Some(expected)), "{text}");
    }
    assert_eq!(seconds("0s"), Ok(None));
    for text in ["", "30", "1.5h", "500ms", "1m1h", "h", "1 m", "1M", "-5s"] {
        assert!(seconds(text).is_err(), "{text}");
    }
    assert_eq!(seconds("-5s"), Err("`timeout`: invalid duration \"-5s\": must not be negative".to_owned()));
}
