//! Cassettes: what is recorded, what replays where, what does not; and the recorded examples of this
//! repository. `UPDATE_CASSETTES=1` records those again.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tenon_testkit::{Reply, Run, Server, Tenon, Value, Wire, json, reply, scrub};

use crate::tenon;

/// A folder for cassettes, apart from the folders of the runs.
struct Shelf(tempfile::TempDir);

impl Shelf {
    fn new() -> Shelf {
        Shelf(tempfile::tempdir().unwrap())
    }

    fn cassette(&self) -> PathBuf {
        self.0.path().join("cassette.jsonl")
    }

    fn record(&self, setup: Tenon, script: impl IntoIterator<Item = Reply>) -> Run {
        let server = Server::start(script);
        self.record_from(&server, setup.server(&server))
    }

    fn record_from(&self, server: &Server, setup: Tenon) -> Run {
        let run = setup.arg("--record").arg(self.cassette()).run();
        server.assert_script_done();
        run
    }

    /// No key, no server.
    fn replay(&self, setup: Tenon) -> Run {
        setup.arg("--replay").arg(self.cassette()).run()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.cassette()).unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn write(&self, text: &str) {
        std::fs::write(self.cassette(), text).unwrap();
    }
}

/// A conversation that names its folder, the time and process numbers.
fn busy_conversation(folder: &Path) -> [Reply; 4] {
    let file = folder.join("src/a.txt").display().to_string();
    let command = "pwd; date +%Y-%m-%dT%H:%M:%S.%N; date; echo pid $$; cat /proc/sys/kernel/random/uuid";
    [
        reply()
            .text(format!("Looking into {}.", folder.display()))
            .call("call_1", "read_file", json!({"file_path": file}))
            .call("call_2", "glob", json!({"pattern": "**/*.txt"}))
            .usage(100, 20),
        reply().call("call_3", "run_shell_command", json!({"command": command})),
        reply().call(
            "call_4",
            "write_file",
            json!({"file_path": folder.join("out.txt").display().to_string(), "content": "done\n"}),
        ),
        reply().text(format!("Wrote {}/out.txt.", folder.display())),
    ]
}

fn busy() -> Tenon {
    tenon().file("src/a.txt", "alpha\n").args(["-p", "Do it.", "-y", "-m", "test-model", "-o", "stream-json"])
}

#[test]
fn a_recording_replays_in_another_folder_without_key_and_server() {
    let shelf = Shelf::new();
    let first = busy();
    let recorded = shelf.record(first.clone(), busy_conversation(first.workspace()));
    recorded.assert_code(0);
    let replayed = shelf.replay(busy());
    replayed.assert_code(0);
    assert_ne!(recorded.workspace(), replayed.workspace());
    assert_eq!(replayed.read("out.txt"), "done\n");
    let text = |run: &Run| run.last_json()["result"].as_str().unwrap_or_default().to_owned();
    assert_eq!(text(&replayed), format!("Wrote {}/out.txt.", replayed.workspace().display()));
    assert_eq!(steady(&recorded), steady(&replayed));
    // Again, and in `text`: the same bytes.
    let plain = || tenon().file("src/a.txt", "alpha\n").args(["-p", "Do it.", "-y"]);
    let again = shelf.replay(plain());
    again.assert_code(0);
    assert_eq!(again.stdout, format!("Wrote {}/out.txt.\n", again.workspace().display()));
}

/// The cassette knows what it was recorded in: nobody names a model.
#[test]
fn a_recording_of_every_wire_replays() {
    for wire in Wire::ALL {
        let shelf = Shelf::new();
        let setup = || tenon().file("src/a.txt", "alpha\n").args(["-p", "Do it.", "-y"]);
        let first = setup();
        let mut script = busy_conversation(first.workspace());
        script[0] = script[0].clone().reasoning("Hm.").signature("sig").redacted_thinking("cmVk");
        let server = Server::start(script);
        shelf.record_from(&server, first.server_on(&server, wire)).assert_code(0);
        let text = shelf.text();
        assert!(!text.contains("test-key") && !text.contains("/workspace"), "{text}");
        let paths: Vec<Value> =
            shelf.lines()[1..].iter().map(|line| line["request"]["path"].clone()).collect();
        assert_eq!(paths, vec![json!(wire.path().split('?').next()); 4]);
        let replayed = shelf.replay(setup());
        replayed.assert_code(0);
        assert_eq!(replayed.stdout, format!("Wrote {}/out.txt.\n", replayed.workspace().display()));
        assert_eq!(replayed.read("out.txt"), "done\n");
        let other = shelf.replay(tenon().args(["-p", "Do that.", "-y"]));
        assert_refused(&other, &["`/messages/0/content`: recorded \"Do it.\", now \"Do that.\""]);
    }
}

