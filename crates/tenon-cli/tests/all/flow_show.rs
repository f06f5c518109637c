//! `tenon flow show` and the rest, where runs, rows or the journal itself are odd: what is in which step, what is nobody's to
//! read, and what is the matter with a file.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tenon_testkit::{Run, Server, Signal, Tenon, json, reply};

use super::flow_resume::{place, refused, run_in};
use super::flow_run::at;

const SOON: Duration = Duration::from_secs(30);
const ONE: &str = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n";

fn flow(place: &Tenon, args: &[&str]) -> Run {
    place.clone().arg("flow").args(args).run()
}

fn journal(place: &Tenon) -> rusqlite::Connection {
    rusqlite::Connection::open(place.tenon_home().join("runs.db")).unwrap()
}

/// Steps that run side by side are shown one after the other, each with what is inside it.
#[test]
fn what_is_inside_a_step_stands_below_it() {
    let document = "name: n\nsteps:\n  - { id: left, include: sub.yaml }\n  - { id: right, include: sub.yaml }\n  - id: each\n    loop: { forEach: [p, q], steps: [{ id: one, instructions: 'Do ${{ item }}.' }, { id: two, instructions: 'And ${{ item }}.', dependsOn: [one] }] }\n";
    let place = place(document).file(
        "sub.yaml",
        "name: sub\nsteps:\n  - { id: x, instructions: Do x. }\n  - { id: y, instructions: Do y., dependsOn: [x] }\n",
    );
    let server = Server::answering(|_| reply().text("ok"));
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(0);
    let run = flow(&place, &["show", "r1"]);
    let shown: Vec<&str> = run.stdout.lines().skip_while(|line| !line.is_empty()).skip(1).collect();
    let shown: Vec<&str> = shown.iter().map(|line| line.split(':').next().unwrap_or_default()).collect();
    let parents: Vec<String> = shown
        .iter()
        .scan(Vec::<&str>::new(), |open, line| {
            let depth = (line.len() - line.trim_start().len()) / 2;
            open.truncate(depth);
            let within = open.join(">");
            open.push(line.trim());
            Some(format!("{within}|{}", line.trim()))
        })
        .collect();
    for line in ["left|left.x", "left|left.y", "right|right.x", "right|right.y", "|left", "|right", "|each"] {
        assert!(parents.iter().any(|place| place == line), "{line}: {parents:?}\n{run}");
    }
    for item in ["each[0].one", "each[0].two", "each[1].one", "each[1].two"] {
        let place = parents.iter().find(|place| place.ends_with(&format!("|{item}"))).unwrap();
        assert!(place.starts_with("each"), "{place}\n{run}");
    }
}

