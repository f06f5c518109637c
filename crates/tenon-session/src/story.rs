//! From records to a conversation: every call with its answer, every answer with what its provider wants back.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use tenon_agent::{Prompted, Unfinished, close_calls, tell};
use tenon_core::{BegunTask, Id, LeftBehind, Message, ToolCall, ToolResult};

use crate::record::{By, FORMAT, Record};
use crate::scan::{Scan, scan};
use crate::shown_history::without_natives;
use crate::{Asked, SessionError};

/// What a file tells.
pub(crate) struct Story {
    pub(crate) scan: Scan,
    /// Every call answered; terminal calls as they are stored.
    pub(crate) history: Vec<Message>,
    /// The answers that were missing at the end, for the record.
    pub(crate) closings: Vec<ToolResult>,
    /// The names of the calls that may have taken effect.
    pub(crate) interrupted: Vec<String>,
    /// Who gave the last answer.
    pub(crate) last: By,
    /// What the conversation knows of files and tools.
    pub(crate) known: LeftBehind,
    /// Background work of whose end it was not told. Whoever looked after it is gone.
    pub(crate) lost: Vec<BegunTask>,
}

/// What the model is told where the recording stopped before the run did.
const GAP: &str = "[Note: what was done after this point in an earlier run was not recorded. Look before you repeat anything.]";

impl Story {
    /// The same for the record, where there is such a gap at the end.
    pub(crate) fn gap(&self) -> Option<Message> {
        let complete = self.scan.head.as_ref().is_none_or(|head| head.recording_complete);
        (!complete).then(|| Message::user(GAP))
    }

    /// The same about what had worked in the background.
    pub(crate) fn lost_work(&self) -> Option<Message> {
        let told: Vec<String> = self.lost.iter().map(BegunTask::lost).collect();
        (!told.is_empty()).then(|| Message::user(told.join("\n\n")))
    }

    pub(crate) fn read(file: &File, path: &Path, id: Id, asked: Asked<'_>) -> Result<Story, SessionError> {
        let mut telling = Telling {
            asked,
            history: Vec::new(),
            begun: HashSet::new(),
            results: Vec::new(),
            prompted: None,
            last: By::default(),
            known: LeftBehind::default(),
            lost: Vec::new(),
        };
        let scan = scan(file, |record| telling.push(record))
            .map_err(|error| SessionError::Unreadable { path: path.to_path_buf(), error })?;
        if let Some(head) = scan.head.as_ref().filter(|head| head.format > FORMAT) {
            return Err(SessionError::Newer { id, format: head.format });
        }
        // A start that should stand before the call may be among what was not written or cannot be read.
        let all_there = scan.broken == 0 && scan.head.as_ref().is_some_and(|head| head.recording_complete);
        let Telling { mut history, begun, results, last, known, lost, .. } = telling;
        let may_have_run = |call: &ToolCall| !call.terminal && (begun.contains(&call.id) || !all_there);
        let open: Vec<ToolCall> = history.last().into_iter().flat_map(Message::tool_calls).cloned().collect();
        let closings = close_calls(&mut history, results, |call| match may_have_run(call) {
            true => Unfinished::MayHaveRun,
            false => Unfinished::NeverBegun,
        });
        let closed: HashSet<&str> = closings.iter().map(|result| result.call_id.as_str()).collect();
        let interrupted = open.iter().filter(|call| closed.contains(call.id.as_str()) && may_have_run(call));
        let interrupted = interrupted.map(|call| call.name.clone()).collect();
        Ok(Story { scan, history, closings, interrupted, last, known, lost })
    }
}

struct Telling<'a> {
    asked: Asked<'a>,
    history: Vec<Message>,
    begun: HashSet<String>,
    results: Vec<ToolResult>,
    /// Where the last prompt was added.
    prompted: Option<Prompted>,
    last: By,
    known: LeftBehind,
    lost: Vec<BegunTask>,
}

impl Telling<'_> {
    fn push(&mut self, record: Record) {
        match record {
            Record::Prompt(message) => {
                self.close();
                self.prompted = Some(Prompted::by(&mut self.history, message));
            }
            Record::Told(message, ended) => {
                self.close();
                self.lost.retain(|task| !ended.contains(&task.task_id));
                match &mut self.prompted {
                    Some(prompted) => prompted.tell(&mut self.history, message),
                    None => tell(&mut self.history, message),
                }
            }
            Record::Assistant { mut message, by } => {
                self.close();
                if !self.is_asked(&by) {
                    without_natives(&mut message);
                }
                self.history.push(message);
                self.last = by;
            }
            Record::ToolStarted { call_id } => {
                self.begun.insert(call_id);
            }
            Record::ToolResult(result, left) => {
                self.results.push(result);
                self.known.files.extend(left.files);
                self.known.offered.extend(left.offered);
                self.lost.extend(left.begun);
                self.lost.retain(|task| !left.ended.contains(&task.task_id));
            }
            Record::Compacted { mut messages, by } => {
                if !self.is_asked(&by) {
                    messages.iter_mut().for_each(without_natives);
                }
                self.history = messages;
                self.prompted = None;
                self.begun.clear();
                self.results.clear();
                self.last = by;
            }
            Record::Stopped { closed, said, note } => {
                self.results.extend(closed);
                self.close();
                self.history.extend(said);
                if let Some(note) = note {
                    tell(&mut self.history, note);
                }
            }
            Record::Withdrawn => {
                self.begun.clear();
                self.results.clear();
                if let Some(prompted) = self.prompted.take() {
                    prompted.take_back(&mut self.history);
                }
            }
            Record::Other => {}
        }
    }

    fn is_asked(&self, by: &By) -> bool {
        by.provider == self.asked.provider && by.model == self.asked.model
    }

    /// The turn is over. A result that is missing here stands on a line that cannot be read.
    fn close(&mut self) {
        self.begun.clear();
        close_calls(&mut self.history, std::mem::take(&mut self.results), |_| Unfinished::MayHaveRun);
    }
}
