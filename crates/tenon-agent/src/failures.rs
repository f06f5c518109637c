//! The sentences for runs that fail in the loop itself. Caps have theirs in `limits.rs`.

use tenon_core::{ErrorClass, Failure, PermissionDenial};

/// How much of what the model said an error message shows.
const PREVIEW_CHARS: usize = 200;

/// What the model said so far: the beginning, and how much it was.
#[derive(Default)]
pub(crate) struct Said {
    beginning: String,
    chars: usize,
}

impl Said {
    pub(crate) fn add(&mut self, text: &str) {
        if self.chars > 0 && !text.is_empty() {
            self.append("\n");
        }
        self.append(text);
    }

    fn append(&mut self, text: &str) {
        let room = PREVIEW_CHARS.saturating_sub(self.chars);
        self.beginning.extend(text.chars().take(room));
        self.chars += text.chars().count();
    }

    fn preview(&self) -> String {
        let said = self.beginning.trim();
        if said.is_empty() {
            return String::new();
        }
        let more = if self.chars > PREVIEW_CHARS { "+" } else { "" };
        let chars = self.chars.min(PREVIEW_CHARS);
        format!("; it said ({chars}{more} chars): {}", serde_json::Value::from(said))
    }
}

pub(crate) fn no_terminal_call(tool: &str, turns: u32, said: &Said) -> Failure {
    let turns = if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    let preview = said.preview();
    let did = if preview.is_empty() { "gave an empty answer" } else { "answered in plain text" };
    Failure::new(
        ErrorClass::Contract,
        format!("the model {did} instead of calling `{tool}` after {turns}{preview}"),
    )
    .hint("ask for the final answer in the prompt, allow a reminder with `--schema-nudge 1`, or try another model")
}

/// A run that could not succeed says so, however it ended.
pub(crate) fn with_removed_tool_hint(failure: Failure, tool: &str) -> Failure {
    failure.hint(format!(
        "`{tool}` is removed by a deny rule: check `--exclude-tools` and `permissions.deny` in the settings"
    ))
}

/// The same as [`no_terminal_call`] where the text of the answer would have been the payload: there was none.
pub(crate) fn no_json_answer(turns: u32) -> Failure {
    let turns = if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    Failure::new(ErrorClass::Contract, format!("the model stopped after {turns} without writing an answer"))
        .hint("allow a reminder with `--schema-nudge 1`, or try another model")
}

/// Adds to a reached turn limit why a contract may not have been fulfilled.
pub(crate) fn with_turn_limit_hint(failure: Failure, tool: Option<&str>, attempts: u32) -> Failure {
    match (tool, attempts) {
        (None, _) => failure.hint("raise `--max-session-turns`, or narrow the task"),
        (Some(tool), 0) => failure.hint(format!(
            "`--json-schema` is active and `{tool}` was never called: check that `{tool}` is not denied by `--exclude-tools` or `permissions.deny`, that the schema can be satisfied, or raise `--max-session-turns`"
        )),
        (Some(tool), attempts) => failure.hint(format!(
            "`--json-schema` is active and `{tool}` was called {attempts} times without an answer that fits: check that the schema can be satisfied, or raise `--max-session-turns`"
        )),
    }
}

pub(crate) fn empty_answer() -> Failure {
    Failure::new(ErrorClass::Protocol, "the model gave an empty answer")
        .hint("try again, or check that the server supports this model's chat template")
}

/// What to do about an answer that reached the model's output limit.
const SHORTER: &str = "ask for a shorter answer, or use a model with a larger output limit";

pub(crate) fn truncated() -> Failure {
    Failure::new(ErrorClass::Truncated, "the answer was cut off by the model's output limit").hint(SHORTER)
}

/// A failure whose last answer was cut off says so.
pub(crate) fn with_a_cut_answer(failure: Failure) -> Failure {
    failure.hint(format!("the last answer was cut off by the model's output limit: {SHORTER}"))
}

pub(crate) fn refused(said: &str) -> Failure {
    let preview: String = said.trim().chars().take(PREVIEW_CHARS).collect();
    let message = if preview.is_empty() {
        "the model or its provider refused to answer".to_owned()
    } else {
        format!("the model or its provider refused to answer: {}", serde_json::Value::from(preview))
    };
    Failure::new(ErrorClass::Refused, message)
}

/// Nothing more can be left out, and what is left is too much.
pub(crate) fn context_too_small(tokens: u64, limit: u64) -> Failure {
    Failure::new(
        ErrorClass::Protocol,
        format!(
            "the conversation holds about {tokens} tokens, which is more than the model's context of {limit} takes, and nothing more can be left out"
        ),
    )
    .hint(CONTEXT_HINT)
}

/// Room was made again and again, and was gone at once.
pub(crate) fn compacted_too_often(times: u32, limit: u64) -> Failure {
    Failure::new(
        ErrorClass::Protocol,
        format!(
            "the conversation filled the model's context of {limit} tokens again at once after each of {times} summaries in a row"
        ),
    )
    .hint(CONTEXT_HINT)
}

const CONTEXT_HINT: &str =
    "give it less input, use a model with a larger context, or correct `context.window` in the settings";

pub(crate) fn denied(denials: &[PermissionDenial]) -> Failure {
    let mut names: Vec<&str> = denials.iter().map(|denial| denial.tool_name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let calls = if denials.len() == 1 {
        "1 tool call was".to_owned()
    } else {
        format!("{} tool calls were", denials.len())
    };
    let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Failure::new(ErrorClass::Tool, format!("{calls} denied: {names} (`--fail-on-denied`)"))
        .hint("allow the tools with `--allowed-tools`, or drop `--fail-on-denied`")
}
