//! The real network: one shared client, built when it is first needed, with a deadline on every wait.
//!
//! Plain `http` goes through a client without proxy and without root certificates (loading them costs
//! milliseconds and memory that a server on this machine never needs). `https` goes through a client with
//! the system's roots, or the given ones, and the given proxy. Redirects are not followed: a POST would
//! become a GET, and a key could end up elsewhere.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reqwest::{Certificate, Client, NoProxy, Proxy, Url};
use tenon_core::{BoxFut, Cancel, ErrorClass, ModelError, Secret};
use tokio::time::{Instant, timeout_at};

use crate::endpoint::{is_loopback_url, names_a_secret, shown_url};
use crate::errors::{config, half_an_answer, network, seconds};
use crate::{ByteStream, HttpRequest, HttpResponse, Transport};

pub struct Http {
    options: HttpOptions,
    plain: OnceLock<Result<Client, ModelError>>,
    secure: OnceLock<Result<Client, ModelError>>,
}

/// Not `Debug`: the proxy's address may hold a password.
#[derive(Clone, Default)]
pub struct HttpOptions {
    pub timeouts: Timeouts,
    /// For `https` addresses beyond this machine, such as `http://proxy.example.com:3128`.
    pub proxy: Option<String>,
    /// Hosts that are reached without the proxy, as in the variable `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// A PEM file of root certificates to use instead of the system's.
    pub ca_file: Option<PathBuf>,
    pub user_agent: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Name lookup, connection and TLS together.
    pub connect: Duration,
    /// From sending the request to the first byte of the answer's body.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
}

/// More than any honest server needs.
const MAX_REDIRECTS: usize = 5;

/// What an answer that nobody reads may be long before its connection is given up.
const MAX_IGNORED: usize = 64 * 1024;

/// Signs of life keep a connection open for this many times `idle`; then some of the answer must have come.
/// Models that think for minutes and show nothing of it are real, those that do so for ten are rare.
const IDLES_WITHOUT_CONTENT: u32 = 5;

impl Timeouts {
    /// How long a server may send signs of life and nothing of its answer.
    pub(crate) fn patience(self) -> Duration {
        self.idle.saturating_mul(IDLES_WITHOUT_CONTENT)
    }
}

impl Default for Timeouts {
    /// A server that is there answers a connection at once; a large model may think for minutes before
    /// it says anything, but then servers send a sign of life at least every half minute.
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(120),
        }
    }
}

impl Http {
    pub fn new(options: HttpOptions) -> Http {
        Http { options, plain: OnceLock::new(), secure: OnceLock::new() }
    }

    fn client(&self, url: &Url) -> Result<&Client, ModelError> {
        let client = match url.scheme() {
            "http" => self.plain.get_or_init(|| build(&self.options, Network::Plain)),
            "https" => self.secure.get_or_init(|| build(&self.options, Network::Secure)),
            scheme => {
                return Err(config(
                    format!("`{scheme}` is not a scheme a model can be reached by"),
                    "the base URL starts with `https://`, or with `http://` for a server on this machine",
                ));
            }
        };
        client.as_ref().map_err(Clone::clone)
    }

    /// Hands bytes to a server and says what status it answered with. For whoever is no model: nothing of the
    /// answer is kept. Headers whose names say so are taken for secrets.
    pub async fn deliver(
        &self,
        url: &str,
        headers: impl IntoIterator<Item = (String, String)>,
        body: Vec<u8>,
    ) -> Result<u16, ModelError> {
        let (secret, plain): (Vec<_>, Vec<_>) =
            headers.into_iter().partition(|(name, _)| names_a_secret(name));
        let secret: Vec<_> = secret.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
        let mut response = self.exchange(url, &plain, &secret, body.into()).await?;
        let mut read = 0;
        // Read to its end, so that the connection can be used again.
        while let Some(Ok(piece)) = response.body.next().await {
            read += piece.len();
            if read > MAX_IGNORED {
                break;
            }
        }
        Ok(response.status)
    }

    /// Reads a file from byte `from` on, wherever redirects lead over `https` (or on this machine). For whoever is no
    /// model: there are no headers, so nothing secret can end up elsewhere.
    pub async fn get(&self, url: &str, from: u64) -> Result<HttpResponse, ModelError> {
        let mut url = url.to_owned();
        for _ in 0..MAX_REDIRECTS {
            let shown = shown_url(&url);
            let not_a_url = |error| config(format!("`{shown}` is not a URL: {error}"), "check the address");
            let parsed = Url::parse(&url).map_err(not_a_url)?;
            let mut call = self.client(&parsed)?.get(parsed.clone());
            if from > 0 {
                call = call.header("range", format!("bytes={from}-"));
            }
            let timeouts = self.options.timeouts;
            let first_byte = Instant::now() + timeouts.first_byte;
            let response = match timeout_at(first_byte, call.send()).await {
                Err(_) => return Err(no_first_byte(&shown, timeouts)),
                Ok(Err(error)) => return Err(send_failed(&error, &shown, timeouts)),
                Ok(Ok(response)) => response,
            };
            let next = response.headers().get("location").and_then(|next| next.to_str().ok());
            match (response.status().is_redirection(), next.map(|next| parsed.join(next))) {
                (true, Some(Ok(next))) if next.scheme() == "https" || is_loopback_url(&next) => {
                    url = next.into();
                }
                _ => {
                    let status = response.status().as_u16();
                    let headers = headers_of(&response);
                    return Ok(HttpResponse {
                        status,
                        headers,
                        body: pieces(response, shown, first_byte, timeouts),
                    });
                }
            }
        }
        Err(network(format!("`{}` leads from one address to the next without end", shown_url(&url))))
    }

