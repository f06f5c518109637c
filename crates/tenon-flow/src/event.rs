//! What happens in a run of a workflow, as it happens: our own versioned format, one JSON object per event.
//!
//! Every event has its number, its time and the run's id; `data` has a fixed shape for each type. The schema is published
//! ([`events_schema`], `schemas/flow-events.json`), and consumers pass over types and fields that they do not know. Events
//! hold results, so they go to whoever asked for the run and are not kept. Which event follows from what is in
//! `step_events.rs`; who numbers them is `emitter.rs`.

use std::sync::Arc;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use tenon_core::{BoxFut, Timestamp};

use crate::hook_event::HookData;
use crate::message::{
    AgentIdle, AgentInboxDrain, AgentWake, CoordinatorInboxMessage, CoordinatorNarration,
    CoordinatorSynthesis, MaxWakeCyclesWarning, MessageDropped, MessageSent,
};
use crate::report::{ErrorReport, QuestionReport, Report, StepReport, Tokens};
use crate::{JsonText, StepStatus};

/// Of this format and of the object of `json`. It grows when a meaning changes; what is added does not change it.
pub const SCHEMA_VERSION: u32 = 1;

#[derive(Clone, Debug)]
pub struct FlowEvent {
    /// 1, 2, 3 … within one run.
    pub seq: u64,
    pub time: Timestamp,
    pub run_id: Arc<str>,
    /// `each[3].inner`; none for the run as a whole.
    pub step_id: Option<String>,
    /// From 1, and one more each time something around the step is tried again. None for the run as a whole.
    pub attempt: Option<u32>,
    /// The key of the document's `agents`.
    pub agent: Option<String>,
    pub data: FlowEventData,
}

#[derive(Clone, Debug)]
pub enum FlowEventData {
    PlanReady(PlanReady),
    WorkflowStart(WorkflowStart),
    WorkflowEnd(Arc<Report>),
    StepStart(StepStart),
    StepProgress(StepProgress),
    StepEnd(Box<StepReport>),
    /// It had ended before the run went on.
    StepRestored(Box<StepReport>),
    StepSkipped(StepSkipped),
    /// A person is asked.
    StepSuspended(Box<QuestionReport>),
    AgentTurn(AgentTurn),
    ToolCall(Box<ToolCallData>),
    /// Only where hooks are asked for.
    Hook(Box<HookData>),
    Output(Output),
    Message(MessageData),
    Error(ErrorData),
    MessageSent(MessageSent),
    MessageDropped(MessageDropped),
    AgentInboxDrain(AgentInboxDrain),
    AgentIdle(AgentIdle),
    AgentWake(AgentWake),
    MaxWakeCyclesWarning(MaxWakeCyclesWarning),
    CoordinatorInboxMessage(CoordinatorInboxMessage),
    CoordinatorNarration(CoordinatorNarration),
    CoordinatorSynthesis(CoordinatorSynthesis),
}

impl FlowEventData {
    /// Programs match on these names.
    pub fn type_name(&self) -> &'static str {
        match self {
            FlowEventData::PlanReady(_) => "plan_ready",
            FlowEventData::WorkflowStart(_) => "workflow_start",
            FlowEventData::WorkflowEnd(_) => "workflow_end",
            FlowEventData::StepStart(_) => "step_start",
            FlowEventData::StepProgress(_) => "step_progress",
            FlowEventData::StepEnd(_) => "step_end",
            FlowEventData::StepRestored(_) => "step_restored",
            FlowEventData::StepSkipped(_) => "step_skipped",
            FlowEventData::StepSuspended(_) => "step_suspended",
            FlowEventData::AgentTurn(_) => "agent_turn",
            FlowEventData::ToolCall(_) => "tool_call",
            FlowEventData::Hook(_) => "hook",
            FlowEventData::Output(_) => "output",
            FlowEventData::Message(_) => "message",
            FlowEventData::Error(_) => "error",
            FlowEventData::MessageSent(_) => "message_sent",
            FlowEventData::MessageDropped(_) => "message_dropped",
            FlowEventData::AgentInboxDrain(_) => "agent_inbox_drain",
            FlowEventData::AgentIdle(_) => "agent_idle",
            FlowEventData::AgentWake(_) => "agent_wake",
            FlowEventData::MaxWakeCyclesWarning(_) => "max_wake_cycles_warning",
            FlowEventData::CoordinatorInboxMessage(_) => "coordinator_inbox_message",
            FlowEventData::CoordinatorNarration(_) => "coordinator_narration",
            FlowEventData::CoordinatorSynthesis(_) => "coordinator_synthesis",
        }
    }
}

