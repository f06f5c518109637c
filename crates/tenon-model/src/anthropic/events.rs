//! The events of a Messages stream, read without being strict about anything.
//!
//! Every leaf is raw JSON that borrows from the event, so an unexpected type in one field spoils only that
//! field, and unknown fields cost nothing. A whole answer is the `message` of the first event, filled.

use serde::Deserialize;
use serde_json::value::RawValue;
use tenon_core::Usage;

use crate::loose_json::number;

#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub message: Option<Message<'a>>,
    #[serde(borrow, default)]
    pub content_block: Option<Block<'a>>,
    #[serde(borrow, default)]
    pub delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Event<'_> {
    pub fn has_error(&self) -> bool {
        is_some(self.error)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    /// Empty in a stream.
    #[serde(borrow, default)]
    pub content: Option<Vec<Block<'a>>>,
    #[serde(borrow, default)]
    pub stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Message<'_> {
    pub fn has_error(&self) -> bool {
        is_some(self.error)
    }
}

fn is_some(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() != "null")
}

/// A block of content; in a stream its texts are empty at first.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub signature: Option<&'a RawValue>,
    /// Thinking that nobody may read.
    #[serde(borrow, default)]
    pub data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub input: Option<&'a RawValue>,
}

/// More of a block, or of the message.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub partial_json: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub stop_reason: Option<&'a RawValue>,
}

/// Token counts as the wire has them: `input` is without what went through the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    input: u64,
    cache_write: u64,
    cache_read: u64,
    output: u64,
}

impl Counts {
    /// Takes in later counts. They only grow, and a part that is missing or zero is one that was told before.
    pub fn update(&mut self, raw: &RawValue) {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, default)]
            input_tokens: Option<&'a RawValue>,
            #[serde(borrow, default)]
            cache_creation_input_tokens: Option<&'a RawValue>,
            #[serde(borrow, default)]
            cache_read_input_tokens: Option<&'a RawValue>,
            #[serde(borrow, default)]
            output_tokens: Option<&'a RawValue>,
        }
        let Ok(wire) = serde_json::from_str::<Wire<'_>>(raw.get()) else { return };
        for (count, told) in [
            (&mut self.input, wire.input_tokens),
            (&mut self.cache_write, wire.cache_creation_input_tokens),
            (&mut self.cache_read, wire.cache_read_input_tokens),
            (&mut self.output, wire.output_tokens),
        ] {
            *count = told.and_then(number).unwrap_or(0).max(*count);
        }
    }

    pub fn usage(self) -> Option<Usage> {
        let input = self.input.saturating_add(self.cache_write).saturating_add(self.cache_read);
        let usage = Usage {
            input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            reasoning: 0,
            total: input.saturating_add(self.output),
        };
        (usage != Usage::default()).then_some(usage)
    }
}
