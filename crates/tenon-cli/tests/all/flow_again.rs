//! Runs that go on with another model, and messages for steps that are tried again, in the same run or a later one.

use std::os::unix::fs::PermissionsExt;

use tenon_testkit::{Run, Server, Tenon, Wire, json, reply};

use super::flow_resume::{place, refused, run_in};
use super::flow_run::{at, flow, task_of, told};

const CHAIN: &str = "name: chain\nsteps:\n  - { id: a, instructions: Do a., maxRetries: 0 }\n  - { id: b, instructions: Do b., dependsOn: [a] }\n  - { id: c, instructions: Do c., dependsOn: [b] }\n";

fn models(server: &Server) -> Vec<String> {
    server.requests().iter().map(|request| request.body["model"].as_str().unwrap().to_owned()).collect()
}

/// A run whose first step was cut off after a turn and a call.
fn cut_off(place: &Tenon) -> Run {
    let server = Server::start([
        at("Do a.").call("x", "list_directory", json!({"path": "."})),
        at("Do a.").status(503).json(json!({"error": {"message": "later"}})),
    ]);
    let run = run_in(place, &server, &["run", "flow.yaml", "--run-id", "r1", "-m", "first", "-q"]).run();
    run.assert_code(1);
    assert_eq!(models(&server), ["first", "first"]);
    run
}

#[test]
fn another_model_is_asked_at_once_and_from_there_on() {
    let place = place(CHAIN);
    cut_off(&place);
    let server = Server::start([at("Do a.").text("A."), refused("Do b.")]);
    let run = run_in(&place, &server, &["resume", "r1", "-m", "second", "-q"]).run();
    assert!(run.assert_code(1).stderr.ends_with("to go on with the run:\n  tenon flow resume r1 --quiet\n"));
    assert_eq!(models(&server), ["second", "second"]);
    let said = server.request(0).body["messages"].to_string();
    assert!(said.contains("list_directory"), "the conversation goes on: {said}");
    let server = Server::start([at("Do b.").text("B."), at("Do c.").text("C.")]);
    let run = run_in(&place, &server, &["resume", "r1", "-q"]).run();
    assert_eq!(run.assert_code(0).stdout, "C.\n");
    assert_eq!(models(&server), ["second", "second"]);
}

#[test]
fn another_provider_is_asked_for_its_own_model_at_its_own_address() {
    let place = place(CHAIN);
    let other = |server: &Server, args: &[&str]| {
        let place = place.clone().args(["flow"]).args(args);
        place.env("ANTHROPIC_BASE_URL", server.origin()).env("ANTHROPIC_API_KEY", "other-key").run()
    };
    // The address that was given for the first model is not the second one's.
    let server = Server::start([
        at("Do a.").call("x", "list_directory", json!({"path": "."})),
        at("Do a.").status(503).json(json!({"error": {"message": "later"}})),
    ]);
    let base_url = server.base_url();
    let args = ["run", "flow.yaml", "--run-id", "r1", "-m", "first", "--base-url", base_url.as_str(), "-q"];
    run_in(&place, &server, &args).run().assert_code(1);
    let server =
        Server::start([reply().text("A."), reply().status(400).json(json!({"error": {"message": "no"}}))]);
    other(&server, &["resume", "r1", "-m", "anthropic/claude-x", "-q"]).assert_code(1);
    assert_eq!(models(&server), ["claude-x", "claude-x"]);
    assert_eq!(server.request(0).wire(), Wire::Messages);
    let server = Server::start([reply().text("B."), reply().text("C.")]);
    assert_eq!(other(&server, &["resume", "r1", "-q"]).assert_code(0).stdout, "C.\n");
    assert_eq!(models(&server), ["claude-x", "claude-x"]);
}

/// How often the first message of a request holds a text.
fn times(server: &Server, request: usize, text: &str) -> usize {
    server.request(request).body["messages"].to_string().matches(text).count()
}

