//! Reading one field at a time: the right type or a problem, never both, and the place of everything read.

use std::time::Duration;

use serde_json::Value;

use crate::diagnostic::{Code, Problems, nearest, quoted};
use crate::document::{Place, Places};
use crate::duration::DurationError;
use crate::fields::{MAX_COUNT, OBJECTS, Object, STEP, Takes};
use crate::node::{Fault, Format, Kind, Node, Scalar};
use crate::{duration, unicode};

/// Fields that a hint names as examples.
const SHOWN_FIELDS: usize = 3;
/// What an approval looks like.
pub(crate) const A_QUESTION: &str =
    "write the question: `approve: \"Deploy it?\"`, or `approve: {message: \"Deploy it?\", timeout: 24h}`";
/// `0s` takes no limit away that holds for all steps.
const NO_TIMEOUT: &str = "write one, as in `10m`, or leave `timeout` out; `0s` is the same, so `options.stepTimeout` holds either way";
const DURATIONS: &str = "durations are written in quotes or with their unit: `45s`, `10m`, `1h30m`";

pub(super) struct Reader<'a> {
    pub(super) problems: Problems<'a>,
    places: Places,
    format: Format,
}

/// The fields of one object that are there, `null` not among them.
pub(super) struct Fields<'n> {
    pointer: String,
    object: &'static Object,
    place: Place,
    entries: Vec<(&'n str, Place, &'n Node)>,
    /// Those with nothing after them.
    empty: Vec<(&'n str, Place)>,
}

