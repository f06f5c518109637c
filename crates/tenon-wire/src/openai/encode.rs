//! Which event gives which line.
//!
//! `stream-json` writes one completion per answer, call and news; `stream-chunk-json` writes answers in the
//! pieces they come in; `json` writes one completion at the end. A structured run shows its payload once, as
//! the content of the last line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tenon_core::{Ending, Event, EventKind, FinishReason as Ended, Id, Outcome, RunInfo, Usage as Tokens};

use super::annotations::{self, Place};
use super::closing;
use super::turn::{self, Open, Turn};
use super::types::{
    Annotation, CallType, Choice, Chunk, ChunkChoice, ChunkObject, Completion, CompletionObject, Delta,
    FinishReason, Function, FunctionDelta, Heartbeat, HeartbeatType, Line, Message, Metadata, Opening,
    PROTOCOL_VERSION, Role, SessionEvent, StructuredPartial, ToolCall, ToolCallDelta, Usage,
};
use crate::json_line;
use crate::text::encode_text;
use crate::values::{Raw, Uuid};
use crate::{Encoder, EncoderOptions, Format, Lifetime, SCHEMA_VERSION};

/// What a client can count on.
const CAPABILITIES: &[&str] = &[
    "annotations",
    "commands",
    "command_hints",
    "heartbeat",
    "cancel",
    "can_use_tool",
    "hook_callback",
    "mcp_message",
    "structured_result",
];

pub(crate) struct OpenAiEncoder {
    options: EncoderOptions,
    session_id: Id,
    model: String,
    /// Counts the turns of the session, for their ids.
    prompts: u64,
    prompt_id: String,
    next_prompt_id: Option<String>,
    turn: Turn,
    /// The current turns of sub-agents, by the call they work for.
    children: BTreeMap<String, Turn>,
}

impl OpenAiEncoder {
    pub fn new(options: EncoderOptions) -> OpenAiEncoder {
        OpenAiEncoder {
            session_id: options.session_id,
            prompt_id: prompt_id(options.session_id, 1),
            model: String::new(),
            prompts: 0,
            next_prompt_id: None,
            turn: Turn::default(),
            children: BTreeMap::new(),
            options,
        }
    }
}

fn prompt_id(session: Id, number: u64) -> String {
    format!("{session}########{number}")
}

impl Encoder for OpenAiEncoder {
    fn encode(&mut self, event: &Event, out: &mut Vec<u8>) {
        if let (EventKind::RunStarted(info), None) = (&event.kind, &event.parent) {
            self.begin(info);
        }
        match self.options.format {
            Format::Text => encode_text(event, out),
            Format::Json => self.encode_document(event, out),
            Format::StreamJson | Format::StreamChunkJson => self.encode_line(event, out),
        }
    }

    fn name_next_turn(&mut self, prompt_id: &str) {
        self.next_prompt_id = Some(prompt_id.to_owned());
    }
}

impl OpenAiEncoder {
    fn begin(&mut self, info: &RunInfo) {
        self.session_id = info.session_id;
        self.model.clone_from(&info.model);
        self.prompts += 1;
        self.prompt_id = match self.next_prompt_id.take() {
            Some(id) => id,
            None => prompt_id(info.session_id, self.prompts),
        };
    }

    fn encode_document(&mut self, event: &Event, out: &mut Vec<u8>) {
        let (EventKind::RunFinished(outcome), None) = (&event.kind, &event.parent) else { return };
        match closing::fatal(outcome) {
            Some(fatal) => write(&Line::Fatal(fatal), out),
            None => self.close(outcome, event, out),
        }
    }

