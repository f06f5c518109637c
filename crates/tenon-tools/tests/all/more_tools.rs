//! Tools that depend on the run: the list of tasks, skills, questions, plans.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tenon_core::{
    ApprovalMode, Args, BoxFut, Cancel, Client, ClientError, Hook, HookCall, HookEvent, HookLayer, HookOrder,
    HookReply, HookRule, HookRun, HookWait, JsonRpc, NoClient, NoSink, PermissionAsk, PermissionReply,
    Secret, Secrets, TodoStatus, Tool, ToolCtx, ToolDisplay, ToolErrorKind,
};
use tenon_tools::{
    HookOptions, Hooks, MoreTools, NetOptions, OutputStore, PermissionOptions, Permissions, Skill,
    TodoOptions, WebFetchOptions, more_tools,
};

use crate::support::{object, runtime};

pub fn ctx() -> ToolCtx {
    ToolCtx {
        call_id: "call_1".to_owned(),
        cancel: Cancel::new(),
        client: Arc::new(NoClient),
        sink: Arc::new(NoSink),
        progress: Arc::new(|_| {}),
        tell: Arc::new(|_| {}),
        trace: None,
    }
}

fn todo(file: Option<&Path>) -> TodoOptions {
    TodoOptions {
        file: file.map(Path::to_owned),
        secrets: Secrets::default(),
        hooks: Hooks::none(),
        permission_mode: "default",
    }
}

fn all_with(client: &dyn Client, change: impl FnOnce(&mut MoreTools<'_>)) -> Vec<Arc<dyn Tool>> {
    let mut options = MoreTools {
        web: WebFetchOptions::new(NetOptions::default()),
        todo: todo(None),
        skills: Vec::new(),
        outputs: OutputStore::none(),
        client,
        permissions: in_mode(ApprovalMode::Default),
    };
    change(&mut options);
    more_tools(options)
}

pub fn tool_with(name: &str, change: impl FnOnce(&mut MoreTools<'_>)) -> Arc<dyn Tool> {
    all_with(&NoClient, change).into_iter().find(|tool| tool.spec().name == name).unwrap()
}

fn call(tool: &Arc<dyn Tool>, args: Value) -> tenon_core::ToolOutcome {
    runtime().block_on(tool.call(ctx(), object(args)))
}

fn in_mode(mode: ApprovalMode) -> Permissions {
    Permissions::new(PermissionOptions { mode, ..PermissionOptions::default() }).unwrap()
}

/// Answers every question with this.
struct Answering {
    reply: PermissionReply,
    asked: Mutex<Vec<Args>>,
}

impl Client for Answering {
    fn permission(&self, ask: PermissionAsk, _cancel: Cancel) -> BoxFut<'_, PermissionReply> {
        self.asked.lock().unwrap().push(ask.input);
        Box::pin(async { self.reply.clone() })
    }

    fn hook(&self, call: HookCall, _cancel: Cancel) -> BoxFut<'_, Result<HookReply, ClientError>> {
        let id = call.callback_id;
        Box::pin(async move { Ok(HookReply(json!({"decision": "deny", "reason": format!("by {id}")}))) })
    }

    fn mcp(&self, _: &str, _: JsonRpc, _: Cancel) -> BoxFut<'_, Result<JsonRpc, ClientError>> {
        Box::pin(async { Err(ClientError::Absent) })
    }

    fn can_be_asked(&self) -> bool {
        true
    }
}

fn answering(reply: PermissionReply) -> Arc<Answering> {
    Arc::new(Answering { reply, asked: Mutex::default() })
}

#[test]
fn what_is_offered_depends_on_the_run() {
    let names = |client: &dyn Client, mode, skills: Vec<Skill>| {
        let tools = all_with(client, |more| {
            more.permissions = in_mode(mode);
            more.skills = skills;
        });
        tools.iter().map(|tool| tool.spec().name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&NoClient, ApprovalMode::Yolo, vec![]), ["todo_write", "web_fetch"]);
    assert_eq!(names(&NoClient, ApprovalMode::Plan, vec![]), ["todo_write", "web_fetch", "exit_plan_mode"]);
    let somebody = answering(PermissionReply::allow(None));
    assert_eq!(
        names(&*somebody, ApprovalMode::Default, vec![lint()]),
        ["todo_write", "web_fetch", "skill", "ask_user_question"]
    );
}

// --- todo_write

fn todos(items: &[(&str, &str, &str)]) -> Value {
    let items =
        items.iter().map(|(id, content, status)| json!({"id": id, "content": content, "status": status}));
    json!({"todos": items.collect::<Vec<_>>()})
}

#[test]
fn the_list_is_read_back_counted_and_drawn() {
    let tool = tool_with("todo_write", |_| {});
    let outcome = call(
        &tool,
        todos(&[("a", "Read", "completed"), ("b", "Write", "in_progress"), ("c", "Test", "pending")]),
    );
    assert_eq!(
        outcome.content,
        "The list has 3 tasks: 1 completed, 1 in progress, 1 pending.\n[x] a: Read\n[>] b: Write\n[ ] c: Test"
    );
    let Some(ToolDisplay::TodoList(drawn)) = outcome.drawing.as_deref() else { panic!("{outcome:?}") };
    assert_eq!(
        drawn.iter().map(|todo| todo.status).collect::<Vec<_>>(),
        [TodoStatus::Completed, TodoStatus::InProgress, TodoStatus::Pending]
    );
    assert_eq!(
        call(&tool, todos(&[])).content,
        "The list has 0 tasks: 0 completed, 0 in progress, 0 pending."
    );
}

