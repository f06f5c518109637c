//! Gives back the arguments of a call in the shape that was asked for by the user, where the provider was asked
//! in another one (`adapt/undo.rs`). A [`Reader`] around the reader of any wire.

use std::collections::HashMap;

use tenon_core::{Delta, ModelError};

use crate::adapt::{Offer, Undo};
use crate::answer::{Give, Next, Reader, Trouble};
use crate::sse;

pub(crate) struct Restoring<R> {
    reader: R,
    calls: Calls,
}

/// Calls of tools whose arguments have to be changed back.
struct Calls {
    /// By the name of the tool.
    undo: HashMap<String, Undo>,
    open: Vec<Call>,
}

struct Call {
    index: usize,
    name: String,
    arguments: String,
}

impl<R> Restoring<R> {
    pub fn new(reader: R, offers: &[Offer<'_>]) -> Restoring<R> {
        let needed = offers.iter().filter(|offer| offer.undo.is_needed());
        let undo = needed.map(|offer| (offer.name.to_owned(), offer.undo.clone())).collect();
        Restoring { reader, calls: Calls { undo, open: Vec::new() } }
    }
}

impl Calls {
    fn pass(&mut self, delta: Delta, give: Give<'_>) {
        match &delta {
            _ if self.undo.is_empty() => {}
            Delta::ToolCallStarted { index, name, .. } if self.undo.contains_key(name) => {
                self.open.push(Call { index: *index, name: name.clone(), arguments: String::new() });
            }
            Delta::ToolCallArguments { index, fragment } => {
                if let Some(call) = self.find(*index) {
                    call.arguments.push_str(fragment);
                }
            }
            Delta::ToolCallRestored { index, arguments } => {
                if let Some(call) = self.find(*index) {
                    call.arguments.clone_from(arguments);
                }
            }
            Delta::ToolCallEnded { index } => self.end(|call| call.index == *index, give),
            Delta::Finished(_) => self.end(|_| true, give),
            _ => {}
        }
        give(delta);
    }

    fn find(&mut self, index: usize) -> Option<&mut Call> {
        self.open.iter_mut().find(|call| call.index == index)
    }

    fn end(&mut self, is_over: impl Fn(&Call) -> bool, give: Give<'_>) {
        for call in self.open.extract_if(.., |call| is_over(call)) {
            let Some(undo) = self.undo.get(&call.name) else { continue };
            let arguments = undo.apply(&call.arguments);
            if arguments != call.arguments {
                give(Delta::ToolCallRestored { index: call.index, arguments });
            }
        }
    }
}

impl<R: Reader> Reader for Restoring<R> {
    fn event(&mut self, event: &sse::Event, give: Give<'_>) -> Result<Next, Trouble> {
        self.reader.event(event, &mut |delta| self.calls.pass(delta, give))
    }

    fn whole(&mut self, json: &str, give: Give<'_>) -> Result<(), Trouble> {
        self.reader.whole(json, &mut |delta| self.calls.pass(delta, give))
    }

    fn is_finished(&self) -> bool {
        self.reader.is_finished()
    }

    fn finish(&mut self, give: Give<'_>) -> Result<(), ModelError> {
        self.reader.finish(&mut |delta| self.calls.pass(delta, give))
    }
}
