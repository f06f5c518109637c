//! What `tenon flow` says and does around its steps: help, keys, hooks, notes, nothing.

use tenon_testkit::{Server, Value, json};

use super::flow_run::{at, flow};
use super::hooks::{LOG, command, log_of, rule};
use super::tenon;

const ONE: &str = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n";

#[test]
fn the_help_lists_only_what_is_taken() {
    let run = tenon().args(["flow", "run", "--help"]).run();
    let help = &run.assert_code(0).stdout;
    for flag in ["--max-budget-usd", "--inputs", "--run-id", "--output-format", "--yolo"] {
        assert!(help.contains(flag), "{flag}: {run}");
    }
    for flag in
        ["--json-schema", "--resume", "--dialect", "--system-prompt", "--max-session-turns", "--prompt"]
    {
        assert!(!help.lines().any(|line| line.trim_start().contains(&format!("{flag} "))), "{flag}: {run}");
    }
    assert!(tenon().args(["--help"]).run().stdout.contains("--json-schema"));
}

/// Words and formats are those of the command, not those of a single run.
#[test]
fn the_help_says_what_each_command_takes() {
    for (command, words) in [
        (&["flow", "run"][..], &["FILE  ", "CONTEXT...  "][..]),
        (&["flow", "resume"], &["RUN  ", "FILE  "]),
        (&["goal"], &["TEXT...  "]),
    ] {
        for help in ["--help", "-h"] {
            let run = tenon().args(command).arg(help).run();
            let text = &run.assert_code(0).stdout;
            for word in
                words.iter().chain(&["stream-json", "One JSON object"][..if help == "-h" { 1 } else { 2 }])
            {
                assert!(
                    text.lines().any(|line| line.trim_start_matches([' ', '-']).contains(word)),
                    "{word}: {run}"
                );
            }
            for other in ["PROMPT", "JSON array", "stream-chunk-json", "dialect"] {
                assert!(!text.contains(other), "{other}: {run}");
            }
        }
    }
    let run = tenon().args(["flow", "run", "f.yaml", "-o", "stream-chunk-json"]).run();
    assert!(run.assert_code(2).stderr.contains("`text`, `json` and `stream-json`"), "{run}");
}

#[test]
fn keys_of_all_models_are_looked_for_before_the_first_request() {
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b., model: anthropic/claude-sonnet-4-5, dependsOn: [a] }\n";
    let server = Server::start([]);
    let run = flow(&server, document).args(["-o", "json"]).run();
    let error = run.assert_code(41).json()["error"].clone();
    assert_eq!(error["class"], "auth", "{run}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("the document names the model `anthropic/claude-sonnet-4-5`: "), "{run}");
    assert!(server.requests().is_empty());
    // One model for all steps asks nobody else.
    let server = Server::start([at("Do a.").text("a"), at("Do b.").text("b")]);
    flow(&server, document).args(["-m", "test-model"]).run().assert_code(0);
}

#[test]
fn a_document_that_is_not_valid_is_told_once() {
    let document = "name: n\nsteps:\n  - { id: a, dependsOn: [nobody], instructions: Do a. }\n";
    let run = flow(&Server::start([]), document).run();
    run.assert_code(52);
    // Once in words, and once in the line that is shown.
    assert_eq!(run.stderr.matches("nobody").count(), 2, "{run}");
    assert!(
        run.stderr.contains("error[config]: `flow.yaml` is not valid: 1 problem, the first in line 3"),
        "{run}"
    );
}

#[test]
fn nothing_to_say_leaves_stdout_empty() {
    let skipped = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b., dependsOn: [a], condition: 'false' }\n";
    let server = Server::start([at("Do a.").text("a").forever()]);
    assert_eq!(flow(&server, skipped).run().assert_code(0).stdout, "");
    let report = flow(&server, skipped).args(["-o", "json"]).run();
    assert_eq!(report.assert_code(0).json()["outputs"], Value::Null);
}

#[test]
fn hooks_hear_of_the_run_once_and_of_every_step() {
    let events = ["SessionStart", "UserPromptSubmit", "SubagentStart", "SubagentStop", "SessionEnd"];
    let mut hooks: serde_json::Map<String, Value> =
        events.iter().map(|event| ((*event).to_owned(), rule(json!([command(LOG)])))).collect();
    let tells = r#"echo '{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"It is Tuesday."}}'"#;
    hooks["SessionStart"] = rule(json!([command(LOG), command(tells)]));
    let settings = json!({ "hooks": hooks }).to_string();
    let two = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b., dependsOn: [a] }\n";
    let server = Server::start([at("Do a.").text("a"), at("Do b.").text("b")]);
    let run = flow(&server, two).home_file("settings.json", &settings).run();
    run.assert_code(0);
    let heard: Vec<String> =
        log_of(&run).iter().map(|event| event["hook_event_name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        heard,
        ["SessionStart", "SubagentStart", "SubagentStop", "SubagentStart", "SubagentStop", "SessionEnd"],
        "{run}"
    );
    assert_eq!(log_of(&run).last().unwrap()["reason"], "completed");
    for number in 0..2 {
        assert!(server.request(number).body.to_string().contains("It is Tuesday."), "{run}");
    }
    let stops = rule(json!([command(r#"echo '{"continue":false,"stopReason":"not today"}'"#)]));
    let settings = json!({ "hooks": { "SessionStart": stops } }).to_string();
    let server = Server::start([]);
    let run = flow(&server, ONE).home_file("settings.json", settings).args(["-o", "json"]).run();
    let error = run.assert_code(1).json()["error"].clone();
    assert_eq!(error["message"], "a `SessionStart` hook stopped the run: not today", "{run}");
}
