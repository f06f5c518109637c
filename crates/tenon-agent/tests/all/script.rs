//! A scripted model, a recording sink and an agent around them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tenon_agent::{
    Agent, Audience, Background, Ended, Limits, Lineage, Replay, SchemaMode, SessionEnd, Stop,
};
use tenon_contract::{Contract, Schema};
use tenon_core::ApprovalMode;
use tenon_core::{
    Args, BoxFut, Budget, Cancel, Delta, DeltaStream, Event, EventKind, EventSink, FinishReason, Id,
    IdSource, MemoryJournal, Message, ModelClient, ModelError, ModelFacts, Models, NoBudget, NoClient,
    NoJournal, Outcome, Request, RunInfo, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec,
};
use tenon_tools::{Hooks, PermissionOptions, Permissions, Registry, Rule};

pub type Answer = Vec<Result<Delta, ModelError>>;

pub fn text(text: &str) -> Answer {
    vec![Ok(Delta::Text(text.into())), Ok(Delta::Finished(FinishReason::Stop))]
}

pub fn calls(calls: &[(&str, &str, &str)]) -> Answer {
    let mut answer = Vec::new();
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        answer.push(Ok(Delta::ToolCallStarted { index, id: (*id).into(), name: (*name).into() }));
        answer.push(Ok(Delta::ToolCallArguments { index, fragment: (*arguments).into() }));
    }
    answer.push(Ok(Delta::Finished(FinishReason::ToolCalls)));
    answer
}

/// Answers a request as it comes, where a list would have to know the future.
pub type React = Box<dyn Fn(&Request) -> Answer + Send + Sync>;

pub struct Script {
    answers: Mutex<VecDeque<Answer>>,
    react: Option<React>,
    pub requests: Mutex<Vec<Request>>,
}

impl ModelClient for Script {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        let answer = match &self.react {
            Some(react) => react(&request),
            None => self.answers.lock().unwrap().pop_front().expect("the script has another answer"),
        };
        self.requests.lock().unwrap().push(request);
        Box::pin(futures_util::stream::iter(answer))
    }
}

#[derive(Default)]
pub struct Recorded(pub Mutex<Vec<Event>>);

impl EventSink for Recorded {
    fn emit(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// A tool that only notes that it ran, and says as much as its argument `bytes` wants.
pub struct Noting {
    spec: Arc<ToolSpec>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Tool for Noting {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        let bytes = args.get("bytes").and_then(serde_json::Value::as_u64).unwrap_or(0);
        Box::pin(async move {
            assert!(!ctx.call_id.contains("panic"), "asked to");
            self.log.lock().unwrap().push(ctx.call_id.clone());
            let more = "x".repeat(usize::try_from(bytes).unwrap());
            ToolOutcome::ok(format!("ran {}{more}", ctx.call_id))
        })
    }
}

/// `look`, which reads, and `write_file`, which writes.
pub fn noting_tools(log: &Arc<Mutex<Vec<String>>>) -> Registry {
    let registry = Registry::new();
    for (name, kind) in [("look", ToolKind::Read), ("write_file", ToolKind::Edit)] {
        let spec = ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: serde_json::json!({"type": "object"}),
            kind,
        };
        registry.add(Arc::new(Noting { spec: Arc::new(spec), log: Arc::clone(log) })).unwrap();
    }
    registry
}

pub struct Scene {
    pub answers: Vec<Answer>,
    pub schema: Option<&'static str>,
    pub submit_result: bool,
    pub schema_mode: SchemaMode,
    pub limits: Limits,
    pub audience: Audience,
    pub mode: ApprovalMode,
    pub deny: Vec<&'static str>,
    pub fail_on_denied: bool,
    pub models: Models,
    pub budget: Arc<dyn Budget>,
    pub history: Vec<Message>,
    pub prompt: String,
    pub react: Option<React>,
    pub replay: Replay,
}

impl Scene {
    pub fn new(answers: Vec<Answer>) -> Scene {
        Scene {
            answers,
            schema: None,
            submit_result: false,
            schema_mode: SchemaMode::Tool,
            limits: Limits::default(),
            audience: Audience::Whole,
            mode: ApprovalMode::Yolo,
            deny: Vec::new(),
            fail_on_denied: false,
            models: Models::default(),
            budget: Arc::new(NoBudget),
            history: Vec::new(),
            prompt: "prompt".into(),
            react: None,
            replay: Replay::default(),
        }
    }

