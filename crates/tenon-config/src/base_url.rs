//! Is this a base URL, and does it stay on this machine?
//!
//! Whether a key may be sent depends on the answer, so whatever is unusual is refused or counts as remote.

use std::net::{Ipv4Addr, Ipv6Addr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseUrl {
    /// Without a trailing slash.
    pub(crate) text: String,
    pub(crate) host: String,
    pub(crate) scheme: Scheme,
    pub(crate) reach: Reach,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Loopback,
    Remote,
}

/// The reason is worded to follow "is not usable: ".
pub(crate) fn parse_base_url(text: &str) -> Result<BaseUrl, &'static str> {
    let text = text.trim().trim_end_matches('/');
    let (scheme, rest) = if let Some(rest) = strip_prefix_any_case(text, "https://") {
        (Scheme::Https, rest)
    } else if let Some(rest) = strip_prefix_any_case(text, "http://") {
        (Scheme::Http, rest)
    } else {
        return Err("it does not start with `https://` or `http://`");
    };
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err("it holds spaces, control characters or backslashes");
    }
    if text.contains(['?', '#']) {
        return Err("it has a query or a fragment");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Err("it holds a user name; keys belong in the environment");
    }
    let host = host_of(authority).ok_or("it names no host, or its port is not a number")?;
    let reach = if is_loopback(host) { Reach::Loopback } else { Reach::Remote };
    Ok(BaseUrl { text: text.to_owned(), host: host.to_owned(), scheme, reach })
}

/// Does this URL reach this machine only?
pub fn is_loopback_url(url: &str) -> bool {
    parse_base_url(url).is_ok_and(|url| url.reach == Reach::Loopback)
}

fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port_is_fine = port.is_none_or(|port| port.parse::<u16>().is_ok());
    (!host.is_empty() && port_is_fine).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || host.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
}

fn strip_prefix_any_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}
