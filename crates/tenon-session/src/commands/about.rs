//! `/help`, `/stats`, `/tools`, `/mcp` and `/model`: what there is, and which model is asked.

use std::fmt::Write;

use serde_json::json;
use tenon_core::{Failure, McpStatus};

use super::{CommandAnswer, Commands, Desk, Form, ListedCommand, Words, counted, refused, shown};

/// A list of tools is read by people: the first sentence says what one is for.
const SUMMARY_CHARS: usize = 100;

pub(super) fn help(commands: &Commands, words: &Words<'_>) -> Result<CommandAnswer, Failure> {
    let all = commands.list();
    if words.text.is_empty() {
        let mut text = "Commands:\n".to_owned();
        for command in &all {
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {} - {}", usage(command), command.description);
        }
        text.push_str("`@path` puts a file or the names in a folder into the prompt.");
        return Ok(CommandAnswer::message(text));
    }
    let name = words.text.trim_start_matches('/');
    match all.iter().find(|command| command.name == name) {
        Some(command) => Ok(CommandAnswer::message(format!("{}: {}", usage(command), command.description))),
        None => Err(commands.unknown(name)),
    }
}

fn usage(command: &ListedCommand) -> String {
    format!("/{} {}", command.name, command.argument_hint).trim_end().to_owned()
}

pub(super) fn stats(words: &Words<'_>, desk: &dyn Desk) -> Result<CommandAnswer, Failure> {
    words.none()?;
    let stats = desk.stats()?;
    let cost = stats.cost_usd.map_or("unknown".to_owned(), |usd| format!("${usd:.4}"));
    let limit = stats.context_limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    let before = match stats.turns_before {
        0 => String::new(),
        turns => format!("{}; since then ", counted(turns, "earlier turn")),
    };
    Ok(CommandAnswer::message(format!(
        "Session {}, model `{}`: {before}{}, {} input and {} output tokens, cost {cost}. The conversation has {}, \
         about {}{limit} tokens.",
        stats.session_id,
        stats.model,
        counted(stats.turns, "turn"),
        stats.used.input,
        stats.used.output,
        counted(desk.history().len(), "message"),
        stats.context_tokens,
    )))
}

pub(super) fn tools(words: &Words<'_>, desk: &dyn Desk) -> Result<CommandAnswer, Failure> {
    let tools = desk.tools()?;
    if words.text.is_empty() {
        let mut text = format!("{} tools are offered:\n", tools.len());
        for spec in &tools {
            let _ = writeln!(text, "  {} - {}", spec.name, summary(&spec.description));
        }
        return Ok(CommandAnswer::message(text.trim_end()));
    }
    let Some(spec) = tools.iter().find(|spec| spec.name == words.text) else {
        return Err(refused(format!("no tool `{}` is offered", shown(words.text)))
            .hint("`/tools` lists those that are"));
    };
    let tool = json!({ "name": spec.name, "description": spec.description, "parameters": spec.parameters });
    let content = format!("{}: {}\n{}", spec.name, spec.description, spec.parameters);
    Ok(CommandAnswer { form: Form::Tool { tool }, ..CommandAnswer::message(content) })
}

fn summary(description: &str) -> String {
    let line = description.lines().next().unwrap_or_default();
    let sentence = line.split_inclusive(". ").next().unwrap_or(line).trim_end();
    let mut summary: String = sentence.chars().take(SUMMARY_CHARS).collect();
    if summary.len() < sentence.len() {
        summary.push('…');
    }
    summary
}

pub(super) fn mcp(words: &Words<'_>, desk: &dyn Desk) -> Result<CommandAnswer, Failure> {
    words.none()?;
    let servers = desk.mcp_servers()?;
    if servers.is_empty() {
        return Ok(CommandAnswer::message("No MCP servers are configured."));
    }
    let tools = desk.tools()?;
    let mut text = "MCP servers:\n".to_owned();
    for server in &servers {
        let status = match server.status {
            McpStatus::Connected => "connected",
            McpStatus::Starting => "starting",
            McpStatus::Failed => "failed",
            McpStatus::Disabled => "disabled",
        };
        let prefix = format!("mcp__{}__", tenon_tools::mcp_server_word(&server.name));
        let offered = tools.iter().filter(|spec| spec.name.starts_with(&prefix)).count();
        let _ = writeln!(text, "  {} - {status}, {offered} tools", server.name);
    }
    Ok(CommandAnswer::message(text.trim_end()))
}

pub(super) fn model(words: &Words<'_>, desk: &mut dyn Desk) -> Result<CommandAnswer, Failure> {
    if !words.text.is_empty() {
        if words.text.contains(char::is_whitespace) {
            return Err(words.wrong("takes one name"));
        }
        let name = desk.set_model(words.text)?;
        return Ok(CommandAnswer::message(format!("`{name}` is asked from here on.")));
    }
    let models = desk.model()?;
    let mut text = format!("`{}` is asked.", models.current);
    if !models.known.is_empty() {
        let known: Vec<String> = models.known.iter().map(|name| format!("`{name}`")).collect();
        let _ = write!(text, " Others that are known: {}.", known.join(", "));
    }
    let items = std::iter::once(&models.current)
        .chain(&models.known)
        .map(|name| ListedCommand {
            name: name.clone(),
            description: if *name == models.current { "asked now".to_owned() } else { String::new() },
            argument_hint: String::new(),
        })
        .collect();
    Ok(CommandAnswer { form: Form::Dialog { dialog: "model", items }, ..CommandAnswer::message(text) })
}
