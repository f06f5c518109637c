//! Many steps at once, and a server or a purse that has not enough for all: who waits, who is refused, what is said.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenon_testkit::{Server, Value, json, reply};

use super::flow_run::{at, flow};
use super::tenon;

/// So many items, all at the same time.
fn items(count: usize, more: &str) -> String {
    let list: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    format!(
        "name: n\n{more}steps:\n  - id: each\n    instructions: Do ${{{{ item }}}}.\n    loop: {{ forEach: [{}], maxConcurrency: {count} }}\n",
        list.join(", ")
    )
}

fn count(report: &Value, status: &str) -> usize {
    let items = report["steps"]["each"]["result"]["iterations"].as_array().unwrap();
    items.iter().filter(|item| item["status"] == status).count()
}

/// By themselves 30 steps would be refused 135 times and more, and most would give up.
#[test]
fn steps_wait_for_a_limit_that_one_of_them_has_met() {
    const WINDOW: Duration = Duration::from_millis(200);
    let seen = Arc::new(Mutex::new((Instant::now(), 0, 0)));
    let counting = Arc::clone(&seen);
    let is_over = move |_: &Value| {
        let (since, answered, refused) = &mut *counting.lock().unwrap();
        if since.elapsed() >= WINDOW {
            (*since, *answered) = (Instant::now(), 0);
        }
        let over = *answered == 3;
        *(if over { refused } else { answered }) += 1;
        over
    };
    let server = Server::start([
        reply().status(429).header("retry-after-ms", WINDOW.as_millis().to_string()).when(is_over).forever(),
        reply().text("done").usage(1, 1).forever(),
    ]);
    let run = flow(&server, &items(30, "")).args(["-o", "json"]).run();
    let report = run.assert_code(0).json();
    assert_eq!(count(&report, "completed"), 30, "{run}");
    let refused = seen.lock().unwrap().2;
    assert!(refused <= 60, "{refused} requests were refused");
    assert_eq!(report["steps"]["each"]["usage"]["total"], 60, "what was refused was not paid for: {run}");
}

/// Each answer costs a dollar; there is money for ten.
#[test]
fn a_budget_is_not_overshot_by_many_steps_at_once() {
    let prices = r#"{"prices":{"test-model":{"input":0,"output":1000}}}"#;
    for (more, flags, said) in [
        ("", vec!["--max-budget-usd", "10"], "`--max-budget-usd`"),
        ("budget: { maxUsd: 10 }\n", vec![], "`budget.maxUsd` of the document"),
        ("budget: { maxUsd: 10 }\n", vec!["--max-budget-usd", "99"], "`budget.maxUsd` of the document"),
        ("budget: { maxUsd: 99 }\n", vec!["--max-budget-usd", "10"], "`--max-budget-usd`"),
    ] {
        let server = Server::start([reply().text("done").usage(10, 1000).forever()]);
        let run = flow(&server, &items(50, more))
            .home_file("settings.json", prices)
            .args(["-o", "json"])
            .args(&flags)
            .run();
        let report = run.assert_code(55).json();
        assert_eq!(report["status"], "budget_exceeded", "{run}");
        assert_eq!((server.requests().len(), &report["total_cost_usd"]), (10, &json!(10.0)), "{run}");
        // Whether an item hears of it first or from the run depends on who is faster.
        let without = count(&report, "cancelled") + count(&report, "failed");
        assert_eq!((count(&report, "completed"), without), (10, 40), "{run}");
        assert_eq!(report["steps"]["each"]["cost"], 10.0, "{run}");
        let error = format!("{} {}", report["error"]["message"], report["error"]["hint"]);
        assert!(error.contains(said), "{error}");
        assert_eq!(error.contains("--max-budget-usd"), said.contains("--max"), "{error}");
    }
}

/// Items that were done stay done, and what they cost counts against every later limit.
#[test]
fn a_budget_that_was_used_up_can_be_raised() {
    let prices = r#"{"prices":{"test-model":{"input":0,"output":1000}}}"#;
    let place = tenon().file("flow.yaml", items(6, "")).home_file("settings.json", prices);
    let server = Server::start([reply().text("done").usage(10, 1000).forever()]);
    let first = ["run", "flow.yaml", "--run-id", "r1", "-o", "json", "--max-budget-usd", "3"];
    for (args, code, paid) in [
        (&first[..], 55, 3),
        (&["resume", "r1", "-o", "json", "--max-budget-usd", "5"], 55, 5),
        (&["resume", "r1", "-o", "json", "--max-budget-usd", "50"], 0, 6),
    ] {
        let run = place.clone().server(&server).args(["flow"]).args(args).run();
        let report = run.assert_code(code).json();
        assert_eq!(
            (server.requests().len(), &report["total_cost_usd"]),
            (paid, &json!(paid as f64)),
            "{run}"
        );
        assert_eq!(count(&report, "completed"), paid, "{run}");
    }
}

#[test]
fn a_limit_of_the_settings_and_a_limit_that_cannot_be_kept_name_where_they_stand() {
    let dear = r#"{"limits":{"budgetUsd":0.5},"prices":{"test-model":{"input":0,"output":1000}}}"#;
    let server = Server::start([reply().text("done").usage(10, 1000).forever()]);
    let run = flow(&server, &items(3, "")).home_file("settings.json", dear).run();
    assert!(run.assert_code(55).stderr.contains("(`limits.budgetUsd` of the settings)"), "{run}");
    // A model that nobody knows the price of, on a server that is not this machine's.
    let run = flow(&server, &items(3, "budget: { maxUsd: 1 }\n"))
        .args(["-m", "house-model", "--base-url", "https://models.example.com/v1", "-o", "json"])
        .env("OPENAI_API_KEY", "k")
        .run();
    let message = run.assert_code(52).json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("`budget.maxUsd` of the document cannot be kept"), "{message}");
}

