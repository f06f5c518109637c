//! The tests of the contract, of the output and of partial messages on the wires that `cargo test` does not run
//! them on.

use tenon_testkit::Wire;

use crate::Failure;
use crate::peers::workspace::{Binary, cargo_test};

/// The modules that hold on every wire.
const MODULES: [&str; 5] =
    ["contract::", "contract_siblings::", "output::", "output_failures::", "partials::"];

pub fn run(_: &Binary) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for wire in Wire::ALL.into_iter().filter(|wire| *wire != Wire::Chat) {
        println!("{}", wire.name());
        let status = cargo_test()
            .args(["--quiet", "--no-fail-fast", "--test", "all", "--"])
            .args(MODULES)
            .env("TENON_TEST_WIRE", wire.name())
            .status()?;
        if !status.success() {
            failed.push(wire.name());
        }
    }
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(Failure::other(format!("tests failed on {}; see above", failed.join(", ")))),
    }
}
