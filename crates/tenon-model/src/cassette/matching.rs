//! When two requests are the same, and where they first differ.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use super::Protocol;
use super::conversation::{chat, text_of, tool_names};

/// A recorded body reduced to what must match. Folders have been replaced before.
pub(super) fn comparable(protocol: Protocol, recorded: &Value) -> Value {
    let mut ids = CallIds::default();
    let messages: Vec<Value> =
        chat(recorded).iter().map(|message| comparable_message(message, &mut ids)).collect();
    let mut tools = tool_names(recorded);
    tools.sort_unstable();
    // An answer in another protocol is none; told last, because a difference before it says more.
    json!({ "messages": messages, "tools": tools, "protocol": protocol.name() })
}

fn comparable_message(message: &Value, ids: &mut CallIds) -> Value {
    let mut kept = Map::new();
    kept.insert("role".to_owned(), message["role"].clone());
    kept.insert("content".to_owned(), Value::String(steady(&text_of(&message["content"]))));
    if let Some(media) = message.get("media") {
        kept.insert("media".to_owned(), media.clone());
    }
    if let Some(calls) = message["tool_calls"].as_array() {
        let calls = calls.iter().map(|call| {
            let arguments = match &call["function"]["arguments"] {
                Value::String(text) => match serde_json::from_str(text) {
                    Ok(value @ Value::Object(_)) => value,
                    _ => Value::String(text.clone()),
                },
                other => other.clone(),
            };
            json!({ "id": ids.number(&call["id"]), "name": call["function"]["name"], "arguments": steady_value(arguments) })
        });
        kept.insert("tool_calls".to_owned(), calls.collect());
    }
    if let Some(id) = message.get("tool_call_id") {
        kept.insert("tool_call_id".to_owned(), ids.number(id));
    }
    Value::Object(kept)
}

/// Ids of tool calls differ from run to run; their order does not.
#[derive(Default)]
struct CallIds(HashMap<String, usize>);

impl CallIds {
    fn number(&mut self, id: &Value) -> Value {
        let next = self.0.len() + 1;
        let number = *self.0.entry(id.to_string()).or_insert(next);
        Value::String(format!("call {number}"))
    }
}

fn steady_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(steady(&text)),
        Value::Array(items) => items.into_iter().map(steady_value).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (name, steady_value(member))).collect()
        }
        other => other,
    }
}

/// `text` without what changes from run to run.
fn steady(text: &str) -> String {
    const PATTERN: &str = r"(?x)
        (?<uuid> \b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b )
      | (?<temp> \{\{temp\}\}/[^\s'`<>:,;/\x22\\]+ )
      | (?<process> \b(?:PGID|PID|pgid|pid)\b[:=\ ]{1,3}\d+ )
      | (?<time> \b\d{4}-\d\d-\d\d(?:[T\ ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|\ ?[+-]\d\d:?\d\d)?)?
               | \b\d\d:\d\d:\d\d(?:[.,]\d+)?\b
               | (?:\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\ +)?
                 \b(?:(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\ +\d{1,2}
                   | \d{1,2}\ +(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*)
                 ,?\ +(?:\d\d:\d\d(?::\d\d)?|\d{4})\b
                 (?:\ +(?:\d\d:\d\d(?::\d\d)?|\d{4}|[+-]\d{4}|[AP]M|[A-Z]{1,3}[SD]?T|UTC)\b){0,3} )
      | (?<duration> \b\d+(?:\.\d+)?\ ?(?:ns|µs|us|ms|s|sec|secs|seconds?|minutes?)\b )
      | (?<epoch> \b1\d{9}(?:\d{3})?(?:\.\d+)?\b )";
    // The pattern is fixed; a test compiles it.
    static REGEX: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PATTERN).ok());
    const NAMES: [&str; 6] = ["uuid", "temp", "process", "time", "duration", "epoch"];
    let Some(regex) = &*REGEX else { return text.to_owned() };
    let name = |found: &Captures<'_>| {
        let name = NAMES.into_iter().find(|name| found.name(name).is_some()).unwrap_or_default();
        format!("{{{{{name}}}}}")
    };
    regex.replace_all(text, name).into_owned()
}

/// Where two comparable bodies first differ.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub pointer: String,
    pub recorded: String,
    pub actual: String,
}

/// Values in a message are cut to this length.
const MAX_SHOWN_CHARS: usize = 80;
/// How much is shown before the place where two texts part.
const SHOWN_BEFORE: usize = 20;

pub(super) fn first_difference(recorded: &Value, actual: &Value) -> Option<Difference> {
    difference_at(String::new(), Some(recorded), Some(actual))
}

/// How close two requests are: by the messages that agree before the first that does not, then by how
/// little they differ in length. More is closer.
pub(super) fn closeness(recorded: &Value, actual: &Value) -> (usize, std::cmp::Reverse<usize>) {
    let messages = |body: &Value| body["messages"].as_array().map(Vec::as_slice).unwrap_or_default().to_vec();
    let (recorded, actual) = (messages(recorded), messages(actual));
    let agreeing = recorded.iter().zip(&actual).take_while(|(left, right)| left == right).count();
    (agreeing, std::cmp::Reverse(recorded.len().abs_diff(actual.len())))
}

