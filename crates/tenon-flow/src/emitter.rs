//! Numbers and stamps the events of one run, and keeps their story true: an agent is heard only while its step is under way, a
//! call that has started ends before its step does, and nothing comes after the end of the run.
//!
//! Work that is dropped (a step that does not stop in time, a run that is told twice to end) cannot say so itself. What events
//! are made of is `event.rs`; which of them follows from what is `step_events.rs`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenon_core::Timestamp;

use crate::event::{CallPhase, FlowEvent, FlowEventData, FlowSink, ToolCallData};
use crate::paid::plain;
use crate::past::{first_attempt, is_tried_again_around};
use crate::{Earlier, Segment, StepKey};

/// What is said of a call whose end nobody saw.
const CUT_OFF: &str = "The step ended before the call did: it may have done something or nothing.";

pub struct FlowEmitter {
    run_id: Arc<str>,
    sink: Arc<dyn FlowSink>,
    hooks: HookEvents,
    /// Numbering and handing over happen under one lock, so that numbers leave in order.
    told: Mutex<Told>,
}

/// Whether hooks are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HookEvents {
    Told,
    NotTold,
}

/// What has been told so far.
#[derive(Default)]
struct Told {
    last_seq: u64,
    is_over: bool,
    /// Calls without an end, for each step under way. Those of the coordinator have no step.
    calls: HashMap<String, Vec<OpenCall>>,
    attempts: Attempts,
}

struct OpenCall {
    agent: Option<String>,
    start: ToolCallData,
}

impl FlowEmitter {
    pub fn new(run_id: &str, sink: Arc<dyn FlowSink>) -> FlowEmitter {
        let mut told = Told::default();
        told.calls.insert(String::new(), Vec::new());
        FlowEmitter { run_id: Arc::from(run_id), sink, hooks: HookEvents::NotTold, told: Mutex::new(told) }
    }

    /// The same, for whoever wants to hear of hooks as well.
    #[must_use]
    pub fn with_hooks(self) -> FlowEmitter {
        FlowEmitter { hooks: HookEvents::Told, ..self }
    }

    /// About the run as a whole.
    pub fn emit(&self, data: FlowEventData) {
        self.emit_for(None, None, data);
    }

    /// Of the present attempt at what is around the step.
    pub fn emit_for(&self, step_id: Option<&str>, agent: Option<&str>, data: FlowEventData) {
        self.tell(&mut self.told(), step_id, agent, data);
    }

    pub(crate) fn emit_at(&self, key: &StepKey, agent: Option<&str>, data: FlowEventData) {
        let mut told = self.told();
        let was_before = matches!(data, FlowEventData::StepRestored(_) | FlowEventData::StepSkipped(_));
        // Each step is told to be over once: as it was the last time.
        if was_before && is_tried_again_around(key, &told.attempts.earlier.0.tried) {
            return;
        }
        let step_id = key.step_id();
        told.attempts.see(key, &step_id);
        self.tell(&mut told, Some(&step_id), agent, data);
    }

