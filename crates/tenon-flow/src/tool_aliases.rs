//! The tool names of version-1 documents, with their parameters, as other names of ours.
//!
//! A document may list `bash` among its tools, and a model may call it: both mean our tool. The model is offered our
//! names only. `glob` has the same name and parameter in both. `search` and `execute_command` stand in published documents of
//! that version without parameters of their own.

use serde_json::Value;
use tenon_core::Args;
use tenon_tools::{Alias, denied_with, own_tool_name};

pub const VERSION_1_TOOLS: [Alias; 6] = [
    Alias { name: "bash", tool: "run_shell_command", arguments: bash },
    Alias { name: "read", tool: "read_file", arguments: path_to_file_path },
    Alias { name: "write", tool: "write_file", arguments: path_to_file_path },
    Alias { name: "grep", tool: "grep_search", arguments: grep },
    Alias { name: "search", tool: "grep_search", arguments: query_to_pattern },
    Alias { name: "execute_command", tool: "run_shell_command", arguments: bash },
];

/// Our name of a tool that a document lists.
pub fn own_name(name: &str) -> &str {
    let older = VERSION_1_TOOLS.iter().find(|alias| alias.name == name);
    older.map_or_else(|| own_tool_name(name), |alias| alias.tool)
}

/// Whether a list of denied tools takes this one away. The format knows one tool that runs commands and one that writes, so
/// who denies it denies what it does: all of our tools that run commands, all that change files.
pub(crate) fn is_denied(denied: &[String], tool: &str, of_run: &[String]) -> bool {
    denied.iter().any(|name| match meant(name, of_run) {
        "write_file" => denied_with("edit", tool),
        name => name == tool || denied_with(name, tool),
    })
}

/// The tool that a document means that lists this name: one of the run that is called so, or else ours.
pub(crate) fn meant<'a>(name: &'a str, of_run: &[String]) -> &'a str {
    if of_run.iter().any(|own| own == name) { name } else { own_name(name) }
}

/// `timeout_seconds` is ours in milliseconds, and `working_directory` is `directory`.
fn bash(mut args: Args) -> Args {
    if let Some(seconds) = args.shift_remove("timeout_seconds") {
        let ms = seconds.as_f64().map(|seconds| seconds * 1000.0).filter(|ms| *ms >= 0.0);
        // What is no number is told as it came.
        args.insert("timeout".to_owned(), ms.map_or(seconds, |ms| Value::from(ms.round() as u64)));
    }
    renamed(args, "working_directory", "directory")
}

fn path_to_file_path(args: Args) -> Args {
    renamed(args, "path", "file_path")
}

fn query_to_pattern(args: Args) -> Args {
    renamed(args, "query", "pattern")
}

/// Without `regex`, the pattern is plain text.
fn grep(mut args: Args) -> Args {
    let is_regex = args.shift_remove("regex").is_some_and(|regex| regex == Value::Bool(true));
    if let Some(Value::String(pattern)) = args.get_mut("pattern").filter(|_| !is_regex) {
        *pattern = regex::escape(pattern);
    }
    args
}

fn renamed(mut args: Args, from: &str, to: &str) -> Args {
    if !args.contains_key(to)
        && let Some(value) = args.shift_remove(from)
    {
        args.insert(to.to_owned(), value);
    }
    args
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_of_version_1_are_ours() {
        let table = [
            (
                "bash",
                json!({"command": "ls", "timeout_seconds": 2, "working_directory": "/w"}),
                json!({"command": "ls", "timeout": 2000, "directory": "/w"}),
            ),
            ("bash", json!({"command": "ls"}), json!({"command": "ls"})),
            (
                "bash",
                json!({"command": "ls", "timeout_seconds": "x"}),
                json!({"command": "ls", "timeout": "x"}),
            ),
            ("read", json!({"path": "a"}), json!({"file_path": "a"})),
            ("read", json!({"file_path": "a"}), json!({"file_path": "a"})),
            ("write", json!({"path": "a", "content": "b"}), json!({"content": "b", "file_path": "a"})),
            (
                "grep",
                json!({"pattern": "a.b(c) d", "path": "."}),
                json!({"pattern": "a\\.b\\(c\\) d", "path": "."}),
            ),
            (
                "grep",
                json!({"pattern": "a.b", "path": ".", "regex": true}),
                json!({"pattern": "a.b", "path": "."}),
            ),
            ("search", json!({"query": "a.b"}), json!({"pattern": "a.b"})),
            ("search", json!({"pattern": "a.b", "path": "."}), json!({"pattern": "a.b", "path": "."})),
            (
                "execute_command",
                json!({"command": "ls", "timeout_seconds": 1}),
                json!({"command": "ls", "timeout": 1000}),
            ),
        ];
        for (name, given, wanted) in table {
            let alias = VERSION_1_TOOLS.iter().find(|alias| alias.name == name).unwrap();
            let Value::Object(given) = given else { unreachable!() };
            assert_eq!(Value::Object((alias.arguments)(given)), wanted, "{name}");
        }
        assert_eq!((own_name("bash"), own_name("glob")), ("run_shell_command", "glob"));
        let of_run = ["search".to_owned(), "grep_search".to_owned()];
        assert_eq!((meant("search", &of_run), meant("search", &of_run[1..])), ("search", "grep_search"));
    }

    #[test]
    fn a_denied_name_takes_along_what_can_do_the_same() {
        let table: [(&str, &[&str]); 11] = [
            ("execute_command", &["run_shell_command", "monitor"]),
            ("bash", &["run_shell_command", "monitor"]),
            ("Bash", &["run_shell_command", "monitor"]),
            ("run_shell_command", &["run_shell_command", "monitor"]),
            ("monitor", &["monitor"]),
            ("write", &["write_file", "edit"]),
            ("write_file", &["write_file", "edit"]),
            ("edit", &["write_file", "edit"]),
            // The format has names of their own for searching.
            ("read", &["read_file"]),
            ("mcp__git", &["mcp__git__log"]),
            ("mcp__git__push", &[]),
        ];
        let tools = [
            "run_shell_command",
            "monitor",
            "write_file",
            "edit",
            "read_file",
            "grep_search",
            "mcp__git__log",
        ];
        for (denied, gone) in table {
            let denied = [denied.to_owned()];
            let found: Vec<&str> = tools.into_iter().filter(|tool| is_denied(&denied, tool, &[])).collect();
            let wanted: Vec<&str> = tools.into_iter().filter(|tool| gone.contains(tool)).collect();
            assert_eq!(found, wanted, "{denied:?}");
        }
    }
}
