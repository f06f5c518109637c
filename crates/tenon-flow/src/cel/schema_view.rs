//! What a schema lets a value be and have, as far as it says so plainly.
//!
//! `anyOf` and `oneOf` are several ways a value may be, `allOf` and `$ref` several schemas at once: a schema is taken apart
//! into the ways it leaves ([`View`]), and a field is there if one of them has it. What cannot be followed leaves
//! everything open: nothing is complained about that might be right.

use serde_json::Value;

/// References to references, alternatives in alternatives.
const MAX_HOPS: usize = 8;
/// More ways than this are not told apart.
const MAX_VIEWS: usize = 64;
/// Keywords that decide together with what is around them.
const OPAQUE: [&str; 8] = [
    "if",
    "not",
    "$dynamicRef",
    "$recursiveRef",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "prefixItems",
];

static NULL: Value = Value::Null;

/// One way a value may be: all of these schemas at once.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    parts: Vec<&'a Value>,
    /// Something in it cannot be followed.
    is_open: bool,
}

/// What one way says about a field.
#[derive(Clone, Debug)]
pub(crate) enum FieldIs<'a> {
    /// All of these at once.
    Described(Vec<&'a Value>),
    /// It may be there, and be anything.
    Open,
    Unmentioned,
    RuledOut,
    /// The value is no object.
    NotAnObject,
}

/// Every way that all of `schemas` together leave.
pub(crate) fn views<'a>(root: &'a Value, schemas: &[&'a Value]) -> Vec<View<'a>> {
    schemas.iter().fold(vec![View::anything()], |so_far, schema| together(so_far, &apart(root, schema, 0)))
}

fn apart<'a>(root: &'a Value, schema: &'a Value, hops: usize) -> Vec<View<'a>> {
    let Some(keywords) = schema.as_object() else {
        // `false` is no way at all.
        return if schema == &Value::Bool(false) { Vec::new() } else { vec![View::anything()] };
    };
    if hops > MAX_HOPS {
        return vec![View::open()];
    }
    let is_open = OPAQUE.iter().any(|keyword| keywords.contains_key(*keyword));
    let mut ways = vec![View { parts: vec![schema], is_open }];
    if let Some(reference) = keywords.get("$ref") {
        let target =
            reference.as_str().and_then(|text| text.strip_prefix('#')).and_then(|at| root.pointer(at));
        ways = match target {
            Some(target) => together(ways, &apart(root, target, hops + 1)),
            None => vec![View::open()],
        };
    }
    for part in list(keywords.get("allOf")) {
        ways = together(ways, &apart(root, part, hops + 1));
    }
    for keyword in ["anyOf", "oneOf"] {
        let branches = list(keywords.get(keyword));
        if !branches.is_empty() {
            let each: Vec<View<'a>> =
                branches.iter().flat_map(|branch| apart(root, branch, hops + 1)).collect();
            ways = together(ways, &each);
        }
    }
    ways
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Each way of the one with each way of the other.
fn together<'a>(left: Vec<View<'a>>, right: &[View<'a>]) -> Vec<View<'a>> {
    if left.len() * right.len() > MAX_VIEWS {
        return vec![View::open()];
    }
    let mut all = Vec::with_capacity(left.len() * right.len());
    for one in &left {
        for other in right {
            let parts = one.parts.iter().chain(&other.parts).copied().collect();
            all.push(View { parts, is_open: one.is_open || other.is_open });
        }
    }
    all
}

impl<'a> View<'a> {
    fn anything() -> View<'a> {
        View { parts: Vec::new(), is_open: false }
    }

    fn open() -> View<'a> {
        View { parts: Vec::new(), is_open: true }
    }

    /// The JSON types it leaves; nothing where it says none.
    pub(crate) fn types(&self) -> Option<Vec<&'a str>> {
        let mut left: Option<Vec<&str>> = None;
        for types in self.parts.iter().filter_map(|part| part.get("type")) {
            let these: Vec<&str> = match types {
                Value::String(one) => vec![one],
                Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
                _ => continue,
            };
            left = Some(match left {
                None => these,
                Some(before) => before.into_iter().filter(|name| these.contains(name)).collect(),
            });
        }
        // Two that contradict each other are the gate's business.
        left.filter(|types| !types.is_empty())
    }

    /// The only values it leaves, if it names them.
    pub(crate) fn values(&self) -> Option<Vec<&'a Value>> {
        self.parts.iter().find_map(|part| match (part.get("const"), part.get("enum")) {
            (Some(only), _) => Some(vec![only]),
            (None, Some(Value::Array(values))) => Some(values.iter().collect()),
            // Only one value is of that type.
            _ if part.get("type").is_some_and(|name| name == "null") => Some(vec![&NULL]),
            _ => None,
        })
    }

    pub(crate) fn may_be(&self, json_type: &str) -> bool {
        self.types().is_none_or(|types| types.contains(&json_type))
    }

    pub(crate) fn field(&self, name: &str) -> FieldIs<'a> {
        if !self.may_be("object") {
            return FieldIs::NotAnObject;
        }
        let described: Vec<&Value> =
            self.properties().filter(|(known, _)| *known == name).map(|(_, schema)| schema).collect();
        if !described.is_empty() {
            return FieldIs::Described(described);
        }
        if self.is_open || self.parts.iter().any(|part| part.get("patternProperties").is_some()) {
            return FieldIs::Open;
        }
        let others: Vec<&Value> =
            self.parts.iter().filter_map(|part| part.get("additionalProperties")).collect();
        if others.contains(&&Value::Bool(false)) {
            return FieldIs::RuledOut;
        }
        let schemas: Vec<&Value> = others.into_iter().filter(|other| other.is_object()).collect();
        match (schemas.is_empty(), self.properties().next().is_some()) {
            (false, _) => FieldIs::Described(schemas),
            (true, true) => FieldIs::Unmentioned,
            (true, false) => FieldIs::Open,
        }
    }

    /// What the elements of a list are; nothing where that is not said.
    pub(crate) fn items(&self) -> Option<Vec<&'a Value>> {
        let items: Vec<&Value> = self
            .parts
            .iter()
            .filter_map(|part| part.get("items"))
            .filter(|items| items.is_object())
            .collect();
        (!self.is_open && !items.is_empty()).then_some(items)
    }

    pub(crate) fn properties(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let parts = self.parts.iter().filter_map(|part| part.get("properties").and_then(Value::as_object));
        parts.flat_map(|properties| properties.iter().map(|(name, schema)| (name.as_str(), schema)))
    }

    /// What a keyword says, by each schema that has it, as far as it is a number.
    pub(crate) fn numbers(&self, keyword: &str) -> impl Iterator<Item = f64> {
        self.parts.iter().filter_map(move |part| part.get(keyword).and_then(Value::as_f64))
    }

    pub(crate) fn texts(&self, keyword: &str) -> impl Iterator<Item = &'a str> {
        self.parts.iter().filter_map(move |part| part.get(keyword).and_then(Value::as_str))
    }

    /// Whether the field must be there.
    pub(crate) fn requires(&self, name: &str) -> bool {
        self.parts.iter().any(|part| list(part.get("required")).iter().any(|required| required == name))
    }

    pub(crate) fn required(&self) -> impl Iterator<Item = &'a str> {
        self.parts.iter().flat_map(|part| list(part.get("required"))).filter_map(Value::as_str)
    }
}
