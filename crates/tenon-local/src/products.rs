//! Products of rows of weights with rows of activations: nearly all of the work of a model.
//!
//! Weights are `Q8_0` or `Q4_1` as they stand in the file; activations are bytes with a scale for every block. Each
//! loop exists in plain Rust and, on x86-64, for two sets of instructions (`simd.rs` looks which there are). All give
//! the same sums up to rounding; a test compares them.

use crate::quant::{Packing, Q4_BYTES, Q8_BYTES, Q8_NUMBERS, from_half};
use crate::simd::Isa;

/// One row of activations as bytes, and a scale for every block of them.
#[derive(Clone, Copy)]
pub(crate) struct Q8Row<'a> {
    pub(crate) bytes: &'a [[i8; Q8_NUMBERS]],
    pub(crate) scales: &'a [f32],
    /// An eighth of the sum of every block, scaled: weights with a least value multiply it. Eight lanes add it up.
    pub(crate) eighths: &'a [f32],
}

/// The products of `R` rows of weights with `N` rows of activations.
#[allow(unsafe_code, reason = "functions for instructions that not every machine has are unsafe to call")]
pub(crate) fn products<const R: usize, const N: usize>(
    isa: Isa,
    packing: Packing,
    weights: [&[u8]; R],
    activations: [Q8Row<'_>; N],
) -> [[f32; N]; R] {
    match (isa, packing) {
        (Isa::Plain, Packing::Eight) => plain(weights, activations, plain_eight),
        (Isa::Plain, Packing::Four) => plain(weights, activations, plain_four),
        // SAFETY: `Isa::here` has found these instructions.
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, Packing::Eight) => unsafe { x86::eight_avx2(weights, activations) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, Packing::Four) => unsafe { x86::four_avx2(weights, activations) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (Isa::Vnni, Packing::Eight) => unsafe { x86::eight_vnni(weights, activations) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (Isa::Vnni, Packing::Four) => unsafe { x86::four_vnni(weights, activations) },
    }
}

fn plain<const R: usize, const N: usize>(
    weights: [&[u8]; R],
    activations: [Q8Row<'_>; N],
    product: fn(&[u8], Q8Row<'_>) -> f32,
) -> [[f32; N]; R] {
    weights.map(|row| activations.map(|activation| product(row, activation)))
}

fn plain_eight(row: &[u8], activation: Q8Row<'_>) -> f32 {
    let blocks = row.chunks_exact(Q8_BYTES).zip(activation.bytes).zip(activation.scales);
    blocks
        .map(|((block, bytes), scale)| {
            let products = block[2..].iter().zip(bytes);
            let sum: i32 = products.map(|(a, b)| i32::from(*a as i8) * i32::from(*b)).sum();
            sum as f32 * half(block, 0) * scale
        })
        .sum()
}

fn plain_four(row: &[u8], activation: Q8Row<'_>) -> f32 {
    let Q8Row { bytes, scales, eighths } = activation;
    let blocks = row.chunks_exact(Q4_BYTES).zip(bytes).zip(scales.iter().zip(eighths));
    blocks
        .map(|((block, bytes), (scale, eighth))| {
            let (first, second) = bytes.split_at(Q8_NUMBERS / 2);
            let pairs = block[4..].iter().zip(first.iter().zip(second));
            let sum: i32 = pairs
                .map(|(two, (a, b))| {
                    i32::from(two & 15) * i32::from(*a) + i32::from(two >> 4) * i32::from(*b)
                })
                .sum();
            sum as f32 * half(block, 0) * scale + half(block, 2) * eighth * 8.0
        })
        .sum()
}

fn half(block: &[u8], at: usize) -> f32 {
    from_half(u16::from_le_bytes([block[at], block[at + 1]]))
}

#[cfg(target_arch = "x86_64")]
#[allow(
    unsafe_code,
    reason = "loads from pointers; each pointer is made from a slice or array of the loaded size"
)]
mod x86 {
    use std::arch::x86_64::*;

    use super::Q8Row;
    use crate::quant::{Q4_BYTES, Q8_BYTES, Q8_NUMBERS};

    /// Where the blocks of `R` rows and `N` columns begin, cut to the same count.
    struct Blocks<'a, const R: usize, const N: usize, const BYTES: usize> {
        weights: [&'a [[u8; BYTES]]; R],
        bytes: [&'a [[i8; Q8_NUMBERS]]; N],
        scales: [&'a [f32]; N],
        eighths: [&'a [f32]; N],
        count: usize,
    }

    impl<'a, const R: usize, const N: usize, const BYTES: usize> Blocks<'a, R, N, BYTES> {
        #[inline(always)]
        fn of(weights: [&'a [u8]; R], activations: [Q8Row<'a>; N]) -> Self {
            let weights = weights.map(|row| row.as_chunks::<BYTES>().0);
            let rows = weights.iter().map(|row| row.len());
            let columns =
                activations.iter().map(|it| it.bytes.len().min(it.scales.len()).min(it.eighths.len()));
            let count = rows.chain(columns).min().unwrap_or(0);
            Blocks {
                weights: weights.map(|row| &row[..count]),
                bytes: activations.map(|it| &it.bytes[..count]),
                scales: activations.map(|it| &it.scales[..count]),
                eighths: activations.map(|it| &it.eighths[..count]),
                count,
            }
        }
    }

    /// Sums of products of bytes, in eight lanes. `$bare` has no signs, which is what the instructions want.
    macro_rules! sums_avx2 {
        ($bare:expr, $signed:expr) => {
            _mm256_madd_epi16(_mm256_maddubs_epi16($bare, $signed), _mm256_set1_epi16(1))
        };
    }
    macro_rules! sums_vnni {
        ($bare:expr, $signed:expr) => {
            _mm256_dpbusd_epi32(_mm256_setzero_si256(), $bare, $signed)
        };
    }

    /// The signs of the weights move to the activations. None of those is -128, so that changes no product.
    macro_rules! eight_bits {
        ($name:ident, $features:literal, $sums:ident) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name<const R: usize, const N: usize>(
                weights: [&[u8]; R],
                activations: [Q8Row<'_>; N],
            ) -> [[f32; N]; R] {
                // Loops, not closures: what a closure does with these instructions is not inlined.
                let blocks = Blocks::<R, N, Q8_BYTES>::of(weights, activations);
                let mut sums = [[_mm256_setzero_ps(); N]; R];
                for block in 0..blocks.count {
                    for row in 0..R {
                        let weight: &[u8; Q8_BYTES] = &blocks.weights[row][block];
                        // SAFETY: 32 of the 34 bytes of a block, after the first two.
                        let signed = unsafe { _mm256_loadu_si256(weight.as_ptr().add(2).cast()) };
                        let bare = _mm256_abs_epi8(signed);
                        let half = i32::from(u16::from_le_bytes([weight[0], weight[1]]));
                        let scale = _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
                        for column in 0..N {
                            let activation: &[i8; Q8_NUMBERS] = &blocks.bytes[column][block];
                            // SAFETY: the 32 bytes of the array.
                            let loaded = unsafe { _mm256_loadu_si256(activation.as_ptr().cast()) };
                            let products = $sums!(bare, _mm256_sign_epi8(loaded, signed));
                            let factor = _mm256_mul_ps(scale, _mm256_set1_ps(blocks.scales[column][block]));
                            sums[row][column] =
                                _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), factor, sums[row][column]);
                        }
                    }
                }
                totals(sums)
            }
        };
    }

    /// Four bits have no sign: what is below zero comes from the least value, which multiplies the sum of the activations.
    macro_rules! four_bits {
        ($name:ident, $features:literal, $sums:ident) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name<const R: usize, const N: usize>(
                weights: [&[u8]; R],
                activations: [Q8Row<'_>; N],
            ) -> [[f32; N]; R] {
                let blocks = Blocks::<R, N, Q4_BYTES>::of(weights, activations);
                let low = _mm256_set1_epi8(15);
                let mut sums = [[_mm256_setzero_ps(); N]; R];
                for block in 0..blocks.count {
                    for row in 0..R {
                        let weight: &[u8; Q4_BYTES] = &blocks.weights[row][block];
                        // SAFETY: 16 of the 20 bytes of a block, after the first four.
                        let pairs = unsafe { _mm_loadu_si128(weight.as_ptr().add(4).cast()) };
                        let both = _mm256_set_m128i(_mm_srli_epi16::<4>(pairs), pairs);
                        let bare = _mm256_and_si256(both, low);
                        let halves = i32::from_le_bytes([weight[0], weight[1], weight[2], weight[3]]);
                        let halves = _mm_cvtph_ps(_mm_cvtsi32_si128(halves));
                        let scale = _mm256_broadcastss_ps(halves);
                        let least = _mm256_broadcastss_ps(_mm_movehdup_ps(halves));
                        for column in 0..N {
                            let activation: &[i8; Q8_NUMBERS] = &blocks.bytes[column][block];
                            // SAFETY: the 32 bytes of the array.
                            let loaded = unsafe { _mm256_loadu_si256(activation.as_ptr().cast()) };
                            let products = $sums!(bare, loaded);
                            let factor = _mm256_mul_ps(scale, _mm256_set1_ps(blocks.scales[column][block]));
                            let eighth = _mm256_set1_ps(blocks.eighths[column][block]);
                            let sum = _mm256_fmadd_ps(least, eighth, sums[row][column]);
                            sums[row][column] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), factor, sum);
                        }
                    }
                }
                totals(sums)
            }
        };
    }

    eight_bits!(eight_avx2, "avx2,fma,f16c", sums_avx2);
    eight_bits!(eight_vnni, "avx2,fma,f16c,avx512vnni,avx512vl", sums_vnni);
    four_bits!(four_avx2, "avx2,fma,f16c", sums_avx2);
    four_bits!(four_vnni, "avx2,fma,f16c,avx512vnni,avx512vl", sums_vnni);

    #[target_feature(enable = "avx2")]
    fn totals<const R: usize, const N: usize>(sums: [[__m256; N]; R]) -> [[f32; N]; R] {
        let mut totals = [[0.0; N]; R];
        for row in 0..R {
            for column in 0..N {
                totals[row][column] = total(sums[row][column]);
            }
        }
        totals
    }

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
    use crate::quant::{dequantise, quantise};
    use crate::simd::tests::{every_isa, numbers};

    /// Bytes, scales and eighths.
    type Activation = (Vec<[i8; 32]>, Vec<f32>, Vec<f32>);

    fn eight(columns: usize, seed: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        quantise(&numbers(columns, seed), &mut bytes);
        bytes
    }

    fn four(columns: usize, seed: u32) -> Vec<u8> {
        let scales = numbers(columns / Q8_NUMBERS * 2, seed);
        let pairs = numbers(columns / 2, seed + 1);
        let blocks = scales.chunks_exact(2).zip(pairs.chunks_exact(Q8_NUMBERS / 2));
        blocks
            .flat_map(|(scales, pairs)| {
                let halves = scales.iter().flat_map(|scale| crate::quant::to_half(*scale).to_le_bytes());
                let pairs = pairs.iter().map(|pair| (pair * 127.0) as i8 as u8);
                halves.chain(pairs).collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn every_set_of_instructions_gives_the_products_of_the_numbers() {
        for (packing, columns) in
            [Packing::Eight, Packing::Four].into_iter().flat_map(|it| [32, 64, 576].map(|size| (it, size)))
        {
            let weights: [Vec<u8>; 2] = [7, 8].map(|seed| match packing {
                Packing::Eight => eight(columns, seed),
                Packing::Four => four(columns, seed),
            });
            let activations: Vec<Activation> = (0..3)
                .map(|row| {
                    let bytes: Vec<i8> =
                        numbers(columns, 90 + row).iter().map(|number| (number * 127.0) as i8).collect();
                    let (bytes, scales) =
                        (bytes.as_chunks::<32>().0.to_vec(), numbers(columns / 32, 50 + row));
                    let sums =
                        bytes.iter().map(|block| block.iter().map(|byte| i32::from(*byte)).sum::<i32>());
                    let eighths = sums.zip(&scales).map(|(sum, scale)| sum as f32 * scale / 8.0).collect();
                    (bytes, scales, eighths)
                })
                .collect();
            let rows: [Q8Row<'_>; 3] = std::array::from_fn(|row| {
                let (bytes, scales, eighths) = &activations[row];
                Q8Row { bytes, scales, eighths }
            });
            let expected = weights.each_ref().map(|weights| {
                let mut row = vec![0.0; columns];
                dequantise(packing.kind(), weights, &mut row);
                rows.map(|it| {
                    let numbers = it.bytes.iter().zip(it.scales);
                    let numbers = numbers
                        .flat_map(|(block, scale)| block.iter().map(move |byte| f32::from(*byte) * scale));
                    row.iter().zip(numbers).map(|(a, b)| a * b).sum::<f32>()
                })
            });
            for isa in every_isa() {
                let found = products(isa, packing, [&weights[0][..], &weights[1][..]], rows);
                for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                    assert!(
                        (found - expected).abs() < 1e-3 * expected.abs().max(10.0),
                        "{isa:?} {packing:?} {found} {expected}"
                    );
                }
            }
        }
    }
}
