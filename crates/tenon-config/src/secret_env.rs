//! Which environment variables hold secrets and are kept from child processes.

use std::collections::{BTreeMap, BTreeSet};

use crate::providers::BUILT_IN;
use crate::settings::Settings;

/// Shorter values are no keys; treating `1` as one would take half the environment away.
const MIN_KEY_BYTES: usize = 8;

/// Keys of model providers that have no entry in the table of providers and are reached through settings.
const OTHER_MODEL_KEYS: [&str; 12] = [
    "AZURE_OPENAI_API_KEY",
    "COHERE_API_KEY",
    "DASHSCOPE_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENROUTER_API_KEY",
    "PERPLEXITY_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
    "ZHIPUAI_API_KEY",
];

/// The key variables of model providers, every `apiKeyEnv`, the variable `named` by a flag, and any variable
/// that holds one of those keys or part of a provider's header, without those that
/// `tools.shell.passEnv` lets through. Sorted.
pub fn secret_env_names(
    settings: &Settings,
    env: &BTreeMap<String, String>,
    named: Option<&str>,
) -> Vec<String> {
    let table =
        BUILT_IN.iter().flat_map(|provider| provider.key_env.iter().chain(&provider.other_secret_env));
    let own = settings.providers.iter().filter_map(|(_, provider)| provider.api_key_env.as_ref());
    let mut names: BTreeSet<&str> = table.chain(own).map(String::as_str).chain(named).collect();
    names.extend(OTHER_MODEL_KEYS);
    let long = |value: &&str| value.len() >= MIN_KEY_BYTES;
    let keys: BTreeSet<&str> =
        names.iter().filter_map(|name| env.get(*name)).map(|key| key.trim()).filter(long).collect();
    let headers: Vec<&String> =
        settings.providers.iter().flat_map(|(_, provider)| provider.headers.values()).collect();
    let holds_a_secret = |value: &str| {
        let value = value.trim();
        keys.iter().any(|key| value.contains(key))
            || (long(&value) && headers.iter().any(|header| header.contains(value)))
    };
    names.extend(env.iter().filter(|(_, value)| holds_a_secret(value)).map(|(name, _)| name.as_str()));
    let passed = &settings.tools.shell.pass_env;
    names.into_iter().filter(|name| !passed.iter().any(|pass| pass == name)).map(str::to_owned).collect()
}
