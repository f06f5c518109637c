//! How the numbers of a tensor are stored, and how they are read: the block formats of GGUF files.
//!
//! The forward pass works on two of them: `Q8_0`, 32 numbers as signed bytes and one scale, and `Q4_1`, 32 numbers of
//! four bits, a scale and a least value. The others are turned into one of these once (`requantise.rs`).

/// Numbers in a block of `Q8_0`.
pub const Q8_NUMBERS: usize = 32;
/// A scale in half precision, then the numbers.
pub const Q8_BYTES: usize = 2 + Q8_NUMBERS;
/// A scale and a least value in half precision, then pairs of numbers.
pub const Q4_BYTES: usize = 4 + Q8_NUMBERS / 2;
/// Numbers in a block of the formats with scales of scales.
const SUPER_NUMBERS: usize = 256;

/// A format. The names are those of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

impl Kind {
    pub fn from_number(number: u32) -> Option<Kind> {
        Some(match number {
            0 => Kind::F32,
            1 => Kind::F16,
            2 => Kind::Q4_0,
            3 => Kind::Q4_1,
            6 => Kind::Q5_0,
            7 => Kind::Q5_1,
            8 => Kind::Q8_0,
            12 => Kind::Q4K,
            13 => Kind::Q5K,
            14 => Kind::Q6K,
            30 => Kind::Bf16,
            _ => return None,
        })
    }

    pub fn number(self) -> u32 {
        match self {
            Kind::F32 => 0,
            Kind::F16 => 1,
            Kind::Q4_0 => 2,
            Kind::Q4_1 => 3,
            Kind::Q5_0 => 6,
            Kind::Q5_1 => 7,
            Kind::Q8_0 => 8,
            Kind::Q4K => 12,
            Kind::Q5K => 13,
            Kind::Q6K => 14,
            Kind::Bf16 => 30,
        }
    }

    pub fn block_numbers(self) -> usize {
        match self {
            Kind::F32 | Kind::F16 | Kind::Bf16 => 1,
            Kind::Q4_0 | Kind::Q4_1 | Kind::Q5_0 | Kind::Q5_1 | Kind::Q8_0 => Q8_NUMBERS,
            Kind::Q4K | Kind::Q5K | Kind::Q6K => SUPER_NUMBERS,
        }
    }

    pub fn block_bytes(self) -> usize {
        match self {
            Kind::F32 => 4,
            Kind::F16 | Kind::Bf16 => 2,
            Kind::Q4_0 => 18,
            Kind::Q4_1 => Q4_BYTES,
            Kind::Q5_0 => 22,
            Kind::Q5_1 => 24,
            Kind::Q8_0 => Q8_BYTES,
            Kind::Q4K => 144,
            Kind::Q5K => 176,
            Kind::Q6K => 210,
        }
    }

    /// `None` where that is more than can be counted.
    pub fn bytes_of(self, numbers: usize) -> Option<usize> {
        (numbers / self.block_numbers()).checked_mul(self.block_bytes())
    }
}

/// A format that is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Eight,
    Four,
}

impl Packing {
    pub(crate) fn of(kind: Kind) -> Option<Packing> {
        match kind {
            Kind::Q8_0 => Some(Packing::Eight),
            Kind::Q4_1 => Some(Packing::Four),
            _ => None,
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Packing::Eight => Kind::Q8_0,
            Packing::Four => Kind::Q4_1,
        }
    }

    /// What numbers of another format are turned into: as few bits as hold what they say.
    pub(crate) fn best_for(kind: Kind) -> Packing {
        match kind {
            Kind::Q4_0 | Kind::Q4_1 | Kind::Q4K => Packing::Four,
            _ => Packing::Eight,
        }
    }
}

