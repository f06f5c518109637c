//! The tables of the formats' sources, tried on the golden files: which kinds of lines, fields and words there are, and
//! that every dialect shows every kind of run.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tenon_wire::Dialect;

use crate::golden::folder;

#[track_caller]
fn golden(dialect: Dialect, file: &str) -> Vec<Value> {
    let path = folder(dialect).join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every line of every file of a dialect.
fn all(dialect: Dialect) -> Vec<Value> {
    let mut files: Vec<_> =
        fs::read_dir(folder(dialect)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let json = files.iter().filter(|path| path.extension().is_some_and(|extension| extension != "text"));
    json.flat_map(|path| golden(dialect, &path.file_name().unwrap().to_string_lossy())).collect()
}

fn annotations(kind: &str) -> Vec<Value> {
    let of_line = |line: Value| line["annotations"].as_array().cloned().unwrap_or_default();
    let of_kind = |annotation: &Value| annotation["type"] == kind;
    all(Dialect::OpenAi).into_iter().flat_map(of_line).filter(of_kind).collect()
}

/// The words that stand at a place.
fn words(values: &[Value], pointer: &str) -> BTreeSet<String> {
    values.iter().filter_map(|value| value.pointer(pointer)?.as_str()).map(str::to_owned).collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn has_keys(value: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| value.get(key).is_some())
}

/// Each kind of run × each dialect: the file is there, and the thing itself is in it.
#[test]
fn every_dialect_shows_every_kind_of_run() {
    let somewhere = |lines: &[Value], text: &str| lines.iter().any(|line| line.to_string().contains(text));
    for dialect in Dialect::ALL {
        let [partials, partial] = match dialect {
            Dialect::Qwen | Dialect::Claude => ["partials.jsonl", "structured_partial"],
            Dialect::Gemini => ["stream.jsonl", "\"delta\":true"],
            Dialect::OpenAi => ["chunks.jsonl", "x-tenon-structured-partial"],
        };
        let pieces = if dialect == Dialect::Gemini { "text_answer" } else { "structured_success" };
        let table = [
            ("text_answer", "stream.jsonl", "goodbye"),
            ("tool_call", "stream.jsonl", "call_1"),
            ("structured_success", "stream.jsonl", "\"structured_result\":{\"risk\":\"low\""),
            ("retry_then_success", "stream.jsonl", "A whole answer."),
            ("sub_agent", "stream.jsonl", "task_1"),
            ("background_task", "stream.jsonl", "bg_1"),
            (pieces, partials, partial),
        ];
        for (scenario, format, word) in table {
            let lines = golden(dialect, &format!("{scenario}.{format}"));
            assert!(somewhere(&lines, word), "{} {scenario}.{format}: no {word}", dialect.name());
            golden(dialect, &format!("{scenario}.json"));
        }
        for scenario in ["failure_classes", "failures_of_a_run"] {
            let lines = golden(dialect, &format!("{scenario}.stream.jsonl"));
            for class in tenon_core::ErrorClass::ALL {
                let word = format!("failed: {}", class.name());
                assert!(somewhere(&lines, &word), "{} {scenario}: no {word}", dialect.name());
            }
        }
    }
}

#[test]
fn openai_annotations_have_their_words() {
    let terminal = annotations("x-qwen-terminal");
    assert!(terminal.iter().all(|one| has_keys(
        one,
        &["channel", "source", "spans", "ansi", "console_level", "exit_code", "prompt_id", "log_scope"]
    )));
    assert_eq!(words(&terminal, "/channel"), set(&["stdout", "stderr"]));
    assert_eq!(words(&terminal, "/source"), set(&["assistant", "tool", "console", "system"]));
    assert!(terminal.iter().all(|one| (one["source"] == "system") == one["exit_code"].is_u64()));
    assert!(terminal.iter().all(|one| (one["source"] == "console") == (one["channel"] == "stderr")));

    let display = annotations("x-qwen-tool-display");
    assert!(display.iter().all(|one| has_keys(
        one,
        &["tool_call_id", "session_id", "status", "result_display", "confirmation", "pending", "timestamp"]
    )));
    let statuses = ["Pending", "Executing", "Success", "Error", "Canceled", "Confirming"];
    assert_eq!(words(&display, "/status"), set(&statuses));
    let kinds = ["string", "file_diff", "todo_list", "plan_summary", "task_execution"];
    assert_eq!(words(&display, "/result_display/kind"), set(&kinds));
    assert_eq!(words(&display, "/confirmation/kind"), set(&["command", "edit", "mcp"]));
    let waits = |one: &Value| one["status"] == "Pending" || one["status"] == "Confirming";
    assert!(display.iter().all(|one| one["pending"] == waits(one)));
    let diff = display.iter().find(|one| one["result_display"]["kind"] == "file_diff").unwrap();
    let stat =
        json!({"ai_added_lines": 1, "ai_removed_lines": 1, "user_added_lines": 0, "user_removed_lines": 0});
    assert_eq!(diff["result_display"]["stat"], stat);
    assert!(has_keys(&diff["result_display"], &["file_name", "diff", "original", "modified"]));

    assert!(annotations("x-qwen-thought").iter().all(|one| has_keys(one, &["subject", "description"])));

    let events = annotations("x-qwen-session-event");
    assert!(events.iter().all(|one| has_keys(one, &["event", "message", "metrics"])));
    let names = words(&events, "/event");
    for name in ["Finished", "ChatCompressed", "MaxSessionTurns", "USER_CANCELLED", "MAX_TOKENS"] {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
    let compressed = events.iter().find(|one| one["event"] == "ChatCompressed").unwrap();
    assert_eq!(compressed["metrics"], json!({"original_tokens": 12000, "compressed_tokens": 800}));

    let everything: Vec<Value> = [terminal, display, annotations("x-qwen-thought"), events].concat();
    assert_eq!(words(&everything, "/log_scope"), set(&["system", "tool", "debug"]));
}

#[test]
fn openai_streams_begin_with_a_role_and_end_with_numbers() {
    for scenario in ["text_answer", "tool_call", "structured_success", "sub_agent", "background_task"] {
        let completions = golden(Dialect::OpenAi, &format!("{scenario}.stream.jsonl"));
        assert!(completions.iter().all(|line| line["object"] == "chat.completion"), "{scenario}");
        let chunks = golden(Dialect::OpenAi, &format!("{scenario}.chunks.jsonl"));
        assert!(chunks.iter().all(|line| line["object"] == "chat.completion.chunk"), "{scenario}");
        assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant"}), "{scenario}");
        for first in [&chunks[0], &completions[0]] {
            let keys = ["protocol_version", "input_format", "output_format", "capabilities"];
            assert!(has_keys(&first["metadata"], &keys), "{first}");
        }
        let last = chunks.last().unwrap();
        assert_eq!(last["choices"][0]["delta"], json!({}), "{scenario}");
        assert_eq!(last["choices"][0]["finish_reason"], "stop", "{scenario}");
        for last in [last, completions.last().unwrap()] {
            assert!(last["usage"]["total_tokens"].is_u64() && last["metadata"]["final"] == true, "{last}");
        }
        // The same words, whole or in pieces; those of sub-agents come side by side.
        let own = |line: &&Value| line["parent_tool_call_id"].is_null();
        let whole: String = completions[..completions.len() - 1]
            .iter()
            .filter(own)
            .filter_map(|line| line["choices"][0]["message"]["content"].as_str())
            .collect();
        // A payload is nobody's words until it is accepted: it comes once, before the end.
        let closing = completions.last().unwrap();
        let payload = closing["choices"][0]["message"]["content"].as_str().unwrap();
        let is_structured = !closing["metadata"]["structured_result"].is_null();
        let whole = if is_structured { whole + payload } else { whole };
        let pieces: String = chunks
            .iter()
            .filter(own)
            .filter_map(|line| line["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(pieces, whole, "{scenario}");
    }
}

/// Fatal errors are OpenAI's objects and the end; others are in a completion, and the session goes on.
#[test]
fn openai_failures_are_fatal_in_a_run_and_told_in_a_session() {
    for file in ["failure_classes.stream.jsonl", "failures_of_a_run.stream.jsonl", "failure_classes.json"] {
        let lines = golden(Dialect::OpenAi, file);
        let fatal: Vec<&Value> = lines.iter().filter(|line| line.get("error").is_some()).collect();
        assert_eq!(fatal.len(), tenon_core::ErrorClass::ALL.len(), "{file}");
        for line in fatal {
            assert!(has_keys(&line["error"], &["message", "type", "param", "code"]), "{line}");
            assert!(line["error"]["code"].as_str().unwrap().starts_with("TENON_"), "{line}");
            assert_eq!(line.as_object().unwrap().len(), 1, "{line}");
        }
    }
    for file in ["failures_of_turns.stream.jsonl", "failures_of_turns.chunks.jsonl"] {
        let lines = golden(Dialect::OpenAi, file);
        assert!(lines.iter().all(|line| line.get("error").is_none()), "{file}");
        let closing: Vec<&Value> = lines.iter().filter(|line| line["metadata"]["final"] == true).collect();
        let classes: Vec<&Value> = closing.iter().map(|line| &line["metadata"]["error"]["class"]).collect();
        assert_eq!(classes, [&json!("turns"), &json!("truncated"), &json!("interrupted"), &Value::Null]);
        let reasons: Vec<&Value> = closing.iter().map(|line| &line["choices"][0]["finish_reason"]).collect();
        assert_eq!(reasons, ["stop", "length", "stop", "stop"]);
        let prompts: BTreeSet<String> = words(&lines, "/prompt_id");
        assert_eq!(prompts.len(), 4, "{prompts:?}");
    }
}

/// Which requests are answered with what, and which fields both have.
#[test]
fn openai_replies_have_their_fields() {
    let replies = golden(Dialect::OpenAi, "replies.jsonl");
    let table: &[(&str, &[&str])] = &[
        ("control_request", &["request_id", "subtype", "session_id", "prompt_id"]),
        ("control_response", &["request_id", "response"]),
        ("control_cancel_request", &["request_id"]),
        ("result/command", &["session_id", "prompt_id", "command", "result"]),
        ("result/command_hint", &["session_id", "prompt_id", "trigger", "status", "suggestions", "metadata"]),
        ("result/heartbeat", &["session_id", "status", "ts"]),
        ("result/cancel", &["session_id", "prompt_id", "status"]),
        ("result/error", &["session_id", "line", "error"]),
    ];
    for (kind, keys) in table {
        let of_kind: Vec<&Value> = replies.iter().filter(|line| line["type"] == *kind).collect();
        assert!(!of_kind.is_empty(), "no {kind}");
        assert!(of_kind.iter().all(|line| has_keys(line, keys)), "{kind}: {of_kind:?}");
    }
    let kinds = words(&replies, "/subtype");
    assert_eq!(kinds, set(&["can_use_tool", "hook_callback", "mcp_message"]));
    let asked = &replies[0];
    assert!(has_keys(&asked["tool"], &["name", "arguments"]) && asked["metadata"]["reason"].is_string());
    let hints: Vec<Value> =
        replies.iter().filter(|line| line["type"] == "result/command_hint").cloned().collect();
    assert_eq!(words(&hints, "/status"), set(&["ok", "loading", "error"]));
    let perfect: Vec<&Value> = hints.iter().map(|hint| &hint["metadata"]["is_perfect_match"]).collect();
    assert_eq!(perfect, [&json!(false), &json!(true), &json!(false), &json!(false)]);
    let unsupported = replies.iter().find(|line| line["metadata"]["error"] == "unsupported_protocol");
    assert_eq!(unsupported.unwrap()["choices"][0]["finish_reason"], "error");
}

/// Version 1 of the `json` format, and the lines of `stream-json`, by the fields of each type.
#[test]
fn gemini_has_the_fields_of_its_version() {
    let keys = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let success = &golden(Dialect::Gemini, "text_answer.json")[0];
    assert_eq!(keys(success), ["version", "session_id", "response", "stats"]);
    assert_eq!(success["version"], 1);
    let model = &success["stats"]["models"]["test-model"];
    assert!(has_keys(&model["api"], &["totalRequests", "totalErrors", "totalLatencyMs"]));
    assert!(has_keys(
        &model["tokens"],
        &["prompt", "candidates", "total", "cached", "thoughts", "tool", "input"]
    ));
    let tools = &success["stats"]["tools"];
    assert!(has_keys(tools, &["totalCalls", "totalSuccess", "totalFail", "totalDurationMs", "byName"]));
    assert!(has_keys(&tools["totalDecisions"], &["accept", "reject", "modify", "auto_accept"]));
    assert!(has_keys(&success["stats"]["files"], &["totalLinesAdded", "totalLinesRemoved"]));
    for failure in golden(Dialect::Gemini, "failure_classes.json") {
        assert_eq!(keys(&failure), ["version", "session_id", "error"]);
        assert!(failure["error"]["type"].is_string() && failure["error"]["message"].is_string());
        assert!(failure["error"]["code"].is_u64());
    }

    let table: &[(&str, &[&str])] = &[
        ("init", &["session_id", "model", "schema_version", "cli_version"]),
        ("message", &["role", "content"]),
        ("tool_use", &["tool_name", "tool_id", "parameters"]),
        ("tool_result", &["tool_id", "status", "output"]),
        ("error", &["severity", "message"]),
        ("heartbeat", &[]),
        ("result", &["status", "stats"]),
    ];
    let lines =
        all(Dialect::Gemini).into_iter().filter(|line| line.get("type").is_some()).collect::<Vec<_>>();
    for line in &lines {
        let kind = line["type"].as_str().unwrap();
        let (_, fields) = table.iter().find(|(known, _)| *known == kind).unwrap_or_else(|| panic!("{line}"));
        assert!(has_keys(line, fields) && line["timestamp"].is_string(), "{line}");
        let is_piece = kind == "message" && line["role"] == "assistant";
        assert_eq!(line.get("delta").is_some(), is_piece, "{line}");
        if kind == "result" {
            assert!(has_keys(
                &line["stats"],
                &[
                    "total_tokens",
                    "input_tokens",
                    "output_tokens",
                    "duration_ms",
                    "tool_calls",
                    "cached",
                    "input",
                    "models"
                ]
            ));
            assert_eq!(line["status"] == "error", line.get("error").is_some(), "{line}");
        }
    }
    assert_eq!(words(&lines, "/type"), table.iter().map(|(kind, _)| (*kind).to_owned()).collect());
    assert_eq!(words(&lines, "/severity"), set(&["warning", "error"]));
    assert!(words(&lines, "/error/type").contains("MaxSessionTurnsError"));
}

/// No terminal sequence is in what these dialects write, wherever a piece ends.
#[test]
fn terminal_sequences_are_gone() {
    for (dialect, formats) in [
        (Dialect::Gemini, &["stream.jsonl", "json"][..]),
        (Dialect::OpenAi, &["stream.jsonl", "chunks.jsonl", "json"]),
    ] {
        for format in formats {
            let text =
                fs::read_to_string(folder(dialect).join(format!("terminal_sequences.{format}"))).unwrap();
            assert!(!text.contains("\\u001b") && !text.contains("[32m"), "{} {format}", dialect.name());
        }
    }
    let told = golden(Dialect::OpenAi, "terminal_sequences_told.stream.jsonl");
    let ansi = told
        .iter()
        .find_map(|line| line["annotations"][0]["ansi"].get(0).map(|_| &line["annotations"][0]["ansi"]));
    let codes = json!([
        {"offset": 0, "code": "\u{1b}[32m"}, {"offset": 5, "code": "\u{1b}[0m"},
        {"offset": 9, "code": "\u{1b}]0;title\u{7}"},
    ]);
    assert_eq!(ansi, Some(&codes));
}

/// The fields that clients of `claude` read, by what they are for.
#[test]
fn claude_has_the_fields_its_clients_read() {
    let lines = golden(Dialect::Claude, "background_task.stream.jsonl");
    let init = &lines[0];
    let fields = [
        "cwd",
        "session_id",
        "tools",
        "mcp_servers",
        "model",
        "permissionMode",
        "apiKeySource",
        "slash_commands",
        "claude_code_version",
    ];
    assert!(has_keys(init, &fields), "{init}");
    let of =
        |subtype: &str| -> Vec<&Value> { lines.iter().filter(|line| line["subtype"] == subtype).collect() };
    for started in of("task_started") {
        assert!(has_keys(
            started,
            &["task_id", "description", "uuid", "session_id", "tool_use_id", "task_type"]
        ));
    }
    let ended = of("task_notification");
    for line in &ended {
        assert!(has_keys(line, &["task_id", "status", "summary", "uuid", "session_id", "usage"]), "{line}");
        assert!(line["output_file"].is_string(), "{line}");
    }
    let statuses: Vec<&Value> = ended.iter().map(|line| &line["status"]).collect();
    assert_eq!(statuses, ["completed", "stopped"]);
    let result = lines.last().unwrap();
    let fields = [
        "subtype",
        "is_error",
        "duration_ms",
        "duration_api_ms",
        "num_turns",
        "result",
        "stop_reason",
        "session_id",
        "total_cost_usd",
        "usage",
        "modelUsage",
        "permission_denials",
        "terminal_reason",
        "uuid",
    ];
    assert!(has_keys(result, &fields), "{result}");
    let usage = &result["modelUsage"]["test-model"];
    let fields = [
        "inputTokens",
        "outputTokens",
        "cacheReadInputTokens",
        "cacheCreationInputTokens",
        "webSearchRequests",
        "costUSD",
    ];
    assert!(has_keys(usage, &fields), "{usage}");

    let results: Vec<Value> = golden(Dialect::Claude, "failure_classes.stream.jsonl");
    assert!(results.iter().all(|line| line["errors"].is_array() && line["is_error"] == true));
    let subtypes = [
        "error_max_turns",
        "error_max_structured_output_retries",
        "error_max_budget_usd",
        "error_budget_exceeded",
        "error_during_execution",
    ];
    assert_eq!(words(&results, "/subtype"), set(&subtypes));
    let compacted = &golden(Dialect::Claude, "compaction.stream.jsonl")[1];
    assert_eq!(compacted["compact_metadata"], json!({"trigger": "auto", "pre_tokens": 12000}));
    let retried = golden(Dialect::Claude, "retry_then_success.stream.jsonl");
    let retries: Vec<&Value> = retried.iter().filter(|line| line["subtype"] == "api_retry").collect();
    assert_eq!(retries.len(), 2);
    assert!(
        retries.iter().all(|line| has_keys(line, &["attempt", "retry_delay_ms", "error_status", "error"]))
    );
}
