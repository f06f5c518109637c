//! Ids of tool calls: unique within a conversation, and made up where the server gives none.

use std::collections::HashSet;

use tenon_core::{Part, Request};

/// The ids of a whole conversation. Not all servers care that a call's id must be unique in it.
pub(crate) struct CallIds(HashSet<String>);

impl CallIds {
    /// Those that are in the conversation already.
    pub fn of(request: &Request) -> CallIds {
        let parts = request.messages.iter().flat_map(|message| &message.parts);
        CallIds(
            parts
                .filter_map(|part| match part {
                    Part::ToolCall(call) => Some(call.id.clone()),
                    _ => None,
                })
                .collect(),
        )
    }

    /// The id of a new call: the server's own, where it gave one that is not in use.
    pub fn take(&mut self, given: Option<&str>) -> String {
        let id = match given {
            Some(id) if !id.is_empty() && !self.0.contains(id) => id.to_owned(),
            _ => self.fresh(),
        };
        self.0.insert(id.clone());
        id
    }

    fn fresh(&self) -> String {
        let mut random = [0_u8; 8];
        // Without randomness the number of ids in use still makes it unique.
        let _ = getrandom::fill(&mut random);
        (self.0.len() as u64..)
            .map(|n| format!("call_{:016x}", u64::from_be_bytes(random).wrapping_add(n)))
            .find(|id| !self.0.contains(id))
            .unwrap_or_default()
    }
}
