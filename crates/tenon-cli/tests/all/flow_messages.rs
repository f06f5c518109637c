//! Agents of one workflow that share a memory, write to each other, and are listened to by a coordinator.

use tenon_testkit::{Gate, Reply, Server, Signal, Value, json, reply};

use super::flow_events::events;
use super::flow_resume::{place, run_in};
use super::flow_run::{at, flow};
use super::signals::until;

const TWO: &str = r#"
name: two
steps:
  - { id: look, instructions: Look. }
  - { id: paint, dependsOn: [look], instructions: Paint. }
"#;

fn results(server: &Server) -> Vec<String> {
    let requests = server.requests();
    let bodies = requests.iter().map(|request| &request.body["messages"]);
    let messages = bodies.flat_map(|messages| messages.as_array().unwrap().last().cloned());
    messages.filter(|message| message["role"] == "tool").map(|message| text_of(&message)).collect()
}

fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn json_of(text: &str) -> Value {
    text.parse().unwrap()
}

fn of_type<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == name).collect()
}

fn tools_of(body: &Value) -> Vec<&str> {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

#[test]
fn a_note_and_a_message_reach_a_later_step() {
    let server = Server::start([
        at("Look.").call("m", "shared_memory_write", json!({"key": "hours", "value": "9 to 6"})),
        at("Look.").call("s", "send_message", json!({"to": "paint", "text": "Closed on Sundays."})),
        at("Look.").text("told"),
        at("Paint.").call("r", "shared_memory_read", json!({"key": "default/hours"})),
        at("Paint.").call("x", "shared_memory_read", json!({"key": "nobody/nothing"})),
        at("Paint.").text("painted"),
    ]);
    let run = flow(&server, TWO).args(["-o", "stream-json"]).run();
    let events = events(run.assert_code(0));
    server.assert_script_done();
    let missing = "shared_memory_read: key \"nobody/nothing\" not found\nThere are `default/hours`.";
    assert_eq!(results(&server), ["ok", "queued: msg-send-1", "9 to 6", missing]);
    let prompt = text_of(&server.request(3).body["messages"][1]);
    assert!(prompt.ends_with("\n\n[Message msg-send-1 from `look`]\nClosed on Sundays."), "{prompt}");
    let sent = of_type(&events, "message_sent")[0];
    assert_eq!(sent["step_id"], "look");
    let wanted = json!({"id": "msg-send-1", "to": "paint", "text": "Closed on Sundays.", "msg_type": "info"});
    assert_eq!(sent["data"], wanted);
    let read = of_type(&events, "agent_inbox_drain")[0];
    assert_eq!((read["step_id"].as_str(), &read["data"]["from"]), (Some("paint"), &json!("look")));
    assert!(of_type(&events, "message_dropped").is_empty());
}

#[test]
fn what_reaches_nobody_is_told() {
    let document = r#"
name: three
steps:
  - { id: first, instructions: First. }
  - { id: second, dependsOn: [first], instructions: Second. }
  - { id: each, dependsOn: [second], instructions: Each., loop: { forEach: [1] } }
  - { id: lp, dependsOn: [each], loop: { maxIterations: 3, until: "true", steps: [{ id: x, instructions: Round. }] } }
  - { id: last, dependsOn: [lp], instructions: Last. }
"#;
    let to = |to: &str| json!({"to": to, "text": "x"});
    let server = Server::start([
        at("First.").text("one"),
        at("Second.").call("a", "send_message", to("first")),
        at("Second.").call("b", "send_message", to("nowhere")),
        at("Second.").call("c", "send_message", json!({"text": "x"})),
        at("Second.").call("d", "send_message", to("each")),
        at("Second.").call("e", "send_message", to("each[7]")),
        at("Second.").call("f", "send_message", to("lp.7.x")),
        at("Second.").call("g", "send_message", to("lp")),
        at("Second.").call("h", "send_message", to("each[0]")),
        at("Second.").call("i", "send_message", to("lp.0.x")),
        at("Second.").call("j", "send_message", to("lp.2.x")),
        at("Second.").text("two"),
        at("Each.").text("three"),
        at("Round.").text("four"),
        at("Last.").call("k", "send_message", to("lp.1.x")),
        at("Last.").text("five"),
    ]);
    let run = flow(&server, document).args(["-o", "stream-json"]).run();
    let events = events(run.assert_code(0));
    server.assert_script_done();
    let told = results(&server);
    let steps = "`first`, `each[0]`, `lp.0.x`, `last`";
    let unknown = format!("dropped: unknown-step\nThe steps are {steps}.");
    assert_eq!(told[0], "dropped: target-terminal");
    assert_eq!(told[1], unknown);
    assert_eq!(told[2], format!("dropped: no-coordinator\nSay in `to` which step is to read it: {steps}."));
    assert!(told[3].starts_with("rejected: `each` is a WRAPPER step"), "{}", told[3]);
    assert_eq!([&told[4], &told[5]], [&unknown, &unknown], "the document says how many there can be");
    assert!(told[6].starts_with("rejected: `lp` is a WRAPPER step"), "{}", told[6]);
    assert_eq!(told[7..10], ["queued: msg-send-8", "queued: msg-send-9", "queued: msg-send-10"]);
    assert_eq!(told[10], "dropped: target-terminal", "the loop is over");
    let dropped: Vec<(&str, &str)> = of_type(&events, "message_dropped")
        .iter()
        .map(|event| (event["data"]["to"].as_str().unwrap(), event["data"]["reason"].as_str().unwrap()))
        .collect();
    let wanted = [
        ("first", "target-terminal"),
        ("nowhere", "unknown-step"),
        ("coordinator", "no-coordinator"),
        ("each", "unknown-step"),
        ("each[7]", "unknown-step"),
        ("lp.7.x", "unknown-step"),
        ("lp", "unknown-step"),
        // The loop was done before its third round, and says so when it ends.
        ("lp.2.x", "target-terminal"),
        ("lp.1.x", "target-terminal"),
    ];
    assert_eq!(dropped, wanted);
    let read: Vec<&str> = of_type(&events, "agent_inbox_drain")
        .iter()
        .map(|event| event["step_id"].as_str().unwrap())
        .collect();
    assert_eq!(read, ["each[0]", "lp.0.x"]);
    assert!(run.stderr.contains("warning: step second: msg-send-5 to each[7] was not read: unknown-step"));
}

#[test]
fn items_that_turn_out_not_to_be_there_are_told() {
    let document = r#"
name: items
agents:
  lists:
    description: lists
    resultSchema: { type: object, required: [all], properties: { all: { type: array, items: { type: string } } } }
steps:
  - { id: list, agent: lists, instructions: List. }
  - { id: each, dependsOn: [list], instructions: Each., loop: { forEach: steps.list.result.all } }
"#;
    let server = Server::start([
        at("List.").call("a", "send_message", json!({"to": "each[1]", "text": "x"})).call(
            "b",
            "send_message",
            json!({"to": "each[2]", "text": "x"}),
        ),
        at("List.").call("c", "submit_result", json!({"all": ["p", "q"]})),
        at("Each.").text("one"),
        at("Each.").text("two"),
    ]);
    let run = flow(&server, document).args(["-o", "stream-json"]).run();
    let events = events(run.assert_code(0));
    let dropped = of_type(&events, "message_dropped");
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert_eq!(
        (&dropped[0]["data"]["to"], &dropped[0]["data"]["reason"]),
        (&json!("each[2]"), &json!("unknown-step"))
    );
    let at = |name: &str, step: &str| {
        events.iter().position(|event| event["type"] == name && event["step_id"] == step).unwrap()
    };
    let told = events.iter().position(|event| event["type"] == "message_dropped").unwrap();
    assert!(told < at("step_end", "each[0]") && told > at("step_end", "list"), "as soon as it is known");
    assert_eq!(of_type(&events, "agent_inbox_drain")[0]["step_id"], "each[1]");
}

#[test]
fn who_is_offered_what() {
    let shared = ["shared_memory_read", "shared_memory_write", "send_message"];
    let document = r#"
name: offers
agents:
  lists: { description: l, tools: [read] }
  none: { description: n, tools: [] }
  less: { description: d, disallowedTools: [send_message] }
steps:
  - { id: a, agent: lists, instructions: Lists. }
  - { id: b, agent: none, instructions: Nothing. }
  - { id: c, agent: less, instructions: Less. }
"#;
    let server = Server::start([at("Lists.").text("a"), at("Nothing.").text("b"), at("Less.").text("c")]);
    flow(&server, document).args(["--exclude-tools", "shared_memory_write"]).run().assert_code(0);
    let offered = |task: &str| {
        let request = server.requests().into_iter().find(|request| request.body.to_string().contains(task));
        let body = request.unwrap().body;
        tools_of(&body)
            .into_iter()
            .filter(|name| shared.contains(name))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(offered("Lists."), ["shared_memory_read", "send_message"]);
    assert!(offered("Nothing.").is_empty());
    assert_eq!(offered("Less."), ["shared_memory_read"]);
    let alone = Server::start([at("Only.").text("a")]);
    let document = "name: alone\nsteps:\n  - { id: a, instructions: Only. }\n";
    flow(&alone, document).run().assert_code(0);
    assert!(!tools_of(&alone.request(0).body).iter().any(|name| shared.contains(name)));
}

/// Meant for the coordinator, when this is the last thing it was told.
fn coordinator(told: &'static str) -> Reply {
    opening(&Gate::new(), told)
}

/// The same; it opens a gate too.
fn opening(gate: &Gate, told: &'static str) -> Reply {
    let gate = gate.clone();
    reply().when(move |body| {
        let messages = body["messages"].as_array().unwrap();
        let is_meant = text_of(&messages[1]).starts_with("## Workflow\n")
            && text_of(messages.last().unwrap()).contains(told);
        if is_meant {
            gate.open();
        }
        is_meant
    })
}

#[test]
fn a_coordinator_hears_forwards_narrates_and_sums_up() {
    let (listens, has_passed_on) = (Gate::new(), Gate::new());
    let server = Server::start([
        opening(&listens, "## Forwardable steps\nlook\npaint").text("ok").usage(10, 1),
        at("Look.")
            .hold(&listens)
            .call("s", "send_message", json!({"text": "Closed on Sundays."}))
            .usage(10, 1),
        coordinator("[Message msg-send-1 from `look`]\nClosed on Sundays.")
            .call(
                "f",
                "forward_to_agent",
                json!({"target_step_id": "paint", "text": "Sundays!", "kind": "context_update"}),
            )
            .call("n", "narrate", json!({"text": "Word from the door."}))
            .usage(10, 1),
        opening(&has_passed_on, "narrated").text("ok").usage(10, 1),
        at("Look.").hold(&has_passed_on).text("told").usage(10, 1),
        coordinator("the workflow ended: status=completed")
            .call("z", "finalize", json!({"summary": "All done."}))
            .usage(10, 1),
        coordinator("finished status=completed").text("ok").usage(10, 1),
        coordinator("finished status=completed").text("ok").usage(10, 1),
        at("Paint.").text("painted").usage(10, 1),
    ]);
    let run = flow(&server, TWO).args(["-o", "stream-json", "--coordinator"]).run();
    let events = events(run.assert_code(0));
    let end = &events.last().unwrap()["data"];
    assert_eq!(end["coordinator"]["summary"], "All done.", "{end}");
    let requests = server.requests();
    let is_its_own = |body: &Value| text_of(&body["messages"][1]).starts_with("## Workflow\n");
    let own = requests.iter().filter(|request| is_its_own(&request.body)).count();
    assert_eq!(end["coordinator"]["turns"], own);
    assert_eq!(end["usage"]["total"], 11 * requests.len());
    let painting =
        requests.iter().find(|request| text_of(&request.body["messages"][1]).contains("Paint.")).unwrap();
    let told = text_of(&painting.body["messages"][1]);
    assert!(told.ends_with("[Context update msg-fwd-2 from the coordinator]\nSundays!"), "{told}");
    assert_eq!(of_type(&events, "coordinator_synthesis")[0]["data"], json!({"summary": "All done."}));
    let narrated = of_type(&events, "coordinator_narration");
    assert_eq!((narrated.len(), &narrated[0]["data"]["text"]), (1, &json!("Word from the door.")));
    let heard = of_type(&events, "coordinator_inbox_message");
    assert_eq!(
        (heard[0]["data"]["from"].as_str(), heard[0]["data"]["id"].as_str()),
        (Some("look"), Some("msg-send-1"))
    );
    assert!(run.stderr.contains("coordinator: Word from the door."), "{}", run.stderr);
    assert!(of_type(&events, "message_dropped").is_empty());
}

#[test]
fn a_run_does_not_need_its_coordinator() {
    let server = Server::start([
        coordinator("## Workflow").status(400).json(json!({"error": {"message": "no"}})),
        at("Look.").text("one"),
        at("Paint.").text("two"),
    ]);
    let run = flow(&server, TWO).args(["-o", "stream-json", "--coordinator"]).run();
    let events = events(run.assert_code(0));
    let error = of_type(&events, "error")[0];
    assert_eq!(error["agent"], "coordinator");
    let message = error["data"]["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("the coordinator stopped, and the run goes on without it: "), "{message}");
    assert_eq!(events.last().unwrap()["data"]["coordinator"]["summary"], Value::Null);
}

#[test]
fn a_killed_run_knows_its_notes_and_delivers_its_messages_once() {
    let place = place(TWO);
    let server = Server::start([
        at("Look.")
            .call("m", "shared_memory_write", json!({"key": "hours", "value": "9 to 6"}))
            .call("s", "send_message", json!({"to": "paint", "text": "Closed on Sundays."}))
            .call("l", "send_message", json!({"text": "For the coordinator."})),
        at("Look.").text("told"),
        at("Paint.").text("never").hang_after_events(0),
        coordinator("Forwardable").text("ok").repeat(9),
        coordinator("").text("ok").repeat(9),
    ]);
    let mut running =
        run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "--coordinator"]).spawn();
    let is_painting = || server.requests().iter().any(|request| request.user_text().contains("Paint."));
    until("it paints", is_painting);
    running.signal(Signal::Kill);
    running.wait();
    let server = Server::start([
        at("Paint.").call("r", "shared_memory_read", json!({"key": "default/hours"})),
        at("Paint.").text("painted"),
        coordinator("the workflow ended").call("z", "finalize", json!({"summary": "Painted."})),
        coordinator("").text("ok").repeat(9),
    ]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "stream-json"]).run();
    let events = events(run.assert_code(0));
    let requests = server.requests();
    let painting: Vec<_> = requests.iter().filter(|request| request.user_text().contains("Paint.")).collect();
    let told = text_of(&painting[0].body["messages"][1]);
    assert_eq!(told.matches("Closed on Sundays.").count(), 1, "{told}");
    let read = text_of(painting[1].body["messages"].as_array().unwrap().last().unwrap());
    assert_eq!(read, "9 to 6");
    assert!(of_type(&events, "message_sent").is_empty(), "nothing is sent again");
    assert!(of_type(&events, "message_dropped").is_empty());
    // The coordinator was asked for when the run began, and goes on with what it has heard.
    assert_eq!(events.last().unwrap()["data"]["coordinator"]["summary"], "Painted.");
    let listening = requests.iter().find(|request| request.user_text().contains("Forwardable")).unwrap();
    assert_eq!(listening.body["messages"].to_string().matches("For the coordinator.").count(), 1);
}

