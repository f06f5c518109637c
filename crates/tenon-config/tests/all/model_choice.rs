//! "Which model", sentence by sentence.

use std::collections::BTreeMap;

use tenon_config::{
    ChoiceError, ModelChoice, ModelFlags, Settings, Wire, choose_fallback, choose_model, is_loopback_url,
};
use tenon_core::Failure;

use crate::place::settings;

const OPENAI: (&str, &str) = ("OPENAI_API_KEY", "k-openai");
const ANTHROPIC: (&str, &str) = ("ANTHROPIC_API_KEY", "k-anthropic");
const LOCAL_SERVER: (&str, &str) = ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1");

/// One question: flags, settings, environment.
struct Ask<'a> {
    flags: ModelFlags<'a>,
    settings: Settings,
    env: BTreeMap<String, String>,
}

fn ask<'a>(env: &[(&str, &str)]) -> Ask<'a> {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Ask { flags: ModelFlags::default(), settings: Settings::default(), env }
}

impl<'a> Ask<'a> {
    fn model(mut self, name: &'a str) -> Self {
        self.flags.model = Some(name);
        self
    }

    fn base_url(mut self, url: &'a str) -> Self {
        self.flags.base_url = Some(url);
        self
    }

    fn key_env(mut self, name: &'a str) -> Self {
        self.flags.api_key_env = Some(name);
        self
    }

    fn auth_type(mut self, name: &'a str) -> Self {
        self.flags.auth_type = Some(name);
        self
    }

    fn settings(mut self, text: &str) -> Self {
        self.settings = settings(text);
        self
    }

    fn choose(&self) -> Result<ModelChoice, ChoiceError> {
        choose_model(self.flags, &self.settings, &self.env)
    }

    /// `provider/id @ url`, and `+ key` when one is sent.
    fn chosen(&self) -> String {
        let choice = self.choose().unwrap();
        let key = choice.api_key.as_ref().map(|key| format!(" + {key}")).unwrap_or_default();
        format!("{}/{} @ {}{key}", choice.provider, choice.model_id, choice.base_url)
    }

    /// Exit code, message and hint.
    fn refused(&self) -> (u8, String, String) {
        let failure = Failure::from(self.choose().unwrap_err());
        (failure.exit_code(), failure.message.clone(), failure.hint.unwrap_or_default())
    }
}

#[test]
fn a_named_model_and_its_provider() {
    let openai = "https://api.openai.com/v1 + k-openai";
    for (name, chosen) in [
        ("gpt-x", "openai/gpt-x"),
        ("openai/gpt-x", "openai/gpt-x"),
        // Stripped once.
        ("openai/openai/gpt-x", "openai/openai/gpt-x"),
        // Not a provider: the id stays whole.
        ("Qwen/Qwen3-8B", "openai/Qwen/Qwen3-8B"),
        ("OpenAI/gpt-x", "openai/OpenAI/gpt-x"),
        ("/gpt-x", "openai//gpt-x"),
        (" gpt-x ", "openai/gpt-x"),
        // A provider without an id has a default.
        ("openai", "openai/gpt-5-mini"),
        ("openai/", "openai/gpt-5-mini"),
        // An empty name is no name.
        ("", "openai/gpt-5-mini"),
    ] {
        assert_eq!(ask(&[OPENAI]).model(name).chosen(), format!("{chosen} @ {openai}"), "{name}");
    }
}

#[test]
fn the_flag_comes_before_the_settings() {
    let settings = r#"{ "model": "from-settings" }"#;
    let chosen = ask(&[OPENAI]).settings(settings).choose().unwrap();
    assert_eq!(chosen.model_id, "from-settings");
    assert_eq!(chosen.why, None);
    let chosen = ask(&[OPENAI]).settings(settings).model("from-flag").choose().unwrap();
    assert_eq!(chosen.model_id, "from-flag");
    // OPENAI_MODEL only fills in for a model that nobody named.
    let chosen = ask(&[OPENAI, ("OPENAI_MODEL", "m")]).settings(settings).choose().unwrap();
    assert_eq!(chosen.model_id, "from-settings");
}

#[test]
fn an_unnamed_model_is_explained() {
    let why = |ask: Ask<'_>| ask.choose().unwrap().why.unwrap();
    assert_eq!(
        why(ask(&[OPENAI])),
        "model `openai/gpt-5-mini`: `OPENAI_API_KEY` is set, it is the default of `openai`"
    );
    assert_eq!(
        why(ask(&[OPENAI, ("OPENAI_MODEL", "mine")])),
        "model `openai/mine`: `OPENAI_API_KEY` is set, `OPENAI_MODEL` names the model"
    );
    assert_eq!(
        why(ask(&[LOCAL_SERVER])),
        "model `openai/gpt-5-mini`: there is a server at `http://127.0.0.1:8080/v1`, it is the default of `openai`"
    );
    assert_eq!(ask(&[OPENAI]).model("x").choose().unwrap().why, None);
}

