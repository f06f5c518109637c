//! From what happens inside to what is told outside: the interpreter's notices and the agents' events become events of the
//! workflow (`event.rs`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenon_core::{BoxFut, Event, EventKind, EventSink, Part, PartKind, RawJson, ToolReport, TurnRecord};

use crate::emitter::FlowEmitter;
use crate::event::{
    AgentTurn, CallPhase, ErrorData, FlowEventData, LoopType, MessageData, MessageLevel, Output, SkipReason,
    StepProgress, StepSkipped, StepStart, ToolCallData, TurnPhase,
};
use crate::hook_event::hook_event;
use crate::report::{ErrorReport, QuestionReport, StepReport};
use crate::{JsonText, NotRun, Notice, Role, Segment, Started, StepError, StepKey, StepKind, TriedAgain};

/// Tells what the interpreter has to say.
pub(crate) fn tell(events: &FlowEmitter, notice: Notice) {
    match notice {
        Notice::Started(Started { key, agent, kind, position, of }) => {
            let mut start = StepStart {
                index: position,
                total: of,
                loop_type: None,
                items: None,
                max_iterations: None,
                include: None,
            };
            match kind {
                StepKind::Agent | StepKind::Approval => {}
                StepKind::Repeat { at_most } => {
                    start.loop_type = Some(LoopType::Repeat);
                    start.max_iterations = Some(at_most);
                }
                StepKind::ForEach { items } => {
                    start.loop_type = Some(LoopType::ForEach);
                    start.items = Some(items);
                }
                StepKind::Include { name } => start.include = Some(name),
            }
            let data = FlowEventData::StepStart(start);
            events.emit_at(&key, agent.as_deref(), data);
        }
        Notice::Retrying { key, what, error, after_ms } => {
            let mut data = ErrorData {
                error: ErrorReport::from(&error),
                retry_after_ms: Some(after_ms),
                attempts: Some(key.attempt()),
                iteration: None,
                item: None,
            };
            let key = match what {
                TriedAgain::Step => key,
                TriedAgain::Turn => {
                    let mut segments = key.segments().to_vec();
                    if let Some(turn) = segments.pop() {
                        (data.iteration, data.item) = (turn.of_iteration(), turn.of_item());
                        segments.push(Segment::new(turn.id()));
                    }
                    StepKey::of(segments, Role::Work)
                }
            };
            events.emit_at(&key, None, FlowEventData::Error(data));
        }
        Notice::Ended { key, agent, record } => {
            let data = FlowEventData::StepEnd(Box::new(StepReport::new(&record)));
            events.emit_at(&key, agent.as_deref(), data);
        }
        Notice::Restored { key, agent, record } => {
            let data = FlowEventData::StepRestored(Box::new(StepReport::new(&record)));
            events.emit_at(&key, agent.as_deref(), data);
        }
        Notice::NotRun { key, agent, why, condition, record } => {
            let (reason, mut message) = skip_reason(&why);
            if let Some(condition) = condition {
                message.push_str(&format!(": {condition}"));
            }
            let data = FlowEventData::StepSkipped(StepSkipped { status: record.status, reason, message });
            events.emit_at(&key, agent.as_deref(), data);
        }
        Notice::Progress { key, done, of } => {
            let data = FlowEventData::StepProgress(StepProgress { done, of });
            events.emit_at(&key, None, data);
        }
        Notice::Asked { key, question } => {
            let data = FlowEventData::StepSuspended(Box::new(QuestionReport::new(&question)));
            events.emit_at(&key, None, data);
        }
        Notice::JudgeFailed { key, iteration, error } => {
            // Words count from 1, data from 0.
            let number = iteration + 1;
            let message = format!("untilAgent judge failed (iteration {number}): {}", error.message);
            let error = StepError { message, ..error };
            let data = ErrorData {
                error: ErrorReport::from(&error),
                retry_after_ms: None,
                attempts: None,
                iteration: Some(iteration),
                item: None,
            };
            events.emit_at(&key, None, FlowEventData::Error(data));
        }
    }
}