    fn encode_line(&mut self, event: &Event, out: &mut Vec<u8>) {
        match &event.kind {
            EventKind::RunStarted(info) if event.parent.is_none() => self.open(info, event, out),
            EventKind::TurnStarted { model, .. } => self.turn_of(event).begin(model),
            EventKind::PartStarted { part, kind, .. } => self.part_started(event, *part, kind, out),
            EventKind::PartDelta { part, text } => self.part_delta(event, *part, text, out),
            EventKind::PartStopped { part, content } => self.turn_of(event).part_stopped(*part, content),
            EventKind::TurnFinished { usage, .. } => self.turn_finished(event, *usage, out),
            EventKind::ToolStarted { call_id, name, terminal: false } => {
                let shown = annotations::started(call_id, name, self.place(event));
                self.annotate(event, shown, out);
            }
            EventKind::ToolFinished(report) if !report.terminal || report.error.is_some() => {
                let shown = annotations::finished(report, self.place(event));
                self.annotate(event, shown, out);
            }
            EventKind::StructuredPartial { call_id, snapshot } if self.streams_pieces() => {
                let partial =
                    StructuredPartial { tool_call_id: call_id, snapshot: Raw(snapshot), complete: false };
                self.annotate(event, Annotation::StructuredPartial(partial), out);
            }
            EventKind::PermissionAsked(ask) => {
                let shown = annotations::asked(ask, self.place(event));
                self.annotate(event, shown, out);
            }
            EventKind::Warning { message } | EventKind::RecordingDegraded { message } => {
                let shown = annotations::console(message, "warn", &self.prompt_id);
                self.annotate(event, shown, out);
            }
            EventKind::Heartbeat => write(
                &Line::Heartbeat(Heartbeat {
                    r#type: HeartbeatType::Heartbeat,
                    session_id: Uuid(self.session_id),
                    status: "ok",
                    ts: event.time.seconds(),
                }),
                out,
            ),
            EventKind::RunFinished(outcome) => self.run_finished(event, outcome, out),
            kind => {
                if matches!(kind, EventKind::Retrying { .. } | EventKind::ModelFallback { .. }) {
                    // What came of the answer does not count.
                    let model = self.turn_of(event).model.clone();
                    self.turn_of(event).begin(&model);
                }
                if let Some(news) = annotations::news(kind) {
                    self.annotate(event, news, out);
                }
            }
        }
    }

    fn open(&self, info: &RunInfo, event: &Event, out: &mut Vec<u8>) {
        let opening = Opening {
            protocol_version: PROTOCOL_VERSION,
            input_format: &self.options.input_format,
            output_format: self.options.format.name(),
            capabilities: CAPABILITIES,
            schema_version: SCHEMA_VERSION,
            cli_version: &info.cli_version,
            cwd: info.cwd.to_string_lossy(),
            permission_mode: &info.permission_mode,
            tools: &info.tools,
        };
        let said = Said { metadata: Some(Metadata::Opening(Box::new(opening))), ..Said::default() };
        if self.options.format == Format::StreamChunkJson {
            let role = Some(Role::Assistant);
            self.chunk(event, Delta { role, ..Delta::default() }, said, out);
            return;
        }
        self.say(event, said, out);
    }

    fn part_started(&mut self, event: &Event, part: usize, kind: &tenon_core::PartKind, out: &mut Vec<u8>) {
        let chunks = self.options.format == Format::StreamChunkJson;
        let turn = self.turn_of(event);
        let index = match turn.part_started(part, kind) {
            Open::Call { index } => Some(*index),
            Open::Hidden => return,
            Open::Text(_) | Open::Thinking => None,
        };
        if !chunks {
            return;
        }
        let role = (!std::mem::replace(&mut turn.announced, true)).then_some(Role::Assistant);
        if role.is_some() {
            self.chunk(event, Delta { role, ..Delta::default() }, Said::default(), out);
        }
        if let (Some(index), tenon_core::PartKind::ToolCall { call_id, name, .. }) = (index, kind) {
            let call = ToolCallDelta {
                index,
                id: Some(call_id),
                r#type: Some(CallType::Function),
                function: FunctionDelta { name: Some(name), arguments: "" },
            };
            self.chunk(event, Delta { tool_calls: vec![call], ..Delta::default() }, Said::default(), out);
        }
    }

