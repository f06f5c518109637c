//! `tenon trust`: pins what a project's settings say today, so that they may do more than tighten.

use tenon_config::trust::{TrustReport, TrustState};
use tenon_core::Failure;

use crate::manual::print;
use crate::stderr::{Level, Reporter};
use crate::surroundings;

pub fn main(show: bool, remove: bool) -> u8 {
    let here = surroundings::collect(None);
    let done = match (show, remove) {
        (true, _) => tenon_config::trust::show(&here),
        (_, true) => tenon_config::trust::remove(&here),
        _ => tenon_config::trust::add(&here),
    };
    match done {
        Ok(report) => print(sentence(&report, remove).as_bytes()),
        Err(error) => {
            let failure = Failure::from(error);
            Reporter { level: Level::Quiet, heartbeats: false, is_terminal: false }.failure(&failure);
            failure.exit_code()
        }
    }
}

fn sentence(report: &TrustReport, removed: bool) -> String {
    let project = report.project_root.display();
    let asks_for = match report.asks_for.is_empty() {
        true => String::new(),
        false => format!("; it sets {}", report.asks_for.join(", ")),
    };
    match (removed, report.state) {
        (true, TrustState::Untrusted) => format!("not trusted before: {project}\n"),
        (true, _) => format!("no longer trusted: {project}\n"),
        (false, TrustState::Trusted) => format!("trusted: {project}{asks_for}\n"),
        (false, TrustState::Changed) => format!("changed since it was trusted: {project}{asks_for}\n"),
        (false, TrustState::Untrusted) => format!("not trusted: {project}{asks_for}\n"),
    }
}
