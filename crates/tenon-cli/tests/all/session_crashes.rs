//! What crashes, full disks and other writers do to sessions: each resumes, nothing complete is lost, nothing
//! is done twice, and the run itself never suffers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tenon_testkit::{Gate, Reply, Run, Server, Signal, Tenon, Value, cases, json, reply};

use super::output::result_of;
use super::sessions::{below, id_of, only_session, records, tenon};

const INTERRUPTED: &str = "Interrupted: ";
const NOT_RUN: &str = "Not run: ";

/// A call with an effect that can be counted.
fn append(id: &str, word: &str) -> Reply {
    reply().call(id, "run_shell_command", json!({"command": format!("echo {word} >> effects")}))
}

fn effects(tenon: &Tenon) -> Vec<String> {
    let text = std::fs::read_to_string(tenon.workspace().join("effects")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A run with effects, a rejected and an accepted answer, recorded whole.
fn recorded() -> (Tenon, PathBuf, Vec<u8>) {
    let server = Server::start([
        append("c1", "one").text("Ä first."),
        append("c2", "two").call("c3", "run_shell_command", json!({"command": "echo three >> effects"})),
        reply().call("s1", "structured_output", json!({"n": "no"})),
        reply().call("s2", "structured_output", json!({"n": 1})),
    ]);
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let tenon = tenon().args(["-y"]);
    tenon.clone().server(&server).args(["-p", "Do it", "--json-schema", schema]).run().assert_code(0);
    assert_eq!(effects(&tenon), ["one", "two", "three"]);
    let path = only_session(&tenon.tenon_home());
    let bytes = std::fs::read(&path).unwrap();
    (tenon, path, bytes)
}

/// Resumes a file that was cut to this length, and checks what every cut must keep.
fn resume_cut(tenon: &Tenon, path: &Path, whole: &[u8], cut: usize) {
    std::fs::write(path, &whole[..cut]).unwrap();
    let server = Server::start([reply().text("Resumed.")]);
    let run = tenon.clone().server(&server).args(["-r", &id_of(path), "-p", "Go on"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "Resumed.\n"), "cut at {cut}: {run}");
    assert_eq!(effects(tenon), ["one", "two", "three"], "cut at {cut}");
    let complete = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
    let before: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    // A record whose end of line alone is missing is complete too.
    let almost = before.get(complete).is_some_and(|line| {
        cut == before[..complete].iter().map(|line| line.len()).sum::<usize>() + line.len() - 1
    });
    let kept = complete + usize::from(almost);
    // Everything complete is still there, byte for byte, and the torn rest is aside.
    let now = std::fs::read(path).unwrap();
    let end: usize = before[..kept].iter().map(|line| line.len()).sum();
    assert!(now.starts_with(&whole[..end]) && now.ends_with(b"\n"), "cut at {cut}");
    records(path);
    let torn: Vec<PathBuf> = below(&tenon.tenon_home())
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(".torn-"))
        .collect();
    let rest = &whole[end.min(cut)..cut];
    match rest.is_empty() {
        true => assert_eq!(torn, Vec::<PathBuf>::new(), "cut at {cut}"),
        false => {
            assert_eq!(std::fs::read(&torn[0]).unwrap(), rest, "cut at {cut}");
            assert!(
                run.stderr.contains("half-written") && run.stderr.contains(".torn-1`"),
                "cut at {cut}: {run}"
            );
            std::fs::remove_file(&torn[0]).unwrap();
        }
    }
    // Every call that is known has an answer, and an honest one.
    let request = server.request(0);
    let stored: Vec<Value> =
        before[..kept].iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
    for (index, record) in stored.iter().enumerate().filter(|(_, record)| record["type"] == "assistant") {
        for part in record["message"]["parts"].as_array().unwrap() {
            let Some(id) = part["id"].as_str().filter(|_| part["terminal"] == false) else { continue };
            let after = &stored[index..];
            let result = after.iter().find(|record| record["message"]["parts"][0]["call_id"] == id);
            let started = after.iter().any(|record| record["call_id"] == id);
            let told = request.tool_result(id);
            match (result, started) {
                (Some(result), _) => {
                    assert_eq!(told, result["message"]["parts"][0]["content"].as_str().unwrap())
                }
                (None, true) => assert!(told.starts_with(INTERRUPTED), "cut at {cut}: {told}"),
                (None, false) => assert!(told.starts_with(NOT_RUN), "cut at {cut}: {told}"),
            }
        }
    }
    assert!(!request.body.to_string().contains("__redacted"), "cut at {cut}");
    // The second time there is nothing left to repair.
    let server = Server::start([reply().text("Again.")]);
    let run = tenon.clone().server(&server).args(["-r", &id_of(path), "-p", "Go on"]).run();
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "cut at {cut}: {run}");
    assert_eq!(effects(tenon), ["one", "two", "three"], "cut at {cut}");
}

