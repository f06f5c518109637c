//! One answer of the model: reads the prompt, then chooses token after token, inside a grammar where there is one.
//!
//! Blocks while it works; `client.rs` gives it a thread. Between tokens it asks whether anyone still wants
//! the answer.

use std::sync::Arc;

use crate::document::{Document, Pace};
use crate::forward::Engine;
use crate::grammar::{Constraint, Vocabulary};
use crate::loaded::Loaded;
use crate::sample::{Sampler, Sampling};
use crate::tokenizer::Tokenizer;

/// Room for an answer that a prompt must leave.
const MIN_ANSWER_TOKENS: usize = 64;
/// What an answer may have where nobody says more.
pub(crate) const ANSWER_TOKENS: usize = 1_024;
/// From this part of its room on, a document comes to its end.
const CLOSE_AFTER: (usize, usize) = (2, 3);
/// A word that was just written is this much less likely to be written again: without it, small models repeat
/// themselves for ever.
const REPEATED: f32 = 1.15;
const REPEATED_AMONG: usize = 64;

/// How far ahead an end is looked for.
const MOST_STEPS: usize = 4;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The prompt does not leave enough room.
    TooLong {
        tokens: usize,
        context: usize,
    },
    /// Nobody wants it any longer.
    Stopped,
    Failed(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) tokens: Vec<u32>,
    pub(crate) ending: AnswerEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerEnd {
    Complete,
    /// Cut off by the limit.
    Cut,
}

/// How an answer is to be written.
pub(crate) struct How<'a> {
    pub(crate) sampling: Sampling,
    pub(crate) pace: Pace,
    pub(crate) max_tokens: Option<u64>,
    /// What is ready of the text, piece by piece. `false` ends the work.
    pub(crate) told: &'a mut dyn FnMut(&str) -> bool,
    pub(crate) go_on: &'a dyn Fn() -> bool,
}

/// Refuses a prompt before any work is done on it.
pub(crate) fn check_length(engine: &Engine, prompt: &[u32]) -> Result<(), NoAnswer> {
    let context = engine.context();
    match prompt.len() + MIN_ANSWER_TOKENS > context {
        true => Err(NoAnswer::TooLong { tokens: prompt.len(), context }),
        false => Ok(()),
    }
}

impl Loaded {
    pub(crate) fn vocabulary(&mut self) -> Result<&Vocabulary, NoAnswer> {
        if self.vocabulary.is_none() {
            self.vocabulary = Some(Vocabulary::new(&self.tokenizer).map_err(NoAnswer::Failed)?);
        }
        self.vocabulary.as_ref().ok_or_else(|| NoAnswer::Failed("there is no vocabulary".to_owned()))
    }

    /// `prompt` has passed [`check_length`].
    pub(crate) fn answer(
        &mut self,
        prompt: &[u32],
        constraint: Option<Constraint>,
        how: How<'_>,
    ) -> Result<Answer, NoAnswer> {
        let engine = &mut self.engine;
        // What is the same as last time has been read.
        let known = engine.tokens().iter().zip(prompt).take_while(|(a, b)| a == b).count();
        engine.keep(known.min(prompt.len().saturating_sub(1)));
        let room = engine.context().saturating_sub(prompt.len());
        let asked = how.max_tokens.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
        let mut writing = Writing {
            tokenizer: Arc::clone(&self.tokenizer),
            scores: Vec::new(),
            sampler: Sampler::new(how.sampling),
            document: Document::default(),
            room: asked.unwrap_or(usize::MAX).min(room),
            close_after: asked.unwrap_or(ANSWER_TOKENS).min(room) * CLOSE_AFTER.0 / CLOSE_AFTER.1,
            written: Vec::new(),
            pending: Vec::new(),
            text: String::new(),
            how,
        };
        let unread = prompt[engine.tokens().len()..].to_vec();
        writing.read(engine, &unread)?;
        let ending = match constraint {
            Some(constraint) => writing.document(engine, constraint)?,
            None => writing.prose(engine)?,
        };
        writing.tell_rest();
        Ok(Answer { text: writing.text, tokens: writing.written, ending })
    }
}

struct Writing<'a> {
    tokenizer: Arc<Tokenizer>,
    scores: Vec<f32>,
    sampler: Sampler,
    document: Document,
    room: usize,
    close_after: usize,
    written: Vec<u32>,
    /// Bytes of a character that is not yet complete.
    pending: Vec<u8>,
    text: String,
    how: How<'a>,
}