/// Reads whole blocks. `out` has room for exactly the numbers in `bytes`.
pub fn dequantise(kind: Kind, bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.chunks_exact(kind.block_bytes()).zip(out.chunks_exact_mut(kind.block_numbers()));
    for (block, out) in blocks {
        match kind {
            Kind::F32 => out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
            Kind::F16 => out[0] = half(block, 0),
            Kind::Bf16 => out[0] = f32::from_bits(u32::from(u16::from_le_bytes([block[0], block[1]])) << 16),
            Kind::Q4_0 => four_bits(half(block, 0), -8.0 * half(block, 0), &block[2..], out),
            Kind::Q4_1 => four_bits(half(block, 0), half(block, 2), &block[4..], out),
            Kind::Q5_0 => five_bits(half(block, 0), -16.0 * half(block, 0), &block[2..], out),
            Kind::Q5_1 => five_bits(half(block, 0), half(block, 2), &block[4..], out),
            Kind::Q8_0 => {
                let scale = half(block, 0);
                for (number, byte) in out.iter_mut().zip(&block[2..]) {
                    *number = scale * f32::from(*byte as i8);
                }
            }
            Kind::Q4K => super_blocks(block, None, &block[16..], out),
            Kind::Q5K => super_blocks(block, Some(&block[16..48]), &block[48..], out),
            Kind::Q6K => six_bits(block, out),
        }
    }
}

/// Writes `Q8_0`. `numbers` is a whole number of blocks.
pub fn quantise(numbers: &[f32], out: &mut Vec<u8>) {
    for block in numbers.chunks_exact(Q8_NUMBERS) {
        let largest = block.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let scale = largest / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        out.extend_from_slice(&to_half(scale).to_le_bytes());
        out.extend(block.iter().map(|number| (number * inverse).round() as i8 as u8));
    }
}

/// Writes `Q4_1` from whole blocks of a format with four bits. The numbers of four bits stay what they are.
pub(crate) fn repack_four(kind: Kind, bytes: &[u8], out: &mut Vec<u8>) {
    let mut block_of = |scale: f32, least: f32, pairs: &mut dyn Iterator<Item = u8>| {
        out.extend_from_slice(&to_half(scale).to_le_bytes());
        out.extend_from_slice(&to_half(least).to_le_bytes());
        out.extend(pairs);
    };
    for block in bytes.chunks_exact(kind.block_bytes()) {
        if kind == Kind::Q4_0 {
            block_of(half(block, 0), -8.0 * half(block, 0), &mut block[2..].iter().copied());
            continue;
        }
        for group in 0..SUPER_NUMBERS / Q8_NUMBERS {
            let (factor, offset) = super_scales(block, group);
            let numbers = &block[16 + group / 2 * 32..][..32];
            let shift = group % 2 * 4;
            let number = |index: usize| numbers[index] >> shift & 15;
            block_of(factor, -offset, &mut (0..16).map(|index| number(index) | number(index + 16) << 4));
        }
    }
}

fn four_bits(scale: f32, least: f32, bits: &[u8], out: &mut [f32]) {
    for (index, byte) in bits.iter().enumerate() {
        out[index] = f32::from(byte & 15) * scale + least;
        out[index + 16] = f32::from(byte >> 4) * scale + least;
    }
}

fn five_bits(scale: f32, least: f32, rest: &[u8], out: &mut [f32]) {
    let high = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
    for (index, byte) in rest[4..].iter().enumerate() {
        let first = (high >> index & 1) as u8;
        let second = (high >> (index + 16) & 1) as u8;
        out[index] = f32::from(byte & 15 | first << 4) * scale + least;
        out[index + 16] = f32::from(byte >> 4 | second << 4) * scale + least;
    }
}

/// Eight groups of 32 numbers, each with a scale and a least value of six bits.
fn super_blocks(block: &[u8], high: Option<&[u8]>, bits: &[u8], out: &mut [f32]) {
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let (factor, offset) = super_scales(block, group);
        let bytes = &bits[group / 2 * 32..][..32];
        for (index, number) in out.iter_mut().enumerate() {
            let low = if group % 2 == 0 { bytes[index] & 15 } else { bytes[index] >> 4 };
            let fifth = high.map_or(0, |high| (high[index] >> group & 1) << 4);
            *number = factor * f32::from(low | fifth) - offset;
        }
    }
}

