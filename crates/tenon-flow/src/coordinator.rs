//! The coordinator: an agent beside the steps that hears what happens, passes messages on, and says in the end what came of it.
//! Only with `--coordinator`, because it costs a request for almost everything that happens.
//!
//! It decides nothing: which steps run and how they end is the interpreter's, and a coordinator that fails is told and missed by
//! nobody. Its turns are kept like those of a step, under the run's own key, and its last word is a signal: a run that goes on
//! pays for neither again. Its tools are in `coordinator_tools.rs`; its mailbox is one of the post's (`post.rs`).

mod patience;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tenon_agent::{Assignment, Cap, Folder, HowToAnswer, Limits, Replay, SetBy, Stop, run, system_prompt};
use tenon_core::{Ending, ErrorClass, EventSink, Failure, Message, Sampling, TurnRecord};
use tenon_tools::Registry;

use crate::addressee::names;
use crate::agent_step::as_step_error;
use crate::coordinator_tools::{self, LastWord};
use crate::emitter::FlowEmitter;
use crate::event::{ErrorData, FlowEventData};
use crate::message::{Address, COORDINATOR, DropReason};
use crate::paid::cost_of;
use crate::post::{Note, Post, Reader};
use crate::report::ErrorReport;
use crate::signal::{Signal, SignalJournal, Signals, mail_told};
use crate::step_events::StepSink;
use crate::{
    LoadedWorkflow, ModelWish, Notice, Role, Spent, StepKey, StepLog, StepParts, StepStatus, Turns,
    WorkflowOutcome, WorkflowStatus,
};
use patience::Pulse;

/// What the ids of what it is told about steps begin with.
const STEP_NOTE: &str = "step ";
/// One for each time it is woken, and one to answer each.
const MAX_TURNS: u32 = 250;

const WORK: &str = "You are the coordinator of a workflow. Agents work on its steps; you do none of their work and decide nothing \
    about it. You are told what happens. Pass on with `forward_to_agent` what one step learns and another needs. Say with `narrate`, \
    in one sentence, what whoever watches should know. When you are told that the workflow has ended, call `finalize` with a short \
    summary. When there is nothing to do, answer with the one word `ok`.";

/// Whether a run has a coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coordination {
    On,
    #[default]
    Off,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Coordinated {
    /// Its last word, if it had one.
    pub summary: Option<String>,
    pub spent: Spent,
}

/// A coordinator at work.
pub(crate) struct Coordinator {
    flow: Arc<LoadedWorkflow>,
    post: Arc<Post>,
    word: Arc<LastWord>,
    /// What steps of the document have come to.
    tally: Mutex<BTreeMap<String, StepStatus>>,
    /// What it was told before the run went on.
    told: HashSet<String>,
    pulse: Arc<Pulse>,
    journal: Arc<dyn SignalJournal>,
}

impl Coordinator {
    pub(crate) fn new(
        flow: &Arc<LoadedWorkflow>,
        post: &Arc<Post>,
        events: &Arc<FlowEmitter>,
        signals: &Signals,
    ) -> Coordinator {
        let said = signals.records.iter().rev().find_map(|signal| match signal {
            Signal::Finalized { summary } => Some(summary.clone()),
            _ => None,
        });
        let before = flow.steps.iter().filter(|step| signals.ended.contains(&step.id));
        let word = LastWord::new(said, Arc::clone(post), Arc::clone(events), Arc::clone(&signals.journal));
        Coordinator {
            flow: Arc::clone(flow),
            post: Arc::clone(post),
            word: Arc::new(word),
            tally: Mutex::new(before.map(|step| (step.id.clone(), StepStatus::Completed)).collect()),
            told: signals.mail_told.clone(),
            pulse: Arc::default(),
            journal: Arc::clone(&signals.journal),
        }
    }

