//! A document as YAML that people like to read and edit: blocks, no quotes where none are needed, texts of several lines as such.
//!
//! Reading it again (`node/yaml.rs`) gives the same values; a property test says so.

use serde_json::{Map, Value};

const INDENT: usize = 2;
/// A list of short words up to this width stands in one line.
const ONE_LINE: usize = 72;

pub(crate) fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => map(&mut text, members, 0, Begin::OnNewLine),
        Value::Array(items) if !items.is_empty() => list(&mut text, items, 0),
        scalar => {
            text.push_str(&inline(scalar));
            text.push('\n');
        }
    }
    text
}

/// Where the first line of a map goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    OnNewLine,
    /// After the `- ` of a list.
    Here,
}

fn map(text: &mut String, members: &Map<String, Value>, depth: usize, begin: Begin) {
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 || begin == Begin::OnNewLine {
            indent(text, depth);
        }
        text.push_str(&word(key));
        text.push(':');
        under(text, value, depth);
    }
}

fn list(text: &mut String, items: &[Value], depth: usize) {
    for item in items {
        indent(text, depth);
        text.push('-');
        match item {
            Value::Object(members) if !members.is_empty() => {
                text.push(' ');
                map(text, members, depth + INDENT, Begin::Here);
            }
            item => under(text, item, depth),
        }
    }
}

/// A value after its key or dash, which stands at `depth`.
fn under(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            map(text, members, depth + INDENT, Begin::OnNewLine);
        }
        Value::Array(items) if !items.is_empty() => match in_one_line(items) {
            Some(line) => {
                text.push(' ');
                text.push_str(&line);
                text.push('\n');
            }
            None => {
                text.push('\n');
                list(text, items, depth + INDENT);
            }
        },
        Value::String(content) if is_block(content) => {
            text.push_str(if content.ends_with('\n') { " |\n" } else { " |-\n" });
            for line in content.lines() {
                if !line.is_empty() {
                    indent(text, depth + INDENT);
                    text.push_str(line);
                }
                text.push('\n');
            }
        }
        scalar => {
            text.push(' ');
            text.push_str(&inline(scalar));
            text.push('\n');
        }
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n(' ', depth));
}

fn in_one_line(items: &[Value]) -> Option<String> {
    let words: Option<Vec<String>> = items
        .iter()
        .map(|item| match item {
            Value::Object(_) | Value::Array(_) => None,
            scalar => Some(inline(scalar)),
        })
        .collect();
    let line = format!("[{}]", words?.join(", "));
    (line.chars().count() <= ONE_LINE).then_some(line)
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(content) => word(content),
        // Empty, or of a kind that is written as in JSON.
        other => other.to_string(),
    }
}

fn word(content: &str) -> String {
    if is_plain(content) { content.to_owned() } else { quoted(content) }
}

/// Words that need no quotes anywhere, and that no reader of YAML takes for something else.
fn is_plain(content: &str) -> bool {
    const NOT_TEXT: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let first = content.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let inner = |c: char| c.is_ascii_alphanumeric() || "_-./() ;+'".contains(c);
    first
        && content.chars().all(inner)
        && !content.ends_with(' ')
        && content.chars().count() <= ONE_LINE * 2
        && !NOT_TEXT.iter().any(|word| content.eq_ignore_ascii_case(word))
}

fn quoted(content: &str) -> String {
    let mut text = String::with_capacity(content.len() + 2);
    text.push('"');
    for c in content.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            c if is_unprintable(c) => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// What YAML does not take as it is, or takes for the end of a line.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Several lines that a literal block holds as they are.
fn is_block(content: &str) -> bool {
    let without_end = content.strip_suffix('\n').unwrap_or(content);
    let is_kept = |line: &str| line.is_empty() || !line.trim().is_empty();
    without_end.contains('\n')
        && !without_end.ends_with('\n')
        && !without_end.starts_with(['\n', ' ', '\t'])
        && !without_end.chars().any(|c| c != '\n' && is_unprintable(c))
        && without_end.lines().all(is_kept)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use tenon_testkit::cases;

    use super::*;
    use crate::node::{self, Format};

    fn again(text: &str) -> Value {
        let read = node::read(text, Format::Yaml);
        assert!(read.faults.is_empty(), "{:?}\n{text}", read.faults);
        let read = read.root.unwrap();
        read.to_json().unwrap_or_else(|fault| panic!("{}\n{text}", fault.message))
    }

    #[test]
    fn it_reads_well() {
        let value = json!({
            "name": "a b", "empty": {}, "none": [], "flag": true, "no": "no", "n": 1.50, "nothing": null,
            "list": ["a", "b: c", 3], "text": "one\ntwo\n\nthree", "ended": "one\ntwo\n", "odd": " lead\nx",
            "steps": [{"id": "x", "loop": {"forEach": ["a", {"k": "v"}]}}, {"id": "y"}], "condition": "a.b == 'c'",
        });
        let wanted = "\
name: a b
empty: {}
none: []
flag: true
\"no\": \"no\"
\"n\": 1.5
nothing: null
list: [a, \"b: c\", 3]
text: |-
  one
  two

  three
ended: |
  one
  two
odd: \" lead\\nx\"
steps:
  - id: x
    loop:
      forEach:
        - a
        - k: v
  - id: \"y\"
condition: \"a.b == 'c'\"
";
        assert_eq!(to_yaml(&value), wanted);
        assert_eq!(again(wanted), value);
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z]{1,6}( [a-z]{1,6}){0,3}",
            "[ -~\\n\\t]{0,40}",
            ".{0,12}",
            "([a-z#:>|\\- ]{0,8}\\n){0,4}",
            Just("true".to_owned()),
            Just("0x1f".to_owned()),
            Just("---".to_owned()),
            Just("a\u{85}b\u{feff}\u{2028}".to_owned()),
        ]
        // No key may be called so: it means something else in YAML.
        .prop_filter("merge", |text| text != "<<")
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any_text().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((any_text(), inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(cases(300)))]
        #[test]
        fn what_is_written_reads_the_same(value in any_value()) {
            let text = to_yaml(&value);
            prop_assert_eq!(again(&text), value, "{}", text);
        }
    }
}
