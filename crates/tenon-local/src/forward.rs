//! The forward pass: tokens in, a score for every possible next token out.
//!
//! Matrices are packed in eight or four bits, activations in eight before each product, everything else is done in
//! single precision. The keys and values of all tokens so far are kept, so a token is computed once.

use std::sync::{Mutex, PoisonError};

use crate::model::{Layer, Matrix, Model, Turning};
use crate::pool::Pool;
use crate::products::{Q8Row, products};
use crate::quant::{Packing, Q8_NUMBERS, dequantise};
use crate::simd::{self, Isa};

/// Tokens of a prompt that go through the layers together: enough to use each weight often while it is near,
/// few enough that their activations stay near too.
const BATCH: usize = 64;
/// Parts of a product for each thread: with several, nobody waits long for the last one.
const PARTS_PER_THREAD: usize = 4;
/// Rows of a part, at least: below that, handing it out costs more than doing it.
const MIN_PART_ROWS: usize = 32;

/// A model with what it has read so far.
pub(crate) struct Engine {
    model: Model,
    pool: Pool,
    isa: Isa,
    tokens: Vec<u32>,
    /// For each layer and head: the rows of all tokens.
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    room: Room,
}

/// Buffers that are used again for every layer and token.
#[derive(Default)]
struct Room {
    hidden: Vec<f32>,
    normed: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    attended: Vec<f32>,
    by_head: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    added: Vec<f32>,
    by_row: Vec<f32>,
    /// Sine and cosine for each token and pair.
    turns: Vec<(f32, f32)>,
    quantised: Quantised,
}

#[derive(Default)]
struct Quantised {
    bytes: Vec<[i8; Q8_NUMBERS]>,
    scales: Vec<f32>,
    eighths: Vec<f32>,
    rows: usize,
}

impl Engine {
    pub(crate) fn new(model: Model, threads: usize) -> Engine {
        let heads = model.layers.len() * model.shape.kv_heads;
        Engine {
            pool: Pool::new(threads),
            isa: Isa::here(),
            tokens: Vec::new(),
            keys: vec![Vec::new(); heads],
            values: vec![Vec::new(); heads],
            room: Room::default(),
            model,
        }
    }

    pub(crate) fn context(&self) -> usize {
        self.model.shape.context
    }

    /// What has been read so far.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Forgets all but the first `count` tokens.
    pub(crate) fn keep(&mut self, count: usize) {
        let size = count * self.model.shape.head;
        self.tokens.truncate(count);
        self.keys.iter_mut().chain(&mut self.values).for_each(|rows| rows.truncate(size));
    }

    /// Reads tokens; `scores` are those of the token after the last one. Between batches `go_on` is asked; when
    /// it says no, only part has been read. Tokens beyond the vocabulary count as the first.
    pub(crate) fn read(&mut self, tokens: &[u32], scores: &mut Vec<f32>, go_on: &mut dyn FnMut() -> bool) {
        for batch in tokens.chunks(BATCH) {
            if !go_on() {
                return;
            }
            self.layers(batch);
            self.tokens.extend_from_slice(batch);
        }
        let Engine { model, pool, isa, room, .. } = self;
        let width = model.shape.width;
        let Some(last) = room.hidden.last_chunk_of(width) else { return };
        room.normed.clear();
        room.normed.resize(width, 0.0);
        norm(last, &model.output_norm, model.shape.epsilon, &mut room.normed);
        room.quantised.fill(*isa, &room.normed, width);
        multiply(model, pool, *isa, &room.quantised, &mut room.by_row, [(&model.output, scores)]);
    }

    fn layers(&mut self, batch: &[u32]) {
        let Engine { model, pool, isa, tokens, keys, values, room } = self;
        let (isa, shape, count) = (*isa, &model.shape, batch.len());
        room.turns.clear();
        for position in tokens.len()..tokens.len() + count {
            room.turns.extend(shape.speeds.iter().map(|speed| (position as f32 * speed).sin_cos()));
        }
        room.hidden.clear();
        room.hidden.resize(count * shape.width, 0.0);
        let (table, row_bytes) = (model.bytes(&model.embedding), model.embedding.row_bytes());
        for (token, row) in batch.iter().zip(room.hidden.chunks_exact_mut(shape.width)) {
            let token = Some(*token as usize).filter(|token| *token < shape.vocabulary).unwrap_or(0);
            dequantise(model.embedding.packing.kind(), &table[token * row_bytes..][..row_bytes], row);
        }
        for (index, layer) in model.layers.iter().enumerate() {
            let heads = index * shape.kv_heads..(index + 1) * shape.kv_heads;
            let (keys, values) = (&mut keys[heads.clone()], &mut values[heads]);
            attention(model, layer, pool, isa, room, keys, values, count);
            inner(model, layer, pool, isa, room, count);
        }
    }
}

