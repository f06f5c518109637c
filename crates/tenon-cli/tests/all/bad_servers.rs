//! Servers that are not there, stop halfway, go silent or say what is no answer. What can be wrong on this side is in
//! `bad_input.rs`.

use tenon_testkit::{Reply, Server, json, reply};

use super::bad_input::{fails, fails_on};
use super::{IMPATIENT, tenon};

/// One attempt, and a server has a fifth of a second.
const HURRIED: &str = r#"{"retry":{"attempts":1},"timeouts":{"firstByte":0.2,"idle":0.2}}"#;

#[test]
fn addresses_that_lead_nowhere() {
    let server = Server::start([]);
    let dead = server.base_url();
    drop(server);
    let args = ["-p", "go", "-m", "m", "-q", "--settings", IMPATIENT, "--base-url"];
    fails(
        &tenon().args(args).arg(&dead),
        1,
        "error[network]: could not connect to `http://127.0.0.1:PORT/v1/chat/completions`: connection refused (after 2 attempts)\n",
    );
    let bad = [
        ("nonsense", "it does not start with `https://` or `http://`"),
        ("http:///v1", "it names no host, or its port is not a number"),
        ("http://127.0.0.1:99999/v1", "it names no host, or its port is not a number"),
        ("https://user:pass@example.com/v1", "it holds a user name; keys belong in the environment"),
    ];
    for (address, why) in bad {
        let stderr = format!(
            "error[config]: `--base-url` is not usable: {why}\nhint: write it like `https://api.example.com/v1`\n"
        );
        fails(&tenon().args(args).arg(address), 52, &stderr);
    }
}

#[test]
fn answers_that_stop_halfway() {
    // What was not shown to anybody is asked for again; a live stream cannot be taken back.
    let server = Server::start([reply().text_chunks(["half ", "an answer"]).cut_after_events(2).forever()]);
    let args = ["-p", "go", "-q", "--settings", IMPATIENT];
    let run = tenon().server(&server).args(args).run();
    run.assert_code(1);
    assert_eq!(run.stdout, "");
    assert_eq!(
        run.stderr,
        "error[network]: the connection closed in the middle of the answer (after 2 attempts)\n"
    );
    assert_eq!(server.requests().len(), 2);
    let run = tenon().server(&server).args(args).args(["-o", "stream-json"]).run();
    run.assert_code(1);
    assert_eq!(
        run.stderr,
        "error[network]: the connection closed in the middle of the answer; half an answer had already been passed on, so the request was not repeated\n"
    );
    assert_eq!(server.requests().len(), 3);
    // The second try is the answer.
    let server = Server::start([reply().text("half ").cut_after_events(2), reply().text("whole")]);
    let run = tenon().server(&server).args(args).run();
    run.assert_code(0);
    assert_eq!(run.stdout, "whole\n");
    // Nothing but a length or a filter.
    fails_on(
        reply().text("It is").finish("length"),
        IMPATIENT,
        1,
        "error[truncated]: the answer was cut off by the model's output limit\nhint: ask for a shorter answer, or use a model with a larger output limit\n",
    );
    fails_on(
        reply(),
        IMPATIENT,
        1,
        "error[protocol]: the model gave an empty answer\nhint: try again, or check that the server supports this model's chat template\n",
    );
}

#[test]
fn servers_that_go_silent() {
    let silent = "error[network]: the server at `http://127.0.0.1:PORT/v1/chat/completions` did not answer within 0.2 s\n";
    fails_on(reply().hang_after_events(0), HURRIED, 1, silent);
    let idle = Server::start([reply().text("It").text(" is").hang_after_events(2).forever()]);
    let run = tenon().server(&idle).args(["-p", "go", "-q", "--settings", HURRIED]).run();
    run.assert_code(1);
    assert_eq!(run.stdout, "");
    assert_eq!(run.stderr, "error[network]: nothing came for 0.2 s in the middle of the answer\n");
    let never_headers = reply().hold(&tenon_testkit::Gate::new());
    fails_on(never_headers, HURRIED, 1, silent);
}

