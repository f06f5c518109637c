//! The embedded model in a run: which one, its weights, what it may call.
//!
//! It gets no tools but the terminal one, whoever asks it: a model so small runs whatever it reads. Tools
//! that only read are let through where `--core-tools` names them. The command that manages weights is `local_command.rs`.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tenon_config::{Settings, Surroundings};
use tenon_core::{
    BoxFut, Cancel, DeltaStream, ErrorClass, Failure, ModelClient, Request, ToolKind, ToolSpec,
};
use tenon_local::{
    Download, Entry, Got, LocalError, LocalModel, LocalOptions, Network, Progress, Pull, Sampling, Store,
    Weights, choose_threads,
};
use tenon_model::{Http, HttpOptions, Timeouts};

use crate::args::RunArgs;
use crate::model;
use crate::stderr::{Reporter, line};

/// Weights are elsewhere too: a host that does not answer at once is passed over.
const CONNECT: Duration = Duration::from_secs(5);
/// A bar is drawn again when it would look different.
const BAR_WIDTH: u64 = 30;

/// The embedded models of a process, each opened once.
#[derive(Clone)]
pub struct Local {
    shared: Arc<Shared>,
}

struct Shared {
    store: Option<Store>,
    started_in: PathBuf,
    tools: Tools,
    opened: Mutex<HashMap<String, Arc<LocalModel>>>,
}

/// What it may call besides the terminal tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tools {
    None,
    /// Named by `--core-tools`.
    Reading,
}

impl Tools {
    pub fn of(args: &RunArgs) -> Tools {
        if args.core_tools.is_empty() { Tools::None } else { Tools::Reading }
    }

    pub fn offers(self, tool: &ToolSpec) -> bool {
        self == Tools::Reading && tool.kind == ToolKind::Read
    }
}

impl Local {
    pub fn new(args: &RunArgs, here: &Surroundings, started_in: PathBuf) -> Local {
        let shared =
            Shared { store: store(here), started_in, tools: Tools::of(args), opened: Mutex::default() };
        Local { shared: Arc::new(shared) }
    }

    /// The weights that a name stands for.
    pub fn weights(&self, id: &str) -> Result<Weights, Failure> {
        Weights::find(Some(id), &self.shared.started_in).map_err(failure)
    }

    /// `id` has been looked up before; nothing is read yet.
    pub fn client(&self, id: &str) -> Arc<dyn ModelClient> {
        let found = self.weights(id).and_then(|weights| Ok((weights, self.store()?)));
        let (weights, store) = match found {
            Ok(found) => found,
            Err(failure) => return Arc::new(Unusable(failure)),
        };
        let mut opened = self.shared.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let model = opened.entry(id.to_owned()).or_insert_with(|| {
            Arc::new(LocalModel::new(LocalOptions {
                name: id.to_owned(),
                weights,
                store,
                threads: threads(),
                sampling: Sampling::Greedy,
                notice: Arc::new(|text| line(&format!("warning: {text}"))),
            }))
        });
        Arc::new(Harmless { inner: Arc::clone(model), tools: self.shared.tools })
    }

    /// Brings the weights of `id` here if they are missing, after saying so.
    pub async fn fetch(
        &self,
        id: &str,
        args: &RunArgs,
        settings: &Settings,
        here: &Surroundings,
        reporter: Reporter,
    ) -> Result<(), Failure> {
        let (Weights::Named(entry), store) = (self.weights(id)?, self.store()?) else { return Ok(()) };
        if store.installed(entry).is_some() {
            return Ok(());
        }
        let secret_env = model::secret_names(args, settings, here);
        let options = model::http_options_of(args, here);
        pull(&store, entry, here, &secret_env, options, reporter).await.map(drop)
    }

    fn store(&self) -> Result<Store, Failure> {
        self.shared.store.clone().ok_or_else(no_home)
    }
}

pub fn store(here: &Surroundings) -> Option<Store> {
    here.tenon_home.as_ref().map(|home| Store::new(home.join("models")))
}

/// For `tenon doctor`: which weights are here, or how they would come.
pub fn on_this_machine(here: &Surroundings) -> String {
    let Some(store) = store(here) else { return "there is no folder for weights".to_owned() };
    let known = tenon_local::entries();
    let found = known.iter().filter_map(|entry| Some((entry, store.installed(entry)?)));
    let found: Vec<String> = found
        .map(|(entry, installed)| format!("`{}` ({} MB)", entry.name, installed.bytes / 1_000_000))
        .collect();
    match (found.is_empty(), known.first()) {
        (false, _) => format!("{} is here, for `-m local`", found.join(", ")),
        (true, Some(entry)) => {
            format!("not here yet; `-m local` or `tenon local pull` downloads {} MB", entry.bytes / 1_000_000)
        }
        (true, None) => "none is known".to_owned(),
    }
}

