//! A language model of a few hundred kilobytes that tests make themselves: random weights in the real file
//! format, with a real vocabulary. What it says is noise; how it is read and computed with is not.

/// The families that tenon computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TinyFamily {
    Llama,
    Qwen2,
    Qwen3,
}

/// How the matrices are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TinyFormat {
    F32,
    Q8_0,
}

#[derive(Clone, Copy, Debug)]
pub struct TinyModel {
    pub family: TinyFamily,
    pub format: TinyFormat,
    pub seed: u64,
}

const WIDTH: usize = 64;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const INNER: usize = 128;
const LAYERS: usize = 2;
const CONTEXT: u32 = 4096;
const ALIGNMENT: usize = 32;
const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
/// Words whose byte pairs the vocabulary merges, letter by letter from the left.
const WORDS: &str = "the of and to in is that it for was on are with as his they at be this from have or by one had not but what all were when we there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know true false null user system assistant";
const JSON_PIECES: [&str; 9] = ["\",", "\":", "\"}", "{\"", "[\"", "\"]", "},", " \"", " {"];
const TEMPLATE: &str = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

impl TinyModel {
    pub fn new(seed: u64) -> TinyModel {
        TinyModel { family: TinyFamily::Llama, format: TinyFormat::Q8_0, seed }
    }

    /// The file.
    pub fn bytes(self) -> Vec<u8> {
        let vocabulary = Vocabulary::new();
        let family = match self.family {
            TinyFamily::Llama => "llama",
            TinyFamily::Qwen2 => "qwen2",
            TinyFamily::Qwen3 => "qwen3",
        };
        let mut values = Values::default();
        let key = |name: &str| format!("{family}.{name}");
        values.text("general.architecture", family);
        values.text("general.name", "tiny");
        values.u32(&key("block_count"), LAYERS as u32);
        values.u32(&key("context_length"), CONTEXT);
        values.u32(&key("embedding_length"), WIDTH as u32);
        values.u32(&key("feed_forward_length"), INNER as u32);
        values.u32(&key("attention.head_count"), HEADS as u32);
        values.u32(&key("attention.head_count_kv"), KV_HEADS as u32);
        values.f32(&key("attention.layer_norm_rms_epsilon"), 1e-5);
        values.f32(&key("rope.freq_base"), 10_000.0);
        values.u32(&key("rope.dimension_count"), self.head() as u32);
        if self.family == TinyFamily::Qwen3 {
            values.u32(&key("attention.key_length"), self.head() as u32);
            values.u32(&key("attention.value_length"), self.head() as u32);
        }
        values.u32(&key("vocab_size"), vocabulary.tokens.len() as u32);
        values.text("tokenizer.ggml.model", "gpt2");
        values.text("tokenizer.ggml.pre", if self.family == TinyFamily::Llama { "smollm" } else { "qwen2" });
        values.texts("tokenizer.ggml.tokens", &vocabulary.tokens);
        values.i32s("tokenizer.ggml.token_type", &vocabulary.kinds);
        values.texts("tokenizer.ggml.merges", &vocabulary.merges);
        values.u32("tokenizer.ggml.bos_token_id", 1);
        values.u32("tokenizer.ggml.eos_token_id", 2);
        values.flag("tokenizer.ggml.add_bos_token", false);
        values.text("tokenizer.chat_template", TEMPLATE);
        self.file(&values, vocabulary.tokens.len())
    }

    /// The numbers of a head; in Qwen3 they need not add up to the width.
    fn head(self) -> usize {
        if self.family == TinyFamily::Qwen3 { 32 } else { WIDTH / HEADS }
    }

    fn file(self, values: &Values, vocabulary: usize) -> Vec<u8> {
        let mut noise = Noise(self.seed ^ 0x5eed);
        let mut tensors: Vec<(String, Vec<usize>, Vec<f32>)> = Vec::new();
        let mut add = |name: String, dimensions: &[usize], center: f32, spread: f32| {
            let count = dimensions.iter().product();
            let numbers = (0..count).map(|_| center + spread * noise.next()).collect();
            tensors.push((name, dimensions.to_vec(), numbers));
        };
        let (query, kv) = (HEADS * self.head(), KV_HEADS * self.head());
        add("token_embd.weight".into(), &[WIDTH, vocabulary], 0.0, 1.0);
        for layer in 0..LAYERS {
            let name = |part: &str| format!("blk.{layer}.{part}");
            add(name("attn_norm.weight"), &[WIDTH], 1.0, 0.1);
            add(name("attn_q.weight"), &[WIDTH, query], 0.0, 0.3);
            add(name("attn_k.weight"), &[WIDTH, kv], 0.0, 0.3);
            add(name("attn_v.weight"), &[WIDTH, kv], 0.0, 0.3);
            add(name("attn_output.weight"), &[query, WIDTH], 0.0, 0.3);
            if self.family == TinyFamily::Qwen2 {
                add(name("attn_q.bias"), &[query], 0.0, 0.5);
                add(name("attn_k.bias"), &[kv], 0.0, 0.5);
                add(name("attn_v.bias"), &[kv], 0.0, 0.5);
            }
            if self.family == TinyFamily::Qwen3 {
                add(name("attn_q_norm.weight"), &[self.head()], 1.0, 0.1);
                add(name("attn_k_norm.weight"), &[self.head()], 1.0, 0.1);
            }
            add(name("ffn_norm.weight"), &[WIDTH], 1.0, 0.1);
            add(name("ffn_gate.weight"), &[WIDTH, INNER], 0.0, 0.2);
            add(name("ffn_up.weight"), &[WIDTH, INNER], 0.0, 0.2);
            add(name("ffn_down.weight"), &[INNER, WIDTH], 0.0, 0.2);
        }
        add("output_norm.weight".into(), &[WIDTH], 1.0, 0.1);

        let mut head = b"GGUF".to_vec();
        head.extend(3_u32.to_le_bytes());
        head.extend((tensors.len() as u64).to_le_bytes());
        head.extend(values.count.to_le_bytes());
        head.extend(&values.bytes);
        let mut data = Vec::new();
        for (name, dimensions, numbers) in &tensors {
            let matrix = dimensions.len() > 1 && self.format == TinyFormat::Q8_0;
            push_text(&mut head, name.as_bytes());
            head.extend((dimensions.len() as u32).to_le_bytes());
            dimensions.iter().for_each(|size| head.extend((*size as u64).to_le_bytes()));
            head.extend(if matrix { 8_u32 } else { 0 }.to_le_bytes());
            head.extend((data.len() as u64).to_le_bytes());
            match matrix {
                true => numbers.chunks(32).for_each(|block| push_q8(&mut data, block)),
                false => numbers.iter().for_each(|number| data.extend(number.to_le_bytes())),
            }
            data.resize(data.len().next_multiple_of(ALIGNMENT), 0);
        }
        head.resize(head.len().next_multiple_of(ALIGNMENT), 0);
        head.extend(data);
        head
    }
}