fn request_of(server: &Server, task: &str, nth: usize) -> usize {
    let requests = server.requests();
    let mut found = requests.iter().enumerate().filter(|(_, request)| {
        task_of(&request.body).is_some_and(|text| text.contains(&format!("## Task\n{task}")))
    });
    found.nth(nth).unwrap().0
}

#[test]
fn a_step_that_is_tried_again_is_told_what_it_was_told() {
    let document = r#"
name: again
agents: { r: { description: r, resultSchema: { type: object, required: [v], properties: { v: { type: integer } } } } }
steps:
  - { id: a, instructions: Do a. }
  - { id: b, agent: r, dependsOn: [a], retries: 1, instructions: Do b. }
  - { id: c, dependsOn: [a], retries: 1, maxRetries: 0, instructions: Do c. }
"#;
    let to = |to: &str, text: &str| json!({"to": to, "text": text});
    let server = Server::start([
        at("Do a.")
            .call("1", "send_message", to("b", "ONE-B"))
            .call("2", "send_message", to("b", "TWO-B"))
            .call("3", "send_message", to("c", "ONE-C")),
        at("Do a.").text("told"),
        // No result, also after a reminder.
        at("Do b.").text("no"),
        at("Do b.").text("no"),
        at("Do b.").call("s", "submit_result", json!({"v": 1})),
        // A server that cannot.
        at("Do c.").call("l", "list_directory", json!({"path": "."})),
        at("Do c.").status(500).json(json!({"error": {"message": "no"}})),
        at("Do c.").text("C."),
    ]);
    let run = flow(&server, document).args(["-o", "stream-json"]).run();
    run.assert_code(0);
    server.assert_script_done();
    for (task, nth, texts) in
        [("Do b.", 0, &["ONE-B", "TWO-B"][..]), ("Do b.", 2, &["ONE-B", "TWO-B"]), ("Do c.", 2, &["ONE-C"])]
    {
        let request = request_of(&server, task, nth);
        let prompt = told(&server, request);
        let places: Vec<usize> = texts.iter().map(|text| prompt.find(text).unwrap()).collect();
        assert!(places.is_sorted(), "{prompt}");
        assert!(texts.iter().all(|text| times(&server, request, text) == 1), "{prompt}");
    }
    let read = run.json_lines().iter().filter(|event| event["type"] == "agent_inbox_drain").count();
    assert_eq!(read, 3, "each message is read once");
}

#[test]
fn a_loop_that_is_tried_again_is_told_what_its_steps_were_told_and_what_waited_for_them() {
    let document = r#"
name: again
steps:
  - { id: a, instructions: Do a. }
  - id: fe
    dependsOn: [a]
    retries: 1
    loop:
      forEach: [p]
      steps:
        - { id: x, instructions: Do x. }
        - { id: y, dependsOn: [x], maxRetries: 0, instructions: Do y. }
        - { id: z, dependsOn: [y], instructions: Do z. }
"#;
    let to = |to: &str| json!({"to": to, "text": format!("FOR {to}")});
    let server = Server::start([
        at("Do a.").call("1", "send_message", to("fe[0].x")).call("2", "send_message", to("fe[0].z")),
        at("Do a.").text("told"),
        at("Do x.").text("X."),
        at("Do y.").status(500).json(json!({"error": {"message": "no"}})),
        at("Do x.").text("X."),
        at("Do y.").text("Y."),
        at("Do z.").text("Z."),
    ]);
    let run = flow(&server, document).args(["-o", "stream-json"]).run();
    run.assert_code(0);
    server.assert_script_done();
    for (task, nth, text) in
        [("Do x.", 0, "FOR fe[0].x"), ("Do x.", 1, "FOR fe[0].x"), ("Do z.", 0, "FOR fe[0].z")]
    {
        let prompt = told(&server, request_of(&server, task, nth));
        assert_eq!(prompt.matches(text).count(), 1, "{prompt}");
    }
    assert!(run.json_lines().iter().all(|event| event["type"] != "message_dropped"), "{run}");
}

