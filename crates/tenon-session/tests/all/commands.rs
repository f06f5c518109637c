//! The dispatcher at a desk of its own: whatever is typed, it answers, refuses or leaves the words alone.

use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use tenon_agent::Memory;
use tenon_core::{BoxFut, ErrorClass, Failure, Id, McpServer, Message, Secrets, ToolKind, ToolSpec, Usage};
use tenon_session::{
    CommandUse, Commands, Desk, Level, ModelNames, OwnCommand, OwnSource, Place, Ran, SavedChats, Stats,
    TypedIn, expand, understand,
};
use tenon_tools::{Workspace, WorkspaceOptions};
use tenon_wire::input::{Command, CommandKind, InputPart};

/// A session without a model behind it.
struct Bench {
    home: TempDir,
    work: TempDir,
    history: Vec<Message>,
    model: String,
    memory: Vec<Memory>,
    started_over: u32,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            home: TempDir::new().unwrap(),
            work: TempDir::new().unwrap(),
            history: Vec::new(),
            model: "m".into(),
            memory: Vec::new(),
            started_over: 0,
        }
    }
}

impl Desk for Bench {
    fn history(&self) -> &[Message] {
        &self.history
    }

    fn replace_history(&mut self, messages: Vec<Message>) -> BoxFut<'_, Result<(), Failure>> {
        self.history = messages;
        Box::pin(async { Ok(()) })
    }

    fn start_over(&mut self) {
        self.started_over += 1;
    }

    fn model(&self) -> Result<ModelNames, Failure> {
        Ok(ModelNames { current: self.model.clone(), known: vec!["p/other".into()] })
    }

    fn set_model(&mut self, name: &str) -> Result<String, Failure> {
        name.clone_into(&mut self.model);
        Ok(name.to_owned())
    }

    fn tools(&self) -> Result<Vec<Arc<ToolSpec>>, Failure> {
        Ok(vec![Arc::new(ToolSpec {
            name: "look".into(),
            description: "Looks. Then tells.".into(),
            parameters: serde_json::json!({"type": "object"}),
            kind: ToolKind::Read,
        })])
    }

    fn mcp_servers(&self) -> Result<Vec<McpServer>, Failure> {
        Err(Failure::new(ErrorClass::Auth, "there is no key"))
    }

    fn stats(&self) -> Result<Stats, Failure> {
        Ok(Stats {
            session_id: Id::from_random([1; 16]),
            model: self.model.clone(),
            turns_before: 0,
            turns: 2,
            used: Usage { input: 10, output: 5, total: 15, ..Usage::default() },
            cost_usd: None,
            context_tokens: 100,
            context_limit: Some(1000),
        })
    }

    fn memory(&self) -> Result<Vec<Memory>, Failure> {
        Ok(self.memory.clone())
    }

    fn add_memory(&mut self, text: &str) -> Result<String, Failure> {
        self.memory.push(Memory { name: "TENON.md".into(), text: text.to_owned() });
        Ok("TENON.md".into())
    }

    fn refresh_memory(&mut self) -> Result<Vec<Memory>, Failure> {
        Ok(self.memory.clone())
    }

    fn saved_chats(&self) -> Result<SavedChats, Failure> {
        Ok(SavedChats {
            place: Place::of(self.home.path(), self.work.path()),
            cwd: self.work.path().to_owned(),
            secrets: Secrets::default(),
            provider: "openai".into(),
            model: self.model.clone(),
        })
    }

    fn workspace(&self) -> Result<Arc<Workspace>, Failure> {
        Ok(Workspace::new(WorkspaceOptions::new(self.work.path())).unwrap())
    }
}

fn own(name: &str, prompt: &str) -> OwnCommand {
    OwnCommand {
        name: name.into(),
        description: String::new(),
        argument_hint: String::new(),
        prompt: prompt.into(),
        path: PathBuf::from("x.md"),
        from: OwnSource::User,
    }
}

fn commands() -> Commands {
    Commands::new(vec![own("git:commit", "Commit {{args}}.")], &mut Vec::new())
}

async fn typed(text: &str, desk: &mut Bench) -> Ran {
    let command = understand(text, TypedIn::StructuredInput).expect("a command");
    commands().run(&command, desk).await
}

fn said(ran: Ran) -> String {
    match ran {
        Ran::Answered(answer) => answer.content,
        Ran::Failed(failure) => panic!("{failure:?}"),
        Ran::Submit(_) | Ran::Compress { .. } => panic!("it is not answered"),
    }
}

