//! `@qwen-code/sdk` drives the binary in the `qwen` dialect. The script is `sdk_qwen.mjs`.

use std::path::Path;

use tenon_testkit::{Value, Wire, json, reply};

use crate::Failure;
use crate::peers::node;
use crate::peers::sdk::{Driver, Scenario};
use crate::peers::sdk_docs;
use crate::peers::sdk_scenarios::{adds, common, runs};
use crate::peers::workspace::{self, Binary};

const SDK: &[&str] = &["@qwen-code/sdk@0.1.14", "zod@3.25.76"];

pub fn run(binary: &Binary) -> Result<(), Failure> {
    let binary = binary.path()?;
    let folder = node::with("qwen-sdk", SDK)?;
    // Beside the packages, so that it finds them as a user's program would.
    let file = folder.join("sdk_qwen.mjs");
    std::fs::copy(workspace::script("sdk_qwen.mjs"), &file)?;
    std::fs::copy(workspace::script("sdk_common.mjs"), folder.join("sdk_common.mjs"))?;
    let driver = Driver {
        program: Path::new("node"),
        file: &file,
        name: "sdk_qwen",
        binary: &binary,
        wire: Wire::Chat,
    };
    let mut scenarios = common();
    scenarios.extend(own());
    driver.perform(scenarios)?;
    sdk_docs::run(Path::new("node"), "@qwen-code/sdk", &folder.join("snippet.mjs"), &binary)
}

/// What the others do otherwise.
fn own() -> Vec<Scenario> {
    vec![
        Scenario::new("query", [reply().text("Hello.")], |seen| {
            seen.saw["result"] == "Hello."
                && seen.saw["text"] == json!(["Hello."])
                && seen.saw["channel"] == "SDK"
        }),
        Scenario::new("in-process tool", adds(), |seen| {
            seen.saw["called"] == json!([{"a": 2, "b": 40}]) && seen.told("c1") == "42"
        }),
        Scenario::new("hook", runs("echo hello"), |seen| {
            seen.told("c1").contains("not here") && seen.saw["is_error"] == false
        })
        .settings(refusing_hook()),
        Scenario::new("control requests", [reply().text("Hello.")], |seen| {
            *seen.saw
                == json!({"usage": "other-model", "commands": true, "models": true, "servers": "object"})
        }),
        Scenario::new("flags", [reply().text("Hello.")], |seen| {
            seen.saw["result"] == "Hello."
                && seen.saw["session"] == true
                && seen.saw["warned"] == true
                && seen.was_sent(0, "You are brief.")
        }),
    ]
}

fn refusing_hook() -> Value {
    let command = "echo 'not here' >&2; exit 2";
    json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}})
}
