//! A workflow run from Rust: the caller's model, tools, inputs, budget and listener; and the published schema of events.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tenon_agent::Stop;
use tenon_core::{
    ApprovalMode, Args, BoxFut, Cancel, Delta, DeltaStream, ErrorClass, Failure, FinishReason, ModelClient,
    Request, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec,
};
use tenon_flow::{
    CannotRun, FlowEvent, FlowRun, FlowSink, JsonText, LoadOptions, LoadedWorkflow, RunLimits, StepStatus,
    StopRun, WallTime, WorkflowStatus, events_schema, load,
};
use tenon_tools::PermissionOptions;

type Answers = Box<dyn Fn(&Request) -> Vec<Delta> + Send + Sync>;

/// Answers as a function says, and keeps what it was asked.
struct Model {
    answers: Answers,
    asked: Mutex<Vec<Request>>,
}

impl Model {
    fn new(answers: impl Fn(&Request) -> Vec<Delta> + Send + Sync + 'static) -> Arc<Model> {
        Arc::new(Model { answers: Box::new(answers), asked: Mutex::default() })
    }
}

impl ModelClient for Model {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        let answer = (self.answers)(&request);
        self.asked.lock().unwrap().push(request);
        Box::pin(futures_util::stream::iter(answer.into_iter().map(Ok)))
    }
}

fn text(text: &str) -> Vec<Delta> {
    vec![Delta::Text(text.into()), Delta::Finished(FinishReason::Stop)]
}

fn call(id: &str, name: &str, arguments: &Value) -> Vec<Delta> {
    vec![
        Delta::ToolCallStarted { index: 0, id: id.into(), name: name.into() },
        Delta::ToolCallArguments { index: 0, fragment: arguments.to_string() },
        Delta::Finished(FinishReason::ToolCalls),
    ]
}

struct Noting(Arc<ToolSpec>, Arc<Mutex<u32>>);

impl Tool for Noting {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _ctx: ToolCtx, _args: Args) -> BoxFut<'_, ToolOutcome> {
        *self.1.lock().unwrap() += 1;
        Box::pin(async { ToolOutcome::ok("noted") })
    }
}

fn note(kind: ToolKind) -> (Arc<dyn Tool>, Arc<Mutex<u32>>) {
    noting("note", kind)
}

fn noting(name: &str, kind: ToolKind) -> (Arc<dyn Tool>, Arc<Mutex<u32>>) {
    let spec = ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        kind,
    };
    let count = Arc::new(Mutex::new(0));
    (Arc::new(Noting(Arc::new(spec), Arc::clone(&count))), count)
}

#[derive(Default)]
struct Heard(Mutex<Vec<Value>>);

impl FlowSink for Heard {
    fn emit(&self, event: FlowEvent) {
        self.0.lock().unwrap().push(serde_json::to_value(&event).unwrap());
    }
}

fn workflow(text: &str) -> LoadedWorkflow {
    loaded(text, &[note(ToolKind::Read).0])
}

fn loaded(text: &str, tools: &[Arc<dyn Tool>]) -> LoadedWorkflow {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yaml");
    std::fs::write(&file, text).unwrap();
    load(&file, &LoadOptions::default().with_tools(tools)).unwrap()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

const TESTED: &str = r#"
name: n
inputs: { type: object, required: [what], properties: { what: { type: string } } }
agents:
  tester:
    description: Tests.
    tools: [note]
    model: other
    resultSchema: { type: object, required: [passed], properties: { passed: { type: boolean } } }
steps:
  - { id: test, agent: tester, instructions: "Test ${{ inputs.what }}." }
"#;

fn tests() -> Arc<Model> {
    Model::new(|request| match request.messages.len() {
        1 => call("a", "note", &json!({})),
        _ => call("b", "submit_result", &json!({"passed": true})),
    })
}

#[test]
fn a_callers_model_tools_inputs_and_listener() {
    let (tool, count) = note(ToolKind::Read);
    let (model, heard) = (tests(), Arc::new(Heard::default()));
    let outcome = run(FlowRun::new(workflow(TESTED), Arc::clone(&model) as Arc<dyn ModelClient>, "default")
        .inputs(JsonText::of(&json!({"what": "it"})))
        .context("Everybody knows.")
        .tools(vec![tool])
        .sink(Arc::clone(&heard) as Arc<dyn FlowSink>)
        .run_id("mine")
        .run())
    .unwrap();
    let steps = outcome.by_id();
    assert_eq!((outcome.status, steps["test"].status), (WorkflowStatus::Completed, StepStatus::Completed));
    assert_eq!(steps["test"].result.as_ref().unwrap().to_value(), json!({"passed": true}));
    assert_eq!(*count.lock().unwrap(), 1);
    let asked = model.asked.lock().unwrap();
    assert_eq!(asked[0].model, "other");
    assert!(asked[0].messages[0].text().starts_with("[Flow Context]\nEverybody knows.\n\n## Task\nTest it."));
    let heard = heard.0.lock().unwrap();
    assert_eq!((heard[0]["type"].as_str(), heard[0]["run_id"].as_str()), (Some("plan_ready"), Some("mine")));
    assert_eq!(heard.last().unwrap()["data"]["steps"]["test"]["result"], json!({"passed": true}));
}

/// What a program does with a run: it goes on on another thread, its result is a type of the program's, and it has limits.
#[test]
fn a_run_can_be_spawned_read_as_a_type_and_limited() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Tests {
        passed: bool,
    }
    let (tool, _) = note(ToolKind::Read);
    let start = FlowRun::new(workflow(TESTED), tests(), "m")
        .inputs(JsonText::of(&json!({"what": "it"})))
        .tools(vec![tool]);
    let outcome = run(async { tokio::spawn(start.run()).await.unwrap() }).unwrap();
    let result = outcome.step("test").unwrap().result.as_ref().unwrap();
    assert_eq!(result.parse::<Tests>().unwrap(), Tests { passed: true });
    assert!(result.parse::<Vec<String>>().is_err() && outcome.step("nobody").is_none());
    let document = "name: n\nsteps:\n  - { id: a, instructions: A. }\n";
    let limits =
        RunLimits { wall_time: Some(WallTime { ms: 1, set_by: "`our own`" }), ..RunLimits::default() };
    let limited = FlowRun::new(workflow(document), Arc::new(Silent), "m").limits(limits);
    let outcome = run(limited.run()).unwrap();
    assert_eq!(outcome.status, WorkflowStatus::BudgetExceeded);
    assert_eq!(outcome.error.unwrap().hint.as_deref(), Some("raise `our own`"));
}

