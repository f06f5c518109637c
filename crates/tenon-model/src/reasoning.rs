//! How each protocol is told how much work goes into an answer.
//!
//! Providers name it differently, and some models cannot be told at all: what cannot be said is refused before
//! anything is sent, never dropped. The words are decided here; where they stand in a body is each protocol's.

use serde::Serialize;
use tenon_core::{Effort, ErrorClass, ModelError, Reasoning, Request, Sampling, Thinking};

use crate::cassette::Protocol;

/// Claude models that take no effort think within a budget instead.
const CLAUDE_BUDGETS: [(Effort, u64); 5] = [
    (Effort::Low, 4_096),
    (Effort::Medium, 10_240),
    (Effort::High, 20_480),
    (Effort::XHigh, 31_999),
    (Effort::Max, 31_999),
];
/// The Messages API refuses less.
const CLAUDE_SMALLEST_BUDGET: u64 = 1_024;
/// What is left for the answer itself where thinking and answer share a limit.
const CLAUDE_SMALLEST_ANSWER: u64 = 1_024;
/// Gemini 2.5 takes a number of tokens. The largest is what every model of that generation accepts.
const GEMINI_BUDGETS: [(Effort, i64); 5] = [
    (Effort::Low, 2_048),
    (Effort::Medium, 8_192),
    (Effort::High, 24_576),
    (Effort::XHigh, 24_576),
    (Effort::Max, 24_576),
];
/// As long as the model finds right.
const GEMINI_DYNAMIC: i64 = -1;

/// Whether a model can be told this at all, before anything is asked of it.
pub fn check_reasoning(protocol: Protocol, model: &str, reasoning: Reasoning) -> Result<(), ModelError> {
    match protocol {
        Protocol::OpenAiChat | Protocol::OpenAiResponses => openai_effort(reasoning).map(drop),
        Protocol::Anthropic => claude(model, reasoning, Sampling::default()).map(drop),
        Protocol::Gemini => gemini(model, reasoning).map(drop),
    }
}

/// `reasoning_effort` of chat completions, `reasoning.effort` of the Responses API.
pub(crate) fn openai_effort(reasoning: Reasoning) -> Result<Option<&'static str>, ModelError> {
    match (reasoning.thinking, reasoning.effort) {
        (Thinking::AtMost(_), _) => Err(refused(
            "the OpenAI protocols have no limit on thinking in tokens",
            "`--effort` says how much such a model thinks",
        )),
        (Thinking::Off, Some(_)) => {
            Err(refused("thinking cannot be off and take effort", "leave one of them out"))
        }
        (Thinking::Off, None) => Ok(Some("none")),
        // The model decides by itself how long it thinks, which is what adaptive means.
        (Thinking::AsUsual | Thinking::Adaptive, effort) => Ok(effort.map(|effort| match effort {
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            // The most there is.
            Effort::XHigh | Effort::Max => "xhigh",
        })),
    }
}

/// What the Messages API is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaudeReasoning {
    pub thinking: Option<ClaudeThinking>,
    pub effort: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum ClaudeThinking {
    Disabled,
    Adaptive,
    Enabled { budget_tokens: u64 },
}

impl ClaudeReasoning {
    /// The limit on the whole output, thinking included.
    pub fn max_tokens(self, for_the_answer: u64) -> u64 {
        match self.thinking {
            Some(ClaudeThinking::Enabled { budget_tokens }) => for_the_answer.saturating_add(budget_tokens),
            _ => for_the_answer,
        }
    }

    /// What the model thinks at most when the whole output has this limit.
    pub fn within(self, max_tokens: u64) -> ClaudeReasoning {
        let thinking = self.thinking.map(|thinking| match thinking {
            ClaudeThinking::Enabled { budget_tokens } => ClaudeThinking::Enabled {
                budget_tokens: budget_tokens
                    .min(max_tokens.saturating_sub(CLAUDE_SMALLEST_ANSWER))
                    .max(CLAUDE_SMALLEST_BUDGET),
            },
            other => other,
        });
        ClaudeReasoning { thinking, ..self }
    }

    /// A model that thinks cannot be told which tool to call.
    pub fn thinks(self) -> bool {
        matches!(self.thinking, Some(ClaudeThinking::Adaptive | ClaudeThinking::Enabled { .. }))
    }
}

pub(crate) fn claude_reasoning(request: &Request) -> Result<ClaudeReasoning, ModelError> {
    claude(&request.model, request.reasoning, request.sampling)
}

