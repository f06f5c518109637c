//! Texts of a page: escaped, cut where they are endless, and with nothing in them that hides or reorders what they say.

use std::fmt::Write as _;

use tenon_core::Timestamp;

use crate::markup::entity;
use crate::unicode::{is_bidi, is_invisible};

/// Of one text. A page is for reading; all of it is in the journal.
const MAX_CHARS: usize = 20_000;
/// Of a page. A larger one opens slowly, on a phone not at all; from here on texts are left out and counted.
pub(super) const MAX_BYTES: usize = 8_000_000;

/// Fit for the content of an element and for an attribute in quotes.
pub(super) fn text(content: &str) -> String {
    let mut shown = String::with_capacity(content.len());
    content.chars().for_each(|c| push(&mut shown, c));
    shown
}

fn push(shown: &mut String, c: char) {
    if let Some(entity) = entity(c) {
        return shown.push_str(entity);
    }
    match c {
        '\n' | '\t' => shown.push(c),
        // Shown by their numbers: they would act on what stands around them.
        c if c.is_control()
            || is_bidi(c)
            || is_invisible(c)
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}') =>
        {
            // A `String` takes everything.
            let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
        }
        c => shown.push(c),
    }
}

/// A text with its heading, of this level, as it was written. A long one is cut, and says so; so does one for which the page has
/// no room.
pub(super) fn payload(page: &mut String, level: u8, heading: &str, content: &str) {
    if page.len() >= MAX_BYTES {
        let chars = number(content.chars().count() as u64);
        let _ = writeln!(
            page,
            "<p class=\"note\">{}: {chars} characters are not shown, because the page is full.</p>",
            text(heading)
        );
        return;
    }
    let mut shown = String::new();
    let mut rest = content.chars();
    rest.by_ref().take(MAX_CHARS).for_each(|c| push(&mut shown, c));
    let more = rest.count();
    let _ = write!(
        page,
        "<h{level} class=\"label\">{}</h{level}>\n<pre tabindex=\"0\">{shown}</pre>\n",
        text(heading)
    );
    if more > 0 {
        let _ =
            writeln!(page, "<p class=\"note\">{} more characters are not shown.</p>", number(more as u64));
    }
}

/// `3.2 s`, `1 min 05 s`, `2 h 03 min`
pub(super) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{}.{} s", seconds, ms % 1000 / 100),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

pub(super) fn moment(at: Timestamp) -> String {
    let iso = at.to_iso8601();
    let (day, time) = (iso.get(..10).unwrap_or(&iso), iso.get(11..19).unwrap_or_default());
    format!("<time datetime=\"{iso}\">{day} {time} UTC</time>")
}

/// `12,345`
pub(super) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

pub(super) fn money(usd: Option<f64>) -> String {
    usd.map_or_else(|| "unknown".to_owned(), |usd| format!("${usd:.4}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenon_testkit::cases;

    use super::*;

    #[test]
    fn numbers_read_well() {
        for (ms, wanted) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1.0 s"),
            (59_999, "59.9 s"),
            (65_000, "1 min 05 s"),
            (7_380_000, "2 h 03 min"),
        ] {
            assert_eq!(duration(ms), wanted);
        }
        for (count, wanted) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(count), wanted);
        }
        assert_eq!((money(None).as_str(), money(Some(0.01)).as_str()), ("unknown", "$0.0100"));
    }

    #[test]
    fn long_texts_are_cut_and_say_so() {
        let mut page = String::new();
        payload(&mut page, 3, "Answer", &"<".repeat(MAX_CHARS + 1234));
        assert_eq!(page.matches("&lt;").count(), MAX_CHARS);
        assert!(page.ends_with("<p class=\"note\">1,234 more characters are not shown.</p>\n"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(cases(500)))]
        #[test]
        fn nothing_gets_out_of_its_element(content in any::<String>(), odd in "[<>&\"'\u{202e}\u{2066}\u{0}\u{7f}\u{200b}]{0,12}") {
            let shown = text(&format!("{content}{odd}"));
            prop_assert!(!shown.contains(['<', '>', '"', '\'']));
            prop_assert!(!shown.chars().any(|c| c.is_control() && !"\n\t".contains(c) || is_bidi(c) || is_invisible(c)));
            for (at, _) in shown.match_indices('&') {
                let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
                prop_assert!(known.iter().any(|known| shown[at..].starts_with(known)));
            }
        }
    }
}