#[tokio::test]
async fn a_conversation_goes_into_a_chat_and_comes_back() {
    let mut desk = Bench::new();
    desk.history = vec![Message::user("hello")];
    assert_eq!(
        said(typed("/chat save a.1", &mut desk).await),
        "The conversation was saved as `a.1` (1 message)."
    );
    assert_eq!(said(typed("/clear", &mut desk).await), "The conversation was cleared.");
    assert!(desk.history.is_empty());
    said(typed("/chat resume a.1", &mut desk).await);
    assert_eq!((desk.history[0].text().as_str(), desk.started_over), ("hello", 2));
    // A file that somebody damaged is told, and can be deleted.
    let place = desk.home.path().join("projects");
    let folder = std::fs::read_dir(place).unwrap().next().unwrap().unwrap().path().join("saved");
    std::fs::write(folder.join("a.1.json"), "{").unwrap();
    assert!(matches!(typed("/chat resume a.1", &mut desk).await, Ran::Failed(_)));
    said(typed("/chat delete a.1", &mut desk).await);
    std::fs::write(
        folder.join("later.json"),
        r#"{"format":9,"saved":"","cwd":"","provider":"","model":"","messages":[]}"#,
    )
    .unwrap();
    assert!(said(typed("/chat list", &mut desk).await).contains("No chats"), "it is of another folder");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_keeps_the_conversation() {
    let mut desk = Bench::new();
    desk.history = vec![Message::user("hello")];
    std::fs::write(desk.home.path().join("projects"), "no folder").unwrap();
    let Ran::Failed(failure) = typed("/chat save a", &mut desk).await else {
        panic!("saved where nothing can be")
    };
    assert!(failure.message.contains("cannot be written"), "{}", failure.message);
    assert_eq!(desk.history.len(), 1);
}

#[tokio::test]
async fn what_a_desk_cannot_do_is_told_as_it_says() {
    let Ran::Failed(failure) = typed("/mcp", &mut Bench::new()).await else { panic!("it has no servers") };
    assert_eq!((failure.class, failure.message.as_str()), (ErrorClass::Auth, "there is no key"));
}

#[tokio::test]
async fn paths_and_names_declare_the_same_command() {
    let declared = |path: &[&str], args: &str| Command {
        kind: CommandKind::Slash,
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        args: args.into(),
    };
    for command in [
        declared(&["git", "commit"], "it"),
        declared(&["git:commit"], "it"),
        declared(&["/git", "commit"], "it"),
    ] {
        let Ran::Submit(submitted) = commands().run(&command, &mut Bench::new()).await else {
            panic!("{command:?}")
        };
        assert_eq!(submitted.await.parts, [InputPart::Text("Commit it.".into())]);
    }
    for command in [declared(&["chat", "list"], ""), declared(&["chat"], "list"), declared(&["chat"], "")] {
        assert!(matches!(commands().run(&command, &mut Bench::new()).await, Ran::Answered(_)), "{command:?}");
    }
    for command in [declared(&[], ""), declared(&["git"], ""), declared(&["git", "commit", "more"], "")] {
        assert!(matches!(commands().run(&command, &mut Bench::new()).await, Ran::Failed(_)), "{command:?}");
    }
}

#[tokio::test]
async fn commands_that_are_off_are_refused() {
    let help = understand("/help", TypedIn::Prompt).unwrap();
    let off = commands().used(CommandUse::Refused);
    assert!(matches!(off.run(&help, &mut Bench::new()).await, Ran::Failed(_)));
    assert_eq!(off.names(), [""; 0]);
    let mut warnings = Vec::new();
    let some = commands().without(&["help".into(), "/git:commit".into(), "x".into()], &mut warnings);
    assert!(matches!(some.run(&help, &mut Bench::new()).await, Ran::Failed(_)));
    assert!(!some.names().contains(&"git:commit".to_owned()));
    assert_eq!(warnings, ["`--disabled-slash-commands`: there is no command `/x`"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(256)))]

    /// Whatever is typed: an answer, a prompt or a failure of the input. Never a panic.
    #[test]
    fn no_text_is_too_strange(text in prop_oneof![
        ".{0,60}",
        "[/@?][ a-z:./\"\\\\@{}$*-]{0,40}",
        "/(help|clear|chat|memory|model|tools|mcp|stats|git:commit)[ a-z./]{0,20}",
    ]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for typed_in in [TypedIn::Prompt, TypedIn::StructuredInput] {
            let Some(command) = understand(&text, typed_in) else { continue };
            prop_assert!(text.starts_with(['/', '@', '?']), "{text}");
            let mut desk = Bench::new();
            match runtime.block_on(commands().run(&command, &mut desk)) {
                Ran::Answered(answer) => prop_assert!(answer.level != Level::Error && !answer.content.is_empty()),
                Ran::Submit(submitted) => prop_assert!(!runtime.block_on(submitted).parts.is_empty()),
                Ran::Compress { .. } => {}
                Ran::Failed(failure) => prop_assert!(!failure.message.is_empty()),
            }
        }
    }

    /// Words that begin with no mark are for the model as they stand; marks within them change nothing but what
    /// follows.
    #[test]
    fn other_words_pass_unchanged(text in "[^/@?].{0,60}") {
        prop_assert_eq!(understand(&text, TypedIn::StructuredInput), None);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let workspace = Bench::new().workspace().unwrap();
        let mentions = runtime.block_on(expand(workspace, text.clone()));
        let InputPart::Text(told) = &mentions.parts[0] else { panic!("words stay words") };
        prop_assert!(told.starts_with(&text));
        if !text.contains('@') {
            prop_assert_eq!(told, &text);
        }
    }
}
