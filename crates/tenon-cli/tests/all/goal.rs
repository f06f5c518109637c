//! `tenon goal` against a scripted model: plans that are valid, repaired, never valid or refused; what is kept of them; what
//! runs. Being asked at a terminal is in `goal_terminal.rs`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenon_testkit::{Reply, Run, Server, Signal, Tenon, Value, json, reply};

use super::tenon;

pub fn goal(server: &Server, text: &str) -> Tenon {
    tenon().server(server).args(["goal", text])
}

/// Two steps, the second after the first.
pub fn plan() -> Value {
    json!({
        "name": "Two Steps",
        "agents": {"reader": {"description": "Reads.", "tools": ["read_file"]}},
        "steps": [
            {"id": "look", "agent": "reader", "instructions": "Look around."},
            {"id": "tell", "dependsOn": ["look"], "instructions": "Tell what was seen."},
        ],
    })
}

/// The model hands in a plan.
pub fn hands_in(plan: &Value) -> Reply {
    reply().call("call_1", "structured_output", plan.clone()).usage(1000, 100)
}

pub fn steps() -> [Reply; 2] {
    let at = |task: &'static str| {
        reply()
            .when(move |body| body["messages"][1]["content"].as_str().is_some_and(|text| text.contains(task)))
    };
    [
        at("Look around.").text("Trees.").usage(10, 1),
        at("Tell what was seen.").text("There are trees.").usage(20, 2),
    ]
}

fn script(plans: impl IntoIterator<Item = Reply>) -> Server {
    Server::start(plans.into_iter().chain(steps()))
}

/// The files in a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|found| found.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    files.sort();
    files
}

fn only_plan(run: &Run) -> PathBuf {
    let files = files(&run.tenon_home().join("plans"));
    assert_eq!(files.len(), 1, "{files:?}\n{run}");
    files[0].clone()
}

/// What the model was told after its nth request.
fn told_after(server: &Server, request: usize) -> String {
    server.request(request + 1).tool_result("call_1")
}

#[test]
fn a_valid_plan_is_shown_kept_and_run() {
    let server = script([hands_in(&plan())]);
    let setup =
        goal(&server, "see").args(["and tell", "--yes", "-o", "json", "--run-id", "run_00112233445566aa"]);
    let run = setup.run();
    let report = run.assert_code(0).json();
    server.assert_script_done();
    assert_eq!((&report["status"], &report["outputs"]), (&json!("completed"), &json!("There are trees.")));
    // Planning is paid for too.
    assert_eq!(report["usage"]["total"], json!(1100 + 11 + 22));
    for part in ["Two Steps (2 steps)", "│ look     │", "│ (reader) │", "agent reader: Reads. (read_file)"]
    {
        assert!(run.stderr.contains(part), "{part}\n{run}");
    }
    let file = only_plan(&run);
    assert_eq!(file.file_name().unwrap(), "two-steps-445566aa.yaml");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("# Planned by `tenon goal` for:\n#   see and tell\nname: Two Steps\n"),
        "{text}"
    );

    // The name of a run is taken from then on, which is told before anything is paid for.
    let server = Server::start([]);
    let home = run.tenon_home();
    let taken = goal(&server, "see")
        .env("TENON_HOME", home.to_str().unwrap())
        .args(["--yes", "--run-id", "run_00112233445566aa"])
        .run();
    assert!(
        taken.assert_code(42).stderr.contains("there is a run `run_00112233445566aa` already"),
        "{taken}"
    );
    assert!(server.requests().is_empty());

    // What was run is the file: it is valid, and gives the same by itself.
    let file = file.to_str().unwrap();
    let server = Server::start(steps());
    let again = tenon().server(&server).args(["flow", "run", file, "-q"]).run();
    assert_eq!(again.assert_code(0).stdout, "There are trees.\n");
}

