//! Puts together the client for the chosen model: endpoint, network, cassette, retries.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use tenon_agent::NamedModel;
use tenon_config::{
    ChoiceError, ModelChoice, ModelFlags, Place, Settings, Surroundings, Wire, choose_fallback, choose_model,
    model_facts, secret_env_names,
};
use tenon_core::{ErrorClass, Failure, ModelClient, Models, Reasoning, Secret, Secrets};
use tenon_model::{
    Anthropic, Bucket, Candidate, Carries, Endpoint, Fallback, Gemini, Http, HttpOptions, OpenAiChat,
    OpenAiResponses, Places, Protocol, RateLimits, Recorder, Replayer, RetryPolicy, Retrying, TextAsCall,
    Timeouts, Transport, WithoutUnseen, check_reasoning,
};

use crate::args::{RunArgs, SchemaMode};
use crate::local::Local;
use crate::stderr::Reporter;

/// The model's name in the output when a cassette answers and none was named.
const REPLAYED_MODEL: &str = "replay";

pub struct Chosen {
    pub client: Arc<dyn ModelClient>,
    pub model: String,
    /// One line for stderr when nobody named the model.
    pub why: Option<String>,
    pub warnings: Vec<String>,
    /// What is known of each model that may be asked: prices and sizes.
    pub models: Models,
    /// The cassette being written; whether it was written to its end is known only at the end.
    pub recorder: Option<Arc<Recorder>>,
    /// Model, provider and address of the server: the model, then the fallbacks.
    #[cfg_attr(not(feature = "telemetry"), expect(dead_code, reason = "only telemetry tells of servers"))]
    pub servers: Vec<(String, String, String)>,
    /// Who answers under which model's name: the model, then the fallbacks.
    pub providers: Vec<(String, String)>,
    /// Every key that this run knows.
    pub secrets: Secrets,
    pub connections: Connections,
}

/// What clients of models are made of, for whoever needs another than the run's own.
#[derive(Clone)]
pub struct Connections {
    /// The model, then the fallbacks.
    first: Vec<Asked>,
    /// Models that agents have of their own, by the names they were asked for, or why there is none.
    others: Vec<(String, Result<Asked, Failure>)>,
    transport: Arc<dyn Transport>,
    /// The cassette that answers instead of servers.
    replayer: Option<Arc<Replayer>>,
    policy: RetryPolicy,
    local: Local,
}

/// A model's id, its protocol and where it is asked.
#[derive(Clone)]
struct Asked {
    model: String,
    wire: Wire,
    endpoint: Endpoint,
}

impl Connections {
    /// Whether the model and its fallbacks can be told how much to think.
    pub fn can_be_told(&self, reasoning: Reasoning) -> Result<(), Failure> {
        for asked in &self.first {
            if asked.wire == Wire::Local && reasoning != Reasoning::default() {
                let message = "the embedded model cannot be told how much to think: it does not think";
                return Err(Failure::new(ErrorClass::Config, message)
                    .hint("leave out `--effort`, `--thinking` and `--max-thinking-tokens`"));
            }
            let protocol = match asked.wire {
                Wire::OpenAiResponses => Protocol::OpenAiResponses,
                Wire::Anthropic => Protocol::Anthropic,
                Wire::Gemini => Protocol::Gemini,
                Wire::OpenAiChat | Wire::Local | Wire::Replay => Protocol::OpenAiChat,
            };
            check_reasoning(protocol, &asked.model, reasoning)?;
        }
        Ok(())
    }

    /// The run's own model with its fallbacks. `retries` of a request, where somebody says how many.
    pub fn first(&self, retries: Option<u32>) -> Arc<dyn ModelClient> {
        let candidates = self
            .first
            .iter()
            .map(|asked| Candidate { model: asked.model.clone(), client: self.client(asked, retries) });
        chain(candidates.collect())
    }

