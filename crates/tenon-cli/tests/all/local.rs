//! The embedded model through the binary, with a model that the tests make themselves.

use tenon_testkit::{Run, Tenon, TinyFamily, TinyFormat, TinyModel, Value, json};

const CITY: &str = r#"{"type":"object","properties":{"city":{"type":"string","maxLength":12},"size":{"enum":["small","large"]}},"required":["city","size"],"additionalProperties":false}"#;

fn tenon() -> Tenon {
    Tenon::new(env!("CARGO_BIN_EXE_tenon")).file("tiny.gguf", TinyModel::new(1).bytes())
}

fn local() -> Tenon {
    tenon().args(["-m", "local/tiny.gguf"])
}

fn city(run: &Run) -> Value {
    run.assert_code(0);
    let value: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}\n{run}"));
    assert!(
        value["city"].is_string() && ["small", "large"].contains(&value["size"].as_str().unwrap()),
        "{run}"
    );
    value
}

#[test]
fn a_payload_without_a_key_or_a_server() {
    let ask = || local().args(["-p", "Where?", "--json-schema", CITY]).stdin("a text").run();
    assert_eq!(city(&ask()), city(&ask()), "the same question has the same answer");
}

#[test]
fn text_without_a_schema() {
    let run = local().args(["-p", "Hello", "-o", "stream-json"]).run();
    // Noise may end by itself, at once, or by the limit; all are told truthfully.
    let lines = run.json_lines();
    let result = lines.last().unwrap();
    let class = result["error"]["class"].as_str().unwrap_or_default();
    assert!(run.code == 0 || ["truncated", "protocol"].contains(&class), "{run}");
    assert!(result["usage"]["input_tokens"].as_u64() > Some(0), "{run}");
}

#[test]
fn pieces_of_the_payload_stream() {
    let run = local()
        .args(["-p", "Where?", "--json-schema", CITY, "-o", "stream-json", "--include-partial-messages"])
        .run();
    run.assert_code(0);
    let pieces = run.json_lines();
    let pieces = pieces.iter().filter(|line| line["event"]["delta"]["type"] == "input_json_delta").count();
    assert!(pieces > 1, "{run}");
}

#[test]
fn it_gets_no_tools_but_the_terminal_one() {
    let tools = |run: &Run| run.json_lines()[0]["tools"].clone();
    let run = local().args(["-p", "Where?", "--json-schema", CITY, "-o", "stream-json"]).run();
    assert_eq!(tools(&run), json!(["structured_output"]), "{run}");
    let reading = local()
        .args([
            "-p",
            "Where?",
            "--json-schema",
            CITY,
            "-o",
            "stream-json",
            "--core-tools",
            "read_file",
            "--max-session-turns",
            "2",
        ])
        .run();
    assert_eq!(tools(&reading), json!(["read_file", "structured_output"]), "{reading}");
    let refused = local().args(["-p", "x", "--core-tools", "read_file,write_file"]).run();
    refused.assert_code(52);
    assert!(refused.stderr.contains("`write_file` has effects"), "{refused}");
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let whole = TinyModel::new(1).bytes();
    for (name, bytes, expected) in [
        ("cut.gguf", whole[..whole.len() / 2].to_vec(), "cut off"),
        ("other.gguf", b"not a model".to_vec(), "no GGUF file"),
    ] {
        let run = tenon().file(name, bytes).args(["-m", &format!("local/{name}"), "-p", "hi"]).run();
        run.assert_code(52);
        assert!(run.stderr.contains(expected) && run.stdout.is_empty(), "{run}");
    }
    let run = tenon().args(["-m", "local/missing.gguf", "-p", "hi"]).run();
    run.assert_code(52);
    assert!(run.stderr.contains("missing.gguf"), "{run}");
}

#[test]
fn too_long_a_prompt_is_said_to_be_that() {
    let run = local().args(["-p", "Sum it up.", "--json-schema", CITY]).stdin("word ".repeat(6_000)).run();
    run.assert_code(1);
    assert!(run.stderr.contains("context of 4096"), "{run}");
}

#[test]
fn a_file_in_another_format_is_converted_once() {
    let bytes = TinyModel { family: TinyFamily::Qwen2, format: TinyFormat::F32, seed: 2 }.bytes();
    let world =
        tenon().file("own.gguf", bytes).args(["-m", "local/own.gguf", "-p", "Where?", "--json-schema", CITY]);
    let first = world.clone().run();
    city(&first);
    assert!(first.stderr.contains("converting"), "{first}");
    let second = world.run();
    city(&second);
    assert!(!second.stderr.contains("converting"), "{second}");
}

#[test]
fn offline_nothing_is_downloaded() {
    for args in [&["local", "pull"][..], &["-m", "local", "-p", "hi"]] {
        let run = tenon().env("TENON_OFFLINE", "1").args(args).run();
        run.assert_code(1);
        assert!(run.stderr.contains("`TENON_OFFLINE` forbids") && run.stdout.is_empty(), "{run}");
    }
}

#[test]
fn the_weights_are_listed_found_and_removed() {
    let run = tenon().args(["local", "list"]).run();
    run.assert_code(0);
    assert!(run.stdout.contains("smollm2-135m") && run.stdout.contains("not here"), "{run}");
    let run = tenon().args(["local", "list", "--json"]).run();
    let listed: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&listed[0]["default"], &listed[0]["path"]), (&json!(true), &json!(null)));
    let run = tenon().args(["local", "path"]).run();
    run.assert_code(52);
    assert!(run.stderr.contains("tenon local pull"), "{run}");
    tenon().args(["local", "remove"]).run().assert_code(0);
    let run = tenon().args(["local", "pull", "gpt-9"]).run();
    run.assert_code(52);
    assert!(run.stderr.contains("`gpt-9` is no embedded model"), "{run}");
}

#[test]
fn what_is_about_servers_is_refused() {
    for (flags, expected) in [
        (["--record", "c.jsonl"], "`--record`"),
        (["--base-url", "http://127.0.0.1:1"], "`--base-url`"),
        (["--effort", "high"], "does not think"),
    ] {
        let run = local().args(["-p", "hi"]).args(flags).run();
        run.assert_code(52);
        assert!(run.stderr.contains(expected), "{run}");
    }
}
