use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tenon_core::ApprovalMode;
use tenon_core::{ToolKind, ToolSpec};
use tenon_tools::{AllowedBy, PermissionOptions, Permissions, Rule, Verdict};

use crate::support::object;

const MODES: [ApprovalMode; 4] =
    [ApprovalMode::Plan, ApprovalMode::Default, ApprovalMode::AutoEdit, ApprovalMode::Yolo];

fn spec(name: &str) -> ToolSpec {
    let kind = match name {
        "read_file" | "grep_search" | "glob" | "list_directory" => ToolKind::Read,
        "edit" | "write_file" => ToolKind::Edit,
        "run_shell_command" => ToolKind::Execute,
        _ => ToolKind::Other,
    };
    ToolSpec { name: name.to_owned(), description: String::new(), parameters: json!({}), kind }
}

#[derive(Clone, Copy, Default)]
struct Given<'a> {
    mode: ApprovalMode,
    allow: &'a [&'a str],
    ask: &'a [&'a str],
    deny: &'a [&'a str],
}

fn permissions(given: Given<'_>, cwd: &Path) -> Permissions {
    let rules = |texts: &[&str]| texts.iter().map(|text| Rule::parse(text).unwrap()).collect();
    Permissions::new(PermissionOptions {
        mode: given.mode,
        allow: rules(given.allow),
        ask: rules(given.ask),
        deny: rules(given.deny),
        cwd: cwd.to_owned(),
        project_root: Some(cwd.parent().unwrap_or(cwd).to_owned()),
        home: Some(PathBuf::from("/home/someone")),
        copy: None,
    })
    .unwrap()
}

/// One letter per verdict.
fn letter(verdict: &Verdict) -> char {
    match verdict {
        Verdict::Allow { .. } => 'y',
        Verdict::Ask { .. } => '?',
        Verdict::Deny { .. } => 'n',
    }
}

fn decide(given: Given<'_>, tool: &str, args: Value) -> Verdict {
    permissions(given, Path::new("/project/app")).decide(&spec(tool), &object(args))
}

type Rules<'a> = &'a [&'a str];
/// Allow, ask, deny, the call, and its verdicts in plan, default, auto-edit and yolo mode.
type Row<'a> = (Rules<'a>, Rules<'a>, Rules<'a>, &'a (&'a str, Value), &'a str);

#[test]
fn modes_and_rules() {
    let read = ("read_file", json!({ "file_path": "a.txt" }));
    let edit = ("edit", json!({ "file_path": "a.txt" }));
    let write = ("write_file", json!({ "file_path": "a.txt" }));
    let shell = ("run_shell_command", json!({ "command": "ls" }));
    let mcp = ("mcp__a__b", json!({}));
    let none: Rules<'_> = &[];
    let table: Vec<Row<'_>> = vec![
        (none, none, none, &read, "yyyy"),
        (none, none, none, &edit, "n?yy"),
        (none, none, none, &write, "n?yy"),
        (none, none, none, &shell, "n??y"),
        (none, none, none, &mcp, "n??y"),
        // Allow.
        (&["Edit"], none, none, &write, "nyyy"),
        (&["write_file"], none, none, &write, "nyyy"),
        (&["write_file"], none, none, &edit, "n?yy"),
        (&["Bash"], none, none, &shell, "nyyy"),
        (&["Bash(ls *)"], none, none, &shell, "nyyy"),
        (&["Bash(cat *)"], none, none, &shell, "n??y"),
        (&["Bash(*)"], none, none, &shell, "nyyy"),
        (&["mcp__a"], none, none, &mcp, "nyyy"),
        (&["mcp__a__*"], none, none, &mcp, "nyyy"),
        (&["mcp__a__b"], none, none, &mcp, "nyyy"),
        (&["mcp__a__c", "mcp__ab", "mcp__a__b(x)"], none, none, &mcp, "n??y"),
        (&["Edit(./*.txt)"], none, none, &write, "nyyy"),
        (&["Edit(./*.rs)"], none, none, &write, "n?yy"),
        // Ask is stronger than allow, and than every mode but plan.
        (&["Bash"], &["Bash"], none, &shell, "n???"),
        (none, &["Read"], none, &read, "????"),
        (none, &["Edit(a.txt)"], none, &edit, "n???"),
        (none, &["Bash(ls)"], none, &shell, "n???"),
        (none, &["Bash(rm *)"], none, &shell, "n??y"),
        // Deny is stronger than all.
        (&["Edit"], &["Edit"], &["Edit"], &write, "nnnn"),
        (&["Bash"], none, &["Bash(ls:*)"], &shell, "nnnn"),
        (&["Bash"], none, &["Bash(rm *)"], &shell, "nyyy"),
        (none, none, &["Read(a.txt)"], &read, "nnnn"),
        (none, none, &["Read(a.txt)"], &edit, "n?yy"),
        (none, none, &["Read(b.txt)"], &read, "yyyy"),
        (none, none, &["write_file"], &edit, "n?yy"),
        (none, none, &["mcp__a__b(x)"], &mcp, "nnnn"),
    ];
    for (allow, ask, deny, (tool, args), wanted) in table {
        let got: String = MODES
            .iter()
            .map(|mode| letter(&decide(Given { mode: *mode, allow, ask, deny }, tool, args.clone())))
            .collect();
        assert_eq!(got, wanted, "{tool}: allow {allow:?}, ask {ask:?}, deny {deny:?}");
    }
}

