//! The guard against a model that does the same thing over and over.

use serde_json::Value;
use tenon_core::{ErrorClass, Failure, ToolCall};

/// Identical consecutive calls that end a run. A poll or two is work; five in a row is a loop.
const MAX_IDENTICAL_CALLS: u32 = 5;

#[derive(Default)]
pub(crate) struct RepeatedCalls {
    last: Option<(String, Arguments)>,
    count: u32,
}

/// Arguments are the same when they mean the same: key order and white space do not count.
#[derive(PartialEq)]
enum Arguments {
    Json(Value),
    Text(String),
}

impl RepeatedCalls {
    /// Takes note of a call, before it is run. The fifth identical one in a row is a failure.
    pub(crate) fn note(&mut self, call: &ToolCall) -> Result<(), Failure> {
        let arguments = match serde_json::from_str(&call.arguments) {
            Ok(value) => Arguments::Json(value),
            Err(_) => Arguments::Text(call.arguments.clone()),
        };
        let key = (call.name.clone(), arguments);
        if self.last.as_ref() == Some(&key) {
            self.count += 1;
        } else {
            self.last = Some(key);
            self.count = 1;
        }
        if self.count < MAX_IDENTICAL_CALLS {
            return Ok(());
        }
        Err(Failure::new(
            ErrorClass::RepeatedCall,
            format!("the model made the same call to `{}` {MAX_IDENTICAL_CALLS} times in a row", call.name),
        )
        .hint("rephrase the prompt, or check what the tool answers with `--output-format stream-json`"))
    }
}
