//! Token counts as OpenAI's two wires report them: the same numbers under two sets of names.

use serde::Deserialize;
use serde_json::value::RawValue;
use tenon_core::Usage;

use crate::loose_json::number;

pub(crate) fn token_counts(raw: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow, default, alias = "input_tokens")]
        prompt_tokens: Option<&'a RawValue>,
        #[serde(borrow, default, alias = "output_tokens")]
        completion_tokens: Option<&'a RawValue>,
        #[serde(borrow, default)]
        total_tokens: Option<&'a RawValue>,
        #[serde(borrow, default, alias = "input_tokens_details")]
        prompt_tokens_details: Option<Details<'a>>,
        #[serde(borrow, default, alias = "output_tokens_details")]
        completion_tokens_details: Option<Details<'a>>,
        /// DeepSeek's name for cached tokens.
        #[serde(borrow, default)]
        prompt_cache_hit_tokens: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    struct Details<'a> {
        #[serde(borrow, default)]
        cached_tokens: Option<&'a RawValue>,
        #[serde(borrow, default)]
        cache_write_tokens: Option<&'a RawValue>,
        #[serde(borrow, default)]
        reasoning_tokens: Option<&'a RawValue>,
    }
    let wire: Wire<'_> = serde_json::from_str(raw.get()).ok()?;
    let count = |raw: Option<&RawValue>| raw.and_then(number).unwrap_or(0);
    let prompt = wire.prompt_tokens_details.unwrap_or_default();
    let completion = wire.completion_tokens_details.unwrap_or_default();
    let (input, output) = (count(wire.prompt_tokens), count(wire.completion_tokens));
    let usage = Usage {
        input,
        output,
        cache_read: count(prompt.cached_tokens.or(wire.prompt_cache_hit_tokens)),
        cache_write: count(prompt.cache_write_tokens),
        reasoning: count(completion.reasoning_tokens),
        total: wire.total_tokens.and_then(number).unwrap_or(input.saturating_add(output)),
    };
    (usage != Usage::default()).then_some(usage)
}