#[test]
fn a_session_cut_at_any_record_resumes() {
    let (tenon, path, whole) = recorded();
    let mut cut = 0;
    resume_cut(&tenon, &path, &whole, 0);
    for line in whole.split_inclusive(|byte| *byte == b'\n') {
        cut += line.len();
        resume_cut(&tenon, &path, &whole, cut - 1);
        resume_cut(&tenon, &path, &whole, cut);
    }
}

#[test]
fn a_session_cut_at_any_byte_resumes() {
    let (tenon, path, whole) = recorded();
    // A generator of our own: the same cuts every time, spread over the file.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..cases(12) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        resume_cut(&tenon, &path, &whole, usize::try_from(state >> 33).unwrap() % whole.len());
    }
}

/// The real thing: the process is killed while a command runs.
#[test]
fn a_run_killed_in_mid_call_is_not_repeated() {
    for round in 0..cases(3).min(20) {
        let server = Server::start([
            append("c1", "one"),
            reply()
                .call("c2", "run_shell_command", json!({"command": "echo two >> effects; exec sleep 60"}))
                .call("c3", "run_shell_command", json!({"command": "echo three >> effects"})),
        ]);
        let tenon = tenon().args(["-y"]);
        let mut running = tenon.clone().server(&server).args(["-p", "Do it"]).spawn();
        while effects(&tenon).len() < 2 {
            std::thread::yield_now();
        }
        running.signal(Signal::Kill);
        assert_eq!(running.wait().code, 137);
        let server = Server::start([reply().text("Resumed.")]);
        let run = tenon.clone().server(&server).args(["-c", "-p", "Go on"]).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "Resumed.\n"), "round {round}: {run}");
        assert!(
            run.stderr.contains(
                "the last run was cut off during `run_shell_command`: it may or may not have taken effect"
            ),
            "{run}"
        );
        let request = server.request(0);
        assert!(
            request.tool_result("c2").starts_with(INTERRUPTED)
                && request.tool_result("c3").starts_with(NOT_RUN)
        );
        assert_eq!(effects(&tenon), ["one", "two"]);
    }
}

#[test]
fn a_broken_line_in_the_middle_is_skipped_and_kept() {
    let (tenon, path, whole) = recorded();
    let text = String::from_utf8(whole).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate().skip(1) {
        let broken = "x".repeat(line.len());
        let changed: Vec<&str> = lines
            .iter()
            .enumerate()
            .map(|(at, line)| if at == number { broken.as_str() } else { line })
            .collect();
        std::fs::write(&path, changed.join("\n") + "\n").unwrap();
        let server = Server::start([reply().text("Resumed.")]);
        let run = tenon.clone().server(&server).args(["-c", "-p", "Go on"]).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "Resumed.\n"), "line {number}: {run}");
        let kept = format!(
            "warning: 1 line of `{}` cannot be read and is left out; it is still there\n",
            path.display()
        );
        assert!(run.stderr.contains(&kept), "line {number}: {run}");
        assert!(std::fs::read_to_string(&path).unwrap().contains(&broken));
        assert_eq!(effects(&tenon), ["one", "two", "three"]);
        // What cannot be known is not claimed.
        assert!(!server.request(0).body.to_string().contains(NOT_RUN), "line {number}");
    }
}

#[test]
fn a_session_of_a_newer_version_is_not_touched() {
    let (tenon, path, whole) = recorded();
    let newer = String::from_utf8(whole).unwrap().replacen("\"format\":1", "\"format\":2", 1);
    std::fs::write(&path, &newer).unwrap();
    let server = Server::start([]);
    let run = tenon.clone().server(&server).args(["-c", "-p", "Go on"]).run();
    run.assert_code(42);
    assert!(run.stderr.contains("was written by a newer tenon (format 2, and this one reads 1)"), "{run}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
}

/// A shell that lets no file grow beyond so many blocks of 1024 bytes, around the run.
fn with_small_files(tenon: &Tenon, server: &Server, blocks: u32, flags: &[&str]) -> Run {
    let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let around = Tenon::new("/bin/bash")
        .cwd(tenon.workspace())
        .env("TENON_HOME", tenon.tenon_home())
        .args(["-c", &script, env!("CARGO_BIN_EXE_tenon")])
        .args(flags);
    around.server(server).run()
}

#[test]
fn a_full_disk_costs_the_recording_and_nothing_else() {
    // Each answer is larger than what is left at some point, so the write fails in the middle of a line.
    for size in [300, 700, 1500, 4000] {
        let filler = "x".repeat(size);
        let server = Server::start([
            append("c1", "one").text(&filler),
            append("c2", "two").text(&filler),
            append("c3", "three").text(&filler),
            reply().text("Done."),
        ]);
        let tenon = tenon();
        let run = with_small_files(&tenon, &server, 3, &["-y", "-p", "Do it", "-o", "stream-json"]);
        run.assert_code(0);
        assert_eq!(effects(&tenon), ["one", "two", "three"]);
        let result = result_of(&run);
        assert_eq!(result["result"], "Done.");
        let degraded: Vec<Value> = run
            .json_lines()
            .into_iter()
            .filter(|line| line["subtype"] == "session_recording_degraded")
            .collect();
        assert_eq!(degraded.len(), 1, "{size}: {run}");
        let data = &degraded[0]["data"];
        assert_eq!((&data["session_id"], &data["reason"]), (&result["session_id"], &json!("write_failed")));
        assert_eq!(result["warnings"], json!([data["message"]]));
        assert_eq!(run.stderr.matches("warning: ").count(), 1, "{run}");
        let message = data["message"].as_str().unwrap();
        assert!(
            message.contains("is not recorded any further") && message.contains("File too large"),
            "{message}"
        );
        // What is there is whole, resumes, and claims nothing that was not recorded.
        let path = only_session(&tenon.tenon_home());
        assert_eq!(records(&path)[0]["recording"], "degraded");
        let server = Server::start([reply().text("Resumed.")]);
        let run = tenon.clone().server(&server).args(["-c", "-p", "Go on"]).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "Resumed.\n"), "{run}");
        assert!(!server.request(0).body.to_string().contains(NOT_RUN));
        assert!(
            server.request(0).user_text().contains("was not recorded. Look before you repeat anything.]")
        );
        assert!(run.stderr.contains("what it did after that is not in the session"), "{run}");
        assert_eq!(records(&path)[0]["recording"], "complete");
        assert_eq!(effects(&tenon), ["one", "two", "three"]);
    }
}