#[test]
fn wrong_lists_are_refused_in_words() {
    let tool = tool_with("todo_write", |_| {});
    let many: Vec<Value> =
        (0..101).map(|n| json!({"id": n.to_string(), "content": "x", "status": "pending"})).collect();
    for (args, expected) in [
        (json!({}), "needs `todos`, a list"),
        (json!({"todos": "x"}), "needs `todos`, a list"),
        (json!({"todos": [1]}), "`todos[0]` must be an object"),
        (json!({"todos": [{"id": "a", "status": "pending"}]}), "`todos[0]`: `todo_write` needs `content`"),
        (json!({"todos": [{"id": "a", "content": " ", "status": "pending"}]}), "`content` must not be empty"),
        (json!({"todos": [{"id": "a", "content": "x", "status": "done"}]}), "`status` is one of"),
        (json!({"todos": [{"id": "a".repeat(501), "content": "x", "status": "pending"}]}), "`id` is longer"),
        (
            json!({"todos": [{"id": "a", "content": "x".repeat(1001), "status": "pending"}]}),
            "`content` is longer",
        ),
        (todos(&[("a", "x", "pending"), ("a", "y", "pending")]), "Two tasks have the id `a`"),
        (json!({"todos": many}), "`todos` has 101 tasks, and 100 are the most"),
        (
            json!({"todos": [{"id": "a", "content": "x", "status": "pending", "blockedBy": ["b"]}]}),
            "`a` is blocked by `b`, which is not on the list",
        ),
        (
            json!({"todos": [{"id": "a", "content": "x", "status": "pending", "blockedBy": ["a"]}]}),
            "`a` is blocked by itself",
        ),
    ] {
        let outcome = call(&tool, args.clone());
        assert_eq!(outcome.error, Some(ToolErrorKind::InvalidArguments), "{args}");
        assert!(outcome.content.contains(expected), "{args}: {}", outcome.content);
    }
}

#[test]
fn the_list_outlives_the_run_without_secrets() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("todos/s.json");
    let open = || {
        tool_with("todo_write", |more| {
            more.todo = TodoOptions {
                secrets: [Secret::new("sk-very-secret-key")].into_iter().collect(),
                ..todo(Some(&file))
            };
        })
    };
    call(&open(), todos(&[("a", "use sk-very-secret-key", "pending")]));
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains("\"a\"") && !kept.contains("sk-very-secret-key"), "{kept}");
    let mode = std::fs::metadata(file.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0);
    // A broken file is as good as none, and one that cannot be written is said.
    for content in ["{", "[]", "{\"todos\": [{}]}"] {
        std::fs::write(&file, content).unwrap();
        assert_eq!(call(&open(), todos(&[("a", "x", "pending")])).error, None);
    }
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let tool = tool_with("todo_write", |more| more.todo = todo(Some(&blocked.join("todos/s.json"))));
    let outcome = call(&tool, todos(&[("a", "x", "pending")]));
    assert_eq!(outcome.error, None);
    assert!(outcome.content.contains("could not be kept for later runs"), "{}", outcome.content);
}

fn client_hooks(events: &[HookEvent]) -> Hooks {
    let rules = events.iter().map(|event| HookRule {
        event: *event,
        matcher: String::new(),
        order: HookOrder::SideBySide,
        layer: HookLayer::Client,
        hooks: vec![Hook {
            run: HookRun::Client { callback_id: format!("cb-{}", event.name()), timeout: None },
            name: None,
            status_message: None,
            wait: HookWait::ForItsAnswer,
            on_error: None,
        }],
    });
    Hooks::new(HookOptions { rules: rules.collect(), ..HookOptions::default() }).unwrap()
}

#[test]
fn hooks_have_a_say_in_the_list() {
    let somebody = answering(PermissionReply::allow(None));
    let with = |events: &[HookEvent]| tool_with("todo_write", |more| more.todo.hooks = client_hooks(events));
    let write = |tool: &Arc<dyn Tool>, items: &[(&str, &str, &str)]| {
        let context = ToolCtx { client: somebody.clone(), ..ctx() };
        runtime().block_on(tool.call(context, object(todos(items))))
    };
    let created = write(&with(&[HookEvent::TodoCreated]), &[("a", "x", "pending")]);
    assert!(
        created.content.contains("a `TodoCreated` hook refused `a`: by cb-TodoCreated"),
        "{}",
        created.content
    );
    let tool = with(&[HookEvent::TodoCompleted]);
    assert_eq!(write(&tool, &[("a", "x", "in_progress")]).error, None);
    let completed = write(&tool, &[("a", "x", "completed")]);
    assert!(completed.content.contains("`TodoCompleted` hook refused `a`"), "{}", completed.content);
}

