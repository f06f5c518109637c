//! What a tool is, what it is given and what it answers.

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use crate::{Cancel, Client, EventKind, EventSink, LeftBehind, Media, SeenFile, ToolDisplay, TraceContext};

/// How a tool is described to the model and to the permission rules.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, sent to the model as it is.
    pub parameters: Value,
    pub kind: ToolKind,
}

/// What a call can do, as far as permissions and scheduling care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Changes nothing: may run beside others, allowed in every mode.
    Read,
    /// Changes files.
    Edit,
    /// Runs programs.
    Execute,
    /// Anything else that has an effect.
    Other,
}

/// The arguments of a call, already parsed. `updated` by a hook or client, they are no longer the text
/// the model wrote, so tools see values only.
pub type Args = Map<String, Value>;

/// What a tool gets besides its arguments.
#[derive(Clone)]
pub struct ToolCtx {
    pub call_id: String,
    pub cancel: Cancel,
    /// Whoever drives the run, for tools that ask.
    pub client: Arc<dyn Client>,
    /// Where the run's events go, for tools that run agents of their own.
    pub sink: Arc<dyn EventSink>,
    pub progress: Arc<dyn Fn(ToolProgress) + Send + Sync>,
    /// Says something as the run itself: a warning, say.
    pub tell: Arc<dyn Fn(EventKind) + Send + Sync>,
    /// The call's place in a distributed trace, for what the tool starts: `TraceContext::variables` for a process,
    /// `TraceContext::agent` for an agent.
    pub trace: Option<TraceContext>,
}

/// Signs of life of a tool that takes long.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolProgress {
    Shell {
        elapsed_ms: u64,
        last_output_age_ms: Option<u64>,
        total_lines: u64,
        total_bytes: u64,
        timeout_ms: u64,
    },
    /// A tool server says how far it is.
    Steps { progress: Number, total: Option<Number>, message: Option<String> },
}

/// What came of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutcome {
    /// What the model reads.
    pub content: String,
    /// What the model sees with it. Clients are told of it in `content`.
    pub media: Vec<Media>,
    /// What clients are shown, where that is better than `content`.
    pub display: Option<String>,
    /// What clients that draw more than text are shown.
    pub drawing: Option<Box<ToolDisplay>>,
    pub error: Option<ToolErrorKind>,
    pub lines_added: u64,
    pub lines_removed: u64,
    /// What the conversation must still know when it goes on elsewhere.
    pub left: LeftBehind,
}

impl ToolOutcome {
    pub fn ok(content: impl Into<String>) -> ToolOutcome {
        ToolOutcome { content: content.into(), ..ToolOutcome::default() }
    }

    pub fn error(kind: ToolErrorKind, content: impl Into<String>) -> ToolOutcome {
        ToolOutcome { content: content.into(), error: Some(kind), ..ToolOutcome::default() }
    }

    /// The same of a call that knows what is in a file now.
    pub fn having_seen(mut self, file: SeenFile) -> ToolOutcome {
        self.left.files.push(file);
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolErrorKind {
    /// The arguments do not fit the tool's parameters.
    InvalidArguments,
    /// No such tool.
    Unknown,
    /// A rule, the mode or the client refused.
    Denied,
    /// The run was stopped while the tool worked.
    Cancelled,
    TimedOut,
    /// The tool tried and failed.
    Failed,
}
