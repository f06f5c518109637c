//! How long a tool's output may be on the wire.

use std::borrow::Cow;

use crate::json_line::encoded_len;
use crate::values::plain;

/// The most bytes a tool's output takes as a JSON string, quotes included. A reader of the `qwen` dialect
/// (asyncio's default line limit) fails on lines over 64 KiB; this leaves room for the rest of the line.
pub const TOOL_OUTPUT_CAP: usize = 60 * 1024;

/// A fifth of what is kept is the beginning; errors and summaries stand at the end.
const HEAD_SHARE: usize = 5;

/// Room for the marker with the longest number, its line feeds as two bytes each.
const MARKER_ROOM: usize = 80;

/// The output without terminal sequences, and capped.
pub(crate) fn shown(output: &str) -> Cow<'_, str> {
    match plain(output) {
        Cow::Borrowed(output) => capped(output),
        Cow::Owned(output) => Cow::Owned(capped(&output).into_owned()),
    }
}

/// The output, its middle left out if it is too long. Cut between characters, never inside one.
pub(crate) fn capped(output: &str) -> Cow<'_, str> {
    const QUOTES: usize = 2;
    const LONGEST_ESCAPE: usize = 6;
    let room = TOOL_OUTPUT_CAP - QUOTES;
    if output.len() * LONGEST_ESCAPE <= room || output.chars().map(encoded_len).sum::<usize>() <= room {
        return Cow::Borrowed(output);
    }
    let kept = room - MARKER_ROOM;
    let (head, head_size) = fitting(output.chars(), kept / HEAD_SHARE);
    let (tail, _) = fitting(output[head..].chars().rev(), kept - head_size);
    let tail_start = output.len() - tail;
    let left_out = tail_start - head;
    Cow::Owned(format!(
        "{}\n[output shortened: {left_out} bytes left out here]\n{}",
        &output[..head],
        &output[tail_start..]
    ))
}

/// How many bytes of the characters fit into `room`, and how much of it they take encoded.
fn fitting(characters: impl Iterator<Item = char>, room: usize) -> (usize, usize) {
    let (mut bytes, mut size) = (0, 0);
    for character in characters {
        let next = size + encoded_len(character);
        if next > room {
            break;
        }
        size = next;
        bytes += character.len_utf8();
    }
    (bytes, size)
}
