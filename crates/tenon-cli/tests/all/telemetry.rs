//! What a collector receives, decoded with the real types; what a bad one does to a run; who may switch it on. The
//! trace that goes through a run to what it starts is in `traces.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use tenon_testkit::{Collector, Gate, Manner, Run, Server, Span, Tenon, Value, json, reply};

use super::tenon;

const SCHEMA: &str = r#"{"type":"object","properties":{"risk":{"enum":["low","high"]}},"required":["risk"]}"#;
pub const OUTER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const PATIENCE: Duration = Duration::from_secs(30);

pub fn exporting(server: &Server, collector: &Collector) -> Tenon {
    tenon().server(server).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
}

/// Every span as `name < parent's name`, in the order in which they began.
pub fn tree(spans: &[Span]) -> Vec<String> {
    let names: BTreeMap<&str, &str> =
        spans.iter().map(|span| (span.span_id.as_str(), span.name.as_str())).collect();
    assert_eq!(names.len(), spans.len(), "two spans with one id: {spans:#?}");
    let mut lines: Vec<_> = spans
        .iter()
        .map(|span| match span.parent.as_str() {
            "" => span.name.clone(),
            parent => format!("{} < {}", span.name, names.get(parent).unwrap_or(&parent)),
        })
        .collect();
    lines.sort();
    lines
}

#[track_caller]
pub fn only<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no span `{name}` in {spans:#?}"));
    assert!(found.next().is_none(), "two spans `{name}` in {spans:#?}");
    span
}

#[track_caller]
pub fn assert_quiet(run: &Run) {
    assert!(!run.stderr.contains("telemetry"), "{run}");
}

#[test]
fn a_run_with_tools_is_a_tree_of_spans() {
    let server = Server::start([
        reply()
            .call("c1", "list_directory", json!({"path": "."}))
            .call("c2", "read_file", json!({"file_path": "missing.txt"}))
            .usage(120, 7),
        reply().call("c3", "no_such_tool_SAID_BY_THE_MODEL", json!({})).usage(130, 8),
        reply().text("Done.").usage(140, 9),
    ]);
    let collector = Collector::start();
    let run = exporting(&server, &collector)
        .args(["-p", "hi", "--channel", "nightly", "-o", "json"])
        .args(["--session-id", "123e4567-e89b-42d3-a456-426614174000"])
        .run();
    assert_quiet(run.assert_code(0));
    let spans = collector.spans();
    assert_eq!(
        tree(&spans),
        [
            "chat test-model < turn",
            "chat test-model < turn",
            "chat test-model < turn",
            "execute_tool < turn",
            "execute_tool list_directory < turn",
            "execute_tool read_file < turn",
            "invoke_agent",
            "turn < invoke_agent",
            "turn < invoke_agent",
            "turn < invoke_agent",
        ]
    );
    let first = &spans[0];
    for span in &spans {
        assert_eq!(span.trace_id, first.trace_id);
        assert_eq!(span.schema_url, "https://opentelemetry.io/schemas/1.41.0");
        assert_eq!(span.attributes["gen_ai.conversation.id"], "123e4567-e89b-42d3-a456-426614174000");
        assert!(span.start <= span.end, "{span:?}");
        assert_eq!(span.kind, if span.name.starts_with("chat") { 3 } else { 1 });
        assert_eq!(span.resource["service.name"], "tenon");
        assert_eq!(span.resource["service.version"], env!("CARGO_PKG_VERSION"));
    }
    let run_span = only(&spans, "invoke_agent");
    let expected = json!({
        "gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "openai", "gen_ai.request.model": "test-model",
        "server.address": "127.0.0.1", "server.port": server.port(),
        "gen_ai.conversation.id": "123e4567-e89b-42d3-a456-426614174000", "gen_ai.output.type": "text",
        "gen_ai.usage.input_tokens": 390, "gen_ai.usage.output_tokens": 24,
        "tenon.turns": 3, "tenon.exit_code": 0, "tenon.cost_usd": 0.0, "tenon.channel": "nightly",
    });
    assert_eq!(json!(run_span.attributes), expected);
    assert!(!run_span.failed);
    for (name, error) in [("list_directory", None), ("read_file", Some("failed"))] {
        let span = only(&spans, &format!("execute_tool {name}"));
        assert_eq!(span.attributes["gen_ai.tool.name"], name);
        assert_eq!(span.attributes.get("error.type"), error.map(|error| json!(error)).as_ref());
        assert_eq!(span.failed, error.is_some());
    }
    // A name that the model made up is something it said.
    assert_eq!(only(&spans, "execute_tool").attributes["error.type"], "unknown_tool");
    assert!(!String::from_utf8_lossy(&collector.bytes()).contains("SAID_BY_THE_MODEL"));
    let chat: Vec<_> = spans.iter().filter(|span| span.name.starts_with("chat")).collect();
    assert_eq!(chat[1].attributes["gen_ai.usage.input_tokens"], 130);

    let metrics = collector.metrics();
    let find = |name: &str, attributes: &[(&str, Value)]| {
        let fits =
            |of: &BTreeMap<String, Value>| attributes.iter().all(|(key, value)| of.get(*key) == Some(value));
        let mut found = metrics.iter().filter(|metric| metric.name == name && fits(&metric.attributes));
        let metric = found.next().unwrap_or_else(|| panic!("no `{name}` {attributes:?} in {metrics:#?}"));
        assert!(found.next().is_none(), "two `{name}` {attributes:?} in {metrics:#?}");
        metric
    };
    let input = find("gen_ai.client.token.usage", &[("gen_ai.token.type", json!("input"))]);
    assert_eq!((input.count, input.sum, input.unit.as_str()), (3, Some(390.0), "{token}"));
    assert_eq!(input.buckets.iter().sum::<u64>(), 3);
    assert_eq!(input.bounds.len() + 1, input.buckets.len());
    // 120, 130 and 140 are all between 64 and 256.
    assert_eq!(input.buckets[4], 3);
    let of_chat = find("gen_ai.client.operation.duration", &[("gen_ai.operation.name", json!("chat"))]);
    assert_eq!((of_chat.count, of_chat.unit.as_str()), (3, "s"));
    let failed = [("gen_ai.tool.name", json!("read_file")), ("error.type", json!("failed"))];
    assert_eq!(find("tenon.tool.calls", &failed).count, 1);
    assert_eq!(find("tenon.errors", &[("error.type", json!("unknown_tool"))]).count, 1);
}

