//! Ids of tool calls where the server gives none.

use std::collections::HashSet;

/// An id for a call whose server gave none, or one that was used before.
pub(crate) fn fresh_id(used: &HashSet<String>) -> String {
    let mut random = [0_u8; 8];
    // Without randomness the number of ids in use still makes it unique.
    let _ = getrandom::fill(&mut random);
    (used.len() as u64..)
        .map(|n| format!("call_{:016x}", u64::from_be_bytes(random).wrapping_add(n)))
        .find(|id| !used.contains(id))
        .unwrap_or_default()
}
