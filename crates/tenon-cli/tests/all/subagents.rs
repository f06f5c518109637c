//! Agents that work for a call, through the binary: what is printed, which files define them, how deep they
//! go, and that nothing of them is left when the run ends.

use std::time::Duration;

use tenon_testkit::{Gate, Reply, Run, Server, Signal, Tenon, Value, json, reply, scrub};

use super::tenon;

/// Ends a hang; nothing here takes long.
const SOON: Duration = Duration::from_secs(30);

fn ask(prompt: &str) -> Value {
    json!({"description": "a task", "prompt": prompt})
}

fn ask_type(prompt: &str, kind: &str) -> Value {
    json!({"description": "a task", "prompt": prompt, "subagent_type": kind})
}

/// Meant for whoever was asked this.
fn to(prompt: &str) -> Reply {
    let prompt = prompt.to_owned();
    reply().when(move |body| body["messages"][1]["content"] == prompt.as_str())
}

fn run_of(server: &Server) -> Tenon {
    tenon().server(server).args(["-m", "test-model", "-p", "go"])
}

fn one_agent() -> Vec<Reply> {
    vec![
        to("go").call("c1", "agent", ask("count")).usage(10, 1),
        to("count").text("Counting.").call("c2", "list_directory", json!({"path": "."})).usage(100, 2),
        to("count").text("One file.").usage(200, 3),
        to("go").text("There is one.").usage(20, 4),
    ]
}

const STREAM: &str = concat!(
    r#"assistant null tool_use c1"#,
    "\n",
    r#"user "c1" count"#,
    "\n",
    r#"assistant "c1" tool_use c2"#,
    "\n",
    r#"user "c1" tool_result c2"#,
    "\n",
    r#"user null tool_result c1: One file."#,
    "\n",
    r#"assistant null There is one."#,
);

/// A line for every message but the first and the last.
fn messages(lines: &[Value]) -> String {
    let told = |line: &Value| {
        let block = &line["message"]["content"][0];
        let what = match block["type"].as_str().unwrap_or_default() {
            "text" => block["text"].as_str().unwrap().to_owned(),
            "tool_use" => format!("tool_use {}", block["id"].as_str().unwrap()),
            "tool_result" => {
                let id = block["tool_use_id"].as_str().unwrap();
                match line["parent_tool_use_id"].is_null() {
                    true => format!("tool_result {id}: {}", block["content"].as_str().unwrap()),
                    false => format!("tool_result {id}"),
                }
            }
            _ => line["subtype"].to_string(),
        };
        format!("{} {} {what}", line["type"].as_str().unwrap(), line["parent_tool_use_id"])
    };
    let shown: Vec<String> = lines[1..lines.len() - 1].iter().map(told).collect();
    shown.join("\n")
}

#[test]
fn an_agents_messages_carry_the_call_it_works_for() {
    for format in ["stream-json", "json"] {
        let server = Server::start(one_agent());
        let run = run_of(&server).file("a.txt", "").args(["-o", format]).run();
        run.assert_code(0);
        server.assert_script_done();
        let lines = match format {
            "json" => run.json().as_array().unwrap().clone(),
            _ => run.json_lines(),
        };
        assert_eq!(messages(&lines), STREAM, "{run}");
        assert_eq!(lines[0]["agents"], json!(["general-purpose", "explore"]));
        let result = lines.last().unwrap();
        assert_eq!((&result["num_turns"], &result["result"]), (&json!(2), &json!("There is one.")));
        // All four requests.
        assert_eq!(
            (&result["usage"]["input_tokens"], &result["usage"]["output_tokens"]),
            (&json!(330), &json!(10))
        );
    }
    let server = Server::start(one_agent());
    let run = run_of(&server).file("a.txt", "").run();
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "There is one.\n", ""), "{run}");
}

#[test]
fn an_agent_is_told_its_place_and_offered_what_its_caller_has() {
    let server = Server::start(one_agent());
    let schema = r#"{"type":"object"}"#;
    run_of(&server).file("AGENTS.md", "Count slowly.").args(["--json-schema", schema]).run().assert_code(1);
    let of_agent = server.request(1);
    let of_the_run = ["todo_write", "cron_create", "cron_list", "cron_delete"];
    let expected: Vec<&str> =
        super::TOOLS.iter().copied().filter(|name| !of_the_run.contains(name)).collect();
    assert_eq!(of_agent.tool_names(), expected);
    assert!(of_agent.system_text().contains("You work for another agent"), "{}", of_agent.system_text());
    assert!(of_agent.system_text().contains("Count slowly."), "standing instructions hold for helpers too");
    assert!(!of_agent.system_text().contains("structured_output"));
    let offer = server.request(0).tool("agent").to_string();
    assert!(offer.contains("- `explore`: looks for things in files"), "{offer}");
    assert_eq!(server.request(0).tool_parameters("agent")["additionalProperties"], json!(false));
}

fn definition(name: &str, more: &str, prompt: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}\n{more}---\n{prompt}\n")
}

