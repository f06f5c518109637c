//! For benchmarks and for comparison with other implementations: what a file makes of a text, and how long that takes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::answer::{How, NoAnswer};
use crate::document::Pace;
use crate::error::{GgufError, LocalError};
use crate::loaded::Loaded;
use crate::sample::Sampling;
use crate::tokenizer::Piece;

/// What was read and written.
#[derive(Clone, Debug)]
pub struct Measured {
    pub prompt: Vec<u32>,
    pub answer: Vec<u32>,
    /// Until the first token of the answer.
    pub reading: Duration,
    /// From then to the end.
    pub writing: Duration,
}

/// Goes on with `text`, in which special tokens are what they are called; always with the best token. `file` is ready
/// (`Store::ready`).
pub fn measure(
    file: &Path,
    text: &str,
    tokens: u64,
    threads: usize,
    schema: Option<&Value>,
) -> Result<Measured, LocalError> {
    let failed = |reason: NoAnswer| LocalError::BadFile {
        path: file.to_owned(),
        error: GgufError::broken(match reason {
            NoAnswer::Failed(reason) => reason,
            other => format!("{other:?}"),
        }),
    };
    let mut loaded = Loaded::open(file, threads)?;
    let prompt = loaded.tokenizer.encode(&[Piece::Template(text)]);
    let constraint = match schema {
        Some(schema) => loaded.vocabulary().map_err(failed)?.constrain(schema),
        None => None,
    };
    let start = Instant::now();
    let mut first = None;
    let how = How {
        sampling: Sampling::Greedy,
        pace: Pace::Free,
        max_tokens: Some(tokens),
        told: &mut |_| {
            first.get_or_insert_with(|| start.elapsed());
            true
        },
        go_on: &|| true,
    };
    let answer = loaded.answer(&prompt, constraint, how).map_err(failed)?;
    let all = start.elapsed();
    let reading = first.unwrap_or(all);
    Ok(Measured { prompt, answer: answer.tokens, reading, writing: all - reading })
}
