//! What hooks answer, and what several answers mean together.
//!
//! An answer is JSON on stdout (or in an HTTP body); what cannot be understood is a failure of the hook,
//! never a silent yes.

use serde_json::{Map, Value};
use tenon_core::Args;

use crate::output::first_chars;

/// A reason or a message to people: a paragraph, not a page.
pub(crate) const MAX_MESSAGE_CHARS: usize = 2_000;
/// What one hook may put into the model's context.
pub(crate) const MAX_CONTEXT_CHARS: usize = 10_000;

/// What all hooks of an event say together: the most restrictive word counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookDecision {
    pub says: HookSays,
    /// Arguments to use instead, still to be checked like any others.
    pub updated_input: Option<Args>,
    /// What the model reads instead of what a call gave.
    pub updated_output: Option<UpdatedOutput>,
    /// What the model is to be told besides.
    pub context: Option<String>,
    /// The run is to end, for this reason.
    pub stop: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HookSays {
    #[default]
    Nothing,
    Allow,
    Ask {
        reason: String,
    },
    Deny {
        reason: String,
    },
}

impl HookSays {
    fn rank(&self) -> u8 {
        match self {
            HookSays::Nothing => 0,
            HookSays::Allow => 1,
            HookSays::Ask { .. } => 2,
            HookSays::Deny { .. } => 3,
        }
    }
}

impl HookDecision {
    /// Why it must not be, if it must not.
    pub fn denied(&self) -> Option<&str> {
        match &self.says {
            HookSays::Deny { reason } => Some(reason),
            HookSays::Nothing | HookSays::Allow | HookSays::Ask { .. } => None,
        }
    }

    /// Adds the answer of the next hook in the order of the settings. True if its arguments had to give
    /// way to those of an earlier hook.
    pub(crate) fn add(&mut self, reply: Reply) -> bool {
        if reply.says.rank() > self.says.rank() {
            self.says = reply.says;
        }
        let gives_way = reply.updated_input.is_some() && self.updated_input.is_some();
        if self.updated_input.is_none() {
            self.updated_input = reply.updated_input;
        }
        if self.updated_output.is_none() {
            self.updated_output = reply.updated_output;
        }
        if let Some(more) = reply.context {
            let context = self.context.get_or_insert_default();
            if !context.is_empty() {
                context.push_str("\n\n");
            }
            context.push_str(&more);
        }
        self.stop = self.stop.take().or(reply.stop);
        gives_way
    }
}

/// What takes the place of a tool's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdatedOutput {
    OfAnyTool(String),
    OfMcpTools(String),
}

impl UpdatedOutput {
    /// The text, where it is meant for this tool.
    pub fn of_tool(&self, name: &str) -> Option<&str> {
        match self {
            UpdatedOutput::OfAnyTool(text) => Some(text),
            UpdatedOutput::OfMcpTools(text) => name.starts_with("mcp__").then_some(text),
        }
    }

    fn read(inner: &Fields<'_>) -> Option<UpdatedOutput> {
        let given = |key: &str| inner.object.get(key).filter(|value| !value.is_null()).map(output_text);
        given("updatedToolOutput")
            .map(UpdatedOutput::OfAnyTool)
            .or_else(|| given("updatedMCPToolOutput").map(UpdatedOutput::OfMcpTools))
    }
}

/// A text as it is, the texts of MCP content, and anything else as JSON.
fn output_text(value: &Value) -> String {
    let blocks = match value {
        Value::String(text) => return text.clone(),
        Value::Array(blocks) => Some(blocks),
        Value::Object(result) => result.get("content").and_then(Value::as_array),
        _ => None,
    };
    let text = |block: &Value| match block["type"].as_str() {
        Some("text") => block["text"].as_str().map(str::to_owned),
        _ => None,
    };
    let texts = blocks.and_then(|blocks| blocks.iter().map(text).collect::<Option<Vec<String>>>());
    texts.map_or_else(|| value.to_string(), |texts| texts.join("\n"))
}

