//! Every line of the `openai` dialect that has an `object` is what the `openai` package says it is: checked by
//! that package's own types, for the golden files and for runs of the binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use tenon_testkit::{Reply, Server, Tenon, json, reply};

use crate::Failure;
use crate::peers::python;
use crate::peers::request_types::PROVIDERS;
use crate::peers::workspace::{self, Binary};

/// The folder of golden files of the dialect.
const GOLDEN: &str = "crates/tenon-wire/tests/golden/openai";

pub fn run(binary: &Binary) -> Result<(), Failure> {
    let binary = binary.path()?;
    let python = python::with(&PROVIDERS)?;
    let folder = tempfile::Builder::new().prefix("tenon-lines-").tempdir()?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(workspace::root().join(GOLDEN))? {
        let file = entry?.path();
        // Plain text is of no dialect.
        if file.extension().is_some_and(|extension| extension != "text") {
            files.push(file);
        }
    }
    files.extend(live(&binary, folder.path())?);
    let status = Command::new(python).arg(workspace::script("openai_lines.py")).args(files).status()?;
    if status.success() { Ok(()) } else { Err(Failure::other("a line does not parse; see above")) }
}

/// What runs of the binary print, in every format of the dialect.
fn live(binary: &Path, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    const SCHEMA: &str =
        r#"{"type":"object","properties":{"risk":{"enum":["low","high"]}},"required":["risk"]}"#;
    let read =
        || reply().text("Reading.").call("c1", "read_file", json!({"file_path": "a.txt"})).usage(100, 10);
    let conversations: [(&str, &[&str], Vec<Reply>); 4] = [
        ("text", &[], vec![reply().reasoning("Hm.").text("Hello.").usage(10, 3)]),
        ("tool", &[], vec![read(), reply().text("It says hello.")]),
        (
            "structured",
            &["--json-schema", SCHEMA],
            vec![
                read(),
                reply().call("c2", "structured_output", json!({"risk": "unknown"})),
                reply().call("c3", "structured_output", json!({"risk": "low"})),
            ],
        ),
        ("failure", &["--max-session-turns", "1"], vec![read()]),
    ];
    let mut files = Vec::new();
    for (name, flags, replies) in conversations {
        for format in ["json", "stream-json", "stream-chunk-json"] {
            let server = Server::start(replies.clone());
            let run = Tenon::new(binary)
                .server(&server)
                .file("a.txt", "hello\n")
                .args(["-p", "Audit a.txt", "--dialect", "openai", "-o", format])
                .args(flags)
                .run();
            if run.json_lines().is_empty() {
                return Err(Failure::other(format!("nothing was printed\n{run}")));
            }
            let file = folder.join(format!("{name}-{format}.jsonl"));
            std::fs::write(&file, &run.stdout)?;
            files.push(file);
        }
    }
    Ok(files)
}
