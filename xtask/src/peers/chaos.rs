//! The test of a broken network at its full count. The test itself is one of `tenon-cli`'s, where a small count of
//! it belongs to every change.

use crate::Failure;
use crate::peers::workspace::{Binary, cargo_test};

const RUNS: &str = "2000";
const TEST: &str = "chaos::every_run_ends_in_a_payload_or_the_right_failure";

pub fn run(_: &Binary) -> Result<(), Failure> {
    let output =
        cargo_test().args(["--quiet", "--", "--exact", TEST]).env("PROPTEST_CASES", RUNS).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        println!("{said}{}", String::from_utf8_lossy(&output.stderr));
        return Err(Failure::other("a run through a broken network went wrong; its seed is above"));
    }
    // A test that was renamed would pass by not being there.
    if !said.contains("1 passed") {
        return Err(Failure::other(format!("there is no test `{TEST}`")));
    }
    println!("{RUNS} runs ended as they should");
    Ok(())
}
