//! What the process was started with: environment, home, folder. Read here and handed down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tenon_config::Surroundings;

/// `cwd` is the folder of `-C`; relative to where tenon was started.
pub fn collect(cwd: Option<&Path>) -> Surroundings {
    // Variables that are not Unicode mean nothing to tenon; children get them untouched.
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let home = env.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let started_in = started_in();
    let cwd = cwd.map_or_else(|| started_in.clone(), |cwd| started_in.join(cwd));
    Surroundings::new(env, home, cwd)
}

/// Where tenon was started; paths in flags are relative to it, also with `-C`.
pub fn started_in() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."))
}
