//! Which event gives which line.
//!
//! `stream-json` writes one completion per answer, call and news; `stream-chunk-json` writes answers in the
//! pieces they come in; `json` writes one completion at the end. A structured run shows its payload once, as
//! the content of the last line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tenon_core::{
    Ending, Event, EventKind, FinishReason as Ended, Id, Outcome, RunInfo, Timestamp, Usage as Tokens,
};

use super::annotation_types::Annotation;
use super::annotations::{self, Place};
use super::closing;
use super::turn::{self, Open, Turn};
use super::types::{
    CallType, Choice, ChunkChoice, ChunkObject, Completion, CompletionObject, Delta, FinishReason, Function,
    FunctionDelta, Heartbeat, HeartbeatType, Line, Message, Metadata, Opening, PROTOCOL_VERSION, Role, Told,
    ToolCall, ToolCallDelta, Unsupported, Usage,
};
use crate::json_line;
use crate::text::encode_text;
use crate::values::Uuid;
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
    "tool_request",
    "structured_result",
];

/// A client that does nothing but fail is told so often enough by these.
const MAX_CONTROL_ERRORS: usize = 20;

pub(crate) struct OpenAiEncoder {
    options: EncoderOptions,
    session_id: Id,
    model: String,
    /// Counts the turns of the session, for their ids.
    prompts: u64,
    prompt_id: String,
    /// A turn that was announced and has not begun.
    next: Option<String>,
    /// What went wrong between us and the client since the last closing line.
    control_errors: Vec<String>,
    /// Who speaks has been said: by the first chunk of the turn, and by no other.
    role_told: bool,
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
            next: None,
            control_errors: Vec::new(),
            role_told: false,
            turn: Turn::default(),
            children: BTreeMap::new(),
            options,
        }
    }
}

fn prompt_id(session: Id, number: u64) -> String {
    format!("{session}########{number}")
}

fn id(session: Id) -> String {
    format!("chatcmpl-{session}")
}

/// The only line for a client that speaks another version.
pub(crate) fn unsupported_protocol<'a>(
    session: Id,
    time: Timestamp,
    named: Option<&str>,
    message: &'a str,
) -> Completion<'a> {
    let said =
        Message { role: Role::Assistant, content: Some(Cow::Borrowed("")), refusal: (), tool_calls: None };
    Told {
        object: CompletionObject::Completion,
        id: id(session),
        created: time.seconds(),
        model: "",
        choices: [Choice { index: 0, message: said, logprobs: (), finish_reason: FinishReason::Error }],
        usage: None,
        system_fingerprint: None,
        session_id: Uuid(session),
        prompt_id: named.map_or_else(|| prompt_id(session, 1), str::to_owned),
        parent_tool_call_id: None,
        annotations: Vec::new(),
        metadata: Some(Metadata::Unsupported(Unsupported {
            error: "unsupported_protocol",
            message,
            protocol_version: PROTOCOL_VERSION,
        })),
    }
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
        self.next = Some(prompt_id.to_owned());
    }

    fn control_error(&mut self, message: String) {
        if self.control_errors.len() < MAX_CONTROL_ERRORS {
            self.control_errors.push(message);
        }
    }
}

impl OpenAiEncoder {
    fn begin(&mut self, info: &RunInfo) {
        self.session_id = info.session_id;
        self.model.clone_from(&info.model);
        self.role_told = false;
        let next = self.next.take();
        self.prompt_id = self.id_of(next);
    }

