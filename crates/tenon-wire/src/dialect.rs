//! Which dialects there are, and how to get an encoder or a schema of one.

use serde_json::Value;
use tenon_core::{Event, Id};

use crate::{gemini, input, openai, qwen};

/// The version of the wire formats, in the first line of every run and in the published schemas. It
/// grows when a field changes its meaning or goes away, not when one is added.
pub const SCHEMA_VERSION: u32 = 1;

/// An encoder for one run, or for one run after the other in one session.
pub fn encoder(dialect: Dialect, options: EncoderOptions) -> Box<dyn Encoder> {
    match dialect {
        Dialect::Qwen => Box::new(qwen::QwenEncoder::new(options, qwen::Flavour::Qwen)),
        Dialect::Claude => Box::new(qwen::QwenEncoder::new(options, qwen::Flavour::Claude)),
        Dialect::Gemini => Box::new(gemini::GeminiEncoder::new(options)),
        Dialect::OpenAi => Box::new(openai::OpenAiEncoder::new(options)),
    }
}

/// JSON Schema (2020-12) of what a dialect writes: any line, or the document of the `json` format.
pub fn published_schema(dialect: Dialect) -> Value {
    match dialect {
        Dialect::Qwen => qwen::published_schema(),
        Dialect::Claude => qwen::claude_schema(),
        Dialect::Gemini => gemini::published_schema(),
        Dialect::OpenAi => openai::published_schema(),
    }
}

/// JSON Schema (2020-12) of a client's lines; `None` for the dialect that reads none.
pub fn published_input_schema(dialect: Dialect) -> Option<Value> {
    match dialect {
        Dialect::Qwen | Dialect::Claude | Dialect::OpenAi => Some(input::published_schema(dialect.name())),
        Dialect::Gemini => None,
    }
}

/// Events in, bytes out.
pub trait Encoder: Send {
    /// Appends what this event has to say to `out`: whole lines, often none.
    fn encode(&mut self, event: &Event, out: &mut Vec<u8>);
    /// What the next turn is called, for dialects that repeat it.
    fn name_next_turn(&mut self, _prompt_id: &str) {}
    /// A question to the client went wrong.
    fn control_error(&mut self, _message: String) {}
}

/// Whose wire format to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    Qwen,
    Claude,
    Gemini,
    OpenAi,
}

impl Dialect {
    pub const ALL: [Dialect; 4] = [Dialect::Qwen, Dialect::Claude, Dialect::Gemini, Dialect::OpenAi];

    pub fn parse(name: &str) -> Result<Dialect, UnknownDialect> {
        Dialect::ALL
            .into_iter()
            .find(|dialect| dialect.name() == name)
            .ok_or_else(|| UnknownDialect { name: name.to_owned() })
    }

    pub fn name(self) -> &'static str {
        match self {
            Dialect::Qwen => "qwen",
            Dialect::Claude => "claude",
            Dialect::Gemini => "gemini",
            Dialect::OpenAi => "openai",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a dialect; known: {}", known_dialects())]
pub struct UnknownDialect {
    pub name: String,
}

fn known_dialects() -> String {
    Dialect::ALL.map(|dialect| format!("`{}`", dialect.name())).join(", ")
}

/// How much of a run is written, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The payload or the last text, and nothing when the run failed.
    #[default]
    Text,
    /// One document at the end.
    Json,
    /// One line per message, as it happens.
    StreamJson,
    /// One line per piece of a message. Only the `openai` dialect has it.
    StreamChunkJson,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Json => "json",
            Format::StreamJson => "stream-json",
            Format::StreamChunkJson => "stream-chunk-json",
        }
    }
}

/// How long the writer lives: whether a failed run is the end of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    #[default]
    OneRun,
    /// A session: the next turn follows whatever became of this one.
    ManyRuns,
}

#[derive(Clone, Debug)]
pub struct EncoderOptions {
    pub format: Format,
    /// Also write pieces of messages as they arrive. Only `StreamJson` can.
    pub partials: bool,
    /// Also write which hooks ran, for the dialects that have lines for them.
    pub hook_events: bool,
    /// Put the payload of a structured run into `result` as text too. Off, `result` is `null` there.
    pub result_text: bool,
    pub lifetime: Lifetime,
    /// All messages in the `json` format, for the dialect that shows only the result there otherwise.
    pub verbose: bool,
    /// How the client's lines are read, for the dialect that says so.
    pub input_format: String,
    /// Tell where terminal sequences stood that were taken out of the model's text.
    pub raw_ansi: bool,
    /// The session of runs that fail before they start. A run that starts brings its own.
    pub session_id: Id,
    /// The version of the program that writes.
    pub cli_version: String,
}

impl EncoderOptions {
    pub fn new(format: Format, session_id: Id, cli_version: impl Into<String>) -> EncoderOptions {
        let cli_version = cli_version.into();
        EncoderOptions {
            format,
            partials: false,
            hook_events: false,
            result_text: true,
            lifetime: Lifetime::OneRun,
            verbose: false,
            input_format: "text".to_owned(),
            raw_ansi: false,
            session_id,
            cli_version,
        }
    }
}
