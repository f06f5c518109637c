//! A model as its file describes it: family, sizes, and where each matrix lies.
//!
//! Everything that `forward.rs` relies on is checked here, once: a matrix that is there has the size that the
//! numbers in the header promise.

use std::ops::Range;

use memmap2::Mmap;

use crate::error::GgufError;
use crate::gguf::{Gguf, Tensor};
use crate::quant::{Packing, dequantise};

/// Larger than any model that fits a machine without an accelerator.
const MAX_LAYERS: u64 = 256;
const MAX_WIDTH: u64 = 1 << 16;
const MAX_VOCABULARY: u64 = 1 << 20;
const MAX_HEAD: usize = 1 << 10;
const MAX_CONTEXT: u64 = 1 << 20;
/// What is assumed where the file does not say.
const DEFAULT_ROPE_BASE: f32 = 10_000.0;
const DEFAULT_EPSILON: f32 = 1e-5;

/// The families, by the name their files carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Llama,
    Qwen2,
    Qwen3,
}

impl Family {
    fn parse(name: &str) -> Option<Family> {
        match name {
            "llama" => Some(Family::Llama),
            "qwen2" => Some(Family::Qwen2),
            "qwen3" => Some(Family::Qwen3),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Family::Llama => "llama",
            Family::Qwen2 => "qwen2",
            Family::Qwen3 => "qwen3",
        }
    }
}

/// How positions are mixed into queries and keys: which two numbers turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turning {
    Neighbours,
    Halves,
}

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head: usize,
    pub(crate) inner: usize,
    pub(crate) vocabulary: usize,
    pub(crate) context: usize,
    pub(crate) epsilon: f32,
    pub(crate) turning: Turning,
    /// How fast each pair of numbers turns with the position.
    pub(crate) speeds: Vec<f32>,
}

pub(crate) struct Model {
    map: Mmap,
    pub(crate) shape: Shape,
    pub(crate) layers: Vec<Layer>,
    pub(crate) embedding: Matrix,
    pub(crate) output: Matrix,
    pub(crate) output_norm: Vec<f32>,
}

pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Matrix,
    pub(crate) key: Matrix,
    pub(crate) value: Matrix,
    pub(crate) biases: Option<[Vec<f32>; 3]>,
    /// Of queries and keys, for each head.
    pub(crate) head_norms: Option<[Vec<f32>; 2]>,
    pub(crate) attention_output: Matrix,
    pub(crate) inner_norm: Vec<f32>,
    pub(crate) gate: Matrix,
    pub(crate) up: Matrix,
    pub(crate) down: Matrix,
}

/// Rows in the file.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    range: Range<usize>,
    pub(crate) packing: Packing,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Matrix {
    pub(crate) fn row_bytes(&self) -> usize {
        let kind = self.packing.kind();
        self.columns / kind.block_numbers() * kind.block_bytes()
    }
}

/// Is every matrix stored in a format that is computed with?
pub(crate) fn is_ready(file: &Gguf<'_>) -> bool {
    file.tensors().iter().all(|tensor| tensor.dimensions.len() < 2 || Packing::of(tensor.kind).is_some())
}

impl Model {
    /// `map` is a file that [`is_ready`].
    pub(crate) fn load(map: Mmap) -> Result<Model, GgufError> {
        let file = Gguf::parse(&map)?;
        let shape = shape(&file)?;
        let Shape { width, heads, kv_heads, head, inner, vocabulary, .. } = shape;
        let (query, kv) = (heads * head, kv_heads * head);
        let embedding = matrix(&file, "token_embd.weight", width, vocabulary)?;
        let output = match file.tensor("output.weight") {
            Some(_) => matrix(&file, "output.weight", width, vocabulary)?,
            None => embedding.clone(),
        };
        let mut layers = Vec::new();
        for index in 0..layer_count(&file)? {
            let name = |part: &str| format!("blk.{index}.{part}");
            let weights =
                |part: &str, columns, rows| matrix(&file, &name(&format!("{part}.weight")), columns, rows);
            let norm = |part: &str, size| vector(&file, &name(&format!("{part}.weight")), size);
            let has = |part: &str| file.tensor(&name(part)).is_some();
            let biases = match has("attn_q.bias") {
                true => Some([
                    vector(&file, &name("attn_q.bias"), query)?,
                    vector(&file, &name("attn_k.bias"), kv)?,
                    vector(&file, &name("attn_v.bias"), kv)?,
                ]),
                false => None,
            };
            let head_norms = match has("attn_q_norm.weight") {
                true => Some([norm("attn_q_norm", head)?, norm("attn_k_norm", head)?]),
                false => None,
            };
            layers.push(Layer {
                attention_norm: norm("attn_norm", width)?,
                query: weights("attn_q", width, query)?,
                key: weights("attn_k", width, kv)?,
                value: weights("attn_v", width, kv)?,
                biases,
                head_norms,
                attention_output: weights("attn_output", query, width)?,
                inner_norm: norm("ffn_norm", width)?,
                gate: weights("ffn_gate", width, inner)?,
                up: weights("ffn_up", width, inner)?,
                down: weights("ffn_down", inner, width)?,
            });
        }
        let output_norm = vector(&file, "output_norm.weight", width)?;
        drop(file);
        Ok(Model { map, shape, layers, embedding, output, output_norm })
    }

    pub(crate) fn bytes(&self, matrix: &Matrix) -> &[u8] {
        &self.map[matrix.range.clone()]
    }
}

