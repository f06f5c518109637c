//! A model file, opened: weights, tokenizer and chat template.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::chat::{ChatTemplate, Speaker, Turn};
use crate::error::{GgufError, LocalError};
use crate::forward::Engine;
use crate::gguf::Gguf;
use crate::grammar::Vocabulary;
use crate::model::Model;
use crate::sys;
use crate::tokenizer::Tokenizer;

/// Ready to answer.
pub(crate) struct Loaded {
    pub(crate) engine: Engine,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) template: ChatTemplate,
    /// Made when the first grammar is asked for.
    pub(crate) vocabulary: Option<Vocabulary>,
}

/// Reads what a file says of itself, as far as that is possible without computing anything.
pub fn examine(bytes: &[u8]) -> Result<(), GgufError> {
    let header = Gguf::parse(bytes)?;
    let (_, template) = words(&header)?;
    template.write(&[Turn { role: Speaker::User, text: String::new() }]).map(drop)
}

fn words(header: &Gguf<'_>) -> Result<(Tokenizer, ChatTemplate), GgufError> {
    let table = header.tensor("token_embd.weight").and_then(|table| table.dimensions.get(1).copied());
    let rows = table.ok_or_else(|| GgufError::broken("the tensor `token_embd.weight` is missing"))?;
    let tokenizer = Tokenizer::read(header, rows)?;
    let template = ChatTemplate::read(header, &tokenizer)?;
    Ok((tokenizer, template))
}

impl Loaded {
    /// A file that is ready: see `store.rs`.
    pub(crate) fn open(path: &Path, threads: usize) -> Result<Loaded, LocalError> {
        let read = |error| LocalError::Read { path: path.to_owned(), error };
        let file = File::open(path).map_err(read)?;
        let map = sys::map(&file).map_err(read)?;
        let bad = |error| LocalError::BadFile { path: path.to_owned(), error };
        let header = Gguf::parse(&map).map_err(bad)?;
        let (tokenizer, template) = words(&header).map_err(bad)?;
        drop(header);
        let model = Model::load(map).map_err(bad)?;
        Ok(Loaded {
            engine: Engine::new(model, threads),
            tokenizer: Arc::new(tokenizer),
            template,
            vocabulary: None,
        })
    }

    pub(crate) fn prompt(&self, turns: &[Turn]) -> Result<Vec<u32>, GgufError> {
        let written = self.template.write(turns)?;
        Ok(self.tokenizer.encode(&written.iter().map(|piece| piece.piece()).collect::<Vec<_>>()))
    }
}
