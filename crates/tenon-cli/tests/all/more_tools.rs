//! The tools beyond files and commands, in whole conversations.

use tenon_testkit::{Page, Server, Tenon, Value, Web, json, reply};

use crate::output::result_of;
use crate::tools::call;
use crate::{TOOLS, tenon};

fn offered(setup: Tenon) -> Vec<String> {
    let server = Server::start([reply().text("Hi.")]);
    setup.server(&server).args(["-p", "Go."]).run().assert_code(0);
    server.request(0).tool_names().iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn web_fetch_needs_approval_and_stays_out_of_private_networks() {
    let web = Web::start(|_| Page::new("text/html", "<h1>Inside</h1>"));
    let url = format!("{}/page", web.origin());
    let args = || json!({"url": url, "prompt": "What is it?"});
    let denied = call(tenon(), "web_fetch", args());
    assert!(denied.told.starts_with("Denied: `web_fetch` has effects"), "{}", denied.told);
    let private = call(tenon().arg("--yolo"), "web_fetch", args());
    assert!(private.told.contains("inside a private network"), "{}", private.told);
    let planned = call(tenon().args(["--approval-mode", "plan"]), "web_fetch", args());
    assert!(planned.told.contains("`plan` mode only reads"), "{}", planned.told);
    assert!(web.requests().is_empty());

    // A rule that names the host allows it, private or not.
    let allowed = call(tenon().args(["--allowed-tools", "WebFetch(domain:127.0.0.1)"]), "web_fetch", args());
    assert!(allowed.told.ends_with("# Inside"), "{}", allowed.told);
    let other = call(tenon().args(["--allowed-tools", "WebFetch(domain:127.0.0.2)"]), "web_fetch", args());
    assert!(other.told.starts_with("Denied"), "{}", other.told);
    assert_eq!(web.requests().len(), 1);
    let request = web.requests().remove(0);
    assert_eq!(request.header("authorization"), None);
    assert!(request.header("user-agent").is_some_and(|agent| agent.starts_with("tenon/")));
}

#[test]
fn the_list_of_tasks_is_kept_with_the_session_or_not_at_all() {
    let args = json!({"todos": [{"id": "a", "content": "Look", "status": "in_progress"}]});
    let kept = call(tenon(), "todo_write", args.clone());
    assert!(
        kept.told.starts_with("The list has 1 task: 0 completed, 1 in progress, 0 pending."),
        "{}",
        kept.told
    );
    assert_eq!(result_of(&kept.run)["permission_denials"], json!([]));
    let session = result_of(&kept.run)["session_id"].as_str().unwrap().to_owned();
    let lists = |run: &tenon_testkit::Run| {
        let folders = std::fs::read_dir(run.tenon_home().join("projects")).into_iter().flatten().flatten();
        let sessions = folders.flat_map(|project| {
            std::fs::read_dir(project.path().join("outputs")).into_iter().flatten().flatten()
        });
        sessions
            .filter(|session| session.path().join("todos.json").is_file())
            .map(|session| session.file_name().to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(lists(&kept.run), [session]);
    let forgotten = call(tenon().arg("--no-session"), "todo_write", args);
    assert_eq!(lists(&forgotten.run), Vec::<String>::new());
}

#[test]
fn todo_hooks_are_asked_with_real_scripts() {
    let script =
        r#"jq -e '.todo_content | test("secret") | not' > /dev/null || { echo "not that" >&2; exit 2; }"#;
    let settings = json!({"hooks": {"TodoCreated": [{"hooks": [{"type": "command", "command": script}]}]}});
    let write = |content: &str| {
        let args = json!({"todos": [{"id": "a", "content": content, "status": "pending"}]});
        call(tenon().home_file("settings.json", settings.to_string()), "todo_write", args).told
    };
    assert!(write("fine").starts_with("The list has 1 task"));
    assert!(write("secret").contains("a `TodoCreated` hook refused `a`: not that"), "{}", write("secret"));
}

#[test]
fn skills_are_offered_where_they_are_trusted() {
    const SKILL: &str = "---\ndescription: Checks style.\n---\nRun the linter on $ARGUMENTS.\n";
    let project = || tenon().file(".tenon/skills/lint/SKILL.md", SKILL);
    assert!(!offered(tenon()).contains(&"skill".to_owned()));
    assert!(!offered(project()).contains(&"skill".to_owned()));
    assert!(
        !offered(tenon().home_file("skills/lint/SKILL.md", SKILL).arg("--safe-mode"))
            .contains(&"skill".to_owned())
    );
    for setup in [project().arg("--trust-project"), tenon().home_file("skills/lint/SKILL.md", SKILL)] {
        let called = call(setup, "skill", json!({"skill": "lint", "args": "src"}));
        assert!(called.told.ends_with("Run the linter on src."), "{}", called.told);
        let spec = called.server.request(0).tool("skill").clone();
        assert!(spec["description"].as_str().unwrap().contains("- lint: Checks style."), "{spec}");
    }
}

#[test]
fn a_plan_without_anybody_ends_as_text() {
    let setup = tenon().args(["--approval-mode", "plan"]);
    let called = call(setup, "exit_plan_mode", json!({"plan": "1. Look\n2. Write"}));
    called.run.assert_code(0);
    assert!(called.told.starts_with("Nobody is there to approve the plan"), "{}", called.told);
    for mode in ["default", "yolo"] {
        assert!(!offered(tenon().args(["--approval-mode", mode])).contains(&"exit_plan_mode".to_owned()));
    }
    assert!(!offered(tenon()).contains(&"ask_user_question".to_owned()), "nobody could answer");
}

#[test]
fn many_tools_are_searched_and_the_way_to_answer_is_not() {
    let settings = |above: usize| json!({"tools": {"searchAbove": above}}).to_string();
    assert_eq!(offered(tenon().args(["--settings", &settings(TOOLS.len())])), TOOLS);
    let server = Server::start([
        reply().call("c1", "tool_search", json!({"query": "select:web_fetch,cron_list"})),
        // One that still waits can be called all the same.
        reply().call("c2", "task_stop", json!({"task_id": "none"})),
        reply().call("c3", "structured_output", json!({"a": "b"})),
    ]);
    let run = tenon()
        .args(["--settings", &settings(3), "--json-schema", r#"{"type": "object"}"#])
        .server(&server)
        .args(["-p", "Go.", "-o", "json"])
        .run();
    run.assert_code(0);
    let tools = |number: usize| {
        let request = server.request(number);
        request.tool_names().iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    let first = tools(0);
    for waiting in
        ["web_fetch", "monitor", "task_stop", "cron_create", "cron_list", "cron_delete", "send_message"]
    {
        assert!(!first.contains(&waiting.to_owned()), "{first:?}");
    }
    assert_eq!(first.last().map(String::as_str), Some("structured_output"));
    // What was found stands after the others, and the way to answer stays last.
    let mut second = first.clone();
    second.splice(first.len() - 1..first.len() - 1, ["web_fetch".to_owned(), "cron_list".to_owned()]);
    assert_eq!(tools(1), second);
    assert_eq!(tools(2), second);
    assert!(server.request(2).tool_result("c2").contains("`none`"), "{run}");
    // The first line names every tool that can be called.
    let init: Value = run.json()[0].clone();
    let listed: Vec<&str> = init["tools"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(TOOLS.iter().all(|name| listed.contains(name)) && listed.contains(&"tool_search"), "{listed:?}");

    let without = tenon().args(["--settings", &settings(3), "--exclude-tools", "tool_search"]);
    assert_eq!(offered(without), TOOLS);
}