trait LastChunk {
    fn last_chunk_of(&self, size: usize) -> Option<&[f32]>;
}

impl LastChunk for Vec<f32> {
    fn last_chunk_of(&self, size: usize) -> Option<&[f32]> {
        self.len().checked_sub(size).map(|start| &self[start..])
    }
}

#[expect(clippy::too_many_arguments, reason = "parts of one engine, borrowed apart")]
fn attention(
    model: &Model,
    layer: &Layer,
    pool: &mut Pool,
    isa: Isa,
    room: &mut Room,
    keys: &mut [Vec<f32>],
    values: &mut [Vec<f32>],
    count: usize,
) {
    let shape = &model.shape;
    norm_rows(&room.hidden, &layer.attention_norm, shape.epsilon, &mut room.normed);
    room.quantised.fill(isa, &room.normed, shape.width);
    let outputs =
        [(&layer.query, &mut room.query), (&layer.key, &mut room.key), (&layer.value, &mut room.value)];
    multiply(model, pool, isa, &room.quantised, &mut room.by_row, outputs);
    if let Some([query, key, value]) = &layer.biases {
        for (rows, bias) in [(&mut room.query, query), (&mut room.key, key), (&mut room.value, value)] {
            rows.chunks_exact_mut(bias.len()).for_each(|row| add(row, bias));
        }
    }
    if let Some([query, key]) = &layer.head_norms {
        for (rows, weights) in [(&mut room.query, query), (&mut room.key, key)] {
            rows.chunks_exact_mut(shape.head).for_each(|row| norm_in_place(row, weights, shape.epsilon));
        }
    }
    let pairs = shape.speeds.len();
    for (rows, heads) in [(&mut room.query, shape.heads), (&mut room.key, shape.kv_heads)] {
        for (row, turns) in rows.chunks_exact_mut(heads * shape.head).zip(room.turns.chunks_exact(pairs)) {
            row.chunks_exact_mut(shape.head).for_each(|head| turn(head, turns, shape.turning));
        }
    }
    for (store, rows) in [(&mut *keys, &room.key), (&mut *values, &room.value)] {
        for row in rows.chunks_exact(shape.kv_heads * shape.head) {
            for (store, head) in store.iter_mut().zip(row.chunks_exact(shape.head)) {
                store.extend_from_slice(head);
            }
        }
    }
    room.by_head.clear();
    room.by_head.resize(shape.heads * count * shape.head, 0.0);
    let group = shape.heads / shape.kv_heads;
    let parts: Vec<Mutex<&mut [f32]>> =
        room.by_head.chunks_exact_mut(count * shape.head).map(Mutex::new).collect();
    let query = &room.query;
    pool.run(parts.len(), &|head| {
        let (keys, values) = (&keys[head / group], &values[head / group]);
        let words = keys.len() / shape.head;
        let mut scores = vec![0.0; words];
        let mut part = parts[head].lock().unwrap_or_else(PoisonError::into_inner);
        for (token, out) in part.chunks_exact_mut(shape.head).enumerate() {
            let seen = words + 1 + token - count;
            let query = &query[(token * shape.heads + head) * shape.head..][..shape.head];
            simd::attend(
                isa,
                query,
                &keys[..seen * shape.head],
                &values[..seen * shape.head],
                &mut scores[..seen],
                out,
            );
        }
    });
    drop(parts);
    room.attended.clear();
    room.attended.resize(count * shape.heads * shape.head, 0.0);
    for (head, rows) in room.by_head.chunks_exact(count * shape.head).enumerate() {
        for (token, row) in rows.chunks_exact(shape.head).enumerate() {
            room.attended[(token * shape.heads + head) * shape.head..][..shape.head].copy_from_slice(row);
        }
    }
    room.quantised.fill(isa, &room.attended, shape.heads * shape.head);
    multiply(
        model,
        pool,
        isa,
        &room.quantised,
        &mut room.by_row,
        [(&layer.attention_output, &mut room.added)],
    );
    add(&mut room.hidden, &room.added);
}

