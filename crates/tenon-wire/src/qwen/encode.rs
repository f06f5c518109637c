//! Which event gives which line.
//!
//! `stream-json` writes lines as they come about; `json` keeps the same messages and writes them as one
//! array at the end; `text` writes the final text of a success and nothing else.

use std::collections::BTreeMap;

use tenon_core::{Event, EventKind, Id, Origin, Outcome, RunInfo, TaskEnd, ToolErrorKind, ToolProgress};

use super::claude::{self, ClaudeNotice, Flavour, InFlight};
use super::hook_lines::{self, Envelope};
use super::result::{Of, no_usage, result_line, used};
use super::turn::{Turn, TurnEnd};
use super::types::{
    ApiRetryData, CompactBoundaryData, Heartbeat, HeartbeatData, HeartbeatStatus, Init, Line, McpServer,
    McpStatus, ModelFallbackData, Notice, Progress, RecordingDegradedData, RecordingDegradedReason,
    StreamEvent, StreamEventLine, System, TaskNotificationData, TaskStartedData, TaskUsage, UserBlock,
    UserLine, UserMessage, UserRole,
};
use crate::cap::capped;
use crate::json_line;
use crate::text::encode_text;
use crate::values::{Raw, Uuid};
use crate::{Encoder, EncoderOptions, Format, SCHEMA_VERSION};

pub(crate) struct QwenEncoder {
    options: EncoderOptions,
    flavour: Flavour,
    session_id: Id,
    /// The current model turn of the run itself.
    turn: Turn,
    /// The current turns of sub-agents, by the call they work for: these run side by side.
    children: BTreeMap<String, Turn>,
    /// What an interruption would stop.
    in_flight: InFlight,
    /// The messages of the `json` document so far, with commas between them.
    document: Vec<u8>,
}

impl QwenEncoder {
    pub fn new(options: EncoderOptions, flavour: Flavour) -> QwenEncoder {
        let session_id = options.session_id;
        QwenEncoder {
            options,
            flavour,
            session_id,
            turn: Turn::default(),
            children: BTreeMap::new(),
            in_flight: InFlight::Answer,
            document: Vec::new(),
        }
    }
}

impl Encoder for QwenEncoder {
    fn encode(&mut self, event: &Event, out: &mut Vec<u8>) {
        match self.options.format {
            Format::Text => encode_text(event, out),
            Format::StreamJson | Format::StreamChunkJson => {
                self.encode_messages(event, out, Framing::Lines);
            }
            Format::Json => {
                let mut document = std::mem::take(&mut self.document);
                self.encode_messages(event, &mut document, Framing::Array);
                if let (EventKind::RunFinished(outcome), None) = (&event.kind, &event.parent) {
                    if self.flavour == Flavour::Claude && !self.options.verbose {
                        document.clear();
                        let id = Uuid(event.id);
                        let (flavour, in_flight) = (self.flavour, self.in_flight);
                        let of = Of { flavour, in_flight, uuid: id, session_id: Uuid(self.session_id) };
                        let result = result_line(outcome, &self.options, of);
                        json_line::append(out, &Line::Result(Box::new(result)));
                    } else {
                        out.push(b'[');
                        out.append(&mut document);
                        out.push(b']');
                    }
                    out.push(b'\n');
                }
                self.document = document;
            }
        }
    }
}

