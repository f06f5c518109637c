//! How a server of tools is reached and what of it is used. Read from settings by `tenon-config`, acted on by
//! `tenon-tools`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// One entry of `mcpServers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerConfig {
    pub connection: McpConnection,
    /// How long an answer may take, signs of progress aside. `None` is the default of the settings.
    pub timeout: Option<Duration>,
    /// Only these of its tools. `None` is all of them.
    pub include_tools: Option<Vec<String>>,
    /// Not these, whatever else is said.
    pub exclude_tools: Vec<String>,
    pub trust: McpTrust,
    pub state: McpState,
}

/// Whether a server is believed when it says that a tool changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum McpTrust {
    #[default]
    Doubted,
    Believed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum McpState {
    #[default]
    Used,
    Disabled,
}

#[derive(Clone, PartialEq, Eq)]
pub enum McpConnection {
    /// A program that speaks on its stdin and stdout.
    Stdio {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        /// Against the folder of the run.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http { url: String, headers: BTreeMap<String, String> },
    /// Whoever drives the run hosts it.
    Client,
}

impl McpConnection {
    pub fn kind(&self) -> &'static str {
        match self {
            McpConnection::Stdio { .. } => "stdio",
            McpConnection::Http { .. } => "http",
            McpConnection::Client => "client",
        }
    }
}

/// Values of variables and headers may be secrets, and so may arguments and the query of an address.
impl fmt::Debug for McpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            McpConnection::Stdio { command, args, env, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &args.len())
                .field("env", &env.keys().collect::<Vec<_>>())
                .field("cwd", cwd)
                .finish(),
            McpConnection::Http { url, headers } => f
                .debug_struct("Http")
                .field("url", &url.split('?').next().unwrap_or_default())
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .finish(),
            McpConnection::Client => f.write_str("Client"),
        }
    }
}
