//! The built-in tools in whole conversations: what the model is told, what the client is shown, what is
//! left on disk. Which calls may run is in `permissions.rs`.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tenon_testkit::{Captured, Run, Server, Tenon, Value, json, reply};

use crate::output::result_of;
use crate::tenon;

/// One call of one tool, then a last word.
pub(crate) struct Called {
    /// What the model was told.
    pub(crate) told: String,
    pub(crate) run: Run,
    pub(crate) server: Server,
}

pub(crate) fn call(setup: Tenon, tool: &str, input: Value) -> Called {
    let server = Server::start([reply().call("c1", tool, input), reply().text("Done.")]);
    let run = setup.server(&server).args(["-p", "Go.", "-o", "json"]).run();
    assert_eq!(server.requests().len(), 2, "{run}");
    Called { told: server.request(1).tool_result("c1"), run, server }
}

impl Called {
    /// The result of the run, the last of the messages.
    pub(crate) fn result(&self) -> Value {
        result_of(&self.run)
    }
}

/// The result of a tool as `stream-json` shows it.
fn shown(run: &Run, call_id: &str) -> Value {
    run.json_lines()
        .iter()
        .filter(|line| line["type"] == "user")
        .flat_map(|line| line["message"]["content"].as_array().cloned().unwrap_or_default())
        .find(|block| block["tool_use_id"] == call_id)
        .unwrap_or_else(|| panic!("no result of `{call_id}`\n{run}"))
}

fn example() -> Tenon {
    tenon()
        .file("notes.txt", "alpha\nbeta\ngamma\n")
        .file("src/main.rs", "fn main() {\n    println!(\"alpha\");\n}\n")
}

#[test]
fn each_tool_answers_the_model_and_shows_the_client() {
    let table = [
        ("read_file", json!({"file_path": "notes.txt"}), "alpha\nbeta\ngamma\n", "alpha\nbeta\ngamma\n"),
        (
            "read_file",
            json!({"file_path": "notes.txt", "offset": 1, "limit": 1}),
            "Showing lines 2-2 of 3 total lines.\n\n---\n\nbeta\n",
            "Showing lines 2-2 of 3 total lines.\n\n---\n\nbeta\n",
        ),
        (
            "write_file",
            json!({"file_path": "new/a.txt", "content": "one\ntwo\n"}),
            "Created `new/a.txt` (2 lines).",
            "Created `new/a.txt` (2 lines).",
        ),
        (
            "edit",
            json!({"file_path": "b.txt", "old_string": "", "new_string": "x\n"}),
            "Created `b.txt`.",
            "Created `b.txt`.",
        ),
        (
            "list_directory",
            json!({"path": "."}),
            "In `.`:\n[DIR] src\nnotes.txt\n",
            "In `.`:\n[DIR] src\nnotes.txt\n",
        ),
        (
            "glob",
            json!({"pattern": "**/*.rs"}),
            "1 file matches `**/*.rs` in `.`, newest first:\n<cwd>/src/main.rs\n",
            "1 file matches `**/*.rs`",
        ),
        (
            "grep_search",
            json!({"pattern": "alpha"}),
            "2 lines match `alpha` in `.`:\nnotes.txt:1:alpha\nsrc/main.rs:2:    println!(\"alpha\");\n",
            "2 lines match `alpha` in `.`:\nnotes.txt:1:alpha\nsrc/main.rs:2:    println!(\"alpha\");\n",
        ),
        (
            "run_shell_command",
            json!({"command": "cat notes.txt; echo err >&2"}),
            "Command: cat notes.txt; echo err >&2\nDirectory: (root)\nOutput: alpha\nbeta\ngamma\nerr\n\nError: (none)\n\
             Exit Code: 0\nSignal: (none)\nProcess Group PGID: N",
            "alpha\nbeta\ngamma\nerr\n",
        ),
    ];
    for (tool, input, told, displayed) in table {
        let server = Server::start([reply().call("c1", tool, input.clone()), reply().text("Done.")]);
        let run = example().server(&server).args(["-p", "Go.", "-y", "-o", "stream-json"]).run();
        run.assert_code(0);
        server.assert_script_done();
        let next = server.request(1);
        assert_eq!(steady(&next.tool_result("c1"), &run), told, "{tool} {input}");
        let block = shown(&run, "c1");
        assert_eq!(steady(block["content"].as_str().unwrap_or_default(), &run), displayed, "{tool} {input}");
        assert_ne!(block["is_error"], json!(true), "{tool}: {block}");
        assert_eq!(next.messages()[2]["tool_calls"][0]["function"]["name"], tool);
        assert_eq!(run.last_json()["result"], "Done.");
    }
}

