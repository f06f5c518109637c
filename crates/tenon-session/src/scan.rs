//! Reads a session file: which lines still matter, which are broken, and where the last whole record ends.
//!
//! A file may be large and most of it long summed up, so only what follows the last compaction is read into
//! values. What the records mean for the conversation is decided in `resume.rs`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use crate::record::{COMPACTED_START, ReadHead, Record, read, read_head};

/// Large enough that the system calls do not count.
const BUFFER: usize = 256 * 1024;

/// What there is in a file.
pub(crate) struct Scan {
    pub(crate) head: Option<ReadHead>,
    /// Where the lines begin that were read: the last compaction, else the file.
    pub(crate) from: u64,
    /// Lines in the middle that are no records.
    pub(crate) broken: usize,
    /// Where the last whole record ends.
    pub(crate) end: u64,
    /// How much half-written stands after it.
    pub(crate) torn: u64,
    pub(crate) last_line: LastLine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLine {
    Ended,
    /// A whole record, cut just before the end of its line.
    WithoutItsEnd,
}

/// Hands the records that matter to `each`, in their order. `Compacted` comes first if at all.
pub(crate) fn scan(file: &File, mut each: impl FnMut(Record)) -> io::Result<Scan> {
    let mut compactions = compactions(file)?;
    // The last one that can be read; a broken one is as good as none.
    loop {
        let from = compactions.pop().unwrap_or(0);
        let is_whole = from == 0 || {
            let mut line = Vec::new();
            reader_at(file, from)?.read_until(b'\n', &mut line)?;
            matches!(read(&line), Ok(Record::Compacted { .. }))
        };
        if is_whole {
            return scan_from(file, from, &mut each);
        }
    }
}

fn scan_from(file: &File, from: u64, each: &mut impl FnMut(Record)) -> io::Result<Scan> {
    let mut line = Vec::new();
    let head = match from {
        0 => None,
        _ => {
            reader_at(file, 0)?.read_until(b'\n', &mut line)?;
            read_head(&line)
        }
    };
    let mut scan = Scan { head, from, broken: 0, end: from, torn: 0, last_line: LastLine::Ended };
    let mut reader = reader_at(file, from)?;
    let mut at = from;
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)? as u64;
        if length == 0 {
            return Ok(scan);
        }
        if at == 0 {
            scan.head = read_head(&line);
        }
        at += length;
        let ended = line.last() == Some(&b'\n');
        match read(&line) {
            Ok(record) => {
                each(record);
                scan.end = at;
                scan.last_line = if ended { LastLine::Ended } else { LastLine::WithoutItsEnd };
            }
            Err(_) if !ended => scan.torn = length,
            Err(_) => {
                // An empty line is what a repair may leave.
                scan.broken += usize::from(!line.trim_ascii().is_empty());
                scan.end = at;
            }
        }
    }
}

fn reader_at(mut file: &File, at: u64) -> io::Result<BufReader<&File>> {
    file.seek(SeekFrom::Start(at))?;
    Ok(BufReader::with_capacity(BUFFER, file))
}

/// Where the lines of compactions begin, without reading any line into memory.
fn compactions(file: &File) -> io::Result<Vec<u64>> {
    let mut reader = reader_at(file, 0)?;
    let mut found = Vec::new();
    let mut start = Vec::with_capacity(COMPACTED_START.len());
    let mut at = 0;
    loop {
        start.clear();
        let length = (&mut reader).take(COMPACTED_START.len() as u64).read_until(b'\n', &mut start)?;
        if length == 0 {
            return Ok(found);
        }
        if start == COMPACTED_START {
            found.push(at);
        }
        let rest = if start.ends_with(b"\n") { 0 } else { reader.skip_until(b'\n')? };
        at += (length + rest) as u64;
    }
}
