//! Text to tokens and back, with the vocabulary of the model's own file: byte pairs merged in the order of
//! the file's list, inside the words that `letters.rs` cuts.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::error::GgufError;
use crate::gguf::Gguf;
use crate::letters::Cut;

/// Kinds of tokens, as the format numbers them.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
/// A token longer than this is not one.
const MAX_TOKEN_BYTES: usize = 1 << 10;
/// Names of tokens that end an answer, in the families that are supported.
const ENDINGS: [&str; 6] =
    ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>", "</s>"];

pub(crate) struct Tokenizer {
    cut: Cut,
    /// Is a word that is a token taken whole, whatever the merges say?
    whole_words: bool,
    /// The bytes of all tokens, one after the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    special: Vec<bool>,
    /// The token of each single byte.
    single: [Option<u32>; 256],
    /// Two neighbours, how early they merge, and into what.
    merges: HashMap<(u32, u32), (u32, u32)>,
    by_bytes: HashMap<Vec<u8>, u32>,
    /// Special tokens by their text, the longest first.
    special_texts: Vec<(String, u32)>,
    endings: Vec<u32>,
    start: Option<u32>,
}

/// A piece of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Special tokens in it are what they are called.
    Template(&'a str),
    /// It is text, whatever it looks like.
    Text(&'a str),
}

impl Tokenizer {
    pub(crate) fn read(file: &Gguf<'_>, vocabulary: usize) -> Result<Tokenizer, GgufError> {
        let model = file.text("tokenizer.ggml.model")?.unwrap_or("none");
        if model != "gpt2" {
            return Err(GgufError::unsupported(format!("its tokenizer `{model}` is not supported")));
        }
        let name = file.text("tokenizer.ggml.pre")?.unwrap_or("default");
        let cut = Cut::parse(name);
        let cut = cut.ok_or_else(|| {
            GgufError::unsupported(format!("its way `{name}` to cut words is not supported"))
        })?;
        let missing = |what: &str| GgufError::broken(format!("`tokenizer.ggml.{what}` is missing"));
        let texts = file.texts("tokenizer.ggml.tokens")?.ok_or_else(|| missing("tokens"))?;
        if texts.is_empty() || texts.len() > vocabulary {
            return Err(GgufError::broken(format!("it has {} tokens for {vocabulary} rows", texts.len())));
        }
        let kinds = file.integers("tokenizer.ggml.token_type")?.unwrap_or_default();
        let alphabet = Alphabet::new();
        let mut tokenizer = Tokenizer {
            cut,
            whole_words: matches!(cut, Cut::Modern { digits: 3 }),
            bytes: Vec::new(),
            ends: Vec::with_capacity(texts.len()),
            special: Vec::with_capacity(texts.len()),
            single: [None; 256],
            merges: HashMap::new(),
            by_bytes: HashMap::with_capacity(texts.len()),
            special_texts: Vec::new(),
            endings: Vec::new(),
            start: None,
        };
        let mut by_text: HashMap<&[u8], u32> = HashMap::with_capacity(texts.len());
        for (id, text) in texts.iter().enumerate() {
            let id = id as u32;
            if text.len() > MAX_TOKEN_BYTES {
                return Err(GgufError::broken(format!("the token {id} has {} bytes", text.len())));
            }
            by_text.entry(text).or_insert(id);
            tokenizer.add(id, text, kinds.get(id as usize).copied().unwrap_or(NORMAL), &alphabet);
        }
        tokenizer.special_texts.sort_by_key(|(text, _)| Reverse(text.len()));
        for (rank, merge) in file.texts("tokenizer.ggml.merges")?.unwrap_or_default().into_iter().enumerate()
        {
            // The first character may itself be a space in no merge: spaces are written as another letter.
            let Some(space) = merge.iter().position(|byte| *byte == b' ') else { continue };
            let (left, right) = (&merge[..space], &merge[space + 1..]);
            let ids = (by_text.get(left), by_text.get(right), by_text.get([left, right].concat().as_slice()));
            if let (Some(left), Some(right), Some(merged)) = ids {
                tokenizer.merges.entry((*left, *right)).or_insert((rank as u32, *merged));
            }
        }
        tokenizer.read_endings(file)?;
        Ok(tokenizer)
    }

    fn add(&mut self, id: u32, text: &[u8], kind: i32, alphabet: &Alphabet) {
        let special = kind != NORMAL;
        let bytes = match special {
            true => text.to_vec(),
            false => alphabet.bytes(text).unwrap_or_else(|| text.to_vec()),
        };
        if special {
            let text = String::from_utf8_lossy(text).into_owned();
            if matches!(kind, CONTROL | USER_DEFINED) && !text.is_empty() {
                self.special_texts.push((text, id));
            }
        } else {
            if let [byte] = bytes[..] {
                self.single[usize::from(byte)].get_or_insert(id);
            }
            self.by_bytes.entry(bytes.clone()).or_insert(id);
        }
        self.bytes.extend_from_slice(&bytes);
        self.ends.push(self.bytes.len());
        self.special.push(special);
    }

    fn read_endings(&mut self, file: &Gguf<'_>) -> Result<(), GgufError> {
        let known = |id: u64| u32::try_from(id).ok().filter(|id| (*id as usize) < self.ends.len());
        let mut endings = Vec::new();
        for name in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            endings.extend(file.integer(&format!("tokenizer.ggml.{name}"))?.and_then(known));
        }
        endings.extend(ENDINGS.iter().filter_map(|name| self.special_id(name)));
        endings.dedup();
        if endings.is_empty() {
            return Err(GgufError::broken("it names no token that ends an answer"));
        }
        let starts = file.integer("tokenizer.ggml.add_bos_token")?.unwrap_or(0) != 0;
        self.start = match starts {
            true => file.integer("tokenizer.ggml.bos_token_id")?.and_then(known),
            false => None,
        };
        self.endings = endings;
        Ok(())
    }

    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// The bytes a token stands for; for a special one, its name.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = id.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(id).map_or(&[], |end| &self.bytes[start..*end])
    }

    /// The token of a single byte.
    pub(crate) fn byte(&self, byte: u8) -> Option<u32> {
        self.single[usize::from(byte)]
    }

    /// The token of exactly these bytes.
    pub(crate) fn token_of(&self, bytes: &[u8]) -> Option<u32> {
        self.by_bytes.get(bytes).copied()
    }

    pub(crate) fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(true)
    }

    pub(crate) fn special_id(&self, text: &str) -> Option<u32> {
        self.special_texts.iter().find(|(known, _)| known == text).map(|(_, id)| *id)
    }

    /// The tokens that end an answer, the file's own first.
    pub(crate) fn endings(&self) -> &[u32] {
        &self.endings
    }

    /// A whole conversation.
    pub(crate) fn encode(&self, pieces: &[Piece<'_>]) -> Vec<u32> {
        let mut tokens: Vec<u32> = self.start.into_iter().collect();
        // Text that stands side by side is cut into words as one.
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Template(piece) => {
                    let mut rest = *piece;
                    while let Some((before, id, after)) = self.first_special(rest) {
                        text.push_str(before);
                        self.encode_text(&text, &mut tokens);
                        text.clear();
                        // A template may begin with the token that the file says to add.
                        if !(tokens.len() == 1 && self.start == Some(id)) {
                            tokens.push(id);
                        }
                        rest = after;
                    }
                    text.push_str(rest);
                }
            }
        }
        self.encode_text(&text, &mut tokens);
        tokens
    }

    fn first_special<'a>(&self, text: &'a str) -> Option<(&'a str, u32, &'a str)> {
        let found =
            self.special_texts.iter().filter_map(|(special, id)| Some((text.find(special)?, special, *id)));
        // The longest of those that start first: the list has them in that order.
        let (at, special, id) = found.min_by_key(|(at, _, _)| *at)?;
        Some((&text[..at], id, &text[at + special.len()..]))
    }

    pub(crate) fn encode_text(&self, text: &str, tokens: &mut Vec<u32>) {
        self.cut.words(text, |word| self.encode_word(word.as_bytes(), tokens));
    }

    /// Bytes that need not be text: what is not is taken byte by byte.
    pub(crate) fn encode_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        let mut tokens = Vec::new();
        for chunk in bytes.utf8_chunks() {
            self.encode_text(chunk.valid(), &mut tokens);
            tokens.extend(chunk.invalid().iter().filter_map(|byte| self.single[usize::from(*byte)]));
        }
        tokens
    }

    fn encode_word(&self, word: &[u8], tokens: &mut Vec<u32>) {
        if self.whole_words
            && let Some(id) = self.by_bytes.get(word)
        {
            tokens.push(*id);
            return;
        }
        let mut symbols: Vec<Symbol> = word
            .iter()
            .filter_map(|byte| self.single[usize::from(*byte)])
            .enumerate()
            .map(|(index, id)| Symbol { id, before: index.wrapping_sub(1), after: index + 1 })
            .collect();
        let count = symbols.len();
        let mut queue = BinaryHeap::new();
        let consider = |symbols: &[Symbol], queue: &mut BinaryHeap<_>, left: usize| {
            let Some(right) = symbols.get(left).map(|symbol| symbol.after).filter(|right| *right < count)
            else {
                return;
            };
            let pair = (symbols[left].id, symbols[right].id);
            if let Some((rank, merged)) = self.merges.get(&pair) {
                queue.push(Reverse((*rank, left, pair, *merged)));
            }
        };
        for left in 0..count {
            consider(&symbols, &mut queue, left);
        }
        while let Some(Reverse((_, left, pair, merged))) = queue.pop() {
            let right = symbols[left].after;
            // One of the two may have been merged with its other neighbour since.
            if symbols[left].id != pair.0 || right >= count || symbols[right].id != pair.1 {
                continue;
            }
            symbols[left].id = merged;
            symbols[left].after = symbols[right].after;
            symbols[right].id = GONE;
            let after = symbols[left].after;
            if let Some(symbol) = symbols.get_mut(after) {
                symbol.before = left;
            }
            consider(&symbols, &mut queue, left);
            consider(&symbols, &mut queue, symbols[left].before);
        }
        tokens.extend(symbols.iter().map(|symbol| symbol.id).filter(|id| *id != GONE));
    }
}

/// The id of a symbol that was merged into the one before it.
const GONE: u32 = u32::MAX;

struct Symbol {
    id: u32,
    before: usize,
    after: usize,
}

/// The letters that byte-level vocabularies write bytes with: printable bytes stand for themselves, the others
/// follow from U+0100.
struct Alphabet(HashMap<char, u8>);

impl Alphabet {
    fn new() -> Alphabet {
        let mut other = 0x100;
        Alphabet(
            (0..=u8::MAX)
                .map(|byte| {
                    let letter = match byte {
                        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
                        _ => {
                            other += 1;
                            char::from_u32(other - 1).unwrap_or_default()
                        }
                    };
                    (letter, byte)
                })
                .collect(),
        )
    }

    fn bytes(&self, text: &[u8]) -> Option<Vec<u8>> {
        std::str::from_utf8(text).ok()?.chars().map(|letter| self.0.get(&letter).copied()).collect()
    }
}
