//! Who may do what: modes, rules and protected files, from flags and settings, and how a refusal is told to
//! the model, the client and the person.

use tenon_testkit::{Server, Tenon, Value, json, reply};

use crate::output::result_of;
use crate::tenon;
use crate::tools::call;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Runs,
    Denied,
}
use Fate::{Denied, Runs};

fn example() -> Tenon {
    tenon().file("a.txt", "public\n").file("secrets/key.txt", "private\n").file(".env", "private\n")
}

/// A call of each kind. All of them succeed if they are let through.
fn a_call(tool: &str) -> Value {
    match tool {
        "read_file" => json!({"file_path": "a.txt"}),
        "list_directory" => json!({"path": "."}),
        "glob" => json!({"pattern": "*.txt"}),
        "grep_search" => json!({"pattern": "public"}),
        "write_file" => json!({"file_path": "new.txt", "content": "x"}),
        "edit" => json!({"file_path": "src/new.txt", "old_string": "", "new_string": "x"}),
        _ => json!({"command": "echo ran"}),
    }
}

#[track_caller]
fn expect(setup: Tenon, tool: &str, input: Value, fate: Fate, what: &str) {
    let called = call(setup, tool, input.clone());
    let result = called.result();
    let denied = result["permission_denials"].as_array().is_some_and(|denials| !denials.is_empty());
    assert_eq!(denied, fate == Denied, "{what}: {tool} {input}: {}\n{}", called.told, called.run);
    assert_eq!(called.told.starts_with("Denied: "), fate == Denied, "{what}: {}", called.told);
    let failed = result["stats"]["tools"]["totalFail"] == 1;
    assert_eq!(failed, fate == Denied, "{what}: {tool} {input}: {}", called.told);
}

#[test]
fn modes_decide_by_the_kind_of_tool() {
    // The four modes and the names other systems have for them.
    let modes = [
        (&["plan"][..], [Runs, Denied, Denied]),
        (&["default", "dontAsk"], [Runs, Denied, Denied]),
        (&["auto-edit", "auto_edit", "acceptEdits"], [Runs, Runs, Denied]),
        (&["yolo", "bypassPermissions"], [Runs, Runs, Runs]),
    ];
    let kinds = [
        &["read_file", "list_directory", "glob", "grep_search"][..],
        &["write_file", "edit"],
        &["run_shell_command"],
    ];
    for (names, fates) in modes {
        for (number, name) in names.iter().enumerate() {
            for (tools, fate) in kinds.iter().zip(fates) {
                // The other names need no more than one tool of each kind.
                for tool in tools.iter().take(if number == 0 { tools.len() } else { 1 }) {
                    let setup = example().args(["--approval-mode", name]);
                    expect(setup, tool, a_call(tool), fate, name);
                }
            }
        }
    }
}

#[test]
fn the_mode_comes_from_a_flag_or_from_settings() {
    let settings = |mode: &str| json!({"permissions": {"mode": mode}}).to_string();
    let shell = || a_call("run_shell_command");
    let with = |mode: &str| example().home_file("settings.json", settings(mode));
    expect(with("yolo"), "run_shell_command", shell(), Runs, "settings");
    expect(with("yolo").args(["--approval-mode", "default"]), "run_shell_command", shell(), Denied, "flag");
    expect(with("plan").arg("--yolo"), "run_shell_command", shell(), Runs, "--yolo");
    expect(with("plan").arg("-y"), "run_shell_command", shell(), Runs, "-y");
    let skip = with("plan").arg("--dangerously-skip-permissions");
    expect(skip, "run_shell_command", shell(), Runs, "the flag's other name");
    let other_name = with("plan").args(["--permission-mode", "bypassPermissions"]);
    expect(other_name, "run_shell_command", shell(), Runs, "the flag's other name");
    let run = example().args(["-p", "Go.", "--approval-mode", "yoloo"]).env("OPENAI_API_KEY", "k").run();
    run.assert_code(2);
    assert!(run.stderr.contains("`yoloo` is not an approval mode"), "{run}");
}

