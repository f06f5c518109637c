//! Background work of a run: what clients see of it, when the model hears of it, and how it ends.
//!
//! Events of tasks are told to clients as they come, also while the model is writing. What the model is to
//! know waits for the end of the turn and is then one message; a run whose model has nothing more to do
//! waits for agents and schedules, and goes on when there is news: a drain turn is a turn like any other.
//! When the run has its outcome, whatever is left is stopped, and every task that started is seen to end.
//! What a task is, is in `tenon-tools/src/tasks.rs`; the loop itself is `turn_loop.rs`.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenon_core::{
    BoxFut, Ending, Event, EventKind, EventSink, Failure, IdSource, Message, Origin, TaskKind, TurnRecord,
};
use tenon_tools::{About, Notice, Schedules, StoppedBy, TaskEvent, Tasks, UtcClock};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::run_state::Run;
use crate::{Emitter, Mailbox};

/// How long a run may spend waiting for agents and schedules, unless settings say otherwise.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// After an accepted answer: time for stopped work to say that it has ended, not for more work.
const CAPTURE_HOLDBACK: Duration = Duration::from_millis(500);
/// After any other end, unless settings say otherwise: commands that ignore a signal are killed well before this.
const DEFAULT_SHUTDOWN: Duration = Duration::from_secs(5);
/// Of the time that a stopped run has: what calls under way get of it. The rest is for background work.
const FOR_CALLS: (u32, u32) = (2, 3);
/// What an agent gets of the time of the one it works for: less than a call does, so that it can say what it used.
const FOR_HELPERS: (u32, u32) = (3, 5);
/// One piece of news: the answer of an agent is at most 32,000 characters, and a line or two around it.
const MAX_NOTICE_CHARS: usize = 34_000;
/// All news of one drain turn; what does not fit waits for the next.
const MAX_TOLD_CHARS: usize = 64_000;

/// What a run has in the background. Clones are the same.
#[derive(Clone)]
pub struct Background {
    pub tasks: Tasks,
    pub schedules: Schedules,
    /// All waiting of the run together, so that a schedule that comes again and again cannot keep it alive.
    pub wait: Duration,
    /// How long the end of the run waits for stopped work to end.
    pub shutdown: Duration,
    /// How long the run may take to end once it is told to stop, where that is less.
    pub stop_within: Option<Duration>,
    /// Where agents that work beside this one leave word for it.
    pub mailbox: Option<Arc<dyn Mailbox>>,
    pub(crate) news: Arc<News>,
    /// The news of background agents, by task: where messages to them go.
    pub(crate) agents: Arc<Mutex<HashMap<String, Arc<News>>>>,
    /// Open until the run has told its outcome.
    pub(crate) door: Arc<AtomicBool>,
}

impl Background {
    /// For a run whose ids come from `ids`, with schedules of its own.
    pub fn new(ids: Arc<IdSource>, schedules: Schedules, wait: Duration) -> Background {
        Background {
            tasks: Tasks::new(ids),
            schedules,
            wait,
            shutdown: DEFAULT_SHUTDOWN,
            stop_within: None,
            mailbox: None,
            news: Arc::default(),
            agents: Arc::default(),
            door: Arc::new(AtomicBool::new(true)),
        }
    }

    /// The same without a clock on the wall, for whoever has no schedules.
    pub fn plain(ids: Arc<IdSource>) -> Background {
        let schedules = Schedules::new(Arc::new(UtcClock), Arc::clone(&ids));
        Background::new(ids, schedules, DEFAULT_WAIT)
    }

    /// How long a run has that is told to stop.
    fn time_to_stop(&self) -> Duration {
        self.stop_within.unwrap_or(self.shutdown).min(self.shutdown)
    }

    /// What of that calls have that are under way.
    pub(crate) fn time_for_calls(&self) -> Duration {
        part(self.time_to_stop(), FOR_CALLS)
    }

