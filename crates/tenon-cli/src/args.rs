//! The command line. What a flag means together with others is decided in `usage.rs`.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use tenon_core::SandboxMode;

use crate::effort::{EffortFlag, ThinkingFlag};

const EXAMPLES: &str = "\
Examples:
  tenon -p \"Summarise the last commit\" --json-schema @summary.json
  git diff | tenon -p \"Audit this diff\" --json-schema '{\"type\":\"object\",\"properties\":{\"risk\":{\"enum\":[\"low\",\"high\"]}},\"required\":[\"risk\"]}'
  tenon schema check @summary.json

Exit codes: 0 success, 1 the run failed, 2 usage, 41 credentials, 42 input, 44 sandbox, 52 configuration or schema,
53 turn limit, 55 budget, 130/143 interrupted.";

/// A headless agent runtime: a prompt and a JSON Schema in, a payload that fits the schema out.
#[derive(Debug, Parser)]
#[command(name = "tenon", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a schema, or print the JSON Schema of our own output
    Schema {
        #[command(subcommand)]
        command: SchemaCommand,
    },
    /// Run, check and draw workflows, documents of many agents
    Flow {
        #[command(subcommand)]
        command: crate::flow_args::FlowCommand,
    },
    /// Plan a workflow for a goal, show the plan, and run it
    #[command(
        override_usage = "tenon goal [OPTIONS] TEXT...",
        help_template = crate::flow_help::GOAL,
        mut_args(crate::flow_help::of_run)
    )]
    Goal(Box<crate::goal_args::GoalArgs>),
    /// List, show or delete what earlier runs left to be resumed
    Sessions {
        /// The sessions of this folder
        #[arg(short = 'C', long, value_name = "DIR", global = true)]
        cwd: Option<PathBuf>,
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// The weights of the embedded model
    #[cfg(feature = "local")]
    Local {
        #[command(subcommand)]
        command: crate::local_command::LocalCommand,
    },
    /// Let this project's settings do more than tighten
    Trust {
        /// Say whether the project is trusted, and change nothing
        #[arg(long, conflicts_with = "remove")]
        show: bool,
        /// Trust it no longer
        #[arg(long)]
        remove: bool,
    },
    /// Show the MCP servers of this project, or be one
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// Say what works on this machine, and what to do about the rest
    Doctor {
        /// Also write a report without secrets, to attach to a question
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "tenon-report.json")]
        report: Option<PathBuf>,
    },
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// Print the manual page
    Man,
}

#[derive(Debug, Subcommand)]
pub enum SchemaCommand {
    /// Is this schema a contract? Exit 0 if it is, 52 if not
    Check {
        /// The schema: JSON, `@FILE`, or a file's path
        schema: String,
    },
    /// Print the JSON Schema of a dialect's output, of the lines it reads, or of a format of workflows
    Print {
        #[arg(value_enum, value_name = "FORMAT")]
        format: PublishedFormat,
        /// Of a client's lines (`--input-format stream-json`)
        #[arg(long)]
        input: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List the sessions of this folder, the latest first
    List {
        /// Those of all folders
        #[arg(long)]
        all: bool,
        /// As a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Print a conversation
    Show {
        /// The id, the title, or the beginning of either
        session: String,
        /// The records as they are stored, one JSON object on each line
        #[arg(long)]
        json: bool,
    },
    /// Delete sessions and the outputs kept with them
    Delete {
        /// Ids, titles, or the beginnings of either
        #[arg(required_unless_present = "older_than")]
        sessions: Vec<String>,
        /// Those not written for so long: `30d`, `12h`
        #[arg(long, value_name = "AGE")]
        older_than: Option<String>,
        /// With `--older-than`: in all folders
        #[arg(long, requires = "older_than")]
        all: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Start the MCP servers that settings and flags name, and list their tools. Exit 1 if one fails
    List {
        /// One JSON object instead of lines for people
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        run: Box<RunArgs>,
    },
    /// Serve runs to other agents over MCP, on stdin and stdout
    Serve {
        #[command(flatten)]
        run: Box<RunArgs>,
    },
}

#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The prompt; `-` reads it from stdin
    #[arg(value_name = "PROMPT")]
    pub words: Vec<String>,

    /// The prompt. Piped stdin is put before it
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Input")]
    pub prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt", help_heading = "Input")]
    pub prompt_file: Option<PathBuf>,
    /// What to do with stdin when a prompt was given
    #[arg(long, value_enum, default_value_t = StdinMode::Auto, help_heading = "Input")]
    pub stdin: StdinMode,
    /// Take the prompt as it is: no `/command`, no `@file`
    #[arg(long, help_heading = "Input")]
    pub literal_prompt: bool,
    /// Commands that are not carried out, such as `clear,git:commit`
    #[arg(long, value_name = "NAMES", help_heading = "Input")]
    pub disabled_slash_commands: Vec<String>,
    /// How stdin is read
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = "Input")]
    pub input_format: InputFormat,