    pub fn reacting(react: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Scene {
        Scene { react: Some(Box::new(react)), ..Scene::new(Vec::new()) }
    }

    /// What is known of the model.
    pub fn facts(mut self, facts: ModelFacts) -> Scene {
        self.models = Models::new([("scripted".to_owned(), facts)]);
        self
    }

    pub fn schema(mut self, schema: &'static str) -> Scene {
        self.schema = Some(schema);
        self
    }

    pub fn play(self) -> Played {
        let log = Arc::new(Mutex::new(Vec::new()));
        let registry = noting_tools(&log);
        let permissions = Permissions::new(PermissionOptions {
            mode: self.mode,
            deny: self.deny.iter().map(|rule| Rule::parse(rule).unwrap()).collect(),
            cwd: "/".into(),
            ..PermissionOptions::default()
        })
        .unwrap();
        let model = Arc::new(Script {
            answers: Mutex::new(self.answers.into()),
            react: self.react,
            requests: Mutex::default(),
        });
        let journal = MemoryJournal::default();
        let contract = self.schema.map(|schema| {
            let schema = Schema::compile(schema).unwrap();
            if self.submit_result {
                Contract::submit_result(schema)
            } else {
                Contract::structured_output(schema)
            }
        });
        let agent = Agent {
            history: self.history,
            prompt: Some(Message::user(self.prompt)),
            registry,
            permissions,
            contract,
            schema_mode: self.schema_mode,
            limits: self.limits,
            journal: Arc::new(journal.clone()),
            budget: self.budget,
            models: self.models,
            audience: self.audience,
            fail_on_denied: self.fail_on_denied,
            replay: self.replay,
            ..plain_agent(Arc::clone(&model) as Arc<dyn ModelClient>)
        };
        let sink = Arc::new(Recorded::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let Ended { outcome, history } =
            runtime.block_on(tenon_agent::run(agent, Arc::clone(&sink) as Arc<dyn EventSink>));
        let events = sink.0.lock().unwrap().clone();
        let ran = log.lock().unwrap().clone();
        Played { outcome, history, events, ran, model, journal }
    }
}

/// An agent of this model without tools or limits, asked to `prompt`.
pub fn plain_agent(model: Arc<dyn ModelClient>) -> Agent {
    let ids = Arc::new(IdSource::new(Id::from_random([1; 16])));
    Agent {
        model,
        system: "system".into(),
        history: Vec::new(),
        prompt: Some(Message::user("prompt")),
        registry: Registry::new(),
        permissions: Permissions::new(PermissionOptions {
            mode: ApprovalMode::Yolo,
            cwd: "/".into(),
            ..PermissionOptions::default()
        })
        .unwrap(),
        contract: None,
        schema_mode: SchemaMode::Tool,
        limits: Limits::default(),
        client: Arc::new(NoClient),
        journal: Arc::new(NoJournal),
        budget: Arc::new(NoBudget),
        stop: Stop::default(),
        ids: Arc::clone(&ids),
        info: RunInfo {
            session_id: Id::from_random([2; 16]),
            cwd: "/".into(),
            model: "scripted".into(),
            permission_mode: "yolo".into(),
            tools: Vec::new(),
            agents: Vec::new(),
            commands: Vec::new(),
            mcp_servers: Vec::new(),
            cli_version: "0".into(),
            sandbox: Default::default(),
            channel: None,
        },
        audience: Audience::Whole,
        fail_on_denied: false,
        heartbeat: None,
        deliver: None,
        models: Models::default(),
        sampling: Default::default(),
        reasoning: Default::default(),
        max_output_tokens: None,
        compact_at: 0.8,
        hooks: Hooks::none(),
        session_start: None,
        session_end: SessionEnd::Later,
        trace: None,
        replay: Replay::default(),
        warnings: Vec::new(),
        lineage: Lineage::default(),
        background: Background::plain(ids),
    }
}

pub struct Played {
    pub outcome: Arc<Outcome>,
    pub history: Vec<Message>,
    pub events: Vec<Event>,
    /// Ids of the calls that really ran.
    pub ran: Vec<String>,
    pub model: Arc<Script>,
    pub journal: MemoryJournal,
}

impl Played {
    pub fn payload(&self) -> Option<&str> {
        match &self.outcome.ending {
            tenon_core::Ending::Success(success) => success.payload.as_ref().map(|payload| payload.get()),
            tenon_core::Ending::Failure(_) => None,
        }
    }

    pub fn class(&self) -> &'static str {
        match &self.outcome.ending {
            tenon_core::Ending::Success(_) => "success",
            tenon_core::Ending::Failure(failure) => failure.class.name(),
        }
    }

    /// (call id, what a client was shown, error?) for every finished call, in order.
    pub fn reports(&self) -> Vec<(String, String, bool)> {
        self.events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::ToolFinished(report) => {
                    Some((report.call_id.clone(), report.content.clone(), report.error.is_some()))
                }
                _ => None,
            })
            .collect()
    }
}
