//! A run goes on with another document: what is asked for in the same words is not paid for again, however deep it is in loops,
//! items, includes and attempts; what changed is, with what depends on it; and the preview names exactly that.
//!
//! A table of nestings, each with changes that no model is told of and one that a model is. Every run ends with a step `last` that
//! fails, or is cut off at any row.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenon_core::{
    Cancel, Delta, DeltaStream, ErrorClass, FinishReason, ModelClient, ModelError, Models, Request, Secrets,
    Usage,
};
use tenon_flow::{
    Decision, FlowEvent, FlowRun, FlowSink, Journal, JournalLog, JsonText, LoadedWorkflow, NewRun, Past,
    Reply, Resumed, RunSpec, RunState, StepLog, WorkflowOutcome, WorkflowStatus,
};
use tenon_testkit::assert_flow_events;

use crate::documents::document_with;
use crate::durable::{Cut, CutLog, taken};

/// A document, what it includes, and what a change of one word in it means.
struct Nesting {
    name: &'static str,
    main: &'static str,
    inner: &'static str,
    /// The task whose words change, what is asked for again, and what the preview says.
    change: &'static str,
    asked: &'static [&'static str],
    preview: &'static str,
}

const NESTINGS: &[Nesting] = &[
    Nesting {
        name: "steps",
        main: "name: main
options: {maxConcurrency: 1}
agents: {w: {description: d, maxTurns: 5}}
steps:
  - {id: a, agent: w, instructions: Do a., timeout: 1h}
  - {id: b, agent: w, instructions: Do b., retries: 1, dependsOn: [a]}
  - {id: c, instructions: Do c., maxRetries: 0}
  - {id: last, instructions: Do last., dependsOn: [b, c]}
",
        inner: "",
        change: "a",
        asked: &["a", "b", "last"],
        preview: "a b",
    },
    Nesting {
        name: "attempts",
        main: "name: main
options: {maxConcurrency: 1}
steps:
  - {id: a, instructions: Do once., retries: 1}
  - {id: b, instructions: Do b., dependsOn: [a]}
  - {id: last, instructions: Do last., dependsOn: [b]}
",
        inner: "",
        change: "b",
        asked: &["b", "last"],
        preview: "b",
    },
    Nesting {
        name: "rounds with a judge",
        main: "name: main
options: {maxConcurrency: 1}
agents:
  judge: {description: d, prompt: Judge., resultSchema: {type: object, properties: {done: {type: boolean}}, required: [done]}}
steps:
  - {id: l, instructions: Do l., loop: {maxIterations: 3, untilAgent: judge}}
  - {id: c, instructions: Do c., dependsOn: [l]}
  - {id: other, instructions: Do other.}
  - {id: last, instructions: Do last., dependsOn: [c, other]}
",
        inner: "",
        change: "l",
        asked: &["l", "judge", "l", "judge", "c", "last"],
        preview: "c l.0 l.0.judge l.1 l.1.judge",
    },
    Nesting {
        name: "rounds of steps, tried again",
        main: "name: main
options: {maxConcurrency: 1}
steps:
  - id: l
    retries: 1
    timeout: 1h
    loop:
      maxIterations: 3
      until: iteration == 1
      steps:
        - {id: x, instructions: 'Do x${{ iteration }}.'}
        - {id: once, instructions: 'Do once${{ iteration }}.', dependsOn: [x]}
        - {id: y, instructions: 'Do y${{ iteration }}.', dependsOn: [once]}
  - {id: last, instructions: Do last., dependsOn: [l]}
",
        inner: "",
        change: "y${{ iteration }}",
        asked: &["y0", "x1", "once1", "y1", "last"],
        preview: "l.0.y l.1.once l.1.x l.1.y",
    },
    Nesting {
        name: "items of steps, tried again",
        main: "name: main
options: {maxConcurrency: 1}
steps:
  - id: e
    retries: 1
    loop:
      forEach: [p, q]
      maxConcurrency: 1
      steps:
        - {id: x, instructions: 'Do x${{ item }}.'}
        - {id: once, instructions: 'Do once${{ item }}.', dependsOn: [x]}
        - {id: y, instructions: 'Do y${{ item }}.', dependsOn: [once]}
  - {id: last, instructions: Do last., dependsOn: [e]}
",
        inner: "",
        change: "once${{ item }}",
        asked: &["oncep", "yp", "onceq", "yq", "last"],
        preview: "e[0].once e[0].y e[1].once e[1].y",
    },
    Nesting {
        name: "an include, tried again",
        main: "name: main
options: {maxConcurrency: 1}
steps:
  - {id: i, include: inner.yaml, retries: 1, timeout: 1h}
  - {id: c, instructions: Do c., dependsOn: [i]}
  - {id: last, instructions: Do last., dependsOn: [c]}
",
        inner: "name: inner
options: {maxConcurrency: 1}
steps:
  - {id: x, instructions: Do x.}
  - {id: once, instructions: Do once., dependsOn: [x]}
  - {id: y, instructions: Do y., dependsOn: [once]}
  - {id: z, instructions: Do z., dependsOn: [x]}
",
        change: "y",
        asked: &["y", "c", "last"],
        preview: "c i.y",
    },
    Nesting {
        name: "the last word of an include, tried again",
        main: "name: main
options: {maxConcurrency: 1}
steps:
  - {id: i, include: inner.yaml, retries: 1}
  - {id: c, instructions: Do c., dependsOn: [i]}
",
        inner: "name: inner
options: {maxConcurrency: 1}
steps:
  - {id: x, instructions: Do x.}
  - {id: once, instructions: Do once., dependsOn: [x]}
  - {id: y, instructions: Do y., dependsOn: [once]}
  - {id: last, instructions: Do last., dependsOn: [y]}
",
        change: "y",
        asked: &["y", "last", "c"],
        preview: "i.y",
    },
    Nesting {
        name: "loops in includes in items",
        main: "name: main
options: {maxConcurrency: 1}
steps:
  - id: e
    retries: 1
    loop:
      forEach: [p, q]
      maxConcurrency: 1
      steps:
        - {id: w, instructions: 'Do w${{ item }}.'}
        - {id: i, include: inner.yaml, dependsOn: [w]}
        - {id: v, instructions: 'Do v${{ item }}.', dependsOn: [i]}
  - {id: last, instructions: Do last., dependsOn: [e]}
",
        inner: "name: inner
options: {maxConcurrency: 1}
agents:
  judge: {description: d, prompt: Judge., resultSchema: {type: object, properties: {done: {type: boolean}}, required: [done]}}
steps:
  - {id: l, instructions: 'Do l${{ item }}.', loop: {maxIterations: 3, untilAgent: judge}}
  - {id: once, instructions: 'Do once${{ item }}.', dependsOn: [l]}
  - {id: s, instructions: 'Do s${{ item }}.'}
",
        change: "s${{ item }}",
        asked: &["sp", "vp", "sq", "vq", "last"],
        preview: "e[0].i.s e[0].v e[1].i.s e[1].v",
    },
    Nesting {
        name: "an approval",
        main: "name: main
options: {maxConcurrency: 1}
steps:
  - {id: a, instructions: Do a.}
  - {id: ok, approve: {timeout: 1h, message: Go?, onTimeout: deny}, dependsOn: [a]}
  - {id: b, instructions: Do b., dependsOn: [ok]}
  - {id: last, instructions: Do last., dependsOn: [b]}
",
        inner: "",
        change: "b",
        asked: &["b", "last"],
        preview: "b",
    },
];