    /// The same for whoever works for this run.
    pub(crate) fn time_for_helpers(&self) -> Duration {
        part(self.time_to_stop(), FOR_HELPERS)
    }

    /// When a run is to be over that is told to stop now.
    pub(crate) fn ends_by(&self) -> Instant {
        Instant::now() + self.time_to_stop()
    }

    /// Between the turns of a session: waits until something happens in the background and tells clients of it; the
    /// model hears of it with the next turn. Dropping the future loses nothing.
    pub async fn listen(&self, sink: Arc<dyn EventSink>, ids: Arc<IdSource>) {
        self.news.open();
        let event = tokio::select! {
            event = self.tasks.next() => event,
            () = self.schedules.fire(&self.tasks) => return,
        };
        take_in(event, &self.news, &Emitter::new(sink, ids, None));
    }

    /// The session is over: what still works is stopped, and clients are told how each task ended.
    pub async fn end(&self, sink: Arc<dyn EventSink>, ids: Arc<IdSource>) {
        self.news.close_for_good();
        self.tasks.shut_down(self.shutdown).await;
        let emitter = Emitter::new(sink, ids, None);
        while let Some(event) = self.tasks.try_next() {
            take_in(event, &self.news, &emitter);
        }
        self.door.store(false, Ordering::Release);
    }

    /// A sink that falls silent when this run has told its outcome.
    pub(crate) fn behind_door(&self, sink: Arc<dyn EventSink>) -> Arc<dyn EventSink> {
        Arc::new(BehindDoor { sink, door: Arc::clone(&self.door) })
    }

    fn has_agents(&self) -> bool {
        self.tasks.running().iter().any(|info| info.task.kind == TaskKind::Agent)
    }
}

fn part(time: Duration, (of, in_all): (u32, u32)) -> Duration {
    time * of / in_all
}

/// What happened, for clients now and for the model later.
pub(crate) fn take_in(event: TaskEvent, news: &News, emitter: &Emitter) {
    let shown = |text: &str| EventKind::UserMessage { text: text.to_owned(), origin: Origin::Notice };
    match event {
        TaskEvent::Started(task) => emitter.emit(EventKind::TaskStarted(task)),
        TaskEvent::Ended(end, notice) => {
            if let Some(notice) = &notice {
                emitter.emit(shown(&notice.shown));
            }
            emitter.emit(EventKind::TaskEnded(end));
            if let Some(notice) = notice {
                news.add(notice, Shown::Already);
            }
        }
        TaskEvent::Notice(notice) => {
            let line = shown(&notice.shown);
            if news.add(notice, Shown::Already) == Added::Yes {
                emitter.emit(line);
            }
        }
    }
    news.changed.notify_one();
}

/// What the model is to be told at the end of its turn.
#[derive(Default)]
pub(crate) struct News {
    state: Mutex<NewsState>,
    changed: Notify,
}

#[derive(Default)]
struct NewsState {
    queue: VecDeque<(Notice, Shown)>,
    ears: Ears,
}

/// Whether anybody will hear what is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ears {
    #[default]
    Open,
    /// The run has its outcome. The next one of a session listens again.
    Closed,
    /// There is no next one.
    Gone,
}

/// Whether clients have seen a piece of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Already,
    WhenTold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Yes,
    /// The same news waits already: a schedule that came due twice during one turn.
    Known,
    /// Nobody will listen.
    TooLate,
}

impl News {
    pub(crate) fn add(&self, notice: Notice, shown: Shown) -> Added {
        let mut state = self.lock();
        if state.ears != Ears::Open {
            return Added::TooLate;
        }
        if notice.task_id.is_none() && state.queue.iter().any(|(other, _)| *other == notice) {
            return Added::Known;
        }
        state.queue.push_back((notice, shown));
        drop(state);
        self.changed.notify_one();
        Added::Yes
    }

