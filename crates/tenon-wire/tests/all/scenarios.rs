//! The runs that have golden files.

use tenon_core::{
    ErrorClass, EventKind, Outcome, Signal, StructuredError, ToolErrorKind, ToolProgress, Violation,
};
use tenon_wire::{EncoderOptions, Lifetime};

use crate::scenarios_of_tools as tools;
use crate::script::{Script, denial, failed, failure, raw, structured_success, success, usage};

/// Runs whose outputs stand one after the other in the scenario's files.
pub struct Scenario {
    pub name: &'static str,
    pub runs: Vec<Script>,
    /// Options that differ from the usual.
    pub adjust: fn(&mut EncoderOptions),
}

pub fn all() -> Vec<Scenario> {
    let usual = |name, runs| Scenario { name, runs, adjust: |_| {} };
    vec![
        usual("text_answer", vec![text_answer()]),
        usual("thinking", vec![thinking()]),
        usual("tool_call", vec![tool_call()]),
        usual("parallel_calls", vec![parallel_calls()]),
        usual("structured_success", vec![structured()]),
        Scenario {
            name: "structured_without_result_text",
            runs: vec![structured()],
            adjust: |options| options.result_text = false,
        },
        usual("retry_then_success", vec![retry_then_success()]),
        usual("model_fallback", vec![model_fallback()]),
        usual("heartbeat_and_warning", vec![heartbeat_and_warning()]),
        usual("denials", vec![denials()]),
        usual("sub_agent", vec![sub_agent()]),
        usual("interrupted_mid_text", vec![interrupted_mid_text()]),
        usual("interrupted_mid_call", vec![interrupted_mid_call()]),
        usual("early_failure", vec![early_failure()]),
        usual("schema_retries_exhausted", vec![schema_retries_exhausted()]),
        usual("failure_classes", ErrorClass::ALL.map(failure_of_class).to_vec()),
        usual("failures_of_a_run", ErrorClass::ALL.map(failure_of_a_run).to_vec()),
        Scenario {
            name: "failures_of_turns",
            runs: vec![session_with_failures()],
            adjust: |options| options.lifetime = Lifetime::ManyRuns,
        },
        usual("terminal_sequences", vec![terminal_sequences()]),
        Scenario {
            name: "terminal_sequences_told",
            runs: vec![terminal_sequences()],
            adjust: |options| options.raw_ansi = true,
        },
        usual("compaction", vec![compaction()]),
        usual("tool_displays", vec![tools::displays()]),
        usual("permission", vec![tools::permission()]),
        usual("progress", vec![tools::progress()]),
        usual("background_task", vec![tools::background_task()]),
        Scenario { name: "hooks", runs: vec![tools::hooks()], adjust: |options| options.hook_events = true },
    ]
}

fn text_answer() -> Script {
    Script::started()
        .turn()
        .text(&["It says ", "\"hello\"\n", "and ", "\u{2028}goodbye 👋."])
        .turn_finished(usage(1250, 6))
        .finished(success("It says \"hello\"\nand \u{2028}goodbye 👋."))
}

fn thinking() -> Script {
    Script::started()
        .turn()
        .thinking(&["The user ", "greets me."])
        .text(&["Hello."])
        .turn_finished(usage(900, 12))
        .finished(success("Hello."))
}

fn tool_call() -> Script {
    Script::started()
        .turn()
        .text(&["Reading ", "it."])
        .calls(&[("call_1", "read_file", &["{\"file_path\":", " \"/project/a.txt\", \"limit\": 1.0}"])])
        .turn_finished(usage(1200, 30))
        .tool_started("call_1", "read_file")
        .tool_finished("call_1", "read_file", "hello", None)
        .turn()
        .text(&["It says hello."])
        .turn_finished(usage(1250, 6))
        .finished(success("It says hello."))
}

fn parallel_calls() -> Script {
    Script::started()
        .turn()
        .calls(&[
            ("call_1", "read_file", &["{\"file_path\":", "\"/project/a\"}"]),
            ("call_2", "run_shell_command", &["{\"command\":\"make\"}"]),
            ("call_3", "read_file", &["not json"]),
            ("call_4", "list_tasks", &[]),
        ])
        .turn_finished(usage(1200, 60))
        .event(EventKind::ToolProgress {
            call_id: "call_2".to_owned(),
            progress: ToolProgress::Shell {
                elapsed_ms: 10_000,
                last_output_age_ms: None,
                total_lines: 0,
                total_bytes: 0,
                timeout_ms: 120_000,
            },
        })
        .tool_finished("call_1", "read_file", "a", None)
        .tool_finished("call_2", "run_shell_command", "make: *** no rule", Some(ToolErrorKind::Failed))
        .tool_finished(
            "call_3",
            "read_file",
            "the arguments are not a JSON object",
            Some(ToolErrorKind::InvalidArguments),
        )
        .tool_finished("call_4", "list_tasks", "", None)
        .turn()
        .text(&["Done."])
        .turn_finished(usage(1300, 3))
        .finished(success("Done."))
}

