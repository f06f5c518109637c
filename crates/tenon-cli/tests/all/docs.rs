//! Runs every example of the user documentation. Its tables are compared with the program in `docs_tables.rs`.
//!
//! A page is a story: its blocks share one private workspace, in their order. What a block is for stands
//! in HTML comments before it, which readers do not see:
//!
//! - ` ```sh ` is run by bash, with `tenon` in `PATH` and a scripted model. `<!-- model … -->` holds the
//!   model's answers, one in each line (`text WORDS`, `call TOOL JSON`, `status CODE`; `&&` joins several);
//!   `<!-- exit CODE -->` says how it ends, unless with 0.
//! - ` ```json ` or ` ```text ` after it is its stdout, with `<!-- stderr -->` its stderr. Ids, times and
//!   durations need not be the same; JSON that is written over more lines is compared by value.
//! - `<!-- file NAME -->` puts the block into a file; `<!-- file NAME`, text, `-->` does so unseen.
//! - `<!-- schema -->`, `<!-- no schema -->`, `<!-- settings -->`: tenon accepts, refuses, accepts it.
//! - `<!-- golden … -->`: it is of a golden file (`docs_golden.rs`).
//! - `<!-- needs PROGRAM -->`: where the program is missing, the block and its output are left out.
//! - `<!-- norun: WHY -->`: it cannot be tried here.
//!
//! A block that is none of these fails.

use std::path::{Path, PathBuf};

use tenon_testkit::{Reply, Run, Server, Tenon, Value, reply, scrub};

/// Where the reader's project is in what the pages show.
const PROJECT: &str = "/home/you/project";
const HOME: &str = "/home/you";

#[test]
fn structured_output_guide() {
    check_page("docs/guides/structured-output.md");
}

#[test]
fn tools_and_permissions_guide() {
    check_page("docs/guides/tools-and-permissions.md");
}

#[test]
fn hooks_guide() {
    check_page("docs/guides/hooks.md");
}

#[test]
fn mcp_guide() {
    check_page("docs/guides/mcp.md");
}

#[test]
fn commands_guide() {
    check_page("docs/guides/commands.md");
}

#[test]
fn driving_guide() {
    check_page("docs/guides/driving-tenon.md");
    check_page("docs/reference/dialects.md");
    check_page("docs/reference/dialect-qwen.md");
    check_page("docs/reference/dialect-claude.md");
    check_page("docs/reference/dialect-gemini.md");
    check_page("docs/reference/dialect-openai.md");
    check_page("docs/guides/migration.md");
}

#[test]
fn scripting_guide() {
    check_page("docs/guides/scripting.md");
}

#[test]
fn sdk_guide() {
    check_page("docs/guides/sdks.md");
    check_page("docs/reference/sdk-flags.md");
}

#[test]
fn models_and_providers_guide() {
    check_page("docs/guides/models-and-providers.md");
    check_page("docs/guides/embedded-model.md");
}

#[test]
fn sessions_guide() {
    check_page("docs/guides/sessions.md");
    check_page("docs/reference/session-files.md");
}

#[test]
fn record_and_replay_guide() {
    check_page("docs/guides/record-and-replay.md");
}

#[test]
fn observability_guide() {
    check_page("docs/guides/observability.md");
}

#[test]
fn workflows_guide() {
    check_page("docs/guides/workflows.md");
    check_page("docs/guides/workflow-examples.md");
    // Its tables are compared by `tenon-flow`.
    check_page("docs/reference/workflow-document.md");
}

#[test]
fn running_workflows_guide() {
    check_page("docs/guides/running-workflows.md");
    check_page("docs/guides/resuming-workflows.md");
    check_page("docs/guides/approvals.md");
    check_page("docs/reference/flow-events.md");
    check_page("docs/concepts/agents-that-talk.md");
    check_page("docs/guides/goals.md");
}

#[test]
fn concepts() {
    check_page("docs/concepts/command-rules.md");
    check_page("docs/concepts/contract.md");
    check_page("docs/concepts/cost-and-context.md");
    if tenon_tools::KernelSupport::here().landlock > 0 {
        check_page("docs/concepts/sandbox.md");
    }
    check_page("docs/concepts/sub-agents.md");
    check_page("docs/concepts/trust.md");
    // Its examples are run, and its tables tried, by `tenon-flow`.
    check_page("docs/concepts/workflow-execution.md");
}

#[test]
fn reference() {
    check_page("docs/reference/agent-files.md");
    check_page("docs/reference/command-line.md");
    check_page("docs/reference/exit-codes.md");
    check_page("docs/reference/settings.md");
    check_page("docs/reference/output.md");
    check_page("docs/reference/shell.md");
}

#[test]
fn tools_reference() {
    check_page("docs/reference/tools.md");
}

/// So that a new page cannot be forgotten above.
#[test]
fn pages_without_a_test_have_no_examples() {
    let tested = include_str!("docs.rs");
    for page in pages() {
        let name = page.strip_prefix(root()).unwrap().display().to_string();
        // Records of decisions and of measurements, not examples to paste.
        if name.starts_with("docs/design/") || name == "docs/benchmarks.md" {
            continue;
        }
        let has_blocks = !blocks(&name).is_empty();
        assert!(!has_blocks || tested.contains(&format!("check_page(\"{name}\")")), "{name} is not tested");
    }
}