    /// What had been tried before the run went on.
    pub(crate) fn recall(&self, earlier: &Earlier) {
        self.told().attempts =
            Attempts { tried: earlier.0.tried.clone(), earlier: earlier.clone(), latest: HashMap::new() };
    }

    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    pub(crate) fn sink(&self) -> &dyn FlowSink {
        &*self.sink
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, told: &mut Told, step_id: Option<&str>, agent: Option<&str>, data: FlowEventData) {
        if told.is_over {
            return;
        }
        let step = step_id.unwrap_or_default();
        match &data {
            FlowEventData::StepStart(_) => {
                told.calls.insert(step.to_owned(), Vec::new());
            }
            FlowEventData::StepEnd(_) => self.close(told, step),
            FlowEventData::WorkflowEnd(_) => {
                self.close(told, "");
                told.is_over = true;
            }
            FlowEventData::Hook(_) if self.hooks == HookEvents::NotTold => return,
            FlowEventData::AgentTurn(_) | FlowEventData::Output(_) | FlowEventData::Hook(_)
                if !told.calls.contains_key(step) =>
            {
                return;
            }
            FlowEventData::ToolCall(call) => {
                let Some(calls) = told.calls.get_mut(step) else { return };
                let is_it = |open: &OpenCall| {
                    let start = &open.start;
                    start.tool_call_id == call.tool_call_id && start.parent_call_id == call.parent_call_id
                };
                let open = calls.iter().position(is_it).map(|at| calls.remove(at));
                match (call.phase, open) {
                    (CallPhase::Start, open) => {
                        calls.push(OpenCall { agent: agent.map(str::to_owned), start: (**call).clone() });
                        if let Some(open) = open {
                            self.cut_off(told, step, open);
                        }
                    }
                    (CallPhase::End, None) => {
                        let start = ToolCallData {
                            phase: CallPhase::Start,
                            output: None,
                            is_error: None,
                            duration_ms: None,
                            ..(**call).clone()
                        };
                        self.send(told, step_id, agent, FlowEventData::ToolCall(Box::new(start)));
                    }
                    (CallPhase::End, Some(_)) => {}
                }
            }
            _ => {}
        }
        self.send(told, step_id, agent, data);
    }

    /// Nothing more of it is told.
    fn close(&self, told: &mut Told, step: &str) {
        for open in told.calls.remove(step).unwrap_or_default() {
            self.cut_off(told, step, open);
        }
    }

    fn cut_off(&self, told: &mut Told, step: &str, open: OpenCall) {
        let OpenCall { agent, start } = open;
        let end = ToolCallData {
            phase: CallPhase::End,
            input: None,
            output: Some(CUT_OFF.to_owned()),
            is_error: Some(true),
            ..start
        };
        let step_id = (!step.is_empty()).then_some(step);
        self.send(told, step_id, agent.as_deref(), FlowEventData::ToolCall(Box::new(end)));
    }

    fn send(&self, told: &mut Told, step_id: Option<&str>, agent: Option<&str>, data: FlowEventData) {
        told.last_seq += 1;
        self.sink.emit(FlowEvent {
            seq: told.last_seq,
            time: Timestamp::now(),
            run_id: Arc::clone(&self.run_id),
            attempt: step_id.map(|step_id| told.attempts.of(step_id)),
            step_id: step_id.map(str::to_owned),
            agent: agent.map(str::to_owned),
            data,
        });
    }
}

/// How often what is around steps has been tried.
#[derive(Default)]
struct Attempts {
    /// By the way to a loop's turn or an include, in which only the attempts around it count. Where that was more than once.
    tried: HashMap<Vec<Segment>, u32>,
    earlier: Earlier,
    /// The number of the present attempt, by step. Most are in their first.
    latest: HashMap<String, u32>,
}

impl Attempts {
    fn of(&self, step_id: &str) -> u32 {
        self.latest.get(step_id).copied().unwrap_or(1)
    }

    fn see(&mut self, key: &StepKey, step_id: &str) {
        match self.number(key) {
            1 if self.latest.is_empty() => {}
            number => drop(self.latest.insert(step_id.to_owned(), number)),
        }
    }

    /// From 1, and one more for every time that something around the key was tried again so far.
    fn number(&mut self, key: &StepKey) -> u32 {
        let Some((_, around)) = key.segments().split_last() else { return 1 };
        if around.iter().all(|segment| segment.of_attempt() == 1) {
            return 1;
        }
        let mut number = 1;
        for upto in 1..=around.len() {
            let place = first_attempt(&around[..upto]);
            let own = around[upto - 1].of_attempt();
            let (same, when) = (plain(&place), attempts(&place));
            let is_before =
                |other: &[Segment]| other.len() == upto && attempts(other) < when && plain(other) == same;
            let before = self.tried.iter().filter(|(other, _)| is_before(other));
            number += before.map(|(_, tried)| tried.saturating_sub(1)).sum::<u32>() + own - 1;
            if own > 1 {
                let tried = self.tried.entry(place).or_insert(1);
                *tried = own.max(*tried);
            }
        }
        number
    }
}