fn difference_at(pointer: String, recorded: Option<&Value>, actual: Option<&Value>) -> Option<Difference> {
    if recorded == actual {
        return None;
    }
    match (recorded, actual) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let only_right = right.keys().filter(|name| !left.contains_key(*name));
            left.keys().chain(only_right).find_map(|name| {
                let below = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                difference_at(below, left.get(name), right.get(name))
            })
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => (0..left.len().max(right.len()))
            .find_map(|at| difference_at(format!("{pointer}/{at}"), left.get(at), right.get(at))),
        (Some(Value::String(left)), Some(Value::String(right))) => {
            let same = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
            Some(Difference { pointer, recorded: window(left, same), actual: window(right, same) })
        }
        _ => Some(Difference { pointer, recorded: shown(recorded), actual: shown(actual) }),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| cut(&value.to_string()))
}

/// A text around the place where it differs.
fn window(text: &str, same: usize) -> String {
    let skipped = if text.chars().count() <= MAX_SHOWN_CHARS { 0 } else { same.saturating_sub(SHOWN_BEFORE) };
    let rest: String = text.chars().skip(skipped).collect();
    let dots = if skipped > 0 { "…" } else { "" };
    cut(&Value::String(format!("{dots}{rest}")).to_string())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::conversation::recorded_body;
    use super::*;

    #[test]
    fn what_changes_from_run_to_run_is_replaced() {
        for (text, expected) in [
            ("id 67e55044-10b1-426f-9247-bb680e5fe0c8!", "id {{uuid}}!"),
            ("on 2026-11-15 at 2026-11-15T10:11:12.5Z", "on {{time}} at {{time}}"),
            ("at 10:11:12", "at {{time}}"),
            ("Today is Saturday, November 15, 2026.", "Today is {{time}}."),
            ("-rw-r--r-- 1 u u 60 Nov 15 11:16 a.txt", "-rw-r--r-- 1 u u 60 {{time}} a.txt"),
            ("Sun Nov 15 12:03:06 UTC 2026 was it", "{{time}} was it"),
            ("Date:   Sun Nov 5 12:03:06 2026 +0100", "Date:   {{time}}"),
            ("Sun, 15 Nov 2026 12:03:06 GMT", "{{time}}"),
            ("Sun Nov 15 12:03:06 PM CET 2026", "{{time}}"),
            ("May be in March: 12 files", "May be in March: 12 files"),
            ("took 123ms, then 1.5 s", "took {{duration}}, then {{duration}}"),
            ("created 1763200000 and 1763200000123", "created {{epoch}} and {{epoch}}"),
            ("Process Group PGID: 4711", "Process Group {{process}}"),
            ("{{temp}}/tenon-x1/out.txt", "{{temp}}/out.txt"),
            ("version 1.2.3 of 2026, 42 files, port 8080", "version 1.2.3 of 2026, 42 files, port 8080"),
        ] {
            assert_eq!(steady(text), expected, "{text}");
        }
    }

    #[test]
    fn requests_match_by_their_conversation() {
        let first = json!({
            "model": "a", "temperature": 1,
            "messages": [
                {"role": "system", "content": "old prompt"},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "x1", "type": "function", "function": {"name": "read_file", "arguments": "{\"a\": 1, \"b\": 2}"}}]},
                {"role": "tool", "tool_call_id": "x1", "content": "took 3 ms"},
            ],
            "tools": [{"type": "function", "function": {"name": "b"}}, {"type": "function", "function": {"name": "a"}}],
        });
        let second = json!({
            "tools": ["a", "b"],
            "messages": [
                {"content": "hi", "role": "user"},
                {"role": "assistant", "content": "", "tool_calls": [
                    {"id": "y9", "type": "function", "function": {"name": "read_file", "arguments": "{\"b\":2,\"a\":1}"}}]},
                {"role": "tool", "tool_call_id": "y9", "content": "took 4 ms"},
            ],
        });
        let kept = |body: &Value| {
            let recorded = recorded_body(Protocol::OpenAiChat, "", body);
            comparable(Protocol::OpenAiChat, &recorded)
        };
        assert_eq!(kept(&first), kept(&second));
        assert_eq!(kept(&second), comparable(Protocol::OpenAiChat, &second));
        let elsewhere = comparable(Protocol::Gemini, &second);
        let found = first_difference(&kept(&first), &elsewhere).unwrap();
        assert_eq!((found.pointer.as_str(), found.actual.as_str()), ("/protocol", "\"gemini\""));
    }

    #[test]
    fn the_first_difference_is_shown_with_its_surroundings() {
        let body = |text: &str| json!({"messages": [{"role": "user", "content": text}], "tools": ["a"]});
        let long = "x".repeat(100);
        for (recorded, actual, pointer, shown_recorded, shown_actual) in [
            (body("one"), body("two"), "/messages/0/content", "\"one\"", "\"two\""),
            (
                body(&format!("{long}A tail")),
                body(&format!("{long}B tail")),
                "/messages/0/content",
                "\"…xxxxxxxxxxxxxxxxxxxxA tail\"",
                "\"…xxxxxxxxxxxxxxxxxxxxB tail\"",
            ),
            (
                body("a"),
                json!({"messages": [], "tools": ["a"]}),
                "/messages/0",
                r#"{"role":"user","content":"a"}"#,
                "nothing",
            ),
            (
                body("a"),
                json!({"messages": [{"role": "user", "content": "a"}], "tools": ["b"]}),
                "/tools/0",
                "\"a\"",
                "\"b\"",
            ),
        ] {
            let found = first_difference(&recorded, &actual).unwrap();
            assert_eq!(
                (found.pointer.as_str(), found.recorded.as_str(), found.actual.as_str()),
                (pointer, shown_recorded, shown_actual)
            );
        }
        assert_eq!(first_difference(&body("a"), &body("a")), None);
    }
}