// --- skill

fn lint() -> Skill {
    Skill {
        name: "lint".to_owned(),
        description: "Checks style.".to_owned(),
        instructions: "Run the linter.".to_owned(),
        folder: "/skills/lint".into(),
    }
}

#[test]
fn skills_are_listed_and_handed_out() {
    let other = Skill {
        name: "fix".to_owned(),
        instructions: "Fix $ARGUMENTS, then $ARGUMENTS again.".to_owned(),
        ..lint()
    };
    let tool = tool_with("skill", |more| more.skills = vec![lint(), other]);
    assert!(tool.spec().description.contains("- lint: Checks style."), "{}", tool.spec().description);
    assert_eq!(
        call(&tool, json!({"skill": "lint"})).content,
        "The skill `lint`. Its files are in /skills/lint\n\nRun the linter."
    );
    assert!(call(&tool, json!({"skill": "lint", "args": "src"})).content.ends_with("Apply it to: src"));
    assert!(call(&tool, json!({"skill": "fix", "args": "it"})).content.ends_with("Fix it, then it again."));
    let wrong = call(&tool, json!({"skill": "lnit"}));
    assert_eq!(wrong.error, Some(ToolErrorKind::InvalidArguments));
    assert!(wrong.content.contains("did you mean `lint`?"), "{}", wrong.content);
}

// --- questions and plans

fn question() -> Value {
    json!({"questions": [{
        "question": "Which one?", "header": "Choice",
        "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]
    }]})
}

fn ask(client: &Arc<Answering>, args: Value) -> tenon_core::ToolOutcome {
    let tools = all_with(&**client, |_| {});
    let tool = tools.iter().find(|tool| tool.spec().name == "ask_user_question").unwrap();
    let context = ToolCtx { client: client.clone(), ..ctx() };
    runtime().block_on(tool.call(context, object(args)))
}

#[test]
fn a_question_is_answered_by_whoever_drives_the_run() {
    let answered = |answers: Value| {
        let mut args = object(question());
        args.insert("answers".to_owned(), answers);
        answering(PermissionReply::allow(Some(args)))
    };
    let one = answered(json!({"Which one?": "B"}));
    assert_eq!(ask(&one, question()).content, "The user answered:\n\nWhich one?\n→ B");
    assert_eq!(one.asked.lock().unwrap().len(), 1);
    assert!(ask(&answered(json!({"Which one?": ["A", "B"]})), question()).content.ends_with("→ A, B"));
    let silent = answering(PermissionReply::allow(None));
    assert!(ask(&silent, question()).content.contains("gave no answer"));
    let refused = answering(PermissionReply::Deny { message: "later".to_owned() });
    let outcome = ask(&refused, question());
    assert_eq!(outcome.error, Some(ToolErrorKind::Denied));
    assert!(outcome.content.contains("later"), "{}", outcome.content);
    // Already answered where permission was asked: nobody is asked twice.
    let mut args = question();
    args["answers"] = json!({"Which one?": "A"});
    assert!(ask(&silent, args).content.ends_with("→ A"));
    assert_eq!(silent.asked.lock().unwrap().len(), 1);

    for (args, expected) in [
        (json!({"questions": []}), "a list of 1 to 4"),
        (
            json!({"questions": [{"question": "q", "header": "much too long for it", "options": []}]}),
            "longer than 12",
        ),
        (
            json!({"questions": [{"question": "q", "header": "h", "options": [{"label": "one"}]}]}),
            "a list of 2 to 4",
        ),
    ] {
        let outcome = ask(&silent, args);
        assert_eq!(outcome.error, Some(ToolErrorKind::InvalidArguments));
        assert!(outcome.content.contains(expected), "{}", outcome.content);
    }
}

#[test]
fn a_plan_is_handed_in_and_nothing_more_is_promised() {
    let plan = json!({"plan": "1. Read\n2. Write"});
    let alone = tool_with("exit_plan_mode", |more| more.permissions = in_mode(ApprovalMode::Plan));
    let outcome = call(&alone, plan.clone());
    assert!(outcome.content.starts_with("Nobody is there to approve the plan"), "{}", outcome.content);
    assert!(
        matches!(outcome.drawing.as_deref(), Some(ToolDisplay::PlanSummary { plan }) if plan.starts_with("1."))
    );
    for (reply, error, expected) in [
        (PermissionReply::allow(None), None, "The plan was approved"),
        (
            PermissionReply::Deny { message: "too long".to_owned() },
            Some(ToolErrorKind::Denied),
            "was not approved: too long",
        ),
    ] {
        let context = ToolCtx { client: answering(reply), ..ctx() };
        let outcome = runtime().block_on(alone.call(context, object(plan.clone())));
        assert!(outcome.content.contains(expected), "{}", outcome.content);
        assert_eq!(outcome.error, error);
        assert!(matches!(outcome.drawing.as_deref(), Some(ToolDisplay::PlanSummary { .. })));
    }
    assert_eq!(call(&alone, json!({"plan": " "})).error, Some(ToolErrorKind::InvalidArguments));
}
