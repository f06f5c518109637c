//! Any text as settings. The input is a project's settings, a line of three hyphens, and the user's.
#![no_main]

use std::collections::BTreeMap;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tenon_config::{Expand, ModelFlags, choose_model, read_settings, secret_env_names, tighten};

fuzz_target!(|text: &str| {
    let (project, user) = text.split_once("\n---\n").unwrap_or((text, ""));
    let env = BTreeMap::from([("OPENAI_API_KEY".to_owned(), "hush-hush".to_owned())]);
    let words = BTreeMap::from([("A".to_owned(), "expanded-word(".to_owned())]);
    let project = read_settings(project, Path::new("project"), Expand::Never);
    let user = read_settings(user, Path::new("user"), Expand::From(&words));
    for problem in project.errors.iter().chain(&project.warnings).chain(&user.errors).chain(&user.warnings) {
        assert!(problem.line >= 1 && problem.column >= 1);
        let line = problem.one_line();
        assert!(line.chars().all(|c| !c.is_control()) && !line.contains("expanded-word"));
    }

    let before = user.settings.clone();
    let (after, _) = tighten(user.settings, project.settings.clone());
    assert!(after.permissions.mode() <= before.permissions.mode());
    assert_eq!(after.permissions.allow, before.permissions.allow);
    assert!(before.permissions.deny.iter().all(|rule| after.permissions.deny.contains(rule)));
    assert!(project.settings.permissions.deny.iter().all(|rule| after.permissions.deny.contains(rule)));
    assert_eq!(after.limits.turns().stricter(before.limits.turns()), after.limits.turns());
    assert_eq!(after.limits.budget_usd().stricter(before.limits.budget_usd()), after.limits.budget_usd());
    assert_eq!((&after.hooks, &after.mcp_servers), (&before.hooks, &before.mcp_servers));
    assert_eq!((&after.providers, &after.model), (&before.providers, &before.model));

    let trusted = before.overlaid(project.settings);
    let _ = secret_env_names(&trusted, &env, None);
    if let Err(error) = choose_model(ModelFlags::default(), &trusted, &env) {
        assert!(!error.to_string().contains("hush-hush"));
    }
});
