//! Sessions from outside: what is recorded, how it is found, resumed, forked, listed and deleted.
//!
//! What crashes leave behind is in `session_crashes.rs`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tenon_testkit::{Gate, Run, Server, Tenon, Value, Wire, json, reply};

use super::output::{SCHEMA, result_of};

/// The model is named, so that nothing is said about the choice.
pub fn tenon() -> Tenon {
    super::tenon().env("TENON_MODEL", "test-model")
}

const TOOL: &str = "structured_output";
/// SHA-256 of `alpha` and a line feed.
const ALPHA: &str = "b6a98d9ce9a2d9149288fa3df42d377c3e42737afdcdaf714e33c0a100b51060";

/// The session files of a home, oldest name first.
pub fn session_files(tenon_home: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = below(tenon_home);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files
}

pub fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found.sort();
    found
}

#[track_caller]
pub fn only_session(tenon_home: &Path) -> PathBuf {
    match session_files(tenon_home).as_slice() {
        [one] => one.clone(),
        files => panic!("one session expected: {files:?}"),
    }
}

pub fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn id_of(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

fn types(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["type"].as_str().unwrap()).collect()
}

fn says(text: &str) -> Server {
    Server::start([reply().text(text).forever()])
}

#[track_caller]
fn asked(tenon: &Tenon, server: &Server, flags: &[&str]) -> Run {
    let run = tenon.clone().server(server).args(flags).run();
    run.assert_code(0);
    run
}

#[test]
fn a_run_is_recorded_line_by_line() {
    let server = Server::start([
        reply().text("Reading.").call("c1", "read_file", json!({"file_path": "a.txt"})).usage(10, 2),
        reply().text("It says alpha.").usage(20, 3),
    ]);
    let tenon = tenon().server(&server).file("a.txt", "alpha\n");
    let run = tenon.clone().args(["-p", "What is in a.txt?\nReally.", "-o", "stream-json"]).run();
    run.assert_code(0);
    let session = result_of(&run)["session_id"].as_str().unwrap().to_owned();
    let cwd = tenon.workspace().to_str().unwrap().to_owned();
    let slug: String = cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = tenon.tenon_home().join("projects").join(slug).join("chats").join(format!("{session}.jsonl"));
    let mut records = records(&path);
    for record in &mut records {
        let time = record.as_object_mut().unwrap().shift_remove("time").unwrap();
        assert!(time.as_str().is_some_and(|time| time.len() == 24 && time.ends_with('Z')), "{time}");
    }
    let finished = records.pop().unwrap();
    assert_eq!((&finished["type"], &finished["exit_code"]), (&json!("run_finished"), &json!(0)));
    assert_eq!(finished.get("text"), None);
    let call = json!({"type": "tool_call", "id": "c1", "name": "read_file",
        "arguments": "{\"file_path\":\"a.txt\"}", "terminal": false, "native": null});
    let usage = |input: u64, output: u64| json!({"input": input, "output": output, "cache_read": 0, "cache_write": 0, "reasoning": 0, "total": input + output});
    let text = |text: &str| json!({"type": "text", "text": text});
    let real = tenon.workspace().canonicalize().unwrap();
    assert_eq!(
        records,
        [
            json!({"type": "session", "format": 1, "recording": "complete", "id": session, "cwd": cwd,
                "title": "What is in a.txt?", "tenon": env!("CARGO_PKG_VERSION"), "forked_from": null}),
            json!({"type": "user", "origin": "prompt",
                "message": {"role": "user", "parts": [text("What is in a.txt?\nReally.")]}}),
            json!({"type": "assistant", "turn": 1, "model": "test-model", "provider": "openai", "usage": usage(10, 2),
                "message": {"role": "assistant", "parts": [text("Reading."), call]}}),
            json!({"type": "tool_started", "turn": 1, "call_id": "c1", "name": "read_file"}),
            json!({"type": "tool_result", "turn": 1, "message": {"role": "user", "parts": [{"type": "tool_result",
                "call_id": "c1", "name": "read_file", "content": "alpha\n", "is_error": false}]},
                "left": {"files": [{"path": real.join("a.txt"), "sha256": ALPHA}]}}),
            json!({"type": "assistant", "turn": 2, "model": "test-model", "provider": "openai", "usage": usage(20, 3),
                "message": {"role": "assistant", "parts": [text("It says alpha.")]}}),
        ]
    );
    // For their owner only, and nothing is left of the lock.
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert!(!path.with_extension("pid").exists());
}

