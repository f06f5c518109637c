//! `@qwen-code/sdk` drives the binary in the `qwen` dialect. The script is `sdk_qwen.mjs`.

use std::path::Path;

use tenon_testkit::{Reply, Value, Wire, json, reply};

use crate::Failure;
use crate::peers::node;
use crate::peers::sdk::{Driver, Scenario};
use crate::peers::sdk_docs;
use crate::peers::workspace::{self, Binary};

const SDK: &[&str] = &["@qwen-code/sdk@0.1.14", "zod@3.25.76"];

pub fn run(binary: &Binary) -> Result<(), Failure> {
    let binary = binary.path()?;
    let folder = node::with("qwen-sdk", SDK)?;
    // Beside the packages, so that it finds them as a user's program would.
    let file = folder.join("sdk_qwen.mjs");
    std::fs::copy(workspace::script("sdk_qwen.mjs"), &file)?;
    let driver = Driver {
        program: Path::new("node"),
        file: &file,
        name: "sdk_qwen",
        binary: &binary,
        wire: Wire::Chat,
    };
    driver.perform(scenarios())?;
    sdk_docs::run(Path::new("node"), "@qwen-code/sdk", &folder.join("snippet.mjs"), &binary)
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("query", [reply().text("Hello.")], |seen| {
            seen.saw["result"] == "Hello."
                && seen.saw["text"] == json!(["Hello."])
                && seen.saw["channel"] == "SDK"
        }),
        Scenario::new("two turns", [reply().text("One."), reply().text("Two.")], |seen| {
            seen.saw["results"] == json!(["One.", "Two."]) && seen.was_sent(1, "first")
        }),
        Scenario::new("allowed", writes(), |seen| {
            seen.file("a.txt").as_deref() == Some("as asked\n") && asked_once(seen.saw, "write_file")
        }),
        Scenario::new("changed", writes(), |seen| seen.file("a.txt").as_deref() == Some("changed\n")),
        Scenario::new("denied", writes(), |seen| {
            seen.file("a.txt").is_none()
                && seen.told("c1").contains("not today")
                && seen.saw["denials"][0]["tool_name"] == "write_file"
        }),
        Scenario::new("interrupt", stopped_in_mid_answer(), |seen| {
            seen.saw["stopped"]["is_error"] == true && seen.saw["after"] == "Still here."
        }),
        Scenario::new("partial messages", [reply().text_chunks(["Hel", "lo", "."])], |seen| {
            seen.saw["deltas"] == json!(["Hel", "lo", "."]) && seen.saw["text"] == json!(["Hello."])
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

/// A file is to be written, and then it is over.
pub fn writes() -> [Reply; 2] {
    let input = json!({"file_path": "a.txt", "content": "as asked\n"});
    [reply().call("c1", "write_file", input), reply().text("Done.")]
}

/// A command is to be run, and then it is over.
pub fn runs(command: &str) -> [Reply; 2] {
    [reply().call("c1", "run_shell_command", json!({"command": command})), reply().text("Done.")]
}

/// A tool in the process of the SDK's user is to be called, and then it is over.
pub fn adds() -> [Reply; 2] {
    [reply().call("c1", "mcp__calc__add", json!({"a": 2, "b": 40})), reply().text("Done.")]
}

/// An answer that never ends, and the one to the turn after it.
pub fn stopped_in_mid_answer() -> [Reply; 2] {
    let words = (0..20).map(|number| format!("{number} "));
    [reply().text_chunks(words).hang_after_events(9), reply().text("Still here.")]
}

pub fn asked_once(saw: &Value, tool: &str) -> bool {
    saw["asked"].as_array().is_some_and(|asked| asked.len() == 1 && asked[0]["tool"] == tool)
}

fn refusing_hook() -> Value {
    let command = "echo 'not here' >&2; exit 2";
    json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}})
}
