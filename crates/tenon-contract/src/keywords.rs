//! Every keyword of every draft: since when, until when, what it holds.
//!
//! One table, read by the strict walk. A keyword whose form changed between drafts has a row for each form.

use crate::Draft::{self, Draft04, Draft06, Draft07, Draft2019, Draft2020};

pub(crate) struct Keyword {
    pub name: &'static str,
    pub since: Draft,
    pub until: Draft,
    pub holds: Holds,
    pub role: Role,
    /// What to write instead, in the drafts that lack it.
    pub instead: &'static str,
}

/// What stands behind a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Schema,
    /// draft-04 has no boolean schemas, but allows a boolean in two places.
    SchemaOrFlag,
    SchemaList,
    SchemaOrList,
    SchemaMap,
    /// The keys are regular expressions.
    PatternMap,
    /// Each value is a schema or a list of names.
    Dependencies,
    NamesMap,
    Names,
    TypeNames,
    Enum,
    List,
    Count,
    Number,
    Positive,
    Flag,
    Text,
    Format,
    Pattern,
    Reference,
    Anything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Constrains,
    Describes,
    /// Names and finds schemas.
    Locates,
}

/// What OpenAPI, editors and generators add to schemas. None of it constrains a value, so it passes; but a
/// person may have meant it to, so it is mentioned once.
const ANNOTATIONS: [&str; 24] = [
    "$async",
    "$version",
    "allowComments",
    "allowTrailingCommas",
    "defaultSnippets",
    "deprecated",
    "deprecationMessage",
    "discriminator",
    "doNotSuggest",
    "enumDescriptions",
    "enumNames",
    "errorMessage",
    "example",
    "externalDocs",
    "markdownDescription",
    "markdownEnumDescriptions",
    "nullable",
    "patternErrorMessage",
    "propertyOrder",
    "propertyOrdering",
    "suggestSortText",
    "tsEnumNames",
    "tsType",
    "xml",
];

/// From before draft-04, which no draft read here has.
const FORGOTTEN: [(&str, &str); 3] =
    [("extends", "`allOf`"), ("disallow", "`not`"), ("divisibleBy", "`multipleOf`")];

