//! Flags that are refused, and what looks like a typo. A refusal costs no request. What flags do is in `flag_effects.rs`.

use tenon_testkit::Server;

use super::flag_effects::{OBJECT, ask_as, prompt_of};
use crate::tenon;

const FORCE_HINT: &str = "hint: to use it as a prompt, write `tenon -p \"…\"` or `tenon -- …`\n";

const HELP_HINT: &str = "hint: `tenon --help` lists the flags\n";

/// Refused with this on stderr, nothing on stdout, and nobody was asked anything.
#[track_caller]
fn refused(args: &[&str], stderr: &str) {
    let server = Server::start([]);
    let run = tenon().server(&server).args(args).run();
    run.assert_code(2);
    assert_eq!(run.stderr, stderr, "{args:?}");
    assert_eq!(run.stdout, "", "{args:?}");
    assert!(server.requests().is_empty() && server.probes().is_empty(), "{args:?} reached the server");
}

#[test]
fn flags_of_later_work_are_refused() {
    let table: &[(&[&str], &str)] = &[
        (&["-i", "hi"], "--prompt-interactive"),
        (&["--prompt-interactive", "hi"], "--prompt-interactive"),
        (&["--acp"], "--acp"),
        (&["--experimental-acp"], "--acp"),
        (&["--resume-session-at", "x"], "--resume-session-at"),
        (&["--resume-drops-turn", "x"], "--resume-drops-turn"),
        (&["--worktree"], "--worktree"),
        (&["--worktree", "x"], "--worktree"),
    ];
    for (flags, named) in table {
        // With and without a prompt: a flag that is not there is the first thing to say.
        let prompt: &[&str] = if named.starts_with("--prompt-i") { &[] } else { &["-p", "hi"] };
        let args = [flags, prompt].concat();
        refused(&args, &format!("error[usage]: `{named}` is not in this version\n{HELP_HINT}"));
    }
}

#[test]
fn flags_that_would_be_unsafe_are_refused_without_repeating_the_secret() {
    let key = "error[usage]: a key is never given as a flag: others on this machine could read it\n\
               hint: set `OPENAI_API_KEY`, or name another variable with `--api-key-env`\n";
    let insecure = "error[usage]: `--insecure` is refused: a key would go to whoever answers\n\
                    hint: add the server's certificate with `SSL_CERT_FILE`\n";
    refused(&["--openai-api-key", "sk-secret", "-p", "hi"], &format!("{key}{HELP_HINT}"));
    refused(&["--openai-api-key=sk-secret", "-p", "hi"], &format!("{key}{HELP_HINT}"));
    refused(&["--insecure", "-p", "hi"], &format!("{insecure}{HELP_HINT}"));
}

