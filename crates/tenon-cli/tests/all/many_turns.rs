//! A session of many turns, cleared now and then: every answer comes, in its order, and the memory does not grow. The
//! second tier has 10,000 turns.

use std::time::Duration;

use tenon_testkit::{Running, Server, Value, cases, json, reply};

use super::tenon;

/// Turns that are sent together, and after which the conversation is cleared.
const BATCH: usize = 100;
/// How many turns the first look at the memory waits for.
const SETTLED: usize = 1000;
/// Below this many turns, the sizes say nothing.
const TELLING: usize = 5 * SETTLED;

#[test]
fn many_turns_are_answered_in_order_and_leave_nothing_behind() {
    let turns = usize::try_from(cases(300)).expect("a count").next_multiple_of(BATCH);
    let server = Server::start((0..turns).map(|turn| reply().text(format!("Answer {turn}.")).usage(10, 1)));
    let mut client = tenon()
        .server(&server)
        .args([
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--core-tools",
            "read_file",
        ])
        .limit(Duration::from_secs(1800))
        .stdin_idle()
        .spawn();
    let mut settled = None;
    for first in (0..turns).step_by(BATCH) {
        for turn in first..first + BATCH {
            say(&mut client, &format!("Question {turn}."));
        }
        say(&mut client, "/clear");
        for turn in first..first + BATCH {
            assert_eq!(answer(&mut client), format!("Answer {turn}."));
        }
        assert_eq!(answer(&mut client), "The conversation was cleared.");
        if first + BATCH == SETTLED {
            settled = Some(resident_kb(client.pid()));
        }
    }
    let at_the_end = resident_kb(client.pid());
    if let Some(settled) = settled.filter(|_| turns >= TELLING) {
        println!("{settled} kB after {SETTLED} turns, {at_the_end} kB after {turns}");
        assert!(
            at_the_end * 10 <= settled * 11,
            "{settled} kB after {SETTLED} turns, {at_the_end} kB after {turns}"
        );
    }
    client.close_stdin();
    let run = client.wait();
    assert_eq!(run.code, 0, "{}", run.stderr);
    server.assert_script_done();
    // Each batch begins with its own first question alone, and ends with all of its own.
    for first in (0..turns).step_by(BATCH) {
        let said = |request: usize| -> Vec<String> {
            let messages = server.request(request).messages().to_vec();
            let of_user = messages.iter().filter(|message| message["role"] == "user");
            of_user.filter_map(|message| message["content"].as_str()).map(str::to_owned).collect()
        };
        assert_eq!(said(first), [format!("Question {first}.")]);
        let wanted: Vec<String> = (first..first + BATCH).map(|turn| format!("Question {turn}.")).collect();
        assert_eq!(said(first + BATCH - 1), wanted);
    }
}

fn say(client: &mut Running, text: &str) {
    client.write_json(&json!({"type": "user", "message": {"role": "user", "content": text}}));
}

fn answer(client: &mut Running) -> String {
    let result: Value = client.json_where(|line| line["type"] == "result");
    result["result"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its size");
    size.trim().trim_end_matches(" kB").parse().expect("a number")
}
