//! Decides whether the arguments a model sent fulfil the contract.
//!
//! The value that is validated is the value that is returned: nothing is coerced, filled in or left out.
//! The texts of single violations are made in `violations.rs`.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::Schema;
use crate::json_text::{self, Compact, Root};
use crate::pointer::shown;
use crate::show;
use crate::violations::{self, Finding};

/// A model corrects the first ones and sends the rest again anyway; the count tells it how far off it is.
pub const MAX_VIOLATIONS: usize = 20;

/// What is told to a model has an end, however long the names and lists in it are.
const MAX_LINE_CHARS: usize = 2000;

/// Why arguments were not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// At most [`MAX_VIOLATIONS`].
    pub violations: Vec<Violation>,
    /// How many there were.
    pub total: usize,
    stored: Vec<String>,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Not JSON, or not an object.
    Arguments,
    Schema,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer into the payload.
    pub path: String,
    pub message: String,
}

impl Schema {
    /// The payload in one compact line, if the arguments fulfil the contract.
    pub fn check(&self, arguments: &str) -> Result<Box<RawValue>, Rejection> {
        let text = object_text(arguments)?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| Rejection::arguments(format!("the arguments cannot be read: {error}")))?;
        if !self.effort().can_check(&value) {
            return Err(Rejection::too_much());
        }
        let validator = self.validator();
        if !validator.is_valid(&value) {
            let scope = self.scope(&value);
            let findings = validator
                .iter_errors(&value)
                .flat_map(|error| violations::findings(&error, &scope))
                .collect();
            return Err(Rejection::violations(findings));
        }
        json_text::raw(text).map_err(|fault| Rejection::arguments(fault.to_string()))
    }
}

/// The arguments as compact text of an object. No arguments are an empty object; a string that holds an
/// object is what some models send instead of the object.
fn object_text(arguments: &str) -> Result<String, Rejection> {
    if arguments.trim().is_empty() {
        return Ok("{}".to_owned());
    }
    let not_json = |fault| Rejection::arguments(format!("the arguments are not valid JSON: {fault}"));
    let Compact { text, root } = json_text::compact(arguments).map_err(not_json)?;
    match root {
        Root::Object => Ok(text),
        Root::String(content) => match json_text::compact(&content) {
            Ok(Compact { text, root: Root::Object }) => Ok(text),
            _ => Err(Rejection::arguments("the arguments must be a JSON object, got string".to_owned())),
        },
        other => {
            Err(Rejection::arguments(format!("the arguments must be a JSON object, got {}", other.name())))
        }
    }
}

impl Rejection {
    /// For a call that was cut off: before its arguments began it would pass for one with an empty object.
    pub fn cut_off(arguments: &str) -> Rejection {
        Rejection::arguments(match arguments.trim().is_empty() {
            true => "the answer was cut off before the arguments began".to_owned(),
            false => {
                "the answer reached the model's output limit and was cut off in the middle of the arguments; \
                      make them shorter"
                    .to_owned()
            }
        })
    }

    /// For an answer that somebody besides the schema refused, in words that may quote it.
    pub fn refused(reason: &str) -> Rejection {
        Rejection {
            stored: vec!["refused before it was checked".to_owned()],
            ..Rejection::arguments(format!("the answer was refused: {reason}"))
        }
    }

    /// For a payload that fits the schema and not what is asked beyond it.
    pub(crate) fn further(mut violations: Vec<Violation>) -> Rejection {
        let total = violations.len();
        violations.truncate(MAX_VIOLATIONS);
        let stored = vec!["it fits the schema, and not what is asked beyond it".to_owned()];
        Rejection { violations, total, stored, cause: Cause::Schema }
    }

    fn arguments(message: String) -> Rejection {
        Rejection {
            violations: vec![Violation { path: String::new(), message }],
            total: 1,
            stored: vec!["the arguments are not a JSON object".to_owned()],
            cause: Cause::Arguments,
        }
    }

    fn too_much() -> Rejection {
        let message =
            "nested too deeply to be checked against this schema, which has many ways to fit each level";
        Rejection {
            violations: vec![Violation { path: String::new(), message: message.to_owned() }],
            total: 1,
            stored: vec!["(root): nested too deeply to be checked".to_owned()],
            cause: Cause::Schema,
        }
    }

    fn violations(findings: Vec<Finding>) -> Rejection {
        let mut violations: Vec<Violation> = Vec::new();
        let mut stored: Vec<String> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        let mut total = 0;
        for Finding { violation, stored: line } in findings {
            // Branches of `allOf` often say the same twice.
            if !seen.insert((violation.path.clone(), violation.message.clone())) {
                continue;
            }
            total += 1;
            if violations.len() < MAX_VIOLATIONS {
                violations.push(violation);
                if !stored.contains(&line) {
                    stored.push(line);
                }
            }
        }
        if violations.is_empty() {
            // The validator refused without a reason; the model still has to hear that it was refused.
            violations.push(Violation { path: String::new(), message: "does not fit the schema".to_owned() });
            stored.push("(root)".to_owned());
            total = 1;
        }
        Rejection { violations, total, stored, cause: Cause::Schema }
    }

    /// What the model is told: one violation in each line.
    pub fn told(&self) -> String {
        let mut lines: Vec<String> = match self.cause {
            Cause::Arguments => self.violations.iter().map(|violation| violation.message.clone()).collect(),
            Cause::Schema => self.violations.iter().map(Violation::line).collect(),
        };
        lines.extend(self.more());
        lines.join("\n")
    }

    /// What may be kept on disk: places and keywords that the schema names, and nothing the model wrote.
    pub fn stored(&self) -> String {
        let mut lines = self.stored.clone();
        lines.extend(self.more());
        lines.join("\n")
    }

    fn more(&self) -> Option<String> {
        match self.total.saturating_sub(self.violations.len()) {
            0 => None,
            more => Some(format!("... and {more} more")),
        }
    }
}

impl Violation {
    /// `/risk_level: expected …`, in one line whatever the property is called.
    pub(crate) fn line(&self) -> String {
        let line = format!("{}: {}", shown(&self.path), self.message);
        show::cut(&line, MAX_LINE_CHARS).replace(|c: char| c.is_control(), " ")
    }
}
