//! A world for the interpreter in which nothing happens by itself: a test says what is over, and when.

use std::sync::Arc;

use tenon_core::Timestamp;
use tenon_flow::{
    Action, AgentRequest, Completion, Interpreter, JsonText, LoadedWorkflow, Notice, RunSpec, Spent,
    StepError, StepErrorClass, StepKey, StepOutcome, StepOutput, StepRequest, WorkflowOutcome, as_step,
    included,
};

#[derive(Clone)]
pub struct Sim {
    pub interpreter: Interpreter,
    root: Arc<LoadedWorkflow>,
    spec: RunSpec,
    /// What was started and is not over, in the order in which it was started.
    pub pending: Vec<(StepKey, StepRequest)>,
    /// Keys of what was ever started, timers too.
    pub started: Vec<String>,
    pub cancelled: Vec<StepKey>,
    pub notices: Vec<Notice>,
    pub completions: Vec<Completion>,
    pub clock: u64,
}

impl Sim {
    pub fn new(workflow: Arc<LoadedWorkflow>) -> Sim {
        Sim::with(RunSpec::new(workflow, "run", JsonText::of(&serde_json::json!({}))))
    }

    pub fn with(spec: RunSpec) -> Sim {
        Sim::inside(spec.workflow.clone(), spec)
    }

    fn inside(root: Arc<LoadedWorkflow>, spec: RunSpec) -> Sim {
        let mut sim = Sim {
            interpreter: Interpreter::new(spec.clone()),
            root,
            spec,
            pending: Vec::new(),
            started: Vec::new(),
            cancelled: Vec::new(),
            notices: Vec::new(),
            completions: Vec::new(),
            clock: 1_000,
        };
        let actions = sim.interpreter.begin(Timestamp(sim.clock));
        sim.perform(actions);
        sim
    }

    pub fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Start { key, request } => {
                    let name = key.to_string();
                    assert!(!self.started.contains(&name), "{name} was started twice");
                    self.started.push(name);
                    self.pending.push((key, request));
                }
                Action::Cancel { key } => self.cancelled.push(key),
                Action::Tell(notice) => self.notices.push(notice),
            }
        }
    }

    /// Keys of agents and included workflows that run now.
    pub fn running(&self) -> Vec<String> {
        let works = |request: &StepRequest| !matches!(request, StepRequest::Sleep { .. });
        self.pending.iter().filter(|(_, request)| works(request)).map(|(key, _)| key.to_string()).collect()
    }

    pub fn timers(&self) -> Vec<(String, u64)> {
        let sleep = |(key, request): &(StepKey, StepRequest)| match request {
            StepRequest::Sleep { ms } if !self.cancelled.contains(key) => Some((key.to_string(), *ms)),
            _ => None,
        };
        self.pending.iter().filter_map(sleep).collect()
    }

    /// The request behind a key that runs now.
    pub fn request(&self, key: &str) -> &AgentRequest {
        match self.pending.iter().find(|(found, _)| found.to_string() == key) {
            Some((_, StepRequest::Agent(request))) => request,
            other => panic!("no agent runs as {key}: {other:?}; {:?} do", self.running()),
        }
    }

    pub fn complete(&mut self, key: &str, outcome: StepOutcome) {
        let found = self.pending.iter().position(|(pending, _)| pending.to_string() == key);
        let Some(index) = found else { panic!("{key} is not under way; {:?} are", self.running()) };
        let (key, _) = self.pending.remove(index);
        self.clock += 10;
        let completion = Completion { key, at: Timestamp(self.clock), outcome };
        self.completions.push(completion.clone());
        let actions = self.interpreter.complete(&completion);
        self.perform(actions);
    }

    pub fn ok(&mut self, key: &str, content: &str) {
        self.complete(key, said(content));
    }

    pub fn submit(&mut self, key: &str, content: &str, result: serde_json::Value) {
        let output = StepOutput { result: Some(JsonText::of(&result)), ..output(content) };
        self.complete(key, StepOutcome::Completed(output));
    }

    pub fn fail(&mut self, key: &str, class: StepErrorClass) {
        self.complete(key, failed(class, "it did not work"));
    }

    pub fn elapse(&mut self, key: &str) {
        self.complete(key, StepOutcome::Elapsed);
    }

    /// Whatever was told to stop says that it did.
    pub fn stop_cancelled(&mut self) {
        while let Some((key, _)) = self.pending.iter().find(|(key, _)| self.cancelled.contains(key)) {
            self.complete(&key.to_string(), StepOutcome::Cancelled(StepOutput::default()));
        }
    }

    /// Lets everything happen in the order in which it was started; timers only when nothing else is left. What was
    /// told to stop, stops.
    pub fn run(
        mut self,
        script: &mut dyn FnMut(&StepKey, &AgentRequest) -> StepOutcome,
    ) -> (WorkflowOutcome, Sim) {
        loop {
            self.stop_cancelled();
            if let Some(outcome) = self.interpreter.outcome() {
                return (outcome.clone(), self);
            }
            let works =
                |(_, request): &&(StepKey, StepRequest)| !matches!(request, StepRequest::Sleep { .. });
            let shortest = |(_, request): &&(StepKey, StepRequest)| match request {
                StepRequest::Sleep { ms } => *ms,
                _ => 0,
            };
            let next = self.pending.iter().find(works).or_else(|| self.pending.iter().min_by_key(shortest));
            let Some((key, request)) = next.cloned() else {
                panic!("nothing is under way, and the run is not over")
            };
            let outcome = match &request {
                StepRequest::Agent(request) => script(&key, request),
                StepRequest::Sleep { .. } => StepOutcome::Elapsed,
                // Somebody says yes to everything.
                StepRequest::Approval(_) => submitted("approved", serde_json::json!({"approved": true})),
                StepRequest::SubWorkflow(request) => {
                    let workflow = included(&self.root, &request.document).expect("an included workflow");
                    let spec = self.spec.included(workflow, key.clone(), request);
                    let (outcome, inner) = Sim::inside(self.root.clone(), spec).run(script);
                    self.started.extend(inner.started);
                    self.notices.extend(inner.notices);
                    as_step(&request.step_id, &outcome)
                }
            };
            self.complete(&key.to_string(), outcome);
        }
    }

    pub fn outcome(&self) -> &WorkflowOutcome {
        self.interpreter.outcome().expect("the run is over")
    }

    /// `id: status` of every step, in the document's order.
    pub fn statuses(&self) -> Vec<String> {
        statuses(self.outcome())
    }
}

pub fn statuses(outcome: &WorkflowOutcome) -> Vec<String> {
    outcome.steps.iter().map(|(id, record)| format!("{id}: {}", record.status.name())).collect()
}

pub fn output(content: &str) -> StepOutput {
    StepOutput { content: content.to_owned(), result: None, spent: spent(1, 0.5) }
}

pub fn spent(tokens: u64, usd: f64) -> Spent {
    let usage = tenon_core::Usage { input: tokens, total: tokens, ..Default::default() };
    Spent { usage, cost_usd: Some(usd), turns: 1 }
}

pub fn said(content: &str) -> StepOutcome {
    StepOutcome::Completed(output(content))
}

pub fn submitted(content: &str, result: serde_json::Value) -> StepOutcome {
    StepOutcome::Completed(StepOutput { result: Some(JsonText::of(&result)), ..output(content) })
}

pub fn failed(class: StepErrorClass, message: &str) -> StepOutcome {
    StepOutcome::Failed { error: StepError::new(class, message), output: output("") }
}
