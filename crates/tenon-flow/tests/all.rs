//! Workflows at the boundary of the crate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "all/accept_changes.rs"]
mod accept_changes;
#[path = "all/any_text.rs"]
mod any_text;
#[path = "all/cel.rs"]
mod cel;
#[path = "all/coordinator.rs"]
mod coordinator;
#[path = "all/diagnostics.rs"]
mod diagnostics;
#[path = "all/document_schema.rs"]
mod document_schema;
#[path = "all/documents.rs"]
mod documents;
#[path = "all/drawings.rs"]
mod drawings;
#[path = "all/durable.rs"]
mod durable;
#[path = "all/endings.rs"]
mod endings;
#[path = "all/engine.rs"]
mod engine;
#[path = "all/every_code.rs"]
mod every_code;
#[path = "all/every_order.rs"]
mod every_order;
#[path = "all/exact_numbers.rs"]
mod exact_numbers;
#[path = "all/execution_page.rs"]
mod execution_page;
#[path = "all/expression_checks.rs"]
mod expression_checks;
#[path = "all/expression_types.rs"]
mod expression_types;
#[path = "all/failures.rs"]
mod failures;
#[path = "all/fixtures.rs"]
mod fixtures;
#[path = "all/format.rs"]
mod format;
#[path = "all/graphs.rs"]
mod graphs;
#[path = "all/hyphens.rs"]
mod hyphens;
#[path = "all/in_memory.rs"]
mod in_memory;
#[path = "all/includes.rs"]
mod includes;
#[path = "all/items.rs"]
mod items;
#[path = "all/journal.rs"]
mod journal;
#[path = "all/library.rs"]
mod library;
#[path = "all/loading.rs"]
mod loading;
#[path = "all/loops.rs"]
mod loops;
#[path = "all/newcomers.rs"]
mod newcomers;
#[path = "all/one_pass.rs"]
mod one_pass;
#[path = "all/page.rs"]
mod page;
#[path = "all/reference_page.rs"]
mod reference_page;
#[path = "all/replay.rs"]
mod replay;
#[path = "all/retries.rs"]
mod retries;
#[path = "all/run_view.rs"]
mod run_view;
#[path = "all/scheduling.rs"]
mod scheduling;
#[path = "all/sim.rs"]
mod sim;
#[path = "all/step_keys.rs"]
mod step_keys;
#[path = "all/talk.rs"]
mod talk;
