//! The embedded model: the real weights are pulled and answer the examples, and llama.cpp makes the same of the same files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tenon_local::{Measured, measure};
use tenon_testkit::{Tenon, TinyFamily, TinyFormat, TinyModel, json};

use crate::Failure;
use crate::peers::checks::{self, Check, right};
use crate::peers::llama_file::LlamaFile;
use crate::peers::workspace::{self, Binary};

/// A download of a hundred megabytes, or an answer on a busy machine.
const RUN_LIMIT: Duration = Duration::from_secs(600);
/// Texts that tokenizers cut differently.
const TEXTS: [&str; 12] = [
    "Hello world, how are you?",
    "it's 12345 and we'll see; I'd say 3.14159!",
    "  two spaces\n\n\tand a tab  ",
    "{\"name\": \"Anna\", \"age\": 34, \"tags\": [\"a\", \"b\"]}",
    "Straße, naïve café, Größe — “quoted” … 東京 Москва",
    "emoji 😀👩‍👩‍👧 and ½ Ⅷ ² numbers",
    "def f(x):\n    return x**2  # comment\n",
    "https://example.org/a?b=c&d=%20#e",
    "ALL CAPS AND camelCaseWords_with_underscores",
    "\r\nwindows\r\nlines\r\n",
    "a\u{a0}b\u{3000}c",
    "x",
];

const CHECKS: &[(&str, Check<Peer>)] = &[
    ("the weights are pulled", pulled),
    ("a sentence becomes a person", |peer| example(peer, "person")),
    ("a yes or no with a reason", |peer| example(peer, "weather")),
    ("a list of items", |peer| example(peer, "shopping")),
    ("the tokens of llama.cpp", same_tokens),
    ("a Llama says what llama.cpp says", |peer| same_answers(peer, TinyFamily::Llama)),
    ("a Qwen2 says what llama.cpp says", |peer| same_answers(peer, TinyFamily::Qwen2)),
    ("a Qwen3 says what llama.cpp says", |peer| same_answers(peer, TinyFamily::Qwen3)),
];

pub fn run(binary: &Binary) -> Result<(), Failure> {
    let peer = Peer { binary: binary.path()?, home: home(), files: tempfile::tempdir()? };
    checks::perform(CHECKS, &peer)
}

/// Where the jobs keep weights.
pub fn home() -> PathBuf {
    workspace::target().join("peers").join("home")
}

struct Peer {
    binary: PathBuf,
    /// Kept between runs: the weights are in it.
    home: PathBuf,
    files: tempfile::TempDir,
}

impl Peer {
    fn tenon(&self) -> Tenon {
        let inherited =
            std::env::vars().filter(|(name, _)| name == "PATH" || name.starts_with("PIP_") || name == "HOME");
        let tenon = inherited.fold(Tenon::new(&self.binary), |tenon, (name, value)| tenon.env(&name, value));
        tenon.env("TENON_HOME", &self.home).limit(RUN_LIMIT)
    }
}

fn pulled(peer: &Peer) -> Result<String, Failure> {
    let run = peer.tenon().args(["local", "pull"]).run();
    right(run.code == 0, &run, run.stderr.lines().last().unwrap_or_default().to_owned())
}

fn example(peer: &Peer, name: &str) -> Result<String, Failure> {
    let folder = workspace::root().join("examples/first-run").join(name);
    let schema = std::fs::read_to_string(folder.join("schema.json"))?;
    let text = std::fs::read_to_string(folder.join("text.txt"))?;
    let prompt = std::fs::read_to_string(folder.join("prompt.txt"))?;
    let asked = peer.tenon().args(["-m", "local", "-p", prompt.trim(), "--json-schema", &schema]);
    let run = asked.stdin(text).run();
    let contract =
        tenon_contract::Schema::compile(&schema).map_err(|error| Failure::other(error.to_string()))?;
    right(run.code == 0 && contract.check(&run.stdout).is_ok(), &run, run.stdout.trim().to_owned())
}

fn same_tokens(peer: &Peer) -> Result<String, Failure> {
    let weights = peer.home.join("models/smollm2-135m.gguf");
    let server = LlamaFile::start(&weights)?;
    for text in TEXTS {
        let asked = json!({"content": text, "add_special": false, "parse_special": true});
        let theirs = server.post("/tokenize", &asked)?["tokens"].clone();
        let ours = measured(&weights, text)?.prompt;
        if theirs != json!(ours) {
            return Err(Failure::other(format!("{text:?}: {ours:?} here, {theirs} there")));
        }
    }
    Ok(format!("{} texts", TEXTS.len()))
}

/// The first token after many prompts: the arithmetic of a whole pass, with another path through the weights each time.
fn same_answers(peer: &Peer, family: TinyFamily) -> Result<String, Failure> {
    const PROMPTS: usize = 24;
    let file = peer.files.path().join(format!("{family:?}.gguf"));
    std::fs::write(&file, TinyModel { family, format: TinyFormat::Q8_0, seed: 7 }.bytes())?;
    let server = LlamaFile::start(&file)?;
    let mut same = 0;
    for number in 0..PROMPTS {
        let text = format!("<|im_start|>user\nthe {} of water {number}", "long time ".repeat(number));
        let asked = json!({"prompt": text, "n_predict": 1, "temperature": 0, "cache_prompt": false, "return_tokens": true});
        let theirs = server.post("/completion", &asked)?;
        same += usize::from(match measured(&file, &text)?.answer.first() {
            Some(token) => theirs["tokens"][0] == json!(token),
            // A special token: neither of them writes one.
            None => theirs["content"] == "",
        });
    }
    // Two scores that are nearly the same may come out either way: the activations are rounded elsewhere.
    match same * 10 >= PROMPTS * 9 {
        true => Ok(format!("{same} of {PROMPTS}")),
        false => Err(Failure::other(format!("only {same} of {PROMPTS}"))),
    }
}

fn measured(file: &Path, text: &str) -> Result<Measured, Failure> {
    measure(file, text, 1, 1, None).map_err(|error| Failure::other(error.to_string()))
}