#[test]
fn agents_are_defined_in_files() {
    let replies = || {
        vec![
            to("go").call("c1", "agent", ask_type("review", "reviewer")),
            to("review").call("c2", "write_file", json!({"file_path": "x", "content": ""})),
            to("review").call("c3", "read_file", json!({"file_path": "a.txt"})),
            to("review").text("Fine."),
            to("go").text("Reviewed."),
        ]
    };
    let file = definition(
        "reviewer",
        "tools: [read_file, write_file]\napprovalMode: plan\nmodel: small-model\nmaxTurns: 9\n",
        "You review.",
    );
    let server = Server::start(replies());
    let run = run_of(&server)
        .home_file("agents/reviewer.md", &file)
        .file("a.txt", "x")
        .args(["-y", "-o", "stream-json"])
        .run();
    run.assert_code(0);
    let asked = server.request(1);
    assert_eq!(
        (&asked.body["model"], asked.tool_names()),
        (&json!("small-model"), vec!["read_file", "write_file"])
    );
    assert!(asked.system_text().starts_with("You review.\n\n"), "{}", asked.system_text());
    assert!(
        server.request(2).tool_result("c2").starts_with("Denied: `plan` mode only reads"),
        "yolo is not for it"
    );
    assert!(!run.workspace().join("x").exists());
    assert_eq!(run.json_lines()[0]["agents"], json!(["general-purpose", "explore", "reviewer"]));
    assert_eq!(run.last_json()["permission_denials"][0]["tool_use_id"], "c2");

    // The same in a project that nobody trusts, and then in one that somebody does.
    let unknown = |server: &Server| server.request(1).tool_result("c1");
    let in_project = |flags: &[&str]| {
        let server = Server::start([
            to("go").call("c1", "agent", ask_type("review", "reviewer")),
            to("review").text("Fine."),
            to("go").text("Reviewed."),
        ]);
        let run =
            run_of(&server).file(".git/HEAD", "").file(".tenon/agents/reviewer.md", &file).args(flags).run();
        (run, server)
    };
    let (run, server) = in_project(&[]);
    run.assert_code(0);
    assert!(
        unknown(&server).starts_with("There is no agent `reviewer`. There are `general-purpose`, `explore`.")
    );
    assert!(run.stderr.contains("these of its settings are ignored: `.tenon/agents`;"), "{run}");
    let (run, server) = in_project(&["--trust-project"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run}");
    assert_eq!(server.request(1).body["model"], "small-model");
}

#[test]
fn a_definition_that_cannot_be_used_is_named_and_left_out() {
    for (more, says) in [
        ("tools: [reed_file]\n", "is left out: there is no tool `reed_file`; did you mean `read_file`?"),
        ("tools: [Bash(git *)]\n", "is left out: `Bash(git *)` narrows a tool down"),
        ("disallowedTools: [nothing]\n", "is left out: there is no tool `nothing`"),
        ("model: anthropic/claude\n", "is left out: "),
        ("colour: red\n", "agents/bad.md:4` defines no agent and is skipped: `colour` is not known"),
    ] {
        let server = Server::start([reply().text("Hi.")]);
        let run = run_of(&server)
            .home_file("agents/bad.md", definition("bad", more, "x"))
            .args(["-o", "stream-json"])
            .run();
        run.assert_code(0);
        assert!(run.stderr.contains(says), "{more}: {}", run.stderr);
        assert_eq!(run.json_lines()[0]["agents"], json!(["general-purpose", "explore"]), "{more}");
    }
    // One of a built-in name takes its place.
    let server = Server::start([
        to("go").call("c1", "agent", ask_type("look", "explore")),
        to("look").text("Seen."),
        to("go").text("Done."),
    ]);
    let mine = definition("explore", "", "My own explorer.");
    run_of(&server).home_file("agents/mine.md", mine).run().assert_code(0);
    assert!(server.request(1).system_text().starts_with("My own explorer."));
}

#[test]
fn how_deep_agents_go_is_limited() {
    let offers = |depth: &str| {
        let server = Server::start([
            to("go").call("c1", "agent", ask("one")),
            to("one").call("c2", "agent", ask("two")),
            to("two").text("Deep."),
            reply().text("Done.").forever(),
        ]);
        run_of(&server).args(["--max-subagent-depth", depth]).run().assert_code(0);
        let offered = |n: usize| server.request(n).tool_names().contains(&"agent");
        (offered(0), offered(1), server.request(2).user_text())
    };
    assert_eq!(offers("1"), (true, false, "one".to_owned()));
    assert_eq!(offers("2"), (true, true, "two".to_owned()));
    for bad in ["0", "101"] {
        let run = tenon()
            .args(["-p", "go", "--max-subagent-depth", bad, "-m", "m", "--base-url", "http://127.0.0.1:1/v1"])
            .run();
        run.assert_code(2);
        assert!(
            run.stderr
                .starts_with(&format!("error[usage]: `--max-subagent-depth {bad}` is not from 1 to 100\n")),
            "{run}"
        );
        assert_eq!(run.stdout, "");
    }
    tenon().args(["-p", "go", "--max-subagent-depth", "deep"]).run().assert_code(2);
}

#[test]
fn no_agents_where_they_are_not_wanted() {
    for flags in [&["--exclude-tools", "agent"][..], &["--bare"], &["--core-tools", "read_file"]] {
        let server = Server::start([reply().text("Alone.")]);
        run_of(&server).args(flags).run().assert_code(0);
        assert!(!server.request(0).tool_names().contains(&"agent"), "{flags:?}");
    }
    // And where they are, so is what belongs to them.
    let server = Server::start([reply().text("Hi.")]);
    run_of(&server).args(["--core-tools", "agent"]).run().assert_code(0);
    assert_eq!(server.request(0).tool_names(), ["agent", "send_message"]);
}

/// Two agents at once whose answers are held back in turn.
#[test]
fn agents_work_side_by_side() {
    let (first, second) = (Gate::new(), Gate::new());
    let server = Server::start([
        to("go").call("c1", "agent", ask("one")).call("c2", "agent", ask("two")),
        to("one").text("First.").hold(&first),
        to("two").text("Second.").hold(&second),
        to("go").text("Both."),
    ]);
    let mut running = run_of(&server).args(["-o", "stream-json", "--verbose"]).spawn();
    // Both are asked although neither has answered.
    server.wait_for_requests(3, SOON);
    second.open();
    running.wait_for_stderr("turn 1: 0 tokens in, 0 out\nturn 1: 0 tokens in, 0 out\n");
    first.open();
    let run = running.wait();
    run.assert_code(0);
    let lines = run.json_lines();
    let results: Vec<&str> = lines
        .iter()
        .filter(|line| line["message"]["content"][0]["type"] == "tool_result")
        .map(|line| line["message"]["content"][0]["content"].as_str().unwrap())
        .collect();
    assert_eq!(results, ["First.", "Second."], "in the order of the calls");
}

#[test]
fn a_signal_ends_agents_and_what_they_run() {
    for (background, signal, code) in [(false, Signal::Terminate, 143), (true, Signal::Interrupt, 130)] {
        let mut call = ask("work");
        call["run_in_background"] = json!(background);
        let server = Server::start([
            to("go").call("c1", "agent", call),
            to("work").call("c2", "run_shell_command", json!({"command": "echo $$ > pid; exec sleep 1000"})),
            to("go").text("Waiting."),
        ]);
        let tenon = run_of(&server).args(["-y", "-o", "stream-json"]);
        let pid = tenon.workspace().join("pid");
        let mut running = tenon.spawn();
        until("the command runs", || std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
        let pid = std::fs::read_to_string(&pid).unwrap();
        running.signal(signal);
        let run = running.wait();
        run.assert_code(code);
        assert_eq!(run.last_json()["error"]["class"], "interrupted", "{run}");
        tasks_are_whole(&run);
        let proc = format!("/proc/{}", pid.trim());
        until("the command is gone", || !std::path::Path::new(&proc).exists());
    }
}

#[track_caller]
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + SOON;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every task that started has ended, and the result is the last line.
#[track_caller]
pub fn tasks_are_whole(run: &Run) {
    let lines = run.json_lines();
    let ids = |subtype: &str| {
        let of_kind = lines.iter().filter(|line| line["subtype"] == subtype);
        let mut ids: Vec<String> = of_kind.map(|line| line["data"]["task_id"].to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids("task_started"), ids("task_notification"), "{run}");
    assert_eq!(lines.last().unwrap()["type"], "result", "{run}");
    assert_eq!(lines.iter().filter(|line| line["type"] == "result").count(), 1, "{run}");
}

#[test]
fn the_same_run_is_printed_the_same_way() {
    let print = || {
        let server = Server::start(one_agent());
        let run =
            run_of(&server).file("a.txt", "").args(["-o", "stream-json", "--include-partial-messages"]).run();
        run.assert_code(0);
        scrub(&run.stdout)
    };
    assert_eq!(print(), print());
}

#[test]
fn a_recorded_run_with_agents_replays() {
    let server = Server::start(one_agent());
    let here = tenon().args(["-p", "go", "-m", "test-model"]).file("a.txt", "");
    let recorded = here.clone().server(&server).args(["--record", "c.jsonl"]).run();
    recorded.assert_code(0);
    let run = here.args(["--replay", "c.jsonl"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "There is one.\n"), "{run}");
}

#[test]
fn tool_calls_are_counted_together() {
    let server = Server::start([
        to("go").call("c1", "agent", ask("count")),
        to("count").call("c2", "list_directory", json!({"path": "."})),
        to("count").text("never asked"),
        to("go").text("never asked"),
    ]);
    let run = run_of(&server).args(["--max-tool-calls", "1"]).run();
    run.assert_code(0);
    let told = server.request(2).tool_result("c1");
    assert!(
        told.starts_with(
            "The agent `general-purpose` failed (budget): the tool-call budget was reached: 1 of 1"
        ),
        "{told}"
    );
}
