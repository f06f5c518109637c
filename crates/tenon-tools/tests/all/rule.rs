use proptest::prelude::*;
use tenon_core::{ApprovalMode, UnknownMode};
use tenon_tools::{Rule, RuleError, split_rules};

#[test]
fn names_and_aliases() {
    let table = [
        ("Bash", "run_shell_command", true),
        ("ShellTool(git *)", "run_shell_command", false),
        ("Bash(*)", "run_shell_command", true),
        ("Read(./.env)", "read_file", false),
        ("replace", "edit", true),
        ("WriteFile", "write_file", true),
        ("search_file_content", "grep_search", true),
        ("FindFiles", "glob", true),
        ("ReadFolder", "list_directory", true),
        ("Task", "agent", true),
        (" write_file ", "write_file", true),
        ("bash", "run_shell_command", true),
        ("BASH", "BASH", true),
        ("mcp__files__read", "mcp__files__read", true),
        ("mcp__files__*", "mcp__files__*", true),
        ("structured_output", "structured_output", true),
        ("Bash(echo (a))", "run_shell_command", false),
    ];
    for (text, tool, whole) in table {
        let rule = Rule::parse(text).unwrap();
        assert_eq!((rule.tool(), rule.is_whole()), (tool, whole), "{text}");
        assert_eq!(rule.to_string(), text.trim());
    }
}

#[test]
fn rules_that_are_none() {
    let parentheses = |text: &str| RuleError::Parentheses(text.to_owned());
    let name = |text: &str| RuleError::Name(text.to_owned());
    let table = [
        ("", RuleError::Empty),
        ("  ", RuleError::Empty),
        ("Bash(git", parentheses("Bash(git")),
        ("Bash git)", parentheses("Bash git)")),
        ("Bash(a))", parentheses("Bash(a))")),
        ("Bash(a)b", parentheses("Bash(a)b")),
        ("Bash()", parentheses("Bash()")),
        ("*", name("*")),
        ("read_*", name("read_*")),
        ("(x)", name("(x)")),
        ("two words", name("two words")),
    ];
    for (text, wanted) in table {
        assert_eq!(Rule::parse(text), Err(wanted), "{text}");
    }
    for text in ["Read(!x)", "Edit(../x)", "Read(a{b)", "Read([z-a])", "Read(//)", "Read(~/)", "Read(.)"] {
        assert!(matches!(Rule::parse(text), Err(RuleError::Path { .. })), "{text}");
    }
}

#[test]
fn lists_are_split_outside_parentheses() {
    let table: &[(&str, &[&str])] = &[
        ("a,b(c,d)", &["a", "b(c,d)"]),
        (" a , b ", &["a", "b"]),
        ("a,,b,", &["a", "b"]),
        ("", &[]),
        ("Bash(echo (a,b)),Read", &["Bash(echo (a,b))", "Read"]),
    ];
    for (list, wanted) in table {
        assert_eq!(split_rules(list), *wanted, "{list}");
    }
}

#[test]
fn modes_have_names_and_aliases() {
    let table = [
        ("plan", ApprovalMode::Plan),
        ("default", ApprovalMode::Default),
        ("dontAsk", ApprovalMode::Default),
        ("auto-edit", ApprovalMode::AutoEdit),
        ("auto_edit", ApprovalMode::AutoEdit),
        ("autoedit", ApprovalMode::AutoEdit),
        ("acceptEdits", ApprovalMode::AutoEdit),
        ("yolo", ApprovalMode::Yolo),
        ("bypassPermissions", ApprovalMode::Yolo),
    ];
    for (name, mode) in table {
        assert_eq!(ApprovalMode::parse(name), Ok(mode));
        assert_eq!(ApprovalMode::parse(mode.name()), Ok(mode));
    }
    assert_eq!(ApprovalMode::parse("auto"), Err(UnknownMode("auto".to_owned())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(256)))]

    #[test]
    fn parsing_never_panics_and_reads_back_what_it_printed(text in "[A-Za-z_*!/\\\\.()\\[\\]{} ,~]{0,24}") {
        for part in split_rules(&text) {
            if let Ok(rule) = Rule::parse(part) {
                prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
            }
        }
    }
}