/// Never answers.
struct Silent;

impl ModelClient for Silent {
    fn stream(&self, _request: Request, _cancel: Cancel) -> DeltaStream {
        Box::pin(futures_util::stream::pending())
    }
}

#[test]
fn what_cannot_begin_asks_nothing() {
    let (tool, _) = note(ToolKind::Read);
    let model = tests();
    let start = || FlowRun::new(workflow(TESTED), Arc::clone(&model) as Arc<dyn ModelClient>, "m");
    let inputs = run(start().tools(vec![Arc::clone(&tool)]).run());
    assert!(matches!(inputs, Err(CannotRun::Inputs(_))), "{inputs:?}");
    let given = || start().inputs(JsonText::of(&json!({"what": "x"})));
    let missing = run(given().run());
    assert!(matches!(&missing, Err(CannotRun::Unusable(tools)) if tools[0].step == "test"), "{missing:?}");
    let (effect, count) = note(ToolKind::Edit);
    let denied = run(given().tools(vec![Arc::clone(&effect)]).run());
    let Err(error) = denied else { panic!("it ran") };
    assert_eq!(
        error.to_string(),
        "the step `test` lists the tool `note`, and `note` changes files, which `default` mode allows only with approval"
    );
    assert!(model.asked.lock().unwrap().is_empty());
    let allowed = PermissionOptions { mode: ApprovalMode::Yolo, ..PermissionOptions::default() };
    let outcome = run(given().tools(vec![effect]).permissions(allowed).run()).unwrap();
    assert_eq!((outcome.status, *count.lock().unwrap()), (WorkflowStatus::Completed, 1));
}

#[test]
fn a_run_that_is_stopped_says_why() {
    let stop = Stop::default();
    let from_inside = stop.clone();
    let model = Model::new(move |_| {
        from_inside.now(Failure::new(ErrorClass::Input, "enough"));
        text("never heard")
    });
    let document =
        "name: n\nsteps:\n  - { id: a, instructions: A. }\n  - { id: b, instructions: B., dependsOn: [a] }\n";
    let stopped = FlowRun::new(workflow(document), model, "m").stop(StopRun { stop, ..StopRun::default() });
    let outcome = run(stopped.run()).unwrap();
    assert_eq!(outcome.status, WorkflowStatus::Cancelled);
    let error = outcome.error.unwrap();
    assert_eq!((error.class.name(), error.message.as_str()), ("input", "enough"));
}

fn schema_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/flow-events.json")
}

#[test]
fn the_checked_in_schema_of_events_is_current() {
    let current = serde_json::to_string_pretty(&events_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(schema_file(), &current).unwrap();
    }
    let stored = std::fs::read_to_string(schema_file()).unwrap_or_default();
    assert!(stored == current, "{} is stale; run with `UPDATE_SCHEMAS=1`", schema_file().display());
}

/// A caller's tool that is called like one of an older document is the caller's.
#[test]
fn a_tool_of_the_caller_keeps_its_name_before_an_older_name_of_ours() {
    let (own, count) = noting("search", ToolKind::Read);
    let tools = vec![own];
    let document = "name: n\nagents: { a: { description: d, tools: [search] } }\nsteps: [{ id: s, agent: a, instructions: Go. }]\n";
    let model = Model::new(|request| match request.messages.len() {
        1 => call("a", "search", &json!({"query": "x"})),
        _ => text("done"),
    });
    let asked = Arc::clone(&model);
    let outcome = run(FlowRun::new(loaded(document, &tools), model, "m").tools(tools).run()).unwrap();
    assert_eq!((outcome.status, *count.lock().unwrap()), (WorkflowStatus::Completed, 1));
    let offered: Vec<String> =
        asked.asked.lock().unwrap()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["search"]);
}

