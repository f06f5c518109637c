//! Decides whether a schema can be a contract.
//!
//! The gate is strict where a validator is lenient: it reports every misspelt keyword, every reference that
//! leads nowhere and every pattern that cannot be checked in linear time, all in one pass, before a model is
//! asked anything. Checking values against the schema is in `validate.rs`.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value, json};

use crate::effort::Effort;
use crate::json_text::{MAX_DEPTH, compact};
use crate::pattern::{self, MATCHING_BYTES, MAX_PATTERN_BYTES};
use crate::pointer::type_name;
use crate::schema_error::Problem;
use crate::schema_source::MAX_SCHEMA_BYTES;
use crate::strict_walk::{Edit, Survey, survey};
use crate::violations::{self, Scope};
use crate::{Draft, SchemaError, formats, references, root, show};

/// A schema that passed the gate, ready to check payloads. Cheap to clone.
#[derive(Clone)]
pub struct Schema {
    inner: Arc<Inner>,
}

struct Inner {
    source: Value,
    draft: Draft,
    warnings: Vec<String>,
    property_names: HashSet<String>,
    effort: Effort,
    validator: Validator,
}

impl Schema {
    /// Takes the JSON text of a schema through the gate.
    pub fn compile(text: &str) -> Result<Schema, SchemaError> {
        let source = parse(text)?;
        let Value::Object(members) = &source else {
            let message = match &source {
                Value::Bool(_) => {
                    "a contract describes an object, so its schema cannot be a boolean".to_owned()
                }
                other => format!("a schema is a JSON object, got {}", type_name(other)),
            };
            return Err(SchemaError::Refused(vec![Problem::new("", message)]));
        };
        let draft = declared_draft(members).map_err(|problem| SchemaError::Refused(vec![problem]))?;
        let survey = survey(&source, draft);
        let mut problems = survey.problems;
        let only_root = problems.is_empty() || members.get("$ref").is_some_and(Value::is_string);
        if only_root && let Some(problem) = root::refusal(members, draft) {
            problems.insert(0, problem);
        }
        if !problems.is_empty() {
            return Err(SchemaError::Refused(problems));
        }
        let survey = Survey { problems, ..survey };
        let effort =
            Effort::new(&source, draft, &survey).map_err(|problem| SchemaError::Refused(vec![problem]))?;
        let validator = build(&source, draft, &survey)?;
        let inner = Inner {
            draft,
            warnings: survey.warnings,
            property_names: survey.property_names,
            effort,
            validator,
            source,
        };
        Ok(Schema { inner: Arc::new(inner) })
    }

    /// The schema as it was written, its keys in their order.
    pub fn source(&self) -> &Value {
        &self.inner.source
    }

    pub fn draft(&self) -> Draft {
        self.inner.draft
    }

    /// What the writer of the schema should know although it is a contract.
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }

    pub(crate) fn validator(&self) -> &Validator {
        &self.inner.validator
    }

    pub(crate) fn effort(&self) -> &Effort {
        &self.inner.effort
    }

    pub(crate) fn scope<'a>(&'a self, payload: &'a Value) -> Scope<'a> {
        Scope {
            schema: &self.inner.source,
            payload: Some(payload),
            property_names: Some(&self.inner.property_names),
            unions: 0,
        }
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Schema")
            .field("draft", &self.inner.draft)
            .field("source", &self.inner.source)
            .finish()
    }
}

fn parse(text: &str) -> Result<Value, SchemaError> {
    if text.len() as u64 > MAX_SCHEMA_BYTES {
        let message = format!("the schema has {} bytes, and may have {MAX_SCHEMA_BYTES}", text.len());
        return Err(SchemaError::source(message, None));
    }
    let text = text.trim_start_matches('\u{feff}');
    let syntax = |line, column, message| SchemaError::Syntax { line, column, message, hint: None };
    let compact = compact(text).map_err(|fault| syntax(fault.line, fault.column, fault.message))?;
    serde_json::from_str(&compact.text).map_err(|error| {
        let message = format!("the text cannot be read, nested at most {MAX_DEPTH} levels");
        syntax(error.line(), error.column(), message)
    })
}

fn declared_draft(members: &Map<String, Value>) -> Result<Draft, Problem> {
    let uri = match members.get("$schema") {
        None => return Ok(Draft::DEFAULT),
        Some(Value::String(uri)) => uri,
        Some(other) => {
            let message = format!("`$schema` must be the address of a draft, got {}", show::value(other));
            return Err(Problem::new("/$schema", message));
        }
    };
    Draft::from_uri(uri).ok_or_else(|| {
        let known: Vec<String> = Draft::ALL.iter().map(|draft| format!("`{}`", draft.uri())).collect();
        Problem::new("/$schema", format!("`{}` is not a known draft of JSON Schema", show::cut(uri, 200)))
            .hint(format!("known are {}", known.join(", ")))
    })
}