#[test]
fn the_planner_is_told_the_goal_the_context_and_the_tools_and_has_none() {
    let server = script([hands_in(&plan())]);
    let run = goal(&server, "see and tell").args(["--yes", "-q"]).stdin("It is spring.").run();
    run.assert_code(0);
    let request = server.request(0);
    assert_eq!(request.tool_names(), ["structured_output"]);
    let told = request.user_text();
    assert!(told.starts_with("## Goal\nsee and tell\n\n## Context\n"), "{told}");
    assert!(told.contains("It is spring.") && told.contains("- `read_file`: "), "{told}");
    // What the mode forbids is not offered to plans.
    assert!(!told.contains("write_file") && !told.contains("run_shell_command"), "{told}");
    assert!(request.system_text().contains("`dependsOn`"));
    assert!(request.tool_parameters("structured_output")["properties"]["steps"].is_object());
    // Steps know what was piped, and not the goal.
    let step = server.request(1).user_text();
    assert!(step.contains("It is spring.") && !step.contains("see and tell"), "{step}");

    let server = Server::start([hands_in(&plan())]);
    goal(&server, "see").args(["--plan-only", "--approval-mode", "yolo", "-q"]).run().assert_code(0);
    let told = server.request(0).user_text();
    assert!(told.contains("- `write_file`: ") && told.contains("- `run_shell_command`: "), "{told}");
}

#[test]
fn a_plan_is_repaired_up_to_twice() {
    let no_steps = json!({"name": "n", "steps": []});
    let mut unknown_agent = plan();
    unknown_agent["steps"][0]["agent"] = json!("readr");
    let server = script([hands_in(&unknown_agent), hands_in(&plan())]);
    let run = goal(&server, "see").args(["--yes", "-q"]).run();
    assert_eq!(run.assert_code(0).stdout, "There are trees.\n");
    let told = told_after(&server, 0);
    assert!(told.starts_with("/steps/0/agent: "), "{told}");
    assert!(told.contains("`readr`") && told.contains("[missing_agent]"), "{told}");

    let server = script([hands_in(&no_steps), hands_in(&unknown_agent), hands_in(&plan())]);
    let run = goal(&server, "see").args(["--yes"]).run();
    assert_eq!(run.assert_code(0).stdout, "There are trees.\n");
    server.assert_script_done();
    assert!(run.stderr.contains("the plan took 3 turns of the model"), "{run}");
}

#[test]
fn what_is_wrong_with_a_plan_is_told_by_place() {
    let with = |change: fn(&mut Value)| {
        let mut changed = plan();
        change(&mut changed);
        changed
    };
    let table: Vec<(Value, &str, &str)> = vec![
        (
            with(|plan| plan["agents"]["reader"]["tools"] = json!(["read_fil"])),
            "/agents/reader/tools/0: ",
            "did you mean `read_file`?",
        ),
        (
            with(|plan| plan["agents"]["reader"]["tools"] = json!(["write_file"])),
            "/agents/reader/tools: ",
            "cannot be used in this run",
        ),
        (
            with(|plan| plan["agents"]["reader"]["tools"] = json!(["mcp__x__y"])),
            "/agents/reader/tools: ",
            "not among the tools",
        ),
        (with(|plan| plan["steps"][1]["dependsOn"] = json!(["lok"])), "/steps/1/dependsOn", "`lok`"),
        (with(|plan| plan["steps"][0]["dependsOn"] = json!(["tell"])), "/steps", "[cycle]"),
        (
            with(|plan| plan["steps"][1]["condition"] = json!("steps.nobody.status == 'completed'")),
            "/steps/1/condition: ",
            "[cel_unknown_step]",
        ),
        (
            with(|plan| plan["steps"][1]["instructions"] = json!("@secret.txt")),
            "/steps/1/instructions: ",
            "names a file",
        ),
        (
            with(|plan| plan["agents"]["reader"]["prompt"] = json!("\u{200b}@secret.txt")),
            "/agents/reader/prompt: ",
            "names a file",
        ),
        (
            with(|plan| plan["agents"]["reader"]["resultSchema"] = json!({"type": "objct"})),
            "/agents/reader/resultSchema",
            "[schema_invalid]",
        ),
        (with(|plan| plan["steps"][1]["id"] = json!("look")), "/steps/1", "[duplicate_step]"),
        // The schema of plans has none of these.
        (with(|plan| plan["agents"]["reader"]["model"] = json!("huge")), "/agents/reader/model: ", ""),
        (with(|plan| plan["budget"] = json!({"maxUsd": 1e6})), "/budget: ", ""),
        (with(|plan| plan["steps"][0]["contextFiles"] = json!(["../.env"])), "/steps/0/contextFiles: ", ""),
        (with(|plan| plan["steps"][0]["include"] = json!("other.yaml")), "/steps/0/include: ", ""),
    ];
    for (wrong, place, part) in table {
        let server = Server::start([hands_in(&wrong), hands_in(&plan())]);
        goal(&server, "see").args(["--plan-only", "-q"]).file("secret.txt", "s").run().assert_code(0);
        let told = told_after(&server, 0);
        assert!(
            told.lines().any(|line| line.starts_with(place) && line.contains(part)),
            "{place} {part}\n{told}"
        );
    }
}