impl Writing<'_> {
    fn read(&mut self, engine: &mut Engine, tokens: &[u32]) -> Result<(), NoAnswer> {
        let mut going = true;
        engine.read(tokens, &mut self.scores, &mut || {
            going = going && (self.how.go_on)();
            going
        });
        if going { Ok(()) } else { Err(NoAnswer::Stopped) }
    }

    fn document(&mut self, engine: &mut Engine, mut constraint: Constraint) -> Result<AnswerEnd, NoAnswer> {
        let forced = constraint.forced();
        self.write(&forced)?;
        if constraint.is_over() {
            return Ok(AnswerEnd::Complete);
        }
        if !forced.is_empty() {
            self.read(engine, &forced)?;
        }
        loop {
            if self.written.len() >= self.room {
                return Ok(if constraint.may_end() { AnswerEnd::Complete } else { AnswerEnd::Cut });
            }
            let allowed = constraint.allowed().map_err(NoAnswer::Failed)?;
            let may = |token: u32| allowed.is_allowed(token);
            let closing = self.how.pace == Pace::Close
                || self.written.len() >= self.close_after
                || self.document.pace() == Pace::Close;
            let closer = match closing {
                true => self.closer(&mut constraint, may),
                false => None,
            };
            let token = closer.or_else(|| self.sampler.choose(&self.scores, may));
            let token = token.ok_or_else(|| NoAnswer::Failed("the grammar allows no token".to_owned()))?;
            let token = self.up_to_the_end(token).filter(|cut| may(*cut)).unwrap_or(token);
            if self.tokenizer.endings().contains(&token) {
                return Ok(AnswerEnd::Complete);
            }
            constraint.take(token).map_err(NoAnswer::Failed)?;
            // What must follow is read together with it.
            let mut next = vec![token];
            next.extend(constraint.forced());
            self.write(&next)?;
            if constraint.is_over() {
                return Ok(AnswerEnd::Complete);
            }
            self.read(engine, &next)?;
        }
    }

    /// A token may end a string and go on to the next item. Where it is time to close, only its beginning is taken.
    fn up_to_the_end(&self, token: u32) -> Option<u32> {
        let bytes = self.tokenizer.bytes(token);
        let mut document = self.document.clone();
        for (index, byte) in bytes.iter().enumerate() {
            document.push(&[*byte]);
            if index + 1 < bytes.len() && document.should_close_here() {
                return self.tokenizer.token_of(&bytes[..=index]);
            }
        }
        None
    }

    /// What closes something; or, where nothing can be closed yet, what makes that possible.
    fn closer(&self, constraint: &mut Constraint, may: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some(end) = self.tokenizer.endings().iter().find(|end| may(**end)) {
            return Some(*end);
        }
        let closers: Vec<u32> =
            self.document.closers().iter().filter_map(|byte| self.tokenizer.byte(*byte)).collect();
        if let Some(closer) = closers.iter().find(|token| may(**token)) {
            return Some(*closer);
        }
        let of = |bytes: &[u8]| -> Vec<u32> {
            bytes.iter().filter_map(|byte| self.tokenizer.byte(*byte)).collect()
        };
        let steps = of(self.document.steps());
        let few = of(self.document.few_steps());
        let mut ends = |before: &[u32], step: u32, times: usize| {
            let way = [before, &vec![step; times]].concat();
            closers.iter().any(|closer| constraint.would_take(&[way.as_slice(), &[*closer]].concat()))
        };
        if let Some(step) = steps.iter().find(|step| may(**step) && ends(&[], **step, 1)) {
            return Some(*step);
        }
        for times in 2..=MOST_STEPS {
            if let Some(step) = few.iter().find(|step| may(**step) && ends(&[], **step, times)) {
                return Some(*step);
            }
        }
        let leaps = of(self.document.leaps());
        for times in 1..=MOST_STEPS {
            let leap =
                leaps.iter().find(|leap| may(**leap) && few.iter().any(|step| ends(&[**leap], *step, times)));
            if let Some(leap) = leap {
                return Some(*leap);
            }
        }
        // Nothing else is written with it, so that it is allowed is news.
        self.tokenizer.byte(b'@').filter(|at| self.document.is_in_string() && may(*at))
    }

    fn prose(&mut self, engine: &mut Engine) -> Result<AnswerEnd, NoAnswer> {
        let room = self.room.min(ANSWER_TOKENS.max(self.how.max_tokens.unwrap_or(0) as usize));
        while self.written.len() < room {
            self.discourage_repeats();
            let token = self.sampler.choose(&self.scores, |_| true);
            let token = token.filter(|token| !self.tokenizer.is_special(*token));
            let Some(token) = token else { return Ok(AnswerEnd::Complete) };
            self.write(&[token])?;
            self.read(engine, &[token])?;
        }
        Ok(AnswerEnd::Cut)
    }

    fn discourage_repeats(&mut self) {
        let recent = self.written.len().saturating_sub(REPEATED_AMONG);
        let mut recent = self.written[recent..].to_vec();
        recent.sort_unstable();
        recent.dedup();
        for token in recent {
            if let Some(score) = self.scores.get_mut(token as usize) {
                *score = if *score > 0.0 { *score / REPEATED } else { *score * REPEATED };
            }
        }
    }

    fn write(&mut self, tokens: &[u32]) -> Result<(), NoAnswer> {
        for token in tokens {
            let bytes = self.tokenizer.bytes(*token);
            self.document.push(bytes);
            self.pending.extend_from_slice(bytes);
        }
        self.written.extend_from_slice(tokens);
        let ready = match std::str::from_utf8(&self.pending) {
            Ok(_) => self.pending.len(),
            // The end of a character is still to come; anything else stays broken.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.pending.len(),
        };
        let rest = self.pending.split_off(ready);
        let piece = String::from_utf8_lossy(&std::mem::replace(&mut self.pending, rest)).into_owned();
        self.text.push_str(&piece);
        if !piece.is_empty() && !(self.how.told)(&piece) { Err(NoAnswer::Stopped) } else { Ok(()) }
    }

    /// Half a character at the end of a cut answer is lost.
    fn tell_rest(&mut self) {
        self.pending.clear();
    }
}
