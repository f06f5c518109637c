//! Who is measured: tenon, `curl` doing the same exchange, and the peers named on the command line.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

const PROMPT: &str = "Audit";
const SCHEMA: &str = r#"{"type":"object","properties":{"risk":{"enum":["low","high"]}},"required":["risk"]}"#;
const API_KEY: &str = "test-key";
const MODEL: &str = "test-model";

pub enum Subject {
    Tenon { binary: PathBuf },
    Curl,
    Peer { name: String, command: String },
}

/// What it is asked to print.
#[derive(Clone, Copy, PartialEq)]
pub enum Output {
    Text,
    Stream,
    /// A stream with every delta in it.
    StreamOfDeltas,
}

/// The private folders of a benchmark.
pub struct Place {
    root: tempfile::TempDir,
}

impl Place {
    pub fn new() -> std::io::Result<Self> {
        let place = Self { root: tempfile::Builder::new().prefix("tenon-bench-").tempdir()? };
        std::fs::create_dir(place.workspace())?;
        std::fs::create_dir(place.home())?;
        std::fs::write(place.schema(), SCHEMA)?;
        Ok(place)
    }

    pub fn stderr(&self) -> PathBuf {
        self.root.path().join("stderr.txt")
    }

    /// The body that tenon posts; `curl` posts the same.
    pub fn request(&self) -> PathBuf {
        self.root.path().join("request.json")
    }

    /// The body that a run among many posts.
    pub fn request_of_many(&self) -> PathBuf {
        self.root.path().join("request-of-many.json")
    }

    fn schema(&self) -> PathBuf {
        self.root.path().join("schema.json")
    }

    pub fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub fn tenon_home(&self) -> PathBuf {
        self.home().join(".tenon")
    }
}

impl Subject {
    pub fn name(&self) -> &str {
        match self {
            Self::Tenon { .. } => "tenon",
            Self::Curl => "curl",
            Self::Peer { name, .. } => name,
        }
    }

    /// tenon for a client that drives it; its flags are still to come.
    pub fn session(&self, base_url: &str, place: &Place) -> Result<Command, Failure> {
        let Self::Tenon { binary } = self else { return Err(Failure::other("only tenon is greeted")) };
        let mut command = Command::new(binary);
        surround(&mut command, base_url, place);
        Ok(command)
    }

    pub fn command(&self, base_url: &str, output: Output, place: &Place) -> Command {
        let mut command = match self {
            Self::Tenon { binary } => tenon(binary, output),
            Self::Curl => curl(base_url, &place.request()),
            Self::Peer { command, .. } => {
                let mut shell = Command::new("sh");
                shell.args(["-c", command]);
                shell
            }
        };
        surround(&mut command, base_url, place);
        if let Self::Peer { .. } = self {
            command
                .env("BASE_URL", base_url)
                .env("PROMPT", PROMPT)
                .env("SCHEMA", SCHEMA)
                .env("SCHEMA_FILE", place.schema())
                .env("OUTPUT_FORMAT", if output == Output::Text { "text" } else { "stream-json" });
        }
        command
    }
}

/// The environment and the folder of everyone who is measured.
fn surround(command: &mut Command, base_url: &str, place: &Place) {
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", place.home())
        .env("TENON_HOME", place.tenon_home())
        .env("OPENAI_BASE_URL", base_url)
        .env("OPENAI_API_KEY", API_KEY)
        .env("OPENAI_MODEL", MODEL)
        .current_dir(place.workspace());
}

fn tenon(binary: &Path, output: Output) -> Command {
    let mut command = Command::new(binary);
    command.args(["-p", PROMPT, "--json-schema", SCHEMA]);
    match output {
        Output::Text => {}
        Output::Stream => _ = command.args(["-o", "stream-json"]),
        Output::StreamOfDeltas => _ = command.args(["-o", "stream-json", "--include-partial-messages"]),
    }
    command
}

fn curl(base_url: &str, request: &Path) -> Command {
    let mut command = Command::new("curl");
    command
        .args(["--silent", "--show-error", "--no-buffer", "--fail"])
        .args(["--header", "content-type: application/json", "--header", "expect:"])
        .args(["--header", &format!("authorization: Bearer {API_KEY}")])
        .args(["--data-binary", &format!("@{}", request.display())])
        .arg(format!("{base_url}/chat/completions"));
    command
}
