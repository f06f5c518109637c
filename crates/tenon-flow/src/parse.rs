//! Text in, a document or its problems out. Nothing else is touched: no file, no network, no clock.
//!
//! Reading collects every problem it can: a value of the wrong type is reported and left out, and reading goes on.
//! What may not be combined is checked afterwards, in `validate.rs`; what needs other files, in `load.rs`.

mod reader;

use std::path::Path;

use crate::diagnostic::{Code, Problems, quoted};
use crate::document::{
    AgentSpec, Approval, Document, Items, Loop, ModelPrice, OnDeny, OnStepFailure, OnTimeout, Options,
    OutputMode, Places, RunBudget, Scheduler, Step, ToolChoice, VERSION, Workflow,
};
use crate::fields::{
    AGENT, APPROVE, BUDGET, EDITORS, LOOP, MAX_COUNT, MAX_FILE_BYTES, OPTIONS, PRICE, STEP, WORKFLOW,
};
use crate::node::{self, FaultKind, Format, Kind, Node, Scalar};
use crate::validate::validate;
use crate::{Diagnostic, Place, approval, unicode};
pub(crate) use reader::{A_QUESTION, join, name_of};
use reader::{Fields, Reader};

/// The document, or everything that is wrong with it. `file` is only named, never opened; a name that ends in
/// `.json` is JSON, any other is YAML.
pub fn parse(text: &str, file: &Path) -> Result<Document, Vec<Diagnostic>> {
    let Parsed { workflow, places, found } = read(text, file);
    match workflow {
        Some(workflow) if !found.iter().any(Diagnostic::is_error) => {
            Ok(Document { workflow, places, warnings: found })
        }
        _ => Err(found),
    }
}

/// What to do about a document that is too long.
pub(crate) const SPLIT: &str =
    "move texts into files (`@path`) and steps into workflows of their own (`include`)";

/// What could be read, and what is wrong with it.
pub(crate) struct Parsed {
    /// What has problems is left out of it or has its default; nothing if the text is no map.
    pub(crate) workflow: Option<Workflow>,
    pub(crate) places: Places,
    pub(crate) found: Vec<Diagnostic>,
}

pub(crate) fn read(text: &str, file: &Path) -> Parsed {
    let format = match file.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("json") => Format::Json,
        _ => Format::Yaml,
    };
    let mut problems = Problems::new(file, text);
    let root = if text.len() > MAX_FILE_BYTES {
        let message = format!("the document has {} bytes, and may have {MAX_FILE_BYTES}", text.len());
        problems.error(Code::TooLarge, Place::START, message, SPLIT);
        None
    } else {
        let read = node::read(text, format);
        for fault in read.faults {
            match fault.kind {
                FaultKind::Wrong => {
                    problems.error(Code::Validation, fault.place, fault.message, fault.hint);
                }
                FaultKind::TooLarge => {
                    problems.error(Code::TooLarge, fault.place, fault.message, fault.hint);
                }
                FaultKind::Odd => {
                    problems.warning(Code::Validation, fault.place, fault.message, fault.hint);
                }
            }
        }
        read.root
    };
    let mut reader = Reader::new(problems, format);
    let workflow = root.and_then(|root| read_workflow(&mut reader, &root));
    let (mut problems, places) = reader.finish();
    if let Some(workflow) = &workflow {
        validate(workflow, &places, &mut problems);
    }
    Parsed { workflow, places, found: problems.into_found() }
}