fn message(level: MessageLevel, text: impl Into<String>) -> FlowEventData {
    FlowEventData::Message(MessageData { level, text: text.into() })
}

fn skip_reason(why: &NotRun) -> (SkipReason, String) {
    match why {
        NotRun::ConditionFalse => (SkipReason::ConditionFalse, "condition false".to_owned()),
        NotRun::MissingData(what) => (
            SkipReason::MissingData,
            format!("condition eval: missing data, skipping step: no such key: {what}"),
        ),
        NotRun::DependencyFailed(step) => {
            (SkipReason::DependencyFailed, format!("the step `{step}`, which it depends on, failed"))
        }
        NotRun::RunEnded => (SkipReason::RunEnded, "the run ended first".to_owned()),
        NotRun::BudgetExceeded => {
            (SkipReason::BudgetExceeded, "not started: the budget is used up".to_owned())
        }
    }
}

/// Hears the agent of one step.
pub(crate) struct StepSink {
    pub(crate) events: Arc<FlowEmitter>,
    /// Whoever wants the agent's own events: telemetry.
    pub(crate) next: Arc<dyn EventSink>,
    /// None for the coordinator.
    pub(crate) step_id: Option<String>,
    pub(crate) agent: Option<String>,
    /// What the step's agent works for, as its events name it.
    pub(crate) call_id: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of each agent: the step's own, and those that work for it.
    speakers: HashMap<Option<String>, Speaker>,
    /// Arguments of calls that have not started, by who made them.
    inputs: HashMap<(Option<String>, String), RawJson>,
}

#[derive(Default)]
struct Speaker {
    model: String,
    said: String,
    /// Parts that are being written.
    open: HashMap<usize, OpenPart>,
}

struct OpenPart {
    reasoning: bool,
    /// Somebody was told a piece of it.
    told: bool,
}

impl StepSink {
    pub(crate) fn new(
        events: Arc<FlowEmitter>,
        next: Arc<dyn EventSink>,
        step_id: Option<String>,
        agent: Option<String>,
        call_id: String,
    ) -> StepSink {
        StepSink { events, next, step_id, agent, call_id, state: Mutex::default() }
    }

    pub(crate) fn message(&self, level: MessageLevel, text: impl Into<String>) {
        self.tell(message(level, text));
    }

