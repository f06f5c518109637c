//! What is replaced in an output before it is compared.

use tenon_testkit::{Server, Tenon, reply, scrub};

#[test]
fn what_differs_between_runs_is_named() {
    let id = "0b9f3a52-7a55-4c1c-9a3e-0d8f6d6f1a11";
    let other = "1b9f3a52-7a55-4c1c-9a3e-0d8f6d6f1a11";
    for (text, expected) in [
        (format!("{id} {other} {id}"), "<uuid:1> <uuid:2> <uuid:1>"),
        (
            r#"{"duration_ms":12,"duration_api_ms": 3.5}"#.into(),
            r#"{"duration_ms":<ms>,"duration_api_ms": <ms>}"#,
        ),
        ("2026-01-02T03:04:05.678Z".into(), "<time>"),
        (format!("tenon {}", env!("CARGO_PKG_VERSION")), "tenon <version>"),
        ("nothing 12 here 1.2.3.4".into(), "nothing 12 here 1.2.3.4"),
    ] {
        assert_eq!(scrub(&text), expected);
    }
}

#[test]
fn folders_and_ports_of_a_real_run_are_named() {
    let server = Server::start([reply()]);
    let script = r#"printf '{"cwd":"%s/a.txt","home":"%s","slug":"%s/x"}' "$PWD" "$HOME" "$(pwd | tr -c 'A-Za-z0-9\n' -)""#;
    let run = Tenon::new("/bin/sh").args(["-c", script]).run();
    assert_eq!(scrub(&run.stdout), r#"{"cwd":"<cwd>/a.txt","home":"<home>","slug":"<cwd-slug>/x"}"#);
    assert_eq!(scrub(&server.base_url()), "http://127.0.0.1:PORT/v1");
}