/// Nobody's answer depends on these.
const HARMLESS: &[(&str, &str)] = &[
    ("maxConcurrency: 1", "maxConcurrency: 4"),
    ("maxConcurrency: 1}", "maxConcurrency: 1, scheduler: round-robin}"),
    ("retries: 1", "retries: 0"),
    ("retries: 1", "retries: 3"),
    ("{id: once,", "{id: once, retries: 2,"),
    ("timeout: 1h", "timeout: 2h"),
    (", timeout: 1h", ""),
    ("retries: 1}", "retries: 1, timeout: 3h}"),
    ("options: {", "options: {timeout: 5h, stepTimeout: 3h, "),
    ("description: d", "description: other"),
    ("name: main", "name: renamed"),
    ("maxIterations: 3", "maxIterations: 7"),
    ("{maxIterations: 3,", "{maxIterations: 3, delay: 1s,"),
    ("maxIterations: 3\n", "maxIterations: 3\n      delay: 1s\n"),
    ("maxTurns: 5", "maxTurns: 9"),
    ("maxRetries: 0", "maxRetries: 1"),
    ("options: {", "budget: {maxTokens: 1000000, maxTurns: 100}\noptions: {"),
];

/// Answers by the task alone. Tasks called `once` fail the first time in a way that is tried again, `last` in one that is not.
#[derive(Default)]
struct Model {
    asked: Mutex<Vec<String>>,
    failed: Mutex<BTreeSet<String>>,
}