#[test]
fn what_a_model_or_a_server_said_is_in_no_error_and_no_name() {
    let place = place(ONE);
    let server = Server::start([
        at("Do a.").call("c1", "leak_the_secret", json!({})),
        at("Do a.").call("c2", "list_directory", json!({"path": "."})),
        at("Do a.").status(400).json(json!({"error": {"message": "your secret prompt is bad"}})),
    ]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(1);
    for format in ["text", "json"] {
        let run = flow(&place, &["show", "r1", "--format", format]);
        assert!(!run.assert_code(0).stdout.contains("secret"), "{run}");
        assert!(run.stdout.contains("(its words may quote the run; `--payloads` shows them)"), "{run}");
        let run = flow(&place, &["show", "r1", "--format", format, "--payloads"]);
        assert!(run.assert_code(0).stdout.contains("your secret prompt is bad"), "{run}");
        assert!(run.stdout.contains("leak_the_secret"), "{run}");
    }
    let view = flow(&place, &["show", "r1", "--format", "json"]).json();
    let turns = view["steps"][0]["attempts"][0]["turns"].as_array().unwrap().clone();
    let names: Vec<_> = turns.iter().map(|turn| turn["calls"][0]["tool_name"].clone()).collect();
    assert_eq!(names, [json!(null), json!("list_directory")]);
}

#[test]
fn a_page_with_payloads_is_its_owners_alone() {
    let place = place(ONE);
    let server = Server::start([at("Do a.").text("A.")]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(0);
    let page = place.workspace().join("page.html");
    let mode = || std::fs::metadata(&page).unwrap().permissions().mode() & 0o777;
    flow(&place, &["show", "r1", "--html", "page.html", "--payloads"]).assert_code(0);
    assert_eq!(mode(), 0o600);
    // Over one that everybody may read, too.
    std::fs::set_permissions(&page, std::fs::Permissions::from_mode(0o644)).unwrap();
    flow(&place, &["show", "r1", "--html", "page.html", "--payloads"]).assert_code(0);
    assert_eq!(mode(), 0o600);
}

#[test]
fn a_prefix_of_many_runs_names_some_and_counts_the_rest() {
    let place = place(ONE);
    let server = Server::answering(|_| reply().status(400).json(json!({"error": {"message": "no"}})));
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r0"]).run().assert_code(1);
    let copy = "INSERT INTO runs SELECT 'r' || ?1, name, document_hash, document, inputs, cwd, status, created + ?1, updated, cost_usd, owner, lease_until, cancel FROM runs WHERE run_id = 'r0'";
    for number in 1..8 {
        journal(&place).execute(copy, [number]).unwrap();
    }
    let run = flow(&place, &["show", "r"]);
    let wanted = "`r` is the beginning of several runs: r7, r6, r5, r4, r3 and 3 more\n";
    assert!(run.assert_code(42).stderr.contains(wanted), "{run}");
}

/// One row that somebody has damaged does not hide the others.
#[test]
fn rows_that_are_broken_are_listed_with_the_rest() {
    let place = place(ONE);
    let server = Server::start([refused("Do a."), refused("Do a.")]);
    for id in ["fine", "odd"] {
        run_in(&place, &server, &["run", "flow.yaml", "--run-id", id]).run().assert_code(1);
    }
    let journal = journal(&place);
    journal
        .execute_batch(
            "UPDATE runs SET name = x'ff', status = 'dancing', created = 'yesterday', cost_usd = 'dear', owner = 7,
                 document = '{', inputs = '[' WHERE run_id = 'odd'; UPDATE events SET kind = 'jig' WHERE run_id = 'odd'",
        )
        .unwrap();
    drop(journal);
    let listed = flow(&place, &["list", "--format", "json"]);
    let ids: Vec<_> =
        listed.assert_code(0).json().as_array().unwrap().iter().map(|run| run["run_id"].clone()).collect();
    assert_eq!(ids.len(), 2, "{listed}");
    let run = flow(&place, &["list"]);
    assert!(run.assert_code(0).stdout.contains("odd"));
    assert_eq!(run.stderr, "warning: the run `odd` is damaged: its name is no text\n");
    for command in ["show", "resume"] {
        let run = flow(&place, &[command, "odd"]);
        assert!(run.assert_code(42).stderr.contains("of the run `odd` cannot be read"), "{run}");
    }
    assert!(flow(&place, &["export", "odd"]).assert_code(0).stdout.contains("\"jig\""));
    flow(&place, &["cancel", "odd"]).assert_code(0);
    flow(&place, &["delete", "odd"]).assert_code(0);
}

/// Ten thousand of them, and what some ask is broken too.
#[test]
fn many_runs_are_listed_although_some_are_broken() {
    let place = place(ONE);
    let server = Server::start([refused("Do a.")]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "fine"]).run().assert_code(1);
    let journal = journal(&place);
    journal
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO runs SELECT printf('many%05d', i), name, document_hash, document, inputs, cwd,
                 CASE i % 100 WHEN 0 THEN 'waltz' WHEN 1 THEN 'suspended' ELSE status END,
                 created + i, updated, cost_usd, owner, lease_until, cancel FROM runs, n WHERE run_id = 'fine';
             INSERT INTO events(run_id, seq, key, kind, at, payload)
                 SELECT run_id, 1, '???', 'asked', 1, '{' FROM runs WHERE status = 'suspended';",
        )
        .unwrap();
    drop(journal);
    let listed = flow(&place, &["list", "--limit", "20000", "--format", "json"]);
    let runs = listed.assert_code(0).json();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 10_001);
    assert_eq!(runs.iter().filter(|run| !run["damage"].is_null()).count(), 200, "{}", listed.stderr);
    assert_eq!(listed.stderr.lines().count(), 200);
    assert!(listed.stderr.contains("warning: the run `many10000` is damaged: its status is `waltz`\n"));
    let run = flow(&place, &["list", "--limit", "3"]);
    assert_eq!(run.assert_code(0).stdout.lines().count(), 4, "{run}");
}

