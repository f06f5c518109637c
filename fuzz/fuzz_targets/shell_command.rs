//! Any text as a shell command: it is judged without a panic, and running it inside something else never
//! makes it freer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use tenon_core::{ApprovalMode, ToolKind, ToolSpec};
use tenon_tools::{PermissionOptions, Permissions, Rule, Verdict};

fn strictness(permissions: &Permissions, command: &str) -> u8 {
    let spec = ToolSpec {
        name: "run_shell_command".to_owned(),
        description: String::new(),
        parameters: json!({}),
        kind: ToolKind::Execute,
    };
    let args = Map::from_iter([("command".to_owned(), Value::String(command.to_owned()))]);
    match permissions.decide(&spec, &args) {
        Verdict::Allow { .. } => 0,
        Verdict::Ask { .. } => 1,
        Verdict::Deny { .. } => 2,
    }
}

fuzz_target!(|text: &str| {
    let rules = |texts: &[&str]| texts.iter().filter_map(|text| Rule::parse(text).ok()).collect::<Vec<_>>();
    let deny = Permissions::new(PermissionOptions {
        mode: ApprovalMode::Yolo,
        deny: rules(&["Bash(rm:*)", "Edit(/keep/**)"]),
        cwd: "/project".into(),
        ..PermissionOptions::default()
    });
    let allow = Permissions::new(PermissionOptions {
        allow: rules(&["Bash(git:*)", "Bash(ls:*)"]),
        cwd: "/project".into(),
        ..PermissionOptions::default()
    });
    for permissions in [deny, allow].into_iter().flatten() {
        let plain = strictness(&permissions, text);
        for wrapped in [format!("({text}\n)"), format!("true; {text}"), format!("echo \"$({text}\n)\"")] {
            assert!(strictness(&permissions, &wrapped) >= plain, "{wrapped}");
        }
    }
});
