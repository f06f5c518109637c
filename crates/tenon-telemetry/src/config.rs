//! Is anything exported, and where to: the settings, and the variables that OpenTelemetry defines.
//!
//! A pure function over values; what of the settings may be believed (an untrusted project may say nothing here)
//! is decided before, in `tenon-config`.

use std::collections::BTreeMap;
use std::time::Duration;

/// Where a collector on this machine listens, when telemetry is switched on and no address is given.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
const DEFAULT_SERVICE: &str = "tenon";
/// A collector that needs longer for one batch is not keeping up.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often spans and metrics leave while a run goes on: the defaults of OpenTelemetry's own SDKs.
const DEFAULT_SPAN_INTERVAL: Duration = Duration::from_secs(5);
const DEFAULT_METRIC_INTERVAL: Duration = Duration::from_secs(60);

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";

/// What the settings say under `telemetry`.
#[derive(Clone, Default)]
pub struct Given {
    pub enabled: Option<bool>,
    pub endpoint: Option<String>,
    pub protocol: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub service_name: Option<String>,
    pub resource_attributes: BTreeMap<String, String>,
}

/// Telemetry is on. Not `Debug`: headers may hold keys.
#[derive(Clone)]
pub struct Config {
    pub traces: Option<Target>,
    pub metrics: Option<Target>,
    /// For one batch.
    pub timeout: Duration,
    pub span_interval: Duration,
    pub metric_interval: Duration,
    /// Attributes of whoever sends; `service.name` is among them.
    pub resource: BTreeMap<String, String>,
}

/// Where one kind of data goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    pub url: String,
    pub protocol: Protocol,
    pub headers: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Protobuf,
    Json,
}

impl Protocol {
    pub fn content_type(self) -> &'static str {
        match self {
            Protocol::Protobuf => "application/x-protobuf",
            Protocol::Json => "application/json",
        }
    }
}

/// Why telemetry stays off although somebody asked for it. Never quotes a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("`{source_name}` is `{value}`, and OTLP is sent as `http/protobuf` or `http/json` only")]
    Protocol { source_name: &'static str, value: String },
    #[error("`{source_name}` is not an address that starts with `http://` or `https://`")]
    Endpoint { source_name: &'static str },
    #[error("`{source_name}` is not a list such as `name=value,other=value`")]
    List { source_name: &'static str },
    #[error("`{source_name}` is not a number of milliseconds")]
    Milliseconds { source_name: &'static str },
}

/// `None` when telemetry is off, which it is unless an address or `telemetry.enabled` says otherwise.
pub fn configure(given: &Given, env: &BTreeMap<String, String>) -> Result<Option<Config>, ConfigError> {
    let env = Env(env);
    let off = given.enabled == Some(false)
        || env.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if off {
        return Ok(None);
    }
    let traces = target(given, env, &TRACES)?;
    let metrics = target(given, env, &METRICS)?;
    if traces.is_none() && metrics.is_none() {
        return Ok(None);
    }
    Ok(Some(Config {
        traces,
        metrics,
        timeout: env.milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT")?.unwrap_or(DEFAULT_TIMEOUT),
        span_interval: env.milliseconds("OTEL_BSP_SCHEDULE_DELAY")?.unwrap_or(DEFAULT_SPAN_INTERVAL),
        metric_interval: env.milliseconds("OTEL_METRIC_EXPORT_INTERVAL")?.unwrap_or(DEFAULT_METRIC_INTERVAL),
        resource: resource(given, env)?,
    }))
}

/// The names of one kind of data.
struct Kind {
    endpoint: &'static str,
    headers: &'static str,
    protocol: &'static str,
    exporter: &'static str,
    /// What is added to an address for both.
    path: &'static str,
}

const TRACES: Kind = Kind {
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    exporter: "OTEL_TRACES_EXPORTER",
    path: "v1/traces",
};
const METRICS: Kind = Kind {
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    exporter: "OTEL_METRICS_EXPORTER",
    path: "v1/metrics",
};

fn target(given: &Given, env: Env<'_>, kind: &Kind) -> Result<Option<Target>, ConfigError> {
    if env.get(kind.exporter) == Some("none") {
        return Ok(None);
    }
    let settings = given.endpoint.as_deref().filter(|endpoint| !endpoint.trim().is_empty());
    let fallback = (given.enabled == Some(true)).then_some(DEFAULT_ENDPOINT);
    let url = match (env.get(kind.endpoint), env.get(ENDPOINT), settings.or(fallback)) {
        // An address for one kind of data is taken as it is.
        (Some(own), _, _) => address(own, kind.endpoint)?.to_owned(),
        (None, Some(base), _) => below(address(base, ENDPOINT)?, kind.path),
        (None, None, Some(base)) => below(address(base, "telemetry.endpoint")?, kind.path),
        (None, None, None) => return Ok(None),
    };
    // The settings' headers hold keys for the settings' collector, and for no other.
    let own_collector = env.get(kind.endpoint).or(env.get(ENDPOINT)).is_none();
    let mut headers = if own_collector { given.headers.clone() } else { BTreeMap::new() };
    for source in [HEADERS, kind.headers] {
        headers.extend(env.list(source)?);
    }
    Ok(Some(Target { url, protocol: protocol(given, env, kind)?, headers }))
}

fn protocol(given: &Given, env: Env<'_>, kind: &Kind) -> Result<Protocol, ConfigError> {
    let named = [
        (kind.protocol, env.get(kind.protocol)),
        (PROTOCOL, env.get(PROTOCOL)),
        ("telemetry.protocol", given.protocol.as_deref()),
    ];
    match named.into_iter().find_map(|(source, value)| Some((source, value?))) {
        None | Some((_, "http/protobuf")) => Ok(Protocol::Protobuf),
        Some((_, "http/json")) => Ok(Protocol::Json),
        Some((source_name, value)) => {
            // A name, not a text: what else could stand there is nobody's business.
            let value = value.chars().filter(|c| c.is_ascii_graphic()).take(20).collect();
            Err(ConfigError::Protocol { source_name, value })
        }
    }
}

fn address<'a>(url: &'a str, source_name: &'static str) -> Result<&'a str, ConfigError> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') && !url.contains(char::is_whitespace) => {
            Ok(url)
        }
        _ => Err(ConfigError::Endpoint { source_name }),
    }
}

