//! The events of a Responses stream, and the response object that may stand for all of them.
//!
//! One type for all events: they share their fields, and what a server leaves out is simply absent. Leaves
//! are raw JSON that borrows from the event (`loose_json.rs`).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::loose_json::{text, word};

#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub output_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub item_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub content_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub summary_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub part: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> Event<'a> {
    pub fn kind(&self) -> Option<Cow<'a, str>> {
        self.kind.and_then(word)
    }

    pub fn is_error(&self) -> bool {
        is_something(self.error)
    }
}

/// The response as it stands at its end, or as the whole answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> Response<'a> {
    pub fn read(raw: Option<&'a RawValue>) -> Response<'a> {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    pub fn status(&self) -> Option<Cow<'a, str>> {
        self.status.and_then(word)
    }

    pub fn items(&self) -> Vec<Item<'a>> {
        self.output.map(list).unwrap_or_default().into_iter().filter_map(Item::read).collect()
    }

    pub fn incomplete_reason(&self) -> Option<Cow<'a, str>> {
        #[derive(Deserialize)]
        struct Details<'a> {
            #[serde(borrow, default)]
            reason: Option<&'a RawValue>,
        }
        let details: Details<'a> = serde_json::from_str(self.incomplete_details?.get()).ok()?;
        details.reason.and_then(word)
    }

    pub fn is_error(&self) -> bool {
        is_something(self.error)
    }

    /// Is this a response at all?
    pub fn is_one(&self) -> bool {
        self.output.is_some() || self.object.and_then(word).is_some_and(|object| object == "response")
    }
}

/// One item of the output: what it is, and as much of it as is known.
#[derive(Debug)]
pub(super) struct Item<'a> {
    pub kind: Kind,
    pub id: Option<String>,
    pub call_id: Option<String>,
    pub name: Option<Cow<'a, str>>,
    pub arguments: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    summary: Option<&'a RawValue>,
    encrypted_content: Option<&'a RawValue>,
    /// All of it, as it came.
    pub raw: &'a RawValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call,
}

/// A piece of a message: what the model says, or why it will not.
pub(super) enum Said<'a> {
    Text(Cow<'a, str>),
    Refusal(Cow<'a, str>),
}

impl<'a> Item<'a> {
    /// `None` for kinds of items that nobody asked for.
    pub fn read(raw: &'a RawValue) -> Option<Item<'a>> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(rename = "type", borrow, default)]
            kind: Option<&'a RawValue>,
            #[serde(borrow, default)]
            id: Option<&'a RawValue>,
            #[serde(borrow, default)]
            call_id: Option<&'a RawValue>,
            #[serde(borrow, default)]
            name: Option<&'a RawValue>,
            #[serde(borrow, default)]
            arguments: Option<&'a RawValue>,
            #[serde(borrow, default)]
            content: Option<&'a RawValue>,
            #[serde(borrow, default)]
            summary: Option<&'a RawValue>,
            #[serde(borrow, default)]
            encrypted_content: Option<&'a RawValue>,
        }
        let wire: Wire<'a> = serde_json::from_str(raw.get()).ok()?;
        let kind = match &*wire.kind.and_then(word)? {
            "message" => Kind::Message,
            "reasoning" => Kind::Reasoning,
            "function_call" => Kind::Call,
            _ => return None,
        };
        let owned = |raw: Option<&'a RawValue>| raw.and_then(word).map(Cow::into_owned);
        Some(Item {
            kind,
            id: owned(wire.id),
            call_id: owned(wire.call_id),
            name: wire.name.and_then(word),
            arguments: wire.arguments,
            content: wire.content,
            summary: wire.summary,
            encrypted_content: wire.encrypted_content,
            raw,
        })
    }

    /// What a message says, piece by piece.
    pub fn said(&self) -> Vec<Said<'a>> {
        match self.content {
            Some(content) if content.get().starts_with('[') => {
                list(content).into_iter().filter_map(|part| Part::read(part)?.said()).collect()
            }
            content => content.and_then(text).map(Said::Text).into_iter().collect(),
        }
    }

    /// The reasoning itself, where the model shows it, and the summary of it.
    pub fn thoughts(&self) -> [String; 2] {
        [self.content, self.summary].map(|parts| {
            let parts = parts.map(list).unwrap_or_default();
            let texts: Vec<_> = parts.into_iter().filter_map(|part| Part::read(part)?.text).collect();
            texts.join(PART_BREAK)
        })
    }

    /// Can a server that stores nothing make sense of this reasoning when it is sent back?
    pub fn is_self_contained(&self) -> bool {
        let has_thoughts = || self.content.is_some_and(|content| !list(content).is_empty());
        is_something(self.encrypted_content) || has_thoughts()
    }
}

/// Between two parts of reasoning.
pub(super) const PART_BREAK: &str = "\n\n";

/// A part of an item's content.
pub(super) struct Part<'a> {
    kind: Option<Cow<'a, str>>,
    text: Option<Cow<'a, str>>,
    refusal: Option<Cow<'a, str>>,
}

impl<'a> Part<'a> {
    pub fn read(raw: &'a RawValue) -> Option<Part<'a>> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(rename = "type", borrow, default)]
            kind: Option<&'a RawValue>,
            #[serde(borrow, default)]
            text: Option<&'a RawValue>,
            #[serde(borrow, default)]
            refusal: Option<&'a RawValue>,
        }
        let wire: Wire<'a> = serde_json::from_str(raw.get()).ok()?;
        let kind = wire.kind.and_then(word);
        Some(Part { kind, text: wire.text.and_then(text), refusal: wire.refusal.and_then(text) })
    }

    /// What this part says, if it belongs to a message.
    pub fn said(self) -> Option<Said<'a>> {
        match (self.kind.as_deref(), self.refusal) {
            (Some("reasoning_text" | "summary_text"), _) => None,
            (_, Some(refusal)) => Some(Said::Refusal(refusal)),
            (_, None) => self.text.map(Said::Text),
        }
    }
}

/// The elements of a list; anything else has none.
fn list(raw: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn is_something(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() != "null")
}