#[test]
fn flags_that_cannot_go_together_are_refused() {
    let schema = format!("--json-schema={OBJECT}");
    let schema = schema.as_str();
    let table: &[(&[&str], &str)] = &[
        (
            &["-p", "a", "b"],
            "a prompt was given twice: as `--prompt` or `--prompt-file`, and as bare words\nhint: a list flag takes commas: `--allowed-tools a,b`; use one way to give the prompt",
        ),
        (
            &["--allowed-tools", "a", "b", "-p", "c"],
            "a prompt was given twice: as `--prompt` or `--prompt-file`, and as bare words\nhint: a list flag takes commas: `--allowed-tools a,b`; use one way to give the prompt",
        ),
        (
            &["--prompt-file", "f", "b"],
            "a prompt was given twice: as `--prompt` or `--prompt-file`, and as bare words\nhint: a list flag takes commas: `--allowed-tools a,b`; use one way to give the prompt",
        ),
        (&["-p", "a", "-i", "b"], "`--prompt` and `--prompt-interactive` cannot be used together"),
        (
            &["-y", "--approval-mode", "plan", "-p", "a"],
            "`--yolo` and `--approval-mode` cannot be used together\nhint: use `--approval-mode yolo`",
        ),
        (
            &["--dangerously-skip-permissions", "--permission-mode=plan", "-p", "a"],
            "`--yolo` and `--approval-mode` cannot be used together\nhint: use `--approval-mode yolo`",
        ),
        (
            &["--include-partial-messages", "-p", "a"],
            "`--include-partial-messages` needs `--output-format stream-json`",
        ),
        (
            &["--include-partial-messages", "-o", "json", "-p", "a"],
            "`--include-partial-messages` needs `--output-format stream-json`",
        ),
        (
            &[schema, "-i", "a"],
            "`--json-schema` cannot be used with `--prompt-interactive (-i)`: only a headless run ends with the first accepted answer",
        ),
        (
            &[schema, "--input-format=stream-json", "-o", "stream-json", "-p", "a"],
            "`--json-schema` cannot be used with `--input-format stream-json`: the first accepted answer ends the run, and a session has many turns",
        ),
        (
            &[schema, "--acp"],
            "`--json-schema` cannot be used with `--acp`: only a headless run ends with the first accepted answer",
        ),
        (&["--max-schema-retries", "3", "-p", "a"], "`--max-schema-retries` needs `--json-schema`"),
        (&["--schema-nudge", "1", "-p", "a"], "`--schema-nudge` needs `--json-schema`"),
        (&["--schema-mode", "tool", "-p", "a"], "`--schema-mode` needs `--json-schema`"),
        (&["--schema-mode=auto", "-p", "a"], "`--schema-mode` needs `--json-schema`"),
        (
            &["--fallback-model", "a,b", "--fallback-model=c", "--fallback-model", "d", "-p", "a"],
            "`--fallback-model` was given 4 times, and 3 is the most",
        ),
        (&["--fallback-model", "a, ", "-p", "a"], "`--fallback-model` needs the name of a model"),
        (&["-", "word"], "`-` stands alone: it means that stdin is the prompt"),
        (&["word", "-"], "`-` stands alone: it means that stdin is the prompt"),
        (
            &["--permission-prompts", "stdio", "-p", "a"],
            "`--permission-prompts stdio` is not known\nhint: `none` asks nobody, `host` whoever drives the run",
        ),
    ];
    for (args, message) in table {
        refused(args, &format!("error[usage]: {message}\n{HELP_HINT}"));
    }
}

#[test]
fn values_that_mean_nothing_are_refused_with_the_flag_named() {
    let table: &[(&[&str], &str)] = &[
        (
            &["--session-id", "x"],
            "`--session-id x` is not a UUID\nhint: a UUID looks like 123e4567-e89b-42d3-a456-426614174000",
        ),
        (
            &["--max-session-turns", "-2"],
            "`--max-session-turns -2` is not a count\nhint: it takes 0 or more, or -1 for no limit",
        ),
        (
            &["--max-tool-calls=-7"],
            "`--max-tool-calls -7` is not a count\nhint: it takes 0 or more, or -1 for no limit",
        ),
        (
            &["--max-session-turns", "99999999999"],
            "`--max-session-turns 99999999999` is not a count\nhint: it takes 0 or more, or -1 for no limit",
        ),
        (
            &["--approval-mode", "careful"],
            "`careful` is not an approval mode; there are `plan`, `default`, `auto-edit` and `yolo`",
        ),
        (
            &["--max-wall-time", "soon"],
            "`--max-wall-time`: `soon` is not a duration; write seconds (`90`) or a number with a unit (`500ms`, `30s`, `5m`, `1h`)",
        ),
    ];
    for (flags, message) in table {
        refused(&[flags, &["-p", "hi"][..]].concat(), &format!("error[usage]: {message}\n"));
    }
}

