//! What is known of a value before there is one: from literals, from the fields of steps, from schemas. Which types that
//! leaves, and what operators make of them, is in `cel/kinds.rs`.

use std::sync::LazyLock;

use cel::common::ast::LiteralValue;
use serde_json::{Value, json};

use super::check::KnownStep;
use super::kinds::Kinds;
use super::schema_view::{View, views};

/// What is known about a value.
#[derive(Clone, Debug)]
pub enum Shape<'a> {
    Anything,
    /// Of one of these types, and nothing more is known.
    Of(Kinds),
    List(Box<Shape<'a>>),
    Steps,
    Step(KnownStep<'a>, String),
    /// Described by schemas inside a root schema; whose, in words.
    Schema(Described<'a>),
    /// A map with just these fields; of what, in words.
    Fields(String, Vec<(&'a str, Shape<'a>)>),
    /// One of these.
    OneOf(Vec<&'a Value>),
    /// The inputs of a document that declares none.
    Undeclared,
    /// The result of a step that has none.
    Nothing(String),
    /// The same under its bare name, where it is a map without fields.
    NoFields(String),
}

/// What schemas say of a value.
#[derive(Clone, Debug)]
pub struct Described<'a> {
    pub(super) root: &'a Value,
    pub(super) views: Vec<View<'a>>,
    pub(super) whose: String,
    pub(super) absent: Absent,
}

/// Whether there may be nothing where a schema describes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    Never,
    /// The step may have been skipped: then its result is null.
    Null,
}

impl<'a> Shape<'a> {
    /// What a schema describes.
    pub(super) fn described(root: &'a Value, whose: impl Into<String>) -> Shape<'a> {
        Shape::by(root, &[root], whose.into())
    }

    pub(super) fn by(root: &'a Value, schemas: &[&'a Value], whose: String) -> Shape<'a> {
        Shape::Schema(Described { root, views: views(root, schemas), whose, absent: Absent::Never })
    }

    /// What a schema describes, or null.
    pub(super) fn result(root: &'a Value, whose: String) -> Shape<'a> {
        let views = views(root, &[root]);
        Shape::Schema(Described { root, views, whose, absent: Absent::Null })
    }

    /// The types it may be of.
    pub(super) fn kinds(&self) -> Kinds {
        match self {
            Shape::Anything => Kinds::ANY,
            Shape::Of(kinds) => *kinds,
            Shape::List(_) => Kinds::LIST,
            Shape::Steps | Shape::Step(..) | Shape::Undeclared | Shape::Fields(..) | Shape::NoFields(_) => {
                Kinds::MAP
            }
            Shape::Nothing(_) => Kinds::NULL,
            Shape::OneOf(values) => of_values(values.iter().copied()),
            Shape::Schema(it) => {
                let mut kinds = Kinds::NONE;
                for view in &it.views {
                    kinds = kinds
                        | match (view.values(), view.types()) {
                            (Some(values), _) => of_values(values.into_iter()),
                            (None, Some(types)) => {
                                types.into_iter().fold(Kinds::NONE, |so_far, it| so_far | Kinds::of_json(it))
                            }
                            (None, None) => return Kinds::ANY,
                        };
                }
                match (kinds, it.absent) {
                    (Kinds::NONE, _) => Kinds::ANY,
                    (kinds, Absent::Never) => kinds,
                    (kinds, Absent::Null) => kinds | Kinds::NULL,
                }
            }
        }
    }

    pub(super) fn may_be(&self, kind: Kinds) -> bool {
        self.kinds().meets(kind)
    }

    /// Beside null, which says only that there is nothing.
    pub(super) fn words(&self) -> String {
        let kinds = self.kinds();
        if kinds == Kinds::NULL { kinds.words() } else { kinds.without(Kinds::NULL).words() }
    }

    /// Either of the two.
    pub(super) fn or(self, other: Shape<'a>) -> Shape<'a> {
        match (self, other) {
            (Shape::Anything, _) | (_, Shape::Anything) => Shape::Anything,
            (Shape::List(left), Shape::List(right)) => Shape::List(Box::new(left.or(*right))),
            (left, right) => match left.kinds() | right.kinds() {
                Kinds::ANY => Shape::Anything,
                kinds => Shape::Of(kinds),
            },
        }
    }
}

fn of_values<'v>(values: impl Iterator<Item = &'v Value>) -> Kinds {
    match values.fold(Kinds::NONE, |so_far, value| so_far | Kinds::of_json(class(value))) {
        Kinds::NONE => Kinds::ANY,
        kinds => kinds,
    }
}

/// What a list has in it.
pub(super) fn element<'a>(list: &Shape<'a>) -> Shape<'a> {
    match list {
        Shape::List(element) => (**element).clone(),
        Shape::Schema(it) => {
            let lists = it.views.iter().filter(|view| view.may_be("array"));
            let items: Option<Vec<Vec<&Value>>> = lists.map(View::items).collect();
            match items {
                Some(items) if !items.is_empty() => {
                    let views = items.iter().flat_map(|schemas| views(it.root, schemas)).collect();
                    let whose = format!("an element of {}", it.whose);
                    Shape::Schema(Described { root: it.root, views, whose, absent: Absent::Never })
                }
                _ => Shape::Anything,
            }
        }
        Shape::OneOf(lists) => {
            let items: Option<Vec<&[Value]>> =
                lists.iter().map(|list| list.as_array().map(Vec::as_slice)).collect();
            items.map_or(Shape::Anything, |items| Shape::OneOf(items.into_iter().flatten().collect()))
        }
        _ => Shape::Anything,
    }
}

