//! Decides whether a schema can be a contract, and whether a value fulfils it.
//!
//! Start reading at `gate.rs`: [`Schema::compile`] is the gate every contract passes, strict about what a
//! person wrote. `validate.rs` holds the other half, [`Schema::check`]: the text of a model's arguments in,
//! the payload out, or every reason why not. What was validated is what is returned: numbers keep their
//! digits and keys their order (`json_text.rs`). No schema and no payload can make a check run forever
//! (`effort.rs`, `pattern.rs`).
//!
//! What this crate may not know: models, tools, events, flags, terminals, the environment, the network. It
//! reads one kind of file, a schema that was asked for by path (`schema_source.rs`).

mod contract;
mod draft;
mod effort;
mod formats;
mod gate;
mod json_text;
mod keyword_value;
mod keywords;
mod lenient;
mod partial;
mod pattern;
mod pattern_class;
mod pointer;
mod references;
mod root;
mod schema_error;
mod schema_source;
mod show;
mod strict_walk;
mod union;
mod validate;
mod violations;

pub use contract::{Contract, Further, Replies, STRUCTURED_OUTPUT, SUBMIT_RESULT, Siblings};
pub use draft::Draft;
pub use gate::Schema;
pub use json_text::{JsonFault, compact_json};
pub use lenient::{Parameters, check_parameters};
pub use partial::PartialJson;
pub use schema_error::{Problem, SchemaError};
pub use schema_source::{MAX_SCHEMA_BYTES, load, read_schema};
pub use validate::{MAX_VIOLATIONS, Rejection, Violation};
