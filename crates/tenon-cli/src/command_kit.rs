//! What commands need of a run: which ones there are, where `@path` looks, the standing instructions and where chats are
//! saved. Put together with the rest of the run (`plan.rs`), and kept for as long as somebody may type.
//!
//! What a command does is `tenon-session/src/commands.rs`; `stream_commands.rs` lets them act on a session.

use std::sync::{Arc, PoisonError};

use tenon_agent::{HowToAnswer, Memory, SharedMemory, system_prompt};
use tenon_config::{CommandFile, CommandSource, Loaded};
use tenon_core::{ErrorClass, Failure, Media, Message, Part, Role, Secrets};
use tenon_session::{CommandUse, Commands, OwnCommand, OwnSource, Submitted, TypedIn, expand, understand};
use tenon_tools::Workspace;
use tenon_wire::input::{Command, FileData, InputPart};

use crate::args::RunArgs;
use crate::input::{Asked, Input};
use crate::plan::AskedBy;

pub struct Kit {
    pub commands: Commands,
    pub workspace: Arc<Workspace>,
    pub memory: SharedMemory,
    pub system: SystemPrompt,
    /// What must not be stored; known when the model is.
    pub secrets: Secrets,
    /// Who answers under which model's name.
    pub providers: Vec<(String, String)>,
    /// A command that was typed on the command line and is only answered.
    pub pending: Option<Command>,
    /// One that asks the model, and what is told of it.
    pub told: Option<(Command, Submitted)>,
}

impl Kit {
    pub fn new(
        args: &RunArgs,
        loaded: &Loaded,
        workspace: Arc<Workspace>,
        memory: SharedMemory,
        system: SystemPrompt,
        warnings: &mut Vec<String>,
    ) -> Kit {
        let use_of = match (args.literal_prompt, args.safe_mode) {
            (true, _) => CommandUse::Literal,
            (false, true) => CommandUse::Refused,
            (false, false) => CommandUse::On,
        };
        let disabled: Vec<String> = args
            .disabled_slash_commands
            .iter()
            .flat_map(|list| list.split(','))
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        let own = loaded.commands.iter().map(own_command).collect();
        let commands = Commands::new(own, warnings).without(&disabled, warnings).used(use_of);
        Kit {
            commands,
            workspace,
            memory,
            system,
            secrets: Secrets::default(),
            providers: Vec::new(),
            pending: None,
            told: None,
        }
    }

    /// What the model is asked first, `None` where a command is only answered. Whatever a client types comes
    /// later.
    pub async fn said(
        &mut self,
        input: &Input,
        asked: AskedBy,
        contract: Contracted,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Message>, Failure> {
        let words = |prompt: String| (!prompt.is_empty()).then(|| Message::user(prompt));
        let is_literal = self.commands.use_of() == CommandUse::Literal;
        let typed = match (&input.asked, asked) {
            (Some(Asked::Typed(text)), AskedBy::CommandLine) if !is_literal => text,
            _ => return Ok(words(input.prompt())),
        };
        let Some(command) = understand(typed, TypedIn::Prompt) else {
            let mentions = expand(Arc::clone(&self.workspace), typed.clone()).await;
            warnings.extend(mentions.warnings);
            return Ok(Some(message(input, mentions.parts)));
        };
        let Some(submitting) = self.commands.prompt(&command, &self.workspace)? else {
            if contract == Contracted::Yes {
                return Err(no_payload_of(&command));
            }
            if input.piped.is_some() {
                warnings.push("what came on stdin is not used: the prompt is a command".to_owned());
            }
            self.pending = Some(command);
            return Ok(None);
        };
        let submitted = submitting.await;
        warnings.extend(submitted.warnings.iter().cloned());
        let asked = message(input, submitted.parts.clone());
        self.told = Some((command, submitted));
        Ok(Some(asked))
    }

    pub fn memory(&self) -> Vec<Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From here on these are told. The system prompt with them.
    pub fn remember(&self, memory: Vec<Memory>) -> String {
        let system = self.system.with(&memory);
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
        system
    }
}

/// Why a command that tenon answers itself cannot be the answer of a turn with a contract: it has no payload, and a
/// success without one would be a lie.
pub fn no_payload_of(command: &Command) -> Failure {
    let name = command.path.join(" ");
    let message =
        format!("`/{name}` is answered by tenon itself, and `--json-schema` is for a model's answer");
    Failure::new(ErrorClass::Input, message).hint("`--literal-prompt` sends such words to the model")
}

/// Whether the answer has to fit a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contracted {
    Yes,
    No,
}

fn own_command(file: &CommandFile) -> OwnCommand {
    OwnCommand {
        name: file.name.clone(),
        description: file.description.clone(),
        argument_hint: file.argument_hint.clone(),
        prompt: file.prompt.clone(),
        path: file.path.clone(),
        from: match file.from {
            CommandSource::User => OwnSource::User,
            CommandSource::Project => OwnSource::Project,
            CommandSource::UntrustedProject => OwnSource::UntrustedProject,
        },
    }
}

/// What was typed with what it names, after what came on stdin.
fn message(input: &Input, parts: Vec<InputPart>) -> Message {
    let mut message = Message { role: Role::User, parts: Vec::with_capacity(parts.len()) };
    for part in parts {
        match part {
            InputPart::Text(text) if message.parts.is_empty() => {
                message.parts.push(Part::Text { text: input.with_piped(&text) });
            }
            InputPart::Text(text) => message.parts.push(Part::Text { text }),
            InputPart::File(FileData::Inline { data, mime }) => {
                message.parts.push(Part::Media(Media { mime, data: data.into() }));
            }
            // Nobody types these.
            InputPart::File(FileData::Path { .. }) | InputPart::FunctionResponse { .. } => {}
        }
    }
    message
}

/// The system prompt but for the standing instructions, which may change.
pub struct SystemPrompt {
    pub answer: Answering,
    pub replace: Option<String>,
    pub append: Option<String>,
}

/// [`HowToAnswer`], kept.
pub enum Answering {
    InText,
    ByCalling(&'static str),
    InJson(serde_json::Value),
}

impl SystemPrompt {
    pub fn with(&self, memory: &[Memory]) -> String {
        let answer = match &self.answer {
            Answering::InText => HowToAnswer::InText,
            Answering::ByCalling(tool) => HowToAnswer::ByCalling(tool),
            Answering::InJson(schema) => HowToAnswer::InJson(schema),
        };
        system_prompt(answer, memory, self.replace.as_deref(), self.append.as_deref())
    }
}