/// Addresses inside the validator start here, where the schema gives no other start.
const BASE_ADDRESS: &str = "contract:///";

/// Compiles the schema behind a reference. The validator checks what it is given against the meta-schema of
/// its draft, and compiling that takes longer than everything else at start-up (milliseconds for the newer
/// drafts). The strict walk has checked the schema already, so only a `$ref`, in the draft whose meta-schema
/// is the smallest, is put before the validator.
fn build(source: &Value, draft: Draft, survey: &Survey) -> Result<Validator, SchemaError> {
    let options = jsonschema::options()
        .with_draft(Draft::Draft07.engine())
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(
            PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MATCHING_BYTES),
        );
    let options = formats::lend_newer(options, draft, survey.formats.iter().map(String::as_str));
    let refused = |error| SchemaError::Refused(vec![build_problem(&error, source, survey)]);
    let mut compiled = edited(source, &survey.edits);
    let address = take_address(&mut compiled, draft);
    let registry = jsonschema::Registry::new()
        .add(&address, draft.engine().create_resource_ref(&compiled))
        .and_then(|registry| registry.prepare())
        .map_err(|cause| refused(cause.into()))?;
    options.with_registry(&registry).build(&json!({ "$ref": address })).map_err(refused)
}

/// The address of the whole schema: its `$id`, which then is no longer needed in the schema itself.
fn take_address(schema: &mut Value, draft: Draft) -> String {
    let keyword = if draft == Draft::Draft04 { "id" } else { "$id" };
    let id = match schema.get(keyword).and_then(Value::as_str) {
        // Without an address before the `#` it is an anchor.
        Some(id) if !id.starts_with('#') => id.trim_end_matches('#').to_owned(),
        _ => return format!("{BASE_ADDRESS}schema"),
    };
    if let Some(members) = schema.as_object_mut() {
        members.shift_remove(keyword);
    }
    let is_whole = id.contains("://") || id.starts_with("urn:") || id.starts_with("tag:");
    if is_whole { id } else { format!("{BASE_ADDRESS}{}", id.trim_start_matches('/')) }
}

/// The schema as the validator compiles it.
fn edited(source: &Value, edits: &[Edit]) -> Value {
    let mut schema = source.clone();
    for edit in edits {
        match edit {
            Edit::Text { pointer, new } => {
                if let Some(text) = schema.pointer_mut(pointer) {
                    *text = Value::String(new.clone());
                }
            }
            Edit::Remove { pointer, key } => {
                if let Some(members) = schema.pointer_mut(pointer).and_then(Value::as_object_mut) {
                    members.shift_remove(*key);
                }
            }
            Edit::Key { .. } => {}
        }
    }
    // Last, and the deepest first: a renamed key changes every pointer that leads through it.
    for edit in edits.iter().rev() {
        if let Edit::Key { pointer, old, new } = edit
            && let Some(members) = schema.pointer_mut(pointer).and_then(Value::as_object_mut)
            && let Some(value) = members.shift_remove(old)
        {
            let mut new = new.clone();
            // Two spellings of one pattern both count; an empty group makes them differ.
            while members.contains_key(&new) {
                new.push_str("(?:)");
            }
            members.insert(new, value);
        }
    }
    schema
}

/// The strict walk finds nearly everything; this puts into words what only the validator noticed.
fn build_problem(error: &jsonschema::ValidationError<'_>, source: &Value, survey: &Survey) -> Problem {
    for (pointer, text) in &survey.patterns {
        if let Some(refused) = pattern::engine_fault(text) {
            let mut problem =
                Problem::new(pointer, format!("the pattern `{}` {}", show::cut(text, 200), refused.reason));
            problem.hint = refused.hint;
            return problem;
        }
    }
    if let ValidationErrorKind::Referencing(cause) = error.kind() {
        return references::unresolved(cause, &survey.references);
    }
    let scope = Scope { schema: source, payload: None, property_names: None, unions: 0 };
    let first = violations::describe(error, &scope).into_iter().next();
    let (pointer, message) = match first {
        Some(violation) => (violation.path, violation.message),
        None => (error.instance_path().as_str().to_owned(), "this is not valid in a schema".to_owned()),
    };
    Problem::new(pointer, message)
}