#[test]
fn continue_goes_on_with_the_latest_of_this_folder() {
    let server = says("Fine.");
    let tenon = tenon().file("other/x", "");
    let first = asked(&tenon, &server, &["--continue", "-p", "One", "-o", "json"]);
    let fresh = "`--continue`: there is no session of this folder yet, so a new one begins";
    assert!(first.stderr.contains(&format!("warning: {fresh}\n")), "{first}");
    assert_eq!(result_of(&first)["warnings"], json!([fresh]));
    asked(&tenon.clone().cwd(tenon.workspace().join("other")), &server, &["-p", "Elsewhere"]);
    let second = asked(&tenon, &server, &["-c", "-p", "Two", "-o", "json"]);
    assert_eq!(second.stderr, "");
    assert_eq!(result_of(&second)["session_id"], result_of(&first)["session_id"]);
    let request = server.requests().pop().unwrap();
    assert_eq!(request.user_text(), "One\nTwo");
    assert_eq!(request.messages().len(), 4, "{:?}", request.messages());
    let path = tenon.tenon_home();
    let path = session_files(&path).into_iter().find(|path| records(path).len() > 4).unwrap();
    let records = records(&path);
    assert_eq!(
        types(&records),
        ["session", "user", "assistant", "run_finished", "user", "assistant", "run_finished"]
    );
    // Counters start afresh.
    assert_eq!((&records[2]["turn"], &records[5]["turn"]), (&json!(1), &json!(1)));
    assert_eq!(result_of(&second)["num_turns"], 1);
}

#[test]
fn resume_takes_ids_and_titles_and_beginnings_of_both() {
    let server = says("Fine.");
    let tenon = tenon();
    let ids = ["aaaaaaaa-0000-4000-8000-000000000001", "aaaabbbb-0000-4000-8000-000000000002"];
    asked(&tenon, &server, &["-p", "Fix the tests", "--session-id", ids[0]]);
    asked(&tenon, &server, &["-p", "Fix the docs", "--session-id", ids[1]]);
    for (wanted, id) in [
        (ids[0], ids[0]),
        ("AAAABBBB-0000-4000-8000-000000000002", ids[1]),
        ("aaaab", ids[1]),
        ("Fix the tests", ids[0]),
        ("fix the d", ids[1]),
    ] {
        let run = asked(&tenon, &server, &["--resume", wanted, "-p", "More", "-o", "json"]);
        assert_eq!((result_of(&run)["session_id"].as_str(), run.stderr.as_str()), (Some(id), ""), "{wanted}");
    }
    let refused = |wanted: &str, message: &str, hint: &str| {
        let run = tenon.clone().server(&server).args(["-r", wanted, "-p", "More"]).run();
        run.assert_code(42);
        assert_eq!(run.stderr, format!("error[input]: {message}\nhint: {hint}\n"));
    };
    // The one written last comes first.
    let both = format!("`{}` (Fix the docs), `{}` (Fix the tests)", ids[1], ids[0]);
    refused(
        "aaaa",
        &format!("`aaaa` fits 2 sessions: {both}"),
        "give more of the id or of the title; `tenon sessions list` has them all",
    );
    refused(
        "nothing",
        "there is no session `nothing` of this folder",
        &format!("the latest are {both}; `tenon sessions list` has them all"),
    );
    let elsewhere = tenon.clone().file("other/x", "").cwd(tenon.workspace().join("other"));
    let run = elsewhere.clone().server(&server).args(["-r", ids[0], "-p", "More"]).run();
    run.assert_code(42);
    let folder = tenon.workspace().display();
    assert!(
        run.stderr.contains(&format!("hint: it is one of `{folder}`: work there, or add `-C {folder}`\n")),
        "{run}"
    );
    let run = elsewhere.clone().server(&server).args(["-r", "none", "-p", "More"]).run();
    assert!(run.assert_code(42).stderr.contains("hint: this folder has no sessions; "), "{run}");
}

