//! The inner loops: products of quantised rows, and of rows of plain numbers.
//!
//! Each exists in plain Rust and, on x86-64, for two sets of instructions that are looked for at run time. All
//! give the same sums up to rounding; a test compares them. What is multiplied with what is `forward.rs`'
//! business.

use crate::quant::{Q8_BYTES, Q8_NUMBERS, from_half};

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

/// One row of activations as bytes, and a scale for every block of them.
#[derive(Clone, Copy)]
pub(crate) struct Q8Row<'a> {
    pub(crate) bytes: &'a [[i8; Q8_NUMBERS]],
    pub(crate) scales: &'a [f32],
}

/// The products of `R` rows of weights (`Q8_0` blocks) with `N` rows of activations.
#[allow(unsafe_code, reason = "functions for instructions that not every machine has are unsafe to call")]
pub(crate) fn products<const R: usize, const N: usize>(
    isa: Isa,
    weights: [&[u8]; R],
    activations: [Q8Row<'_>; N],
) -> [[f32; N]; R] {
    match isa {
        Isa::Plain => plain_products(weights, activations),
        // SAFETY: `Isa::here` has found these instructions.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { x86::products_avx2(weights, activations) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Vnni => unsafe { x86::products_vnni(weights, activations) },
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

/// A row of activations as bytes with a scale for every block: each is one of 255 steps.
#[allow(unsafe_code, reason = "functions for instructions that not every machine has are unsafe to call")]
pub(crate) fn quantise_row(isa: Isa, row: &[f32], bytes: &mut [[i8; Q8_NUMBERS]], scales: &mut [f32]) {
    match isa {
        Isa::Plain => quantise_loop(row, bytes, scales),
        // SAFETY: `Isa::here` has found these instructions.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Vnni => unsafe { x86::quantise_avx2(row, bytes, scales) },
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

fn plain_products<const R: usize, const N: usize>(
    weights: [&[u8]; R],
    activations: [Q8Row<'_>; N],
) -> [[f32; N]; R] {
    weights.map(|row| {
        activations.map(|activation| {
            let blocks = row.chunks_exact(Q8_BYTES).zip(activation.bytes).zip(activation.scales);
            blocks
                .map(|((block, bytes), scale)| {
                    let products = block[2..].iter().zip(bytes);
                    let sum: i32 = products.map(|(a, b)| i32::from(*a as i8) * i32::from(*b)).sum();
                    sum as f32 * from_half(u16::from_le_bytes([block[0], block[1]])) * scale
                })
                .sum()
        })
    })
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
fn quantise_loop(row: &[f32], bytes: &mut [[i8; Q8_NUMBERS]], scales: &mut [f32]) {
    let (blocks, _) = row.as_chunks::<Q8_NUMBERS>();
    for ((block, bytes), scale) in blocks.iter().zip(bytes).zip(scales) {
        let largest = block
            .iter()
            .fold(0.0_f32, |largest, number| if number.abs() > largest { number.abs() } else { largest });
        *scale = largest / 127.0;
        let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        for (byte, number) in bytes.iter_mut().zip(block) {
            *byte = ((number * inverse + ROUND) - ROUND) as i32 as i8;
        }
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
#[allow(
    unsafe_code,
    reason = "loads from pointers; each pointer is made from a slice or array of the loaded size"
)]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Q8Row, attend_loop, gated_loop, quantise_loop};
    use crate::quant::{Q8_BYTES, Q8_NUMBERS};

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
    pub(super) fn quantise_avx2(row: &[f32], bytes: &mut [[i8; Q8_NUMBERS]], scales: &mut [f32]) {
        quantise_loop(row, bytes, scales);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn gated_avx2(gate: &mut [f32], up: &[f32]) {
        gated_loop(gate, up);
    }

    /// The instructions that multiply bytes want one side without signs: the signs of the weights move to the
    /// activations. None of those is -128, so that changes no product.
    macro_rules! products {
        ($name:ident, $features:literal, |$bare:ident, $moved:ident| $products:expr) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name<const R: usize, const N: usize>(
                weights: [&[u8]; R],
                activations: [Q8Row<'_>; N],
            ) -> [[f32; N]; R] {
                // Loops, not closures: what a closure does with these instructions is not inlined.
                let mut blocks: [&[[u8; Q8_BYTES]]; R] = [&[]; R];
                let mut bytes: [&[[i8; Q8_NUMBERS]]; N] = [&[]; N];
                let mut scales: [&[f32]; N] = [&[]; N];
                let mut count = usize::MAX;
                for row in 0..R {
                    blocks[row] = weights[row].as_chunks::<Q8_BYTES>().0;
                    count = count.min(blocks[row].len());
                }
                for column in 0..N {
                    count = count.min(activations[column].bytes.len()).min(activations[column].scales.len());
                }
                for row in 0..R {
                    blocks[row] = &blocks[row][..count];
                }
                for column in 0..N {
                    bytes[column] = &activations[column].bytes[..count];
                    scales[column] = &activations[column].scales[..count];
                }
                let mut sums = [[_mm256_setzero_ps(); N]; R];
                for block in 0..count {
                    for row in 0..R {
                        let weight: &[u8; Q8_BYTES] = &blocks[row][block];
                        // SAFETY: 32 of the 34 bytes of a block, after the first two.
                        let signed = unsafe { _mm256_loadu_si256(weight.as_ptr().add(2).cast()) };
                        let bare = _mm256_abs_epi8(signed);
                        let half = i32::from(u16::from_le_bytes([weight[0], weight[1]]));
                        let scale = _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
                        for column in 0..N {
                            let activation: &[i8; Q8_NUMBERS] = &bytes[column][block];
                            // SAFETY: the 32 bytes of the array.
                            let loaded = unsafe { _mm256_loadu_si256(activation.as_ptr().cast()) };
                            let ($bare, $moved) = (bare, _mm256_sign_epi8(loaded, signed));
                            let products = $products;
                            let factor = _mm256_mul_ps(scale, _mm256_set1_ps(scales[column][block]));
                            sums[row][column] =
                                _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), factor, sums[row][column]);
                        }
                    }
                }
                let mut totals = [[0.0; N]; R];
                for row in 0..R {
                    for column in 0..N {
                        totals[row][column] = total(sums[row][column]);
                    }
                }
                totals
            }
        };
    }

    products!(products_avx2, "avx2,fma,f16c", |bare, moved| _mm256_madd_epi16(
        _mm256_maddubs_epi16(bare, moved),
        _mm256_set1_epi16(1)
    ));
    products!(products_vnni, "avx2,fma,f16c,avx512vnni,avx512vl", |bare, moved| _mm256_dpbusd_epi32(
        _mm256_setzero_si256(),
        bare,
        moved
    ));

    #[target_feature(enable = "avx2")]
    fn total(sum: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::quantise;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    fn every_isa() -> Vec<Isa> {
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
    fn every_set_of_instructions_gives_the_same_products() {
        for columns in [32, 64, 576] {
            let weights: Vec<Vec<u8>> = (0..2)
                .map(|row| {
                    let mut bytes = Vec::new();
                    quantise(&numbers(columns, 7 + row), &mut bytes);
                    bytes
                })
                .collect();
            let activations: Vec<(Vec<[i8; 32]>, Vec<f32>)> = (0..3)
                .map(|row| {
                    let bytes = numbers(columns, 90 + row)
                        .iter()
                        .map(|number| (number * 127.0) as i8)
                        .collect::<Vec<_>>();
                    (bytes.as_chunks::<32>().0.to_vec(), numbers(columns / 32, 50 + row))
                })
                .collect();
            let rows: [Q8Row<'_>; 3] =
                std::array::from_fn(|row| Q8Row { bytes: &activations[row].0, scales: &activations[row].1 });
            let expected = plain_products([&weights[0], &weights[1]], rows);
            for isa in every_isa() {
                let found = products(isa, [&weights[0][..], &weights[1][..]], rows);
                for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                    assert!(
                        (found - expected).abs() < 1e-3 * expected.abs().max(1.0),
                        "{isa:?} {found} {expected}"
                    );
                }
            }
        }
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
            let (mut bytes, mut scales) = (vec![[0; 32]; 3], vec![0.0; 3]);
            quantise_row(isa, &row, &mut bytes, &mut scales);
            for (place, number) in row.iter().enumerate() {
                let back = f32::from(bytes[place / 32][place % 32]) * scales[place / 32];
                assert!((number - back).abs() <= scales[place / 32] * 0.51, "{isa:?} {number} {back}");
            }
        }
    }
}