#[test]
fn the_first_provider_with_credentials_and_a_note_when_there_are_several() {
    let anthropic = ("ANTHROPIC_API_KEY", "k-anthropic");
    let gemini = ("GEMINI_API_KEY", "k-gemini");
    let choice = ask(&[OPENAI, anthropic, gemini]).choose().unwrap();
    assert_eq!(choice.provider, "openai");
    assert_eq!(choice.notes, ["credentials for `openai`, `anthropic`, `gemini` are set; `openai` is used"]);
    assert_eq!(ask(&[OPENAI]).choose().unwrap().notes, [""; 0]);
    // Named in full, nothing was decided and nothing is noted.
    assert_eq!(ask(&[OPENAI, anthropic]).model("openai/x").choose().unwrap().notes, [""; 0]);
    // A server on this machine counts as credentials.
    let choice = ask(&[LOCAL_SERVER, anthropic]).choose().unwrap();
    assert_eq!((choice.provider.as_str(), choice.loopback), ("openai", true));
    assert_eq!(choice.notes, ["credentials for `openai`, `anthropic` are set; `openai` is used"]);
}

#[test]
fn every_protocol_of_a_server_can_be_named() {
    let anthropic = ("ANTHROPIC_API_KEY", "k-anthropic");
    let gemini = ("GEMINI_API_KEY", "k-gemini");
    let all = [OPENAI, anthropic, gemini];
    let at_anthropic = "https://api.anthropic.com + k-anthropic";
    let at_google = "https://generativelanguage.googleapis.com + k-gemini";
    for (ask, chosen, wire) in [
        (ask(&[anthropic]), format!("anthropic/claude-sonnet-4-5 @ {at_anthropic}"), Wire::Anthropic),
        (ask(&[anthropic, gemini]), format!("anthropic/claude-sonnet-4-5 @ {at_anthropic}"), Wire::Anthropic),
        (ask(&[gemini]), format!("gemini/gemini-2.5-flash @ {at_google}"), Wire::Gemini),
        // A bare name is asked for where there are credentials.
        (ask(&[gemini]).model("g"), format!("gemini/g @ {at_google}"), Wire::Gemini),
        (ask(&all).model("anthropic/a"), format!("anthropic/a @ {at_anthropic}"), Wire::Anthropic),
        (ask(&all).model("gemini"), format!("gemini/gemini-2.5-flash @ {at_google}"), Wire::Gemini),
        (
            ask(&all).auth_type("anthropic").model("a"),
            format!("anthropic/a @ {at_anthropic}"),
            Wire::Anthropic,
        ),
        (
            ask(&all).auth_type("gemini").model("anthropic/a"),
            format!("anthropic/a @ {at_anthropic}"),
            Wire::Anthropic,
        ),
        (
            ask(&all).model("openai-responses/r"),
            "openai-responses/r @ https://api.openai.com/v1 + k-openai".to_owned(),
            Wire::OpenAiResponses,
        ),
        (
            ask(&all).model("openai-responses"),
            "openai-responses/gpt-5-mini @ https://api.openai.com/v1 + k-openai".to_owned(),
            Wire::OpenAiResponses,
        ),
    ] {
        assert_eq!((ask.chosen(), ask.choose().unwrap().wire), (chosen, wire));
    }
    for (variable, url, model) in [
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1", "anthropic/m"),
        ("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:2/v1beta", "gemini/m"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:3/v1", "openai-responses/m"),
    ] {
        // No key is needed on this machine, and a model may be named by a variable.
        assert_eq!(ask(&[(variable, url)]).model(model).chosen(), format!("{model} @ {url}"));
    }
    assert_eq!(
        ask(&[("ANTHROPIC_BASE_URL", "http://127.0.0.1:1"), ("ANTHROPIC_MODEL", "m")]).chosen(),
        "anthropic/m @ http://127.0.0.1:1"
    );
    assert_eq!(
        ask(&[gemini, ("GEMINI_MODEL", "m")]).choose().unwrap().why.unwrap(),
        "model `gemini/m`: `GEMINI_API_KEY` is set, `GEMINI_MODEL` names the model"
    );
}

#[test]
fn what_is_no_server_says_so() {
    let embedded = |name: &str| ask(&[OPENAI]).model(name).choose().unwrap();
    assert_eq!((embedded("local").model_id.as_str(), embedded("local").loopback), ("smollm2-135m", true));
    assert_eq!(embedded("local/a/b.gguf").model_id, "a/b.gguf");
    assert_eq!((embedded("local").api_key, embedded("local").base_url.as_str()), (None, ""));
    let (code, _, hint) = ask(&[OPENAI]).model("replay").refused();
    assert_eq!((code, hint.as_str()), (52, "replay a cassette with `--replay FILE`"));
}

#[test]
fn a_fallback_has_its_own_provider_and_key() {
    let anthropic = ("ANTHROPIC_API_KEY", "k-anthropic");
    let env = [OPENAI, anthropic, ("FLAG", "k-flag")];
    let fallback = |ask: &Ask<'_>, name: &str| {
        let first = ask.choose().unwrap();
        choose_fallback(name, &first, ask.flags, &ask.settings, &ask.env).map(|choice| {
            format!(
                "{}/{} @ {} + {}",
                choice.provider,
                choice.model_id,
                choice.base_url,
                choice.api_key.unwrap()
            )
        })
    };
    let elsewhere = ask(&env).model("openai/a").base_url("https://llm.example/v1").key_env("FLAG");
    for (name, chosen) in [
        // A bare name is a model of the same provider, wherever that is.
        ("b", "openai/b @ https://llm.example/v1 + k-flag"),
        ("openai/b", "openai/b @ https://llm.example/v1 + k-flag"),
        ("Qwen/b", "openai/Qwen/b @ https://llm.example/v1 + k-flag"),
        // The flags are not about another one.
        ("anthropic/b", "anthropic/b @ https://api.anthropic.com + k-anthropic"),
        ("anthropic", "anthropic/claude-sonnet-4-5 @ https://api.anthropic.com + k-anthropic"),
    ] {
        assert_eq!(fallback(&elsewhere, name).unwrap(), chosen, "{name}");
    }
    let by_type = ask(&env).auth_type("anthropic").model("a");
    assert_eq!(fallback(&by_type, "b").unwrap(), "anthropic/b @ https://api.anthropic.com + k-anthropic");
    let failure = Failure::from(fallback(&elsewhere, "gemini/g").unwrap_err());
    assert_eq!(
        (failure.exit_code(), failure.message.as_str()),
        (41, "no key for `gemini`: `GEMINI_API_KEY` is not set")
    );
}

