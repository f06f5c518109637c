//! Which model answers: a pure function from names, settings and environment to one choice.
//!
//! A name is `provider/id` only if what stands before its first `/` is a known provider. Without a
//! provider, the first one with credentials is taken; without an id, the provider's `*_MODEL` variable,
//! then the first of its `models` in settings, then its default in `data/providers.json`.

use std::collections::BTreeMap;
use std::fmt;

use tenon_core::{ErrorClass, Failure};

use crate::base_url::{BaseUrl, Reach, Scheme, parse_base_url};
use crate::problem::quotable;
use crate::providers::{BUILT_IN, BuiltIn, Wire, built_in};
use crate::settings::{Provider, Settings};

/// What the command line says about the model.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelFlags<'a> {
    pub model: Option<&'a str>,
    pub base_url: Option<&'a str>,
    pub api_key_env: Option<&'a str>,
    /// The provider, as clients of other CLIs name it.
    pub auth_type: Option<&'a str>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct ModelChoice {
    pub provider: String,
    pub wire: Wire,
    pub model_id: String,
    pub base_url: String,
    pub api_key_env: Option<String>,
    pub api_key: Option<String>,
    pub headers: BTreeMap<String, String>,
    /// One line for stderr, when nobody named the model.
    pub why: Option<String>,
    pub notes: Vec<String>,
    /// The server is on this machine: it costs nothing and needs no key.
    pub loopback: bool,
}

/// `settings.model` is used when no flag names one; [`crate::load`] has put `TENON_MODEL` there.
pub fn choose_model(
    flags: ModelFlags<'_>,
    settings: &Settings,
    env: &BTreeMap<String, String>,
) -> Result<ModelChoice, ChoiceError> {
    let chooser = Chooser { flags, settings, env };
    let name = filled(flags.model).or_else(|| filled(settings.model.as_deref()));
    let mut notes = Vec::new();
    let (candidate, id) = match name.map(|name| chooser.split(name)) {
        Some((Some(provider), id)) => (chooser.candidate(&provider), id),
        Some((None, id)) => (chooser.default_provider(&mut notes)?, id),
        None => (chooser.default_provider(&mut notes)?, None),
    };
    chooser.complete(candidate, id, notes)
}

/// Whether a model's name says which provider it is of.
pub fn names_provider(name: &str, settings: &Settings) -> bool {
    let env = BTreeMap::new();
    Chooser { flags: ModelFlags::default(), settings, env: &env }.split(name.trim()).0.is_some()
}

/// The model to ask when `first` cannot answer. A name without a provider is one of the same provider;
/// what the flags say about address and key is about that provider, and no other.
pub fn choose_fallback(
    name: &str,
    first: &ModelChoice,
    flags: ModelFlags<'_>,
    settings: &Settings,
    env: &BTreeMap<String, String>,
) -> Result<ModelChoice, ChoiceError> {
    let names_only = Chooser { flags: ModelFlags::default(), settings, env };
    let (provider, id) = names_only.split(name.trim());
    let provider = provider.unwrap_or_else(|| first.provider.clone());
    let chooser = if provider == first.provider { Chooser { flags, ..names_only } } else { names_only };
    chooser.complete(chooser.candidate(&provider), id, Vec::new())
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// Exit 41.
    #[error("{message}")]
    NoCredentials { message: String, hint: String },
    /// Exit 52.
    #[error("{message}")]
    Config { message: String, hint: Option<String> },
}

impl ChoiceError {
    fn config(message: impl Into<String>, hint: impl Into<String>) -> ChoiceError {
        ChoiceError::Config { message: message.into(), hint: Some(hint.into()) }
    }

    fn no_credentials(message: impl Into<String>) -> ChoiceError {
        let hint = "set a key (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `GEMINI_API_KEY`), point \
                    `OPENAI_BASE_URL` to a server on this machine (`http://127.0.0.1:8080/v1`), or \
                    use the small embedded model: `-m local`";
        ChoiceError::NoCredentials { message: message.into(), hint: hint.to_owned() }
    }
}

