//! What we send is what the providers' own Python packages would send: real requests of real runs parse as
//! their request types, without a key that they do not have.

use std::path::{Path, PathBuf};
use std::process::Command;

use tenon_testkit::{Reply, Server, Tenon, Value, Wire, json, reply};

use crate::Failure;
use crate::peers::python::{self, Dependencies, Packages};
use crate::peers::workspace::{self, Binary};

pub const PROVIDERS: Packages = Packages {
    name: "providers",
    pins: &["openai==3.49.0", "anthropic==2.8.0", "google-genai==3.1.0"],
    dependencies: Dependencies::Installed,
};

pub fn run(binary: &Binary) -> Result<(), Failure> {
    let binary = binary.path()?;
    let python = python::with(&PROVIDERS)?;
    let folder = tempfile::Builder::new().prefix("tenon-requests-").tempdir()?;
    let mut files = Vec::new();
    for wire in Wire::ALL {
        for conversation in conversations(wire) {
            files.extend(capture(&binary, wire, conversation, folder.path())?);
        }
    }
    let status = Command::new(python).arg(workspace::script("request_types.py")).args(files).status()?;
    if status.success() { Ok(()) } else { Err(Failure::other("a request does not parse; see above")) }
}

struct Conversation {
    name: &'static str,
    flags: &'static [&'static str],
    replies: Vec<Reply>,
}

fn conversations(wire: Wire) -> Vec<Conversation> {
    let answer = json!({"risk": "low", "reasons": [{"text": "a \"quoted\" word", "line": 7}]});
    let bad = json!({"risk": "unknown"});
    // On this wire thinking comes from compatible servers only, in a field that the provider does not have.
    let thinking = match wire {
        Wire::Chat => reply(),
        _ => reply().reasoning("Two files.").signature("c2lnbmVk"),
    };
    let mut conversations = vec![
        Conversation {
            name: "tools",
            flags: &["--schema-nudge", "1"],
            replies: vec![
                thinking
                    .text("Reading.")
                    .call("call_1", "read_file", json!({"file_path": "a.txt"}))
                    .call("call_2", "list_directory", json!({"path": "."}))
                    .usage(100, 10),
                // A tool that fails, a tool that does not exist, an answer that does not fit.
                reply().call("call_3", "read_file", json!({"file_path": "missing.txt"})),
                reply().call("call_4", "no_such_tool", json!({})),
                reply().text("Here:").call("call_5", "structured_output", bad.clone()),
                // Reminded, and from here on forced.
                reply().text("Done."),
                reply().call("call_6", "structured_output", answer.clone()),
            ],
        },
        Conversation {
            name: "plain",
            flags: &["--core-tools", "read_file", "--system-prompt", ""],
            replies: vec![reply().call("call_1", "structured_output", answer.clone())],
        },
    ];
    // The Messages API has no response format, and the binary says so.
    if wire != Wire::Messages {
        conversations.push(Conversation {
            name: "format",
            flags: &["--schema-mode", "response-format"],
            replies: vec![
                reply().call("call_1", "read_file", json!({"file_path": "a.txt"})),
                reply().text(bad.to_string()),
                reply().text(answer.to_string()),
            ],
        });
    }
    conversations
}

/// Runs it and writes the body of each request into a file.
fn capture(
    binary: &Path,
    wire: Wire,
    conversation: Conversation,
    folder: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let Conversation { name, flags, replies } = conversation;
    let expected = replies.len();
    let server = Server::start(replies);
    Tenon::new(binary)
        .server_on(&server, wire)
        .file("a.txt", "hello\n")
        .args(["-p", "Audit a.txt", "--json-schema", &schema().to_string()])
        .args(flags)
        .run()
        .assert_code(0);
    let requests = server.requests();
    if requests.len() != expected {
        let count = requests.len();
        return Err(Failure::other(format!("{count} requests in `{name}`, not {expected}")));
    }
    let mut files = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        let file = folder.join(format!("{}-{name}-{number}.json", wire.name()));
        std::fs::write(&file, &request.raw)?;
        files.push(file);
    }
    Ok(files)
}

/// With something of everything that providers are particular about.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "risk": {"enum": ["low", "high"]},
            "reasons": {
                "type": "array",
                "items": {"$ref": "#/$defs/reason"}
            },
            "note": {"type": ["string", "null"], "maxLength": 100}
        },
        "required": ["risk"],
        "additionalProperties": false,
        "$defs": {
            "reason": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "line": {"type": "integer", "minimum": 1}},
                "required": ["text"]
            }
        }
    })
}
