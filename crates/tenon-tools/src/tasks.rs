//! The tasks of a run: work that goes on after the call that started it has been answered.
//!
//! This decides what a task's states are and that every start is followed by exactly one end, whoever is
//! first: the work itself, somebody who stops it, or the end of the run. How a command is run and put in
//! the background is in `shell.rs` and `background.rs`; what the turn loop makes of a [`TaskEvent`] is the
//! agent's to decide.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenon_core::{Cancel, IdSource, TaskEnd, TaskKind, TaskStart, TaskStatus, Usage};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

/// A model that starts commands in a loop must not fill the machine.
const MAX_RUNNING: usize = 64;
/// How many ended tasks are remembered, so that asking about one gets an answer.
const ENDED_KEPT: usize = 32;
/// How long a stopped agent may take to say what it used before it counts as stopped without that.
const AGENT_GRACE: Duration = Duration::from_secs(5);

/// Shared by whoever starts tasks, stops them and listens to them.
#[derive(Clone)]
pub struct Tasks {
    shared: Arc<Shared>,
}

/// What is known of a task when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    pub kind: TaskKind,
    pub call_id: Option<String>,
    /// The type of a sub-agent.
    pub agent_type: Option<String>,
    /// One line for people.
    pub description: String,
    pub output_file: Option<PathBuf>,
}

/// How a task came to its end, by its own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub status: TaskStatus,
    /// One sentence for people.
    pub summary: String,
    /// What the model reads besides: the end of the output, the answer of an agent.
    pub detail: String,
    /// What a sub-agent used, and how many tools it called.
    pub usage: Option<Usage>,
    pub tool_calls: u64,
}

/// Something the model is told between turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The task it is about, where it is about one.
    pub task_id: Option<String>,
    pub about: About,
    /// What the model reads.
    pub told: String,
    /// What clients are shown.
    pub shown: String,
}

/// What a notice means for its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Something happened; there may be more.
    News,
    /// It has ended: nothing more will come.
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    Started(TaskStart),
    /// With what the model is told, unless it knows already.
    Ended(TaskEnd, Option<Notice>),
    Notice(Notice),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    pub task: TaskStart,
    pub status: TaskStatus,
    pub output_file: Option<PathBuf>,
    pub running_ms: u64,
}

