//! Checks of the binary against one peer: each has its line of output, and one that failed stops no other.

use tenon_testkit::{Run, Value};

use crate::Failure;

/// Says what it saw, when that was right.
pub type Check<P> = fn(&P) -> Result<String, Failure>;

pub fn perform<P>(checks: &[(&'static str, Check<P>)], peer: &P) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for (name, check) in checks {
        match check(peer) {
            Ok(what) => println!("ok {name}: {what}"),
            Err(Failure::Usage(why) | Failure::Other(why)) => {
                println!("FAILED {name}: {why}");
                failed.push(*name);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::other(failed.join("; "))) }
}

pub fn right(is_right: bool, run: &Run, what: String) -> Result<String, Failure> {
    if is_right { Ok(what) } else { Err(Failure::other(format!("not as it should be\n{run}"))) }
}

/// The last message, whether stdout is an array or lines.
pub fn result(run: &Run) -> Result<Value, Failure> {
    let last = run.last_json();
    let result = last.as_array().and_then(|messages| messages.last().cloned()).unwrap_or(last);
    if result["type"] == "result" {
        Ok(result)
    } else {
        Err(Failure::other(format!("the last message is no result\n{run}")))
    }
}
