//! The hooks of a run: from settings and surroundings to [`Hooks`].

use std::path::{Path, PathBuf};

use tenon_config::{Loaded, Surroundings};
use tenon_core::{ErrorClass, Failure, HookRun, Id, Secrets};
use tenon_tools::{HookOptions, Hooks, NetOptions};

use crate::args::{InputFormat, RunArgs};
use crate::{client_marks, model};

/// What hooks are told about the run besides its settings.
pub struct HookedRun<'a> {
    pub session: Id,
    /// The session's file, when there is one.
    pub transcript: Option<PathBuf>,
    pub cwd: &'a Path,
    pub secrets: &'a Secrets,
}

/// None of the settings' with `--bare`, `--safe-mode` and `disableAllHooks`. Those of an untrusted project are not
/// among the settings to begin with. A client may bring more, which are told the same about the run.
pub fn hooks(
    args: &RunArgs,
    loaded: &Loaded,
    here: &Surroundings,
    run: HookedRun<'_>,
) -> Result<Hooks, Failure> {
    let settings = &loaded.settings;
    let is_off = args.bare || args.safe_mode || settings.disable_all_hooks == Some(true);
    let rules = if is_off { Vec::new() } else { settings.hooks.clone() };
    if rules.is_empty() && args.input_format == InputFormat::Text {
        return Ok(Hooks::none());
    }
    let withheld = client_marks::kept_from_children(args, settings, here);
    refuse_keys(loaded, run.secrets)?;
    let mut options = HookOptions {
        rules,
        environment: std::env::vars_os()
            .filter(|(name, _)| !withheld.iter().any(|withheld| name == withheld.as_str()))
            .collect(),
        session_id: run.session.to_string(),
        transcript: run.transcript,
        cwd: run.cwd.to_owned(),
        project_root: loaded.project_root.clone(),
        timeout: settings.timeouts.hook(),
        client_timeout: settings.timeouts.hook_callback(),
        net: net(args, here),
        ..HookOptions::default()
    };
    if let Some(cap) = settings.stop_hook_blocking_cap {
        options.stop_cap = cap;
    }
    Hooks::new(options).map_err(|error| Failure::new(ErrorClass::Config, format!("`hooks`: {error}")))
}

/// How tools and hooks reach the network: as models are reached.
pub fn net(args: &RunArgs, here: &Surroundings) -> NetOptions {
    let http = model::http_options_of(args, here);
    NetOptions {
        proxy: http.proxy,
        no_proxy: http.no_proxy,
        ca_file: http.ca_file,
        user_agent: http.user_agent,
    }
}

/// The key of a model provider is sent to that provider and to nobody else.
fn refuse_keys(loaded: &Loaded, secrets: &Secrets) -> Result<(), Failure> {
    for hook in loaded.settings.hooks.iter().flat_map(|rule| &rule.hooks) {
        let values: Vec<&String> = match &hook.run {
            HookRun::Http { url, headers, .. } => headers.values().chain([url]).collect(),
            HookRun::Command { env, .. } => env.values().collect(),
            HookRun::Client { .. } => Vec::new(),
        };
        if values.iter().any(|value| secrets.hide(value) != value.as_str()) {
            let message = "a hook of the settings would be given the key of a model provider";
            return Err(Failure::new(ErrorClass::Config, message).hint("give hooks a key of their own"));
        }
    }
    Ok(())
}