#[test]
fn a_structured_run_shows_attempts_and_no_payload() {
    let server = Server::start([
        reply().call("c1", "structured_output", json!({"risk": "PAYLOAD_ONE"})).usage(1, 1),
        reply().call("c2", "structured_output", json!({"risk": "high"})).usage(1, 1),
    ]);
    let collector = Collector::start();
    let run = exporting(&server, &collector).args(["-p", "PROMPT_TEXT", "--json-schema", SCHEMA]).run();
    run.assert_code(0);
    let spans = collector.spans();
    let calls: Vec<_> = spans.iter().filter(|span| span.name == "execute_tool structured_output").collect();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].attributes["error.type"], "invalid_arguments");
    assert!(!calls[1].failed && calls[1].attributes["tenon.tool.terminal"] == true);
    assert_eq!(only(&spans, "invoke_agent").attributes["gen_ai.output.type"], "json");
    let sent = String::from_utf8_lossy(&collector.bytes()).into_owned();
    for secret in ["PAYLOAD_ONE", "high", "PROMPT_TEXT", "test-key"] {
        assert!(!sent.contains(secret), "`{secret}` left the machine");
    }
}

#[test]
fn every_attempt_and_every_fallback_is_a_request() {
    let busy = || reply().status(429);
    let server = Server::start([busy(), busy(), busy(), reply().text("ok").usage(5, 1)]);
    let collector = Collector::start();
    let run = exporting(&server, &collector)
        .home_file("settings.json", r#"{"retry": {"attempts": 2, "baseMs": 1}}"#)
        .args(["-p", "hi", "-m", "first", "--fallback-model", "second"])
        .run();
    run.assert_code(0);
    let spans = collector.spans();
    let requests: Vec<_> = spans
        .iter()
        .filter(|span| span.name.starts_with("chat"))
        .map(|span| (span.name.as_str(), span.attributes.get("error.type").and_then(Value::as_str)))
        .collect();
    assert_eq!(
        requests,
        [
            ("chat first", Some("rate_limited")),
            ("chat first", Some("rate_limited")),
            ("chat second", Some("rate_limited")),
            ("chat second", None),
        ]
    );
    assert!(!only(&spans, "invoke_agent").failed);
}

#[test]
fn a_failed_run_says_how_and_not_why() {
    let server = Server::start([reply()
        .status(400)
        .json(json!({"error": {"message": "your prompt PROMPT_TEXT is bad"}}))]);
    let collector = Collector::start();
    let run = exporting(&server, &collector).args(["-p", "PROMPT_TEXT"]).run();
    run.assert_code(1);
    let spans = collector.spans();
    assert_eq!(tree(&spans), ["chat test-model < turn", "invoke_agent", "turn < invoke_agent"]);
    let request = only(&spans, "chat test-model");
    assert_eq!(request.attributes["error.type"], only(&spans, "invoke_agent").attributes["error.type"]);
    assert_eq!(request.attributes["http.response.status_code"], 400);
    assert_eq!(only(&spans, "invoke_agent").attributes["tenon.exit_code"], 1);
    assert!(request.failed && only(&spans, "invoke_agent").failed);
    assert!(!String::from_utf8_lossy(&collector.bytes()).contains("PROMPT_TEXT"));

    // A run that never began.
    let collector = Collector::start();
    let run = tenon().env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()).args(["-p", "hi"]).run();
    run.assert_code(41);
    let spans = collector.spans();
    assert_eq!(tree(&spans), ["invoke_agent"]);
    assert_eq!(spans[0].attributes["error.type"], "auth");
}

