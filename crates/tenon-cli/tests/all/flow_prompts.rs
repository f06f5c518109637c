//! What a step is told, as the model's server receives it: every section in its place, and every size at its edge.

use tenon_testkit::{Server, json, reply};

use super::flow_run::{at, flow, told};

const CUT: &str = "\n...[truncated for context limit]\n";
const KIB: usize = 1024;

/// Everything at once, in the order that documents count on.
#[test]
fn every_section_stands_in_its_place() {
    let document = r#"
name: n
agents:
  tester:
    description: d
    prompt: You test.
    resultSchema: { type: object, required: [ok], properties: { ok: { type: boolean } } }
steps:
  - { id: first, instructions: Do first. }
  - { id: second, instructions: Do second., agent: tester }
  - { id: left-out, instructions: Do nothing., condition: 'false' }
  - id: all
    agent: tester
    instructions: Do all.
    dependsOn: [second, left-out, first]
    contextFiles: [a.md, b.png, c.pdf]
    loop: { forEach: [{ name: api, port: 1 }] }
"#;
    let server = Server::start([
        at("Do first.").text("First.\n"),
        at("Do second.").text("Second.").call("c", "submit_result", json!({"ok": true})),
        at("Do all.").call("c", "submit_result", json!({"ok": true})),
    ]);
    let run = flow(&server, document)
        .file("a.md", "A text.\n")
        .file("b.png", b"\x89PNG\r\n\x1a\nrest")
        .file("c.pdf", b"%PDF-1.4 rest")
        .args(["--max-concurrency", "1", "Ticket", "7"])
        .run();
    run.assert_code(0);
    let all =
        server.requests().iter().position(|request| request.body.to_string().contains("Do all.")).unwrap();
    let told = told(&server, all);
    let schema = r#"{"type":"object","required":["ok"],"properties":{"ok":{"type":"boolean"}}}"#;
    let (duty, rest) = told.split_once(&format!("Required schema: {schema}")).unwrap();
    assert!(
        duty.starts_with(
            "[Flow Context]\nTicket 7\n\n## Task\nDo all.\n\n## Required: Submit Structured Result\n"
        ) && duty.contains("`submit_result`"),
        "{told}"
    );
    assert_eq!(
        rest,
        "\n\n## Previous Step Results\n\n### second (completed)\nSecond.\n\n### second result\n{\"ok\":true}\n\n\
         ### first (completed)\nFirst.\n\n\
         ## Context Files\n\n### a.md\nA text.\n\n### b.png\n(attached as multimodal content)\n\n\
         ### c.pdf\n(attached as multimodal content)\n\n\
         ## forEach Item (index: 0)\n{\"name\":\"api\",\"port\":1}",
        "in the order of `dependsOn`, and only what completed"
    );
    let request = server.request(all);
    assert!(request.system_text().starts_with("You test."), "{}", request.system_text());
    let parts = request.body["messages"][1]["content"].to_string();
    assert!(
        parts.contains("data:image/png;base64,") && parts.contains("data:application/pdf;base64,"),
        "{parts}"
    );
}

/// A step whose dependencies were all skipped is told of none.
#[test]
fn without_results_there_is_no_heading() {
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a., condition: 'false' }\n  - { id: b, instructions: Do b., dependsOn: [a] }\n";
    let server = Server::start([at("Do b.").text("b")]);
    flow(&server, document).run().assert_code(0);
    assert_eq!(told(&server, 0), "## Task\nDo b.");
}

/// 16 KiB of text and 16 KiB of a result for each dependency, to the byte.
#[test]
fn what_a_dependency_hands_on_has_an_edge() {
    let document = "name: n\nagents:\n  a: { description: d, resultSchema: { type: object } }\nsteps:\n  - { id: a, instructions: Do a., agent: a }\n  - { id: b, instructions: Do b., dependsOn: [a] }\n";
    // Characters of two bytes are never cut in the middle.
    let texts = [
        ("x".repeat(16 * KIB), "x".repeat(16 * KIB)),
        ("x".repeat(16 * KIB + 1), format!("{}{CUT}", "x".repeat(16 * KIB - CUT.len()))),
        ("é".repeat(8 * KIB), "é".repeat(8 * KIB)),
        ("é".repeat(8 * KIB + 1), format!("{}{CUT}", "é".repeat((16 * KIB - CUT.len()) / 2))),
    ];
    for (said, wanted) in texts {
        let server = Server::start([
            at("Do a.").text(said).call("c", "submit_result", json!({"ok": true})),
            at("Do b.").text("b"),
        ]);
        flow(&server, document).run().assert_code(0);
        let told = told(&server, 1);
        let body = told.split_once("### a (completed)\n").unwrap().1;
        assert_eq!(body, format!("{wanted}\n\n### a result\n{{\"ok\":true}}"));
    }
    let around = json!({"log": ""}).to_string().len();
    for (log, is_whole) in [(16 * KIB - around, true), (16 * KIB - around + 1, false)] {
        let result = json!({"log": "x".repeat(log)});
        let small = json!({"log": "x".repeat(log), "few": "y".repeat(900), "many": "z".repeat(1024)});
        let server = Server::start([
            at("Do a.").call("c", "submit_result", if is_whole { result.clone() } else { small }),
            at("Do b.").text("b"),
        ]);
        flow(&server, document).run().assert_code(0);
        let told = told(&server, 1);
        let shown: tenon_testkit::Value =
            serde_json::from_str(told.split_once("### a result\n").unwrap().1).unwrap();
        if is_whole {
            assert_eq!(shown, result);
        } else {
            assert_eq!(
                (&shown["_truncated"], shown["few"].as_str().map(str::len)),
                (&json!(true), Some(900))
            );
            assert!(shown["_note"].is_string());
            assert_eq!((shown.get("log"), shown.get("many")), (None, None), "fields of 1 KiB and more");
        }
    }
}

/// 120 KiB for the whole, whatever it consists of; what one step hands on is cut earlier, but not a loop whose rounds are
/// asked for together.
#[test]
fn a_prompt_has_an_edge_and_a_loop_that_is_asked_for_whole_has_no_other() {
    let files = "name: n\nsteps:\n  - { id: a, instructions: Do a., contextFiles: [x.txt, y.txt] }\n";
    let server = Server::start([at("Do a.").text("a")]);
    let large = "x".repeat(200 * KIB);
    flow(&server, files).file("x.txt", large.as_str()).file("y.txt", "short").run().assert_code(0);
    let cut = told(&server, 0);
    assert!(cut.len() <= 120 * KIB && cut.len() > 119 * KIB, "{}", cut.len());
    assert!(
        cut.starts_with("## Task\nDo a.\n\n") && cut.ends_with("### y.txt\nshort"),
        "what is short stays"
    );
    assert!(cut.contains(CUT));

    let rounds = |mode: &str| {
        format!(
            "name: n\nsteps:\n  - {{ id: a, instructions: Do a., loop: {{ maxIterations: 3, outputMode: {mode} }} }}\n  - {{ id: b, instructions: Do b., dependsOn: [a] }}\n"
        )
    };
    let round = "r".repeat(30 * KIB);
    for (mode, whole, cuts) in [("cumulative", 3, 0), ("last", 0, 1)] {
        let server = Server::start([at("Do a.").text(round.as_str()).forever(), reply().text("b").forever()]);
        flow(&server, &rounds(mode)).run().assert_code(0);
        let told = told(&server, 3);
        assert!(told.starts_with("## Task\nDo b."), "{mode}");
        assert_eq!((told.matches(&round).count(), told.matches(CUT).count()), (whole, cuts), "{mode}");
    }
}