pub(crate) enum Known {
    /// A keyword of this draft.
    Here(&'static Keyword),
    /// A keyword of other drafts.
    Elsewhere(&'static Keyword),
    /// A keyword older than every draft read here, and its successor.
    Forgotten(&'static str),
    /// Does not constrain: an annotation of a tool or a vendor's own `x-` keyword.
    Annotation,
    Extension,
    Unknown,
}

pub(crate) fn look_up(name: &str, draft: Draft) -> Known {
    let mut elsewhere = None;
    for keyword in TABLE.iter().filter(|keyword| keyword.name == name) {
        if keyword.since <= draft && draft <= keyword.until {
            return Known::Here(keyword);
        }
        elsewhere = Some(keyword);
    }
    if name.starts_with("x-") {
        return Known::Extension;
    }
    if ANNOTATIONS.contains(&name) {
        return Known::Annotation;
    }
    if let Some((_, successor)) = FORGOTTEN.iter().find(|(old, _)| *old == name) {
        return Known::Forgotten(successor);
    }
    match elsewhere {
        Some(keyword) => Known::Elsewhere(keyword),
        None => Known::Unknown,
    }
}

/// The names a misspelt keyword may have meant.
pub(crate) fn names(draft: Draft) -> impl Iterator<Item = &'static str> {
    TABLE
        .iter()
        .filter(move |keyword| keyword.since <= draft && draft <= keyword.until)
        .map(|keyword| keyword.name)
}

/// True for a keyword that leaves the set of valid values as it is, in any draft.
pub(crate) fn does_not_constrain(name: &str, draft: Draft) -> bool {
    match look_up(name, draft) {
        Known::Here(keyword) => keyword.role != Role::Constrains,
        Known::Elsewhere(keyword) => keyword.role == Role::Describes,
        Known::Annotation | Known::Extension => true,
        Known::Forgotten(_) | Known::Unknown => false,
    }
}

const fn row(name: &'static str, since: Draft, until: Draft, holds: Holds, role: Role) -> Keyword {
    Keyword { name, since, until, holds, role, instead: "" }
}

const fn instead(keyword: Keyword, instead: &'static str) -> Keyword {
    Keyword { instead, ..keyword }
}

use Holds::*;
use Role::{Constrains, Describes, Locates};

static TABLE: [Keyword; 68] = [
    // Names and references
    row("$schema", Draft04, Draft2020, Text, Locates),
    instead(row("id", Draft04, Draft04, Text, Locates), "`$id`"),
    instead(row("$id", Draft06, Draft2020, Text, Locates), "`id`"),
    row("$ref", Draft04, Draft2020, Reference, Locates),
    row("$anchor", Draft2019, Draft2020, Text, Locates),
    row("$dynamicRef", Draft2020, Draft2020, Reference, Constrains),
    row("$dynamicAnchor", Draft2020, Draft2020, Text, Locates),
    instead(row("$recursiveRef", Draft2019, Draft2019, Reference, Constrains), "`$dynamicRef`"),
    instead(row("$recursiveAnchor", Draft2019, Draft2019, Flag, Locates), "`$dynamicAnchor`"),
    row("$vocabulary", Draft2019, Draft2020, Anything, Describes),
    // References find their way into `$defs` in every draft, and `definitions` outlived its own.
    row("$defs", Draft04, Draft2020, SchemaMap, Locates),
    row("definitions", Draft04, Draft2020, SchemaMap, Locates),
    // Combining schemas
    row("allOf", Draft04, Draft2020, SchemaList, Constrains),
    row("anyOf", Draft04, Draft2020, SchemaList, Constrains),
    row("oneOf", Draft04, Draft2020, SchemaList, Constrains),
    row("not", Draft04, Draft2020, Schema, Constrains),
    row("if", Draft07, Draft2020, Schema, Constrains),
    row("then", Draft07, Draft2020, Schema, Constrains),
    row("else", Draft07, Draft2020, Schema, Constrains),
    // Objects
    row("properties", Draft04, Draft2020, SchemaMap, Constrains),
    row("patternProperties", Draft04, Draft2020, PatternMap, Constrains),
    row("additionalProperties", Draft04, Draft04, SchemaOrFlag, Constrains),
    row("additionalProperties", Draft06, Draft2020, Schema, Constrains),
    row("unevaluatedProperties", Draft2019, Draft2020, Schema, Constrains),
    row("propertyNames", Draft06, Draft2020, Schema, Constrains),
    row("required", Draft04, Draft2020, Names, Constrains),
    row("minProperties", Draft04, Draft2020, Count, Constrains),
    row("maxProperties", Draft04, Draft2020, Count, Constrains),
    instead(
        row("dependencies", Draft04, Draft07, Dependencies, Constrains),
        "`dependentRequired` or `dependentSchemas`",
    ),
    instead(row("dependentRequired", Draft2019, Draft2020, NamesMap, Constrains), "`dependencies`"),
    instead(row("dependentSchemas", Draft2019, Draft2020, SchemaMap, Constrains), "`dependencies`"),
    // Arrays
    row("items", Draft04, Draft2019, SchemaOrList, Constrains),
    row("items", Draft2020, Draft2020, Schema, Constrains),
    instead(
        row("prefixItems", Draft2020, Draft2020, SchemaList, Constrains),
        "`items` with a list of schemas",
    ),
    row("additionalItems", Draft04, Draft04, SchemaOrFlag, Constrains),
    instead(row("additionalItems", Draft06, Draft2019, Schema, Constrains), "`items` beside `prefixItems`"),
    row("unevaluatedItems", Draft2019, Draft2020, Schema, Constrains),
    row("contains", Draft06, Draft2020, Schema, Constrains),
    row("minContains", Draft2019, Draft2020, Count, Constrains),
    row("maxContains", Draft2019, Draft2020, Count, Constrains),
    row("minItems", Draft04, Draft2020, Count, Constrains),
    row("maxItems", Draft04, Draft2020, Count, Constrains),
    row("uniqueItems", Draft04, Draft2020, Flag, Constrains),
    // Any value
    row("type", Draft04, Draft2020, TypeNames, Constrains),
    row("enum", Draft04, Draft2020, Enum, Constrains),
    instead(row("const", Draft06, Draft2020, Anything, Constrains), "`enum` with one value"),
    // Numbers
    row("multipleOf", Draft04, Draft2020, Positive, Constrains),
    row("minimum", Draft04, Draft2020, Number, Constrains),
    row("maximum", Draft04, Draft2020, Number, Constrains),
    row("exclusiveMinimum", Draft04, Draft04, Flag, Constrains),
    row("exclusiveMinimum", Draft06, Draft2020, Number, Constrains),
    row("exclusiveMaximum", Draft04, Draft04, Flag, Constrains),
    row("exclusiveMaximum", Draft06, Draft2020, Number, Constrains),
    // Strings
    row("minLength", Draft04, Draft2020, Count, Constrains),
    row("maxLength", Draft04, Draft2020, Count, Constrains),
    row("pattern", Draft04, Draft2020, Pattern, Constrains),
    row("format", Draft04, Draft2020, Format, Constrains),
    row("contentEncoding", Draft07, Draft2020, Text, Constrains),
    row("contentMediaType", Draft07, Draft2020, Text, Constrains),
    row("contentSchema", Draft2019, Draft2020, Schema, Constrains),
    // Descriptions
    row("$comment", Draft07, Draft2020, Text, Describes),
    row("title", Draft04, Draft2020, Text, Describes),
    row("description", Draft04, Draft2020, Text, Describes),
    row("default", Draft04, Draft2020, Anything, Describes),
    row("examples", Draft06, Draft2020, List, Describes),
    row("readOnly", Draft07, Draft2020, Flag, Describes),
    row("writeOnly", Draft07, Draft2020, Flag, Describes),
    row("deprecated", Draft2019, Draft2020, Flag, Describes),
];
