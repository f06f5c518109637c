//! What is asked of a model and what streams back.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use serde_json::Value;

use crate::{ErrorClass, Message, Reasoning, Sampling, ToolSpec, Usage};

/// One request to a model, in nobody's wire format.
#[derive(Clone, Debug)]
pub struct Request {
    pub model: String,
    pub system: String,
    pub messages: Vec<Message>,
    /// Tools in the order they are offered.
    pub tools: Vec<Arc<ToolSpec>>,
    /// The tool whose arguments are the payload, when there is a contract and it is offered.
    pub terminal_tool: Option<String>,
    pub tool_choice: ToolChoice,
    /// The shape the text of the answer must have, where the server is to keep to it.
    pub response_format: Option<ResponseFormat>,
    pub max_output_tokens: Option<u64>,
    pub sampling: Sampling,
    pub reasoning: Reasoning,
    /// May a stream that broke after its first delta be asked for again? Not when a client has already
    /// been shown part of the answer.
    pub restartable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    Auto,
    /// Only this tool, and it must be called.
    Force(String),
}

/// A schema for the text of an answer. That text is the payload: it stands for a call of the terminal tool,
/// which is then not among the tools.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseFormat {
    /// The terminal tool's.
    pub name: String,
    pub schema: Value,
}

pub type DeltaStream = Pin<Box<dyn Stream<Item = Result<Delta, ModelError>> + Send>>;

/// A piece of an answer. Indices of tool calls are the stream's own and need not be dense.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    Text(String),
    Thinking(String),
    /// What the provider wants back with the thinking that was just streamed.
    ThinkingNative(Value),
    ToolCallStarted {
        index: usize,
        id: String,
        name: String,
    },
    ToolCallArguments {
        index: usize,
        fragment: String,
    },
    /// What the provider wants back with this call.
    ToolCallNative {
        index: usize,
        native: Value,
    },
    /// The call was asked for in another shape than ours; this is what its arguments mean in ours.
    ToolCallRestored {
        index: usize,
        arguments: String,
    },
    /// Nothing more comes for this call. Optional: the end of the answer ends all calls.
    ToolCallEnded {
        index: usize,
    },
    /// The latest numbers for this request; each replaces the one before.
    Usage(Usage),
    Finished(FinishReason),
    /// A failed attempt is about to be repeated: forget what this stream has given so far.
    Retrying {
        attempt: u32,
        /// How many there may be.
        attempts: u32,
        wait: Duration,
        error: ModelError,
    },
    /// Another model is asked instead, now and for the rest of the run: forget what this stream has given
    /// so far.
    SwitchedModel {
        from: String,
        to: String,
        /// What the model that gave up was answered with.
        status: Option<u16>,
        /// 1 for the first fallback.
        fallback: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    ToolCalls,
    /// Cut off by the output limit.
    Length,
    /// Refused or filtered by the provider.
    Refused,
}

/// A model request that failed, already sorted into its class.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub class: ErrorClass,
    /// One sentence for a person. Never contains a key.
    pub message: String,
    pub hint: Option<String>,
    pub http_status: Option<u16>,
    pub provider: Option<String>,
    /// Would the same request have a chance later?
    pub retryable: bool,
    /// How long the server asked us to wait.
    pub retry_after: Option<Duration>,
    /// The request was larger than the model's context.
    pub context_overflow: bool,
}

impl ModelError {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> ModelError {
        ModelError {
            class,
            message: message.into(),
            hint: None,
            http_status: None,
            provider: None,
            retryable: false,
            retry_after: None,
            context_overflow: false,
        }
    }
}
