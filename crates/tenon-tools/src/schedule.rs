//! Prompts that come by themselves: the schedules of one run, and the tools `cron_create`, `cron_list` and
//! `cron_delete`.
//!
//! A schedule lives as long as its run: nothing is kept on disk. This decides when a prompt comes (`cron.rs`
//! has the arithmetic); when the model hears it, and how long a run waits for one, is the turn loop's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tenon_core::{Args, BoxFut, IdSource, Timestamp, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};
use tokio::sync::Notify;

use crate::args::{ArgReader, Refusal, outcome};
use crate::cron::Cron;
use crate::output::first_chars;
use crate::tasks::{About, Notice, Tasks};

/// A model that makes schedules in a loop must not fill the run.
const MAX_SCHEDULES: usize = 50;
/// A prompt that comes again and again is short.
const MAX_PROMPT_CHARS: usize = 16_384;
/// What clients and `cron_list` show of a prompt.
const SHOWN_CHARS: usize = 200;
/// The wall clock may be put right while we sleep, so nobody sleeps longer than this at once.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// What time it is where the run runs.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
    /// How far local time is ahead of UTC at a moment, both in seconds.
    fn offset_at(&self, unix_seconds: i64) -> i64;
}

/// UTC, for whoever has no other clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct UtcClock;

impl Clock for UtcClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn offset_at(&self, _unix_seconds: i64) -> i64 {
        0
    }
}

/// The schedules of a run. Clones are the same.
#[derive(Clone)]
pub struct Schedules {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    list: Mutex<Vec<Schedule>>,
    changed: Notify,
}

#[derive(Clone, Debug)]
struct Schedule {
    id: String,
    cron: Cron,
    prompt: String,
    again: Again,
    /// Seconds since 1970.
    next: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Recurring,
    Once,
}

impl Schedules {
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<IdSource>) -> Schedules {
        Schedules { shared: Arc::new(Shared { clock, ids, list: Mutex::default(), changed: Notify::new() }) }
    }

    /// `cron_create`, `cron_list` and `cron_delete` for these schedules.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        [Act::Create, Act::List, Act::Delete]
            .map(|act| {
                Arc::new(CronTool { spec: Arc::new(spec(act)), act, schedules: self.clone() })
                    as Arc<dyn Tool>
            })
            .into()
    }

    /// How long until the next prompt comes. `None` when there is no schedule.
    pub fn next_due(&self) -> Option<Duration> {
        let next = self.list().iter().map(|schedule| schedule.next).min()?;
        Some(self.until(next))
    }

    /// Waits until prompts are due and hands them over. Never ends while there is no schedule.
    pub async fn fire(&self, tasks: &Tasks) {
        loop {
            let changed = self.shared.changed.notified();
            match self.next_due() {
                Some(Duration::ZERO) => break,
                Some(due) => {
                    // Whoever wakes early looks again.
                    let _ = tokio::time::timeout(due.min(LONGEST_SLEEP), changed).await;
                }
                None => changed.await,
            }
        }
        for schedule in self.take_due() {
            let prompt = &schedule.prompt;
            tasks.notify(Notice {
                task_id: None,
                about: About::News,
                told: format!("The schedule {} (`{}`) is due: {prompt}", schedule.id, schedule.cron.text()),
                shown: format!("Schedule {} is due: {}", schedule.id, first_chars(prompt, SHOWN_CHARS)),
            });
        }
    }

    fn take_due(&self) -> Vec<Schedule> {
        let now = self.now();
        let mut list = self.list();
        let due: Vec<Schedule> = list.iter().filter(|schedule| schedule.next <= now).cloned().collect();
        for schedule in list.iter_mut().filter(|schedule| schedule.next <= now) {
            // What was missed while nobody looked comes once.
            schedule.next = self.next_of(&schedule.cron).unwrap_or(i64::MAX);
        }
        list.retain(|schedule| {
            schedule.again == Again::Recurring || due.iter().all(|fired| fired.id != schedule.id)
        });
        due
    }

    fn create(&self, cron: Cron, prompt: &str, again: Again) -> Result<Schedule, Refusal> {
        let next = self
            .next_of(&cron)
            .ok_or_else(|| Refusal::arguments(format!("`{}` never comes.", cron.text())))?;
        let mut list = self.list();
        if list.len() >= MAX_SCHEDULES {
            return Err(Refusal::failed(format!(
                "There are {MAX_SCHEDULES} schedules already; delete one with `cron_delete` first."
            )));
        }
        let id = loop {
            let hex: String = self.shared.ids.next().to_string().chars().take(8).collect();
            let id = format!("cron_{hex}");
            if list.iter().all(|schedule| schedule.id != id) {
                break id;
            }
        };
        let schedule = Schedule { id, cron, prompt: prompt.to_owned(), again, next };
        list.push(schedule.clone());
        drop(list);
        self.shared.changed.notify_one();
        Ok(schedule)
    }

    fn delete(&self, id: &str) -> bool {
        let mut list = self.list();
        let before = list.len();
        list.retain(|schedule| schedule.id != id);
        let deleted = list.len() < before;
        drop(list);
        self.shared.changed.notify_one();
        deleted
    }

    fn next_of(&self, cron: &Cron) -> Option<i64> {
        cron.next_after(self.now(), &|at| self.shared.clock.offset_at(at))
    }

    fn now(&self) -> i64 {
        i64::try_from(self.shared.clock.now().seconds()).unwrap_or(i64::MAX)
    }

    fn until(&self, next: i64) -> Duration {
        let millis = u64::try_from(next).unwrap_or(0).saturating_mul(1_000);
        Duration::from_millis(millis.saturating_sub(self.shared.clock.now().0))
    }

    fn list(&self) -> MutexGuard<'_, Vec<Schedule>> {
        self.shared.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Create,
    List,
    Delete,
}