#[test]
fn without_credentials_there_are_three_remedies() {
    for ask in [
        ask(&[]),
        ask(&[("OPENAI_API_KEY", "")]),
        ask(&[("OPENAI_API_KEY", "  ")]),
        ask(&[]).model("gpt-x"),
        // A server elsewhere needs a key.
        ask(&[("OPENAI_BASE_URL", "https://llm.example/v1")]),
    ] {
        let (code, message, hint) = ask.refused();
        assert_eq!((code, message.as_str()), (41, "no credentials for any model were found"));
        assert_eq!(
            hint,
            "set a key (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `GEMINI_API_KEY`), point `OPENAI_BASE_URL` to a \
             server on this machine (`http://127.0.0.1:8080/v1`), or use the small embedded model: `-m local`"
        );
    }
    let (code, message, _) = ask(&[]).model("openai/gpt-x").refused();
    assert_eq!((code, message.as_str()), (41, "no key for `openai`: `OPENAI_API_KEY` is not set"));
    let (code, message, _) = ask(&[]).base_url("https://llm.example/v1").refused();
    assert_eq!((code, message.as_str()), (41, "no key for `openai`: `OPENAI_API_KEY` is not set"));
}

#[test]
fn a_base_url_alone_is_enough_on_this_machine() {
    for url in ["http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://[::1]:1/v1", "https://127.8.9.1/v1"]
    {
        let choice = ask(&[("OPENAI_BASE_URL", url)]).model("m").choose().unwrap();
        assert_eq!((choice.base_url.as_str(), choice.loopback, choice.api_key), (url, true, None));
        assert_eq!(ask(&[]).base_url(url).model("m").chosen(), format!("openai/m @ {url}"));
    }
}