impl From<ChoiceError> for Failure {
    fn from(error: ChoiceError) -> Failure {
        match error {
            ChoiceError::NoCredentials { message, hint } => {
                Failure::new(ErrorClass::Auth, message).hint(hint)
            }
            ChoiceError::Config { message, hint } => {
                let failure = Failure::new(ErrorClass::Config, message);
                match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            }
        }
    }
}

struct Chooser<'a> {
    flags: ModelFlags<'a>,
    settings: &'a Settings,
    env: &'a BTreeMap<String, String>,
}

/// A provider with what the table and the settings say about it.
struct Candidate<'a> {
    name: String,
    built_in: Option<&'static BuiltIn>,
    settings: Option<&'a Provider>,
}

impl<'a> Chooser<'a> {
    /// The provider of a name, if it has one, and the id, if it has one.
    fn split(&self, name: &'a str) -> (Option<String>, Option<&'a str>) {
        let (before, id) = match name.split_once('/') {
            Some((before, id)) => (before, filled(Some(id))),
            None => (name, None),
        };
        if self.is_known(before) { (Some(before.to_owned()), id) } else { (None, Some(name)) }
    }

    fn is_known(&self, provider: &str) -> bool {
        built_in(provider).is_some() || self.settings.provider(provider).is_some()
    }