impl ModelClient for Model {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        let told = request.messages[0].text();
        let task = match told.find("Do ").map(|at| &told[at + 3..]) {
            _ if told.contains("Evaluate Loop Progress") => "judge".to_owned(),
            Some(rest) => rest.split(['.', ' ']).next().unwrap().to_owned(),
            None => panic!("{told}"),
        };
        self.asked.lock().unwrap().push(task.clone());
        let class = match task.as_str() {
            "last" => Some(ErrorClass::Input),
            once if once.starts_with("once") => Some(ErrorClass::Protocol),
            _ => None,
        };
        let fails = class.filter(|_| self.failed.lock().unwrap().insert(task.clone()));
        if let Some(class) = fails {
            let retryable = class == ErrorClass::Protocol;
            let error = ModelError { retryable, ..ModelError::new(class, "scripted") };
            return Box::pin(futures_util::stream::iter([Err(error)]));
        }
        let usage = Usage { input: 3, output: 1, total: 4, ..Usage::default() };
        let mut deltas = match task.as_str() {
            "judge" => {
                let done = told.matches("## Iteration").count() > 1;
                vec![
                    Delta::ToolCallStarted { index: 0, id: "c".into(), name: "submit_result".into() },
                    Delta::ToolCallArguments { index: 0, fragment: json!({"done": done}).to_string() },
                    Delta::Finished(FinishReason::ToolCalls),
                ]
            }
            _ => vec![Delta::Text(format!("Answer to {task}")), Delta::Finished(FinishReason::Stop)],
        };
        deltas.insert(0, Delta::Usage(usage));
        Box::pin(futures_util::stream::iter(deltas.into_iter().map(Ok::<Delta, ModelError>)))
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<Value>>);

impl FlowSink for Heard {
    fn emit(&self, event: FlowEvent) {
        self.0.lock().unwrap().push(serde_json::to_value(&event).unwrap());
    }
}

/// A run and the world around it.
struct Lab {
    folder: TempDir,
    model: Arc<Model>,
}

impl Lab {
    fn new() -> Lab {
        Lab { folder: tempfile::tempdir().unwrap(), model: Arc::default() }
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.folder.path().join("runs.db")).unwrap()
    }

    /// From the beginning, or from where it was; to its end, or until the power fails.
    async fn run(&self, workflow: &Arc<LoadedWorkflow>, cut: Cut) -> Option<(Vec<String>, WorkflowOutcome)> {
        let journal = self.journal();
        let run = NewRun {
            id: "r".to_owned(),
            name: "main".to_owned(),
            document_hash: workflow.hash.clone(),
            document: String::new(),
            inputs: String::new(),
            cwd: String::new(),
        };
        let root = Arc::clone(workflow);
        let (lease, log, again) = match journal.begin(run).await {
            Ok(lease) => {
                let lease = Arc::new(lease);
                (Arc::clone(&lease), JournalLog::new(lease, root, Secrets::default()), Vec::new())
            }
            Err(_) => {
                let (lease, stored) = taken(&journal, "r").await;
                let (lease, mut past) = (Arc::new(lease), Past::of(&stored).unwrap());
                let again = past.fit(&RunSpec::new(Arc::clone(&root), "r", JsonText::of(&json!({}))));
                let resumed = Resumed { past, models: Models::default(), document: None, given: None };
                let log = JournalLog::resume(Arc::clone(&lease), root, Secrets::default(), resumed);
                (lease, log.await.unwrap(), again)
            }
        };
        let (cut, heard) = (Arc::new(cut), Arc::new(Heard::default()));
        let log: Arc<dyn StepLog> = Arc::new(CutLog { inner: log, cut: Arc::clone(&cut) });
        let model = Arc::clone(&self.model) as Arc<dyn ModelClient>;
        let run = FlowRun::new(Arc::clone(workflow), model, "m")
            .run_id("r")
            .log(log)
            .sink(Arc::clone(&heard) as Arc<dyn FlowSink>);
        let outcome = tokio::select! {
            outcome = run.run() => outcome.unwrap(),
            () = cut.reached() => return None,
        };
        lease.finish(RunState::Ended(outcome.status), None).await.unwrap();
        assert_flow_events(&heard.0.lock().unwrap());
        Some((again.into_iter().map(|step| step.step_id).collect(), outcome))
    }

    /// As far as it comes; whoever is asked says yes.
    async fn on(&self, workflow: &Arc<LoadedWorkflow>) -> (Vec<String>, WorkflowOutcome) {
        let mut first = None;
        loop {
            let (again, outcome) = self.run(workflow, Cut::after(usize::MAX)).await.unwrap();
            let again = first.get_or_insert(again).clone();
            if outcome.status != WorkflowStatus::Suspended {
                return (again, outcome);
            }
            let journal = self.journal();
            for asked in journal.questions("r").unwrap() {
                let yes = Reply { decision: Decision::Approved, by: "me".to_owned(), data: None };
                journal.reply("r", &asked, yes).unwrap();
            }
        }
    }

    /// However often it fails before.
    async fn to_its_end(&self, workflow: &Arc<LoadedWorkflow>) {
        while self.on(workflow).await.1.status != WorkflowStatus::Completed {}
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.model.asked.lock().unwrap())
    }
}

