//! Where hooks are told of a run, and what follows from what they say.
//!
//! Which hooks there are and how they are run is `tenon-tools`' business (`hooks.rs`). Here stands what their
//! decisions mean: a call that is refused, arguments that are judged again, a model that is sent back to work.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenon_core::{
    ApprovalMode, Args, Cancel, Client, Ending, ErrorClass, EventKind, Failure, HookEvent, Message, Origin,
    Outcome, Part, PermissionAsk, PermissionReply, RawJson, ToolCall, ToolErrorKind, ToolKind, ToolOutcome,
    ToolResult,
};
use tenon_tools::{HookCtx, HookDecision, HookInput, HookSays, HookedCall, Stopping, Verdict};

use crate::plan_batch::{Allowed, Refusal, Step};
use crate::run_batch::Done;
use crate::run_state::Run;
use crate::{Agent, Emitter};

/// How long the last hooks of a run that was stopped may take.
const LAST_HOOKS: Duration = Duration::from_secs(5);

/// Where a run stands in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The session ends with this run.
    Here,
    /// Another run follows, or the run is part of another one.
    Later,
}

/// What hooks make of a call to the terminal tool.
pub(crate) enum Answer {
    AsItIs,
    /// These arguments are to be checked instead.
    Changed(String),
    Refused(String),
}

