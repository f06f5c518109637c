//! Not rendered in its own shape yet.
use serde_json::Value;

use super::blocks::Blocks;
use super::{Speech, chat};

pub(super) fn stream(speech: &Speech<'_>, out: &mut Blocks<'_>) {
    chat::stream(speech, out);
}

pub(super) fn whole(speech: &Speech<'_>) -> Value {
    chat::whole(speech)
}
