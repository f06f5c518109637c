//! Which wire an exchange was made on, and what a cassette must know of each.

use serde_json::Value;

use crate::sse::Event;

/// The wire of an exchange. Its path tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    OpenAiChat,
    OpenAiResponses,
    Anthropic,
    Gemini,
}

impl Protocol {
    /// Any path that is not known is taken for chat completions, which most servers speak.
    pub(super) fn of_path(path: &str) -> Protocol {
        match path {
            _ if path.ends_with("/responses") => Protocol::OpenAiResponses,
            _ if path.ends_with("/messages") => Protocol::Anthropic,
            _ if path.ends_with(":streamGenerateContent") => Protocol::Gemini,
            _ => Protocol::OpenAiChat,
        }
    }

    /// The user's word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Protocol::OpenAiChat => "openai",
            Protocol::OpenAiResponses => "openai-responses",
            Protocol::Anthropic => "anthropic",
            Protocol::Gemini => "gemini",
        }
    }

    /// Is an answer complete after this event? A reader need not wait for the end of the body then.
    pub(super) fn is_last(self, event: &Event) -> bool {
        let data = event.data.trim();
        if self == Protocol::OpenAiChat {
            return data == "[DONE]";
        }
        let Ok(data) = serde_json::from_str::<Value>(data) else { return false };
        let kind = data["type"].as_str().unwrap_or_default();
        match self {
            Protocol::OpenAiChat => false,
            Protocol::OpenAiResponses => {
                ["response.completed", "response.incomplete", "response.failed"].contains(&kind)
            }
            Protocol::Anthropic => kind == "message_stop",
            Protocol::Gemini => data["candidates"][0]["finishReason"].is_string(),
        }
    }

    /// `data` of an event without what the server repeats of our request: the Responses API sends the system
    /// prompt and all tools back, three times in an answer.
    pub(super) fn without_echo(self, data: String) -> String {
        if self != Protocol::OpenAiResponses || !data.contains("\"response\"") {
            return data;
        }
        let Ok(mut event) = serde_json::from_str::<Value>(&data) else { return data };
        let Some(response) = event.get_mut("response").and_then(Value::as_object_mut) else { return data };
        let echo = ["instructions", "tools"].map(|field| response.shift_remove(field));
        if echo.iter().all(Option::is_none) { data } else { event.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_tells() {
        for (path, protocol) in [
            ("/v1/chat/completions", Protocol::OpenAiChat),
            ("", Protocol::OpenAiChat),
            ("/openai/v1/responses", Protocol::OpenAiResponses),
            ("/v1/messages", Protocol::Anthropic),
            ("/v1beta/models/gemini-3-pro:streamGenerateContent", Protocol::Gemini),
        ] {
            assert_eq!(Protocol::of_path(path), protocol, "{path}");
        }
    }

    #[test]
    fn what_the_server_repeats_is_left_out() {
        let event = r#"{"type":"response.created","response":{"id":"r","instructions":"Be.","tools":[{}],"output":[]}}"#;
        let kept = r#"{"type":"response.created","response":{"id":"r","output":[]}}"#;
        assert_eq!(Protocol::OpenAiResponses.without_echo(event.to_owned()), kept);
        for (protocol, event) in [(Protocol::OpenAiResponses, kept), (Protocol::OpenAiChat, event)] {
            assert_eq!(protocol.without_echo(event.to_owned()), event);
        }
    }
}
