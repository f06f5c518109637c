//! One chunk of Gemini's answer, read without being strict about anything.
//!
//! Every leaf is raw JSON that borrows from the event, so an unexpected type in one field spoils only that
//! field, and the arguments of a call keep every digit as it was written.

use serde::Deserialize;
use serde_json::value::RawValue;
use tenon_core::Usage;

use crate::loose_json::{number, word};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default)]
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(borrow, default)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(borrow, default)]
    pub finish_reason: Option<&'a RawValue>,
    /// The server's own sentence about the reason.
    #[serde(borrow, default)]
    pub finish_message: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<PartDelta<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartDelta<'a> {
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thought: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub thought_signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub function_call: Option<FunctionCall<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub args: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow, default)]
    pub block_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub block_reason_message: Option<&'a RawValue>,
}

impl<'a> Chunk<'a> {
    pub fn is_error(&self) -> bool {
        self.error.is_some_and(|error| error.get() != "null")
    }

    /// The one answer that was asked for.
    pub fn candidate(&self) -> Option<&Candidate<'a>> {
        self.candidates.as_ref()?.iter().find(|found| found.index.and_then(number).unwrap_or(0) == 0)
    }

    /// Why there is no answer at all.
    pub fn blocked(&self) -> Option<&Feedback<'a>> {
        let feedback = self.prompt_feedback.as_ref().filter(|_| self.candidate().is_none())?;
        feedback.block_reason.and_then(word).map(|_| feedback)
    }

    pub fn usage(&self) -> Option<Usage> {
        usage(self.usage_metadata?)
    }
}

impl<'a> Candidate<'a> {
    pub fn parts(&self) -> &[PartDelta<'a>] {
        self.content.as_ref().and_then(|content| content.parts.as_deref()).unwrap_or_default()
    }
}

impl PartDelta<'_> {
    pub fn is_thought(&self) -> bool {
        self.thought.is_some_and(|thought| thought.get() == "true")
    }
}

/// Gemini counts thoughts apart from the answer; here they are part of the output.
fn usage(raw: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        #[serde(borrow, default)]
        prompt_token_count: Option<&'a RawValue>,
        /// What the provider's own tools put into the prompt.
        #[serde(borrow, default)]
        tool_use_prompt_token_count: Option<&'a RawValue>,
        #[serde(borrow, default)]
        candidates_token_count: Option<&'a RawValue>,
        #[serde(borrow, default)]
        thoughts_token_count: Option<&'a RawValue>,
        #[serde(borrow, default)]
        cached_content_token_count: Option<&'a RawValue>,
        #[serde(borrow, default)]
        total_token_count: Option<&'a RawValue>,
    }
    let wire: Wire<'_> = serde_json::from_str(raw.get()).ok()?;
    let count = |raw: Option<&RawValue>| raw.and_then(number).unwrap_or(0);
    let reasoning = count(wire.thoughts_token_count);
    let input = count(wire.prompt_token_count).saturating_add(count(wire.tool_use_prompt_token_count));
    let output = count(wire.candidates_token_count).saturating_add(reasoning);
    let usage = Usage {
        input,
        output,
        cache_read: count(wire.cached_content_token_count),
        cache_write: 0,
        reasoning,
        total: wire.total_token_count.and_then(number).unwrap_or(input.saturating_add(output)),
    };
    (usage != Usage::default()).then_some(usage)
}
