//! Reads the header of a GGUF file: what it says about the model, and where its tensors are.
//!
//! The file may come from anywhere. Every count is compared with the bytes that are there before it is
//! believed, so nothing here allocates more than the file is long, and values are read only when asked for.
//! What the numbers of a tensor mean is `quant.rs`' business.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::GgufError;
use crate::quant::Kind;

const MAGIC: &[u8; 4] = b"GGUF";
/// Real files have a few dozen.
const MAX_METADATA: u64 = 4096;
/// Real files have a few hundred, the largest ones a few thousand.
const MAX_TENSORS: u64 = 1 << 16;
const MAX_NAME_BYTES: usize = 256;
const MAX_DIMENSIONS: u32 = 4;
const DEFAULT_ALIGNMENT: u64 = 32;
const MAX_ALIGNMENT: u64 = 1 << 16;
/// Text of a single value that is read at all: chat templates have a few thousand bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// Types of values, as the format numbers them.
mod value_type {
    pub const U8: u32 = 0;
    pub const I8: u32 = 1;
    pub const U16: u32 = 2;
    pub const I16: u32 = 3;
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const TEXT: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const U64: u32 = 10;
    pub const I64: u32 = 11;
    pub const F64: u32 = 12;
}

/// The header of a file; the bytes stay where they are.
#[derive(Debug)]
pub struct Gguf<'a> {
    bytes: &'a [u8],
    version: u32,
    values: HashMap<&'a [u8], Value>,
    /// The metadata as it stands in the file.
    metadata: Range<usize>,
    metadata_count: u64,
    alignment: u64,
    tensors: Vec<Tensor<'a>>,
}

#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    pub name: &'a str,
    /// The innermost first: columns, then rows.
    pub dimensions: Vec<usize>,
    pub kind: Kind,
    /// In the file.
    pub range: Range<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Value {
    kind: u32,
    at: usize,
}

impl<'a> Gguf<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Gguf<'a>, GgufError> {
        let mut reader = Reader { bytes, at: 0 };
        if reader.take(4).ok() != Some(MAGIC.as_slice()) {
            return Err(GgufError::unsupported("it is no GGUF file"));
        }
        let version = reader.u32()?;
        if !(2..=3).contains(&version) {
            return Err(GgufError::unsupported(format!(
                "its GGUF version is {version}; 2 and 3 are supported"
            )));
        }
        let tensor_count = reader.u64()?;
        let metadata_count = reader.u64()?;
        if metadata_count > MAX_METADATA || tensor_count > MAX_TENSORS {
            return Err(GgufError::broken(format!(
                "it claims {metadata_count} values and {tensor_count} tensors; at most {MAX_METADATA} and {MAX_TENSORS} are read"
            )));
        }
        let start = reader.at;
        let mut values = HashMap::new();
        for _ in 0..metadata_count {
            let name = reader.text()?;
            let kind = reader.u32()?;
            values.insert(name, Value { kind, at: reader.at });
            reader.skip_value(kind)?;
        }
        let metadata = start..reader.at;
        let mut file =
            Gguf { bytes, version, values, metadata, metadata_count, alignment: 0, tensors: Vec::new() };
        file.alignment = match file.integer("general.alignment")? {
            None => DEFAULT_ALIGNMENT,
            Some(given) if given.is_power_of_two() && given <= MAX_ALIGNMENT => given,
            Some(given) => {
                return Err(GgufError::broken(format!("its alignment of {given} is not possible")));
            }
        };
        let mut found = Vec::new();
        for _ in 0..tensor_count {
            found.push(reader.tensor_entry()?);
        }
        let data = align_up(reader.at as u64, file.alignment);
        file.tensors =
            found.into_iter().map(|entry| entry.placed(data, bytes.len())).collect::<Result<_, _>>()?;
        Ok(file)
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn version(&self) -> u32 {
        self.version
    }

