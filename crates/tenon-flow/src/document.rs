//! A workflow document as data: every field of version 1, and the fields tenon adds to it.
//!
//! These are plain values, already given their defaults. Reading them from text is `parse.rs`, what may not be
//! combined is `validate.rs`, and where each value was written is in [`Places`]. What a document becomes when
//! its files, schemas and expressions are resolved is in `load.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::duration;

/// The only version of the format.
pub const VERSION: u32 = 1;
/// Turns of an agent that does not say how many.
pub const DEFAULT_MAX_TURNS: u32 = 50;

/// What was read from one file, and where everything in it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub workflow: Workflow,
    pub places: Places,
    /// What the writer should know although the document is valid.
    pub warnings: Vec<crate::Diagnostic>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub version: u32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, AgentSpec>,
    /// Names for the files of included workflows.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub includes: BTreeMap<String, String>,
    /// A JSON Schema of the object that a run is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    pub steps: Vec<Step>,
    /// What a run gives back, by name: each an expression, in the order written.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub outputs: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Options::is_default")]
    pub options: Options,
    #[serde(skip_serializing_if = "RunBudget::is_unlimited")]
    pub budget: RunBudget,
    /// Dollars per million tokens, by model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, ModelPrice>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSpec {
    pub description: String,
    /// The system prompt; `@path` names a file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "ToolChoice::is_all")]
    pub tools: ToolChoice,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// 0 and absent mean [`DEFAULT_MAX_TURNS`].
    pub max_turns: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// With a schema, the agent ends by `submit_result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Value>,
}

/// Which tools an agent may use. A list restricts, it never grants.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ToolChoice {
    /// Every tool the run has: no list is written.
    #[default]
    All,
    Only(Vec<String>),
}

impl ToolChoice {
    fn is_all(&self) -> bool {
        *self == ToolChoice::All
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub id: String,
    /// Without one, an agent with no prompt, all tools and the default model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// `@path` names a file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_files: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `0s` and absent are the same: no limit of its own.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub timeout: Option<Duration>,
    /// More attempts of the whole step after the first.
    pub retries: u32,
    /// How often one model call is asked again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// A name of `includes`, or a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Loop>,
    /// A person is asked, and nothing else is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<Approval>,
}

/// A question to a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    pub message: String,
    /// From when it is first asked; without one it waits for ever.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub timeout: Option<Duration>,
    pub on_timeout: OnTimeout,
    pub on_deny: OnDeny,
    /// A JSON Schema of what an approval brings along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// What expressions know of the step's result. It follows from the rest.
    #[serde(skip)]
    pub result: Value,
}

/// What becomes of a question that nobody answered in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    #[default]
    Deny,
    Approve,
    /// The step fails, whatever a denial would do.
    Fail,
}

/// What becomes of a step that was denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDeny {
    /// It failed.
    #[default]
    Fail,
    /// It completed, and its result says `approved: false`.
    Continue,
}

impl Step {
    /// What it has beside `include` and may not: an included workflow brings its own.
    pub(crate) fn beside_include(&self) -> Vec<&'static str> {
        let given = [
            (self.agent.is_some(), "agent"),
            (!self.instructions.is_empty(), "instructions"),
            (self.repeat.is_some(), "loop"),
            (self.condition.is_some(), "condition"),
            (!self.context_files.is_empty(), "contextFiles"),
            (self.model.is_some(), "model"),
        ];
        given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, field)| field).collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loop {
    /// Required unless the loop is over items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_each: Option<Items>,
    /// Items at a time; without one, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// Between iterations.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub delay: Option<Duration>,
    /// Without any, the step itself is the body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    pub output_mode: OutputMode,
}

/// What a `forEach` goes over.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Items {
    /// An expression that gives a list.
    Expression(String),
    List(Vec<Value>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum OutputMode {
    #[default]
    Last,
    Cumulative,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Options {
    /// Steps at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    pub on_step_failure: OnStepFailure,
    /// For the whole workflow.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub timeout: Option<Duration>,
    /// For each step that has none of its own.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub step_timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    pub scheduler: Scheduler,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
}

impl Options {
    fn is_default(&self) -> bool {
        *self == Options::default()
    }
}

/// What becomes of the steps that depend on one that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStepFailure {
    /// They are cancelled.
    #[default]
    Cascade,
    /// They are skipped.
    SkipDependents,
    /// The whole run is cancelled.
    Abort,
}

/// In which order steps that are ready are started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    #[default]
    DependencyFirst,
    RoundRobin,
    LeastBusy,
}

/// What a whole run may spend. What is absent is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunBudget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
}

impl RunBudget {
    pub fn is_unlimited(&self) -> bool {
        *self == RunBudget::default()
    }
}

/// Dollars per million tokens. What is not said of a cache costs what input does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPrice {
    pub input: f64,
    pub output: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl AgentSpec {
    /// How many turns the agent may take.
    pub fn turns(&self) -> u32 {
        if self.max_turns == 0 { DEFAULT_MAX_TURNS } else { self.max_turns }
    }
}

impl Workflow {
    /// The document without its comments, layout and defaults left out: what a run pins, and what is hashed.
    pub fn normalised(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }
}

/// A position in a file, both counted from 1; columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    pub const START: Place = Place { line: 1, column: 1 };
}

/// Where each value of a document was written, by JSON Pointer (`/steps/2/condition`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    by_pointer: std::collections::HashMap<String, Place>,
}

impl Places {
    /// The place of a value, or of the nearest value around it.
    pub fn of(&self, pointer: &str) -> Place {
        let mut pointer = pointer;
        loop {
            if let Some(place) = self.by_pointer.get(pointer) {
                return *place;
            }
            match pointer.rfind('/') {
                Some(at) => pointer = &pointer[..at],
                None => return Place::START,
            }
        }
    }

    /// The innermost value that was written here or last before it.
    pub(crate) fn at(&self, place: Place) -> &str {
        let before = self.by_pointer.iter().filter(|(_, at)| **at <= place);
        before.max_by_key(|(pointer, at)| (**at, pointer.len(), *pointer)).map_or("", |(pointer, _)| pointer)
    }

    pub(crate) fn has(&self, pointer: &str) -> bool {
        self.by_pointer.contains_key(pointer)
    }

    pub(crate) fn insert(&mut self, pointer: String, place: Place) {
        self.by_pointer.insert(pointer, place);
    }
}

fn as_duration<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => serializer.serialize_str(&duration::shown(*duration)),
        None => serializer.serialize_none(),
    }
}

fn as_map<S: Serializer>(entries: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(name, expression)| (name, expression)))
}