fn read_workflow(reader: &mut Reader<'_>, root: &Node) -> Option<Workflow> {
    if root.is_null() {
        let hint = "a document has at least a `name` and one step: `steps: [{id: first}]`";
        reader.problems.error(Code::Validation, root.place, "the document is empty", hint);
        return None;
    }
    let fields = reader.object("", root, &WORKFLOW)?;
    let read = reader.clean_text(&fields, "name");
    let was_refused = read.is_none() && fields.get("name").is_some();
    let name = read.unwrap_or_default();
    if name.is_empty() && !was_refused {
        let hint = "write `name: …` at the top of the document";
        reader.problems.error(Code::MissingName, fields.place("name"), "workflow name is required", hint);
    } else if unicode::mixes_scripts(&name) {
        let message = format!("the name `{}` mixes letters of several scripts", quoted(&name));
        let hint = "write it in one script: letters that look alike are not the same";
        reader.problems.warning(Code::UnicodeUnsafe, fields.place("name"), message, hint);
    }
    let description = reader.clean_text(&fields, "description").unwrap_or_default();
    // Only whether it is text: who opens the document in an editor needs it, a run does not.
    reader.text(&fields, EDITORS);
    let version = read_version(reader, &fields);
    Some(Workflow {
        name,
        description,
        version,
        agents: reader.map(&fields, "agents", read_agent).into_iter().collect(),
        includes: reader.text_map(&fields, "includes").into_iter().collect(),
        inputs: reader.schema(&fields, "inputs"),
        steps: read_steps(reader, &fields, Scope::Workflow),
        outputs: reader.text_map(&fields, "outputs"),
        options: reader.object_at(&fields, "options", read_options).unwrap_or_default(),
        budget: reader.object_at(&fields, "budget", read_budget).unwrap_or_default(),
        prices: reader
            .map(&fields, "prices", read_price)
            .into_iter()
            .filter_map(|(name, price)| Some((name, price?)))
            .collect(),
    })
}

/// Zero is not a way to leave it out.
fn read_version(reader: &mut Reader<'_>, fields: &Fields<'_>) -> u32 {
    let hint = format!("write `version: {VERSION}`, or leave it out");
    let Some(version) = reader.integer_or(fields, "version", Some(&hint)) else { return VERSION };
    if version != i64::from(VERSION) {
        let code = if version > 0 { Code::UnknownVersion } else { Code::Validation };
        let message = format!("unknown version {version} (only version {VERSION} is supported)");
        reader.problems.error(code, fields.place("version"), message, hint);
    }
    VERSION
}

fn read_agent(reader: &mut Reader<'_>, pointer: &str, node: &Node) -> AgentSpec {
    let Some(fields) = reader.object(pointer, node, &AGENT) else {
        // What it lacks need not be said of what is no agent at all.
        return AgentSpec { description: node.type_name().to_owned(), ..AgentSpec::default() };
    };
    AgentSpec {
        description: reader.text(&fields, "description").unwrap_or_default(),
        prompt: reader.clean_text(&fields, "prompt").unwrap_or_default(),
        model: reader.some_text(&fields, "model"),
        tools: match fields.get("tools") {
            None => ToolChoice::All,
            Some(_) => ToolChoice::Only(reader.text_list(&fields, "tools")),
        },
        disallowed_tools: reader.text_list(&fields, "disallowedTools"),
        max_turns: reader.count(&fields, "maxTurns", Code::Validation).unwrap_or(0),
        temperature: reader.number(&fields, "temperature"),
        top_p: reader.number(&fields, "topP"),
        result_schema: reader.schema(&fields, "resultSchema"),
    }
}

/// What a list of steps looks like.
const A_STEP: &str = "each step begins with `- id: …` on a line of its own below `steps:`";

/// Whose list of steps is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Workflow,
    Loop,
}

fn read_steps(reader: &mut Reader<'_>, fields: &Fields<'_>, scope: Scope) -> Vec<Step> {
    let place = fields.place("steps");
    let (empty, message) = match scope {
        Scope::Workflow => (Code::EmptySteps, "workflow must have at least one step"),
        Scope::Loop => (Code::LoopValidation, "loop.steps must have at least one step if present"),
    };
    let Some(node) = fields.get("steps") else {
        if scope == Scope::Workflow {
            reader.problems.error(Code::MissingSteps, place, message, A_STEP);
        }
        return Vec::new();
    };
    let Kind::List(items) = &node.kind else {
        reader.wrong_type(node, "`steps`", "a list of steps", A_STEP);
        return Vec::new();
    };
    if items.is_empty() {
        let hint = match scope {
            Scope::Workflow => A_STEP,
            Scope::Loop => "give the loop a step, or leave `steps` out: the step itself is then its body",
        };
        reader.problems.error(empty, place, message, hint);
    }
    let pointer = fields.pointer("steps");
    items
        .iter()
        .enumerate()
        .map(|(index, item)| read_step(reader, &join(&pointer, &index.to_string()), item, scope))
        .collect()
}

