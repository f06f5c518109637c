//! The part of JSON Schema that Gemini takes, written as what it takes.
//!
//! What it does not take is left out or replaced by something looser, and named. Everything that would turn
//! looser into tighter (`not`, `if`, `contains`) is left out as a whole.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::object_root::{Exactness, gathered};
use super::overlap::all_disjoint;
use super::subschemas::{constrains, definition, types};

/// Taken as they are. Lengths, counts and patterns are part of Gemini's own kind of schema.
const TAKEN: [&str; 15] = [
    "default",
    "description",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
    "required",
    "title",
    "type",
];

/// The schema as it is sent, and the keywords that were left out or loosened.
pub(super) fn subset(schema: &Value) -> (Value, BTreeSet<String>) {
    let definitions = definitions(schema);
    let mut writer = Writer {
        root: schema,
        lost: BTreeSet::new(),
        cyclic: cyclic(&definitions),
        names: definitions.keys().cloned().collect(),
        inside: None,
        gathering: false,
    };
    let mut written = match writer.schema(schema, Presence::Required) {
        Value::Object(written) => written,
        _ => Map::new(),
    };
    let mut kept = Map::new();
    for (name, definition) in &definitions {
        writer.inside = Some(name.clone());
        kept.insert(name.clone(), writer.schema(definition, Presence::Required));
    }
    if !kept.is_empty() {
        written.insert("$defs".to_owned(), Value::Object(kept));
    }
    (Value::Object(written), writer.lost)
}

/// Cycles are taken only inside properties that may be absent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

struct Writer<'a> {
    root: &'a Value,
    lost: BTreeSet<String>,
    cyclic: BTreeSet<String>,
    /// The definitions that may be referred to.
    names: BTreeSet<String>,
    /// The definition that is being written.
    inside: Option<String>,
    /// What was gathered from branches is being written: it is not gathered again, or a schema that leads
    /// back to itself would never end.
    gathering: bool,
}

