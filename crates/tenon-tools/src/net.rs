//! HTTP for tools and hooks: one way to build a client, without redirects, without the environment's
//! proxies, and with a deadline on connecting.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy, Url};

/// A server that is there answers a connection at once.
const CONNECT: Duration = Duration::from_secs(10);

/// How the network is reached. Not `Debug`: the proxy's address may hold a password.
#[derive(Clone, Default)]
pub struct NetOptions {
    /// For `https` addresses beyond this machine.
    pub proxy: Option<String>,
    /// Hosts that are reached without the proxy, as in the variable `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// A PEM file of root certificates to use instead of the system's.
    pub ca_file: Option<PathBuf>,
    pub user_agent: String,
}

impl NetOptions {
    /// A client for this address, as `finish` wants it. Root certificates are loaded only for `https`.
    pub(crate) fn client(
        &self,
        url: &Url,
        finish: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Client, String> {
        // Fails only when a provider is installed already, and then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .user_agent(&self.user_agent);
        if url.scheme() == "http" {
            builder = builder.tls_certs_only([]);
        } else {
            if let Some(file) = &self.ca_file {
                let certificates = std::fs::read(file)
                    .map_err(|error| error.to_string())
                    .and_then(|pem| Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string()))
                    .map_err(|why| {
                        format!("the certificates in `{}` cannot be used: {why}", file.display())
                    })?;
                builder = builder.tls_certs_only(certificates);
            }
            if let Some(proxy) = &self.proxy {
                let given = self.no_proxy.as_deref().unwrap_or_default();
                let direct = NoProxy::from_string(&format!("localhost,127.0.0.0/8,::1,{given}"));
                let proxy = Proxy::https(proxy.as_str()).map_err(|_| "the proxy's address is not a URL")?;
                builder = builder.proxy(proxy.no_proxy(direct));
            }
        }
        finish(builder).build().map_err(|error| cause(&error))
    }
}

/// The innermost reason, which is the one that helps.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// A body read up to `most` bytes.
pub(crate) enum Body {
    Whole(Vec<u8>),
    /// It was longer; this is its beginning.
    Cut(Vec<u8>),
}

pub(crate) async fn read_body(mut response: reqwest::Response, most: usize) -> Result<Body, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| cause(&error))? {
        let room = most - body.len();
        if chunk.len() > room {
            body.extend_from_slice(&chunk[..room]);
            return Ok(Body::Cut(body));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Body::Whole(body))
}