fn read_step(reader: &mut Reader<'_>, pointer: &str, node: &Node, scope: Scope) -> Step {
    let Some(fields) = reader.object(pointer, node, &STEP) else { return Step::default() };
    Step {
        id: reader.clean_text(&fields, "id").unwrap_or_default(),
        agent: reader.some_text(&fields, "agent"),
        instructions: match scope {
            Scope::Workflow => reader.clean_text(&fields, "instructions").unwrap_or_default(),
            // The format limits only the steps of the document itself.
            Scope::Loop => reader.long_text(&fields, "instructions").unwrap_or_default(),
        },
        depends_on: reader.text_list(&fields, "dependsOn"),
        context_files: reader.text_list(&fields, "contextFiles"),
        model: reader.some_text(&fields, "model"),
        timeout: reader.duration(&fields, "timeout"),
        retries: reader.count(&fields, "retries", Code::Validation).unwrap_or(0),
        max_retries: reader.count(&fields, "maxRetries", Code::Validation),
        condition: reader.expression(&fields, "condition"),
        include: reader.some_text(&fields, "include"),
        repeat: reader.object_at(&fields, "loop", read_loop).flatten(),
        approve: read_approval(reader, &fields),
    }
}

/// The question alone, or with what else there is to say about it.
fn read_approval(reader: &mut Reader<'_>, step: &Fields<'_>) -> Option<Approval> {
    let node = step.get("approve")?;
    let approval = match &node.kind {
        Kind::Map(_) => {
            let fields = reader.object(&step.pointer("approve"), node, &APPROVE)?;
            Approval {
                message: reader.clean_text(&fields, "message").unwrap_or_default(),
                timeout: reader.duration(&fields, "timeout"),
                on_timeout: match reader.choice(&fields, "onTimeout", Code::Validation) {
                    Some("approve") => OnTimeout::Approve,
                    Some("fail") => OnTimeout::Fail,
                    _ => OnTimeout::Deny,
                },
                on_deny: match reader.choice(&fields, "onDeny", Code::Validation) {
                    Some("continue") => OnDeny::Continue,
                    _ => OnDeny::Fail,
                },
                data: reader.schema(&fields, "data"),
                result: serde_json::Value::Null,
            }
        }
        Kind::Scalar { .. } if matches!(node.resolve(), Some(Scalar::Text(_))) => {
            Approval { message: reader.clean_text(step, "approve")?, ..Approval::default() }
        }
        Kind::Scalar { .. } | Kind::List(_) => {
            reader.wrong_type(node, "`approve`", "a question or a map", A_QUESTION);
            return None;
        }
    };
    Some(Approval { result: approval::result_schema(approval.data.as_ref()), ..approval })
}

fn read_loop(reader: &mut Reader<'_>, pointer: &str, node: &Node) -> Option<Loop> {
    let fields = reader.object(pointer, node, &LOOP)?;
    let output_mode = reader.choice(&fields, "outputMode", Code::LoopValidation);
    Some(Loop {
        max_iterations: read_max_iterations(reader, &fields),
        until: reader.expression(&fields, "until"),
        until_agent: reader.some_text(&fields, "untilAgent"),
        for_each: read_items(reader, &fields),
        max_concurrency: reader.count(&fields, "maxConcurrency", Code::Validation).filter(|count| *count > 0),
        delay: reader.duration(&fields, "delay"),
        steps: read_steps(reader, &fields, Scope::Loop),
        output_mode: match output_mode {
            Some("cumulative") => OutputMode::Cumulative,
            _ => OutputMode::Last,
        },
    })
}