    /// The model of an agent that names one.
    pub fn other(&self, name: &str, retries: Option<u32>) -> Result<NamedModel, Failure> {
        let known = self.others.iter().find(|(known, _)| known == name).map(|(_, asked)| asked.clone());
        let unknown = || Err(Failure::new(ErrorClass::Config, format!("nobody knows the model `{name}`")));
        let asked = known.unwrap_or_else(unknown)?;
        Ok(NamedModel { client: self.client(&asked, retries), name: asked.model })
    }

    /// Is the run's own model computed in this process?
    pub fn is_embedded(&self) -> bool {
        self.replayer.is_none() && self.first.first().is_some_and(|asked| asked.wire == Wire::Local)
    }

    /// Brings the weights of embedded models here that are missing.
    pub async fn fetch_weights(
        &self,
        args: &RunArgs,
        settings: &Settings,
        here: &Surroundings,
        reporter: Reporter,
    ) -> Result<(), Failure> {
        if self.replayer.is_some() {
            return Ok(());
        }
        let of_agents = self.others.iter().filter_map(|(_, asked)| asked.as_ref().ok());
        for asked in self.first.iter().chain(of_agents).filter(|asked| asked.wire == Wire::Local) {
            self.local.fetch(&asked.model, args, settings, here, reporter).await?;
        }
        Ok(())
    }

    /// The client of one model: the protocol, answers in a response format, retries.
    fn client(&self, asked: &Asked, retries: Option<u32>) -> Arc<dyn ModelClient> {
        if asked.wire == Wire::Local && self.replayer.is_none() {
            return self.local.client(&asked.model);
        }
        let Asked { wire, endpoint, .. } = asked.clone();
        let (transport, bucket) = match &self.replayer {
            // A cassette limits nobody, whatever its server said.
            Some(_) => (Arc::clone(&self.transport), Bucket::default()),
            None => {
                let bucket = rate_limits().bucket(&endpoint);
                (bucket.watch(Arc::clone(&self.transport)), bucket)
            }
        };
        let protocol: Arc<dyn ModelClient> = match wire {
            Wire::OpenAiResponses => Arc::new(OpenAiResponses::new(endpoint, transport)),
            Wire::Anthropic => Arc::new(Anthropic::new(endpoint, transport)),
            Wire::Gemini => Arc::new(Gemini::new(endpoint, transport)),
            // The last two are no protocols; only a cassette answers under their names.
            Wire::OpenAiChat | Wire::Local | Wire::Replay => Arc::new(OpenAiChat::new(endpoint, transport)),
        };
        let attempts = retries.map_or(self.policy.attempts, |retries| retries.saturating_add(1));
        let policy = RetryPolicy { attempts, ..self.policy };
        let carries = if wire == Wire::Gemini { Carries::ImagesAndMore } else { Carries::Images };
        let seeing = Arc::new(WithoutUnseen::new(protocol, carries));
        Arc::new(Retrying::new(Arc::new(TextAsCall::new(seeing)), policy).sharing(bucket))
    }
}

/// What servers allow is known to every run, step and agent of this process.
fn rate_limits() -> &'static RateLimits {
    static KNOWN: LazyLock<RateLimits> = LazyLock::new(RateLimits::default);
    &KNOWN
}

fn retry_policy(settings: &Settings) -> RetryPolicy {
    RetryPolicy {
        attempts: settings.retry.attempts(),
        base: settings.retry.base(),
        max_total: settings.retry.max_total(),
        ..RetryPolicy::default()
    }
}

pub fn choose(
    args: &RunArgs,
    settings: &Settings,
    here: &Surroundings,
    started_in: &Path,
    others: &[String],
) -> Result<Chosen, Failure> {
    match &args.replay {
        Some(cassette) => {
            let replayer = Arc::new(Replayer::open(&started_in.join(cassette), places(here))?);
            let local = Local::new(args, here, started_in.to_owned());
            replay(args, settings, here, (replayer, local), others)
        }
        None => connect(args, settings, here, Reach::New { started_in }, others),
    }
}