/// Who stops a task. The model is not told what it did itself, nor anything at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoppedBy {
    Model,
    Client,
    EndOfRun,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStarted {
    #[error("the run is ending, so nothing more is started in the background")]
    Ending,
    #[error("{MAX_RUNNING} tasks run in the background already; stop one of them first")]
    TooMany,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    #[error("there is no background task `{0}`")]
    Unknown(String),
    #[error("the background {} `{id}` does not run any more: it is {}", kind.name(), status.name())]
    Ended { id: String, kind: TaskKind, status: TaskStatus },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromoteError {
    #[error("no command runs for the call `{0}`")]
    Unknown(String),
    #[error("the command of the call `{0}` is being put in the background already")]
    AlreadyAsked(String),
    #[error("the command had ended before it could be put in the background")]
    Finished,
    #[error("the command could not be put in the background: {0}")]
    Refused(String),
}

impl Tasks {
    /// The ids of tasks come from `ids`.
    pub fn new(ids: Arc<IdSource>) -> Tasks {
        Tasks {
            shared: Arc::new(Shared {
                ids,
                state: Mutex::default(),
                events: Notify::new(),
                released: Notify::new(),
            }),
        }
    }

    /// Enters a task as running. From here on it is the handle's to end it.
    pub fn start(&self, new: NewTask) -> Result<TaskHandle, NotStarted> {
        let mut state = self.state();
        if state.is_ending {
            return Err(NotStarted::Ending);
        }
        if state.entries.iter().filter(|entry| entry.runs()).count() >= MAX_RUNNING {
            return Err(NotStarted::TooMany);
        }
        let id = loop {
            let hex: String = self.shared.ids.next().to_string().chars().take(8).collect();
            let id = format!("bg_{hex}");
            if state.entries.iter().all(|entry| entry.task.task_id != id) {
                break id;
            }
        };
        let task = TaskStart {
            task_id: id.clone(),
            call_id: new.call_id,
            kind: new.kind,
            agent_type: new.agent_type,
            description: new.description,
        };
        let cancel = Cancel::new();
        state.entries.push(Entry {
            task: task.clone(),
            status: TaskStatus::Running,
            stopped_by: None,
            cancel: cancel.clone(),
            output_file: new.output_file,
            since: Instant::now(),
            ended_after: None,
            told: Tell::Model,
        });
        state.handles += 1;
        state.events.push_back(TaskEvent::Started(task));
        self.shared.events.notify_one();
        Ok(TaskHandle { id, cancel, tasks: self.clone(), is_settled: false })
    }

    /// Tells the model something that is no end of a task.
    pub fn notify(&self, notice: Notice) {
        self.state().events.push_back(TaskEvent::Notice(notice));
        self.shared.events.notify_one();
    }

    /// The next event, in the order they happened. For one listener; dropping the future loses nothing.
    pub async fn next(&self) -> TaskEvent {
        loop {
            if let Some(event) = self.try_next() {
                return event;
            }
            self.shared.events.notified().await;
        }
    }

    /// The next event, if there is one already.
    pub fn try_next(&self) -> Option<TaskEvent> {
        self.state().events.pop_front()
    }

    /// Stops a task. A command or monitor counts as stopped at once, and is ended behind that; an agent
    /// gets a moment to say what it used.
    pub fn stop(&self, id: &str, by: StoppedBy) -> Result<(), StopError> {
        let mut state = self.state();
        let Some(entry) = state.entries.iter_mut().find(|entry| entry.task.task_id == id) else {
            return Err(StopError::Unknown(id.to_owned()));
        };
        if !entry.runs() || entry.stopped_by.is_some() {
            let status = if entry.runs() { TaskStatus::Cancelled } else { entry.status };
            return Err(StopError::Ended { id: id.to_owned(), kind: entry.task.kind, status });
        }
        self.stop_entry(&mut state, id, by);
        Ok(())
    }

    /// Stops every task.
    pub fn stop_all(&self, by: StoppedBy) {
        let mut state = self.state();
        let running: Vec<String> = state
            .entries
            .iter()
            .filter(|entry| entry.runs() && entry.stopped_by.is_none())
            .map(|entry| entry.task.task_id.clone())
            .collect();
        for id in running {
            self.stop_entry(&mut state, &id, by);
        }
    }

    /// The end of a run: nothing new starts, everything is stopped, and what is left of it is waited for up
    /// to `deadline`. The events of all that are there afterwards. Whether everything is gone.
    pub async fn shut_down(&self, deadline: Duration) -> bool {
        self.state().is_ending = true;
        self.stop_all(StoppedBy::EndOfRun);
        let released = async {
            loop {
                let released = self.shared.released.notified();
                if self.state().handles == 0 {
                    return;
                }
                released.await;
            }
        };
        let all_gone = timeout(deadline, released).await.is_ok();
        // Whoever did not make it in time has ended as far as everybody else is concerned.
        let mut state = self.state();
        let late: Vec<String> = state
            .entries
            .iter()
            .filter(|entry| entry.runs())
            .map(|entry| entry.task.task_id.clone())
            .collect();
        for id in late {
            self.end_stopped(&mut state, &id);
        }
        all_gone
    }

    /// Tasks that run now, oldest first.
    pub fn running(&self) -> Vec<TaskInfo> {
        self.list().into_iter().filter(|info| info.status == TaskStatus::Running).collect()
    }

    /// Tasks that run, and the last ones that ended, oldest first.
    pub fn list(&self) -> Vec<TaskInfo> {
        self.state().entries.iter().map(Entry::info).collect()
    }

    /// What a call has begun and has not itself told the end of.
    pub fn begun_by(&self, call_id: &str) -> Vec<TaskStart> {
        let state = self.state();
        let of_call = state.entries.iter().filter(|entry| entry.task.call_id.as_deref() == Some(call_id));
        of_call.filter(|entry| entry.told == Tell::Model).map(|entry| entry.task.clone()).collect()
    }

    /// Puts the running command of a call into the background. Its task's id.
    pub async fn promote(&self, call_id: &str) -> Result<String, PromoteError> {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.state();
            let Some(foreground) = state.foreground.iter_mut().find(|running| running.call_id == call_id)
            else {
                return Err(PromoteError::Unknown(call_id.to_owned()));
            };
            let Some(ask) = foreground.ask.take() else {
                return Err(PromoteError::AlreadyAsked(call_id.to_owned()));
            };
            if ask.send(reply).is_err() {
                return Err(PromoteError::Finished);
            }
        }
        answer.await.unwrap_or(Err(PromoteError::Finished))
    }

    /// A command of this call runs in the foreground and can be asked to go on in the background.
    pub(crate) fn foreground(&self, call_id: &str) -> Foreground {
        let (ask, asked) = oneshot::channel();
        let mut state = self.state();
        state.foreground_count += 1;
        let number = state.foreground_count;
        state.foreground.push(Promotable { number, call_id: call_id.to_owned(), ask: Some(ask) });
        Foreground { asked, number, tasks: self.clone() }
    }

    fn stop_entry(&self, state: &mut State, id: &str, by: StoppedBy) {
        let Some(entry) = state.entries.iter_mut().find(|entry| entry.task.task_id == id) else { return };
        entry.stopped_by = Some(by);
        entry.cancel.cancel();
        match entry.task.kind {
            TaskKind::Shell | TaskKind::Monitor => self.end_stopped(state, id),
            // At the end of a run the deadline of `shut_down` takes the place of this one.
            TaskKind::Agent if by == StoppedBy::EndOfRun => {}
            TaskKind::Agent => {
                let (tasks, id) = (self.clone(), id.to_owned());
                tokio::spawn(async move {
                    tokio::time::sleep(AGENT_GRACE).await;
                    tasks.end_stopped(&mut tasks.state(), &id);
                });
            }
        }
    }

    fn end_stopped(&self, state: &mut State, id: &str) {
        let Some(entry) = state.entries.iter().find(|entry| entry.task.task_id == id) else { return };
        let summary = format!("{} was stopped.", name(&entry.task));
        let settled = Settled {
            status: TaskStatus::Cancelled,
            summary,
            detail: String::new(),
            usage: None,
            tool_calls: 0,
        };
        self.end(state, id, settled, Tell::Model);
    }

    /// The only way out of `Running`, taken once: whoever comes second changes nothing.
    fn end(&self, state: &mut State, id: &str, settled: Settled, tell: Tell) {
        let Some(entry) = state.entries.iter_mut().find(|entry| entry.task.task_id == id && entry.runs())
        else {
            return;
        };
        // What was stopped did not fail by itself; what was done all the same is done.
        entry.status = match (entry.stopped_by, settled.status) {
            (_, TaskStatus::Completed) => TaskStatus::Completed,
            (Some(_), _) | (None, TaskStatus::Cancelled) => TaskStatus::Cancelled,
            (None, TaskStatus::Failed | TaskStatus::Running) => TaskStatus::Failed,
        };
        let duration = entry.since.elapsed();
        entry.ended_after = Some(duration);
        entry.told = tell;
        let notice = match (tell, entry.stopped_by) {
            (Tell::Nobody, _) | (_, Some(StoppedBy::Model | StoppedBy::EndOfRun)) => None,
            (Tell::Model, Some(StoppedBy::Client) | None) => Some(Notice {
                task_id: Some(id.to_owned()),
                about: About::End,
                told: told(&settled, entry.output_file.as_ref()),
                shown: settled.summary.clone(),
            }),
        };
        let end = TaskEnd {
            task_id: id.to_owned(),
            call_id: entry.task.call_id.clone(),
            kind: entry.task.kind,
            status: entry.status,
            summary: settled.summary,
            output_file: entry.output_file.clone(),
            usage: settled.usage,
            tool_calls: settled.tool_calls,
            duration_ms: millis(duration),
        };
        let ended = state.entries.iter().filter(|entry| !entry.runs()).count();
        let mut forget = ended.saturating_sub(ENDED_KEPT);
        state.entries.retain(|entry| {
            let forgotten = forget > 0 && !entry.runs();
            forget -= usize::from(forgotten);
            !forgotten
        });
        state.events.push_back(TaskEvent::Ended(end, notice));
        self.shared.events.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Belongs to whoever does the work. It is held until the work is really over, also by what was stopped:
/// the end of a run waits for it.
pub struct TaskHandle {
    id: String,
    cancel: Cancel,
    tasks: Tasks,
    is_settled: bool,
}

impl TaskHandle {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Falls when somebody stops the task.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// The work is over. Changes nothing if the task was stopped before.
    pub fn settle(mut self, settled: Settled) {
        self.is_settled = true;
        self.tasks.end(&mut self.tasks.state(), &self.id, settled, Tell::Model);
    }

    /// The work is over, and the model knows.
    pub(crate) fn settle_quietly(mut self, settled: Settled) {
        self.is_settled = true;
        self.tasks.end(&mut self.tasks.state(), &self.id, settled, Tell::Nobody);
    }

    /// Tells the model something about this task while it runs. Nothing once it was stopped.
    pub fn notify(&self, told: String, shown: String) {
        if !self.cancel.is_cancelled() {
            self.tasks.notify(Notice { task_id: Some(self.id.clone()), about: About::News, told, shown });
        }
    }
}

impl Drop for TaskHandle {
    /// Work that breaks off without a word has failed.
    fn drop(&mut self) {
        let mut state = self.tasks.state();
        if !self.is_settled {
            let task = state.entries.iter().find(|entry| entry.task.task_id == self.id);
            let summary = task.map(|entry| format!("{} broke off.", name(&entry.task))).unwrap_or_default();
            let settled = Settled {
                status: TaskStatus::Failed,
                summary,
                detail: String::new(),
                usage: None,
                tool_calls: 0,
            };
            self.tasks.end(&mut state, &self.id, settled, Tell::Model);
        }
        state.handles -= 1;
        drop(state);
        self.tasks.shared.released.notify_waiters();
    }
}

/// A command in the foreground, as long as this lives.
pub(crate) struct Foreground {
    /// Ends with the place for the answer once somebody wants the command in the background.
    pub asked: oneshot::Receiver<PromoteReply>,
    number: u64,
    tasks: Tasks,
}

pub(crate) type PromoteReply = oneshot::Sender<Result<String, PromoteError>>;

impl Drop for Foreground {
    fn drop(&mut self) {
        let number = self.number;
        self.tasks.state().foreground.retain(|running| running.number != number);
    }
}

struct Shared {
    ids: Arc<IdSource>,
    state: Mutex<State>,
    events: Notify,
    released: Notify,
}

#[derive(Default)]
struct State {
    /// In the order they started.
    entries: Vec<Entry>,
    events: VecDeque<TaskEvent>,
    foreground: Vec<Promotable>,
    foreground_count: u64,
    /// Handles that somebody still holds.
    handles: usize,
    is_ending: bool,
}

struct Entry {
    task: TaskStart,
    status: TaskStatus,
    stopped_by: Option<StoppedBy>,
    cancel: Cancel,
    output_file: Option<PathBuf>,
    since: Instant,
    ended_after: Option<Duration>,
    /// Who is to be told of its end, or was.
    told: Tell,
}

impl Entry {
    fn runs(&self) -> bool {
        self.status == TaskStatus::Running
    }

    fn info(&self) -> TaskInfo {
        TaskInfo {
            task: self.task.clone(),
            status: self.status,
            output_file: self.output_file.clone(),
            running_ms: millis(self.ended_after.unwrap_or_else(|| self.since.elapsed())),
        }
    }
}

/// Who has not heard yet that a task has ended, besides clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tell {
    Model,
    Nobody,
}

struct Promotable {
    number: u64,
    call_id: String,
    ask: Option<oneshot::Sender<PromoteReply>>,
}

/// A task in a sentence.
pub(crate) fn name(task: &TaskStart) -> String {
    format!("Background {} {} ({})", task.kind.name(), task.task_id, task.description)
}

fn told(settled: &Settled, output_file: Option<&PathBuf>) -> String {
    let mut text = settled.summary.clone();
    if let Some(file) = output_file {
        text.push_str(&format!("\nIts output is in {}", file.display()));
    }
    if !settled.detail.is_empty() {
        text.push('\n');
        text.push_str(&settled.detail);
    }
    text
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
