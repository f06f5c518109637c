//! Gives a schema a root that is plainly an object.
//!
//! OpenAI and Anthropic refuse tool parameters with `allOf`, `anyOf`, `enum` and the like at the root. What they
//! say about objects is gathered into one [`Form`]: exactly where that is possible, otherwise as something
//! looser. Never as something tighter: whatever fitted before fits after.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::subschemas::{has_key, local, refers_to_places, types};

/// What providers do not take at the root.
const REFUSED: [&str; 10] = ["$ref", "allOf", "anyOf", "const", "else", "enum", "if", "not", "oneOf", "then"];

/// Keywords about the same members as `properties`: they do not survive a merge unchanged.
const ENTANGLED: [&str; 5] =
    ["additionalProperties", "dependencies", "dependentSchemas", "patternProperties", "propertyNames"];

/// Branches are followed through references; this bounds how many are looked at, in schemas where each
/// names several others.
const MAX_BRANCHES: usize = 2_000;
/// Deeper than any schema that a person wrote; references that lead back to themselves end here.
const MAX_DEPTH: usize = 32;

/// A schema with another root.
pub(super) struct Rooted {
    pub schema: Value,
    pub exactness: Exactness,
    /// The keywords that are no longer there.
    pub replaced: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exactness {
    Same,
    Looser,
    /// Nothing but `{"type": "object"}` is left.
    AnyObject,
}

/// `None` when the root is fine as it is.
pub(super) fn object_root(schema: &Value) -> Option<Rooted> {
    let keywords = schema.as_object()?;
    let replaced: Vec<String> =
        REFUSED.iter().filter(|name| keywords.contains_key(**name)).map(|name| (*name).to_owned()).collect();
    if replaced.is_empty() {
        return None;
    }
    let Some((form, schema)) = rooted(schema, keywords) else { return Some(any_object(replaced)) };
    let says_nothing = form.properties.is_empty() && form.required.is_empty() && form.rest.is_empty();
    Some(match (form.exact, says_nothing && !form.closed) {
        (true, _) => Rooted { schema, exactness: Exactness::Same, replaced },
        (false, true) => any_object(replaced),
        (false, false) => Rooted { schema, exactness: Exactness::Looser, replaced },
    })
}

/// What is left when nothing can be kept.
pub(super) fn any_object(replaced: Vec<String>) -> Rooted {
    Rooted { schema: json!({ "type": "object" }), exactness: Exactness::AnyObject, replaced }
}

/// An object schema that stands somewhere inside `root`, with its branches gathered. `None`: not possible.
pub(super) fn gathered(root: &Value, schema: &Value) -> Option<(Value, Exactness)> {
    let form = Gatherer::new(root)?.form(schema, 0)?;
    let exactness = if form.exact { Exactness::Same } else { Exactness::Looser };
    Some((Value::Object(form.write(Map::new())), exactness))
}

fn rooted(schema: &Value, keywords: &Map<String, Value>) -> Option<(Form, Value)> {
    let form = Gatherer::new(schema)?.form(schema, 0)?;
    let mut start = Map::new();
    if let Some(draft) = keywords.get("$schema") {
        start.insert("$schema".to_owned(), draft.clone());
    }
    let mut written = form.clone().write(start);
    let refers = |value: &Value| has_key(value, &|key, value| key == "$ref" && value.is_string());
    if written.values().any(refers) {
        for map in ["$defs", "definitions"] {
            if let Some(definitions) = keywords.get(map) {
                written.insert(map.to_owned(), definitions.clone());
            }
        }
    }
    let written = Value::Object(written);
    (!refers_to_places(&written)).then_some((form, written))
}

/// What a schema says about objects.
#[derive(Clone, Debug)]
struct Form {
    description: Map<String, Value>,
    properties: Map<String, Value>,
    required: Vec<String>,
    /// No other property than these.
    closed: bool,
    /// Says something about every property, so that none is left for `unevaluatedProperties`.
    evaluates_all: bool,
    /// Other keywords, as they are.
    rest: Map<String, Value>,
    /// Nothing was left out.
    exact: bool,
}

impl Form {
    fn any(exact: bool) -> Form {
        Form {
            description: Map::new(),
            properties: Map::new(),
            required: Vec::new(),
            closed: false,
            evaluates_all: false,
            rest: Map::new(),
            exact,
        }
    }

    /// The form of one literal object.
    fn literal(members: &Map<String, Value>) -> Form {
        Form {
            properties: members
                .iter()
                .map(|(name, value)| (name.clone(), json!({ "const": value })))
                .collect(),
            required: members.keys().cloned().collect(),
            closed: true,
            evaluates_all: false,
            ..Form::any(true)
        }
    }