#[test]
fn an_answer_that_never_ends_is_ended_by_the_budget() {
    let server = Server::start([reply().endless().forever()]);
    for format in ["text", "stream-json"] {
        let args = ["-p", "go", "-q", "--max-wall-time", "1s", "-o", format];
        let run = tenon().server(&server).args(args).run();
        run.assert_code(55);
        assert!(run.stderr.starts_with("error[budget]: the wall-time budget of 1 s was used up"), "{run}");
        if format == "text" {
            assert_eq!(run.stdout, "");
        } else {
            assert_eq!(run.last_json()["error"]["code"], 55);
        }
    }
}

#[test]
fn answers_that_are_no_answers() {
    let page = "<!doctype html><html><title>Log in to the Wi-Fi</title></html>";
    let base = "hint: check the base URL (with the version, such as `/v1`, where the provider wants it) and any proxy in between\n";
    let web_page = format!(
        "error[protocol]: `http://127.0.0.1:PORT/v1/chat/completions` answered with a web page, not with a model's answer\n{base}"
    );
    let plain_text = format!(
        "error[protocol]: the server answered 200 with something that is not an answer: `Hello, I am a web server.`\n{base}"
    );
    let error = json!({"error": {"message": "model is loading", "code": "model_not_ready"}});
    let table: Vec<(Reply, &str)> = vec![
        (reply().raw_body("text/html", page), &web_page),
        (reply().raw_body("text/event-stream", page), &web_page),
        (reply().raw_body("application/json", page), &web_page),
        (reply().json(error.clone()), "error[protocol]: `openai` reported an error: model is loading\n"),
        (
            reply().error_event(error["error"].clone()),
            "error[protocol]: `openai` reported an error: model is loading\n",
        ),
        (
            reply().data("this is not JSON"),
            "error[protocol]: the server sent something that is not JSON: `this is not JSON`\n",
        ),
        (reply().json(json!({"choices": "none"})), "error[protocol]: `openai` reported an error\n"),
        (reply().raw_body("text/plain", "Hello, I am a web server."), &plain_text),
        (
            reply().raw_body("text/event-stream", ""),
            "error[protocol]: the server answered 200 with an empty body (after 2 attempts)\n",
        ),
        (
            reply().raw_body("application/json", "{\"choices\":[{\"mess"),
            "error[protocol]: the server sent something that is not JSON: `{\"choices\":[{\"mess`\n",
        ),
        (
            reply().status(404).json(json!({"error": {"message": "model `x` not found"}})),
            "error[protocol]: `openai` answered 404 (not found): model `x` not found\nhint: the server does not know the model `test-model`; choose another with `--model`\n",
        ),
        (
            reply().status(502).raw_body("text/html", page),
            "error[network]: `openai` answered 502 (bad gateway) (after 2 attempts)\n",
        ),
        (
            reply().status(429).header("retry-after", "3600"),
            "error[rate_limited]: `openai` answered 429 (too many requests): scripted status 429; the server asks to wait 3600 s, and 60 s is the most that is waited\n",
        ),
        (
            reply().status(302).header("location", "https://example.com/"),
            "error[protocol]: `openai` answered 302 (redirect): scripted status 302\nhint: redirects are not followed; set the base URL to the final address\n",
        ),
    ];
    for (answer, stderr) in table {
        fails_on(answer, IMPATIENT, 1, stderr);
    }
}

#[test]
fn what_a_server_says_cannot_write_to_the_terminal() {
    let message = "\u{1b}[2J\u{1b}]0;title\u{7}gone\u{9b}31m\u{202e}";
    let server = Server::start([reply().status(400).json(json!({"error": {"message": message}})).forever()]);
    let run = tenon().server(&server).args(["-p", "go", "-q"]).run();
    run.assert_code(1);
    let shown = run.stderr.trim_end_matches('\n');
    assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}'), "{shown:?}");
}

#[test]
fn a_line_without_end_does_not_eat_the_memory() {
    let line = format!("data: {}", "x".repeat(17 << 20));
    let server = Server::start([reply().raw_stream(line).forever()]);
    let run = tenon().server(&server).args(["-p", "go", "-q"]).run();
    run.assert_code(1);
    assert_eq!(run.stderr, "error[protocol]: one event of the answer is larger than 16 MiB\n");
}
