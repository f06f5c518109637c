//! `options.isolation`: steps that work in copies of the repository, or do not.

use std::path::Path;

use tenon_testkit::{Reply, Server, Tenon, Value, json, reply};

use super::flow_run::{at, flow, task_of};

fn git(folder: &Path, home: &Path, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
    let output = command.current_dir(folder).env("HOME", home).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes the workspace a repository with one commit.
fn commit(tenon: &Tenon) {
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        git(tenon.workspace(), tenon.home(), arguments);
    }
}

/// A step that writes `NAME.txt`.
fn writes(name: &str) -> [Reply; 2] {
    let task = format!("Write {name}.");
    let file = json!({"file_path": format!("{name}.txt"), "content": name});
    [at(&task).call("c", "write_file", file), at(&task).text(format!("wrote {name}"))]
}

/// §3.6: an included workflow has the isolation of the one around it, however deep it is.
#[test]
fn steps_of_included_workflows_work_in_copies_too() {
    let inner = "name: inner\nsteps:\n  - { id: q, instructions: Write inner. }\n  - { id: deep, include: deep.yaml }\n";
    let deep = "name: deep\noptions: { isolation: none }\nsteps:\n  - { id: d, instructions: Write deep. }\n";
    let outer = |isolation: &str| {
        format!(
            "name: outer\noptions: {{ isolation: {isolation} }}\nsteps:\n  - {{ id: inc, include: inner.yaml }}\n  \
             - id: each\n    loop: {{ forEach: [a, b], maxConcurrency: 1, steps: [{{ id: In, include: deep.yaml }}] }}\n  \
             - id: again\n    dependsOn: [each]\n    loop: {{ maxIterations: 1, steps: [{{ id: in2, include: deep.yaml }}] }}\n"
        )
    };
    let branches = [
        "tenon/r1/again.0/in2/d@1",
        "tenon/r1/each=0/In/d@1",
        "tenon/r1/each=1/In/d@1",
        "tenon/r1/inc/deep/d@1",
        "tenon/r1/inc/q@1",
    ];
    for (isolation, expected) in
        [("worktree", &branches[..]), ("worktree-per-step", &branches), ("none", &[])]
    {
        let script = [writes("inner"), writes("deep"), writes("deep"), writes("deep"), writes("deep")];
        let server = Server::start(script.into_iter().flatten());
        let tenon = flow(&server, &outer(isolation)).file("inner.yaml", inner).file("deep.yaml", deep);
        let tenon = tenon.args(["--yolo", "--run-id", "r1", "--max-concurrency", "1"]);
        commit(&tenon);
        let run = tenon.run();
        run.assert_code(0);
        let made = git(
            run.workspace(),
            run.workspace(),
            &["branch", "--list", "--format=%(refname:short)", "tenon/*"],
        );
        assert_eq!(made.lines().collect::<Vec<_>>(), expected, "{isolation}: {run}");
        for name in ["inner.txt", "deep.txt"] {
            assert_eq!(run.workspace().join(name).exists(), expected.is_empty(), "{isolation}: {name}");
        }
        assert!(!run.stderr.contains("warning"), "{run}");
    }
}

/// What an included document asks for itself it gets, and its steps alone do.
#[test]
fn an_included_workflow_may_ask_for_copies_of_its_own() {
    let inner =
        "name: inner\noptions: { isolation: worktree }\nsteps:\n  - { id: q, instructions: Write inner. }\n";
    let outer = "name: outer\nsteps:\n  - { id: a, instructions: Write outer. }\n  - { id: inc, include: inner.yaml, dependsOn: [a] }\n";
    let server = Server::start([writes("outer"), writes("inner")].into_iter().flatten());
    let tenon = flow(&server, outer).file("inner.yaml", inner).args(["--yolo", "--run-id", "r1"]);
    commit(&tenon);
    let run = tenon.run();
    run.assert_code(0);
    assert!(run.workspace().join("outer.txt").exists() && !run.workspace().join("inner.txt").exists());
    let shown = git(run.workspace(), run.workspace(), &["show", "tenon/r1/inc/q@1:inner.txt"]);
    assert_eq!(shown, "inner");
}

