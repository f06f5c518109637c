//! A web page as text that a model reads well: headings, lists, links and code, and nothing of the page's
//! machinery. One pass over the text, nothing nested, so that no page can make it slow.

/// What is kept besides the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Headings, lists, links and code are marked.
    Markdown,
    Plain,
}

/// Elements whose content is not for readers.
const UNREAD: &[&str] = &["script", "style", "noscript", "template", "svg", "iframe", "object", "canvas"];
/// Elements that stand in lines of their own.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hr",
    "html",
    "legend",
    "main",
    "nav",
    "ol",
    "p",
    "section",
    "summary",
    "table",
    "tbody",
    "thead",
    "title",
    "tr",
    "ul",
];
/// Longer addresses are data, not places to go.
const MAX_LINK: usize = 500;
/// No named character is longer.
const MAX_ENTITY: usize = 10;

pub(crate) fn html_to_text(html: &str, style: Style) -> String {
    let mut page =
        Page { style, text: String::new(), space: Space::None, link: None, pre: 0, lists: Vec::new() };
    let title = title_of(html);
    if let Some(title) = &title {
        page.mark("# ");
        page.words(title);
        page.lines(2);
    }
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        page.words(&decode_entities(&rest[..at]));
        rest = &rest[at..];
        rest = match markup(rest) {
            Markup::Text(length) => {
                page.words(&rest[..length]);
                &rest[length..]
            }
            Markup::Nothing(length) => &rest[length..],
            Markup::Tag(tag) => {
                let after = &rest[tag.length..];
                page.tag(&tag);
                // The title was told already.
                let is_unread = UNREAD.contains(&tag.name.as_str()) || tag.name == "title";
                if is_unread && !tag.closes && !tag.closes_itself {
                    after_end_of(after, &tag.name)
                } else {
                    after
                }
            }
        };
    }
    page.words(&decode_entities(rest));
    page.text.trim().to_owned()
}

enum Markup<'a> {
    Tag(Tag<'a>),
    /// A comment, a declaration.
    Nothing(usize),
    /// A lone `<`.
    Text(usize),
}

struct Tag<'a> {
    /// In lower case.
    name: String,
    closes: bool,
    closes_itself: bool,
    attributes: &'a str,
    length: usize,
}

/// What begins with this `<`.
fn markup(text: &str) -> Markup<'_> {
    if let Some(comment) = text.strip_prefix("<!--") {
        return Markup::Nothing(comment.find("-->").map_or(text.len(), |end| 4 + end + 3));
    }
    if text.starts_with("<!") || text.starts_with("<?") {
        return Markup::Nothing(text.find('>').map_or(text.len(), |end| end + 1));
    }
    let (closes, inner) = match text[1..].strip_prefix('/') {
        Some(inner) => (true, inner),
        None => (false, &text[1..]),
    };
    if !inner.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return if closes {
            Markup::Nothing(text.find('>').map_or(text.len(), |end| end + 1))
        } else {
            Markup::Text(1)
        };
    }
    let name_length =
        inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != ':').unwrap_or(inner.len());
    let after_name = &inner[name_length..];
    let end = end_of_tag(after_name);
    let attributes = &after_name[..end];
    let start = text.len() - inner.len();
    Markup::Tag(Tag {
        name: inner[..name_length].to_ascii_lowercase(),
        closes,
        closes_itself: attributes.ends_with('/'),
        attributes,
        length: (start + name_length + end + 1).min(text.len()),
    })
}

/// Where the `>` is that is in no quotes.
fn end_of_tag(text: &str) -> usize {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'>') => return at,
            _ => {}
        }
    }
    text.len()
}

/// What follows `</name>`; nothing, if it never comes.
fn after_end_of<'a>(text: &'a str, name: &str) -> &'a str {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(found) = text[from..].find("</") {
        let at = from + found + 2;
        let end = at + name.len();
        if bytes.len() >= end && bytes[at..end].eq_ignore_ascii_case(name.as_bytes()) {
            return text[end..].find('>').map_or("", |close| &text[end + close + 1..]);
        }
        from = at;
    }
    ""
}

fn title_of(html: &str) -> Option<String> {
    // Titles stand near the beginning.
    const LOOKED_AT: usize = 64 * 1024;
    let mut end = html.len().min(LOOKED_AT);
    while !html.is_char_boundary(end) {
        end -= 1;
    }
    let lower = html[..end].to_ascii_lowercase();
    let start = lower.find("<title")?;
    let open = start + lower[start..].find('>')? + 1;
    let close = open + lower[open..].find("</title")?;
    let title = decode_entities(&html[open..close]).split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then_some(title)
}

/// What separates the next word from the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    None,
    Blank,
    Lines(u8),
}

struct Page {
    style: Style,
    text: String,
    space: Space,
    /// Where the link under way leads, and where its words begin.
    link: Option<(String, usize)>,
    pre: u32,
    /// The lists around, with the number of the next item of an ordered one.
    lists: Vec<Option<u32>>,
}

