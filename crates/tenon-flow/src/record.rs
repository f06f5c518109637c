//! What is kept of a step and of a whole run when they are over.
//!
//! A [`StepRecord`] is what later steps, expressions and the result object read; a [`WorkflowOutcome`] is computed
//! once, at the end, and says status, outputs and every step's record. How they come about is `interpreter.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tenon_core::{Cost, ErrorClass, Outcome, RawJson, Usage, Used};

use crate::{Coordinated, Question, exact_json};

/// A JSON value as its text, shared: numbers and keys stay as the model wrote them, and a thousand items that see
/// the same upstream result do not copy it.
#[derive(Clone, Debug)]
pub struct JsonText(Arc<RawValue>);

impl JsonText {
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// `null` for what no JSON value can say, which a `Value` does not hold.
    pub fn of(value: &Value) -> JsonText {
        let raw = serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        JsonText(Arc::from(raw))
    }

    /// Of text that is put together from JSON; anything else becomes `null`.
    pub(crate) fn from_text(text: String) -> JsonText {
        JsonText(Arc::from(RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())))
    }

    /// As a type of the caller's: what a schema promised need not be asked for again, field by field.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Numbers stay as they are written.
    pub fn to_value(&self) -> Value {
        // A `RawValue` is valid JSON, so this is the value and never the fallback.
        exact_json::read(self.as_str()).unwrap_or(Value::Null)
    }
}

impl From<RawJson> for JsonText {
    fn from(raw: RawJson) -> JsonText {
        JsonText(Arc::from(raw))
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonText, D::Error> {
        RawJson::deserialize(deserializer).map(JsonText::from)
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &JsonText) -> bool {
        self.as_str() == other.as_str()
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Completed,
    Failed,
    Skipped,
    Cancelled,
}

impl StepStatus {
    pub const ALL: [StepStatus; 4] =
        [StepStatus::Completed, StepStatus::Failed, StepStatus::Skipped, StepStatus::Cancelled];

    /// As expressions and output spell it.
    pub fn name(self) -> &'static str {
        match self {
            StepStatus::Completed => "completed",
            StepStatus::Failed => "failed",
            StepStatus::Skipped => "skipped",
            StepStatus::Cancelled => "cancelled",
        }
    }
}

/// Everything about a step that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    pub status: StepStatus,
    /// What the agent said, in all its turns.
    pub content: String,
    /// What the agent submitted.
    pub result: Option<JsonText>,
    pub spent: Spent,
    pub duration_ms: u64,
    /// How often it was tried; 0 when it never started.
    pub attempts: u32,
    pub error: Option<StepError>,
    /// Why it did not run although nothing failed in it.
    pub not_run: Option<NotRun>,
    /// How much of `content` a prompt may show.
    pub shown: Shown,
}

impl StepRecord {
    /// A step that never started.
    pub fn not_run(status: StepStatus, why: NotRun) -> StepRecord {
        StepRecord {
            status,
            content: String::new(),
            result: None,
            spent: Spent::default(),
            duration_ms: 0,
            attempts: 0,
            error: None,
            not_run: Some(why),
            shown: Shown::Capped,
        }
    }
}

/// How much of a step's content the prompts of later steps show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// Up to the cap for one dependency.
    #[default]
    Capped,
    /// All of it: the output of a loop whose `outputMode` is `cumulative`.
    Whole,
}

/// Why a step did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotRun {
    ConditionFalse,
    /// The condition asked for something that no step left behind.
    MissingData(String),
    /// A step it depends on, directly or not, failed.
    DependencyFailed(String),
    /// The run ended first.
    RunEnded,
    /// It ended because its budget is used up.
    BudgetExceeded,
}

/// What was used, over all attempts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    pub usage: Usage,
    /// Dollars; `None` as soon as one part is not known.
    pub cost_usd: Option<f64>,
    /// Answers of models, to helpers and for summaries too.
    pub turns: u32,
}

impl Default for Spent {
    fn default() -> Spent {
        Spent { usage: Usage::default(), cost_usd: Some(0.0), turns: 0 }
    }
}

