//! `tenon schema check` and `tenon schema print`.

use serde_json::Value;
use tenon_contract::{Schema, SchemaError};
use tenon_core::{ErrorClass, exit_code};
use tenon_model::{Target, adapt};
use tenon_wire::Dialect;

use crate::args::{PublishedFormat, SchemaCommand};
use crate::manual::print;
use crate::run::usage_error;
use crate::stderr::{harmless, line};
use crate::surroundings;
use crate::usage::UsageError;

pub fn main(command: SchemaCommand) -> u8 {
    match command {
        SchemaCommand::Check { schema } => check(&schema),
        SchemaCommand::Print { format, input } => match (published(format), input) {
            (Published::Dialect(dialect), false) => print_schema(&tenon_wire::published_schema(dialect)),
            (Published::Dialect(dialect), true) => print_input(dialect),
            (Published::Workflows(schema), false) => print_schema(&schema),
            (Published::Workflows(_), true) => usage_error(&UsageError::new(
                "`--input` is for dialects, and formats of workflows have no lines to read",
            )),
        },
    }
}

enum Published {
    Dialect(Dialect),
    Workflows(Value),
}

fn published(format: PublishedFormat) -> Published {
    match format {
        PublishedFormat::Qwen => Published::Dialect(Dialect::Qwen),
        PublishedFormat::Claude => Published::Dialect(Dialect::Claude),
        PublishedFormat::Gemini => Published::Dialect(Dialect::Gemini),
        PublishedFormat::Openai => Published::Dialect(Dialect::OpenAi),
        PublishedFormat::FlowEvents => Published::Workflows(tenon_flow::events_schema()),
        PublishedFormat::FlowDocument => Published::Workflows(tenon_flow::document_schema()),
    }
}

fn print_schema(schema: &Value) -> u8 {
    print(format!("{schema:#}\n").as_bytes())
}

fn print_input(dialect: Dialect) -> u8 {
    match tenon_wire::published_input_schema(dialect) {
        Some(schema) => print_schema(&schema),
        None => usage_error(&UsageError::new(format!(
            "the `{}` dialect has no `--input-format stream-json`, and no lines to describe",
            dialect.name()
        ))),
    }
}

/// Who is sent a schema in a form of its own. Both interfaces of OpenAI are sent the same.
const TARGETS: [(&str, Target); 4] = [
    ("openai", Target::OpenAiResponses),
    ("anthropic", Target::Anthropic),
    ("gemini", Target::Gemini),
    ("other servers", Target::Compatible),
];

fn check(argument: &str) -> u8 {
    match load(argument) {
        Ok(schema) => {
            for warning in schema.warnings() {
                line(&format!("warning: {warning}"));
            }
            let verdict = format!("ok: a contract ({})\n", schema.draft().name());
            let sent: String = TARGETS
                .iter()
                .map(|(name, target)| format!("{name}: {}\n", adapt(schema.source(), *target).summary()))
                .collect();
            print(harmless(&format!("{verdict}{sent}")).as_bytes())
        }
        Err(error) => {
            let code = print(harmless(&format!("not a contract: {error}\n")).as_bytes());
            if let Some(hint) = error.hint() {
                line(&format!("hint: {hint}"));
            }
            code.max(exit_code(ErrorClass::Config))
        }
    }
}

/// A bare path is understood too: here the argument can be nothing else.
fn load(argument: &str) -> Result<Schema, SchemaError> {
    let here = surroundings::collect(None);
    let text = argument.trim_start();
    // Nothing, joined to the folder, would be the folder itself.
    let is_path = !text.is_empty()
        && !text.starts_with(['@', '{', '[', '"'])
        && (text.contains(['.', '/']) || here.cwd.join(argument).exists());
    let argument = if is_path { format!("@{argument}") } else { argument.to_owned() };
    tenon_contract::load(&argument, &here.cwd, here.home.as_deref())
}
