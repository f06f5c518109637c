//! Whether a step that failed is tried again, and after how long. A pure function of the error's class.
//!
//! | class | tried again, while `retries` last |
//! |---|---|
//! | `rate_limited`, `overloaded`, `network` | after a pause that doubles from half a second, or what the server asked for |
//! | `protocol` | the same where the server failed, as with a status 500; at once where it answered something that is no answer |
//! | `tool`, `turns`, `contract`, `truncated`, `repeated_call`, `internal` | at once |
//! | `auth`, `input`, `config`, `usage`, `sandbox`, `schema_retries`, `refused`, `budget`, `interrupted` | no |
//! | `timeout`, `expression`, `loop_exhausted`, `items`, `include`, `isolation`, `denied`, `output`, `journal` | no |
//!
//! Whoever failed may know better than its class: an error that says that it is not worth repeating is not repeated. So is
//! one of a step that has had `retries` of its own, however many loops and includes are around it: attempts do not multiply.

use crate::{StepError, StepErrorClass};

/// The first pause; it doubles with each attempt. The same as for one model request.
const BASE_BACKOFF_MS: u64 = 500;
/// No pause is longer, and a server that asks for more is not waited for: the run is told instead.
pub(crate) const MAX_BACKOFF_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    No,
    AtOnce,
    After { ms: u64 },
}

/// `attempt` is the one that failed, from 1.
pub(crate) fn decide(error: &StepError, attempt: u32, retries: u32) -> Retry {
    if attempt > retries || error.retryable == Some(false) {
        return Retry::No;
    }
    match manner(error.class, error.retryable) {
        Manner::Never => Retry::No,
        Manner::AtOnce => match error.retry_after_ms {
            None | Some(0) => Retry::AtOnce,
            Some(ms) => pause(ms),
        },
        Manner::Pause => match error.retry_after_ms {
            Some(ms) => pause(ms),
            None => Retry::After { ms: backoff_ms(attempt) },
        },
    }
}

/// The error of something whose own `retries` are used up: nothing around it tries it again.
pub(crate) fn had_its_attempts(error: StepError, retries: u32) -> StepError {
    if retries == 0 { error } else { StepError { retryable: Some(false), ..error } }
}

/// Of several things that failed together, the first says what is wrong, and each of them may say that it was tried enough.
pub(crate) fn together<'a>(first: StepError, all: impl IntoIterator<Item = &'a StepError>) -> StepError {
    let is_final = all.into_iter().any(|error| error.retryable == Some(false));
    if is_final { StepError { retryable: Some(false), ..first } } else { first }
}

fn pause(ms: u64) -> Retry {
    if ms > MAX_BACKOFF_MS { Retry::No } else { Retry::After { ms } }
}

/// Without jitter: the same journal must ask for the same pause.
fn backoff_ms(attempt: u32) -> u64 {
    let doublings = attempt.saturating_sub(1).min(16);
    (BASE_BACKOFF_MS << doublings).min(MAX_BACKOFF_MS)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Never,
    AtOnce,
    Pause,
}

/// A server that failed says so: its answer is worth asking for again, later.
fn manner(class: StepErrorClass, retryable: Option<bool>) -> Manner {
    match class {
        StepErrorClass::Protocol if retryable == Some(true) => Manner::Pause,
        StepErrorClass::RateLimited | StepErrorClass::Overloaded | StepErrorClass::Network => Manner::Pause,
        StepErrorClass::Protocol
        | StepErrorClass::Tool
        | StepErrorClass::Turns
        | StepErrorClass::Contract
        | StepErrorClass::Truncated
        | StepErrorClass::RepeatedCall
        | StepErrorClass::Internal => Manner::AtOnce,
        StepErrorClass::Auth
        | StepErrorClass::Input
        | StepErrorClass::Config
        | StepErrorClass::Usage
        | StepErrorClass::Sandbox
        | StepErrorClass::SchemaRetries
        | StepErrorClass::Refused
        | StepErrorClass::Budget
        | StepErrorClass::Interrupted
        | StepErrorClass::Timeout
        | StepErrorClass::Expression
        | StepErrorClass::LoopExhausted
        | StepErrorClass::Items
        | StepErrorClass::Include
        | StepErrorClass::Isolation
        | StepErrorClass::Denied
        | StepErrorClass::Output
        | StepErrorClass::Journal => Manner::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table above, read from this file, is what the code does.
    #[test]
    fn the_table_is_what_happens() {
        let source = include_str!("retry.rs");
        let mut seen = Vec::new();
        for row in source.lines().filter_map(|line| line.strip_prefix("//! | `")) {
            let (classes, manner_said) = row.split_once(" | ").expect("two columns");
            let wanted = match manner_said.trim_end_matches(" |") {
                "no" => Manner::Never,
                "at once" => Manner::AtOnce,
                pause if pause.starts_with("after a pause") => Manner::Pause,
                // Who failed decides.
                both if both.starts_with("the same where the server failed") => {
                    assert_eq!(manner(StepErrorClass::Protocol, Some(true)), Manner::Pause);
                    Manner::AtOnce
                }
                other => panic!("`{other}` is no manner"),
            };
            for name in classes.split(", ").map(|name| name.trim_matches('`')) {
                let class = StepErrorClass::ALL.into_iter().find(|class| class.name() == name);
                let class = class.unwrap_or_else(|| panic!("`{name}` is no class"));
                assert_eq!(manner(class, None), wanted, "{name}");
                seen.push(class);
            }
        }
        seen.sort();
        let mut all = StepErrorClass::ALL.to_vec();
        all.sort();
        assert_eq!(seen, all);
    }

    #[test]
    fn pauses_double_up_to_the_cap_and_a_server_is_believed() {
        let error = |retry_after_ms| StepError {
            retry_after_ms,
            ..StepError::new(StepErrorClass::Overloaded, "busy")
        };
        let waits: Vec<Retry> = (1..=9).map(|attempt| decide(&error(None), attempt, 20)).collect();
        let wanted = [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000];
        assert_eq!(waits, wanted.map(|ms| Retry::After { ms }));
        assert_eq!(decide(&error(Some(7000)), 1, 1), Retry::After { ms: 7000 });
        assert_eq!(decide(&error(Some(60_001)), 1, 1), Retry::No);
        assert_eq!(decide(&error(None), 2, 1), Retry::No);
        assert_eq!(decide(&error(None), u32::MAX - 1, u32::MAX), Retry::After { ms: 60_000 });
        let final_word = StepError { retryable: Some(false), ..error(None) };
        assert_eq!(decide(&final_word, 1, 5), Retry::No);
    }
}
