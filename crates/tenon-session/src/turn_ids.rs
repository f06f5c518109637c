//! What a turn is called. Every turn has one name, in all its lines: the client's, or `<session_id>########<n>`, where
//! `n` counts the turns of that session in this process from 1, named ones included.

use std::collections::HashMap;

use tenon_core::Id;

#[derive(Debug, Default)]
pub struct TurnIds {
    counted: HashMap<Id, u64>,
}

impl TurnIds {
    /// The name of the next turn of this session.
    pub fn next(&mut self, session: Id, named: Option<String>) -> String {
        let count = self.counted.entry(session).or_default();
        *count += 1;
        named.unwrap_or_else(|| default_name(session, *count))
    }
}

/// The name of a turn that nobody named.
pub fn default_name(session: Id, number: u64) -> String {
    format!("{session}########{number}")
}
