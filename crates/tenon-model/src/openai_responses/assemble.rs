//! Turns the events of a response into deltas, each piece once, whichever of its events bring it.
//!
//! A full stream tells everything up to four times: as deltas, at the end of a part, at the end of its item,
//! and in the response at the very end. Servers leave out any of these. So each item remembers what of it was
//! given, and from every event only what is new is taken.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tenon_core::{Delta, FinishReason, Usage};

use super::events::{Event, Item, Kind, PART_BREAK, Response, Said};
use super::native;
use crate::answer::Give;
use crate::call_id::CallIds;
use crate::loose_json::{arguments, number, text, word};
use crate::token_counts::token_counts;

pub(super) struct Assembler {
    provider: String,
    items: Vec<Building>,
    ids: CallIds,
    refused: bool,
    end: Option<End>,
    usage: Option<Usage>,
}

/// How the server said that the response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Incomplete(FinishReason),
}

/// An item of the output, as far as it is known.
struct Building {
    kind: Kind,
    output_index: Option<u64>,
    id: Option<String>,
    call_id: Option<String>,
    name: String,
    /// What of its text or arguments was given, or waits for the name of the call.
    given: Given,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// Known from a piece of it only.
    Hinted,
    Opened,
    /// A call that was announced to the reader.
    Started,
    Done,
}

#[derive(Default)]
struct Given {
    text: String,
    /// Which list of the reasoning is being told, and which part of it.
    source: Option<Source>,
    part: Option<u64>,
    /// Where that part begins in the text.
    part_start: usize,
    /// A part has ended; the next text begins another one.
    break_due: bool,
}

/// Some servers send the same reasoning as text and as its own summary; the first one counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Text,
    Summary,
}

/// How a server tells which item it speaks of.
struct Key {
    output_index: Option<u64>,
    id: Option<String>,
    call_id: Option<String>,
}

impl Assembler {
    pub fn new(provider: &str, ids: CallIds) -> Assembler {
        Assembler {
            provider: provider.to_owned(),
            items: Vec::new(),
            ids,
            refused: false,
            end: None,
            usage: None,
        }
    }

    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// An item begins. A call is announced as soon as its name is known.
    pub fn item_added(&mut self, event: &Event<'_>, give: Give<'_>) {
        let Some(item) = event.item.and_then(Item::read) else { return };
        let key = Key { output_index: event.output_index.and_then(number), ..item_key(&item) };
        let at = self.find(item.kind, &key, State::Hinted).unwrap_or_else(|| self.open(item.kind, &key));
        self.learn(at, &item);
        self.items[at].state = self.items[at].state.max(State::Opened);
        if !self.items[at].name.is_empty() {
            self.start(at, give);
        }
    }

    /// A piece of a message, or all of a part of it.
    pub fn said(&mut self, event: &Event<'_>, piece: Said<'_>, pieces: Pieces, give: Give<'_>) {
        let at = self.item_of(Kind::Message, event);
        let text = match piece {
            Said::Text(text) => text,
            Said::Refusal(text) => {
                self.refused = true;
                text
            }
        };
        let given = &mut self.items[at].given;
        given.turn_to(event.content_index.and_then(number));
        given.break_due = false;
        if let Some(new) = given.take(&text, pieces) {
            give(Delta::Text(new));
        }
    }

    /// A piece of reasoning, or all of a part of it.
    pub fn thought(&mut self, event: &Event<'_>, source: Source, pieces: Pieces, give: Give<'_>) {
        let raw = match pieces {
            Pieces::Fragment => event.delta,
            Pieces::Whole => event.text,
        };
        let Some(text) = raw.and_then(text) else { return };
        let at = self.item_of(Kind::Reasoning, event);
        let given = &mut self.items[at].given;
        if *given.source.get_or_insert(source) != source {
            return;
        }
        given.turn_to(match source {
            Source::Text => event.content_index.and_then(number),
            Source::Summary => event.summary_index.and_then(number),
        });
        if let Some(new) = given.take(&text, pieces) {
            give(Delta::Thinking(new));
        }
    }

    /// A part of the summary begins.
    pub fn summary_part_added(&mut self, event: &Event<'_>) {
        let at = self.item_of(Kind::Reasoning, event);
        let given = &mut self.items[at].given;
        if given.source == Some(Source::Summary) {
            given.begin_part();
        }
    }

    pub fn arguments(&mut self, event: &Event<'_>, pieces: Pieces, give: Give<'_>) {
        let at = self.item_of(Kind::Call, event);
        let raw = match pieces {
            Pieces::Fragment => event.delta,
            Pieces::Whole => event.arguments,
        };
        if let Some(name) = event.name.and_then(word) {
            self.learn_name(at, &name);
        }
        self.give_arguments(at, raw, pieces, give);
    }

    /// An item is complete.
    pub fn item_done(&mut self, event: &Event<'_>, give: Give<'_>) {
        let Some(item) = event.item.and_then(Item::read) else { return };
        let key = Key { output_index: event.output_index.and_then(number), ..item_key(&item) };
        let at = self.find(item.kind, &key, State::Started).unwrap_or_else(|| self.open(item.kind, &key));
        self.complete(at, &item, give);
    }

