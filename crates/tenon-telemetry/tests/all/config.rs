//! Settings and variables, and what comes of them.

use std::collections::BTreeMap;
use std::time::Duration;

use tenon_telemetry::{Config, ConfigError, Given, Protocol, configure};

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn on(given: &Given, pairs: &[(&str, &str)]) -> Config {
    configure(given, &env(pairs)).expect("valid").expect("on")
}

fn urls(config: &Config) -> (Option<&str>, Option<&str>) {
    (
        config.traces.as_ref().map(|target| target.url.as_str()),
        config.metrics.as_ref().map(|target| target.url.as_str()),
    )
}

#[test]
fn where_it_goes() {
    let base = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    type Row<'a> = (&'a [(&'a str, &'a str)], (Option<&'a str>, Option<&'a str>));
    let table: [Row<'_>; 7] = [
        (&[(base, "http://c:4318")], (Some("http://c:4318/v1/traces"), Some("http://c:4318/v1/metrics"))),
        (
            &[(base, " https://c/otlp/ ")],
            (Some("https://c/otlp/v1/traces"), Some("https://c/otlp/v1/metrics")),
        ),
        (
            &[(base, "https://c/otlp?k=v")],
            (Some("https://c/otlp/v1/traces?k=v"), Some("https://c/otlp/v1/metrics?k=v")),
        ),
        (&[(traces, "http://t/exactly/this")], (Some("http://t/exactly/this"), None)),
        (&[(traces, "http://t/x"), (base, "http://c")], (Some("http://t/x"), Some("http://c/v1/metrics"))),
        (&[(base, "http://c"), ("OTEL_TRACES_EXPORTER", "none")], (None, Some("http://c/v1/metrics"))),
        (
            &[(base, "http://c"), ("OTEL_TRACES_EXPORTER", "otlp")],
            (Some("http://c/v1/traces"), Some("http://c/v1/metrics")),
        ),
    ];
    for (pairs, expected) in table {
        assert_eq!(urls(&on(&Given::default(), pairs)), expected, "{pairs:?}");
    }
    let enabled = Given { enabled: Some(true), ..Given::default() };
    assert_eq!(urls(&on(&enabled, &[])).0, Some("http://localhost:4318/v1/traces"));
    let settings = Given { endpoint: Some("http://s".to_owned()), ..Given::default() };
    assert_eq!(urls(&on(&settings, &[])).0, Some("http://s/v1/traces"));
    assert_eq!(urls(&on(&settings, &[(base, "http://c")])).0, Some("http://c/v1/traces"));
}

#[test]
fn when_it_is_off() {
    let settings = |enabled| Given { enabled, endpoint: Some("http://s".to_owned()), ..Given::default() };
    let table = [
        (Given::default(), vec![]),
        (Given::default(), vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "  ")]),
        (Given { endpoint: Some(" ".to_owned()), ..Given::default() }, vec![]),
        (settings(Some(false)), vec![]),
        (settings(Some(false)), vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c")]),
        (settings(None), vec![("OTEL_SDK_DISABLED", "TRUE")]),
        (settings(None), vec![("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")]),
        // Nothing else turns it on.
        (Given::default(), vec![("OTEL_SERVICE_NAME", "x"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=b")]),
    ];
    for (given, pairs) in table {
        assert!(configure(&given, &env(&pairs)).expect("valid").is_none(), "{pairs:?}");
    }
}

#[test]
fn headers_go_where_they_belong() {
    let given = Given {
        endpoint: Some("http://s".to_owned()),
        headers: env(&[("x-key", "settings"), ("x-a", "1")]),
        ..Given::default()
    };
    let headers =
        |config: &Config| config.traces.as_ref().map(|target| target.headers.clone()).unwrap_or_default();
    let pairs = [
        ("OTEL_EXPORTER_OTLP_HEADERS", " x-key = all%20of , x-pct=100%,"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-t=a=b"),
    ];
    let expected = env(&[("x-key", "all of"), ("x-a", "1"), ("x-pct", "100%"), ("x-t", "a=b")]);
    assert_eq!(headers(&on(&given, &pairs)), expected);
    // Another collector does not get the settings' keys.
    let elsewhere = [pairs[0], ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c")];
    assert_eq!(headers(&on(&given, &elsewhere)), env(&[("x-key", "all of"), ("x-pct", "100%")]));
}

#[test]
fn protocols_times_and_names() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c");
    let given = Given { protocol: Some("http/json".to_owned()), ..Given::default() };
    let config = on(&given, &[endpoint, ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf")]);
    assert_eq!(config.traces.as_ref().map(|target| target.protocol), Some(Protocol::Json));
    assert_eq!(config.metrics.as_ref().map(|target| target.protocol), Some(Protocol::Protobuf));
    assert_eq!(config.timeout, Duration::from_secs(10));
    let config =
        on(&given, &[endpoint, ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"), ("OTEL_BSP_SCHEDULE_DELAY", "7")]);
    assert_eq!(
        (config.timeout, config.span_interval),
        (Duration::from_millis(250), Duration::from_millis(7))
    );

    let named = Given { service_name: Some("s".to_owned()), ..Given::default() };
    let name = |given: &Given, pairs: &[(&str, &str)]| {
        on(given, &[&[endpoint], pairs].concat()).resource["service.name"].clone()
    };
    assert_eq!(name(&Given::default(), &[]), "tenon");
    assert_eq!(name(&named, &[]), "s");
    assert_eq!(name(&named, &[("OTEL_RESOURCE_ATTRIBUTES", "service.name=r")]), "r");
    assert_eq!(
        name(&named, &[("OTEL_RESOURCE_ATTRIBUTES", "service.name=r"), ("OTEL_SERVICE_NAME", "n")]),
        "n"
    );
}

#[test]
fn what_is_wrong_is_named_and_never_quoted_where_it_may_be_a_key() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c");
    let error = |pairs: &[(&str, &str)]| configure(&Given::default(), &env(pairs)).err();
    let protocol =
        |source_name, value: &str| Some(ConfigError::Protocol { source_name, value: value.to_owned() });
    assert_eq!(
        error(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]),
        protocol("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    );
    for wrong in ["c:4318", "grpc://c", "http://", "http:///v1", "http://a b"] {
        let source_name = "OTEL_EXPORTER_OTLP_ENDPOINT";
        assert_eq!(error(&[(source_name, wrong)]), Some(ConfigError::Endpoint { source_name }), "{wrong}");
    }
    for wrong in ["SECRET", "=SECRET", "a=b,SECRET", "a=%ff"] {
        let source_name = "OTEL_EXPORTER_OTLP_HEADERS";
        let found = error(&[endpoint, (source_name, wrong)]);
        assert_eq!(found, Some(ConfigError::List { source_name }), "{wrong}");
        assert!(!found.is_some_and(|error| error.to_string().contains("SECRET")));
    }
    for wrong in ["0", "-1", "1.5", "10s"] {
        let source_name = "OTEL_EXPORTER_OTLP_TIMEOUT";
        assert_eq!(error(&[endpoint, (source_name, wrong)]), Some(ConfigError::Milliseconds { source_name }));
    }
}