/// The document's turns and tokens are kept whoever brings the model.
#[test]
fn a_document_s_budget_is_kept_for_a_callers_model() {
    for (budget, requests) in [("maxTurns: 3", 3), ("maxTokens: 25", 3)] {
        let (tool, _) = note(ToolKind::Read);
        let document = format!(
            "name: n\nbudget: {{ {budget} }}\nsteps:\n  - {{ id: a, instructions: Go. }}\n  - {{ id: b, instructions: Go. }}\n"
        );
        let model = Model::new(|request| {
            let used = tenon_core::Usage { input: 5, output: 5, total: 10, ..Default::default() };
            let mut answer =
                call(&request.messages.len().to_string(), "note", &json!({"n": request.messages.len()}));
            answer.insert(0, Delta::Usage(used));
            answer
        });
        let asked = Arc::clone(&model);
        let outcome = run(FlowRun::new(workflow(&document), model, "m").tools(vec![tool]).run()).unwrap();
        assert_eq!(outcome.status, WorkflowStatus::BudgetExceeded, "{budget}");
        assert_eq!(asked.asked.lock().unwrap().len(), requests, "{budget}");
        assert_eq!((outcome.spent.turns, outcome.spent.usage.total), (3, 30), "{budget}");
    }
}

/// Never ends, whatever it is told.
struct Hanging(Arc<ToolSpec>);

impl Tool for Hanging {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _ctx: ToolCtx, _args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(std::future::pending())
    }
}

/// A tool of the caller's that does not listen costs the step its time, and not its record.
#[test]
fn a_step_whose_tool_never_ends_keeps_what_it_said_used_and_submitted() {
    let (tool, _) = note(ToolKind::Read);
    let hanging: Arc<dyn Tool> = Arc::new(Hanging(Arc::clone(tool.spec())));
    let usage = tenon_core::Usage { input: 100, output: 10, total: 110, ..Default::default() };
    let answer = move |request: &Request| {
        let mut deltas = vec![Delta::Usage(usage), Delta::Text("partly".into())];
        if request.messages[0].text().contains("Test it.") {
            deltas.push(Delta::ToolCallStarted { index: 1, id: "s".into(), name: "submit_result".into() });
            deltas.push(Delta::ToolCallArguments { index: 1, fragment: json!({"passed": true}).to_string() });
        }
        deltas.extend(call("h", "note", &json!({})));
        deltas
    };
    let paused = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    };
    let document = "name: n\nsteps:\n  - { id: a, instructions: A., timeout: 1s }\n";
    let heard = Arc::new(Heard::default());
    let outcome = paused()
        .block_on(
            FlowRun::new(workflow(document), Model::new(answer), "m")
                .tools(vec![Arc::clone(&hanging)])
                .sink(Arc::clone(&heard) as Arc<dyn FlowSink>)
                .run(),
        )
        .unwrap();
    let step = outcome.step("a").unwrap();
    assert_eq!((step.status, step.content.as_str()), (StepStatus::Failed, "partly"));
    assert_eq!((step.spent.usage, outcome.spent.usage), (usage, usage));
    let heard = heard.0.lock().unwrap();
    let ends = heard.iter().filter(|event| event["type"] == "tool_call" && event["data"]["phase"] == "end");
    assert_eq!(ends.count(), 1);

    let stop = StopRun::default();
    let stopping = stop.stop.clone();
    let start = FlowRun::new(workflow(TESTED), Model::new(answer), "m")
        .inputs(JsonText::of(&json!({"what": "it"})))
        .tools(vec![hanging])
        .stop(stop);
    let outcome = paused().block_on(async {
        let running = tokio::spawn(start.run());
        // By this clock everything has happened that happens by itself.
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        stopping.now(Failure::new(ErrorClass::Interrupted(tenon_core::Signal::Int), "stopped"));
        running.await.unwrap().unwrap()
    });
    assert_eq!(outcome.status, WorkflowStatus::Completed);
    assert_eq!(outcome.step("test").unwrap().result.as_ref().unwrap().to_value(), json!({"passed": true}));
    assert_eq!(outcome.spent.usage, usage);
}

/// What a caller brings is for the steps, whatever it is called.
#[test]
fn a_tool_of_the_caller_may_be_called_like_one_of_single_runs() {
    let (own, count) = noting("todo_write", ToolKind::Read);
    let tools = vec![own];
    let document = "name: n\nagents: { a: { description: d, tools: [todo_write] } }\nsteps: [{ id: s, agent: a, instructions: Go. }]\n";
    let model = Model::new(|request| match request.messages.len() {
        1 => call("a", "todo_write", &json!({})),
        _ => text("done"),
    });
    let outcome = run(FlowRun::new(loaded(document, &tools), model, "m").tools(tools).run()).unwrap();
    assert_eq!((outcome.status, *count.lock().unwrap()), (WorkflowStatus::Completed, 1));
}
