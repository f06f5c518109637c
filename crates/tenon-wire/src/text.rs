//! The `text` format, the same in every dialect: the payload or the final text of a success, and nothing else.

use tenon_core::{Ending, Event, EventKind};

pub(crate) fn encode_text(event: &Event, out: &mut Vec<u8>) {
    if let EventKind::RunFinished(outcome) = &event.kind
        && event.parent.is_none()
        && let Ending::Success(success) = &outcome.ending
    {
        out.extend_from_slice(success.text.as_bytes());
        out.push(b'\n');
    }
}
