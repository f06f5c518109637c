//! `tenon flow show RUN --html FILE`: the page of a run as the binary writes it. What is on a page is tested by `tenon-flow`, how it
//! looks in a browser by `xtask`.

use tenon_testkit::{Server, Tenon, json, reply};

use super::tenon;

const DOCUMENT: &str = "
name: two
steps:
  - { id: look, instructions: Look at MARK-task. }
  - { id: tell, dependsOn: [look], instructions: Tell., loop: { forEach: [a, b] } }
";

/// A run that is kept.
fn kept() -> Tenon {
    let server = Server::start([
        reply().call("c1", "read_file", json!({"file_path": "MARK-arguments.txt"})).usage(100, 10),
        reply().text("MARK-answer </script>").usage(200, 20),
        reply().text("MARK-first").usage(1, 1),
        reply().text("MARK-second").usage(1, 1),
    ]);
    let setup = tenon().server(&server).file("flow.yaml", DOCUMENT);
    setup
        .clone()
        .args([
            "flow",
            "run",
            "flow.yaml",
            "-q",
            "--run-id",
            "run_1",
            "--max-concurrency",
            "1",
            "MARK-context",
        ])
        .run()
        .assert_code(0);
    setup
}

#[test]
fn a_page_is_written_whole_and_without_what_was_said_unless_asked() {
    let setup = kept();
    let run = setup.clone().args(["flow", "show", "run_", "--html", "page.html"]).run();
    assert_eq!((run.assert_code(0).stdout.as_str(), run.stderr.as_str()), ("", ""));
    let page = run.read("page.html");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(!page.contains("MARK"), "{}", &page[page.find("MARK").unwrap_or(0)..]);
    for part in ["✓ completed", "tell[1]", "330 tokens", "tenon flow show run_1 --html FILE --payloads"] {
        assert!(page.contains(part), "{part}");
    }
    // Over an older one.
    let run = setup.args(["flow", "show", "run_1", "--html", "page.html", "--payloads"]).run();
    run.assert_code(0);
    let page = run.read("page.html");
    for mark in ["task", "arguments", "answer &lt;/script&gt;", "first", "second", "context"] {
        assert!(page.contains(&format!("MARK-{mark}")), "{mark}");
    }
    let names: Vec<_> =
        std::fs::read_dir(run.workspace()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn what_is_no_file_is_not_overwritten() {
    let setup = kept();
    std::fs::create_dir(setup.workspace().join("folder")).unwrap();
    let pipe = setup.workspace().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (name, why) in [
        ("folder", "it is a folder"),
        ("new/", "it names a folder"),
        ("pipe", "it is not a regular file"),
        ("missing/page.html", "No such file or directory"),
    ] {
        let run = setup.clone().args(["flow", "show", "run_1", "--html", name]).run();
        let said = format!("error[input]: `--html {name}` cannot be written: {why}");
        assert!(run.assert_code(42).stderr.starts_with(&said), "{run}");
    }
    let run = setup.clone().args(["flow", "show", "nobody", "--html", "page.html"]).run();
    run.assert_code(42);
    assert!(!run.workspace().join("page.html").exists());
    setup.args(["flow", "show", "run_1", "--html", "page.html", "--format", "json"]).run().assert_code(2);
}

#[test]
fn the_graph_says_how_steps_inside_includes_and_loops_stand() {
    let document = "
name: nested
includes: { sub: sub.yaml }
steps:
  - { id: inc, include: sub }
  - { id: each, loop: { forEach: [p, q, r], steps: [{ id: x, instructions: 'Do ${{ item }}.', maxRetries: 0 }] } }
  - { id: lp, loop: { maxIterations: 2, until: 'false', steps: [{ id: z, instructions: Do z. }] } }
  - { id: plain, instructions: Do plain., loop: { forEach: [p, q] } }
";
    let server = Server::answering(|body| match body["messages"].to_string().contains("Do q.") {
        true => reply().status(400).json(json!({"error": {"message": "no"}})),
        false => reply().text("done"),
    });
    let setup = tenon()
        .server(&server)
        .file("flow.yaml", document)
        .file("sub.yaml", "name: sub\nsteps:\n  - { id: y, instructions: Do y. }\n");
    setup.clone().args(["flow", "run", "flow.yaml", "-q", "--run-id", "run_1"]).run().assert_code(1);
    let run = setup.args(["flow", "show", "run_1", "--html", "page.html"]).run();
    run.assert_code(0);
    let page = run.read("page.html");
    let graph = &page[page.find("<svg").unwrap()..page.find("</svg>").unwrap()];
    let statuses: Vec<&str> = graph
        .lines()
        .filter(|line| line.contains("class=\"status\""))
        .map(|line| line.split_once('>').unwrap().1.trim_end_matches("</text>"))
        .collect();
    assert_eq!(statuses.len(), 7, "one for each box: {graph}");
    for wanted in ["✕ 2 of 3 completed, 1 failed", "✓ 2 of 2 completed"] {
        assert!(statuses.contains(&wanted), "{wanted}: {statuses:?}");
    }
    let of_items = |status: &&str| status.ends_with(" · 2 of 2 items");
    assert!(statuses.iter().any(of_items), "{statuses:?}");
}
