//! `tenon flow resume`: what stops unfinished goes on, what is done is neither paid for nor done again, and a changed document
//! is a matter of saying so.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tenon_testkit::{Gate, Reply, Run, Server, Signal, Tenon, Value, json, reply};

use super::flow_run::at;
use super::tenon;

/// Ends a hang; nothing here takes long.
const SOON: Duration = Duration::from_secs(30);

const CHAIN: &str = "name: chain\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b., dependsOn: [a] }\n  - { id: c, instructions: Do c., dependsOn: [b] }\n";

/// A home and a folder with this document, for several commands one after the other.
pub fn place(document: &str) -> Tenon {
    tenon().file("flow.yaml", document)
}

pub fn run_in(place: &Tenon, server: &Server, args: &[&str]) -> Tenon {
    place.clone().server(server).args(["flow"]).args(args)
}

pub fn refused(task: &str) -> Reply {
    at(task).status(400).json(json!({"error": {"message": "no"}}))
}

/// The line to go on with, as it was printed.
fn hint(run: &Run) -> String {
    let mut lines = run.stderr.lines().skip_while(|line| !line.starts_with("hint: to go on"));
    lines.nth(1).unwrap_or_else(|| panic!("no hint: {run}")).trim().to_owned()
}

/// The first two steps are done, the third failed.
fn failed_in_c(place: &Tenon) -> Run {
    let server = Server::start([
        at("Do a.").text("A.").usage(10, 1),
        at("Do b.").text("B.").usage(20, 2),
        refused("Do c."),
    ]);
    let run = run_in(place, &server, &["run", "flow.yaml", "--run-id", "r1", "-o", "json"]).run();
    run.assert_code(1);
    run
}

#[test]
fn a_run_that_failed_goes_on_where_it_failed() {
    let place = place(CHAIN);
    let run = failed_in_c(&place);
    assert!(run.stderr.starts_with("run: r1\n"), "{run}");
    assert!(
        run.stderr.ends_with("hint: to go on with the run:\n  tenon flow resume r1 --output-format json\n"),
        "{run}"
    );
    let server = Server::start([at("Do c.").text("C.").usage(30, 3)]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "json"]).run();
    let report = run.assert_code(0).json();
    server.assert_script_done();
    assert_eq!((&report["status"], &report["outputs"]), (&json!("completed"), &json!("C.")), "{run}");
    assert_eq!(report["usage"]["total"], 66, "what was paid for before counts: {run}");
    assert_eq!(report["steps"]["a"]["content"], "A.");
    let said: Vec<&str> = run
        .stderr
        .lines()
        .filter(|line| !line.starts_with("model `"))
        .map(|line| line.split(" in ").next().unwrap_or_default())
        .collect();
    let wanted = [
        "run: r1",
        "workflow `chain`: 3 steps, resumed",
        "step a: completed before",
        "step b: completed before",
        "step c: started",
        "step c: completed",
    ];
    assert_eq!(said, wanted, "{run}");
    let told = server.request(0).user_text();
    assert!(told.contains("### b (completed)\nB."), "{told}");
}

#[test]
fn a_run_that_completed_is_shown_again_without_a_model_or_a_key() {
    let place = place(CHAIN);
    failed_in_c(&place);
    let server = Server::start([at("Do c.").text("C.")]);
    run_in(&place, &server, &["resume", "r1"]).run().assert_code(0);
    let first = place.clone().args(["flow", "resume", "r1"]).run();
    assert_eq!(first.assert_code(0).stdout, "C.\n");
    // Its document does not matter any more, and its folder only has to be there.
    std::fs::write(place.workspace().join("flow.yaml"), "name: other\nsteps: []\n").unwrap();
    let run = place.clone().args(["flow", "resume", "r1", "-o", "stream-json"]).run();
    let events = run.assert_code(0).json_lines();
    let types: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(
        types,
        ["plan_ready", "workflow_start", "step_restored", "step_restored", "step_restored", "workflow_end"]
    );
    assert_eq!(events[1]["data"]["resumed"], true);
    assert_eq!(events[5]["data"]["outputs"], "C.");
}

