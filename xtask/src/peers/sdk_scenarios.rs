//! What every SDK is put through in the same way, and what the model says in it. What only one of them can do is in the
//! file of that one.

use tenon_testkit::{Reply, Value, json, reply};

use crate::peers::sdk::Scenario;

pub fn common() -> Vec<Scenario> {
    vec![
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
    ]
}

/// A file is to be written, and then it is over.
fn writes() -> [Reply; 2] {
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
fn stopped_in_mid_answer() -> [Reply; 2] {
    let words = (0..20).map(|number| format!("{number} "));
    [reply().text_chunks(words).hang_after_events(9), reply().text("Still here.")]
}

fn asked_once(saw: &Value, tool: &str) -> bool {
    saw["asked"].as_array().is_some_and(|asked| asked.len() == 1 && asked[0]["tool"] == tool)
}