/// The document, before anything runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanReady {
    /// As it was read, with the text of its files in place.
    pub workflow: Value,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowStart {
    /// Of this format.
    pub schema_version: u32,
    pub name: String,
    /// Steps of the document; those inside loops and includes are not counted.
    pub total: u32,
    /// The run was begun before, and goes on.
    pub resumed: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepStart {
    /// In the order of its workflow, from 0.
    pub index: u32,
    /// Steps of its workflow.
    pub total: u32,
    pub loop_type: Option<LoopType>,
    /// Of a `forEach`: how many items.
    pub items: Option<u32>,
    /// Of a repeat-until loop: how many rounds at most.
    pub max_iterations: Option<u32>,
    /// Of an include: what is included.
    pub include: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum LoopType {
    #[serde(rename = "repeat")]
    Repeat,
    #[serde(rename = "forEach")]
    ForEach,
}

/// A round or an item of a loop is over.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepProgress {
    pub done: u32,
    /// At most.
    pub of: u32,
}

/// A step that will not run, as far as the present attempt at what is around it goes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepSkipped {
    /// `skipped` or `cancelled`.
    #[schemars(with = "StatusName")]
    pub status: StepStatus,
    pub reason: SkipReason,
    /// In words.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    ConditionFalse,
    MissingData,
    DependencyFailed,
    RunEnded,
    BudgetExceeded,
}

/// A model is asked, or has answered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentTurn {
    pub phase: TurnPhase,
    /// Within the agent, from 1.
    pub turn: u32,
    pub model: String,
    /// What the model said; in the response.
    pub content: Option<String>,
    /// In the response.
    pub usage: Option<Tokens>,
    /// The tool call that an agent of a step's agent works for.
    pub parent_call_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnPhase {
    Request,
    Response,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCallData {
    pub phase: CallPhase,
    pub tool_name: String,
    pub tool_call_id: String,
    /// The arguments as the model gave them, `{"_raw": "…"}` with their text where they are no JSON object; at the start.
    #[schemars(with = "Option<Value>")]
    pub input: Option<JsonText>,
    /// What the model is told; at the end.
    pub output: Option<String>,
    /// Whether the call failed; at the end.
    pub is_error: Option<bool>,
    pub duration_ms: Option<u64>,
    /// The tool call that an agent of a step's agent works for.
    pub parent_call_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallPhase {
    Start,
    End,
}

/// A piece of what a model writes, as it writes it. Only for those who ask for pieces.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub delta: String,
    /// The model thinks; it does not answer.
    pub reasoning: bool,
    /// The last piece of its turn.
    pub done: bool,
}

/// Something a person should know although the run goes on.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageData {
    pub level: MessageLevel,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageLevel {
    /// Good to know.
    Note,
    /// Something is not as it should be.
    Warning,
}

/// Something went wrong and the run goes on: a step is tried again, a judge gave no verdict.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorData {
    pub error: ErrorReport,
    /// The step is tried again after this long.
    pub retry_after_ms: Option<u64>,
    /// How often the step, the round or the item has been tried by now; none for a judge.
    pub attempts: Option<u32>,
    /// Of a loop: the round that is tried again, or that its judge gave no verdict on, from 0.
    pub iteration: Option<u32>,
    /// Of a `forEach`: the item that is tried again, from 0.
    pub item: Option<u32>,
}

/// As [`StepStatus`] spells it.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum StatusName {
    Completed,
    Failed,
    Skipped,
    Cancelled,
}

impl Serialize for FlowEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(8))?;
        map.serialize_entry("type", self.data.type_name())?;
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("time", &self.time.to_iso8601())?;
        map.serialize_entry("run_id", &*self.run_id)?;
        map.serialize_entry("step_id", &self.step_id)?;
        map.serialize_entry("attempt", &self.attempt)?;
        map.serialize_entry("agent", &self.agent)?;
        match &self.data {
            FlowEventData::PlanReady(data) => map.serialize_entry("data", data),
            FlowEventData::WorkflowStart(data) => map.serialize_entry("data", data),
            FlowEventData::WorkflowEnd(data) => map.serialize_entry("data", &**data),
            FlowEventData::StepStart(data) => map.serialize_entry("data", data),
            FlowEventData::StepProgress(data) => map.serialize_entry("data", data),
            FlowEventData::StepEnd(data) | FlowEventData::StepRestored(data) => {
                map.serialize_entry("data", data)
            }
            FlowEventData::StepSkipped(data) => map.serialize_entry("data", data),
            FlowEventData::StepSuspended(data) => map.serialize_entry("data", data),
            FlowEventData::AgentTurn(data) => map.serialize_entry("data", data),
            FlowEventData::ToolCall(data) => map.serialize_entry("data", data),
            FlowEventData::Hook(data) => map.serialize_entry("data", data),
            FlowEventData::Output(data) => map.serialize_entry("data", data),
            FlowEventData::Message(data) => map.serialize_entry("data", data),
            FlowEventData::Error(data) => map.serialize_entry("data", data),
            FlowEventData::MessageSent(data) => map.serialize_entry("data", data),
            FlowEventData::MessageDropped(data) => map.serialize_entry("data", data),
            FlowEventData::AgentInboxDrain(data) => map.serialize_entry("data", data),
            FlowEventData::AgentIdle(data) => map.serialize_entry("data", data),
            FlowEventData::AgentWake(data) => map.serialize_entry("data", data),
            FlowEventData::MaxWakeCyclesWarning(data) => map.serialize_entry("data", data),
            FlowEventData::CoordinatorInboxMessage(data) => map.serialize_entry("data", data),
            FlowEventData::CoordinatorNarration(data) => map.serialize_entry("data", data),
            FlowEventData::CoordinatorSynthesis(data) => map.serialize_entry("data", data),
        }?;
        map.end()
    }
}