    /// The metadata as it stands in the file, and how many values that are.
    pub fn metadata(&self) -> (&'a [u8], u64) {
        (&self.bytes[self.metadata.clone()], self.metadata_count)
    }

    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    pub fn tensor(&self, name: &str) -> Option<&Tensor<'a>> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// A whole number that is not negative.
    pub fn integer(&self, name: &str) -> Result<Option<u64>, GgufError> {
        let Some((value, mut reader)) = self.value(name) else { return Ok(None) };
        let number = match value.kind {
            value_type::U8 | value_type::BOOL => reader.array::<1>()?[0].into(),
            value_type::U16 => u16::from_le_bytes(reader.array()?).into(),
            value_type::U32 => reader.u32()?.into(),
            value_type::U64 => reader.u64()?,
            value_type::I32 => not_negative(name, i32::from_le_bytes(reader.array()?).into())?,
            value_type::I64 => not_negative(name, i64::from_le_bytes(reader.array()?))?,
            _ => return Err(wrong_type(name)),
        };
        Ok(Some(number))
    }

    pub fn number(&self, name: &str) -> Result<Option<f32>, GgufError> {
        let Some((value, mut reader)) = self.value(name) else { return Ok(None) };
        let number = match value.kind {
            value_type::F32 => f32::from_le_bytes(reader.array()?),
            value_type::F64 => f64::from_le_bytes(reader.array()?) as f32,
            _ => return self.integer(name).map(|number| number.map(|number| number as f32)),
        };
        if number.is_finite() { Ok(Some(number)) } else { Err(wrong_type(name)) }
    }

    pub fn text(&self, name: &str) -> Result<Option<&'a str>, GgufError> {
        let Some((value, mut reader)) = self.value(name) else { return Ok(None) };
        if value.kind != value_type::TEXT {
            return Err(wrong_type(name));
        }
        let text = reader.text()?;
        if text.len() > MAX_TEXT_BYTES {
            return Err(GgufError::broken(format!("`{name}` has {} bytes", text.len())));
        }
        std::str::from_utf8(text).map(Some).map_err(|_| GgufError::broken(format!("`{name}` is not UTF-8")))
    }

    /// A list of texts, in bytes: tokens need not be UTF-8.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<&'a [u8]>>, GgufError> {
        let Some((count, mut reader)) = self.list(name, value_type::TEXT)? else { return Ok(None) };
        // A text has at least the eight bytes of its length, so this is bounded by the file.
        let mut texts = Vec::with_capacity(count.min(reader.rest() / 8));
        for _ in 0..count {
            texts.push(reader.text()?);
        }
        Ok(Some(texts))
    }

    pub fn integers(&self, name: &str) -> Result<Option<Vec<i32>>, GgufError> {
        let Some((count, mut reader)) = self.list(name, value_type::I32)? else { return Ok(None) };
        (0..count).map(|_| reader.array().map(i32::from_le_bytes)).collect::<Result<_, _>>().map(Some)
    }

    pub fn numbers(&self, name: &str) -> Result<Option<Vec<f32>>, GgufError> {
        let Some((count, mut reader)) = self.list(name, value_type::F32)? else { return Ok(None) };
        (0..count).map(|_| reader.array().map(f32::from_le_bytes)).collect::<Result<_, _>>().map(Some)
    }

    fn list(&self, name: &str, of: u32) -> Result<Option<(usize, Reader<'a>)>, GgufError> {
        let Some((value, mut reader)) = self.value(name) else { return Ok(None) };
        if value.kind != value_type::ARRAY || reader.u32()? != of {
            return Err(wrong_type(name));
        }
        let count = reader.u64()?;
        usize::try_from(count).map(|count| Some((count, reader))).map_err(|_| wrong_type(name))
    }

    fn value(&self, name: &str) -> Option<(Value, Reader<'a>)> {
        let value = *self.values.get(name.as_bytes())?;
        Some((value, Reader { bytes: self.bytes, at: value.at }))
    }
}

fn not_negative(name: &str, number: i64) -> Result<u64, GgufError> {
    u64::try_from(number).map_err(|_| GgufError::broken(format!("`{name}` is negative")))
}

fn wrong_type(name: &str) -> GgufError {
    GgufError::broken(format!("`{name}` has a value of the wrong type"))
}

pub(crate) fn align_up(at: u64, alignment: u64) -> u64 {
    at.div_ceil(alignment).saturating_mul(alignment)
}