    /// The response as it stands at its end: whatever of it was not streamed.
    pub fn response(&mut self, response: &Response<'_>, give: Give<'_>) {
        let items = response.items();
        let streamed = self.streamed(&items);
        for (item, streamed) in items.iter().zip(streamed) {
            let at = streamed.unwrap_or_else(|| self.open(item.kind, &item_key(item)));
            self.complete(at, item, give);
        }
        let usage = response.usage.and_then(token_counts);
        if let Some(usage) = usage.filter(|usage| self.usage != Some(*usage)) {
            self.usage = Some(usage);
            give(Delta::Usage(usage));
        }
    }

    pub fn end(&mut self, end: End) {
        self.end = Some(end);
    }

    /// What is left to give at the end of the answer.
    pub fn give_rest(&mut self, give: Give<'_>) {
        for at in 0..self.items.len() {
            self.start(at, give);
        }
        let has_calls = self.items.iter().any(|item| item.kind == Kind::Call);
        give(Delta::Finished(match self.end {
            _ if self.refused => FinishReason::Refused,
            Some(End::Incomplete(reason)) => reason,
            _ if has_calls => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        }));
    }

    /// Takes what is new in a complete item. Harmless when the item was completed before.
    fn complete(&mut self, at: usize, item: &Item<'_>, give: Give<'_>) {
        self.learn(at, item);
        let was_done = self.items[at].state == State::Done;
        match item.kind {
            Kind::Message => {
                let mut whole = String::new();
                for piece in item.said() {
                    match piece {
                        Said::Text(text) => whole.push_str(&text),
                        Said::Refusal(text) => {
                            self.refused = true;
                            whole.push_str(&text);
                        }
                    }
                }
                if let Some(new) = self.items[at].given.rest_of(&whole) {
                    give(Delta::Text(new));
                }
            }
            Kind::Reasoning => {
                let given = &mut self.items[at].given;
                if let Some(new) = item.thoughts().iter().find_map(|whole| given.rest_of(whole)) {
                    give(Delta::Thinking(new));
                }
                if !was_done
                    && item.is_self_contained()
                    && let Ok(item) = serde_json::from_str(item.raw.get())
                {
                    give(Delta::ThinkingNative(native::keep_item(item, &self.provider)));
                }
            }
            Kind::Call if was_done => {}
            Kind::Call => {
                self.give_arguments(at, item.arguments, Pieces::Whole, give);
                self.start(at, give);
                if let Some(id) = &item.id {
                    let native = native::keep_id(id, &self.provider);
                    give(Delta::ToolCallNative { index: at, native });
                }
                give(Delta::ToolCallEnded { index: at });
            }
        }
        self.items[at].state = State::Done;
    }

    fn give_arguments(&mut self, at: usize, raw: Option<&RawValue>, pieces: Pieces, give: Give<'_>) {
        let Some(piece) = raw.and_then(arguments) else { return };
        let is_named = !self.items[at].name.is_empty();
        if is_named && pieces == Pieces::Fragment {
            self.start(at, give);
        }
        let item = &mut self.items[at];
        match (item.state, pieces) {
            (State::Done, _) => {}
            // Nobody has seen it yet, so all of it is better than pieces that may be another call's.
            (State::Hinted | State::Opened, Pieces::Whole) => item.given.text = piece.into_owned(),
            (State::Started, Pieces::Whole) if is_other_json(&item.given.text, &piece) => {
                // What was streamed is spoiled, and this is what it should have been.
                item.given.text = piece.into_owned();
                give(Delta::ToolCallRestored { index: at, arguments: item.given.text.clone() });
            }
            (State::Hinted | State::Opened, Pieces::Fragment) => item.given.text.push_str(&piece),
            (State::Started, _) => {
                if let Some(fragment) = item.given.take(&piece, pieces) {
                    give(Delta::ToolCallArguments { index: at, fragment });
                }
            }
        }
        if is_named {
            self.start(at, give);
        }
    }

    /// Announces a call, once, with whatever arguments came before its name.
    fn start(&mut self, at: usize, give: Give<'_>) {
        let item = &mut self.items[at];
        if item.kind != Kind::Call || item.state >= State::Started {
            return;
        }
        item.state = State::Started;
        let id = self.ids.take(item.call_id.as_deref().or(item.id.as_deref()));
        give(Delta::ToolCallStarted { index: at, id, name: item.name.clone() });
        if !item.given.text.is_empty() {
            give(Delta::ToolCallArguments { index: at, fragment: item.given.text.clone() });
        }
    }

    fn learn(&mut self, at: usize, item: &Item<'_>) {
        if let Some(name) = &item.name {
            self.learn_name(at, name);
        }
        let known = &mut self.items[at];
        known.id = known.id.take().or_else(|| item.id.clone());
        known.call_id = known.call_id.take().or_else(|| item.call_id.clone());
    }

    fn learn_name(&mut self, at: usize, name: &str) {
        let known = &mut self.items[at];
        if known.name.is_empty() {
            known.name = name.to_owned();
        }
    }

