//! One chunk of a chat completion stream, read without being strict about anything.
//!
//! Every leaf is raw JSON that borrows from the event, so an unexpected type in one field spoils only that
//! field, and unknown fields cost nothing. A whole answer has the same shape with `message` for `delta`.

use serde::Deserialize;
use serde_json::value::RawValue;
use tenon_core::Usage;

use crate::loose_json::number;
use crate::token_counts::token_counts;

#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    /// Groq's own place for the usage of a stream.
    #[serde(borrow, default)]
    x_groq: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub delta: Option<Delta<'a>>,
    /// Instead of `delta` in an answer that was not streamed, even where it comes as an event.
    #[serde(borrow, default)]
    pub message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub finish_reason: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub reasoning_text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub tool_calls: Option<Vec<CallDelta<'a>>>,
    /// The older form of a single call.
    #[serde(borrow, default)]
    pub function_call: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(borrow, default)]
    pub index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

impl<'a> Chunk<'a> {
    pub fn is_error(&self) -> bool {
        self.error.is_some_and(|error| error.get() != "null")
            || (self.choices.is_none() && self.object.is_some_and(|object| object.get() == "\"error\""))
    }

    /// The one answer that was asked for.
    pub fn choice(&self) -> Option<&Choice<'a>> {
        self.choices.as_ref()?.iter().find(|choice| choice.index.and_then(number).unwrap_or(0) == 0)
    }

    pub fn usage(&self) -> Option<Usage> {
        #[derive(Deserialize)]
        struct Groq<'a> {
            #[serde(borrow, default)]
            usage: Option<&'a RawValue>,
        }
        if let Some(usage) = self.usage.and_then(token_counts) {
            return Some(usage);
        }
        serde_json::from_str::<Groq<'_>>(self.x_groq?.get()).ok()?.usage.and_then(token_counts)
    }
}
