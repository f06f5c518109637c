//! Which tokens may come next, so that the answer fits the schema: a grammar over the model's own vocabulary.
//!
//! How a schema is put to it is decided in `express.rs`; what happens when it is still not kept, in `answer.rs`.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, SimpleVob, TokRxInfo, TokTrie, TokenizerEnv};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};

use crate::express::{Faith, Way, express, has_format};
use crate::tokenizer::Tokenizer;

/// The tokens of a model, ready for grammars.
pub(crate) struct Vocabulary {
    factory: ParserFactory,
}

/// One answer inside a grammar.
pub(crate) struct Constraint {
    matcher: Matcher,
    /// What of the schema the answer is sure to fulfil.
    pub(crate) faith: Faith,
}

impl Vocabulary {
    pub(crate) fn new(tokenizer: &Arc<Tokenizer>) -> Result<Vocabulary, String> {
        let words: Vec<Vec<u8>> = (0..tokenizer.count() as u32)
            .map(|id| match tokenizer.is_special(id) {
                true => [&[TokTrie::SPECIAL_TOKEN_MARKER], tokenizer.bytes(id)].concat(),
                false => tokenizer.bytes(id).to_vec(),
            })
            .collect();
        let endings = tokenizer.endings();
        let info = TokRxInfo::new(words.len() as u32, endings.first().copied().unwrap_or(0));
        let trie = TokTrie::from(&info, &words).with_eos_tokens(endings);
        let tokens = Arc::new(Tokens { trie, tokenizer: Arc::clone(tokenizer) });
        let capabilities = InferenceCapabilities { ff_tokens: true, ..InferenceCapabilities::default() };
        let tokens: Arc<dyn TokenizerEnv + Sync> = tokens;
        let mut factory = ParserFactory::new(&tokens, capabilities, &SlicedBiasComputer::json_slices())
            .map_err(|error| error.to_string())?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Vocabulary { factory })
    }

    /// The strictest grammar that can be made of the schema.
    pub(crate) fn constrain(&self, schema: &Value) -> Option<Constraint> {
        Way::ALL.into_iter().find_map(|way| {
            let mut written = express(schema, way);
            written.as_object_mut()?.insert("x-guidance".to_owned(), options());
            let parser = self.factory.create_parser(TopLevelGrammar::from_json_schema(written));
            let mut matcher = Matcher::new(parser);
            // Some limits show only when the first tokens are looked for.
            matcher.compute_mask().ok()?;
            let faith = match way.faith() {
                Faith::Exact if has_format(schema) => Faith::Relaxed,
                faith => faith,
            };
            Some(Constraint { matcher, faith })
        })
    }
}

/// One way to write each value: as models are used to, without room for padding.
fn options() -> Value {
    json!({ "whitespace_flexible": false, "item_separator": ", ", "key_separator": ": ", "coerce_one_of": false })
}

impl Constraint {
    /// A new answer inside the same grammar.
    pub(crate) fn again(&self) -> Constraint {
        Constraint { matcher: self.matcher.deep_clone(), faith: self.faith }
    }

    /// Tokens that must come next; they are taken.
    pub(crate) fn forced(&mut self) -> Vec<u32> {
        self.matcher.consume_ff_tokens()
    }

    /// Tokens that may come next; with those that end the answer when it may end.
    pub(crate) fn allowed(&mut self) -> Result<SimpleVob, String> {
        self.matcher.compute_mask_or_eos().map_err(|error| error.to_string())
    }

    pub(crate) fn take(&mut self, token: u32) -> Result<(), String> {
        self.matcher.consume_token(token).map_err(|error| error.to_string())
    }

    /// Could these tokens come next, one after the other?
    pub(crate) fn would_take(&mut self, tokens: &[u32]) -> bool {
        self.matcher.validate_tokens(tokens).is_ok_and(|valid| valid == tokens.len())
    }

    /// Is the answer complete, with nothing that could follow?
    pub(crate) fn is_over(&self) -> bool {
        self.matcher.is_stopped()
    }

    pub(crate) fn may_end(&mut self) -> bool {
        self.matcher.is_accepting().unwrap_or(false)
    }
}

struct Tokens {
    trie: TokTrie,
    tokenizer: Arc<Tokenizer>,
}

impl TokenizerEnv for Tokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        self.tokenizer.encode_bytes(bytes)
    }
}