impl Spent {
    pub fn add(&mut self, other: &Spent) {
        self.usage.add(other.usage);
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            // Rounded, so that sums made in another order are the same.
            (Some(left), Some(right)) => Cost::Usd(left + right).usd(),
            _ => None,
        };
        self.turns = self.turns.saturating_add(other.turns);
    }

    pub fn of(outcome: &Outcome) -> Spent {
        Spent { usage: outcome.usage(), cost_usd: outcome.cost_usd, turns: outcome.metrics.answers() }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Spent::default()
    }

    /// As budgets count it.
    pub fn used(&self) -> Used {
        let cost = self.cost_usd.map_or(Cost::Unknown, Cost::Usd);
        Used { usage: self.usage, cost, turns: self.turns }
    }
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct StepError {
    pub class: StepErrorClass,
    /// One sentence for a person.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What whoever failed said about trying again: a server, or a step that has had attempts of its own. Without a word the class
    /// decides.
    pub retryable: Option<bool>,
    /// What a server asked for.
    pub retry_after_ms: Option<u64>,
}

impl StepError {
    pub fn new(class: StepErrorClass, message: impl Into<String>) -> StepError {
        StepError { class, message: message.into(), hint: None, retryable: None, retry_after_ms: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> StepError {
        self.hint = Some(hint.into());
        self
    }

    /// Whether nobody around may spend any more either. An included document that has used up a budget of its own says that
    /// trying again is of no use, and has failed.
    pub(crate) fn is_of_everybody(&self) -> bool {
        self.class == StepErrorClass::Budget && self.retryable != Some(false)
    }
}

/// What kind of failure it was: the classes of a single run, and those that only a workflow knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepErrorClass {
    Usage,
    Auth,
    Input,
    Config,
    Sandbox,
    Turns,
    SchemaRetries,
    Budget,
    Contract,
    Refused,
    Truncated,
    RateLimited,
    Overloaded,
    Network,
    Protocol,
    Tool,
    RepeatedCall,
    Interrupted,
    /// stdout could not be written.
    Output,
    Internal,
    /// A step, a loop or the workflow took longer than its `timeout`.
    Timeout,
    /// A condition, an `until`, a `forEach`, a template or an output could not be evaluated.
    Expression,
    /// The iterations are used up and the loop is not done.
    LoopExhausted,
    /// Items of a `forEach` failed.
    Items,
    /// A step of an included workflow failed, or includes are nested too deeply.
    Include,
    /// A folder of its own could not be made for the step.
    Isolation,
    /// A person said no, or nobody said yes in time.
    Denied,
    /// What happens can no longer be kept.
    Journal,
}

impl StepErrorClass {
    pub const ALL: [StepErrorClass; 28] = [
        StepErrorClass::Usage,
        StepErrorClass::Auth,
        StepErrorClass::Input,
        StepErrorClass::Config,
        StepErrorClass::Sandbox,
        StepErrorClass::Turns,
        StepErrorClass::SchemaRetries,
        StepErrorClass::Budget,
        StepErrorClass::Contract,
        StepErrorClass::Refused,
        StepErrorClass::Truncated,
        StepErrorClass::RateLimited,
        StepErrorClass::Overloaded,
        StepErrorClass::Network,
        StepErrorClass::Protocol,
        StepErrorClass::Tool,
        StepErrorClass::RepeatedCall,
        StepErrorClass::Interrupted,
        StepErrorClass::Output,
        StepErrorClass::Internal,
        StepErrorClass::Timeout,
        StepErrorClass::Expression,
        StepErrorClass::LoopExhausted,
        StepErrorClass::Items,
        StepErrorClass::Include,
        StepErrorClass::Isolation,
        StepErrorClass::Denied,
        StepErrorClass::Journal,
    ];

    /// Programs match on these names.
    pub fn name(self) -> &'static str {
        match self {
            StepErrorClass::Usage => "usage",
            StepErrorClass::Auth => "auth",
            StepErrorClass::Input => "input",
            StepErrorClass::Config => "config",
            StepErrorClass::Sandbox => "sandbox",
            StepErrorClass::Turns => "turns",
            StepErrorClass::SchemaRetries => "schema_retries",
            StepErrorClass::Budget => "budget",
            StepErrorClass::Contract => "contract",
            StepErrorClass::Refused => "refused",
            StepErrorClass::Truncated => "truncated",
            StepErrorClass::RateLimited => "rate_limited",
            StepErrorClass::Overloaded => "overloaded",
            StepErrorClass::Network => "network",
            StepErrorClass::Protocol => "protocol",
            StepErrorClass::Tool => "tool",
            StepErrorClass::RepeatedCall => "repeated_call",
            StepErrorClass::Interrupted => "interrupted",
            StepErrorClass::Output => "output",
            StepErrorClass::Internal => "internal",
            StepErrorClass::Timeout => "timeout",
            StepErrorClass::Expression => "expression",
            StepErrorClass::LoopExhausted => "loop_exhausted",
            StepErrorClass::Items => "items",
            StepErrorClass::Include => "include",
            StepErrorClass::Isolation => "isolation",
            StepErrorClass::Denied => "denied",
            StepErrorClass::Journal => "journal",
        }
    }
}

