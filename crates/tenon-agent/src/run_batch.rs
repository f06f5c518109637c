//! Carries out a planned batch: asks, runs, reports, in the order of the calls.
//!
//! Neighbouring read-only calls run side by side; everything else runs alone and in order.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tenon_core::{
    Args, BegunTask, Cancel, Client, Decision, ErrorClass, EventKind, Failure, PermissionAsk,
    PermissionDenial, PermissionReply, RawJson, ToolCall, ToolCtx, ToolErrorKind, ToolKind, ToolOutcome,
    ToolReport, ToolResult, TurnRecord,
};
use tenon_tools::Verdict;

use crate::plan_batch::{Allowed, Judgement, Refusal, Step};
use crate::run_state::Run;
use crate::schema_mode::Form;

/// Read-only calls that run at once.
const MAX_SIDE_BY_SIDE: usize = 10;

/// A call that is over.
pub(crate) struct Done {
    pub(crate) outcome: ToolOutcome,
    pub(crate) stored: Option<String>,
    pub(crate) duration_ms: u64,
    /// The arguments it ran with; nothing if it never ran.
    pub(crate) ran_with: Option<RawJson>,
    pub(crate) fate: Fate,
}

/// Was anything made of a call at all?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It ran, or was refused.
    Judged,
    /// An answer beside it was handed in, so nobody looked at it. No call in the statistics.
    Skipped,
}

impl Done {
    pub(crate) fn at_once(outcome: ToolOutcome) -> Done {
        Done { outcome, stored: None, duration_ms: 0, ran_with: None, fate: Fate::Judged }
    }

    pub(crate) fn skipped(outcome: ToolOutcome) -> Done {
        Done { fate: Fate::Skipped, ..Done::at_once(outcome) }
    }
}

