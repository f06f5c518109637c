//! What a run did before it was cut off, gone through again: turns that were paid for are not asked for, and calls
//! that were carried out are not carried out.
//!
//! The loop (`turn_loop.rs`) decides the same as before, because it sees the same answers: so counts, attempts and
//! the conversation come out as they were, and what is new begins where the records end. A call that had begun and
//! whose end nobody wrote down is told to the model as unknown. Whoever keeps the records is a
//! [`tenon_core::TurnJournal`].

use std::collections::{HashMap, VecDeque};

use tenon_core::{
    BegunTask, Cost, FinishReason, LeftBehind, Message, Origin, TaskKind, ToolCall, ToolErrorKind,
    ToolOutcome, ToolResult, TurnRecord, Usage, Used,
};

use crate::fold::Turn;
use crate::history::INTERRUPTED;
use crate::run_batch::Done;
use crate::run_state::Run;

/// The records of a run that goes on here, in their order.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// What the model said and was told, and where the conversation was replaced by a shorter one.
    answers: VecDeque<Answer>,
    calls: HashMap<String, Call>,
    /// Requests that were paid for and are no turns.
    besides: Vec<(String, Usage)>,
    /// Background work that was begun and of whose end the model was not told.
    tasks: Vec<BegunTask>,
}

#[derive(Clone, Debug)]
enum Answer {
    Turn { model: String, message: Message, usage: Usage, finish: FinishReason },
    Compacted(Vec<Message>),
    Told { message: Message, origin: Origin, is_mail: bool },
}

#[derive(Clone, Debug)]
enum Call {
    Begun,
    Done(Box<(ToolResult, LeftBehind)>),
}

impl Replay {
    pub fn of(records: impl IntoIterator<Item = TurnRecord>) -> Replay {
        let mut replay = Replay::default();
        for record in records {
            match record {
                TurnRecord::UserMessage { message, origin, mail, ended } => {
                    let is_mail = !mail.is_empty();
                    replay.know_ended(&ended);
                    replay.answers.push_back(Answer::Told { message, origin, is_mail });
                }
                TurnRecord::ModelTurn { model, message, usage, finish, .. } => {
                    replay.answers.push_back(Answer::Turn { model, message, usage, finish });
                }
                TurnRecord::ToolStarted { call_id, .. } => {
                    replay.calls.entry(call_id).or_insert(Call::Begun);
                }
                TurnRecord::ToolFinished { result, left, .. } => {
                    replay.tasks.extend(left.begun.iter().cloned());
                    replay.know_ended(&left.ended);
                    replay.calls.insert(result.call_id.clone(), Call::Done(Box::new((result, left))));
                }
                TurnRecord::Compacted { messages, .. } => {
                    replay.answers.push_back(Answer::Compacted(messages))
                }
                TurnRecord::Besides { model, usage } => replay.besides.push((model, usage)),
                // How a run was left says nothing about what it did.
                TurnRecord::Stopped { .. } | TurnRecord::Withdrawn => {}
            }
        }
        replay
    }

    /// Whether the record stands there already.
    pub(crate) fn has(&mut self, record: &TurnRecord) -> bool {
        match record {
            TurnRecord::ToolStarted { call_id, .. } => self.calls.contains_key(call_id),
            TurnRecord::ToolFinished { result, .. } => {
                matches!(self.calls.get(&result.call_id), Some(Call::Done(..)))
            }
            TurnRecord::UserMessage { .. }
            | TurnRecord::ModelTurn { .. }
            | TurnRecord::Compacted { .. }
            | TurnRecord::Besides { .. }
            | TurnRecord::Stopped { .. }
            | TurnRecord::Withdrawn => false,
        }
    }

    /// What the model was told at this place, if anything.
    pub(crate) fn told(&mut self) -> Option<Message> {
        let Some(Answer::Told { .. }) = self.answers.front() else { return None };
        match self.answers.pop_front() {
            Some(Answer::Told { message, .. }) => Some(message),
            _ => None,
        }
    }

    fn know_ended(&mut self, ended: &[String]) {
        self.tasks.retain(|task| !ended.contains(&task.task_id));
    }

    /// What was under way in the background when the run was cut off, once its past has been gone through.
    pub(crate) fn lost_tasks(&mut self) -> Vec<BegunTask> {
        if self.answers.is_empty() { std::mem::take(&mut self.tasks) } else { Vec::new() }
    }