/// What one hook answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub says: HookSays,
    pub updated_input: Option<Args>,
    pub updated_output: Option<UpdatedOutput>,
    pub context: Option<String>,
    pub stop: Option<String>,
    /// For people.
    pub message: Option<String>,
}

impl Reply {
    pub fn denied(reason: &str) -> Reply {
        let reason = match reason.trim() {
            "" => "it gave no reason".to_owned(),
            reason => shortened(reason, MAX_MESSAGE_CHARS),
        };
        Reply { says: HookSays::Deny { reason }, ..Reply::default() }
    }

    /// The stdout of a hook that ended well.
    pub fn from_text(text: &str) -> Result<Reply, String> {
        let text = text.trim().trim_start_matches('\u{feff}');
        if text.is_empty() {
            return Ok(Reply::default());
        }
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(object)) => Reply::from_object(&object),
            // Half a decision must not pass for none.
            Err(error) if text.starts_with('{') => Err(format!("its answer is not valid JSON ({error})")),
            Ok(_) | Err(_) => {
                Ok(Reply { message: Some(shortened(text, MAX_MESSAGE_CHARS)), ..Reply::default() })
            }
        }
    }

    /// The stderr of a hook that said no by its exit code: the reason, or JSON that holds it.
    pub fn from_refusal(stderr: &str) -> Reply {
        let object = serde_json::from_str::<Value>(stderr.trim()).ok();
        let told = object.as_ref().and_then(Value::as_object).and_then(|object| {
            let inner = object.get("hookSpecificOutput").and_then(Value::as_object);
            let reason = object.get("reason").or_else(|| object.get("stopReason"));
            reason.or_else(|| inner.and_then(|inner| inner.get("permissionDecisionReason")))?.as_str()
        });
        Reply::denied(told.unwrap_or(stderr))
    }

    pub fn from_object(object: &Map<String, Value>) -> Result<Reply, String> {
        let answer = Fields { object, path: "" };
        let nothing = Map::new();
        let inner = answer.object("hookSpecificOutput")?.unwrap_or(&nothing);
        let inner = Fields { object: inner, path: "hookSpecificOutput." };
        // The answer to a permission request is an object of its own.
        let behaviour = match inner.object.get("decision") {
            Some(Value::Object(object)) => Fields { object, path: "hookSpecificOutput.decision." },
            _ => Fields { object: &nothing, path: "" },
        };
        let reason = first([
            inner.text("permissionDecisionReason")?,
            behaviour.text("message")?,
            answer.text("reason")?,
        ]);
        let reason = || match reason.map(str::trim) {
            None | Some("") => "it gave no reason".to_owned(),
            Some(reason) => shortened(reason, MAX_MESSAGE_CHARS),
        };
        let words = [
            inner.word("permissionDecision")?,
            behaviour.word("behavior")?,
            match inner.object.get("decision") {
                Some(Value::Object(_)) => None,
                _ => inner.word("decision")?,
            },
            answer.word("decision")?,
        ];
        let says = words.into_iter().flatten().max().map_or(HookSays::Nothing, |word| match word {
            Word::Allow => HookSays::Allow,
            Word::Ask => HookSays::Ask { reason: reason() },
            Word::Deny => HookSays::Deny { reason: reason() },
        });
        let updated_input = match behaviour.object("updatedInput")? {
            Some(updated) => Some(updated),
            None => inner.object("updatedInput")?,
        };
        let goes_on =
            answer.flag("continue")?.unwrap_or(true) && !behaviour.flag("interrupt")?.unwrap_or(false);
        let stop = (!goes_on).then(|| match answer.text("stopReason") {
            Ok(Some(text)) if !text.trim().is_empty() => shortened(text.trim(), MAX_MESSAGE_CHARS),
            _ => reason(),
        });
        let filled = |text: Option<&str>, most: usize| {
            text.map(str::trim).filter(|text| !text.is_empty()).map(|text| shortened(text, most))
        };
        Ok(Reply {
            says,
            updated_input: updated_input.cloned(),
            updated_output: UpdatedOutput::read(&inner),
            context: filled(
                first([inner.text("additionalContext")?, answer.text("additionalContext")?]),
                MAX_CONTEXT_CHARS,
            ),
            stop,
            message: filled(answer.text("systemMessage")?, MAX_MESSAGE_CHARS),
        })
    }
}