#[test]
fn verdicts_say_why_and_what_would_help() {
    let write = json!({ "file_path": "a.txt" });
    assert_eq!(
        decide(Given::default(), "write_file", write.clone()),
        Verdict::Ask {
            reason: "`write_file` changes files, which `default` mode allows only with approval".into(),
            hint: "`--allowed-tools write_file` or `--approval-mode auto-edit` allows it".into(),
        }
    );
    assert_eq!(
        decide(
            Given { allow: &["Bash(git *)"], ..Given::default() },
            "run_shell_command",
            json!({ "command": "make" })
        ),
        Verdict::Ask {
            reason: "`run_shell_command` runs commands, which `default` mode allows only with approval; \
                     no allow rule covers it: `make`"
                .to_owned(),
            hint: "`--allowed-tools run_shell_command` or `--approval-mode yolo` allows it".to_owned(),
        }
    );
    assert_eq!(
        decide(Given { mode: ApprovalMode::Plan, ..Given::default() }, "edit", write.clone()),
        Verdict::Deny {
            reason: "`plan` mode only reads, so `edit` was refused".into(),
            hint: Some("`--approval-mode auto-edit` allows it".into()),
        }
    );
    assert_eq!(
        decide(Given { deny: &["Edit(/app/)"], ..Given::default() }, "edit", write.clone()),
        Verdict::Deny {
            reason: "`/project/app/a.txt` is denied by the rule `Edit(/app/)`".into(),
            hint: None
        }
    );
    let allowed = |given: Given<'_>| match decide(given, "edit", write.clone()) {
        Verdict::Allow { why } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(allowed(Given { allow: &["Edit"], ..Given::default() }), AllowedBy::Rule("Edit".into()));
    let yolo = Given { mode: ApprovalMode::Yolo, ..Given::default() };
    assert_eq!(allowed(yolo), AllowedBy::Mode(ApprovalMode::Yolo));
    assert_eq!(decide(Given::default(), "read_file", write), Verdict::Allow { why: AllowedBy::ReadOnly });
}

#[test]
fn path_patterns() {
    // The working folder is /project/app, the project /project, the home /home/someone.
    let table: &[(&str, &str, bool)] = &[
        (".env", "/project/app/.env", true),
        (".env", "/project/app/deep/down/.env", true),
        (".env", "/elsewhere/.env", true),
        (".env", "/project/app/.env.local", false),
        ("*.pem", "keys/id.pem", true),
        ("./.env", ".env", true),
        ("./.env", "sub/.env", false),
        ("src/*.rs", "src/a.rs", true),
        ("src/*.rs", "src/deep/a.rs", false),
        ("src/**", "src/deep/a.rs", true),
        ("src/**", "other/src/a.rs", false),
        ("**/src/**", "other/src/a.rs", true),
        ("/docs/**", "/project/docs/a.md", true),
        ("/docs/**", "docs/a.md", false),
        ("//etc/**", "/etc/passwd", true),
        ("//etc/**", "etc/passwd", false),
        ("//etc", "/etc/deep/passwd", true),
        ("~/.ssh/**", "/home/someone/.ssh/id", true),
        ("~/.ssh/**", "/home/else/.ssh/id", false),
        ("secrets", "secrets/deep/a", true),
        ("secrets/", "secrets/deep/a", true),
        ("secrets", "secrets2/a", false),
        ("a.txt", "b/../a.txt", true),
        ("./a.txt", "../app/./a.txt", true),
        ("#notes", "#notes", true),
        ("*.{env,key}", "x.key", true),
    ];
    for (pattern, path, wanted) in table {
        let deny = format!("Read({pattern})");
        let verdict =
            decide(Given { deny: &[&deny], ..Given::default() }, "read_file", json!({ "file_path": path }));
        assert_eq!(letter(&verdict) == 'n', *wanted, "{pattern} {path}");
        let hidden = permissions(Given { deny: &[&deny], ..Given::default() }, Path::new("/project/app"));
        assert_eq!(hidden.hides(Path::new(path)), *wanted, "{pattern} hides {path}");
    }
}

