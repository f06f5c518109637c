//! 500 runs in one process, all in flight at once: each gets its own answer, and none sees another's.

use tenon_testkit::{Captured, Reply, Server, json, reply};

use crate::Failure;
use crate::bench::MANY as RUNS;
use crate::many::{By, ManyRuns, prompt};
use crate::peers::workspace::Binary;

/// Two turns of each.
const REQUESTS: usize = 2 * RUNS;

pub fn run(_: &Binary) -> Result<(), Failure> {
    let server = Server::start((0..RUNS).flat_map(turns));
    let many = ManyRuns::start(&server.base_url(), RUNS, By::Tenon)?.wait()?;
    for (number, answer) in many.answers.iter().enumerate() {
        let right = json!({"run": number}).to_string();
        if *answer != right {
            return Err(Failure::other(format!("run {number} got `{answer}`, not `{right}`")));
        }
    }
    let requests = server.requests();
    if requests.len() != REQUESTS {
        return Err(Failure::other(format!("{} requests arrived, not {REQUESTS}", requests.len())));
    }
    if let Some(mixed) = requests.iter().find(|request| !is_of_one_run(request)) {
        return Err(Failure::other(format!("a request speaks of another run: {}", mixed.body)));
    }
    println!(
        "{RUNS} right answers in {:.1} s, peak RSS {:.1} MB",
        many.took.as_secs_f64(),
        many.peak_rss_bytes as f64 / 1e6
    );
    Ok(())
}

/// First something that does not fit, when all runs have asked; then the number.
fn turns(number: usize) -> [Reply; 2] {
    let asks = move |body: &tenon_testkit::Value, messages: usize| {
        body["messages"].as_array().is_some_and(|sent| {
            sent.len() == messages && sent[1]["content"].as_str() == Some(&prompt(number))
        })
    };
    let call_id = format!("call_of_{number}");
    [
        reply()
            .call(&call_id, "structured_output", json!({"run": format!("not {number}")}))
            .when(move |body| asks(body, 2))
            .hold_until_requests(RUNS),
        reply()
            .call(&format!("{call_id}_again"), "structured_output", json!({"run": number}))
            .when(move |body| asks(body, 4)),
    ]
}

/// Its prompt, its call and the answer to that belong together.
fn is_of_one_run(request: &Captured) -> bool {
    let messages = request.messages();
    let Some(number) = (0..RUNS).find(|number| messages[1]["content"] == prompt(*number).as_str()) else {
        return false;
    };
    let call_id = format!("call_of_{number}");
    match &messages[2..] {
        [] => true,
        [called, rejected] => {
            called["tool_calls"][0]["id"] == call_id.as_str() && rejected["tool_call_id"] == call_id.as_str()
        }
        _ => false,
    }
}