pub fn no_home() -> Failure {
    Failure::new(ErrorClass::Config, "there is no folder for the weights of a model")
        .hint("set `TENON_HOME` or `HOME`")
}

pub fn failure(error: LocalError) -> Failure {
    let class = match &error {
        LocalError::Cancelled => ErrorClass::Internal,
        LocalError::NoSource { .. } | LocalError::Offline { .. } => ErrorClass::Network,
        _ => ErrorClass::Config,
    };
    let failure = Failure::new(class, error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Downloads, checks and converts the weights, and tells how far it is.
pub async fn pull(
    store: &Store,
    entry: &'static Entry,
    here: &Surroundings,
    secret_env: &[String],
    options: HttpOptions,
    reporter: Reporter,
) -> Result<PathBuf, Failure> {
    let set = |name: &str| here.env.get(name).is_some_and(|value| !value.is_empty());
    let network = if set("TENON_OFFLINE") { Network::Forbidden } else { Network::Allowed };
    if network == Network::Allowed && store.installed(entry).is_none() {
        reporter.note(&format!(
            "downloading `{}` ({} MB, {}) to `{}`",
            entry.name,
            entry.bytes / 1_000_000,
            entry.licence,
            store.folder().display()
        ));
    }
    let bar = Bar { drawn: Mutex::new(String::new()), shown: std::io::stderr().is_terminal() && !set("CI") };
    let timeouts = Timeouts { connect: CONNECT, ..options.timeouts };
    let download = OverHttp(Http::new(HttpOptions { timeouts, ..options }));
    let progress = |step| bar.show(step);
    let pull = Pull { store, download: &download, network, secret_env, progress: &progress };
    let done = pull.run(entry).await;
    bar.clear();
    done.map_err(failure)
}

struct OverHttp(Http);

impl Download for OverHttp {
    fn get(&self, url: &str, from: u64) -> BoxFut<'_, Result<Got, String>> {
        let url = url.to_owned();
        Box::pin(async move {
            let response = self.0.get(&url, from).await.map_err(|error| error.message)?;
            let begins = match response.status {
                200 => 0,
                206 => from,
                status => return Err(format!("`{url}` answered {status}")),
            };
            let body = response.body.map(|piece| match piece {
                Ok(piece) => Ok(piece.to_vec()),
                Err(error) => Err(error.message),
            });
            Ok(Got { from: begins, body: Box::pin(body) })
        })
    }
}

/// How far a download is, in one line that is drawn over.
struct Bar {
    drawn: Mutex<String>,
    shown: bool,
}

impl Bar {
    fn show(&self, step: Progress) {
        let text = match step {
            Progress::Downloading { done, total } => {
                let full = (done * BAR_WIDTH / total.max(1)).min(BAR_WIDTH) as usize;
                let percent = done * 100 / total.max(1);
                format!("[{}{}] {percent:3} %", "=".repeat(full), " ".repeat(BAR_WIDTH as usize - full))
            }
            Progress::Checking => "checking".to_owned(),
            Progress::Converting => "converting".to_owned(),
        };
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shown && *drawn != text {
            crate::stderr::draw(&format!("\r{text:<48}"));
            *drawn = text;
        }
    }

    fn clear(&self) {
        let drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if !drawn.is_empty() {
            crate::stderr::draw(&format!("\r{:48}\r", ""));
        }
    }
}

fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split(' ').next()?.parse().ok());
    choose_threads(cores, load.unwrap_or(0.0))
}

/// The embedded model without tools that have effects.
struct Harmless {
    inner: Arc<LocalModel>,
    tools: Tools,
}

impl ModelClient for Harmless {
    fn stream(&self, mut request: Request, cancel: Cancel) -> DeltaStream {
        let terminal = request.terminal_tool.clone();
        request.tools.retain(|tool| terminal.as_ref() == Some(&tool.name) || self.tools.offers(tool));
        self.inner.stream(request, cancel)
    }
}

/// A model that cannot be asked, and why.
struct Unusable(Failure);

impl ModelClient for Unusable {
    fn stream(&self, _request: Request, _cancel: Cancel) -> DeltaStream {
        let mut error = tenon_core::ModelError::new(self.0.class, self.0.message.clone());
        error.hint = self.0.hint.clone();
        Box::pin(futures_util::stream::iter([Err(error)]))
    }
}
