//! Commands: what is typed (`/stats`, `?`, `@src/main.rs`) or declared by a client, and what comes of it.
//!
//! One dispatcher for every front end. [`understand`] says whether words are a command (`commands/typed.rs`), [`Commands`] knows
//! which ones there are, and [`Commands::run`] carries one out at a [`Desk`], which is what a front end offers of
//! its session. A command is answered or asks the model something; words that look like a command and are none are
//! never sent to a model. Suggestions while somebody types are in `hints.rs`.

mod about;
mod at;
mod builtin;
mod conversation;
mod memory;
mod own;
mod teller;
mod typed;

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_agent::Memory;
use tenon_core::{BoxFut, ErrorClass, Failure, Id, McpServer, Message, ToolSpec, Usage};
use tenon_tools::Workspace;
use tenon_wire::input::{Command, CommandKind, InputPart};

use crate::SavedChats;
use builtin::{BUILT_IN, BuiltIn};

pub use at::{Mentions, expand};
pub use own::{OwnCommand, OwnSource};
pub use teller::Teller;
pub use typed::{TypedIn, understand};

/// Names longer than this are not repeated in messages.
const SHOWN_NAME_CHARS: usize = 80;
/// Of a prompt that is told back: lines of more than 64 KiB break a client's reader.
const SHOWN_PROMPT_CHARS: usize = 10_000;
/// Below this likeness a suggestion is noise.
const LIKELY: f64 = 0.6;
/// Told with every answer where nobody can be asked.
const LIMITATION: &str = "the control channel is off: in what `@path` and commands of your own ask the model, tool calls that \
need permission are denied, and no hook or MCP server of the client is called";

/// What commands act on: the session of a front end.
pub trait Desk: Send {
    fn history(&self) -> &[Message];
    /// From here on the conversation consists of these, also for whoever resumes the session.
    fn replace_history(&mut self, messages: Vec<Message>) -> BoxFut<'_, Result<(), Failure>>;
    /// The conversation starts over: nothing of what the model knew holds any longer.
    fn start_over(&mut self);
    fn model(&self) -> Result<ModelNames, Failure>;
    /// Asks this one from here on. Its full name.
    fn set_model(&mut self, name: &str) -> Result<String, Failure>;
    fn tools(&self) -> Result<Vec<Arc<ToolSpec>>, Failure>;
    fn mcp_servers(&self) -> Result<Vec<McpServer>, Failure>;
    fn stats(&self) -> Result<Stats, Failure>;
    fn memory(&self) -> Result<Vec<Memory>, Failure>;
    /// Keeps a line for all later runs. Where it stands.
    fn add_memory(&mut self, text: &str) -> Result<String, Failure>;
    /// Reads the files again, for all turns that follow.
    fn refresh_memory(&mut self) -> Result<Vec<Memory>, Failure>;
    fn saved_chats(&self) -> Result<SavedChats, Failure>;
    /// Where `@path` looks.
    fn workspace(&self) -> Result<Arc<Workspace>, Failure>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelNames {
    pub current: String,
    /// Others that can be named.
    pub known: Vec<String>,
}

/// What a session has come to.
#[derive(Clone, Debug)]
pub struct Stats {
    pub session_id: Id,
    pub model: String,
    /// Turns that the conversation had when this process took it up.
    pub turns_before: u64,
    pub turns: u64,
    pub used: Usage,
    /// `None` when nobody knows the price.
    pub cost_usd: Option<f64>,
    pub context_tokens: u64,
    pub context_limit: Option<u64>,
}

/// Which commands there are.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    own: Vec<OwnCommand>,
    disabled: Vec<String>,
    use_of: CommandUse,
}

/// Whether words are looked at for commands and `@path` at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandUse {
    #[default]
    On,
    /// All words are for the model (`--literal-prompt`).
    Literal,
    /// Commands are refused (`--safe-mode`); `@path` still works.
    Refused,
}

/// A command in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCommand {
    /// Without the slash.
    pub name: String,
    pub description: String,
    pub argument_hint: String,
}

/// What came of a command.
pub enum Ran {
    Answered(CommandAnswer),
    /// The model is asked this, as soon as the files are read that it names.
    Submit(Submitting),
    /// The model is asked to summarise the conversation; [`tenon_agent::compress`] does it.
    Compress {
        instructions: Option<String>,
    },
    Failed(Failure),
}

/// It borrows nothing: whoever waits for it can do other things meanwhile.
pub type Submitting = BoxFut<'static, Submitted>;

/// What the model is asked because of a command.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// What a client is told of it.
    pub answer: CommandAnswer,
    pub parts: Vec<InputPart>,
    pub warnings: Vec<String>,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandAnswer {
    pub level: Level,
    /// For people; every answer has it.
    pub content: String,
    pub form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Error,
}

/// How a client may draw it.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    Message,
    /// Something to choose from: typing `/dialog value` chooses.
    Dialog {
        dialog: &'static str,
        items: Vec<ListedCommand>,
    },
    /// One tool in full.
    Tool {
        tool: Value,
    },
    SubmitPrompt,
}