fn claude(model: &str, reasoning: Reasoning, sampling: Sampling) -> Result<ClaudeReasoning, ModelError> {
    // A name without a version is the newest.
    let version = version(model, "claude").unwrap_or((u32::MAX, 0));
    let takes_effort = version >= (4, 6) || (version == (4, 5) && model.contains("opus"));
    let cannot_think = || refused(&format!("the model `{model}` does not think"), "take a newer model");
    let effort = reasoning.effort.filter(|_| takes_effort).map(|effort| match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::XHigh if version >= (4, 7) => "xhigh",
        Effort::Max if version >= (4, 6) => "max",
        Effort::XHigh | Effort::Max => "high",
    });
    let thinking = match (reasoning.thinking, reasoning.effort) {
        (Thinking::Off, _) => Some(ClaudeThinking::Disabled),
        (Thinking::Adaptive, _) if version < (4, 6) => {
            let message = format!("the model `{model}` does not find out by itself how long to think");
            return Err(refused(&message, "`--max-thinking-tokens` or `--effort` says how much it thinks"));
        }
        (Thinking::Adaptive, _) => Some(ClaudeThinking::Adaptive),
        (Thinking::AtMost(0), _) => Some(ClaudeThinking::Disabled),
        (Thinking::AtMost(_), _) if version < (3, 7) => return Err(cannot_think()),
        (Thinking::AtMost(_), Some(_)) if !takes_effort => {
            let message = format!("the model `{model}` takes an effort or a limit on thinking, and not both");
            return Err(refused(&message, "leave one of them out"));
        }
        (Thinking::AtMost(tokens), _) => {
            Some(ClaudeThinking::Enabled { budget_tokens: tokens.max(CLAUDE_SMALLEST_BUDGET) })
        }
        (Thinking::AsUsual, Some(_)) if !takes_effort && version < (3, 7) => return Err(cannot_think()),
        (Thinking::AsUsual, Some(effort)) if !takes_effort => {
            Some(ClaudeThinking::Enabled { budget_tokens: tokens_for(&CLAUDE_BUDGETS, effort) })
        }
        // These think as much as the effort is worth once they may think at all.
        (Thinking::AsUsual, Some(_)) if version >= (4, 6) => Some(ClaudeThinking::Adaptive),
        (Thinking::AsUsual, _) => None,
    };
    let reasoning = ClaudeReasoning { thinking, effort };
    if reasoning.thinks() && !sampling.is_default() {
        return Err(refused(
            "a model that thinks takes neither `temperature` nor `top_p` on the Anthropic protocol",
            "leave them out, or turn thinking off (`--thinking disabled`)",
        ));
    }
    Ok(reasoning)
}

/// `generationConfig.thinkingConfig`: a level or a number of tokens, never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum GeminiThinking {
    ThinkingLevel(&'static str),
    ThinkingBudget(i64),
}

pub(crate) fn gemini(model: &str, reasoning: Reasoning) -> Result<Option<GeminiThinking>, ModelError> {
    use GeminiThinking::{ThinkingBudget, ThinkingLevel};
    if reasoning == Reasoning::default() {
        return Ok(None);
    }
    // A name without a version is the newest.
    let version = version(model, "gemini").unwrap_or((u32::MAX, 0));
    let is_pro = model.contains("pro");
    if version < (2, 5) {
        return Err(refused(&format!("the model `{model}` does not think"), "take a newer model"));
    }
    let has_levels = version >= (3, 0);
    Ok(match (reasoning.thinking, reasoning.effort) {
        (Thinking::AsUsual, None) => None,
        (Thinking::Off | Thinking::AtMost(_), Some(_)) => {
            return Err(refused(
                "the Gemini protocol takes an effort or a limit on thinking, and not both",
                "leave one of them out",
            ));
        }
        (Thinking::Off | Thinking::AtMost(0), None) if has_levels || is_pro => {
            return Err(refused(
                &format!("the model `{model}` always thinks"),
                "`--effort low` is the least that it takes",
            ));
        }
        (Thinking::Off, None) => Some(ThinkingBudget(0)),
        (Thinking::AtMost(tokens), None) => Some(ThinkingBudget(i64::try_from(tokens).unwrap_or(i64::MAX))),
        (Thinking::Adaptive, None) => Some(ThinkingBudget(GEMINI_DYNAMIC)),
        (Thinking::AsUsual | Thinking::Adaptive, Some(effort)) if has_levels => {
            Some(ThinkingLevel(match effort {
                Effort::Low => "low",
                // The first of them knows only two levels.
                Effort::Medium if version == (3, 0) && is_pro => "high",
                Effort::Medium => "medium",
                Effort::High | Effort::XHigh | Effort::Max => "high",
            }))
        }
        (Thinking::AsUsual | Thinking::Adaptive, Some(effort)) => {
            Some(ThinkingBudget(tokens_for(&GEMINI_BUDGETS, effort)))
        }
    })
}