fn inner(model: &Model, layer: &Layer, pool: &mut Pool, isa: Isa, room: &mut Room, count: usize) {
    let shape = &model.shape;
    norm_rows(&room.hidden, &layer.inner_norm, shape.epsilon, &mut room.normed);
    room.quantised.fill(isa, &room.normed, shape.width);
    let outputs = [(&layer.gate, &mut room.gate), (&layer.up, &mut room.up)];
    multiply(model, pool, isa, &room.quantised, &mut room.by_row, outputs);
    simd::gated(isa, &mut room.gate, &room.up);
    debug_assert_eq!(room.gate.len(), count * shape.inner);
    room.quantised.fill(isa, &room.gate, shape.inner);
    multiply(model, pool, isa, &room.quantised, &mut room.by_row, [(&layer.down, &mut room.added)]);
    add(&mut room.hidden, &room.added);
}

impl Quantised {
    fn fill(&mut self, isa: Isa, rows: &[f32], columns: usize) {
        let blocks = columns / Q8_NUMBERS;
        self.rows = rows.len() / columns;
        self.bytes.resize(self.rows * blocks, [0; Q8_NUMBERS]);
        self.scales.resize(self.rows * blocks, 0.0);
        self.eighths.resize(self.rows * blocks, 0.0);
        simd::quantise_row(isa, rows, &mut self.bytes, &mut self.scales, &mut self.eighths);
    }

    fn row(&self, row: usize) -> Q8Row<'_> {
        let blocks = self.bytes.len() / self.rows;
        let range = row * blocks..(row + 1) * blocks;
        Q8Row {
            bytes: &self.bytes[range.clone()],
            scales: &self.scales[range.clone()],
            eighths: &self.eighths[range],
        }
    }
}

/// A range of rows of one matrix, and where their products go: for each row, one number a token.
struct Part<'a> {
    rows: &'a [u8],
    row_bytes: usize,
    packing: Packing,
    out: &'a mut [f32],
}

/// Multiplies every matrix with the same activations; the products are in the order of the tokens.
fn multiply<const M: usize>(
    model: &Model,
    pool: &mut Pool,
    isa: Isa,
    input: &Quantised,
    by_row: &mut Vec<f32>,
    mut outputs: [(&Matrix, &mut Vec<f32>); M],
) {
    let count = input.rows;
    let all: usize = outputs.iter().map(|(matrix, _)| matrix.rows).sum();
    by_row.resize(all * count, 0.0);
    let part_rows = match pool.threads() {
        1 => all,
        threads => all.div_ceil(threads * PARTS_PER_THREAD).max(MIN_PART_ROWS).next_multiple_of(4),
    };
    let mut rest = by_row.as_mut_slice();
    let mut parts = Vec::new();
    for (matrix, _) in &outputs {
        let (products, others) = std::mem::take(&mut rest).split_at_mut(matrix.rows * count);
        rest = others;
        let row_bytes = matrix.row_bytes();
        let rows = model.bytes(matrix).chunks(part_rows * row_bytes);
        let cut = rows.zip(products.chunks_mut(part_rows * count));
        parts.extend(
            cut.map(|(rows, out)| Mutex::new(Part { rows, row_bytes, packing: matrix.packing, out })),
        );
    }
    pool.run(parts.len(), &|part| {
        part_products(isa, &mut parts[part].lock().unwrap_or_else(PoisonError::into_inner), input);
    });
    drop(parts);
    let mut rest = by_row.as_slice();
    for (matrix, out) in &mut outputs {
        let (products, others) = rest.split_at(matrix.rows * count);
        rest = others;
        by_token(products, matrix.rows, count, out);
    }
}