#[test]
fn the_readme_shows_what_its_commands_print() {
    let blocks: Vec<Block> = read("README.md")
        .split_terminator("```sh\n")
        .skip(1)
        .map(|rest| Block::shell("README.md", rest))
        .collect();
    let audit = |name: &str| std::fs::read(root().join("examples/audit").join(name)).unwrap();
    let world = world()
        .file("audit.json", audit("schema.json"))
        .file("change.diff", audit("change.diff"))
        .file("examples/audit/schema.json", audit("schema.json"))
        .file("examples/audit/change.diff", audit("change.diff"))
        .file("examples/audit/cassette.jsonl", audit("cassette.jsonl"));
    let replayed = blocks.iter().find(|block| block.text.contains("--replay")).expect("the replay");
    let shown = read("README.md").split("```json\n").nth(1).unwrap().split("```").next().unwrap().to_owned();
    let command = replayed.text.replace("cargo run -q -p tenon-cli -- ", "tenon ");
    let run = shell(&world, &command, &[]);
    assert_eq!((run.code, run.stdout.as_str()), (0, shown.as_str()), "{run}");

    if !has_jq() {
        return;
    }
    let first = format!("call structured_output {shown}");
    let run = shell(&world, &blocks[0].text, &[first.trim_end().to_owned()]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "high\n"), "{run}");
}

