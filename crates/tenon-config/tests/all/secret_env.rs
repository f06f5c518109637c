use std::collections::BTreeMap;

use tenon_config::secret_env_names;

use crate::place::settings;

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn keys_of_known_and_own_providers_and_copies_of_them() {
    let settings = settings(
        r#"{ "providers": { "corp": { "apiKeyEnv": "CORP_KEY", "headers": { "x-tenant": "corp tok-998877" } } } }"#,
    );
    let env = env(&[
        ("CORP_KEY", "abcdefghij"),
        ("COPY", " abcdefghij\n"),
        ("INSIDE", "key=abcdefghij;"),
        ("TOKEN", "tok-998877"),
        ("FLAG_KEY", "klmnopqrst"),
        ("FLAG_COPY", "klmnopqrst"),
        ("PATH", "/bin"),
        ("GEMINI_API_KEY", "1"),
        ("N", "1"),
    ]);
    let names = secret_env_names(&settings, &env, Some("FLAG_KEY"));
    for secret in ["CORP_KEY", "COPY", "INSIDE", "TOKEN", "FLAG_KEY", "FLAG_COPY", "GEMINI_API_KEY"] {
        assert!(names.iter().any(|name| name == secret), "{secret}: {names:?}");
    }
    for known in [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "GOOGLE_API_KEY",
        "OPENROUTER_API_KEY",
    ] {
        assert!(names.iter().any(|name| name == known), "{known}: {names:?}");
    }
    assert!(!names.iter().any(|name| name == "PATH" || name == "N"), "{names:?}");
}

#[test]
fn pass_env_opts_in_by_name() {
    let settings = settings(r#"{ "tools": { "shell": { "passEnv": ["OPENAI_API_KEY"] } } }"#);
    let names =
        secret_env_names(&settings, &env(&[("OPENAI_API_KEY", "abcdefghij"), ("COPY", "abcdefghij")]), None);
    assert!(!names.contains(&"OPENAI_API_KEY".to_owned()));
    assert!(names.contains(&"COPY".to_owned()) && names.contains(&"ANTHROPIC_API_KEY".to_owned()));
}