/// The JSON Schema of one line of events, as it is published: what a later version adds fits it, too.
pub fn events_schema() -> Value {
    let mut schema = exact_events_schema();
    let mut known = Vec::new();
    for line in schema["oneOf"].as_array().into_iter().flatten() {
        known.push(line["properties"]["type"]["const"].clone());
    }
    let mut added = line("", &json!({ "type": "object" }));
    added["description"] = json!("An event of a later version: to be passed over.");
    added["properties"]["type"] = json!({ "type": "string", "not": { "enum": known } });
    if let Some(lines) = schema["oneOf"].as_array_mut() {
        lines.push(added);
    }
    allow_more(&mut schema);
    schema
}

/// Fields that a schema does not name are no mistake.
fn allow_more(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("additionalProperties") == Some(&Value::Bool(false)) {
                members.shift_remove("additionalProperties");
            }
            members.values_mut().for_each(allow_more);
        }
        Value::Array(items) => items.iter_mut().for_each(allow_more),
        _ => {}
    }
}

/// The same of this version and no other: what it does not name is a mistake.
pub fn exact_events_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let types = [
        ("plan_ready", reference::<PlanReady>(&mut generator)),
        ("workflow_start", reference::<WorkflowStart>(&mut generator)),
        ("workflow_end", reference::<Report>(&mut generator)),
        ("step_start", reference::<StepStart>(&mut generator)),
        ("step_progress", reference::<StepProgress>(&mut generator)),
        ("step_end", reference::<StepReport>(&mut generator)),
        ("step_restored", reference::<StepReport>(&mut generator)),
        ("step_skipped", reference::<StepSkipped>(&mut generator)),
        ("step_suspended", reference::<QuestionReport>(&mut generator)),
        ("agent_turn", reference::<AgentTurn>(&mut generator)),
        ("tool_call", reference::<ToolCallData>(&mut generator)),
        ("hook", reference::<HookData>(&mut generator)),
        ("output", reference::<Output>(&mut generator)),
        ("message", reference::<MessageData>(&mut generator)),
        ("error", reference::<ErrorData>(&mut generator)),
        ("message_sent", reference::<MessageSent>(&mut generator)),
        ("message_dropped", reference::<MessageDropped>(&mut generator)),
        ("agent_inbox_drain", reference::<AgentInboxDrain>(&mut generator)),
        ("agent_idle", reference::<AgentIdle>(&mut generator)),
        ("agent_wake", reference::<AgentWake>(&mut generator)),
        ("max_wake_cycles_warning", reference::<MaxWakeCyclesWarning>(&mut generator)),
        ("coordinator_inbox_message", reference::<CoordinatorInboxMessage>(&mut generator)),
        ("coordinator_narration", reference::<CoordinatorNarration>(&mut generator)),
        ("coordinator_synthesis", reference::<CoordinatorSynthesis>(&mut generator)),
    ];
    let lines: Vec<Value> = types.into_iter().map(|(name, data)| line(name, &data)).collect();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tenon: events of a workflow",
        "description": "One line of `tenon flow run --output-format stream-json`.",
        "oneOf": lines,
        "$defs": definitions,
    })
}

fn reference<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn line(name: &str, data: &Value) -> Value {
    let nullable = json!({ "type": ["string", "null"] });
    json!({
        "type": "object",
        "properties": {
            "type": { "const": name },
            "seq": { "type": "integer", "minimum": 1 },
            "time": { "type": "string", "format": "date-time" },
            "run_id": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" },
            "step_id": nullable,
            "attempt": { "type": ["integer", "null"], "minimum": 1 },
            "agent": nullable,
            "data": data,
        },
        "required": ["type", "seq", "time", "run_id", "step_id", "attempt", "agent", "data"],
        "additionalProperties": false,
    })
}

/// Where the events of a run go. `emit` and `flush` never wait.
pub trait FlowSink: Send + Sync {
    fn emit(&self, event: FlowEvent);
    /// Nothing more is ready for now.
    fn flush(&self) {}
    /// A reader that cannot keep up: the future ends when it has caught up. Agents wait for it.
    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        None
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFlowSink;

impl FlowSink for NoFlowSink {
    fn emit(&self, _event: FlowEvent) {}
}