/// The family and sizes, without looking at any tensor but one.
fn shape(file: &Gguf<'_>) -> Result<Shape, GgufError> {
    let family = family(file)?;
    let key = |name: &str| format!("{}.{name}", family.name());
    let at_most = |name: &str, most: u64| {
        let value = file.integer(&key(name))?;
        let value = value.ok_or_else(|| GgufError::broken(format!("`{}` is missing", key(name))))?;
        if (1..=most).contains(&value) {
            Ok(value as usize)
        } else {
            Err(GgufError::broken(format!("`{}` is {value}", key(name))))
        }
    };
    let width = at_most("embedding_length", MAX_WIDTH)?;
    let inner = at_most("feed_forward_length", MAX_WIDTH * 4)?;
    let heads = at_most("attention.head_count", MAX_WIDTH)?;
    let kv_heads = match file.integer(&key("attention.head_count_kv"))? {
        Some(_) => at_most("attention.head_count_kv", MAX_WIDTH)?,
        None => heads,
    };
    let head = match file.integer(&key("attention.key_length"))? {
        Some(_) => at_most("attention.key_length", MAX_WIDTH)?,
        None => width / heads,
    };
    let turned = match file.integer(&key("rope.dimension_count"))? {
        Some(_) => at_most("rope.dimension_count", MAX_WIDTH)?,
        None => head,
    };
    if heads % kv_heads != 0 || head == 0 || head > MAX_HEAD || turned > head || turned % 2 != 0 {
        return Err(GgufError::broken(format!(
            "{heads} heads over {kv_heads}, of {head} numbers each with {turned} turned, do not go together"
        )));
    }
    if file.integer(&key("expert_count"))?.unwrap_or(0) > 0 {
        return Err(GgufError::unsupported("it is a mixture of experts"));
    }
    let scaling = file.text(&key("rope.scaling.type"))?.unwrap_or("none");
    if !["none", ""].contains(&scaling) && file.tensor("rope_freqs.weight").is_none() {
        return Err(GgufError::unsupported(format!("its context is stretched by `{scaling}`")));
    }
    let base = file.number(&key("rope.freq_base"))?.unwrap_or(DEFAULT_ROPE_BASE);
    let factors = match file.tensor("rope_freqs.weight") {
        Some(_) => vector(file, "rope_freqs.weight", turned / 2)?,
        None => vec![1.0; turned / 2],
    };
    let speed = |pair: usize| base.powf(-2.0 * pair as f32 / turned as f32) / factors[pair];
    Ok(Shape {
        width,
        heads,
        kv_heads,
        head,
        inner,
        vocabulary: vocabulary(file)?,
        context: at_most("context_length", MAX_CONTEXT)?,
        epsilon: file.number(&key("attention.layer_norm_rms_epsilon"))?.unwrap_or(DEFAULT_EPSILON),
        turning: if family == Family::Llama { Turning::Neighbours } else { Turning::Halves },
        speeds: (0..turned / 2).map(speed).collect(),
    })
}

fn family(file: &Gguf<'_>) -> Result<Family, GgufError> {
    let name = file.text("general.architecture")?.unwrap_or("unnamed");
    Family::parse(name)
        .ok_or_else(|| GgufError::unsupported(format!("models of the family `{name}` are not supported")))
}

fn layer_count(file: &Gguf<'_>) -> Result<u64, GgufError> {
    let key = format!("{}.block_count", family(file)?.name());
    let count = file.integer(&key)?.filter(|count| (1..=MAX_LAYERS).contains(count));
    count.ok_or_else(|| GgufError::broken(format!("`{key}` is missing or not possible")))
}

/// As many as the table has rows.
fn vocabulary(file: &Gguf<'_>) -> Result<usize, GgufError> {
    let table = file.tensor("token_embd.weight").and_then(|table| table.dimensions.get(1).copied());
    let count = table.filter(|count| *count as u64 <= MAX_VOCABULARY);
    count.ok_or_else(|| GgufError::broken("the tensor `token_embd.weight` is missing or not possible"))
}

fn tensor<'f, 'a>(file: &'f Gguf<'a>, name: &str, dimensions: &[usize]) -> Result<&'f Tensor<'a>, GgufError> {
    let tensor =
        file.tensor(name).ok_or_else(|| GgufError::broken(format!("the tensor `{name}` is missing")))?;
    if tensor.dimensions != dimensions {
        return Err(GgufError::broken(format!(
            "the tensor `{name}` has the size {:?}, not {dimensions:?}",
            tensor.dimensions
        )));
    }
    Ok(tensor)
}

fn matrix(file: &Gguf<'_>, name: &str, columns: usize, rows: usize) -> Result<Matrix, GgufError> {
    let tensor = tensor(file, name, &[columns, rows])?;
    let packing = Packing::of(tensor.kind).ok_or_else(|| {
        GgufError::unsupported(format!("the tensor `{name}` is stored as {:?}", tensor.kind))
    })?;
    Ok(Matrix { range: tensor.range.clone(), packing, rows, columns })
}

fn vector(file: &Gguf<'_>, name: &str, size: usize) -> Result<Vec<f32>, GgufError> {
    let tensor = tensor(file, name, &[size])?;
    let mut numbers = vec![0.0; size];
    dequantise(tensor.kind, &file.bytes()[tensor.range.clone()], &mut numbers);
    Ok(numbers)
}