    fn tell(&self, data: FlowEventData) {
        self.events.emit_for(self.step_id.as_deref(), self.agent.as_deref(), data);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls from before the run went on, of which some have no end.
    pub(crate) fn recall(&self, turns: &[TurnRecord]) {
        let mut state = self.state();
        for turn in turns {
            if let TurnRecord::ModelTurn { message, .. } = turn {
                let calls = message.tool_calls().map(|call| ((None, call.id.clone()), call.input()));
                state.inputs.extend(calls);
            }
        }
    }

    /// A call that is over and never began: nobody knows the tool, its arguments cannot be read, or it was denied or left out.
    fn never_began(&self, event: &Event) -> Option<FlowEventData> {
        let EventKind::ToolFinished(ToolReport { call_id, name, .. }) = &event.kind else { return None };
        let parent = self.parent(event);
        let input = self.state().inputs.remove(&(parent.clone(), call_id.clone()))?;
        Some(started(call_id, name, Some(input), parent))
    }

    /// The step's agent itself works for no call that anybody made.
    fn parent(&self, event: &Event) -> Option<String> {
        event.parent.clone().filter(|call| *call != self.call_id)
    }

    /// What an event has to say, if anything.
    fn translate(&self, event: &Event) -> Option<FlowEventData> {
        let parent = self.parent(event);
        let mut state = self.state();
        let State { speakers, inputs } = &mut *state;
        let speaker = speakers.entry(parent.clone()).or_default();
        match &event.kind {
            EventKind::Asking { turn, model } => {
                *speaker = Speaker { model: model.clone(), ..Speaker::default() };
                Some(FlowEventData::AgentTurn(AgentTurn {
                    phase: TurnPhase::Request,
                    turn: *turn,
                    model: model.clone(),
                    content: None,
                    usage: None,
                    parent_call_id: parent,
                }))
            }
            EventKind::TurnStarted { model, .. } => {
                speaker.model.clone_from(model);
                None
            }
            EventKind::PartStarted { part, kind, .. } => {
                if !matches!(kind, PartKind::ToolCall { .. }) {
                    let reasoning = *kind == PartKind::Thinking;
                    speaker.open.insert(*part, OpenPart { reasoning, told: false });
                }
                None
            }
            EventKind::PartDelta { part, text } => {
                let open = speaker.open.get_mut(part)?;
                // Agents of agents speak to their callers.
                open.told = parent.is_none();
                let (reasoning, delta) = (open.reasoning, text.clone());
                open.told.then_some(FlowEventData::Output(Output { delta, reasoning, done: false }))
            }
            EventKind::PartStopped { part, content } => {
                let was_open = speaker.open.remove(part);
                match content {
                    Part::Text { text } => speaker.said.push_str(text),
                    Part::ToolCall(call) => {
                        inputs.insert((parent.clone(), call.id.clone()), call.input());
                    }
                    _ => {}
                }
                let OpenPart { reasoning, .. } = was_open.filter(|open| open.told)?;
                Some(FlowEventData::Output(Output { delta: String::new(), reasoning, done: true }))
            }
            EventKind::TurnFinished { turn, usage } => {
                let Speaker { model, said, .. } = std::mem::take(speaker);
                let response = AgentTurn {
                    phase: TurnPhase::Response,
                    turn: *turn,
                    model,
                    content: Some(said),
                    usage: Some((*usage).into()),
                    parent_call_id: parent,
                };
                Some(FlowEventData::AgentTurn(response))
            }
            EventKind::ToolStarted { call_id, name, .. } => {
                let input = inputs.remove(&(parent.clone(), call_id.clone()));
                Some(started(call_id, name, input, parent))
            }
            EventKind::ToolFinished(report) => Some(FlowEventData::ToolCall(Box::new(ToolCallData {
                phase: CallPhase::End,
                tool_name: report.name.clone(),
                tool_call_id: report.call_id.clone(),
                input: None,
                output: Some(report.content.clone()),
                is_error: Some(report.error.is_some()),
                duration_ms: Some(report.duration_ms),
                parent_call_id: parent,
            }))),
            EventKind::Warning { message } | EventKind::RecordingDegraded { message } => {
                Some(self::message(MessageLevel::Warning, message))
            }
            EventKind::Retrying { attempt, wait_ms, class, message, .. } => {
                let seconds = *wait_ms as f64 / 1000.0;
                let text = format!("attempt {attempt} in {seconds:.1} s after error[{class}]: {message}");
                Some(self::message(MessageLevel::Note, text))
            }
            EventKind::ModelFallback { from, to, .. } => {
                let text = format!("`{from}` cannot answer now; `{to}` is asked from here on");
                Some(message(MessageLevel::Note, text))
            }
            EventKind::Compacted { before_tokens, after_tokens, .. } => {
                let text =
                    format!("the conversation was shortened: about {before_tokens} tokens to {after_tokens}");
                Some(message(MessageLevel::Note, text))
            }
            EventKind::HookStarted(_) | EventKind::HookEnded(_) => hook_event(&event.kind, parent),
            _ => None,
        }
    }
}

fn started(call_id: &str, name: &str, input: Option<RawJson>, parent: Option<String>) -> FlowEventData {
    FlowEventData::ToolCall(Box::new(ToolCallData {
        phase: CallPhase::Start,
        tool_name: name.to_owned(),
        tool_call_id: call_id.to_owned(),
        input: input.map(JsonText::from),
        output: None,
        is_error: None,
        duration_ms: None,
        parent_call_id: parent,
    }))
}

impl EventSink for StepSink {
    fn emit(&self, event: Event) {
        let told = [self.never_began(&event), self.translate(&event)];
        told.into_iter().flatten().for_each(|data| self.tell(data));
        self.next.emit(event);
    }

    fn flush(&self) {
        self.events.sink().flush();
        self.next.flush();
    }

    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        self.events.sink().blocked().or_else(|| self.next.blocked())
    }
}