    fn write(self, mut into: Map<String, Value>) -> Map<String, Value> {
        into.extend(self.description);
        into.insert("type".to_owned(), json!("object"));
        into.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            into.insert("required".to_owned(), json!(self.required));
        }
        if self.closed {
            into.insert("additionalProperties".to_owned(), json!(false));
        }
        into.extend(self.rest);
        into
    }

    fn is_about_members(&self) -> bool {
        self.closed || !self.properties.is_empty() || self.has_entangled()
    }

    fn has_entangled(&self) -> bool {
        ENTANGLED.iter().any(|keyword| self.rest.contains_key(*keyword))
    }

    /// Both hold.
    fn and(mut self, mut other: Form) -> Form {
        let mut exact = self.exact && other.exact;
        // Patterns of one would open the other again.
        let opens = |closed: &Form, form: &Form| closed.closed && form.has_entangled();
        exact &= !opens(&self, &other) && !opens(&other, &self);
        // Which properties are additional depends on all that are named.
        let (own_members, other_members) = (self.is_about_members(), other.is_about_members());
        for (form, is_entangled) in [(&mut self, other_members), (&mut other, own_members)] {
            if is_entangled && form.rest.shift_remove("additionalProperties").is_some() {
                exact = false;
            }
        }
        let names = |form: &Form| form.properties.keys().cloned().collect::<BTreeSet<_>>();
        let (own, others) = (names(&self), names(&other));
        let is_allowed =
            |name: &str| (!self.closed || own.contains(name)) && (!other.closed || others.contains(name));
        let mut properties = self.properties;
        for (name, schema) in other.properties {
            let both = match properties.get(&name) {
                Some(known) if *known == schema => continue,
                Some(known) => json!({ "allOf": [known, schema] }),
                None => schema,
            };
            properties.insert(name, both);
        }
        properties.retain(|name, _| is_allowed(name));
        let mut required = self.required;
        for name in other.required {
            if !required.contains(&name) {
                required.push(name);
            }
        }
        let mut rest = self.rest;
        for (keyword, value) in other.rest {
            match rest.get(&keyword) {
                None => drop(rest.insert(keyword, value)),
                Some(known) if *known == value => {}
                Some(_) => exact = false,
            }
        }
        let mut description = self.description;
        for (keyword, value) in other.description {
            description.entry(keyword).or_insert(value);
        }
        let evaluates_all = self.evaluates_all || other.evaluates_all;
        Form {
            description,
            properties,
            required,
            closed: self.closed || other.closed,
            evaluates_all,
            rest,
            exact,
        }
    }

    /// At least one holds.
    fn or(forms: Vec<Form>) -> Option<Form> {
        let mut forms = forms;
        if forms.len() < 2 {
            return forms.pop();
        }
        let (first, others) = forms.split_first()?;
        let required = first.required.iter();
        let required =
            required.filter(|name| others.iter().all(|form| form.required.contains(name))).cloned().collect();
        let rest = first.rest.iter();
        let rest = rest
            .filter(|(keyword, _)| !ENTANGLED.contains(&keyword.as_str()))
            .filter(|(keyword, value)| others.iter().all(|form| form.rest.get(*keyword) == Some(*value)))
            .map(|(keyword, value)| (keyword.clone(), value.clone()))
            .collect();
        let mut properties = Map::new();
        for name in forms.iter().flat_map(|form| form.properties.keys()) {
            if !properties.contains_key(name) {
                properties.insert(name.clone(), either(name, &forms));
            }
        }
        let closed = forms.iter().all(|form| form.closed);
        let evaluates_all = forms.iter().any(|form| form.evaluates_all);
        Some(Form { properties, required, closed, evaluates_all, rest, ..Form::any(false) })
    }
}

/// What a property may be when one of these forms holds.
fn either(name: &str, forms: &[Form]) -> Value {
    let mut schemas: Vec<&Value> = Vec::new();
    let mut is_free = false;
    for form in forms {
        match form.properties.get(name) {
            Some(schema) if schemas.contains(&schema) => {}
            Some(schema) => schemas.push(schema),
            // There, it is any other property.
            None => is_free |= !form.closed,
        }
    }
    if is_free {
        let text = schemas.iter().find_map(|schema| schema.get("description"));
        return text.map_or(json!({}), |text| json!({ "description": text }));
    }
    if let [schema] = schemas.as_slice() {
        return (*schema).clone();
    }
    literals(&schemas).unwrap_or_else(|| json!({ "anyOf": schemas }))
}