#[test]
fn events_of_a_run_that_goes_on_tell_what_was_done_before_once() {
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: no, instructions: No., dependsOn: [a], condition: 'false' }\n  - { id: b, instructions: Do b., dependsOn: [a] }\n";
    let place = place(document);
    let server = Server::start([at("Do a.").text("A."), refused("Do b.")]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(1);
    let server = Server::start([at("Do b.").text("B.")]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "stream-json"]).run();
    let name = |event: &Value| {
        format!("{} {}", event["type"].as_str().unwrap(), event["step_id"].as_str().unwrap_or("-"))
    };
    let said: Vec<String> = run.assert_code(0).json_lines().iter().map(name).collect();
    assert_eq!(
        said,
        [
            "plan_ready -",
            "workflow_start -",
            "step_restored a",
            "step_skipped no",
            "step_start b",
            "agent_turn b",
            "agent_turn b",
            "step_end b",
            "workflow_end -"
        ],
        "{run}"
    );
}

#[test]
fn turns_and_calls_of_a_step_that_was_cut_off_are_not_paid_for_again() {
    let place = place("name: n\nsteps:\n  - { id: a, instructions: Do a. }\n");
    let call = |id: &str, word: &str| {
        at("Do a.").call(id, "run_shell_command", json!({"command": format!("echo {word} >> effects")}))
    };
    for signal in [Signal::Interrupt, Signal::Terminate, Signal::Kill] {
        let _ = std::fs::remove_file(place.workspace().join("effects"));
        let server =
            Server::start([call("c1", "one"), call("c2", "two"), at("Do a.").text("x").hang_after_events(0)]);
        let id = format!("r-{signal:?}");
        let mut running = run_in(&place, &server, &["run", "flow.yaml", "-y", "--run-id", &id]).spawn();
        server.wait_for_requests(3, SOON);
        running.signal(signal);
        let run = running.wait();
        if signal != Signal::Kill {
            assert_eq!(hint(&run), format!("tenon flow resume {id} --yolo"), "{run}");
        }
        let server = Server::start([at("Do a.").text("Done.").usage(5, 5)]);
        let run = run_in(&place, &server, &["resume", &id, "-y"]).run();
        assert_eq!(run.assert_code(0).stdout, "Done.\n");
        let last = server.request(0);
        assert!(last.tool_result("c1").contains("echo one"), "{:?}", last.body);
        assert_eq!(server.requests().len(), 1);
        let effects = std::fs::read_to_string(place.workspace().join("effects")).unwrap();
        assert_eq!(effects, "one\ntwo\n", "after {signal:?}");
    }
}

/// The folder, the words, stdin, the inputs and `-m` are the run's; permissions and limits are said anew.
#[test]
fn what_is_pinned_and_what_is_not() {
    let document = "name: n\ninputs: { type: object, properties: { x: { type: integer } }, required: [x] }\nsteps:\n  - { id: a, instructions: 'Do a ${{ inputs.x }}.' }\n  - { id: b, instructions: 'Do b ${{ inputs.x }}.', dependsOn: [a] }\n";
    let place = place(document).file("deep/er/here", "");
    let server = Server::start([at("Do a 7.").text("A."), refused("Do b 7.")]);
    let run = run_in(
        &place,
        &server,
        &[
            "run",
            "flow.yaml",
            "some",
            "words",
            "--input",
            "x=7",
            "-m",
            "forced",
            "--run-id",
            "r1",
            "-C",
            "deep",
        ],
    )
    .args(["--allowed-tools", "Bash(git log *)", "--allowed-tools", "write_file"])
    .run();
    run.assert_code(1);
    let line = hint(&run);
    assert_eq!(
        line, "tenon flow resume r1 --allowed-tools 'Bash(git log *)' --allowed-tools write_file",
        "{run}"
    );
    // As if it were pasted into a shell, in another folder.
    let server = Server::start([
        at("Do b 7.").call("c", "list_directory", json!({"path": "er"})),
        at("Do b 7.").text("B."),
    ]);
    let pasted = line.replacen("tenon", "\"$TENON\"", 1);
    let run = Tenon::new("bash")
        .server(&server)
        .env("TENON", env!("CARGO_BIN_EXE_tenon"))
        .env("TENON_HOME", place.tenon_home())
        .cwd(place.home())
        .args(["-c", &pasted])
        .run();
    assert_eq!(run.assert_code(0).stdout, "B.\n");
    let first = server.request(0);
    assert_eq!(first.body["model"], "forced");
    assert!(first.user_text().contains("[Flow Context]\nsome words\n"), "{}", first.user_text());
    assert!(server.request(1).tool_result("c").contains("here"), "{:?}", server.request(1).body);
}

