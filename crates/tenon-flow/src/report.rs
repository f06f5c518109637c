//! The result of a run as one JSON object, the same in `--output-format json` and in the event `workflow_end`. Its keys are
//! always all there.

use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use tenon_core::{Failure, Timestamp, Usage};

use crate::event::SCHEMA_VERSION;
use crate::{
    Answer, Coordinated, JsonText, OpenStatus, OpenStep, Question, Spent, StepError, StepRecord, StepStatus,
    WorkflowOutcome, WorkflowStatus,
};

/// What came of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub schema_version: u32,
    pub run_id: String,
    #[schemars(with = "RunStatusName")]
    pub status: WorkflowStatus,
    /// The document's `outputs`; without any, the result or text of the step that nothing depends on, or an object of
    /// several such. `null` unless the run completed, and when that step was skipped.
    #[schemars(with = "Option<Value>")]
    pub outputs: Option<Output>,
    /// Every step by its id, in the order of the document.
    pub steps: StepReports,
    pub usage: Tokens,
    /// Dollars; `null` when the price of something is not known.
    pub total_cost_usd: Option<f64>,
    pub duration_ms: u64,
    pub error: Option<ErrorReport>,
    /// What a suspended run waits for.
    pub questions: Vec<QuestionReport>,
    /// With `--coordinator`. What it used is part of the run's `usage` and cost.
    pub coordinator: Option<CoordinatorReport>,
}

/// A question to a person.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuestionReport {
    /// What `tenon flow approve` calls it: `each[3].gate`.
    pub step_id: String,
    pub message: String,
    /// When it was first asked.
    pub asked: String,
    /// When the document's `onTimeout` answers it; `null` when it waits for ever.
    pub expires: Option<String>,
    /// A JSON Schema of what an approval must bring along.
    pub data: Option<Value>,
}

impl QuestionReport {
    pub fn new(question: &Question) -> QuestionReport {
        let request = &question.request;
        QuestionReport {
            step_id: request.step_id.clone(),
            message: request.message.clone(),
            asked: question.asked.to_iso8601(),
            expires: question.expires().map(Timestamp::to_iso8601),
            data: request.data.clone(),
        }
    }
}

/// What the coordinator came to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoordinatorReport {
    /// Its last word, if it had one.
    pub summary: Option<String>,
    pub usage: Tokens,
    /// Dollars; `null` when the price of its model is not known.
    pub cost: Option<f64>,
    /// Requests to its model.
    pub turns: u32,
}

impl From<&Coordinated> for CoordinatorReport {
    fn from(coordinated: &Coordinated) -> CoordinatorReport {
        let Spent { usage, cost_usd, turns } = coordinated.spent;
        CoordinatorReport { summary: coordinated.summary.clone(), usage: usage.into(), cost: cost_usd, turns }
    }
}

impl Report {
    pub fn new(run_id: &str, outcome: &WorkflowOutcome) -> Report {
        let over = outcome.steps.iter().map(|(id, record)| (id.clone(), StepReport::new(record)));
        let mut steps: Vec<(String, StepReport)> = over.collect();
        // In the order of the document, so that each finds those before it.
        for open in &outcome.open {
            steps.insert(open.position.min(steps.len()), (open.id.clone(), StepReport::open(open)));
        }
        Report {
            schema_version: SCHEMA_VERSION,
            run_id: run_id.to_owned(),
            status: outcome.status,
            outputs: outcome.answer.clone().map(Output),
            steps: StepReports(steps),
            usage: outcome.spent.usage.into(),
            total_cost_usd: outcome.spent.cost_usd,
            duration_ms: outcome.duration_ms,
            error: outcome.error.as_ref().map(ErrorReport::from),
            questions: outcome.questions.iter().map(QuestionReport::new).collect(),
            coordinator: outcome.coordinator.as_ref().map(CoordinatorReport::from),
        }
    }

