//! What a run costs and how it is bounded, through the binary.

use tenon_testkit::{Run, Server, Tenon, Value, Wire, json, reply};

use super::output::{SCHEMA, result_of};
use super::tenon;

const USER: &str = "settings.json";
const PROJECT: &str = ".tenon/settings.json";
/// A millionth of a dollar for a token of input, ten for one of output.
const PRICED: &str = r#"{"prices": {"test-model": {"input": 1, "output": 10, "cacheRead": 0.1, "cacheWrite": 1.25}}, "retry": {"attempts": 3, "baseMs": 1}}"#;

fn priced(server: &Server) -> Tenon {
    tenon().server(server).file("a.txt", "alpha\n").args(["-p", "go", "--settings", PRICED])
}

fn look() -> Value {
    json!({"file_path": "a.txt"})
}

#[track_caller]
fn assert_over_budget(run: &Run, message: &[&str]) -> Value {
    let result = result_of(run.assert_code(55));
    assert_eq!(
        (&result["subtype"], &result["error"]["class"], &result["error"]["code"]),
        (&json!("error_max_budget_usd"), &json!("budget"), &json!(55)),
        "{run}"
    );
    for words in message {
        assert!(result["error"]["message"].as_str().unwrap().contains(words), "{words}\n{run}");
    }
    result
}

#[test]
fn every_wires_count_has_its_price() {
    for wire in Wire::ALL {
        let (usage, cost) = match wire {
            Wire::Messages => (
                json!({"input_tokens": 26, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 64, "output_tokens": 20}),
                26.0 + 12.5 + 6.4 + 200.0,
            ),
            _ => (
                json!({
                    "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
                    "prompt_tokens_details": {"cached_tokens": 64},
                    "completion_tokens_details": {"reasoning_tokens": 5},
                }),
                36.0 + 6.4 + 200.0,
            ),
        };
        let script = || {
            [
                reply().call("c", "read_file", look()).usage_full(usage.clone()),
                reply().text("Done.").usage_full(usage.clone()),
            ]
        };
        let server = Server::start(script());
        let flags = ["-p", "go", "-o", "json", "--max-budget-usd", "1"];
        let run = tenon().server_on(&server, wire).args(flags).args(["--settings", PRICED]).run();
        let total = result_of(run.assert_code(0))["total_cost_usd"].as_f64().unwrap();
        assert!((total - 2.0 * cost / 1e6).abs() < 1e-12, "{wire:?}: {total} is not twice {cost} millionths");
        // Nobody charges for a server on this machine, unless settings say so.
        let server = Server::start(script());
        let run = tenon().server_on(&server, wire).args(flags).run();
        assert_eq!(result_of(run.assert_code(0))["total_cost_usd"], 0.0, "{wire:?}");
    }
}

#[test]
fn an_answer_without_a_count_has_no_known_cost() {
    let server = Server::start([reply().text("Done.")]);
    let run = priced(&server).args(["-o", "json"]).run();
    assert_eq!(result_of(run.assert_code(0))["total_cost_usd"], Value::Null);
}

#[test]
fn a_budget_ends_a_run_before_the_request_that_would_reach_it() {
    let script = || [reply().call("c", "read_file", look()).usage(100_000, 10), reply().text("never")];
    for format in ["json", "stream-json"] {
        let server = Server::start(script());
        let run = priced(&server).args(["-o", format, "--max-budget-usd", "0.2"]).run();
        let result =
            assert_over_budget(&run, &["$0.1001 of $0.2000 spent", "would cost $0.1", "`--max-budget-usd`"]);
        assert_eq!((&result["total_cost_usd"], server.requests().len()), (&json!(0.1001), 1));
        assert!(run.stderr.contains("hint: raise `--max-budget-usd`"), "{run}");
    }
    let server = Server::start(script());
    let run = priced(&server).args(["--max-budget-usd", "0.2"]).run();
    run.assert_code(55);
    assert_eq!(run.stdout, "");
    // What is left is enough: the estimate of the next request is part of the decision.
    let server = Server::start([
        reply().call("c", "read_file", look()).usage(100_000, 10),
        reply().text("Done.").usage(100_100, 5),
    ]);
    let run = priced(&server).args(["--max-budget-usd", "0.5", "-o", "json"]).run();
    assert_eq!(result_of(run.assert_code(0))["total_cost_usd"], 0.20025);
}