fn read_max_iterations(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<u32> {
    let count = reader.integer(fields, "maxIterations")?;
    match u32::try_from(count) {
        Ok(count) if count > 0 => Some(count),
        // Read as one, so that nothing else is said about it.
        _ => {
            let message = format!("maxIterations must be positive, got {count}");
            let hint = "write how often at most: 1 or more";
            reader.problems.error(Code::NegativeValue, fields.place("maxIterations"), message, hint);
            Some(1)
        }
    }
}

fn read_items(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Items> {
    let node = fields.get("forEach")?;
    match (&node.kind, node.resolve()) {
        (Kind::List(_), _) => match node.to_json() {
            Ok(serde_json::Value::Array(items)) => Some(Items::List(items)),
            Ok(_) => None,
            Err(fault) => {
                reader.unreadable(fault);
                None
            }
        },
        (_, Some(Scalar::Text(text))) if !text.trim().is_empty() => {
            reader.expression(fields, "forEach").map(Items::Expression)
        }
        _ => {
            let message = format!("forEach must be an expression or a list, got {}", node.type_name());
            let hint = "write a list (`[a, b]`), or an expression that gives one (`steps.plan.result.files`)";
            reader.problems.error(Code::LoopValidation, node.place, message, hint);
            None
        }
    }
}

fn read_options(reader: &mut Reader<'_>, pointer: &str, node: &Node) -> Options {
    let Some(fields) = reader.object(pointer, node, &OPTIONS) else { return Options::default() };
    Options {
        max_concurrency: reader
            .count(&fields, "maxConcurrency", Code::NegativeValue)
            .filter(|count| *count > 0),
        on_step_failure: match reader.choice(&fields, "onStepFailure", Code::Validation) {
            Some("skip-dependents") => OnStepFailure::SkipDependents,
            Some("abort") => OnStepFailure::Abort,
            _ => OnStepFailure::Cascade,
        },
        timeout: reader.duration(&fields, "timeout"),
        step_timeout: reader.duration(&fields, "stepTimeout"),
        isolation: reader.text(&fields, "isolation").filter(|text| !text.is_empty()),
        scheduler: match reader.choice(&fields, "scheduler", Code::Validation) {
            Some("round-robin") => Scheduler::RoundRobin,
            Some("least-busy") => Scheduler::LeastBusy,
            _ => Scheduler::DependencyFirst,
        },
        max_retries: reader.count(&fields, "maxRetries", Code::Validation),
    }
}

fn read_budget(reader: &mut Reader<'_>, pointer: &str, node: &Node) -> RunBudget {
    let Some(fields) = reader.object(pointer, node, &BUDGET) else { return RunBudget::default() };
    let max_tokens = reader.integer(&fields, "maxTokens").and_then(|count| match u64::try_from(count) {
        Ok(count) if count > 0 => Some(count),
        _ => {
            let hint = "write 1 or more, or leave it out for no limit";
            let place = fields.place("maxTokens");
            reader.problems.error(Code::Validation, place, "maxTokens must be positive", hint);
            None
        }
    });
    let max_turns = reader.integer(&fields, "maxTurns").and_then(|count| match u32::try_from(count) {
        Ok(count) if count > 0 && u64::from(count) <= MAX_COUNT => Some(count),
        read => {
            let (message, hint) = match read {
                Err(_) | Ok(0) if count <= 0 => {
                    ("maxTurns must be positive".to_owned(), "write 1 or more, or leave it out for no limit")
                }
                _ => (format!("maxTurns must be at most {MAX_COUNT}, got {count}"), "write a smaller number"),
            };
            reader.problems.error(Code::Validation, fields.place("maxTurns"), message, hint);
            None
        }
    });
    RunBudget { max_usd: reader.number(&fields, "maxUsd"), max_tokens, max_turns }
}

fn read_price(reader: &mut Reader<'_>, pointer: &str, node: &Node) -> Option<ModelPrice> {
    let fields = reader.object(pointer, node, &PRICE)?;
    let mut required = |name: &str| {
        let price = reader.number(&fields, name);
        if fields.get(name).is_none() {
            let message = format!("a price needs `{name}`, in dollars per million tokens");
            reader.problems.error(Code::Validation, node.place, message, "as in `{input: 3, output: 15}`");
        }
        price
    };
    let (input, output) = (required("input"), required("output"));
    Some(ModelPrice {
        input: input?,
        output: output?,
        cache_read: reader.number(&fields, "cacheRead"),
        cache_write: reader.number(&fields, "cacheWrite"),
    })
}
