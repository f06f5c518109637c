//! Text as a tree with places: YAML and JSON become the same thing.
//!
//! Scalars keep their text; what they are is decided where they are used, by the rules of YAML 1.2 ([`Node::resolve`]),
//! so `NO` is a word and a date is a text. Aliases and merge keys are resolved here, and their number is bounded:
//! ten lines of YAML can stand for a million values. What the tree means is `parse.rs`.

mod json;
mod yaml;
mod yaml_words;

use serde_json::{Map, Number, Value};

use crate::document::Place;
use crate::exact_json;

/// Values of a whole document, aliases counted each time they are used. A document of a hundred steps has about a
/// thousand.
const MAX_NODES: usize = 50_000;
/// Levels of nesting: more than any schema needs, less than any stack holds.
const MAX_DEPTH: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Yaml,
    Json,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar {
        text: String,
        style: Style,
    },
    List(Vec<Node>),
    /// In the order written; no key twice.
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// May be a number, a boolean or nothing at all.
    Plain,
    /// Always text.
    Quoted,
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) place: Place,
}

/// What a scalar is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'a str),
    /// `012`: twelve to some readers, ten to others.
    Ambiguous,
}

/// Something that is wrong with the text itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) message: String,
    pub(crate) hint: String,
    pub(crate) kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Wrong,
    TooLarge,
    /// It can be read all the same.
    Odd,
}

impl Fault {
    fn new(place: Place, message: impl Into<String>, hint: impl Into<String>) -> Fault {
        Fault { place, message: message.into(), hint: hint.into(), kind: FaultKind::Wrong }
    }

    fn too_large(place: Place, message: impl Into<String>, hint: impl Into<String>) -> Fault {
        Fault { kind: FaultKind::TooLarge, ..Fault::new(place, message, hint) }
    }

    /// `012`, where it matters which number that is.
    pub(crate) fn ambiguous(place: Place, what: &str) -> Fault {
        let message = format!("`{what}` is read as different numbers by different readers");
        Fault::new(place, message, "write it in quotes for text, or without the leading zero for a number")
    }
}

/// A tree, as far as the text is one, and what is wrong with the text.
pub(crate) struct Read {
    pub(crate) root: Option<Node>,
    pub(crate) faults: Vec<Fault>,
}

/// One sentence for both formats.
fn too_deep(place: Place) -> Fault {
    let message = format!("values are nested more than {MAX_DEPTH} levels deep");
    Fault::too_large(place, message, "close what was opened, or move the inner values further out")
}

fn too_many(place: Place) -> Fault {
    let message = format!("the document stands for more than {MAX_NODES} values, aliases included");
    Fault::too_large(place, message, "leave out what steps do not need, or split it by `include`")
}

impl Read {
    fn failed(fault: Fault) -> Read {
        Read { root: None, faults: vec![fault] }
    }
}

pub(crate) fn read(text: &str, format: Format) -> Read {
    match format {
        Format::Yaml => yaml::read(text),
        Format::Json => json::read(text),
    }
}

impl Node {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.resolve(), Some(Scalar::Null))
    }

    /// What this scalar is; nothing for lists and maps.
    pub(crate) fn resolve(&self) -> Option<Scalar<'_>> {
        match &self.kind {
            Kind::Scalar { text, style: Style::Quoted } => Some(Scalar::Text(text)),
            Kind::Scalar { text, style: Style::Plain } => Some(resolve_plain(text)),
            Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// The value as JSON, or the first scalar that has no meaning of its own.
    pub(crate) fn to_json(&self) -> Result<Value, Fault> {
        match &self.kind {
            Kind::List(items) => items.iter().map(Node::to_json).collect::<Result<_, _>>().map(Value::Array),
            Kind::Map(entries) => {
                let mut members = Map::new();
                for (key, value) in entries {
                    members.insert(key.name.clone(), value.to_json()?);
                }
                Ok(Value::Object(members))
            }
            Kind::Scalar { text, .. } => match self.resolve() {
                Some(Scalar::Bool(value)) => Ok(Value::Bool(value)),
                Some(Scalar::Number(number)) => Ok(Value::Number(number)),
                Some(Scalar::Text(text)) => Ok(Value::String(text.to_owned())),
                Some(Scalar::Ambiguous) => Err(Fault::ambiguous(self.place, text)),
                Some(Scalar::Null) | None => Ok(Value::Null),
            },
        }
    }

    /// What a person calls it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.resolve() {
            Some(Scalar::Null) => "nothing",
            Some(Scalar::Bool(_)) => "a boolean",
            Some(Scalar::Number(_) | Scalar::Ambiguous) => "a number",
            Some(Scalar::Text(_)) => "text",
            None if matches!(self.kind, Kind::List(_)) => "a list",
            None => "a map",
        }
    }
}

/// The core schema of YAML 1.2. JSON's literals are a part of it.
fn resolve_plain(text: &str) -> Scalar<'_> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "true" | "True" | "TRUE" => return Scalar::Bool(true),
        "false" | "False" | "FALSE" => return Scalar::Bool(false),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Scalar::Text(text);
    }
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return match u64::from_str_radix(digits, radix) {
                Ok(number) if !digits.starts_with('+') => Scalar::Number(number.into()),
                _ => Scalar::Text(text),
            };
        }
    }
    let digits = unsigned.bytes().all(|byte| byte.is_ascii_digit());
    if digits && unsigned.len() > 1 && unsigned.starts_with('0') {
        return Scalar::Ambiguous;
    }
    if !digits && !is_float(unsigned) {
        return Scalar::Text(text);
    }
    // The digits as written, in JSON's spelling: `+1`, `.5` and `5.` are not in it.
    let sign = if text.starts_with('-') { "-" } else { "" };
    let lead = if unsigned.starts_with('.') { "0" } else { "" };
    let mut spelled = format!("{sign}{lead}{unsigned}");
    if let Some(dot) = spelled.find('.')
        && !spelled[dot + 1..].starts_with(|c: char| c.is_ascii_digit())
    {
        spelled.insert(dot + 1, '0');
    }
    match exact_json::read(&spelled) {
        Some(Value::Number(number)) => Scalar::Number(number),
        // `00.5` and its kind.
        _ => Scalar::Ambiguous,
    }
}

/// `[0-9]*(\.[0-9]*)?([eE][-+]?[0-9]+)?` with a digit before the exponent.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_ok = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    all_digits(whole) && all_digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent_ok
}
