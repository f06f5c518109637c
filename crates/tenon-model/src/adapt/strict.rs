//! OpenAI's strict mode: the server then writes nothing but what the schema allows.
//!
//! It takes a part of JSON Schema only, and a schema outside of it fails the whole request. This decides
//! whether a schema is inside, or can be written so that it is and still means the same, and builds the way
//! back (`undo.rs`). Objects that allow unknown properties are not closed: that would change the meaning.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::overlap::{all_disjoint, literals, may_be_null, tags};
use super::subschemas::{constrains, definition, types};
use super::undo::{Member, Null, Place, Undo};

/// The limits that OpenAI documents.
const MAX_DEPTH: usize = 10;
const MAX_PROPERTIES: usize = 5_000;
const MAX_ENUM_VALUES: usize = 1_000;
/// Names of properties and definitions, and texts in `enum` and `const`, together.
const MAX_TEXT: usize = 120_000;
/// From this many values on, the texts of one `enum` are limited together.
const LARGE_ENUM: usize = 250;
const MAX_LARGE_ENUM_TEXT: usize = 15_000;

/// Taken as they are.
const TAKEN: [&str; 12] = [
    "description",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "title",
];

const FORMATS: [&str; 9] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];

/// Longer chains of references are not followed.
const MAX_HOPS: usize = 32;

/// Why a schema is not for strict mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unfit {
    pub pointer: String,
    pub why: String,
}

/// The schema for strict mode, and the way back. Its root must be an object without branches.
pub(super) fn strict(schema: &Value) -> Result<(Value, Undo), Unfit> {
    let mut writer = Writer {
        root: schema,
        undo: Undo::default(),
        definitions: HashMap::new(),
        written: Vec::new(),
        open: 0,
        properties: 0,
        enum_values: 0,
        text: 0,
    };
    let place = writer.new_place();
    let mut written = match writer.schema(schema, "", 0, place)? {
        Value::Object(written) => written,
        other => return Ok((other, Undo::default())),
    };
    for (map, name, definition) in std::mem::take(&mut writer.written) {
        let map = written.entry(map).or_insert_with(|| json!({}));
        if let Value::Object(map) = map {
            map.insert(name, definition);
        }
    }
    writer.check_size()?;
    writer.check_variants()?;
    Ok((Value::Object(written), writer.undo))
}

struct Writer<'a> {
    root: &'a Value,
    undo: Undo,
    /// References and their places.
    definitions: HashMap<String, usize>,
    /// Which map, which name, and the definition.
    written: Vec<(String, String, Value)>,
    /// Definitions that are being written, each for the sake of the one before.
    open: usize,
    properties: usize,
    enum_values: usize,
    text: usize,
}