#[test]
fn what_came_for_a_step_that_had_failed_is_read_when_the_run_goes_on() {
    let document = r#"
name: late
steps:
  - { id: b, instructions: Do b. }
  - { id: a, instructions: Do a. }
  - { id: d, dependsOn: [b], instructions: Do d. }
  - { id: fe, dependsOn: [b], instructions: Do fe., loop: { forEach: [p, q] } }
"#;
    let place = place(document);
    let to = |to: &str| json!({"to": to, "text": format!("LATE {to}")});
    // Written to one after the other, until the failure is known to everybody.
    let server = Server::answering(move |body| {
        let task = task_of(body).unwrap();
        if task.contains("## Task\nDo b.") {
            return reply().status(400).json(json!({"error": {"message": "no"}}));
        }
        let said = body["messages"].to_string();
        match said.matches("dropped: target-terminal").count() {
            3 => reply().text("A."),
            // Before the failure it would only wait for its reader.
            _ if !said.contains("dropped") => reply().call(&call_id(&said), "send_message", to("b")),
            1 => reply().call(&call_id(&said), "send_message", to("d")),
            _ => reply().call(&call_id(&said), "send_message", to("fe[1]")),
        }
    });
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(1);
    let server = Server::start([
        at("Do b.").text("B."),
        at("Do d.").text("D."),
        at("Do fe.").text("p"),
        at("Do fe.").text("q"),
    ]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "stream-json"]).run();
    run.assert_code(0);
    for (task, text) in [("Do b.", "LATE b"), ("Do d.", "LATE d")] {
        let prompt = told(&server, request_of(&server, task, 0));
        assert!(prompt.contains(text), "{prompt}");
    }
    let items: Vec<String> = [0, 1].map(|nth| told(&server, request_of(&server, "Do fe.", nth))).to_vec();
    assert_eq!(
        items.iter().filter(|prompt| prompt.matches("LATE fe[1]").count() == 1).count(),
        1,
        "{items:?}"
    );
    assert!(run.json_lines().iter().all(|event| event["type"] != "message_dropped"), "{run}");
}

#[test]
fn a_word_that_stands_for_a_key_changes_nothing_in_a_run_that_goes_on() {
    let document = "name: n\nsteps:\n  - { id: a, instructions: Which server? }\n  - { id: b, instructions: Install lm-studio., dependsOn: [a] }\noutputs: { a: steps.a.content, b: steps.b.content }\n";
    let place = place(document);
    let with_word = |server: &Server, args: &[&str]| {
        run_in(&place, server, args).env("OPENAI_API_KEY", "lm-studio").run()
    };
    let server = Server::start([at("Which server?").text("Use lm-studio."), refused("Install lm-studio.")]);
    with_word(&server, &["run", "flow.yaml", "--run-id", "r1", "-q"]).assert_code(1);
    let server = Server::start([at("Install lm-studio.").text("Get lm-studio.")]);
    for pinned in [&["--pinned"][..], &[]] {
        let run = with_word(&server, &[&["resume", "r1", "-q"][..], pinned].concat());
        assert_eq!(run.assert_code(0).stdout, "{\"a\":\"Use lm-studio.\",\"b\":\"Get lm-studio.\"}\n");
    }
    assert!(told(&server, 0).contains("### a (completed)\nUse lm-studio."), "{}", told(&server, 0));
}

