//! Which environment variables hold secrets and are kept from child processes.

use std::collections::{BTreeMap, BTreeSet};

use crate::providers::BUILT_IN;
use crate::settings::Settings;

/// Shorter values are no keys; treating `1` as one would take half the environment away.
const MIN_KEY_BYTES: usize = 8;

/// The key variables of all known providers, every `apiKeyEnv`, and any variable that holds a copy of one
/// of those keys, without those that `tools.shell.passEnv` lets through. Sorted.
pub fn secret_env_names(settings: &Settings, env: &BTreeMap<String, String>) -> Vec<String> {
    let table =
        BUILT_IN.iter().flat_map(|provider| provider.key_env.iter().chain(&provider.other_secret_env));
    let own = settings.providers.iter().filter_map(|(_, provider)| provider.api_key_env.as_ref());
    let mut names: BTreeSet<&String> = table.chain(own).collect();
    let keys: BTreeSet<&str> = names
        .iter()
        .filter_map(|name| env.get(*name))
        .map(|key| key.trim())
        .filter(|key| key.len() >= MIN_KEY_BYTES)
        .collect();
    names.extend(env.iter().filter(|(_, value)| keys.contains(value.trim())).map(|(name, _)| name));
    names.into_iter().filter(|name| !settings.tools.shell.pass_env.contains(name)).cloned().collect()
}
