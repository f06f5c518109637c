//! Where a model is reached and with which key, and what may be shown of that.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use reqwest::Url;
use tenon_core::{Secret, Secrets};

use crate::HttpRequest;

/// A server and how to identify to it. Printed without keys.
#[derive(Clone)]
pub struct Endpoint {
    /// `openai`, or the name of a provider in the settings.
    pub provider: String,
    /// Includes the version: `https://api.openai.com/v1`.
    pub base_url: String,
    pub api_key: Option<Secret>,
    /// Sent with every request.
    pub headers: Vec<(String, String)>,
}

impl Endpoint {
    /// The address of one call. A query in the base URL stays at the end; a base URL that already names
    /// the call is left alone.
    pub(crate) fn url(&self, call: &str) -> String {
        let (base, query) = match self.base_url.split_once('?') {
            Some((base, query)) => (base, Some(query)),
            None => (self.base_url.as_str(), None),
        };
        let base = base.trim_end_matches('/');
        let mut url = if base.ends_with(call) { base.to_owned() } else { format!("{base}{call}") };
        if let Some(query) = query {
            url.push('?');
            url.push_str(query);
        }
        url
    }

    /// The configured headers that anyone may see.
    pub(crate) fn plain_headers(&self) -> Vec<(String, String)> {
        self.headers.iter().filter(|(name, _)| !names_a_secret(name)).cloned().collect()
    }

    /// The configured headers that identify us.
    pub(crate) fn secret_headers(&self) -> Vec<(String, Secret)> {
        let secret = self.headers.iter().filter(|(name, _)| names_a_secret(name));
        secret.map(|(name, value)| (name.clone(), Secret::new(value.as_str()))).collect()
    }

    /// A POST of JSON whose answer is a stream, with the key as a bearer token. A header of the user's own
    /// goes before the key.
    pub(crate) fn post_with_bearer(&self, url: String, body: String) -> HttpRequest {
        let mut headers = self.plain_headers();
        let mut secret_headers = self.secret_headers();
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        headers.push(("accept".to_owned(), "text/event-stream, application/json".to_owned()));
        let has_own = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if let Some(key) = self.api_key.as_ref().filter(|_| !has_own) {
            let value = Secret::new(format!("Bearer {}", key.expose().trim()));
            secret_headers.push(("authorization".to_owned(), value));
        }
        HttpRequest { url, headers, secret_headers, body }
    }

    /// Every value that must not be shown.
    pub fn secrets(&self) -> Secrets {
        self.api_key
            .iter()
            .cloned()
            .chain(self.secret_headers().into_iter().map(|(_, value)| value))
            .collect()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("base_url", &shown_url(&self.base_url))
            .field("api_key", &self.api_key)
            .field("headers", &(self.plain_headers(), self.secret_headers()))
            .finish()
    }
}

pub(crate) fn names_a_secret(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "credential", "password"]
        .iter()
        .any(|word| header.contains(word))
}

/// Is this address on this machine? `false` for anything that is not a URL.
pub fn is_loopback(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| is_loopback_url(&url))
}

/// Who is reached at an address: the host, and the port that is meant when none is named.
pub fn host_and_port(url: &str) -> Option<(String, Option<u16>)> {
    let url = Url::parse(url).ok()?;
    Some((url.host_str()?.to_owned(), url.port_or_known_default()))
}

/// The host that an address names, in lower case.
pub(crate) fn host(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}

pub(crate) fn is_loopback_url(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        // Servers print `0.0.0.0` as their address, and connecting to it stays on this machine.
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip == Ipv4Addr::UNSPECIFIED,
        Ok(IpAddr::V6(ip)) => ip.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// The address for a message: no user, no password, no query.
pub fn shown_url(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else {
        return url
            .split(['?', '#'])
            .next()
            .unwrap_or_default()
            .rsplit('@')
            .next()
            .unwrap_or_default()
            .to_owned();
    };
    // Both fail only for URLs that cannot have a user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses() {
        for (url, expected) in [
            ("http://localhost:8080/v1", true),
            ("http://127.0.0.1/v1", true),
            ("http://127.9.9.9/v1", true),
            ("http://[::1]:1234/v1", true),
            ("http://0.0.0.0:11434/v1", true),
            ("http://api.localhost/v1", true),
            ("http://localhost.example.com/v1", false),
            ("http://127.0.0.1.example.com/v1", false),
            ("http://192.168.0.2/v1", false),
            ("https://api.example.com/v1", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_loopback(url), expected, "{url}");
        }
    }

    #[test]
    fn the_call_is_joined_to_the_base() {
        for (base, expected) in [
            ("http://h/v1", "http://h/v1/chat/completions"),
            ("http://h/v1/", "http://h/v1/chat/completions"),
            ("http://h/v1?api-version=3", "http://h/v1/chat/completions?api-version=3"),
            ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ] {
            let endpoint = Endpoint {
                provider: "openai".into(),
                base_url: base.into(),
                api_key: None,
                headers: Vec::new(),
            };
            assert_eq!(endpoint.url("/chat/completions"), expected);
        }
    }

    #[test]
    fn a_shown_url_has_no_credentials_and_no_query() {
        assert_eq!(shown_url("https://user:pass@h:8/v1/x?key=1#f"), "https://h:8/v1/x");
        assert_eq!(shown_url("//user:pass@h/x?key=1"), "h/x");
    }
}
