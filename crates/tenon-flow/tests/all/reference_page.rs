//! The reference is the code's own tables. `UPDATE_GOLDEN=1` writes them into the page.

use std::path::PathBuf;

use tenon_flow::{Code, Field, Need, OBJECTS, Takes};

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/workflow-document.md")
}

#[test]
fn the_page_has_every_field_and_every_code() {
    let mut text = std::fs::read_to_string(page()).unwrap();
    let mut tables: Vec<(String, String)> = OBJECTS
        .iter()
        .map(|object| {
            let rows: String = object.fields.iter().map(row).collect();
            let head = "| field | takes | default | |\n|---|---|---|---|\n";
            (heading(object.name).to_owned(), format!("{head}{rows}"))
        })
        .collect();
    let codes: String = Code::ALL
        .iter()
        .map(|(code, text)| format!("| `{text}` | `{}` | {} |\n", code.category(), about(*code)))
        .collect();
    tables.push(("## Problems".to_owned(), format!("| code | category | |\n|---|---|---|\n{codes}")));
    for (heading, table) in tables {
        // The first table of its section.
        let section = text.find(&format!("{heading}\n")).unwrap_or_else(|| panic!("no `{heading}`"));
        let start =
            section + text[section..].find("\n| ").unwrap_or_else(|| panic!("no table in `{heading}`")) + 1;
        let end = text[start..].find("\n\n").map_or(text.len(), |length| start + length + 1);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            text.replace_range(start..end, &table);
            std::fs::write(page(), &text).unwrap();
        } else {
            assert_eq!(text[start..end], table, "`{heading}`: UPDATE_GOLDEN=1 writes the table");
        }
    }
}

fn heading(object: &str) -> &'static str {
    match object {
        "workflow" => "## The document",
        "agent" => "## Agents",
        "step" => "## Steps",
        "loop" => "## Loops",
        "approve" => "## Approvals",
        "options" => "## Options",
        "budget" => "## Budget",
        _ => "## Prices",
    }
}

fn row(field: &Field) -> String {
    let name = match field.need {
        Need::Required => format!("**`{}`**", field.name),
        Need::Optional => format!("`{}`", field.name),
    };
    let default = match field.default {
        words if words.is_empty() || words.contains([' ', '`']) => words.to_owned(),
        word => format!("`{word}`"),
    };
    format!("| {name} | {} | {default} | {} |\n", takes(field.takes), field.about)
}

fn takes(takes: Takes) -> String {
    match takes {
        Takes::Text | Takes::Word => "text".to_owned(),
        Takes::ShortText(most) => format!("text, at most {most} bytes"),
        Takes::Name(pattern) => format!("`{pattern}`"),
        Takes::Duration => "a duration".to_owned(),
        Takes::Expression => "an expression".to_owned(),
        Takes::Whole(least, most) if least == most => format!("`{least}`"),
        Takes::Whole(least, _) => format!("a whole number from {least}"),
        Takes::Number(least, most) if most > 1000.0 => format!("a number from {least}"),
        Takes::Number(least, most) => format!("a number from {least} to {most}"),
        Takes::TextList => "a list of text".to_owned(),
        Takes::TextMap => "a map of paths".to_owned(),
        Takes::ExpressionMap => "a map of expressions".to_owned(),
        Takes::OneOf(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Takes::Schema => "a JSON Schema".to_owned(),
        Takes::Items => "an expression, or a list".to_owned(),
        Takes::TextOr(_, object) => format!("text, or [{}](#{})", object.words, place(object.name)),
        Takes::Object(object) => format!("[{}](#{})", object.words, place(object.name)),
        Takes::Map(object) => format!("a map, each [{}](#{})", object.words, place(object.name)),
        Takes::List(object) => format!("a list, each [{}](#{})", object.words, place(object.name)),
    }
}

fn place(name: &str) -> String {
    match name {
        "options" | "budget" => name.to_owned(),
        "approve" => "approvals".to_owned(),
        name => format!("{name}s"),
    }
}

fn about(code: Code) -> &'static str {
    match code {
        Code::MissingName => "the workflow has no name",
        Code::MissingSteps => "there is no `steps`",
        Code::EmptySteps => "`steps` is empty",
        Code::UnknownVersion => "a version above 1; one below is `validation`",
        Code::AgentMissingDescription => "an agent without a `description`",
        Code::InvalidStepId => "an id that is missing or has other characters",
        Code::DuplicateStep => "an id that is taken; as a warning, in a loop, one of a step outside",
        Code::MissingAgent => "a step names an agent that is not there",
        Code::MissingDep => "`dependsOn` names a step that is not there",
        Code::Cycle => "steps that depend on each other",
        Code::IncludeHasAgent
        | Code::IncludeHasInstructions
        | Code::IncludeHasLoop
        | Code::IncludeHasCondition
        | Code::IncludeHasContextfiles
        | Code::IncludeHasModel => "beside `include`",
        Code::LoopMissingMaxIterations => "a loop that may never end",
        Code::ForeachWithMaxIterations
        | Code::ForeachWithUntil
        | Code::ForeachWithUntilagent
        | Code::ForeachWithDelay => "beside `forEach`",
        Code::ForeachEmptyArray => "`forEach: []`",
        Code::NestedLoopProhibited => "a loop inside a loop",
        Code::LoopValidation => {
            "another mistake in a loop; as a warning, a field of the step that a loop with `steps` does not use"
        }
        Code::UntilagentBadRef => "`untilAgent` names an agent that is not there",
        Code::NegativeValue => "a count below what it may be",
        Code::Validation => {
            "a value of the wrong type or out of range; text that is no YAML or JSON; a file that is no UTF-8 text, at its first bad byte; as a warning, a second document, or a context file that is no text"
        }
        Code::ApproveConflict => "beside `approve`, or fields of it that exclude each other",
        Code::UnknownField => "a field that is not listed here",
        Code::UnicodeUnsafe => {
            "characters that change the direction of text; as a warning, a name in several scripts"
        }
        Code::TooLarge => {
            "a text, a file, an expression or a document that is too long, too deep or too much"
        }
        Code::RefMissing => "`@path` that cannot be read; as a warning, a context file",
        Code::RefEscape => "`@path` outside the folder of the document; as a warning, a context file",
        Code::IncludeMissing => {
            "an included document that cannot be read; as a warning, one that no step uses"
        }
        Code::IncludeEscape => "an included document outside the folder; as a warning, one that no step uses",
        Code::IncludeDepth => "includes that are too deep, or lead back",
        Code::IncludeCollision => "an agent of the same name in an included document",
        Code::IncludeInputs => {
            "an included document that asks for other inputs; as a warning, where that is not certain"
        }
        Code::SchemaInvalid => "a schema that cannot be a contract",
        Code::UnknownTool => "a tool nobody knows",
        Code::UnknownModel => "a warning: a model that may not answer",
        Code::CelSyntax => "text that is no expression",
        Code::CelType => {
            "an expression with unknown names or types that cannot go together; as a warning, a comparison that never holds"
        }
        Code::CelUnknownStep => "a step that is not there; as a warning, one that may not have finished",
        Code::CelUnknownField => {
            "a field that a step cannot have; as a warning, one its schema does not mention"
        }
    }
}
