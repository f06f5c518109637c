//! What a journal of workflow runs must withstand, on the embedded one: sixteen tests, each with its own number.
//!
//! | # | what happens | where |
//! |---|---|---|
//! | 1 | kill -9 in a step | `engine_01_…` |
//! | 2 | between effect and commit | `engine_02_…` here, and in `tenon-flow/tests/all/engine.rs` with a failpoint |
//! | 3 | while waiting for approval, then resolved twice | `flow_approve.rs`, and in `tenon-flow/tests/all/engine.rs` at every row |
//! | 4 | the engine killed: another process that uses the same file | `engine_04_…` |
//! | 5 | one of two workers gone for good | `engine_05_…`, and in `tenon-flow` for one of another machine |
//! | 6 | the same run submitted twice at once | `engine_06_…` |
//! | 7 | two processes resuming one run | `engine_07_…` |
//! | 8 | cancel and kill in a step: tokens stop | `engine_08_…` |
//! | 9 | transient, then terminal errors | `engine_09_…` |
//! | 10 | random crashes | `crashes.rs` |
//! | 11 | golden histories | `tenon-flow/tests/all/engine.rs` |
//! | 12 | the document changed between crash and resume | `engine_12_…` |
//! | 13 | the cap on concurrency is observed | `engine_13_…` |
//! | 14 | approval timeout; time that runs out while nobody is there | `flow_approve.rs`, and in `tenon-flow/tests/all/engine.rs` |
//! | 15 | a truncated journal | `engine_15_…` |
//! | 16 | a full disk | `engine_16_…` |
//!
//! `documents.rs` has the documents, `world.rs` the model and the checks.

#[path = "engine/crashes.rs"]
mod crashes;
#[path = "engine/documents.rs"]
mod documents;
#[path = "engine/sixteen.rs"]
mod sixteen;
#[path = "engine/world.rs"]
mod world;
