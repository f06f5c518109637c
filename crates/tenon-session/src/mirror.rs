//! A session that somebody else keeps as well: told what is written, record by record, and brought back here from
//! their copy. Whoever keeps it may have written its JSON anew; the records are the same.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use tenon_core::{Id, Secrets};

use crate::lock::{Refused, Writer};
use crate::record::{DEGRADED, Head, RUN_FINISHED, kind_of, read_head};
use crate::session_file::{create_new, mark};
use crate::{Place, SessionError};

/// Told every record, without the end of its line.
#[derive(Clone)]
pub struct Mirror(Arc<Tell>);

type Tell = dyn Fn(&[u8]) + Send + Sync;

impl Mirror {
    pub fn new(tell: impl Fn(&[u8]) + Send + Sync + 'static) -> Mirror {
        Mirror(Arc::new(tell))
    }

    /// Lines as they were written.
    pub(crate) fn tell(&self, lines: &[u8]) {
        lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(|line| (self.0)(line));
    }

    /// A whole file, for a session that began as a copy.
    pub(crate) fn tell_all(&self, path: &Path) -> io::Result<()> {
        for line in BufReader::new(File::open(path)?).split(b'\n') {
            self.tell(&line?);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mirror")
    }
}

/// Brings a session back from a copy of it, unless what is here is as long or longer.
pub fn adopt(place: &Place, id: Id, copy: &Path) -> Result<(), SessionError> {
    let unreadable = |error: io::Error| SessionError::Unreadable { path: copy.to_path_buf(), error };
    let theirs = read_copy(copy, id).map_err(unreadable)?;
    let path = place.session_file(id);
    let unwritable = |error: io::Error| SessionError::Unwritable { path: path.clone(), error };
    let _writer = match File::options().read(true).append(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(unwritable(error)),
        Ok(ours) => {
            let writer = Writer::take(&ours, &path).map_err(|refused| match refused {
                Refused::InUse(pid) => SessionError::InUse { id, pid },
                Refused::Gone => SessionError::Missing { id },
            })?;
            if conversation_in(&ours).map_err(unwritable)? >= theirs.conversation() {
                return Ok(());
            }
            Some((writer, ours))
        }
    };
    write_copy(&theirs, &path).map_err(unwritable)
}

struct TheirCopy {
    head: Head,
    recording_complete: bool,
    /// Without the first one.
    records: Vec<Value>,
}

impl TheirCopy {
    fn conversation(&self) -> usize {
        self.records.iter().filter(|record| record["type"] != RUN_FINISHED).count()
    }
}

/// How many records of a file, but for the first, are part of the conversation. How runs ended is not, and nobody
/// is told of it: the last line for the client is written by then.
fn conversation_in(file: &File) -> io::Result<usize> {
    let mut count = 0;
    for line in BufReader::new(file).split(b'\n').skip(1) {
        if kind_of(&line?).is_some_and(|kind| kind != RUN_FINISHED) {
            count += 1;
        }
    }
    Ok(count)
}

fn read_copy(copy: &Path, id: Id) -> io::Result<TheirCopy> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut lines = BufReader::new(File::open(copy)?).split(b'\n');
    let first = lines.next().ok_or_else(|| invalid("it is empty"))??;
    let head = read_head(&first).filter(|read| read.head.id == id);
    let head = head.ok_or_else(|| invalid("it is no session that tenon has written"))?;
    let mut records = Vec::new();
    for line in lines {
        let line = line?;
        match serde_json::from_slice(&line) {
            Ok(record) => records.push(record),
            Err(_) if line.is_empty() => {}
            Err(_) => return Err(invalid("a line of it is not JSON")),
        }
    }
    Ok(TheirCopy { head: head.head, recording_complete: head.recording_complete, records })
}

/// Complete under its name, or not there.
fn write_copy(copy: &TheirCopy, path: &Path) -> io::Result<()> {
    let unfinished = path.with_extension("jsonl.new");
    let written = (|| {
        let mut file = create_new(&unfinished)?;
        // What was hidden once is not there any more.
        let mut text = copy.head.line(&Secrets::default());
        for record in &copy.records {
            text.extend_from_slice(type_first(record).to_string().as_bytes());
            text.push(b'\n');
        }
        file.write_all(&text)?;
        file.sync_data()?;
        if !copy.recording_complete {
            mark(&unfinished, DEGRADED)?;
        }
        std::fs::rename(&unfinished, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

/// Records are found by how their lines begin.
fn type_first(record: &Value) -> Value {
    let Value::Object(fields) = record else { return record.clone() };
    let kind = fields.get_key_value("type");
    let rest = fields.iter().filter(|(name, _)| *name != "type");
    let fields: Map<String, Value> =
        kind.into_iter().chain(rest).map(|(name, value)| (name.clone(), value.clone())).collect();
    Value::Object(fields)
}