impl Writer<'_> {
    fn schema(&mut self, schema: &Value, presence: Presence) -> Value {
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => {
                self.lost.insert("false".to_owned());
                return json!({});
            }
            _ => return json!({}),
        };
        if let Some(Value::String(reference)) = keywords.get("$ref") {
            return self.reference(keywords, reference, presence);
        }
        if keywords.contains_key("allOf") {
            return self.all_of(keywords, presence);
        }
        let mut written = Map::new();
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    let properties = self.properties(properties, keywords, presence);
                    written.insert(keyword.clone(), Value::Object(properties));
                }
                ("additionalProperties", Value::Bool(_)) => {
                    drop(written.insert(keyword.clone(), value.clone()))
                }
                ("additionalProperties", _) => {
                    drop(written.insert(keyword.clone(), self.schema(value, Presence::Optional)));
                }
                ("items", Value::Object(_)) => {
                    drop(written.insert(keyword.clone(), self.schema(value, presence)))
                }
                ("items", Value::Bool(true)) => {}
                ("prefixItems", Value::Array(list)) => {
                    let list: Vec<_> = list.iter().map(|item| self.schema(item, presence)).collect();
                    written.insert(keyword.clone(), Value::Array(list));
                }
                ("anyOf", Value::Array(list)) => self.any_of(list, presence, &mut written),
                ("oneOf", Value::Array(list)) => {
                    // Read as `anyOf` there, so it is called that.
                    if !all_disjoint(list, self.root) {
                        self.lost.insert(keyword.clone());
                    }
                    self.any_of(list, presence, &mut written);
                }
                ("enum", Value::Array(values)) => self.listed(values, keywords, &mut written),
                ("const", value) => self.listed(std::slice::from_ref(value), keywords, &mut written),
                ("exclusiveMinimum", Value::Number(_)) => {
                    self.limit("minimum", keyword, value, keywords, &mut written)
                }
                ("exclusiveMaximum", Value::Number(_)) => {
                    self.limit("maximum", keyword, value, keywords, &mut written)
                }
                (taken, _) if TAKEN.contains(&taken) => drop(written.insert(keyword.clone(), value.clone())),
                (other, _) => {
                    if constrains(other) {
                        self.lost.insert(other.to_owned());
                    }
                }
            }
        }
        self.keep_consistent(keywords, &mut written);
        Value::Object(written)
    }

    fn properties(
        &mut self,
        properties: &Map<String, Value>,
        keywords: &Map<String, Value>,
        presence: Presence,
    ) -> Map<String, Value> {
        let required = keywords.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
        properties
            .iter()
            .map(|(name, schema)| {
                let presence = if is_required(name) { presence } else { Presence::Optional };
                (name.clone(), self.schema(schema, presence))
            })
            .collect()
    }

    /// Patterns that are left out must not make their properties unknown ones.
    fn keep_consistent(&mut self, keywords: &Map<String, Value>, written: &mut Map<String, Value>) {
        if keywords.contains_key("patternProperties") {
            written.shift_remove("additionalProperties");
        }
    }

    fn reference(&mut self, keywords: &Map<String, Value>, reference: &str, presence: Presence) -> Value {
        // Nothing may stand beside a reference.
        self.lost
            .extend(keywords.keys().filter(|keyword| *keyword != "$ref" && constrains(keyword)).cloned());
        let found = definition(reference).filter(|(_, name)| self.names.contains(name));
        let Some((_, name)) = found else {
            self.lost.insert("$ref".to_owned());
            return json!({});
        };
        let is_cyclic = |name: &String| self.cyclic.contains(name);
        let leads_back = self.inside.as_ref().is_some_and(is_cyclic) && is_cyclic(&name);
        if leads_back && presence == Presence::Required {
            self.lost.insert("$ref".to_owned());
            return json!({});
        }
        json!({ "$ref": format!("#/$defs/{}", name.replace('~', "~0").replace('/', "~1")) })
    }

    fn all_of(&mut self, keywords: &Map<String, Value>, presence: Presence) -> Value {
        let mut rest = keywords.clone();
        let branches = rest.shift_remove("allOf");
        let branches = branches.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if let [Value::Object(only)] = branches
            && !rest.keys().any(|keyword| constrains(keyword))
        {
            rest.extend(only.clone());
            return self.schema(&Value::Object(rest), presence);
        }
        let is_object = |schema: &Value| schema.as_object().and_then(types) == Some(vec!["object"]);
        let says_object = types(keywords) == Some(vec!["object"]) || branches.iter().any(is_object);
        if says_object
            && !self.gathering
            && let Some((schema, exactness)) = gathered(self.root, &Value::Object(keywords.clone()))
            && schema.get("allOf").is_none()
        {
            if exactness != Exactness::Same {
                self.lost.insert("allOf".to_owned());
            }
            self.gathering = true;
            let written = self.schema(&schema, presence);
            self.gathering = false;
            return written;
        }
        self.lost.insert("allOf".to_owned());
        self.schema(&Value::Object(rest), presence)
    }

    fn any_of(&mut self, list: &[Value], presence: Presence, written: &mut Map<String, Value>) {
        if written.contains_key("anyOf") {
            self.lost.insert("anyOf".to_owned());
            return;
        }
        // `false` would come out as anything.
        let branches = list.iter().filter(|branch| **branch != Value::Bool(false));
        let branches: Vec<_> = branches.map(|branch| self.schema(branch, presence)).collect();
        if branches.is_empty() {
            self.lost.insert("anyOf".to_owned());
            return;
        }
        written.insert("anyOf".to_owned(), Value::Array(branches));
    }

    /// Only texts and numbers can be listed.
    fn listed(&mut self, values: &[Value], keywords: &Map<String, Value>, written: &mut Map<String, Value>) {
        if written.contains_key("enum") || written.contains_key("anyOf") {
            self.lost.insert("enum".to_owned());
            return;
        }
        let of = |wanted: fn(&Value) -> bool| {
            values.iter().filter(|value| wanted(value)).cloned().collect::<Vec<_>>()
        };
        let (texts, numbers) = (of(Value::is_string), of(Value::is_number));
        for (list, name) in [(&texts, "string"), (&numbers, "number")] {
            if list.len() == values.len() {
                written.entry("type").or_insert(json!(name));
                written.insert("enum".to_owned(), json!(list));
                return;
            }
        }
        let (bools, nulls) = (of(Value::is_boolean), of(Value::is_null));
        let mut branches = Vec::new();
        for (list, name) in [(texts, "string"), (numbers, "number")] {
            if !list.is_empty() {
                branches.push(json!({ "type": name, "enum": list }));
            }
        }
        for (list, name, all) in [
            (bools, "boolean", 2),
            (nulls, "null", 1),
            (of(Value::is_object), "object", usize::MAX),
            (of(Value::is_array), "array", usize::MAX),
        ] {
            if !list.is_empty() {
                branches.push(json!({ "type": name }));
            }
            if !list.is_empty() && list.len() < all {
                self.lost.insert("enum".to_owned());
            }
        }
        if let [only] = branches.as_slice() {
            let name = only.get("type").cloned().unwrap_or_default();
            written.entry("type").or_insert(name);
        } else if keywords.contains_key("anyOf") || keywords.contains_key("oneOf") {
            self.lost.insert("enum".to_owned());
        } else {
            written.insert("anyOf".to_owned(), Value::Array(branches));
        }
    }

    /// A limit that excludes itself, as one that does not.
    fn limit(
        &mut self,
        plain: &str,
        keyword: &str,
        value: &Value,
        keywords: &Map<String, Value>,
        written: &mut Map<String, Value>,
    ) {
        self.lost.insert(keyword.to_owned());
        if !keywords.contains_key(plain) {
            written.insert(plain.to_owned(), value.clone());
        }
    }
}

