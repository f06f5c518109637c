//! The binary with a server behind TLS and a proxy, both Python's: whom it trusts, which way it goes, and who
//! gets to see the key.

use std::cell::RefCell;
use std::path::PathBuf;

use tempfile::TempDir;
use tenon_testkit::{Run, Tenon, Value, json};

use crate::Failure;
use crate::peers::checks::{self, Check, result, right};
use crate::peers::python::{self, Dependencies, Packages};
use crate::peers::script::Script;
use crate::peers::workspace::Binary;

const CERTIFICATES: Packages = Packages {
    name: "certificates",
    pins: &["trustme==1.2.1", "cryptography==50.0.2"],
    dependencies: Dependencies::Installed,
};
const KEY: &str = "key-that-only-the-server-may-see";
const SCHEMA: &str = r#"{"type":"object","properties":{"risk":{"enum":["low","high"]}},"required":["risk"]}"#;
/// In the certificate, and known to nobody but the proxy.
const REMOTE: &str = "tenon.test";
/// A name that is not found is not found again; nothing else here is tried again anyway.
const ONCE: &str = r#"{"retry":{"attempts":1}}"#;

const CHECKS: &[(&str, Check<Peer>)] = &[
    ("an authority that is named is trusted", named_authority),
    ("an authority that is not known is not trusted", unknown_authority),
    ("a certificate for another name is not trusted", another_name),
    ("a file without a certificate is a mistake in the configuration", garbage),
    ("a broken certificate in the file is one too", broken_certificate),
    ("the proxy sees where, and not what", through_proxy),
    ("behind the proxy an unknown authority is not trusted", unknown_authority_behind_proxy),
    ("this machine is reached without the proxy", loopback_is_direct),
    ("hosts in `NO_PROXY` are reached without the proxy", no_proxy_is_direct),
];

pub fn run(binary: &Binary) -> Result<(), Failure> {
    let binary = binary.path()?;
    let python = python::with(&CERTIFICATES)?;
    let folder = tempfile::Builder::new().prefix("tenon-tls-").tempdir()?;
    let authority = folder.path().join("authority.pem");
    let script = Script::start(&python, "tls_server", [&authority])?;
    let (server, proxy) = (script.port_after("server ")?, script.port_after("proxy ")?);
    let peer = Peer { binary, authority, folder, server, proxy, script: RefCell::new(script) };
    checks::perform(CHECKS, &peer)
}

struct Peer {
    binary: PathBuf,
    /// The certificate that has signed the server's.
    authority: PathBuf,
    folder: TempDir,
    server: u16,
    proxy: u16,
    script: RefCell<Script>,
}

impl Peer {
    /// Asks the server by this name, and trusts whom the system trusts.
    fn tenon(&self, host: &str) -> Tenon {
        Tenon::new(&self.binary)
            .env("OPENAI_BASE_URL", format!("https://{host}:{}/v1", self.server))
            .env("OPENAI_API_KEY", KEY)
            .env("OPENAI_MODEL", "test-model")
            .args(["-p", "How risky?", "--json-schema", SCHEMA, "-o", "json"])
    }

    fn trusting(&self, host: &str) -> Tenon {
        self.tenon(host).env("SSL_CERT_FILE", &self.authority)
    }

    fn proxy(&self) -> String {
        format!("http://127.0.0.1:{}", self.proxy)
    }

    /// What happened at the other end since the last time.
    fn seen(&self) -> Result<Seen, Failure> {
        let mut script = self.script.borrow_mut();
        script.write_line("")?;
        let line = script.line_after("seen ")?;
        let seen: Value = line.parse().map_err(|_| Failure::other(format!("`{line}` is not JSON")))?;
        if seen["open"] != 0 {
            return Err(Failure::other("a connection of an ended run is still open"));
        }
        Ok(Seen(seen))
    }
}

struct Seen(Value);

impl Seen {
    /// One request, with the key.
    fn one_request(&self) -> bool {
        self.0["keys"] == json!([format!("Bearer {KEY}")]) && self.0["refused"] == json!([])
    }

    /// The binary broke off before it said anything, and did not come back.
    fn one_refusal(&self) -> bool {
        self.0["keys"] == json!([]) && self.0["refused"].as_array().is_some_and(|refused| refused.len() == 1)
    }

    fn no_connection(&self) -> bool {
        self.0["keys"] == json!([]) && self.0["refused"] == json!([]) && self.no_proxy()
    }

    fn no_proxy(&self) -> bool {
        self.0["connects"] == json!([])
    }

