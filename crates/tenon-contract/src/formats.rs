//! Formats: the known ones are checked in every draft, unknown ones are mentioned and let through.

use jsonschema::{PatternOptions, ValidationOptions};
use serde_json::{Value, json};

use crate::Draft;

/// Checked, whichever draft a schema is written in.
pub(crate) const KNOWN: [&str; 19] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "uri-template",
    "iri",
    "iri-reference",
    "uuid",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

/// Lends newer formats to the older drafts, so that `"format": "uuid"` means the same in all of them.
pub(crate) fn lend_newer<'i>(
    mut options: ValidationOptions<'i>,
    draft: Draft,
    used: impl Iterator<Item = &'i str>,
) -> ValidationOptions<'i> {
    for name in used {
        if !KNOWN.contains(&name) || options.is_known_format(draft.engine(), name) {
            continue;
        }
        let newest = jsonschema::options()
            .with_draft(Draft::DEFAULT.engine())
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::regex())
            .build(&json!({ "format": name }));
        if let Ok(checker) = newest {
            options = options
                .with_format(name, move |text: &str| checker.is_valid(&Value::String(text.to_owned())));
        }
    }
    options
}