#[test]
fn rules_on_reading_are_about_all_tools_that_read() {
    let deny = Given { deny: &["Read(secrets)"], ..Given::default() };
    for tool in ["list_directory", "glob", "grep_search"] {
        assert_eq!(letter(&decide(deny, tool, json!({ "path": "secrets" }))), 'n');
        assert_eq!(letter(&decide(deny, tool, json!({}))), 'y');
    }
    let only_grep = Given { deny: &["Grep(secrets)"], ..Given::default() };
    assert_eq!(letter(&decide(only_grep, "grep_search", json!({ "path": "secrets" }))), 'n');
    assert_eq!(letter(&decide(only_grep, "read_file", json!({ "file_path": "secrets/a" }))), 'y');
}

#[test]
fn links_do_not_get_around_rules() {
    let base = tempfile::tempdir().unwrap();
    let work = fs::canonicalize(base.path()).unwrap();
    fs::create_dir(work.join("vault")).unwrap();
    fs::create_dir(work.join("src")).unwrap();
    fs::write(work.join("vault/key"), "x").unwrap();
    symlink("vault", work.join("alias")).unwrap();
    symlink("vault/key", work.join("innocent")).unwrap();
    symlink("innocent", work.join("chain")).unwrap();
    symlink("../vault/key", work.join("src/key")).unwrap();
    let read = |deny: &str, path: &str| {
        let given = Given { deny: &[deny], mode: ApprovalMode::Yolo, ..Given::default() };
        letter(&permissions(given, &work).decide(&spec("read_file"), &object(json!({ "file_path": path }))))
    };
    let table = [
        // The target is denied: every link to it is.
        ("Read(vault/**)", "alias/key", 'n'),
        ("Read(vault/**)", "innocent", 'n'),
        ("Read(vault/**)", "chain", 'n'),
        // A link is denied: so is what it leads to, and what leads to it.
        ("Read(alias/**)", "vault/key", 'n'),
        ("Read(./innocent)", "vault/key", 'n'),
        ("Read(./innocent)", "chain", 'n'),
        ("Read(innoc*)", "chain", 'n'),
        ("Read(innoc*)", "innocent", 'n'),
        ("Read(other)", "chain", 'y'),
    ];
    for (deny, path, wanted) in table {
        assert_eq!(read(deny, path), wanted, "{deny} {path}");
    }
    // An allow rule is about the file that is really touched.
    let given = Given { allow: &["Edit(src/**)"], ..Given::default() };
    let edit = |path: &str| {
        letter(&permissions(given, &work).decide(&spec("edit"), &object(json!({ "file_path": path }))))
    };
    assert_eq!((edit("src/new"), edit("src/key"), edit("vault/key")), ('y', '?', '?'));
}

#[test]
fn some_files_are_protected_below_yolo() {
    let base = tempfile::tempdir().unwrap();
    let work = fs::canonicalize(base.path()).unwrap();
    fs::create_dir_all(work.join(".git/hooks")).unwrap();
    symlink(".git/hooks", work.join("harmless")).unwrap();
    let table = [
        (".git/hooks/pre-commit", true),
        ("sub/.git/hooks/pre-commit", true),
        (".git/config", true),
        (".git/config.worktree", true),
        (".git/modules/lib/hooks/post-checkout", true),
        (".git", true),
        (".GIT/Config", true),
        (".tenon/settings.json", true),
        (".mcp.json", true),
        ("x/../.mcp.json", true),
        ("harmless/pre-commit", true),
        (".github/workflows/ci.yml", false),
        (".gitignore", false),
        ("config", false),
        ("tenon/settings.json", false),
    ];
    for (path, protected) in table {
        for tool in ["edit", "write_file"] {
            let verdict = |mode| {
                let given = Given { mode, allow: &["Edit"], ..Given::default() };
                permissions(given, &work).decide(&spec(tool), &object(json!({ "file_path": path })))
            };
            assert_eq!(letter(&verdict(ApprovalMode::AutoEdit)), if protected { 'n' } else { 'y' }, "{path}");
            assert_eq!(letter(&verdict(ApprovalMode::Default)), if protected { 'n' } else { 'y' }, "{path}");
            assert_eq!(letter(&verdict(ApprovalMode::Yolo)), 'y', "{path}");
        }
        let read = permissions(Given::default(), &work)
            .decide(&spec("read_file"), &object(json!({ "file_path": path })));
        assert_eq!(letter(&read), 'y', "reading {path}");
    }
}

#[test]
fn the_mode_can_change_and_the_rules_stay() {
    let plan = permissions(
        Given { mode: ApprovalMode::Plan, deny: &["Bash"], ..Given::default() },
        Path::new("/p/a"),
    );
    let yolo = plan.with_mode(ApprovalMode::Yolo);
    assert_eq!((plan.mode(), yolo.mode()), (ApprovalMode::Plan, ApprovalMode::Yolo));
    let edit = object(json!({ "file_path": "a" }));
    assert_eq!(
        (letter(&plan.decide(&spec("edit"), &edit)), letter(&yolo.decide(&spec("edit"), &edit))),
        ('n', 'y')
    );
    assert!(yolo.removes("run_shell_command") && !yolo.removes("edit"));
}
