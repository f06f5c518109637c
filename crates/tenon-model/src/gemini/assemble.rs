//! Turns chunks into deltas, and decides what the answer ended with.
//!
//! | `finishReason` | becomes |
//! |---|---|
//! | `STOP`, unknown ones | the end, with or without calls |
//! | `MAX_TOKENS` | cut off |
//! | `SAFETY`, `RECITATION`, `BLOCKLIST`, `PROHIBITED_CONTENT`, `SPII`, `LANGUAGE`, `IMAGE_…`, `MODEL_ARMOR` | refused |
//! | `MALFORMED_FUNCTION_CALL`, `UNEXPECTED_TOOL_CALL`, `MALFORMED_RESPONSE`, `OTHER` | an error; the next attempt may differ |
//! | `TOO_MANY_TOOL_CALLS`, `MISSING_THOUGHT_SIGNATURE` | an error |
//! | none, but a prompt with a `blockReason` | an error: refused |

use std::borrow::Cow;

use serde_json::value::RawValue;
use tenon_core::{Delta, ErrorClass, FinishReason, ModelError, Usage};

use super::chunk::{Candidate, Chunk, Feedback, FunctionCall, PartDelta};
use super::native::{self, Signed};
use crate::answer::{Give, Next, Reader, Trouble};
use crate::call_id::CallIds;
use crate::errors;
use crate::loose_json::{arguments, text, word};
use crate::sse;

pub(super) struct Assembler {
    provider: String,
    calls: usize,
    ids: CallIds,
    finish: Option<Result<FinishReason, ModelError>>,
    usage: Option<Usage>,
}

impl Assembler {
    pub fn new(provider: &str, ids: CallIds) -> Assembler {
        Assembler { provider: provider.to_owned(), calls: 0, ids, finish: None, usage: None }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, give: Give<'_>) -> Result<(), Trouble> {
        if chunk.is_error() {
            return Err(Trouble::ErrorReport);
        }
        if let Some(usage) = chunk.usage().filter(|usage| self.usage != Some(*usage)) {
            self.usage = Some(usage);
            give(Delta::Usage(usage));
        }
        if let Some(feedback) = chunk.blocked() {
            return Err(Trouble::Failed(blocked(feedback)));
        }
        if let Some(candidate) = chunk.candidate() {
            candidate.parts().iter().for_each(|part| self.part(part, give));
            self.finish_reason(candidate);
        }
        Ok(())
    }

    fn part(&mut self, part: &PartDelta<'_>, give: Give<'_>) {
        let signature = part.thought_signature.and_then(word);
        if let Some(call) = &part.function_call {
            self.call(call, signature.as_deref(), give);
            return;
        }
        let (signed, delta): (_, fn(String) -> Delta) = match part.is_thought() {
            true => (Signed::Thought, Delta::Thinking),
            false => (Signed::Text, Delta::Text),
        };
        let text = part.text.and_then(text).unwrap_or_default();
        let native =
            signature.map(|signature| native::of_signed_part(signed, &text, &signature, &self.provider));
        if !text.is_empty() {
            give(delta(text.into_owned()));
        }
        if let Some(native) = native {
            give(Delta::ThinkingNative(native));
        }
    }

