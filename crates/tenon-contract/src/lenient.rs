//! Checks the arguments of ordinary tools against the schema their maker wrote.
//!
//! Such schemas come from tools and servers, not from the person who runs tenon: what is unusual in them is
//! let through. The strict gate is in `gate.rs`.

use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::schema_error::Problem;
use crate::validate::MAX_VIOLATIONS;
use crate::violations::{self, Scope};
use crate::{Draft, SchemaError};

/// Steps a pattern with look-around may take. Patterns of tools are short; a hostile one ends here.
const PATTERN_STEPS: usize = 100_000;

/// The schema of a tool's arguments, compiled once.
pub struct Parameters {
    schema: Value,
    validator: Validator,
}

/// Checks arguments once. A schema that cannot be compiled checks nothing: the tool itself will.
pub fn check_parameters(schema: &Value, args: &Map<String, Value>) -> Result<(), Vec<String>> {
    match Parameters::compile(schema) {
        Ok(parameters) => parameters.check(args),
        Err(_) => Ok(()),
    }
}

impl Parameters {
    pub fn compile(schema: &Value) -> Result<Parameters, SchemaError> {
        let declared = schema.get("$schema").and_then(Value::as_str).and_then(Draft::from_uri);
        let mut plain = schema.clone();
        if let Some(members) = plain.as_object_mut() {
            members.shift_remove("$schema");
        }
        let build = |draft: Draft| {
            jsonschema::options()
                .with_draft(draft.engine())
                .offline()
                .should_validate_formats(false)
                .with_pattern_options(
                    jsonschema::PatternOptions::fancy_regex().backtrack_limit(PATTERN_STEPS),
                )
                .build(&plain)
        };
        // Many schemas name no draft and are written for draft-07, with a list in `items`.
        let built = match declared {
            Some(draft) => build(draft),
            None => build(Draft::DEFAULT).or_else(|_| build(Draft::Draft07)),
        };
        match built {
            Ok(validator) => Ok(Parameters { schema: plain, validator }),
            Err(error) => {
                let pointer = error.instance_path().as_str().to_owned();
                Err(SchemaError::Refused(vec![Problem::new(pointer, error.to_string())]))
            }
        }
    }

    /// One line for each violation, such as `/path: required property is missing`.
    pub fn check(&self, args: &Map<String, Value>) -> Result<(), Vec<String>> {
        let args = Value::Object(args.clone());
        if self.validator.is_valid(&args) {
            return Ok(());
        }
        let scope = Scope { schema: &self.schema, payload: Some(&args), property_names: None, unions: 0 };
        let mut lines: Vec<String> = Vec::new();
        let mut more = 0;
        for violation in
            self.validator.iter_errors(&args).flat_map(|error| violations::describe(&error, &scope))
        {
            let line = violation.line();
            if lines.contains(&line) {
                continue;
            }
            if lines.len() < MAX_VIOLATIONS {
                lines.push(line);
            } else {
                more += 1;
            }
        }
        if more > 0 {
            lines.push(format!("... and {more} more"));
        }
        Err(lines)
    }
}