impl Nesting {
    fn load(&self, change: impl Fn(&str) -> String) -> Arc<LoadedWorkflow> {
        let files = [("inner.yaml", change(self.inner))];
        let files: Vec<(&str, &str)> = files
            .iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (*name, &text[..]))
            .collect();
        document_with(&files, &change(self.main))
    }

    /// The changes that this document can have.
    fn harmless(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        HARMLESS.iter().copied().filter(|(from, _)| self.main.contains(from) || self.inner.contains(from))
    }
}

fn unchanged(text: &str) -> String {
    text.to_owned()
}

#[tokio::test]
async fn what_no_model_is_told_runs_nothing_again() {
    for nesting in NESTINGS {
        for (from, to) in nesting.harmless() {
            let about = format!("{}: `{from}` is `{to}`", nesting.name);
            let lab = Lab::new();
            let (_, outcome) = lab.on(&nesting.load(unchanged)).await;
            assert_ne!(outcome.status, WorkflowStatus::Completed, "{about}");
            lab.asked();
            let (again, outcome) = lab.on(&nesting.load(|text| text.replace(from, to))).await;
            assert_eq!(outcome.status, WorkflowStatus::Completed, "{about}: {outcome:#?}");
            assert_eq!(again, Vec::<String>::new(), "{about}");
            let rest: &[&str] =
                if nesting.name.starts_with("the last word") { &["last", "c"] } else { &["last"] };
            assert_eq!(lab.asked(), rest, "{about}");
        }
    }
}

#[tokio::test]
async fn what_a_model_is_told_is_run_again_with_what_depends_on_it() {
    for nesting in NESTINGS {
        let lab = Lab::new();
        lab.on(&nesting.load(unchanged)).await;
        lab.asked();
        let (from, to) = (format!("Do {}.", nesting.change), format!("Do {} now.", nesting.change));
        // Whatever else is different.
        let other = |text: &str| {
            text.replace(&from, &to)
                .replace("maxConcurrency: 1}", "maxConcurrency: 1, scheduler: least-busy}")
        };
        let (again, outcome) = lab.on(&nesting.load(other)).await;
        assert_eq!(lab.asked(), nesting.asked, "{}: {outcome:#?}", nesting.name);
        assert_eq!(again.join(" "), nesting.preview, "{}", nesting.name);
        assert_eq!(outcome.status, WorkflowStatus::Completed, "{}: {outcome:#?}", nesting.name);
    }
}

/// One at a time is under way, and may be asked for twice.
#[tokio::test]
async fn a_run_that_is_cut_off_anywhere_goes_on_with_another_number_at_a_time() {
    for nesting in NESTINGS {
        let whole = Lab::new();
        whole.to_its_end(&nesting.load(unchanged)).await;
        let expected = counted(whole.asked());
        let changed = nesting.load(|text| text.replace("maxConcurrency: 1", "maxConcurrency: 4"));
        let step = if tenon_testkit::cases(8) > 8 { 1 } else { 9 };
        for cut in (1..).step_by(step) {
            let lab = Lab::new();
            if lab.run(&nesting.load(unchanged), Cut::after(cut)).await.is_some() {
                break;
            }
            lab.to_its_end(&changed).await;
            let asked = counted(lab.asked());
            let more: usize = asked
                .iter()
                .map(|(task, times)| times.saturating_sub(expected.get(task).copied().unwrap_or(0)))
                .sum();
            assert!(more <= 1, "{} after {cut} rows: {asked:?} instead of {expected:?}", nesting.name);
        }
    }
}

fn counted(asked: Vec<String>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    asked.into_iter().for_each(|task| *counted.entry(task).or_default() += 1);
    counted
}