    /// What fits into one message.
    fn take(&self) -> Option<Told> {
        let mut state = self.lock();
        let mut told = String::new();
        let (mut unseen, mut ended) = (Vec::new(), Vec::new());
        while let Some((notice, _)) = state.queue.front() {
            let chars = notice.told.chars().count().min(MAX_NOTICE_CHARS);
            if !told.is_empty() && told.chars().count() + chars > MAX_TOLD_CHARS {
                break;
            }
            let Some((notice, shown)) = state.queue.pop_front() else { break };
            if !told.is_empty() {
                told.push_str("\n\n");
            }
            told.push_str(&shortened(&notice.told));
            if shown == Shown::WhenTold {
                unseen.push(notice.shown);
            }
            if notice.about == About::End {
                ended.extend(notice.task_id);
            }
        }
        (!told.is_empty()).then_some(Told { text: told, unseen, ended })
    }

    fn is_empty(&self) -> bool {
        self.lock().queue.is_empty()
    }

    /// Nobody will listen again, unless something has come in the meantime. Whether it is closed.
    pub(crate) fn close(&self) -> bool {
        let mut state = self.lock();
        if state.queue.is_empty() {
            state.ears = Ears::Closed;
        }
        state.ears != Ears::Open
    }

    /// A run begins, and listens.
    pub(crate) fn open(&self) {
        let mut state = self.lock();
        if state.ears == Ears::Closed {
            state.ears = Ears::Open;
        }
    }

    fn close_for_good(&self) {
        self.lock().ears = Ears::Gone;
    }

    fn lock(&self) -> MutexGuard<'_, NewsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// News in one message.
struct Told {
    text: String,
    /// What of it clients have not seen yet.
    unseen: Vec<String>,
    /// The tasks of whose end it tells.
    ended: Vec<String>,
}

/// Ends are what matters: a long piece loses its middle.
fn shortened(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= MAX_NOTICE_CHARS {
        return text.to_owned();
    }
    let head: String = text.chars().take(MAX_NOTICE_CHARS / 5).collect();
    let tail: String = text.chars().skip(chars - MAX_NOTICE_CHARS * 4 / 5).collect();
    format!("{head}\n[… {} characters left out …]\n{tail}", chars - MAX_NOTICE_CHARS)
}

impl Run<'_> {
    /// Takes in what has happened so far.
    pub(crate) fn take_in_tasks(&self) {
        let background = &self.agent.background;
        while let Some(event) = background.tasks.try_next() {
            take_in(event, &background.news, &self.emitter);
        }
    }

    /// Tells the model what happened since its last turn, in one message.
    pub(crate) async fn tell_news(&mut self) -> Result<(), Failure> {
        self.take_in_tasks();
        if self.tells_again() {
            return Ok(());
        }
        self.hear_of_lost_tasks();
        if let Some(Told { text, unseen, ended }) = self.agent.background.news.take() {
            for text in unseen {
                self.emitter.emit(EventKind::UserMessage { text, origin: Origin::Notice });
            }
            let (message, origin) = (Message::user(text), Origin::Notice);
            let mail = Vec::new();
            self.journal(TurnRecord::UserMessage { message: message.clone(), origin, mail, ended }).await?;
            self.add_told(message, origin);
        }
        self.tell_mail().await
    }

    /// What worked in the background when the run was cut off ended with nobody there to see it.
    fn hear_of_lost_tasks(&mut self) {
        for task in self.replay.lost_tasks() {
            let told = task.lost();
            let shown = format!(
                "Background {} {} was lost with the process that ran it.",
                task.kind.name(),
                task.task_id
            );
            let notice = Notice { task_id: Some(task.task_id), about: About::End, told, shown };
            self.agent.background.news.add(notice, Shown::WhenTold);
        }
    }

    /// The model has nothing more to do. Is there news for it, now or within the time for waiting?
    pub(crate) async fn hears_more(&mut self) -> bool {
        if self.heard_more() {
            return true;
        }
        // It would have been waited for.
        if self.replay.has_lost_an_agent() {
            self.hear_of_lost_tasks();
        }
        self.hears_of_tasks().await || self.has_mail().await
    }

