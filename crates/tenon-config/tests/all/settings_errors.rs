//! What is wrong is said with file, line and column.

use std::path::Path;

use tenon_config::{Expand, read_settings};

/// Errors and warnings as a person reads them.
fn problems(text: &str) -> (Vec<String>, Vec<String>) {
    let layer = read_settings(text, Path::new("s.json"), Expand::Never);
    let lines = |problems: Vec<tenon_config::Problem>| problems.iter().map(|p| p.one_line()).collect();
    (lines(layer.errors), lines(layer.warnings))
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let table = [
        ("{\n  \"model\": 5\n}", "s.json:2:12: `model` must be a string, not a number"),
        (
            "{\n  \"model\" 5}",
            "s.json:2:11: this is not valid JSON (Expected colon after the string or word in object property)",
        ),
        ("[]", "s.json:1:1: settings are one object, `{ … }`"),
        ("{'model': 1}", "s.json:1:2: this is not valid JSON (Single-quoted strings are not allowed)"),
        ("{} {}", "s.json:1:4: this is not valid JSON (Text cannot contain more than one JSON value)"),
        (r#"{"model": null}"#, "s.json:1:11: `model` must be a string, not null"),
        (
            r#"{"dialect": "qwem"}"#,
            "s.json:1:13: `dialect` is `qwem`, but may be one of `qwen`, `claude`, `gemini`, `openai`; did you mean `qwen`?",
        ),
        (
            r#"{"outputFormat": "xml"}"#,
            "s.json:1:18: `outputFormat` is `xml`, but may be one of `text`, `json`, `stream-json`, `stream-chunk-json`",
        ),
        (r#"{"permissions": []}"#, "s.json:1:17: `permissions` must be an object, not a list"),
        (
            r#"{"permissions": {"denny": ["x"]}}"#,
            "s.json:1:18: `denny` is not a known key in `permissions`; did you mean `deny`?",
        ),
        (
            r#"{"permissions": {"deny": "x"}}"#,
            "s.json:1:26: `permissions.deny` must be a list of strings, not a string",
        ),
        (
            r#"{"permissions": {"deny": [1]}}"#,
            "s.json:1:27: `permissions.deny[0]` must be a string, not a number",
        ),
        (
            r#"{"permissions": {"deny": ["a", "Bash(rm"]}}"#,
            "s.json:1:32: `permissions.deny[1]` is not a rule; a rule is a tool, `write_file`, or a tool with what it covers, `Bash(git status)`",
        ),
        (
            r#"{"permissions": {"mode": "yoloo"}}"#,
            "s.json:1:26: `permissions.mode` is `yoloo`, but may be one of `plan`, `default`, `auto-edit`, `yolo`; did you mean `yolo`?",
        ),
        (
            r#"{"hooks": {"PreTooluse": []}}"#,
            "s.json:1:12: `PreTooluse` is not a known key in `hooks`; did you mean `PreToolUse`?",
        ),
        (r#"{"hooks": {"Stop": {}}}"#, "s.json:1:20: `hooks.Stop` must be a list of hooks, not an object"),
        (
            r#"{"hooks": {"Notification": []}}"#,
            "s.json:1:12: `Notification` in `hooks` never happens in tenon, so its hooks would never run; take it out",
        ),
        (r#"{"hooks": {"Stop": [1]}}"#, "s.json:1:21: `hooks.Stop[0]` must be an object, not a number"),
        (
            r#"{"hooks": {"Stop": [{}]}}"#,
            "s.json:1:21: `hooks.Stop[0]` has no `hooks`; a rule looks like `{\"matcher\": \"…\", \"hooks\": [{\"type\": \"command\", \"command\": \"…\"}]}`",
        ),
        (
            r#"{"hooks": {"PreToolUse": [{"macher": "x", "hooks": []}]}}"#,
            "s.json:1:28: `macher` is not a known key in `hooks.PreToolUse[0]`; did you mean `matcher`?",
        ),
        (
            r#"{"hooks": {"PreToolUse": [{"matcher": "(", "hooks": []}]}}"#,
            "s.json:1:39: `hooks.PreToolUse[0].matcher` is not a regular expression: unclosed group; look-around and back-references are not known",
        ),
        (
            r#"{"hooks": {"Stop": [{"matcher": "x", "hooks": []}]}}"#,
            "s.json:1:33: `hooks.Stop[0].matcher`: there is nothing to choose by in `Stop`; leave the matcher out",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}}"#,
            "s.json:1:32: `hooks.Stop[0].hooks[0]` has no `type`; it is `command` or `http`",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]}}"#,
            "s.json:1:41: `hooks.Stop[0].hooks[0].type` is `prompt`, and tenon has no such hooks; use `command` or `http`",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "comand", "command": "x"}]}]}}"#,
            "s.json:1:41: `hooks.Stop[0].hooks[0].type` is `comand`, but may be one of `command`, `http`; did you mean `command`?",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}}"#,
            "s.json:1:32: `hooks.Stop[0].hooks[0]` has no `command`",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": " "}]}]}}"#,
            "s.json:1:63: `hooks.Stop[0].hooks[0].command` is empty",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "url": "y"}]}]}}"#,
            "s.json:1:68: `url` is not a known key in `hooks.Stop[0].hooks[0]`; known keys: `type`, `timeout`, `name`, `description`, `statusMessage`, `async`, `onError`, `command`, `env`, `shell`",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": 0}]}]}}"#,
            "s.json:1:79: `hooks.Stop[0].hooks[0].timeout` is 0, but must be a whole number of at least 1",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "onError": "block"}]}]}}"#,
            "s.json:1:79: `hooks.Stop[0].hooks[0].onError`: only a `PreToolUse` hook that fails can block",
        ),
        (
            r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x", "async": true, "onError": "block"}]}]}}"#,
            "s.json:1:38: `hooks.PreToolUse[0].hooks[0]`: nobody waits for an `async` hook, so its failure cannot block",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "env": {"A-B": "1"}}]}]}}"#,
            "s.json:1:76: `hooks.Stop[0].hooks[0].env.A-B` is not the name of an environment variable",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "ftp://x"}]}]}}"#,
            "s.json:1:56: `hooks.Stop[0].hooks[0].url` is not an `http` or `https` address; an address looks like `https://hooks.example.com/tenon`",
        ),
        (
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "http://x.example", "headers": {"A": "1"}}]}]}}"#,
            "s.json:1:32: `hooks.Stop[0].hooks[0].headers` would travel unencrypted; use an `https://` address",
        ),
        (r#"{"disableAllHooks": 1}"#, "s.json:1:21: `disableAllHooks` must be true or false, not a number"),
        (
            r#"{"sandbox": {"net": "deny"}}"#,
            "s.json:1:14: `net` is not a known key in `sandbox`; known keys: `mode`, `network`, `writable`, `secretFolders`",
        ),
        (
            r#"{"sandbox": {"network": "none"}}"#,
            "s.json:1:25: `sandbox.network` is `none`, but may be one of `allow`, `deny`",
        ),
        (r#"{"sandbox": true}"#, "s.json:1:13: `sandbox` must be an object, not a boolean"),
        (
            r#"{"limits": {"turns": 0}}"#,
            "s.json:1:22: `limits.turns` is 0, but must be a whole number of at least 1; `-1` means no limit",
        ),
        (
            r#"{"limits": {"turns": -2}}"#,
            "s.json:1:22: `limits.turns` is -2, but must be a whole number of at least 1; `-1` means no limit",
        ),
        (
            r#"{"limits": {"toolCalls": 1.5}}"#,
            "s.json:1:26: `limits.toolCalls` is 1.5, but must be a whole number of at least 0; `-1` means no limit",
        ),
        (
            r#"{"limits": {"schemaRetries": 99999999999}}"#,
            "s.json:1:30: `limits.schemaRetries` is 99999999999, but must be a whole number of at least 0; `-1` means no limit",
        ),
        (
            r#"{"limits": {"budgetUsd": 0}}"#,
            "s.json:1:26: `limits.budgetUsd` is 0, but must be above 0; `-1` means no limit",
        ),
        (
            r#"{"limits": {"budgetUsd": 1e999}}"#,
            "s.json:1:26: `limits.budgetUsd` is 1e999, but must be above 0; `-1` means no limit",
        ),
        (
            r#"{"limits": {"wallTime": "500ms"}}"#,
            "s.json:1:25: `limits.wallTime`: `500ms` is shorter than one second, too short for any model to answer",
        ),
        (
            r#"{"timeouts": {"connect": -1}}"#,
            "s.json:1:26: `timeouts.connect`: `-1` is not a duration; write seconds (`90`) or a number with a unit (`500ms`, `30s`, `5m`, `1h`)",
        ),
        (
            r#"{"timeouts": {"idle": 0}}"#,
            "s.json:1:23: `timeouts.idle`: `0` is no time at all; a duration is greater than zero",
        ),
        (
            r#"{"timeouts": {"idle": []}}"#,
            "s.json:1:23: `timeouts.idle` must be a number of seconds or a duration such as `30s`, not a list",
        ),
        (
            r#"{"retry": {"attempts": 0}}"#,
            "s.json:1:24: `retry.attempts` is 0, but must be a whole number of at least 1",
        ),
        (r#"{"mcpServers": {"x": 1}}"#, "s.json:1:22: `mcpServers.x` must be an object, not a number"),
        (
            r#"{"providers": {"a": {"wire": "grpc"}}}"#,
            "s.json:1:30: `providers.a.wire` is `grpc`, but may be one of `openai`, `openai-responses`, `anthropic`, `gemini`",
        ),
        (
            r#"{"providers": {"a/b": {}}}"#,
            "s.json:1:16: `providers.a/b`: a provider's name has no `/` and no spaces",
        ),
        (
            r#"{"providers": {"a": {"apiKeyEnv": "$CORP_KEY"}}}"#,
            "s.json:1:35: `providers.a.apiKeyEnv` must be the name of an environment variable; write the variable's name alone, such as `MY_PROVIDER_KEY`",
        ),
        (
            r#"{"tools": {"shell": {"passEnv": ["$A"]}}}"#,
            "s.json:1:34: `tools.shell.passEnv[0]` must be the name of an environment variable; write the variable's name alone, such as `MY_PROVIDER_KEY`",
        ),
        (
            r#"{"permissions": {"deny": ["a"]}, "permissions": {}}"#,
            "s.json:1:34: `permissions` stands here twice; keep one of them",
        ),
        (
            r#"{"mcpServers": {"x": {"command": "c", "description": {"$serde_json::private::Number": "1"}}}}"#,
            "s.json:1:55: `$serde_json::private::Number` cannot be a key",
        ),
        (r#"{"prices": {"m": 1}}"#, "s.json:1:18: `prices.m` must be an object, not a number"),
        (
            r#"{"prices": {"m": {"input": 1}}}"#,
            "s.json:1:18: `prices.m.output` is missing; prices are dollars per million tokens: `{ \"input\": 0.25, \"output\": 2 }`",
        ),
        (
            r#"{"prices": {"m": {"input": -1, "output": 1}}}"#,
            "s.json:1:28: `prices.m.input` is -1, but must be dollars per million tokens, 0 or more",
        ),
        (
            r#"{"prices": {"m": {"input": 1, "output": "2"}}}"#,
            "s.json:1:41: `prices.m.output` must be a number, not a string",
        ),
        (
            r#"{"prices": {"m": {"input": 1, "output": 1e999}}}"#,
            "s.json:1:41: `prices.m.output` is 1e999, but must be dollars per million tokens, 0 or more",
        ),
        (
            r#"{"prices": {"m": {"input": 1, "output": 2, "cached": 1}}}"#,
            "s.json:1:44: `cached` is not a known key in `prices.m`; did you mean `cacheRead`?",
        ),
        (
            r#"{"prices": {"m": {"input": 1, "output": 2, "above": [{"input": 1, "output": 2}]}}}"#,
            "s.json:1:54: `prices.m.above[0].tokens` is missing; prices are dollars per million tokens: `{ \"input\": 0.25, \"output\": 2 }`",
        ),
        (
            r#"{"prices": {"*m": {"input": 1, "output": 2}}}"#,
            "s.json:1:13: `prices.*m` is not the name of a model; a price is for a model, `gpt-5-mini`, a provider's model, `openai/gpt-5-mini`, or all names that begin alike, `gpt-5*`",
        ),
        (
            r#"{"context": {"window": 0}}"#,
            "s.json:1:24: `context.window` is 0, but must be a whole number of at least 1",
        ),
        (
            r#"{"context": {"compactAt": 80}}"#,
            "s.json:1:27: `context.compactAt` is 80, but must be above 0 and at most 1",
        ),
        // Columns count characters, not bytes.
        ("{ /* äöü🦀 */ \"model\": 1}", "s.json:1:23: `model` must be a string, not a number"),
    ];
    for (text, expected) in table {
        assert_eq!(problems(text), (vec![expected.to_owned()], vec![]), "{text}");
    }
}

#[test]
fn unknown_keys_elsewhere_only_warn() {
    let table = [
        (r#"{"modle": "x"}"#, "s.json:1:2: `modle` is not a known key; did you mean `model`?"),
        (
            r#"{"limits": {"turn": 3}}"#,
            "s.json:1:13: `turn` is not a known key in `limits`; did you mean `turns`?",
        ),
        (
            r#"{"tools": {"shell": {"zzz": 3}}}"#,
            "s.json:1:22: `zzz` is not a known key in `tools.shell`; known keys: `passEnv`, `defaultTimeoutMs`, `heartbeatIntervalMs`, `promoteAfterMs`, `pty`",
        ),
        (
            r#"{"timeouts": {"firstbyte": 3}}"#,
            "s.json:1:15: `firstbyte` is not a known key in `timeouts`; did you mean `firstByte`?",
        ),
        (
            r#"{"mcp": {"allow": []}}"#,
            "s.json:1:10: `allow` is not a known key in `mcp`; did you mean `allowed`?",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(problems(text), (vec![], vec![expected.to_owned()]), "{text}");
    }
}

#[test]
fn a_literal_key_is_warned_about_and_never_quoted() {
    let hint = "keep keys in the environment and name the variable in `apiKeyEnv`, or write `$NAME`";
    let table = [
        (r#"{"providers": {"a": {"apiKey": "sk-hush"}}}"#, "`providers.a.apiKey` looks like it holds a key"),
        (
            r#"{"providers": {"a": {"headers": {"Authorization": "hush"}}}}"#,
            "`providers.a.headers.Authorization` looks like it holds a key",
        ),
        (
            r#"{"providers": {"a": {"headers": {"X-Team": "AIzahush"}}}}"#,
            "`providers.a.headers.X-Team` looks like it holds a key",
        ),
        (
            r#"{"providers": {"a": {"models": ["sk-hush"]}}}"#,
            "`providers.a.models` looks like it holds a key",
        ),
    ];
    for (text, expected) in table {
        let (_, warnings) = problems(text);
        assert!(warnings.iter().any(|line| line.ends_with(&format!("{expected}; {hint}"))), "{warnings:?}");
        assert!(!warnings.concat().contains("hush"), "{warnings:?}");
    }
    let key_as_name = r#"{"providers": {"a": {"apiKeyEnv": "sk-hush"}}}"#;
    let (errors, warnings) = problems(key_as_name);
    assert_eq!((errors.len(), warnings.len()), (1, 1));
    assert!(!errors.concat().contains("hush") && !warnings.concat().contains("hush"));
    let fine = r#"{"providers": {"a": {"headers": {"Authorization": "Bearer $TOKEN"}}}}"#;
    assert_eq!(problems(fine), (vec![], vec![]));
}

#[test]
fn what_a_variable_stands_for_is_never_quoted() {
    let env = std::collections::BTreeMap::from([("KEY".to_owned(), "hush(".to_owned())]);
    for text in [
        r#"{"dialect": "$KEY"}"#,
        r#"{"outputFormat": "${KEY}"}"#,
        r#"{"permissions": {"mode": "$KEY"}}"#,
        r#"{"permissions": {"deny": ["$KEY"]}}"#,
        r#"{"limits": {"wallTime": "$KEY"}}"#,
        r#"{"timeouts": {"idle": "$KEY"}}"#,
        r#"{"sandbox": {"mode": "$KEY"}}"#,
        r#"{"providers": {"a": {"wire": "$KEY"}}}"#,
    ] {
        let layer = read_settings(text, Path::new("s.json"), Expand::From(&env));
        assert_eq!(layer.errors.len(), 1, "{text}");
        assert!(!layer.errors[0].one_line().contains("hush"), "{}", layer.errors[0]);
    }
}

#[test]
fn nothing_and_comments_alone_are_empty_settings() {
    for text in ["", " \n", "// nothing\n", "/* nothing */", "{}", "\u{feff}{}"] {
        assert_eq!(problems(text), (vec![], vec![]), "{text:?}");
    }
}

#[test]
fn depth_does_not_overflow_the_stack() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [65, 300, 600, 1_000_000] {
            let text = format!("{{\"mcpServers\": {}1{}}}", open.repeat(depth), close.repeat(depth));
            let (errors, _) = problems(&text);
            assert!(!errors.is_empty(), "{depth}");
        }
    }
    let open = "{\"a\":".repeat(60);
    let fine = format!(
        "{{\"mcpServers\": {{\"a\": {{\"command\": \"x\", \"description\": {open}1{}}}}}}}",
        "}".repeat(60)
    );
    assert_eq!(problems(&fine), (vec![], vec![]));
}

#[test]
fn a_flood_of_problems_is_cut_and_errors_are_not_drowned_by_warnings() {
    let keys: String = (0..5000).map(|n| format!("\"k{n}\": 1, ")).collect();
    let (errors, warnings) = problems(&format!("{{{keys} \"model\": 1}}"));
    assert_eq!((errors.len(), warnings.len()), (1, 20));
}

#[test]
fn control_characters_of_a_file_do_not_reach_the_terminal() {
    let (_, warnings) = problems(&format!("{{\"\\u001b[2J\\u202e{}\": 1}}", "x".repeat(500)));
    assert!(warnings[0].contains("`\\u{1b}[2J\\u{202e}xxx"), "{}", warnings[0]);
    assert!(warnings[0].chars().all(|c| !c.is_control()) && warnings[0].len() < 400);
}
