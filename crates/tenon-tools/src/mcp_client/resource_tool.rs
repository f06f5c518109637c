//! `read_mcp_resource`: what servers keep for reading, listed or read. Offered once a server has such things.

use std::sync::{Arc, Weak};

use serde_json::json;
use tenon_core::{Args, BoxFut, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};

use super::server::Server;
use super::{Shared, mcp_server_word};
use crate::args::{ArgReader, Refusal, outcome};

pub(super) const NAME: &str = "read_mcp_resource";

pub(super) struct ReadResource {
    spec: Arc<ToolSpec>,
    shared: Weak<Shared>,
}

impl ReadResource {
    pub fn new(shared: Weak<Shared>) -> ReadResource {
        let spec = ToolSpec {
            name: NAME.to_owned(),
            description: "Reads a resource of an MCP server, or lists its resources when no `uri` is given."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "server": { "type": "string", "description": "The server's name, as in the names of its tools." },
                    "uri": { "type": "string", "description": "Which resource. Without it they are listed." }
                },
                "required": ["server"]
            }),
            // A server may do anything to answer.
            kind: ToolKind::Other,
        };
        ReadResource { spec: Arc::new(spec), shared }
    }

    fn server(&self, name: &str) -> Result<Arc<Server>, Refusal> {
        let servers = self.shared.upgrade().map(|shared| shared.servers()).unwrap_or_default();
        let with_resources = || servers.iter().filter(|server| server.seen().has_resources);
        let found =
            with_resources().find(|server| server.name == name || mcp_server_word(&server.name) == name);
        found.cloned().ok_or_else(|| {
            let known: Vec<String> = with_resources().map(|server| format!("`{}`", server.name)).collect();
            Refusal::arguments(format!(
                "No MCP server `{name}` has resources; these have: {}.",
                known.join(", ")
            ))
        })
    }
}

impl Tool for ReadResource {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move {
            let args = ArgReader::new(&self.spec, &args);
            let asked = args.filled_text("server").and_then(|name| self.server(name));
            let asked = asked.and_then(|server| Ok((server, args.optional_text("uri")?)));
            match asked {
                Ok((server, uri)) => server.read_resource(uri.filter(|uri| !uri.is_empty()), &ctx).await,
                Err(refusal) => outcome(Err(refusal)),
            }
        })
    }
}