impl Run<'_> {
    /// Before anything is asked: what the model is told besides the prompt, or why there is no run.
    pub(crate) async fn hooks_at_start(
        &mut self,
        prompt: Option<Message>,
    ) -> Result<Option<Message>, Failure> {
        let mut told = Vec::new();
        if self.agent.hooks.agent().is_some() {
            if self.listens(HookEvent::SubagentStart) {
                told.extend(self.fire(HookInput::SubagentStart).await?.context);
            }
        } else {
            if let Some(source) = self.agent.session_start.filter(|_| self.listens(HookEvent::SessionStart)) {
                let model = self.agent.info.model.clone();
                told.extend(self.fire(HookInput::SessionStart { source, model }).await?.context);
            }
            if let Some(prompt) = prompt.as_ref().filter(|_| self.listens(HookEvent::UserPromptSubmit)) {
                let decision = self.fire(HookInput::UserPromptSubmit { prompt: prompt.text() }).await?;
                if let HookSays::Deny { reason } | HookSays::Ask { reason } = decision.says {
                    let message = format!("a `UserPromptSubmit` hook refused the prompt: {reason}");
                    return Err(Failure::new(ErrorClass::Refused, message));
                }
                told.extend(decision.context);
            }
        }
        if told.is_empty() {
            return Ok(prompt);
        }
        let told = from_hooks(&told.join("\n\n"));
        match prompt {
            Some(mut prompt) => {
                prompt.parts.push(Part::Text { text: format!("\n\n{told}") });
                Ok(Some(prompt))
            }
            None => {
                self.tell(Message::user(told), Origin::Notice).await?;
                Ok(None)
            }
        }
    }

    /// What is to be done with a call, now that hooks have seen it.
    pub(crate) async fn hooks_before_call(&mut self, call: &ToolCall, step: &Step) -> Result<Step, Failure> {
        let args = match step {
            Step::Execute(Allowed { args, .. }) | Step::Ask { args, .. } => Some(args.clone()),
            Step::Refuse(Refusal::Denied { .. }) => None,
            // Nothing would run, whatever hooks say.
            Step::Refuse(_) | Step::Terminal | Step::Skip => return Ok(step.clone()),
        };
        if !self.listens(HookEvent::PreToolUse) {
            return Ok(step.clone());
        }
        let decision = self.fire(HookInput::PreToolUse(hooked(call, None))).await?;
        // A guard that was stopped with the run has refused nothing.
        if self.agent.stop.cancel().is_cancelled() {
            return Err(self.agent.stop.failure());
        }
        if let Some(context) = decision.context {
            self.hook_contexts.push((call.id.clone(), context));
        }
        if let HookSays::Deny { reason } = decision.says {
            let reason = format!("a `PreToolUse` hook refused it: {reason}");
            return Ok(Step::Refuse(Refusal::Denied { reason, hint: None }));
        }
        // Other arguments are another call: what a rule denies stays denied.
        let (args, step) = match decision.updated_input {
            Some(updated) => {
                let updated = self.agent.registry.own_arguments(&call.name, updated);
                let step = self.judge_args(call, updated.clone());
                (Some(updated), step)
            }
            None => (args, step.clone()),
        };
        Ok(match (decision.says, step, args) {
            (HookSays::Allow, Step::Ask { .. }, Some(args)) if !self.asks_by_rule(call, &args) => {
                let read_only = self.is_read_only(call);
                Step::Execute(Allowed { args, read_only })
            }
            (HookSays::Ask { reason }, Step::Execute(Allowed { args, .. }), _) => Step::Ask {
                args,
                reason: format!("a `PreToolUse` hook wants somebody to agree: {reason}"),
                hint: "nobody is there to agree; the hook decides which calls need it".to_owned(),
            },
            (_, step, _) => step,
        })
    }

    /// Who answers when a call needs approval: hooks first, then whoever drives the run.
    pub(crate) async fn permission(
        &mut self,
        call: &ToolCall,
        ask: PermissionAsk,
    ) -> Result<PermissionReply, Failure> {
        if self.listens(HookEvent::PermissionRequest) {
            let input = serde_json::value::to_raw_value(&ask.input).ok();
            let HookDecision { says, updated_input, .. } =
                self.fire(HookInput::PermissionRequest(hooked(call, input))).await?;
            match says {
                HookSays::Allow => return Ok(PermissionReply::allow(updated_input)),
                HookSays::Deny { reason } => {
                    let message = format!("a `PermissionRequest` hook refused it: {reason}");
                    return Ok(PermissionReply::Deny { message });
                }
                HookSays::Nothing | HookSays::Ask { .. } => {}
            }
        }
        Ok(self.client.permission(ask, self.agent.stop.cancel().child_token()).await)
    }

    /// What hooks make of an answer before it is checked.
    pub(crate) async fn hooks_before_answer(&mut self, call: &ToolCall) -> Result<Answer, Failure> {
        if !self.listens(HookEvent::PreToolUse) {
            return Ok(Answer::AsItIs);
        }
        let decision = self.fire(HookInput::PreToolUse(hooked(call, None))).await?;
        if let Some(context) = decision.context {
            self.hook_contexts.push((call.id.clone(), context));
        }
        match (decision.says, decision.updated_input) {
            // Nobody can be asked about an answer.
            (HookSays::Deny { reason } | HookSays::Ask { reason }, _) => Ok(Answer::Refused(reason)),
            (_, Some(args)) => Ok(Answer::Changed(serde_json::Value::Object(args).to_string())),
            (_, None) => Ok(Answer::AsItIs),
        }
    }

    /// A call is over: hooks are told what came of it, and what they say is added to what the model reads.
    pub(crate) async fn hooks_after_call(&mut self, call: &ToolCall, done: &mut Done) {
        let mut told = Vec::new();
        self.hook_contexts.retain(|(id, context)| {
            let is_ours = *id == call.id;
            if is_ours {
                told.push(context.clone());
            }
            !is_ours
        });
        let outcome = &done.outcome;
        let input = match (&done.ran_with, outcome.error) {
            (Some(input), None) => Some(HookInput::PostToolUse {
                call: hooked(call, Some(input.clone())),
                content: outcome.content.clone(),
                display: outcome.display.clone(),
            }),
            (Some(input), Some(error)) => Some(HookInput::PostToolUseFailure {
                call: hooked(call, Some(input.clone())),
                error: outcome.content.clone(),
                is_interrupt: error == ToolErrorKind::Cancelled,
            }),
            (None, _) => self.denials.iter().rfind(|denial| denial.tool_use_id == call.id).map(|denial| {
                HookInput::PermissionDenied { call: hooked(call, None), reason: denial.reason.clone() }
            }),
        };
        if let Some(input) = input.filter(|input| self.listens(input.event())) {
            let event = input.event();
            let decision = self.ask_hooks(&input).await;
            let updated = decision.updated_output.as_ref().filter(|_| event == HookEvent::PostToolUse);
            // What is said about the answer itself is tenon's own, and stays.
            if let Some(text) = updated.and_then(|updated| updated.of_tool(&call.name))
                && !call.terminal
            {
                replace_output(&mut done.outcome, text);
            }
            if let HookSays::Deny { reason } = &decision.says {
                told.push(format!("A `{}` hook objects: {reason}", event.name()));
            }
            told.extend(decision.context);
            self.stop_after(event, decision.stop);
        }
        if !told.is_empty() {
            // What hooks say about the payload may quote it.
            if call.terminal && done.stored.is_none() {
                done.stored = Some(done.outcome.content.clone());
            }
            add_to(&mut done.outcome, &told.join("\n\n"));
        }
    }

    /// All calls of an answer are over.
    pub(crate) async fn hooks_after_batch(
        &mut self,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Option<String> {
        if !self.listens(HookEvent::PostToolBatch) {
            return None;
        }
        let calls = results
            .iter()
            .filter_map(|result| {
                let call = calls.iter().find(|call| call.id == result.call_id)?;
                Some((hooked(call, None), result.content.clone()))
            })
            .collect();
        let decision = self.ask_hooks(&HookInput::PostToolBatch { calls }).await;
        self.stop_after(HookEvent::PostToolBatch, decision.stop);
        let objection = match decision.says {
            HookSays::Deny { reason } => Some(format!("A `PostToolBatch` hook objects: {reason}")),
            HookSays::Nothing | HookSays::Allow | HookSays::Ask { .. } => None,
        };
        let told: Vec<String> = objection.into_iter().chain(decision.context).collect();
        (!told.is_empty()).then(|| from_hooks(&told.join("\n\n")))
    }

    /// The model has said its last word. True if hooks let it stop; else it was told why not.
    pub(crate) async fn hooks_let_stop(&mut self, last_message: &str) -> Result<bool, Failure> {
        let stopping = Stopping { active: self.stops_prevented > 0, last_message: last_message.to_owned() };
        let input = match self.agent.hooks.agent() {
            Some(_) => HookInput::SubagentStop(stopping),
            None => HookInput::Stop(stopping),
        };
        let event = input.event();
        if !self.listens(event) {
            return Ok(true);
        }
        let decision = self.ask_hooks(&input).await;
        let HookSays::Deny { reason } = decision.says else { return Ok(true) };
        // `continue: false` wins: the hook that says it wants the run to end.
        if decision.stop.is_some() {
            return Ok(true);
        }
        let cap = self.agent.hooks.stop_cap();
        if self.stops_prevented >= cap {
            self.warn(format!(
                "a `{}` hook would not let the run stop after {cap} times (`stopHookBlockingCap`), and was overruled: {reason}",
                event.name()
            ));
            return Ok(true);
        }
        self.stops_prevented += 1;
        let context = decision.context.map(|context| format!("\n\n{context}")).unwrap_or_default();
        let told = format!("A `{}` hook does not let you stop yet: {reason}{context}", event.name());
        self.emitter.emit(EventKind::UserMessage { text: told.clone(), origin: Origin::Notice });
        self.tell(Message::user(told), Origin::Notice).await?;
        Ok(false)
    }

    /// The answer was accepted, which ends the run whatever hooks say.
    pub(crate) async fn hooks_at_accepted_answer(&mut self) {
        let last_message = self.last_words();
        let event = HookEvent::Stop;
        if self.agent.hooks.agent().is_some() || !self.listens(event) {
            return;
        }
        let stopping = Stopping { active: self.stops_prevented > 0, last_message };
        if let HookSays::Deny { .. } = self.ask_hooks(&HookInput::Stop(stopping)).await.says {
            self.warn(
                "a `Stop` hook would not let the run stop, but its answer was already accepted".to_owned(),
            );
        }
    }

    fn asks_by_rule(&self, call: &ToolCall, args: &Args) -> bool {
        let Some(tool) = self.agent.registry.get(&call.name) else { return true };
        // Where everything else is allowed, only a rule still asks.
        let rules = self.agent.permissions.with_mode(ApprovalMode::Yolo);
        !matches!(rules.decide(tool.spec(), args), Verdict::Allow { .. })
    }

    fn is_read_only(&self, call: &ToolCall) -> bool {
        self.agent.registry.get(&call.name).is_some_and(|tool| tool.spec().kind == ToolKind::Read)
    }

    fn listens(&self, event: HookEvent) -> bool {
        self.agent.hooks.listen_to(event)
    }

    /// Tells hooks. An error is their wish that the run ends.
    pub(crate) async fn fire(&self, input: HookInput) -> Result<HookDecision, Failure> {
        let about_payload = matches!(&input, HookInput::PreToolUse(call) if call.terminal);
        let decision = self.ask_hooks(&input).await;
        match &decision.stop {
            None => Ok(decision),
            // What a hook says about the payload may quote it, and failures are stored.
            Some(_) if about_payload => Err(stopped(input.event(), None)),
            Some(reason) => Err(stopped(input.event(), Some(reason))),
        }
    }

    async fn ask_hooks(&self, input: &HookInput) -> HookDecision {
        let cancel = self.agent.stop.cancel().child_token();
        let (emitter, client) = (Arc::clone(&self.emitter), Arc::clone(&self.client));
        let tell = move |kind| match kind {
            EventKind::Warning { message } => client.warn(message),
            kind => emitter.emit(kind),
        };
        self.agent.hooks.fire(input, &context(self.agent, cancel, Arc::new(tell))).await
    }

    fn stop_after(&mut self, event: HookEvent, stop: Option<String>) {
        if let Some(reason) = stop {
            self.stopped_by_hook.get_or_insert_with(|| stopped(event, Some(&reason)));
        }
    }

    fn warn(&self, message: String) {
        self.client.warn(message);
    }
}