fn push_q8(data: &mut Vec<u8>, block: &[f32]) {
    let largest = block.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    // A scale that half precision holds exactly: a power of two.
    let power = (largest / 127.0).log2().ceil().max(-14.0);
    let half = ((power as i32 + 15) as u16) << 10;
    data.extend(half.to_le_bytes());
    data.extend(block.iter().map(|number| (number / power.exp2()).round() as i8 as u8));
}

/// The metadata of a file.
#[derive(Default)]
struct Values {
    bytes: Vec<u8>,
    count: u64,
}

impl Values {
    fn start(&mut self, name: &str, kind: u32) {
        push_text(&mut self.bytes, name.as_bytes());
        self.bytes.extend(kind.to_le_bytes());
        self.count += 1;
    }

    fn u32(&mut self, name: &str, value: u32) {
        self.start(name, 4);
        self.bytes.extend(value.to_le_bytes());
    }

    fn f32(&mut self, name: &str, value: f32) {
        self.start(name, 6);
        self.bytes.extend(value.to_le_bytes());
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.start(name, 7);
        self.bytes.push(value.into());
    }

    fn text(&mut self, name: &str, value: &str) {
        self.start(name, 8);
        push_text(&mut self.bytes, value.as_bytes());
    }

    fn texts(&mut self, name: &str, values: &[String]) {
        self.list(name, 8, values.len());
        values.iter().for_each(|value| push_text(&mut self.bytes, value.as_bytes()));
    }

    fn i32s(&mut self, name: &str, values: &[i32]) {
        self.list(name, 5, values.len());
        values.iter().for_each(|value| self.bytes.extend(value.to_le_bytes()));
    }

    fn list(&mut self, name: &str, of: u32, count: usize) {
        self.start(name, 9);
        self.bytes.extend(of.to_le_bytes());
        self.bytes.extend((count as u64).to_le_bytes());
    }
}

fn push_text(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text);
}

struct Vocabulary {
    tokens: Vec<String>,
    kinds: Vec<i32>,
    merges: Vec<String>,
}

impl Vocabulary {
    fn new() -> Vocabulary {
        let mut tokens: Vec<String> = SPECIAL.iter().map(|name| (*name).to_owned()).collect();
        let special = tokens.len();
        tokens.extend((0..=u8::MAX).map(|byte| letter(byte).to_string()));
        let mut merges = Vec::new();
        let pieces = WORDS.split(' ').flat_map(|word| [word.to_owned(), format!(" {word}")]);
        for piece in pieces.chain(JSON_PIECES.map(str::to_owned)) {
            let letters: Vec<String> = piece.bytes().map(|byte| letter(byte).to_string()).collect();
            let mut left = letters[0].clone();
            for right in &letters[1..] {
                let merged = format!("{left}{right}");
                if !tokens.contains(&merged) {
                    tokens.push(merged.clone());
                    merges.push(format!("{left} {right}"));
                }
                left = merged;
            }
        }
        // The rows of a quantised matrix come in any number; a round one is easier to look at.
        while !tokens.len().is_multiple_of(32) {
            tokens.push(format!("<|unused_{}|>", tokens.len()));
        }
        let kinds = tokens
            .iter()
            .enumerate()
            .map(|(index, token)| if index < special || token.starts_with("<|unused") { 3 } else { 1 });
        Vocabulary { kinds: kinds.collect(), tokens, merges }
    }
}

/// How byte-level vocabularies write a byte.
fn letter(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    match printable(byte) {
        true => char::from(byte),
        false => {
            let before = (0..byte).filter(|other| !printable(*other)).count() as u32;
            char::from_u32(0x100 + before).expect("a letter")
        }
    }
}

struct Noise(u64);

impl Noise {
    /// Between -1 and 1.
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }
}