#[test]
fn rules_decide_before_the_mode() {
    let read = |path: &str| json!({"file_path": path});
    let write = |path: &str| json!({"file_path": path, "content": "x"});
    let shell = |command: &str| json!({"command": command});
    let allow = |rule: &str| json!({"allow": [rule]});
    let ask = |rule: &str| json!({"allow": ["read_file", "Edit", "Bash"], "ask": [rule]});
    let deny = |rule: &str| json!({"mode": "yolo", "allow": ["read_file", "Edit", "Bash"], "deny": [rule]});
    let table = [
        // Allow: whole tools, aliases, families.
        (allow("write_file"), "write_file", write("a/b.txt"), Runs),
        (allow("write_file"), "edit", a_call("edit"), Denied),
        (allow("Edit"), "edit", a_call("edit"), Runs),
        (allow("Edit"), "write_file", write("n.txt"), Runs),
        (allow("Write"), "write_file", write("n.txt"), Runs),
        (allow("WriteFileTool"), "write_file", write("n.txt"), Runs),
        (allow("replace"), "edit", a_call("edit"), Runs),
        (allow("Bash"), "run_shell_command", shell("echo ran"), Runs),
        (allow("ShellTool"), "run_shell_command", shell("echo ran"), Runs),
        (allow("Bash(*)"), "run_shell_command", shell("echo ran"), Runs),
        (allow("read_file"), "run_shell_command", shell("echo ran"), Denied),
        // Allow: paths.
        (allow("Edit(src/**)"), "write_file", write("src/deep/n.txt"), Runs),
        (allow("Edit(src/**)"), "write_file", write("other/n.txt"), Denied),
        (allow("Edit(src/**)"), "write_file", write("src/../n.txt"), Denied),
        (allow("Edit(./src/**)"), "write_file", write("src/n.txt"), Runs),
        (allow("Edit(/src/**)"), "write_file", write("src/n.txt"), Runs),
        (allow("Edit(*.md)"), "write_file", write("docs/n.md"), Runs),
        (allow("write_file(src/**)"), "edit", a_call("edit"), Denied),
        // Allow: commands, with everything they run.
        (allow("Bash(echo *)"), "run_shell_command", shell("echo ran"), Runs),
        (allow("Bash(git *)"), "run_shell_command", shell("git --version"), Runs),
        (allow("Bash(git *)"), "run_shell_command", shell("git --version && touch n"), Denied),
        (allow("Bash(git *)"), "run_shell_command", shell("git --version > n"), Denied),
        (allow("Bash(git *)"), "run_shell_command", shell("git -c core.pager=id log"), Denied),
        // Ask: nobody is there to agree.
        (ask("Edit(secrets/**)"), "write_file", write("secrets/n.txt"), Denied),
        (ask("Edit(secrets/**)"), "write_file", write("n.txt"), Runs),
        (ask("Read(secrets/**)"), "read_file", read("secrets/key.txt"), Denied),
        (ask("Read(secrets/**)"), "read_file", read("a.txt"), Runs),
        (ask("Bash(rm *)"), "run_shell_command", shell("rm -f nothing"), Denied),
        (ask("Bash(rm *)"), "run_shell_command", shell("echo ran"), Runs),
        (ask("write_file"), "write_file", write("n.txt"), Denied),
        // Deny: stronger than allow and than yolo.
        (deny("Read(.env)"), "read_file", read(".env"), Denied),
        (deny("Read(.env)"), "read_file", read("./secrets/../.env"), Denied),
        (deny("Read(.env)"), "read_file", read("a.txt"), Runs),
        (deny("Read(secrets/**)"), "grep_search", json!({"pattern": "x", "path": "secrets/key.txt"}), Denied),
        (deny("Read(secrets/**)"), "write_file", write("secrets/n.txt"), Runs),
        (deny("Edit(secrets/**)"), "write_file", write("secrets/n.txt"), Denied),
        (deny("Edit(secrets/**)"), "read_file", read("secrets/key.txt"), Runs),
        (deny("Bash(rm *)"), "run_shell_command", shell("rm -f nothing"), Denied),
        (deny("Bash(rm *)"), "run_shell_command", shell("true && r\"m\" -f nothing"), Denied),
        (deny("Bash(rm *)"), "run_shell_command", shell("eval 'echo ran'"), Denied),
        (deny("Bash(rm *)"), "run_shell_command", shell("echo ran"), Runs),
        (deny("Edit(secrets/**)"), "run_shell_command", shell("echo x > secrets/key.txt"), Denied),
        (deny("Read(.env)"), "run_shell_command", shell("cat .env"), Denied),
        (
            deny("WebFetch(domain:example.com)"),
            "run_shell_command",
            shell("curl https://www.example.com"),
            Denied,
        ),
    ];
    for (permissions, tool, input, fate) in table {
        let settings = json!({"permissions": permissions}).to_string();
        let what = format!("settings {settings}");
        expect(example().home_file("settings.json", &settings), tool, input.clone(), fate, &what);
        // The same rules as flags, where there is one.
        if permissions.get("ask").is_none() {
            let list = |name: &str| {
                let rules = permissions[name].as_array().cloned().unwrap_or_default();
                rules.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            };
            let mut setup = example();
            for (flag, rules) in [("--allowed-tools", list("allow")), ("--exclude-tools", list("deny"))] {
                setup = if rules.is_empty() { setup } else { setup.arg(flag).arg(&rules) };
            }
            let setup = if permissions["mode"] == "yolo" { setup.arg("--yolo") } else { setup };
            expect(setup, tool, input, fate, &format!("flags for {settings}"));
        }
    }
}

