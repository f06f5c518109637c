//! Puts into words that a value fits none of several forms, or more than one.
//!
//! Listing every failure of every form helps nobody. What helps: the forms in one short list if they are
//! simple, else the form that the value was most likely meant to have.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use crate::show;
use crate::violations::{Scope, describe, type_message, type_names};

/// Forms that are described, when none stands out, and failures listed for each.
const MAX_FORMS: usize = 3;
const MAX_FAILURES: usize = 3;
/// A union inside a form is described as well, one inside that is only mentioned: each level multiplies
/// the text.
const MAX_UNIONS: u8 = 2;

type Form = [ValidationError<'static>];

pub(crate) fn message(
    error: &ValidationError<'_>,
    forms: &[Vec<ValidationError<'static>>],
    scope: &Scope<'_>,
) -> String {
    let path = error.instance_path().as_str();
    let value: &Value = error.instance();
    if let Some(message) = simple(forms, path, value) {
        return message;
    }
    let count = forms.len();
    if scope.unions == MAX_UNIONS {
        return format!("fits none of the {count} allowed forms");
    }
    let scope = &Scope { unions: scope.unions + 1, ..*scope };
    let mut ranked: Vec<(usize, &Form)> = forms.iter().map(Vec::as_slice).enumerate().collect();
    // A form of another type was not meant, if one of the value's own type is there.
    if ranked.iter().any(|(_, form)| own_type(form, path).is_none()) {
        ranked.retain(|(_, form)| own_type(form, path).is_none());
    }
    if let Some(message) = discriminated(&ranked, path) {
        return format!("fits none of the {count} allowed forms; {message}");
    }
    ranked.sort_by_key(|(_, form)| (discriminator(form, path).is_some(), form.len()));
    let matched = ranked.iter().filter(|(_, form)| discriminator(form, path).is_none()).count();
    // The value names its form by a constant: the others need no mention.
    if matched > 0 && matched < ranked.len() {
        ranked.truncate(matched);
    }
    let shown: Vec<String> = ranked
        .iter()
        .take(MAX_FORMS)
        .map(|(index, form)| format!("form {}: {}", index + 1, failures(form, scope)))
        .collect();
    format!("fits none of the {count} allowed forms; {}", shown.join("; or "))
}

pub(crate) fn too_many(forms: &[Vec<ValidationError<'static>>]) -> String {
    let fitting: Vec<String> = forms
        .iter()
        .enumerate()
        .filter(|(_, form)| form.is_empty())
        .map(|(index, _)| (index + 1).to_string())
        .collect();
    format!(
        "fits {} of the {} forms ({}), and only one may fit",
        fitting.len(),
        forms.len(),
        fitting.join(", ")
    )
}

/// Every form is a type or a list of values: they make one list.
fn simple(forms: &[Vec<ValidationError<'static>>], path: &str, value: &Value) -> Option<String> {
    let mut types: Vec<&'static str> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    for form in forms {
        if let Some(names) = own_type(form, path) {
            types.extend(names.into_iter().filter(|name| !types.contains(name)).collect::<Vec<_>>());
        } else {
            let own = form.iter().find(|error| error.instance_path().as_str() == path)?;
            values.extend(allowed_values(own)?);
        }
    }
    if types.is_empty() && values.is_empty() {
        return None;
    }
    if values.is_empty() {
        return Some(type_message(&types, value));
    }
    let list = format!("one of {}", show::choices(&values));
    let mut expected = types;
    expected.push(&list);
    Some(format!("expected {}, got {}", show::alternatives(&expected), show::value(value)))
}

fn own_type(form: &Form, path: &str) -> Option<Vec<&'static str>> {
    form.iter().find_map(|error| match error.kind() {
        Kind::Type { kind } if error.instance_path().as_str() == path => Some(type_names(kind)),
        _ => None,
    })
}

/// A constant one level down that the value misses: most likely the mark of another form.
fn discriminator<'a>(form: &'a Form, path: &str) -> Option<&'a ValidationError<'static>> {
    form.iter().find(|error| {
        let below = error.instance_path().as_str().strip_prefix(path).and_then(|rest| rest.strip_prefix('/'));
        matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. })
            && below.is_some_and(|rest| !rest.contains('/'))
    })
}

/// Every form has its own constant at one place, and the value has none of them.
fn discriminated(forms: &[(usize, &Form)], path: &str) -> Option<String> {
    let marks: Vec<&ValidationError<'static>> =
        forms.iter().map(|(_, form)| discriminator(form, path)).collect::<Option<_>>()?;
    let first = marks.first()?;
    let place = first.instance_path().as_str();
    let mut values = Vec::new();
    for mark in &marks {
        if mark.instance_path().as_str() != place {
            return None;
        }
        values.extend(allowed_values(mark)?);
    }
    Some(format!(
        "{place}: expected one of {}, got {}",
        show::choices(&values),
        show::value(first.instance())
    ))
}

fn allowed_values(error: &ValidationError<'static>) -> Option<Vec<Value>> {
    match error.kind() {
        Kind::Constant { expected_value } => Some(vec![(**expected_value).clone()]),
        Kind::Enum { options } => options.as_array().cloned(),
        _ => None,
    }
}

fn failures(form: &Form, scope: &Scope<'_>) -> String {
    let all: Vec<String> =
        form.iter().flat_map(|error| describe(error, scope)).map(|violation| violation.line()).collect();
    let shown = all.iter().take(MAX_FAILURES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MAX_FAILURES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
