//! Commands at work on a session: what they may see and change of it, for turns of a client and for a command line.
//!
//! What each command does is `tenon-session/src/commands.rs`; what they need to be there is `command_kit.rs`.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_agent::{Agent, Memory};
use tenon_core::{
    BoxFut, ErrorClass, Failure, McpServer, Media, Message, Outcome, Part, ToolSpec, TurnRecord,
};
use tenon_session::{
    CommandUse, Commanded, Desk, HintSource, ModelNames, Ran, Said, SavedChats, Stats, Submitted, Teller,
    TypedIn, expand, understand,
};
use tenon_tools::{Mentioned, SessionSource, Workspace};
use tenon_wire::Replies;
use tenon_wire::input::{Command, FileData, Hint, InputPart, Turn, TurnOrigin};

use crate::args::RunArgs;
use crate::command_kit::{Kit, no_payload_of};
use crate::run;
use crate::session;
use crate::stream_session::{Live, StreamHost};

/// What a client's turn says, if it is a command or names files.
pub async fn command(host: &mut StreamHost, turn: &Turn, history: &mut Vec<Message>) -> Commanded {
    let Some(kit) = &host.kit else { return Commanded::NotACommand };
    if turn.origin != TurnOrigin::User || kit.commands.use_of() == CommandUse::Literal {
        return Commanded::NotACommand;
    }
    let typed = match (&turn.command, turn.parts.first()) {
        (Some(command), _) => Some(with_text(command, &turn.parts)),
        (None, Some(InputPart::Text(text))) => understand(text, TypedIn::StructuredInput),
        (None, _) => None,
    };
    let Some(command) = typed else { return mentioned(Arc::clone(&kit.workspace), turn) };
    let commands = kit.commands.clone();
    let is_contracted = host.live.as_ref().is_ok_and(|live| live.agent.contract.is_some());
    if is_contracted && commands.is_answered_here(&command) {
        let answer = Err(no_payload_of(&command));
        return Commanded::Answered { command, answer };
    }
    match commands.run(&command, &mut SessionDesk { host, history, then: Then::MoreTurns }).await {
        Ran::Submit(submitting) => {
            // What came with the words stays with them.
            let more = turn.parts.iter().filter(|part| !matches!(part, InputPart::Text(_)));
            let more: Vec<InputPart> = more.cloned().collect();
            Commanded::Say(Box::pin(async move {
                let Submitted { answer, mut parts, warnings } = submitting.await;
                parts.extend(more);
                Said { parts, told: Some((command, answer)), warnings }
            }))
        }
        Ran::Compress { instructions } => Commanded::Compress { command, instructions },
        Ran::Answered(answer) => Commanded::Answered { command, answer: Ok(answer) },
        Ran::Failed(failure) => Commanded::Answered { command, answer: Err(failure) },
    }
}

/// A declared command: words of the message stand after its own.
fn with_text(command: &Command, parts: &[InputPart]) -> Command {
    let texts = parts.iter().filter_map(|part| match part {
        InputPart::Text(text) => Some(text.trim()),
        _ => None,
    });
    let words: Vec<&str> =
        std::iter::once(command.args.trim()).chain(texts).filter(|text| !text.is_empty()).collect();
    Command { args: words.join(" "), ..command.clone() }
}

/// Files that are named within words.
fn mentioned(workspace: Arc<Workspace>, turn: &Turn) -> Commanded {
    let has_mark = |part: &InputPart| matches!(part, InputPart::Text(text) if text.contains('@'));
    if !turn.parts.iter().any(has_mark) {
        return Commanded::NotACommand;
    }
    let said = turn.parts.clone();
    Commanded::Say(Box::pin(async move {
        let mut parts = Vec::with_capacity(said.len());
        let mut warnings = Vec::new();
        for part in said {
            match part {
                InputPart::Text(text) => {
                    let mentions = expand(Arc::clone(&workspace), text).await;
                    parts.extend(mentions.parts);
                    warnings.extend(mentions.warnings);
                }
                other => parts.push(other),
            }
        }
        Said { parts, told: None, warnings }
    }))
}

/// A file that a client names: put into the message as `@path` would, or refused.
pub fn file(host: &StreamHost, file: &FileData) -> Result<Part, Failure> {
    let refused = |message: String| Err(Failure::new(ErrorClass::Input, message));
    let path = match file {
        FileData::Path { path, .. } => path.strip_prefix("file://").unwrap_or(path),
        FileData::Inline { data, mime } => {
            return Ok(Part::Media(Media { mime: mime.clone(), data: data.clone().into() }));
        }
    };
    let Some(kit) = &host.kit else {
        return refused(format!("`{path}` cannot be read: there is no workspace"));
    };
    match kit.workspace.mention(path) {
        Mentioned::File { name, text } => Ok(Part::Text { text: format!("[The file `{name}`:]\n{text}") }),
        Mentioned::Folder { name, names } => {
            Ok(Part::Text { text: format!("[The folder `{name}`:]\n{names}") })
        }
        Mentioned::Image { media, .. } => Ok(Part::Media(media)),
        Mentioned::Missing => refused(format!("there is no file `{path}`")),
        Mentioned::Refused(why) => refused(format!("`{path}` cannot be used: {why}")),
    }
}