#[test]
fn a_note_is_there_after_a_kill_and_was_written_once() {
    let place = place(TWO);
    let server =
        Server::start([
            at("Look.")
                .call("m", "shared_memory_write", json!({"key": " Größe/„x“ \n", "value": "one"}))
                .call("n", "shared_memory_write", json!({"key": "same", "value": "first"})),
            at("Look.").call("o", "shared_memory_write", json!({"key": "same", "value": "second"})),
            at("Look.").text("never").hang_after_events(0),
        ]);
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).spawn();
    until("both are written", || server.requests().len() == 3);
    running.signal(Signal::Kill);
    running.wait();
    let show = |more: &[&str]| {
        let run = run_in(&place, &server, &[&["show", "r1"], more].concat()).run();
        run.assert_code(0).stdout.clone()
    };
    let shown = show(&[]);
    assert!(shown.contains("shared memory\n  2 entries\n"), "{shown}");
    assert!(!shown.contains("Größe") && !shown.contains("second"), "{shown}");
    let shown = json_of(&show(&["--format", "json"]));
    assert_eq!(shown["shared_memory"].as_array().unwrap().len(), 2);
    assert_eq!(
        shown["shared_memory"][0].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["agent", "written"]
    );
    let shown = json_of(&show(&["--format", "json", "--payloads"]));
    assert_eq!(shown["shared_memory"][1]["value"], "second");
    let server = Server::start([
        at("Look.").text("told"),
        at("Paint.").call("r", "shared_memory_read", json!({"key": "default/Größe/„x“"})),
        at("Paint.").call("s", "shared_memory_read", json!({"key": "default/same"})),
        at("Paint.").text("painted"),
    ]);
    let run = run_in(&place, &server, &["resume", "r1", "-q"]).run();
    run.assert_code(0);
    server.assert_script_done();
    let read = results(&server);
    assert_eq!(read[read.len() - 2..], ["one", "second"]);
    let export = run_in(&place, &server, &["export", "r1"]).run();
    assert_eq!(export.assert_code(0).stdout.matches("memory_written").count(), 3);
}

