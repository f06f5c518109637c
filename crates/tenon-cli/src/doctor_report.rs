//! `tenon doctor --report`: one file to attach to a question. What the machine is, what the doctor found, how tenon is
//! set up, and nothing that anyone wrote, asked or pays with.
//!
//! Values are left out by kind, not searched for: of variables only the names, of settings only what is known to be
//! harmless (`tenon_config::masked_settings`), of sessions no words. What is left is searched for keys all the same.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use tenon_config::{ProjectTrust, Settings, Sources, Surroundings, masked_settings, secret_env_names};
use tenon_core::{ErrorClass, Failure, Secret, Secrets};
use tenon_session::State;
use tenon_tools::KernelSupport;

use crate::doctor::Finding;
use crate::plan::VERSION;
use crate::surroundings;

/// Variables that change what tenon does: these, and all that begin like one of the others.
const VARIABLES: [&str; 14] = [
    "CI",
    "COLUMNS",
    "HOME",
    "LANG",
    "LC_ALL",
    "NO_COLOR",
    "NO_PROXY",
    "PATH",
    "RUST_LOG",
    "SHELL",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "no_proxy",
];
const PREFIXES: [&str; 12] = [
    "TENON_",
    "OPENAI_",
    "ANTHROPIC_",
    "GEMINI_",
    "GOOGLE_",
    "OLLAMA_",
    "OTEL_",
    "TRACE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
];

/// Writes the report and returns where it is.
pub fn write(named: &Path, here: &Surroundings, findings: &[Finding]) -> Result<String, Failure> {
    let path = surroundings::started_in().join(named);
    let settings = tenon_config::load(here, &Sources::all(), ProjectTrust::Pinned)
        .map(|loaded| loaded.settings)
        .unwrap_or_default();
    let mut report = json!({
        "report": 1,
        "tenon": { "version": VERSION, "telemetry": cfg!(feature = "telemetry") },
        "system": system(),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "settings": masked_settings(here).into_iter().map(|file| match file.content {
            Ok(content) => json!({ "path": file.path, "content": content }),
            Err(why) => json!({ "path": file.path, "problem": why }),
        }).collect::<Vec<_>>(),
        "environment": variables(here, &settings),
        "last_session": last_session(here),
    });
    secrets(here, &settings).hide_in(&mut report);
    let text = serde_json::to_string_pretty(&report).unwrap_or_default();
    save(&path, &text).map_err(|error| {
        Failure::new(ErrorClass::Input, format!("`--report {}` cannot be written: {error}", named.display()))
    })?;
    Ok(path.display().to_string())
}

fn finding(finding: &Finding) -> Value {
    json!({ "ok": finding.ok, "what": finding.what, "hint": finding.advice })
}

fn system() -> Value {
    let kernel = KernelSupport::here();
    // There where there is a /proc; elsewhere nobody knows.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    json!({
        "os": std::env::consts::OS, "arch": std::env::consts::ARCH, "kernel": release.as_deref().map(str::trim),
        "landlock": kernel.landlock, "seccomp": kernel.seccomp,
    })
}

/// Only the names.
fn variables(here: &Surroundings, settings: &Settings) -> Vec<String> {
    let secret = secret_env_names(settings, &here.env, None);
    let relevant = |name: &&String| {
        VARIABLES.contains(&name.as_str())
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || secret.contains(name)
    };
    here.env.keys().filter(relevant).cloned().collect()
}

/// How big and how it ended; not what it is called, for its title is the beginning of a prompt.
fn last_session(here: &Surroundings) -> Value {
    let sessions = here.tenon_home.as_deref().and_then(|home| tenon_session::list_all(home).ok());
    let Some(last) = sessions.as_deref().and_then(<[_]>::first) else { return Value::Null };
    let (state, exit_code) = match last.state {
        State::Finished { exit_code } => ("finished", Some(exit_code)),
        State::Unfinished => ("unfinished", None),
        State::InUse { .. } => ("in use", None),
    };
    json!({
        "id": last.id, "bytes": last.bytes, "state": state, "exit_code": exit_code,
        "created": last.head.as_ref().map(|head| head.created.clone()),
        "version": last.head.as_ref().map(|head| head.version.clone()),
        "updated": last.updated.duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default(),
    })
}

fn secrets(here: &Surroundings, settings: &Settings) -> Secrets {
    let names = secret_env_names(settings, &here.env, None);
    let keys = names.iter().filter_map(|name| here.env.get(name)).cloned();
    let of_providers = settings.providers.iter().flat_map(|(_, provider)| provider.headers.values());
    let headers = of_providers.chain(settings.telemetry.headers.values()).cloned();
    keys.chain(headers).map(Secret::new).collect()
}

/// Whole or not at all, and for nobody else to read.
fn save(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().ok_or(std::io::ErrorKind::InvalidFilename)?.to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    let unfinished = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options
        .open(&unfinished)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")))
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // The error that matters is the first one.
        let _ = fs::remove_file(&unfinished);
    }
    written
}
