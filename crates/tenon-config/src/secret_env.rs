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

/// Keys for a collector of telemetry, and where they could hide.
const TELEMETRY_HEADERS: [&str; 4] = [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
];
const TELEMETRY_ENDPOINTS: [&str; 4] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
];

/// The key variables of model providers, the headers for a collector, every `apiKeyEnv`, the variable `named` by a flag, and any variable
/// that holds one of those keys or part of such a header, without those that
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
    names.extend(TELEMETRY_HEADERS);
    // An address with a name and a password in it.
    names.extend(
        TELEMETRY_ENDPOINTS.iter().filter(|name| env.get(**name).is_some_and(|url| url.contains('@'))),
    );
    let long = |value: &&str| value.len() >= MIN_KEY_BYTES;
    let keys: BTreeSet<&str> =
        names.iter().filter_map(|name| env.get(*name)).map(|key| key.trim()).filter(long).collect();
    let of_collectors = TELEMETRY_HEADERS.iter().filter_map(|name| env.get(*name));
    let of_providers = settings.providers.iter().flat_map(|(_, provider)| provider.headers.values());
    let headers: Vec<&String> =
        of_providers.chain(settings.telemetry.headers.values()).chain(of_collectors).collect();
    let holds_a_secret = |value: &str| {
        let value = value.trim();
        keys.iter().any(|key| value.contains(key))
            || (long(&value) && headers.iter().any(|header| header.contains(value)))
    };
    names.extend(env.iter().filter(|(_, value)| holds_a_secret(value)).map(|(name, _)| name.as_str()));
    let passed = &settings.tools.shell.pass_env;
    names.into_iter().filter(|name| !passed.iter().any(|pass| pass == name)).map(str::to_owned).collect()
}