/// Without what differs from run to run.
fn steady(text: &str, run: &Run) -> String {
    let text = text.replace(&run.workspace().display().to_string(), "<cwd>");
    match text.split_once("PGID: ") {
        Some((before, number)) if number.chars().all(|c| c.is_ascii_digit()) => format!("{before}PGID: N"),
        _ => text,
    }
}

#[test]
fn the_tools_are_offered_with_their_parameters() {
    let server = Server::start([reply().text("Hi.")]);
    tenon().server(&server).args(["-p", "Go."]).run().assert_code(0);
    let request = server.request(0);
    assert_eq!(request.tool_names(), super::TOOLS);
    let required = |tool: &str| request.tool(tool)["parameters"]["required"].clone();
    assert_eq!(required("read_file"), json!(["file_path"]));
    assert_eq!(required("write_file"), json!(["file_path", "content"]));
    assert_eq!(required("edit"), json!(["file_path", "old_string", "new_string"]));
    assert_eq!(required("list_directory"), json!(["path"]));
    assert_eq!(required("glob"), json!(["pattern"]));
    assert_eq!(required("grep_search"), json!(["pattern"]));
    assert_eq!(required("run_shell_command"), json!(["command"]));
    assert_eq!(required("todo_write"), json!(["todos"]));
    assert_eq!(required("web_fetch"), json!(["url", "prompt"]));
}

#[test]
fn mistakes_are_told_to_the_model_and_do_not_end_the_run() {
    let table = [
        ("read_file", json!({"file_path": "note.txt"}), "did you mean `notes.txt`?"),
        ("read_file", json!({}), "file_path"),
        ("read_file", json!({"file_path": "src"}), "is a folder"),
        ("read_fil", json!({"file_path": "notes.txt"}), "did you mean `read_file`?"),
        ("glob", json!({"pattern": "../*"}), "must not contain `..`"),
        ("grep_search", json!({"pattern": "("}), "is not a regular expression"),
        ("list_directory", json!({"path": "nowhere"}), "There is no folder `nowhere`"),
        ("run_shell_command", json!({"command": "sleep 60 &"}), "must not end with `&`"),
        ("run_shell_command", json!({"command": "exit 3"}), "Exit Code: 3"),
    ];
    for (tool, input, expected) in table {
        let called = call(example().arg("-y"), tool, input.clone());
        called.run.assert_code(0);
        assert!(called.told.contains(expected), "{tool} {input}: {}", called.told);
        let result = called.result();
        assert_eq!(result["permission_denials"], json!([]), "{tool} {input}");
        assert_eq!(result["stats"]["tools"]["totalFail"], 1, "{tool} {input}: {result}");
    }
}