#[test]
fn an_interrupted_run_closes_what_was_open() {
    let command = json!({"command": "sleep 60", "is_background": false});
    let server = Server::start([reply().call("c1", "run_shell_command", command)]);
    let collector = Collector::start();
    let mut run = exporting(&server, &collector)
        .env("OTEL_BSP_SCHEDULE_DELAY", "20")
        .args(["-y", "--verbose", "-p", "hi"])
        .spawn();
    // The request's span leaves while the tool runs, so the tool does run.
    collector.wait_for_requests(1, PATIENCE);
    run.signal(tenon_testkit::Signal::Interrupt);
    run.wait().assert_code(130);
    let spans = collector.spans();
    assert_eq!(
        tree(&spans),
        [
            "chat test-model < turn",
            "execute_tool run_shell_command < turn",
            "invoke_agent",
            "turn < invoke_agent"
        ]
    );
    assert_eq!(only(&spans, "execute_tool run_shell_command").attributes["error.type"], "cancelled");
    assert_eq!(only(&spans, "invoke_agent").attributes["error.type"], "interrupted");
}

#[test]
fn batches_leave_while_the_run_goes_on() {
    let gate = Gate::new();
    let server = Server::start([
        reply().call("c1", "list_directory", json!({"path": "."})),
        reply().text("ok").hold(&gate),
    ]);
    let collector = Collector::start();
    let run = exporting(&server, &collector)
        .env("OTEL_BSP_SCHEDULE_DELAY", "10")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "10")
        .args(["-p", "hi"])
        .spawn();
    collector.wait_for_requests(2, PATIENCE);
    gate.open();
    run.wait().assert_code(0);
    assert_eq!(tree(&collector.spans()).len(), 6);
    assert!(!collector.metrics().is_empty());
}

#[test]
fn a_bad_collector_changes_nothing_but_one_warning() {
    let manners =
        [Manner::Answer(500), Manner::Answer(503), Manner::Answer(400), Manner::Hang, Manner::Close];
    for manner in manners.map(Some).into_iter().chain([None]) {
        let collector = manner.map(Collector::that);
        let endpoint = collector.as_ref().map_or_else(Collector::nowhere, Collector::endpoint);
        for fails in [false, true] {
            let answer = if fails { reply().status(400) } else { reply().text("ok") };
            let server = Server::start([answer]);
            let plain = || {
                tenon()
                    .server(&server)
                    .home_file("settings.json", r#"{"timeouts": {"telemetryFlush": 0.2}}"#)
                    .args(["-p", "hi", "-m", "test-model"])
            };
            let run = plain().env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).run();
            server.push(if fails { reply().status(400) } else { reply().text("ok") });
            let other = plain().run();
            assert_eq!((run.code, &run.stdout), (other.code, &other.stdout), "{manner:?}: {run}");
            let said: Vec<&str> = run.stderr.lines().filter(|line| line.contains("telemetry")).collect();
            assert_eq!(said.len(), 1, "{manner:?}: {run}");
            assert!(
                said[0].starts_with("warning: telemetry: 3 spans and the metrics did not arrive: "),
                "{run}"
            );
        }
        if let Some(collector) = collector {
            // No storm: one request for each kind of data and run.
            assert_eq!(collector.requests().len(), 4, "{manner:?}");
        }
    }
    // Not even that for somebody who wants to hear only errors.
    let server = Server::start([reply().text("ok")]);
    let run = tenon()
        .server(&server)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", Collector::nowhere())
        .args(["-q", "-p", "hi"])
        .run();
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[test]
fn headers_reach_the_collector_and_nobody_else() {
    let command = json!({"command": "env; cat /proc/self/environ | tr '\\0' '\\n'", "is_background": false});
    let server = Server::start([reply().call("c1", "run_shell_command", command), reply().text("ok")]);
    let collector = Collector::start();
    let run = exporting(&server, &collector)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20KEY_ONE_0123,x-tenant=tenant-a")
        .env("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-api-key=KEY_TWO_0123")
        .env("MY_COPY", "KEY_ONE_0123")
        .env("RUST_LOG", "trace")
        .args(["-y", "--verbose", "-p", "hi", "-o", "stream-json"])
        .run();
    run.assert_code(0);
    for request in collector.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer KEY_ONE_0123"));
        assert_eq!(request.header("x-tenant"), Some("tenant-a"));
        assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
        let two = (request.path == "/v1/traces").then_some("KEY_TWO_0123");
        assert_eq!(request.header("x-api-key"), two);
    }
    let child = server.request(1).tool_result("c1");
    for text in [&child, &run.stdout, &run.stderr] {
        assert!(!text.contains("KEY_ONE") && !text.contains("KEY_TWO"), "{run}");
    }
    assert!(child.contains("OTEL_EXPORTER_OTLP_ENDPOINT="), "{child}");
    assert!(!child.contains("_HEADERS="), "{child}");
    assert!(!String::from_utf8_lossy(&collector.bytes()).contains("KEY_"));
}