#[test]
fn a_model_that_is_named_anew_is_asked() {
    let place = place(CHAIN);
    failed_in_c(&place);
    let server = Server::start([at("Do c.").text("C.")]);
    run_in(&place, &server, &["resume", "r1", "-m", "another"]).run().assert_code(0);
    assert_eq!(server.request(0).body["model"], "another");
}

#[test]
fn a_document_that_is_gone_is_not_missed() {
    let document = "name: n\nagents:\n  t:\n    description: d\n    prompt: '@prompt.md'\n    resultSchema: { type: object, properties: { ok: { type: boolean } }, required: [ok] }\nsteps:\n  - { id: a, instructions: '@task.md' }\n  - { id: inner, include: inner.yaml, dependsOn: [a] }\n  - { id: b, agent: t, instructions: Do b., dependsOn: [inner] }\n";
    let place = place(document)
        .file("prompt.md", "You are careful.")
        .file("task.md", "Do a.")
        .file("inner.yaml", "name: i\nsteps:\n  - { id: x, instructions: '@deep/x.md' }\n")
        .file("deep/x.md", "Do x.");
    let server = Server::start([at("Do a.").text("A."), refused("Do x.")]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(1);
    for file in ["flow.yaml", "prompt.md", "task.md", "inner.yaml", "deep/x.md"] {
        std::fs::remove_file(place.workspace().join(file)).unwrap();
    }
    let server =
        Server::start([at("Do x.").text("X."), at("Do b.").call("c", "submit_result", json!({"ok": true}))]);
    let run = run_in(&place, &server, &["resume", "r1"]).run();
    assert_eq!(run.assert_code(0).stdout, "{\"ok\":true}\n");
    assert!(run.stderr.contains("is gone; the run goes on with the document it began with"), "{run}");
    assert!(server.request(1).system_text().starts_with("You are careful."));
}

const TREE: &str = "name: tree\n# a comment\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b. }\n  - { id: c, instructions: Do c., dependsOn: [a] }\n  - { id: d, instructions: Do d., dependsOn: [c, b] }\n";
const PRICES: &str = r#"{"prices":{"test-model":{"input":1000000,"output":1000000}}}"#;

/// Everything but the last step is done.
fn tree() -> Tenon {
    let place = place(TREE).home_file("settings.json", PRICES);
    let server = Server::start([
        at("Do a.").text("A.").usage(1, 1),
        at("Do b.").text("B.").usage(2, 2),
        at("Do c.").text("C.").usage(3, 3),
        refused("Do d."),
    ]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(1);
    place
}

#[test]
fn a_changed_document_is_shown_and_waits_to_be_accepted() {
    let place = tree();
    std::fs::write(place.workspace().join("flow.yaml"), TREE.replace("Do c.", "Do c well.")).unwrap();
    let nobody = Server::start([]);
    let run = run_in(&place, &nobody, &["resume", "r1", "-o", "json"]).run();
    let report = run.assert_code(42).json();
    assert_eq!(report["error"]["message"], "the document has changed since the run began");
    assert!(
        run.stderr.contains(
            "the document has changed; 1 step is run again, 2 steps are kept\n  step c: run again (had used $6.0000, 6 tokens)\n"
        ),
        "{run}"
    );
    assert!(
        run.stderr.contains("hint: `--accept-changes` goes on with it as it is now, `--pinned`"),
        "{run}"
    );
    let server =
        Server::start([at("Do c well.").text("C2.").usage(10, 10), at("Do d.").text("D.").usage(1, 1)]);
    let run = run_in(&place, &server, &["resume", "r1", "--accept-changes", "-o", "json"]).run();
    let report = run.assert_code(0).json();
    server.assert_script_done();
    // a 2, b 4, c 6 in vain and 20 now, d 2.
    assert_eq!(report["total_cost_usd"], 34.0, "{run}");
    assert_eq!(report["steps"]["c"]["cost"], 26.0, "{run}");
    assert_eq!(report["steps"]["c"]["content"], "C2.");
    assert!(server.request(1).user_text().contains("C2."));
    // From now on this is the run's document.
    let run = place.clone().args(["flow", "resume", "r1", "-o", "json"]).run();
    assert_eq!(run.assert_code(0).json()["total_cost_usd"], 34.0, "{run}");
}

#[test]
fn a_changed_document_can_be_left_alone() {
    let place = tree();
    std::fs::write(place.workspace().join("flow.yaml"), TREE.replace("Do c.", "Do c well.")).unwrap();
    let server = Server::start([at("Do d.").text("D.")]);
    assert_eq!(run_in(&place, &server, &["resume", "r1", "--pinned"]).run().assert_code(0).stdout, "D.\n");
}

#[test]
fn comments_layout_and_places_of_a_document_do_not_change_it() {
    let place = tree().file("else/moved.yaml", format!("# more\n{}", TREE.replace("# a comment\n", "")));
    std::fs::write(place.workspace().join("flow.yaml"), TREE.replace("# a comment", "# another")).unwrap();
    let server = Server::start([refused("Do d.")]);
    run_in(&place, &server, &["resume", "r1"]).run().assert_code(1);
    let server = Server::start([at("Do d.").text("D.")]);
    run_in(&place, &server, &["resume", "r1", "else/moved.yaml"]).run().assert_code(0);
}

#[test]
fn steps_that_are_gone_or_new_are_told_and_what_they_cost_counts() {
    let place = tree();
    let now = "name: tree\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: e, instructions: Do e., dependsOn: [a] }\n";
    std::fs::write(place.workspace().join("flow.yaml"), now).unwrap();
    let server = Server::start([at("Do e.").text("E.").usage(1, 1)]);
    let run = run_in(&place, &server, &["resume", "r1", "--accept-changes", "-o", "json"]).run();
    let report = run.assert_code(0).json();
    for step in
        ["step b: no longer in the document (had used $4", "step c: no longer in the document (had used $6"]
    {
        assert!(run.stderr.contains(step), "{step}: {run}");
    }
    // a 2, b and c 10 in vain, e 2.
    assert_eq!(report["total_cost_usd"], 14.0, "{run}");
}

#[test]
fn a_document_that_no_longer_takes_the_inputs_is_refused() {
    let document = |kind: &str| {
        format!(
            "name: n\ninputs: {{ type: object, properties: {{ x: {{ type: {kind} }} }} }}\nsteps:\n  - {{ id: a, instructions: Do a. }}\n"
        )
    };
    let place = place(&document("integer"));
    let server = Server::start([refused("Do a.")]);
    run_in(&place, &server, &["run", "flow.yaml", "--input", "x=7", "--run-id", "r1"]).run().assert_code(1);
    std::fs::write(place.workspace().join("flow.yaml"), document("string")).unwrap();
    let run = run_in(&place, &server, &["resume", "r1", "--accept-changes"]).run();
    assert!(
        run.assert_code(42).stderr.contains("the run's inputs do not fit the document as it is now"),
        "{run}"
    );
}

/// A step's failure of its own making is tried from its start; what it had cost stays counted.
#[test]
fn what_failed_attempts_cost_stays_counted() {
    let document = "name: n\nagents:\n  t:\n    description: d\n    maxTurns: 1\n    resultSchema: { type: object, properties: { ok: { type: boolean } }, required: [ok] }\nsteps:\n  - { id: a, agent: t, instructions: Do a. }\n";
    let place = place(document).home_file("settings.json", PRICES);
    for attempt in 1..=2 {
        let server = Server::start([at("Do a.").text("no").usage(1, 1)]);
        let args: &[&str] =
            if attempt == 1 { &["run", "flow.yaml", "--run-id", "r1"] } else { &["resume", "r1"] };
        let run = run_in(&place, &server, args).args(["-o", "json"]).run();
        assert_eq!(run.assert_code(1).json()["total_cost_usd"], 2.0 * f64::from(attempt), "{run}");
        server.assert_script_done();
    }
    let server = Server::start([at("Do a.").call("c", "submit_result", json!({"ok": true})).usage(1, 1)]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "json"]).run();
    let report = run.assert_code(0).json();
    assert_eq!(
        (&report["total_cost_usd"], &report["steps"]["a"]["cost"]),
        (&json!(6.0), &json!(6.0)),
        "{run}"
    );
}

#[test]
fn a_budget_covers_all_tries_and_is_raised_by_the_line_that_is_told() {
    let place = place(CHAIN).home_file("settings.json", PRICES);
    let server = Server::start([at("Do a.").text("A.").usage(90_000, 10_000)]);
    let run =
        run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "--max-budget-usd", "100000"]).run();
    run.assert_code(55);
    assert_eq!(hint(&run), "tenon flow resume r1 --max-budget-usd 200000", "{run}");
    let nobody = Server::start([]);
    run_in(&place, &nobody, &["resume", "r1", "--max-budget-usd", "100000"]).run().assert_code(55);
    assert!(nobody.requests().is_empty(), "what was spent before counts");
    let server = Server::start([at("Do b.").text("B.").usage(1, 1), at("Do c.").text("C.").usage(1, 1)]);
    let run = run_in(&place, &server, &["resume", "r1", "--max-budget-usd", "900000000"]).run();
    assert_eq!(run.assert_code(0).stdout, "C.\n");
    // A document's own budget is raised in the document.
    let place = place_with_budget(100_000);
    let server = Server::start([at("Do a.").text("A.").usage(90_000, 10_000)]);
    let run = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run();
    assert!(
        run.assert_code(55).stderr.ends_with(
            "hint: raise `budget` in the document, then go on with the run:\n  tenon flow resume r1 --accept-changes\n"
        ),
        "{run}"
    );
    std::fs::write(place.workspace().join("flow.yaml"), budgeted(1_000_000)).unwrap();
    let server = Server::start([at("Do b.").text("B.").usage(1, 1), at("Do c.").text("C.").usage(1, 1)]);
    let run = run_in(&place, &server, &["resume", "r1", "--accept-changes"]).run();
    assert!(run.assert_code(0).stderr.contains("the document has changed; 1 step is kept"), "{run}");
}

