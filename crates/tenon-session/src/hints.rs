//! Suggestions while somebody types: commands after `/`, files after `@`.
//!
//! Commands are suggested at once. Files come from an index (`tenon-tools/src/file_index.rs`) that is built when it is first
//! asked for, in the background: the client is told `loading` and gets its answer when there is one, unless it has asked
//! anew or cancelled meanwhile. An index that is a little old still answers, and is built again beside that.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenon_core::Cancel;
use tenon_tools::{FileIndex, Typed, Workspace};
use tenon_wire::input::{Hint, HintTrigger};
use tenon_wire::{HintItem, HintStatus, Replies};
use tokio::sync::Notify;

use crate::commands::{Commands, arguments_of};
use crate::{CommandUse, Lines};

/// More than a person reads while typing.
const MOST: usize = 20;
/// Files come and go while an agent works; walking a large tree takes about as long as a blink.
const FRESH: Duration = Duration::from_secs(10);
/// Older than this, what it says may be of another day.
const USABLE: Duration = Duration::from_secs(60);

/// The suggestions of one session.
pub struct Hints {
    lines: Arc<dyn Lines>,
    index: Arc<tokio::sync::Mutex<Option<Built>>>,
    wanted: Arc<Wanted>,
    /// Falls when nobody types any longer.
    end: Cancel,
}

#[derive(Clone)]
struct Built {
    index: Arc<FileIndex>,
    at: Instant,
}

/// What suggestions are made from.
pub struct HintSource<'a> {
    pub commands: &'a Commands,
    pub workspace: Arc<Workspace>,
    /// What may follow a command: tags after `chat resume`, names after `model` and `tools`.
    pub values: &'a dyn Fn(&str) -> Vec<String>,
}

impl Hints {
    pub fn new(lines: Arc<dyn Lines>) -> Hints {
        Hints { lines, index: Arc::default(), wanted: Arc::default(), end: Cancel::new() }
    }

    pub fn ask(&self, hint: &Hint, replies: &Replies, from: &HintSource<'_>) {
        let before = up_to_cursor(&hint.text, hint.cursor);
        let answer = Answering {
            number: self.wanted.ask(hint.prompt_id.clone()),
            prompt_id: hint.prompt_id.clone(),
            trigger: hint.trigger,
            replies: replies.clone(),
            lines: Arc::clone(&self.lines),
            wanted: Arc::clone(&self.wanted),
        };
        if from.commands.use_of() == CommandUse::Literal {
            return answer.send(&[], IsPerfect::No);
        }
        match hint.trigger {
            HintTrigger::Slash => {
                let (items, perfect) = slash(before, from);
                answer.send(&items, perfect);
            }
            HintTrigger::At => match Near::of(hint.cwd.as_deref(), &from.workspace) {
                Ok(near) => {
                    let typed = path_typed(before).to_owned();
                    self.files(Wish { typed, near }, answer, Arc::clone(&from.workspace));
                }
                Err(why) => answer.error(why),
            },
        }
    }

    /// Whoever still waits is answered, if that is soon.
    pub async fn finish(&self, within: Duration) {
        let _ = tokio::time::timeout(within, self.wanted.none_is_left()).await;
    }

    /// Says why there are none.
    pub fn refuse(&self, hint: &Hint, replies: &Replies, why: &str) {
        let status = HintStatus::Error(why.to_owned());
        let trigger = hint.trigger.name();
        self.lines.line(replies.hint(hint.prompt_id.as_deref(), trigger, &status, &[], false));
    }

    /// The suggestions of this prompt are no longer wanted, or any.
    pub fn cancel(&self, prompt_id: Option<&str>) {
        self.wanted.cancel(prompt_id);
    }

    fn files(&self, wish: Wish, answer: Answering, workspace: Arc<Workspace>) {
        let now = Instant::now();
        let built = self.index.try_lock().ok().and_then(|built| built.clone());
        let age = built.as_ref().map(|built| now.duration_since(built.at));
        match built.filter(|_| age.is_some_and(|age| age < USABLE)) {
            Some(built) => {
                tokio::task::spawn_blocking(move || answer.from(&built.index, &wish));
                if age.is_some_and(|age| age >= FRESH) {
                    let (index, end) = (Arc::clone(&self.index), self.end.clone());
                    tokio::spawn(async move { drop(fresh(&index, workspace, end).await) });
                }
            }
            None => {
                answer.loading();
                let (index, end) = (Arc::clone(&self.index), self.end.clone());
                tokio::spawn(async move {
                    if let Some(index) = fresh(&index, workspace, end).await {
                        // A panic would be a bug of the comparison; there is no answer then, and no harm.
                        let _ = tokio::task::spawn_blocking(move || answer.from(&index, &wish)).await;
                    }
                });
            }
        }
    }
}