    /// One tunnel to this address, and nothing readable in it.
    fn one_tunnel(&self, host: &str, port: u16) -> bool {
        let sent = self.0["through_proxy"].as_str().unwrap_or_default();
        self.0["connects"] == json!([format!("CONNECT {host}:{port}")])
            && !sent.contains(KEY)
            && !sent.to_lowercase().contains("authorization")
    }
}

fn named_authority(peer: &Peer) -> Result<String, Failure> {
    let run = peer.trusting("localhost").run();
    let seen = peer.seen()?;
    payload(&run, seen.one_request() && seen.no_proxy(), &seen)
}

fn unknown_authority(peer: &Peer) -> Result<String, Failure> {
    let run = peer.tenon("localhost").run();
    not_trusted(&run, &peer.seen()?)
}

fn another_name(peer: &Peer) -> Result<String, Failure> {
    let run = peer.trusting("127.0.0.1").run();
    not_trusted(&run, &peer.seen()?)
}

fn garbage(peer: &Peer) -> Result<String, Failure> {
    unusable_file(peer, "garbage.pem", "no certificate at all\n")
}

/// What says that it is one, and is none.
fn broken_certificate(peer: &Peer) -> Result<String, Failure> {
    let pem = "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";
    unusable_file(peer, "broken.pem", pem)
}

fn unusable_file(peer: &Peer, name: &str, content: &str) -> Result<String, Failure> {
    let file = peer.folder.path().join(name);
    std::fs::write(&file, content)?;
    let run = peer.tenon("localhost").env("SSL_CERT_FILE", &file).run();
    let message = result(&run)?["error"]["message"].to_string();
    let names_the_file = message.contains(&file.display().to_string());
    right(names_the_file, &run, not_configured(&run, &peer.seen()?)?)
}

fn through_proxy(peer: &Peer) -> Result<String, Failure> {
    let run = peer.trusting(REMOTE).args(["--proxy", &peer.proxy()]).run();
    let seen = peer.seen()?;
    payload(&run, seen.one_request() && seen.one_tunnel(REMOTE, peer.server), &seen)
}

fn unknown_authority_behind_proxy(peer: &Peer) -> Result<String, Failure> {
    let run = peer.tenon(REMOTE).env("HTTPS_PROXY", peer.proxy()).run();
    let seen = peer.seen()?;
    right(seen.one_tunnel(REMOTE, peer.server), &run, not_trusted(&run, &seen)?)
}

fn loopback_is_direct(peer: &Peer) -> Result<String, Failure> {
    let run = peer.trusting("localhost").args(["--proxy", &peer.proxy()]).run();
    let seen = peer.seen()?;
    payload(&run, seen.one_request() && seen.no_proxy(), &seen)
}

/// Without the proxy nobody knows the way.
fn no_proxy_is_direct(peer: &Peer) -> Result<String, Failure> {
    let tenon = peer.trusting(REMOTE).env("NO_PROXY", REMOTE).args(["--settings", ONCE]);
    let run = tenon.args(["--proxy", &peer.proxy()]).run();
    let error = &result(&run)?["error"];
    let is_right = run.code == 1 && error["class"] == "network" && peer.seen()?.no_connection();
    right(is_right, &run, error["message"].to_string())
}

fn payload(run: &Run, seen_is_right: bool, seen: &Seen) -> Result<String, Failure> {
    let result = result(run)?;
    let payload = &result["structured_result"];
    let is_right = run.code == 0 && *payload == json!({"risk": "low"}) && seen_is_right;
    right(is_right, run, payload.to_string()).map_err(|why| with_seen(why, seen))
}

fn not_trusted(run: &Run, seen: &Seen) -> Result<String, Failure> {
    let error = &result(run)?["error"];
    let message = error["message"].as_str().unwrap_or_default();
    let is_right = run.code == 1
        && error["class"] == "network"
        && error["retryable"] == false
        && message.contains("certificate")
        && seen.one_refusal();
    right(is_right, run, message.to_owned()).map_err(|why| with_seen(why, seen))
}

fn not_configured(run: &Run, seen: &Seen) -> Result<String, Failure> {
    let error = &result(run)?["error"];
    let message = error["message"].as_str().unwrap_or_default();
    let is_right = run.code == 52
        && error["class"] == "config"
        && message.contains("certificate")
        && error["hint"].as_str().is_some_and(|hint| hint.contains("SSL_CERT_FILE"))
        && seen.no_connection();
    right(is_right, run, message.to_owned()).map_err(|why| with_seen(why, seen))
}

fn with_seen(why: Failure, Seen(seen): &Seen) -> Failure {
    match why {
        Failure::Usage(why) | Failure::Other(why) => {
            Failure::other(format!("{why}\nthe other end saw {seen}"))
        }
    }
}