    async fn exchange(
        &self,
        url: &str,
        headers: &[(String, String)],
        secret_headers: &[(String, Secret)],
        body: reqwest::Body,
    ) -> Result<HttpResponse, ModelError> {
        let shown = shown_url(url);
        let url = Url::parse(url).map_err(|error| {
            config(
                format!("`{shown}` is not a URL: {error}"),
                "the base URL looks like `https://api.example.com/v1`",
            )
        })?;
        refuse_keys_in_the_clear(secret_headers, &url, &shown)?;
        let host = url.host_str().map(str::to_owned);
        let mut call = self.client(&url)?.post(url);
        for (name, value) in headers {
            call = call.header(name, value);
        }
        for (name, value) in secret_headers {
            let mut value = reqwest::header::HeaderValue::from_str(value.expose().trim()).map_err(|_| {
                config(
                    format!("the value for the header `{name}` contains characters that cannot be sent"),
                    "check the key for line breaks and other stray characters",
                )
            })?;
            value.set_sensitive(true);
            call = call.header(name, value);
        }
        let timeouts = self.options.timeouts;
        let asked = Instant::now();
        let first_byte = asked + timeouts.first_byte;
        tracing::debug!(host, secret_headers = secret_headers.len(), "request");
        let response = match timeout_at(first_byte, call.body(body).send()).await {
            Err(_) => {
                tracing::debug!(host, ms = millis(asked), "no answer in time");
                return Err(no_first_byte(&shown, timeouts));
            }
            Ok(Err(error)) => {
                let (connecting, timed_out) = (error.is_connect(), error.is_timeout());
                tracing::debug!(host, ms = millis(asked), connecting, timed_out, "request failed");
                return Err(send_failed(&error, &shown, timeouts));
            }
            Ok(Ok(response)) => response,
        };
        let headers = headers_of(&response);
        let status = response.status().as_u16();
        tracing::debug!(host, status, ms = millis(asked), "answer begins");
        Ok(HttpResponse { status, headers, body: pieces(response, shown, first_byte, timeouts) })
    }
}

impl Transport for Http {
    fn send(&self, exchange: HttpRequest, cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
        Box::pin(async move {
            let HttpRequest { url, headers, secret_headers, body } = exchange;
            let answer = self.exchange(&url, &headers, &secret_headers, body.into());
            match cancel.run_until_cancelled(answer).await {
                Some(answer) => answer,
                None => Err(ModelError::new(ErrorClass::Internal, "the request was cancelled")),
            }
        })
    }

    fn patience(&self) -> Duration {
        self.options.timeouts.patience()
    }
}

fn headers_of(response: &reqwest::Response) -> Vec<(String, String)> {
    let headers = response.headers().iter();
    headers
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[derive(Clone, Copy)]
enum Network {
    Plain,
    Secure,
}

fn build(options: &HttpOptions, to: Network) -> Result<Client, ModelError> {
    // Fails only when a provider is installed already, and then that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(options.timeouts.connect)
        .user_agent(&options.user_agent);
    match to {
        Network::Plain => builder = builder.tls_certs_only([]),
        Network::Secure => {
            if let Some(file) = &options.ca_file {
                builder = builder.tls_certs_only(root_certificates(file)?);
            }
            if let Some(address) = &options.proxy {
                let proxy = Proxy::https(address.as_str()).map_err(|_| {
                    config(format!("the proxy `{}` is not a URL", shown_url(address)), PROXY_HINT)
                })?;
                builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(&direct_hosts(options))));
            }
        }
    }
    builder.build().map_err(|error| match (&options.ca_file, to) {
        (Some(file), Network::Secure) => {
            config(format!("the certificates in `{}` cannot be used", file.display()), CERTIFICATE_HINT)
        }
        _ => config(
            format!("the network client could not be set up: {}", root_cause(&error)),
            "install your system's root certificates, or name a file of them in `SSL_CERT_FILE`",
        ),
    })
}

/// What a proxy's address looks like, for whoever wrote another one.
pub const PROXY_HINT: &str = "a proxy looks like `http://proxy.example.com:3128`";

/// Whether requests can be sent through it, as far as its address tells.
pub fn is_proxy(address: &str) -> bool {
    let rest = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    let has_host = |rest: &str| rest.chars().next().is_some_and(|first| !"/:?#".contains(first));
    rest.is_some_and(has_host) && Proxy::https(address).is_ok()
}