#[test]
fn a_file_of_runs_that_others_can_read_is_closed_to_them() {
    let place = place(CHAIN);
    cut_off(&place);
    let files = ["runs.db", "runs.db-wal", "runs.db-shm"].map(|name| place.tenon_home().join(name));
    for file in &files {
        std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    place.clone().args(["flow", "list"]).run().assert_code(0);
    let server = Server::start([at("Do a.").text("A."), refused("Do b.")]);
    run_in(&place, &server, &["resume", "r1", "-q"]).run().assert_code(1);
    for file in files.iter().filter(|file| file.exists()) {
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}

#[test]
fn a_coordinator_can_be_asked_for_when_a_run_goes_on() {
    let place = place(CHAIN);
    cut_off(&place);
    let server = Server::answering(|body| {
        let said = body["messages"].to_string();
        let is_coordinator = body["tools"].to_string().contains("finalize");
        match (is_coordinator, said.contains("the workflow ended")) {
            (true, true) => reply().call("f", "finalize", json!({"summary": "All is well."})),
            (true, false) => reply().text("ok"),
            (false, _) => reply().text("done"),
        }
    });
    let run = run_in(&place, &server, &["resume", "r1", "--coordinator", "-o", "json"]).run();
    assert_eq!(run.assert_code(0).json()["coordinator"]["summary"], "All is well.", "{run}");
}

#[test]
fn a_step_that_used_up_its_turns_says_what_to_raise() {
    let document = "name: n\nagents: { r: { description: r, maxTurns: 1, resultSchema: { type: object } } }\nsteps:\n  - { id: a, agent: r, instructions: Do a. }\n";
    let server = Server::start([at("Do a.").call("x", "list_directory", json!({"path": "."}))]);
    let run = flow(&server, document).arg("-q").run();
    assert!(run.assert_code(1).stderr.contains("hint: raise `maxTurns` of the agent"), "{run}");
}

#[test]
fn a_budget_that_is_too_small_for_every_item_is_told_once() {
    let document = "name: n\nprices: { test-model: { input: 1000000, output: 1000000 } }\nsteps:\n  - { id: fe, instructions: Do it., loop: { forEach: [a, b, c, d] } }\n";
    let server = Server::start([]);
    let run = flow(&server, document).args(["-q", "-o", "json", "--max-budget-usd", "0.01"]).run();
    let report = run.assert_code(55).json();
    let message = report["steps"]["fe"]["error"]["message"].as_str().unwrap().to_owned();
    // The first one asks for a little less.
    assert!(message.lines().count() <= 2, "{message}");
    assert!(message.contains("fe[1], fe[2], fe[3]: the money budget was reached"), "{message}");
}

/// Another one with every turn.
fn call_id(said: &str) -> String {
    format!("c{}", said.matches("send_message").count())
}

/// A server that fails is nobody's doing: the conversation goes on.
#[test]
fn a_step_that_a_server_failed_goes_on() {
    let place = place(CHAIN);
    let server = Server::start([
        at("Do a.").call("x", "list_directory", json!({"path": "."})),
        at("Do a.").status(500).json(json!({"error": {"message": "oops"}})),
    ]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(1);
    let server = Server::start([at("Do a.").text("A."), at("Do b.").text("B."), at("Do c.").text("C.")]);
    let run = run_in(&place, &server, &["resume", "r1"]).run();
    assert_eq!(run.assert_code(0).stdout, "C.\n", "{run}");
    assert!(server.request(0).body["messages"].to_string().contains("list_directory"), "asked anew");
}

#[test]
fn what_waits_beside_a_question_is_not_called_dropped() {
    let place = place(
        "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: gate, approve: Go?, dependsOn: [a] }\n  - { id: z, instructions: Do z., dependsOn: [gate] }\n",
    );
    let server = Server::start([
        at("Do a.").call("m", "send_message", json!({"to": "z", "text": "Mind the gap."})),
        at("Do a.").text("A."),
    ]);
    let run = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "-o", "stream-json"]).run();
    assert!(run.assert_code(42).stdout.contains("message_sent"), "{run}");
    assert!(!run.stdout.contains("message_dropped"), "{run}");
    let server = Server::start([at("Do z.").text("Z.")]);
    let run = run_in(&place, &server, &["approve", "r1", "gate", "--resume"]).run();
    assert_eq!(run.assert_code(0).stdout, "Z.\n", "{run}");
    assert!(server.request(0).body["messages"].to_string().contains("Mind the gap."));
}
