//! The instructions this machine has, and the inner loops over rows of plain numbers.
//!
//! Each exists in plain Rust and, on x86-64, for instructions that are looked for at run time. All give the same
//! sums up to rounding; a test compares them. Products of weights are `products.rs`, and what is multiplied with what
//! is `forward.rs`' business.

use crate::quant::Q8_NUMBERS;

/// The instructions this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Isa {
    pub(crate) fn here() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
            {
                if is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vl") {
                    return Isa::Vnni;
                }
                return Isa::Avx2;
            }
        }
        Isa::Plain
    }
}

/// What one head makes of the words so far: a mean of `values`, weighed by how well each of `keys` fits `query`. `scores` is
/// room for one number a word.
#[allow(unsafe_code, reason = "functions for instructions that not every machine has are unsafe to call")]
pub(crate) fn attend(
    isa: Isa,
    query: &[f32],
    keys: &[f32],
    values: &[f32],
    scores: &mut [f32],
    out: &mut [f32],
) {
    match isa {
        Isa::Plain => attend_loop(query, keys, values, scores, out),
        // SAFETY: `Isa::here` has found these instructions.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Vnni => unsafe { x86::attend_avx2(query, keys, values, scores, out) },
    }
}

/// A row of activations as bytes with a scale for every block: each is one of 255 steps. `eighths` is as in `Q8Row`.
#[allow(unsafe_code, reason = "functions for instructions that not every machine has are unsafe to call")]
pub(crate) fn quantise_row(
    isa: Isa,
    row: &[f32],
    bytes: &mut [[i8; Q8_NUMBERS]],
    scales: &mut [f32],
    eighths: &mut [f32],
) {
    match isa {
        Isa::Plain => quantise_loop(row, bytes, scales, eighths),
        // SAFETY: `Isa::here` has found these instructions.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Vnni => unsafe { x86::quantise_avx2(row, bytes, scales, eighths) },
    }
}

/// `gate · sigmoid(gate) · up`, into `gate`.
#[allow(unsafe_code, reason = "functions for instructions that not every machine has are unsafe to call")]
pub(crate) fn gated(isa: Isa, gate: &mut [f32], up: &[f32]) {
    match isa {
        Isa::Plain => gated_loop(gate, up),
        // SAFETY: `Isa::here` has found these instructions.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Vnni => unsafe { x86::gated_avx2(gate, up) },
    }
}

/// Numbers that are worked on side by side: without them, the order of additions forbids it.
const LANES: usize = 16;

#[inline(always)]
fn dot_loop(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (a, rest_a) = a.as_chunks::<LANES>();
    let (b, rest_b) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    add_up(sums) + rest
}

/// Halves against halves: the additions of a step do not wait for one another.
#[inline(always)]
fn add_up(mut sums: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0]
}

#[inline(always)]
fn attend_loop(query: &[f32], keys: &[f32], values: &[f32], scores: &mut [f32], out: &mut [f32]) {
    let size = query.len();
    let scale = 1.0 / (size as f32).sqrt();
    for (score, key) in scores.iter_mut().zip(keys.chunks_exact(size)) {
        *score = dot_loop(query, key) * scale;
    }
    softmax_loop(scores);
    out.fill(0.0);
    // Four words at a time: `out` is read and written a quarter as often.
    let (fours, rest) = scores.as_chunks::<4>();
    for (four, values) in fours.iter().zip(values.chunks_exact(4 * size)) {
        let (first, second) = values.split_at(2 * size);
        let (a, b) = first.split_at(size);
        let (c, d) = second.split_at(size);
        for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *out += four[0] * a + four[1] * b + four[2] * c + four[3] * d;
        }
    }
    for (score, value) in rest.iter().zip(values[fours.len() * 4 * size..].chunks_exact(size)) {
        for (out, number) in out.iter_mut().zip(value) {
            *out += score * number;
        }
    }
}

#[inline(always)]
fn quantise_loop(row: &[f32], bytes: &mut [[i8; Q8_NUMBERS]], scales: &mut [f32], eighths: &mut [f32]) {
    let (blocks, _) = row.as_chunks::<Q8_NUMBERS>();
    for (((block, bytes), scale), eighth) in blocks.iter().zip(bytes).zip(scales).zip(eighths) {
        let largest = block
            .iter()
            .fold(0.0_f32, |largest, number| if number.abs() > largest { number.abs() } else { largest });
        *scale = largest / 127.0;
        let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        let mut sum = 0;
        for (byte, number) in bytes.iter_mut().zip(block) {
            let whole = ((number * inverse + ROUND) - ROUND) as i32;
            *byte = whole as i8;
            sum += whole;
        }
        *eighth = sum as f32 * *scale / 8.0;
    }
}

