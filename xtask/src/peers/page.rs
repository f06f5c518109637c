//! Pages of runs in a real browser: runs that completed, failed, were cancelled, still go on, or have fifty items, made by the
//! binary and opened by headless Chromium. The script is `page.mjs`; its pictures are in `target/peers/pages`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tenon_testkit::{Gate, Reply, Running, Server, Signal, Tenon, json, reply};

use crate::Failure;
use crate::peers::node;
use crate::peers::workspace::{Binary, script, target};

const PUPPETEER: &[&str] = &["puppeteer-core@25.16.0"];
/// A request that a run is to be at is there in milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

const RELEASE: &str = "
name: release
agents:
  tester:
    description: Runs the tests.
    resultSchema: { type: object, required: [passed], properties: { passed: { type: boolean } } }
steps:
  - { id: build, instructions: Build it. }
  - { id: test, agent: tester, dependsOn: [build], instructions: Test it. }
  - { id: docs, dependsOn: [build], instructions: Write the page. }
  - { id: notes, dependsOn: [test, docs], condition: steps.test.result.passed == true, instructions: Write the notes. }
  - { id: rollback, dependsOn: [test], condition: steps.test.result.passed == false, instructions: Roll back. }
";

const FIFTY: &str = "
name: fifty items
steps:
  - { id: list, instructions: List them. }
  - id: each
    dependsOn: [list]
    instructions: Do ${{ item }}.
    loop: { forEach: ITEMS, maxConcurrency: 5 }
  - { id: sum, dependsOn: [each], instructions: Sum up. }
";

const MIXED: &str = "
name: \"Everything – Prüfung & <notes> 発布\"
agents:
  lister:
    description: Lists.
    resultSchema: { type: object, required: [all], properties: { all: { type: array, items: { type: string } } } }