#[test]
fn a_budget_too_small_for_the_first_request_sends_none() {
    let server = Server::start([reply().text("never")]);
    for (limit, said) in [("0", "$0 of $0 spent"), ("0.000001", "$0 of $0.0000010 spent")] {
        let run = priced(&server).args(["-o", "json", "--max-budget-usd", limit]).run();
        assert_over_budget(&run, &[said]);
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn attempts_that_gave_nothing_cost_nothing_and_broken_answers_what_was_counted() {
    let server = Server::start([
        reply().status(503),
        // This wire tells the input first, and one token of output.
        reply().text("Half").usage(1000, 50).cut_after_events(2),
        reply().text("Done.").usage(1000, 100),
    ]);
    let flags = ["-p", "go", "-o", "json", "--max-budget-usd", "0.1", "--settings", PRICED];
    let run = tenon().server_on(&server, Wire::Messages).args(flags).run();
    let result = result_of(run.assert_code(0));
    let api = &result["stats"]["models"]["test-model"]["api"];
    assert_eq!((&api["totalRequests"], &api["totalErrors"]), (&json!(3), &json!(2)), "{run}");
    assert_eq!(result["total_cost_usd"], 0.00301, "{run}");
}

#[test]
fn the_flag_goes_before_the_settings_and_a_project_may_only_lower() {
    let settings =
        |limit: &str| PRICED.replacen('{', &format!(r#"{{"limits": {{"budgetUsd": {limit}}}, "#), 1);
    let run = |user: &str, project: Option<&str>, flags: &[&str]| {
        let server = Server::start([
            reply().call("c", "read_file", look()).usage(100_000, 10),
            reply().text("Done.").usage(100_000, 1),
        ]);
        let mut run = tenon()
            .server(&server)
            .home_file(USER, settings(user))
            .args(["-p", "go", "-o", "json"])
            .args(flags);
        if let Some(project) = project {
            run = run.file(PROJECT, format!(r#"{{"limits": {{"budgetUsd": {project}}}}}"#));
        }
        run.run().code
    };
    assert_eq!(run("0.15", None, &[]), 55);
    assert_eq!(run("1", None, &[]), 0);
    assert_eq!(run("0.15", None, &["--max-budget-usd", "1"]), 0);
    assert_eq!(run("0.15", None, &["--max-budget-usd", "-1"]), 0);
    assert_eq!(run("1", None, &["--max-budget-usd", "0.15"]), 55);
    assert_eq!(run("1", Some("0.15"), &[]), 55);
    assert_eq!(run("0.15", Some("1"), &[]), 55);
}

#[test]
fn a_budget_that_nobody_can_keep_is_refused() {
    let remote = || {
        tenon().env("OPENAI_API_KEY", "k").args([
            "-p",
            "go",
            "-o",
            "json",
            "--base-url",
            "https://models.invalid/v1",
            "-m",
            "house-model",
        ])
    };
    let budget = ["--max-budget-usd", "1"];
    let run = remote().args(budget).run();
    let error = result_of(run.assert_code(52))["error"].clone();
    assert_eq!(
        error["message"],
        "`--max-budget-usd` cannot be kept: what the model `house-model` costs is not known"
    );
    assert!(error["hint"].as_str().unwrap().contains(r#""prices": { "house-model""#), "{error}");
    let run = remote().home_file(USER, r#"{"limits": {"budgetUsd": 1}}"#).run();
    let error = result_of(run.assert_code(52))["error"].clone();
    assert!(error["message"].as_str().unwrap().starts_with("`limits.budgetUsd` of the settings"), "{error}");
    // A fallback counts too.
    let prices = r#"{"prices": {"house-model": {"input": 1, "output": 1}}}"#;
    let run = remote().args(budget).args(["--settings", prices, "--fallback-model", "other-model"]).run();
    let error = result_of(run.assert_code(52))["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("`other-model`"), "{error}");
}

#[test]
fn what_is_no_amount_of_money_is_a_usage_error() {
    for amount in ["-2", "-0.5", "nan", "inf", "much"] {
        let run = tenon()
            .env("OPENAI_API_KEY", "k")
            .args(["-p", "go", "-o", "json", "--max-budget-usd", amount])
            .run();
        run.assert_code(2);
        assert!(run.stdout.is_empty() && run.stderr.contains("--max-budget-usd"), "{run}");
    }
}

#[test]
fn a_budget_that_is_reached_keeps_the_last_candidate() {
    let server =
        Server::start([reply().call("c", "structured_output", json!({"risk": "hgih"})).usage(100_000, 10)]);
    let run = priced(&server).args(["-o", "json", "--json-schema", SCHEMA, "--max-budget-usd", "0.2"]).run();
    let result = assert_over_budget(&run, &[]);
    assert_eq!(result["structured_error"]["candidate"], json!({"risk": "hgih"}), "{run}");
}

#[test]
fn an_agent_pays_for_those_that_work_for_it() {
    let ask = || {
        reply()
            .call("c1", "agent", json!({"description": "look", "prompt": "HELP", "subagent_type": "explore"}))
            .usage(10_000, 100)
            .when(|body| !body.to_string().contains("HELP"))
    };
    let help = || reply().call("h1", "read_file", look()).usage(20_000, 10);
    let script =
        || [ask(), help(), reply().text("Found.").usage(30_000, 20), reply().text("Done.").usage(11_000, 5)];
    let server = Server::start(script());
    let run = priced(&server).args(["-y", "-o", "json", "--max-budget-usd", "1"]).run();
    let result = result_of(run.assert_code(0));
    assert_eq!(result["result"], "Done.", "{run}");
    assert_eq!(result["total_cost_usd"], (71_000.0 + 1350.0) / 1e6, "{run}");
    assert_eq!(result["usage"]["input_tokens"], 71_000, "{run}");
    assert_eq!(result["stats"]["models"]["test-model"]["api"]["totalRequests"], 4);
    assert_eq!(result["stats"]["tools"]["byName"]["read_file"]["count"], 1, "{run}");
    // One budget for both: what the helper spent is gone for its caller.
    let server = Server::start(script());
    let run = priced(&server).args(["-y", "-o", "json", "--max-budget-usd", "0.065"]).run();
    let result = assert_over_budget(&run, &["of $0.0650 spent"]);
    assert!(server.requests().len() < 4 && result["total_cost_usd"].as_f64().unwrap() > 0.03, "{run}");
}
