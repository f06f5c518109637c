//! How much a model thinks: what each protocol is told, and what cannot be told is refused before it is asked.

use tenon_testkit::{Server, Tenon, Value, Wire, json, reply};

use super::driving::{Driver, LINES};
use super::tenon;

/// What the model was sent, of the fields that matter here.
fn told(wire: Wire, body: &Value) -> Value {
    match wire {
        Wire::Chat => json!([body["reasoning_effort"]]),
        Wire::Responses => json!([body["reasoning"]]),
        Wire::Messages => json!([body["thinking"], body["output_config"], body["max_tokens"]]),
        Wire::Gemini => json!([body["generationConfig"]["thinkingConfig"]]),
    }
}

/// The binary, asking this model of the scripted server.
fn asking(server: &Server, wire: Wire, model: &str) -> Tenon {
    let setup = wire.env(server).into_iter().fold(tenon(), |setup, (name, value)| setup.env(name, value));
    setup.args(["-m", &format!("{}/{model}", wire.provider())])
}

#[test]
fn each_protocol_is_told_in_its_own_words() {
    use Wire::{Chat, Gemini, Messages, Responses};
    let effort = ["--effort", "high"];
    let table: &[(Wire, &str, &[&str], Value)] = &[
        (Chat, "gpt-5", &effort, json!(["high"])),
        (Chat, "gpt-5", &["--effort", "max"], json!(["xhigh"])),
        (Chat, "gpt-5", &["--thinking", "disabled"], json!(["none"])),
        (Chat, "gpt-5", &["--thinking", "adaptive"], json!([null])),
        (Chat, "gpt-5", &[], json!([null])),
        (Responses, "gpt-5", &effort, json!([{"effort": "high"}])),
        (Responses, "gpt-5", &["--max-thinking-tokens", "0"], json!([{"effort": "none"}])),
        (Messages, "claude-opus-4-6", &effort, json!([{"type": "adaptive"}, {"effort": "high"}, 32_000])),
        (
            Messages,
            "claude-sonnet-4-5",
            &effort,
            json!([{"type": "enabled", "budget_tokens": 20_480}, null, 52_480]),
        ),
        (
            Messages,
            "claude-sonnet-4-5",
            &["--max-thinking-tokens", "9000"],
            json!([{"type": "enabled", "budget_tokens": 9000}, null, 41_000]),
        ),
        (
            Messages,
            "claude-opus-4-6",
            &["--thinking", "disabled"],
            json!([{"type": "disabled"}, null, 32_000]),
        ),
        (Messages, "claude-opus-4-6", &[], json!([null, null, 32_000])),
        (Gemini, "gemini-3-pro", &effort, json!([{"thinkingLevel": "high"}])),
        (Gemini, "gemini-2.5-flash", &["--effort", "low"], json!([{"thinkingBudget": 2048}])),
        (Gemini, "gemini-2.5-flash", &["--thinking", "adaptive"], json!([{"thinkingBudget": -1}])),
        (Gemini, "gemini-2.5-flash", &[], json!([null])),
    ];
    for (wire, model, flags, wanted) in table {
        let server = Server::start([reply().text("Done.")]);
        let run = asking(&server, *wire, model).args(["-p", "Think."]).args(*flags).run();
        run.assert_code(0);
        assert_eq!(told(*wire, &server.request(0).body), *wanted, "{model} {flags:?}");
    }
}

#[test]
fn what_cannot_be_told_is_refused_before_anything_is_asked() {
    let table: &[(Wire, &str, &[&str], &str)] = &[
        (Wire::Chat, "gpt-5", &["--max-thinking-tokens", "5"], "have no limit on thinking in tokens"),
        (Wire::Messages, "claude-3-5-haiku", &["--effort", "low"], "`claude-3-5-haiku` does not think"),
        (Wire::Gemini, "gemini-2.0-flash", &["--effort", "low"], "`gemini-2.0-flash` does not think"),
        (Wire::Gemini, "gemini-3-pro", &["--thinking", "disabled"], "always thinks"),
    ];
    for (wire, model, flags, why) in table {
        let server = Server::start([]);
        let run = asking(&server, *wire, model).args(["-p", "Think."]).args(*flags).run();
        run.assert_code(52);
        assert!(run.stderr.contains(why), "{run}");
        assert!(server.requests().is_empty());
    }
    for flags in [["--effort", "hard"], ["--thinking", "maybe"], ["--max-thinking-tokens", "many"]] {
        tenon().args(["-p", "x"]).args(flags).run().assert_code(2);
    }
    let both = ["--thinking", "adaptive", "--max-thinking-tokens", "5"];
    tenon().args(["-p", "x"]).args(both).run().assert_code(2);
}

#[test]
fn a_client_sets_the_effort_of_the_next_turn() {
    let server = Server::start([reply().text("1"), reply().text("2")]);
    let setup = asking(&server, Wire::Messages, "claude-opus-4-5").args(LINES);
    let mut driver = Driver::start(setup);
    let greeted = driver.told(json!({"subtype": "initialize", "effort": "low"}));
    assert_eq!(greeted["effort_status"], json!({"effort": "low", "applied": true, "override": null}));
    assert_eq!(greeted["capabilities"]["can_set_effort"], true);
    driver.turn("one");
    let set = driver.told(json!({"subtype": "set_effort", "effort": "high"}));
    assert_eq!(set, json!({"effort": "high", "applied": true, "override": null, "subtype": "set_effort"}));
    driver.turn("two");
    let why = driver.refused(json!({"subtype": "set_effort", "effort": "hard"}));
    assert_eq!(why, "there is no effort `hard`; it can be `low`, `medium`, `high`, `xhigh`, `max`");
    let efforts: Vec<Value> =
        server.requests().iter().map(|request| request.body["output_config"]["effort"].clone()).collect();
    assert_eq!(efforts, [json!("low"), json!("high")]);
    driver.finish().assert_code(0);
}

#[test]
fn a_model_that_cannot_be_told_leaves_the_effort_as_it_was() {
    let server = Server::start([reply().text("1")]);
    let setup = asking(&server, Wire::Gemini, "gemini-2.0-flash").args(LINES);
    let mut driver = Driver::start(setup);
    let set = driver.told(json!({"subtype": "set_effort", "effort": "high"}));
    assert_eq!(
        (&set["applied"], &set["reason"]),
        (&json!(false), &json!("the model `gemini-2.0-flash` does not think"))
    );
    assert_eq!(driver.turn("one")["result"], "1");
    assert_eq!(server.request(0).body["generationConfig"], Value::Null);
    driver.finish().assert_code(0);
}