impl From<ErrorClass> for StepErrorClass {
    fn from(class: ErrorClass) -> StepErrorClass {
        match class {
            ErrorClass::Usage => StepErrorClass::Usage,
            ErrorClass::Auth => StepErrorClass::Auth,
            ErrorClass::Input => StepErrorClass::Input,
            ErrorClass::Config => StepErrorClass::Config,
            ErrorClass::Sandbox => StepErrorClass::Sandbox,
            ErrorClass::Turns => StepErrorClass::Turns,
            ErrorClass::SchemaRetries => StepErrorClass::SchemaRetries,
            ErrorClass::Budget | ErrorClass::BudgetUsd => StepErrorClass::Budget,
            ErrorClass::Contract => StepErrorClass::Contract,
            ErrorClass::Refused => StepErrorClass::Refused,
            ErrorClass::Truncated => StepErrorClass::Truncated,
            ErrorClass::RateLimited => StepErrorClass::RateLimited,
            ErrorClass::Overloaded => StepErrorClass::Overloaded,
            ErrorClass::Network => StepErrorClass::Network,
            ErrorClass::Protocol => StepErrorClass::Protocol,
            ErrorClass::Tool => StepErrorClass::Tool,
            ErrorClass::RepeatedCall => StepErrorClass::RepeatedCall,
            ErrorClass::Interrupted(_) => StepErrorClass::Interrupted,
            ErrorClass::Output => StepErrorClass::Output,
            ErrorClass::Internal => StepErrorClass::Internal,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowStatus {
    Completed,
    /// Some steps completed, others failed or were cancelled.
    Partial,
    Failed,
    Cancelled,
    BudgetExceeded,
    /// Nothing is left to do until somebody answers.
    Suspended,
}

impl WorkflowStatus {
    pub fn name(self) -> &'static str {
        match self {
            WorkflowStatus::Completed => "completed",
            WorkflowStatus::Partial => "partial",
            WorkflowStatus::Failed => "failed",
            WorkflowStatus::Cancelled => "cancelled",
            WorkflowStatus::BudgetExceeded => "budget_exceeded",
            WorkflowStatus::Suspended => "suspended",
        }
    }
}

/// Everything about a run that is over: status, answer and error are computed once and cannot disagree.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowOutcome {
    pub status: WorkflowStatus,
    /// The answer; none unless the run completed and something was left behind.
    pub answer: Option<Answer>,
    /// Each step of the document that is over, in its order; of loops and includes only the step itself.
    pub steps: Vec<(String, Arc<StepRecord>)>,
    pub spent: Spent,
    pub duration_ms: u64,
    /// Why it did not complete: the run's own reason, else that of the first step that failed.
    pub error: Option<StepError>,
    /// What the coordinator came to, where there was one. Its spending is in `spent`.
    pub coordinator: Option<Coordinated>,
    /// Of a suspended run: the steps that have not ended, which are not in `steps`.
    pub open: Vec<OpenStep>,
    /// What a suspended run waits for.
    pub questions: Vec<Question>,
}

/// A step that has not ended when its run is set aside.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenStep {
    pub id: String,
    /// Among all steps of the document, from 0.
    pub position: usize,
    pub status: OpenStatus,
    /// By what is over inside it.
    pub spent: Spent,
    pub duration_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenStatus {
    /// It has started, and a person is asked: by the step itself, or inside it.
    Suspended,
    /// It has not started.
    Waiting,
}

impl WorkflowOutcome {
    pub fn step(&self, id: &str) -> Option<&StepRecord> {
        self.steps.iter().find(|(name, _)| name == id).map(|(_, record)| &**record)
    }

    /// Records by id, for callers that look up many.
    pub fn by_id(&self) -> BTreeMap<&str, &StepRecord> {
        self.steps.iter().map(|(id, record)| (id.as_str(), &**record)).collect()
    }
}

/// What a run gives back.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The object of `outputs`, where the document declares them.
    Outputs(JsonText),
    /// The result of the one step that nothing depends on.
    Result(JsonText),
    /// Its content, when it has no result.
    Content(String),
    /// With several such steps: an object of their results or contents, by id.
    Sinks(JsonText),
}

impl Answer {
    /// What stdout shows: JSON on one line, or the text as it is.
    pub fn text(&self) -> &str {
        match self {
            Answer::Outputs(json) | Answer::Result(json) | Answer::Sinks(json) => json.as_str(),
            Answer::Content(text) => text,
        }
    }
}