impl Writer<'_> {
    fn new_place(&mut self) -> usize {
        self.undo.places.push(Place::default());
        self.undo.places.len() - 1
    }

    fn schema(&mut self, schema: &Value, pointer: &str, depth: usize, place: usize) -> Result<Value, Unfit> {
        let unfit = |why: &str| Err(Unfit { pointer: pointer.to_owned(), why: why.to_owned() });
        if depth > MAX_DEPTH {
            return unfit(&format!("is nested deeper than {MAX_DEPTH} levels"));
        }
        let Value::Object(keywords) = schema else { return unfit("says nothing about the type") };
        let constraints: Vec<&str> =
            keywords.keys().map(String::as_str).filter(|keyword| constrains(keyword)).collect();
        match constraints.as_slice() {
            ["$ref"] => self.reference(keywords, pointer, place),
            ["anyOf"] => self.union(keywords, "anyOf", pointer, depth, place),
            ["oneOf"] => self.union(keywords, "oneOf", pointer, depth, place),
            // Generators write this to put a description beside a reference.
            ["allOf"] => match keywords.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
                Some([Value::Object(only)]) => {
                    let mut merged = described(keywords);
                    merged.extend(only.clone());
                    self.schema(&Value::Object(merged), pointer, depth, place)
                }
                _ => unfit("has an `allOf`"),
            },
            _ => self.typed(keywords, pointer, depth, place),
        }
    }

    fn reference(
        &mut self,
        keywords: &Map<String, Value>,
        pointer: &str,
        place: usize,
    ) -> Result<Value, Unfit> {
        let unfit = |why: String| Err(Unfit { pointer: pointer.to_owned(), why });
        let Some(Value::String(reference)) = keywords.get("$ref") else {
            return unfit("has a `$ref` that is no text".to_owned());
        };
        let target = match self.definitions.get(reference) {
            _ if reference == "#" => 0,
            Some(known) => *known,
            None => {
                let found = definition(reference)
                    .and_then(|(map, name)| Some((map, self.root.get(map)?.get(&name)?, name)));
                let Some((map, schema, name)) = found else {
                    return unfit(format!("has a `$ref` to `{reference}`, which is no definition"));
                };
                let target = self.new_place();
                self.definitions.insert(reference.clone(), target);
                self.text += name.chars().count();
                self.open += 1;
                if self.open > MAX_HOPS {
                    return unfit(format!("is behind more than {MAX_HOPS} definitions"));
                }
                let written = self.schema(schema, reference.trim_start_matches('#'), 0, target)?;
                self.open -= 1;
                self.written.push((map.to_owned(), name, written));
                target
            }
        };
        // A place of its own, since this one may be a member's.
        self.undo.places[place].branches = vec![target];
        let mut written = described(keywords);
        let reference = json!({ "$ref": reference });
        if written.is_empty() {
            return Ok(reference);
        }
        // Nothing may stand beside a reference, but it may beside `anyOf`.
        written.insert("anyOf".to_owned(), json!([reference]));
        Ok(Value::Object(written))
    }

    fn union(
        &mut self,
        keywords: &Map<String, Value>,
        keyword: &str,
        pointer: &str,
        depth: usize,
        place: usize,
    ) -> Result<Value, Unfit> {
        let unfit = |why: &str| Err(Unfit { pointer: pointer.to_owned(), why: why.to_owned() });
        let branches = keywords.get(keyword).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if place == 0 {
            return unfit("has branches at the root");
        }
        if keyword == "oneOf" && !all_disjoint(branches, self.root) {
            return unfit("has a `oneOf` whose branches may overlap");
        }
        let mut written = Vec::with_capacity(branches.len());
        for (index, branch) in branches.iter().enumerate() {
            let inner = self.new_place();
            written.push(self.schema(branch, &format!("{pointer}/{keyword}/{index}"), depth, inner)?);
            self.undo.places[place].branches.push(inner);
        }
        let mut all = described(keywords);
        all.insert("anyOf".to_owned(), Value::Array(written));
        Ok(Value::Object(all))
    }

    /// A schema that says which types there may be.
    fn typed(
        &mut self,
        keywords: &Map<String, Value>,
        pointer: &str,
        depth: usize,
        place: usize,
    ) -> Result<Value, Unfit> {
        let unfit = |why: String| Err(Unfit { pointer: pointer.to_owned(), why });
        let mut written = described(keywords);
        let inferred = match literals(keywords).map(type_of_all) {
            Some(None) => return unfit("lists objects or arrays".to_owned()),
            inferred => inferred.flatten(),
        };
        let names: Vec<&str> = match (types(keywords), inferred) {
            (Some(names), _) => {
                written.extend(keywords.get("type").map(|name| ("type".to_owned(), name.clone())));
                names
            }
            (None, Some(names)) => {
                let name = if let [only] = names.as_slice() { json!(only) } else { json!(names) };
                written.insert("type".to_owned(), name);
                names
            }
            (None, None) => return unfit("says nothing about the type".to_owned()),
        };
        for (keyword, value) in keywords.iter().filter(|(keyword, _)| constrains(keyword)) {
            match (keyword.as_str(), value) {
                ("type" | "properties" | "required" | "additionalProperties" | "items", _) => {}
                ("enum" | "const", _) => {
                    self.count_literals(keywords, pointer)?;
                    written.insert(keyword.clone(), value.clone());
                }
                ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) => {
                    written.insert(keyword.clone(), value.clone());
                }
                ("format", _) => return unfit(format!("has the `format` {value}")),
                (taken, _) if TAKEN.contains(&taken) => drop(written.insert(keyword.clone(), value.clone())),
                (other, _) => return unfit(format!("has `{other}`")),
            }
        }
        if names.contains(&"array") {
            let Some(items) = keywords.get("items") else {
                return unfit("does not say what is in the array".to_owned());
            };
            let inner = self.new_place();
            let items = self.schema(items, &format!("{pointer}/items"), depth + 1, inner)?;
            written.insert("items".to_owned(), items);
            self.undo.places[place].items = Some(inner);
        }
        if names.contains(&"object") {
            self.object(keywords, pointer, depth, place, &mut written)?;
        }
        Ok(Value::Object(written))
    }

    fn object(
        &mut self,
        keywords: &Map<String, Value>,
        pointer: &str,
        depth: usize,
        place: usize,
        written: &mut Map<String, Value>,
    ) -> Result<(), Unfit> {
        let unfit = |why: String| Err(Unfit { pointer: pointer.to_owned(), why });
        if keywords.get("additionalProperties") != Some(&Value::Bool(false)) {
            return unfit("allows unknown properties (no `additionalProperties: false`)".to_owned());
        }
        let none = Map::new();
        let properties = keywords.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> = match keywords.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return unfit(format!("requires `{name}`, which it does not allow"));
        }
        self.undo.places[place].is_object = true;
        let mut all = Map::with_capacity(properties.len());
        for (name, schema) in properties {
            let pointer = format!("{pointer}/properties/{}", name.replace('~', "~0").replace('/', "~1"));
            self.properties += 1;
            self.text += name.chars().count();
            let inner = self.new_place();
            let mut value = self.schema(schema, &pointer, depth + 1, inner)?;
            let null = if required.contains(&name.as_str()) { Null::Null } else { Null::Absent };
            if null == Null::Absent {
                if may_be_null(schema, self.root, 0) {
                    let why = "is optional and may be null, so that null cannot stand for absent".to_owned();
                    return Err(Unfit { pointer, why });
                }
                value = or_null(value);
            }
            let tags = tags(schema).filter(|_| null == Null::Null);
            let member = Member { name: name.clone(), place: inner, null, tags };
            self.undo.places[place].members.push(member);
            all.insert(name.clone(), value);
        }
        let names: Vec<&String> = properties.keys().collect();
        written.insert("properties".to_owned(), Value::Object(all));
        written.insert("required".to_owned(), json!(names));
        written.insert("additionalProperties".to_owned(), json!(false));
        Ok(())
    }

    fn count_literals(&mut self, keywords: &Map<String, Value>, pointer: &str) -> Result<(), Unfit> {
        let values = literals(keywords).unwrap_or_default();
        let text: usize =
            values.iter().filter_map(|value| value.as_str()).map(|text| text.chars().count()).sum();
        self.enum_values += values.len();
        self.text += text;
        if values.len() > LARGE_ENUM && text > MAX_LARGE_ENUM_TEXT {
            let why = format!("lists more than {MAX_LARGE_ENUM_TEXT} characters of values");
            return Err(Unfit { pointer: pointer.to_owned(), why });
        }
        Ok(())
    }

    fn check_size(&self) -> Result<(), Unfit> {
        for (count, most, what) in [
            (self.properties, MAX_PROPERTIES, "properties"),
            (self.enum_values, MAX_ENUM_VALUES, "values in `enum`"),
            (self.text, MAX_TEXT, "characters of names and values"),
        ] {
            if count > most {
                let why = format!("has more than {most} {what}");
                return Err(Unfit { pointer: String::new(), why });
            }
        }
        Ok(())
    }

    /// On the way back it must be clear which variant an answer is, where that matters.
    fn check_variants(&self) -> Result<(), Unfit> {
        let changes = self.changes();
        let unions = self.undo.places.iter().enumerate().filter(|(_, place)| place.branches.len() > 1);
        for (at, _) in unions {
            let variants = self.undo.alternatives(at);
            for (index, one) in variants.iter().enumerate() {
                for other in &variants[index + 1..] {
                    if (changes[*one] || changes[*other]) && self.look_alike(*one, *other) {
                        let why = "has variants with the same properties, some of them optional".to_owned();
                        return Err(Unfit { pointer: String::new(), why });
                    }
                }
            }
        }
        Ok(())
    }

    fn look_alike(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.undo.places[one], &self.undo.places[other]);
        let both_arrays = one.items.is_some() && other.items.is_some();
        let find = |name: &str| other.members.iter().find(|member| member.name == name);
        let same_names = one.members.len() == other.members.len()
            && one.members.iter().all(|member| find(&member.name).is_some());
        let told_apart = one.members.iter().any(|member| {
            let tags = member.tags.as_ref().zip(find(&member.name).and_then(|other| other.tags.as_ref()));
            tags.is_some_and(|(one, other)| one.iter().all(|tag| !other.contains(tag)))
        });
        both_arrays || (one.is_object && other.is_object && same_names && !told_apart)
    }

    /// For each place: is there anything to take back at it or below?
    fn changes(&self) -> Vec<bool> {
        let places = &self.undo.places;
        let mut changes: Vec<bool> = places
            .iter()
            .map(|place| place.members.iter().any(|member| member.null == Null::Absent))
            .collect();
        // Inner places come after outer ones, but for what references lead back to.
        let mut is_settled = false;
        while !is_settled {
            is_settled = true;
            for (at, place) in places.iter().enumerate().rev() {
                let mut inner = place.members.iter().map(|member| member.place);
                let is_changed = inner.any(|inner| changes[inner])
                    || place.items.is_some_and(|items| changes[items])
                    || place.branches.iter().any(|branch| changes[*branch]);
                is_settled &= changes[at] || !is_changed;
                changes[at] |= is_changed;
            }
        }
        changes
    }
}

