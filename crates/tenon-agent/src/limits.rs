//! Every cap of a run, and the one place that checks them.
//!
//! Caps are checked before a model call and before a tool call. Wall time is a deadline instead: it
//! cancels what is in flight (`turn_loop.rs`).

use std::time::Duration;

use tenon_core::{ErrorClass, Failure};

/// A count that may be unlimited (`-1` on the command line).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    AtMost(u32),
    Unlimited,
}

impl Cap {
    /// May there be one more after `used`?
    pub fn allows_one_more(self, used: u32) -> bool {
        match self {
            Cap::AtMost(limit) => used < limit,
            Cap::Unlimited => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Model requests.
    pub turns: Cap,
    /// Tool calls that are run; the terminal tool is not counted.
    pub tool_calls: Cap,
    /// Invalid terminal calls that may be followed by another.
    pub schema_retries: Cap,
    /// Times a model that forgot the terminal call is reminded of it.
    pub nudges: u32,
    pub wall_time: Option<Duration>,
    pub turns_set_by: SetBy,
    pub wall_time_set_by: SetBy,
}

/// Whose cap it is, for the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetBy {
    /// Flags and settings.
    #[default]
    Run,
    /// The definition of the agent.
    Agent,
}

impl SetBy {
    fn name(self, flag: &'static str, key: &'static str) -> &'static str {
        match self {
            SetBy::Run => flag,
            SetBy::Agent => key,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Enough for long work, small enough that a stuck run ends by itself.
            turns: Cap::AtMost(100),
            tool_calls: Cap::Unlimited,
            schema_retries: Cap::AtMost(10),
            nudges: 0,
            wall_time: None,
            turns_set_by: SetBy::Run,
            wall_time_set_by: SetBy::Run,
        }
    }
}

impl Limits {
    pub fn before_model_call(&self, turns: u32) -> Result<(), Failure> {
        match self.turns {
            Cap::AtMost(limit) if turns >= limit => Err(Failure::new(
                ErrorClass::Turns,
                format!(
                    "the turn limit was reached: {turns} of {limit} turns used (`{}`)",
                    self.turns_set_by.name("--max-session-turns", "maxTurns")
                ),
            )),
            _ => Ok(()),
        }
    }

    pub fn before_tool_call(&self, tool_calls: u32) -> Result<(), Failure> {
        match self.tool_calls {
            Cap::AtMost(limit) if tool_calls >= limit => Err(Failure::new(
                ErrorClass::Budget,
                format!(
                    "the tool-call budget was reached: {tool_calls} of {limit} calls used, and the model asked for another (`--max-tool-calls`)"
                ),
            )
            .hint("raise `--max-tool-calls`, or narrow the task")),
            _ => Ok(()),
        }
    }

    pub fn after_rejected_attempt(&self, attempts: u32) -> Result<(), Failure> {
        // The first attempt is no retry: N retries are N + 1 attempts.
        if self.schema_retries.allows_one_more(attempts.saturating_sub(1)) {
            return Ok(());
        }
        Err(Failure::new(
            ErrorClass::SchemaRetries,
            format!(
                "no answer fitted the schema: {attempts} {} rejected (`--max-schema-retries`)",
                if attempts == 1 { "attempt was" } else { "attempts were" }
            ),
        )
        .hint("the last candidate and its violations are in the result's `structured_error` (`--output-format json`); simplify the schema or raise `--max-schema-retries`"))
    }

    pub fn wall_time_reached(limit: Duration, set_by: SetBy) -> Failure {
        let name = set_by.name("--max-wall-time", "maxTime");
        Failure::new(
            ErrorClass::Budget,
            format!("the wall-time budget of {} was used up (`{name}`)", human(limit)),
        )
        .hint(format!("raise `{name}`, or narrow the task"))
    }
}

fn human(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}