fn super_scales(block: &[u8], group: usize) -> (f32, f32) {
    let (factor, offset) = six_bit_pair(&block[4..16], group);
    (half(block, 0) * f32::from(factor), half(block, 2) * f32::from(offset))
}

fn six_bit_pair(packed: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        (
            packed[group + 4] & 15 | packed[group - 4] >> 6 << 4,
            packed[group + 4] >> 4 | packed[group] >> 6 << 4,
        )
    }
}

/// Sixteen groups of 16 numbers, each with a scale of eight bits.
fn six_bits(block: &[u8], out: &mut [f32]) {
    let scale = half(block, 208);
    for (part, out) in out.chunks_exact_mut(128).enumerate() {
        let low = &block[part * 64..][..64];
        let high = &block[128 + part * 32..][..32];
        let scales = &block[192 + part * 8..][..8];
        for (index, number) in out.iter_mut().enumerate() {
            let (quarter, place) = (index / 32, index % 32);
            let byte = low[place + 32 * (quarter % 2)];
            let four = if quarter < 2 { byte & 15 } else { byte >> 4 };
            let two = high[place] >> (2 * quarter) & 3;
            let value = i16::from(four | two << 4) - 32;
            *number = scale * f32::from(scales[index / 16] as i8) * f32::from(value);
        }
    }
}

fn half(block: &[u8], at: usize) -> f32 {
    from_half(u16::from_le_bytes([block[at], block[at + 1]]))
}

pub(crate) fn from_half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    // Shifted into place, the exponent is too small by 112; a multiplication also puts right what is subnormal.
    let value = match magnitude {
        0x7c00.. => f32::from_bits(magnitude << 13 | 0x7f80_0000),
        _ => f32::from_bits(magnitude << 13) * f32::from_bits(239 << 23),
    };
    f32::from_bits(value.to_bits() | sign)
}

