//! A session that has gone on for long: most of it summed up, a little of it still sent to the model.

use std::path::Path;

use tenon_core::{FinishReason, Id, Message, Origin, Part, Role, Timestamp, TurnJournal, TurnRecord, Usage};
use tenon_session::{Head, Place, Recorder, SessionFile};

use crate::Failure;

const TURN_BYTES: usize = 50_000;

/// Writes a session of about so many bytes for this folder, and says its id.
pub fn write(tenon_home: &Path, cwd: &Path, bytes: usize) -> Result<Id, Failure> {
    let id = Id::from_random([7; 16]);
    let head = Head {
        id,
        created: Timestamp::now().to_iso8601(),
        cwd: cwd.to_path_buf(),
        title: "A long one".to_owned(),
        version: "0".to_owned(),
        forked_from: None,
    };
    let session = SessionFile::create(&Place::of(tenon_home, cwd), &head, Recorder::default())
        .map_err(|error| Failure::other(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let write = |record| runtime.block_on(session.write(record));
    // Text with quotes and line ends, as tools give it.
    let words = "fn main() {\n    println!(\"hello\");\n}\n".repeat(TURN_BYTES / 38);
    for turn in 0..u32::try_from(bytes / TURN_BYTES / 2).unwrap_or(u32::MAX) {
        write(TurnRecord::UserMessage {
            message: Message::user(&words),
            origin: Origin::Prompt,
            mail: Vec::new(),
            ended: Vec::new(),
        })?;
        let message = Message { role: Role::Assistant, parts: vec![Part::Text { text: words.clone() }] };
        write(TurnRecord::ModelTurn {
            turn,
            model: "m".to_owned(),
            message,
            usage: Usage::default(),
            finish: FinishReason::Stop,
        })?;
    }
    let messages = vec![Message::user("What was said so far, in short.")];
    write(TurnRecord::Compacted { messages, before_tokens: 200_000, after_tokens: 10 })?;
    Ok(id)
}