/// The run is over: hooks are told how it ended. They cannot change that any more. What went wrong with them is told at
/// once, and is part of the outcome.
pub(crate) async fn hooks_at_end(
    agent: &Agent,
    emitter: &Arc<Emitter>,
    outcome: &mut Outcome,
    last_words: String,
) {
    let (reason, failure) = match &outcome.ending {
        Ending::Success(_) => ("completed", None),
        Ending::Failure(failure) if matches!(failure.class, ErrorClass::Interrupted(_)) => {
            ("interrupted", Some(failure))
        }
        Ending::Failure(failure) => ("failed", Some(failure)),
    };
    let mut inputs = Vec::new();
    if let Some(failure) = failure.filter(|_| agent.hooks.agent().is_none()) {
        inputs.push(HookInput::StopFailure {
            error: failure.class.name(),
            details: failure.message.clone(),
            last_message: Some(last_words).filter(|text| !text.is_empty()),
        });
    }
    if agent.session_end == SessionEnd::Here {
        inputs.push(HookInput::SessionEnd { reason });
    }
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let (told, speaking) = (Arc::clone(&warnings), Arc::clone(emitter));
    let tell_all = move |kind: EventKind| {
        if let EventKind::Warning { message } = &kind {
            told.lock().unwrap_or_else(PoisonError::into_inner).push(message.clone());
        }
        speaking.emit(kind);
    };
    // The run's own token may have fallen; these have one of their own, and little time once it has.
    let ctx = context(agent, Cancel::new(), Arc::new(tell_all));
    let tell = async {
        for input in inputs {
            agent.hooks.fire(&input, &ctx).await;
        }
        if agent.session_end == SessionEnd::Here {
            agent.hooks.finish().await;
        }
    };
    let stopped = agent.stop.cancel();
    tokio::select! {
        () = tell => {}
        () = async { stopped.cancelled().await; tokio::time::sleep(LAST_HOOKS).await } => {}
    }
    outcome.warnings.append(&mut warnings.lock().unwrap_or_else(PoisonError::into_inner));
}