/// Refused once, then accepted: numbers and keys that a careless codec would change.
fn structured() -> Script {
    let payload = r#"{"risk":"low","score":1.0,"big":123456789012345678901234567890,"a":-0.10e+2}"#;
    Script::started()
        .turn()
        .calls(&[("call_1", "structured_output", &["{\"risk\":\"hgih\"}"])])
        .turn_finished(usage(1000, 10))
        .tool_finished(
            "call_1",
            "structured_output",
            "/risk: expected one of \"low\", \"medium\", \"high\", got \"hgih\"",
            Some(ToolErrorKind::InvalidArguments),
        )
        .turn()
        .call_started("call_2", "structured_output")
        .delta(0, &payload[..13])
        .event(EventKind::StructuredPartial {
            call_id: "call_2".to_owned(),
            snapshot: raw(r#"{"risk":"low"}"#),
        })
        .delta(0, &payload[13..])
        .event(EventKind::PartStopped {
            part: 0,
            content: tenon_core::Part::ToolCall(tenon_core::ToolCall {
                id: "call_2".to_owned(),
                name: "structured_output".to_owned(),
                arguments: payload.to_owned(),
                terminal: true,
                native: None,
            }),
        })
        .turn_finished(usage(1100, 20))
        .tool_finished("call_2", "structured_output", "Structured output accepted.", None)
        .finished(structured_success(payload))
}

/// The first request fails at once; the second breaks off after some text, which only formats that have
/// shown nothing yet can take back.
fn retry_then_success() -> Script {
    Script::started()
        .retrying(500)
        .turn()
        .thinking(&["Hm."])
        .half_text(&["Half an ans"])
        .retrying(1000)
        .turn()
        .text(&["A whole answer."])
        .turn_finished(usage(800, 4))
        .finished(success("A whole answer."))
}

fn model_fallback() -> Script {
    Script::started()
        .retrying(500)
        .event(EventKind::ModelFallback {
            from: "test-model".to_owned(),
            to: "other-model".to_owned(),
            status: Some(429),
            fallback: 1,
        })
        .event(EventKind::TurnStarted { turn: 1, model: "other-model".to_owned() })
        .text(&["From the other one."])
        .turn_finished(usage(800, 4))
        .finished(success("From the other one."))
}

fn heartbeat_and_warning() -> Script {
    let mut outcome = success("Done.");
    outcome.warnings = vec!["nothing came on stdin".to_owned(), "the session is not kept".to_owned()];
    outcome.cost_usd = None;
    Script::started()
        .event(EventKind::Warning { message: "nothing came on stdin".to_owned() })
        .event(EventKind::Heartbeat)
        .event(EventKind::RecordingDegraded { message: "the session is not kept".to_owned() })
        .turn()
        .text(&["Done."])
        .turn_finished(usage(700, 2))
        .finished(outcome)
}

fn denials() -> Script {
    let mut outcome = success("I may not do that.");
    outcome.denials = vec![denial("call_1")];
    Script::started()
        .turn()
        .calls(&[("call_1", "run_shell_command", &["{\"command\":\"rm -r build\"}"])])
        .turn_finished(usage(700, 9))
        .tool_finished("call_1", "run_shell_command", "not allowed", Some(ToolErrorKind::Denied))
        .turn()
        .text(&["I may not do that."])
        .turn_finished(usage(750, 6))
        .finished(outcome)
}

/// Two sub-agents side by side: their calls are shown, their words and results are not.
fn sub_agent() -> Script {
    let child = failed(failure(ErrorClass::Turns, "the sub-agent used all its turns"));
    Script::started()
        .turn()
        .calls(&[("task_1", "agent", &["{}"]), ("task_2", "agent", &["{}"])])
        .turn_finished(usage(700, 9))
        .inside(Some("task_1"))
        .turn()
        .text(&["I will look."])
        .call_started("call_a", "read_file")
        .inside(Some("task_2"))
        .turn()
        .text(&["So will I."])
        .turn_finished(usage(100, 3))
        .finished(success("So will I."))
        .inside(Some("task_1"))
        .delta(1, "{}")
        .event(EventKind::PartStopped {
            part: 1,
            content: tenon_core::Part::ToolCall(tenon_core::ToolCall {
                id: "call_a".to_owned(),
                name: "read_file".to_owned(),
                arguments: "{}".to_owned(),
                terminal: false,
                native: None,
            }),
        })
        .turn_finished(usage(100, 3))
        .tool_finished("call_a", "read_file", "a", None)
        .finished(child)
        .inside(None)
        .tool_finished("task_1", "agent", "the sub-agent used all its turns", Some(ToolErrorKind::Failed))
        .tool_finished("task_2", "agent", "So will I.", None)
        .turn()
        .text(&["Done."])
        .turn_finished(usage(750, 2))
        .finished(success("Done."))
}

fn interrupted() -> Outcome {
    failed(failure(ErrorClass::Interrupted(Signal::Int), "the run was interrupted"))
}

fn interrupted_mid_text() -> Script {
    Script::started().turn().half_text(&["Once upon", " a ti"]).finished(interrupted())
}

fn interrupted_mid_call() -> Script {
    Script::started()
        .turn()
        .text(&["Writing it."])
        .call_started("call_1", "write_file")
        .delta(1, "{\"file_pa")
        .finished(interrupted())
}

fn early_failure() -> Script {
    let failure = failure(ErrorClass::Auth, "no credentials for any provider were found")
        .hint("set `OPENAI_API_KEY`, or use `-m local`");
    Script::default().finished(Outcome::failed_early(failure, vec!["`--betas` has no effect".to_owned()]))
}

fn schema_retries_exhausted() -> Script {
    let mut failure = failure(ErrorClass::SchemaRetries, "no attempt fitted the schema (2 attempts)");
    failure.structured = Some(StructuredError {
        attempts: 2,
        candidate: Some(raw("{\"score\": 1.50,\n \"extra\": null}")),
        violations: vec![
            Violation { path: "/risk".to_owned(), message: "is missing".to_owned() },
            Violation { path: "/extra".to_owned(), message: "is not expected".to_owned() },
        ],
    });
    Script::started().finished(failed(failure))
}

fn failure_of_class(class: ErrorClass) -> Script {
    let mut failure = failure(class, &format!("failed: {}", class.name()));
    if matches!(class, ErrorClass::RateLimited | ErrorClass::Overloaded) {
        failure.retryable = Some(true);
        failure.http_status = Some(429);
        failure.provider = Some("openai".to_owned());
    }
    Script::default().finished(failed(failure))
}

/// The run had begun when it failed: there is an answer before the result.
fn failure_of_a_run(class: ErrorClass) -> Script {
    let failure = failure(class, &format!("failed: {}", class.name()));
    Script::started().turn().text(&["Let me see."]).turn_finished(usage(500, 4)).finished(failed(failure))
}

/// In a session, a turn that fails is followed by the next.
fn session_with_failures() -> Script {
    let no_room = failure(ErrorClass::Turns, "the limit of 1 turn is reached");
    let cut = failure(ErrorClass::Truncated, "the answer was cut off at the model's limit");
    Script::started()
        .turn()
        .calls(&[("call_1", "read_file", &["{}"])])
        .turn_finished(usage(500, 4))
        .tool_finished("call_1", "read_file", "`file_path` is missing", Some(ToolErrorKind::InvalidArguments))
        .finished(failed(no_room))
        .started_again()
        .turn()
        .half_text(&["It is a lo"])
        .finished(failed(cut))
        .started_again()
        .finished(interrupted())
        .started_again()
        .turn()
        .text(&["Here I am."])
        .turn_finished(usage(600, 3))
        .finished(success("Here I am."))
}

/// Colours and a title, one sequence split between two pieces, and one that never ends.
fn terminal_sequences() -> Script {
    Script::started()
        .prompted("paint it \u{1b}[31mred")
        .turn()
        .text(&["\u{1b}[32mgre", "en\u{1b}[", "0m 👋 \u{1b}]0;ti", "tle\u{7}plain", "\u{1b}[3"])
        .turn_finished(usage(600, 8))
        .finished(success("\u{1b}[32mgreen\u{1b}[0m 👋 \u{1b}]0;title\u{7}plain\u{1b}[3"))
}

fn compaction() -> Script {
    Script::started()
        .event(EventKind::Compacted {
            trigger: tenon_core::CompactTrigger::Auto,
            before_tokens: 12_000,
            after_tokens: 800,
        })
        .turn()
        .text(&["Where were we?"])
        .turn_finished(usage(900, 4))
        .finished(success("Where were we?"))
}