    pub(crate) fn has_lost_an_agent(&self) -> bool {
        self.tasks.iter().any(|task| task.kind == TaskKind::Agent)
    }

    pub(crate) fn knows(&self, call: &ToolCall) -> bool {
        self.calls.contains_key(&call.id)
    }
}

impl Run<'_> {
    /// The next turn, if it was taken before.
    pub(crate) fn turn_again(&mut self) -> Option<Turn> {
        let Some(Answer::Turn { .. }) = self.replay.answers.front() else { return None };
        let Some(Answer::Turn { model, message, usage, finish }) = self.replay.answers.pop_front() else {
            return None;
        };
        self.turns += 1;
        for call in message.tool_calls() {
            // Taken, so that no later call gets the same.
            self.agent.lineage.unused_call_id(call.id.clone());
        }
        let offer = self.offer();
        let load = self.context.weigh(&self.agent.system, &offer, &self.history);
        self.context.learn(load, usage, &message);
        // Whoever answered then, the chosen model is asked from here on: it may have been chosen anew.
        self.count_again(&model, usage);
        Some(Turn { message, usage, finish })
    }

    /// What was asked besides the turns, and by others for this agent.
    pub(crate) fn count_besides(&mut self) {
        for (model, usage) in std::mem::take(&mut self.replay.besides) {
            self.count_again(&model, usage);
        }
    }

    /// It was paid for: it counts, whether or not it would be paid for today.
    fn count_again(&mut self, model: &str, usage: Usage) {
        let told = (usage != Usage::default()).then_some(usage);
        let cost = Cost::of(self.agent.models.price(model), told);
        self.agent.budget.count(Used { usage, cost, turns: 1 });
        let metrics = self.metrics.models.entry(model.to_owned()).or_default();
        metrics.requests += 1;
        metrics.usage.add(usage);
        metrics.cost.add(cost);
    }

    /// Tells what came from elsewhere in its old place. Whether the past is still being gone through: news waits until then.
    pub(crate) fn tells_again(&mut self) -> bool {
        loop {
            match self.replay.answers.front() {
                Some(Answer::Told { origin: Origin::Notice, .. }) => {
                    if let Some(message) = self.replay.told() {
                        self.add_told(message, Origin::Notice);
                    }
                }
                Some(Answer::Compacted(_)) => self.makes_room_again(),
                Some(Answer::Told { .. } | Answer::Turn { .. }) => return true,
                None => return false,
            }
        }
    }

    /// Whether there was something to go on with when the model had nothing more to do.
    pub(crate) fn heard_more(&mut self) -> bool {
        match self.replay.answers.front() {
            Some(Answer::Told { origin: Origin::Notice, is_mail, .. }) => {
                self.woken += u32::from(*is_mail);
                true
            }
            _ => false,
        }
    }

    /// Whether room need not be made here: it was, or the turn that follows was taken without.
    pub(crate) fn has_room_from_before(&mut self) -> bool {
        self.makes_room_again();
        !self.replay.answers.is_empty()
    }

    fn makes_room_again(&mut self) {
        while let Some(Answer::Compacted(_)) = self.replay.answers.front() {
            if let Some(Answer::Compacted(messages)) = self.replay.answers.pop_front() {
                self.history = messages;
                self.prompted = None;
            }
        }
    }

    /// What became of a call, if it was begun before.
    pub(crate) async fn call_again(
        &mut self,
        call: &ToolCall,
    ) -> Result<Option<ToolResult>, tenon_core::Failure> {
        let Some(known) = self.replay.calls.get(&call.id).cloned() else { return Ok(None) };
        self.tool_calls += 1;
        self.agent.lineage.count_tool_call();
        match known {
            Call::Begun => {
                let outcome = ToolOutcome::error(ToolErrorKind::Failed, INTERRUPTED);
                self.report(call, Done::at_once(outcome)).await.map(Some)
            }
            Call::Done(done) => {
                let (result, left) = *done;
                self.agent.registry.recall(&left);
                let metrics = self.metrics.tools.entry(call.name.clone()).or_default();
                if result.is_error {
                    metrics.fail += 1;
                } else {
                    metrics.success += 1;
                }
                self.batch.results.push(result.clone());
                Ok(Some(result))
            }
        }
    }
}