/// The keywords that describe and that strict mode takes.
fn described(keywords: &Map<String, Value>) -> Map<String, Value> {
    let is_kept = |keyword: &str, value: &Value| match keyword {
        "title" | "description" => true,
        "default" => !value.is_null(),
        _ => false,
    };
    let kept = keywords.iter().filter(|(keyword, value)| is_kept(keyword, value));
    kept.map(|(keyword, value)| (keyword.clone(), value.clone())).collect()
}

/// The types of these values; `None` if there is an object or an array among them.
fn type_of_all(values: Vec<&Value>) -> Option<Vec<&'static str>> {
    let mut names = Vec::new();
    for value in values {
        let name = match value {
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Null => "null",
            Value::Number(_) => "number",
            Value::Array(_) | Value::Object(_) => return None,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(names)
}

/// What was written, or null.
fn or_null(mut written: Value) -> Value {
    let nothing = json!({ "type": "null" });
    if let Value::Object(keywords) = &mut written {
        let is_listed = keywords.contains_key("enum") || keywords.contains_key("const");
        let scalar = match keywords.get("type") {
            Some(Value::String(name)) if !is_listed && name != "object" && name != "array" => {
                Some(name.clone())
            }
            _ => None,
        };
        if let Some(name) = scalar {
            keywords.insert("type".to_owned(), json!([name, "null"]));
            return written;
        }
        if let Some(Value::Array(branches)) = keywords.get_mut("anyOf") {
            branches.push(nothing);
            return written;
        }
    }
    json!({ "anyOf": [written, nothing] })
}
