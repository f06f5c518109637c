//! MCP servers that behave and that do not: started, called, gone, back again.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tenon_core::{
    BoxFut, Cancel, Client, ClientError, HookCall, HookReply, JsonRpc, McpConnection, McpServerConfig,
    McpState, McpStatus, McpTrust, PermissionAsk, PermissionReply, ToolCtx, ToolErrorKind, ToolKind,
    ToolOutcome, ToolProgress, TraceContext,
};
use tenon_testkit::{McpScript, TINY_PNG, logged, serve_mcp_if_asked};
use tenon_tools::{McpNotice, McpOptions, McpServers, NetOptions, OutputStore, Registry};

use crate::support::{object, runtime};

/// No test: the server that the tests below start. Started by nobody, it ends at once.
#[test]
fn server() {
    serve_mcp_if_asked();
}

/// Far above what a start takes on a busy machine; a test that waits for it has failed.
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(200);

struct Bench {
    folder: TempDir,
    registry: Registry,
    notices: Arc<Mutex<Vec<McpNotice>>>,
    cancel: Cancel,
    progress: Arc<Mutex<Vec<ToolProgress>>>,
    start_timeout: Duration,
    call_timeout: Duration,
    client: Arc<dyn Client>,
    denied: Option<&'static str>,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            folder: tempfile::tempdir().unwrap(),
            registry: Registry::new(),
            notices: Arc::default(),
            cancel: Cancel::new(),
            progress: Arc::default(),
            start_timeout: LONG,
            call_timeout: LONG,
            client: Arc::new(tenon_core::NoClient),
            denied: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn start(&self, servers: Vec<(&str, McpServerConfig)>) -> McpServers {
        let notices = Arc::clone(&self.notices);
        let denied = self.denied;
        McpServers::start(McpOptions {
            servers: servers.into_iter().map(|(name, config)| (name.to_owned(), config)).collect(),
            folder: self.path(""),
            environment: vec![("KEPT".into(), OsString::from("1"))],
            net: NetOptions::default(),
            start_timeout: self.start_timeout,
            call_timeout: self.call_timeout,
            outputs: OutputStore::at(self.path("outputs")),
            client: Arc::clone(&self.client),
            trace: TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            version: "9.9".to_owned(),
            offer: Arc::new(move |name| Some(name) != denied),
            notice: Arc::new(move |notice| notices.lock().unwrap().push(notice)),
        })
    }

    /// Started, up, and its tools offered.
    async fn up(&self, script: &McpScript) -> McpServers {
        let servers = self.start(vec![("s", program(script))]);
        servers.ready(LONG).await;
        servers.mount(&self.registry);
        assert_eq!(servers.statuses()[0].status, McpStatus::Connected, "{:?}", self.notices.lock().unwrap());
        servers
    }

    fn ctx(&self) -> ToolCtx {
        let progress = Arc::clone(&self.progress);
        ToolCtx {
            call_id: "call_1".to_owned(),
            cancel: self.cancel.clone(),
            client: Arc::new(tenon_core::NoClient),
            sink: Arc::new(tenon_core::NoSink),
            progress: Arc::new(move |step| progress.lock().unwrap().push(step)),
            tell: Arc::new(|_| {}),
            trace: None,
        }
    }

    async fn call(&self, tool: &str, args: Value) -> ToolOutcome {
        let tool =
            self.registry.get(tool).unwrap_or_else(|| panic!("no {tool} in {:?}", self.registry.names()));
        tool.call(self.ctx(), object(args)).await
    }

    fn warnings(&self) -> Vec<String> {
        let notices = self.notices.lock().unwrap();
        let warning = |notice: &McpNotice| match notice {
            McpNotice::Warning(message) => Some(message.clone()),
            McpNotice::Said { .. } => None,
        };
        notices.iter().filter_map(warning).collect()
    }