/// What a step cost is said when it ends, over all its attempts.
#[test]
fn every_step_says_what_it_cost() {
    let prices = r#"{"prices":{"test-model":{"input":0,"output":1000}}}"#;
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a., retries: 1, agent: one }\n  - { id: b, instructions: Do b., dependsOn: [a] }\nagents:\n  one: { description: d, resultSchema: { type: object, required: [x], properties: { x: { type: integer } } } }\n";
    let server = Server::start([
        at("Do a.").text("no").usage(10, 1000),
        at("Do a.").text("no").usage(10, 1000),
        at("Do a.").call("c", "submit_result", json!({"x": 1})).usage(10, 500),
        at("Do b.").text("b").usage(10, 250),
    ]);
    let run = flow(&server, document).home_file("settings.json", prices).args(["-o", "stream-json"]).run();
    run.assert_code(0);
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let costs: Vec<(&Value, &Value)> = events
        .iter()
        .filter(|event| event["type"] == "step_end")
        .map(|event| (&event["step_id"], &event["data"]["cost"]))
        .collect();
    assert_eq!(costs, [(&json!("a"), &json!(2.5)), (&json!("b"), &json!(0.25))]);
    assert_eq!(events.last().unwrap()["data"]["total_cost_usd"], 2.75);
    for line in [" · $2.5000", " · $0.2500"] {
        assert!(run.stderr.contains(line), "{run}");
    }
}

/// Which limit, how much of how much, what to do; and what became of each step. The same for all of them.
#[test]
fn every_budget_ends_a_run_in_the_same_shape() {
    let prices = r#"{"prices":{"test-model":{"input":0.01,"output":1000}}}"#;
    let document = |more: &str| {
        format!(
            "name: n\n{more}steps:\n  - {{ id: a, instructions: Do a. }}\n  - {{ id: b, instructions: Do b., dependsOn: [a] }}\n  - {{ id: c, instructions: Do c., dependsOn: [b] }}\n"
        )
    };
    let flag = "`--max-budget-usd`";
    for (more, flags, first, used, set_by) in [
        (
            "budget: { maxTurns: 1 }\n",
            vec![],
            "completed",
            "1 of its 1 model turns",
            "`budget.maxTurns` of the document",
        ),
        (
            "budget: { maxTokens: 9 }\n",
            vec![],
            "completed",
            "1010 of the 9 tokens it may use",
            "`budget.maxTokens` of the document",
        ),
        (
            "budget: { maxUsd: 1 }\n",
            vec![],
            "completed",
            "$1.0000 of the $1.0000 it may spend",
            "`budget.maxUsd` of the document",
        ),
        ("", vec!["--max-budget-usd", "0.9"], "completed", "$1.0000 of the $0.9000 it may spend", flag),
        (
            "",
            vec!["--max-budget-usd", "0.000001"],
            "cancelled",
            "$0 of $0.0000010 spent, and the next request would cost $",
            flag,
        ),
        (
            "",
            vec!["--max-budget-usd", "0"],
            "cancelled",
            "$0 of $0 spent, and the next request would cost $",
            flag,
        ),
    ] {
        let server = Server::start([reply().text("done").usage(10, 1000).forever()]);
        let tenon = flow(&server, &document(more)).home_file("settings.json", prices);
        let run = tenon.args(["-o", "json", "--run-id", "r1"]).args(&flags).run();
        let report = run.assert_code(55).json();
        assert_eq!(report["status"], "budget_exceeded", "{run}");
        let status = |id: &str| report["steps"][id]["status"].as_str().unwrap().to_owned();
        assert_eq!(["a", "b", "c"].map(status), [first, "cancelled", "cancelled"], "{run}");
        for id in ["b", "c"] {
            let error = &report["steps"][id]["error"];
            let message = "not started: the budget is used up";
            assert_eq!((&error["class"], &error["message"]), (&json!("budget"), &json!(message)), "{run}");
            assert!(run.stderr.contains(&format!("step {id}: cancelled ({message})\n")), "{run}");
        }
        let error = &report["error"];
        assert_eq!(error["class"], "budget", "{run}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(used) && message.ends_with(&format!("({set_by})")), "{message}");
        assert!(error["hint"].as_str().unwrap().starts_with(&format!("raise {set_by}")), "{run}");
        let go_on = if flags.is_empty() { "--accept-changes" } else { "--max-budget-usd " };
        assert!(run.stderr.lines().last().unwrap().contains(go_on), "{run}");
    }
}

/// A model on this machine costs nothing, so that there is nothing to refuse.
#[test]
fn where_nothing_may_be_spent_a_free_model_is_asked() {
    let server = Server::start([reply().text("done").usage(10, 1000).forever()]);
    let run = flow(&server, &items(3, "")).args(["--max-budget-usd", "0", "-o", "json"]).run();
    assert_eq!(count(&run.assert_code(0).json(), "completed"), 3, "{run}");
}

/// The line to paste raises what was too little.
#[test]
fn a_run_that_took_too_long_is_gone_on_with_more_time() {
    let server = Server::start([at("Do a.").text("late").hang_after_events(0)]);
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n";
    let run = flow(&server, document).args(["--max-wall-time", "1s", "--run-id", "r1", "-o", "json"]).run();
    let error = run.assert_code(55).json()["error"].clone();
    assert_eq!(
        error["message"], "the run was not done after 1s, the most it may take (`--max-wall-time`)",
        "{run}"
    );
    assert_eq!((&error["class"], &error["hint"]), (&json!("budget"), &json!("raise `--max-wall-time`")));
    assert!(
        run.stderr.ends_with("  tenon flow resume r1 --output-format json --max-wall-time 2s\n"),
        "{run}"
    );
}
