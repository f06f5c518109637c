//! `tenon doctor`: what works on this machine, and what to do about the rest.

use std::fmt::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use tenon_config::{ModelFlags, ProjectTrust, Sources, Surroundings, Wire, choose_model};
use tenon_core::Failure;
use tenon_model::shown_url;
use tenon_tools::KernelSupport;

use crate::manual::print;
use crate::stderr::line;
use crate::{doctor_report, flow_journal, surroundings, sys};

/// A server that is there answers at once.
const CONNECT: Duration = Duration::from_secs(3);

pub struct Finding {
    pub ok: bool,
    pub what: String,
    pub advice: Option<String>,
}

pub fn main(report: Option<&Path>) -> u8 {
    let here = surroundings::collect(None);
    let findings = [
        version(),
        home(&here),
        settings(&here),
        model(&here),
        embedded(&here),
        runs(&here),
        shell(&here),
        sandbox(),
    ];
    let mut text = String::new();
    for Finding { ok, what, advice } in &findings {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {what}", if *ok { "ok  " } else { "FAIL" });
        if let Some(advice) = advice {
            let _ = writeln!(text, "     hint: {advice}");
        }
    }
    if let Some(named) = report {
        match doctor_report::write(named, &here, &findings) {
            // Writing to a string cannot fail.
            Ok(path) => drop(writeln!(text, "report: {path}")),
            Err(failure) => {
                line(&format!("error[{}]: {}", failure.class.name(), failure.message));
                return failure.exit_code();
            }
        }
    }
    let healthy = findings.iter().all(|finding| finding.ok);
    print(text.as_bytes()).max(u8::from(!healthy))
}

fn ok(what: impl Into<String>) -> Finding {
    Finding { ok: true, what: what.into(), advice: None }
}

fn fail(what: impl Into<String>, advice: Option<String>) -> Finding {
    Finding { ok: false, what: what.into(), advice }
}

fn version() -> Finding {
    ok(format!("tenon {} on {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS))
}

fn home(here: &Surroundings) -> Finding {
    let Some(home) = &here.tenon_home else {
        return fail(
            "no folder for settings: neither `TENON_HOME` nor `HOME` is set",
            Some("set `HOME`".to_owned()),
        );
    };
    match sys::can_be_written(home) {
        true => ok(format!("settings and outputs: {}", home.display())),
        false => fail(
            format!("`{}` cannot be written", home.display()),
            Some(
                "set `TENON_HOME` to a folder of yours; runs work without it, but keep no large outputs"
                    .to_owned(),
            ),
        ),
    }
}

fn settings(here: &Surroundings) -> Finding {
    match tenon_config::load(here, &Sources::all(), ProjectTrust::Pinned) {
        Ok(loaded) if loaded.warnings.is_empty() => ok("settings: valid"),
        Ok(loaded) => Finding {
            ok: true,
            what: "settings: valid, with warnings".to_owned(),
            advice: Some(loaded.warnings.join("\n           ")),
        },
        Err(error) => {
            let failure = Failure::from(error);
            fail(format!("settings: {}", failure.message), failure.hint)
        }
    }
}

fn model(here: &Surroundings) -> Finding {
    let Ok(loaded) = tenon_config::load(here, &Sources::all(), ProjectTrust::Pinned) else {
        return fail("model: not looked at, because the settings are not valid", None);
    };
    match choose_model(ModelFlags::default(), &loaded.settings, &here.env) {
        Ok(choice) if choice.wire == Wire::Local => ok(format!("model: `local/{}`", choice.model_id)),
        Ok(choice) => {
            let key = if choice.api_key.is_some() { "with a key" } else { "without a key" };
            let what = format!(
                "model: `{}/{}` at {} {key}",
                choice.provider,
                choice.model_id,
                shown_url(&choice.base_url)
            );
            match reachable(&choice.base_url) {
                Ok(()) => ok(what),
                Err(error) => fail(
                    format!("{what}: {error}"),
                    Some(
                        "start the server, or check the address and your network (`HTTPS_PROXY`)".to_owned(),
                    ),
                ),
            }
        }
        Err(error) => {
            let failure = Failure::from(error);
            fail(format!("model: {}", failure.message), failure.hint)
        }
    }
}

/// Not needed by those who have a key; so that it is not here is no failure.
fn embedded(here: &Surroundings) -> Finding {
    ok(format!("embedded model: {}", crate::local::on_this_machine(here)))
}

/// That there are none yet is no failure.
fn runs(here: &Surroundings) -> Finding {
    let Some(path) = flow_journal::path(here) else {
        return ok("workflow runs: not kept, because there is no home folder");
    };
    let counted = flow_journal::existing(here).and_then(|journal| match journal {
        Some(journal) => journal.count().map_err(|error| flow_journal::failure(&error)),
        None => Ok(0),
    });
    match counted {
        Ok(count) => ok(format!("workflow runs: {count} in {}", path.display())),
        Err(failure) => fail(format!("workflow runs: {}", failure.message), failure.hint),
    }
}

fn reachable(base_url: &str) -> Result<(), String> {
    let (scheme, rest) = base_url.split_once("://").unwrap_or(("https", base_url));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let has_port = authority
        .rsplit(':')
        .next()
        .is_some_and(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
        && authority.contains(':');
    let target = match (has_port, scheme) {
        (true, _) => authority.to_owned(),
        (false, "http") => format!("{authority}:80"),
        (false, _) => format!("{authority}:443"),
    };
    let address = target
        .to_socket_addrs()
        .map_err(|error| format!("its name cannot be looked up ({error})"))?
        .next()
        .ok_or_else(|| "its name has no address".to_owned())?;
    TcpStream::connect_timeout(&address, CONNECT)
        .map(drop)
        .map_err(|error| format!("it does not answer ({error})"))
}

/// Nothing to fail for: runs work without it, and `--sandbox=require` says so itself.
fn sandbox() -> Finding {
    let kernel = KernelSupport::here();
    let files = match kernel.landlock {
        0 => "files cannot be confined".to_owned(),
        version => format!("files confined by Landlock {version}"),
    };
    let network = if kernel.seccomp { "the network can be denied" } else { "the network cannot be denied" };
    ok(format!("sandbox: {files}, {network}"))
}

fn shell(here: &Surroundings) -> Finding {
    let found = here
        .env
        .get("PATH")
        .is_some_and(|path| std::env::split_paths(path).any(|folder| folder.join("bash").is_file()));
    match found {
        true => ok("shell: bash"),
        false => fail(
            "shell: `bash` is not in `PATH`",
            Some("install bash; `run_shell_command` needs it".to_owned()),
        ),
    }
}