#[test]
fn notes_have_a_size_and_a_name() {
    let write = |key: &str, value: String| json!({"key": key, "value": value});
    let server = Server::start([
        at("Look.").call("a", "shared_memory_write", write("big", "x".repeat(33_000))),
        at("Look.").call("b", "shared_memory_write", write(&"k".repeat(300), "x".to_owned())),
        at("Look.").call("c", "shared_memory_write", write("  ", "x".to_owned())),
        at("Look.").call("d", "shared_memory_write", write("just", "x".repeat(32 * 1024))),
        at("Look.").call("e", "shared_memory_write", json!({"key": "k", "value": 7})),
        at("Look.").text("told"),
        at("Paint.").call("r", "shared_memory_read", json!({"key": "default/just"})),
        at("Paint.").text("painted"),
    ]);
    let run = flow(&server, TWO).args(["-o", "stream-json"]).run();
    run.assert_code(0);
    let told = results(&server);
    assert!(told[0].contains("`value` is longer than 32768 bytes"), "{}", told[0]);
    assert!(told[1].contains("`key` is longer than 256 bytes"), "{}", told[1]);
    assert!(told[2].contains("key"), "{}", told[2]);
    assert_eq!(told[3], "ok");
    assert_ne!(told[4], "ok");
    assert_eq!(told[5], "x".repeat(32 * 1024), "what is written can be read");
}