/// Another choice in a process that has made one: `args` name another model, or `others` are more.
pub fn choose_again(
    args: &RunArgs,
    settings: &Settings,
    here: &Surroundings,
    connections: &Connections,
    others: &[String],
) -> Result<Chosen, Failure> {
    match &connections.replayer {
        Some(replayer) => {
            let answering = (Arc::clone(replayer), connections.local.clone());
            replay(args, settings, here, answering, others)
        }
        None => connect(args, settings, here, Reach::Through(connections), others),
    }
}

/// How a live model is reached.
enum Reach<'a> {
    /// A cassette, if one is written, is named against this folder.
    New {
        started_in: &'a Path,
    },
    Through(&'a Connections),
}

/// Variables that hold keys, and so are kept from children.
pub fn secret_names(args: &RunArgs, settings: &Settings, here: &Surroundings) -> Vec<String> {
    secret_env_names(settings, &here.env, args.api_key_env.as_deref())
}

/// The keys in the environment.
fn secrets_of(args: &RunArgs, settings: &Settings, here: &Surroundings) -> Secrets {
    let names = secret_names(args, settings, here);
    names.iter().filter_map(|name| here.env.get(name)).map(Secret::new).collect()
}

fn replay(
    args: &RunArgs,
    settings: &Settings,
    here: &Surroundings,
    (replayer, local): (Arc<Replayer>, Local),
    others: &[String],
) -> Result<Chosen, Failure> {
    let model =
        args.model.clone().or_else(|| settings.model.clone()).unwrap_or_else(|| REPLAYED_MODEL.to_owned());
    let wire = replayer.protocol().map_or(Wire::OpenAiChat, wire_of);
    let mut models = vec![(model.clone(), wire)];
    for name in &args.fallback_model {
        let provider = name.split('/').next().and_then(Wire::parse);
        models.push((name.clone(), provider.unwrap_or(wire)));
    }
    for (_, wire) in &models {
        check_schema_mode(args, *wire)?;
    }
    let named = || models.iter().map(|(model, _)| model).chain(others);
    let known = Models::new(named().map(|name| {
        let (provider, id) = name.split_once('/').unwrap_or((REPLAYED_MODEL, name));
        let id = if Wire::parse(provider).is_some() { id } else { name };
        (name.clone(), model_facts(settings, provider, id, Place::Cassette))
    }));
    let providers = named().map(|model| (model.clone(), REPLAYED_MODEL.to_owned())).collect();
    let replaying = |model: String, wire: Wire| {
        let endpoint = Endpoint {
            provider: REPLAYED_MODEL.to_owned(),
            base_url: "http://127.0.0.1/v1".to_owned(),
            api_key: None,
            headers: Vec::new(),
        };
        Asked { model, wire, endpoint }
    };
    let others = others.iter().map(|name| {
        let provider = name.split('/').next().and_then(Wire::parse);
        (name.clone(), Ok(replaying(name.clone(), provider.unwrap_or(wire))))
    });
    let others = others.collect();
    let first = models.into_iter().map(|(model, wire)| replaying(model, wire)).collect();
    let transport = Arc::clone(&replayer) as Arc<dyn Transport>;
    let policy = retry_policy(settings);
    let connections = Connections { first, others, transport, replayer: Some(replayer), policy, local };
    Ok(Chosen {
        client: connections.first(None),
        model,
        why: None,
        warnings: Vec::new(),
        models: known,
        recorder: None,
        providers,
        servers: Vec::new(),
        secrets: secrets_of(args, settings, here),
        connections,
    })
}

/// The protocol that a cassette was recorded in.
fn wire_of(protocol: Protocol) -> Wire {
    match protocol {
        Protocol::OpenAiChat => Wire::OpenAiChat,
        Protocol::OpenAiResponses => Wire::OpenAiResponses,
        Protocol::Anthropic => Wire::Anthropic,
        Protocol::Gemini => Wire::Gemini,
    }
}

