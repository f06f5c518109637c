//! Characters that mean something to a reader of HTML or XML. What else a text may not hold differs between the two:
//! `page/html.rs`, `draw/svg.rs`.

/// How a character is written that would end a text, or an attribute in quotes. `None` for one that stands for itself.
pub(crate) fn entity(c: char) -> Option<&'static str> {
    match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        _ => None,
    }
}