#[test]
fn arguments_that_are_not_json_are_told_to_the_model() {
    let server =
        Server::start([reply().call_raw("c1", "read_file", r#"{"file_path": "#), reply().text("Done.")]);
    tenon().server(&server).args(["-p", "Go."]).run().assert_code(0);
    assert!(server.request(1).tool_result("c1").contains("not valid JSON"));
}

#[test]
fn an_existing_file_must_be_read_before_it_is_changed() {
    let write = json!({"file_path": "notes.txt", "content": "new\n"});
    let edit = json!({"file_path": "notes.txt", "old_string": "beta", "new_string": "BETA"});
    for (tool, input) in [("write_file", &write), ("edit", &edit)] {
        let called = call(example().arg("-y"), tool, input.clone());
        assert!(called.told.contains("has not been read"), "{tool}: {}", called.told);
        assert_eq!(called.run.read("notes.txt"), "alpha\nbeta\ngamma\n");
    }
    let server = Server::start([
        reply().call("r1", "read_file", json!({"file_path": "notes.txt"})),
        reply().call("e1", "edit", edit.clone()),
        // What a tool wrote itself counts as read.
        reply().call("w1", "write_file", write),
        reply().call("s1", "run_shell_command", json!({"command": "echo behind your back > notes.txt"})),
        reply().call(
            "e2",
            "edit",
            json!({"file_path": "notes.txt", "old_string": "behind", "new_string": "x"}),
        ),
        reply().text("Done."),
    ]);
    let run = example().server(&server).args(["-p", "Go.", "-y"]).run();
    run.assert_code(0);
    let last = server.request(5);
    assert_eq!(last.tool_result("e1"), "Edited `notes.txt` at line 2.");
    assert_eq!(last.tool_result("w1"), "Replaced `notes.txt` (1 line).");
    assert!(last.tool_result("e2").contains("has changed on disk since it was read"), "{run}");
    assert_eq!(run.read("notes.txt"), "behind your back\n");
}

#[test]
fn file_tools_stay_in_the_workspace() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().canonicalize().unwrap().join("secret.txt");
    std::fs::write(&secret, "top secret\n").unwrap();
    let folder = secret.parent().unwrap();
    let setup = || {
        let setup = example().arg("-y");
        symlink(&secret, setup.workspace().join("link.txt")).unwrap();
        symlink(folder, setup.workspace().join("linked")).unwrap();
        std::fs::write(setup.workspace().parent().unwrap().join("beside.txt"), "beside\n").unwrap();
        setup
    };
    let paths = [
        "../beside.txt".to_owned(),
        "src/../../beside.txt".to_owned(),
        secret.display().to_string(),
        "link.txt".to_owned(),
        "linked/secret.txt".to_owned(),
        "linked/new.txt".to_owned(),
    ];
    for path in &paths {
        for (tool, input) in [
            ("read_file", json!({"file_path": path})),
            ("write_file", json!({"file_path": path, "content": "x"})),
            ("edit", json!({"file_path": path, "old_string": "", "new_string": "x"})),
            ("list_directory", json!({"path": path})),
            ("grep_search", json!({"pattern": "secret", "path": path})),
            ("glob", json!({"pattern": "*", "path": path})),
        ] {
            let called = call(setup(), tool, input);
            assert!(called.told.contains("outside"), "{tool} {path}: {}", called.told);
        }
    }
    let command = json!({"command": "pwd", "directory": folder.display().to_string()});
    assert!(call(setup(), "run_shell_command", command).told.contains("outside"));
    // Searches of the workspace do not follow links out of it.
    assert!(!call(setup(), "grep_search", json!({"pattern": "secret"})).told.contains("top secret"));
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "top secret\n");
    assert!(!folder.join("new.txt").exists());
}

#[test]
fn a_folder_that_was_added_is_in_reach() {
    let added = tempfile::tempdir().unwrap();
    let added = added.path().canonicalize().unwrap();
    std::fs::write(added.join("there.txt"), "found\n").unwrap();
    let file = added.join("there.txt").display().to_string();
    let called = call(tenon().arg("--add-dir").arg(&added), "read_file", json!({"file_path": file.as_str()}));
    assert_eq!(called.told, "found\n");
    let new = added.join("new.txt");
    let write = json!({"file_path": new.display().to_string(), "content": "x\n"});
    call(tenon().arg("-y").arg("--include-directories").arg(&added), "write_file", write);
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "x\n");
    tenon().args(["-p", "Go.", "--add-dir", "nowhere"]).env("OPENAI_API_KEY", "k").run().assert_code(42);
}