#[test]
fn flags_that_do_not_go_together() {
    let id = "aaaaaaaa-0000-4000-8000-000000000001";
    for (flags, message, hint) in [
        (
            &["--resume"][..],
            "`--resume` needs the id or the title of a session",
            Some("`tenon sessions list` lists them; `--continue` takes the latest of this folder"),
        ),
        (&["--fork-session"], "`--fork-session` needs `--continue` or `--resume`", None),
        (
            &["-c", "--session-id", id],
            "`--session-id` is for a new session, and `--continue` and `--resume` keep theirs",
            Some("with `--fork-session` the copy gets that id"),
        ),
        (&["--resume-session-at", "x"], "`--resume-session-at` is not in this version", None),
    ] {
        let run = tenon().args(["-p", "go"]).args(flags).run();
        run.assert_code(2);
        let hint = hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        let expected = format!("error[usage]: {message}\n{hint}hint: `tenon --help` lists the flags\n");
        assert_eq!((run.stderr.as_str(), run.stdout.as_str()), (expected.as_str(), ""), "{flags:?}");
    }
    tenon().args(["-p", "go", "-c", "-r", "x"]).run().assert_code(2);
}

#[test]
fn a_fork_leaves_the_original_alone() {
    let server = says("Fine.");
    let tenon = tenon();
    asked(&tenon, &server, &["-p", "One"]);
    let original = only_session(&tenon.tenon_home());
    let before = std::fs::read(&original).unwrap();
    let new = "aaaaaaaa-0000-4000-8000-000000000001";
    let run = asked(
        &tenon,
        &server,
        &["-r", &id_of(&original), "--fork-session", "--session-id", new, "-p", "Two", "-o", "json"],
    );
    assert_eq!(result_of(&run)["session_id"], new);
    assert_eq!(server.requests().pop().unwrap().user_text(), "One\nTwo");
    assert_eq!(std::fs::read(&original).unwrap(), before);
    let fork = records(&original.with_file_name(format!("{new}.jsonl")));
    assert_eq!((&fork[0]["forked_from"], &fork[0]["title"]), (&json!(id_of(&original)), &json!("One")));
    assert_eq!(
        types(&fork),
        ["session", "user", "assistant", "run_finished", "user", "assistant", "run_finished"]
    );
    // And with an id of its own making.
    asked(&tenon, &server, &["--continue", "--fork-session", "-p", "Three"]);
    assert_eq!(session_files(&tenon.tenon_home()).len(), 3);
}