impl<'n> Fields<'n> {
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(known, _, _)| *known == name).map(|(_, _, node)| *node)
    }

    pub(super) fn pointer(&self, name: &str) -> String {
        join(&self.pointer, name)
    }

    /// Of the value, of the name where nothing follows it, or of the object that lacks it.
    pub(super) fn place(&self, name: &str) -> Place {
        let left_empty = || self.empty.iter().find(|(known, _)| *known == name).map(|(_, place)| *place);
        self.get(name).map(|node| node.place).or_else(left_empty).unwrap_or(self.place)
    }

    fn takes(&self, name: &str) -> Option<Takes> {
        self.object.fields.iter().find(|field| field.name == name).map(|field| field.takes)
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(problems: Problems<'a>, format: Format) -> Reader<'a> {
        Reader { problems, places: Places::default(), format }
    }

    pub(super) fn finish(self) -> (Problems<'a>, Places) {
        (self.problems, self.places)
    }

    /// The known fields of a map; the others are reported.
    pub(super) fn object<'n>(
        &mut self,
        pointer: &str,
        node: &'n Node,
        object: &'static Object,
    ) -> Option<Fields<'n>> {
        let entries: &'n [_] = match &node.kind {
            Kind::Map(entries) => entries,
            // An agent with nothing in it is an agent that lacks a description.
            _ if node.is_null() => &[],
            _ => {
                let hint = match object.name {
                    "workflow" => "begin with `name: …` and `steps:`, a space after each colon".to_owned(),
                    "step" => "each step begins with `- id: …`".to_owned(),
                    _ => {
                        let names: Vec<String> =
                            object.names().take(SHOWN_FIELDS).map(|name| format!("`{name}:`")).collect();
                        format!("write its fields below it, indented further: {} …", names.join(", "))
                    }
                };
                self.wrong_type(node, object.words, "a map", hint);
                return None;
            }
        };
        self.places.insert(pointer.to_owned(), node.place);
        let mut known = Vec::with_capacity(entries.len());
        let mut empty = Vec::new();
        for (key, value) in entries {
            match object.names().find(|name| *name == key.name) {
                Some(name) if !value.is_null() => {
                    self.places.insert(join(pointer, name), value.place);
                    known.push((name, key.place, value));
                }
                // Left empty it would make the step an agent's, and nobody would be asked.
                Some(name @ "approve") => {
                    let message = format!("`{name}` asks nothing");
                    self.problems.error(Code::Validation, key.place, message, A_QUESTION);
                }
                Some(name) => empty.push((name, key.place)),
                None => self.unknown_field(&key.name, key.place, object),
            }
        }
        Some(Fields { pointer: pointer.to_owned(), object, place: node.place, entries: known, empty })
    }

    fn unknown_field(&mut self, name: &str, place: Place, object: &'static Object) {
        let message = format!("`{}` is not a field of {}", quoted(name), object.words);
        let hint = match synonym(name, object).or(nearest(name, object.names())) {
            Some(meant) => format!("did you mean `{meant}`?"),
            // A step gives its result and content to whoever names it; what the whole gives is said once.
            None if *object == STEP && name == "output" => {
                "what a step gives is `steps.<id>.result` and `.content`; what a run gives stands under `outputs` of the document".to_owned()
            }
            None => match elsewhere(name, object) {
                Some(other) => format!("it is a field of {}", other.words),
                None => {
                    let names: Vec<String> = object.names().map(|name| format!("`{name}`")).collect();
                    format!("the fields are {}", names.join(", "))
                }
            },
        };
        self.problems.error(Code::UnknownField, place, message, hint);
    }

    pub(super) fn wrong_type(&mut self, node: &Node, what: &str, must_be: &str, hint: impl Into<String>) {
        let message = format!("{what} must be {must_be}, got {}", node.type_name());
        self.problems.error(Code::Validation, node.place, message, hint);
    }

    pub(super) fn unreadable(&mut self, fault: Fault) {
        self.problems.error(Code::Validation, fault.place, fault.message, fault.hint);
    }

    /// Any scalar of YAML is text where text is asked for; JSON says what it means.
    fn scalar_text(&mut self, node: &Node, what: &str) -> Option<String> {
        let text = match (&node.kind, node.resolve()) {
            (Kind::Scalar { text, .. }, Some(Scalar::Text(_))) => text,
            (Kind::Scalar { text, .. }, Some(_)) if self.format == Format::Yaml => text,
            _ => {
                let hint = match (&node.kind, self.format) {
                    (Kind::Map(_), _) if what == "`agent`" => "describe it under `agents:`, and name it here",
                    (Kind::Scalar { .. }, _) => "write it in quotes",
                    (_, Format::Yaml) => {
                        "put the text in quotes: brackets, braces and `: ` mean lists and maps"
                    }
                    (_, Format::Json) => "write one text in double quotes",
                };
                self.wrong_type(node, what, "text", hint);
                return None;
            }
        };
        if let Err(found) = unicode::clean(text) {
            let hint = "take it out: it shows the text differently from what it says";
            self.problems.error(Code::UnicodeUnsafe, node.place, format!("{what}: {found}"), hint);
            return None;
        }
        Some(text.clone())
    }

    pub(super) fn text(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        let node = fields.get(name)?;
        self.scalar_text(node, &format!("`{name}`"))
    }

    /// Without controls and invisible characters, in one form.
    pub(super) fn long_text(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        let text = self.text(fields, name)?;
        Some(unicode::clean(&text).unwrap_or(text))
    }

    /// The same, and not too long.
    pub(super) fn clean_text(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        let text = self.long_text(fields, name)?;
        if let Some(Takes::ShortText(most) | Takes::TextOr(most, _)) = fields.takes(name)
            && text.len() > most
        {
            let message = format!("{name} exceeds max {most} chars (got {})", text.len());
            let hint = match name {
                "instructions" => "put longer instructions into a file and write `@path/to/it`".to_owned(),
                _ => format!("shorten it to {most} bytes, or say the rest in a comment"),
            };
            self.problems.error(Code::TooLarge, fields.place(name), message, hint);
        }
        Some(text)
    }

    /// Empty is a way to leave it out, as the format has it; blanks are a mistake.
    pub(super) fn some_text(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        let text = self.text(fields, name)?;
        if text.is_empty() {
            return None;
        }
        if text.trim().is_empty() {
            let message = format!("`{name}` must not be empty");
            let hint = format!("write a value, or leave `{name}` out");
            self.problems.error(Code::Validation, fields.place(name), message, hint);
            return None;
        }
        Some(text)
    }

    pub(super) fn expression(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        let node = fields.get(name)?;
        let text = self.expression_text(node, &format!("`{name}`"))?;
        if text.trim().is_empty() {
            let message = format!("{name} must not be empty (minLength: 1)");
            let hint = format!(
                "write an expression such as `steps.test.status == 'completed'`, or leave `{name}` out"
            );
            self.problems.error(Code::Validation, fields.place(name), message, hint);
            // Still there: what it may be combined with is checked all the same.
            return Some("true".to_owned());
        }
        Some(text)
    }

    /// `true` needs no quotes to be an expression, in JSON neither.
    fn expression_text(&mut self, node: &Node, what: &str) -> Option<String> {
        match node.resolve() {
            Some(Scalar::Bool(value)) => Some(value.to_string()),
            _ => self.scalar_text(node, what),
        }
    }

    pub(super) fn text_list(&mut self, fields: &Fields<'_>, name: &str) -> Vec<String> {
        let Some(node) = fields.get(name) else { return Vec::new() };
        let Kind::List(items) = &node.kind else {
            let is_plain = |c: char| c.is_alphanumeric() || "_-./, ".contains(c);
            let hint = match &node.kind {
                Kind::Scalar { text, .. } if text == "*" => format!("leave `{name}` out for all of them"),
                Kind::Scalar { text, .. } if text.chars().all(is_plain) => {
                    format!("write `{name}: [{}]`", quoted(text))
                }
                _ => format!("write `{name}: [one, two]`"),
            };
            self.wrong_type(node, &format!("`{name}`"), "a list of text", hint);
            return Vec::new();
        };
        let pointer = fields.pointer(name);
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            self.places.insert(join(&pointer, &index.to_string()), item.place);
            texts.extend(self.scalar_text(item, &format!("an entry of `{name}`")));
        }
        texts
    }

    /// Names to texts that are not empty, in the order written.
    pub(super) fn text_map(&mut self, fields: &Fields<'_>, name: &str) -> Vec<(String, String)> {
        let Some(node) = fields.get(name) else { return Vec::new() };
        let Kind::Map(entries) = &node.kind else {
            let hint = format!("write each below `{name}:`, as `name: text`");
            self.wrong_type(node, &format!("`{name}`"), "a map of text", hint);
            return Vec::new();
        };
        let pointer = fields.pointer(name);
        let mut texts = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let at = join(&pointer, &key.name);
            self.places.insert(at.clone(), value.place);
            self.places.insert(name_of(&at), key.place);
            let what = format!("`{name}.{}`", quoted(&key.name));
            let read = match fields.takes(name) {
                Some(Takes::ExpressionMap) => self.expression_text(value, &what),
                _ => self.scalar_text(value, &what),
            };
            match read {
                Some(text) if key.name.trim().is_empty() || text.trim().is_empty() => {
                    let hint = "write a name, a colon and a text that is not empty";
                    self.problems.error(
                        Code::Validation,
                        value.place,
                        format!("{what} must not be empty"),
                        hint,
                    );
                }
                Some(text) => texts.push((key.name.clone(), text)),
                None => {}
            }
        }
        texts
    }

    pub(super) fn map<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        read: impl Fn(&mut Reader<'a>, &str, &Node) -> T,
    ) -> Vec<(String, T)> {
        let Some(node) = fields.get(name) else { return Vec::new() };
        let Kind::Map(entries) = &node.kind else {
            let hint =
                format!("write each below `{name}:`, indented further, beginning with its name and a colon");
            self.wrong_type(node, &format!("`{name}`"), "a map", hint);
            return Vec::new();
        };
        let pointer = fields.pointer(name);
        let mut all = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let pointer = join(&pointer, &key.name);
            let entry = read(self, &pointer, value);
            // A problem of the whole is shown at its name.
            self.places.insert(pointer, key.place);
            all.push((key.name.clone(), entry));
        }
        all
    }

    pub(super) fn object_at<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        read: impl Fn(&mut Reader<'a>, &str, &Node) -> T,
    ) -> Option<T> {
        let node = fields.get(name)?;
        Some(read(self, &fields.pointer(name), node))
    }

    /// Any whole number.
    pub(super) fn integer(&mut self, fields: &Fields<'_>, name: &str) -> Option<i64> {
        self.integer_or(fields, name, None)
    }

    /// `instead` is what to do about anything else, where one answer fits all.
    pub(super) fn integer_or(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        instead: Option<&str>,
    ) -> Option<i64> {
        let node = fields.get(name)?;
        let whole = match node.resolve() {
            Some(Scalar::Number(number)) => number.as_i64().or_else(|| {
                // `5.0` is a whole number to most readers of numbers.
                let value = number.as_f64()?;
                (value.fract() == 0.0 && value.abs() <= MAX_COUNT as f64).then_some(value as i64)
            }),
            Some(Scalar::Ambiguous) => {
                self.unreadable(Fault::ambiguous(node.place, name));
                return None;
            }
            _ => None,
        };
        if whole.is_some() {
            return whole;
        }
        match (&node.kind, node.resolve()) {
            (Kind::Scalar { text, .. }, Some(Scalar::Number(number))) => {
                let text = quoted(text);
                let is_whole = number.as_f64().is_none_or(|value| value.fract() == 0.0);
                let (message, hint) = match is_whole {
                    true => (format!("`{name}` is too large: {text}"), "write a smaller number"),
                    false => (
                        format!("`{name}` must be a whole number, got {text}"),
                        "write it without a fraction",
                    ),
                };
                self.problems.error(Code::Validation, node.place, message, instead.unwrap_or(hint));
            }
            (kind, _) => {
                let digits = match kind {
                    Kind::Scalar { text, .. } => text.trim().parse::<u32>().unwrap_or(3),
                    _ => 3,
                };
                let hint = format!("write digits without quotes: `{name}: {digits}`");
                let hint = instead.map_or(hint, str::to_owned);
                self.wrong_type(node, &format!("`{name}`"), "a whole number", hint);
            }
        }
        None
    }

    /// A count from 0; below it is a problem of this kind.
    pub(super) fn count(&mut self, fields: &Fields<'_>, name: &str, negative: Code) -> Option<u32> {
        let count = self.integer(fields, name)?;
        if count < 0 {
            let message = format!("{name} must be non-negative, got {count}");
            let hint = "write 0 or more, or leave it out";
            self.problems.error(negative, fields.place(name), message, hint);
            return None;
        }
        match u32::try_from(count) {
            Ok(small) if u64::from(small) <= MAX_COUNT => Some(small),
            _ => {
                let message = format!("{name} must be at most {MAX_COUNT}, got {count}");
                self.problems.error(Code::Validation, fields.place(name), message, "write a smaller number");
                None
            }
        }
    }

    /// Within the range the table gives.
    pub(super) fn number(&mut self, fields: &Fields<'_>, name: &str) -> Option<f64> {
        let node = fields.get(name)?;
        let Some(Scalar::Number(number)) = node.resolve() else {
            let hint = format!("write digits without quotes: `{name}: 0.5`");
            self.wrong_type(node, &format!("`{name}`"), "a number", hint);
            return None;
        };
        let number = number.as_f64().unwrap_or(f64::NAN);
        if let Some(Takes::Number(least, most)) = fields.takes(name)
            && !(least..=most).contains(&number)
        {
            let message = format!("{name} must be between {least} and {most}, got {number}");
            let hint = format!("write a number from {least} to {most}, or leave it out");
            self.problems.error(Code::Validation, node.place, message, hint);
            return None;
        }
        Some(number)
    }

    pub(super) fn duration(&mut self, fields: &Fields<'_>, name: &str) -> Option<Duration> {
        let node = fields.get(name)?;
        let Some(Scalar::Text(text)) = node.resolve() else {
            let hint = match (&node.kind, node.resolve()) {
                (Kind::Scalar { text, .. }, Some(Scalar::Number(number))) if number.is_u64() => {
                    format!(
                        "name the unit: `{name}: {}s` for seconds, `m` for minutes, `h` for hours",
                        quoted(text)
                    )
                }
                _ => DURATIONS.to_owned(),
            };
            self.wrong_type(node, &format!("`{name}`"), "a duration", hint);
            return None;
        };
        duration::parse(text).unwrap_or_else(|error| {
            let hint = match (&error, name) {
                (DurationError::Empty, "timeout") => NO_TIMEOUT,
                _ => DURATIONS,
            };
            self.problems.error(Code::Validation, node.place, format!("`{name}`: {error}"), hint);
            None
        })
    }

    /// One of the words the table gives; empty is the default.
    pub(super) fn choice(&mut self, fields: &Fields<'_>, name: &str, code: Code) -> Option<&'static str> {
        let text = self.text(fields, name)?;
        let Some(Takes::OneOf(words)) = fields.takes(name) else { return None };
        let found = words.iter().find(|word| **word == text).copied();
        if found.is_none() && !text.is_empty() {
            let listed: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            let message = format!("invalid {name} `{}` (must be {})", quoted(&text), listed.join(", "));
            let hint = match nearest(&text, words.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("write one of them, or leave `{name}` out"),
            };
            self.problems.error(code, fields.place(name), message, hint);
        }
        found
    }

    /// An object of JSON Schema, with the place of everything in it.
    pub(super) fn schema(&mut self, fields: &Fields<'_>, name: &str) -> Option<Value> {
        let node = fields.get(name)?;
        if !matches!(node.kind, Kind::Map(_)) {
            let hint = "as in `{type: object, required: [ok], properties: {ok: {type: boolean}}}`";
            self.wrong_type(node, &format!("`{name}`"), "a JSON Schema, which is a map", hint);
            return None;
        }
        let pointer = fields.pointer(name);
        self.note_places(&pointer, node);
        match node.to_json() {
            Ok(schema) => Some(schema),
            Err(fault) => {
                self.unreadable(fault);
                None
            }
        }
    }

    fn note_places(&mut self, pointer: &str, node: &Node) {
        match &node.kind {
            Kind::Scalar { .. } => {}
            Kind::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let pointer = join(pointer, &index.to_string());
                    self.places.insert(pointer.clone(), item.place);
                    self.note_places(&pointer, item);
                }
            }
            Kind::Map(entries) => {
                for (key, value) in entries {
                    let pointer = join(pointer, &key.name);
                    self.places.insert(pointer.clone(), key.place);
                    self.note_places(&pointer, value);
                }
            }
        }
    }
}

