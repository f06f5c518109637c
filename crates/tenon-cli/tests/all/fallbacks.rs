//! Who answers when a provider cannot. Which one is asked first is in `providers.rs`.

use tenon_testkit::{Run, Server, Tenon, Value, Wire, json, reply};

use super::providers::{asked_for, key, stderr_lines};
use super::{IMPATIENT, tenon};

/// `openai/first` on one server, and whatever the test adds.
fn first(server: &Server) -> Tenon {
    tenon().server(server).args(["-m", "openai/first", "-p", "go", "--settings", IMPATIENT])
}

/// Another provider on another server, with a key of its own.
fn with(run: Tenon, wire: Wire, server: &Server, key: &str) -> Tenon {
    let run = wire.env(server).into_iter().fold(run, |run, (name, value)| run.env(name, value));
    match wire {
        Wire::Messages => run.env("ANTHROPIC_API_KEY", key),
        _ => run.env("GEMINI_API_KEY", key),
    }
}

fn failed(run: &Run) -> (i32, String, Value) {
    let error = &run.last_json()["error"];
    (run.code, error["class"].as_str().unwrap_or_default().to_owned(), error["http_status"].clone())
}

#[test]
fn another_provider_takes_over_and_stays() {
    let busy = Server::start([reply().status(429).repeat(2)]);
    let other = Server::start([
        reply().call("call_1", "read_file", json!({"file_path": "a.txt"})).usage(10, 1),
        reply().text("It says hello.").usage(20, 2),
    ]);
    let run = with(first(&busy), Wire::Messages, &other, "other-key")
        .file("a.txt", "hello")
        .args(["--fallback-model", "anthropic/second", "-o", "stream-json"])
        .run();
    run.assert_code(0);
    busy.assert_script_done();
    other.assert_script_done();
    assert!(busy.requests().iter().all(|request| asked_for(request) == "first"));
    for request in other.requests() {
        assert_eq!((asked_for(&request).as_str(), key(&request)), ("second", Some("other-key")));
    }
    let lines = run.json_lines();
    let fallback: Vec<&Value> = lines.iter().filter(|line| line["subtype"] == "model_fallback").collect();
    assert_eq!(fallback.len(), 1, "{run}");
    assert_eq!(fallback[0]["type"], "system");
    assert_eq!(
        fallback[0]["data"],
        json!({"fromModel": "first", "toModel": "second", "statusCode": 429, "fallbackIndex": 1})
    );
    let models: Vec<&Value> = lines
        .iter()
        .filter(|line| line["type"] == "assistant")
        .map(|line| &line["message"]["model"])
        .collect();
    assert_eq!(models, ["second", "second"]);
    let result = run.last_json();
    assert_eq!(result["result"], "It says hello.");
    assert_eq!(result["usage"]["input_tokens"], 30);
    let told = "fallback: `first` cannot answer now (answered 429); `second` is asked from here on";
    assert_eq!(stderr_lines(&run).iter().filter(|line| **line == told).count(), 1, "{run}");
    // The statistics name who did what.
    let busy = Server::start([reply().status(429).repeat(2)]);
    let other = Server::start([reply().text("Hello.").usage(20, 2)]);
    let run = with(first(&busy), Wire::Gemini, &other, "k")
        .args(["--fallback-model", "gemini/second", "-o", "json"])
        .run();
    run.assert_code(0);
    let output = run.json();
    let models = &output.as_array().and_then(|lines| lines.last()).unwrap()["stats"]["models"];
    let counts = |name: &str| (&models[name]["api"]["totalRequests"], &models[name]["api"]["totalErrors"]);
    assert_eq!(counts("first"), (&json!(2), &json!(2)));
    assert_eq!(counts("second"), (&json!(1), &json!(0)));
    assert_eq!(models["second"]["tokens"]["prompt"], 20);
}

#[test]
fn the_chain_is_asked_in_its_order() {
    let chat = Server::start([
        reply().status(503).when(|body| body["model"] == "first").forever(),
        reply().status(529).when(|body| body["model"] == "second").forever(),
        reply().text("Hello from the fourth.").when(|body| body["model"] == "fourth"),
    ]);
    let gemini = Server::start([reply().status(429).forever()]);
    // A bare name belongs to the provider of the first.
    let run = with(first(&chat), Wire::Gemini, &gemini, "k")
        .args(["--fallback-model", "second", "--fallback-model", "gemini/third,fourth", "-q"])
        .run();
    run.assert_code(0);
    assert_eq!(run.stdout, "Hello from the fourth.\n");
    let asked: Vec<String> = chat.requests().iter().map(asked_for).collect();
    assert_eq!(asked, ["first", "first", "second", "second", "fourth"]);
    assert_eq!(gemini.requests().iter().map(asked_for).collect::<Vec<_>>(), ["third", "third"]);
}

