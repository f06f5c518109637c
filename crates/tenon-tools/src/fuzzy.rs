//! How well a few typed letters fit a name or a path: all of them in order, better at the beginnings of words
//! and in the last part of a path. Nothing is allocated for a candidate.

/// Letters that follow each other directly say more than letters anywhere.
const CONSECUTIVE: i32 = 16;
/// The first letter of a word: after a separator, or where small letters end (`fileIndex`).
const WORD_START: i32 = 12;
const MATCHED: i32 = 8;
/// Every letter passed over inside the match.
const GAP: i32 = -1;
const MOST_GAP: i32 = -20;
/// The match lies in the last part of the path.
const IN_NAME: i32 = 30;
/// The last part begins with what was typed, or is it.
const NAME_BEGINS: i32 = 40;
const NAME_IS: i32 = 80;
/// Of two paths that fit alike the shorter one is meant: so many bytes cost a point.
const BYTES_PER_POINT: usize = 8;

/// Small letters for capitals.
const LOWER: [u8; 256] = {
    let mut lower = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        lower[byte] = (byte as u8).to_ascii_lowercase();
        byte += 1;
    }
    lower
};

/// What was typed, ready to be compared many times.
#[derive(Clone, Debug)]
pub struct Typed {
    /// In small letters.
    letters: Vec<u8>,
    mask: u64,
}

impl Typed {
    pub fn new(text: &str) -> Typed {
        let letters: Vec<u8> = text.bytes().map(|byte| byte.to_ascii_lowercase()).collect();
        Typed { mask: mask(&letters), letters }
    }

    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// Whether a path with these letters can fit at all.
    pub(crate) fn may_fit(&self, path_mask: u64) -> bool {
        self.mask & !path_mask == 0
    }

    /// Higher is better; `None` does not fit. A folder may end with a slash.
    pub fn score(&self, path: &[u8]) -> Option<i32> {
        let body = path.strip_suffix(b"/").unwrap_or(path);
        let shorter = -i32::try_from(path.len() / BYTES_PER_POINT).unwrap_or(i32::MAX);
        if self.letters.is_empty() {
            return Some(shorter);
        }
        let mut name_at = body.len();
        while name_at > 0 && body[name_at - 1] != b'/' {
            name_at -= 1;
        }
        let name = &body[name_at..];
        let wanted = self.letters.strip_suffix(b"/").unwrap_or(&self.letters);
        let in_name = in_order(wanted, name).map(|score| {
            let begins = name.len() >= wanted.len() && name[..wanted.len()].eq_ignore_ascii_case(wanted);
            let extra = match begins {
                true if name.len() == wanted.len() => NAME_IS,
                true => NAME_BEGINS,
                false => 0,
            };
            score + IN_NAME + extra
        });
        let best = match in_name {
            Some(score) => Some(score),
            None if name_at == 0 => None,
            None => in_order(wanted, body),
        };
        best.map(|score| score + shorter)
    }
}

/// The shortest stretch that ends where the letters first end, and what it is worth.
fn in_order(wanted: &[u8], text: &[u8]) -> Option<i32> {
    // Counted by hand: this runs for each of a hundred thousand paths at every letter, in builds for tests as well.
    let (mut found, mut end) = (0, 0);
    while found < wanted.len() {
        if end == text.len() {
            return None;
        }
        if LOWER[text[end] as usize] == wanted[found] {
            found += 1;
        }
        end += 1;
    }
    // Backwards from there, so that letters far away are not taken where near ones would do.
    let mut score = 0;
    let mut gaps = 0_usize;
    let mut at = end;
    let mut after = end;
    while found > 0 {
        at -= 1;
        if LOWER[text[at] as usize] != wanted[found - 1] {
            continue;
        }
        found -= 1;
        score += MATCHED;
        if is_word_start(text, at) {
            score += WORD_START;
        }
        if found + 1 < wanted.len() {
            match after - at - 1 {
                0 => score += CONSECUTIVE,
                between => gaps += between,
            }
        }
        after = at;
    }
    let gaps = i32::try_from(gaps).unwrap_or(i32::MAX).saturating_mul(GAP);
    Some(score + gaps.max(MOST_GAP))
}

fn is_word_start(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| text[before]) else { return true };
    !before.is_ascii_alphanumeric() && before.is_ascii()
        || before.is_ascii_lowercase() && text[at].is_ascii_uppercase()
}

/// One bit for each letter and digit that occurs, and one for everything else.
pub(crate) fn mask(text: &[u8]) -> u64 {
    text.iter().fold(0, |mask, byte| {
        mask | match byte {
            b'a'..=b'z' => 1 << (byte - b'a'),
            b'A'..=b'Z' => 1 << (byte - b'A'),
            b'0'..=b'9' => 1 << (26 + (byte - b'0')),
            b'/' => 1 << 36,
            b'.' => 1 << 37,
            b'_' => 1 << 38,
            b'-' => 1 << 39,
            other => 1 << (40 + (other % 24)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best<'a>(typed: &str, paths: &[&'a str]) -> Option<&'a str> {
        let typed = Typed::new(typed);
        let scored = paths.iter().filter_map(|path| Some((typed.score(path.as_bytes())?, *path)));
        scored.max_by_key(|(score, _)| *score).map(|(_, path)| path)
    }

    #[test]
    fn what_is_meant_comes_first() {
        let table = [
            ("main", &["src/domain.rs", "src/main.rs", "m/a/i/n.rs"][..], Some("src/main.rs")),
            ("fi", &["src/ifi.rs", "src/file_index.rs"], Some("src/file_index.rs")),
            ("ix", &["src/matrix.rs", "src/fileIndexX.rs", "a/i/x.rs"], Some("src/matrix.rs")),
            ("mod", &["a/very/long/way/down/mod.rs", "b/mod.rs"], Some("b/mod.rs")),
            ("srcma", &["src/main.rs", "docs/readme.md"], Some("src/main.rs")),
            ("src/", &["src/", "a/src.rs"], Some("src/")),
            ("SRC", &["src/", "x/y.rs"], Some("src/")),
            ("", &["deep/er/file.rs", "a"], Some("a")),
            ("zz", &["a", "src/main.rs"], None),
            ("ü", &["ä", "über.txt"], Some("über.txt")),
        ];
        for (typed, paths, wanted) in table {
            assert_eq!(best(typed, paths), wanted, "{typed}");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(tenon_testkit::cases(256)))]

        /// The filter by letters never loses a path that fits, and letters of a path in order always fit it.
        #[test]
        fn letters_of_a_path_fit_it(path in ".{1,40}", picks in proptest::collection::vec(proptest::bool::ANY, 40)) {
            let picked: Vec<u8> =
                path.bytes().zip(&picks).filter(|(_, pick)| **pick).map(|(byte, _)| byte).collect();
            if let Ok(text) = String::from_utf8(picked) {
                let typed = Typed::new(&text);
                proptest::prop_assert!(typed.may_fit(mask(path.to_ascii_lowercase().as_bytes())));
                if !text.ends_with('/') && !path.ends_with('/') {
                    proptest::prop_assert!(typed.score(path.as_bytes()).is_some(), "{text} {path}");
                }
            }
        }
    }
}
