//! A loop over items: as many at a time as the loop allows, results in the order of the items.
//!
//! After the first item that fails no further one is started; those that run finish. Every item's result is kept.

use std::collections::BTreeMap;

use serde_json::Value;

use super::attempts::{Deadline, SetBy, TimeLimit};
use super::body::{Body, LoopPlace, Turn};
use super::ended::Ended;
use super::retry::together;
use super::{Asks, Begun, scope};
use crate::cel::Scope;
use crate::document::OutputMode;
use crate::load::{LoadedItems, LoopKind, StepBody};
use crate::{
    AtOnce, Completion, Item, JsonText, Notice, Role, Segment, Shown, Spent, StepError, StepErrorClass,
    StepStatus,
};

/// Items at a time, whatever the document says: more agents than this at once help nobody.
pub const MAX_ITEMS_AT_A_TIME: u32 = 100;
/// Of the items that failed, so many are named in the loop's error.
const MAX_FAILURES_NAMED: usize = 20;

#[derive(Clone, Debug)]
pub(crate) struct ForEach {
    at: LoopPlace,
    /// Those not started yet are at the end.
    items: Vec<ItemState>,
    next: usize,
    running: BTreeMap<u32, Body>,
    at_a_time: usize,
    deadline: Option<Deadline>,
    /// An item failed, or the loop was told to stop.
    starting: Starting,
    done: u32,
    spent: Spent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starting {
    Allowed,
    /// An item failed.
    Over,
    /// Told to stop.
    Stopped,
}

#[derive(Clone, Debug)]
struct ItemState {
    value: JsonText,
    ended: Option<ItemEnded>,
}

#[derive(Clone, Debug)]
struct ItemEnded {
    status: StepStatus,
    content: String,
    result: Option<JsonText>,
    error: Option<StepError>,
}

impl ForEach {
    /// What the loop goes over.
    pub(crate) fn items(items: &LoadedItems, scope: &Scope) -> Result<Vec<JsonText>, StepError> {
        let values: Vec<Value> = match items {
            LoadedItems::List(values) => values.clone(),
            LoadedItems::Expression(list) => list
                .evaluate_list(scope)
                .map_err(|error| scope::expression("`loop.forEach`", list, &error))?,
        };
        Ok(values.iter().map(JsonText::of).collect())
    }

    pub(crate) fn start(at: LoopPlace, items: Vec<JsonText>, asks: &mut Asks<'_>) -> Begun<ForEach, Ended> {
        let timeout = at.step.get().spec.timeout.map(|time| TimeLimit::new(time, SetBy::Timeout));
        let deadline = timeout.map(|limit| Deadline::start(at.key().with_role(Role::Timeout), limit, asks));
        let at_a_time = match asks.spec.at_once {
            AtOnce::AsWritten => at_a_time(&at, items.len()),
            AtOnce::Everything => items.len(),
        };
        let mut each = ForEach {
            at,
            items: items.into_iter().map(|value| ItemState { value, ended: None }).collect(),
            next: 0,
            running: BTreeMap::new(),
            at_a_time,
            deadline,
            starting: Starting::Allowed,
            done: 0,
            spent: Spent::default(),
        };
        match each.fill(asks) {
            None => Begun::Running(each),
            Some(ended) => Begun::Over(ended),
        }
    }

    pub(crate) fn complete(&mut self, completion: &Completion, asks: &mut Asks<'_>) -> Option<Ended> {
        if self.deadline.as_mut().is_some_and(|deadline| deadline.fires(completion)) {
            return self.stop(asks);
        }
        let depth = self.at.place.segments().len();
        let index = completion.key.segments().get(depth).and_then(Segment::of_item)?;
        let ended = self.running.get_mut(&index)?.complete(&self.at, completion, asks)?;
        self.running.remove(&index);
        self.keep(index, ended.ended, asks);
        self.fill(asks)
    }

