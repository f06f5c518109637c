//! What `tenon flow run` tells of loops where nothing is drawn: small ones item by item, large ones by how far they have come.

use std::collections::BTreeSet;

use tenon_testkit::{Gate, Server, Signal, reply};

use super::flow_run::flow;

/// A loop over so many items, with a step in each that is skipped.
fn document(items: u32) -> String {
    let items: Vec<String> = (0..items).map(|n| n.to_string()).collect();
    let items = items.join(", ");
    format!(
        "name: n\nsteps:\n  - id: each\n    loop:\n      forEach: [{items}]\n      steps:\n        - {{ id: p, instructions: Do it. }}\n        - {{ id: q, condition: 'false', instructions: Never. }}\n"
    )
}

/// Lines about the loop and what is in it, without times.
fn told(stderr: &str) -> Vec<&str> {
    let about = stderr.lines().filter(|line| line.starts_with("step "));
    about.map(|line| line.split(" in ").next().unwrap().split(" (").next().unwrap()).collect()
}

#[test]
fn a_small_loop_is_told_item_by_item() {
    let server = Server::start([reply().text("done").usage(1, 1).forever()]);
    let run = flow(&server, &document(10)).args(["--max-concurrency", "1"]).run();
    run.assert_code(0);
    let of_items =
        |n: u32| ["p: started", "p: completed", "q: skipped"].map(|what| format!("step each[{n}].{what}"));
    let mut wanted: BTreeSet<String> = (0..10).flat_map(of_items).collect();
    wanted.extend(["step each: started".to_owned(), "step each: completed".to_owned()]);
    let lines = told(&run.stderr);
    assert_eq!(lines.len(), wanted.len(), "{run}");
    assert_eq!(lines.iter().map(|line| (*line).to_owned()).collect::<BTreeSet<_>>(), wanted, "{run}");
}

#[test]
fn a_large_loop_is_told_by_how_far_it_has_come() {
    let server = Server::start([reply().text("done").usage(1, 1).forever()]);
    let run = flow(&server, &document(40)).run();
    let lines = told(&run.assert_code(0).stderr);
    let tenths = (1..10).map(|n| format!("step each: {} of 40", n * 4));
    let wanted: Vec<String> = std::iter::once("step each: started".to_owned())
        .chain(tenths)
        .chain(["step each: completed".to_owned()])
        .collect();
    // On a machine that takes a minute for a tenth there may be more.
    assert!(wanted.iter().all(|line| lines.contains(&line.as_str())), "{run}");
    assert!(lines.iter().all(|line| line.starts_with("step each: ")), "{run}");
    let run = flow(&server, &document(40)).arg("--verbose").run();
    let lines = told(&run.assert_code(0).stderr);
    for line in ["step each[39].p: started", "step each[39].q: skipped", "step each: 39 of 40"] {
        assert!(lines.contains(&line), "{line}: {run}");
    }
}

/// Rounds are counted like items.
#[test]
fn rounds_of_a_long_loop_are_counted() {
    let document = |rounds: u32| {
        format!(
            "name: n\nsteps:\n  - {{ id: again, instructions: Do it., loop: {{ maxIterations: {rounds} }} }}\n"
        )
    };
    let server = Server::start([reply().text("done").usage(1, 1).forever()]);
    let run = flow(&server, &document(20)).run();
    let lines = told(&run.assert_code(0).stderr);
    assert!(lines.contains(&"step again: 18 of 20") && !lines.contains(&"step again.3: started"), "{run}");
    let run = flow(&server, &document(3)).run();
    let lines = told(&run.assert_code(0).stderr);
    assert!(lines.contains(&"step again.2: completed") && !run.stderr.contains(" of 3"), "{run}");
}

/// Items that are stopped with their loop are not told one by one either; what fails is.
#[test]
fn what_becomes_of_items_is_told_once() {
    let gate = Gate::new();
    let mut script: Vec<_> = (0..5).map(|_| reply().text("done").usage(1, 1)).collect();
    script.push(reply().text("never").hold(&gate).forever());
    let server = Server::start(script);
    let mut running = flow(&server, &document(40)).spawn();
    running.wait_for_stderr("step each: 4 of 40");
    running.signal(Signal::Interrupt);
    let run = running.wait();
    run.assert_code(130);
    assert!(told(&run.stderr).iter().all(|line| line.starts_with("step each: ")), "{run}");
    let end = run.stderr.lines().find(|line| line.starts_with("step each: cancelled in ")).unwrap();
    assert!(end.contains(" of 40)"), "{run}");
    let server = Server::start([reply().status(400).forever()]);
    let run = flow(&server, &document(11)).run();
    run.assert_code(1);
    assert!(run.stderr.contains("step each[0].p: failed after "), "{run}");
}
