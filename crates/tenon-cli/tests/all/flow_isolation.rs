//! `options.isolation`: steps that work in copies of the repository, or do not.

use tenon_testkit::{Server, json};

use super::flow_run::{at, flow};

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
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
        let output = command.current_dir(tenon.workspace()).env("HOME", tenon.home()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
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