    /// The schema the final answer must fit: JSON or `@FILE`
    #[arg(long, value_name = "JSON|@FILE", allow_hyphen_values = true, help_heading = "Contract")]
    pub json_schema: Option<String>,
    /// Rejected answers that may be followed by another try (-1: no limit) [default: 10]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Contract")]
    pub max_schema_retries: Option<i64>,
    /// Reminders for a model that stops without handing in an answer
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Contract")]
    pub schema_nudge: u32,
    /// How the schema is put to the model [default: tool]
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Contract")]
    pub schema_mode: Option<SchemaMode>,

    /// What is printed on stdout [default: text]
    #[arg(short, long, value_name = "FORMAT", value_enum, help_heading = "Output")]
    pub output_format: Option<OutputFormat>,
    /// Whose wire format the JSON is in [default: qwen] [env: TENON_DIALECT]
    #[arg(long, value_enum, help_heading = "Output")]
    pub dialect: Option<DialectName>,
    /// Tell where terminal sequences stood in the model's text, in the `openai` dialect
    #[arg(long, help_heading = "Output")]
    pub raw_ansi: bool,
    /// Stream the answer in pieces; needs `--output-format stream-json`
    #[arg(long, help_heading = "Output")]
    pub include_partial_messages: bool,
    /// Tell in the stream which hooks ran; needs `--output-format stream-json`
    #[arg(long, help_heading = "Output")]
    pub include_hook_events: bool,
    /// `off` leaves the payload's text out of a structured result, which carries it as a value anyway
    #[arg(long, value_enum, default_value_t = Switch::On, help_heading = "Output")]
    pub result_text: Switch,
    /// Also write the payload or final text to a file, whole or not at all
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub result_file: Option<PathBuf>,
    /// A sign of life every so many seconds
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Output")]
    pub heartbeat: Option<u64>,
    /// What the caller is called in the first line of a stream and in telemetry
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub channel: Option<String>,
    /// A line on stderr for every tool call and request
    #[arg(long, help_heading = "Output", conflicts_with = "quiet")]
    pub verbose: bool,
    /// Only errors on stderr
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Accepted for scripts; there is no colour to turn off
    #[arg(long, help_heading = "Output")]
    pub no_color: bool,

    /// The model, as `PROVIDER/MODEL` or a bare name [env: TENON_MODEL]
    #[arg(short, long, help_heading = "Model")]
    pub model: Option<String>,
    /// The model to ask when the one before it is rate-limited or overloaded (up to 3)
    #[arg(long, value_name = "MODEL", value_delimiter = ',', help_heading = "Model")]
    pub fallback_model: Vec<String>,
    /// How much work the model puts into its answers
    #[arg(long, value_name = "LEVEL", help_heading = "Model")]
    pub effort: Option<EffortFlag>,
    /// Whether the model thinks before it answers
    #[arg(long, value_name = "MODE", help_heading = "Model")]
    pub thinking: Option<ThinkingFlag>,
    /// How long the model thinks at most, in tokens (0: not at all)
    #[arg(long, value_name = "N", conflicts_with = "thinking", help_heading = "Model")]
    pub max_thinking_tokens: Option<u64>,
    /// The provider's address; for the OpenAI protocols with `/v1`
    #[arg(long, value_name = "URL", alias = "openai-base-url", help_heading = "Model")]
    pub base_url: Option<String>,
    /// The environment variable that holds the key
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub api_key_env: Option<String>,
    /// The provider, for callers that name it apart from the model
    #[arg(long, value_name = "PROVIDER", help_heading = "Model")]
    pub auth_type: Option<String>,
    /// A proxy for requests beyond loopback [env: HTTPS_PROXY]
    #[arg(long, value_name = "URL", help_heading = "Model")]
    pub proxy: Option<String>,
    /// Write the model traffic to a cassette (it holds prompts and file contents, and never a key)
    #[arg(long, value_name = "FILE", conflicts_with = "replay", help_heading = "Model")]
    pub record: Option<PathBuf>,
    /// Answer from a cassette instead of a model
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub replay: Option<PathBuf>,
    /// Replace the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Model")]
    pub system_prompt: Option<String>,
    /// Replace the system prompt by a file's text
    #[arg(long, value_name = "FILE", conflicts_with = "system_prompt", help_heading = "Model")]
    pub system_prompt_file: Option<PathBuf>,
    /// Add to the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Model")]
    pub append_system_prompt: Option<String>,