fn direct_hosts(options: &HttpOptions) -> String {
    let given = options.no_proxy.as_deref().unwrap_or_default();
    format!("localhost,127.0.0.0/8,::1,{given}")
}

const CERTIFICATE_HINT: &str =
    "the file holds root certificates in PEM form; unset `SSL_CERT_FILE` to use the system's";

fn root_certificates(file: &PathBuf) -> Result<Vec<Certificate>, ModelError> {
    let shown = file.display();
    let pem = std::fs::read(file).map_err(|error| {
        config(format!("the certificates in `{shown}` could not be read: {error}"), CERTIFICATE_HINT)
    })?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(config(format!("`{shown}` holds no certificate"), CERTIFICATE_HINT)),
    }
}

fn refuse_keys_in_the_clear(
    secret_headers: &[(String, Secret)],
    url: &Url,
    shown: &str,
) -> Result<(), ModelError> {
    let has_secret = !secret_headers.is_empty() || url.password().is_some();
    if url.scheme() == "http" && has_secret && !is_loopback_url(url) {
        return Err(config(
            format!("the key would travel unencrypted to `{shown}`"),
            "use an `https://` address, or unset the key if the server needs none",
        ));
    }
    Ok(())
}

/// The body, with a deadline on every piece.
fn pieces(response: reqwest::Response, shown: String, first_byte: Instant, timeouts: Timeouts) -> ByteStream {
    let start = (response.bytes_stream().boxed(), Waiting::ForFirstByte(shown));
    Box::pin(stream::unfold(Some(start), move |state| async move {
        let (mut chunks, waiting) = state?;
        let deadline = match &waiting {
            Waiting::ForFirstByte(_) => first_byte,
            Waiting::ForMore => Instant::now() + timeouts.idle,
        };
        match timeout_at(deadline, chunks.next()).await {
            Ok(Some(Ok(chunk))) => Some((Ok(chunk), Some((chunks, Waiting::ForMore)))),
            Ok(Some(Err(_))) => Some((Err(half_an_answer()), None)),
            Ok(None) => None,
            Err(_) => match waiting {
                Waiting::ForFirstByte(shown) => Some((Err(no_first_byte(&shown, timeouts)), None)),
                Waiting::ForMore => {
                    let silence = seconds(timeouts.idle);
                    let message = format!("nothing came for {silence} in the middle of the answer");
                    Some((Err(network(message)), None))
                }
            },
        }
    }))
}

enum Waiting {
    /// From this address.
    ForFirstByte(String),
    ForMore,
}

fn no_first_byte(shown: &str, timeouts: Timeouts) -> ModelError {
    network(format!("the server at `{shown}` did not answer within {}", seconds(timeouts.first_byte)))
}

fn send_failed(error: &reqwest::Error, shown: &str, timeouts: Timeouts) -> ModelError {
    if error.is_timeout() {
        return network(format!("could not connect to `{shown}` within {}", seconds(timeouts.connect)));
    }
    let causes = causes(error);
    let io = causes.iter().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    let tls = causes.iter().find_map(|cause| cause.downcast_ref::<rustls::Error>());
    if let Some(tls) = tls {
        let hint =
            "if your network inspects TLS, put its root certificate in a file named by `SSL_CERT_FILE`";
        return ModelError {
            hint: Some(hint.into()),
            ..ModelError::new(
                ErrorClass::Network,
                format!("could not connect to `{shown}`: TLS: {}", tls_reason(tls)),
            )
        };
    }
    if causes.iter().any(|cause| cause.to_string() == "dns error") {
        let host =
            Url::parse(shown).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        return network(format!("could not connect to `{shown}`: the name `{host}` was not found"));
    }
    let reason = match io.map(std::io::Error::kind).next_back() {
        Some(std::io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(std::io::ErrorKind::ConnectionReset) => "connection reset".to_owned(),
        Some(std::io::ErrorKind::UnexpectedEof) => "the server closed the connection".to_owned(),
        _ => root_cause(error),
    };
    if error.is_connect() {
        network(format!("could not connect to `{shown}`: {reason}"))
    } else {
        network(format!("no answer from `{shown}`: {reason}"))
    }
}

type Cause<'a> = &'a (dyn std::error::Error + 'static);

/// What led to the error, the nearest cause first. An I/O error hides what it carries from `source`.
fn causes(error: &reqwest::Error) -> Vec<Cause<'_>> {
    fn next<'a>(cause: &Cause<'a>) -> Option<Cause<'a>> {
        let cause: Cause<'a> = *cause;
        match cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(carried) => Some(carried),
            None => cause.source(),
        }
    }
    std::iter::successors(error.source(), next).collect()
}

fn tls_reason(error: &rustls::Error) -> String {
    use rustls::CertificateError as Certificate;
    let rustls::Error::InvalidCertificate(why) = error else { return error.to_string() };
    match why {
        Certificate::UnknownIssuer => {
            "the certificate is signed by an authority that is not trusted".to_owned()
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => "the certificate has expired".to_owned(),
        Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
            "the certificate is for another name".to_owned()
        }
        _ => error.to_string(),
    }
}

fn root_cause(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}