impl QwenEncoder {
    fn encode_messages(&mut self, event: &Event, out: &mut Vec<u8>, framing: Framing) {
        if let (EventKind::RunStarted(info), None) = (&event.kind, &event.parent) {
            self.session_id = info.session_id;
        }
        match &event.kind {
            EventKind::RunStarted(_) | EventKind::TurnStarted { .. } if event.parent.is_none() => {
                self.in_flight = InFlight::Answer;
            }
            EventKind::ToolFinished(report) if report.error == Some(ToolErrorKind::Cancelled) => {
                self.in_flight = InFlight::Calls;
            }
            _ => {}
        }
        let partials = self.options.partials && framing == Framing::Lines;
        let mut sink = Sink {
            out,
            framing,
            partials,
            flavour: self.flavour,
            session_id: Uuid(self.session_id),
            parent: event.parent.as_deref(),
            event_id: event.id,
            stream_events: 0,
        };
        let turn = match &event.parent {
            None => &mut self.turn,
            Some(parent) => self.children.entry(parent.clone()).or_default(),
        };
        match &event.kind {
            EventKind::RunStarted(info) => write_init(info, &mut sink),
            EventKind::TurnStarted { model, .. } => turn.begin(model),
            EventKind::PartStarted { part, id, kind } => turn.part_started(*part, *id, kind, &mut sink),
            EventKind::PartDelta { part, text } => turn.part_delta(*part, text, &mut sink),
            EventKind::PartStopped { part, content } => turn.part_stopped(*part, content, &mut sink),
            EventKind::TurnFinished { usage, .. } => {
                turn.finish(used(self.flavour, *usage), TurnEnd::Whole, &mut sink)
            }
            EventKind::Retrying { attempt, attempts, wait_ms, class, status, message } => {
                turn.abandon(&mut sink);
                // Clients of the `qwen` dialect know no such line; people read it on stderr.
                if sink.flavour == Flavour::Claude {
                    let data = ApiRetryData { attempt: *attempt, wait_ms: *wait_ms, class, message };
                    let beside = ClaudeNotice::retrying(&data, *attempts, *status);
                    sink.line(&Line::System(System::ApiRetry(sink.notice(data).beside(Some(beside)))));
                }
            }
            EventKind::ModelFallback { from, to, status, fallback } => {
                turn.abandon(&mut sink);
                let data = ModelFallbackData {
                    from_model: from,
                    to_model: to,
                    status_code: *status,
                    fallback_index: *fallback,
                };
                sink.line(&Line::System(System::ModelFallback(sink.notice(data))));
            }
            EventKind::StructuredPartial { call_id, snapshot } => {
                sink.stream_event(StreamEvent::StructuredPartial {
                    tool_use_id: call_id,
                    snapshot: Raw(snapshot),
                    complete: false,
                });
            }
            EventKind::ToolProgress { call_id, progress } => {
                sink.stream_event(StreamEvent::ToolProgress {
                    tool_use_id: call_id,
                    content: shown_progress(progress),
                });
            }
            EventKind::ToolFinished(report) => {
                let result = UserBlock::ToolResult {
                    tool_use_id: &report.call_id,
                    is_error: report.error.is_some(),
                    content: capped(&report.content),
                };
                write_user(result, &mut sink);
            }
            // The prompt of the run itself is not repeated to whoever gave it.
            EventKind::UserMessage { origin: Origin::Prompt, .. } if sink.parent.is_none() => {}
            EventKind::UserMessage { text, .. } => {
                write_user(UserBlock::Text { text: capped(text) }, &mut sink);
            }
            EventKind::TaskStarted(task) => {
                let data = TaskStartedData {
                    task_id: &task.task_id,
                    tool_use_id: task.call_id.as_deref(),
                    kind: task.kind.name(),
                    description: &task.description,
                    subagent_type: task.agent_type.as_deref(),
                };
                let beside = sink.claude(|| ClaudeNotice::task_started(task));
                sink.line(&Line::System(System::TaskStarted(sink.notice(data).beside(beside))));
            }
            EventKind::TaskEnded(task) => write_task_ended(task, &mut sink),
            EventKind::Compacted { trigger, before_tokens, after_tokens } => {
                let data = CompactBoundaryData {
                    trigger: trigger.name(),
                    before_tokens: *before_tokens,
                    after_tokens: *after_tokens,
                };
                let beside = sink.claude(|| ClaudeNotice::compacted(*trigger, *before_tokens));
                sink.line(&Line::System(System::CompactBoundary(sink.notice(data).beside(beside))));
            }
            EventKind::RecordingDegraded { message } => {
                let reason = RecordingDegradedReason::WriteFailed;
                let data = RecordingDegradedData { session_id: sink.session_id, reason, message };
                sink.line(&Line::System(System::SessionRecordingDegraded(sink.notice(data))));
            }
            EventKind::Heartbeat => write_heartbeat(event, &mut sink),
            EventKind::RunFinished(outcome) => {
                turn.finish(no_usage(sink.flavour), TurnEnd::CutOff, &mut sink);
                write_result(outcome, &self.options, self.in_flight, &mut sink);
                if let Some(parent) = &event.parent {
                    self.children.remove(parent);
                }
            }
            EventKind::HookStarted(hook) if self.options.hook_events => {
                let line = hook_lines::started(hook, sink.envelope());
                sink.line(&Line::System(System::HookStarted(line)));
            }
            EventKind::HookEnded(hook) if self.options.hook_events => {
                let line = hook_lines::ended(hook, sink.envelope());
                sink.line(&Line::System(System::HookResponse(line)));
            }
            // This dialect has no line for them; people read them on stderr.
            EventKind::Asking { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::HookStarted(_)
            | EventKind::HookEnded(_)
            | EventKind::PermissionAsked(_)
            | EventKind::Warning { .. } => {}
        }
    }
}

fn write_init(info: &RunInfo, sink: &mut Sink<'_>) {
    // A sub-agent starts inside a run that has introduced itself already.
    if sink.parent.is_some() {
        return;
    }
    sink.line(&Line::System(System::Init(Init {
        uuid: sink.session_id,
        session_id: sink.session_id,
        cwd: info.cwd.to_string_lossy(),
        tools: &info.tools,
        mcp_servers: info.mcp_servers.iter().map(shown_server).collect(),
        model: &info.model,
        permission_mode: claude::mode_name(sink.flavour, &info.permission_mode),
        slash_commands: &info.commands,
        qwen_code_version: &info.cli_version,
        agents: &info.agents,
        permission_mode_camel: claude::mode_name(sink.flavour, &info.permission_mode),
        schema_version: SCHEMA_VERSION,
        cli_version: &info.cli_version,
        sandbox: info.sandbox.name(),
        channel: info.channel.as_deref(),
        claude: claude::init(sink.flavour, info),
    })));
}

fn write_task_ended(task: &TaskEnd, sink: &mut Sink<'_>) {
    let usage = TaskUsage {
        total_tokens: task.usage.map_or(0, |usage| usage.total),
        tool_uses: task.tool_calls,
        duration_ms: task.duration_ms,
    };
    let data = TaskNotificationData {
        task_id: &task.task_id,
        tool_use_id: task.call_id.as_deref(),
        kind: task.kind.name(),
        status: task.status.name(),
        summary: &task.summary,
        output_file: task.output_file.as_ref().map(|path| path.to_string_lossy()),
        usage,
    };
    let beside = sink.claude(|| ClaudeNotice::task_ended(task, usage));
    sink.line(&Line::System(System::TaskNotification(sink.notice(data).beside(beside))));
}

fn write_user(block: UserBlock<'_>, sink: &mut Sink<'_>) {
    sink.line(&Line::User(UserLine {
        uuid: Uuid(sink.event_id),
        session_id: sink.session_id,
        parent_tool_use_id: sink.parent,
        message: UserMessage { role: UserRole::User, content: [block] },
    }));
}

fn write_heartbeat(event: &Event, sink: &mut Sink<'_>) {
    // In a document that is read at the end, a sign of life is noise.
    if sink.framing == Framing::Array {
        return;
    }
    sink.line(&Line::System(System::Heartbeat(Heartbeat {
        uuid: Uuid(event.id),
        session_id: sink.session_id,
        data: HeartbeatData { ts: event.time.seconds(), status: HeartbeatStatus::Ok },
    })));
}

fn write_result(outcome: &Outcome, options: &EncoderOptions, in_flight: InFlight, sink: &mut Sink<'_>) {
    // The result of a sub-agent is the result of the call it worked for: a second `result` line would be
    // taken for the end of the run.
    if sink.parent.is_some() {
        return;
    }
    let (flavour, session_id) = (sink.flavour, sink.session_id);
    let of = Of { flavour, in_flight, uuid: Uuid(sink.event_id), session_id };
    let line = result_line(outcome, options, of);
    sink.line(&Line::Result(Box::new(line)));
}

fn shown_server(server: &tenon_core::McpServer) -> McpServer<'_> {
    let status = match server.status {
        tenon_core::McpStatus::Connected => McpStatus::Connected,
        tenon_core::McpStatus::Starting => McpStatus::Connecting,
        tenon_core::McpStatus::Failed | tenon_core::McpStatus::Disabled => McpStatus::Disconnected,
    };
    McpServer { name: &server.name, status }
}