impl CommandAnswer {
    fn message(content: impl Into<String>) -> CommandAnswer {
        CommandAnswer { level: Level::Info, content: content.into(), form: Form::Message }
    }

    /// How a failure is told where it is no reason to stop.
    pub fn of_failure(failure: &Failure) -> CommandAnswer {
        let hint = failure.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        CommandAnswer { level: Level::Error, ..CommandAnswer::message(format!("{}{hint}", failure.message)) }
    }

    fn submit(prompt: &str) -> CommandAnswer {
        let mut content: String = prompt.chars().take(SHOWN_PROMPT_CHARS).collect();
        if content.len() < prompt.len() {
            content.push('…');
        }
        CommandAnswer { level: Level::Info, content, form: Form::SubmitPrompt }
    }

    /// `control` says whether anybody can be asked.
    pub fn to_json(&self, control: ControlChannel) -> Value {
        let level = match self.level {
            Level::Info => "info",
            Level::Error => "error",
        };
        let limitation = (control == ControlChannel::Off).then_some(LIMITATION);
        let (content, form) = (&self.content, &self.form);
        match form {
            Form::Message => {
                json!({ "type": "message", "level": level, "content": content, "limitation": limitation })
            }
            Form::SubmitPrompt => {
                json!({ "type": "submit_prompt", "level": level, "content": content, "limitation": limitation })
            }
            Form::Dialog { dialog, items } => {
                let items: Vec<Value> = items
                    .iter()
                    .map(|item| {
                        json!({ "label": item.name, "value": item.name, "description": item.description })
                    })
                    .collect();
                json!({
                    "type": "dialog", "level": level, "content": content, "dialog": dialog, "items": items,
                    "limitation": limitation,
                })
            }
            Form::Tool { tool } => json!({
                "type": "tool", "level": level, "content": content, "tool": tool, "limitation": limitation,
            }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlChannel {
    On,
    Off,
}

/// The words that may follow a command.
pub(crate) fn arguments_of(name: &str) -> &'static [&'static str] {
    builtin::named(name).map_or(&[], |command| command.subcommands)
}

/// How a command was understood, for the answer to it.
pub fn command_json(command: &Command) -> Value {
    json!({ "kind": command.kind.name(), "path": command.path, "args": command.args })
}

impl Commands {
    /// The built-in commands and these. One that has the name of a built-in one cannot be reached and is told in
    /// the warnings.
    pub fn new(own: Vec<OwnCommand>, warnings: &mut Vec<String>) -> Commands {
        let (own, shadowed): (Vec<_>, Vec<_>) =
            own.into_iter().partition(|command| builtin::named(&command.name).is_none());
        for command in shadowed {
            warnings.push(format!(
                "`{}` is left out: `/{}` is a command of tenon itself",
                command.path.display(),
                command.name
            ));
        }
        Commands { own, disabled: Vec::new(), use_of: CommandUse::On }
    }

    /// The same without these (`--disabled-slash-commands`). A name that no command has is told in the warnings.
    #[must_use]
    pub fn without(mut self, names: &[String], warnings: &mut Vec<String>) -> Commands {
        for name in names.iter().map(|name| name.trim().trim_start_matches('/')) {
            let is_known = builtin::named(name).is_some() || self.own(name).is_some();
            if !is_known {
                warnings.push(format!("`--disabled-slash-commands`: there is no command `/{}`", shown(name)));
            }
            self.disabled.push(name.to_owned());
        }
        self
    }

    #[must_use]
    pub fn used(mut self, use_of: CommandUse) -> Commands {
        self.use_of = use_of;
        self
    }

    pub fn use_of(&self) -> CommandUse {
        self.use_of
    }

    /// Those that can be typed, by name.
    pub fn list(&self) -> Vec<ListedCommand> {
        if self.use_of != CommandUse::On {
            return Vec::new();
        }
        let built_in = BUILT_IN.iter().map(BuiltIn::listed);
        let own = self.own.iter().map(OwnCommand::listed);
        let mut all: Vec<ListedCommand> =
            built_in.chain(own).filter(|command| !self.disabled.contains(&command.name)).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub fn names(&self) -> Vec<String> {
        self.list().into_iter().map(|command| command.name).collect()
    }

    /// What a command would ask the model; `None` for one that is only answered. Unknown ones are a failure at once.
    pub fn prompt(
        &self,
        command: &Command,
        workspace: &Arc<Workspace>,
    ) -> Result<Option<Submitting>, Failure> {
        match self.find(command)? {
            Found::At => Ok(Some(at::run(command, workspace))),
            Found::Own(own, args) => own.run(&args, workspace).map(Some),
            Found::BuiltIn(..) => Ok(None),
        }
    }

    /// Whether a command is carried out here, so that no answer of the model comes of it.
    pub fn is_answered_here(&self, command: &Command) -> bool {
        matches!(self.find(command), Ok(Found::BuiltIn(..)))
    }

    pub async fn run(&self, command: &Command, desk: &mut dyn Desk) -> Ran {
        match self.carry_out(command, desk).await {
            Ok(ran) => ran,
            Err(failure) => Ran::Failed(failure),
        }
    }

    async fn carry_out(&self, command: &Command, desk: &mut dyn Desk) -> Result<Ran, Failure> {
        let (built_in, args) = match self.find(command)? {
            Found::BuiltIn(built_in, args) => (built_in, args),
            Found::At => return Ok(Ran::Submit(at::run(command, &desk.workspace()?))),
            Found::Own(own, args) => return own.run(&args, &desk.workspace()?).map(Ran::Submit),
        };
        let words = Words { command: built_in, text: args.trim() };
        let answer = match built_in.name {
            "help" => about::help(self, &words)?,
            "stats" => about::stats(&words, desk)?,
            "tools" => about::tools(&words, desk)?,
            "mcp" => about::mcp(&words, desk)?,
            "model" => about::model(&words, desk)?,
            "clear" => conversation::clear(&words, desk).await?,
            "compress" => {
                let instructions = (!words.text.is_empty()).then(|| words.text.to_owned());
                return Ok(Ran::Compress { instructions });
            }
            "chat" => conversation::chat(&words, desk).await?,
            _ => memory::memory(&words, desk)?,
        };
        Ok(Ran::Answered(answer))
    }

    fn own(&self, name: &str) -> Option<&OwnCommand> {
        self.own.iter().find(|command| command.name == name)
    }

    /// The command that is meant, and what follows its name.
    fn find(&self, command: &Command) -> Result<Found<'_>, Failure> {
        match command.kind {
            CommandKind::At => return Ok(Found::At),
            CommandKind::Help => {
                let asked: Vec<&str> =
                    command.path.iter().map(String::as_str).chain([&*command.args]).collect();
                return self.built_in("help", asked.join(" "));
            }
            CommandKind::Slash => {}
        }
        let mut path = command.path.iter().map(|part| part.trim().trim_start_matches('/')).peekable();
        let whole: Vec<&str> = path.clone().collect();
        let whole = whole.join(":");
        if let Some(own) = self.own(&whole) {
            self.is_enabled(&whole)?;
            return Ok(Found::Own(own, command.args.clone()));
        }
        let first = path.next().unwrap_or_default();
        match builtin::named(first) {
            Some(_) => {
                let rest: Vec<&str> =
                    path.chain([command.args.trim()]).filter(|part| !part.is_empty()).collect();
                self.built_in(first, rest.join(" "))
            }
            None => Err(self.unknown(&whole)),
        }
    }

    fn built_in(&self, name: &str, args: String) -> Result<Found<'_>, Failure> {
        let Some(built_in) = builtin::named(name) else { return Err(self.unknown(name)) };
        self.is_enabled(built_in.name)?;
        Ok(Found::BuiltIn(built_in, args))
    }

    fn is_enabled(&self, name: &str) -> Result<(), Failure> {
        let why = match self.use_of {
            CommandUse::Refused => "commands are off in this session",
            _ if self.disabled.iter().any(|disabled| disabled == name) => "it was disabled for this session",
            _ => return Ok(()),
        };
        Err(refused(format!("`/{}` is not carried out: {why}", shown(name))))
    }

    fn unknown(&self, name: &str) -> Failure {
        let names = self.names();
        let likeness =
            |known: &str| strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
        let near = names
            .iter()
            .map(|known| (likeness(known), known))
            .filter(|(score, _)| *score >= LIKELY)
            .max_by(|(a, _), (b, _)| a.total_cmp(b));
        let guess = near.map(|(_, near)| format!("; did you mean `/{near}`?")).unwrap_or_default();
        refused(format!("there is no command `/{}`{guess}", shown(name)))
            .hint("`/help` lists the commands; `--literal-prompt` sends such words to the model")
    }
}

enum Found<'a> {
    At,
    BuiltIn(&'static BuiltIn, String),
    Own(&'a OwnCommand, String),
}

/// What follows the name of a built-in command.
struct Words<'a> {
    command: &'static BuiltIn,
    /// Trimmed.
    text: &'a str,
}

impl<'a> Words<'a> {
    /// The first word, and the rest.
    fn first(&self) -> (&'a str, &'a str) {
        match self.text.split_once(char::is_whitespace) {
            Some((first, rest)) => (first, rest.trim()),
            None => (self.text, ""),
        }
    }

    fn none(&self) -> Result<(), Failure> {
        if self.text.is_empty() { Ok(()) } else { Err(self.wrong("takes nothing after its name")) }
    }

    fn wrong(&self, what: &str) -> Failure {
        refused(format!("`/{}` {what}", self.command.name)).hint(format!("usage: {}", self.command.usage()))
    }
}

fn refused(message: String) -> Failure {
    Failure::new(ErrorClass::Input, message)
}

/// A name that somebody typed, fit for a message.
fn shown(name: &str) -> String {
    let mut shown: String = name.chars().take(SHOWN_NAME_CHARS).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN_NAME_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// Such as `1 message`, `2 messages`.
fn counted(number: impl TryInto<u64>, what: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