    /// A run that failed before its first step. `spent` is what was used to find out.
    pub fn failed_early(run_id: &str, failure: &Failure, status: WorkflowStatus, spent: &Spent) -> Report {
        Report {
            schema_version: SCHEMA_VERSION,
            run_id: run_id.to_owned(),
            status,
            outputs: None,
            steps: StepReports(Vec::new()),
            usage: spent.usage.into(),
            total_cost_usd: spent.cost_usd,
            duration_ms: 0,
            error: Some(ErrorReport {
                class: failure.class.name().to_owned(),
                message: failure.message.clone(),
                hint: failure.hint.clone(),
            }),
            questions: Vec::new(),
            coordinator: None,
        }
    }
}

/// An answer as a JSON value: text as a string, everything else as it is.
#[derive(Clone, Debug)]
pub struct Output(pub Answer);

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Answer::Content(text) => serializer.serialize_str(text),
            Answer::Outputs(json) | Answer::Result(json) | Answer::Sinks(json) => json.serialize(serializer),
        }
    }
}

/// Steps by id.
#[derive(Clone, Debug)]
pub struct StepReports(pub Vec<(String, StepReport)>);

impl Serialize for StepReports {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (id, step) in &self.0 {
            map.serialize_entry(id, step)?;
        }
        map.end()
    }
}

impl JsonSchema for StepReports {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StepReports".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let step = generator.subschema_for::<StepReport>();
        json_schema!({ "type": "object", "additionalProperties": step })
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepReport {
    #[schemars(with = "ReportStatusName")]
    pub status: ReportStatus,
    /// What the agent said, in all its turns.
    pub content: String,
    /// What it submitted.
    #[schemars(with = "Option<Value>")]
    pub result: Option<JsonText>,
    pub usage: Tokens,
    /// Dollars, over all attempts; `null` when nobody knows.
    pub cost: Option<f64>,
    pub duration_ms: u64,
    pub error: Option<ErrorReport>,
}

impl StepReport {
    pub fn new(record: &Arc<StepRecord>) -> StepReport {
        StepReport {
            status: ReportStatus::Ended(record.status),
            content: record.content.clone(),
            result: record.result.clone(),
            usage: record.spent.usage.into(),
            cost: record.spent.cost_usd,
            duration_ms: record.duration_ms,
            error: record.error.as_ref().map(ErrorReport::from),
        }
    }

    fn open(step: &OpenStep) -> StepReport {
        StepReport {
            status: match step.status {
                OpenStatus::Suspended => ReportStatus::Suspended,
                OpenStatus::Waiting => ReportStatus::Waiting,
            },
            content: String::new(),
            result: None,
            usage: step.spent.usage.into(),
            cost: step.spent.cost_usd,
            duration_ms: step.duration_ms,
            error: None,
        }
    }
}

/// How a step ended, or how it stands when its run is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportStatus {
    Ended(StepStatus),
    /// A person is asked, by the step or inside it.
    Suspended,
    /// It has not started.
    Waiting,
}

impl ReportStatus {
    /// Programs match on these names.
    pub fn name(self) -> &'static str {
        match self {
            ReportStatus::Ended(status) => status.name(),
            ReportStatus::Suspended => "suspended",
            ReportStatus::Waiting => "waiting",
        }
    }
}

impl Serialize for ReportStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// As [`ReportStatus`] spells it.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum ReportStatusName {
    Completed,
    Failed,
    Skipped,
    Cancelled,
    /// Only in the object of a suspended run.
    Suspended,
    /// Only in the object of a suspended run.
    Waiting,
}

/// Why something failed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorReport {
    /// Programs match on it: `auth`, `contract`, `timeout` …
    pub class: String,
    /// One sentence for a person.
    pub message: String,
    pub hint: Option<String>,
}

impl From<&StepError> for ErrorReport {
    fn from(error: &StepError) -> ErrorReport {
        ErrorReport {
            class: error.class.name().to_owned(),
            message: error.message.clone(),
            hint: error.hint.clone(),
        }
    }
}

/// Tokens as providers reported them. `input` includes cached tokens, `output` includes reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    pub total: u64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Tokens {
        let Usage { input, output, cache_read, cache_write, reasoning, total } = usage;
        Tokens { input, output, cache_read, cache_write, reasoning, total }
    }
}

/// As [`WorkflowStatus`] spells it.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum RunStatusName {
    Completed,
    Partial,
    Failed,
    Cancelled,
    BudgetExceeded,
    Suspended,
}