/// Rounds to nearest; too large a value becomes infinite.
pub(crate) fn to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = f32::from_bits(bits & 0x7fff_ffff);
    if magnitude.is_nan() {
        return sign | 0x7e00;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    // 2^-14 is the least normal number: below it, steps are 2^-24 wide.
    if magnitude < 6.103_515_6e-5 {
        return sign | (magnitude * 16_777_216.0).round_ties_even() as u16;
    }
    let bits = magnitude.to_bits();
    let rounded = bits + 0x0fff + (bits >> 13 & 1);
    sign | ((rounded >> 13) - (112 << 10)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_goes_there_and_back() {
        for bits in 0..=u16::MAX {
            let value = from_half(bits);
            if value.is_nan() {
                assert!(from_half(to_half(value)).is_nan());
            } else {
                assert_eq!(to_half(value), bits, "{value}");
            }
        }
    }

    #[test]
    fn known_halves() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(from_half(bits), value);
        }
        assert_eq!(to_half(1e9), 0x7c00);
        assert_eq!(to_half(1.0 + 0.000_488_281_25), 0x3c00, "a tie goes to the even one");
    }

    /// What the reference implementation gives for these blocks, worked out by hand from the format's description.
    #[test]
    fn every_format_is_read_as_described() {
        let read = |kind: Kind, bytes: Vec<u8>| {
            let mut out = vec![0.0; kind.block_numbers()];
            assert_eq!(bytes.len(), kind.block_bytes(), "{kind:?}");
            dequantise(kind, &bytes, &mut out);
            out
        };
        let one = [0x00, 0x3c];
        let two = [0x00, 0x40];
        let q4_0 = read(Kind::Q4_0, [&one[..], &[0xf0; 16]].concat());
        assert_eq!((q4_0[0], q4_0[16]), (-8.0, 7.0));
        let q4_1 = read(Kind::Q4_1, [&one[..], &two, &[0x31; 16]].concat());
        assert_eq!((q4_1[0], q4_1[31]), (3.0, 5.0));
        let q5_0 = read(Kind::Q5_0, [&one[..], &[1, 0, 0, 0x80], &[0x21; 16]].concat());
        assert_eq!((q5_0[0], q5_0[1], q5_0[16], q5_0[31]), (1.0, -15.0, -14.0, 2.0));
        let q5_1 = read(Kind::Q5_1, [&one[..], &two, &[1, 0, 0, 0x80], &[0x21; 16]].concat());
        assert_eq!((q5_1[0], q5_1[1], q5_1[31]), (19.0, 3.0, 20.0));
        let q8_0 = read(Kind::Q8_0, [&two[..], &[0xff; 32]].concat());
        assert_eq!(q8_0[7], -2.0);
        assert_eq!(read(Kind::Bf16, vec![0x80, 0x3f])[0], 1.0);

        let mut scales = [0_u8; 12];
        scales[0] = 3;
        scales[4] = 5;
        scales[8] = 0x21;
        scales[3] = 0x40;
        let q4k = read(Kind::Q4K, [&one[..], &two, &scales, &[0x74; 128]].concat());
        assert_eq!(q4k[0], 3.0 * 4.0 - 2.0 * 5.0);
        // Group 4: scale 1 in the low nibble of byte 8, offset 2 in the high one.
        assert_eq!(q4k[128], 4.0 - 2.0 * 2.0);
        // Group 7: the upper bits of its scale stand in byte 3.
        assert_eq!(q4k[224], 16.0 * 7.0);
        let mut high = [0_u8; 32];
        high[0] = 1;
        let q5k = read(Kind::Q5K, [&one[..], &two, &scales, &high, &[0x74; 128]].concat());
        assert_eq!((q5k[0], q5k[1]), (3.0 * 20.0 - 10.0, 3.0 * 4.0 - 10.0));

        let mut group_scales = [0_u8; 16];
        group_scales[0] = 2;
        group_scales[4] = 0xff;
        let q6k = read(Kind::Q6K, [&[0x93; 128][..], &[0b1110_0100; 64], &group_scales, &one].concat());
        assert_eq!(q6k[0], 2.0 * (3.0 - 32.0));
        // The third quarter: the upper nibble, with the bits `10` above it.
        assert_eq!(q6k[64], -(f32::from(0x29_u8) - 32.0));
    }

    #[test]
    fn four_bits_are_repacked_as_they_are() {
        for kind in [Kind::Q4_0, Kind::Q4K] {
            // Any bytes are numbers; the scales are made small ones.
            let mut bytes: Vec<u8> = (0..3 * kind.block_bytes()).map(|at| (at * 89 + 31) as u8).collect();
            for block in bytes.chunks_exact_mut(kind.block_bytes()) {
                block[..4].copy_from_slice(&[0x11, 0x2c, 0x33, 0x28]);
            }
            let numbers = 3 * kind.block_numbers();
            let (mut was, mut is, mut packed) = (vec![0.0; numbers], vec![0.0; numbers], Vec::new());
            dequantise(kind, &bytes, &mut was);
            repack_four(kind, &bytes, &mut packed);
            assert_eq!(Some(packed.len()), Kind::Q4_1.bytes_of(numbers));
            dequantise(Kind::Q4_1, &packed, &mut is);
            let largest = was.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
            for (was, is) in was.iter().zip(&is) {
                assert!((was - is).abs() <= largest / 1000.0, "{kind:?} {was} {is}");
            }
        }
    }

    #[test]
    fn what_is_quantised_is_nearly_what_was_there() {
        let numbers: Vec<f32> = (0..64).map(|index| (index as f32 * 0.37).sin() * 3.0).collect();
        let mut bytes = Vec::new();
        quantise(&numbers, &mut bytes);
        let mut back = vec![0.0; 64];
        dequantise(Kind::Q8_0, &bytes, &mut back);
        for (was, is) in numbers.iter().zip(&back) {
            assert!((was - is).abs() <= 3.0 / 127.0, "{was} {is}");
        }
    }
}
