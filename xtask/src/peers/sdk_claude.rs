//! `claude-agent-sdk` drives the binary in the `claude` dialect, which it cannot name: in Python with every
//! scenario (`sdk_claude.py`), in TypeScript with those that its own code bears on (`sdk_claude.mjs`).

use std::path::Path;

use tenon_testkit::{Wire, json, reply};

use crate::Failure;
use crate::peers::node;
use crate::peers::python::{self, Dependencies, Packages};
use crate::peers::sdk::{Driver, Scenario};
use crate::peers::sdk_docs;
use crate::peers::sdk_scenarios::{adds, common, runs};
use crate::peers::workspace::{self, Binary};

const PYTHON: Packages = Packages {
    name: "claude-sdk",
    pins: &["claude-agent-sdk==0.2.182"],
    dependencies: Dependencies::InstalledAround("claude-agent-sdk"),
};
const TYPESCRIPT: &[&str] = &["@anthropic-ai/claude-agent-sdk@0.3.325", "zod@4.1.12"];

pub fn run(binary: &Binary) -> Result<(), Failure> {
    let binary = binary.path()?;
    let python = python::with(&PYTHON)?;
    let driver = Driver {
        program: &python,
        file: &workspace::script("sdk_claude.py"),
        name: "sdk_claude_python",
        binary: &binary,
        wire: Wire::Messages,
    };
    let mut scenarios = in_both();
    scenarios.extend(in_python());
    driver.perform(scenarios)?;
    let folder = tempfile::Builder::new().prefix("tenon-snippet-").tempdir()?;
    sdk_docs::run(&python, "claude_agent_sdk", &folder.path().join("snippet.py"), &binary)?;

    let folder = node::with("claude-sdk", TYPESCRIPT)?;
    let file = folder.join("sdk_claude.mjs");
    std::fs::copy(workspace::script("sdk_claude.mjs"), &file)?;
    std::fs::copy(workspace::script("sdk_common.mjs"), folder.join("sdk_common.mjs"))?;
    Driver { program: Path::new("node"), file: &file, name: "sdk_claude_node", ..driver }
        .perform(in_both())?;
    let snippet = folder.join("snippet.mjs");
    sdk_docs::run(Path::new("node"), "@anthropic-ai/claude-agent-sdk", &snippet, &binary)
}

fn in_both() -> Vec<Scenario> {
    let mut scenarios = common();
    scenarios.extend([
        Scenario::new("query", [reply().text("Hello.")], |seen| {
            seen.saw["result"] == "Hello."
                && seen.saw["text"] == json!(["Hello."])
                && seen.saw["version"] == "2.1.0"
        }),
        Scenario::new(
            "structured result",
            [reply().call("c1", "structured_output", json!({"risk": "low"}))],
            |seen| seen.saw["structured"] == json!({"risk": "low"}) && seen.saw["subtype"] == "success",
        ),
        Scenario::new("in-process tool", adds(), |seen| {
            seen.saw["called"] == json!([{"a": 2, "b": 40}]) && seen.told("c1").starts_with("42")
        }),
        Scenario::new("hook", runs("echo hello"), |seen| {
            seen.told("c1").contains("not here")
                && seen.saw["told"] == json!([{"tool": "run_shell_command", "command": "echo hello"}])
                && seen.saw["events"]
                    == json!([["hook_started", "PreToolUse"], ["hook_response", "PreToolUse"]])
        }),
    ]);
    scenarios
}

fn in_python() -> Vec<Scenario> {
    let start = json!({"command": "true", "is_background": true});
    vec![
        Scenario::new(
            "background",
            [reply().call("c1", "run_shell_command", start), reply().text("Started.").repeat(3)],
            |seen| {
                let types = seen.saw["types"].to_string();
                types.contains("TaskStartedMessage") && types.contains("TaskNotificationMessage")
            },
        ),
        Scenario::new(
            "session store",
            [reply().text("Once upon a time."), reply().text("The end.")],
            |seen| {
                seen.saw["result"] == "The end."
                    && seen.saw["same session"] == true
                    && seen.was_sent(1, "Once upon a time.")
            },
        ),
        Scenario::new("control requests", [reply().text("One."), reply().text("Two.")], |seen| {
            seen.saw["mode"] == "bypassPermissions"
                && seen.saw["models"] == json!(["other-model", "test-model"])
                && seen.saw["agents"].to_string().contains("reviewer")
                && seen.saw["servers"] == json!([])
                && seen.saw["rewound"].as_str().is_some_and(|why| !why.is_empty() && why != "done")
        }),
        Scenario::new("flags", [reply().text("Hello.")], |seen| {
            let warned = |flag: &str| seen.saw["warnings"].to_string().matches(flag).count() == 1;
            seen.saw["result"] == "Hello."
                && seen.saw["session"] == "2bec3e94-56aa-43ba-8c6f-8306da3a8564"
                && seen.offered().starts_with(&["read_file".to_owned(), "run_shell_command".to_owned()])
                && warned("--betas")
                && warned("--task-budget")
        }),
    ]
}
