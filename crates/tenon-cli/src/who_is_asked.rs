//! Who is asked when a call needs approval: whoever drives the run, a tool of an MCP server
//! (`--permission-prompt-tool`), or nobody (`--permission-prompts none`). Which calls need it is decided by
//! `tenon-tools`; what hooks have to say comes first, in `tenon-agent`.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_core::{
    BoxFut, Cancel, Client, ClientError, ErrorClass, Failure, HookCall, HookReply, JsonRpc, NoClient, NoSink,
    PermissionAsk, PermissionReply, Tool, ToolCtx, ToolErrorKind,
};
use tenon_session::permission_reply;
use tenon_tools::{McpTools, mcp_server_word};

use crate::args::{InputFormat, RunArgs};
use crate::usage::UsageError;

/// The value that means whoever drives the run.
const DRIVER: &str = "stdio";
/// The mode in which another system asks nobody.
const NEVER_ASKS: &str = "dontAsk";

/// The values of `--permission-prompts`: nobody is asked, or whoever drives the run, as without the flag.
const PROMPTS_NOBODY: &str = "none";
const PROMPTS_HOST: &str = "host";

/// Whether whoever drives the run is to be asked, in so many words.
pub fn is_driver(args: &RunArgs) -> bool {
    args.permission_prompt_tool.as_deref() == Some(DRIVER)
}

fn asks_nobody(args: &RunArgs) -> bool {
    args.permission_prompts.as_deref() == Some(PROMPTS_NOBODY)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhoIsAsked<'a> {
    Driver,
    Nobody,
    /// The tool of this name.
    Tool(&'a str),
}

impl<'a> WhoIsAsked<'a> {
    pub fn of(args: &'a RunArgs) -> WhoIsAsked<'a> {
        match args.permission_prompt_tool.as_deref() {
            Some(tool) if tool != DRIVER => WhoIsAsked::Tool(tool),
            _ if asks_nobody(args) => WhoIsAsked::Nobody,
            _ if args.approval_mode.as_deref() == Some(NEVER_ASKS) => WhoIsAsked::Nobody,
            _ => WhoIsAsked::Driver,
        }
    }

    /// A tool of no server could never answer.
    pub fn check<'b>(self, servers: impl IntoIterator<Item = &'b String>) -> Result<(), Failure> {
        let WhoIsAsked::Tool(tool) = self else { return Ok(()) };
        let of_server = |server: &String| tool.starts_with(&format!("mcp__{}__", mcp_server_word(server)));
        if servers.into_iter().any(of_server) {
            return Ok(());
        }
        let message =
            format!("`--permission-prompt-tool {tool}`: there is no MCP server that it could be of");
        Err(Failure::new(ErrorClass::Config, message).hint("name the server with `--mcp-config`"))
    }

    /// The driver, with questions of permission led to whoever is asked.
    pub fn instead_of(self, driver: Arc<dyn Client>, tools: McpTools) -> Arc<dyn Client> {
        match self {
            WhoIsAsked::Driver => driver,
            WhoIsAsked::Tool(name) => {
                Arc::new(Asked { driver, by: Judge::Tool { name: name.to_owned(), tools } })
            }
            WhoIsAsked::Nobody => Arc::new(Asked { driver, by: Judge::Nobody }),
        }
    }
}

/// What the flags alone cannot mean.
pub fn check_flags(args: &RunArgs) -> Result<(), UsageError> {
    let known = |who: &&str| matches!(*who, PROMPTS_NOBODY | PROMPTS_HOST);
    if let Some(other) = args.permission_prompts.as_deref().filter(|who| !known(who)) {
        return Err(UsageError::new(format!("`--permission-prompts {other}` is not known"))
            .hint("`none` asks nobody, `host` whoever drives the run"));
    }
    let Some(tool) = args.permission_prompt_tool.as_deref() else { return Ok(()) };
    if asks_nobody(args) {
        return Err(UsageError::new(
            "`--permission-prompts none` asks nobody, so `--permission-prompt-tool` cannot be used with it",
        ));
    }
    if tool == DRIVER {
        return match args.input_format {
            InputFormat::Text => Err(UsageError::new(
                "`--permission-prompt-tool stdio` needs `--input-format stream-json`: there is nobody to ask",
            )),
            InputFormat::StreamJson | InputFormat::StreamChunkJson => Ok(()),
        };
    }
    let is_tool = tool
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .is_some_and(|(server, tool)| !server.is_empty() && !tool.is_empty());
    if !is_tool {
        return Err(UsageError::new(format!("`--permission-prompt-tool {tool}` names no tool of a server"))
            .hint("it is `stdio`, or `mcp__SERVER__TOOL`"));
    }
    if args.safe_mode {
        return Err(UsageError::new(
            "`--safe-mode` starts no MCP servers, so `--permission-prompt-tool` cannot be one of theirs",
        ));
    }
    Ok(())
}

/// The driver for everything but questions of permission.
struct Asked {
    driver: Arc<dyn Client>,
    by: Judge,
}

enum Judge {
    Nobody,
    Tool { name: String, tools: McpTools },
}

impl Client for Asked {
    fn permission(&self, ask: PermissionAsk, cancel: Cancel) -> BoxFut<'_, PermissionReply> {
        Box::pin(async move {
            match &self.by {
                Judge::Nobody => NoClient.permission(ask, cancel).await,
                Judge::Tool { name, tools } => match tools.get(name) {
                    Some(tool) => ask_tool(&*tool, name, &ask, cancel).await,
                    None => denied(name, "is not there", &ask),
                },
            }
        })
    }

    fn hook(&self, call: HookCall, cancel: Cancel) -> BoxFut<'_, Result<HookReply, ClientError>> {
        self.driver.hook(call, cancel)
    }

    fn mcp(
        &self,
        server: &str,
        message: JsonRpc,
        cancel: Cancel,
    ) -> BoxFut<'_, Result<JsonRpc, ClientError>> {
        self.driver.mcp(server, message, cancel)
    }

    fn unusable_answer(&self, why: String) {
        self.driver.unusable_answer(why);
    }
}

/// How long it may take is the limit for calls of MCP tools.
async fn ask_tool(tool: &dyn Tool, name: &str, ask: &PermissionAsk, cancel: Cancel) -> PermissionReply {
    let question = json!({ "tool_name": ask.tool, "tool_use_id": ask.call_id, "input": ask.input });
    let Value::Object(question) = question else { return denied(name, "could not be asked", ask) };
    let ctx = ToolCtx {
        call_id: format!("permission-{}", ask.call_id),
        cancel,
        client: Arc::new(NoClient),
        sink: Arc::new(NoSink),
        progress: Arc::new(|_| {}),
        tell: Arc::new(|_| {}),
        trace: None,
    };
    let outcome = tool.call(ctx, question).await;
    if outcome.error == Some(ToolErrorKind::Cancelled) {
        return PermissionReply::Withdrawn;
    }
    if outcome.error.is_some() {
        return denied(name, &format!("failed: {}", outcome.content.trim()), ask);
    }
    // Servers may say the same thing twice, as text and as a structure: the first counts.
    let mut values = serde_json::Deserializer::from_str(&outcome.content).into_iter::<Value>();
    match values.next() {
        Some(Ok(answer @ Value::Object(_))) => permission_reply(ask, &answer),
        _ => denied(name, "did not answer with a JSON object", ask),
    }
}

fn denied(name: &str, how: &str, ask: &PermissionAsk) -> PermissionReply {
    let reason = &ask.reason;
    PermissionReply::Deny { message: format!("the permission tool `{name}` {how} (asked because {reason})") }
}
