//! Folders and keys in recorded text: taken out when recording, folders put back on replay.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tenon_core::Secrets;

/// The folders of this machine that must not stand in a cassette. An empty path means: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub cwd: PathBuf,
    pub home: PathBuf,
    pub temp: Vec<PathBuf>,
}

impl Places {
    /// Each folder with its name in a cassette; the first of each name is the one that is put back.
    fn named(&self) -> Vec<(String, &'static str)> {
        let folder = |path: &Path, name| Some((path.to_str()?.trim_end_matches('/').to_owned(), name));
        let own = [
            folder(&self.cwd, "{{cwd}}"),
            self.cwd.to_str().map(|path| (project_name(path), "{{project}}")),
            folder(&self.home, "{{home}}"),
        ];
        let temp = self.temp.iter().map(|path| folder(path, "{{temp}}"));
        own.into_iter().chain(temp).flatten().filter(|(text, _)| text.len() > 1).collect()
    }

    /// `json` with the folders of this machine for their names.
    pub(super) fn put_back(&self, json: &str) -> String {
        let mut json = json.to_owned();
        for (folder, name) in self.named() {
            if json.contains(name) {
                let quoted = Value::from(folder).to_string();
                json = json.replace(name, quoted.trim_matches('"'));
            }
        }
        LITERAL.iter().fold(json, |json, (literal, escaped)| json.replace(escaped, literal))
    }
}

/// Text that only looks like one of our names, and how it is written so that it is not put back as a folder.
const LITERAL: [(&str, &str); 4] = [
    ("{{cwd}}", "{{=cwd}}"),
    ("{{project}}", "{{=project}}"),
    ("{{home}}", "{{=home}}"),
    ("{{temp}}", "{{=temp}}"),
];