    fn part_delta(&mut self, event: &Event, part: usize, text: &str, out: &mut Vec<u8>) {
        if self.options.format != Format::StreamChunkJson {
            return;
        }
        let raw_ansi = self.options.raw_ansi;
        match self.turn_of(event).open(part) {
            Some(Open::Text(so_far)) => {
                let (content, ansi) = so_far.push(text);
                if content.is_empty() && ansi.is_empty() {
                    return;
                }
                let mut said = Said::default();
                if raw_ansi && !ansi.is_empty() {
                    said.annotations.push(annotations::assistant_text(&content, ansi, &self.prompt_id));
                }
                self.chunk(
                    event,
                    Delta { content: Some(Cow::Owned(content)), ..Delta::default() },
                    said,
                    out,
                );
            }
            Some(Open::Call { index }) => {
                let function = FunctionDelta { name: None, arguments: text };
                let call = ToolCallDelta { index: *index, id: None, r#type: None, function };
                self.chunk(event, Delta { tool_calls: vec![call], ..Delta::default() }, Said::default(), out);
            }
            Some(Open::Thinking | Open::Hidden) | None => {}
        }
    }

    fn turn_finished(&mut self, event: &Event, usage: Tokens, out: &mut Vec<u8>) {
        let turn = std::mem::take(self.turn_of(event));
        if turn.is_empty() {
            return;
        }
        let finish_reason = finish_reason(turn::ended(&turn));
        let mut annotations: Vec<Annotation<'_>> =
            turn.thoughts.iter().map(|thought| annotations::thought(thought)).collect();
        if self.options.format == Format::StreamChunkJson {
            let said = Said {
                usage: Some(usage.into()),
                finish_reason: Some(finish_reason),
                annotations,
                metadata: None,
            };
            self.chunk(event, Delta::default(), said, out);
            return;
        }
        let (content, ansi) = super::terminal_text::TerminalText::default().push(&turn.text);
        if !content.is_empty() {
            let ansi = if self.options.raw_ansi { ansi } else { Vec::new() };
            annotations.push(annotations::assistant_text(&content, ansi, &self.prompt_id));
        }
        let calls: Vec<ToolCall<'_>> = turn
            .calls
            .iter()
            .map(|call| ToolCall {
                id: &call.id,
                r#type: CallType::Function,
                function: Function { name: &call.name, arguments: Cow::Borrowed(&call.arguments) },
            })
            .collect();
        let message = Message {
            role: Role::Assistant,
            content: (!content.is_empty()).then_some(Cow::Owned(content)),
            refusal: (),
            tool_calls: (!calls.is_empty()).then_some(calls),
        };
        let said = Said {
            usage: Some(usage.into()),
            finish_reason: Some(finish_reason),
            annotations,
            metadata: None,
        };
        self.completion(event, message, said, out);
    }

    fn run_finished(&mut self, event: &Event, outcome: &Outcome, out: &mut Vec<u8>) {
        if let Some(parent) = &event.parent {
            self.children.remove(parent);
            return;
        }
        // What came of an interrupted answer is shown; half a call is not.
        let half = std::mem::take(&mut self.turn);
        if !half.is_empty() && self.options.format == Format::StreamJson {
            self.turn = half;
            self.turn_finished(event, Tokens::default(), out);
        }
        match (closing::fatal(outcome), self.options.lifetime) {
            (Some(fatal), Lifetime::OneRun) => write(&Line::Fatal(fatal), out),
            _ => self.close(outcome, event, out),
        }
    }

    fn close(&self, outcome: &Outcome, event: &Event, out: &mut Vec<u8>) {
        let mut annotations = Vec::new();
        if let Ending::Failure(failure) = &outcome.ending {
            annotations.push(Annotation::SessionEvent(SessionEvent {
                event: closing::event_of(outcome),
                message: Cow::Borrowed(&failure.message),
                metrics: None,
            }));
        }
        annotations.push(annotations::ended(outcome.exit_code(), &self.prompt_id));
        let said = Said {
            usage: Some(outcome.usage().into()),
            finish_reason: Some(closing::finish_reason(outcome)),
            annotations,
            metadata: Some(Metadata::Closing(Box::new(closing::closing(outcome)))),
        };
        let content = closing::content(outcome);
        if self.options.format == Format::StreamChunkJson {
            // The words of a plain answer have been streamed; a payload has not.
            if let Ending::Success(success) = &outcome.ending
                && success.payload.is_some()
            {
                let role = Some(Role::Assistant);
                self.chunk(event, Delta { role, content, ..Delta::default() }, Said::default(), out);
            }
            self.chunk(event, Delta::default(), said, out);
            return;
        }
        let message = Message { role: Role::Assistant, content, refusal: (), tool_calls: None };
        self.completion(event, message, said, out);
    }

    /// A line that says nothing but this.
    fn annotate(&self, event: &Event, annotation: Annotation<'_>, out: &mut Vec<u8>) {
        self.say(event, Said { annotations: vec![annotation], ..Said::default() }, out);
    }

    /// A line without words of the model.
    fn say(&self, event: &Event, said: Said<'_>, out: &mut Vec<u8>) {
        if self.options.format == Format::StreamChunkJson {
            self.chunk(event, Delta::default(), said, out);
            return;
        }
        let message = Message {
            role: Role::Assistant,
            content: Some(Cow::Borrowed("")),
            refusal: (),
            tool_calls: None,
        };
        self.completion(event, message, said, out);
    }

    fn completion(&self, event: &Event, message: Message<'_>, said: Said<'_>, out: &mut Vec<u8>) {
        let choice = Choice {
            index: 0,
            message,
            logprobs: (),
            finish_reason: said.finish_reason.unwrap_or(FinishReason::Stop),
        };
        write(
            &Line::Completion(Box::new(Completion {
                object: CompletionObject::Completion,
                id: self.id(),
                created: event.time.seconds(),
                model: &self.model,
                choices: [choice],
                usage: said.usage,
                system_fingerprint: self.fingerprint(),
                session_id: Uuid(self.session_id),
                prompt_id: self.prompt_id.clone(),
                parent_tool_call_id: event.parent.as_deref(),
                annotations: said.annotations,
                metadata: said.metadata,
            })),
            out,
        );
    }

    fn chunk(&self, event: &Event, delta: Delta<'_>, said: Said<'_>, out: &mut Vec<u8>) {
        let choice = ChunkChoice { index: 0, delta, logprobs: (), finish_reason: said.finish_reason };
        write(
            &Line::Chunk(Box::new(Chunk {
                object: ChunkObject::Chunk,
                id: self.id(),
                created: event.time.seconds(),
                model: &self.model,
                choices: [choice],
                usage: said.usage,
                system_fingerprint: self.fingerprint(),
                session_id: Uuid(self.session_id),
                prompt_id: self.prompt_id.clone(),
                parent_tool_call_id: event.parent.as_deref(),
                annotations: said.annotations,
                metadata: said.metadata,
            })),
            out,
        );
    }

    fn id(&self) -> String {
        format!("chatcmpl-{}", self.session_id)
    }

    fn fingerprint(&self) -> String {
        format!("tenon-{}", self.options.cli_version)
    }

    fn place(&self, event: &Event) -> Place {
        Place { session_id: Uuid(self.session_id), time: event.time }
    }

    fn streams_pieces(&self) -> bool {
        self.options.partials || self.options.format == Format::StreamChunkJson
    }

    fn turn_of(&mut self, event: &Event) -> &mut Turn {
        match &event.parent {
            None => &mut self.turn,
            Some(parent) => self.children.entry(parent.clone()).or_default(),
        }
    }
}

/// What a line says besides the model's words.
#[derive(Default)]
struct Said<'a> {
    usage: Option<Usage>,
    finish_reason: Option<FinishReason>,
    annotations: Vec<Annotation<'a>>,
    metadata: Option<Metadata<'a>>,
}

fn finish_reason(ended: Ended) -> FinishReason {
    match ended {
        Ended::Stop => FinishReason::Stop,
        Ended::ToolCalls => FinishReason::ToolCalls,
        Ended::Length => FinishReason::Length,
        Ended::Refused => FinishReason::ContentFilter,
    }
}

fn write(line: &Line<'_>, out: &mut Vec<u8>) {
    json_line::append(out, line);
    out.push(b'\n');
}
