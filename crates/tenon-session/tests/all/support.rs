//! A folder with sessions, and short words for what is written into them.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tenon_core::{
    FinishReason, Id, LeftBehind, Message, Origin, Part, Role, ToolCall, ToolResult, TurnJournal, TurnRecord,
    Usage,
};
use tenon_session::{Asked, Head, Place, Recorder, Resumed, SessionFile};

pub const CWD: &str = "/home/someone/project";
pub const ASKED: Asked<'static> = Asked { provider: "openai", model: "m" };

pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new() -> Home {
        Home { folder: TempDir::new().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn place(&self) -> Place {
        Place::of(self.path(), Path::new(CWD))
    }

    pub fn file(&self, number: u8) -> PathBuf {
        self.place().session_file(id(number))
    }

    pub fn create(&self, number: u8) -> SessionFile {
        SessionFile::create(&self.place(), &head(number), recorder()).unwrap()
    }

    pub fn open(&self, number: u8) -> (SessionFile, Resumed) {
        tenon_session::open(&self.place(), &head(number), ASKED, recorder()).unwrap()
    }
}

pub fn id(number: u8) -> Id {
    Id::from_random([number; 16])
}

pub fn head(number: u8) -> Head {
    Head {
        id: id(number),
        created: "2026-08-21T16:16:56.123Z".to_owned(),
        cwd: PathBuf::from(CWD),
        title: format!("Session {number}"),
        version: "0.0.0".to_owned(),
        forked_from: None,
    }
}

pub fn recorder() -> Recorder {
    Recorder {
        providers: vec![("m".into(), "openai".into()), ("other".into(), "anthropic".into())],
        ..Recorder::default()
    }
}

pub fn write(session: &SessionFile, records: impl IntoIterator<Item = TurnRecord>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for record in records {
        runtime.block_on(session.write(record)).unwrap();
    }
}

pub fn user(text: &str) -> TurnRecord {
    TurnRecord::UserMessage {
        message: Message::user(text),
        origin: Origin::Prompt,
        mail: Vec::new(),
        ended: Vec::new(),
    }
}

pub fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

pub fn call(id: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: "tool".into(),
        arguments: r#"{"n":1e2}"#.into(),
        terminal: false,
        native: None,
    })
}

pub fn answer(parts: Vec<Part>) -> TurnRecord {
    answer_of("m", parts)
}

pub fn answer_of(model: &str, parts: Vec<Part>) -> TurnRecord {
    let message = Message { role: Role::Assistant, parts };
    TurnRecord::ModelTurn {
        turn: 1,
        model: model.into(),
        message,
        usage: Usage::default(),
        finish: FinishReason::Stop,
    }
}

pub fn started(id: &str) -> TurnRecord {
    TurnRecord::ToolStarted { turn: 1, call_id: id.into(), name: "tool".into() }
}

pub fn finished(id: &str, content: &str) -> TurnRecord {
    let result = ToolResult {
        call_id: id.into(),
        name: "tool".into(),
        content: content.into(),
        is_error: false,
        media: Vec::new(),
        stored: None,
    };
    TurnRecord::ToolFinished { turn: 1, result, left: LeftBehind::default() }
}

/// A conversation in a few words, one for each part.
pub fn drawn(history: &[Message]) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::Thinking { text, native } => format!("thinking {text} {native:?}"),
        Part::ToolCall(call) => format!("call {}", call.id),
        Part::ToolResult(result) => {
            format!("{}={}", result.call_id, result.content.split(':').next().unwrap_or_default())
        }
        Part::Media(media) => media.mime.clone(),
    };
    let role = |role: Role| if role == Role::User { "user" } else { "model" };
    let message = |message: &Message| {
        let parts: Vec<String> = message.parts.iter().map(part).collect();
        format!("{}: {}", role(message.role), parts.join(", "))
    };
    history.iter().map(message).collect()
}