impl Run<'_> {
    /// What registry and permissions say about one ordinary call.
    pub(crate) fn judge(&self, call: &ToolCall) -> Judgement {
        if self.asking.has_reminded()
            && let Some(terminal) = self.terminal
        {
            let message = only_the_answer_is_left(&call.name, terminal, self.asking.form());
            return Step::Refuse(Refusal::UnknownTool { message });
        }
        if self.agent.registry.get(&call.name).is_none() {
            return Step::Refuse(Refusal::UnknownTool { message: self.unknown_tool(&call.name) });
        }
        match parse_args(&call.arguments) {
            Ok(args) => self.judge_args(call, self.agent.registry.own_arguments(&call.name, args)),
            Err(message) => Step::Refuse(Refusal::InvalidArguments { message }),
        }
    }

    /// The same for other arguments than the model's.
    pub(crate) fn judge_args(&self, call: &ToolCall, args: Args) -> Judgement {
        let Some(tool) = self.agent.registry.get(&call.name) else {
            return Step::Refuse(Refusal::UnknownTool { message: self.unknown_tool(&call.name) });
        };
        let spec = tool.spec();
        match self.agent.permissions.decide(spec, &args) {
            Verdict::Allow { .. } => Step::Execute(Allowed { args, read_only: spec.kind == ToolKind::Read }),
            Verdict::Ask { reason, hint } => Step::Ask { args, reason, hint },
            Verdict::Deny { reason, hint } => Step::Refuse(Refusal::Denied { reason, hint }),
        }
    }

    /// What was planned for a call, unless an answer to another one has changed what is allowed.
    fn judge_again(&self, call: &ToolCall, planned: &Step) -> Step {
        match planned {
            Step::Execute(_) | Step::Ask { .. } => self.judge(call),
            Step::Terminal | Step::Refuse(_) | Step::Skip => planned.clone(),
        }
    }

    fn unknown_tool(&self, name: &str) -> String {
        let known: Vec<String> = self.offered_tools().iter().map(|spec| format!("`{}`", spec.name)).collect();
        let known = known.join(", ");
        match self.agent.registry.nearest(name) {
            Some(near) => {
                format!("There is no tool `{name}`; did you mean `{near}`? The tools are: {known}.")
            }
            None => format!("There is no tool `{name}`. The tools are: {known}."),
        }
    }

    /// Runs the ordinary steps, each after hooks have seen it. `report` is called for each call, in order.
    pub(crate) async fn run_steps(
        &mut self,
        calls: &[ToolCall],
        steps: &[Step],
    ) -> Result<Vec<ToolResult>, Failure> {
        let mut results = Vec::with_capacity(calls.len());
        let mut at = 0;
        while at < steps.len() {
            if let Some(result) = self.call_again(&calls[at]).await? {
                results.push(result);
                at += 1;
                continue;
            }
            // Hooks see a call when those before it are done: they may look at what these did.
            let new = calls[at..].iter().take_while(|call| !self.replay.knows(call)).count();
            let end = at + side_by_side(&steps[at..]).clamp(1, new.max(1));
            let mut seen = Vec::with_capacity(end - at);
            for (call, step) in calls[at..end].iter().zip(&steps[at..end]) {
                let step = self.judge_again(call, step);
                seen.push(self.hooks_before_call(call, &step).await?);
            }
            self.run_seen(&calls[at..end], &seen, &mut results).await?;
            at = end;
        }
        Ok(results)
    }

    async fn run_seen(
        &mut self,
        calls: &[ToolCall],
        steps: &[Step],
        results: &mut Vec<ToolResult>,
    ) -> Result<(), Failure> {
        let mut at = 0;
        while at < steps.len() {
            let together = side_by_side(&steps[at..]);
            if together > 1 {
                let end = at + together;
                self.run_side_by_side(&calls[at..end], &steps[at..end], results).await?;
                at = end;
                continue;
            }
            let done = self.run_step(&calls[at], &steps[at]).await?;
            results.push(self.report(&calls[at], done).await?);
            at += 1;
        }
        Ok(())
    }

    async fn run_side_by_side(
        &mut self,
        calls: &[ToolCall],
        steps: &[Step],
        results: &mut Vec<ToolResult>,
    ) -> Result<(), Failure> {
        let mut limit = Ok(());
        let mut allowed = Vec::new();
        for (call, step) in calls.iter().zip(steps) {
            let Step::Execute(Allowed { args, .. }) = step else { continue };
            limit = self.agent.limits.before_tool_call(self.agent.lineage.tool_calls());
            if limit.is_err() {
                break;
            }
            self.begin_call(call, Decision::AutoAccept).await?;
            allowed.push((call, args.clone()));
        }
        let done: Vec<Done> = {
            let this = &*self;
            // A list, not an iterator with a closure: the compiler could not prove that the run is `Send`,
            // and nobody could spawn it.
            let calls: Vec<_> =
                allowed.iter().map(|(call, args)| this.call_tool(call, args.clone())).collect();
            stream::iter(calls).buffered(MAX_SIDE_BY_SIDE).collect().await
        };
        for ((call, _), done) in allowed.iter().zip(done) {
            results.push(self.report(call, done).await?);
        }
        limit
    }

    async fn run_step(&mut self, call: &ToolCall, step: &Step) -> Result<Done, Failure> {
        match step {
            Step::Execute(Allowed { args, .. }) => {
                self.execute(call, args.clone(), Decision::AutoAccept).await
            }
            Step::Ask { args, reason, hint } => {
                let ask = PermissionAsk {
                    call_id: call.id.clone(),
                    tool: call.name.clone(),
                    input: args.clone(),
                    reason: reason.clone(),
                    agent_id: self.agent.hooks.agent().map(|agent| agent.id.clone()),
                };
                self.emitter.emit(EventKind::PermissionAsked(Box::new(ask.clone())));
                match self.permission(call, ask).await? {
                    PermissionReply::Allow { updated_input: None, .. } => {
                        self.execute(call, args.clone(), Decision::Accept).await
                    }
                    PermissionReply::Allow { updated_input: Some(args), .. } => {
                        // Other arguments are another call: what a rule denies stays denied.
                        match self.denial_of(call, &args) {
                            Some((reason, hint)) => Ok(self.denied(call, &reason, hint.as_deref())),
                            None => self.execute(call, args, Decision::Modify).await,
                        }
                    }
                    PermissionReply::Deny { message } => Ok(self.denied(call, &message, Some(hint))),
                    PermissionReply::CarriedOut(result) => {
                        self.agent.limits.before_tool_call(self.agent.lineage.tool_calls())?;
                        self.begin_call(call, Decision::Accept).await?;
                        Ok(Done::at_once(match result {
                            Ok(content) => ToolOutcome::ok(content),
                            Err(message) => ToolOutcome::error(ToolErrorKind::Failed, message),
                        }))
                    }
                    PermissionReply::Withdrawn => Err(self.agent.stop.failure()),
                }
            }
            Step::Refuse(Refusal::Denied { reason, hint }) => Ok(self.denied(call, reason, hint.as_deref())),
            Step::Refuse(Refusal::UnknownTool { message }) => {
                Ok(Done::at_once(ToolOutcome::error(ToolErrorKind::Unknown, message)))
            }
            Step::Refuse(Refusal::InvalidArguments { message }) => {
                Ok(Done::at_once(ToolOutcome::error(ToolErrorKind::InvalidArguments, message)))
            }
            Step::Terminal | Step::Skip => {
                Err(Failure::new(ErrorClass::Internal, "a terminal call was handed to the tools"))
            }
        }
    }

    fn denial_of(&self, call: &ToolCall, args: &Args) -> Option<(String, Option<String>)> {
        let tool = self.agent.registry.get(&call.name)?;
        match self.agent.permissions.decide(tool.spec(), args) {
            Verdict::Deny { reason, hint } => Some((reason, hint)),
            Verdict::Allow { .. } | Verdict::Ask { .. } => None,
        }
    }

    async fn execute(&mut self, call: &ToolCall, args: Args, decision: Decision) -> Result<Done, Failure> {
        self.agent.limits.before_tool_call(self.agent.lineage.tool_calls())?;
        self.begin_call(call, decision).await?;
        Ok(self.call_tool(call, args).await)
    }

    async fn begin_call(&mut self, call: &ToolCall, decision: Decision) -> Result<(), Failure> {
        // Whoever stops a run does not want what has not begun.
        if self.agent.stop.cancel().is_cancelled() {
            return Err(self.agent.stop.failure());
        }
        self.tool_calls += 1;
        self.agent.lineage.count_tool_call();
        self.count_decision(&call.name, decision);
        let record =
            TurnRecord::ToolStarted { turn: self.turns, call_id: call.id.clone(), name: call.name.clone() };
        self.journal(record).await?;
        self.batch.begun.insert(call.id.clone());
        self.emitter.emit(EventKind::ToolStarted {
            call_id: call.id.clone(),
            name: call.name.clone(),
            terminal: false,
        });
        Ok(())
    }

    async fn call_tool(&self, call: &ToolCall, args: Args) -> Done {
        let started = Instant::now();
        let ran_with = serde_json::value::to_raw_value(&args).ok();
        let outcome = match self.agent.registry.get(&call.name) {
            Some(tool) => {
                let emitter = Arc::clone(&self.emitter);
                let call_id = call.id.clone();
                let tell = Arc::clone(&self.emitter);
                let ctx = ToolCtx {
                    call_id: call.id.clone(),
                    cancel: self.cancel(),
                    client: Arc::clone(&self.client) as Arc<dyn Client>,
                    sink: Arc::clone(self.emitter.sink()),
                    progress: Arc::new(move |progress| {
                        emitter.emit(EventKind::ToolProgress { call_id: call_id.clone(), progress });
                    }),
                    tell: Arc::new(move |kind| tell.emit(kind)),
                    trace: self.agent.trace.as_ref().map(|trace| trace.call(&call.id)),
                };
                // A tool that panics has failed; the run has not.
                AssertUnwindSafe(tool.call(ctx, args)).catch_unwind().await.unwrap_or_else(|_| {
                    ToolOutcome::error(ToolErrorKind::Failed, format!("The tool `{}` broke down.", call.name))
                })
            }
            None => ToolOutcome::error(ToolErrorKind::Unknown, self.unknown_tool(&call.name)),
        };
        let duration_ms = millis_since(started);
        // Only what exists has a name that nobody made up.
        let tool = self.agent.registry.get(&call.name).map(|tool| tool.spec().name.clone());
        tracing::debug!(tool, error = ?outcome.error, ms = duration_ms, "tool call");
        Done { duration_ms, ran_with, ..Done::at_once(outcome) }
    }

    fn denied(&mut self, call: &ToolCall, reason: &str, hint: Option<&str>) -> Done {
        self.count_decision(&call.name, Decision::Reject);
        let message = match hint {
            Some(hint) => format!("`{}` was denied: {reason}\nhint: {hint}", call.name),
            None => format!("`{}` was denied: {reason}", call.name),
        };
        self.emitter.emit(EventKind::Warning { message });
        self.denials.push(PermissionDenial {
            tool_name: call.name.clone(),
            tool_use_id: call.id.clone(),
            tool_input: call.input(),
            reason: reason.to_owned(),
        });
        Done::at_once(ToolOutcome::error(ToolErrorKind::Denied, format!("Denied: {reason}")))
    }

    /// Counts a finished call, keeps it and tells it.
    pub(crate) async fn report(&mut self, call: &ToolCall, mut done: Done) -> Result<ToolResult, Failure> {
        self.hooks_after_call(call, &mut done).await;
        let Done { outcome, stored, duration_ms, fate, .. } = done;
        // A task that the call started is seen to start before the call is seen to end.
        self.take_in_tasks();
        if fate == Fate::Judged {
            let metrics = self.metrics.tools.entry(call.name.clone()).or_default();
            match outcome.error {
                None => metrics.success += 1,
                Some(_) => metrics.fail += 1,
            }
            metrics.duration_ms += duration_ms;
        }
        self.metrics.lines_added += outcome.lines_added;
        self.metrics.lines_removed += outcome.lines_removed;
        let result = ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            is_error: outcome.error.is_some(),
            content: outcome.content,
            media: outcome.media,
            stored: stored.clone(),
        };
        self.batch.results.push(result.clone());
        let mut left = outcome.left;
        left.begun.extend(self.agent.background.tasks.begun_by(&call.id).into_iter().map(BegunTask::from));
        self.journal(TurnRecord::ToolFinished { turn: self.turns, result: result.clone(), left }).await?;
        self.emitter.emit(EventKind::ToolFinished(ToolReport {
            call_id: call.id.clone(),
            name: call.name.clone(),
            terminal: call.terminal,
            content: outcome.display.unwrap_or_else(|| result.content.clone()),
            drawing: outcome.drawing,
            stored,
            error: outcome.error,
            duration_ms,
        }));
        Ok(result)
    }

    fn count_decision(&mut self, tool: &str, decision: Decision) {
        *self.metrics.tools.entry(tool.to_owned()).or_default().decisions.entry(decision).or_default() += 1;
    }

    fn cancel(&self) -> Cancel {
        self.agent.stop.cancel().child_token()
    }
}

/// How many steps from here on may run at once.
fn side_by_side(steps: &[Step]) -> usize {
    steps.iter().take_while(|step| matches!(step, Step::Execute(Allowed { read_only: true, .. }))).count()
}

pub(crate) fn millis_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Arguments of an ordinary tool. Blank is no arguments; a JSON string that holds an object is that
/// object, because models do this.
/// For a call of a model that has been reminded of its answer.
fn only_the_answer_is_left(tool: &str, terminal: &str, form: Form) -> String {
    match form {
        Form::Tool => format!("`{tool}` is not offered any more: call `{terminal}` with your answer."),
        Form::ResponseFormat => format!("`{tool}` is not offered any more: write your answer."),
    }
}

fn parse_args(text: &str) -> Result<Args, String> {
    if text.trim().is_empty() {
        return Ok(Args::new());
    }
    let parsed = serde_json::from_str(text).and_then(|value| match value {
        Value::String(inner) => serde_json::from_str(&inner),
        other => Ok(other),
    });
    match parsed {
        Ok(Value::Object(args)) => Ok(args),
        Ok(_) => Err("The arguments must be a JSON object.".to_owned()),
        Err(error) => Err(format!("The arguments are not valid JSON: {error}.")),
    }
}