#[test]
fn a_last_word_is_paid_for_once() {
    let settings = r#"{"prices": {"test-model": {"input": 1000, "output": 1000}}}"#;
    let place = place(TWO).home_file("settings.json", settings);
    let priced = |args: &[&str], server: &Server| run_in(&place, server, args);
    let server = Server::start([
        at("Look.").text("one").usage(10, 1),
        at("Paint.").text("two").usage(10, 1),
        coordinator("the workflow ended").call("z", "finalize", json!({"summary": "All done."})).usage(10, 1),
        coordinator("").text("ok").usage(10, 1).repeat(9),
    ]);
    let run = priced(&["run", "flow.yaml", "--run-id", "r1", "--coordinator", "-o", "json"], &server).run();
    let first = run.assert_code(0).json();
    let paid = first["coordinator"].clone();
    assert_eq!(paid["summary"], "All done.");
    let cost = first["total_cost_usd"].as_f64().unwrap();
    assert!((cost - 0.011 * server.requests().len() as f64).abs() < 1e-9, "{cost}");
    let show = priced(&["show", "r1", "--format", "json"], &server).run();
    let shown = show.assert_code(0).json();
    assert_eq!(shown["total_cost_usd"], first["total_cost_usd"], "the coordinator is counted there too");
    assert_eq!(shown["coordinator"]["turns"], paid["turns"]);
    assert!(shown["coordinator"].get("summary").is_none() && shown["coordinator"]["cost"].is_f64());
}
