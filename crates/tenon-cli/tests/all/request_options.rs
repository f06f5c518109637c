//! Options of one request: a model, sampling, a limit, tools. They hold for that request on every protocol, and the
//! next one is asked as the session is.

use tenon_testkit::{Server, Value, Wire, json, reply};

use super::driving::{Driver, LINES, driven};
use super::tenon;

fn request(text: &str, options: Value) -> Value {
    json!({"input": {"parts": [{"type": "text", "text": text}]}, "options": options})
}

/// Temperature, top_p and the limit, wherever a protocol has them.
fn sampled(wire: Wire, body: &Value) -> [Value; 3] {
    match wire {
        Wire::Gemini => {
            let config = &body["generationConfig"];
            [config["temperature"].clone(), config["topP"].clone(), config["maxOutputTokens"].clone()]
        }
        Wire::Responses => {
            [body["temperature"].clone(), body["top_p"].clone(), body["max_output_tokens"].clone()]
        }
        Wire::Chat | Wire::Messages => {
            [body["temperature"].clone(), body["top_p"].clone(), body["max_tokens"].clone()]
        }
    }
}

#[test]
fn sampling_holds_for_one_request_on_every_protocol() {
    for wire in Wire::ALL {
        let server = Server::start([reply().text("1"), reply().text("2")]);
        let mut driver =
            Driver::start(tenon().server_on(&server, wire).args(LINES).args(["--dialect", "openai"]));
        driver.send(&request("one", json!({"temperature": 0.2, "top_p": 0.9, "max_output_tokens": 77})));
        driver.until(|line| line["metadata"]["final"] == true);
        driver.send(&request("two", json!({})));
        driver.until(|line| line["metadata"]["final"] == true);
        let first = sampled(wire, &server.request(0).body);
        assert_eq!(first, [json!(0.2), json!(0.9), json!(77)], "{wire:?}");
        let usual = if wire == Wire::Messages { json!(32_000) } else { Value::Null };
        assert_eq!(sampled(wire, &server.request(1).body), [Value::Null, Value::Null, usual], "{wire:?}");
        driver.finish().assert_code(0);
    }
}

#[test]
fn a_plain_openai_request_has_them_beside_its_messages() {
    for key in ["max_tokens", "max_completion_tokens", "max_output_tokens"] {
        let server = Server::start([reply().text("1")]);
        let mut driver = driven(&server, &[]);
        let mut line = json!({"messages": [{"role": "user", "content": "hi"}], "temperature": 1.5});
        line[key] = json!(9);
        driver.send(&line);
        driver.until(|line| line["metadata"]["final"] == true);
        let sent = sampled(Wire::Chat, &server.request(0).body);
        assert_eq!(sent, [json!(1.5), Value::Null, json!(9)], "{key}");
        driver.finish().assert_code(0);
    }
}

#[test]
fn another_model_answers_one_request_and_its_helpers() {
    let server = Server::start([
        reply().call("c1", "agent", json!({"description": "d", "prompt": "Help."})),
        reply().text("Helped."),
        reply().text("1"),
        reply().text("2"),
    ]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    driver.send(&request("one", json!({"model": "openai/other"})));
    driver.until(|line| line["metadata"]["final"] == true);
    driver.send(&request("two", json!({})));
    driver.until(|line| line["metadata"]["final"] == true);
    let models: Vec<Value> = server.requests().iter().map(|request| request.body["model"].clone()).collect();
    assert_eq!(models, ["other", "other", "other", "test-model"]);
    driver.finish().assert_code(0);
}

#[test]
fn only_the_named_tools_are_offered() {
    let server = Server::start([reply().text("1"), reply().text("2")]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    driver.send(&request("one", json!({"tool_overrides": ["EditTool", "read_file"]})));
    driver.until(|line| line["metadata"]["final"] == true);
    driver.send(&request("two", json!({})));
    driver.until(|line| line["metadata"]["final"] == true);
    assert_eq!(server.request(0).tool_names(), ["read_file", "edit"]);
    assert!(server.request(1).tool_names().len() > 10);
    driver.finish().assert_code(0);
}

#[test]
fn the_system_message_of_a_plain_request_stands_apart_from_the_words_of_the_user() {
    let server = Server::start([reply().text("Ahoy.")]);
    let mut driver = driven(&server, &[]);
    let line = |text: &str| {
        json!({"messages": [
            {"role": "system", "content": "You are a pirate."}, {"role": "user", "content": text},
        ]})
    };
    driver.send(&line("/help"));
    driver.until(|line| line["type"] == "result/command");
    driver.until(|line| line["metadata"]["final"] == true);
    driver.send(&line("Hello"));
    driver.until(|line| line["metadata"]["final"] == true);
    let asked = server.request(0);
    assert_eq!(asked.messages().last().unwrap()["content"], "You are a pirate.\n\nHello");
    driver.finish().assert_code(0);
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let server = Server::start([]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    for (options, why) in [
        (json!({"temperature": 3}), "`temperature` must be a number from 0 to 2"),
        (json!({"temperature": "hot"}), "`temperature` must be a number from 0 to 2"),
        (json!({"top_p": -0.1}), "`top_p` must be a number from 0 to 1"),
        (json!({"max_tokens": 0}), "`max_tokens` must be a whole number from 1"),
        (json!({"max_output_tokens": 1.5}), "`max_output_tokens` must be a whole number from 1"),
        (json!({"tool_overrides": "edit"}), "`tool_overrides` must be a list of tool names"),
    ] {
        driver.send(&request("x", options));
        let answer = driver.until(|line| line["type"] == "result/error");
        assert_eq!(answer["error"]["message"], why);
    }
    driver.send(&request("x", json!({"tool_overrides": ["edti"]})));
    let answer = driver.until(|line| line["metadata"]["final"] == true);
    let message = answer["metadata"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("`tool_overrides`: there is no tool `edti`"), "{answer}");
    driver.finish();
    assert!(server.requests().is_empty());
}
