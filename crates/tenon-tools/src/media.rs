//! Images and recordings that tools bring along: which ones, how large, how many. Whether a model can be shown
//! them is decided where the request is made.

use base64::Engine;
use base64::alphabet::{STANDARD as STANDARD_ALPHABET, URL_SAFE};
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use tenon_core::Media;

/// The strictest provider takes 5 MiB of base64 for an image.
pub(crate) const MAX_BYTES: usize = 5 * 1024 * 1024 / 4 * 3;
/// A result with more images than this was not made for a model.
pub(crate) const MAX_PER_RESULT: usize = 10;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// What the model is shown, or why not, worded to follow a colon. The type is the one that the bytes show,
/// where they show one: providers compare, and servers are careless.
pub fn from_bytes(mime: &str, bytes: &[u8]) -> Result<Media, &'static str> {
    if bytes.is_empty() {
        return Err("it is empty");
    }
    if bytes.len() > MAX_BYTES {
        return Err("it is too large to be shown");
    }
    let mime = image_type(bytes).map_or_else(|| mime.trim().to_ascii_lowercase(), str::to_owned);
    if mime.is_empty() || !mime.contains('/') {
        return Err("nobody said what it is");
    }
    if mime.starts_with("image/") && image_type(bytes).is_none() {
        return Err("it is no PNG, JPEG, GIF or WebP image");
    }
    Ok(Media { mime, data: STANDARD.encode(bytes).into() })
}

/// The same for base64 as others write it: with line breaks, without padding, in the alphabet for addresses.
pub(crate) fn from_base64(mime: &str, base64: &str) -> Result<Media, &'static str> {
    if base64.len() / 4 * 3 > MAX_BYTES * 2 {
        return Err("it is too large to be shown");
    }
    let compact: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let alphabet = if compact.contains(['-', '_']) { &URL_SAFE } else { &STANDARD_ALPHABET };
    let bytes =
        GeneralPurpose::new(alphabet, LENIENT).decode(compact).map_err(|_| "it is not valid base64")?;
    from_bytes(mime, &bytes)
}

/// The type of an image that models are shown, by its first bytes.
pub(crate) fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    #[test]
    fn the_bytes_say_what_an_image_is() {
        assert_eq!(from_bytes("image/jpeg", PNG).unwrap().mime, "image/png");
        assert_eq!(from_bytes("", b"GIF89a..").unwrap().mime, "image/gif");
        assert_eq!(from_bytes("audio/WAV", b"RIFF0000WAVE").unwrap().mime, "audio/wav");
        assert_eq!(from_bytes("image/png", b"RIFF0000WEBPVP8 ").unwrap().mime, "image/webp");
        for (mime, bytes, why) in [
            ("image/svg+xml", b"<svg/>".as_slice(), "it is no PNG, JPEG, GIF or WebP image"),
            ("", b"what", "nobody said what it is"),
            ("image/png", b"", "it is empty"),
            ("image/png", &[PNG, &vec![0; MAX_BYTES]].concat(), "it is too large to be shown"),
        ] {
            assert_eq!(from_bytes(mime, bytes), Err(why));
        }
    }

    #[test]
    fn base64_is_read_as_others_write_it() {
        let plain = STANDARD.encode([PNG, b"\xff\xfe\xfd?"].concat());
        let expected = from_base64("image/png", &plain).unwrap();
        let url_safe = plain.replace('+', "-").replace('/', "_");
        let broken: String = plain.chars().flat_map(|c| [c, '\n']).collect();
        for text in [plain.trim_end_matches('='), &url_safe, &broken] {
            assert_eq!(from_base64("image/png", text), Ok(expected.clone()), "{text}");
        }
        assert_eq!(from_base64("image/png", "no base64!"), Err("it is not valid base64"));
    }
}