#[test]
fn when_all_are_busy_the_first_is_the_reason() {
    let busy = Server::start([reply().status(429).forever()]);
    let other = Server::start([reply().status(529).forever()]);
    let run = with(first(&busy), Wire::Messages, &other, "k")
        .args(["--fallback-model", "anthropic/second", "-o", "stream-json", "-q"])
        .run();
    assert_eq!(failed(&run), (1, "rate_limited".to_owned(), json!(429)), "{run}");
    assert!(run.stderr.contains("`openai` answered 429"), "{run}");
    assert!(run.stderr.contains("the fallback `second` failed too: `anthropic` answered 529"), "{run}");
    // A fallback with a wrong key ends it in the same way.
    let other = Server::start([reply().status(401).forever(), reply().text("never")]);
    let run = with(first(&busy), Wire::Messages, &other, "k")
        .args(["--fallback-model", "anthropic/second,anthropic/third", "-o", "stream-json", "-q"])
        .run();
    assert_eq!(failed(&run), (1, "rate_limited".to_owned(), json!(429)), "{run}");
    assert_eq!(other.requests().len(), 1);
}

#[test]
fn other_failures_are_not_for_others_to_solve() {
    for (status, code, class) in [
        (401, 41, "auth"),
        (403, 41, "auth"),
        (400, 1, "protocol"),
        (404, 1, "protocol"),
        (500, 1, "protocol"),
    ] {
        let server = Server::start([reply().status(status).forever()]);
        let other = Server::start([reply().text("never").forever()]);
        let run = with(first(&server), Wire::Messages, &other, "k")
            .args(["--fallback-model", "anthropic/second", "-o", "stream-json"])
            .run();
        assert_eq!(failed(&run), (code, class.to_owned(), json!(status)), "{run}");
        assert!(other.requests().is_empty(), "{status}");
    }
}

#[test]
fn a_wait_that_is_too_long_is_not_waited_for() {
    let busy = Server::start([reply().status(429).header("retry-after", "3600").forever()]);
    let other = Server::start([reply().text("Hello.")]);
    let run =
        with(first(&busy), Wire::Messages, &other, "k").args(["--fallback-model", "anthropic/second"]).run();
    run.assert_code(0);
    assert_eq!((run.stdout.as_str(), busy.requests().len()), ("Hello.\n", 1));
}

#[test]
fn an_answer_that_was_shown_is_not_asked_for_again() {
    let overloaded = json!({"message": "busy", "type": "overloaded_error"});
    let breaking = || reply().text("Half an").error_event(overloaded.clone()).forever();
    for (format, code) in [("text", 0), ("json", 0), ("stream-json", 1)] {
        let server = Server::start([breaking()]);
        let other = Server::start([reply().text("Whole.")]);
        let run = with(first(&server), Wire::Messages, &other, "k")
            .args(["--fallback-model", "anthropic/second", "-o", format])
            .run();
        run.assert_code(code);
        assert_eq!(other.requests().len(), usize::from(code == 0), "{run}");
        assert_eq!(run.stdout.contains("Half an"), code != 0, "{run}");
    }
}

#[test]
fn a_recorded_fallback_is_replayed() {
    let busy = Server::start([reply().status(429).repeat(2)]);
    let other = Server::start([
        reply().call("call_1", "read_file", json!({"file_path": "a.txt"})),
        reply().text("It says hello."),
    ]);
    let recorded = with(first(&busy), Wire::Messages, &other, "other-secret-key")
        .file("a.txt", "hello")
        .args(["--fallback-model", "anthropic/second", "--record", "run.jsonl"])
        .run();
    recorded.assert_code(0);
    let cassette = recorded.read("run.jsonl");
    assert!(!cassette.contains("other-secret-key") && !cassette.contains("test-key"), "{cassette}");
    let replayed = tenon()
        .file("a.txt", "hello")
        .file("run.jsonl", &cassette)
        .args(["-m", "openai/first", "-p", "go", "--settings", IMPATIENT, "--replay", "run.jsonl"])
        .args(["--fallback-model", "anthropic/second"])
        .run();
    replayed.assert_code(0);
    assert_eq!(replayed.stdout, recorded.stdout);
}

#[test]
fn a_fallback_that_cannot_be_asked_is_refused_at_once() {
    let server = Server::start([]);
    let run = first(&server).args(["--fallback-model", "gemini/g"]).run();
    run.assert_code(41);
    assert!(
        run.stderr.starts_with(
            "error[auth]: `--fallback-model gemini/g`: no key for `gemini`: `GEMINI_API_KEY` is not set\nhint: "
        ),
        "{run}"
    );
    assert!(server.requests().is_empty());
}
