//! Runs an HTTP hook: the event as a POST body, the answer in the response. Redirects are not followed: what
//! a hook is told may hold payloads, and the address in the settings is where they may go.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Url;
use tenon_core::{Cancel, TraceContext};
use tokio::time::timeout;

use crate::hook_command::MAX_OUTPUT;
use crate::hook_reply::Reply;
use crate::hooks::{Failed, HookOptions, Ran};
use crate::net::{Body, cause, read_body};

pub(crate) struct HttpHook<'a> {
    pub url: &'a str,
    pub headers: &'a BTreeMap<String, String>,
    pub timeout: Duration,
}

impl HttpHook<'_> {
    pub async fn run(
        &self,
        input: String,
        options: &HookOptions,
        trace: Option<&TraceContext>,
        cancel: &Cancel,
    ) -> Result<Ran, Failed> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Failed::Cancelled),
            answered = timeout(self.timeout, self.exchange(input, options, trace)) => match answered {
                Err(_) => Err(Failed::TimedOut(self.timeout)),
                Ok(Ok((reply, stdout))) => Ok(Ran { reply, code: None, stdout, stderr: String::new() }),
                Ok(Err(why)) => Err(Failed::broken(why)),
            },
        }
    }

    async fn exchange(
        &self,
        input: String,
        options: &HookOptions,
        trace: Option<&TraceContext>,
    ) -> Result<(Reply, String), String> {
        let url = Url::parse(self.url).map_err(|error| format!("its address is not a URL: {error}"))?;
        let client = options.net.client(&url, |builder| builder)?;
        let mut request = client.post(url).header("content-type", "application/json").body(input);
        for (name, value) in trace.map(TraceContext::variables).into_iter().flatten() {
            if let Some(value) = value {
                request = request.header(name.to_ascii_lowercase(), value);
            }
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let response =
            request.send().await.map_err(|error| format!("it was not reached: {}", cause(&error)))?;
        let status = response.status();
        if !status.is_success() {
            return Err(format!("it answered with status {}", status.as_u16()));
        }
        match read_body(response, MAX_OUTPUT).await? {
            Body::Whole(body) => {
                let text = String::from_utf8_lossy(&body).into_owned();
                Ok((Reply::from_text(&text)?, text))
            }
            Body::Cut(_) => Err(format!("it answered with more than {MAX_OUTPUT} bytes")),
        }
    }
}