/// What other systems call it.
const SYNONYMS: [(&str, &str); 31] = [
    ("needs", "dependsOn"),
    ("after", "dependsOn"),
    ("requires", "dependsOn"),
    ("prompt", "instructions"),
    ("task", "instructions"),
    ("run", "instructions"),
    ("if", "condition"),
    ("when", "condition"),
    ("uses", "include"),
    ("workflow", "include"),
    ("files", "contextFiles"),
    ("context", "contextFiles"),
    ("jobs", "steps"),
    ("tasks", "steps"),
    ("nodes", "steps"),
    ("name", "id"),
    ("system", "prompt"),
    ("instructions", "prompt"),
    ("role", "description"),
    ("schema", "resultSchema"),
    ("outputSchema", "resultSchema"),
    ("with_items", "forEach"),
    ("times", "maxIterations"),
    ("while", "until"),
    ("defaults", "options"),
    ("parameters", "inputs"),
    ("approval", "approve"),
    ("confirm", "approve"),
    ("question", "message"),
    ("text", "message"),
    ("default", "onTimeout"),
];

fn synonym(name: &str, object: &'static Object) -> Option<&'static str> {
    let meant =
        SYNONYMS.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, meant)| *meant);
    meant.into_iter().find(|meant| object.names().any(|known| known == *meant))
}

/// Another object of the document that has such a field: a line may only be indented wrongly.
fn elsewhere(name: &str, object: &'static Object) -> Option<&'static Object> {
    OBJECTS.iter().copied().find(|other| *other != object && other.names().any(|known| known == name))
}

/// Where the name at a pointer stands, rather than its value. No field of a document is called so: a `~` is always escaped.
pub(crate) fn name_of(pointer: &str) -> String {
    format!("{pointer}~name")
}

/// `pointer` with one more step, escaped as JSON Pointers are.
pub(crate) fn join(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}