#[test]
fn three_plans_that_are_not_valid_are_enough() {
    let mut wrong = plan();
    wrong["steps"][0]["agent"] = json!("nobody");
    wrong["steps"][1]["agent"] = json!("nobody");
    let server = Server::start([hands_in(&wrong), hands_in(&wrong), hands_in(&wrong)]);
    let run = goal(&server, "see").args(["--yes", "-o", "json"]).run();
    let report = run.assert_code(53).json();
    server.assert_script_done();
    assert_eq!((&report["status"], &report["error"]["class"]), (&json!("failed"), &json!("schema_retries")));
    let message = report["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("no valid plan was made in 3 attempts; of the last one: /steps/0/agent: "),
        "{message}"
    );
    assert!(message.ends_with(" (and 1 more problem)"), "{message}");
    // What it cost is not hidden.
    assert_eq!(report["usage"]["total"], json!(3300));
    assert!(run.stderr.contains("\n/steps/1/agent: "), "{run}");
    assert_eq!(files(&run.tenon_home().join("plans")), Vec::<PathBuf>::new());
}

#[test]
fn other_ways_to_have_no_plan() {
    let table: Vec<(Vec<Reply>, i32, &str)> = vec![
        (
            vec![reply().text("I would rather talk."), reply().text("Really.")],
            1,
            "error[contract]: no plan was made: ",
        ),
        (vec![reply().text("No.").finish("content_filter")], 1, "error[refused]: no plan was made: "),
        (vec![reply().text("{\"na").finish("length")], 1, "error[truncated]: no plan was made: "),
    ];
    for (replies, code, said) in table {
        let server = Server::start(replies);
        let run = goal(&server, "see").args(["--yes", "-q"]).run();
        assert_eq!(run.assert_code(code).stdout, "");
        assert!(run.stderr.starts_with(said), "{run}");
        server.assert_script_done();
    }
}

#[test]
fn a_reminded_planner_may_still_plan() {
    let server = script([reply().text("Gladly."), hands_in(&plan())]);
    let run = goal(&server, "see").args(["--yes", "-q"]).run();
    assert_eq!(run.assert_code(0).stdout, "There are trees.\n");
    assert_eq!(server.request(1).forced_tool().as_deref(), Some("structured_output"));
}

#[test]
fn without_a_terminal_and_a_yes_the_plan_waits_in_its_file() {
    let server = Server::start([hands_in(&plan())]);
    let run = goal(&server, "see").args(["-q", "-o", "stream-json", "--run-id", "r1"]).run();
    let last = run.assert_code(42).last_json();
    assert_eq!((&last["type"], &last["data"]["status"]), (&json!("workflow_end"), &json!("failed")));
    server.assert_script_done();
    let file = only_plan(&run);
    let file = file.to_str().unwrap();
    let resume =
        "`tenon flow resume r1 --output-format stream-json --quiet --yes` runs it with what it was given";
    let hint = format!("hint: `tenon flow run {file}` runs it; {resume}\n");
    assert!(run.stderr.ends_with(&hint) && run.stderr.contains("no terminal to ask at"), "{run}");

    // Also where nothing is to be kept: it is the only way to it.
    let server = Server::start([hands_in(&plan())]);
    only_plan(goal(&server, "see").args(["-q", "--no-journal"]).run().assert_code(42));
}