    fn candidate(&self, name: &str) -> Candidate<'a> {
        Candidate { name: name.to_owned(), built_in: built_in(name), settings: self.settings.provider(name) }
    }

    /// Named by `--auth-type`, or the first with credentials.
    fn default_provider(&self, notes: &mut Vec<String>) -> Result<Candidate<'a>, ChoiceError> {
        if let Some(named) = filled(self.flags.auth_type) {
            return if self.is_known(named) {
                Ok(self.candidate(named))
            } else {
                Err(ChoiceError::config(
                    format!("`--auth-type {}` names no known provider", quotable(named)),
                    "use `openai`, `anthropic`, `gemini`, or a provider named in settings",
                ))
            };
        }
        // A server or a key that was given on the command line is an OpenAI-compatible one unless said
        // otherwise.
        if filled(self.flags.base_url).is_some() || filled(self.flags.api_key_env).is_some() {
            return Ok(self.candidate("openai"));
        }
        let mut usable = Vec::new();
        for candidate in self.in_order() {
            // Whoever gave an address wants its server: one that cannot be used is said, not passed over.
            if usable.is_empty() && self.configured_base_url(&candidate).is_some() {
                self.base_url(&candidate)?;
            }
            if self.has_credentials(&candidate) {
                usable.push(candidate);
            }
        }
        if usable.is_empty() {
            return Err(ChoiceError::no_credentials("no credentials for any model were found"));
        }
        if usable.len() > 1 {
            let names: Vec<String> = usable.iter().map(|candidate| format!("`{}`", candidate.name)).collect();
            let name = &usable[0].name;
            notes.push(format!("credentials for {} are set; `{name}` is used", names.join(", ")));
        }
        Ok(usable.swap_remove(0))
    }

    /// Fills in what the name leaves open.
    fn complete(
        &self,
        candidate: Candidate<'a>,
        id: Option<&str>,
        notes: Vec<String>,
    ) -> Result<ModelChoice, ChoiceError> {
        let wire = candidate.supported_wire()?;
        if wire == Wire::Local {
            return self.embedded(candidate, id, notes);
        }
        let base_url = self.base_url(&candidate)?;
        let (api_key_env, api_key) = self.key(&candidate, &base_url)?;
        let (model_id, source) = match id {
            Some(id) => (id.to_owned(), None),
            None => self.default_model(&candidate).map(|(id, source)| (id, Some(source)))?,
        };
        if model_id.chars().any(char::is_control) {
            return Err(ChoiceError::config(
                format!("the model name `{}` holds control characters", quotable(&model_id)),
                "name a model with `--model`",
            ));
        }
        let why = source.map(|source| {
            let credentials = match (&api_key, &api_key_env) {
                (Some(_), Some(variable)) => format!("`{variable}` is set"),
                _ => format!("there is a server at `{}`", base_url.text),
            };
            format!("model `{}/{model_id}`: {credentials}, {source}", candidate.name)
        });
        Ok(ModelChoice {
            headers: candidate.settings.map(|provider| provider.headers.clone()).unwrap_or_default(),
            provider: candidate.name,
            wire,
            model_id,
            loopback: base_url.reach == Reach::Loopback,
            base_url: base_url.text,
            api_key_env,
            api_key,
            why,
            notes,
        })
    }

    /// A model in this process: there is no server and no key.
    fn embedded(
        &self,
        candidate: Candidate<'a>,
        id: Option<&str>,
        notes: Vec<String>,
    ) -> Result<ModelChoice, ChoiceError> {
        for (flag, given) in [("--base-url", self.flags.base_url), ("--api-key-env", self.flags.api_key_env)]
        {
            if filled(given).is_some() {
                return Err(ChoiceError::config(
                    format!("`{flag}` is about a server, and the embedded model has none"),
                    format!("leave `{flag}` out, or name a model of that server"),
                ));
            }
        }
        let model_id = match id {
            Some(id) => id.to_owned(),
            None => self.default_model(&candidate).map(|(id, _)| id)?,
        };
        Ok(ModelChoice {
            provider: candidate.name,
            wire: Wire::Local,
            model_id,
            base_url: String::new(),
            api_key_env: None,
            api_key: None,
            headers: BTreeMap::new(),
            why: None,
            notes,
            loopback: true,
        })
    }

    /// The built-in providers whose keys are looked for, then the user's own in the order of the file.
    fn in_order(&self) -> Vec<Candidate<'a>> {
        let from_table = BUILT_IN.iter().filter(|provider| LOOKED_FOR.contains(&provider.name.as_str()));
        let own = self.settings.providers.iter().filter(|(name, _)| built_in(name).is_none());
        from_table
            .map(|provider| provider.name.as_str())
            .chain(own.map(|(name, _)| name.as_str()))
            .map(|name| self.candidate(name))
            .collect()
    }

    /// A key, or a server on this machine that needs none.
    fn has_credentials(&self, candidate: &Candidate<'_>) -> bool {
        let key = candidate.key_env().and_then(|variable| self.variable(variable));
        let configured = self.configured_base_url(candidate).map(|(url, _)| parse_base_url(&url));
        key.is_some() || matches!(configured, Some(Ok(url)) if url.reach == Reach::Loopback)
    }

    fn base_url(&self, candidate: &Candidate<'_>) -> Result<BaseUrl, ChoiceError> {
        let default = candidate.built_in.and_then(|provider| provider.base_url.clone());
        let (url, source) = filled(self.flags.base_url)
            .map(|url| (url.to_owned(), "`--base-url`".to_owned()))
            .or_else(|| self.configured_base_url(candidate))
            .or_else(|| default.map(|url| (url, "the built-in base URL".to_owned())))
            .ok_or_else(|| {
                ChoiceError::config(
                    format!("the provider `{}` has no base URL", candidate.name),
                    format!("set `providers.{}.baseUrl` in settings, or `--base-url`", candidate.name),
                )
            })?;
        parse_base_url(&url).map_err(|reason| {
            ChoiceError::config(
                format!("{source} is not usable: {reason}"),
                "write it like `https://api.example.com/v1`",
            )
        })
    }

    /// The base URL that the environment or the settings name, and where it stands.
    fn configured_base_url(&self, candidate: &Candidate<'_>) -> Option<(String, String)> {
        let variable = candidate.built_in.and_then(|provider| provider.base_url_env.as_deref());
        let from_env = variable
            .and_then(|variable| Some((self.variable(variable)?.to_owned(), format!("`{variable}`"))));
        from_env.or_else(|| {
            let url = filled(candidate.settings?.base_url.as_deref())?;
            Some((url.to_owned(), format!("`providers.{}.baseUrl`", candidate.name)))
        })
    }

    /// The variable that holds the key and the key, as far as there are any and they may be sent.
    fn key(
        &self,
        candidate: &Candidate<'_>,
        base_url: &BaseUrl,
    ) -> Result<(Option<String>, Option<String>), ChoiceError> {
        let named = filled(self.flags.api_key_env);
        let variable = named.or_else(|| candidate.key_env());
        let key = variable.and_then(|variable| self.variable(variable)).map(str::to_owned);
        if key.as_deref().is_some_and(|key| key.chars().any(char::is_control)) {
            let variable = variable.unwrap_or_default();
            return Err(ChoiceError::config(
                format!("the key in `{variable}` holds a line break or another control character"),
                format!("set `{variable}` again, to the key alone"),
            ));
        }
        match (&key, base_url.reach, base_url.scheme) {
            (Some(_), Reach::Remote, Scheme::Http) => Err(ChoiceError::config(
                format!("a key would be sent to `{}` over plain HTTP", quotable(&base_url.host)),
                "use `https://`; plain HTTP is only for `127.0.0.1`, `[::1]` and `localhost`",
            )),
            (None, Reach::Remote, _) => Err(ChoiceError::no_credentials(match variable {
                Some(variable) => {
                    format!("no key for `{}`: `{}` is not set", candidate.name, quotable(variable))
                }
                None => format!("no key for `{}`: it names no variable that holds one", candidate.name),
            })),
            (None, Reach::Loopback, _) if named.is_some() => Err(ChoiceError::no_credentials(format!(
                "`--api-key-env` names `{}`, which is not set",
                quotable(named.unwrap_or_default())
            ))),
            _ => Ok((variable.map(str::to_owned), key)),
        }
    }

    /// The id when nobody gave one, and where it comes from.
    fn default_model(&self, candidate: &Candidate<'_>) -> Result<(String, String), ChoiceError> {
        let table = candidate.built_in;
        let variable = table.and_then(|provider| provider.model_env.as_deref());
        if let Some((variable, id)) = variable.and_then(|name| Some((name, self.variable(name)?))) {
            return Ok((id.to_owned(), format!("`{variable}` names the model")));
        }
        if let Some(id) =
            candidate.settings.and_then(|provider| filled(provider.models.first().map(String::as_str)))
        {
            return Ok((id.to_owned(), format!("`providers.{}.models` names the model", candidate.name)));
        }
        if let Some(id) = table.and_then(|provider| provider.model.as_deref()) {
            return Ok((id.to_owned(), format!("it is the default of `{}`", candidate.name)));
        }
        let or_variable = variable.map(|name| format!(", or set `{name}`")).unwrap_or_default();
        Err(ChoiceError::config(
            format!("no model is named, and `{}` has no default", candidate.name),
            format!("name one with `--model {}/…`{or_variable}", candidate.name),
        ))
    }

    /// A variable of the environment; an empty one is not set.
    fn variable(&self, name: &str) -> Option<&'a str> {
        filled(self.env.get(name).map(String::as_str))
    }
}