fn connect(
    args: &RunArgs,
    settings: &Settings,
    here: &Surroundings,
    reach: Reach<'_>,
    others: &[String],
) -> Result<Chosen, Failure> {
    let local = match &reach {
        Reach::New { started_in } => Local::new(args, here, started_in.to_path_buf()),
        Reach::Through(connections) => connections.local.clone(),
    };
    let choices = choices(args, settings, here)?;
    for choice in choices.iter().filter(|choice| choice.wire == Wire::Local) {
        local.weights(&choice.model_id)?;
        if args.record.is_some() {
            let message = "`--record` keeps what is said to a server, and the embedded model has none";
            return Err(Failure::new(ErrorClass::Config, message).hint("leave `--record` out"));
        }
    }
    let others: Vec<(String, Result<ModelChoice, Failure>)> = others
        .iter()
        .map(|name| {
            let choice = choose_fallback(name, &choices[0], flags(args), settings, &here.env);
            (name.clone(), choice.map_err(Failure::from))
        })
        .collect();
    let first = &choices[0];
    let (model, why, warnings) = (first.model_id.clone(), first.why.clone(), first.notes.clone());
    let of_agents = || others.iter().filter_map(|(_, choice)| choice.as_ref().ok());
    let models = Models::new(choices.iter().chain(of_agents()).map(|choice| {
        let place = if choice.loopback { Place::Here } else { Place::Remote };
        (choice.model_id.clone(), model_facts(settings, &choice.provider, &choice.model_id, place))
    }));
    let of_agents: Vec<Asked> = of_agents().cloned().map(asked_at).collect();
    let first: Vec<Asked> = choices.into_iter().map(asked_at).collect();
    let known = secrets_of(args, settings, here);
    let all = || first.iter().chain(&of_agents);
    let secrets = all().fold(known, |known, asked| known.and(&asked.endpoint.secrets()));
    let providers = all().map(|asked| (asked.model.clone(), asked.endpoint.provider.clone())).collect();
    let servers = all()
        .map(|Asked { model, endpoint, .. }| {
            (model.clone(), endpoint.provider.clone(), endpoint.base_url.clone())
        })
        .collect();
    let (transport, recorder) = match reach {
        Reach::Through(connections) => (Arc::clone(&connections.transport), None),
        Reach::New { started_in } => {
            let network: Arc<dyn Transport> = Arc::new(Http::new(http_options(args, settings, here)));
            match &args.record {
                Some(cassette) => {
                    let path = started_in.join(cassette);
                    let recorder = Recorder::create(&path, network, places(here), secrets.clone())?;
                    let recorder = Arc::new(recorder);
                    (Arc::clone(&recorder) as Arc<dyn Transport>, Some(recorder))
                }
                None => (network, None),
            }
        }
    };
    let others = others.into_iter().map(|(name, choice)| (name, choice.map(asked_at))).collect();
    let policy = retry_policy(settings);
    let connections = Connections { first, others, transport, replayer: None, policy, local };
    let client = connections.first(None);
    Ok(Chosen { client, model, why, warnings, models, recorder, providers, servers, secrets, connections })
}

fn asked_at(choice: ModelChoice) -> Asked {
    let endpoint = Endpoint {
        provider: choice.provider,
        base_url: choice.base_url,
        api_key: choice.api_key.as_deref().map(Secret::new),
        headers: choice.headers.into_iter().collect(),
    };
    Asked { model: choice.model_id, wire: choice.wire, endpoint }
}

pub fn flags(args: &RunArgs) -> ModelFlags<'_> {
    ModelFlags {
        model: args.model.as_deref(),
        base_url: args.base_url.as_deref(),
        api_key_env: args.api_key_env.as_deref(),
        auth_type: args.auth_type.as_deref(),
    }
}