#[test]
fn plans_are_kept_where_they_are_wanted_and_overwrite_nothing() {
    let server = script([hands_in(&plan())]);
    let run = goal(&server, "see")
        .args(["--yes", "-q", "--save", "plans/my plan.json"])
        .file("plans/.keep", "")
        .run();
    run.assert_code(0);
    let kept: Value = serde_json::from_str(&run.read("plans/my plan.json")).unwrap();
    assert_eq!(kept, plan());
    assert_eq!(files(&run.tenon_home().join("plans")), Vec::<PathBuf>::new());

    let server = script([hands_in(&plan())]);
    let run = goal(&server, "see").args(["--yes", "-q", "--no-journal"]).run();
    run.assert_code(0);
    assert_eq!(files(&run.tenon_home().join("plans")), Vec::<PathBuf>::new());

    // Whatever cannot be written is found out before anything is asked.
    for (name, why) in [
        ("taken.yaml", "there is something of that name"),
        ("link.yaml", "there is something of that name"),
        ("folder", "there is something of that name"),
        ("missing/plan.yaml", "its folder is not there"),
        ("new/", "it names a folder"),
    ] {
        let server = Server::start([]);
        let setup = goal(&server, "see")
            .args(["--yes", "-q", "--save", name])
            .file("taken.yaml", "mine")
            .file("folder/x", "");
        std::os::unix::fs::symlink("nowhere", setup.workspace().join("link.yaml")).unwrap();
        let run = setup.run();
        run.assert_code(42);
        assert!(run.stderr.contains(why), "{run}");
        assert_eq!(run.read("taken.yaml"), "mine");
        server.assert_script_done();
    }
    let server = Server::start([]);
    let setup = goal(&server, "see").args(["--yes", "-q"]);
    std::fs::write(setup.tenon_home().join("plans"), "a file").unwrap();
    setup.run().assert_code(42);
}

#[test]
fn plan_only_prints_the_plan() {
    let server = Server::start([hands_in(&plan())]);
    let run = goal(&server, "see").args(["--plan-only", "-q"]).run();
    let text = run.assert_code(0).stdout.clone();
    assert_eq!(run.stderr, "");
    assert_eq!(files(&run.tenon_home().join("plans")), Vec::<PathBuf>::new());
    let checked = tenon().file("plan.yaml", text).args(["flow", "validate", "plan.yaml"]).run();
    assert_eq!(checked.assert_code(0).stdout, "ok: plan.yaml (2 steps)\n");

    let server = Server::start([hands_in(&plan())]);
    let run = goal(&server, "see").args(["--plan-only", "-o", "json", "--save", "p.yaml"]).run();
    assert_eq!(run.assert_code(0).json(), plan());
    assert!(run.read("p.yaml").contains("name: Two Steps"));
    assert!(run.stderr.contains("plan: it is in p.yaml"), "{run}");
}

#[test]
fn stdin_can_be_the_goal() {
    for args in [&["goal", "--yes", "-q"][..], &["goal", "-", "--yes", "-q"]] {
        let server = script([hands_in(&plan())]);
        let run = tenon().server(&server).args(args).stdin("see and tell\n").run();
        assert_eq!(run.assert_code(0).stdout, "There are trees.\n");
        let told = server.request(0).user_text();
        assert!(told.starts_with("## Goal\nsee and tell\n\n## Tools\n"), "{told}");
        assert!(!server.request(1).user_text().contains("see and tell"));
    }
    let server = Server::start([]);
    let run = tenon().server(&server).args(["goal", "--yes"]).stdin("  \n").run();
    assert!(run.assert_code(42).stderr.contains("error[input]: there is no goal"), "{run}");
}

#[test]
fn flags_that_plans_cannot_have_are_refused() {
    for (args, said) in [
        (&["--input", "a=b"][..], "a plan has no inputs"),
        (&["--json-schema", "{}"], "`tenon goal` does not take `--json-schema`"),
        (&["--plan-only", "-o", "stream-json"], "`--plan-only` runs nothing"),
        (&["--plan-only", "--yes"], "cannot be used with"),
    ] {
        let run = tenon().args(["goal", "see"]).args(args).run();
        assert!(run.assert_code(2).stderr.contains(said), "{run}");
    }
}

#[test]
fn money_and_time_are_for_planning_too() {
    let prices = r#"{"prices": {"test-model": {"input": 1000, "output": 1000}}}"#;
    // $110 for a plan leaves nothing for its steps.
    let server = Server::start([hands_in(&plan()).usage(100_000, 10_000)]);
    let run = goal(&server, "see")
        .home_file("settings.json", prices)
        .args(["--yes", "-o", "json", "--max-budget-usd", "50"])
        .run();
    let report = run.assert_code(55).json();
    assert_eq!((&report["status"], &report["total_cost_usd"]), (&json!("budget_exceeded"), &json!(110.0)));
    server.assert_script_done();
    // And a plan that cannot be paid for is not asked for.
    let server = Server::start([]);
    let run = goal(&server, "see")
        .home_file("settings.json", prices)
        .args(["--yes", "-o", "json", "--max-budget-usd", "0.01"])
        .run();
    let report = run.assert_code(55).json();
    assert_eq!((&report["status"], &report["total_cost_usd"]), (&json!("budget_exceeded"), &json!(0.0)));
}