    /// What may be done without asking: plan, default, auto-edit, yolo
    #[arg(long, value_name = "MODE", alias = "permission-mode", help_heading = "Tools")]
    pub approval_mode: Option<String>,
    /// Allow everything that no rule denies
    #[arg(short, long, visible_alias = "dangerously-skip-permissions", help_heading = "Tools")]
    pub yolo: bool,
    /// Rules for calls that need no asking, such as `write_file` or `Edit(src/**)`
    #[arg(long, value_name = "RULES", alias = "allowedTools", help_heading = "Tools")]
    pub allowed_tools: Vec<String>,
    /// Rules for calls that are refused; a whole tool is not even offered
    #[arg(long, value_name = "RULES", aliases = ["disallowedTools", "disallowed-tools"], help_heading = "Tools")]
    pub exclude_tools: Vec<String>,
    /// Offer only these built-in tools
    #[arg(long, value_name = "NAMES", alias = "tools", help_heading = "Tools")]
    pub core_tools: Vec<String>,
    /// Only read_file, edit and run_shell_command; no settings, no memory
    #[arg(long, help_heading = "Tools")]
    pub bare: bool,
    /// No hooks, MCP servers, commands, skills or memory files
    #[arg(long, help_heading = "Tools")]
    pub safe_mode: bool,
    /// Confine shell commands: as far as the kernel can, not at all, or fully or not run at all
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "auto",
        value_parser = clap::builder::PossibleValuesParser::new(SandboxMode::NAMES)
            .map(|name| SandboxMode::parse(&name).unwrap_or_default()),
        help_heading = "Tools"
    )]
    pub sandbox: Option<SandboxMode>,
    /// A denied call makes the run exit 1
    #[arg(long, help_heading = "Tools")]
    pub fail_on_denied: bool,
    /// A command still waited for after so many seconds goes to the background
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Tools")]
    pub promote_after: Option<u64>,
    /// `none`: a call that would need asking is denied, also when a client could be asked; `host`: it is asked
    #[arg(long, value_name = "WHO", help_heading = "Tools")]
    pub permission_prompts: Option<String>,
    /// Who is asked when a call needs approval: `stdio` for the client, or `mcp__SERVER__TOOL`
    #[arg(long, value_name = "WHO", help_heading = "Tools")]
    pub permission_prompt_tool: Option<String>,
    /// Work in this folder
    #[arg(short = 'C', long, value_name = "DIR", help_heading = "Tools")]
    pub cwd: Option<PathBuf>,
    /// Another folder the tools may use
    #[arg(long, value_name = "DIR", alias = "include-directories", help_heading = "Tools")]
    pub add_dir: Vec<PathBuf>,

    /// More MCP servers: a file, or JSON
    #[arg(long, value_name = "FILE|JSON", help_heading = "Tools")]
    pub mcp_config: Vec<String>,
    /// Only the MCP servers of `--mcp-config`
    #[arg(long, help_heading = "Tools")]
    pub strict_mcp_config: bool,
    /// Only the MCP servers of these names
    #[arg(long, value_name = "NAMES", help_heading = "Tools")]
    pub allowed_mcp_server_names: Vec<String>,

    /// Model requests (-1: no limit) [default: 100]
    #[arg(
        long,
        value_name = "N",
        alias = "max-turns",
        allow_negative_numbers = true,
        help_heading = "Limits"
    )]
    pub max_session_turns: Option<i64>,
    /// Tool calls (-1: no limit) [default: -1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Limits")]
    pub max_tool_calls: Option<i64>,
    /// Time, such as 90, 30s, 5m or 1h (-1: no limit) [default: -1]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Limits")]
    pub max_wall_time: Option<String>,
    /// Dollars, sub-agents included (-1: no limit) [default: -1]
    #[arg(long, value_name = "USD", allow_negative_numbers = true, help_heading = "Limits")]
    pub max_budget_usd: Option<f64>,

    /// How deep agents may have agents of their own (1 to 100) [default: 5]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_subagent_depth: Option<u32>,

    /// More settings: a file, or JSON
    #[arg(long, value_name = "FILE|JSON", help_heading = "Settings")]
    pub settings: Option<String>,
    /// Which settings files are read: user, project (empty: none)
    #[arg(long, value_name = "LIST", help_heading = "Settings")]
    pub setting_sources: Option<String>,
    /// Trust this project's settings for this run
    #[arg(long, help_heading = "Settings")]
    pub trust_project: bool,

    /// Go on with the latest session of this folder
    #[arg(short, long = "continue", conflicts_with = "resume", help_heading = "Session")]
    pub continue_last: bool,
    /// Go on with a session: its id, its title, or the beginning of either
    #[arg(short, long, value_name = "ID|TITLE", num_args = 0..=1, help_heading = "Session")]
    pub resume: Option<Option<String>>,
    /// Go on in a copy, and leave the session as it is; needs `--continue` or `--resume`
    #[arg(long, help_heading = "Session")]
    pub fork_session: bool,
    /// The id of a new session
    #[arg(long, value_name = "UUID", help_heading = "Session")]
    pub session_id: Option<String>,
    /// Keep nothing on disk; large tool outputs go to a private folder that is removed at the end
    #[arg(long, alias = "no-session-persistence", help_heading = "Session")]
    pub no_session: bool,
    /// Also write every record of the session as a line, for a client that keeps sessions itself
    #[arg(long, help_heading = "Session")]
    pub session_mirror: bool,

    #[command(flatten)]
    pub later: LaterArgs,
}

