//! The memory of many runs at the same moment: all are held at the server until they have been looked at.

use std::fs::File;
use std::process::{Child, Stdio};

use crate::Failure;
use crate::measure::pss_of_tree;
use crate::serve::{Scenario, ServerProcess};
use crate::subject::{Output, Place, Subject};

/// The sum of PSS in bytes.
pub fn held_memory(subject: &Subject, count: usize, place: &Place) -> Result<f64, Failure> {
    let mut server = ServerProcess::start(Scenario::Held)?;
    let mut runs = Runs(Vec::new());
    for _ in 0..count {
        let mut command = subject.command(&server.base_url, Output::Text, place);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(place.stderr())?);
        runs.0.push(command.spawn()?);
    }
    server.wait_for_requests(count)?;
    let memory: u64 = runs.0.iter().map(|child| pss_of_tree(child.id())).sum();
    server.open_gate()?;
    for child in &mut runs.0 {
        let status = child.wait()?;
        if !status.success() {
            let said = std::fs::read_to_string(place.stderr()).unwrap_or_default();
            let name = subject.name();
            return Err(Failure::other(format!("one of {count} runs of `{name}` failed ({status})\n{said}")));
        }
    }
    Ok(memory as f64)
}

/// Processes that end with this value, whatever went wrong.
struct Runs(Vec<Child>);

impl Drop for Runs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
