//! What another document would do to a run is told before it is done: what is run, asked or not needed again, and nothing else.

use tenon_testkit::{Run, Server, Tenon};

use super::flow_resume::{place, refused, run_in};
use super::flow_run::at;

const DONE: &str = "name: n
steps:
  - { id: lp, instructions: Do lp., loop: { maxIterations: 2 } }
  - { id: fe, instructions: Do fe., loop: { forEach: [p, q] } }
  - { id: cond, instructions: Do cond., condition: 'true' }
  - { id: end, instructions: Do end., dependsOn: [lp, fe, cond] }
";

/// All but the last step is done.
fn done() -> Tenon {
    let place = place(DONE);
    let server = Server::start([
        at("Do lp.").text("L."),
        at("Do lp.").text("L."),
        at("Do fe.").text("F."),
        at("Do fe.").text("F."),
        at("Do cond.").text("C."),
        refused("Do end."),
    ]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(1);
    place
}

fn change(place: &Tenon, from: &str, to: &str) {
    let file = place.workspace().join("flow.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(file, text.replace(from, to)).unwrap();
}

/// The preview, line by line.
fn preview(run: &Run) -> Vec<&str> {
    let lines = run.assert_code(42).stderr.lines();
    let told = lines.skip_while(|line| !line.starts_with("the document has changed; "));
    told.take_while(|line| line.starts_with("the document has changed; ") || line.starts_with("  step"))
        .collect()
}

#[test]
fn what_is_not_asked_for_any_more_is_not_called_run_again() {
    for (from, to, step, kept) in [
        ("maxIterations: 2", "maxIterations: 1", "lp.1", 4),
        ("[p, q]", "[p]", "fe[1]", 4),
        ("'true'", "'1 > 2'", "cond", 4),
    ] {
        let place = done();
        change(&place, from, to);
        let run = run_in(&place, &Server::start([]), &["resume", "r1"]).run();
        let [head, line] = preview(&run)[..] else { panic!("{run}") };
        let expected =
            format!("the document has changed; 1 step is not needed any more, {kept} steps are kept");
        assert_eq!(head, expected, "{run}");
        assert!(line.starts_with(&format!("  step {step}: not needed any more (had used ")), "{run}");
        let server = Server::start([at("Do end.").text("E.")]);
        let run = run_in(&place, &server, &["resume", "r1", "--accept-changes"]).run();
        assert_eq!(run.assert_code(0).stdout, "E.\n", "{run}");
    }
}

#[test]
fn an_answer_that_is_void_is_told() {
    let place = place(
        "name: n\nsteps:\n  - { id: gate, approve: { message: Go? } }\n  - { id: a, instructions: Do a., dependsOn: [gate] }\n",
    );
    let nobody = Server::start([]);
    run_in(&place, &nobody, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(42);
    place.clone().args(["flow", "approve", "r1", "gate"]).run().assert_code(0);
    change(&place, "Go?", "Go on?");
    let run = run_in(&place, &nobody, &["resume", "r1"]).run();
    assert_eq!(
        preview(&run),
        [
            "the document has changed; 1 step is asked again, 0 steps are kept",
            "  step gate: asked again (its answer no longer holds)"
        ],
        "{run}"
    );
}