/// The built-in providers whose credentials are looked for when none is named.
const LOOKED_FOR: [&str; 3] = ["openai", "anthropic", "gemini"];

impl Candidate<'_> {
    fn wire(&self) -> Wire {
        let from_settings = self.settings.and_then(|provider| provider.wire.as_deref()).and_then(Wire::parse);
        // Nearly every server speaks chat completions, so that is what a provider of one's own means.
        from_settings.or_else(|| self.built_in.map(|provider| provider.wire)).unwrap_or(Wire::OpenAiChat)
    }

    fn supported_wire(&self) -> Result<Wire, ChoiceError> {
        match self.wire() {
            Wire::Replay => Err(ChoiceError::config(
                "`replay` is not a model to name",
                "replay a cassette with `--replay FILE`",
            )),
            wire @ (Wire::OpenAiChat
            | Wire::OpenAiResponses
            | Wire::Anthropic
            | Wire::Gemini
            | Wire::Local) => Ok(wire),
        }
    }

    fn key_env(&self) -> Option<&str> {
        let from_settings = self.settings.and_then(|provider| provider.api_key_env.as_deref());
        from_settings.or_else(|| self.built_in.and_then(|provider| provider.key_env.as_deref()))
    }
}

/// Text with something in it, without the white space around it.
fn filled(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// Never shows the key or a header's value.
impl fmt::Debug for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelChoice")
            .field("provider", &self.provider)
            .field("wire", &self.wire)
            .field("model_id", &self.model_id)
            .field("base_url", &self.base_url)
            .field("api_key_env", &self.api_key_env)
            .field("api_key", &self.api_key.as_ref().map(|_| "hidden"))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("why", &self.why)
            .field("notes", &self.notes)
            .field("loopback", &self.loopback)
            .finish()
    }
}