    pub(crate) fn stop(&mut self, asks: &mut Asks<'_>) -> Option<Ended> {
        if self.starting == Starting::Stopped {
            return None;
        }
        self.starting = Starting::Stopped;
        for index in self.running.keys().copied().collect::<Vec<u32>>() {
            let ended = self.running.get_mut(&index).and_then(|body| body.stop(&self.at, asks));
            if let Some(ended) = ended {
                self.running.remove(&index);
                self.keep(index, ended.ended, asks);
            }
        }
        self.fill(asks)
    }

    /// By what is over in it.
    pub(crate) fn spent(&self) -> Spent {
        let mut spent = self.spent;
        self.running.values().for_each(|body| spent.add(&body.spent()));
        spent
    }

    /// Starts items while there is room; the loop's end when none is left.
    fn fill(&mut self, asks: &mut Asks<'_>) -> Option<Ended> {
        while self.starting == Starting::Allowed
            && self.running.len() < self.at_a_time
            && let Some(state) = self.items.get(self.next)
        {
            let Ok(index) = u32::try_from(self.next) else { break };
            self.next += 1;
            let item = Item { index, value: state.value.clone() };
            match Body::start(&self.at, Turn::Item(item), asks) {
                Begun::Running(body) => {
                    self.running.insert(index, body);
                }
                Begun::Over(ended) => self.keep(index, ended.ended, asks),
            }
        }
        if self.running.is_empty() { Some(self.end(asks)) } else { None }
    }

    fn keep(&mut self, index: u32, ended: Ended, asks: &mut Asks<'_>) {
        self.spent.add(&ended.spent);
        let goes_on = ended.status == StepStatus::Completed && asks.exhausted.is_none();
        if !goes_on && self.starting == Starting::Allowed {
            self.starting = Starting::Over;
        }
        let Ended { status, content, result, error, .. } = ended;
        if let Some(state) = self.items.get_mut(index as usize) {
            state.ended = Some(ItemEnded { status, content, result, error });
        }
        self.done += 1;
        asks.tell(Notice::Progress { key: self.at.key(), done: self.done, of: self.at.turns });
    }

    fn end(&mut self, asks: &mut Asks<'_>) -> Ended {
        let late = self.deadline.take().and_then(|deadline| deadline.close(asks));
        let items = std::mem::take(&mut self.items);
        let (content, shown) = content(&items, output_mode(&self.at));
        let failure = failure(&self.at.step.get().id, &items);
        let (status, error) = match (late, failure) {
            (Some(late), _) => (StepStatus::Failed, Some(late)),
            (None, Some(failure)) if items.iter().any(ItemState::was_refused) => {
                (StepStatus::Cancelled, Some(failure))
            }
            (None, Some(failure)) => (StepStatus::Failed, Some(failure)),
            (None, None) if items.iter().all(ItemState::completed) => (StepStatus::Completed, None),
            (None, None) => (StepStatus::Cancelled, None),
        };
        let result = Some(result(&self.at.key().step_id(), &items));
        Ended { status, content, result, error, spent: self.spent, attempts: 1, shown }
    }
}

impl ItemState {
    fn completed(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.status == StepStatus::Completed)
    }

    /// Nobody around may spend any more either.
    fn was_refused(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| {
            let error = ended.error.as_ref();
            ended.status == StepStatus::Cancelled
                && error.is_some_and(|error| error.class == StepErrorClass::Budget)
        })
    }
}

fn at_a_time(at: &LoopPlace, items: usize) -> usize {
    let wished = match &at.step.get().body {
        StepBody::Loop(it) => match &it.kind {
            LoopKind::ForEach { max_concurrency, .. } => max_concurrency.filter(|count| *count > 0),
            LoopKind::RepeatUntil { .. } => None,
        },
        StepBody::Agent | StepBody::Include(_) | StepBody::Approve(_) => None,
    };
    let items = u32::try_from(items).unwrap_or(u32::MAX);
    wished.unwrap_or(items).clamp(1, MAX_ITEMS_AT_A_TIME) as usize
}