fn below(base: &str, path: &str) -> String {
    let (base, query) = base.split_once('?').map_or((base, None), |(base, query)| (base, Some(query)));
    let url = format!("{}/{path}", base.trim_end_matches('/'));
    query.map_or(url.clone(), |query| format!("{url}?{query}"))
}

fn resource(given: &Given, env: Env<'_>) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut resource = BTreeMap::from([(crate::names::SERVICE_NAME.to_owned(), DEFAULT_SERVICE.to_owned())]);
    resource.extend(given.resource_attributes.clone());
    let service = |name: &str| (crate::names::SERVICE_NAME.to_owned(), name.to_owned());
    resource.extend(given.service_name.as_deref().map(service));
    resource.extend(env.list("OTEL_RESOURCE_ATTRIBUTES")?);
    resource.extend(env.get("OTEL_SERVICE_NAME").map(service));
    Ok(resource)
}

#[derive(Clone, Copy)]
struct Env<'a>(&'a BTreeMap<String, String>);

impl<'a> Env<'a> {
    /// An empty variable is an unset one.
    fn get(self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn milliseconds(self, source_name: &'static str) -> Result<Option<Duration>, ConfigError> {
        let parse = |value: &str| match value.parse() {
            Ok(0) | Err(_) => Err(ConfigError::Milliseconds { source_name }),
            Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
        };
        self.get(source_name).map(parse).transpose()
    }

    /// `name=value` pairs between commas, values percent-encoded.
    fn list(self, source_name: &'static str) -> Result<Vec<(String, String)>, ConfigError> {
        let pairs = self
            .get(source_name)
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=')?;
                let name = name.trim();
                (!name.is_empty()).then_some((name.to_owned(), decoded(value.trim())?))
            })
            .collect::<Option<Vec<_>>>()
            .ok_or(ConfigError::List { source_name })
    }
}

/// `None` when what comes out is not text. A percent sign that begins no code stands for itself.
fn decoded(value: &str) -> Option<String> {
    let bytes = value.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| value.get(at + 1..at + 3)).flatten();
        match code
            .filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|code| u8::from_str_radix(code, 16).ok())
        {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}
