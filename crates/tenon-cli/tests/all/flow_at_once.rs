//! Many steps at once: what they write down together, and how fast each provider may be asked.

use tenon_testkit::{Server, Signal, Value, json, reply};

use super::flow_resume::{place, run_in};
use super::flow_run::{at, task_of};
use super::signals::until;

/// At once, so all of them.
const WRITERS: usize = 24;

const WRITING: &str = r#"
name: writing
agents:
  one: { description: one }
  two: { description: two }
options: { maxConcurrency: 30 }
steps:
  - { id: each, agent: one, instructions: Each., loop: { forEach: "ITEMS", maxConcurrency: 24 } }
  - { id: beside, agent: two, instructions: Beside. }
  - { id: last, dependsOn: [each, beside], instructions: Last. }
"#;

fn item_of(task: &str) -> usize {
    let rest = task.split("(index: ").nth(1).unwrap();
    rest.split(')').next().unwrap().parse().unwrap()
}

fn is_first_turn(body: &Value) -> bool {
    !body["messages"].as_array().unwrap().iter().any(|message| message["role"] == "tool")
}

#[test]
fn nothing_that_many_write_at_once_is_lost_not_even_by_a_kill() {
    let items: Vec<String> = (0..WRITERS).map(|item| item.to_string()).collect();
    let place = place(&WRITING.replace("\"ITEMS\"", &format!("[{}]", items.join(", "))));
    let write = |reply: tenon_testkit::Reply, id: &str, key: &str, value: &str| {
        reply.call(id, "shared_memory_write", json!({"key": key, "value": value}))
    };
    let server = Server::answering(move |body| {
        let task = task_of(body).unwrap();
        // Everybody has written, and nobody goes on.
        if !is_first_turn(body) {
            return reply().text("never").hang_after_events(0);
        }
        let (who, value) = match task.contains("Beside.") {
            true => ("beside".to_owned(), "of two".to_owned()),
            false => (format!("own {}", item_of(&task)), format!("value {}", item_of(&task))),
        };
        let both = write(reply(), "a", &who, &value);
        write(write(both, "b", "same", &value), "c", &who, &format!("{value}, again"))
    });
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).spawn();
    let have_written = || server.requests().iter().filter(|request| !is_first_turn(&request.body)).count();
    until("all have written", || have_written() == WRITERS + 1);
    running.signal(Signal::Kill);
    running.wait();
    let shown = run_in(&place, &server, &["show", "r1", "--format", "json", "--payloads"]).run();
    let shown = shown.assert_code(0).json();
    let value_of = |agent: &str, key: &str| {
        let notes = shown["shared_memory"].as_array().unwrap();
        let is_it = |note: &&Value| note["agent"] == agent && note["key"] == format!("{agent}/{key}");
        notes.iter().find(is_it).unwrap_or_else(|| panic!("{agent} {key}: {shown}"))["value"].clone()
    };
    for item in 0..WRITERS {
        assert_eq!(value_of("one", &format!("own {item}")), format!("value {item}, again"));
    }
    assert_eq!(value_of("two", "beside"), "of two, again");
    assert_eq!(value_of("two", "same"), "of two", "agents do not write over each other");
    let same = value_of("one", "same").as_str().unwrap().to_owned();
    assert!(same.starts_with("value "), "{same}");
    assert_eq!(shown["shared_memory"].as_array().unwrap().len(), WRITERS + 3, "{shown}");
    let read: Vec<String> = (0..WRITERS).map(|item| format!("one/own {item}")).collect();
    let wanted: Vec<String> = (0..WRITERS).map(|item| format!("value {item}, again")).collect();
    let server = Server::answering(move |body| {
        let task = task_of(body).unwrap();
        if !task.contains("Last.") || body["messages"].as_array().unwrap().len() > 2 {
            return reply().text("done");
        }
        let keys = read.iter().map(String::as_str).chain(["two/same"]).enumerate();
        keys.fold(reply(), |reply, (at, key)| {
            reply.call(&format!("r{at}"), "shared_memory_read", json!({ "key": key }))
        })
    });
    let run = run_in(&place, &server, &["resume", "r1", "-o", "json"]).run();
    run.assert_code(0);
    let requests = server.requests();
    let told = requests.last().unwrap();
    for (item, value) in wanted.iter().enumerate() {
        assert_eq!(&told.tool_result(&format!("r{item}")), value);
    }
    assert_eq!(told.tool_result(&format!("r{WRITERS}")), "of two");
    let exported = run_in(&place, &server, &["export", "r1"]).run();
    let written = exported.assert_code(0).stdout.matches("memory_written").count();
    assert_eq!(written, 3 * (WRITERS + 1), "each was written once");
}

/// The wait is longer than a test may take: whoever waits for it is not asked again here.
#[test]
fn a_provider_that_refuses_holds_up_its_own_steps_and_no_others() {
    let document = r#"
name: two providers
options: { maxConcurrency: 10 }
steps:
  - { id: slow1, instructions: Slow., model: slow/m }
  - { id: fast1, instructions: Fast 1., model: fast/m }
  - { id: fast2, dependsOn: [fast1], instructions: Fast 2., model: fast/m }
  - { id: late, dependsOn: [fast2], instructions: Late., model: slow/m }
  - { id: fast3, dependsOn: [fast2], instructions: Fast 3., model: fast/m }
  - { id: fast4, dependsOn: [fast3], instructions: Fast 4., model: fast/m }
  - { id: fast5, dependsOn: [fast4], instructions: Fast 5., model: fast/m }
"#;
    let slow = Server::start([reply().status(429).header("retry-after", "55").forever()]);
    let fast = Server::start([
        at("Fast 1.").text("1"),
        at("Fast 2.").text("2"),
        at("Fast 3.").text("3"),
        at("Fast 4.").text("4"),
        at("Fast 5.").text("5"),
    ]);
    let provider = |server: &Server| json!({"wire": "openai", "baseUrl": server.base_url(), "models": ["m"]});
    let settings = json!({"providers": {"slow": provider(&slow), "fast": provider(&fast)}});
    let place = place(document).home_file("settings.json", settings.to_string());
    let mut running = place
        .clone()
        .env("TENON_MODEL", "fast/m")
        .args(["flow", "run", "flow.yaml", "--no-journal", "-o", "stream-json"])
        .spawn();
    until("the other provider has answered all", || fast.requests().len() == 5);
    running.signal(Signal::Kill);
    let run = running.wait();
    assert!(run.stdout.contains("\"step_id\":\"late\""), "{run}");
    assert_eq!(slow.requests().len(), 1, "who comes later does not run into the refusal: {run}");
}