/// Suggestions for what is being typed.
pub fn hint(host: &StreamHost, hint: &Hint, replies: &Replies) {
    let Some(hints) = &host.hints else { return };
    let Some(kit) = &host.kit else {
        let why = host.live.as_ref().err().map(|failure| failure.message.as_str());
        return hints.refuse(hint, replies, why.unwrap_or("the session has not started"));
    };
    let values = |asked: &str| match asked {
        "chat resume" | "chat delete" | "chat save" => {
            let chats = saved_chats(host).and_then(|chats| chats.list()).unwrap_or_default();
            chats.into_iter().map(|chat| chat.tag).collect()
        }
        "model" => host.known_models(),
        "tools" => host.shared().map(|agent| agent.registry.names()).unwrap_or_default(),
        "help" => kit.commands.names(),
        _ => Vec::new(),
    };
    let workspace = Arc::clone(&kit.workspace);
    hints.ask(hint, replies, &HintSource { commands: &kit.commands, workspace, values: &values });
}

/// A command on the command line that is only answered: its answer is that of the run.
pub async fn answer_once(mut host: StreamHost, command: Command, teller: Teller) -> Arc<Outcome> {
    let mut history = match &mut host.live {
        Ok(live) => std::mem::take(&mut live.agent.history),
        Err(_) => Vec::new(),
    };
    let Some(kit) = &host.kit else {
        let failure = Failure::new(ErrorClass::Internal, "there are no commands here");
        return teller.answered(Err(failure), None);
    };
    let commands = kit.commands.clone();
    let mut desk = SessionDesk { host: &mut host, history: &mut history, then: Then::TheEnd };
    let ran = commands.run(&command, &mut desk).await;
    let answer = match ran {
        Ran::Answered(answer) => Ok(answer),
        Ran::Failed(failure) => Err(failure),
        Ran::Submit(submitting) => Ok(submitting.await.answer),
        Ran::Compress { instructions } => match &host.live {
            Ok(live) => {
                let agent = Agent { history, ..live.agent.clone() };
                return teller.compress(agent, instructions).await.outcome;
            }
            Err(failure) => Err(failure.clone()),
        },
    };
    let info = host.live.as_ref().ok().map(|live| live.agent.info.clone());
    teller.answered(answer, info)
}

struct SessionDesk<'a> {
    host: &'a mut StreamHost,
    history: &'a mut Vec<Message>,
    then: Then,
}

/// What follows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    MoreTurns,
    /// It stood on the command line, and is all that was asked.
    TheEnd,
}

impl StreamHost {
    fn shared(&self) -> Result<&Agent, Failure> {
        self.live.as_ref().map(|live| &live.agent).map_err(|failure| failure.clone())
    }

    pub(crate) fn command_names(&self) -> Vec<String> {
        self.kit.as_ref().map(|kit| kit.commands.names()).unwrap_or_default()
    }

    /// Commands as clients list them.
    pub(crate) fn listed_commands(&self) -> Vec<Value> {
        let commands = self.kit.iter().flat_map(|kit| kit.commands.list());
        commands
            .map(|command| {
                json!({
                    "name": command.name, "description": command.description,
                    "argumentHint": command.argument_hint,
                })
            })
            .collect()
    }

    /// Models that the settings name, as they are asked for.
    pub(crate) fn known_models(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (provider, settings) in &self.settings.providers {
            names.extend(settings.models.iter().map(|model| format!("{provider}/{model}")));
        }
        names
    }
}

impl SessionDesk<'_> {
    fn kit(&self) -> Result<&Kit, Failure> {
        let none = || Failure::new(ErrorClass::Internal, "there are no commands here");
        self.host.kit.as_ref().ok_or_else(none)
    }
}

