//! A tool of a server, as the model is offered it.

use std::sync::Arc;

use tenon_core::{Args, BoxFut, Tool, ToolCtx, ToolOutcome, ToolSpec};

use super::listing::Listed;
use super::server::Server;

pub(super) struct McpTool {
    spec: Arc<ToolSpec>,
    listed: Listed,
    server: Arc<Server>,
}

impl McpTool {
    pub fn new(server: Arc<Server>, listed: Listed) -> McpTool {
        McpTool { spec: Arc::new(listed.spec.clone()), listed, server }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { self.server.call_tool(&self.listed, &ctx, args).await })
    }
}