/// A path that is being typed, and where.
struct Wish {
    typed: String,
    near: Near,
}

/// What the paths begin with that are meant first: those of the folder that whoever types is in. Empty for all.
struct Near(String);

impl Near {
    fn of(cwd: Option<&str>, workspace: &Workspace) -> Result<Near, String> {
        let Some(cwd) = cwd else { return Ok(Near(String::new())) };
        let named = Path::new(cwd);
        let real = named.canonicalize().unwrap_or_else(|_| named.to_path_buf());
        let roots = workspace.roots();
        let Some(first) = roots.first() else { return Ok(Near(String::new())) };
        if first.starts_with(&real) {
            return Ok(Near(String::new()));
        }
        let shown = real.strip_prefix(first).unwrap_or(&real);
        match roots.iter().any(|root| real.starts_with(root)) {
            true => Ok(Near(format!("{}/", shown.to_string_lossy()))),
            false => {
                Err(format!("`{cwd}` (`context.cwd`) is not in the workspace, so `@` reaches no file of it"))
            }
        }
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// The index, built anew unless somebody has just done that. `None` when nobody types any longer.
async fn fresh(
    index: &tokio::sync::Mutex<Option<Built>>,
    workspace: Arc<Workspace>,
    end: Cancel,
) -> Option<Arc<FileIndex>> {
    // Whoever waits here finds what the one before has built.
    let mut built = index.lock().await;
    if let Some(known) = built.as_ref().filter(|known| known.at.elapsed() < FRESH) {
        return Some(Arc::clone(&known.index));
    }
    let walking = end.clone();
    let new = tokio::task::spawn_blocking(move || FileIndex::build(&workspace, &walking)).await.ok()?;
    if end.is_cancelled() {
        return None;
    }
    let new = Arc::new(new);
    *built = Some(Built { index: Arc::clone(&new), at: Instant::now() });
    Some(new)
}

/// The requests that still want an answer: the last one of each prompt.
#[derive(Default)]
struct Wanted {
    state: Mutex<WantedState>,
    /// Wakes whoever waits until none is left.
    fewer: Notify,
}

#[derive(Default)]
struct WantedState {
    asked: u64,
    last: HashMap<Option<String>, u64>,
}

impl Wanted {
    fn ask(&self, prompt_id: Option<String>) -> u64 {
        let mut state = self.state();
        state.asked += 1;
        let number = state.asked;
        state.last.insert(prompt_id, number);
        number
    }

    fn cancel(&self, prompt_id: Option<&str>) {
        let mut state = self.state();
        match prompt_id {
            Some(id) => drop(state.last.remove(&Some(id.to_owned()))),
            None => state.last.clear(),
        }
        self.fewer.notify_waiters();
    }

    async fn none_is_left(&self) {
        loop {
            let fewer = self.fewer.notified();
            if self.state().last.is_empty() {
                return;
            }
            fewer.await;
        }
    }

    /// Answers a request that is still the last one of its prompt, and forgets it.
    fn answer(&self, prompt_id: &Option<String>, number: u64, say: impl FnOnce()) {
        let mut state = self.state();
        if state.last.get(prompt_id) == Some(&number) {
            say();
            state.last.remove(prompt_id);
            self.fewer.notify_waiters();
        }
    }

    fn state(&self) -> MutexGuard<'_, WantedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request, and where its answer goes.
struct Answering {
    number: u64,
    prompt_id: Option<String>,
    trigger: HintTrigger,
    replies: Replies,
    lines: Arc<dyn Lines>,
    wanted: Arc<Wanted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsPerfect {
    Yes,
    No,
}

impl Answering {
    fn loading(&self) {
        self.line(&HintStatus::Loading, &[], IsPerfect::No);
    }

    fn from(&self, index: &FileIndex, wish: &Wish) {
        let Wish { typed, near: Near(near) } = wish;
        let best = index.best_near(&Typed::new(typed), MOST, near);
        let meant = typed.trim_end_matches('/');
        let is_meant = |path: &String| {
            let path = path.trim_end_matches('/');
            path == meant || path.strip_prefix(near.as_str()) == Some(meant)
        };
        let perfect = match best.iter().any(is_meant) {
            true if !typed.is_empty() => IsPerfect::Yes,
            _ => IsPerfect::No,
        };
        let items: Vec<HintItem> = best
            .into_iter()
            .map(|path| HintItem {
                value: path.replace(' ', "\\ "),
                description: if path.ends_with('/') { "folder" } else { "file" }.to_owned(),
                label: path,
            })
            .collect();
        self.send(&items, perfect);
    }

    fn error(&self, why: String) {
        self.wanted.answer(&self.prompt_id, self.number, || {
            self.line(&HintStatus::Error(why), &[], IsPerfect::No);
        });
    }

    fn send(&self, items: &[HintItem], perfect: IsPerfect) {
        self.wanted.answer(&self.prompt_id, self.number, || self.line(&HintStatus::Ok, items, perfect));
    }

    fn line(&self, status: &HintStatus, items: &[HintItem], perfect: IsPerfect) {
        let (prompt_id, trigger) = (self.prompt_id.as_deref(), self.trigger.name());
        self.lines.line(self.replies.hint(prompt_id, trigger, status, items, perfect == IsPerfect::Yes));
    }
}

fn slash(before: &str, from: &HintSource<'_>) -> (Vec<HintItem>, IsPerfect) {
    let text = before.trim_start().trim_start_matches('/');
    let Some((name, rest)) = text.split_once(char::is_whitespace) else {
        let commands = from.commands.list();
        let items = commands.into_iter().map(|command| (command.name, command.description));
        return best_of(text, items.collect());
    };
    // What follows a name: a word that the command knows, and perhaps a value after that.
    let rest = rest.trim_start();
    let (asked, typed) = match rest.split_once(char::is_whitespace) {
        Some((word, typed)) => (format!("{name} {word}"), typed.trim_start()),
        None => (name.to_owned(), rest),
    };
    let words = arguments_of(&asked).iter().map(|word| (*word).to_owned());
    let values = words.chain((from.values)(&asked)).map(|value| (value, String::new()));
    best_of(typed, values.collect())
}

fn best_of(typed: &str, from: Vec<(String, String)>) -> (Vec<HintItem>, IsPerfect) {
    let wanted = Typed::new(typed);
    let mut scored: Vec<(i32, String, String)> = from
        .into_iter()
        // Without a letter the order is theirs.
        .filter_map(|(name, description)| {
            let score = wanted.score(name.as_bytes())?;
            Some((if typed.is_empty() { 0 } else { score }, name, description))
        })
        .collect();
    scored.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let is_perfect = !typed.is_empty() && scored.iter().any(|(_, name, _)| name == typed);
    let items = scored
        .into_iter()
        .take(MOST)
        .map(|(_, name, description)| HintItem { label: name.clone(), value: name, description })
        .collect();
    (items, if is_perfect { IsPerfect::Yes } else { IsPerfect::No })
}

/// `cursor` counts in UTF-16 code units, as editors do.
fn up_to_cursor(text: &str, cursor: Option<usize>) -> &str {
    let Some(cursor) = cursor else { return text };
    let mut units = 0;
    for (at, c) in text.char_indices() {
        if units >= cursor {
            return &text[..at];
        }
        units += c.len_utf16();
    }
    text
}

/// What stands after the last `@`.
fn path_typed(before: &str) -> &str {
    let typed = before.rsplit_once('@').map_or(before, |(_, typed)| typed);
    typed.strip_prefix('"').unwrap_or(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_count_utf16() {
        let text = "a😀b";
        for (cursor, wanted) in
            [(None, text), (Some(0), ""), (Some(1), "a"), (Some(3), "a😀"), (Some(4), text), (Some(99), text)]
        {
            assert_eq!(up_to_cursor(text, cursor), wanted);
        }
    }

    #[test]
    fn commands_and_what_follows_them() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(tenon_tools::WorkspaceOptions::new(folder.path())).unwrap();
        let commands = Commands::new(Vec::new(), &mut Vec::new());
        let values = |asked: &str| match asked {
            "chat resume" => vec!["before-lunch".to_owned(), "after".to_owned()],
            _ => Vec::new(),
        };
        let from = HintSource { commands: &commands, workspace, values: &values };
        let table: [(&str, &[&str], IsPerfect); 7] = [
            ("/c", &["chat", "clear", "compress", "mcp"], IsPerfect::No),
            ("/clear", &["clear"], IsPerfect::Yes),
            ("/zzz", &[], IsPerfect::No),
            ("/chat ", &["delete", "list", "resume", "save"], IsPerfect::No),
            ("/chat re", &["resume"], IsPerfect::No),
            ("/chat resume ", &["after", "before-lunch"], IsPerfect::No),
            ("/chat resume lunch", &["before-lunch"], IsPerfect::No),
        ];
        for (text, wanted, perfect) in table {
            let (items, is_perfect) = slash(text, &from);
            let labels: Vec<&str> = items.iter().map(|item| item.label.as_str()).collect();
            assert_eq!((labels.as_slice(), is_perfect), (wanted, perfect), "{text}");
        }
        assert_eq!(slash("/", &from).0.len(), commands.names().len());
    }
}