impl Page {
    fn tag(&mut self, tag: &Tag<'_>) {
        let markdown = self.style == Style::Markdown;
        match (tag.name.as_str(), tag.closes) {
            ("br", _) => self.lines(1),
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                self.lines(2);
                let level = tag.name[1..].parse().unwrap_or(1);
                self.mark(&format!("{} ", "#".repeat(level)));
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", true) => self.lines(2),
            ("li", false) => {
                self.lines(1);
                let depth = self.lists.len().saturating_sub(1).min(8);
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}{number}. ", "  ".repeat(depth))
                    }
                    _ => format!("{}- ", "  ".repeat(depth)),
                };
                self.mark_always(&mark);
            }
            ("ul" | "menu", false) => self.open_list(None),
            ("ol", false) => self.open_list(Some(0)),
            ("ul" | "ol" | "menu", true) => {
                self.lists.pop();
                self.lines(if self.lists.is_empty() { 2 } else { 1 });
            }
            ("td" | "th", true) => {
                self.space = self.space.max(Space::Blank);
                self.mark("| ");
            }
            ("pre", false) => {
                self.lines(2);
                self.mark("```\n");
                self.pre += 1;
            }
            ("pre", true) => {
                self.pre = self.pre.saturating_sub(1);
                if markdown {
                    if !self.text.ends_with('\n') {
                        self.text.push('\n');
                    }
                    self.text.push_str("```");
                }
                self.lines(2);
            }
            ("code", _) if self.pre == 0 && markdown => {
                self.separate_if(!tag.closes);
                self.text.push('`');
            }
            ("a", false) if markdown => {
                let href = attribute(tag.attributes, "href").unwrap_or_default();
                let leads_somewhere = !href.is_empty()
                    && !href.starts_with('#')
                    && !href.starts_with("javascript:")
                    && !href.starts_with("data:")
                    && href.len() <= MAX_LINK;
                if leads_somewhere && self.link.is_none() {
                    self.separate_if(true);
                    self.link = Some((href, self.text.len()));
                }
            }
            ("a", true) => {
                if let Some((href, start)) = self.link.take() {
                    // Laying out lines may have moved the end of the text below where the link began.
                    let mut start = start.min(self.text.len());
                    while !self.text.is_char_boundary(start) {
                        start -= 1;
                    }
                    let words = self.text.split_off(start);
                    let trimmed = words.trim();
                    if !trimmed.is_empty() {
                        self.text.push_str(&format!("[{}]({href})", trimmed.replace('\n', " ")));
                    }
                }
            }
            ("img", _) => {
                let alt = attribute(tag.attributes, "alt").unwrap_or_default();
                if !alt.trim().is_empty() {
                    self.words(&format!("[image: {}]", alt.trim()));
                }
            }
            ("p" | "table" | "blockquote" | "hr", _) => self.lines(2),
            (name, _) if BLOCKS.contains(&name) => self.lines(1),
            _ => {}
        }
    }

    fn open_list(&mut self, number: Option<u32>) {
        /// Deeper lists are machinery.
        const MAX_DEPTH: usize = 64;
        self.lines(if self.lists.is_empty() { 2 } else { 1 });
        if self.lists.len() < MAX_DEPTH {
            self.lists.push(number);
        }
    }

    /// Text of the page, white space folded unless it is laid out by hand.
    fn words(&mut self, text: &str) {
        if self.pre > 0 {
            self.separate();
            self.text.push_str(text);
            return;
        }
        if text.starts_with(char::is_whitespace) {
            self.space = self.space.max(Space::Blank);
        }
        for word in text.split_whitespace() {
            self.separate();
            self.text.push_str(word);
            self.space = Space::Blank;
        }
        let ends_open = text.ends_with(|c: char| !c.is_whitespace());
        if ends_open && self.space == Space::Blank {
            self.space = Space::None;
        }
    }

    fn lines(&mut self, lines: u8) {
        self.space = self.space.max(Space::Lines(lines));
    }

    /// A mark of the layout, where the style has marks.
    fn mark(&mut self, mark: &str) {
        if self.style == Style::Markdown {
            self.mark_always(mark);
        }
    }

    fn mark_always(&mut self, mark: &str) {
        self.separate();
        self.text.push_str(mark);
        self.space = Space::None;
    }

    fn separate_if(&mut self, separate: bool) {
        if separate {
            self.separate();
        }
    }

    fn separate(&mut self) {
        if !self.text.is_empty() {
            match self.space {
                Space::None => {}
                Space::Blank if self.text.ends_with([' ', '\n']) => {}
                Space::Blank => self.text.push(' '),
                Space::Lines(lines) => {
                    let kept = self.text.trim_end_matches([' ', '\n']).len();
                    self.text.truncate(kept);
                    self.text.extend(std::iter::repeat_n('\n', usize::from(lines)));
                }
            }
        }
        self.space = Space::None;
    }
}