fn budgeted(usd: u32) -> String {
    CHAIN.replace("name: chain\n", &format!("name: chain\nbudget: {{ maxUsd: {usd} }}\n"))
}

fn place_with_budget(usd: u32) -> Tenon {
    place(&budgeted(usd)).home_file("settings.json", PRICES)
}

#[test]
fn a_run_is_resumed_by_one_process_at_a_time() {
    let place = place(CHAIN);
    failed_in_c(&place);
    let gate = Gate::new();
    let server = Server::start([at("Do c.").text("C.").hold(&gate)]);
    let running = run_in(&place, &server, &["resume", "r1"]).spawn();
    server.wait_for_requests(1, SOON);
    let other = Server::start([]);
    let run = run_in(&place, &other, &["resume", "r1"]).run();
    let pid = running.pid();
    assert!(
        run.assert_code(42).stderr.contains(&format!("the run `r1` is being run by process {pid}\n")),
        "{run}"
    );
    assert!(run.stderr.contains("hint: wait for it, or stop it with `tenon flow cancel`"), "{run}");
    gate.open();
    assert_eq!(running.wait().assert_code(0).stdout, "C.\n");
}

#[test]
fn runs_that_cannot_be_resumed() {
    let place = place(CHAIN);
    let nobody = Server::start([]);
    let run = run_in(&place, &nobody, &["resume", "r9", "-o", "json"]).run();
    assert_eq!(run.assert_code(42).json()["error"]["message"], "there is no run `r9`", "{run}");
    assert!(run.stderr.contains("hint: `tenon flow list` shows the runs there are"), "{run}");
    assert!(!place.tenon_home().join("runs.db").exists(), "looking makes nothing");
    let server = Server::start([refused("Do a."), refused("Do a.")]);
    for id in ["run_ab1", "run_ab2"] {
        run_in(&place, &server, &["run", "flow.yaml", "--run-id", id]).run().assert_code(1);
    }
    let run = run_in(&place, &nobody, &["resume", "run_ab"]).run();
    assert!(run.assert_code(42).stderr.contains("run_ab1") && run.stderr.contains("run_ab2"), "{run}");
    let table: &[(&[&str], &str)] = &[
        (&[], "`tenon flow resume` needs a run"),
        (&["r", "f", "more"], "`tenon flow resume` takes a run and, at most, a document"),
        (&["r", "-C", "x"], "`tenon flow resume` does not take `--cwd`"),
        (&["r", "--no-session"], "`tenon flow resume` does not take `--no-session`"),
        (&["r", "--stdin", "wait"], "`tenon flow resume` does not take `--stdin`"),
        (&["r", "-p", "x"], "`tenon flow resume` does not take `--prompt`"),
        (&["r", "f", "--pinned"], "`--pinned` goes on with the run's own document, and a file is named"),
    ];
    for (flags, message) in table {
        let run = run_in(&place, &nobody, &["resume"]).args(*flags).run();
        assert!(run.assert_code(2).stderr.starts_with(&format!("error[usage]: {message}\n")), "{run}");
    }
    // A run without its folder.
    let folder = place.workspace().join("gone");
    std::fs::create_dir(&folder).unwrap();
    let server = Server::start([refused("Do a.")]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "lost", "-C", "gone"]).run().assert_code(1);
    std::fs::remove_dir(&folder).unwrap();
    let run = run_in(&place, &nobody, &["resume", "lost"]).run();
    assert!(run.assert_code(42).stderr.contains("the folder of the run is gone"), "{run}");
}

