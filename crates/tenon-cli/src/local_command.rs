//! `tenon local list|pull|path|remove`: the weights of embedded models.

use std::fmt::Write;

use clap::{Parser, Subcommand};
use serde_json::json;
use tenon_config::{ProjectTrust, Settings, Sources, Surroundings};
use tenon_core::{ErrorClass, Failure};
use tenon_local::{DEFAULT, Entry, LocalError, Store, Weights, entries};

use crate::args::Cli;
use crate::manual::print;
use crate::stderr::{Level, Reporter, line};
use crate::{local, model, run, surroundings};

#[derive(Debug, Subcommand)]
pub enum LocalCommand {
    /// Show the models that can be pulled, and which of them are here
    List {
        /// As one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Download a model, check it and make it ready
    Pull {
        /// Which one; the default model when none is named
        name: Option<String>,
    },
    /// Print where a model's weights are
    Path { name: Option<String> },
    /// Delete a model's weights
    Remove { name: Option<String> },
}

pub fn main(command: LocalCommand) -> u8 {
    let here = surroundings::collect(None);
    let reporter = Reporter { level: Level::Normal, heartbeats: false, is_terminal: false };
    let Some(store) = local::store(&here) else {
        let failure = local::no_home();
        reporter.failure(&failure);
        return failure.exit_code();
    };
    let done = match command {
        LocalCommand::List { json } => Ok(list(&store, json)),
        LocalCommand::Pull { name } => pull(&store, name.as_deref(), &here, reporter),
        LocalCommand::Path { name } => path(&store, name.as_deref()),
        LocalCommand::Remove { name } => remove(&store, name.as_deref()),
    };
    done.unwrap_or_else(|failure| {
        reporter.failure(&failure);
        failure.exit_code()
    })
}

fn list(store: &Store, json: bool) -> u8 {
    let found = entries().iter().map(|entry| (entry, store.installed(entry)));
    if json {
        let listed: Vec<_> = found
            .map(|(entry, installed)| {
                json!({
                    "name": entry.name, "default": entry.name == DEFAULT, "licence": entry.licence,
                    "download_bytes": entry.bytes, "sha256": entry.sha256, "about": entry.about,
                    "path": installed.as_ref().map(|installed| installed.path.display().to_string()),
                    "bytes": installed.as_ref().map(|installed| installed.bytes),
                })
            })
            .collect();
        return print(format!("{}\n", json!(listed)).as_bytes());
    }
    let mut table = format!("{:14}  {:>8}  {:10}  {:8}  ABOUT\n", "NAME", "DOWNLOAD", "LICENCE", "STATE");
    for (entry, installed) in found {
        let state = if installed.is_some() { "here" } else { "not here" };
        let megabytes = format!("{} MB", entry.bytes / 1_000_000);
        // A `String` takes everything.
        let _ = writeln!(
            table,
            "{:14}  {megabytes:>8}  {:10}  {state:8}  {}",
            entry.name, entry.licence, entry.about
        );
    }
    print(table.as_bytes())
}

fn pull(store: &Store, name: Option<&str>, here: &Surroundings, reporter: Reporter) -> Result<u8, Failure> {
    let entry = named(name)?;
    let args = Cli::try_parse_from(["tenon"]).map(|cli| cli.run);
    let args = args.map_err(|error| Failure::new(ErrorClass::Internal, error.to_string()))?;
    let settings = tenon_config::load(here, &Sources::all(), ProjectTrust::Pinned)
        .map_or_else(|_| Settings::default(), |loaded| loaded.settings);
    let secret_env = model::secret_names(&args, &settings, here);
    let options = model::http_options_of(&args, here);
    let path = run::runtime()?.block_on(local::pull(store, entry, here, &secret_env, options, reporter))?;
    line(&format!("`{}` is ready: `{}`", entry.name, path.display()));
    Ok(0)
}

fn path(store: &Store, name: Option<&str>) -> Result<u8, Failure> {
    let entry = named(name)?;
    match store.installed(entry) {
        Some(installed) => Ok(print(format!("{}\n", installed.path.display()).as_bytes())),
        None => Err(local::failure(LocalError::NoWeights { name: entry.name.to_owned() })),
    }
}

fn remove(store: &Store, name: Option<&str>) -> Result<u8, Failure> {
    let entry = named(name)?;
    let removed = store.remove(entry).map_err(local::failure)?;
    line(&match removed {
        true => format!("the weights of `{}` are removed", entry.name),
        false => format!("the weights of `{}` were not here", entry.name),
    });
    Ok(0)
}

fn named(name: Option<&str>) -> Result<&'static Entry, Failure> {
    match Weights::find(name, std::path::Path::new("")).map_err(local::failure)? {
        Weights::Named(entry) => Ok(entry),
        Weights::File(path) => {
            let message = format!("`{}` is a file of yours, and stays where it is", path.display());
            Err(Failure::new(ErrorClass::Config, message).hint("name a model: `tenon local list` shows them"))
        }
    }
}