struct CronTool {
    spec: Arc<ToolSpec>,
    act: Act,
    schedules: Schedules,
}

fn spec(act: Act) -> ToolSpec {
    let (name, description, parameters) = match act {
        Act::Create => (
            "cron_create",
            "Has a prompt come back to you at a time, or again and again, as long as this run lives. A run that has \
             nothing else to do waits for it only a short while.",
            json!({
                "type": "object",
                "properties": {
                    "cron": { "type": "string", "description": "Five cron fields in local time: minute, hour, day of the month, month, day of the week. `*/5 * * * *` is every five minutes." },
                    "prompt": { "type": "string", "description": "What you will be told." },
                    "recurring": { "type": "boolean", "description": "Again and again (the default), or once." },
                    "durable": { "type": "boolean", "description": "Must be false: schedules end with the run." }
                },
                "required": ["cron", "prompt"],
                "additionalProperties": false
            }),
        ),
        Act::List => (
            "cron_list",
            "Lists the schedules of this run.",
            json!({ "type": "object", "properties": {}, "additionalProperties": false }),
        ),
        Act::Delete => (
            "cron_delete",
            "Deletes a schedule of this run.",
            json!({
                "type": "object",
                "properties": { "id": { "type": "string", "description": "The schedule's id, such as `cron_1a2b3c4d`." } },
                "required": ["id"],
                "additionalProperties": false
            }),
        ),
    };
    // What a schedule brings is a message to the model, which needs leave for whatever it then does.
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters, kind: ToolKind::Read }
}

impl CronTool {
    fn act(&self, args: &Args) -> Result<ToolOutcome, Refusal> {
        let reader = ArgReader::new(&self.spec, args);
        match self.act {
            Act::Create => self.create(&reader),
            Act::List => Ok(ToolOutcome::ok(self.listed())),
            Act::Delete => {
                let id = reader.filled_text("id")?.trim();
                match self.schedules.delete(id) {
                    true => Ok(ToolOutcome::ok(format!("The schedule {id} was deleted."))),
                    false => Err(Refusal::failed(format!("There is no schedule `{id}`."))),
                }
            }
        }
    }

    fn create(&self, reader: &ArgReader<'_>) -> Result<ToolOutcome, Refusal> {
        let cron = Cron::parse(reader.filled_text("cron")?)
            .map_err(|error| Refusal::arguments(format!("`cron`: {error}.")))?;
        let prompt = reader.filled_text("prompt")?.trim();
        if prompt.chars().count() > MAX_PROMPT_CHARS {
            return Err(Refusal::arguments(format!(
                "`prompt` is longer than {MAX_PROMPT_CHARS} characters."
            )));
        }
        if reader.flag("durable")? {
            let message = "`durable` schedules do not exist: every schedule ends with its run.";
            return Err(Refusal::arguments(message));
        }
        let again = match reader.optional_flag("recurring")? {
            None | Some(true) => Again::Recurring,
            Some(false) => Again::Once,
        };
        let schedule = self.schedules.create(cron, prompt, again)?;
        let seconds = self.schedules.until(schedule.next).as_secs();
        let times = match again {
            Again::Recurring => "for the first time ",
            Again::Once => "once, ",
        };
        Ok(ToolOutcome::ok(format!(
            "The schedule {} was created. It comes {times}in {seconds} s, and ends with this run.",
            schedule.id
        )))
    }

    fn listed(&self) -> String {
        let list = self.schedules.list().clone();
        let line = |schedule: &Schedule| {
            let again = match schedule.again {
                Again::Recurring => "again and again",
                Again::Once => "once",
            };
            format!(
                "{}: `{}` {again}, next in {} s: {}",
                schedule.id,
                schedule.cron.text(),
                self.schedules.until(schedule.next).as_secs(),
                first_chars(&schedule.prompt, SHOWN_CHARS)
            )
        };
        match list.is_empty() {
            true => "There are no schedules.".to_owned(),
            false => list.iter().map(line).collect::<Vec<_>>().join("\n"),
        }
    }
}

impl Tool for CronTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { outcome(self.act(&args)) })
    }
}