/// The values of schemas that do nothing but list some, as one list: the tags of variants.
fn literals(schemas: &[&Value]) -> Option<Value> {
    let mut values: Vec<&Value> = Vec::new();
    for schema in schemas {
        let keywords = schema.as_object()?;
        let about = |name: &&String| !matches!(name.as_str(), "title" | "description" | "type");
        let mut listing = keywords.keys().filter(about);
        let listed = match (listing.next()?.as_str(), listing.next()) {
            ("const", None) => std::slice::from_ref(keywords.get("const")?),
            ("enum", None) => keywords.get("enum")?.as_array()?.as_slice(),
            _ => return None,
        };
        values.extend(listed);
    }
    let mut unique: Vec<&Value> = Vec::new();
    for value in values {
        if !unique.contains(&value) {
            unique.push(value);
        }
    }
    let is_text = unique.iter().all(|value| value.is_string());
    Some(if is_text { json!({ "type": "string", "enum": unique }) } else { json!({ "enum": unique }) })
}

struct Gatherer<'a> {
    root: &'a Value,
    branches: usize,
}

impl<'a> Gatherer<'a> {
    /// `None` for schemas that name their parts: references would lead elsewhere.
    fn new(root: &'a Value) -> Option<Gatherer<'a>> {
        let inner = root.as_object()?.values();
        let mut inner = inner.filter(|value| !value.is_string());
        let names =
            |key: &str, _: &Value| matches!(key, "$id" | "id" | "$recursiveAnchor" | "$dynamicAnchor");
        let has_names =
            inner.any(|value| has_key(value, &|key, value| value.is_string() && names(key, value)));
        (!has_names).then_some(Gatherer { root, branches: 0 })
    }

    /// What the schema says about objects; `None` if it accepts none.
    fn form(&mut self, schema: &Value, depth: usize) -> Option<Form> {
        self.branches += 1;
        if self.branches > MAX_BRANCHES || depth > MAX_DEPTH {
            return Some(Form::any(false));
        }
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => return None,
            _ => return Some(Form::any(true)),
        };
        if types(keywords).is_some_and(|names| !names.contains(&"object")) {
            return None;
        }
        let mut form = own(keywords);
        if let Some(Value::String(reference)) = keywords.get("$ref") {
            form = form.and(match local(self.root, reference) {
                Some(target) => self.form(target, depth + 1)?,
                None => Form::any(false),
            });
        }
        if let Some(Value::Array(branches)) = keywords.get("allOf") {
            for branch in branches {
                form = form.and(self.form(branch, depth + 1)?);
            }
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = keywords.get(keyword) {
                let forms = branches.iter().filter_map(|branch| self.form(branch, depth + 1)).collect();
                form = form.and(Form::or(forms)?);
            }
        }
        if let Some(value) = keywords.get("const") {
            form = form.and(Form::literal(value.as_object()?));
        }
        if let Some(Value::Array(values)) = keywords.get("enum") {
            let forms = values.iter().filter_map(Value::as_object).map(Form::literal).collect();
            form = form.and(Form::or(forms)?);
        }
        let depends =
            keywords.contains_key("if") && (keywords.contains_key("then") || keywords.contains_key("else"));
        if depends || ["not", "$dynamicRef", "$recursiveRef"].iter().any(|name| keywords.contains_key(*name))
        {
            form.exact = false;
        }
        // What the branches say counts as evaluated, so this comes last.
        match keywords.get("unevaluatedProperties") {
            None => {}
            Some(Value::Bool(true)) => form.evaluates_all = true,
            Some(Value::Bool(false)) if form.exact && form.evaluates_all => {}
            Some(Value::Bool(false)) if form.exact && !form.has_entangled() => form.closed = true,
            Some(_) => form.exact = false,
        }
        Some(form)
    }
}

/// The keywords of this schema itself.
fn own(keywords: &Map<String, Value>) -> Form {
    let mut form = Form::any(true);
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("title" | "description", _) => drop(form.description.insert(keyword.clone(), value.clone())),
            ("properties", Value::Object(properties)) => form.properties = properties.clone(),
            ("required", Value::Array(names)) => {
                form.required = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            }
            ("additionalProperties", Value::Bool(true)) => form.evaluates_all = true,
            ("additionalProperties", Value::Bool(false)) if !keywords.contains_key("patternProperties") => {
                form.closed = true;
            }
            (
                "additionalProperties"
                | "dependencies"
                | "dependentRequired"
                | "dependentSchemas"
                | "maxProperties"
                | "minProperties"
                | "patternProperties"
                | "propertyNames",
                _,
            ) => drop(form.rest.insert(keyword.clone(), value.clone())),
            // The others are about other types, describe, or are read by the caller.
            _ => {}
        }
    }
    form
}