/// Added to a number that is not huge and taken away again, it leaves the nearest whole number.
const ROUND: f32 = 12_582_912.0;

#[inline(always)]
fn softmax_loop(numbers: &mut [f32]) {
    let largest = numbers
        .iter()
        .fold(f32::NEG_INFINITY, |largest, number| if *number > largest { *number } else { largest });
    for number in numbers.iter_mut() {
        *number = exp(*number - largest);
    }
    let mut sums = [0.0_f32; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            sums[lane] += chunk[lane];
        }
    }
    let inverse = 1.0 / (add_up(sums) + rest.iter().sum::<f32>());
    for number in numbers {
        *number *= inverse;
    }
}

#[inline(always)]
fn gated_loop(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + exp(-*gate)) * up;
    }
}

/// e to the power of `x` to seven digits, without branches, so that many are computed at once.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// ln 2 in two parts, so that the difference is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 88.0);
    let power = (x * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let rest = x - power * LN_2_HIGH - power * LN_2_LOW;
    let series = 1.0 / 720.0;
    let series = series * rest + 1.0 / 120.0;
    let series = series * rest + 1.0 / 24.0;
    let series = series * rest + 1.0 / 6.0;
    let series = series * rest + 0.5;
    let series = series * rest + 1.0;
    let series = series * rest + 1.0;
    f32::from_bits(((power as i32 + 127) << 23) as u32) * series
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{attend_loop, gated_loop, quantise_loop};
    use crate::quant::Q8_NUMBERS;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn attend_avx2(
        query: &[f32],
        keys: &[f32],
        values: &[f32],
        scores: &mut [f32],
        out: &mut [f32],
    ) {
        attend_loop(query, keys, values, scores, out);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn quantise_avx2(
        row: &[f32],
        bytes: &mut [[i8; Q8_NUMBERS]],
        scales: &mut [f32],
        eighths: &mut [f32],
    ) {
        quantise_loop(row, bytes, scales, eighths);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn gated_avx2(gate: &mut [f32], up: &[f32]) {
        gated_loop(gate, up);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    pub(crate) fn every_isa() -> Vec<Isa> {
        #[cfg(target_arch = "x86_64")]
        return match Isa::here() {
            Isa::Plain => vec![Isa::Plain],
            Isa::Avx2 => vec![Isa::Plain, Isa::Avx2],
            Isa::Vnni => vec![Isa::Plain, Isa::Avx2, Isa::Vnni],
        };
        #[cfg(not(target_arch = "x86_64"))]
        vec![Isa::Plain]
    }

    #[test]
    fn exp_is_exp() {
        for step in -860..=860 {
            let x = step as f32 * 0.1;
            assert!((exp(x) / x.exp() - 1.0).abs() < 2e-6, "{x}: {} {}", exp(x), x.exp());
        }
    }

    #[test]
    fn attention_is_a_weighed_mean() {
        let (size, words) = (40, 7);
        let (query, keys, values) = (numbers(size, 1), numbers(size * words, 2), numbers(size * words, 3));
        let fits = |word: usize| -> f32 {
            let key = &keys[word * size..][..size];
            query.iter().zip(key).map(|(a, b)| a * b).sum::<f32>() / (size as f32).sqrt()
        };
        let weights: Vec<f32> = (0..words).map(|word| fits(word).exp()).collect();
        let sum: f32 = weights.iter().sum();
        for isa in every_isa() {
            let mut out = vec![9.0; size];
            attend(isa, &query, &keys, &values, &mut vec![0.0; words], &mut out);
            for (place, found) in out.iter().enumerate() {
                let expected: f32 =
                    (0..words).map(|word| weights[word] / sum * values[word * size + place]).sum();
                assert!((found - expected).abs() < 1e-5, "{isa:?} {found} {expected}");
            }
        }
    }

    #[test]
    fn rows_are_quantised_alike() {
        let row = numbers(96, 5);
        for isa in every_isa() {
            let (mut bytes, mut scales, mut eighths) = (vec![[0; 32]; 3], vec![0.0; 3], vec![0.0; 3]);
            quantise_row(isa, &row, &mut bytes, &mut scales, &mut eighths);
            for (place, number) in row.iter().enumerate() {
                let back = f32::from(bytes[place / 32][place % 32]) * scales[place / 32];
                assert!((number - back).abs() <= scales[place / 32] * 0.51, "{isa:?} {number} {back}");
            }
            for (block, eighth) in eighths.iter().enumerate() {
                let sum: i32 = bytes[block].iter().map(|byte| i32::from(*byte)).sum();
                assert!((sum as f32 * scales[block] - eighth * 8.0).abs() < 1e-4, "{isa:?} {eighth}");
            }
        }
    }
}