#[test]
fn every_link_leads_somewhere() {
    let mut seen = 0;
    for page in pages().into_iter().chain([root().join("README.md")]) {
        let text = std::fs::read_to_string(&page).unwrap();
        for (link, _) in
            text.match_indices("](").map(|(at, _)| &text[at + 2..]).filter_map(|rest| rest.split_once(')'))
        {
            if link.contains("://") {
                continue;
            }
            let (path, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(target.exists(), "{}: `{link}` leads nowhere", page.display());
            if !place.is_empty() {
                let headings = std::fs::read_to_string(&target).unwrap();
                let known =
                    headings.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == place);
                assert!(known, "{}: no heading for `{link}`", page.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} links");
}

/// A fenced block and the comments before it.
struct Block {
    place: String,
    language: String,
    text: String,
    notes: Vec<String>,
}

impl Block {
    fn shell(page: &str, rest: &str) -> Block {
        let text = rest.split("```").next().unwrap().to_owned();
        Block { place: page.to_owned(), language: "sh".to_owned(), text, notes: Vec::new() }
    }

    fn is(&self, word: &str) -> bool {
        self.notes.iter().any(|note| note == word)
    }

    /// The model's answers, one in each line.
    fn answers(&self) -> Vec<String> {
        self.note("model")
            .into_iter()
            .flat_map(str::lines)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// What stands behind the first word of a note.
    fn note(&self, word: &str) -> Option<&str> {
        self.notes.iter().find_map(|note| note.strip_prefix(word)).map(|rest| rest.trim_start_matches(' '))
    }
}

#[track_caller]
fn check_page(page: &str) {
    let blocks = blocks(page);
    // Readers have jq; a machine that only builds tenon may not.
    if !has_jq() && blocks.iter().any(|block| block.text.contains("jq ")) {
        return;
    }
    let world = world();
    let mut last: Option<(Run, Exact)> = None;
    let mut left_out = false;
    for block in blocks {
        let Block { place, language, text, .. } = &block;
        if language == "json" {
            values(text).unwrap_or_else(|error| panic!("{place}: not JSON: {error}"));
        }
        let is_file = write_files(&world, &block);
        if let Some(program) = block.note("needs").filter(|program| !has_program(program)) {
            #[expect(clippy::print_stderr, reason = "whoever reads the test's output wants to know")]
            {
                eprintln!("{place}: left out, because there is no `{program}` here");
            }
            left_out = true;
            continue;
        }
        if let Some(why) = block.note("norun:") {
            assert!(!why.is_empty(), "{place}: `norun` without a reason");
        } else if block.note("golden").is_some() {
            // `docs_golden.rs` compares it.
        } else if language == "sh" {
            let run = shell(&world, text, &block.answers());
            let expected = block.note("exit").map_or(0, |code| code.parse().unwrap());
            assert_eq!(run.code, expected, "{place}\n{run}");
            left_out = false;
            last = Some((run, if text.contains("jq ") { Exact::Values } else { Exact::Text }));
        } else if block.is("schema") || block.is("no schema") {
            let run = world.clone().args(["-c", "tenon schema check \"$0\"", text]).run();
            assert_eq!(run.code, if block.is("schema") { 0 } else { 52 }, "{place}\n{run}");
        } else if block.is("settings") {
            // The example may name a model of its own, which is not here.
            let script = format!("tenon -p hi --settings '{text}' --model openai/gpt-5-mini");
            let run = shell(&world, &script, &["text Hello.".to_owned()]);
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{place}\n{run}");
        } else if !is_file {
            if left_out {
                continue;
            }
            let (run, exact) = last.as_ref().unwrap_or_else(|| panic!("{place}: neither run nor marked"));
            let actual = if block.is("stderr") { &run.stderr } else { &run.stdout };
            let is_same = same(text, actual, *exact);
            assert!(is_same, "{place}: the page shows\n{text}\nbut it is\n{}\n{run}", shown(actual));
        }
    }
}

/// Writes the files that the comments before a block name. True if the block itself is one.
fn write_files(world: &Tenon, block: &Block) -> bool {
    let mut is_file = false;
    for note in block.notes.iter().filter_map(|note| note.strip_prefix("file ")) {
        let (name, text) = match note.split_once('\n') {
            Some((name, unseen)) => (name, format!("{unseen}\n")),
            None => (note, block.text.clone()),
        };
        is_file |= name == note;
        let world = world.clone();
        match name.strip_prefix("~/.tenon/") {
            Some(name) => world.home_file(name, text),
            None => world.file(name, text),
        };
    }
    is_file
}

/// A reader's shell, in a folder of its own.
fn world() -> Tenon {
    let binary = Path::new(env!("CARGO_BIN_EXE_tenon"));
    let mut path = binary.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    Tenon::new("bash").env("PATH", path).env("TENON_MODEL", "gpt-5-mini").env("NO_COLOR", "1")
}

fn has_jq() -> bool {
    has_program("jq")
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Runs a script against a model that gives these answers, all of them.
#[track_caller]
fn shell(world: &Tenon, script: &str, answers: &[String]) -> Run {
    let server = Server::start(answers.iter().enumerate().map(|(number, answer)| scripted(number, answer)));
    let run = world
        .clone()
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["-e", "-o", "pipefail", "-c", script])
        .run();
    server.assert_script_done();
    run
}

fn scripted(number: usize, answer: &str) -> Reply {
    answer.split(" && ").enumerate().fold(reply().usage(1200, 80), |said, (at, part)| {
        let (kind, rest) = part.split_once(' ').unwrap_or((part, ""));
        match (kind, rest.split_once(' ')) {
            ("text", _) => said.text(rest),
            ("cut", _) => said.text(rest).finish("length"),
            ("status", _) => said.status(rest.parse().unwrap()),
            ("call", Some((tool, arguments))) => {
                said.call_raw(&format!("call_{number}_{at}"), tool, arguments)
            }
            _ => panic!("`{part}` is nothing a model can answer"),
        }
    })
}

/// How much of what is shown must be so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exact {
    /// Every character, unless a page spreads JSON over more lines.
    Text,
    /// jq writes `1.0` as it likes.
    Values,
}

/// Equal up to what differs from run to run.
fn same(page: &str, actual: &str, exact: Exact) -> bool {
    let (page, actual) = (shown(page), shown(actual));
    let by_value = exact == Exact::Values || page.lines().count() > actual.lines().count();
    page == actual
        || by_value && matches!((values(&page), values(&actual)), (Ok(left), Ok(right)) if left == right)
}

fn shown(text: &str) -> String {
    // A bare `<ms>` would be no JSON.
    scrub(text).replace("<cwd>", PROJECT).replace("<home>", HOME).replace("<ms>", "0")
}

fn values(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    serde_json::Deserializer::from_str(text).into_iter().map(|value| value.map(with_plain_numbers)).collect()
}

fn with_plain_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Null, |number| number.to_string().into()),
        Value::Array(items) => items.into_iter().map(with_plain_numbers).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (name, with_plain_numbers(member))).collect()
        }
        other => other,
    }
}

/// The blocks of a page. A comment belongs to the block that follows it.
fn blocks(page: &str) -> Vec<Block> {
    let text = read(page);
    let mut lines = text.lines().enumerate();
    let (mut blocks, mut notes) = (Vec::new(), Vec::new());
    while let Some((number, line)) = lines.next() {
        let place = format!("{page}:{}", number + 1);
        if let Some(first) = line.strip_prefix("<!--") {
            let mut note = first.to_owned();
            while !note.ends_with("-->") {
                note.push('\n');
                note.push_str(lines.next().unwrap_or_else(|| panic!("{place}: the comment has no end")).1);
            }
            notes.push(note.trim_end_matches("-->").trim().to_owned());
        } else if let Some(language) = line.strip_prefix("```") {
            let body: String = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "```")
                .fold(String::new(), |body, line| body + line + "\n");
            blocks.push(Block {
                place,
                language: language.to_owned(),
                text: body,
                notes: std::mem::take(&mut notes),
            });
        } else {
            assert!(!line.trim_start().starts_with("```"), "{place}: blocks start at the margin");
            assert!(
                line.is_empty() || notes.is_empty(),
                "{place}: the comment before this belongs to a block"
            );
        }
    }
    blocks
}

/// The place a heading can be linked to, as most sites make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>()
        .replace(' ', "-")
}

/// Every page of the documentation.
pub fn pages() -> Vec<PathBuf> {
    let mut folders = vec![root().join("docs")];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

pub fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