#[test]
fn a_reader_who_leaves_early_has_what_it_wanted() {
    let place = place(ONE);
    let server = Server::start([at("Do a.").text("x".repeat(3_000_000))]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(0);
    for command in ["export r1", "show r1 --payloads", "show r1 --payloads --format json", "list"] {
        let line = format!(
            "\"$0\" flow {command} 2> errors | head -c 1 > first; echo \"${{PIPESTATUS[0]}} $(wc -c < first) $(wc -c < errors)\""
        );
        let out = std::process::Command::new("bash")
            .args(["-c", &line, env!("CARGO_BIN_EXE_tenon")])
            .env("TENON_HOME", place.tenon_home())
            .current_dir(place.workspace())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout), "0 1 0\n", "{command}");
    }
}

#[test]
fn problems_of_the_file_name_it() {
    let place = place(ONE);
    let server = Server::start([at("Do a.").text("A.")]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(0);
    let file = place.tenon_home().join("runs.db");
    let name = file.display().to_string();
    // Of a newer tenon.
    journal(&place).pragma_update(None, "user_version", 99).unwrap();
    for args in [vec!["list"], vec!["show", "r1"], vec!["resume", "r1"], vec!["delete", "r1"]] {
        let run = flow(&place, &args);
        assert!(
            run.assert_code(42).stderr.contains(&format!("`{name}` was written by a newer tenon")),
            "{run}"
        );
    }
    let run = run_in(&place, &Server::start([]), &["run", "flow.yaml"]).run();
    assert!(run.assert_code(42).stderr.contains("newer tenon"), "{run}");
    journal(&place).pragma_update(None, "user_version", 1).unwrap();
    // Damaged in the middle.
    let whole = std::fs::read(&file).unwrap();
    let mut bytes = whole.clone();
    bytes[4096..].fill(0xff);
    std::fs::write(&file, bytes).unwrap();
    let run = flow(&place, &["list"]);
    assert!(run.assert_code(42).stderr.contains(&name) && run.stderr.contains("hint: "), "{run}");
    std::fs::write(&file, whole).unwrap();
    // Locked by somebody else's transaction is waited for, and then told; here it is only not writable.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&file).is_err() {
        let run = run_in(&place, &Server::start([]), &["run", "flow.yaml"]).run();
        assert!(run.assert_code(42).stderr.contains(&name), "{run}");
    }
}

#[test]
fn a_run_whose_owner_was_killed_is_cancelled_and_deleted() {
    let place = place(ONE);
    let server = Server::start([at("Do a.").text("x").hang_after_events(0)]);
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).spawn();
    server.wait_for_requests(1, SOON);
    let run = flow(&place, &["delete", "r1"]);
    assert!(run.assert_code(42).stderr.contains("is being run by process"), "{run}");
    running.signal(Signal::Kill);
    running.wait();
    // A clock that was ahead, then went back: on this machine a process that is gone holds nothing.
    journal(&place).execute("UPDATE runs SET lease_until = 9000000000000000", []).unwrap();
    assert_eq!(flow(&place, &["cancel", "r1"]).assert_code(0).stdout, "cancelled r1\n");
    assert_eq!(flow(&place, &["list", "--format", "json"]).json()[0]["status"], "cancelled");
    flow(&place, &["delete", "r1"]).assert_code(0);
}

#[test]
fn inputs_of_any_letters_come_back_as_they_were() {
    let document = "name: n\ninputs: { type: object, properties: { x: { type: string } } }\nsteps:\n  - { id: a, instructions: 'Do ${{ inputs.x }}.' }\n";
    let place = place(document);
    let letters = "日本 \u{1f469}\u{200d}\u{1f680} ñ \u{0000a0}\t\"'\\ \u{e000}";
    let server = Server::start([reply().status(400).json(json!({"error": {"message": "no"}}))]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "--input", &format!("x={letters}")])
        .run()
        .assert_code(1);
    let server = Server::start([reply().text(letters)]);
    let run = run_in(&place, &server, &["resume", "r1"]).run();
    assert_eq!(run.assert_code(0).stdout, format!("{letters}\n"));
    assert!(server.request(0).user_text().contains(&format!("Do {letters}.")));
}