/// The value of an attribute, quotes taken off.
fn attribute(attributes: &str, name: &str) -> Option<String> {
    let mut rest = attributes;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        let length = rest.find(|c: char| c.is_whitespace() || c == '=' || c == '/').unwrap_or(rest.len());
        if length == 0 && rest.is_empty() {
            return None;
        }
        let key = &rest[..length];
        rest = rest[length..].trim_start();
        let value = match rest.strip_prefix('=') {
            None => "",
            Some(after) => {
                let after = after.trim_start();
                let (value, left) = match after.chars().next() {
                    Some(quote @ ('"' | '\'')) => {
                        let inner = &after[1..];
                        inner.split_once(quote).unwrap_or((inner, ""))
                    }
                    _ => {
                        let end = after.find(char::is_whitespace).unwrap_or(after.len());
                        after.split_at(end)
                    }
                };
                rest = left;
                value
            }
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(decode_entities(value).trim().to_owned());
        }
    }
}

fn decode_entities(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let name = rest.as_bytes().iter().take(MAX_ENTITY).position(|byte| *byte == b';');
        match name.and_then(|end| Some((end, entity(&rest[..end])?))) {
            Some((end, character)) => {
                decoded.push(character);
                rest = &rest[end + 1..];
            }
            None => decoded.push('&'),
        }
    }
    decoded.push_str(rest);
    decoded
}

fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code).filter(|c| !c.is_control() || c.is_whitespace());
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "copy" => '©',
        "reg" => '®',
        "trade" => '™',
        "deg" => '°',
        "plusmn" => '±',
        "times" => '×',
        "middot" => '·',
        "bull" => '•',
        "hellip" => '…',
        "ndash" => '–',
        "mdash" => '—',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "laquo" => '«',
        "raquo" => '»',
        "larr" => '←',
        "rarr" => '→',
        "euro" => '€',
        "pound" => '£',
        "sect" => '§',
        "auml" => 'ä',
        "ouml" => 'ö',
        "uuml" => 'ü',
        "Auml" => 'Ä',
        "Ouml" => 'Ö',
        "Uuml" => 'Ü',
        "szlig" => 'ß',
        "eacute" => 'é',
        "egrave" => 'è',
        "agrave" => 'à',
        "ccedil" => 'ç',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_text() {
        let table = [
            ("plain words", "plain words"),
            ("<p>one</p><p>two\n  three</p>", "one\n\ntwo three"),
            ("<title>A &amp; B</title><h2>Head</h2>text", "# A & B\n\n## Head\n\ntext"),
            ("a<br>b<br/>c", "a\nb\nc"),
            ("<ul><li>one<li>two<ul><li>in</ul></ul>after", "- one\n- two\n  - in\n\nafter"),
            ("<ol><li>one</li><li>two</li></ol>", "1. one\n2. two"),
            ("see <a href=\"/x?a=1&amp;b=2\">the <b>page</b></a>.", "see [the page](/x?a=1&b=2)."),
            ("<a href='#top'>up</a> <a href=javascript:x()>js</a> <a>none</a>", "up js none"),
            ("<a href='/empty'><img src=x></a>|<img alt='A cat'>", "|[image: A cat]"),
            ("<script>if (a < b) { '</p>' }</script>yes<style>p{}</style>", "yes"),
            ("<SCRIPT>x</ScRiPt >yes", "yes"),
            ("x<script>never ends <p>y", "x"),
            ("a<!-- <p>hidden</p> -->b", "ab"),
            ("a<!-- never ends", "a"),
            ("<!DOCTYPE html><html><body>x</body></html>", "x"),
            ("1 < 2 and 3 > 2 <3", "1 < 2 and 3 > 2 <3"),
            ("<pre>  a\n    b</pre>c", "```\n  a\n    b\n```\n\nc"),
            ("use <code>x = 1</code> here", "use `x = 1` here"),
            ("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>", "a | b |\n1 | 2 |"),
            ("&#65;&#x42;&nosuch;&amp;amp; &", "AB&nosuch;&amp; &"),
            ("<p title=\"a > b\">x</p>", "x"),
            ("<b>no</b><i>space</i>", "nospace"),
            ("<a href=\"x", ""),
            ("", ""),
        ];
        for (html, expected) in table {
            assert_eq!(html_to_text(html, Style::Markdown), expected, "{html}");
        }
        let plain = html_to_text("<h1>Head</h1><p>see <a href=/x>it</a> in <code>c</code></p>", Style::Plain);
        assert_eq!(plain, "Head\n\nsee it in c");
    }

    #[test]
    fn hostile_pages_take_no_longer_than_others() {
        // Each would take minutes if anything here looked at the rest of the page for every mark.
        for piece in
            ["<", "</", "<a", "<a href=\"", "<!--", "<script>", "&", "<ul>", "</script", "<title>", "'"]
        {
            let page = piece.repeat(50_000);
            html_to_text(&page, Style::Markdown);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(tenon_testkit::cases(256)))]
        #[test]
        fn any_text_is_a_page(html in "([<>/&;'\"=a-z ä\n-]|<p>|<a href=|</a>|<li>|<pre>|</pre>|<br>|&amp;|<ul>|</ul>|<!--|-->){0,60}") {
            html_to_text(&html, Style::Markdown);
            html_to_text(&html, Style::Plain);
        }
    }
}
