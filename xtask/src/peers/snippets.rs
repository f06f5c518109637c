//! The snippets of the documentation, with every program they need: a usual run leaves out those whose interpreter is
//! missing.

use crate::Failure;
use crate::peers::full_counts::at_full_count;
use crate::peers::node;
use crate::peers::workspace::Binary;

pub fn run(_: &Binary) -> Result<(), Failure> {
    node::ready()?;
    at_full_count("1", "docs::scripting_guide")
}