/// A judge writes into a copy of its own as well, and can look at the branch of what it judges.
#[test]
fn the_judge_of_a_loop_works_in_a_copy_too() {
    let document = "name: n\noptions: { isolation: worktree }\nagents:\n  j: { description: j, prompt: You judge., resultSchema: { type: object, required: [done], properties: { done: { type: boolean } } } }\nsteps:\n  \
                    - { id: l, instructions: Write worker., loop: { maxIterations: 2, untilAgent: j } }\n";
    let is_judge = |body: &Value| task_of(body).is_some_and(|text| text.contains("Evaluate Loop Progress"));
    let judge = || reply().when(is_judge);
    let [first, second] = writes("worker");
    let server = Server::start([
        first,
        second,
        judge().call("w", "write_file", json!({"file_path": "judge.txt", "content": "judge"})),
        judge().call("g", "run_shell_command", json!({"command": "git show tenon/r1/l.0@1:worker.txt"})),
        judge().call("s", "submit_result", json!({"done": true})),
    ]);
    let tenon = flow(&server, document).args(["--yolo", "--run-id", "r1"]);
    commit(&tenon);
    let run = tenon.run();
    run.assert_code(0);
    for name in ["judge.txt", "worker.txt"] {
        assert!(!run.workspace().join(name).exists(), "{name}: {run}");
    }
    assert!(server.request(4).tool_result("g").contains("worker"), "{run}");
    let show = |what: &str| git(run.workspace(), run.workspace(), &["show", what]);
    assert_eq!(show("tenon/r1/l.0@1+judge:judge.txt"), "judge");
    assert_eq!(show("tenon/r1/l.0@1:worker.txt"), "worker");
}

/// §3.7: changes become a branch, and the folder the run works in stays as it is.
#[test]
fn isolated_steps_work_in_copies() {
    let document =
        "name: n\noptions: { isolation: worktree }\nsteps:\n  - { id: edit, instructions: Edit. }\n";
    let server = Server::start([
        at("Edit.").call("c", "write_file", json!({"file_path": "new.txt", "content": "changed\n"})),
        at("Edit.").call("d", "run_shell_command", json!({"command": "cat new.txt kept.txt && pwd"})),
        at("Edit.").text("done"),
    ]);
    let tenon = flow(&server, document).file("kept.txt", "original\n").args(["--yolo", "--run-id", "r1"]);
    let (folder, home) = (tenon.workspace().to_owned(), tenon.home().to_owned());
    let git = |arguments: &[&str]| git(&folder, &home, arguments);
    commit(&tenon);
    std::fs::write(tenon.workspace().join("kept.txt"), "not committed\n").unwrap();
    let run = tenon.run();
    assert_eq!(run.assert_code(0).stdout, "done\n");
    assert!(
        run.stderr.contains("copies of the last commit: 1 uncommitted change will not be there\n"),
        "{run}"
    );
    assert_eq!(run.read("kept.txt"), "not committed\n", "what is not committed stays as it is");
    assert!(!run.workspace().join("new.txt").exists());
    let shown = server.request(2).tool_result("d");
    assert!(
        shown.contains("changed\noriginal") && !shown.contains(&*run.workspace().to_string_lossy()),
        "{shown}"
    );
    assert!(
        run.stderr.contains("step edit: what the step changed is on the branch `tenon/r1/edit@1`"),
        "{run}"
    );
    assert_eq!(git(&["show", "tenon/r1/edit@1:new.txt"]), "changed\n");
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn isolation_that_nobody_knows_is_said_and_a_folder_without_a_repository_is_refused() {
    let document = |name: &str| {
        format!("name: n\noptions: {{ isolation: {name} }}\nsteps:\n  - {{ id: a, instructions: Do a. }}\n")
    };
    let server = Server::start([at("Do a.").text("done")]);
    let run = flow(&server, &document("container")).run();
    assert!(run.assert_code(0).stderr.contains("there is no `isolation: container` here"), "{run}");
    let server = Server::start([]);
    let run = flow(&server, &document("worktree")).args(["-o", "json"]).run();
    let error = run.assert_code(42).json()["error"].clone();
    assert_eq!(error["class"], "input");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("`isolation: worktree` needs a git repository with a commit in `"), "{run}");
    // Also when only an included workflow asks for it.
    let outer = "name: o\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: i, include: inner.yaml, dependsOn: [a] }\n";
    let run = flow(&server, outer).file("inner.yaml", document("worktree")).run();
    assert!(run.assert_code(42).stderr.contains("`isolation: worktree` needs a git repository"), "{run}");
    assert!(server.requests().is_empty());
}
