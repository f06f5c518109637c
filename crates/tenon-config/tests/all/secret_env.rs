use std::collections::BTreeMap;

use tenon_config::secret_env_names;

use crate::place::settings;

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn keys_of_known_and_own_providers_and_copies_of_them() {
    let settings = settings(r#"{ "providers": { "corp": { "apiKeyEnv": "CORP_KEY" } } }"#);
    let env = env(&[
        ("CORP_KEY", "abcdefghij"),
        ("COPY", " abcdefghij\n"),
        ("PATH", "/bin"),
        ("GEMINI_API_KEY", "1"),
        ("N", "1"),
    ]);
    assert_eq!(
        secret_env_names(&settings, &env),
        [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "COPY",
            "CORP_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "OLLAMA_API_KEY",
            "OPENAI_API_KEY",
        ]
    );
}

#[test]
fn pass_env_opts_in_by_name() {
    let settings = settings(r#"{ "tools": { "shell": { "passEnv": ["OPENAI_API_KEY"] } } }"#);
    let names =
        secret_env_names(&settings, &env(&[("OPENAI_API_KEY", "abcdefghij"), ("COPY", "abcdefghij")]));
    assert!(!names.contains(&"OPENAI_API_KEY".to_owned()));
    assert!(names.contains(&"COPY".to_owned()) && names.contains(&"ANTHROPIC_API_KEY".to_owned()));
}