/// The model, then the fallbacks in their order.
fn choices(args: &RunArgs, settings: &Settings, here: &Surroundings) -> Result<Vec<ModelChoice>, Failure> {
    let flags = flags(args);
    let first = match choose_model(flags, settings, &here.env) {
        Err(ChoiceError::NoCredentials { .. })
            if nobody_names_one(args, settings) && a_person_is_there(here) =>
        {
            let embedded = ModelFlags { model: Some("local"), ..flags };
            let mut choice = choose_model(embedded, settings, &here.env)?;
            choice.why = Some(format!(
                "model `local/{}`: no key and no server was found; it is small, and often wrong",
                choice.model_id
            ));
            choice
        }
        first => first?,
    };
    let mut choices = vec![first];
    for name in &args.fallback_model {
        let choice = choose_fallback(name, &choices[0], flags, settings, &here.env).map_err(|error| {
            let mut failure = Failure::from(error);
            failure.message = format!("`--fallback-model {name}`: {}", failure.message);
            failure
        })?;
        choices.push(choice);
    }
    for choice in &choices {
        check_schema_mode(args, choice.wire)?;
    }
    Ok(choices)
}

fn nobody_names_one(args: &RunArgs, settings: &Settings) -> bool {
    let named = [&args.model, &settings.model, &args.base_url, &args.api_key_env, &args.auth_type];
    named.iter().all(|name| name.as_deref().is_none_or(|name| name.trim().is_empty()))
}

/// A script has not asked for a download.
fn a_person_is_there(here: &Surroundings) -> bool {
    let in_ci = here.env.get("CI").is_some_and(|value| !value.is_empty());
    let terminals =
        [std::io::stdin().is_terminal(), std::io::stdout().is_terminal(), std::io::stderr().is_terminal()];
    cfg!(feature = "local") && !in_ci && terminals.iter().all(|is_terminal| *is_terminal)
}

/// The Messages API has no response format that takes any schema.
fn check_schema_mode(args: &RunArgs, wire: Wire) -> Result<(), Failure> {
    match (args.schema_mode, wire) {
        (Some(SchemaMode::ResponseFormat | SchemaMode::Auto), Wire::Anthropic) => Err(Failure::new(
            ErrorClass::Config,
            "`--schema-mode` asks for a response format, which the `anthropic` protocol does not have",
        )
        .hint("leave it out: these models call tools")),
        _ => Ok(()),
    }
}

fn chain(mut candidates: Vec<Candidate>) -> Arc<dyn ModelClient> {
    let first = candidates.remove(0);
    match candidates.is_empty() {
        true => first.client,
        false => Arc::new(Fallback::new(first, candidates)),
    }
}

pub fn http_options(args: &RunArgs, settings: &Settings, here: &Surroundings) -> HttpOptions {
    HttpOptions {
        timeouts: Timeouts {
            connect: settings.timeouts.connect(),
            first_byte: settings.timeouts.first_byte(),
            idle: settings.timeouts.idle(),
        },
        ..http_options_of(args, here)
    }
}

/// Proxy and certificates, from flags and the environment.
pub fn http_options_of(args: &RunArgs, here: &Surroundings) -> HttpOptions {
    let variable = |names: [&str; 2]| {
        names.iter().find_map(|name| here.env.get(*name).filter(|value| !value.is_empty())).cloned()
    };
    let proxy = args.proxy.clone().or_else(|| variable(["HTTPS_PROXY", "https_proxy"]));
    HttpOptions {
        timeouts: Timeouts::default(),
        proxy,
        no_proxy: variable(["NO_PROXY", "no_proxy"]),
        ca_file: variable(["SSL_CERT_FILE", "SSL_CERT_FILE"]).map(Into::into),
        user_agent: concat!("tenon/", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}

/// Folders that differ from machine to machine, and so must not decide whether a cassette fits.
fn places(here: &Surroundings) -> Places {
    Places {
        cwd: here.cwd.canonicalize().unwrap_or_else(|_| here.cwd.clone()),
        home: here.home.clone().unwrap_or_default(),
        temp: vec![std::env::temp_dir()],
    }
}