#[test]
fn where_the_base_url_comes_from() {
    let own = r#"{ "providers": { "openai": { "baseUrl": "https://settings.example/v1/" } } }"#;
    let env = [OPENAI, ("OPENAI_BASE_URL", "https://env.example/v1")];
    assert_eq!(
        ask(&[OPENAI]).model("m").settings(own).chosen(),
        "openai/m @ https://settings.example/v1 + k-openai"
    );
    assert_eq!(ask(&env).model("m").settings(own).chosen(), "openai/m @ https://env.example/v1 + k-openai");
    assert_eq!(
        ask(&env).model("m").settings(own).base_url("https://flag.example/v1").chosen(),
        "openai/m @ https://flag.example/v1 + k-openai"
    );
    let empty = [OPENAI, ("OPENAI_BASE_URL", "")];
    assert_eq!(ask(&empty).model("m").chosen(), "openai/m @ https://api.openai.com/v1 + k-openai");
}

#[test]
fn a_key_never_travels_over_plain_http() {
    let (code, message, _) = ask(&[OPENAI, ("OPENAI_BASE_URL", "http://llm.example/v1")]).refused();
    assert_eq!((code, message.as_str()), (52, "a key would be sent to `llm.example` over plain HTTP"));
    assert_eq!(
        ask(&[OPENAI, LOCAL_SERVER]).model("m").chosen(),
        "openai/m @ http://127.0.0.1:8080/v1 + k-openai"
    );
}

#[test]
fn odd_base_urls_are_refused() {
    for (url, reason) in [
        ("llm.example/v1", "it does not start with `https://` or `http://`"),
        ("ftp://127.0.0.1/", "it does not start with `https://` or `http://`"),
        ("https://user:pass@llm.example/v1", "it holds a user name; keys belong in the environment"),
        ("http://127.0.0.1@llm.example/v1", "it holds a user name; keys belong in the environment"),
        ("http://127.0.0.1\\@llm.example", "it holds spaces, control characters or backslashes"),
        ("http://127.0.0.1:8080/v1?key=1", "it has a query or a fragment"),
        ("http://:8080/v1", "it names no host, or its port is not a number"),
        ("http://127.0.0.1:http/v1", "it names no host, or its port is not a number"),
        ("http://[::1/v1", "it names no host, or its port is not a number"),
        ("https://", "it does not start with `https://` or `http://`"),
    ] {
        let (code, message, _) = ask(&[OPENAI]).base_url(url).refused();
        assert_eq!((code, message), (52, format!("`--base-url` is not usable: {reason}")), "{url}");
        // With a key or without, and whoever else could answer instead.
        for env in [vec![], vec![OPENAI], vec![ANTHROPIC]] {
            let env: Vec<_> = env.into_iter().chain([("OPENAI_BASE_URL", url)]).collect();
            let (code, message, _) = ask(&env).refused();
            assert_eq!((code, message), (52, format!("`OPENAI_BASE_URL` is not usable: {reason}")), "{url}");
        }
    }
    let own = r#"{ "providers": { "mine": { "baseUrl": "nonsense" } } }"#;
    let (code, message, _) = ask(&[]).settings(own).refused();
    let reason = "it does not start with `https://` or `http://`";
    assert_eq!((code, message), (52, format!("`providers.mine.baseUrl` is not usable: {reason}")));
    // Nobody asked for that one.
    assert_eq!(ask(&[ANTHROPIC]).model("m").settings(own).chosen(), ask(&[ANTHROPIC]).model("m").chosen());
    for remote in [
        "http://localhost.llm.example",
        "http://127.0.0.1.nip.io",
        "http://0.0.0.0:1",
        "http://[::]",
        "https://10.0.0.1",
    ] {
        assert!(!is_loopback_url(remote), "{remote}");
    }
}

#[test]
fn where_the_key_comes_from() {
    let env = [OPENAI, ("MINE", "k-mine"), ("FLAG", "k-flag")];
    let own = r#"{ "providers": { "openai": { "apiKeyEnv": "MINE" } } }"#;
    let key = |ask: Ask<'_>| ask.model("m").choose().unwrap().api_key.unwrap();
    assert_eq!(key(ask(&env)), "k-openai");
    assert_eq!(key(ask(&env).settings(own)), "k-mine");
    assert_eq!(key(ask(&env).settings(own).key_env("FLAG")), "k-flag");
    assert_eq!(key(ask(&[("OPENAI_API_KEY", " k \n")])), "k");
    // Named, but not there: not even a server on this machine makes up for that.
    let (code, message, _) = ask(&[LOCAL_SERVER]).key_env("FLAG").refused();
    assert_eq!((code, message.as_str()), (41, "`--api-key-env` names `FLAG`, which is not set"));
    let (code, message, _) = ask(&[("OPENAI_API_KEY", "a\nb")]).refused();
    assert_eq!(
        (code, message.as_str()),
        (52, "the key in `OPENAI_API_KEY` holds a line break or another control character")
    );
}

