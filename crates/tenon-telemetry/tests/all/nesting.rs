//! Which span hangs below which, and when it began and ended.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use tenon_core::{EventKind, TaskEnd, TaskKind, TaskStart, TaskStatus, TraceContext};

use crate::support::{Memory, START, Stage, answered, asking, begins, called, calls, config, ends, start};

/// `name (start–end) < parent's name`, sorted.
fn tree(spans: &[Span]) -> Vec<String> {
    let names: BTreeMap<&[u8], &str> =
        spans.iter().map(|span| (span.span_id.as_slice(), span.name.as_str())).collect();
    assert_eq!(names.len(), spans.len(), "two spans with one id");
    let since = |nanoseconds: u64| nanoseconds / 1_000_000 - START;
    let mut lines: Vec<String> = spans
        .iter()
        .map(|span| {
            let parent = names.get(span.parent_span_id.as_slice()).unwrap_or(&"");
            let (from, to) = (since(span.start_time_unix_nano), since(span.end_time_unix_nano));
            format!("{} ({from}–{to}) < {parent}", span.name)
        })
        .collect();
    lines.sort();
    lines
}

async fn played(play: impl FnOnce(&mut Stage)) -> Vec<Span> {
    let memory = Memory::answering([]);
    let exporter = start(&config(), &memory);
    play(&mut Stage::new(&exporter));
    assert_eq!(exporter.finish(Duration::from_secs(60)).await, None);
    memory.spans()
}

#[tokio::test]
async fn agents_hang_below_the_calls_they_work_for() {
    // The sub-agent numbers its calls like its caller, as models do.
    let spans = played(|stage| {
        stage.event(None, begins()).event(None, asking(1)).event(None, answered(1));
        stage.event(None, calls("call_1", "agent"));
        let inner = Some("call_1");
        stage.at(10).event(inner, begins()).event(inner, asking(1)).event(inner, answered(1));
        stage.event(inner, calls("call_1", "read_file")).event(inner, called("call_1", "read_file", 1));
        stage.at(20).event(inner, ends());
        stage.at(30).event(None, called("call_1", "agent", 26)).event(None, ends());
    })
    .await;
    assert_eq!(
        tree(&spans),
        [
            "chat m (11–12) < turn",
            "chat m (1–2) < turn",
            "execute_tool agent (3–29) < turn",
            "execute_tool read_file (13–14) < turn",
            "invoke_agent (0–31) < ",
            "invoke_agent (10–20) < execute_tool agent",
            "turn (11–20) < invoke_agent",
            "turn (1–31) < invoke_agent",
        ]
    );
}

#[tokio::test]
async fn what_a_child_is_told_is_the_span_that_arrives() {
    let memory = Memory::answering([]);
    let exporter = start(&config(), &memory);
    let run = exporter.trace().expect("a trace");
    Stage::new(&exporter)
        .event(None, begins())
        .event(None, asking(1))
        .event(None, calls("c", "agent"))
        .event(Some("c"), begins())
        .event(Some("c"), asking(1))
        .event(Some("c"), calls("c", "run_shell_command"))
        .event(Some("c"), called("c", "run_shell_command", 1))
        .event(Some("c"), ends())
        .event(None, called("c", "agent", 4))
        .event(None, ends());
    exporter.finish(Duration::from_secs(60)).await;
    let spans = memory.spans();
    let id = |name: &str, below: Option<u64>| {
        let fits = |span: &&Span| {
            let parent = below.map_or(Vec::new(), |below| below.to_be_bytes().to_vec());
            span.name == name && (below.is_none() || span.parent_span_id == parent)
        };
        let span = spans.iter().find(fits).unwrap_or_else(|| panic!("no {name}"));
        u64::from_be_bytes(span.span_id.as_slice().try_into().expect("eight bytes"))
    };
    let call: TraceContext = run.call("c");
    assert_eq!(id("execute_tool agent", None), call.span_id());
    assert_eq!(id("invoke_agent", Some(call.span_id())), call.agent().span_id());
    assert_eq!(id("execute_tool run_shell_command", None), call.agent().call("c").span_id());
}

