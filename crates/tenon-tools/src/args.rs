//! Reads a tool's arguments, and says in a sentence what is wrong with them.

use serde_json::Value;
use tenon_core::{Args, ToolErrorKind, ToolOutcome, ToolSpec};

/// How many wrong names a message repeats.
const NAMES_SHOWN: usize = 3;

/// Why a call did not do what it was asked to.
#[derive(Debug)]
pub struct Refusal {
    pub kind: ToolErrorKind,
    pub message: String,
}

impl Refusal {
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into() }
    }

    pub fn arguments(message: impl Into<String>) -> Refusal {
        Refusal::new(ToolErrorKind::InvalidArguments, message)
    }

    /// The run was stopped before the call had come to anything.
    pub fn stopped() -> Refusal {
        Refusal::new(ToolErrorKind::Cancelled, "The call was cancelled before it finished.")
    }

    pub fn failed(message: impl Into<String>) -> Refusal {
        Refusal::new(ToolErrorKind::Failed, message)
    }
}

impl From<crate::PathError> for Refusal {
    fn from(error: crate::PathError) -> Refusal {
        let kind = match error {
            crate::PathError::Outside { .. } => ToolErrorKind::Denied,
            crate::PathError::Unfollowable { .. } => ToolErrorKind::Failed,
        };
        Refusal::new(kind, format!("{error}."))
    }
}

impl From<Refusal> for ToolOutcome {
    fn from(refusal: Refusal) -> ToolOutcome {
        ToolOutcome::error(refusal.kind, refusal.message)
    }
}

pub(crate) fn outcome(result: Result<ToolOutcome, Refusal>) -> ToolOutcome {
    result.unwrap_or_else(ToolOutcome::from)
}

/// The arguments of one call, checked against nothing but what is asked of them.
pub struct ArgReader<'a> {
    spec: &'a ToolSpec,
    args: &'a Args,
}

impl<'a> ArgReader<'a> {
    pub fn new(spec: &'a ToolSpec, args: &'a Args) -> ArgReader<'a> {
        ArgReader { spec, args }
    }

    pub fn text(&self, name: &str) -> Result<&'a str, Refusal> {
        match self.optional_text(name)? {
            Some(text) => Ok(text),
            None => Err(Refusal::arguments(self.missing(name))),
        }
    }

    /// A text that must say something.
    pub fn filled_text(&self, name: &str) -> Result<&'a str, Refusal> {
        let text = self.text(name)?;
        if text.trim().is_empty() {
            return Err(Refusal::arguments(format!("`{name}` must not be empty.")));
        }
        Ok(text)
    }

    pub fn optional_text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", other)),
        }
    }

    pub fn flag(&self, name: &str) -> Result<bool, Refusal> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    pub fn optional_flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(name, "true or false", other)),
        }
    }

    /// A whole number from 0; `3.0` counts as 3.
    pub fn optional_count(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        whole(value).map(Some).ok_or_else(|| self.wrong(name, "a whole number, 0 or more", value))
    }

    pub fn texts(&self, name: &str) -> Result<Vec<&'a str>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        value
            .as_array()
            .and_then(|items| items.iter().map(Value::as_str).collect::<Option<Vec<&str>>>())
            .ok_or_else(|| self.wrong(name, "a list of strings", value))
    }

    /// Models write `null` for an argument they leave out.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.args.get(name).filter(|value| !value.is_null())
    }

    fn missing(&self, name: &str) -> String {
        let known = &self.spec.parameters["properties"];
        let strangers: Vec<String> = self
            .args
            .keys()
            .filter(|key| known.get(key.as_str()).is_none())
            .take(NAMES_SHOWN)
            .map(|key| format!("`{key}`"))
            .collect();
        let mut message = format!("`{}` needs `{name}`", self.spec.name);
        if !strangers.is_empty() {
            message.push_str(&format!("; it does not know {}", strangers.join(", ")));
        }
        message.push('.');
        message
    }

    fn wrong(&self, name: &str, wanted: &str, got: &Value) -> Refusal {
        let got = match got {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        Refusal::arguments(format!("`{name}` of `{}` must be {wanted}, not {got}.", self.spec.name))
    }
}

fn whole(value: &Value) -> Option<u64> {
    /// Beyond this a double no longer counts in ones.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
    })
}