#[test]
fn a_key_is_not_sent_in_the_clear_to_another_machine() {
    let server = Server::start([reply().text("ok")]);
    let run = tenon()
        .server(&server)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.invalid:4318")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=KEY_ONE_0123")
        .args(["-p", "hi"])
        .run();
    run.assert_code(0);
    assert!(run.stderr.contains("the key would travel unencrypted"), "{run}");
    assert!(!run.stderr.contains("KEY_ONE"), "{run}");
}

#[test]
fn it_is_off_unless_somebody_with_a_say_turned_it_on() {
    let collector = Collector::start();
    let endpoint = collector.endpoint();
    let run = |setup: Tenon| {
        let before = collector.requests().len();
        let server = Server::start([reply().text("ok")]);
        let run = setup.server(&server).args(["-p", "hi", "-m", "test-model"]).run();
        run.assert_code(0);
        (collector.requests().len() - before, run)
    };
    let settings = |text: String| tenon().home_file("settings.json", text);
    let at = format!(r#""endpoint": "{endpoint}""#);
    let project = |setup: Tenon| setup.file(".tenon/settings.json", format!(r#"{{"telemetry": {{{at}}}}}"#));
    let on = |setup: Tenon| setup.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    let table = [
        ("nothing", tenon(), 0),
        ("settings", settings(format!(r#"{{"telemetry": {{{at}}}}}"#)), 2),
        ("the environment", on(tenon()), 2),
        ("an empty variable", tenon().env("OTEL_EXPORTER_OTLP_ENDPOINT", ""), 0),
        (
            "one kind only",
            tenon().env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", format!("{endpoint}/v1/metrics")),
            1,
        ),
        ("without metrics", on(tenon()).env("OTEL_METRICS_EXPORTER", "none"), 1),
        ("disabled by the environment", on(tenon()).env("OTEL_SDK_DISABLED", "true"), 0),
        ("disabled by settings", on(settings(r#"{"telemetry": {"enabled": false}}"#.to_owned())), 0),
        ("an untrusted project", project(tenon()), 0),
        ("a trusted one", project(tenon()).arg("--trust-project"), 2),
        (
            "an address for this run",
            tenon().args(["--settings", &format!(r#"{{"telemetry": {{{at}}}}}"#)]),
            2,
        ),
    ];
    for (what, setup, requests) in table {
        let (received, run) = run(setup);
        assert_eq!(received, requests, "{what}: {run}");
    }
    // It cannot be sent elsewhere either, nor be given somebody's headers.
    let other = Collector::start();
    let elsewhere = format!(r#"{{"telemetry": {{"endpoint": "{}"}}}}"#, other.endpoint());
    let own = format!(r#"{{"telemetry": {{{at}, "headers": {{"x-api-key": "KEY_ONE_0123"}}}}}}"#);
    let setup = || settings(own.clone()).file(".tenon/settings.json", &elsewhere);
    assert_eq!((run(setup()).0, other.requests().len()), (2, 0));
    assert_eq!((run(setup().arg("--trust-project")).0, other.requests().len()), (0, 2));
    assert!(other.requests().iter().all(|request| request.header("x-api-key").is_none()));
    let (_, said) = run(project(tenon()));
    assert!(said.stderr.contains("telemetry"), "what was ignored is listed: {said}");
}

#[test]
fn what_cannot_be_done_is_said_and_the_run_goes_on() {
    let collector = Collector::start();
    let endpoint = collector.endpoint();
    let cases = [
        (
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            "warning: telemetry is off: `OTEL_EXPORTER_OTLP_PROTOCOL` is `grpc`, and OTLP is sent as `http/protobuf` or `http/json` only\n",
        ),
        (
            ("OTEL_EXPORTER_OTLP_HEADERS", "SECRET_WITHOUT_A_NAME"),
            "warning: telemetry is off: `OTEL_EXPORTER_OTLP_HEADERS` is not a list such as `name=value,other=value`\n",
        ),
        (
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317"),
            "warning: telemetry is off: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is not an address that starts with `http://` or `https://`\n",
        ),
        (
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            "warning: telemetry is off: `OTEL_EXPORTER_OTLP_TIMEOUT` is not a number of milliseconds\n",
        ),
    ];
    for ((name, value), said) in cases {
        let server = Server::start([reply().text("ok")]);
        let run = tenon()
            .server(&server)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
            .env(name, value)
            .args(["-p", "hi", "-m", "test-model"])
            .run();
        assert_eq!((run.code, run.stderr.as_str()), (0, said), "{run}");
    }
    assert!(collector.requests().is_empty());
    let run = tenon()
        .home_file("settings.json", r#"{"telemetry": {"protocol": "grpc"}}"#)
        .env("OPENAI_API_KEY", "k")
        .args(["-p", "hi"])
        .run();
    run.assert_code(52);
    assert!(run.stderr.contains("`telemetry.protocol` is `grpc`"), "{run}");
}

#[test]
fn the_resource_is_what_the_user_says() {
    let server = Server::start([reply().text("ok")]);
    let collector = Collector::start();
    exporting(&server, &collector)
        .home_file(
            "settings.json",
            r#"{"telemetry": {"serviceName": "from-settings", "resourceAttributes": {"team": "a", "rack": "7"}}}"#,
        )
        .env("OTEL_RESOURCE_ATTRIBUTES", "team=b%2Cc,service.instance.id=mine")
        .env("OTEL_SERVICE_NAME", "from-env")
        .args(["-p", "hi"])
        .run()
        .assert_code(0);
    let resource = &collector.spans()[0].resource;
    let expected = json!({
        "service.name": "from-env", "service.instance.id": "mine", "team": "b,c", "rack": "7",
        "service.version": env!("CARGO_PKG_VERSION"), "telemetry.sdk.name": "tenon",
        "telemetry.sdk.language": "rust", "telemetry.sdk.version": env!("CARGO_PKG_VERSION"),
    });
    assert_eq!(json!(resource), expected);
}

#[test]
fn json_is_sent_where_it_is_asked_for() {
    let server = Server::start([reply().text("ok").usage(10, 2)]);
    let collector = Collector::start();
    exporting(&server, &collector)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        .env("TRACEPARENT", OUTER)
        .args(["-p", "hi"])
        .run()
        .assert_code(0);
    let requests = collector.requests();
    let of = |path: &str| requests.iter().find(|request| request.path == path).expect("a request");
    assert_eq!(of("/v1/traces").header("content-type"), Some("application/json"));
    let spans = of("/v1/traces").body["resourceSpans"][0]["scopeSpans"][0]["spans"].clone();
    let run = spans.as_array().unwrap().iter().find(|span| span["name"] == "invoke_agent").unwrap();
    assert_eq!(run["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(run["parentSpanId"], "b7ad6b7169203331");
    assert!(run["startTimeUnixNano"].as_str().unwrap().parse::<u64>().unwrap() > 1_700_000_000_000_000_000);
    let turns = json!({"key": "tenon.turns", "value": {"intValue": "1"}});
    assert!(run["attributes"].as_array().unwrap().contains(&turns), "{run}");
    let metrics = &of("/v1/metrics").body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let tokens =
        metrics.as_array().unwrap().iter().find(|metric| metric["name"] == "gen_ai.client.token.usage");
    let tokens = &tokens.unwrap()["histogram"];
    assert_eq!(tokens["aggregationTemporality"], 2);
    assert_eq!(tokens["dataPoints"][0]["count"], "1");
}