/// A tensor whose place is still counted from the start of the data.
struct Entry<'a> {
    name: &'a str,
    dimensions: Vec<usize>,
    kind: Kind,
    offset: u64,
}

impl<'a> Entry<'a> {
    fn placed(self, data: u64, file_bytes: usize) -> Result<Tensor<'a>, GgufError> {
        let Entry { name, dimensions, kind, offset } = self;
        let broken = |what: &str| GgufError::broken(format!("the tensor `{name}` {what}"));
        let numbers = dimensions
            .iter()
            .try_fold(1_usize, |product, size| product.checked_mul(*size))
            .ok_or_else(|| broken("is too large"))?;
        let columns = dimensions.first().copied().unwrap_or(1);
        if columns % kind.block_numbers() != 0 {
            return Err(broken("has rows that are no whole number of blocks"));
        }
        let size = kind.bytes_of(numbers).ok_or_else(|| broken("is too large"))? as u64;
        let start = data.checked_add(offset).ok_or_else(|| broken("is nowhere in the file"))?;
        let end = start.checked_add(size).filter(|end| *end <= file_bytes as u64);
        let end = end.ok_or_else(|| broken("ends behind the end of the file, which is cut off"))?;
        Ok(Tensor { name, dimensions, kind, range: start as usize..end as usize })
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], GgufError> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| GgufError::broken("it ends in the middle of its header"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        self.take(N).map(|bytes| std::array::from_fn(|index| bytes[index]))
    }

    fn u32(&mut self) -> Result<u32, GgufError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, GgufError> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a [u8], GgufError> {
        let length = self.u64()?;
        let length = usize::try_from(length).map_err(|_| GgufError::broken("it holds an endless text"))?;
        self.take(length)
    }

    fn skip_value(&mut self, kind: u32) -> Result<(), GgufError> {
        match kind {
            value_type::TEXT => self.text().map(drop),
            value_type::ARRAY => {
                let of = self.u32()?;
                let count = self.u64()?;
                match fixed_size(of) {
                    Some(size) => {
                        let bytes = count.checked_mul(size).and_then(|bytes| usize::try_from(bytes).ok());
                        let bytes = bytes.ok_or_else(|| GgufError::broken("it holds an endless list"))?;
                        self.take(bytes).map(drop)
                    }
                    None if of == value_type::TEXT => {
                        // Each step takes at least eight bytes, so the file's end ends this.
                        (0..count).try_for_each(|_| self.text().map(drop))
                    }
                    None => Err(GgufError::unsupported("it holds a list of lists")),
                }
            }
            kind => {
                let size = fixed_size(kind);
                let size = size.ok_or_else(|| {
                    GgufError::broken(format!("it holds a value of the unknown type {kind}"))
                })?;
                self.take(size as usize).map(drop)
            }
        }
    }

    fn tensor_entry(&mut self) -> Result<Entry<'a>, GgufError> {
        let name = self.text()?;
        let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= MAX_NAME_BYTES);
        let name = name.ok_or_else(|| GgufError::broken("a tensor's name is not usable"))?;
        let count = self.u32()?;
        if !(1..=MAX_DIMENSIONS).contains(&count) {
            return Err(GgufError::broken(format!("the tensor `{name}` has {count} dimensions")));
        }
        let mut dimensions = Vec::new();
        for _ in 0..count {
            let size = usize::try_from(self.u64()?).ok().filter(|size| *size > 0);
            dimensions.push(
                size.ok_or_else(|| GgufError::broken(format!("the tensor `{name}` has an impossible size")))?,
            );
        }
        let number = self.u32()?;
        let kind = Kind::from_number(number).ok_or_else(|| {
            GgufError::unsupported(format!(
                "the tensor `{name}` is stored in the unsupported format {number}"
            ))
        })?;
        Ok(Entry { name, dimensions, kind, offset: self.u64()? })
    }
}

fn fixed_size(kind: u32) -> Option<u64> {
    match kind {
        value_type::U8 | value_type::I8 | value_type::BOOL => Some(1),
        value_type::U16 | value_type::I16 => Some(2),
        value_type::U32 | value_type::I32 | value_type::F32 => Some(4),
        value_type::U64 | value_type::I64 | value_type::F64 => Some(8),
        _ => None,
    }
}