/// The parser's own words: only what a script would rely on is compared.
#[test]
fn unknown_flags_and_values_get_a_suggestion() {
    let table: &[(&[&str], &str, Option<&str>)] = &[
        (&["--promt", "hi"], "unexpected argument '--promt'", Some("'--prompt'")),
        (&["--jsonschema", "{}", "-p", "hi"], "unexpected argument '--jsonschema'", Some("'--json-schema'")),
        (&["--max-session-turn=3", "-p", "hi"], "'--max-session-turn'", Some("'--max-session-turns'")),
        (&["--output-format", "jsn", "-p", "hi"], "invalid value 'jsn'", Some("'json'")),
        (&["--stdin=no", "-p", "hi"], "invalid value 'no'", None),
        (&["--zzzz", "-p", "hi"], "unexpected argument '--zzzz'", None),
        (&["-Z", "-p", "hi"], "unexpected argument '-Z'", None),
        (&["--max-session-turns", "many", "-p", "hi"], "invalid value 'many'", None),
        (&["--heartbeat", "-1", "-p", "hi"], "'-1'", None),
        (&["--heartbeat", "0", "-p", "hi"], "error[usage]: invalid value '0' for '--heartbeat <SECS>'", None),
        (&["--model"], "a value is required for '--model <MODEL>'", None),
        (&["--verbose", "--quiet", "-p", "hi"], "'--verbose' cannot be used with '--quiet'", None),
        (&["-p", "a", "--prompt-file", "b"], "cannot be used with", None),
        (&["--record", "a", "--replay", "b", "-p", "c"], "cannot be used with", None),
        (&["--system-prompt", "a", "--system-prompt-file", "b", "-p", "c"], "cannot be used with", None),
        (&["-p", "a", "-p", "b"], "cannot be used multiple times", None),
        (&["schema"], "Usage: tenon schema <COMMAND>", None),
        (&["schema", "chek", "{}"], "unrecognized subcommand 'chek'", Some("'check'")),
        (&["completions", "tcsh"], "invalid value 'tcsh'", None),
    ];
    for (args, said, suggestion) in table {
        let server = Server::start([]);
        let run = tenon().server(&server).args(*args).run();
        run.assert_code(2);
        assert!(run.stderr.contains(said), "{run}");
        if let Some(suggestion) = suggestion {
            assert!(run.stderr.contains("hint: ") && run.stderr.contains(suggestion), "{run}");
        }
        assert_eq!((run.stdout.as_str(), server.requests().len()), ("", 0), "{run}");
    }
}

#[test]
fn a_typo_of_a_command_is_not_taken_for_a_prompt() {
    let table: &[(&[&str], &str)] = &[
        (&["scheam", "check", "x"], "schema"),
        (&["schma"], "schema"),
        (&["doctr"], "doctor"),
        (&["docter"], "doctor"),
        (&["truts"], "trust"),
        (&["mpc", "list"], "mcp"),
        (&["complations", "bash"], "completions"),
        (&["sesions", "list"], "sessions"),
        (&["flwo", "run"], "flow"),
        (&["gaol", "tidy"], "goal"),
        (&["mna"], "man"),
    ];
    for (args, meant) in table {
        let first = args[0];
        let message = format!("`{first}` is not a command; did you mean `tenon {meant}`?");
        refused(args, &format!("error[usage]: {message}\n{FORCE_HINT}{HELP_HINT}"));
    }
}

#[test]
fn words_that_are_no_typo_and_words_forced_to_be_a_prompt_are_a_prompt() {
    let table: &[(&[&str], &str)] = &[
        (&["hello"], "hello"),
        (&["What", "is", "this?"], "What is this?"),
        (&["scheam check"], "scheam check"),
        (&["--", "scheam"], "scheam"),
        (&["--", "schema", "check"], "schema check"),
        (&["--", "--help"], "--help"),
        (&["-p", "doctr"], "doctr"),
        (&["-p", "flow"], "flow"),
        (&["--prompt=doctor"], "doctor"),
        (&["-p", "--not-a-flag"], "--not-a-flag"),
        (&["-p", "-1"], "-1"),
        (&["--literal-prompt", "-p", "@a.txt /help"], "@a.txt /help"),
        (&["--input-format", "text", "-p", "hi"], "hi"),
    ];
    for (args, prompt) in table {
        let (run, request) = ask_as(tenon().args(*args));
        assert_eq!(prompt_of(&request), *prompt, "{run}");
        assert_eq!(run.stdout, "ok\n");
    }
}