    /// Waits until the tools are these.
    async fn until_tools_are(&self, expected: &[&str]) {
        tokio::time::timeout(LONG, async {
            while self.registry.names() != expected {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{:?}", self.registry.names()));
    }
}

fn config(connection: McpConnection) -> McpServerConfig {
    McpServerConfig {
        connection,
        timeout: None,
        include_tools: None,
        exclude_tools: Vec::new(),
        trust: McpTrust::Doubted,
        state: McpState::Used,
    }
}

fn program(script: &McpScript) -> McpServerConfig {
    let entry = script.command("mcp::server");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    config(McpConnection::Stdio {
        command: text(&entry["command"]),
        args: entry["args"].as_array().unwrap().iter().map(text).collect(),
        env: entry["env"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), text(value)))
            .collect(),
        cwd: None,
    })
}

fn http(url: &str, headers: &[(&str, &str)]) -> McpServerConfig {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    config(McpConnection::Http { url: url.to_owned(), headers })
}

fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[test]
fn tools_are_offered_under_the_server_s_name_and_called() {
    runtime().block_on(async {
        let bench = Bench::new();
        let script = McpScript::new(&[
            "echo",
            "structured_output",
            "read_file",
            "fail",
            "refuse",
            "refuse_at_length",
            "structured",
            "any",
        ]);
        let servers = bench.up(&script).await;
        assert_eq!(
            bench.registry.names(),
            [
                "mcp__s__echo",
                "mcp__s__structured_output",
                "mcp__s__read_file",
                "mcp__s__fail",
                "mcp__s__refuse",
                "mcp__s__refuse_at_length",
                "mcp__s__structured",
                "mcp__s__any"
            ]
        );
        assert_eq!(bench.registry.specs()[0].description, "Does echo.");
        assert!(bench.registry.specs().iter().all(|spec| spec.kind == ToolKind::Other));
        assert_eq!(bench.call("mcp__s__echo", json!({ "text": "hü" })).await, ToolOutcome::ok("hü"));
        assert_eq!(bench.call("mcp__s__any", json!({ "n": 1 })).await.content, r#"{"n":1}"#);
        assert_eq!(bench.call("mcp__s__structured", json!({})).await.content, r#"{"n":1.5}"#);
        let failed = bench.call("mcp__s__fail", json!({})).await;
        assert_eq!(
            (failed.error, failed.content.as_str()),
            (Some(ToolErrorKind::Failed), "It did not work.")
        );
        let refused = bench.call("mcp__s__refuse", json!({})).await;
        assert_eq!(refused.content, "The MCP server `s` refused: I would rather not");
        let wordy = bench.call("mcp__s__refuse_at_length", json!({})).await;
        assert!(wordy.content.len() < 1_100, "{} bytes", wordy.content.len());
        assert_eq!(bench.warnings(), Vec::<String>::new());
        servers.stop().await;
    });
}

#[test]
fn images_come_as_images_and_huge_texts_are_kept_in_a_file() {
    runtime().block_on(async {
        let bench = Bench::new();
        let servers = bench.up(&McpScript::new(&["image", "huge"])).await;
        let image = bench.call("mcp__s__image", json!({})).await;
        assert_eq!(image.content, "A dot.\n[image/png, 70 bytes]");
        assert_eq!(image.media.iter().map(|media| &*media.data).collect::<Vec<_>>(), [TINY_PNG]);
        let huge = bench.call("mcp__s__huge", json!({ "bytes": 10_000_000 })).await;
        assert_eq!(huge.error, None);
        assert!(huge.content.len() < 30_000 && huge.content.contains("outputs/mcp__s__huge_1.output"));
        assert_eq!(std::fs::metadata(bench.path("outputs/mcp__s__huge_1.output")).unwrap().len(), 10_000_000);
        // Beyond the cap the connection ends, and says why; the server is started again for the next call.
        let beyond = bench.call("mcp__s__huge", json!({ "bytes": 17_000_000 })).await;
        assert_eq!(beyond.error, Some(ToolErrorKind::Failed));
        assert!(beyond.content.contains("it sent a message of more than 16 MiB"), "{}", beyond.content);
        assert_eq!(bench.call("mcp__s__image", json!({})).await.error, None);
        servers.stop().await;
    });
}

#[test]
fn progress_is_told_and_keeps_a_call_alive() {
    runtime().block_on(async {
        let bench = Bench::new();
        let servers = bench.up(&McpScript::new(&["progress"])).await;
        assert_eq!(bench.call("mcp__s__progress", json!({})).await.content, "Done.");
        let steps = bench.progress.lock().unwrap().clone();
        let first = ToolProgress::Steps {
            progress: 1.into(),
            total: Some(2.into()),
            message: Some("step 1".to_owned()),
        };
        assert_eq!(steps.first(), Some(&first), "{steps:?}");
        servers.stop().await;
    });
}

#[test]
fn noise_between_messages_and_at_the_start_is_borne() {
    runtime().block_on(async {
        let bench = Bench::new();
        let servers = bench.up(&McpScript::new(&["noise"]).start("garbage")).await;
        assert_eq!(bench.call("mcp__s__noise", json!({})).await.content, "Quiet.");
        servers.stop().await;
    });
}

#[test]
fn a_call_without_an_answer_ends_and_the_server_is_told() {
    runtime().block_on(async {
        let mut bench = Bench::new();
        bench.call_timeout = SHORT;
        let log = bench.path("log");
        let servers = bench.up(&McpScript::new(&["never", "echo"]).log(&log)).await;
        let never = bench.call("mcp__s__never", json!({})).await;
        assert_eq!(never.error, Some(ToolErrorKind::TimedOut));
        assert_eq!(
            never.content,
            "The MCP server `s` did not answer within 200 ms. The call was given up; it may or may not have had an effect."
        );
        // What follows is read after the news.
        assert_eq!(bench.call("mcp__s__echo", json!({ "text": "on" })).await.content, "on");
        let methods: Vec<String> =
            logged(&log).iter().filter_map(|message| message["method"].as_str().map(str::to_owned)).collect();
        assert!(methods.contains(&"notifications/cancelled".to_owned()), "{methods:?}");

        bench.call_timeout = LONG;
        let stop = bench.cancel.clone();
        tokio::spawn(async move { stop.cancel() });
        assert_eq!(bench.call("mcp__s__never", json!({})).await.error, Some(ToolErrorKind::Cancelled));
        servers.stop().await;
    });
}

#[test]
fn a_server_that_goes_in_a_call_is_not_asked_again_but_started_again_twice() {
    runtime().block_on(async {
        let bench = Bench::new();
        let log = bench.path("log");
        let servers = bench.up(&McpScript::new(&["crash", "echo"]).log(&log)).await;
        for _ in 0..2 {
            let lost = bench.call("mcp__s__crash", json!({})).await;
            assert_eq!(lost.error, Some(ToolErrorKind::Failed));
            assert!(
                lost.content.starts_with(
                    "The connection to the MCP server `s` broke during the call: it ended with exit code 3; it said: "
                ) && lost.content.contains("fatal: out of cheese")
                    && lost.content.ends_with("The call may or may not have happened; check before calling again."),
                "{}",
                lost.content
            );
            assert_eq!(bench.call("mcp__s__echo", json!({ "text": "back" })).await.content, "back");
        }
        let calls = logged(&log).iter().filter(|message| message["params"]["name"] == "crash").count();
        assert_eq!(calls, 2, "a call that was lost is never repeated");
        bench.call("mcp__s__crash", json!({})).await;
        let given_up = bench.call("mcp__s__echo", json!({ "text": "back" })).await;
        assert!(
            given_up.content.starts_with("The MCP server `s` is not there: it went 3 times and is not started again ("),
            "{}",
            given_up.content
        );
        assert_eq!(
            bench.warnings(),
            [1, 2].map(|n| format!("the MCP server `s` went and is started again ({n} of 2)"))
        );
        servers.stop().await;
    });
}

#[test]
fn servers_that_do_not_start_delay_nobody_and_say_why() {
    runtime().block_on(async {
        let mut bench = Bench::new();
        bench.start_timeout = Duration::from_secs(2);
        let missing = config(McpConnection::Stdio {
            command: "/no/such/program".into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
        });
        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let servers = bench.start(vec![
            ("hangs", program(&McpScript::new(&["echo"]).start("hang"))),
            ("missing", missing),
            ("exits", program(&McpScript::new(&[]).start("exit"))),
            ("away", http(&format!("http://{nobody}/mcp"), &[])),
            ("good", program(&McpScript::new(&["echo"]))),
        ]);
        bench.until_good(&servers).await;
        servers.mount(&bench.registry);
        assert_eq!(bench.registry.names(), ["mcp__good__echo"]);
        assert_eq!(bench.call("mcp__good__echo", json!({ "text": "x" })).await.content, "x");
        servers.ready(LONG).await;
        let status = |name: &str| {
            let statuses = servers.statuses();
            statuses.iter().find(|server| server.name == name).unwrap().status
        };
        for name in ["hangs", "missing", "exits", "away"] {
            assert_eq!(status(name), McpStatus::Failed, "{name}");
        }
        let warnings = bench.warnings();
        for expected in [
            "the MCP server `hangs` did not start: it was not ready within 2 s",
            "the MCP server `missing` did not start: the program `/no/such/program` was not found",
            "the MCP server `exits` did not start: it ended with exit code 4; it said: cannot start: no licence",
        ] {
            assert!(warnings.iter().any(|warning| warning == expected), "{warnings:?}");
        }
        let away = "the MCP server `away` did not start: it was not reached: ";
        assert!(warnings.iter().any(|warning| warning.starts_with(away)), "{warnings:?}");
        servers.stop().await;
    });
}

impl Bench {
    /// Waits for the one server that comes up.
    async fn until_good(&self, servers: &McpServers) {
        tokio::time::timeout(LONG, async {
            while !servers.statuses().iter().any(|server| server.status == McpStatus::Connected) {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
    }
}

#[test]
fn a_late_server_is_mounted_when_it_comes_and_a_changed_list_replaces_the_old_one() {
    runtime().block_on(async {
        let bench = Bench::new();
        let gate = bench.path("gate");
        let servers = bench.start(vec![
            ("late", program(&McpScript::new(&["echo"]).start(gate.to_str().unwrap()))),
            ("quick", program(&McpScript::new(&["change", "echo"]))),
        ]);
        bench.until_good(&servers).await;
        servers.ready(Duration::ZERO).await;
        servers.mount(&bench.registry);
        assert_eq!(bench.registry.names(), ["mcp__quick__change", "mcp__quick__echo"]);
        assert_eq!(servers.statuses()[0].status, McpStatus::Starting);
        std::fs::write(&gate, "").unwrap();
        bench.until_tools_are(&["mcp__quick__change", "mcp__quick__echo", "mcp__late__echo"]).await;
        assert_eq!(bench.call("mcp__quick__change", json!({})).await.content, "Changed.");
        bench.until_tools_are(&["mcp__quick__echo", "mcp__late__echo", "mcp__quick__changed"]).await;
        servers.stop().await;
    });
}

#[test]
fn what_servers_ask_of_us_is_answered_or_refused() {
    runtime().block_on(async {
        let bench = Bench::new();
        let servers = bench.up(&McpScript::new(&["roots", "sample"])).await;
        let roots = bench.call("mcp__s__roots", json!({})).await.content;
        let uri = serde_json::from_str::<Value>(&roots).unwrap()["roots"][0]["uri"].clone();
        assert_eq!(uri, format!("file://{}", bench.path("").display()));
        let sampled = bench.call("mcp__s__sample", json!({})).await.content;
        assert_eq!(serde_json::from_str::<Value>(&sampled).unwrap()["code"], -32601, "{sampled}");
        servers.stop().await;
    });
}

#[test]
fn programs_get_the_environment_they_are_given_and_nothing_else() {
    runtime().block_on(async {
        let bench = Bench::new();
        let servers = bench.up(&McpScript::new(&["env"])).await;
        let names = bench.call("mcp__s__env", json!({})).await.content;
        assert_eq!(names, "KEPT PWD TENON_TEST_MCP_SCRIPT TRACEPARENT");
        servers.stop().await;
    });
}

#[test]
fn the_end_of_the_run_ends_programs_that_will_not_go() {
    runtime().block_on(async {
        let bench = Bench::new();
        let pids = bench.path("pids");
        // A program that starts another one, neither of which goes by itself.
        let script =
            format!("trap '' TERM; sleep 1000 & echo $! $$ > {}; exec \"$0\" \"$@\"", pids.display());
        let McpConnection::Stdio { command, args, env, .. } =
            program(&McpScript::new(&["echo"]).stubborn()).connection
        else {
            unreachable!()
        };
        let args = ["-c".to_owned(), script, command].into_iter().chain(args).collect();
        let stubborn = config(McpConnection::Stdio { command: "/bin/bash".into(), args, env, cwd: None });
        let servers = bench.start(vec![("s", stubborn)]);
        servers.ready(LONG).await;
        assert_eq!(servers.statuses()[0].status, McpStatus::Connected, "{:?}", bench.notices.lock().unwrap());
        let pids = std::fs::read_to_string(pids).unwrap();
        assert!(pids.split_whitespace().all(is_alive), "{pids}");
        servers.stop().await;
        tokio::time::timeout(LONG, async {
            while pids.split_whitespace().any(is_alive) {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
    });
}

#[test]
fn servers_over_http_are_called_with_their_headers_and_our_trace() {
    runtime().block_on(async {
        let bench = Bench::new();
        let server = McpScript::new(&["echo", "progress", "crash", "image"]).serve_http();
        let servers = bench
            .start(vec![("web", http(server.url(), &[("X-Team", "tools"), ("Authorization", "Bearer t")]))]);
        servers.ready(LONG).await;
        servers.mount(&bench.registry);
        assert_eq!(bench.call("mcp__web__echo", json!({ "text": "x" })).await, ToolOutcome::ok("x"));
        assert_eq!(bench.call("mcp__web__progress", json!({})).await.content, "Done.");
        assert_eq!(bench.call("mcp__web__image", json!({})).await.media.len(), 1);
        let lost = bench.call("mcp__web__crash", json!({})).await;
        assert_eq!(lost.error, Some(ToolErrorKind::Failed), "{}", lost.content);
        // The connection broke, the server is still there.
        assert_eq!(bench.call("mcp__web__echo", json!({ "text": "y" })).await.content, "y");
        assert!(server.header("x-team").iter().all(|value| value == "tools"));
        assert!(server.header("authorization").iter().all(|value| value == "Bearer t"));
        assert!(server.header("traceparent")[0].starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
        servers.stop().await;
    });
}

#[test]
fn a_server_without_the_old_greeting_is_understood() {
    runtime().block_on(async {
        let bench = Bench::new();
        let servers = bench.up(&McpScript::new(&["echo"]).refuses_initialize()).await;
        assert_eq!(bench.call("mcp__s__echo", json!({ "text": "new" })).await.content, "new");
        servers.stop().await;
    });
}

#[test]
fn resources_are_read_through_a_tool_of_their_own() {
    runtime().block_on(async {
        let bench = Bench::new();
        let servers = bench.up(&McpScript::new(&["echo"]).resources()).await;
        assert_eq!(bench.registry.names(), ["mcp__s__echo", "read_mcp_resource"]);
        for (args, expected) in [
            (json!({ "server": "s" }), "[resource test://one] one: The first"),
            (json!({ "server": "s", "uri": "test://one" }), "test://one:\nWhat is in one."),
            (json!({ "server": "s", "uri": "test://two" }), "The MCP server `s` refused: no such resource"),
            (json!({ "server": "x" }), "No MCP server `x` has resources; these have: `s`."),
        ] {
            assert_eq!(bench.call("read_mcp_resource", args).await.content, expected);
        }
        servers.stop().await;
    });
}

#[test]
fn what_a_rule_removes_is_not_offered() {
    runtime().block_on(async {
        let mut bench = Bench::new();
        bench.denied = Some("mcp__s__never");
        let servers = bench.up(&McpScript::new(&["echo", "never"])).await;
        assert_eq!(bench.registry.names(), ["mcp__s__echo"]);
        servers.stop().await;
    });
}

#[test]
fn disabled_servers_are_not_started() {
    runtime().block_on(async {
        let bench = Bench::new();
        let off = McpServerConfig { state: McpState::Disabled, ..program(&McpScript::new(&["echo"])) };
        let servers = bench.start(vec![("s", off)]);
        servers.ready(LONG).await;
        assert_eq!(servers.statuses(), []);
        servers.stop().await;
    });
}

/// Hosts a server for us, as an SDK does.
struct Host;

impl Client for Host {
    fn permission(&self, _ask: PermissionAsk, _cancel: Cancel) -> BoxFut<'_, PermissionReply> {
        unreachable!()
    }

    fn hook(&self, _call: HookCall, _cancel: Cancel) -> BoxFut<'_, Result<HookReply, ClientError>> {
        unreachable!()
    }

    fn mcp(
        &self,
        server: &str,
        message: JsonRpc,
        _cancel: Cancel,
    ) -> BoxFut<'_, Result<JsonRpc, ClientError>> {
        let server = server.to_owned();
        Box::pin(async move {
            let JsonRpc(message) = message;
            let result = match message["method"].as_str().unwrap() {
                "initialize" => json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": server, "version": "1" },
                }),
                "tools/list" => json!({ "tools": [{ "name": "add", "inputSchema": { "type": "object" } }] }),
                "tools/call" if message["params"]["name"] == "add" => {
                    let args = &message["params"]["arguments"];
                    let sum = args["a"].as_i64().unwrap() + args["b"].as_i64().unwrap();
                    json!({ "content": [{ "type": "text", "text": sum.to_string() }] })
                }
                // What the SDKs answer to a notification.
                _ => return Ok(JsonRpc(json!({ "jsonrpc": "2.0", "result": {}, "id": 0 }))),
            };
            Ok(JsonRpc(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })))
        })
    }
}

#[test]
fn a_server_that_the_client_hosts_is_one_like_the_others() {
    runtime().block_on(async {
        let mut bench = Bench::new();
        let servers = bench.start(vec![("own", config(McpConnection::Client))]);
        servers.start_those_of_client();
        servers.ready(LONG).await;
        assert_eq!(servers.statuses()[0].status, McpStatus::Failed);
        assert_eq!(bench.warnings(), ["the MCP server `own` did not start: no client is connected"]);
        servers.stop().await;

        bench.client = Arc::new(Host);
        let servers = bench.start(vec![("own", config(McpConnection::Client))]);
        servers.start_those_of_client();
        servers.ready(LONG).await;
        servers.mount(&bench.registry);
        assert_eq!(bench.call("mcp__own__add", json!({ "a": 2, "b": 3 })).await, ToolOutcome::ok("5"));
        servers.stop().await;
    });
}