#[test]
fn a_provider_of_ones_own() {
    let own = r#"{ "providers": {
        "corp": { "baseUrl": "https://llm.corp.example/v1", "apiKeyEnv": "CORP_KEY", "models": ["big", "small"],
                  "headers": { "X-Team": "tools" } },
        "box": { "baseUrl": "http://127.0.0.1:9000/v1" }
    } }"#;
    let corp = ("CORP_KEY", "k-corp");
    assert_eq!(
        ask(&[corp]).settings(own).model("corp/org/m").chosen(),
        "corp/org/m @ https://llm.corp.example/v1 + k-corp"
    );
    assert_eq!(
        ask(&[corp]).settings(own).model("corp").chosen(),
        "corp/big @ https://llm.corp.example/v1 + k-corp"
    );
    assert_eq!(ask(&[OPENAI]).settings(own).model("box/m").chosen(), "box/m @ http://127.0.0.1:9000/v1");
    // Nobody else's key is ever borrowed.
    let (code, message, _) = ask(&[OPENAI]).settings(own).model("corp").refused();
    assert_eq!((code, message.as_str()), (41, "no key for `corp`: `CORP_KEY` is not set"));
    // Without a name: after the built-in ones, in the order of the file.
    assert_eq!(ask(&[corp]).settings(own).choose().unwrap().provider, "corp");
    assert_eq!(ask(&[]).settings(own).model("m").choose().unwrap().provider, "box");
    assert_eq!(ask(&[corp, OPENAI]).settings(own).choose().unwrap().provider, "openai");
    let choice = ask(&[corp]).settings(own).model("corp/m").choose().unwrap();
    assert_eq!((choice.wire, choice.headers["X-Team"].as_str()), (Wire::OpenAiChat, "tools"));
    for (name, wire) in [
        ("openai", Wire::OpenAiChat),
        ("openai-responses", Wire::OpenAiResponses),
        ("anthropic", Wire::Anthropic),
        ("gemini", Wire::Gemini),
    ] {
        let own =
            format!(r#"{{ "providers": {{ "x": {{ "wire": "{name}", "baseUrl": "http://[::1]:1" }} }} }}"#);
        assert_eq!(ask(&[]).settings(&own).model("x/m").choose().unwrap().wire, wire);
    }
    let bare = r#"{ "providers": { "corp": { "wire": "openai" } } }"#;
    let (code, message, _) = ask(&[]).settings(bare).model("corp/m").refused();
    assert_eq!((code, message.as_str()), (52, "the provider `corp` has no base URL"));
}

#[test]
fn ollama_is_a_server_on_this_machine() {
    assert_eq!(ask(&[]).model("ollama/qwen3:8b").chosen(), "ollama/qwen3:8b @ http://127.0.0.1:11434/v1");
    assert_eq!(
        ask(&[("OLLAMA_MODEL", "m")]).model("ollama").chosen(),
        "ollama/m @ http://127.0.0.1:11434/v1"
    );
    let (code, message, hint) = ask(&[OPENAI]).model("ollama").refused();
    assert_eq!((code, message.as_str()), (52, "no model is named, and `ollama` has no default"));
    assert_eq!(hint, "name one with `--model ollama/…`, or set `OLLAMA_MODEL`");
    // A key for somebody else is not sent to it.
    assert_eq!(ask(&[OPENAI]).model("ollama/m").choose().unwrap().api_key, None);
}

#[test]
fn the_auth_type_is_the_default_provider() {
    assert_eq!(
        ask(&[OPENAI, ("ANTHROPIC_API_KEY", "k")]).auth_type("openai").model("m").choose().unwrap().notes,
        [""; 0]
    );
    assert_eq!(ask(&[OPENAI]).auth_type("ollama").model("m").choose().unwrap().provider, "ollama");
    let (code, message, _) = ask(&[OPENAI]).auth_type("oauth").refused();
    assert_eq!((code, message.as_str()), (52, "`--auth-type oauth` names no known provider"));
}

#[test]
fn a_model_name_with_control_characters_is_refused() {
    let (code, message, _) = ask(&[OPENAI]).model("a\u{1b}b").refused();
    assert_eq!((code, message.as_str()), (52, "the model name `a\\u{1b}b` holds control characters"));
}

#[test]
fn the_key_is_not_shown() {
    let choice = ask(&[("OPENAI_API_KEY", "k-hush")]).model("m").choose().unwrap();
    assert_eq!(choice.api_key.as_deref(), Some("k-hush"));
    let shown = format!("{choice:?}");
    assert!(!shown.contains("k-hush") && shown.contains("OPENAI_API_KEY"), "{shown}");
}