    /// Calls come whole.
    fn call(&mut self, call: &FunctionCall<'_>, signature: Option<&str>, give: Give<'_>) {
        let index = self.calls;
        self.calls += 1;
        let given = call.id.and_then(word);
        let id = self.ids.take(given.as_deref());
        let name = call.name.and_then(word).unwrap_or_default().into_owned();
        give(Delta::ToolCallStarted { index, id, name });
        let fragment = match call.args.map(|raw| (raw, arguments(raw))) {
            None => Cow::Borrowed("{}"),
            Some((_, Some(text))) => text,
            // A number is no object, and not for us to make one of. Empty text says nothing.
            Some((raw, None)) => Cow::Borrowed(if raw.get() == r#""""# { "{}" } else { raw.get() }),
        }
        .into_owned();
        give(Delta::ToolCallArguments { index, fragment });
        if let Some(native) = native::of_call(given.as_deref(), signature, &self.provider) {
            give(Delta::ToolCallNative { index, native });
        }
        give(Delta::ToolCallEnded { index });
    }

    fn finish_reason(&mut self, candidate: &Candidate<'_>) {
        let Some(reason) = candidate.finish_reason.and_then(word) else { return };
        let problem = |what: &str| ended_badly(what, &reason, candidate.finish_message);
        self.finish = Some(match &*reason {
            "FINISH_REASON_UNSPECIFIED" => return,
            "MAX_TOKENS" => Ok(FinishReason::Length),
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
            | "MODEL_ARMOR" => Ok(FinishReason::Refused),
            image if image.starts_with("IMAGE_") => Ok(FinishReason::Refused),
            "MALFORMED_FUNCTION_CALL" => {
                Err(retryable(problem("the model wrote a tool call that cannot be read")))
            }
            "UNEXPECTED_TOOL_CALL" => {
                Err(retryable(problem("the model called a tool that it was not offered")))
            }
            "MALFORMED_RESPONSE" => Err(retryable(problem("the model wrote an answer that cannot be read"))),
            "OTHER" => {
                Err(retryable(problem("the model ended its answer for a reason that it does not tell")))
            }
            "TOO_MANY_TOOL_CALLS" => Err(problem("the model made more tool calls than its provider allows")),
            "MISSING_THOUGHT_SIGNATURE" => {
                Err(problem("the provider missed a signature in the conversation"))
            }
            _ => Ok(FinishReason::Stop),
        });
    }
}

impl Reader for Assembler {
    fn event(&mut self, event: &sse::Event, give: Give<'_>) -> Result<Next, Trouble> {
        let data = event.data.trim();
        // Not Gemini's, but a habit of gateways.
        if data == "[DONE]" {
            return Ok(Next::Done);
        }
        if event.name.as_deref() == Some("error") {
            return Err(Trouble::ErrorReport);
        }
        if data.starts_with('[') {
            // Bare JSON in a stream: an error in a list.
            return Err(Trouble::ErrorReport);
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|_| Trouble::NotJson)?;
        self.chunk(&chunk, give).map(|()| Next::More)
    }

    /// A list of chunks, or one chunk that is the whole answer.
    fn whole(&mut self, json: &str, give: Give<'_>) -> Result<(), Trouble> {
        let chunks = match json.trim_start().starts_with('[') {
            true => serde_json::from_str::<Vec<Chunk<'_>>>(json),
            false => serde_json::from_str(json).map(|chunk| vec![chunk]),
        };
        let chunks = chunks.map_err(|error| match error.is_eof() {
            true => Trouble::Failed(errors::half_an_answer()),
            false => Trouble::NotJson,
        })?;
        if !chunks.iter().any(|chunk| chunk.candidates.is_some() || chunk.blocked().is_some()) {
            return Err(Trouble::ErrorReport);
        }
        for chunk in &chunks {
            self.chunk(chunk, give)?;
        }
        match self.is_finished() {
            true => Ok(()),
            false => Err(Trouble::Failed(errors::half_an_answer())),
        }
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(&mut self, give: Give<'_>) -> Result<(), ModelError> {
        let reason = match self.finish.take() {
            Some(Ok(FinishReason::Stop)) if self.calls > 0 => FinishReason::ToolCalls,
            Some(Ok(reason)) => reason,
            Some(Err(error)) => return Err(error),
            // Only `[DONE]` ends an answer without a reason.
            None => return Err(errors::half_an_answer()),
        };
        give(Delta::Finished(reason));
        Ok(())
    }
}

fn blocked(feedback: &Feedback<'_>) -> ModelError {
    let reason = feedback.block_reason.and_then(word).unwrap_or_default();
    let told = told(feedback.block_reason_message);
    ModelError {
        hint: Some("rephrase the prompt, or use another model".into()),
        ..ModelError::new(ErrorClass::Refused, format!("the provider refused the prompt (`{reason}`){told}"))
    }
}

fn ended_badly(what: &str, reason: &str, message: Option<&RawValue>) -> ModelError {
    ModelError::new(ErrorClass::Protocol, format!("{what} (`{reason}`){}", told(message)))
}

fn retryable(error: ModelError) -> ModelError {
    ModelError { retryable: true, ..error }
}

fn told(message: Option<&RawValue>) -> String {
    let message = message.and_then(text).unwrap_or_default();
    if message.trim().is_empty() { String::new() } else { format!(": {}", errors::server_words(&message)) }
}
