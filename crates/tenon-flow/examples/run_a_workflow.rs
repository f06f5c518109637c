//! Runs a workflow from Rust, with a model, a tool and a listener of one's own: `cargo run -p tenon-flow --example
//! run_a_workflow`. The model here answers from a script, so nothing leaves this process.

use std::error::Error;
use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tenon_flow::tenon_core::{
    Args, BoxFut, Cancel, Delta, DeltaStream, FinishReason, ModelClient, Request, Tool, ToolCtx, ToolKind,
    ToolOutcome, ToolSpec,
};
use tenon_flow::{FlowEvent, FlowRun, FlowSink, LoadOptions, StepStatus, load};

const DOCUMENT: &str = "
name: checks
agents:
  tester:
    description: Runs the tests.
    tools: [run_tests]
    resultSchema:
      type: object
      required: [passed]
      properties:
        passed: { type: boolean }
        summary: { type: string }
steps:
  - id: test
    agent: tester
    instructions: Run the tests and say whether they passed.
";

/// Calls the tool first, then submits what it said.
struct Scripted;

impl ModelClient for Scripted {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        let has_tested = request.messages.len() > 1;
        let (name, arguments) = match has_tested {
            false => ("run_tests", json!({})),
            true => ("submit_result", json!({ "passed": true, "summary": "12 of 12" })),
        };
        let deltas = [
            Delta::Text("Let me see. ".to_owned()),
            Delta::ToolCallStarted { index: 0, id: format!("call-{name}"), name: name.to_owned() },
            Delta::ToolCallArguments { index: 0, fragment: arguments.to_string() },
            Delta::Finished(FinishReason::ToolCalls),
        ];
        Box::pin(futures_util::stream::iter(deltas.map(Ok)))
    }
}

struct RunTests(Arc<ToolSpec>);

impl Tool for RunTests {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _ctx: ToolCtx, _args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async { ToolOutcome::ok("12 of 12 tests passed") })
    }
}

#[derive(Default)]
struct Names(Mutex<Vec<&'static str>>);

impl FlowSink for Names {
    fn emit(&self, event: FlowEvent) {
        if let Ok(mut names) = self.0.lock() {
            names.push(event.data.type_name());
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("checks.yaml");
    std::fs::write(&file, DOCUMENT)?;
    let run_tests = RunTests(Arc::new(ToolSpec {
        name: "run_tests".to_owned(),
        description: "Runs all tests.".to_owned(),
        parameters: json!({ "type": "object" }),
        // It changes nothing, so it needs no permission.
        kind: ToolKind::Read,
    }));
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(run_tests)];
    let workflow = load(&file, &LoadOptions::default().with_tools(&tools))?;
    let names = Arc::new(Names::default());

    let outcome = FlowRun::new(workflow, Arc::new(Scripted), "scripted")
        .tools(tools)
        .sink(Arc::clone(&names) as Arc<dyn FlowSink>)
        .run()
        .await?;

    let steps = outcome.by_id();
    assert_eq!(steps["test"].status, StepStatus::Completed);
    let result = steps["test"].result.as_ref().ok_or("no result")?.to_value();
    let mut out = std::io::stdout().lock();
    writeln!(out, "passed={} {}: {}", result["passed"], result["summary"], steps["test"].content.trim())?;
    if let Ok(names) = names.0.lock() {
        writeln!(out, "events: {}", names.join(" "))?;
    }
    Ok(())
}