#[test]
fn a_planner_that_is_interrupted_is_not_waited_for() {
    let gate = tenon_testkit::Gate::new();
    let server = Server::start([hands_in(&plan()).hold(&gate)]);
    let mut running = goal(&server, "see").args(["--yes", "-o", "json"]).spawn();
    running.wait_for_stderr("plans");
    server.wait_for_requests(1, Duration::from_secs(30));
    running.signal(Signal::Interrupt);
    let run = running.wait();
    assert_eq!(run.assert_code(130).json()["status"], json!("cancelled"));
    gate.open();
}

#[test]
fn events_begin_with_the_plan() {
    let server = script([hands_in(&plan())]);
    let run = goal(&server, "see").args(["--yes", "-q", "-o", "stream-json"]).run();
    let lines = run.assert_code(0).json_lines();
    let first: Vec<&Value> = lines.iter().take(2).map(|line| &line["type"]).collect();
    assert_eq!(first, [&json!("plan_ready"), &json!("workflow_start")]);
    assert_eq!(lines[0]["data"]["workflow"]["name"], json!("Two Steps"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// `examples/goal`; `UPDATE_CASSETTES=1` records it again.
#[test]
fn the_example_replays() {
    let goal = "Which of the files here would a newcomer read first?";
    let cassette = "examples/goal/cassette.jsonl";
    let setup = tenon().cwd(root()).args(["goal", goal, "--core-tools", ""]);
    if std::env::var_os("UPDATE_CASSETTES").is_some_and(|value| value == "1") {
        let plan = json!({
            "name": "first-reading",
            "description": "Which files should a newcomer read first?",
            "agents": {"guide": {
                "description": "Shows newcomers around.",
                "prompt": "You know how open-source projects are laid out.",
                "resultSchema": {"type": "object", "required": ["files"], "properties": {"files": {"type": "array", "items": {"type": "string"}}}},
            }},
            "steps": [
                {"id": "usual", "agent": "guide", "instructions": "Name the files that a project usually has for newcomers."},
                {"id": "reasons", "dependsOn": ["usual"], "instructions": "Say in half a sentence what a newcomer learns from ${{ item }}.",
                 "loop": {"forEach": "steps.usual.result.files", "maxConcurrency": 1, "outputMode": "cumulative"}},
                {"id": "answer", "dependsOn": ["usual", "reasons"], "instructions": "Recommend an order in one sentence."},
            ],
        });
        let script = [
            hands_in(&plan),
            reply()
                .call("c1", "submit_result", json!({"files": ["README.md", "ARCHITECTURE.md"]}))
                .usage(100, 20),
            reply().text("What it is for, and how to try it.").usage(100, 20),
            reply().text("Where everything is.").usage(100, 20),
            reply()
                .text("README.md first, to try it; then ARCHITECTURE.md, to find your way.")
                .usage(100, 20),
        ];
        let server = Server::start(script.map(|reply| reply.model("scripted-model")));
        let record =
            ["--yes", "--no-journal", "--max-concurrency", "1", "-m", "scripted-model", "--record", cassette];
        setup.clone().server(&server).args(record).run().assert_code(0);
        server.assert_script_done();
    }
    let run = setup.clone().args(["--yes", "--no-journal", "--replay", cassette]).run();
    let answer = "README.md first, to try it; then ARCHITECTURE.md, to find your way.\n";
    assert_eq!(run.assert_code(0).stdout, answer, "{run}");
    assert!(run.stderr.contains("│ reasons"), "{run}");
    let run = setup.args(["--plan-only", "-q", "--replay", cassette]).run();
    assert!(run.assert_code(0).stdout.contains("    agent: guide\n"), "{run}");
    let page = std::fs::read_to_string(root().join("examples/goal/README.md")).unwrap();
    let command = format!("tenon goal \"{goal}\" --yes --no-journal --core-tools \"\" --replay {cassette}\n");
    assert!(page.contains(&command), "{command}");
    let recorded = std::fs::read_to_string(root().join(cassette)).unwrap();
    for part in ["test-key", "127.0.0.1", "/home/", "/tmp/", root().to_str().unwrap()] {
        assert!(!recorded.contains(part), "`{part}` is in `{cassette}`");
    }
}