fn shown_progress(progress: &ToolProgress) -> Progress<'_> {
    match *progress {
        ToolProgress::Steps { ref progress, ref total, ref message } => {
            Progress::McpToolProgress { progress, total: total.as_ref(), message: message.as_deref() }
        }
        ToolProgress::Shell { elapsed_ms, last_output_age_ms, total_lines, total_bytes, timeout_ms } => {
            Progress::ShellProgress { elapsed_ms, last_output_age_ms, total_lines, total_bytes, timeout_ms }
        }
    }
}

/// How messages stand one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Lines,
    Array,
}

/// Where the messages of one event go, and what they have in common.
pub(super) struct Sink<'a> {
    out: &'a mut Vec<u8>,
    pub framing: Framing,
    partials: bool,
    pub flavour: Flavour,
    pub session_id: Uuid,
    pub parent: Option<&'a str>,
    event_id: Id,
    /// How many stream events this event has given: the n-th takes the n-th id derived from its own.
    stream_events: u64,
}

impl<'a> Sink<'a> {
    fn notice<Data>(&self, data: Data) -> Notice<'a, Data> {
        Notice {
            uuid: Uuid(self.event_id),
            session_id: self.session_id,
            parent_tool_use_id: self.parent,
            data,
            claude: None,
        }
    }

    /// What only clients of the `claude` dialect read.
    fn claude<'b>(&self, beside: impl FnOnce() -> ClaudeNotice<'b>) -> Option<ClaudeNotice<'b>> {
        (self.flavour == Flavour::Claude).then(beside)
    }

    fn envelope(&self) -> Envelope<'a> {
        Envelope { event_id: self.event_id, session_id: self.session_id, parent: self.parent }
    }

    pub fn line(&mut self, line: &Line<'_>) {
        match self.framing {
            Framing::Lines => {
                json_line::append(self.out, line);
                self.out.push(b'\n');
            }
            Framing::Array => {
                if !self.out.is_empty() {
                    self.out.push(b',');
                }
                json_line::append(self.out, line);
            }
        }
    }

    /// Writes a piece of a message, if the client asked for pieces.
    pub fn stream_event(&mut self, event: StreamEvent<'_>) {
        if !self.partials {
            return;
        }
        self.stream_events += 1;
        self.line(&Line::StreamEvent(StreamEventLine {
            uuid: Uuid(self.event_id.derive(self.stream_events)),
            session_id: self.session_id,
            parent_tool_use_id: self.parent,
            event,
        }));
    }
}

impl<'a, Data> Notice<'a, Data> {
    fn beside(self, claude: Option<ClaudeNotice<'a>>) -> Notice<'a, Data> {
        Notice { claude, ..self }
    }
}
