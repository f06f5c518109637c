//! The trace that goes through a run to what it starts: commands, sub-agents, background work, hooks, steps. What a
//! collector receives of one run is in `telemetry.rs`.

use tenon_testkit::{Collector, Run, Server, Tenon, json, reply};

use super::telemetry::{OUTER, assert_quiet, exporting, only, tree};
use super::tenon;

/// What the child of a shell command sees, with these variables.
fn trace_of_child(setup: Tenon) -> (String, Run) {
    let command = json!({"command": "echo \"<$TRACEPARENT|$TRACESTATE>\"", "is_background": false});
    let server = Server::start([reply().call("c1", "run_shell_command", command), reply().text("ok")]);
    let run = setup.server(&server).args(["-y", "-p", "hi"]).run();
    run.assert_code(0);
    let said = server.request(1).tool_result("c1");
    let inside = said.split("Output: <").nth(1).and_then(|rest| rest.split('>').next());
    (inside.unwrap_or_else(|| panic!("{said}")).to_owned(), run)
}

#[test]
fn a_trace_goes_through_a_run_to_what_it_starts() {
    // Without telemetry: handed on as it came, or nothing.
    assert_eq!(trace_of_child(tenon()).0, "|");
    let outer = || tenon().env("TRACEPARENT", OUTER).env("TRACESTATE", "vendor=1");
    assert_eq!(trace_of_child(outer()).0, format!("{OUTER}|vendor=1"));
    // Somebody else's broken variable is theirs: it is neither used nor repaired.
    assert_eq!(trace_of_child(tenon().env("TRACEPARENT", "00-zz")).0, "00-zz|");

    // With telemetry: the child hangs below its tool call, which hangs below us, which hang below the caller.
    let collector = Collector::start();
    let (seen, _) = trace_of_child(outer().env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()));
    let spans = collector.spans();
    let call = only(&spans, "execute_tool run_shell_command");
    assert_eq!(seen, format!("00-0af7651916cd43dd8448eb211c80319c-{}-01|vendor=1", call.span_id));
    let run = only(&spans, "invoke_agent");
    assert_eq!(run.parent, "b7ad6b7169203331");
    assert!(spans.iter().all(|span| span.trace_id == run.trace_id && span.state == "vendor=1"));

    // A trace that begins here.
    let collector = Collector::start();
    let (seen, _) = trace_of_child(tenon().env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()));
    let spans = collector.spans();
    let call = only(&spans, "execute_tool run_shell_command");
    assert_eq!(seen, format!("00-{}-{}-01|", call.trace_id, call.span_id));
    assert_eq!(only(&spans, "invoke_agent").parent, "");

    // A caller that does not record its trace gets no spans from us; metrics are nobody's trace.
    let collector = Collector::start();
    let unsampled = OUTER.replace("-01", "-00");
    let setup =
        tenon().env("TRACEPARENT", &unsampled).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    assert_eq!(trace_of_child(setup).0, format!("{unsampled}|"));
    assert!(collector.spans().is_empty() && !collector.metrics().is_empty());
}

#[test]
fn a_sub_agent_hangs_below_the_call_that_asked_for_it() {
    let helper = json!({"description": "look", "prompt": "HELP_WITH_THIS", "subagent_type": "explore"});
    let server = Server::start([
        reply().call("c1", "agent", helper).usage(3, 1),
        reply().text("DONE_HELPING").usage(2, 1),
        reply().text("ok").usage(4, 1),
    ]);
    let collector = Collector::start();
    let run = exporting(&server, &collector).args(["-y", "-p", "hi"]).run();
    run.assert_code(0);
    assert_eq!(
        tree(&collector.spans()),
        [
            "chat test-model < turn",
            "chat test-model < turn",
            "chat test-model < turn",
            "execute_tool agent < turn",
            "invoke_agent",
            "invoke_agent < execute_tool agent",
            "turn < invoke_agent",
            "turn < invoke_agent",
            "turn < invoke_agent",
        ],
        "{run}"
    );
    let sent = String::from_utf8_lossy(&collector.bytes()).into_owned();
    assert!(!sent.contains("HELP"), "what agents tell each other stays here");
}

#[test]
fn background_work_is_a_span_of_its_own() {
    let command = json!({"command": "echo SAID", "is_background": true, "description": "SAID_TOO"});
    let server =
        Server::start([reply().call("c1", "run_shell_command", command), reply().text("ok").forever()]);
    let collector = Collector::start();
    let run = exporting(&server, &collector).args(["-y", "-p", "hi"]).run();
    run.assert_code(0);
    let spans = collector.spans();
    let call = only(&spans, "execute_tool run_shell_command");
    let task = only(&spans, "background_task");
    assert_eq!(
        (task.parent.as_str(), &task.attributes["tenon.task.kind"]),
        (call.span_id.as_str(), &json!("shell"))
    );
    assert!(!String::from_utf8_lossy(&collector.bytes()).contains("SAID"));
}

#[test]
fn hooks_are_part_of_the_trace() {
    let settings = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo $TRACEPARENT > seen.txt"}]}]}}"#;
    let server = Server::start([reply().text("ok")]);
    let collector = Collector::start();
    let run = exporting(&server, &collector).home_file("settings.json", settings).args(["-p", "hi"]).run();
    run.assert_code(0);
    let root = only(&collector.spans(), "invoke_agent").clone();
    assert_eq!(run.read("seen.txt"), format!("00-{}-{}-01\n", root.trace_id, root.span_id));
}

#[test]
fn steps_of_a_workflow_hang_below_its_run() {
    let server = Server::start([reply().text("SAID_A").usage(3, 1), reply().text("SAID_B").usage(2, 1)]);
    let collector = Collector::start();
    let document =
        "name: n\nsteps:\n  - { id: a, instructions: A. }\n  - { id: b, instructions: B., dependsOn: [a] }\n";
    let run =
        exporting(&server, &collector).file("flow.yaml", document).args(["flow", "run", "flow.yaml"]).run();
    run.assert_code(0);
    assert_quiet(&run);
    let spans = collector.spans();
    assert_eq!(
        tree(&spans),
        [
            "chat test-model < turn",
            "chat test-model < turn",
            "execute_tool flow_step < invoke_agent",
            "execute_tool flow_step < invoke_agent",
            "invoke_agent",
            "invoke_agent < execute_tool flow_step",
            "invoke_agent < execute_tool flow_step",
            "turn < invoke_agent",
            "turn < invoke_agent",
        ],
        "{run}"
    );
    assert!(!String::from_utf8_lossy(&collector.bytes()).contains("SAID"));
}