impl Desk for SessionDesk<'_> {
    fn history(&self) -> &[Message] {
        self.history
    }

    fn replace_history(&mut self, messages: Vec<Message>) -> BoxFut<'_, Result<(), Failure>> {
        Box::pin(async move {
            let before_tokens = self.stats().map(|stats| stats.context_tokens).unwrap_or_default();
            *self.history = messages;
            let Ok(agent) = self.host.shared() else { return Ok(()) };
            let after_tokens = self.stats().map(|stats| stats.context_tokens).unwrap_or_default();
            let record =
                TurnRecord::Compacted { messages: self.history.clone(), before_tokens, after_tokens };
            agent.journal.write(record).await.map_err(|error| {
                Failure::new(ErrorClass::Internal, format!("the session could not be recorded: {error}"))
            })
        })
    }

    fn start_over(&mut self) {
        if let Some(kit) = &self.host.kit {
            kit.workspace.forget_reads();
        }
        if let Ok(Live { agent, .. }) = &mut self.host.live {
            agent.session_start = agent.session_start.or(Some(SessionSource::Clear));
        }
    }

    fn model(&self) -> Result<ModelNames, Failure> {
        let current = self.host.shared()?.info.model.clone();
        let mut known = self.host.known_models();
        known.retain(|name| *name != current);
        Ok(ModelNames { current, known })
    }

    fn set_model(&mut self, name: &str) -> Result<String, Failure> {
        if self.then == Then::TheEnd {
            let message = format!("`/model {name}` holds for the turns that follow, and none follows here");
            return Err(
                Failure::new(ErrorClass::Input, message).hint(format!("`--model {name}` asks this one"))
            );
        }
        let args = RunArgs { model: Some(name.to_owned()), ..self.host.args.clone() };
        self.host.rebuild(args)?;
        Ok(self.host.shared()?.info.model.clone())
    }

    fn tools(&self) -> Result<Vec<Arc<ToolSpec>>, Failure> {
        Ok(self.host.shared()?.registry.specs())
    }

    fn mcp_servers(&self) -> Result<Vec<McpServer>, Failure> {
        self.host.shared()?;
        Ok(self.host.live.iter().flat_map(|live| live.parts.mcp.statuses()).collect())
    }

    fn stats(&self) -> Result<Stats, Failure> {
        let (agent, spent) = (self.host.shared()?, self.host.spent());
        Ok(Stats {
            session_id: agent.info.session_id,
            model: agent.info.model.clone(),
            turns_before: self.host.turns_before,
            turns: spent.turns,
            used: spent.used,
            cost_usd: spent.cost_usd,
            context_tokens: tenon_agent::estimate_tokens(
                &agent.system,
                &agent.registry.specs(),
                self.history,
            ),
            context_limit: agent.models.facts(&agent.info.model).max_input,
        })
    }

    fn memory(&self) -> Result<Vec<Memory>, Failure> {
        Ok(self.kit()?.memory())
    }

    fn add_memory(&mut self, text: &str) -> Result<String, Failure> {
        self.remembers()?;
        let Some(home) = &self.host.here.tenon_home else {
            return Err(Failure::new(ErrorClass::Input, "there is no home folder to keep it in"));
        };
        let text = self.kit()?.secrets.hide(text);
        let path = tenon_config::add_to_user_memory(home, &text)?;
        Ok(path.display().to_string())
    }

    fn refresh_memory(&mut self) -> Result<Vec<Memory>, Failure> {
        self.remembers()?;
        let loaded = run::load_settings(&self.host.args, &self.host.here)?;
        let memory = crate::plan::memory_of(&loaded);
        let system = self.kit()?.remember(memory.clone());
        if let Ok(Live { agent, .. }) = &mut self.host.live {
            agent.system = system;
        }
        Ok(memory)
    }

    fn saved_chats(&self) -> Result<SavedChats, Failure> {
        saved_chats(self.host)
    }

    fn workspace(&self) -> Result<Arc<Workspace>, Failure> {
        self.kit().map(|kit| Arc::clone(&kit.workspace))
    }
}

impl SessionDesk<'_> {
    fn remembers(&self) -> Result<(), Failure> {
        let args = &self.host.args;
        let flag = match (args.bare, args.safe_mode) {
            (true, _) => "--bare",
            (false, true) => "--safe-mode",
            (false, false) => return Ok(()),
        };
        Err(Failure::new(ErrorClass::Input, format!("`{flag}` leaves standing instructions out")))
    }
}

fn saved_chats(host: &StreamHost) -> Result<SavedChats, Failure> {
    let refused = |message: &str| Err(Failure::new(ErrorClass::Input, message));
    if host.args.no_session {
        return refused("`--no-session` keeps nothing on disk, so there are no saved chats");
    }
    let Some((place, cwd)) = session::place(&host.here) else {
        return refused("there is no home folder to keep chats in");
    };
    let Some(kit) = &host.kit else { return refused("there are no commands here") };
    let model = host.shared().map(|agent| agent.info.model.clone()).unwrap_or_default();
    let by = kit.providers.iter().find(|(known, _)| *known == model);
    let provider = by.map(|(_, provider)| provider.clone()).unwrap_or_default();
    Ok(SavedChats { place, cwd, secrets: kit.secrets.clone(), provider, model })
}