#[test]
fn list_flags_take_commas_repetition_and_other_names() {
    let two = json!({"file_path": "n.txt", "content": "x"});
    for args in [
        &["--allowed-tools", "Edit(src/**),write_file"][..],
        &["--allowed-tools", "Edit(a,b)", "--allowed-tools", "write_file"],
        &["--allowed-tools=write_file"],
        &["--allowedTools", "Write"],
    ] {
        expect(example().args(args), "write_file", two.clone(), Runs, &args.join(" "));
    }
    for flag in ["--exclude-tools", "--disallowedTools", "--disallowed-tools"] {
        let setup = example().args(["-y", flag, "Edit(*.txt)"]);
        expect(setup, "write_file", two.clone(), Denied, flag);
    }
}

#[test]
fn a_rule_that_cannot_be_read_stops_the_run_before_anything_is_sent() {
    let server = Server::start([]);
    for (flag, rule) in [
        ("--allowed-tools", "Edit(src/**"),
        ("--exclude-tools", "Read(../x)"),
        ("--exclude-tools", "Read()"),
        ("--core-tools", "Edit(src/**)"),
    ] {
        let run = tenon().server(&server).args(["-p", "Go.", flag, rule]).run();
        run.assert_code(52);
        assert!(run.stderr.contains(flag) && run.stderr.contains(rule), "{run}");
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_denial_is_told_to_the_model_the_client_and_the_person() {
    let input = json!({"file_path": "n.txt", "content": "x"});
    let called = call(tenon(), "write_file", input.clone());
    called.run.assert_code(0);
    assert!(!called.run.workspace().join("n.txt").exists());
    assert_eq!(
        called.told,
        "Denied: `write_file` changes files, which `default` mode allows only with approval"
    );
    let result = called.result();
    assert_eq!(
        result["permission_denials"],
        json!([{
            "tool_name": "write_file",
            "tool_use_id": "c1",
            "tool_input": input,
            "reason": "`write_file` changes files, which `default` mode allows only with approval",
        }])
    );
    assert_eq!((&result["is_error"], &result["result"]), (&json!(false), &json!("Done.")));
    let lines: Vec<&str> = called.run.stderr.lines().collect();
    assert!(
        lines.contains(
            &"warning: `write_file` was denied: `write_file` changes files, which `default` mode allows only with approval"
        ),
        "{}",
        called.run
    );
    assert!(
        lines.contains(&"hint: `--allowed-tools write_file` or `--approval-mode auto-edit` allows it"),
        "{}",
        called.run
    );
    // The tool is offered all the same: its call is what tells the person about the flag.
    assert!(called.server.request(0).tool_names().contains(&"write_file"));
}

#[test]
fn the_hint_names_a_flag_that_helps() {
    for (tool, mode) in [("edit", "auto-edit"), ("write_file", "auto-edit"), ("run_shell_command", "yolo")] {
        let called = call(example(), tool, a_call(tool));
        let hint = format!("hint: `--allowed-tools {tool}` or `--approval-mode {mode}` allows it");
        assert!(called.run.stderr.lines().any(|line| line == hint), "{}", called.run);
        expect(example().args(["--allowed-tools", tool]), tool, a_call(tool), Runs, "the flag");
        expect(example().args(["--approval-mode", mode]), tool, a_call(tool), Runs, "the mode");
    }
    let called = call(
        example().args(["--allowed-tools", "Bash(git *)"]),
        "run_shell_command",
        json!({"command": "git status; touch n"}),
    );
    assert!(called.run.stderr.contains("no allow rule covers it: `touch n`"), "{}", called.run);
    // Quiet is quiet; the client still gets to know.
    let quiet = call(example().arg("-q"), "edit", a_call("edit"));
    assert_eq!(quiet.run.stderr, "");
    assert_eq!(quiet.result()["permission_denials"][0]["tool_name"], "edit");
}

#[test]
fn a_refusal_names_its_rule_to_the_model() {
    let called = call(
        example().args(["--exclude-tools", "Read(secrets/**)"]),
        "read_file",
        json!({"file_path": "secrets/key.txt"}),
    );
    assert!(called.told.contains("is denied by the rule `Read(secrets/**)`"), "{}", called.told);
    assert!(!called.told.contains("private"), "{}", called.told);
}

#[test]
fn a_denied_call_fails_the_run_where_that_is_wanted() {
    let server =
        Server::start([reply().call("c1", "write_file", a_call("write_file")), reply().text("Done.")]);
    let run = tenon().server(&server).args(["-p", "Go.", "--fail-on-denied", "-o", "json"]).run();
    run.assert_code(1);
    let result = result_of(&run);
    assert_eq!(result["is_error"], true, "{result}");
    assert_eq!(result["permission_denials"].as_array().map(Vec::len), Some(1), "{result}");
    assert!(run.stderr.contains("error["), "{run}");
    // Without a denial the flag changes nothing.
    let server = Server::start([reply().text("Done.")]);
    tenon().server(&server).args(["-p", "Go.", "--fail-on-denied"]).run().assert_code(0);
    // In text the failed run prints nothing.
    let server =
        Server::start([reply().call("c1", "write_file", a_call("write_file")), reply().text("Done.")]);
    let run = tenon().server(&server).args(["-p", "Go.", "--fail-on-denied"]).run();
    run.assert_code(1);
    assert_eq!(run.stdout, "");
}

/// The names of the offered tools.
fn offered(setup: Tenon) -> Vec<String> {
    let server = Server::start([reply().text("Hi.")]);
    setup.server(&server).args(["-p", "Go."]).run().assert_code(0);
    server.request(0).tool_names().iter().map(ToString::to_string).collect()
}

#[test]
fn flags_and_settings_decide_which_tools_are_offered() {
    let settings = |value: Value| example().home_file("settings.json", value.to_string());
    let schema = r#"{"type": "object", "properties": {"a": {"type": "string"}}}"#;
    let without = |gone: &[&str]| -> Vec<&str> {
        super::TOOLS.iter().copied().filter(|name| !gone.contains(name)).collect()
    };
    let table = [
        (example(), without(&[])),
        (
            example().args(["--exclude-tools", "run_shell_command"]),
            without(&["run_shell_command", "monitor"]),
        ),
        (example().args(["--exclude-tools", "Bash"]), without(&["run_shell_command", "monitor"])),
        (example().args(["--exclude-tools", "Bash(*)"]), without(&["run_shell_command", "monitor"])),
        // A rule about some calls leaves the tool.
        (example().args(["--exclude-tools", "Bash(rm *)"]), without(&[])),
        // A family goes as a whole.
        (example().args(["--exclude-tools", "Edit"]), without(&["edit", "write_file"])),
        (
            example().args(["--exclude-tools", "Read"]),
            without(&["read_file", "grep_search", "glob", "list_directory"]),
        ),
        (
            settings(json!({"permissions": {"deny": ["Write", "Bash"]}})),
            without(&["write_file", "run_shell_command", "monitor"]),
        ),
        (settings(json!({"tools": {"exclude": ["glob"]}})), without(&["glob"])),
        (settings(json!({"tools": {"core": ["read_file", "glob"]}})), vec!["read_file", "glob"]),
        (example().args(["--core-tools", "Read,ShellTool"]), vec!["read_file", "run_shell_command"]),
        (example().args(["--tools", "read_file"]), vec!["read_file"]),
        (
            settings(json!({"tools": {"core": ["glob"]}})).args(["--core-tools", "read_file,edit"]),
            vec!["read_file", "edit"],
        ),
        (example().args(["--core-tools", "read_file,edit", "--exclude-tools", "edit"]), vec!["read_file"]),
        (example().arg("--bare"), vec!["read_file", "edit", "run_shell_command"]),
        (example().args(["--bare", "--exclude-tools", "Bash"]), vec!["read_file", "edit"]),
        (example().args(["--bare", "--core-tools", "glob,read_file"]), vec!["read_file"]),
    ];
    for (setup, expected) in table {
        assert_eq!(offered(setup.clone()), expected);
    }
    // The way to answer is not one of the built-in tools: only an explicit rule takes it away.
    let server = Server::start([reply().call("c1", "structured_output", json!({"a": "b"}))]);
    let bare = ["-p", "Go.", "--bare", "--core-tools", "read_file", "--json-schema", schema];
    let run = tenon().server(&server).args(bare).run();
    run.assert_code(0);
    assert_eq!(server.request(0).tool_names(), ["read_file", "structured_output"]);
}

#[test]
fn a_tool_that_is_not_offered_is_unknown_when_called() {
    let called = call(
        example().args(["-y", "--exclude-tools", "Bash"]),
        "run_shell_command",
        json!({"command": "touch x"}),
    );
    assert!(called.told.contains("There is no tool `run_shell_command`"), "{}", called.told);
    assert!(!called.run.workspace().join("x").exists());
}

#[test]
fn files_that_decide_what_runs_are_protected_below_yolo() {
    let paths = [
        ".git/hooks/pre-commit",
        ".git/config",
        ".git/modules/sub/config",
        ".git/modules/sub/hooks/post-checkout",
        ".git",
        "sub/.git/config",
        ".GIT/config",
        ".tenon/settings.json",
        ".tenon/agents/a.md",
        "sub/.tenon/settings.json",
        ".mcp.json",
        "src/../.mcp.json",
    ];
    for path in paths {
        let write = json!({"file_path": path, "content": "{}"});
        let called = call(
            example().args(["--approval-mode", "auto-edit", "--allowed-tools", "Edit"]),
            "write_file",
            write.clone(),
        );
        assert!(called.told.contains("is protected from changes"), "{path}: {}", called.told);
        assert!(called.run.stderr.contains("hint: only `--approval-mode yolo` lifts this"), "{}", called.run);
        assert!(!called.run.workspace().join(path).exists(), "{path}");
        expect(example().arg("-y"), "write_file", write, Runs, path);
    }
    // Through a link, too.
    let setup = example().args(["--approval-mode", "auto-edit"]).file(".git/hooks/keep", "");
    std::os::unix::fs::symlink(".git/hooks", setup.workspace().join("innocent")).unwrap();
    let called = call(setup, "write_file", json!({"file_path": "innocent/pre-commit", "content": "x"}));
    assert!(called.told.contains("is protected from changes"), "{}", called.told);
    // Names that only look alike are not.
    for path in [".gitignore", ".github/config", "mcp.json", "tenon/settings.json", ".git/info/exclude"] {
        let setup = example().args(["--approval-mode", "auto-edit"]);
        expect(setup, "write_file", json!({"file_path": path, "content": "x"}), Runs, path);
    }
}

#[test]
fn what_may_not_be_read_is_not_found_either() {
    for flag in
        ["Read(secrets/**)", "Read(./secrets)", "Read(/secrets/*)", "Read(key.txt)", "Read(**/key.txt)"]
    {
        let setup = || example().args(["-y", "--exclude-tools", flag]);
        let grep = call(setup(), "grep_search", json!({"pattern": "private|public"})).told;
        assert!(grep.contains("a.txt:1:public") && !grep.contains("key.txt"), "{flag}: {grep}");
        let glob = call(setup(), "glob", json!({"pattern": "**/*.txt"})).told;
        assert!(glob.contains("/a.txt") && !glob.contains("key.txt"), "{flag}: {glob}");
        let list = call(setup(), "list_directory", json!({"path": "secrets"})).told;
        assert!(!list.contains("key.txt"), "{flag}: {list}");
        // No hint about its name either.
        let near = call(setup(), "read_file", json!({"file_path": "secrets/kay.txt"})).told;
        assert!(!near.contains("key.txt"), "{flag}: {near}");
    }
    // A rule that wants to ask: a search asks nobody, so it passes over the file.
    let ask = json!({"permissions": {"ask": ["Read(secrets/**)"]}}).to_string();
    let grep =
        call(example().home_file("settings.json", ask), "grep_search", json!({"pattern": "private"})).told;
    assert!(!grep.contains("key.txt"), "{grep}");
}

#[test]
fn a_rule_for_a_tool_that_does_not_exist_is_refused_before_it_can_mislead() {
    let server = Server::start([]);
    for (flag, value, message, hint) in [
        (
            "--exclude-tools",
            "run_shel_command",
            "there is no tool `run_shel_command`",
            "did you mean `run_shell_command`?",
        ),
        ("--allowed-tools", "Writ(src/**)", "there is no tool `Writ`", "did you mean `Write`?"),
        ("--core-tools", "red_file", "there is no tool `red_file`", "did you mean `read_file`?"),
        ("--exclude-tools", "zzzzzz", "there is no tool `zzzzzz`", "lists the tools"),
    ] {
        let run = tenon().server(&server).args(["-p", "hi", flag, value]).run();
        run.assert_code(52);
        assert_eq!(run.stdout, "");
        assert!(run.stderr.starts_with(&format!("error[config]: `{flag}`: {message}\n")), "{}", run.stderr);
        assert!(run.stderr.contains(hint), "{}", run.stderr);
    }
    assert_eq!(server.requests().len(), 0);
}
