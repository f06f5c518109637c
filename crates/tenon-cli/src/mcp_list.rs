//! `tenon mcp list`: the servers that settings and flags name, whether they come up, and their tools.
//! Exit 1 if one does not.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_core::{ErrorClass, Failure, McpStatus, NoClient, Secrets};
use tenon_tools::{McpReport, OutputStore};

use crate::args::RunArgs;
use crate::manual::print;
use crate::mcp::{self, Mcp, Started};
use crate::stderr::Reporter;
use crate::usage::UsageError;
use crate::{run, surroundings};

pub fn main(args: &RunArgs, as_json: bool) -> u8 {
    if let Some(word) = args.words.first() {
        return run::usage_error(&UsageError::new(format!("`tenon mcp list` does not take `{word}`")));
    }
    let reporter = run::reporter(args);
    let listed = run::runtime().and_then(|runtime| {
        let listed = runtime.block_on(list(args, reporter));
        runtime.shutdown_background();
        listed
    });
    let servers = match listed {
        Ok(servers) => servers,
        Err(failure) => {
            reporter.failure(&failure);
            return failure.exit_code();
        }
    };
    let text = if as_json { json_text(&servers) } else { table(&servers) };
    match print(text.as_bytes()) {
        0 if servers.iter().any(|server| server.status == McpStatus::Failed) => {
            tenon_core::exit_code(ErrorClass::Tool)
        }
        code => code,
    }
}

async fn list(args: &RunArgs, reporter: Reporter) -> Result<Vec<McpReport>, Failure> {
    let here = surroundings::collect(args.cwd.as_deref());
    let loaded = run::load_settings(args, &here)?;
    let mut warnings = loaded.warnings.clone();
    let servers = mcp::configured(args, &loaded.settings, &here, &surroundings::started_in(), &mut warnings)?;
    warnings.iter().for_each(|warning| reporter.warn(warning));
    let folder = here.cwd.canonicalize().unwrap_or_else(|_| here.cwd.clone());
    let mcp = Mcp::start(
        servers,
        Started {
            args,
            settings: &loaded.settings,
            here: &here,
            folder: &folder,
            outputs: OutputStore::none(),
            client: Arc::new(NoClient),
            trace: None,
            secrets: Secrets::default(),
            reporter,
            offer: Arc::new(|_| true),
        },
    );
    let reports = mcp.settled(&loaded.settings).await;
    mcp.stop().await;
    Ok(reports)
}

fn status(server: &McpReport) -> &'static str {
    match server.status {
        McpStatus::Disabled => "disabled",
        McpStatus::Connected => "connected",
        McpStatus::Starting | McpStatus::Failed => "failed",
    }
}

fn json_text(servers: &[McpReport]) -> String {
    let servers: Vec<Value> = servers
        .iter()
        .map(|server| {
            json!({
                "name": server.name, "transport": server.transport, "status": status(server),
                "problem": server.problem, "tools": server.tools,
            })
        })
        .collect();
    format!("{}\n", json!({ "servers": servers }))
}

fn table(servers: &[McpReport]) -> String {
    if servers.is_empty() {
        return "no MCP servers are configured\n".to_owned();
    }
    let mut text = String::new();
    for server in servers {
        let problem = server.problem.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        text.push_str(&format!("{} ({}) {}{problem}\n", server.name, server.transport, status(server)));
        for tool in &server.tools {
            text.push_str(&format!("  {tool}\n"));
        }
    }
    text
}