/// 40,000 lines, far above every cap.
const LONG_COMMAND: &str = "seq -f 'line %g' 1 40000";

/// The file in which the whole of a cut output is kept.
fn kept_file(told: &str) -> PathBuf {
    let line = told.lines().find(|line| line.contains("full output is in "));
    PathBuf::from(line.unwrap_or_else(|| panic!("no file is named: {told}")).rsplit(' ').next().unwrap())
}

fn long_output(setup: Tenon) -> (Captured, Run) {
    let server = Server::start([
        reply().call("c1", "run_shell_command", json!({"command": LONG_COMMAND})),
        reply().text("Done."),
    ]);
    let run = setup.server(&server).args(["-p", "Go.", "-y"]).run();
    run.assert_code(0);
    (server.request(1), run)
}

#[test]
fn a_large_output_is_cut_and_kept_whole_in_a_private_file() {
    let (request, run) = long_output(tenon());
    let told = request.tool_result("c1");
    assert!(told.chars().count() < 32_000, "{} characters", told.chars().count());
    assert!(told.contains("line 1\nline 2\n") && told.contains("line 40000\n"), "{told}");
    assert!(told.contains("characters left out"), "{told}");
    let file = kept_file(&told);
    assert!(file.starts_with(run.tenon_home().join("projects")), "{}", file.display());
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(kept.lines().count(), 40_000);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
}

#[test]
fn the_model_can_read_the_kept_output_but_not_change_it() {
    const SESSION: &str = "123e4567-e89b-42d3-a456-426614174000";
    let setup = tenon().args(["-p", "Go.", "-y", "--session-id", SESSION]);
    let slug = setup.workspace().display().to_string().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let folder = setup.tenon_home().join("projects").join(slug).join("outputs").join(SESSION);
    let file = folder.join("run_shell_command_1.output").display().to_string();
    let server = Server::start([
        reply().call("c1", "run_shell_command", json!({"command": LONG_COMMAND})),
        reply()
            .call("r1", "read_file", json!({"file_path": file, "offset": 19_999, "limit": 1}))
            .call("g1", "grep_search", json!({"pattern": "^line 12345$", "path": file}))
            .call("w1", "write_file", json!({"file_path": file, "content": "forged"})),
        reply().text("Done."),
    ]);
    setup.server(&server).run().assert_code(0);
    assert_eq!(kept_file(&server.request(1).tool_result("c1")).display().to_string(), file);
    let last = server.request(2);
    assert!(last.tool_result("r1").ends_with("line 20000\n"), "{}", last.tool_result("r1"));
    assert!(last.tool_result("g1").contains(":12345:line 12345"), "{}", last.tool_result("g1"));
    assert!(last.tool_result("w1").contains("outside"), "{}", last.tool_result("w1"));
}

