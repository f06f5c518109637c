//! `inputs:` and `outputs:` of a workflow: given, typed, checked, computed.

use tenon_testkit::Server;

use super::flow_run::{PIPELINE, at, flow};

#[test]
fn inputs_are_typed_and_checked_and_outputs_are_computed() {
    let document = r#"
name: n
inputs:
  type: object
  required: [topic]
  properties: { topic: { type: string }, count: { type: integer } }
  additionalProperties: false
steps:
  - { id: a, instructions: "Write ${{ inputs.count }} lines on ${{ inputs.topic }}." }
outputs:
  text: steps.a.content
  n: inputs.count
"#;
    let server = Server::start([at("Write 3 lines on 7.").text("Lines.")]);
    let run = flow(&server, document)
        .args(["--inputs", r#"{"count":9}"#, "--input", "count=3", "--input", "topic=7"])
        .run();
    assert_eq!(run.assert_code(0).stdout, "{\"text\":\"Lines.\",\"n\":3}\n");
    let server = Server::start([at("Write 2 lines on x.").text("Lines.")]);
    let run = flow(&server, document)
        .file("in.json", r#"{"topic":"x","count":2}"#)
        .args(["--inputs", "@in.json"])
        .run();
    run.assert_code(0);
    let table: &[(&[&str], &str)] = &[
        (&[], "the inputs do not fit the document: /topic: required property is missing"),
        (
            &["--input", "topic=x", "--input", "count=many"],
            "the inputs do not fit the document: /count: expected integer, got string",
        ),
        (
            &["--input", "topic=x", "--input", "more=1"],
            "the inputs do not fit the document: /more: unexpected property",
        ),
        (&["--input", "topic"], "`--input topic` is not `NAME=VALUE`"),
        (&["--inputs", "[]"], "`--inputs` is not a JSON object"),
        (
            &["--inputs", r#"{"topic":"x","topic":"y"}"#],
            "`--inputs`: the property `topic` is there twice at line 1 column 14",
        ),
    ];
    for (flags, message) in table {
        let server = Server::start([]);
        let run = flow(&server, document).args(*flags).args(["-o", "json"]).run();
        assert_eq!(run.assert_code(42).json()["error"]["message"], *message, "{run}");
        assert!(server.requests().is_empty());
    }
    let server = Server::start([]);
    let run = flow(&server, PIPELINE).args(["--input", "a=1"]).run();
    assert!(run.assert_code(42).stderr.contains("the document has no inputs, and `a` was given"), "{run}");
}

#[test]
fn inputs_that_nobody_gives_have_their_defaults() {
    let document = r#"
name: n
inputs:
  type: object
  required: [topic, count]
  properties:
    topic: { type: string, default: cats }
    count: { type: integer, default: 3 }
    style: { type: object, properties: { tone: { type: string, default: dry } } }
steps:
  - { id: a, instructions: "Write ${{ inputs.count }} ${{ inputs.style.tone }} lines on ${{ inputs.topic }}." }
"#;
    let server = Server::start([at("Write 3 dry lines on dogs.").text("ok")]);
    let run = flow(&server, document).args(["--inputs", r#"{"topic":"dogs","style":{}}"#]).run();
    assert_eq!(run.assert_code(0).stdout, "ok\n", "{run}");
    // A default has to fit too.
    let wrong = document.replace("default: 3", "default: many");
    let run = flow(&server, &wrong).args(["-o", "json"]).run();
    assert_eq!(
        run.assert_code(42).json()["error"]["message"],
        "the inputs do not fit the document: /count: expected integer, got string"
    );
}

#[test]
fn inputs_that_an_included_workflow_cannot_take_are_refused_before_the_first_request() {
    let document = "name: n\ninputs: {type: object, properties: {n: {type: integer}}}\nsteps:\n  - { id: a, include: inner.yaml }\n";
    let inner = "name: inner\ninputs: {type: object, properties: {n: {type: integer, minimum: 3}}}\nsteps:\n  - { id: x, instructions: Do x. }\n";
    let server = Server::start([at("Do x.").text("done")]);
    let start = |n: &str| {
        flow(&server, document).file("inner.yaml", inner).args(["--input", n, "-q", "-o", "json"]).run()
    };
    let run = start("n=2");
    run.assert_code(42);
    let message = run.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("the included workflow `inner`") && message.contains("/n"), "{run}");
    assert!(server.requests().is_empty());
    start("n=3").assert_code(0);
}
