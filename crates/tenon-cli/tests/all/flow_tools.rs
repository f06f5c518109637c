//! What the agents of a workflow may use: lists, older names, what is denied, helpers.

use tenon_testkit::{Server, json, reply};

use super::flow_run::{at, flow, step};
use super::tenon;

fn with_tools(lists: &str) -> String {
    format!(
        "name: n\nagents:\n  a: {{ description: A., {lists} }}\nsteps:\n  - {{ id: s, agent: a, instructions: Go. }}\n"
    )
}

#[test]
fn lists_of_tools_restrict_and_version_1_names_are_ours() {
    let table: &[(&str, &[&str])] = &[
        ("tools: [read, glob]", &["read_file", "glob"]),
        (
            "tools: [bash, read, write, grep]",
            &["read_file", "grep_search", "write_file", "run_shell_command"],
        ),
        ("tools: [read, glob], disallowedTools: [glob]", &["read_file"]),
        ("tools: []", &[]),
    ];
    for (lists, offered) in table {
        let server = Server::start([at("Go.").text("done")]);
        flow(&server, &with_tools(lists)).arg("--yolo").run().assert_code(0);
        assert_eq!(server.request(0).tool_names(), *offered, "{lists}");
    }
    let server = Server::start([at("Go.").text("done")]);
    flow(&server, &with_tools("disallowedTools: [bash]")).run().assert_code(0);
    let names = server.request(0).tool_names().iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert!(names.contains(&"read_file".to_owned()) && !names.contains(&"run_shell_command".to_owned()));
    assert!(!names.contains(&"agent".to_owned()), "helpers are for those who ask: {names:?}");
}

/// The format knows five tools: who forbids the shell gets no shell, under whatever name.
#[test]
fn a_denied_tool_takes_along_what_can_do_the_same() {
    let shell: &[&str] = &["run_shell_command", "monitor"];
    let writing: &[&str] = &["write_file", "edit"];
    for (list, gone, kept) in [
        ("disallowedTools: [bash]", shell, writing),
        ("disallowedTools: [Bash]", shell, writing),
        ("disallowedTools: [write]", writing, shell),
        ("disallowedTools: [edit]", writing, shell),
        ("tools: [bash, monitor, edit, write, read], disallowedTools: [bash]", shell, writing),
    ] {
        let server = Server::start([
            at("Go.")
                .call("c1", "monitor", json!({"command": "echo ran >> ran.txt"}))
                .call("c2", "bash", json!({"command": "echo ran >> ran.txt"}))
                .call("c3", "write_file", json!({"file_path": "new.txt", "content": "x"})),
            at("Go.").text("done"),
        ]);
        let run = flow(&server, &with_tools(list)).arg("--yolo").run();
        run.assert_code(0);
        let first = server.request(0);
        let offered = first.tool_names();
        assert!(gone.iter().all(|name| !offered.contains(name)), "{list}: {offered:?}");
        assert!(kept.iter().all(|name| offered.contains(name)), "{list}: {offered:?}");
        assert_eq!(run.workspace().join("ran.txt").exists(), gone != shell, "{list}");
        assert_eq!(run.workspace().join("new.txt").exists(), gone != writing, "{list}");
    }
}

#[test]
fn a_model_may_call_tools_by_their_version_1_names() {
    let server = Server::start([
        at("Go.")
            .call("c1", "bash", json!({"command": "echo out-of-$PWD; sleep 0", "timeout_seconds": 20}))
            .call("c2", "write", json!({"path": "new.txt", "content": "a.b\nacb\n"}))
            .call("c3", "read", json!({"path": "new.txt"}))
            .call("c4", "grep", json!({"pattern": "a.b", "path": "."})),
        at("Go.").text("done"),
    ]);
    let run = flow(&server, &with_tools("tools: [bash, read, write, grep]")).arg("--yolo").run();
    run.assert_code(0);
    let last = server.request(1);
    assert!(last.tool_result("c1").contains("out-of-"), "{}", last.tool_result("c1"));
    assert_eq!(run.read("new.txt"), "a.b\nacb\n");
    assert!(last.tool_result("c3").contains("acb"), "{}", last.tool_result("c3"));
    let found = last.tool_result("c4");
    assert!(found.contains("a.b") && !found.contains("acb"), "plain text is not an expression: {found}");
}