    /// Nobody listens from here on, unless something comes while the ears are being closed.
    pub(crate) async fn hears_no_more(&mut self) -> bool {
        loop {
            if self.closes_ears() {
                return true;
            }
            if self.hears_more().await {
                return false;
            }
        }
    }

    fn closes_ears(&self) -> bool {
        let background = &self.agent.background;
        if !background.news.close() {
            return false;
        }
        let is_closed = background.mailbox.as_ref().is_none_or(|mailbox| mailbox.close());
        if !is_closed {
            background.news.open();
        }
        is_closed
    }

    async fn hears_of_tasks(&mut self) -> bool {
        let background = &self.agent.background;
        let stop = self.agent.stop.cancel();
        loop {
            self.take_in_tasks();
            if !background.news.is_empty() {
                return true;
            }
            let left = background.wait.saturating_sub(self.waited);
            let is_due = background.schedules.next_due().is_some_and(|due| due <= left);
            // An answer that waits for nothing stands, also where the run is told to stop by now.
            if left.is_zero() || !(is_due || background.has_agents()) {
                return false;
            }
            if stop.is_cancelled() {
                return true;
            }
            let began = Instant::now();
            tokio::select! {
                () = background.news.changed.notified() => {}
                () = tokio::time::sleep(left) => {}
                () = stop.cancelled() => {}
            }
            self.waited += began.elapsed();
        }
    }

    /// The run has its outcome: background work is stopped, waited for a moment, and seen to end.
    pub(crate) async fn put_away(&mut self, ending: &Ending) {
        self.take_in_tasks();
        if self.agent.background_ends() == BackgroundEnds::WithTheSession {
            return;
        }
        let background = &self.agent.background;
        background.news.close_for_good();
        if matches!(ending, Ending::Success(success) if success.payload.is_none()) && background.has_agents()
        {
            let agents = background.tasks.running();
            let agents = agents.iter().filter(|info| info.task.kind == TaskKind::Agent).count();
            let message = format!(
                "{agents} background {} stopped at the end of the run, after {} ms of waiting (`tasks.waitMs`)",
                if agents == 1 { "agent was" } else { "agents were" },
                background.wait.as_millis()
            );
            self.emitter.emit(EventKind::Warning { message: message.clone() });
            self.warnings.push(message);
        }
        let is_stopped = self.agent.stop.cancel().is_cancelled();
        let deadline = match ending {
            Ending::Success(success) if success.payload.is_some() => CAPTURE_HOLDBACK,
            _ if is_stopped => {
                let ends_by = self.ends_by.unwrap_or_else(|| background.ends_by());
                ends_by.saturating_duration_since(Instant::now())
            }
            _ => background.shutdown,
        };
        background.tasks.shut_down(deadline).await;
        self.take_in_tasks();
        background.door.store(false, Ordering::Release);
    }
}

/// When background work is over at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackgroundEnds {
    WithTheRun,
    WithTheSession,
}

/// A run that is dropped in the middle leaves nothing behind.
pub(crate) struct StopOnDrop(pub(crate) Background, pub(crate) BackgroundEnds);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if self.1 == BackgroundEnds::WithTheSession {
            return;
        }
        self.0.door.store(false, Ordering::Release);
        self.0.tasks.stop_all(StoppedBy::EndOfRun);
    }
}

/// The sink of background agents: no event follows the outcome of the run they work for.
struct BehindDoor {
    sink: Arc<dyn EventSink>,
    door: Arc<AtomicBool>,
}

impl EventSink for BehindDoor {
    fn emit(&self, event: Event) {
        if self.door.load(Ordering::Acquire) {
            self.sink.emit(event);
        }
    }

    fn flush(&self) {
        self.sink.flush();
    }

    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        self.sink.blocked()
    }
}