fn context(agent: &Agent, cancel: Cancel, tell: Arc<dyn Fn(EventKind) + Send + Sync>) -> HookCtx {
    HookCtx {
        cancel,
        client: Arc::clone(&agent.client),
        permission_mode: agent.permissions.mode().name(),
        trace: agent.trace.clone(),
        tell,
    }
}

fn hooked(call: &ToolCall, input: Option<RawJson>) -> HookedCall {
    HookedCall {
        id: call.id.clone(),
        tool: call.name.clone(),
        input: input.unwrap_or_else(|| call.input()),
        terminal: call.terminal,
    }
}

fn stopped(event: HookEvent, reason: Option<&str>) -> Failure {
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Failure::new(ErrorClass::Refused, format!("a `{}` hook stopped the run{reason}", event.name()))
}

fn from_hooks(text: &str) -> String {
    format!("Told by hooks:\n{text}")
}

/// Nobody reads what the call gave, in whatever form: it may have been taken out for a reason.
fn replace_output(outcome: &mut ToolOutcome, text: &str) {
    outcome.content = text.to_owned();
    outcome.display = None;
    outcome.drawing = None;
    outcome.media.clear();
}

/// Only the model reads it: clients are shown what they would be shown anyway.
fn add_to(outcome: &mut ToolOutcome, told: &str) {
    if outcome.display.is_none() {
        outcome.display = Some(outcome.content.clone());
    }
    outcome.content.push_str("\n\n");
    outcome.content.push_str(&from_hooks(told));
}