/// The whole stream without what a command printed anew.
fn steady(run: &Run) -> String {
    let lines = run.stdout.lines().filter(|line| !line.contains("\"tool_use_id\":\"call_3\""));
    scrub(&lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_cassette_is_readable_and_holds_what_is_matched_on() {
    let shelf = Shelf::new();
    let setup = busy().args(["--append-system-prompt", "A line of the system prompt."]);
    let folder = setup.workspace().display().to_string();
    let home = setup.home().display().to_string();
    shelf.record(setup.clone(), busy_conversation(setup.workspace())).assert_code(0);
    let lines = shelf.lines();
    assert_eq!(lines[0], json!({"tenon_cassette": 1}));
    assert_eq!(lines.len(), 5);
    let request = &lines[1]["request"];
    assert_eq!((&request["method"], &request["path"]), (&json!("POST"), &json!("/v1/chat/completions")));
    assert_eq!(request["body"]["messages"], json!([{"role": "user", "content": "Do it."}]));
    assert_eq!(request["body"]["model"], "test-model");
    assert!(request["body"]["tools"].as_array().unwrap().contains(&json!("read_file")));
    assert_eq!(lines[1]["response"]["status"], 200);
    assert!(lines[1]["response"]["events"].as_array().unwrap().len() > 3);
    let text = shelf.text();
    assert!(text.contains("{{cwd}}/src/a.txt") && text.contains("{{cwd}}/out.txt"), "{text}");
    for part in [folder.as_str(), home.as_str(), "A line of the system prompt", "127.0.0.1", "authorization"]
    {
        assert!(!text.contains(part), "`{part}` is in the cassette");
    }
    let mode = std::fs::metadata(shelf.cassette()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn a_cassette_holds_no_key() {
    let key = "sk-very-secret-0123456789";
    let shelf = Shelf::new();
    let echo = reply().text_chunks(["The key is sk-very-", "secret-01234", "56789."]).call(
        "c1",
        "read_file",
        json!({"file_path": "key.txt"}),
    );
    let server = Server::start([echo, reply().text("Done.")]);
    let run = tenon()
        .file("key.txt", format!("KEY={key}\n"))
        .env("MY_KEY", key)
        .args(["-m", "m", "--api-key-env", "MY_KEY", "--base-url", &server.base_url()])
        .args(["-p", &format!("My key is {key}, honest.")])
        .arg("--record")
        .arg(shelf.cassette())
        .run();
    run.assert_code(0);
    assert_eq!(server.request(0).header("authorization"), Some(format!("Bearer {key}").as_str()));
    let text = shelf.text();
    assert!(!text.contains("very-secret") && !text.contains("0123456789"), "{text}");
    assert!(text.contains("My key is ***, honest.") && text.contains("KEY=***"), "{text}");
}

fn two_turns() -> [Reply; 2] {
    [reply().call("c1", "read_file", json!({"file_path": "a.txt"})), reply().text("It says alpha.")]
}

fn simple() -> Tenon {
    tenon().file("a.txt", "alpha\n")
}

fn recorded() -> Shelf {
    let shelf = Shelf::new();
    shelf.record(simple().args(["-p", "Read a.txt."]), two_turns()).assert_code(0);
    shelf
}

#[track_caller]
fn assert_refused(run: &Run, expected: &[&str]) {
    run.assert_code(42);
    assert_eq!(run.stdout, "", "{run}");
    for text in expected {
        assert!(run.stderr.contains(text), "`{text}` is missing\n{run}");
    }
}

#[test]
fn a_request_that_differs_fails_and_shows_the_first_difference() {
    let shelf = recorded();
    let run = shelf.replay(simple().args(["-p", "Read b.txt."]));
    assert_refused(
        &run,
        &[
            "the cassette has no answer for request 1",
            "`/messages/0/content`: recorded \"Read a.txt.\", now \"Read b.txt.\"",
        ],
    );
    // A file that has changed since.
    let run = shelf.replay(simple().file("a.txt", "beta\n").args(["-p", "Read a.txt."]));
    assert_refused(&run, &["request 2", "recorded \"alpha\\n\", now \"beta\\n\""]);
    // Other tools.
    let run = shelf.replay(simple().args(["-p", "Read a.txt.", "--exclude-tools", "glob"]));
    assert_refused(&run, &["request 1", "`/tools/"]);
    // Another system prompt or model does not matter.
    let other = ["--system-prompt", "Other.", "-m", "openai/other"];
    let run = shelf.replay(simple().args(["-p", "Read a.txt."]).args(other));
    run.assert_code(0);
    assert_eq!(run.stdout, "It says alpha.\n");
}

#[test]
fn the_order_of_the_lines_and_the_ids_do_not_matter() {
    let shelf = recorded();
    let text = shelf.text();
    let lines: Vec<&str> = text.lines().collect();
    let [header, first, second] = lines[..] else { panic!("{text}") };
    // The second exchange first, its call under another id than the first answer gives it.
    shelf.write(&format!("{header}\n{}\n\n{first}\n", second.replace("\"c1\"", "\"toolu_987\"")));
    let run = shelf.replay(simple().args(["-p", "Read a.txt."]));
    run.assert_code(0);
    assert_eq!(run.stdout, "It says alpha.\n");
}

#[test]
fn equal_requests_are_answered_in_the_order_of_the_file_and_each_once() {
    // A failed attempt and its repetition are the same request.
    let shelf = Shelf::new();
    let setup = || {
        tenon().home_file("settings.json", r#"{"retry": {"attempts": 2, "baseMs": 1}}"#).args(["-p", "Go."])
    };
    shelf.record(setup(), [reply().status(503), reply().text("Second.")]).assert_code(0);
    assert_eq!(shelf.lines().len(), 3);
    let run = shelf.replay(setup());
    run.assert_code(0);
    assert_eq!(run.stdout, "Second.\n");
    assert!(run.stderr.contains("retry: attempt 2"), "{run}");
    // With only the failure left there is nothing to answer the second attempt.
    let text = shelf.text();
    let kept: Vec<&str> = text.lines().take(2).collect();
    shelf.write(&kept.join("\n"));
    assert_refused(&shelf.replay(setup()), &["request 2", "all 1 recorded answers have been used"]);
}

#[test]
fn an_answer_that_broke_off_breaks_off_again() {
    let shelf = Shelf::new();
    let setup = || tenon().home_file("settings.json", r#"{"retry": {"attempts": 1}}"#).args(["-p", "Go."]);
    let recorded = shelf.record(setup(), [reply().text("half").cut_after_events(2)]);
    assert_ne!(recorded.code, 0, "{recorded}");
    assert_eq!(shelf.lines()[1]["response"]["cut"], true);
    let replayed = shelf.replay(setup());
    assert_eq!((replayed.code, &replayed.stdout), (recorded.code, &recorded.stdout), "{replayed}");
}

#[test]
fn a_cassette_that_cannot_be_used_says_why() {
    let shelf = recorded();
    let whole = shelf.text();
    let go = || simple().args(["-p", "Read a.txt."]);
    // Lines are missing at the end.
    let kept: Vec<&str> = whole.lines().take(2).collect();
    shelf.write(&kept.join("\n"));
    assert_refused(&shelf.replay(go()), &["no answer for request 2"]);
    for (text, expected) in [
        (&whole[..whole.len() - 40], &["line 3 is cut off"][..]),
        ("", &["line 1 is not the header"]),
        ("hello\n", &["line 1 is not the header"]),
        ("{\"tenon_cassette\":2}\n", &["version 2", "only version 1"]),
        ("{\"tenon_cassette\":1}\n{\"a\":1}\n", &["line 2 is not a recorded exchange"]),
    ] {
        shelf.write(text);
        assert_refused(&shelf.replay(go()), expected);
    }
    std::fs::remove_file(shelf.cassette()).unwrap();
    assert_refused(&shelf.replay(go()), &["cannot be read", "--record"]);
    std::fs::create_dir(shelf.cassette()).unwrap();
    assert_refused(&shelf.replay(go()), &["is not a regular file"]);
}

#[test]
fn a_cassette_that_cannot_be_written_stops_the_run_before_the_first_request() {
    let server = Server::start([]);
    let folder = tempfile::tempdir().unwrap();
    for path in ["nowhere/cassette.jsonl", folder.path().to_str().unwrap(), "/dev/full"] {
        let run = tenon().server(&server).args(["-p", "Go.", "--record", path]).run();
        assert_refused(&run, &["could not be written", path]);
    }
    assert_eq!(server.requests().len(), 0);
    let both = ["-p", "Go.", "--record", "a", "--replay", "b"];
    tenon().server(&server).args(both).run().assert_code(2);
}

#[test]
fn a_cassette_that_cannot_be_finished_fails_the_run() {
    let shelf = Shelf::new();
    let server = Server::start([reply().text("long ".repeat(2000))]);
    // No file may grow past a kibibyte: the header fits, the first exchange does not.
    let limited = r#"trap '' XFSZ; ulimit -f 1; exec "$0" "$@""#;
    let run = Tenon::new("/bin/bash")
        .server(&server)
        .args(["-c", limited, env!("CARGO_BIN_EXE_tenon"), "-p", "Go.", "--record"])
        .arg(shelf.cassette())
        .run();
    assert_refused(&run, &["could not be written"]);
    assert!(shelf.text().starts_with("{\"tenon_cassette\":1}\n"));
}

#[test]
fn pipes_are_no_cassettes_and_are_not_waited_for() {
    let server = Server::start([]);
    let setup = tenon().server(&server);
    let made = std::process::Command::new("mkfifo").arg(setup.workspace().join("pipe")).status().unwrap();
    assert!(made.success());
    for flag in ["--record", "--replay"] {
        let run = tenon().server(&server).cwd(setup.workspace()).args(["-p", "Go.", flag, "pipe"]).run();
        assert_refused(&run, &["not a regular file"]);
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn large_outputs_and_text_that_looks_like_our_names_replay_elsewhere() {
    let shelf = Shelf::new();
    let answers = || {
        vec![
            reply().call("c1", "run_shell_command", json!({"command": "seq 1 20000"})),
            reply().text("Dear {{home}}, {{cwd}} and {{name}}."),
        ]
    };
    let args = ["-q", "-y", "-p", "Count."];
    let recorded = shelf.record(tenon().args(args), answers());
    recorded.assert_code(0);
    assert_eq!(recorded.stdout, "Dear {{home}}, {{cwd}} and {{name}}.\n");
    let replayed = tenon().args(args).arg("--replay").arg(shelf.cassette()).run();
    assert_eq!((replayed.code, replayed.stdout), (0, recorded.stdout), "{}", replayed.stderr);
}

#[test]
fn recording_replaces_an_older_cassette_and_leaves_stdout_alone() {
    let shelf = Shelf::new();
    shelf.write("old\n");
    let run = shelf.record(simple().args(["-p", "Read a.txt."]), two_turns());
    run.assert_code(0);
    assert_eq!(run.stdout, "It says alpha.\n");
    assert_eq!(shelf.lines().len(), 3);
    // The path starts where tenon was started, also with `-C`.
    let setup =
        simple().file("sub/a.txt", "alpha\n").args(["-p", "Read a.txt.", "-C", "sub", "--replay", "c.jsonl"]);
    std::fs::copy(shelf.cassette(), setup.workspace().join("c.jsonl")).unwrap();
    let run = setup.run();
    run.assert_code(0);
    assert_eq!(run.stdout, "It says alpha.\n");
}

#[test]
fn a_replayed_run_costs_nothing_and_names_itself() {
    let run = recorded().replay(simple().args(["-p", "Read a.txt.", "-o", "stream-json"]));
    run.assert_code(0);
    assert_eq!(run.json_lines()[0]["model"], "replay");
    assert_eq!(run.last_json()["total_cost_usd"], 0.0);
    assert_eq!(run.stderr, "");
}

// --- the examples of this repository

const AUDIT: &str = r#"{"risk_level":"high","summary":"The change builds an SQL statement from request input.","findings":[{"file":"src/users.py","line":14,"problem":"SQL injection through the `name` parameter"}]}"#;
const INVENTORY: &str = r#"{"orders":[{"item":"jars","in_stock":7,"minimum":20,"order":13},{"item":"string","in_stock":12,"minimum":15,"order":3}],"files_read":["minimum.json","stock/cellar.csv","stock/shop.csv"]}"#;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs an example in the repository's folder, as its reader would; records it first where that is asked.
fn example(name: &str, setup: &Tenon, script: Vec<Reply>) -> Run {
    let setup = setup.clone().cwd(repository());
    let cassette = format!("examples/{name}/cassette.jsonl");
    if std::env::var_os("UPDATE_CASSETTES").is_some_and(|value| value == "1") {
        let server = Server::start(script.into_iter().map(|reply| reply.model("scripted-model")));
        let run = setup.clone().server(&server).args(["-m", "scripted-model", "--record", &cassette]).run();
        run.assert_code(0);
        server.assert_script_done();
    }
    let run = setup.args(["--replay", &cassette]).run();
    run.assert_code(0);
    let text = std::fs::read_to_string(repository().join(&cassette)).unwrap();
    for part in ["test-key", "127.0.0.1", "/home/", "/tmp/", repository().to_str().unwrap()] {
        assert!(!text.contains(part), "`{part}` is in `{cassette}`");
    }
    run
}

#[test]
fn the_audit_example_replays() {
    let diff = std::fs::read_to_string(repository().join("examples/audit/change.diff")).unwrap();
    let setup = tenon()
        .args(["-p", "Audit this diff and rate its risk.", "--json-schema", "@examples/audit/schema.json"])
        .stdin(diff);
    let run =
        example("audit", &setup, vec![reply().call_raw("call_1", "structured_output", AUDIT).usage(612, 58)]);
    assert_eq!(run.stdout, format!("{AUDIT}\n"));
    assert_eq!(run.stderr, "");
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    assert!(readme.contains(AUDIT), "the README shows another output");
}

#[test]
fn the_inventory_example_replays() {
    let folder = repository().join("examples/inventory").display().to_string();
    let setup = tenon().args([
        "-C",
        "examples/inventory",
        "-p",
        "Which items must be ordered, and how many? The counts are in stock/, one file per place.",
        "--json-schema",
        "@examples/inventory/schema.json",
    ]);
    let script = vec![
        reply()
            .text("Looking at what there is.")
            .call("call_1", "list_directory", json!({"path": format!("{folder}/stock")}))
            .call("call_2", "glob", json!({"pattern": "minimum.*"}))
            .usage(540, 41),
        reply()
            .call("call_3", "read_file", json!({"file_path": format!("{folder}/minimum.json")}))
            .call("call_4", "read_file", json!({"file_path": "stock/cellar.csv"}))
            .call("call_5", "read_file", json!({"file_path": "stock/shop.csv"}))
            .usage(655, 66),
        reply().call_raw("call_6", "structured_output", INVENTORY).usage(802, 71),
    ];
    let run = example("inventory", &setup, script);
    assert_eq!(run.stdout, format!("{INVENTORY}\n"));
    assert_eq!(run.stderr, "");
}

#[test]
fn an_answer_that_broke_inside_an_event_breaks_there_on_replay_too() {
    let shelf = Shelf::new();
    let args = ["-q", "-p", "Go.", "--settings", r#"{"retry":{"attempts":2,"baseMs":1}}"#];
    let answers = || vec![reply().text("Half of it").cut_after_bytes(260), reply().text("Done.")];
    let recorded = shelf.record(tenon().args(args), answers());
    assert_eq!((recorded.code, recorded.stdout.as_str()), (0, "Done.\n"), "{recorded}");
    let replayed = tenon().args(args).arg("--replay").arg(shelf.cassette()).run();
    assert_eq!((replayed.code, replayed.stdout.as_str()), (0, "Done.\n"), "{replayed}");
}