#[test]
fn a_home_that_cannot_be_written_is_told_once() {
    for (home, message) in [
        ("file/home", "cannot be written, so the session is not recorded, and outputs too large"),
        ("", "the session is not recorded: there is no home folder (neither `TENON_HOME` nor `HOME` is set)"),
    ] {
        let server = Server::start([append("c1", "one"), reply().text("Done.")]);
        let tenon = tenon().file("file", "").server(&server).env("TENON_HOME", home).env("HOME", "");
        let run = tenon.clone().args(["-y", "-p", "Do it", "-o", "stream-json"]).run();
        run.assert_code(0);
        assert_eq!(run.stderr.matches("warning: ").count(), 1, "{run}");
        assert!(run.stderr.contains(message), "{run}");
        let degraded =
            run.json_lines().iter().filter(|line| line["subtype"] == "session_recording_degraded").count();
        assert_eq!((degraded, result_of(&run)["warnings"].as_array().unwrap().len()), (1, 1));
    }
    // A file where the folder should be.
    let server = Server::start([reply().text("Done.")]);
    let tenon = tenon().server(&server).home_file("projects", "");
    let run = tenon.clone().args(["-p", "Do it"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "Done.\n"));
    assert!(run.stderr.starts_with("warning: the session is not recorded: `"), "{run}");
    assert_eq!(run.stderr.lines().count(), 1, "{run}");
}

#[test]
fn a_hundred_sessions_at_once() {
    let server = Server::start([
        append("c1", "x")
            .when(|body| body["messages"].as_array().is_some_and(|list| list.len() == 2))
            .forever(),
        reply().text("Done.").forever(),
    ]);
    let tenon = tenon().server(&server).args(["-y", "-q", "-p", "Do it"]);
    let waves = 4;
    for _ in 0..waves {
        let running: Vec<_> = (0..100 / waves).map(|_| tenon.spawn()).collect();
        for run in running {
            let run = run.wait();
            assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "Done.\n", ""));
        }
    }
    let files = super::sessions::session_files(&tenon.tenon_home());
    assert_eq!((files.len(), effects(&tenon).len()), (100, 100));
    for file in files {
        assert_eq!(records(&file).len(), 7);
    }
    let listed = super::tenon()
        .cwd(tenon.workspace())
        .env("TENON_HOME", tenon.tenon_home())
        .args(["sessions", "list", "--json"])
        .run()
        .json();
    assert_eq!(listed.as_array().unwrap().len(), 100);
}

/// Two that resume the same session: exactly one gets it.
#[test]
fn two_resumers_do_not_mix() {
    let gate = Gate::new();
    let server = Server::start([reply().text("One.")]);
    let tenon = tenon();
    tenon.clone().server(&server).args(["-p", "One"]).run().assert_code(0);
    let path = only_session(&tenon.tenon_home());
    let server = Server::start([reply().text("Two.").hold(&gate)]);
    let resumers: Vec<_> =
        (0..4).map(|_| tenon.clone().server(&server).args(["-c", "-p", "Two"]).spawn()).collect();
    server.wait_for_requests(1, Duration::from_secs(30));
    let mut waiting = resumers;
    // The others give up by themselves; the one with the session waits for its model.
    let mut refused = 0;
    while refused < 3 {
        let at = waiting.iter_mut().position(|run| run.has_ended());
        match at {
            Some(at) => {
                assert_eq!(waiting.remove(at).wait().code, 42);
                refused += 1;
            }
            None => std::thread::yield_now(),
        }
    }
    gate.open();
    waiting.remove(0).wait().assert_code(0);
    assert_eq!(records(&path).len(), 7);
}