#[test]
fn a_declared_tool_that_is_denied_is_refused_before_the_first_request() {
    let table = [
        (
            "tools: [bash]",
            &[][..],
            "the step `s` lists the tool `bash`, and `run_shell_command` runs commands, which `default` mode allows only with approval",
            "`--allowed-tools run_shell_command` or `--approval-mode yolo` allows it",
        ),
        (
            "tools: [write]",
            &["--approval-mode", "plan"],
            "the step `s` lists the tool `write`, and `plan` mode only reads, and `write_file` does more",
            "`--approval-mode auto-edit` allows it",
        ),
        (
            "tools: [read_file]",
            &["--exclude-tools", "read_file"],
            "the step `s` lists the tool `read_file`, and `read_file` is denied by a rule",
            "take `read_file` out of `--exclude-tools` or `permissions.deny`",
        ),
    ];
    for (lists, flags, message, hint) in table {
        let server = Server::start([]);
        let run = flow(&server, &with_tools(lists)).args(flags).args(["-q", "-o", "json"]).run();
        run.assert_code(42);
        assert_eq!(run.json()["error"], json!({"class": "input", "message": message, "hint": hint}), "{run}");
        assert_eq!(run.stderr, format!("error[input]: {message}\nhint: {hint}\n"));
        assert!(server.requests().is_empty());
    }
    // Everything that cannot be used, step by step.
    let server = Server::start([]);
    let document = "name: n\nagents:\n  a: { description: A., tools: [bash, read, write] }\n  b: { description: B., tools: [write] }\nsteps:\n  - { id: s, agent: a }\n  - { id: t, agent: b }\n";
    let run = flow(&server, document).args(["-q", "-o", "json"]).run();
    run.assert_code(42);
    let changes = "changes files, which `default` mode allows only with approval";
    assert_eq!(
        run.json()["error"]["message"],
        format!(
            "the step `s` lists the tool `bash`, and `run_shell_command` runs commands, which `default` mode allows only with approval; \
             it also lists `write`, and `write_file` {changes}; the step `t` lists the tool `write`, and `write_file` {changes}"
        ),
        "{run}"
    );
    for flags in [&["--yolo"][..], &["--allowed-tools", "Bash(git *)"], &["--allowed-tools", "bash"]] {
        let server = Server::start([at("Go.").text("done")]);
        flow(&server, &with_tools("tools: [bash]")).args(flags).run().assert_code(0);
    }
}

#[test]
fn a_tool_that_cannot_write_fails_the_call_and_not_the_step() {
    let server = Server::start([
        at("Go.").call("c", "write_file", json!({"file_path": "/proc/self/x", "content": "x"})),
        at("Go.").text("I could not write."),
    ]);
    let run = flow(&server, &with_tools("maxTurns: 5")).arg("--yolo").run();
    assert_eq!(run.assert_code(0).stdout, "I could not write.\n");
}

#[test]
fn denied_calls_are_told_to_the_model_or_fail_the_step() {
    let script = || {
        [at("Go.").call("c", "run_shell_command", json!({"command": "true"})), at("Go.").text("went without")]
    };
    let server = Server::start(script());
    let run = flow(&server, &with_tools("maxTurns: 5")).run();
    assert_eq!(run.assert_code(0).stdout, "went without\n");
    assert!(run.stderr.contains("step s: `run_shell_command` was denied"), "{run}");
    let server = Server::start(script());
    let run = flow(&server, &with_tools("maxTurns: 5")).args(["--fail-on-denied", "-o", "json"]).run();
    assert_eq!(step(&run.assert_code(1).json(), "s")["error"]["class"], "tool", "{run}");
}

#[test]
fn agents_that_ask_for_helpers_get_them() {
    let server = Server::start([
        at("Go.").call("c", "agent", json!({"description": "help", "prompt": "Help me."})),
        reply().when(|body| body["messages"][1]["content"] == "Help me.").text("Helped."),
        at("Go.").text("done"),
    ]);
    let run = flow(&server, &with_tools("tools: [read, agent]")).run();
    assert_eq!(run.assert_code(0).stdout, "done\n");
    assert_eq!(server.request(2).tool_result("c"), "Helped.");
}

/// A name that no step can have is a mistake in the document, under whatever name, and told with the reason.
#[test]
fn tools_that_no_step_can_have_are_told_at_load() {
    let table = [
        ("todo_write", "it is the list of tasks of a single run, and a workflow has its steps"),
        ("TodoWrite", "it is the list of tasks of a single run, and a workflow has its steps"),
        ("cron_create", "schedules belong to a single run, and a step is over with its answer"),
        ("cron_list", "schedules belong to a single run, and a step is over with its answer"),
        ("CronDelete", "schedules belong to a single run, and a step is over with its answer"),
        ("ask_user_question", "nobody sits before a workflow to be asked"),
        ("exit_plan_mode", "it hands a plan to whoever drives a single run"),
        ("structured_output", "it comes with `--json-schema`, which a workflow has not"),
    ];
    for (name, why) in table {
        let document = with_tools(&format!("tools: [agent, {name}]"));
        let check = ["flow", "validate", "flow.yaml", "--format", "json"];
        let run = tenon().file("flow.yaml", &document).args(check).run();
        let found = run.assert_code(52).json()["diagnostics"].clone();
        assert_eq!(found.as_array().unwrap().len(), 1, "{name}: {run}");
        assert_eq!(
            (&found[0]["code"], &found[0]["message"]),
            (&json!("unknown_tool"), &json!(format!("no step can have the tool `{name}`: {why}")))
        );
        // To be without it is no mistake.
        let document = with_tools(&format!("disallowedTools: [{name}]"));
        tenon().file("flow.yaml", &document).args(check).run().assert_code(0);
    }
    let document = with_tools("tools: [submit_result]");
    let run = tenon().file("flow.yaml", &document).args(["flow", "validate", "flow.yaml"]).run();
    let warning = "`submit_result` is there with a `resultSchema`, and this agent has none";
    assert!(run.assert_code(0).stdout.contains(warning), "{run}");
}