#[test]
fn an_id_is_used_once() {
    let place = place(CHAIN);
    failed_in_c(&place);
    let nobody = Server::start([]);
    let run = run_in(&place, &nobody, &["run", "flow.yaml", "--run-id", "r1"]).run();
    assert!(
        run.assert_code(42).stderr.contains(
            "error[input]: there is a run `r1` already\nhint: choose another `--run-id`, or `tenon flow resume` it\n"
        ),
        "{run}"
    );
    assert!(nobody.requests().is_empty());
}

#[test]
fn without_a_journal_nothing_is_kept() {
    for flag in ["--no-journal", "--no-session"] {
        let place = place(CHAIN);
        let server = Server::start([refused("Do a.")]);
        let run = run_in(&place, &server, &["run", "flow.yaml", flag, "--run-id", "r1"]).run();
        assert!(!run.assert_code(1).stderr.contains("flow resume"), "{run}");
        assert!(!place.tenon_home().join("runs.db").exists());
    }
}

#[test]
fn the_journal_is_its_owners_alone() {
    let place = place(CHAIN);
    failed_in_c(&place);
    let mode = std::fs::metadata(place.tenon_home().join("runs.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_journal_that_cannot_be_opened_refuses_the_run_before_anything_is_paid_for() {
    type Spoil = fn(&Tenon);
    let table: &[(&str, Spoil, &str)] = &[
        (
            "a folder in its place",
            |place| std::fs::create_dir(place.tenon_home().join("runs.db")).unwrap(),
            "--no-journal",
        ),
        (
            "another kind of file",
            |place| std::fs::write(place.tenon_home().join("runs.db"), vec![7; 5000]).unwrap(),
            "move the file away",
        ),
        (
            "a home that is a file",
            |place| {
                std::fs::remove_dir_all(place.tenon_home()).unwrap();
                std::fs::write(place.tenon_home(), "").unwrap();
            },
            "--no-journal",
        ),
    ];
    for (name, spoil, hint) in table {
        let place = place(CHAIN);
        spoil(&place);
        let nobody = Server::start([]);
        let run = run_in(&place, &nobody, &["run", "flow.yaml", "-o", "json"]).run();
        let report = run.assert_code(42).json();
        let message = report["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("the run cannot be kept: "), "{name}: {run}");
        assert!(report["error"]["hint"].as_str().unwrap().contains(hint), "{name}: {run}");
        assert!(nobody.requests().is_empty(), "{name}");
        let server = Server::start([at("Do").text("x").forever()]);
        let run = run_in(&place, &server, &["run", "flow.yaml", "--no-journal"]).run();
        assert_eq!(run.assert_code(0).stdout, "x\n", "{name}");
    }
    let nobody = Server::start([]);
    let place = place(CHAIN);
    let run = run_in(&place, &nobody, &["run", "flow.yaml"]).env("TENON_HOME", "").env("HOME", "").run();
    assert!(run.assert_code(42).stderr.contains("neither `TENON_HOME` nor `HOME` is set"), "{run}");
}

/// A disk that fills up in the middle of a run: it stops, says why, and leaves nothing out.
#[test]
fn a_journal_that_cannot_be_written_any_more_stops_the_run() {
    let place = place(CHAIN);
    let long = "x".repeat(400_000);
    let server = Server::start([at("Do a.").text(long), reply().text("never").forever()]);
    let script = "ulimit -f 200; exec \"$@\"";
    let run = Tenon::new("bash")
        .cwd(place.workspace())
        .server(&server)
        .env("TENON_HOME", place.tenon_home())
        .args(["-c", script, "bash", env!("CARGO_BIN_EXE_tenon"), "flow", "run", "flow.yaml"])
        .args(["--run-id", "r1", "-o", "json"])
        .run();
    let report = run.assert_code(1).json();
    assert_eq!(report["status"], "failed", "{}", run.stderr);
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("the journal cannot be") && message.contains("runs.db"), "{message}");
    assert_eq!(report["error"]["class"], "journal");
    assert!(report["error"]["hint"].as_str().unwrap().contains("room on its disk"));
    assert_eq!(server.requests().len(), 1, "nothing is paid for that cannot be kept");
    assert!(run.stderr.contains("  tenon flow resume r1"), "{}", run.stderr);
    let server = Server::start([at("Do a.").text("A."), at("Do b.").text("B."), at("Do c.").text("C.")]);
    assert_eq!(run_in(&place, &server, &["resume", "r1"]).run().assert_code(0).stdout, "C.\n");
}

/// Nobody could read the result: it is not lost.
#[test]
fn a_result_that_was_not_written_is_had_again() {
    let place = place("name: n\nsteps:\n  - { id: a, instructions: Do a. }\n");
    let server = Server::start([at("Do a.").text("A.")]);
    let run = Tenon::new("bash")
        .cwd(place.workspace())
        .server(&server)
        .env("TENON_HOME", place.tenon_home())
        .args([
            "-c",
            "\"$@\" | true; exit ${PIPESTATUS[0]}",
            "bash",
            env!("CARGO_BIN_EXE_tenon"),
            "flow",
            "run",
            "flow.yaml",
        ])
        .args(["--run-id", "r1"])
        .run();
    run.assert_code(1);
    assert!(
        run.stderr.contains("hint: the run completed, and its result was not read; to have it again:\n  tenon flow resume r1\n"),
        "{run}"
    );
    assert_eq!(place.clone().args(["flow", "resume", "r1"]).run().assert_code(0).stdout, "A.\n");
}