/// Both maps of definitions as one, without names that stand for different things.
fn definitions(schema: &Value) -> Map<String, Value> {
    let in_map = |map: &str| schema.get(map).and_then(Value::as_object).cloned().unwrap_or_default();
    let (mut all, older) = (in_map("$defs"), in_map("definitions"));
    for (name, definition) in older {
        match all.get(&name) {
            Some(known) if *known != definition => drop(all.shift_remove(&name)),
            _ => drop(all.insert(name, definition)),
        }
    }
    all
}

/// The definitions that lead back to themselves, and those between two of that kind: what is left when
/// definitions that refer to none of the others, or that none of the others refers to, are taken away.
fn cyclic(definitions: &Map<String, Value>) -> BTreeSet<String> {
    let mut refers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut is_referred_to: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, schema) in definitions {
        let mut found = BTreeSet::new();
        references(schema, &mut found);
        found.retain(|target| definitions.contains_key(target));
        for target in &found {
            is_referred_to.entry(target.clone()).or_default().insert(name.clone());
        }
        refers.insert(name.clone(), found);
    }
    peel(&mut refers, &is_referred_to);
    let left: BTreeSet<String> = refers.into_keys().collect();
    is_referred_to.retain(|name, _| left.contains(name));
    for from in is_referred_to.values_mut() {
        from.retain(|name| left.contains(name));
    }
    let mut refers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, from) in &is_referred_to {
        for from in from {
            refers.entry(from.clone()).or_default().insert(name.clone());
        }
    }
    peel(&mut is_referred_to, &refers);
    is_referred_to.into_keys().collect()
}

/// Takes away, again and again, what leads nowhere. `back` is `edges` the other way round.
fn peel(edges: &mut BTreeMap<String, BTreeSet<String>>, back: &BTreeMap<String, BTreeSet<String>>) {
    let mut open: Vec<String> =
        edges.iter().filter(|(_, targets)| targets.is_empty()).map(|(name, _)| name.clone()).collect();
    while let Some(name) = open.pop() {
        edges.remove(&name);
        for from in back.get(&name).into_iter().flatten() {
            if let Some(targets) = edges.get_mut(from)
                && targets.remove(&name)
                && targets.is_empty()
            {
                open.push(from.clone());
            }
        }
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some((_, name)) = members.get("$ref").and_then(Value::as_str).and_then(definition) {
                found.insert(name);
            }
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}