    /// Listens until it has said its last word, or the run does not wait for it any longer.
    async fn listen(
        &self,
        parts: &StepParts,
        turns: Turns,
        events: &Arc<FlowEmitter>,
        stop: Stop,
    ) -> Coordinated {
        let key = key(events.run_id()).to_string();
        if let Some(summary) = cut_off(&turns.records).filter(|_| self.word.said().is_none()) {
            // Should that not be kept, it is asked once more.
            let _ = self.word.say(summary).await;
        }
        if self.word.said().is_some() && !self.has_more_to_hear(&turns.records).await {
            self.post.close_for(&Address::Coordinator, DropReason::MailboxClosedByFinalize).await;
            let spent = cost_of(&turns.records, &parts.template.models);
            parts.template.budget.count(spent.used());
            return self.paid(spent).await;
        }
        let (spent, failure) = match parts.models.model(&ModelWish::default(), None) {
            Ok(mut model) => {
                model.client = self.pulse.of(model.client);
                let sink = StepSink::new(
                    Arc::clone(events),
                    Arc::clone(&parts.sink),
                    None,
                    Some(COORDINATOR.to_owned()),
                    key.clone(),
                );
                sink.recall(&turns.records);
                let registry = Registry::new();
                for tool in coordinator_tools::tools(&self.flow, &self.post, events, &self.word, &stop) {
                    // Their names differ.
                    let _ = registry.add(tool);
                }
                let mut agent = parts.template.agent(Assignment {
                    call_id: key,
                    kind: COORDINATOR.to_owned(),
                    system: system_prompt(HowToAnswer::InText, &[], Some(WORK), None),
                    prompt: Message::user(self.prompt(parts)),
                    contract: None,
                    model: Some(model),
                    sampling: Sampling::default(),
                    registry,
                    permissions: parts.template.permissions.clone(),
                    folder: Folder::OfTemplate,
                    limits: Limits {
                        turns: Cap::AtMost(MAX_TURNS),
                        turns_set_by: SetBy::Agent,
                        wall_time: None,
                        ..parts.template.limits
                    },
                    journal: turns.journal,
                    stop: stop.clone(),
                    trace: parts.trace.as_ref().map(|trace| trace.call(COORDINATOR).agent()),
                });
                let told = mail_told(&turns.records).collect();
                agent.replay = Replay::of(turns.records);
                agent.background.mailbox =
                    Some(Arc::new(Reader::new(&self.post, Address::Coordinator, stop.clone(), &told)));
                let outcome = run(agent, Arc::new(sink) as Arc<dyn EventSink>).await.outcome;
                let spent = Spent::of(&outcome);
                let failure = match &outcome.ending {
                    Ending::Failure(failure) => Some((**failure).clone()),
                    Ending::Success(_) => None,
                };
                (spent, failure)
            }
            Err(failure) => (Spent::default(), Some(failure)),
        };
        if let (None, Some(failure)) = (self.word.said(), failure.filter(|_| stop.reason().is_none())) {
            let mut error = as_step_error(&failure);
            error.message =
                format!("the coordinator stopped, and the run goes on without it: {}", error.message);
            let data = ErrorData {
                error: ErrorReport::from(&error),
                retry_after_ms: None,
                attempts: None,
                iteration: None,
                item: None,
            };
            events.emit_for(None, Some(COORDINATOR), FlowEventData::Error(data));
        }
        self.post.close_for(&Address::Coordinator, DropReason::NoCoordinator).await;
        self.paid(spent).await
    }

    /// Keeps what it cost, for whoever looks at the run later.
    async fn paid(&self, spent: Spent) -> Coordinated {
        // A journal that cannot be written is found out by a step.
        let _ = self.journal.write(vec![Signal::CoordinatorPaid { spent }]).await;
        Coordinated { summary: self.word.said(), spent }
    }

    fn prompt(&self, parts: &StepParts) -> String {
        let workflow = &self.flow.workflow;
        let mut text = format!("## Workflow\n{}", workflow.name);
        if !workflow.description.is_empty() {
            text.push_str(&format!("\n{}", workflow.description));
        }
        if let Some(context) = &parts.context {
            text.push_str(&format!("\n\n## Context\n{context}"));
        }
        text.push_str("\n\n## Forwardable steps\n");
        text.push_str(&names(&self.flow, None).join("\n"));
        text
    }

    /// A last word about a run that goes on after all holds no longer, as soon as something happens in it.
    async fn has_more_to_hear(&self, records: &[TurnRecord]) -> bool {
        let goes_on = knows_the_end(records) && self.post.has_news(&Address::Coordinator).await;
        if goes_on {
            self.word.take_back();
        }
        goes_on
    }