    fn id_of(&mut self, named: Option<String>) -> String {
        self.prompts += 1;
        named.unwrap_or_else(|| prompt_id(self.session_id, self.prompts))
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
                self.annotate(event, annotations::partial(call_id, snapshot), out);
            }
            EventKind::ToolProgress { progress, .. } => {
                let shown = annotations::progress(progress, &self.prompt_id);
                self.annotate(event, shown, out);
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

    fn open(&mut self, info: &RunInfo, event: &Event, out: &mut Vec<u8>) {
        let input_format = self.options.input_format.clone();
        let opening = Opening {
            protocol_version: PROTOCOL_VERSION,
            input_format: &input_format,
            output_format: self.options.format.name(),
            capabilities: CAPABILITIES,
            schema_version: SCHEMA_VERSION,
            cli_version: &info.cli_version,
            cwd: info.cwd.to_string_lossy(),
            permission_mode: &info.permission_mode,
            tools: &info.tools,
        };
        let metadata = Some(Metadata::Opening(Box::new(opening)));
        self.say(event, Said { metadata, ..Said::default() }, out);
    }

    fn part_started(&mut self, event: &Event, part: usize, kind: &tenon_core::PartKind, out: &mut Vec<u8>) {
        // What a helper says is no part of the answer that a client puts together.
        let chunks = self.options.format == Format::StreamChunkJson && event.parent.is_none();
        let turn = self.turn_of(event);
        let index = match turn.part_started(part, kind) {
            Open::Call { index } => Some(*index),
            Open::Hidden => return,
            Open::Text { .. } | Open::Thinking => None,
        };
        if !chunks {
            return;
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
        if self.options.format != Format::StreamChunkJson || event.parent.is_some() {
            return;
        }
        let raw_ansi = self.options.raw_ansi;
        match self.turn_of(event).open(part) {
            Some(Open::Text { text: so_far, follows }) => {
                let (mut content, ansi) = so_far.push(text);
                if content.is_empty() && ansi.is_empty() {
                    return;
                }
                if std::mem::take(follows) {
                    content.insert(0, '\n');
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
        let place = self.place(event);
        annotations.extend(turn.calls.iter().map(|call| annotations::pending(call, place)));
        if self.options.format == Format::StreamChunkJson && event.parent.is_some() {
            let (text, _) = super::terminal_text::TerminalText::default().push(&turn.text);
            if !text.is_empty() {
                annotations.push(annotations::helper_text(&text, &self.prompt_id));
            }
            self.chunk(
                event,
                Delta::default(),
                Said { annotations, model: Some(&turn.model), ..Said::default() },
                out,
            );
            return;
        }
        if self.options.format == Format::StreamChunkJson {
            let said = Said {
                usage: Some(usage.into()),
                finish_reason: Some(finish_reason),
                annotations,
                model: Some(&turn.model),
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
            model: Some(&turn.model),
            metadata: None,
        };
        self.completion(event, message, said, out);
    }

    fn run_finished(&mut self, event: &Event, outcome: &Outcome, out: &mut Vec<u8>) {
        if let Some(parent) = &event.parent {
            self.children.remove(parent);
            return;
        }
        if let Some(never_began) = self.next.take() {
            // Another turn may be under way: it keeps its id.
            let own = self.id_of(Some(never_began));
            let of_other = std::mem::replace(&mut self.prompt_id, own);
            let told_of_other = std::mem::take(&mut self.role_told);
            self.close(outcome, event, out);
            self.prompt_id = of_other;
            self.role_told = told_of_other;
            return;
        }
        // What came of an interrupted answer is shown; half a call is not.
        let half = std::mem::take(&mut self.turn);
        if !half.is_empty() && self.options.format == Format::StreamJson {
            self.turn = half;
            self.turn_finished(event, Tokens::default(), out);
        }
        let fatal = closing::fatal(outcome).filter(|_| self.options.lifetime == Lifetime::OneRun);
        // A run that never began has no numbers to show.
        if fatal.is_none() || self.prompts > 0 {
            self.close(outcome, event, out);
        }
        if let Some(fatal) = fatal {
            write(&Line::Fatal(fatal), out);
        }
    }

    fn close(&mut self, outcome: &Outcome, event: &Event, out: &mut Vec<u8>) {
        let control_errors = std::mem::take(&mut self.control_errors);
        let cli_version = self.options.cli_version.clone();
        let message = match &outcome.ending {
            Ending::Success(_) => Cow::Borrowed("The turn is over."),
            Ending::Failure(failure) => Cow::Borrowed(failure.message.as_str()),
        };
        let annotations = vec![
            annotations::session_event(closing::event_of(outcome), message, None),
            annotations::ended(outcome.exit_code(), &self.prompt_id),
        ];
        let said = Said {
            usage: Some(outcome.usage().into()),
            finish_reason: Some(closing::finish_reason(outcome)),
            annotations,
            model: None,
            metadata: Some(Metadata::Closing(Box::new(closing::closing(
                outcome,
                &control_errors,
                &cli_version,
            )))),
        };
        let content = closing::content(outcome);
        if self.options.format == Format::StreamChunkJson {
            // The words of a plain answer have been streamed; a payload has not.
            if let Ending::Success(success) = &outcome.ending
                && success.payload.is_some()
            {
                self.chunk(event, Delta { content, ..Delta::default() }, Said::default(), out);
            }
            self.chunk(event, Delta::default(), said, out);
            return;
        }
        let message = Message { role: Role::Assistant, content, refusal: (), tool_calls: None };
        self.completion(event, message, said, out);
    }

    /// A line that says nothing but this.
    fn annotate(&mut self, event: &Event, annotation: Annotation<'_>, out: &mut Vec<u8>) {
        self.say(event, Said { annotations: vec![annotation], ..Said::default() }, out);
    }

    /// A line without words of the model.
    fn say(&mut self, event: &Event, said: Said<'_>, out: &mut Vec<u8>) {
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
        let finish_reason = said.finish_reason.unwrap_or(FinishReason::Stop);
        let choice = Choice { index: 0, message, logprobs: (), finish_reason };
        let told = self.told(event, CompletionObject::Completion, choice, said);
        write(&Line::Completion(Box::new(told)), out);
    }

    fn chunk(&mut self, event: &Event, delta: Delta<'_>, said: Said<'_>, out: &mut Vec<u8>) {
        let role = (!std::mem::replace(&mut self.role_told, true)).then_some(Role::Assistant);
        let delta = Delta { role, ..delta };
        let choice = ChunkChoice { index: 0, delta, logprobs: (), finish_reason: said.finish_reason };
        let told = self.told(event, ChunkObject::Chunk, choice, said);
        write(&Line::Chunk(Box::new(told)), out);
    }

    fn told<'a, Object, Choice>(
        &'a self,
        event: &'a Event,
        object: Object,
        choice: Choice,
        said: Said<'a>,
    ) -> Told<'a, Object, Choice> {
        Told {
            object,
            id: id(self.session_id),
            created: event.time.seconds(),
            model: said.model.unwrap_or_else(|| self.answering(event)),
            choices: [choice],
            usage: said.usage,
            system_fingerprint: Some(format!("tenon-{}", self.options.cli_version)),
            session_id: Uuid(self.session_id),
            prompt_id: self.prompt_id.clone(),
            parent_tool_call_id: event.parent.as_deref(),
            annotations: said.annotations,
            metadata: said.metadata,
        }
    }

    /// Who writes the answer that this event is a piece of, if it is one.
    fn answering<'a>(&'a self, event: &Event) -> &'a str {
        let turn = match &event.parent {
            None => Some(&self.turn),
            Some(parent) => self.children.get(parent),
        };
        match (&event.kind, turn) {
            (EventKind::PartStarted { .. } | EventKind::PartDelta { .. }, Some(turn)) => &turn.model,
            _ => &self.model,
        }
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
    /// Who answered, where that is known.
    model: Option<&'a str>,
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
