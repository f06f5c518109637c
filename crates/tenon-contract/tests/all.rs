//! Behaviour at the crate's boundary: the gate, the payload, the words for both.

// Helpers of tests may fail loudly too; the lint only knows the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "all/corpus.rs"]
mod corpus;
#[path = "all/differential.rs"]
mod differential;
#[path = "all/drafts.rs"]
mod drafts;
#[path = "all/effort.rs"]
mod effort;
#[path = "all/gate.rs"]
mod gate;
#[path = "all/lenient.rs"]
mod lenient;
#[path = "all/partial.rs"]
mod partial;
#[path = "all/patterns.rs"]
mod patterns;
#[path = "all/payload.rs"]
mod payload;
#[path = "all/root.rs"]
mod root;
#[path = "all/source.rs"]
mod source;
#[path = "all/violations.rs"]
mod violations;

use tenon_contract::{Schema, SchemaError};

fn accepted(schema: &str) -> Schema {
    match Schema::compile(schema) {
        Ok(schema) => schema,
        Err(error) => panic!("{schema} was refused: {error} (hint: {:?})", error.hint()),
    }
}

fn refused(schema: &str) -> SchemaError {
    match Schema::compile(schema) {
        Ok(_) => panic!("{schema} was accepted"),
        Err(error) => error,
    }
}

/// What the model is told about arguments that do not fit.
fn told(schema: &str, arguments: &str) -> String {
    match accepted(schema).check(arguments) {
        Ok(payload) => panic!("{arguments} was accepted as {payload}"),
        Err(rejection) => rejection.told(),
    }
}

fn payload(schema: &str, arguments: &str) -> String {
    match accepted(schema).check(arguments) {
        Ok(payload) => payload.get().to_owned(),
        Err(rejection) => panic!("{arguments} was rejected: {}", rejection.told()),
    }
}

/// Failures are not kept in files: a seed that matters becomes a test of its own.
fn cases(cases: u32) -> proptest::test_runner::Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(cases);
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
