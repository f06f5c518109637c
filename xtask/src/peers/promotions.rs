//! A thousand commands that go to the background while they run: no process, no descriptor and no file may
//! be left. A usual test run tries a few of them.

use crate::Failure;
use crate::peers::workspace::{Binary, cargo_test};

const PROMOTIONS: &str = "1000";
const TEST: &str = "promotion::many_promotions_leave_nothing_behind";

pub fn run(_: &Binary) -> Result<(), Failure> {
    let tested = cargo_test().args(["--", "--exact", TEST]).env("PROPTEST_CASES", PROMOTIONS).output()?;
    let said = String::from_utf8_lossy(&tested.stdout);
    // A name that no test has would pass as well.
    if tested.status.success() && said.contains("1 passed") {
        return Ok(());
    }
    print!("{said}");
    Err(Failure::other("something is left of a promoted command; see above"))
}
