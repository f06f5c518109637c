//! Puts together the client for the chosen model: endpoint, network, cassette, retries.

use std::path::Path;
use std::sync::Arc;

use tenon_config::{ModelFlags, Settings, Surroundings, choose_model, secret_env_names};
use tenon_core::{Failure, ModelClient};
use tenon_model::{
    Endpoint, Http, HttpOptions, OpenAiChat, Places, Recorder, Replayer, RetryPolicy, Retrying, Secret,
    Timeouts, Transport,
};

use crate::args::RunArgs;

/// The model's name in the output when a cassette answers and none was named.
const REPLAYED_MODEL: &str = "replay";

pub struct Chosen {
    pub client: Arc<dyn ModelClient>,
    pub model: String,
    /// One line for stderr when nobody named the model.
    pub why: Option<String>,
    pub warnings: Vec<String>,
    /// Known to be nothing for a server on this machine and a cassette.
    pub cost_usd: Option<f64>,
    /// The cassette being written; whether it was written to its end is known only at the end.
    pub recorder: Option<Arc<Recorder>>,
}

pub fn choose(
    args: &RunArgs,
    settings: &Settings,
    here: &Surroundings,
    started_in: &Path,
) -> Result<Chosen, Failure> {
    match &args.replay {
        Some(cassette) => replay(args, settings, here, &started_in.join(cassette)),
        None => connect(args, settings, here, started_in),
    }
}

/// Variables that hold keys, and so are kept from children.
pub fn secret_names(args: &RunArgs, settings: &Settings, here: &Surroundings) -> Vec<String> {
    let mut names = secret_env_names(settings, &here.env);
    names.extend(args.api_key_env.clone().filter(|name| !settings.tools.shell.pass_env.contains(name)));
    names
}

fn replay(
    args: &RunArgs,
    settings: &Settings,
    here: &Surroundings,
    cassette: &Path,
) -> Result<Chosen, Failure> {
    let transport = Arc::new(Replayer::open(cassette, places(here))?);
    let endpoint = Endpoint {
        provider: "replay".to_owned(),
        base_url: "http://127.0.0.1/v1".to_owned(),
        api_key: None,
        headers: Vec::new(),
    };
    let model =
        args.model.clone().or_else(|| settings.model.clone()).unwrap_or_else(|| REPLAYED_MODEL.to_owned());
    Ok(Chosen {
        client: with_retries(OpenAiChat::new(endpoint, transport), settings),
        model,
        why: None,
        warnings: Vec::new(),
        cost_usd: Some(0.0),
        recorder: None,
    })
}

fn connect(
    args: &RunArgs,
    settings: &Settings,
    here: &Surroundings,
    started_in: &Path,
) -> Result<Chosen, Failure> {
    let flags = ModelFlags {
        model: args.model.as_deref(),
        base_url: args.base_url.as_deref(),
        api_key_env: args.api_key_env.as_deref(),
        auth_type: args.auth_type.as_deref(),
    };
    let choice = choose_model(flags, settings, &here.env)?;
    let api_key = choice.api_key.as_deref().map(Secret::new);
    let secrets: Vec<Secret> = api_key.iter().cloned().collect();
    let endpoint = Endpoint {
        provider: choice.provider.clone(),
        base_url: choice.base_url.clone(),
        api_key,
        headers: choice.headers.clone().into_iter().collect(),
    };
    let network: Arc<dyn Transport> = Arc::new(Http::new(http_options(args, settings, here)));
    let recorder = match &args.record {
        Some(cassette) => {
            let path = started_in.join(cassette);
            Some(Arc::new(Recorder::create(&path, Arc::clone(&network), places(here), secrets)?))
        }
        None => None,
    };
    let transport = recorder.clone().map_or(network, |recorder| recorder as Arc<dyn Transport>);
    Ok(Chosen {
        client: with_retries(OpenAiChat::new(endpoint, transport), settings),
        model: choice.model_id,
        why: choice.why,
        warnings: choice.notes,
        cost_usd: choice.loopback.then_some(0.0),
        recorder,
    })
}

fn with_retries(client: OpenAiChat, settings: &Settings) -> Arc<dyn ModelClient> {
    let policy = RetryPolicy {
        attempts: settings.retry.attempts(),
        base: settings.retry.base(),
        max_total: settings.retry.max_total(),
        ..RetryPolicy::default()
    };
    Arc::new(Retrying::new(Arc::new(client), policy))
}

fn http_options(args: &RunArgs, settings: &Settings, here: &Surroundings) -> HttpOptions {
    let variable = |names: [&str; 2]| {
        names.iter().find_map(|name| here.env.get(*name).filter(|value| !value.is_empty())).cloned()
    };
    let proxy = args.proxy.clone().or_else(|| variable(["HTTPS_PROXY", "https_proxy"]));
    HttpOptions {
        timeouts: Timeouts {
            connect: settings.timeouts.connect(),
            first_byte: settings.timeouts.first_byte(),
            idle: settings.timeouts.idle(),
        },
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
