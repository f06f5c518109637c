//! Finds out what a server has answered with: a stream of events, one JSON value, or a web page.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tenon_core::ModelError;

use crate::ByteStream;

/// What kind of body came. Content types lie too often, the first character does not.
pub(crate) enum Peeked {
    Json(ByteStream),
    Html,
    /// As far as one can tell from the first character.
    Events(ByteStream),
}

pub(crate) async fn peek(body: ByteStream) -> Result<Peeked, ModelError> {
    // Fused: an empty body is asked again after its end.
    let mut body = body.fuse();
    let mut start = Vec::new();
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let first = loop {
        let Some(chunk) = body.next().await else { break None };
        start.extend_from_slice(&chunk?);
        let text = start.strip_prefix(BOM).unwrap_or(&start);
        let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
        // Half a byte order mark says nothing yet.
        if let Some(first) = first.filter(|_| !BOM.starts_with(text)) {
            break Some(*first);
        }
    };
    let whole: ByteStream = Box::pin(stream::once(async { Ok(Bytes::from(start)) }).chain(body));
    Ok(match first {
        Some(b'{' | b'[') => Peeked::Json(whole),
        Some(b'<') => Peeked::Html,
        _ => Peeked::Events(whole),
    })
}
