//! The providers tenon knows by name. The table is `data/providers.json`.

use std::sync::LazyLock;

use serde::Deserialize;

/// In the order in which credentials are looked for.
pub(crate) static BUILT_IN: LazyLock<Vec<BuiltIn>> = LazyLock::new(|| {
    // A test reads the file, so that it cannot be shipped broken.
    serde_json::from_str(include_str!("../data/providers.json")).unwrap_or_default()
});

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BuiltIn {
    pub(crate) name: String,
    pub(crate) wire: Wire,
    pub(crate) key_env: Option<String>,
    pub(crate) base_url_env: Option<String>,
    pub(crate) model_env: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) model: Option<String>,
    /// Variables that hold a secret of this provider but are not used.
    #[serde(default)]
    pub(crate) other_secret_env: Vec<String>,
}

pub(crate) fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|provider| provider.name == name)
}

/// The protocol a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// Chat completions.
    #[serde(rename = "openai")]
    OpenAiChat,
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    Anthropic,
    Gemini,
    Local,
    Replay,
}

impl Wire {
    /// What `providers.*.wire` may say: the protocols of servers.
    pub const NAMES: [&'static str; 4] = ["openai", "openai-responses", "anthropic", "gemini"];

    pub fn parse(name: &str) -> Option<Wire> {
        match name {
            "openai" => Some(Wire::OpenAiChat),
            "openai-responses" => Some(Wire::OpenAiResponses),
            "anthropic" => Some(Wire::Anthropic),
            "gemini" => Some(Wire::Gemini),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Wire::OpenAiChat => "openai",
            Wire::OpenAiResponses => "openai-responses",
            Wire::Anthropic => "anthropic",
            Wire::Gemini => "gemini",
            Wire::Local => "local",
            Wire::Replay => "replay",
        }
    }
}