fn tokens_for<T: Copy + Default>(table: &[(Effort, T)], effort: Effort) -> T {
    table.iter().find(|(known, _)| *known == effort).map(|(_, tokens)| *tokens).unwrap_or_default()
}

/// The version in a model's name: the first numbers after the family's, as in `claude-opus-4-5-20251101`,
/// `claude-3-7-sonnet` and `gemini-2.5-flash`. Numbers of more than two digits are dates.
fn version(model: &str, family: &str) -> Option<(u32, u32)> {
    let rest = &model[model.find(family)? + family.len()..];
    let mut words = rest.split(['-', '.', '@', ':']).skip_while(|word| number(word).is_none());
    let major = number(words.next()?)?;
    Some((major, words.next().and_then(number).unwrap_or(0)))
}

fn number(word: &str) -> Option<u32> {
    if word.len() > 2 { None } else { word.parse().ok() }
}

fn refused(message: &str, hint: &str) -> ModelError {
    let mut error = ModelError::new(ErrorClass::Config, message);
    error.hint = Some(hint.to_owned());
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(effort: Effort) -> Reasoning {
        Reasoning { effort: Some(effort), ..Reasoning::default() }
    }

    fn thinking(thinking: Thinking) -> Reasoning {
        Reasoning { thinking, ..Reasoning::default() }
    }

    fn both(effort: Effort, thinking: Thinking) -> Reasoning {
        Reasoning { effort: Some(effort), thinking }
    }

    #[test]
    fn what_openai_is_told() {
        for (asked, told) in [
            (Reasoning::default(), Ok(None)),
            (effort(Effort::Low), Ok(Some("low"))),
            (effort(Effort::Medium), Ok(Some("medium"))),
            (effort(Effort::High), Ok(Some("high"))),
            (effort(Effort::XHigh), Ok(Some("xhigh"))),
            (effort(Effort::Max), Ok(Some("xhigh"))),
            (thinking(Thinking::Off), Ok(Some("none"))),
            (thinking(Thinking::Adaptive), Ok(None)),
            (both(Effort::High, Thinking::Adaptive), Ok(Some("high"))),
            (both(Effort::High, Thinking::Off), Err(())),
            (thinking(Thinking::AtMost(9)), Err(())),
        ] {
            assert_eq!(openai_effort(asked).map_err(|_| ()), told, "{asked:?}");
        }
    }

    #[test]
    fn what_claude_is_told() {
        use ClaudeThinking::{Adaptive, Disabled, Enabled};
        let budget = |budget_tokens| Some(Enabled { budget_tokens });
        for (model, asked, told) in [
            ("claude-opus-4-5-20251101", Reasoning::default(), Ok((None, None))),
            ("claude-opus-4-5-20251101", effort(Effort::High), Ok((None, Some("high")))),
            ("claude-opus-4-5-20251101", effort(Effort::Max), Ok((None, Some("high")))),
            ("claude-opus-4-6", effort(Effort::Low), Ok((Some(Adaptive), Some("low")))),
            ("claude-opus-4-6", effort(Effort::Max), Ok((Some(Adaptive), Some("max")))),
            ("claude-sonnet-4-6", effort(Effort::XHigh), Ok((Some(Adaptive), Some("high")))),
            ("claude-opus-4-7", effort(Effort::XHigh), Ok((Some(Adaptive), Some("xhigh")))),
            ("claude-opus-latest", effort(Effort::Max), Ok((Some(Adaptive), Some("max")))),
            ("claude-sonnet-4-5", effort(Effort::Medium), Ok((budget(10_240), None))),
            ("claude-sonnet-4-20250514", effort(Effort::Low), Ok((budget(4_096), None))),
            ("claude-3-7-sonnet-20250219", effort(Effort::Max), Ok((budget(31_999), None))),
            ("claude-3-5-haiku-20241022", effort(Effort::Low), Err("does not think")),
            ("claude-3-5-haiku-20241022", thinking(Thinking::AtMost(5_000)), Err("does not think")),
            ("claude-3-5-haiku-20241022", thinking(Thinking::Off), Ok((Some(Disabled), None))),
            ("claude-sonnet-4-5", thinking(Thinking::AtMost(5_000)), Ok((budget(5_000), None))),
            ("claude-sonnet-4-5", thinking(Thinking::AtMost(5)), Ok((budget(1_024), None))),
            ("claude-sonnet-4-5", thinking(Thinking::AtMost(0)), Ok((Some(Disabled), None))),
            ("claude-sonnet-4-5", thinking(Thinking::Adaptive), Err("by itself")),
            ("claude-sonnet-4-5", both(Effort::Low, Thinking::AtMost(5_000)), Err("not both")),
            ("claude-opus-4-6", both(Effort::Low, Thinking::AtMost(5_000)), Ok((budget(5_000), Some("low")))),
            ("claude-opus-4-6", both(Effort::Low, Thinking::Off), Ok((Some(Disabled), Some("low")))),
        ] {
            let found = claude(model, asked, Sampling::default());
            match told {
                Ok((thinking, effort)) => {
                    assert_eq!(found, Ok(ClaudeReasoning { thinking, effort }), "{model} {asked:?}");
                }
                Err(why) => {
                    let message = found.unwrap_err().message;
                    assert!(message.contains(why), "{model} {asked:?}: {message}");
                }
            }
        }
    }

    #[test]
    fn claude_thinks_within_its_limit() {
        let asked = claude("claude-sonnet-4-5", thinking(Thinking::AtMost(30_000)), Sampling::default());
        let asked = asked.unwrap();
        assert_eq!(asked.max_tokens(8_000), 38_000);
        let budget = |max| match asked.within(max).thinking {
            Some(ClaudeThinking::Enabled { budget_tokens }) => budget_tokens,
            other => panic!("{other:?}"),
        };
        assert_eq!((budget(38_000), budget(16_384), budget(1_000)), (30_000, 15_360, 1_024));
        let warm = Sampling { temperature: Some(0.5), top_p: None };
        assert!(claude("claude-opus-4-6", effort(Effort::Low), warm).is_err());
        assert!(claude("claude-opus-4-6", thinking(Thinking::Off), warm).is_ok());
    }

    #[test]
    fn what_gemini_is_told() {
        use GeminiThinking::{ThinkingBudget, ThinkingLevel};
        for (model, asked, told) in [
            ("gemini-2.5-flash", Reasoning::default(), Ok(None)),
            ("gemini-2.5-flash", effort(Effort::Low), Ok(Some(ThinkingBudget(2_048)))),
            ("gemini-2.5-pro", effort(Effort::Max), Ok(Some(ThinkingBudget(24_576)))),
            ("gemini-2.5-flash", thinking(Thinking::Off), Ok(Some(ThinkingBudget(0)))),
            ("gemini-2.5-pro", thinking(Thinking::Off), Err("always thinks")),
            ("gemini-2.5-flash", thinking(Thinking::AtMost(700)), Ok(Some(ThinkingBudget(700)))),
            ("gemini-2.5-flash", thinking(Thinking::Adaptive), Ok(Some(ThinkingBudget(-1)))),
            ("gemini-3-pro-preview", effort(Effort::Low), Ok(Some(ThinkingLevel("low")))),
            ("gemini-3-pro-preview", effort(Effort::Medium), Ok(Some(ThinkingLevel("high")))),
            ("gemini-3.1-pro", effort(Effort::Medium), Ok(Some(ThinkingLevel("medium")))),
            ("gemini-3-flash", effort(Effort::XHigh), Ok(Some(ThinkingLevel("high")))),
            ("gemini-flash-latest", effort(Effort::Medium), Ok(Some(ThinkingLevel("medium")))),
            ("gemini-3-flash", thinking(Thinking::Off), Err("always thinks")),
            ("gemini-3-flash", both(Effort::Low, Thinking::AtMost(1)), Err("not both")),
            ("gemini-2.0-flash", effort(Effort::Low), Err("does not think")),
        ] {
            let found = gemini(model, asked);
            match told {
                Ok(told) => assert_eq!(found, Ok(told), "{model} {asked:?}"),
                Err(why) => {
                    let message = found.unwrap_err().message;
                    assert!(message.contains(why), "{model} {asked:?}: {message}");
                }
            }
        }
    }
}
