//! What a conversation holds besides text: images, mostly. Which of it a model can be shown is decided by
//! `tenon-model`; what a tool may bring along, by `tenon-tools`.

use std::fmt;
use std::sync::Arc;

/// Something that is not text, as it travels.
#[derive(Clone, PartialEq, Eq)]
pub struct Media {
    /// Such as `image/png`.
    pub mime: String,
    /// Base64 in the standard alphabet, padded. Shared: every request of a run carries it.
    pub data: Arc<str>,
}

impl Media {
    pub fn is_image(&self) -> bool {
        self.mime.starts_with("image/")
    }

    /// The size before it became base64.
    pub fn bytes(&self) -> usize {
        let padding = self.data.bytes().rev().take_while(|byte| *byte == b'=').count();
        (self.data.len() / 4 * 3).saturating_sub(padding)
    }

    /// For people and for models that cannot see it: `image/png, 12 KiB`.
    pub fn described(&self) -> String {
        format!("{}, {}", self.mime, size(self.bytes()))
    }
}

/// Megabytes of base64 are of no use in a log.
impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Media({})", self.described())
    }
}

fn size(bytes: usize) -> String {
    const KIB: usize = 1024;
    match bytes {
        bytes if bytes < KIB => format!("{bytes} bytes"),
        bytes if bytes < KIB * KIB => format!("{} KiB", bytes.div_ceil(KIB)),
        bytes => format!("{}.{} MiB", bytes / (KIB * KIB), bytes % (KIB * KIB) * 10 / (KIB * KIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_thing_itself() {
        for (data, described) in [
            ("", "image/png, 0 bytes"),
            ("AA==", "image/png, 1 bytes"),
            ("AAA=", "image/png, 2 bytes"),
            ("AAAA", "image/png, 3 bytes"),
        ] {
            assert_eq!(Media { mime: "image/png".into(), data: data.into() }.described(), described);
        }
        let large = Media { mime: "audio/wav".into(), data: "A".repeat(4 * 1024 * 1024).into() };
        assert_eq!(large.described(), "audio/wav, 3.0 MiB");
    }
}