pub(super) fn literal_kind(literal: &LiteralValue) -> Kinds {
    match literal {
        LiteralValue::Boolean(_) => Kinds::BOOL,
        LiteralValue::Bytes(_) => Kinds::BYTES,
        LiteralValue::Double(_) => Kinds::DOUBLE,
        LiteralValue::Int(_) => Kinds::INT,
        LiteralValue::Null => Kinds::NULL,
        LiteralValue::String(_) => Kinds::STRING,
        LiteralValue::UInt(_) => Kinds::UINT,
    }
}

static STATUS: LazyLock<Value> =
    LazyLock::new(|| json!({"type": "string", "enum": ["completed", "failed", "skipped", "cancelled"]}));

/// The status of a step.
pub(super) fn status<'a>() -> Shape<'a> {
    Shape::described(&STATUS, "a status")
}

/// What a value may be, compared with another.
#[derive(Clone, Debug)]
pub(crate) enum Allowed<'a> {
    Values(Vec<&'a Value>),
    /// As [`class`] calls them.
    Classes(Vec<&'static str>),
}

impl Allowed<'_> {
    pub(crate) fn has(&self, value: &Value) -> bool {
        match self {
            Allowed::Values(values) => values.iter().any(|allowed| same(allowed, value)),
            Allowed::Classes(classes) => classes.contains(&class(value)),
        }
    }

    /// Whether nothing is both.
    pub(crate) fn is_apart_from(&self, other: &Allowed<'_>) -> bool {
        match (self, other) {
            (Allowed::Values(values), other) | (other, Allowed::Values(values)) => {
                !values.iter().any(|value| other.has(value))
            }
            (Allowed::Classes(these), Allowed::Classes(those)) => !these.iter().any(|it| those.contains(it)),
        }
    }

    pub(crate) fn words(&self) -> String {
        match self {
            Allowed::Values(values) => {
                let names: Vec<String> = values
                    .iter()
                    .map(|value| format!("`{}`", crate::diagnostic::quoted(&shown(value))))
                    .collect();
                names.join(", ")
            }
            Allowed::Classes(classes) => {
                let words: Vec<&str> = classes.iter().map(|class| class_words(class)).collect();
                words.join(" or ")
            }
        }
    }
}

pub(super) fn allowed<'a>(shape: &Shape<'a>) -> Option<Allowed<'a>> {
    match shape {
        Shape::Schema(it) => of_views(&it.views),
        Shape::OneOf(values) => Some(Allowed::Values(values.clone())),
        Shape::Of(kinds) => kinds.json_classes().map(Allowed::Classes),
        Shape::List(_) => Some(Allowed::Classes(vec!["array"])),
        _ => None,
    }
}

/// What is left when any of these ways may be taken.
pub(crate) fn of_views<'a>(views: &[View<'a>]) -> Option<Allowed<'a>> {
    if views.is_empty() {
        return None;
    }
    if let Some(values) = views.iter().map(View::values).collect::<Option<Vec<_>>>() {
        return Some(Allowed::Values(values.into_iter().flatten().collect()));
    }
    let mut classes = Vec::new();
    for view in views {
        match (view.values(), view.types()) {
            (Some(values), _) => classes.extend(values.into_iter().map(class)),
            (None, Some(types)) => classes.extend(types.into_iter().map(class_of_type)),
            (None, None) => return None,
        }
    }
    classes.dedup();
    Some(Allowed::Classes(classes))
}

/// An integer is a number.
fn class_of_type(json_type: &str) -> &'static str {
    match json_type {
        "boolean" => "boolean",
        "integer" | "number" => "number",
        "string" => "string",
        "array" => "array",
        "object" => "object",
        _ => "null",
    }
}

/// The name of its JSON type.
pub(super) fn class(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn class_words(class: &str) -> &'static str {
    match class {
        "boolean" => "true or false",
        "number" => "a number",
        "string" => "text",
        "array" => "a list",
        "object" => "a map",
        _ => "nothing",
    }
}

/// As expressions compare: 1 is 1.0.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

pub(super) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Of literals that JSON has; null is left out.
pub(super) fn literal_json(literal: &LiteralValue) -> Option<Value> {
    match literal {
        LiteralValue::Boolean(it) => Some((*it.inner()).into()),
        LiteralValue::Double(it) => Some((*it.inner()).into()),
        LiteralValue::Int(it) => Some((*it.inner()).into()),
        LiteralValue::UInt(it) => Some((*it.inner()).into()),
        LiteralValue::String(it) => Some(it.inner().into()),
        LiteralValue::Bytes(_) | LiteralValue::Null => None,
    }
}