/// The working folder as it is spelt in the names of kept files.
fn project_name(cwd: &str) -> String {
    cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Takes folders and keys out of text.
#[derive(Clone)]
pub(super) struct Hider {
    /// Longest first, so that the working folder inside the home folder keeps its own name.
    needles: Vec<Needle>,
}

#[derive(Clone)]
struct Needle {
    text: String,
    name: &'static str,
    kind: NeedleKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NeedleKind {
    /// Ends where the path's last name ends: `/home/u` is not in `/home/user`.
    Folder,
    /// A secret, or text that looks like one of our names: found wherever it stands.
    Text,
}

impl Hider {
    pub fn new(places: &Places, secrets: &Secrets) -> Hider {
        let folders =
            places.named().into_iter().map(|(text, name)| Needle { text, name, kind: NeedleKind::Folder });
        let literal = LITERAL.iter().map(|(literal, escaped)| Needle {
            text: (*literal).to_owned(),
            name: escaped,
            kind: NeedleKind::Text,
        });
        let secrets = secrets.needles().map(|secret| Needle {
            text: secret.to_owned(),
            name: "***",
            kind: NeedleKind::Text,
        });
        let mut needles: Vec<Needle> = folders.chain(literal).chain(secrets).collect();
        needles.sort_by_key(|needle| std::cmp::Reverse(needle.text.len()));
        Hider { needles }
    }

    pub fn text(&self, text: &str) -> String {
        let mut pieces = [text.to_owned()];
        self.pieces(&mut pieces);
        let [text] = pieces;
        text
    }

    /// Every string in a JSON value.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.value(member)),
            _ => {}
        }
    }

    /// The data of a stream's events. Models stream a path in pieces, so the strings at the same place of
    /// successive events are searched as one text; what is found goes where it began.
    pub fn events(&self, events: &mut [String]) {
        let mut values: Vec<Option<Value>> =
            events.iter().map(|data| serde_json::from_str(data).ok().filter(Value::is_object)).collect();
        let mut channels: HashMap<String, Vec<(usize, String)>> = HashMap::new();
        for (at, value) in values.iter().enumerate() {
            match value {
                Some(value) => {
                    collect_strings(value, &mut String::new(), &mut String::new(), &mut |channel, pointer| {
                        channels.entry(channel.to_owned()).or_default().push((at, pointer.to_owned()));
                    })
                }
                None => events[at] = self.text(&events[at]),
            }
        }
        for places in channels.into_values() {
            let mut pieces: Vec<String> = places
                .iter()
                .map(|(at, pointer)| {
                    let found = values[*at].as_ref().and_then(|value| value.pointer(pointer)?.as_str());
                    found.unwrap_or_default().to_owned()
                })
                .collect();
            if !self.pieces(&mut pieces) {
                continue;
            }
            for ((at, pointer), piece) in places.iter().zip(pieces) {
                let Some(value) = values[*at].as_mut() else { continue };
                if let Some(text) = value.pointer_mut(pointer).filter(|text| **text != *piece) {
                    *text = Value::String(piece);
                    events[*at] = value.to_string();
                }
            }
        }
    }

    /// Hides in a text that is cut into pieces. Tells whether anything was found.
    fn pieces(&self, pieces: &mut [String]) -> bool {
        let whole: String = pieces.concat();
        let found = self.find(&whole);
        if found.is_empty() {
            return false;
        }
        let mut found = found.iter().peekable();
        let mut start = 0;
        for piece in pieces {
            let end = start + piece.len();
            let mut kept = String::new();
            let mut at = start;
            while let Some((range, name)) = found.peek().filter(|(range, _)| range.start < end) {
                if range.start >= start {
                    kept.push_str(&whole[at..range.start]);
                    kept.push_str(name);
                }
                at = range.end.min(end);
                if range.end > end {
                    break;
                }
                found.next();
            }
            kept.push_str(&whole[at.min(end)..end]);
            *piece = kept;
            start = end;
        }
        true
    }

    /// Where the needles are, without overlaps, in order.
    fn find(&self, text: &str) -> Vec<(std::ops::Range<usize>, &'static str)> {
        let mut found: Vec<(std::ops::Range<usize>, &'static str)> = Vec::new();
        for needle in &self.needles {
            for (start, _) in text.match_indices(&needle.text) {
                let range = start..start + needle.text.len();
                let is_free =
                    found.iter().all(|(other, _)| other.end <= range.start || range.end <= other.start);
                if is_free && (needle.kind == NeedleKind::Text || is_whole_folder(text, &range)) {
                    found.push((range, needle.name));
                }
            }
        }
        found.sort_by_key(|(range, _)| range.start);
        found
    }
}

fn is_whole_folder(text: &str, range: &std::ops::Range<usize>) -> bool {
    let continues = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-');
    let before = text[..range.start].chars().next_back();
    let mut after = text[range.end..].chars();
    let next = after.next();
    let is_dot_name = next == Some('.') && after.next().is_some_and(continues);
    !before.is_some_and(continues) && !next.is_some_and(continues) && !is_dot_name
}

/// By these members fragments say whose they are. Gemini's thoughts stand where its text does.
const INDEXES: [&str; 5] = ["index", "output_index", "content_index", "summary_index", "thought"];

/// Calls `see` with every string of `value`: the channel it belongs to, and its pointer. A channel is the
/// pointer with the indexes on the way to it, and the type of the event, where it has one.
fn collect_strings(
    value: &Value,
    pointer: &mut String,
    indexes: &mut String,
    see: &mut impl FnMut(&str, &str),
) {
    let pointer_len = pointer.len();
    let indexes_len = indexes.len();
    match value {
        Value::String(_) => see(&format!("{pointer} {indexes}"), pointer),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                pointer.push_str(&format!("/{at}"));
                collect_strings(item, pointer, indexes, see);
                pointer.truncate(pointer_len);
            }
        }
        Value::Object(members) => {
            let kind = members.get("type").filter(|_| pointer.is_empty());
            for whose in INDEXES.iter().filter_map(|name| members.get(*name)).chain(kind) {
                indexes.push_str(&format!(",{whose}"));
            }
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                pointer.push('/');
                pointer.push_str(&name);
                collect_strings(member, pointer, indexes, see);
                pointer.truncate(pointer_len);
            }
            indexes.truncate(indexes_len);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use tenon_core::Secret;

    fn hider() -> Hider {
        let places = Places {
            cwd: "/home/u/project".into(),
            home: "/home/u".into(),
            temp: vec!["/tmp".into(), "/var/tmp".into()],
        };
        Hider::new(&places, &Secrets::from_iter([Secret::new("sk-secret")]))
    }

    #[test]
    fn folders_and_keys_are_hidden_where_they_are_whole() {
        for (text, expected) in [
            ("/home/u/project/a.rs", "{{cwd}}/a.rs"),
            ("in /home/u/project.", "in {{cwd}}."),
            (
                "/home/u/project2 /home/u/project-x /home/u/project.old",
                "{{home}}/project2 {{home}}/project-x {{home}}/project.old",
            ),
            ("/home/user /mnt/home/u", "/home/user /mnt/home/u"),
            ("/tmp/x /var/tmp/y", "{{temp}}/x {{temp}}/y"),
            ("key=sk-secretive", "key=***ive"),
            ("file:///home/u", "file://{{home}}"),
            ("nothing", "nothing"),
            (
                "/home/u/.tenon/projects/-home-u-project/outputs",
                "{{home}}/.tenon/projects/{{project}}/outputs",
            ),
            ("Dear {{home}} of {{name}}", "Dear {{=home}} of {{name}}"),
        ] {
            assert_eq!(hider().text(text), expected);
        }
    }

    #[test]
    fn the_root_folder_is_no_place() {
        let places = Places { cwd: "/".into(), ..Places::default() };
        assert_eq!(Hider::new(&places, &Secrets::default()).text("/usr/bin"), "/usr/bin");
    }

    #[test]
    fn put_back_is_the_reverse() {
        let places = Places { cwd: "/w/x".into(), home: "/h".into(), temp: vec!["/t".into(), "/t2".into()] };
        assert_eq!(places.put_back("{{cwd}}/a {{home}} {{temp}}/b"), "/w/x/a /h /t/b");
        assert_eq!(places.put_back("{{home}}/p/{{project}} {{=home}}"), "/h/p/-w-x {{home}}");
        assert_eq!(Places::default().put_back("{{cwd}}/a"), "{{cwd}}/a");
    }

    #[test]
    fn pieces_of_two_items_are_kept_apart() {
        let piece = |output: u32, text: &str| {
            json!({"type": "response.output_text.delta", "output_index": output, "delta": text}).to_string()
        };
        let mut events = [piece(0, "/home"), piece(1, "/home/u/pro"), piece(0, "/u/x"), piece(1, "ject/y")];
        hider().events(&mut events);
        assert_eq!(events, [piece(0, "{{home}}"), piece(1, "{{cwd}}"), piece(0, "/x"), piece(1, "/y")]);
        // The next event is another text.
        let done = |text: &str| json!({"type": "response.output_text.done", "delta": text}).to_string();
        let mut events = [piece(0, "in /home/u"), done("ser")];
        hider().events(&mut events);
        assert_eq!(events, [piece(0, "in {{home}}"), done("ser")]);
        let part = |part: Value| json!({"candidates": [{"content": {"parts": [part]}}]}).to_string();
        let thought = |text: &str| part(json!({"text": text, "thought": true}));
        let said = |text: &str| part(json!({"text": text}));
        let mut events = [thought("/home"), said("In /home/u."), thought("/u.")];
        hider().events(&mut events);
        assert_eq!(events, [thought("{{home}}"), said("In {{home}}."), thought(".")]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(128)))]

        /// However the text is cut into deltas, and with a second call in between.
        #[test]
        fn a_path_in_pieces_is_found(cuts in prop::collection::vec(0_usize..60, 0..8)) {
            let text = r#"{"path":"/home/u/project/src/ü.rs","key":"sk-secret"}"#;
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| text.floor_char_boundary(cut)).collect();
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([text.len()]);
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let fragment = |index: usize, text: &str| {
                json!({"choices":[{"index":0,"delta":{"tool_calls":[{"index":index,"function":{"arguments":text}}]}}]}).to_string()
            };
            let mut events: Vec<String> = starts
                .zip(ends)
                .flat_map(|(start, end)| [fragment(0, &text[start..end]), fragment(1, "/home/u/")])
                .chain(["[DONE]".to_owned()])
                .collect();
            hider().events(&mut events);
            let joined = |index: u64| -> String {
                events.iter().filter_map(|event| {
                    let value: Value = serde_json::from_str(event).ok()?;
                    let call = &value["choices"][0]["delta"]["tool_calls"][0];
                    (call["index"] == json!(index)).then(|| call["function"]["arguments"].as_str().unwrap().to_owned())
                }).collect()
            };
            prop_assert_eq!(joined(0), r#"{"path":"{{cwd}}/src/ü.rs","key":"***"}"#);
            prop_assert_eq!(joined(1), "{{home}}/".repeat(cuts.len() + 1));
        }
    }
}