#[test]
fn without_a_session_nothing_stays_on_disk() {
    let setup = tenon().arg("--no-session");
    let temp = setup.workspace().parent().unwrap().join("tmp");
    std::fs::create_dir(&temp).unwrap();
    let (request, run) = long_output(setup.env("TMPDIR", &temp));
    let file = kept_file(&request.tool_result("c1"));
    assert!(file.starts_with(&temp), "{}", file.display());
    for folder in [&temp, run.workspace(), &run.tenon_home()] {
        let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}

#[test]
fn other_tools_are_capped_too() {
    let wide = "x".repeat(60_000);
    let table = [
        ("read_file", json!({"file_path": "wide.txt"}), "was cut"),
        ("read_file", json!({"file_path": "long.txt"}), "Showing lines 1-1000 of 5000 total lines."),
        ("grep_search", json!({"pattern": "n", "path": "long.txt"}), "there are more"),
        ("glob", json!({"pattern": "many/*"}), "[50 more are not shown"),
        ("list_directory", json!({"path": "many"}), "[50 more are not shown"),
    ];
    for (tool, input, expected) in table {
        let mut setup = tenon().file("wide.txt", &wide).file("long.txt", "n\n".repeat(5_000));
        if expected.starts_with("[50") {
            for n in 0..150 {
                setup = setup.file(format!("many/{n}.txt"), "");
            }
        }
        let called = call(setup, tool, input.clone());
        assert!(called.told.contains(expected), "{tool} {input}: {}", called.told);
        assert!(called.told.chars().count() < 27_000, "{tool} {input}");
    }
}

#[test]
fn a_command_gets_no_secrets() {
    let keys = [
        ("OPENAI_API_KEY", "sk-openai-0001"),
        ("ANTHROPIC_API_KEY", "sk-anthropic-0002"),
        ("GEMINI_API_KEY", "sk-gemini-0003"),
        ("MY_FLAG_KEY", "sk-flag-0004"),
        ("MY_PROVIDER_KEY", "sk-provider-0005"),
        ("COPY_OF_A_KEY", "sk-openai-0001"),
    ];
    let settings = json!({"providers": {"mine": {"baseUrl": "https://models.example/v1", "apiKeyEnv": "MY_PROVIDER_KEY"}}});
    let server = Server::start([
        reply().call("c1", "run_shell_command", json!({"command": "env"})),
        reply().text("Done."),
    ]);
    let mut setup = tenon()
        .home_file("settings.json", settings.to_string())
        .env("OPENAI_BASE_URL", server.base_url())
        .env("HARMLESS", "kept")
        .args(["-p", "Go.", "-y", "-m", "openai/m", "--api-key-env", "MY_FLAG_KEY"]);
    for (name, key) in keys {
        setup = setup.env(name, key);
    }
    let run = setup.run();
    run.assert_code(0);
    let told = server.request(1).tool_result("c1");
    assert!(told.contains("HARMLESS=kept"), "{told}");
    for (name, key) in keys {
        assert!(!told.contains(name) && !told.contains(key), "{name}: {told}");
    }
    assert_eq!(server.request(0).header("authorization"), Some("Bearer sk-flag-0004"));
}

#[test]
fn a_secret_can_be_passed_on_by_name() {
    let setup = tenon()
        .home_file("settings.json", r#"{"tools": {"shell": {"passEnv": ["OPENAI_API_KEY"]}}}"#)
        .arg("-y");
    let called = call(setup, "run_shell_command", json!({"command": "echo \"<$OPENAI_API_KEY>\""}));
    assert!(called.told.contains("<test-key>"), "{}", called.told);
}

#[test]
fn a_command_that_takes_too_long_is_stopped_with_all_it_started() {
    // The grandchild writes its number, so that it can be looked for afterwards.
    let command = "bash -c 'echo $$ > pid; echo started; exec sleep 300' & wait";
    let called = call(tenon().arg("-y"), "run_shell_command", json!({"command": command, "timeout": 3000}));
    called.run.assert_code(0);
    assert!(called.told.contains("was stopped after 3000 ms"), "{}", called.told);
    assert!(called.told.contains("started"), "{}", called.told);
    let pid = called.run.read("pid");
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let alive = !state.is_empty() && !state.contains(") Z ");
    assert!(!alive, "{state}");
    let result = called.result();
    assert_eq!(result["stats"]["tools"]["byName"]["run_shell_command"]["fail"], 1, "{result}");
}

#[test]
fn the_limit_of_commands_comes_from_settings() {
    let setup = || {
        tenon()
            .home_file(
                "settings.json",
                r#"{"tools": {"shell": {"defaultTimeoutMs": 200}}, "timeouts": {"shellMax": "1s"}}"#,
            )
            .arg("-y")
    };
    let called = call(setup(), "run_shell_command", json!({"command": "sleep 300"}));
    assert!(called.told.contains("was stopped after 200 ms"), "{}", called.told);
    let called = call(setup(), "run_shell_command", json!({"command": "true", "timeout": 1001}));
    assert!(called.told.contains("at most 1000 milliseconds"), "{}", called.told);
}

#[test]
fn a_command_has_nothing_on_stdin_even_if_tenon_has() {
    let server = Server::start([
        reply().call("c1", "run_shell_command", json!({"command": "cat; echo end"})),
        reply().text("Done."),
    ]);
    let run = tenon().server(&server).args(["-p", "Go.", "-y"]).stdin("for tenon\n").run();
    run.assert_code(0);
    let told = server.request(1).tool_result("c1");
    assert!(told.contains("Output: end\n"), "{told}");
}

#[test]
fn output_without_end_is_bounded() {
    let command = "head -c 50000000 /dev/zero | tr '\\0' 'y'; printf '\\nend\\n'";
    let called = call(tenon().args(["-y", "--no-session"]), "run_shell_command", json!({"command": command}));
    called.run.assert_code(0);
    assert!(called.told.chars().count() < 32_000);
    assert!(called.told.contains("yyy") && called.told.contains("\nend\n"));
    assert!(called.run.stdout.len() < 100_000, "{} bytes", called.run.stdout.len());
}

#[test]
fn read_only_calls_of_one_answer_are_answered_in_their_order() {
    let mut answer = reply();
    let mut setup = tenon();
    for n in 0..12 {
        // The first file is the largest: finished first is not answered first.
        setup = setup.file(format!("{n}.txt"), format!("{n}\n").repeat(1 + (11 - n) * 50));
        answer =
            answer.call(&format!("c{n}"), "read_file", json!({"file_path": format!("{n}.txt"), "limit": 1}));
    }
    let server = Server::start([answer, reply().text("Done.")]);
    let run = setup.server(&server).args(["-p", "Go.", "-o", "stream-json"]).run();
    run.assert_code(0);
    let request = server.request(1);
    let results: Vec<&Value> =
        request.messages().iter().filter(|message| message["role"] == "tool").collect();
    let ids: Vec<&str> = results.iter().filter_map(|result| result["tool_call_id"].as_str()).collect();
    assert_eq!(ids, (0..12).map(|n| format!("c{n}")).collect::<Vec<_>>());
    for n in 0..12 {
        let text = request.tool_result(&format!("c{n}"));
        assert!(text.ends_with(&format!("{n}\n")), "{n}: {text}");
    }
    let shown: Vec<Value> = run
        .json_lines()
        .iter()
        .filter(|line| line["type"] == "user")
        .flat_map(|line| line["message"]["content"].as_array().cloned().unwrap_or_default())
        .map(|block| block["tool_use_id"].clone())
        .collect();
    assert_eq!(shown, ids);
}

#[test]
fn a_call_that_changes_something_waits_for_those_before_it() {
    let server = Server::start([
        reply()
            .call("r1", "read_file", json!({"file_path": "notes.txt"}))
            .call("e1", "edit", json!({"file_path": "notes.txt", "old_string": "beta", "new_string": "B"}))
            .call("r2", "read_file", json!({"file_path": "notes.txt"})),
        reply().text("Done."),
    ]);
    example().server(&server).args(["-p", "Go.", "-y"]).run().assert_code(0);
    let request = server.request(1);
    assert_eq!(request.tool_result("r1"), "alpha\nbeta\ngamma\n");
    assert_eq!(request.tool_result("r2"), "alpha\nB\ngamma\n");
}

#[test]
fn the_budget_of_tool_calls_ends_the_run_before_the_call_too_many() {
    let touch = |n: usize| json!({"command": format!("touch {n}")});
    let server = Server::start([
        reply().call("c1", "run_shell_command", touch(1)).call("c2", "run_shell_command", touch(2)).call(
            "c3",
            "run_shell_command",
            touch(3),
        ),
        reply().text("never"),
    ]);
    let run = tenon().server(&server).args(["-p", "Go.", "-y", "-o", "json", "--max-tool-calls", "2"]).run();
    run.assert_code(55);
    assert_eq!(server.requests().len(), 1);
    let made: Vec<bool> = ["1", "2", "3"].iter().map(|name| run.workspace().join(name).exists()).collect();
    assert_eq!(made, [true, true, false]);
    let result = result_of(&run);
    assert_eq!(result["error"]["code"], 55, "{result}");
    assert!(run.stderr.contains("2 of 2 calls used") && run.stderr.contains("--max-tool-calls"), "{run}");
    assert_eq!(result["stats"]["tools"]["totalCalls"], 2, "{result}");
}

#[test]
fn a_budget_of_no_tool_calls_still_allows_an_answer() {
    let server = Server::start([reply().text("Hi.")]);
    let run = tenon().server(&server).args(["-p", "Go.", "--max-tool-calls", "0"]).run();
    run.assert_code(0);
    assert_eq!(run.stdout, "Hi.\n");
    let server = Server::start([reply().call("c1", "list_directory", json!({"path": "."})).call(
        "c2",
        "list_directory",
        json!({"path": "."}),
    )]);
    tenon().server(&server).args(["-p", "Go.", "--max-tool-calls", "0"]).run().assert_code(55);
}

#[test]
fn statistics_count_tools_decisions_and_lines() {
    let server = Server::start([
        reply().call("r1", "read_file", json!({"file_path": "notes.txt"})).call(
            "r2",
            "read_file",
            json!({"file_path": "missing.txt"}),
        ),
        reply()
            .call(
                "e1",
                "edit",
                json!({"file_path": "notes.txt", "old_string": "beta\n", "new_string": "b\nc\nd\n"}),
            )
            .call("w1", "write_file", json!({"file_path": "new.txt", "content": "1\n2\n"}))
            .call("s1", "run_shell_command", json!({"command": "true"})),
        reply().text("Done."),
    ]);
    let run =
        example().server(&server).args(["-p", "Go.", "-o", "json", "--approval-mode", "auto-edit"]).run();
    run.assert_code(0);
    let mut tools = result_of(&run)["stats"]["tools"].clone();
    strip_durations(&mut tools);
    let decisions = |accept: u32, reject: u32, auto: u32| json!({"accept": accept, "reject": reject, "modify": 0, "auto_accept": auto});
    assert_eq!(
        tools,
        json!({
            "totalCalls": 5, "totalSuccess": 3, "totalFail": 2, "totalDecisions": decisions(0, 1, 4),
            "byName": {
                "edit": {"count": 1, "success": 1, "fail": 0, "decisions": decisions(0, 0, 1)},
                "read_file": {"count": 2, "success": 1, "fail": 1, "decisions": decisions(0, 0, 2)},
                "run_shell_command": {"count": 1, "success": 0, "fail": 1, "decisions": decisions(0, 1, 0)},
                "write_file": {"count": 1, "success": 1, "fail": 0, "decisions": decisions(0, 0, 1)},
            },
        })
    );
    let files = result_of(&run)["stats"]["files"].clone();
    assert_eq!(files, json!({"totalLinesAdded": 5, "totalLinesRemoved": 1}));
}

fn strip_durations(value: &mut Value) {
    if let Some(object) = value.as_object_mut() {
        object.retain(|name, _| !name.to_lowercase().contains("duration"));
        object.values_mut().for_each(strip_durations);
    }
}

#[test]
fn a_run_that_is_stopped_in_a_command_counts_only_what_it_asked() {
    let server = Server::start([reply().call("c1", "run_shell_command", json!({"command": "sleep 9"}))]);
    let run = tenon().server(&server).args(["-y", "-p", "Go.", "--max-wall-time", "1s", "-o", "json"]).run();
    run.assert_code(55);
    let result = run.json().as_array().unwrap().last().unwrap().clone();
    let api = &result["stats"]["models"]["test-model"]["api"];
    assert_eq!(result["num_turns"], json!(server.requests().len()), "{run}");
    assert_eq!((&api["totalRequests"], &api["totalErrors"]), (&json!(1), &json!(0)), "{run}");
}