/// What a run may have and this one has not is told before the first request, with what would bring it.
#[test]
fn a_tool_that_this_run_has_not_is_told_with_what_would_bring_it() {
    let left_out = "`--core-tools`, `tools.core` and `--bare` leave out what they do not name";
    let agents = "`--core-tools`, `tools.core` and `--bare` leave it out where they do not name it, and so does `--max-subagent-depth 1`: a step is an agent of the run";
    let table: &[(&str, &[&str], &str)] = &[
        (
            "skill",
            &[],
            "it is there when there is a skill: a `SKILL.md` below `skills` of `$TENON_HOME`, or of `.tenon` in a trusted project",
        ),
        ("tool_search", &[], "it is there when a run has many tools"),
        (
            "web_search",
            &[],
            "tenon has none of its own; tools of MCP servers are written `mcp__server__tool`",
        ),
        (
            "mcp__x__y",
            &[],
            "it is there when its MCP server is; `tenon mcp list` shows the servers and their tools",
        ),
        ("glob", &["--core-tools", "read_file"], left_out),
        ("agent", &["--core-tools", "read_file"], agents),
        ("agent", &["--max-subagent-depth", "1"], agents),
    ];
    for (name, flags, hint) in table {
        let server = Server::start([]);
        let run =
            flow(&server, &with_tools(&format!("tools: [{name}]"))).args(*flags).args(["-o", "json"]).run();
        let message =
            format!("the step `s` lists the tool `{name}`, and `{name}` is not among the tools of this run");
        let error = json!({"class": "input", "message": message, "hint": hint});
        assert_eq!(run.assert_code(42).json()["error"], error, "{run}");
        assert!(server.requests().is_empty());
    }
}

/// `submit_result` comes with a `resultSchema`: listing it changes nothing, and denying it leaves no way to hand in the result.
#[test]
fn the_tool_that_hands_in_a_result_is_there_unless_it_is_denied() {
    let schema = "resultSchema: {type: object, properties: {ok: {type: boolean}}}";
    for lists in ["tools: [read, submit_result]", "tools: [submit_result]", "tools: []", "maxTurns: 5"] {
        let server = Server::start([at("Go.").call("c", "submit_result", json!({"ok": true}))]);
        let run = flow(&server, &with_tools(&format!("{lists}, {schema}"))).run();
        assert_eq!(run.assert_code(0).json(), json!({"ok": true}), "{lists}");
    }
    for lists in ["tools: [submit_result]", "maxTurns: 5"] {
        let server = Server::start([]);
        let document = with_tools(&format!("{lists}, {schema}"));
        let run = flow(&server, &document).args(["--exclude-tools", "submit_result", "-o", "json"]).run();
        let error = json!({
            "class": "input",
            "message": "the step `s` hands in its result by the tool `submit_result`, and `submit_result` is denied by a rule",
            "hint": "take `submit_result` out of `--exclude-tools` or `permissions.deny`",
        });
        assert_eq!(run.assert_code(42).json()["error"], error, "{run}");
        assert!(server.requests().is_empty());
    }
}

/// `agent` is for steps that list it, and the run has to have it.
#[test]
fn a_step_has_agents_where_it_lists_them() {
    let table: &[(&str, &[&str], bool)] = &[
        ("maxTurns: 5", &[], false),
        ("maxTurns: 5", &["--core-tools", "agent,read_file"], false),
        ("tools: [agent]", &[], true),
        ("tools: [Task]", &["--core-tools", "agent,read_file"], true),
        ("tools: [agent], disallowedTools: [agent]", &[], false),
    ];
    for (lists, flags, has_agents) in table {
        let server = Server::start([at("Go.").text("done")]);
        flow(&server, &with_tools(lists)).args(*flags).run().assert_code(0);
        let request = server.request(0);
        assert_eq!(request.tool_names().contains(&"agent"), *has_agents, "{lists} {flags:?}");
    }
}

/// A single step has nobody to talk to, and gets what it asks for by name.
#[test]
fn what_agents_share_is_there_for_a_single_step_that_lists_it() {
    let server = Server::start([at("Go.").text("done")]);
    flow(&server, &with_tools("tools: [read_file, shared_memory_write]")).run().assert_code(0);
    assert_eq!(server.request(0).tool_names(), ["read_file", "shared_memory_write"]);
}
