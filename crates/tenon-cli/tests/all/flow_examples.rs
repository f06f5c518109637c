//! The workflows of `examples/flows`: each replays from its cassette, and the page that shows them shows them as they
//! are. `UPDATE_CASSETTES=1` records them again.

use std::path::{Path, PathBuf};

use tenon_testkit::{Reply, Server, json, reply};

use crate::tenon;

struct Example {
    name: &'static str,
    args: &'static [&'static str],
    script: Vec<Reply>,
}

fn examples() -> Vec<Example> {
    vec![
        Example {
            name: "hello",
            args: &[],
            script: vec![
                reply().text("Hello, and welcome.").usage(100, 20),
            ],
        },
        Example {
            name: "review",
            args: &[],
            script: vec![
                reply().text("Yes: the name is put into the query as it is.").usage(100, 20),
                reply().text("It reads well, and says too much.").usage(100, 20),
                reply().text("Both agree.").call("call_1", "submit_result", json!({"merge": false, "reason": "The query can be injected."})).usage(100, 20),
            ],
        },
        Example {
            name: "gate",
            args: &[],
            script: vec![
                reply().call("call_1", "submit_result", json!({"passed": false, "failed_tests": ["parser::empty_input"]})).usage(100, 20),
                reply().text("Run parser::empty_input alone with an empty file and read the first error.").usage(100, 20),
            ],
        },
        Example {
            name: "refine",
            args: &[],
            script: vec![
                reply().call("call_1", "submit_result", json!({"slogan": "We fix bikes.", "score": 4})).usage(100, 20),
                reply().call("call_1", "submit_result", json!({"slogan": "Back on the road by six.", "score": 9})).usage(100, 20),
            ],
        },
        Example {
            name: "judge",
            args: &[],
            script: vec![
                reply().text("Two players move sixteen pieces each; whoever traps the other's king wins.").usage(100, 20),
                reply().call("call_1", "submit_result", json!({"done": false, "reason": "Ten words are enough."})).usage(100, 20),
                reply().text("Two armies; trap the enemy king to win.").usage(100, 20),
                reply().call("call_1", "submit_result", json!({"done": true, "reason": "Short enough."})).usage(100, 20),
            ],
        },
        Example {
            name: "each-file",
            args: &[],
            script: vec![
                reply().call("call_1", "submit_result", json!({"files": [{"path": "src/login.py", "risk": "high"}, {"path": "README.md", "risk": "low"}]})).usage(100, 20),
                reply().text("Look for the name that goes into the query unescaped.").usage(100, 20),
            ],
        },
        Example {
            name: "translate",
            args: &[],
            script: vec![
                reply().text("Der Laden ist heute geschlossen.").usage(100, 20),
                reply().text("Le magasin est fermé aujourd'hui.").usage(100, 20),
            ],
        },
        Example {
            name: "release",
            args: &[],
            script: vec![
                reply().text("A faster parser. Empty input no longer fails.").usage(100, 20),
                reply().text("- Files open faster.\n- Empty files open too.").usage(100, 20),
                reply().text("# Faster and calmer\n- Files open faster.\n- Empty files open too.").usage(100, 20),
            ],
        },
        Example {
            name: "brief",
            args: &["--input", "topic=tides", "--input", "words=12"],
            script: vec![
                reply().text("Tides follow the moon; harbours follow the tides.").usage(100, 20),
            ],
        },
        Example {
            name: "notes",
            args: &[],
            script: vec![
                reply().call("call_1", "submit_result", json!({"decisions": ["The shop stays closed on Sundays.", "Ben orders the new pump on Monday."]})).usage(100, 20),
            ],
        },
        Example {
            name: "ask-files",
            args: &[],
            script: vec![
                reply().call("call_1", "read", json!({"path": "examples/flows/parts/meeting.txt"})).usage(100, 20),
                reply().text("Ben orders it, on Monday.").usage(100, 20),
            ],
        },
        Example {
            name: "hand-over",
            args: &[],
            script: vec![
                reply()
                    .call("call_1", "shared_memory_write", json!({"key": "hours", "value": "9 to 6"}))
                    .call("call_2", "send_message", json!({"to": "paint", "text": "New: closed on Sundays."}))
                    .usage(100, 20),
                reply().text("Noted and told.").usage(100, 20),
                reply().call("call_3", "shared_memory_read", json!({"key": "scout/hours"})).usage(100, 20),
                reply().text("Open 9 to 6, closed on Sundays.").usage(100, 20),
            ],
        },
    ]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_example_replays_as_its_page_says() {
    let page = read("docs/guides/workflow-examples.md");
    for Example { name, args, script } in examples() {
        let document = format!("examples/flows/{name}.yaml");
        let cassette = format!("examples/flows/cassettes/{name}.jsonl");
        let setup = tenon().cwd(root()).args(["flow", "run", &document]).args(args);
        if std::env::var_os("UPDATE_CASSETTES").is_some_and(|value| value == "1") {
            let server = Server::start(script.into_iter().map(|reply| reply.model("scripted-model")));
            // One at a time, so that each answer is given to its question.
            let record = ["--max-concurrency", "1", "-m", "scripted-model", "--record", &cassette];
            setup.clone().server(&server).args(record).run().assert_code(0);
            server.assert_script_done();
        }
        let run = setup.args(["-q", "--replay", &cassette]).run();
        run.assert_code(0);
        assert_eq!(run.stderr, "", "{name}");
        let shown: String = args.iter().map(|arg| format!("{arg} ")).collect();
        let command = format!("```sh\ntenon flow run {document} {shown}-q --replay {cassette}\n```\n");
        let (_, after) = page.split_once(&command).unwrap_or_else(|| panic!("the page lacks: {command}"));
        let output = after.split("```").nth(1).unwrap_or_default();
        let output = output.split_once('\n').map(|(_, output)| output).unwrap_or_default();
        assert_eq!(run.stdout, output, "{name}");
        let recorded = read(&cassette);
        for part in ["test-key", "127.0.0.1", "/home/", "/tmp/", root().to_str().unwrap()] {
            assert!(!recorded.contains(part), "`{part}` is in `{cassette}`");
        }
    }
}

#[test]
fn every_document_is_an_example_is_shown_and_is_valid() {
    let page = read("docs/guides/workflow-examples.md");
    let known: Vec<&str> = examples().iter().map(|example| example.name).collect();
    let mut documents = Vec::new();
    for entry in std::fs::read_dir(root().join("examples/flows")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            documents.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    assert!(documents.len() >= 10);
    for name in &documents {
        assert!(known.contains(&name.as_str()), "`{name}` is run by no test");
        let file = format!("examples/flows/{name}.yaml");
        assert!(page.contains(&format!("```yaml\n{}```\n", read(&file))), "`{file}` is not shown as it is");
        let run = tenon().cwd(root()).args(["flow", "validate", &file]).run();
        assert_eq!(run.assert_code(0).stdout.lines().count(), 1, "{run}");
    }
}
