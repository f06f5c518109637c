//! Where a `$ref` leads. References stay inside the schema: nothing is read or fetched, ever.

use std::collections::HashMap;

use jsonschema::ReferencingError;
use serde_json::{Map, Value, json};

use crate::pointer::{from_fragment, join, steps};
use crate::schema_error::Problem;
use crate::{Draft, show};

#[derive(Clone, Debug)]
pub(crate) struct Reference {
    /// Where the reference stands.
    pub pointer: String,
    pub target: String,
}

/// The pointer that a reference leads to, or nothing if only the validator can tell: by the address that an
/// `$id` gives to a part of the schema.
pub(crate) fn resolve(
    reference: &Reference,
    root: &Value,
    anchors: &HashMap<String, String>,
    nested_ids: bool,
) -> Result<Option<String>, Problem> {
    let target = reference.target.as_str();
    let (address, fragment) = target.split_once('#').unwrap_or((target, ""));
    let own_address = root.get("$id").or_else(|| root.get("id")).and_then(Value::as_str);
    let is_here = address.is_empty() || own_address.is_some_and(|own| own.trim_end_matches('#') == address);
    if !is_here {
        // Addresses are compared by the validator; without any `$id` there is nothing they could match.
        let could_match = nested_ids || own_address.is_some();
        return if could_match || Draft::from_uri(address).is_some() {
            Ok(None)
        } else {
            Err(outside(reference))
        };
    }
    if nested_ids {
        return Ok(None);
    }
    let Some(pointer) = from_fragment(fragment) else {
        return Err(dangling(reference, root));
    };
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return anchors
            .get(&pointer)
            .map_or_else(|| Err(dangling(reference, root)), |found| Ok(Some(found.clone())));
    }
    if root.pointer(&pointer).is_some() { Ok(Some(pointer)) } else { Err(dangling(reference, root)) }
}

const COPY_HINT: &str = "copy what it refers to into `$defs` and refer to it as `#/$defs/…`";

/// A reference that leaves the schema.
pub(crate) fn outside(reference: &Reference) -> Problem {
    let message = format!("`{}` is outside this schema, and references are not fetched", reference.target);
    Problem::new(&reference.pointer, message).hint(COPY_HINT)
}

fn dangling(reference: &Reference, root: &Value) -> Problem {
    let message = format!("`{}` leads to nothing in this schema", reference.target);
    let problem = Problem::new(&reference.pointer, message);
    let wanted = steps(&reference.target).last().unwrap_or_default();
    let definitions = |place: &'static str| {
        root.get(place).and_then(Value::as_object).into_iter().flatten().map(move |(name, _)| (place, name))
    };
    let all: Vec<(&str, &String)> = definitions("$defs").chain(definitions("definitions")).collect();
    let near = match all.iter().find(|(_, name)| **name == wanted) {
        Some(found) => Some(*found),
        None => show::nearest(&wanted, all.iter().map(|(_, name)| name.as_str()))
            .and_then(|near| all.iter().copied().find(|(_, name)| *name == near)),
    };
    match near {
        Some((place, name)) => problem.hint(format!("did you mean `#{}`?", join(&format!("/{place}"), name))),
        None => problem,
    }
}

/// A reference that only the validator could follow, and could not. It names the address, made whole with
/// the `$id` around it.
pub(crate) fn unresolved(cause: &ReferencingError, references: &[Reference]) -> Problem {
    let (name, message) = match cause {
        ReferencingError::Unretrievable { uri, .. } => {
            (uri, format!("`{uri}` is outside this schema, and references are not fetched"))
        }
        ReferencingError::PointerToNowhere { pointer } => {
            (pointer, format!("`{pointer}` leads to nothing in this schema"))
        }
        ReferencingError::NoSuchAnchor { anchor } | ReferencingError::InvalidAnchor { anchor } => {
            (anchor, format!("`{anchor}` leads to nothing in this schema"))
        }
        other => return Problem::new("", format!("an address in the schema cannot be read: {other}")),
    };
    let written = |reference: &&Reference| {
        let target = reference.target.as_str();
        let address = target.split('#').next().unwrap_or(target);
        target.ends_with(name.as_str())
            || (!address.is_empty() && name.ends_with(address.trim_start_matches("./")))
    };
    let pointer = references.iter().find(written).map_or("", |reference| reference.pointer.as_str());
    Problem::new(pointer, message).hint(COPY_HINT)
}

/// A longer schema is shown with its largest parts left out.
const MAX_FORM_CHARS: usize = 2000;

/// The same schema with its `$ref` moved into `allOf`, where its neighbours count.
pub(crate) fn all_of_form(members: &Map<String, Value>) -> String {
    let reference = json!({ "$ref": members.get("$ref") });
    let mut form = Map::new();
    for (name, value) in members {
        match name.as_str() {
            "$ref" if members.contains_key("allOf") => {}
            "$ref" => {
                form.insert("allOf".to_owned(), json!([reference]));
            }
            "allOf" => {
                let mut list = vec![reference.clone()];
                list.extend(value.as_array().into_iter().flatten().cloned());
                form.insert("allOf".to_owned(), Value::Array(list));
            }
            _ => {
                form.insert(name.clone(), value.clone());
            }
        }
    }
    let text = Value::Object(form.clone()).to_string();
    if text.chars().count() <= MAX_FORM_CHARS {
        return text;
    }
    let parts: Vec<String> = form
        .iter()
        .map(|(name, value)| match value.to_string() {
            long if long.len() > 100 && name != "allOf" => format!("{}:{{…}}", Value::from(name.as_str())),
            short => format!("{}:{short}", Value::from(name.as_str())),
        })
        .collect();
    show::cut(&format!("{{{}}}", parts.join(",")), MAX_FORM_CHARS)
}