/// Flags that exist elsewhere or come later. Each is refused, or accepted with a warning, by `usage.rs`;
/// none is silently ignored.
#[derive(Clone, Debug, Args)]
pub struct LaterArgs {
    #[arg(short = 'i', long, hide = true, allow_hyphen_values = true)]
    pub prompt_interactive: Option<String>,
    #[arg(long, hide = true, alias = "experimental-acp")]
    pub acp: bool,
    #[arg(long, hide = true)]
    pub resume_session_at: Option<String>,
    #[arg(long, hide = true)]
    pub resume_drops_turn: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1)]
    pub worktree: Option<Option<String>>,
    #[arg(long, hide = true)]
    pub insecure: bool,
    #[arg(long, hide = true)]
    pub openai_api_key: Option<String>,
    #[arg(long, hide = true)]
    pub betas: Vec<String>,
    #[arg(short = 'e', long, hide = true)]
    pub extensions: Vec<String>,
    #[arg(long, hide = true)]
    pub plugin_dir: Vec<String>,
    #[arg(long, hide = true)]
    pub plugin_dir_no_mcp: Vec<String>,
    #[arg(long, hide = true)]
    pub task_budget: Option<String>,
    #[arg(long, hide = true)]
    pub thinking_display: Option<String>,
    #[arg(long, hide = true)]
    pub allow_dangerously_skip_permissions: bool,
    #[arg(long, hide = true)]
    pub debug: bool,
    #[arg(long, hide = true)]
    pub debug_file: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StdinMode {
    /// Read it if something comes at once
    Auto,
    /// Read it to its end, however long that takes
    Wait,
    /// Do not look at it
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    /// The prompt, or what the prompt is about
    Text,
    /// A client's messages and control requests, one per line
    StreamJson,
    /// The same
    StreamChunkJson,
}

impl InputFormat {
    pub fn name(self) -> &'static str {
        match self {
            InputFormat::Text => "text",
            InputFormat::StreamJson => "stream-json",
            InputFormat::StreamChunkJson => "stream-chunk-json",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The payload or final text, and nothing else
    Text,
    /// One JSON array of all messages
    Json,
    /// One JSON message per line, as they come
    StreamJson,
    /// One piece of a message per line; of the `openai` dialect
    StreamChunkJson,
}

/// What has a published schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PublishedFormat {
    Qwen,
    Claude,
    Gemini,
    Openai,
    /// The events of `tenon flow run -o stream-json`
    FlowEvents,
    /// Workflow documents, for editors
    FlowDocument,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DialectName {
    Qwen,
    Claude,
    Gemini,
    Openai,
}

impl From<DialectName> for tenon_wire::Dialect {
    fn from(name: DialectName) -> tenon_wire::Dialect {
        match name {
            DialectName::Qwen => tenon_wire::Dialect::Qwen,
            DialectName::Claude => tenon_wire::Dialect::Claude,
            DialectName::Gemini => tenon_wire::Dialect::Gemini,
            DialectName::Openai => tenon_wire::Dialect::OpenAi,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaMode {
    /// As a tool whose arguments are the answer
    Tool,
    /// As the form of the answer's text, for servers whose models cannot call tools
    ResponseFormat,
    /// As a tool, until the model answers a forced call with text
    Auto,
}

impl From<SchemaMode> for tenon_agent::SchemaMode {
    fn from(mode: SchemaMode) -> tenon_agent::SchemaMode {
        match mode {
            SchemaMode::Tool => tenon_agent::SchemaMode::Tool,
            SchemaMode::ResponseFormat => tenon_agent::SchemaMode::ResponseFormat,
            SchemaMode::Auto => tenon_agent::SchemaMode::Auto,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}
