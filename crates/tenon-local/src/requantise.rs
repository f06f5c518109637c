//! Turns a model file into one whose matrices are all in a format that is computed with. The rest of the file stays as
//! it is, byte by byte.
//!
//! Done once for a file; the result is kept beside it or in the cache (`store.rs`).

use std::fs::File;
use std::io::{self, BufWriter, Write};

use crate::gguf::{Gguf, align_up};
use crate::quant::{Kind, Packing, dequantise, quantise, repack_four};

/// Numbers that are converted at a time.
const STEP: usize = 1 << 16;

/// How large the converted file will be.
pub(crate) fn converted_bytes(file: &Gguf<'_>) -> u64 {
    let (metadata, _) = file.metadata();
    let tensors = file.tensors().iter().map(|tensor| {
        let numbers: usize = tensor.dimensions.iter().product();
        let size = target(tensor.kind, &tensor.dimensions).bytes_of(numbers).unwrap_or(usize::MAX);
        align_up(size as u64, file.alignment()) + 64 + tensor.name.len() as u64
    });
    tensors.fold(metadata.len() as u64 + 64, u64::saturating_add)
}

/// `go_on` is asked now and then; when it says no, the file is left unfinished and the error is `Interrupted`.
pub(crate) fn requantise(file: &Gguf<'_>, out: &File, go_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let (metadata, count) = file.metadata();
    let mut head = Vec::new();
    head.extend_from_slice(b"GGUF");
    head.extend_from_slice(&file.version().to_le_bytes());
    head.extend_from_slice(&(file.tensors().len() as u64).to_le_bytes());
    head.extend_from_slice(&count.to_le_bytes());
    head.extend_from_slice(metadata);
    let mut offset = 0_u64;
    for tensor in file.tensors() {
        let kind = target(tensor.kind, &tensor.dimensions);
        head.extend_from_slice(&(tensor.name.len() as u64).to_le_bytes());
        head.extend_from_slice(tensor.name.as_bytes());
        head.extend_from_slice(&(tensor.dimensions.len() as u32).to_le_bytes());
        for size in &tensor.dimensions {
            head.extend_from_slice(&(*size as u64).to_le_bytes());
        }
        head.extend_from_slice(&kind.number().to_le_bytes());
        head.extend_from_slice(&offset.to_le_bytes());
        let numbers: usize = tensor.dimensions.iter().product();
        let size = kind.bytes_of(numbers).ok_or(io::ErrorKind::InvalidData)? as u64;
        offset = align_up(offset + size, file.alignment());
    }
    let start = align_up(head.len() as u64, file.alignment());
    head.resize(start as usize, 0);
    out.write_all(&head)?;
    let mut numbers = vec![0.0; STEP];
    let mut blocks = Vec::new();
    for tensor in file.tensors() {
        let bytes = &file.bytes()[tensor.range.clone()];
        let kind = target(tensor.kind, &tensor.dimensions);
        let mut written = 0;
        if kind == tensor.kind {
            out.write_all(bytes)?;
            written = bytes.len();
        } else {
            for bytes in bytes.chunks(STEP / tensor.kind.block_numbers() * tensor.kind.block_bytes()) {
                if !go_on() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                blocks.clear();
                if kind == Kind::Q4_1 {
                    repack_four(tensor.kind, bytes, &mut blocks);
                } else {
                    let count = bytes.len() / tensor.kind.block_bytes() * tensor.kind.block_numbers();
                    dequantise(tensor.kind, bytes, &mut numbers[..count]);
                    quantise(&numbers[..count], &mut blocks);
                }
                out.write_all(&blocks)?;
                written += blocks.len();
            }
        }
        let padding = align_up(written as u64, file.alignment()) as usize - written;
        out.write_all(&vec![0; padding])?;
    }
    out.flush()
}

/// Matrices whose rows are whole blocks are converted; what is left is small.
fn target(kind: Kind, dimensions: &[usize]) -> Kind {
    let best = Packing::best_for(kind).kind();
    let whole = dimensions.len() > 1 && dimensions[0].is_multiple_of(best.block_numbers());
    if whole { best } else { kind }
}
