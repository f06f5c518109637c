//! The tools of a request as one provider is offered them. Every wire builds its tools from this.

use std::borrow::Cow;

use serde_json::Value;
use tenon_core::{Request, ToolSpec};

use super::object_root::object_root;
use super::{Target, Undo, adapt, adapt_loosely};

/// May a tool be offered in strict mode? Not when the server has refused that before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    WherePossible,
    Never,
}

/// A tool as it is offered.
pub(crate) struct Offer<'a> {
    pub name: &'a str,
    pub description: Cow<'a, str>,
    pub parameters: Cow<'a, Value>,
    pub strict: bool,
    /// What to take back when the tool is called.
    pub undo: Undo,
}

/// The tools of a request, in their order. Only the terminal tool is ever strict: its answer is the payload.
pub(crate) fn offers(request: &Request, target: Target, strictness: Strictness) -> Vec<Offer<'_>> {
    request.tools.iter().map(|spec| offer(spec, request, target, strictness)).collect()
}

fn offer<'a>(spec: &'a ToolSpec, request: &Request, target: Target, strictness: Strictness) -> Offer<'a> {
    let is_terminal = request.terminal_tool.as_ref() == Some(&spec.name);
    // Most requests of a long run go this way: nothing is copied that is sent as written.
    let is_plain = spec.parameters.get("type").is_some_and(|name| name == "object");
    if target == Target::Compatible && is_plain && object_root(&spec.parameters).is_none() {
        return Offer {
            name: &spec.name,
            description: Cow::Borrowed(&spec.description),
            parameters: Cow::Borrowed(&spec.parameters),
            strict: false,
            undo: Undo::default(),
        };
    }
    let adapted = match strictness {
        Strictness::WherePossible if is_terminal => adapt(&spec.parameters, target),
        _ => adapt_loosely(&spec.parameters, target),
    };
    let description = match adapted.in_description {
        Some(text) => Cow::Owned(format!("{}\n\n{text}", spec.description)),
        None => Cow::Borrowed(spec.description.as_str()),
    };
    let (parameters, strict, undo) = (Cow::Owned(adapted.parameters), adapted.strict, adapted.undo);
    Offer { name: &spec.name, description, parameters, strict, undo }
}

/// The schema of an answer in a response format, and whether it may be strict. The text of such an answer is the
/// payload as it is, so nothing can be taken back.
pub(crate) fn answer_schema(schema: &Value, target: Target, strictness: Strictness) -> (Value, bool) {
    if strictness == Strictness::WherePossible {
        let adapted = adapt(schema, target);
        if !adapted.undo.is_needed() {
            return (adapted.parameters, adapted.strict);
        }
    }
    (adapt_loosely(schema, target).parameters, false)
}