    /// What happens to steps, in a line. What happened before the run went on is told if it was not.
    pub(crate) fn hear(&self, notice: &Notice) {
        let (key, agent, record) = match notice {
            // A start tells it nothing, and would cost a request.
            Notice::Ended { key, agent, record }
            | Notice::NotRun { key, agent, record, .. }
            | Notice::Restored { key, agent, record } => (key, agent, record),
            _ => return,
        };
        let counts = {
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            // The run, and one step of its document.
            if key.segments().len() == 2 && key.segments().iter().all(is_plain) {
                tally.insert(key.step_id(), record.status);
            }
            let count = |status| tally.values().filter(|of| **of == status).count();
            let pending = self.flow.steps.len().saturating_sub(tally.len());
            let (completed, failed) = (count(StepStatus::Completed), count(StepStatus::Failed));
            format!("completed={completed} failed={failed} pending={pending}")
        };
        let id = format!("{STEP_NOTE}{key}");
        let is_new = matches!(notice, Notice::Ended { .. });
        if !is_new && (self.told.contains(&id) || self.word.said().is_some()) {
            return;
        }
        let seconds = record.duration_ms as f64 / 1000.0;
        let mut text = format!(
            "step {:?} ({:?}) finished status={} in {seconds:.1}s - {counts}",
            key.step_id(),
            agent.as_deref().unwrap_or_default(),
            record.status.name()
        );
        if let Some(error) = &record.error {
            text.push_str(&format!("\nerror: {}", error.message));
        }
        self.post.note(&Address::Coordinator, Note { id, text });
    }

    /// Listens while the steps run, and for its last word after them, not for ever. What it cost is the run's.
    pub(crate) async fn beside(
        &self,
        running: impl Future<Output = WorkflowOutcome>,
        parts: &StepParts,
        log: &dyn StepLog,
        events: &Arc<FlowEmitter>,
    ) -> WorkflowOutcome {
        let stop = Stop::default();
        let turns = log.turns(&key(events.run_id()));
        if knows_the_end(&turns.records) {
            self.post.knew_the_end(&Address::Coordinator);
        }
        let listening = self.listen(parts, turns, events, stop.clone());
        tokio::pin!(running, listening);
        let mut coordinated = None;
        let mut outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut running => break outcome,
                ended = &mut listening, if coordinated.is_none() => coordinated = Some(ended),
            }
        };
        let coordinated = match coordinated {
            Some(coordinated) => coordinated,
            None => {
                let text =
                    format!("the workflow ended: status={}. Call `finalize` now.", outcome.status.name());
                self.post.note_the_end(&Address::Coordinator, text);
                let patience = async {
                    match outcome.status {
                        // Nobody wants to wait for a run that was stopped.
                        WorkflowStatus::Cancelled | WorkflowStatus::Suspended => {}
                        _ => self.pulse.lost().await,
                    }
                };
                tokio::select! {
                    biased;
                    ended = &mut listening => ended,
                    () = patience => {
                        stop.now(Failure::new(ErrorClass::Internal, "the run is over"));
                        listening.await
                    }
                }
            }
        };
        outcome.spent.add(&coordinated.spent);
        outcome.coordinator = Some(coordinated);
        outcome
    }
}

/// Where its turns are kept.
pub(crate) fn key(run_id: &str) -> StepKey {
    StepKey::run(run_id).with_role(Role::Coordinator)
}

fn is_plain(segment: &crate::Segment) -> bool {
    segment.of_item().is_none() && segment.of_iteration().is_none()
}

/// Whether the last thing that it was told is that the run is over.
fn knows_the_end(records: &[TurnRecord]) -> bool {
    let mail = |record: &TurnRecord| match record {
        TurnRecord::UserMessage { mail, .. } if !mail.is_empty() => {
            Some(mail.iter().any(|id| id == Note::END))
        }
        _ => None,
    };
    records.iter().rev().find_map(mail).unwrap_or(false)
}

/// A last word that was paid for, when the run was cut off before it was kept.
fn cut_off(records: &[TurnRecord]) -> Option<String> {
    let last = records.iter().rev().find_map(|record| match record {
        TurnRecord::ModelTurn { message, .. } => Some(message),
        _ => None,
    })?;
    let call = last.tool_calls().find(|call| call.name == coordinator_tools::FINALIZE)?;
    let is_done = |record: &TurnRecord| matches!(record, TurnRecord::ToolFinished { result, .. } if result.call_id == call.id);
    if records.iter().any(is_done) {
        return None;
    }
    let arguments: serde_json::Value = serde_json::from_str(&call.arguments).ok()?;
    Some(arguments.get("summary").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned())
}