fn part_products(isa: Isa, part: &mut Part<'_>, input: &Quantised) {
    let (count, packing) = (input.rows, part.packing);
    let row = |index: usize| &part.rows[index * part.row_bytes..][..part.row_bytes];
    let rows = part.rows.len() / part.row_bytes;
    let mut first = 0;
    if count == 1 {
        let activation = input.row(0);
        while first + 4 <= rows {
            let four = products(
                isa,
                packing,
                std::array::from_fn::<_, 4, _>(|index| row(first + index)),
                [activation],
            );
            part.out[first..first + 4].copy_from_slice(four.as_flattened());
            first += 4;
        }
    }
    while first < rows {
        let pair = first + 2 <= rows;
        let mut token = 0;
        while token < count {
            let place = |index: usize| (first + index) * count + token;
            match (pair, token + 4 <= count) {
                (true, true) => {
                    let [a, b] =
                        products(isa, packing, [row(first), row(first + 1)], rows_of::<4>(input, token));
                    part.out[place(0)..][..4].copy_from_slice(&a);
                    part.out[place(1)..][..4].copy_from_slice(&b);
                    token += 4;
                }
                (false, true) => {
                    let [a] = products(isa, packing, [row(first)], rows_of::<4>(input, token));
                    part.out[place(0)..][..4].copy_from_slice(&a);
                    token += 4;
                }
                (true, false) => {
                    let [[a], [b]] = products(isa, packing, [row(first), row(first + 1)], [input.row(token)]);
                    part.out[place(0)] = a;
                    part.out[place(1)] = b;
                    token += 1;
                }
                (false, false) => {
                    let [[a]] = products(isa, packing, [row(first)], [input.row(token)]);
                    part.out[place(0)] = a;
                    token += 1;
                }
            }
        }
        first += if pair { 2 } else { 1 };
    }
}

fn rows_of<const N: usize>(input: &Quantised, first: usize) -> [Q8Row<'_>; N] {
    std::array::from_fn(|index| input.row(first + index))
}

/// From one row a matrix row to one row a token.
fn by_token(products: &[f32], rows: usize, count: usize, out: &mut Vec<f32>) {
    /// A line of the cache.
    const SIDE: usize = 16;
    out.clear();
    if count == 1 {
        out.extend_from_slice(products);
        return;
    }
    out.resize(rows * count, 0.0);
    for first in (0..rows).step_by(SIDE) {
        let side = SIDE.min(rows - first);
        for token in 0..count {
            let line = &mut out[token * rows + first..][..side];
            for (index, number) in line.iter_mut().enumerate() {
                *number = products[(first + index) * count + token];
            }
        }
    }
}

fn norm_rows(rows: &[f32], weights: &[f32], epsilon: f32, out: &mut Vec<f32>) {
    out.clear();
    out.resize(rows.len(), 0.0);
    for (row, out) in rows.chunks_exact(weights.len()).zip(out.chunks_exact_mut(weights.len())) {
        norm(row, weights, epsilon, out);
    }
}

fn norm(row: &[f32], weights: &[f32], epsilon: f32, out: &mut [f32]) {
    let scale = norm_scale(row, epsilon);
    for ((out, number), weight) in out.iter_mut().zip(row).zip(weights) {
        *out = number * scale * weight;
    }
}

fn norm_in_place(row: &mut [f32], weights: &[f32], epsilon: f32) {
    let scale = norm_scale(row, epsilon);
    for (number, weight) in row.iter_mut().zip(weights) {
        *number *= scale * weight;
    }
}

fn norm_scale(row: &[f32], epsilon: f32) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (chunks, rest) = row.as_chunks::<8>();
    for chunk in chunks {
        for (sum, number) in sums.iter_mut().zip(chunk) {
            *sum += number * number;
        }
    }
    let squares = sums.iter().sum::<f32>() + rest.iter().map(|number| number * number).sum::<f32>();
    1.0 / (squares / row.len() as f32 + epsilon).sqrt()
}

fn add(sum: &mut [f32], row: &[f32]) {
    for (sum, number) in sum.iter_mut().zip(row) {
        *sum += number;
    }
}

fn turn(head: &mut [f32], turns: &[(f32, f32)], turning: Turning) {
    for (pair, (sin, cos)) in turns.iter().enumerate() {
        let (first, second) = match turning {
            Turning::Neighbours => (2 * pair, 2 * pair + 1),
            Turning::Halves => (pair, pair + turns.len()),
        };
        let (a, b) = (head[first], head[second]);
        head[first] = a * cos - b * sin;
        head[second] = a * sin + b * cos;
    }
}
