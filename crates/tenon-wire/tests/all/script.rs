//! Builds the events of a run, with ids that count up and a clock that ticks 10 ms per event.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use tenon_core::{
    Cost, Decision, Ending, ErrorClass, Event, EventKind, Failure, Id, Metrics, ModelMetrics, Origin,
    Outcome, Part, PartKind, PermissionDenial, RawJson, RunInfo, Success, Timestamp, ToolCall, ToolDisplay,
    ToolErrorKind, ToolMetrics, ToolReport, Usage,
};
use tenon_wire::{Dialect, EncoderOptions, Format, encoder};

pub const MODEL: &str = "test-model";

pub fn id(number: u64) -> Id {
    Id::parse(&format!("00000000-0000-4000-8000-{number:012x}")).unwrap()
}

pub fn session() -> Id {
    Id::parse("5e551011-0000-4000-8000-000000000000").unwrap()
}

pub fn raw(json: &str) -> RawJson {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, cache_read: 8, cache_write: 0, reasoning: 2, total: input + output }
}

/// A call as a script names it: id, tool, and the pieces its arguments come in.
pub type Call<'a> = (&'a str, &'a str, &'a [&'a str]);

/// The events of one run.
#[derive(Clone, Default)]
pub struct Script {
    pub events: Vec<Event>,
    parent: Option<String>,
    next_part: usize,
    turns: u32,
    ids: u64,
}

impl Script {
    /// A run that has introduced itself.
    pub fn started() -> Script {
        Script::default().event(EventKind::RunStarted(Box::new(RunInfo {
            session_id: session(),
            cwd: "/project".into(),
            model: MODEL.to_owned(),
            permission_mode: "default".to_owned(),
            tools: ["read_file", "run_shell_command", "structured_output"].map(str::to_owned).to_vec(),
            agents: Vec::new(),
            commands: Vec::new(),
            mcp_servers: Vec::new(),
            cli_version: "0.1.0".to_owned(),
            sandbox: Default::default(),
            channel: None,
        })))
    }

    /// The next run of the session.
    pub fn started_again(mut self) -> Script {
        let first = self.events[0].kind.clone();
        self.next_part = 0;
        self.event(first)
    }

    /// What whoever asked for the run said.
    pub fn prompted(self, text: &str) -> Script {
        self.event(EventKind::UserMessage { text: text.to_owned(), origin: Origin::Prompt })
    }

    pub fn event(mut self, kind: EventKind) -> Script {
        let seq = self.events.len() as u64 + 1;
        let time = Timestamp(1_700_000_000_000 + 10 * seq);
        let id = self.next_id();
        self.events.push(Event { seq, time, id, parent: self.parent.clone(), kind });
        self
    }

    /// Events from here on come from a sub-agent that works for this call; `None`: from the run itself.
    pub fn inside(mut self, call: Option<&str>) -> Script {
        self.parent = call.map(str::to_owned);
        self
    }

    pub fn turn(mut self) -> Script {
        self.turns += 1;
        self.next_part = 0;
        let turn = self.turns;
        self.event(EventKind::TurnStarted { turn, model: MODEL.to_owned() })
    }

    pub fn turn_finished(self, usage: Usage) -> Script {
        let turn = self.turns;
        self.event(EventKind::TurnFinished { turn, usage })
    }

    pub fn text(self, pieces: &[&str]) -> Script {
        let script = self.half_text(pieces);
        let part = script.next_part - 1;
        let content = Part::Text { text: pieces.concat() };
        script.event(EventKind::PartStopped { part, content })
    }

    /// Text that never ends.
    pub fn half_text(self, pieces: &[&str]) -> Script {
        self.part_started(PartKind::Text).deltas(pieces)
    }

    pub fn thinking(self, pieces: &[&str]) -> Script {
        let script = self.part_started(PartKind::Thinking).deltas(pieces);
        let part = script.next_part - 1;
        let native = Some(serde_json::json!({ "signature": "for the provider only" }));
        script
            .event(EventKind::PartStopped { part, content: Part::Thinking { text: pieces.concat(), native } })
    }

    pub fn call_started(self, call_id: &str, name: &str) -> Script {
        let (call_id, name) = (call_id.to_owned(), name.to_owned());
        let terminal = name == "structured_output";
        self.part_started(PartKind::ToolCall { call_id, name, terminal })
    }

    /// Calls that are all open at once, their pieces taking turns.
    pub fn calls(mut self, calls: &[Call<'_>]) -> Script {
        let first = self.next_part;
        for (call_id, name, _) in calls {
            self = self.call_started(call_id, name);
        }
        let longest = calls.iter().map(|(_, _, pieces)| pieces.len()).max().unwrap_or_default();
        for round in 0..longest {
            for (at, (_, _, pieces)) in calls.iter().enumerate() {
                if let Some(piece) = pieces.get(round) {
                    self = self.delta(first + at, piece);
                }
            }
        }
        for (at, (call_id, name, pieces)) in calls.iter().enumerate() {
            let content = Part::ToolCall(ToolCall {
                id: (*call_id).to_owned(),
                name: (*name).to_owned(),
                arguments: pieces.concat(),
                terminal: *name == "structured_output",
                native: None,
            });
            self = self.event(EventKind::PartStopped { part: first + at, content });
        }
        self
    }

    pub fn delta(self, part: usize, text: &str) -> Script {
        self.event(EventKind::PartDelta { part, text: text.to_owned() })
    }

    pub fn tool_started(self, call_id: &str, name: &str) -> Script {
        let terminal = name == "structured_output";
        self.event(EventKind::ToolStarted { call_id: call_id.to_owned(), name: name.to_owned(), terminal })
    }

    pub fn tool_finished(
        self,
        call_id: &str,
        name: &str,
        content: &str,
        error: Option<ToolErrorKind>,
    ) -> Script {
        self.event(EventKind::ToolFinished(ToolReport {
            call_id: call_id.to_owned(),
            name: name.to_owned(),
            terminal: name == "structured_output",
            content: content.to_owned(),
            drawing: None,
            stored: None,
            error,
            duration_ms: 5,
        }))
    }

    /// A success that has more to show than text.
    pub fn tool_drawn(self, call_id: &str, name: &str, content: &str, drawing: ToolDisplay) -> Script {
        let mut script = self.tool_started(call_id, name).tool_finished(call_id, name, content, None);
        if let Some(Event { kind: EventKind::ToolFinished(report), .. }) = script.events.last_mut() {
            report.drawing = Some(Box::new(drawing));
        }
        script
    }

    pub fn retrying(self, wait_ms: u64) -> Script {
        let message = "the provider is overloaded".to_owned();
        self.event(EventKind::Retrying {
            attempt: 1,
            attempts: 5,
            wait_ms,
            class: "overloaded",
            status: Some(529),
            message,
        })
    }

    pub fn finished(self, outcome: Outcome) -> Script {
        self.event(EventKind::RunFinished(Arc::new(outcome)))
    }

    /// What an encoder makes of the script.
    pub fn encoded(&self, options: &EncoderOptions) -> String {
        self.encoded_as(Dialect::Qwen, options)
    }

    pub fn encoded_as(&self, dialect: Dialect, options: &EncoderOptions) -> String {
        let mut encoder = encoder(dialect, options.clone());
        let mut out = Vec::new();
        for event in &self.events {
            encoder.encode(event, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    fn part_started(mut self, kind: PartKind) -> Script {
        let part = self.next_part;
        self.next_part += 1;
        let id = self.next_id();
        self.event(EventKind::PartStarted { part, id, kind })
    }

    fn deltas(mut self, pieces: &[&str]) -> Script {
        let part = self.next_part - 1;
        for piece in pieces {
            self = self.delta(part, piece);
        }
        self
    }

    fn next_id(&mut self) -> Id {
        self.ids += 1;
        id(self.ids)
    }
}

pub fn options(format: Format) -> EncoderOptions {
    EncoderOptions::new(format, session(), "0.0.0")
}

pub fn with_partials() -> EncoderOptions {
    EncoderOptions { partials: true, ..options(Format::StreamJson) }
}

pub fn success(text: &str) -> Outcome {
    outcome(Ending::Success(Success { text: text.to_owned(), payload: None }))
}

pub fn structured_success(payload: &str) -> Outcome {
    outcome(Ending::Success(Success { text: payload.to_owned(), payload: Some(raw(payload)) }))
}

pub fn failure(class: ErrorClass, message: &str) -> Failure {
    Failure::new(class, message)
}

pub fn failed(failure: Failure) -> Outcome {
    outcome(Ending::Failure(Box::new(failure)))
}

pub fn denial(call_id: &str) -> PermissionDenial {
    PermissionDenial {
        tool_name: "run_shell_command".to_owned(),
        tool_use_id: call_id.to_owned(),
        tool_input: raw(r#"{"command":"rm -r build"}"#),
        reason: "`run_shell_command` needs approval".to_owned(),
    }
}

/// An outcome with numbers that can be told apart.
fn outcome(ending: Ending) -> Outcome {
    let model = ModelMetrics {
        requests: 3,
        errors: 1,
        latency_ms: 850,
        usage: usage(1200, 36),
        cost: Cost::Usd(0.0125),
        window: Some(200_000),
        max_output: Some(32_000),
    };
    let read = ToolMetrics {
        success: 2,
        fail: 0,
        duration_ms: 7,
        decisions: BTreeMap::from([(Decision::AutoAccept, 2)]),
    };
    let shell = ToolMetrics {
        success: 1,
        fail: 2,
        duration_ms: 40,
        decisions: BTreeMap::from([(Decision::Accept, 1), (Decision::Reject, 1), (Decision::Modify, 1)]),
    };
    Outcome {
        ending,
        turns: 2,
        duration_ms: 900,
        api_duration_ms: 850,
        metrics: Metrics {
            models: BTreeMap::from([(MODEL.to_owned(), model)]),
            tools: BTreeMap::from([("read_file".to_owned(), read), ("run_shell_command".to_owned(), shell)]),
            lines_added: 3,
            lines_removed: 1,
        },
        denials: Vec::new(),
        warnings: Vec::new(),
        cost_usd: Some(0.0125),
    }
}
