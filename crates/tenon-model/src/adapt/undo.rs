//! Takes back, on an answer, what `strict.rs` did to a schema.
//!
//! In strict mode every property is required, so an optional one is asked for as "or null" and a null there
//! means that it is absent. The answer is changed as text: what is not dropped stays byte for byte.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The deepest answer that is looked into: deeper ones are refused as arguments anyway.
const MAX_DEPTH: usize = 127;

/// What to take back, as a graph: schemas may refer to themselves. The first place is the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undo {
    pub(super) places: Vec<Place>,
}

/// What may stand at one place of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub is_object: bool,
    pub members: Vec<Member>,
    pub items: Option<usize>,
    /// One of these, instead of the above.
    pub branches: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub name: String,
    pub place: usize,
    pub null: Null,
    /// The only texts this member may be, where that is known: they tell variants apart.
    pub tags: Option<Vec<String>>,
}

/// What a null in this place means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Null {
    Null,
    Absent,
}

impl Undo {
    pub fn is_needed(&self) -> bool {
        self.places.iter().flat_map(|place| &place.members).any(|member| member.null == Null::Absent)
    }

    /// The arguments without the nulls that stand for absent properties. Text that is not JSON stays as it is.
    pub fn apply(&self, arguments: &str) -> String {
        let changed = match serde_json::from_str::<&RawValue>(arguments) {
            Ok(raw) if self.is_needed() => self.rewrite(0, raw.get(), 0),
            _ => None,
        };
        changed.unwrap_or_else(|| arguments.to_owned())
    }

    /// `None`: nothing to change here.
    fn rewrite(&self, at: usize, text: &str, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        match text.as_bytes().first()? {
            b'{' => self.rewrite_object(at, text, depth),
            b'[' => self.rewrite_array(at, text, depth),
            _ => None,
        }
    }

    fn rewrite_object(&self, at: usize, text: &str, depth: usize) -> Option<String> {
        let Entries(entries) = serde_json::from_str(text).ok()?;
        let alternatives = self.alternatives(at);
        let place = match alternatives.as_slice() {
            [only] if self.places.get(*only)?.is_object => self.places.get(*only)?,
            // The server was told to give all members of one variant; if it did not, nobody knows which.
            several => {
                several.iter().filter_map(|at| self.places.get(*at)).find(|place| place.fits(&entries))?
            }
        };
        let mut changed = false;
        let mut kept: Vec<(&str, Cow<'_, str>)> = Vec::with_capacity(entries.len());
        for entry in &entries {
            let member = place.members.iter().find(|member| member.name == *entry.name);
            match member {
                Some(member) if member.null == Null::Absent && entry.value == "null" => changed = true,
                Some(member) => match self.rewrite(member.place, entry.value, depth + 1) {
                    Some(value) => {
                        changed = true;
                        kept.push((entry.key, Cow::Owned(value)));
                    }
                    None => kept.push((entry.key, Cow::Borrowed(entry.value))),
                },
                None => kept.push((entry.key, Cow::Borrowed(entry.value))),
            }
        }
        let members = kept.iter().map(|(key, value)| format!("{key}:{value}"));
        changed.then(|| format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
    }

    fn rewrite_array(&self, at: usize, text: &str, depth: usize) -> Option<String> {
        let alternatives = self.alternatives(at);
        let items = alternatives.iter().find_map(|at| self.places.get(*at)?.items)?;
        let values: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        let rewritten: Vec<_> =
            values.iter().map(|value| self.rewrite(items, value.get(), depth + 1)).collect();
        if rewritten.iter().all(Option::is_none) {
            return None;
        }
        let values = rewritten
            .into_iter()
            .zip(&values)
            .map(|(changed, value)| changed.map_or(Cow::Borrowed(value.get()), Cow::Owned));
        Some(format!("[{}]", values.collect::<Vec<_>>().join(",")))
    }

    /// The places that are not unions behind one that may be.
    pub(super) fn alternatives(&self, at: usize) -> Vec<usize> {
        let (mut seen, mut open, mut found) = (Vec::new(), vec![at], Vec::new());
        while let Some(at) = open.pop() {
            let Some(place) = self.places.get(at).filter(|_| !seen.contains(&at)) else { continue };
            seen.push(at);
            if place.branches.is_empty() { found.push(at) } else { open.extend(place.branches.iter().rev()) }
        }
        found
    }
}

impl Place {
    fn fits(&self, entries: &[Entry<'_>]) -> bool {
        let value = |name: &str| entries.iter().find(|entry| entry.name == name).map(|entry| entry.value);
        self.is_object
            && self.members.len() == entries.len()
            && self.members.iter().all(|member| match (value(&member.name), &member.tags) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(value), Some(tags)) => serde_json::from_str::<Cow<'_, str>>(value)
                    .is_ok_and(|value| tags.iter().any(|tag| *tag == value)),
            })
    }
}

/// The members of an object as they were written, duplicates included.
struct Entries<'a>(Vec<Entry<'a>>);

struct Entry<'a> {
    /// With its quotes and escapes.
    key: &'a str,
    name: Cow<'a, str>,
    value: &'a str,
}

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Entries<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries<'de>, M::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    let name =
                        serde_json::from_str::<Text<'_>>(key.get()).map_err(serde::de::Error::custom)?.0;
                    entries.push(Entry { key: key.get(), name, value: value.get() });
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