/// From the mildest to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Allow,
    Ask,
    Deny,
}

struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: &'static str,
}

impl<'a> Fields<'a> {
    fn text(&self, key: &str) -> Result<Option<&'a str>, String> {
        match self.object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "a string")),
        }
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, String> {
        match self.object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, String> {
        match self.object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(self.wrong(key, "an object")),
        }
    }

    fn word(&self, key: &str) -> Result<Option<Word>, String> {
        match self.text(key)? {
            // `defer` leaves it to everybody else.
            None | Some("" | "defer") => Ok(None),
            Some("allow" | "approve") => Ok(Some(Word::Allow)),
            Some("ask") => Ok(Some(Word::Ask)),
            Some("deny" | "block") => Ok(Some(Word::Deny)),
            Some(_) => Err(self.wrong(key, "`allow`, `approve`, `ask`, `deny` or `block`")),
        }
    }

    fn wrong(&self, key: &str, wanted: &str) -> String {
        format!("`{}{key}` of its answer must be {wanted}", self.path)
    }
}

fn first<const N: usize>(texts: [Option<&str>; N]) -> Option<&str> {
    texts.into_iter().flatten().next()
}

pub(crate) fn shortened(text: &str, most: usize) -> String {
    let kept = first_chars(text, most);
    if kept.len() == text.len() { text.to_owned() } else { format!("{kept} […]") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_word_of_an_answer_counts_wherever_it_stands() {
        let says = |text: &str| Reply::from_text(text).map(|reply| reply.says);
        let deny = |reason: &str| Ok(HookSays::Deny { reason: reason.to_owned() });
        let table = [
            ("", Ok(HookSays::Nothing)),
            ("{}", Ok(HookSays::Nothing)),
            ("null", Ok(HookSays::Nothing)),
            (r#"{"decision": null}"#, Ok(HookSays::Nothing)),
            (r#"{"decision": ""}"#, Ok(HookSays::Nothing)),
            (r#"{"decision": "approve"}"#, Ok(HookSays::Allow)),
            (r#"{"decision": "block"}"#, deny("it gave no reason")),
            (
                r#"{"decision": "allow", "hookSpecificOutput": {"permissionDecision": "deny"}, "reason": "r"}"#,
                deny("r"),
            ),
            (
                r#"{"decision": "deny", "hookSpecificOutput": {"permissionDecision": "allow"}, "reason": "r"}"#,
                deny("r"),
            ),
            (
                r#"{"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "m"}}, "reason": "r"}"#,
                deny("m"),
            ),
        ];
        for (text, expected) in table {
            assert_eq!(says(text), expected, "{text}");
        }
        for broken in [
            r#"{"decision": true}"#,
            r#"{"continue": "no"}"#,
            r#"{"systemMessage": 1}"#,
            r#"{"hookSpecificOutput": {"updatedInput": []}}"#,
            "{",
        ] {
            assert!(Reply::from_text(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn what_a_hook_says_is_cut() {
        let long = "x".repeat(50_000);
        let text =
            serde_json::json!({"systemMessage": long, "hookSpecificOutput": {"additionalContext": long}});
        let reply = Reply::from_text(&text.to_string()).unwrap();
        assert!(reply.message.is_some_and(|message| message.chars().count() < MAX_MESSAGE_CHARS + 10));
        assert!(reply.context.is_some_and(|context| context.chars().count() < MAX_CONTEXT_CHARS + 10));
        let stopped = Reply::from_text(r#"{"continue": false}"#).unwrap();
        assert_eq!(stopped.stop.as_deref(), Some("it gave no reason"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(tenon_testkit::cases(256)))]
        #[test]
        fn any_answer_is_read_or_refused(text in ".{0,200}") {
            let _ = Reply::from_text(&text);
            let _ = Reply::from_refusal(&text);
        }
    }
}