#[test]
fn an_id_is_used_once() {
    let server = says("Fine.");
    let tenon = tenon().server(&server);
    let id = "aaaaaaaa-0000-4000-8000-000000000001";
    let again = tenon.clone().args(["-p", "One", "--session-id", id]);
    again.run().assert_code(0);
    let run = again.run();
    run.assert_code(42);
    assert_eq!(
        run.stderr,
        format!("error[input]: there is a session {id} already\nhint: go on with it: `--resume {id}`\n")
    );
    let run = tenon.clone().args(["-p", "One", "-c", "--fork-session", "--session-id", id]).run();
    assert!(run.assert_code(42).stderr.contains("already"), "{run}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn without_a_session_nothing_is_on_disk() {
    let server = says("Fine.");
    let tenon = tenon();
    asked(&tenon, &server, &["-p", "One", "--no-session"]);
    assert_eq!(below(&tenon.tenon_home()), Vec::<PathBuf>::new());
    // The history of another can still be used.
    asked(&tenon, &server, &["-p", "Two"]);
    let session = only_session(&tenon.tenon_home());
    let before = std::fs::read(&session).unwrap();
    let run = asked(&tenon, &server, &["-c", "-p", "Three", "--no-session", "-o", "json"]);
    assert_eq!(server.requests().pop().unwrap().user_text(), "Two\nThree");
    assert_ne!(result_of(&run)["session_id"], id_of(&session));
    assert_eq!(std::fs::read(only_session(&tenon.tenon_home())).unwrap(), before);
}

#[test]
fn a_run_that_never_began_leaves_no_session() {
    let tenon = tenon();
    tenon.clone().args(["-p", "go"]).run().assert_code(41);
    tenon.clone().args(["-p", "go", "--json-schema", "{"]).run().assert_code(52);
    assert_eq!(session_files(&tenon.tenon_home()), Vec::<PathBuf>::new());
}

#[test]
fn one_writer_at_a_time() {
    let gate = Gate::new();
    let server =
        Server::start([reply().text("One."), reply().text("Two.").hold(&gate), reply().text("Three.")]);
    let tenon = tenon().server(&server);
    tenon.clone().args(["-p", "One"]).run().assert_code(0);
    let id = id_of(&only_session(&tenon.tenon_home()));
    let writer = tenon.clone().args(["-c", "-p", "Two"]).spawn();
    server.wait_for_requests(2, std::time::Duration::from_secs(30));
    let run = tenon.clone().args(["-c", "-p", "Three", "-o", "json"]).run();
    run.assert_code(42);
    let error = &result_of(&run)["error"];
    assert_eq!(error["message"], format!("the session {id} is in use by the process {}", writer.pid()));
    assert_eq!(error["hint"], "wait for its end, or go on in a copy with `--fork-session`");
    let listed = tenon.clone().args(["sessions", "list", "--json"]).run().json();
    assert_eq!((&listed[0]["state"], &listed[0]["pid"]), (&json!("in_use"), &json!(writer.pid())));
    let deleted = tenon.clone().args(["sessions", "delete", &id]).run();
    deleted.assert_code(42);
    assert!(deleted.stderr.contains("hint: delete it when its run has ended"), "{deleted}");
    // A copy can be made of what is there.
    let fork = tenon.clone().args(["-c", "--fork-session", "-p", "Three"]).run();
    fork.assert_code(0);
    assert_eq!((fork.stdout.as_str(), fork.stderr.as_str()), ("Three.\n", ""));
    assert_eq!(server.requests().pop().unwrap().user_text(), "One\nTwo\n\nThree");
    gate.open();
    writer.wait().assert_code(0);
    tenon.clone().args(["sessions", "delete", &id]).run().assert_code(0);
}

#[test]
fn sessions_are_listed_shown_and_deleted() {
    let server = Server::start([
        reply().text("Looking.").call(
            "c1",
            "run_shell_command",
            json!({"command": "seq 1 40; printf '\\033[31mred'"}),
        ),
        reply().text("Forty."),
        reply().status(400),
    ]);
    let tenon = tenon().server(&server);
    let empty = tenon.clone().args(["sessions", "list"]).run();
    assert_eq!(
        (empty.code, empty.stdout.as_str(), empty.stderr.as_str()),
        (0, "", "there are no sessions of this folder\n")
    );
    assert_eq!(tenon.clone().args(["sessions", "list", "--json"]).run().stdout, "[]\n");
    let (one, two) = ("aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002");
    tenon.clone().args(["-y", "-p", "Count to forty", "--session-id", one]).run().assert_code(0);
    tenon.clone().args(["-p", "\u{1b}[2JFail", "--session-id", two]).run().assert_code(1);
    let list = tenon.clone().args(["sessions", "list"]).run();
    let lines: Vec<&str> = list.stdout.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines.len() == 3, "{list}");
    assert!(lines[1].starts_with(two) && lines[1].ends_with("exit 1    [2JFail"), "{list}");
    assert!(lines[2].starts_with(one) && lines[2].ends_with("done      Count to forty"), "{list}");
    let listed = tenon.clone().args(["sessions", "list", "--json", "--all"]).run().json();
    assert_eq!((&listed[1]["id"], &listed[1]["title"]), (&json!(one), &json!("Count to forty")));
    assert_eq!(listed[0]["cwd"], tenon.workspace().to_str().unwrap());
    let shown = tenon.clone().args(["sessions", "show", "count"]).run();
    shown.assert_code(0);
    for part in [
        "# you, 20",
        "Count to forty\n",
        "→ run_shell_command {\"command\":\"seq",
        "← run_shell_command\n",
        "more bytes",
        "# finished, ",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {shown}");
    }
    assert!(!shown.stdout.contains('\u{1b}'), "{shown}");
    let failed = tenon.clone().args(["sessions", "show", "bbbb"]).run();
    assert!(failed.stdout.contains("# failed, "), "{failed}");
    let raw = tenon.clone().args(["sessions", "show", one, "--json"]).run();
    assert_eq!(raw.stdout, std::fs::read_to_string(listed[1]["file"].as_str().unwrap()).unwrap());
    tenon.clone().args(["sessions", "show", "zzz"]).run().assert_code(42);
    // Deleting takes the outputs along. All or nothing when a name is wrong.
    let outputs = tenon.tenon_home().join("projects");
    assert!(tenon.clone().args(["sessions", "delete", one, "zzz"]).run().code == 42);
    assert_eq!(session_files(&tenon.tenon_home()).len(), 2);
    let deleted = tenon.clone().args(["sessions", "delete", "count", "bbbb"]).run();
    assert_eq!((deleted.code, deleted.stdout.lines().count()), (0, 2), "{deleted}");
    assert!(!std::fs::read_dir(outputs).unwrap().any(|entry| entry.unwrap().path().is_dir()));
}

