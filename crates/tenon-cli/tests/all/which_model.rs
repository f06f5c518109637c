//! The choice of the model and of its provider, and what its key is for. The layers of settings are in `settings.rs`.

use tenon_testkit::{Server, reply};

use crate::settings::{USER, model_of, refused, request_of};
use crate::tenon;

#[test]
fn a_models_name_is_split_only_at_a_provider() {
    for (args, env, expected) in [
        (&["-m", "openai/x"][..], None, "x"),
        (&["-m", "openai/openai/x"], None, "openai/x"),
        (&["-m", "Qwen/Qwen3-8B"], None, "Qwen/Qwen3-8B"),
        (&["-m", "plain"], None, "plain"),
        (&["-m", "openai"], Some(("OPENAI_MODEL", "default")), "default"),
        (&["-m", ""], Some(("OPENAI_MODEL", "default")), "default"),
        (&[], Some(("TENON_MODEL", "openai/y")), "y"),
        (&[], Some(("TENON_MODEL", "Qwen/Qwen3-8B")), "Qwen/Qwen3-8B"),
        (&[], Some(("OPENAI_MODEL", "z")), "z"),
        (&[], None, "gpt-5-mini"),
    ] {
        let setup = env.into_iter().fold(tenon(), |setup, (name, value)| setup.env(name, value));
        assert_eq!(model_of(setup.args(args)), expected, "{args:?} {env:?}");
    }
    // An empty variable is not set.
    let setup = tenon().env("TENON_MODEL", "").env("OPENAI_MODEL", "z").env("ANTHROPIC_API_KEY", "");
    assert_eq!(model_of(setup), "z");
}

#[test]
fn a_choice_that_nobody_made_is_explained_in_one_line() {
    let (_, run) = request_of(tenon().env("OPENAI_API_KEY", "test-key").env("OPENAI_MODEL", "z"));
    assert_eq!(run.stderr, "model `openai/z`: `OPENAI_API_KEY` is set, `OPENAI_MODEL` names the model\n");
    let (_, run) = request_of(tenon().env("OPENAI_API_KEY", "test-key").args(["-m", "z"]));
    assert_eq!(run.stderr, "");
    let (_, run) = request_of(tenon().env("OPENAI_API_KEY", "test-key").arg("-q"));
    assert_eq!(run.stderr, "");
    let both =
        tenon().env("OPENAI_API_KEY", "test-key").env("ANTHROPIC_API_KEY", "other-key").args(["-m", "z"]);
    let (request, run) = request_of(both);
    assert_eq!(run.stderr, "warning: credentials for `openai`, `anthropic` are set; `openai` is used\n");
    assert_eq!(request.header("authorization"), Some("Bearer test-key"));
}

#[test]
fn a_server_on_this_machine_needs_no_key() {
    let (request, _) = request_of(tenon().env("OPENAI_MODEL", "m"));
    assert_eq!(request.header("authorization"), None);
    let server = Server::start([reply().text("Hi.").forever()]);
    let ollama =
        tenon().env("OLLAMA_BASE_URL", server.base_url()).args(["-p", "Go.", "-m", "ollama/llama3:8b"]);
    ollama.run().assert_code(0);
    assert_eq!(server.request(0).body["model"], "llama3:8b");
    let flag = tenon().args(["-p", "Go.", "-m", "m", "--base-url", &server.base_url()]);
    flag.run().assert_code(0);
    let flag = tenon().args(["-p", "Go.", "-m", "m", "--openai-base-url", &server.base_url()]);
    flag.env("MY_KEY", "key-1234").args(["--api-key-env", "MY_KEY"]).run().assert_code(0);
    assert_eq!(server.request(2).header("authorization"), Some("Bearer key-1234"));
    assert_eq!(server.request(2).path, "/v1/chat/completions");
    // A variable that was named must hold something, here too.
    let unset = tenon().args(["-m", "m", "--api-key-env", "MY_KEY", "--base-url", &server.base_url()]);
    refused(unset, 41, &["`MY_KEY`", "not set"]);
}

#[test]
fn without_credentials_the_remedies_are_named() {
    let remedies = ["OPENAI_API_KEY", "OPENAI_BASE_URL", "-m local"];
    refused(tenon(), 41, &remedies);
    refused(tenon().env("OPENAI_API_KEY", "").env("GEMINI_API_KEY", " "), 41, &remedies);
    refused(tenon().args(["-m", "openai/x"]), 41, &["`OPENAI_API_KEY` is not set"]);
    refused(tenon().args(["--api-key-env", "NO_SUCH_KEY"]), 41, &["`NO_SUCH_KEY` is not set"]);
    refused(tenon().args(["--base-url", "https://models.invalid/v1"]), 41, &["OPENAI_API_KEY"]);
}

#[test]
fn names_that_are_no_providers_of_this_version() {
    let keys = || tenon().env("OPENAI_API_KEY", "k").env("ANTHROPIC_API_KEY", "k").env("GEMINI_API_KEY", "k");
    for (model, expected) in
        [("local/nobody", &["embedded model", "smollm2-135m"][..]), ("replay", &["--replay FILE"])]
    {
        refused(keys().args(["-m", model]), 52, expected);
    }
    refused(keys().args(["--auth-type", "vertex"]), 52, &["--auth-type vertex"]);
}

#[test]
fn a_key_is_never_sent_over_plain_http_beyond_this_machine() {
    let key = "sk-secret-0001";
    for setup in [
        tenon().env("OPENAI_API_KEY", key).env("OPENAI_BASE_URL", "http://192.0.2.1/v1"),
        tenon().env("OPENAI_API_KEY", key).args(["--base-url", "HTTP://192.0.2.1/v1"]),
        tenon().env("K", key).args(["--api-key-env", "K", "--base-url", "http://127.0.0.1.example/v1"]),
        tenon().env("K", key).home_file(
            USER,
            r#"{"model": "far/m", "providers": {"far": {"baseUrl": "http://192.0.2.1/v1", "apiKeyEnv": "K"}}}"#,
        ),
    ] {
        let run = refused(setup, 52, &["over plain HTTP", "https://"]);
        assert!(!run.stderr.contains(key), "{run}");
    }
    for url in ["ftp://x/v1", "http://user:pass@127.0.0.1/v1", "https://", "not a url"] {
        let setup = tenon().env("OPENAI_API_KEY", key).env("OPENAI_BASE_URL", url);
        refused(setup, 52, &["`OPENAI_BASE_URL` is not usable"]);
    }
}

#[test]
fn a_key_with_a_line_break_is_refused() {
    let run = refused(tenon().env("OPENAI_API_KEY", "sk-a\nx: y"), 52, &["`OPENAI_API_KEY`", "line break"]);
    assert!(!run.stderr.contains("sk-a"), "{run}");
}