fn attempts(segments: &[Segment]) -> Vec<u32> {
    segments.iter().map(Segment::of_attempt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{FlowEventData, Output, StepStart};

    #[test]
    fn an_attempt_counts_whatever_is_around_it() {
        let mut attempts = Attempts::default();
        let table = [
            ("r/a@3", 1),
            ("r/inc/x@1", 1),
            ("r/inc/each[0]/x@1", 1),
            ("r/inc/each[0]@2/x@1", 2),
            ("r/inc/each[1]/x@1", 1),
            ("r/inc/each[0]@3/x@4", 3),
            ("r/inc@2/x@1", 2),
            ("r/inc@2/each[0]/x@1", 4),
            ("r/inc@2/each[1]/x@1", 2),
            ("r/inc@2/each[0]@2/x@1", 5),
            ("r/inc@3/each[0]/x@1", 6),
            ("r/inc@3/each#1@2/x@1", 4),
        ];
        for (key, wanted) in table {
            let key: StepKey = key.parse().unwrap();
            assert_eq!(attempts.number(&key), wanted, "{key}");
            // However often it is told.
            assert_eq!(attempts.number(&key), wanted, "{key}");
        }
    }

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl FlowSink for Heard {
        fn emit(&self, event: FlowEvent) {
            let phase = match &event.data {
                FlowEventData::ToolCall(call) => format!("{:?} {}", call.phase, call.tool_call_id),
                data => data.type_name().to_owned(),
            };
            let step = event.step_id.unwrap_or_default();
            self.0.lock().unwrap().push(format!("{} {phase} {step}", event.seq));
        }
    }

    fn call(id: &str, phase: CallPhase) -> FlowEventData {
        FlowEventData::ToolCall(Box::new(ToolCallData {
            phase,
            tool_name: "t".into(),
            tool_call_id: id.into(),
            input: None,
            output: None,
            is_error: None,
            duration_ms: None,
            parent_call_id: None,
        }))
    }

    #[test]
    fn what_is_dropped_leaves_no_call_open_and_is_not_heard_later() {
        let heard = Arc::new(Heard::default());
        let events = FlowEmitter::new("r", Arc::clone(&heard) as Arc<dyn FlowSink>);
        let start = StepStart {
            index: 0,
            total: 1,
            loop_type: None,
            items: None,
            max_iterations: None,
            include: None,
        };
        let piece = || FlowEventData::Output(Output { delta: String::new(), reasoning: false, done: true });
        let report = crate::StepReport::new(&Arc::new(crate::StepRecord::not_run(
            crate::StepStatus::Cancelled,
            crate::NotRun::RunEnded,
        )));
        let (step, none) = (Some("a"), None);
        events.emit_for(step, none, piece());
        events.emit_for(step, none, FlowEventData::StepStart(start));
        for (id, phase) in
            [("0", CallPhase::End), ("1", CallPhase::Start), ("1", CallPhase::End), ("2", CallPhase::Start)]
        {
            events.emit_for(step, none, call(id, phase));
        }
        events.emit_for(None, none, call("3", CallPhase::Start));
        events.emit_for(step, none, FlowEventData::StepEnd(Box::new(report)));
        events.emit_for(step, none, call("2", CallPhase::End));
        events.emit_for(step, none, piece());
        let failure = tenon_core::Failure::new(tenon_core::ErrorClass::Internal, "x");
        let spent = crate::Spent::default();
        let report = crate::Report::failed_early("r", &failure, crate::WorkflowStatus::Failed, &spent);
        events.emit(FlowEventData::WorkflowEnd(Arc::new(report)));
        events.emit_for(None, none, piece());
        assert_eq!(
            *heard.0.lock().unwrap(),
            [
                "1 step_start a",
                "2 Start 0 a",
                "3 End 0 a",
                "4 Start 1 a",
                "5 End 1 a",
                "6 Start 2 a",
                "7 Start 3 ",
                "8 End 2 a",
                "9 step_end a",
                "10 End 3 ",
                "11 workflow_end ",
            ]
        );
    }
}