#[test]
fn old_sessions_are_deleted_by_hand_or_by_themselves() {
    let server = says("Fine.");
    let tenon = tenon();
    let days_ago = |path: &Path, days: u64| {
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(days * 86_400);
        std::fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    };
    for prompt in ["One", "Two", "Three"] {
        asked(&tenon, &server, &["-p", prompt]);
    }
    let files = session_files(&tenon.tenon_home());
    days_ago(&files[0], 100);
    days_ago(&files[1], 40);
    let none = tenon.clone().args(["sessions", "delete", "--older-than", "200d"]).run();
    assert_eq!((none.code, none.stderr.as_str()), (0, "there is nothing to delete\n"));
    // Looked for today already.
    asked(&tenon, &server, &["-p", "Four", "--settings", r#"{"sessions": {"retentionDays": 90}}"#]);
    assert_eq!(session_files(&tenon.tenon_home()).len(), 4);
    days_ago(&tenon.tenon_home().join("projects/.cleaned"), 2);
    asked(&tenon, &server, &["-p", "Five", "--settings", r#"{"sessions": {"retentionDays": 0}}"#]);
    assert_eq!(session_files(&tenon.tenon_home()).len(), 5);
    asked(&tenon, &server, &["-p", "Six"]);
    let left = session_files(&tenon.tenon_home());
    assert!(left.len() == 5 && !left.contains(&files[0]), "{left:?}");
    let old = tenon.clone().args(["sessions", "delete", "--older-than", "30d"]).run();
    assert_eq!(old.stdout.lines().count(), 1, "{old}");
    assert!(!files[1].exists() && session_files(&tenon.tenon_home()).len() == 4);
    let run = tenon.clone().args(["sessions", "delete", "--older-than", "soon"]).run();
    assert!(run.assert_code(2).stderr.contains("`30d`"), "{run}");
}

/// A session with two rejected answers and one that was accepted, gone on with and without the contract.
#[test]
fn a_contract_is_for_one_run_and_its_answers_are_not_shown_again() {
    for wire in Wire::ALL {
        let write = json!({"file_path": "made.txt", "content": "x"});
        let server = Server::start([
            reply().reasoning("Hm.").text("So.").call("s1", TOOL, json!({"risk": "PAYLOAD-1"})).call(
                "w",
                "write_file",
                write,
            ),
            reply().call("s2", TOOL, json!({"risk": "PAYLOAD-2"})),
            reply().call("s3", TOOL, json!({"risk": "low"})),
            reply().text("In words."),
            reply().call("s4", TOOL, json!({"risk": "high"})),
        ]);
        let tenon = tenon().server_on(&server, wire).args(["-q", "-y"]);
        let structured = ["-p", "Rate it", "--json-schema", SCHEMA];
        let run = tenon.clone().args(structured).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{wire:?}: {run}");
        let stored = std::fs::read_to_string(only_session(&tenon.tenon_home())).unwrap();
        assert!(!stored.contains("PAYLOAD") && !stored.contains(r#"risk\":\"low"#), "{wire:?}: {stored}");
        let placeholder = r#"{\"__redacted\":\"structured_output payload (see stdout result)\"}"#;
        assert_eq!(stored.matches(placeholder).count(), 3, "{wire:?}: {stored}");

        let run = tenon.clone().args(["-c", "-p", "Why?"]).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "In words.\n"), "{wire:?}: {run}");
        let run = tenon.clone().args(["-c"]).args(structured).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"high\"}\n"), "{wire:?}: {run}");
        server.assert_script_done();
        for request in &server.requests()[3..] {
            let sent = request.body.to_string();
            for word in ["__redacted", "PAYLOAD", "s1", "s2", "s3"] {
                assert!(!sent.contains(word), "{wire:?}: {word} in {sent}");
            }
            let told = request.user_text();
            assert_eq!(
                told.matches("[Note: here an answer was handed in with `structured_output`").count(),
                3,
                "{told}"
            );
            assert!(
                told.contains("It was answered: /risk: enum]") && told.contains("and accepted. "),
                "{told}"
            );
            assert!(sent.contains("Skipped: this turn's"), "{wire:?}: {sent}");
        }
        let [plain, structured] = &server.requests()[3..] else { panic!("two more requests") };
        assert!(!plain.tool_names().contains(&TOOL) && structured.tool_names().contains(&TOOL), "{wire:?}");
        assert!(!run.workspace().join("made.txt").exists());
    }
}

/// What a provider wants back goes back to the same model, and to no other.
#[test]
fn natives_go_only_to_the_model_they_came_from() {
    for wire in [Wire::Messages, Wire::Gemini] {
        let server = Server::start([
            reply().reasoning("Hm.").signature("SIGNED").text("Reading.").call(
                "c1",
                "glob",
                json!({"pattern": "*"}),
            ),
            reply().text("One.").forever(),
        ]);
        let (same, other) = (wire.model(), format!("{}/other-model", wire.provider()));
        let tenon =
            wire.env(&server).into_iter().fold(tenon(), |tenon, (name, value)| tenon.env(name, value));
        let play = |model: &str, flags: &[&str]| {
            let run = tenon.clone().args(["-q", "-m", model]).args(flags).run();
            assert_eq!(run.code, 0, "{wire:?}: {run}");
            server.requests().pop().unwrap().body.to_string().contains("SIGNED")
        };
        play(&same, &["-p", "One"]);
        let id = id_of(&only_session(&tenon.tenon_home()));
        let resume = ["-r", &id, "--fork-session", "-p", "Two"];
        assert!(play(&same, &resume), "{wire:?}");
        assert!(!play(&other, &resume), "{wire:?}");
    }
}

/// A key that a tool comes upon is not kept.
#[test]
fn keys_are_not_stored() {
    let key = "sk-SECRET-\"quoted\"-0123456789";
    let server = Server::start([
        reply().call("c1", "read_file", json!({"file_path": ".env"})),
        reply().text(format!("The key is {key}.")),
    ]);
    let tenon =
        tenon().server(&server).env("OPENAI_API_KEY", key).file(".env", format!("OPENAI_API_KEY={key}\n"));
    let run = tenon.clone().args(["-p", &format!("Is {key} the key?")]).run();
    run.assert_code(0);
    assert!(server.request(1).tool_result("c1").contains(key));
    for file in below(&tenon.tenon_home()) {
        let stored = std::fs::read_to_string(&file).unwrap();
        assert!(
            !stored.contains("sk-SECRET") && !stored.contains("0123456789"),
            "{}: {stored}",
            file.display()
        );
        stored.lines().for_each(|line| assert!(serde_json::from_str::<Value>(line).is_ok()));
    }
    assert!(
        std::fs::read_to_string(only_session(&tenon.tenon_home())).unwrap().contains("OPENAI_API_KEY=***")
    );
}
