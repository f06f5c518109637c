//! Errors that are written into a stream as bare JSON, without `data:` before their lines.
//!
//! Gemini and its gateways do so when a stream has begun and then fails. To a reader of events such lines
//! are fields that it does not know, and the reason would be lost; so they are made into an event here.

use bytes::Bytes;
use futures_util::StreamExt;

use crate::ByteStream;

/// The body with bare JSON made into events. A body that is JSON from its start is left alone.
pub(super) fn as_events(body: ByteStream) -> ByteStream {
    let mut lines = Lines { kind: Kind::Unknown, at_start: true, last: 0 };
    Box::pin(body.map(move |chunk| chunk.map(|chunk| lines.pass(chunk))))
}

struct Lines {
    kind: Kind,
    /// The next byte is the first of its line.
    at_start: bool,
    last: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing but white space so far.
    Unknown,
    /// JSON or a page from the start.
    NoEvents,
    Events,
    /// Inside bare JSON, which ends with a blank line.
    BareJson,
}

impl Lines {
    fn pass(&mut self, chunk: Bytes) -> Bytes {
        if self.kind == Kind::NoEvents {
            return chunk;
        }
        let mut changed: Option<Vec<u8>> = None;
        for (at, byte) in chunk.iter().copied().enumerate() {
            if self.begins_bare_line(byte) {
                changed.get_or_insert_with(|| chunk[..at].to_vec()).extend_from_slice(b"data: ");
            }
            if let Some(changed) = &mut changed {
                changed.push(byte);
            }
            self.last = byte;
        }
        changed.map_or(chunk, Bytes::from)
    }

    fn begins_bare_line(&mut self, byte: u8) -> bool {
        if self.kind == Kind::Unknown {
            self.kind = match byte {
                // White space, and the bytes of a byte order mark.
                b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf => return false,
                b'{' | b'[' | b'<' => Kind::NoEvents,
                _ => Kind::Events,
            };
            self.at_start = false;
            return false;
        }
        let at_start = std::mem::replace(&mut self.at_start, matches!(byte, b'\r' | b'\n'));
        if !at_start {
            return false;
        }
        match (self.kind, byte) {
            (Kind::BareJson, b'\n') if self.last == b'\r' => false,
            (Kind::BareJson, b'\r' | b'\n') => {
                self.kind = Kind::Events;
                false
            }
            (Kind::BareJson, _) => true,
            (Kind::Events, b'{' | b'[') => {
                self.kind = Kind::BareJson;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, stream};

    #[test]
    fn bare_json_becomes_an_event() {
        for (body, expected) in [
            ("data: a\n\n{\"error\":1}", "data: a\n\ndata: {\"error\":1}"),
            (
                "data: a\r\n\r\n{\r\n  1\r\n}\r\n\r\ndata: b",
                "data: a\r\n\r\ndata: {\r\ndata:   1\r\ndata: }\r\n\r\ndata: b",
            ),
            ("data: a\n\n[{\n}\n]\n", "data: a\n\ndata: [{\ndata: }\ndata: ]\n"),
            ("data: a\n\n{\n}\n\ndata: b\n\n", "data: a\n\ndata: {\ndata: }\n\ndata: b\n\n"),
            ("data: {\ndata: }\n\n", "data: {\ndata: }\n\n"),
            ("\n\n{\n}\n\n{}", "\n\n{\n}\n\n{}"),
            ("[{}\n,\n{}]", "[{}\n,\n{}]"),
            ("<p>\n{}", "<p>\n{}"),
            ("", ""),
        ] {
            for pieces in [vec![body.as_bytes()], body.as_bytes().chunks(1).collect()] {
                let pieces: Vec<_> =
                    pieces.into_iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
                let passed =
                    as_events(Box::pin(stream::iter(pieces))).collect::<Vec<_>>().now_or_never().unwrap();
                let passed: Vec<u8> = passed.into_iter().flat_map(|piece| piece.unwrap().to_vec()).collect();
                assert_eq!(String::from_utf8(passed).unwrap(), expected, "{body:?}");
            }
        }
    }
}
