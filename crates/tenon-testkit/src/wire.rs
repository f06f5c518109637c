//! The four ways a model is asked. The path of a request says which one it is; the same script is then
//! rendered in that shape (`render/`) and the same readers understand the request (`captured.rs`).

use crate::Server;

/// The key every test uses.
const TEST_KEY: &str = "test-key";
/// The model every test asks for.
const TEST_MODEL: &str = "test-model";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1beta/models/{model}:streamGenerateContent?alt=sse`
    Gemini,
}

impl Wire {
    /// For tests that hold on every wire.
    pub const ALL: [Wire; 4] = [Wire::Chat, Wire::Responses, Wire::Messages, Wire::Gemini];

    /// The wire of a request path; any other path is treated as chat completions.
    pub fn of_path(path: &str) -> Wire {
        let path = path.split('?').next().unwrap_or_default();
        if path.ends_with("/responses") {
            Wire::Responses
        } else if path.ends_with("/messages") {
            Wire::Messages
        } else if path.ends_with(":streamGenerateContent") || path.ends_with(":generateContent") {
            Wire::Gemini
        } else {
            Wire::Chat
        }
    }

    /// The wire that `TENON_TEST_WIRE` names, for suites that are run on one wire after another; chat
    /// completions without it.
    pub fn from_env() -> Wire {
        let Some(name) = std::env::var_os("TENON_TEST_WIRE") else { return Wire::Chat };
        let known = Self::ALL.into_iter().find(|wire| name == wire.name());
        known.unwrap_or_else(|| {
            panic!("TENON_TEST_WIRE is {name:?}, not one of {:?}", Self::ALL.map(Wire::name))
        })
    }

    /// For the name of a case.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Chat => "chat",
            Wire::Responses => "responses",
            Wire::Messages => "messages",
            Wire::Gemini => "gemini",
        }
    }

    /// What stands before the `/` of `-m`.
    pub fn provider(self) -> &'static str {
        match self {
            Wire::Chat => "openai",
            Wire::Responses => "openai-responses",
            Wire::Messages => "anthropic",
            Wire::Gemini => "gemini",
        }
    }

    /// `openai/test-model` and so on: the value of `-m`.
    pub fn model(self) -> String {
        format!("{}/{TEST_MODEL}", self.provider())
    }

    /// Where the model is asked, from the root of the server.
    pub fn path(self) -> String {
        match self {
            Wire::Chat => "/v1/chat/completions".into(),
            Wire::Responses => "/v1/responses".into(),
            Wire::Messages => "/v1/messages".into(),
            Wire::Gemini => format!("/v1beta/models/{TEST_MODEL}:streamGenerateContent?alt=sse"),
        }
    }

    /// Can the arguments of a call be text that is no JSON? Where they are sent as an object they cannot:
    /// `call_raw` with broken text sends a JSON string there.
    pub fn can_break_arguments(self) -> bool {
        self != Wire::Gemini
    }

    /// Do the arguments of a call arrive piece by piece? Where they do not, there is no half of a call.
    pub fn sends_pieces_of_calls(self) -> bool {
        self != Wire::Gemini
    }

    /// Are the arguments of a call an object from the start? Then a call without any has `{}`.
    pub fn starts_calls_with_an_object(self) -> bool {
        matches!(self, Wire::Messages | Wire::Gemini)
    }

    /// The variables that point the binary to this server.
    pub fn env(self, server: &Server) -> Vec<(String, String)> {
        self.env_at(&server.origin())
    }

    /// The same for any address (`http://127.0.0.1:PORT`), such as that of a proxy.
    pub fn env_at(self, origin: &str) -> Vec<(String, String)> {
        let (base, key, model) = match self {
            Wire::Chat | Wire::Responses => ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"),
            Wire::Messages => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL"),
            Wire::Gemini => ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "GEMINI_MODEL"),
        };
        let url = match self {
            Wire::Chat | Wire::Responses => format!("{origin}/v1"),
            Wire::Messages | Wire::Gemini => origin.to_owned(),
        };
        [(base, url.as_str()), (key, TEST_KEY), (model, TEST_MODEL)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }
}
