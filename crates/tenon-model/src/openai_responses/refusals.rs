//! What servers are known to refuse: fields that help where they are known and are left out where they are
//! not, and reasoning that a server cannot read any more.

use crate::adapt::{Strictness, blames_schema};

/// What a request can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Include,
    Store,
    PromptCacheKey,
    ParallelToolCalls,
    /// Without it the model chooses.
    ToolChoice,
    /// The items of reasoning in the input.
    Reasoning,
    /// The mode in which the server writes nothing but what the schema allows.
    Strict,
}

/// The fields that are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Omitted(u8);

impl Omitted {
    pub fn has(self, field: Field) -> bool {
        self.0 & (1 << field as u8) != 0
    }

    pub fn and(self, field: Field) -> Omitted {
        Omitted(self.0 | 1 << field as u8)
    }

    pub fn strictness(self) -> Strictness {
        if self.has(Field::Strict) { Strictness::Never } else { Strictness::WherePossible }
    }

    /// What is left out next after this answer, if that may help. Never the same thing twice, so asking
    /// again comes to an end.
    pub fn after(self, status: u16, body: &str) -> Option<Omitted> {
        if !matches!(status, 400 | 404 | 422) {
            return None;
        }
        let body = body.to_ascii_lowercase();
        let mut next = self;
        if blames_schema(status, &body) {
            next = next.and(Field::Strict);
        } else if REASONING_WORDS.iter().any(|words| body.contains(words)) {
            next = next.and(Field::Reasoning);
            // Of a model that cannot encrypt, nothing encrypted is asked for either.
            if body.contains("not supported") {
                next = next.and(Field::Include);
            }
        } else if status != 404 {
            next = NAMES
                .iter()
                .filter(|(name, _)| is_refused(name, &body))
                .fold(next, |next, (_, field)| next.and(*field));
        }
        (next != self).then_some(next)
    }
}

/// How OpenAI and others say that they cannot read an item of reasoning: its key has changed, it was not
/// stored, what followed it is missing, the model has none. Compared in lower case.
const REASONING_WORDS: [&str; 6] = [
    "invalid_encrypted_content",
    "encrypted content",
    "items are not persisted",
    "required following item",
    "required 'reasoning' item",
    "of type 'reasoning'",
];

/// How servers say that they do not want a field.
const REFUSING_WORDS: [&str; 8] = [
    "unknown",
    "unsupported",
    "not supported",
    "unrecognized",
    "unexpected",
    "not permitted",
    "not allowed",
    "extra",
];

/// `include` is also just a word: it is the field's name when it is quoted, or beside a refusal.
fn is_refused(name: &str, body: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = body.match_indices(name).filter_map(|(at, name)| {
        let (before, after) = (body[..at].chars().next_back(), body[at + name.len()..].chars().next());
        let stands_alone = !before.is_some_and(is_part) && !after.is_some_and(is_part);
        stands_alone.then_some(before.is_some_and(|c| "'\"`".contains(c)))
    });
    let refuses = REFUSING_WORDS.iter().any(|words| body.contains(words));
    found.any(|quoted| quoted || refuses)
}

const NAMES: [(&str, Field); 5] = [
    ("include", Field::Include),
    ("store", Field::Store),
    ("prompt_cache_key", Field::PromptCacheKey),
    ("parallel_tool_calls", Field::ParallelToolCalls),
    ("tool_choice", Field::ToolChoice),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_left_out_once() {
        use Field::{Include, ParallelToolCalls, PromptCacheKey, Reasoning, Store, Strict, ToolChoice};
        for (status, body, fields) in [
            (
                400,
                r#"{"error":{"message":"Unknown parameter: 'include'.","param":"include"}}"#,
                vec![Include],
            ),
            (400, "Unsupported parameter: store", vec![Store]),
            (
                422,
                r#"{"detail":[{"loc":["body","prompt_cache_key"],"msg":"extra fields"}]}"#,
                vec![PromptCacheKey],
            ),
            (400, "unknown fields `include`, `store`", vec![Include, Store]),
            (400, "parallel_tool_calls is not supported", vec![ParallelToolCalls]),
            (400, "Encrypted content is not supported with this model.", vec![Reasoning, Include]),
            (400, r#"{"error":{"code":"invalid_encrypted_content"}}"#, vec![Reasoning]),
            (
                404,
                "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
                vec![Reasoning],
            ),
            (
                400,
                "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
                vec![Reasoning],
            ),
            (400, "tool_choice 'function' is not supported", vec![ToolChoice]),
            (
                400,
                r#"{"error":{"code":"invalid_function_parameters","message":"Invalid schema for function 'store'"}}"#,
                vec![Strict],
            ),
            (400, "the input must include a message", vec![]),
            (400, "invalid value for `include`", vec![Include]),
            (400, "unexpected item in the datastore", vec![]),
            (404, "model not in store", vec![]),
            (500, "store", vec![]),
            (401, "include", vec![]),
        ] {
            let expected = fields.iter().fold(Omitted::default(), |omitted, field| omitted.and(*field));
            let found = Omitted::default().after(status, body);
            assert_eq!(found, (!fields.is_empty()).then_some(expected), "{status} {body}");
            assert_eq!(expected.after(status, body), None, "{status} {body}");
        }
    }
}