steps:
  - { id: look, agent: lister, instructions: Look around. }
  - { id: paint, dependsOn: [look], instructions: Paint it. }
  - { id: each, dependsOn: [look], instructions: 'Do ${{ item }}.', loop: { forEach: steps.look.result.all } }
  - { id: a-very-long-step-id-that-goes-on-and-on-until-sixty-four-charact, dependsOn: [paint, each], instructions: Go on. }
  - id: rounds
    dependsOn: [look]
    loop: { maxIterations: 2, steps: [{ id: write, instructions: Go on. }, { id: check, instructions: Go on., dependsOn: [write] }] }
  - { id: inc, dependsOn: [look], include: inc.yaml }
  - { id: broken, dependsOn: [paint], instructions: Break it. }
  - { id: after, dependsOn: [broken], instructions: Go on. }
  - { id: never, dependsOn: [paint], condition: \"steps.paint.content.contains('a literal that nobody says')\", instructions: Go on. }
";

const INCLUDED: &str = "
name: included
steps:
  - { id: one, instructions: Go on. }
  - { id: two, dependsOn: [one], instructions: Go on. }
";

pub fn run(binary: &Binary) -> Result<(), Failure> {
    let binary = binary.path()?;
    let browser = chromium()?;
    let folder = node::with("puppeteer", PUPPETEER)?;
    let file = folder.join("page.mjs");
    std::fs::copy(script("page.mjs"), &file)?;
    let pictures = target().join("peers").join("pages");
    std::fs::create_dir_all(&pictures)?;
    let pages = pages(&binary, &pictures)?;
    let mut node = Command::new("node");
    node.arg(&file).arg(browser).arg(&pictures).args(&pages).stdin(Stdio::null());
    println!("pictures: {}", pictures.display());
    match node.status()?.success() {
        true => Ok(()),
        false => Err(Failure::other("a page is not as it should be; see above")),
    }
}

/// A browser that shows no window.
fn chromium() -> Result<PathBuf, Failure> {
    let found = || {
        let names = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
        names.iter().map(PathBuf::from).find(|path| path.exists())
    };
    if let Some(path) = found() {
        return Ok(path);
    }
    println!("installing chromium");
    node::apt(&["chromium", "fonts-dejavu-core"]);
    found().ok_or_else(|| {
        Failure::other("a Chromium is needed (Debian: `chromium`), and could not be installed here")
    })
}

/// One page for each way a run can stand.
fn pages(binary: &Path, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let at = |task: &'static str| reply().when_contains(task);
    let odd = "Done. </pre></details><script>alert(1)</script> \u{202e}txt.exe";
    let passed = |passed: bool| {
        at("Test it.").text("Tested.").call("c1", "submit_result", json!({ "passed": passed }))
    };
    let beginning = || {
        vec![
            at("Build it.").text(odd).usage(1200, 80),
            at("Write the page.").text("# Page\n".repeat(2_000)).usage(900, 400),
        ]
    };
    let with = |more: Vec<Reply>| beginning().into_iter().chain(more).collect::<Vec<_>>();
    let mut pages = Vec::new();

    let completed =
        with(vec![passed(true).usage(2000, 90), at("Write the notes.").text("All good.").usage(500, 50)]);
    pages.extend(ended(binary, folder, ("completed", 0), RELEASE, completed)?);

    let failed = with(vec![at("Test it.").text("I would rather not.").repeat(2)]);
    pages.extend(ended(binary, folder, ("failed", 1), RELEASE, failed)?);

    let document = FIFTY.replace("ITEMS", &format!("{:?}", (0..50).collect::<Vec<u32>>()));
    let items = (0..50).map(|item| at("Do ").text(format!("Did {item}.")).usage(100, 10));
    let fifty =
        std::iter::once(at("List them.").text("Fifty.").usage(10, 1))
            .chain(items)
            .chain([at("Sum up.").text("Fifty were done.").usage(5000, 20)]);
    pages.extend(ended(binary, folder, ("fifty-items", 0), &document, fifty.collect())?);

    pages.extend(mixed(binary, folder)?);
    let hundred = (0..100).map(|step| {
        let after = if step < 10 {
            String::new()
        } else {
            format!("s{}, s{}", step - 10, (step - 10) / 10 * 10 + step * 7 % 10)
        };
        let after = if after.split(", ").collect::<std::collections::BTreeSet<_>>().len() == 2 {
            after
        } else {
            after.split(", ").next().unwrap_or_default().to_owned()
        };
        format!("  - {{ id: s{step}, instructions: Go on., dependsOn: [{after}] }}\n")
    });
    let document = format!("name: a hundred steps\nsteps:\n{}", hundred.collect::<String>());
    let answers = vec![at("Go on.").text("Done.").usage(100, 10).repeat(100)];
    pages.extend(ended(binary, folder, ("a-hundred-steps", 0), &document, answers)?);

    let gate = Gate::new();
    let held = || with(vec![passed(true).hold(&gate)]);
    let server = Server::start(held());
    let setup = setup(binary, &server, RELEASE);
    let running = under_way(&setup, &server);
    pages.extend(shown(&setup, folder, "running")?);
    end(running, Signal::Kill);
    pages.extend(shown(&setup, folder, "interrupted")?);

    let server = Server::start(held());
    let setup = self::setup(binary, &server, RELEASE);
    end(under_way(&setup, &server), Signal::Interrupt);
    pages.extend(shown(&setup, folder, "cancelled")?);
    gate.open();
    Ok(pages)
}

/// Messages, a coordinator, loops, an include, steps that failed and were skipped, long names.
fn mixed(binary: &Path, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let at = |task: &'static str| reply().when_contains(task);
    let send = |id: &str, to: &str| {
        (id.to_owned(), json!({ "to": to, "text": "A rather long message. ".repeat(20) }))
    };
    let (to_paint, to_nobody) = (send("a", "paint"), send("b", "nowhere"));
    let server = Server::start([
        at("the workflow ended").call("z", "finalize", json!({ "summary": "All was tried." })).usage(10, 1),
        at("## Forwardable steps").text("ok").usage(10, 1).repeat(100),
        at("Look around.")
            .call(&to_paint.0, "send_message", to_paint.1)
            .call(&to_nobody.0, "send_message", to_nobody.1)
            .call("c", "shared_memory_write", json!({ "key": "hours", "value": "9 to 6" })),
        at("Look around.").call("d", "submit_result", json!({ "all": ["p", "q", "r"] })).usage(10, 1),
        at("Paint it.").call("e", "send_message", json!({ "to": "look", "text": "Too late." })).usage(10, 1),
        at("Paint it.").text("Painted.").usage(10, 1),
        at("Break it.").status(400).json(json!({ "error": { "message": "no" } })),
        at("Go on.").text("Went on.\n".repeat(3_000)).usage(10, 1).repeat(20),
        // After the others: the words are in every prompt.
        at("Do ").text("Did it.").usage(10, 1).repeat(3),
    ]);
    let setup = setup(binary, &server, MIXED).file("inc.yaml", INCLUDED);
    let run =
        setup.clone().args(["flow", "run", "flow.yaml", "--run-id", "run_1", "-q", "--coordinator"]).run();
    run.assert_code(1);
    shown(&setup, folder, "mixed")
}

fn setup(binary: &Path, server: &Server, document: &str) -> Tenon {
    Tenon::new(binary).server(server).file("flow.yaml", document)
}

fn ended(
    binary: &Path,
    folder: &Path,
    (name, code): (&str, i32),
    document: &str,
    replies: Vec<Reply>,
) -> Result<Vec<PathBuf>, Failure> {
    let server = Server::start(replies);
    let setup = setup(binary, &server, document);
    setup.clone().args(["flow", "run", "flow.yaml", "--run-id", "run_1", "-q"]).run().assert_code(code);
    shown(&setup, folder, name)
}

/// A run whose test is being waited for, everything else done.
fn under_way(setup: &Tenon, server: &Server) -> Running {
    let mut running = setup.clone().args(["flow", "run", "flow.yaml", "--run-id", "run_1"]).spawn();
    server.wait_for_requests(3, PATIENCE);
    running.wait_for_stderr("step docs: completed");
    running
}

fn end(mut running: Running, signal: Signal) {
    running.signal(signal);
    running.wait();
}

/// The page without and with what was said.
fn shown(setup: &Tenon, folder: &Path, name: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut pages = Vec::new();
    for (suffix, flags) in [("", &[][..]), ("-payloads", &["--payloads"])] {
        let page = folder.join(format!("{name}{suffix}.html"));
        let file = page.display().to_string();
        let run = setup.clone().args(["flow", "show", "run_1", "--html", &file]).args(flags).run();
        if run.code != 0 {
            return Err(Failure::other(format!("no page of the run that is {name}\n{run}")));
        }
        pages.push(page);
    }
    Ok(pages)
}
