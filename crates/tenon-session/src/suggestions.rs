//! What a client may offer to a person who is asked about a call: answers, and a change after which calls like it are not
//! asked about. How they are written is `tenon-wire`'s; what a change does is `tenon-tools`'.

use serde_json::Value;
use tenon_core::PermissionAsk;
use tenon_tools::Rule;
use tenon_wire::{Suggestion, Update};

/// As buttons.
pub(crate) fn suggestions(ask: &PermissionAsk) -> Vec<Suggestion> {
    let (label, description) = match ask.tool.as_str() {
        "run_shell_command" | "monitor" => ("Allow command", format!("Run: {}", text(ask, "command"))),
        "edit" | "write_file" => ("Allow edit", format!("Change {}", text(ask, "file_path"))),
        "web_fetch" => ("Allow request", format!("Fetch {}", text(ask, "url"))),
        "exit_plan_mode" => ("Approve plan", "Take the plan as it is".to_owned()),
        tool => ("Allow", format!("Call `{tool}`")),
    };
    let mut answers = vec![
        Suggestion { kind: "allow", label, description },
        Suggestion { kind: "deny", label: "Deny", description: format!("Refuse `{}`", ask.tool) },
    ];
    if matches!(ask.tool.as_str(), "edit" | "write_file") {
        let description = "Allow it with other arguments".to_owned();
        answers.push(Suggestion { kind: "modify", label: "Review changes", description });
    }
    answers
}

/// `None` where nothing of the kind would help.
pub(crate) fn update(ask: &PermissionAsk) -> Option<Update> {
    let content = match ask.tool.as_str() {
        "edit" | "write_file" => return Some(Update::AutoEdit),
        // These are questions to a person, and each is another one.
        "exit_plan_mode" | "ask_user_question" => return None,
        "run_shell_command" | "monitor" => Some(text(ask, "command").to_owned()),
        "web_fetch" => Some(format!("domain:{}", host(text(ask, "url"))?)),
        _ => None,
    };
    let rule = match &content {
        Some(content) => format!("{}({content})", ask.tool),
        None => ask.tool.clone(),
    };
    // Not every command can be written as a rule.
    Rule::parse(&rule).ok().map(|_| Update::AllowRule { tool: ask.tool.clone(), content })
}

fn text<'a>(ask: &'a PermissionAsk, key: &str) -> &'a str {
    ask.input.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn host(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let host = rest.split(['/', '?', '#']).next()?;
    let host = host.rsplit('@').next()?.split(':').next()?;
    (!host.is_empty()).then_some(host)
}