    /// The item that a piece belongs to; a piece may be the first that is heard of it.
    fn item_of(&mut self, kind: Kind, event: &Event<'_>) -> usize {
        let key = event_key(event);
        self.find(kind, &key, State::Started).unwrap_or_else(|| self.open(kind, &key))
    }

    /// The item with this key. One that has gone beyond `latest` is only found by its own id: servers that
    /// do not count their items give the next one the same index.
    fn find(&self, kind: Kind, key: &Key, latest: State) -> Option<usize> {
        let position = |wanted: &dyn Fn(&Building) -> bool| {
            self.items.iter().rposition(|item| item.kind == kind && wanted(item))
        };
        // Some servers make up a new id for every event, so until an item is done its index decides.
        let same_place = |item: &Building| item.is_at(key.output_index) && item.state <= latest;
        position(&same_place)
            .or_else(|| position(&|item| item.has_id_of(key)))
            .or_else(|| position(&|item| item.state <= latest && item.may_be(key)))
    }

    /// What was streamed of each item of the final response.
    fn streamed(&self, items: &[Item<'_>]) -> Vec<Option<usize>> {
        let mut found = vec![None; items.len()];
        // By id, then by place, and where neither is told or they do not agree, by order.
        for agree in [
            |known: &Building, key: &Key| known.has_id_of(key),
            |known: &Building, key: &Key| known.is_at(key.output_index) && known.may_be_call(key),
            |known: &Building, key: &Key| known.may_be_call(key),
        ] {
            for (place, item) in items.iter().enumerate() {
                let key = Key { output_index: Some(place as u64), ..item_key(item) };
                let same = |at: &usize| {
                    let known = &self.items[*at];
                    known.kind == item.kind && !found.contains(&Some(*at)) && agree(known, &key)
                };
                if found[place].is_none() {
                    found[place] = (0..self.items.len()).find(same);
                }
            }
        }
        found
    }

    fn open(&mut self, kind: Kind, key: &Key) -> usize {
        self.items.push(Building {
            kind,
            output_index: key.output_index,
            id: key.id.clone(),
            call_id: key.call_id.clone(),
            name: String::new(),
            given: Given::default(),
            state: State::Hinted,
        });
        self.items.len() - 1
    }
}

/// Is this a fragment, or all there is?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pieces {
    Fragment,
    Whole,
}

impl Building {
    fn has_id_of(&self, key: &Key) -> bool {
        (key.id.is_some() && self.id == key.id) || (key.call_id.is_some() && self.call_id == key.call_id)
    }

    fn is_at(&self, output_index: Option<u64>) -> bool {
        output_index.is_some() && self.output_index == output_index
    }

    /// Nothing that is known of both says that they are different.
    fn may_be(&self, key: &Key) -> bool {
        agree(&self.output_index, &key.output_index) && agree(&self.id, &key.id) && self.may_be_call(key)
    }

    fn may_be_call(&self, key: &Key) -> bool {
        agree(&self.call_id, &key.call_id)
    }
}

fn agree<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
    one.is_none() || other.is_none() || one == other
}

impl Given {
    /// The next text belongs to this part.
    fn turn_to(&mut self, part: Option<u64>) {
        if part.is_some() && self.part != part {
            if self.part.is_some() {
                self.begin_part();
            }
            self.part = part;
        }
    }

    fn begin_part(&mut self) {
        self.break_due = !self.text.is_empty();
        self.part_start = self.text.len();
    }

    /// What is new in a fragment, or in all of the current part.
    fn take(&mut self, piece: &str, pieces: Pieces) -> Option<String> {
        let new = match pieces {
            Pieces::Fragment => piece,
            Pieces::Whole => piece.strip_prefix(&self.text[self.part_start..])?,
        };
        if new.is_empty() {
            return None;
        }
        if std::mem::take(&mut self.break_due) {
            self.text.push_str(PART_BREAK);
            self.part_start = self.text.len();
            self.text.push_str(new);
            return Some(format!("{PART_BREAK}{new}"));
        }
        self.text.push_str(new);
        Some(new.to_owned())
    }

    /// What is new in all of the item.
    fn rest_of(&mut self, whole: &str) -> Option<String> {
        let new = whole.strip_prefix(self.text.as_str()).filter(|new| !new.is_empty())?;
        let new = new.to_owned();
        self.text.push_str(&new);
        Some(new)
    }
}

fn event_key(event: &Event<'_>) -> Key {
    Key {
        output_index: event.output_index.and_then(number),
        id: event.item_id.and_then(word).map(Cow::into_owned),
        call_id: None,
    }
}

fn item_key(item: &Item<'_>) -> Key {
    Key { output_index: None, id: item.id.clone(), call_id: item.call_id.clone() }
}

/// Is `whole` JSON, where what was streamed is neither its beginning nor JSON itself?
fn is_other_json(streamed: &str, whole: &str) -> bool {
    let is_json = |text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    !whole.starts_with(streamed) && !is_json(streamed) && is_json(whole)
}
