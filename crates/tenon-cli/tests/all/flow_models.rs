//! Which model a step of a workflow asks, and of which provider.

use tenon_testkit::{Server, Wire, json, reply};

use super::flow_run::{at, flow, task_of};
use super::tenon;

const MODELS: &str = r#"
name: models
agents:
  second: { description: Second., model: agent-model }
steps:
  - { id: a, instructions: Do a. }
  - { id: b, instructions: Do b., agent: second }
  - { id: c, instructions: Do c., agent: second, model: step-model }
"#;

/// F1
#[test]
fn steps_and_agents_really_switch_the_model() {
    let all = || [at("Do a.").text("a"), at("Do b.").text("b"), at("Do c.").text("c")];
    let asked = |server: &Server, task: &str| {
        let found =
            server.requests().into_iter().find(|request| task_of(&request.body).unwrap().contains(task));
        found.unwrap().body["model"].as_str().unwrap().to_owned()
    };
    let server = Server::start(all());
    let run = flow(&server, MODELS).run();
    assert_eq!(run.assert_code(0).stdout, "{\"a\":\"a\",\"b\":\"b\",\"c\":\"c\"}\n");
    let models = ["Do a.", "Do b.", "Do c."].map(|task| asked(&server, task));
    assert_eq!(models, ["test-model", "agent-model", "step-model"]);
    let server = Server::start(all());
    flow(&server, MODELS).args(["-m", "forced"]).run().assert_code(0);
    let models = ["Do a.", "Do b.", "Do c."].map(|task| asked(&server, task));
    assert_eq!(models, ["forced", "forced", "forced"]);
}

/// F1
#[test]
fn a_step_can_ask_another_provider() {
    let server = Server::start([at("Do a.").text("a"), reply().text("b")]);
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b., dependsOn: [a], model: anthropic/claude-x }\n";
    let run = flow(&server, document)
        .env("ANTHROPIC_BASE_URL", server.origin())
        .env("ANTHROPIC_API_KEY", "other-key")
        .run();
    assert_eq!(run.assert_code(0).stdout, "b\n");
    assert_eq!((server.request(0).wire(), server.request(1).wire()), (Wire::Chat, Wire::Messages));
    assert_eq!(server.request(1).body["model"], "claude-x");
}

#[test]
fn a_document_that_names_all_its_models_needs_no_default() {
    let server = Server::start([reply().text("done")]);
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a., model: anthropic/claude-x }\n";
    let run = tenon()
        .file("flow.yaml", document)
        .env("ANTHROPIC_BASE_URL", server.origin())
        .env("ANTHROPIC_API_KEY", "key")
        .args(["flow", "run", "flow.yaml"])
        .run();
    assert_eq!(run.assert_code(0).stdout, "done\n");
}

/// Nothing is doubted that the run itself knows, or that is never asked.
#[test]
fn models_are_doubted_with_the_settings_and_flags_of_the_run() {
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a., model: mine/large }\n";
    let server = Server::start([reply().text("done")]);
    let settings = json!({"providers": {"mine": {"baseUrl": server.base_url(), "apiKeyEnv": "MINE"}}});
    let run = flow(&server, document)
        .file("mine.json", settings.to_string())
        .env("MINE", "key")
        .args(["--settings", "mine.json"])
        .run();
    assert!(!run.assert_code(0).stderr.contains("unknown_model"), "{run}");
    assert_eq!(server.request(0).body["model"], "large");
    let server = Server::start([reply().text("done")]);
    let run = flow(&server, document).args(["-m", "forced"]).run();
    assert!(!run.assert_code(0).stderr.contains("unknown_model"), "{run}");
    let server = Server::start([reply().text("done")]);
    let run = flow(&server, document).run();
    assert!(run.assert_code(0).stderr.contains("warning[unknown_model]"), "{run}");
}