#[tokio::test]
async fn calls_side_by_side_end_when_they_ended_and_not_when_they_were_reported() {
    let spans = played(|stage| {
        stage.event(None, begins()).event(None, asking(1)).event(None, answered(1));
        stage.event(None, calls("a", "read_file")).event(None, calls("b", "glob"));
        stage.at(100).event(None, called("a", "read_file", 90)).event(None, called("b", "glob", 5));
        stage.at(110).event(None, ends());
    })
    .await;
    let tree = tree(&spans);
    assert!(tree.contains(&"execute_tool read_file (3–93) < turn".to_owned()), "{tree:?}");
    assert!(tree.contains(&"execute_tool glob (4–9) < turn".to_owned()), "{tree:?}");
}

#[tokio::test]
async fn a_wait_before_another_attempt_belongs_to_no_request() {
    let retrying = |wait_ms| EventKind::Retrying {
        attempt: 2,
        attempts: 5,
        wait_ms,
        class: "overloaded",
        status: Some(529),
        message: "SAID BY A SERVER".to_owned(),
    };
    let spans = played(|stage| {
        stage.event(None, begins()).event(None, asking(1));
        stage.at(10).event(None, retrying(40));
        stage.at(70).event(None, answered(1)).event(None, ends());
    })
    .await;
    let lines = tree(&spans);
    assert!(lines.contains(&"chat m (1–10) < turn".to_owned()), "{lines:?}");
    assert!(lines.contains(&"chat m (50–70) < turn".to_owned()), "{lines:?}");

    // One that was stopped while it waited never made the second one.
    let spans = played(|stage| {
        stage.event(None, begins()).event(None, asking(1));
        stage.at(10).event(None, retrying(1_000));
        stage.at(20).event(None, ends());
    })
    .await;
    assert_eq!(spans.iter().filter(|span| span.name.starts_with("chat")).count(), 1);
}

#[tokio::test]
async fn background_work_hangs_below_its_call_and_ends_with_the_run_at_the_latest() {
    let started = |task_id: &str, call_id: Option<&str>| {
        EventKind::TaskStarted(TaskStart {
            agent_type: None,
            task_id: task_id.to_owned(),
            call_id: call_id.map(str::to_owned),
            kind: TaskKind::Shell,
            description: "SAID".to_owned(),
        })
    };
    let ended = EventKind::TaskEnded(TaskEnd {
        tool_calls: 0,
        task_id: "t1".to_owned(),
        call_id: Some("c".to_owned()),
        kind: TaskKind::Shell,
        status: TaskStatus::Failed,
        summary: "SAID".to_owned(),
        output_file: None,
        usage: None,
        duration_ms: 30,
    });
    let spans = played(|stage| {
        stage.event(None, begins()).event(None, asking(1)).event(None, answered(1));
        stage.event(None, calls("c", "run_shell_command")).event(None, started("t1", Some("c")));
        stage.event(None, called("c", "run_shell_command", 1)).event(None, started("t2", None));
        stage.at(40).event(None, ended.clone()).event(None, ends());
    })
    .await;
    let lines = tree(&spans);
    assert!(
        lines.contains(&"background_task (4–40) < execute_tool run_shell_command".to_owned()),
        "{lines:?}"
    );
    assert!(lines.contains(&"background_task (6–41) < invoke_agent".to_owned()), "{lines:?}");
}

#[tokio::test]
async fn a_clock_that_goes_back_breaks_nothing() {
    let spans = played(|stage| {
        stage.at(100).event(None, begins()).event(None, asking(1)).event(None, calls("c", "glob"));
        stage.at(50).event(None, called("c", "glob", 0)).event(None, answered(1)).event(None, ends());
    })
    .await;
    assert!(spans.iter().all(|span| span.start_time_unix_nano <= span.end_time_unix_nano), "{spans:?}");
}

#[tokio::test]
async fn a_second_run_in_the_same_process_has_spans_of_its_own() {
    let spans = played(|stage| {
        for _ in 0..2 {
            stage.event(None, begins()).event(None, asking(1)).event(None, answered(1));
            stage.event(None, calls("c", "glob")).event(None, called("c", "glob", 1)).event(None, ends());
        }
    })
    .await;
    assert_eq!(tree(&spans).len(), 8);
}