fn output_mode(at: &LoopPlace) -> OutputMode {
    match &at.step.get().body {
        StepBody::Loop(it) => it.output_mode,
        StepBody::Agent | StepBody::Include(_) | StepBody::Approve(_) => OutputMode::Last,
    }
}

/// Of the last item that completed, or of all of them.
fn content(items: &[ItemState], mode: OutputMode) -> (String, Shown) {
    let mut completed = items.iter().enumerate().filter_map(|(index, state)| {
        let ended = state.ended.as_ref().filter(|ended| ended.status == StepStatus::Completed)?;
        Some((index, ended))
    });
    match mode {
        OutputMode::Last => {
            (completed.next_back().map(|(_, ended)| ended.content.clone()).unwrap_or_default(), Shown::Capped)
        }
        OutputMode::Cumulative => {
            let all: Vec<String> =
                completed.map(|(index, ended)| format!("## Item {}\n{}", index + 1, ended.content)).collect();
            (all.join("\n\n"), Shown::Whole)
        }
    }
}

/// `{"iterations":[{"id","index","item","content","status","result"}]}`; numbers stay as they were written. `step_id` is how
/// events call the loop, with all that is around it.
fn result(step_id: &str, items: &[ItemState]) -> JsonText {
    let text = |text: &str| Value::from(text).to_string();
    let mut json = String::from("{\"iterations\":[");
    for (index, state) in items.iter().enumerate() {
        let (status, content, result) = match &state.ended {
            Some(ended) => (ended.status, ended.content.as_str(), ended.result.as_ref()),
            None => (StepStatus::Cancelled, "", None),
        };
        if index > 0 {
            json.push(',');
        }
        json.push_str(&format!(
            "{{\"id\":{},\"index\":{index},\"item\":{},\"content\":{},\"status\":{}",
            text(&format!("{step_id}[{index}]")),
            state.value.as_str(),
            text(content),
            text(status.name()),
        ));
        if let Some(result) = result {
            json.push_str(&format!(",\"result\":{}", result.as_str()));
        }
        json.push('}');
    }
    json.push_str("]}");
    JsonText::from_text(json)
}

/// All that went wrong, a line for each item.
fn failure(id: &str, items: &[ItemState]) -> Option<StepError> {
    let failed: Vec<(usize, &StepError)> = items
        .iter()
        .enumerate()
        .filter_map(|(index, state)| Some((index, state.ended.as_ref()?.error.as_ref()?)))
        .collect();
    let (_, first) = failed.first()?;
    let same = failed.iter().all(|(_, error)| error.class == first.class);
    // That there is no money left is true of the whole run, whatever else went wrong.
    let broke = items.iter().any(ItemState::was_refused);
    let class = match (broke, same) {
        (true, _) => StepErrorClass::Budget,
        (false, true) => first.class,
        (false, false) => StepErrorClass::Items,
    };
    let mut lines: Vec<String> = Vec::new();
    let mut of_budget: Option<(usize, &str)> = None;
    for (index, error) in failed.iter().take(MAX_FAILURES_NAMED) {
        match of_budget {
            // A budget is the run's: it is told once of all who wanted something of it.
            Some((line, told)) if told == error.message => {
                let at = lines[line].len() - told.len() - 2;
                lines[line].insert_str(at, &format!(", {id}[{index}]"));
            }
            _ => {
                if error.class == StepErrorClass::Budget {
                    of_budget = Some((lines.len(), &error.message));
                }
                lines.push(format!("{id}[{index}]: {}", error.message));
            }
        }
    }
    if failed.len() > MAX_FAILURES_NAMED {
        lines.push(format!("and {} more", failed.len() - MAX_FAILURES_NAMED));
    }
    let error = StepError { class, message: lines.join("\n"), ..(*first).clone() };
    Some(together(error, failed.iter().map(|(_, error)| *error)))
}
