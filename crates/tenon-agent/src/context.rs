//! How much of a model's context the next request fills.
//!
//! What the provider counted for the last request is taken as it is; what came since is estimated from its
//! bytes, with as many bytes to a token as this run has shown. Making room is `compact.rs`.

use std::sync::Arc;

use tenon_core::{Message, ModelFacts, Part, ToolResult, ToolSpec, Usage};

use crate::schema_mode::Offer;

/// English and code with the usual tokenisers, before this run has shown its own.
const USUAL_BYTES_PER_TOKEN: f64 = 4.0;
/// Outside of this a count is not one of tokens: a server that counts only what its cache did not hold, or words.
const PLAUSIBLE_BYTES_PER_TOKEN: (f64, f64) = (0.5, 8.0);
/// Small requests say little about bytes and tokens: what a server adds to each of them weighs too much.
const TELLING_BYTES: usize = 4 << 10;
/// An image counts by its area, not by its bytes: about 1,500 tokens for one of a megapixel.
const MEDIA_BYTES: usize = 1_500 * USUAL_BYTES_PER_TOKEN as usize;

pub(crate) struct Context {
    bytes_per_token: f64,
    /// The last request that was counted, and the answer to it.
    counted: Option<Counted>,
    history: Weighed,
    tools: WeighedTools,
    /// Smaller than what a server has refused.
    learned_limit: Option<u64>,
}

/// Messages are only ever added, or added to the last one, so all others are weighed once.
#[derive(Clone, Copy, Default)]
struct Weighed {
    messages: usize,
    bytes: usize,
}

#[derive(Default)]
struct WeighedTools {
    specs: Vec<Arc<ToolSpec>>,
    bytes: usize,
}

struct Counted {
    tokens: u64,
    load: Load,
}

/// The bytes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// System prompt, tools and the form of the answer.
    pub(crate) fixed: usize,
    pub(crate) history: usize,
}

impl Context {
    pub(crate) fn new() -> Context {
        Context {
            bytes_per_token: USUAL_BYTES_PER_TOKEN,
            counted: None,
            history: Weighed::default(),
            tools: WeighedTools::default(),
            learned_limit: None,
        }
    }

    pub(crate) fn weigh(&mut self, system: &str, offer: &Offer, history: &[Message]) -> Load {
        let (last, earlier) =
            history.split_last().map_or((0, history), |(last, rest)| (message_bytes(last), rest));
        let new = earlier.get(self.history.messages..).unwrap_or_default();
        self.history.bytes += new.iter().map(message_bytes).sum::<usize>();
        self.history.messages = earlier.len();
        let format = offer.response_format.as_ref().map_or(0, |format| format.schema.to_string().len());
        let fixed = system.len() + self.tools.bytes(&offer.tools) + format;
        Load { fixed, history: self.history.bytes + last }
    }

    /// The tokens of a request that was weighed.
    pub(crate) fn tokens(&self, load: Load) -> u64 {
        match &self.counted {
            None => self.tokens_in(load.fixed + load.history),
            Some(counted) => {
                let then = counted.load.fixed + counted.load.history;
                let now = load.fixed + load.history;
                let more = self.tokens_in(now.saturating_sub(then));
                let less = self.tokens_in(then.saturating_sub(now));
                (counted.tokens + more).saturating_sub(less)
            }
        }
    }

    pub(crate) fn tokens_in(&self, bytes: usize) -> u64 {
        (bytes as f64 / self.bytes_per_token).ceil() as u64
    }

    pub(crate) fn bytes_in(&self, tokens: u64) -> usize {
        (tokens as f64 * self.bytes_per_token) as usize
    }

    /// Takes in what the provider counted for a request, and the answer that is now part of the history.
    pub(crate) fn learn(&mut self, load: Load, usage: Usage, answer: &Message) {
        if usage.input == 0 {
            return;
        }
        let bytes = load.fixed + load.history;
        if bytes >= TELLING_BYTES {
            let (least, most) = PLAUSIBLE_BYTES_PER_TOKEN;
            self.bytes_per_token = (bytes as f64 / usage.input as f64).clamp(least, most);
        }
        // Reasoning is counted as output, and only what is kept of it goes back.
        let said = usage.output.saturating_sub(usage.reasoning);
        let thoughts: usize = answer.parts.iter().filter(|part| is_thinking(part)).map(part_bytes).sum();
        let kept = if usage.reasoning > 0 { self.tokens_in(thoughts) } else { 0 };
        let load = Load { history: load.history + message_bytes(answer), ..load };
        self.counted = Some(Counted { tokens: usage.input + said + kept, load });
    }

    /// The history was replaced: nothing that was counted holds any more.
    pub(crate) fn start_over(&mut self) {
        self.counted = None;
        self.history = Weighed::default();
    }

    /// A server refused this many tokens.
    pub(crate) fn refused(&mut self, tokens: u64) {
        let limit = self.learned_limit.map_or(tokens, |limit| limit.min(tokens));
        self.learned_limit = Some(limit.max(1));
    }

    /// The most tokens that a request may hold, as far as anybody has said.
    pub(crate) fn limit(&self, facts: &ModelFacts) -> Option<u64> {
        match (facts.max_input, self.learned_limit) {
            (Some(known), Some(learned)) => Some(known.min(learned)),
            (known, learned) => known.or(learned),
        }
    }
}

impl WeighedTools {
    fn bytes(&mut self, offered: &[Arc<ToolSpec>]) -> usize {
        let same = self.specs.len() == offered.len()
            && self.specs.iter().zip(offered).all(|(known, offered)| Arc::ptr_eq(known, offered));
        if !same {
            self.specs = offered.to_vec();
            self.bytes = offered.iter().map(|spec| tool_bytes(spec)).sum();
        }
        self.bytes
    }
}

/// About how many tokens a conversation takes, before any provider has counted it.
pub fn estimate_tokens(system: &str, tools: &[Arc<ToolSpec>], history: &[Message]) -> u64 {
    let tools: usize = tools.iter().map(|spec| tool_bytes(spec)).sum();
    let said: usize = history.iter().map(message_bytes).sum();
    Context::new().tokens_in(system.len() + tools + said)
}

fn tool_bytes(spec: &ToolSpec) -> usize {
    spec.name.len() + spec.description.len() + spec.parameters.to_string().len()
}

pub(crate) fn message_bytes(message: &Message) -> usize {
    message.parts.iter().map(part_bytes).sum()
}

/// What of a part goes to the model. Thinking goes back only where the provider wants it.
fn part_bytes(part: &Part) -> usize {
    let native =
        |native: &Option<serde_json::Value>| native.as_ref().map_or(0, |value| value.to_string().len());
    match part {
        Part::Text { text } => text.len(),
        Part::Thinking { native: None, .. } => 0,
        Part::Thinking { text, native: kept } => text.len() + native(kept),
        Part::ToolCall(call) => call.name.len() + call.arguments.len() + native(&call.native),
        Part::ToolResult(result) => result_bytes(result),
        Part::Media(_) => MEDIA_BYTES,
    }
}

pub(crate) fn result_bytes(result: &ToolResult) -> usize {
    result.content.len() + result.media.len() * MEDIA_BYTES
}

fn is_thinking(part: &Part) -> bool {
    matches!(part, Part::Thinking { .. })
}
