//! Saved chats: named copies of a conversation, to be taken up in any later session of the same folder.
//!
//! One file for each, `saved/<tag>.json` beside the folder's sessions, written whole or not at all. It holds the messages in
//! the form that session files hold: redacted, without known keys, payloads left out. Nothing deletes it but whoever saved it.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;
use tenon_core::{DurableMessage, ErrorClass, Failure, Message, Secrets, Timestamp};

use crate::Place;
use crate::place::make_folder;
use crate::shown_history::{shown, without_natives};

const FORMAT: u32 = 1;
/// A conversation fits a model's context; this is many of them.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
const MAX_TAG_CHARS: usize = 64;

/// The saved chats of one folder.
pub struct SavedChats {
    pub place: Place,
    pub cwd: PathBuf,
    pub secrets: Secrets,
    pub provider: String,
    pub model: String,
}

/// One in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedChat {
    pub tag: String,
    pub messages: usize,
    /// When, as in `2026-08-21T16:16:56.123Z`.
    pub saved: String,
}

#[derive(Deserialize)]
struct Stored {
    format: u32,
    saved: String,
    cwd: String,
    provider: String,
    model: String,
    messages: Vec<DurableMessage>,
}

impl SavedChats {
    /// Whether this can be a tag.
    pub fn check(&self, tag: &str) -> Result<(), Failure> {
        self.path(tag).map(drop)
    }

    /// How many messages were saved. An earlier one of that tag is replaced.
    pub fn save(&self, tag: &str, history: &[Message]) -> Result<usize, Failure> {
        let path = self.path(tag)?;
        if let Some(other) = self.read(&path).ok().flatten().filter(|stored| !self.is_ours(stored)) {
            let message = format!(
                "`{tag}` is a chat of `{}` already, whose name is too much like this folder's",
                other.cwd
            );
            return Err(input(message));
        }
        let messages: Vec<DurableMessage> =
            history.iter().map(|message| message.redact().without(&self.secrets)).collect();
        let count = messages.len();
        let stored = json!({
            "format": FORMAT, "tag": tag, "saved": Timestamp::now().to_iso8601(),
            "cwd": self.secrets.hide(&self.cwd.to_string_lossy()), "provider": self.provider, "model": self.model,
            "messages": messages,
        });
        let unfinished = path.with_extension("json.new");
        let written = (|| {
            make_folder(&self.place.saved())?;
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            file.write_all(stored.to_string().as_bytes())?;
            file.sync_data()?;
            fs::rename(&unfinished, &path)
        })();
        written.map_err(|error: io::Error| {
            let _ = fs::remove_file(&unfinished);
            input(format!("`{}` cannot be written: {error}", path.display()))
        })?;
        Ok(count)
    }

    /// The conversation, in a form that every provider takes.
    pub fn load(&self, tag: &str) -> Result<Vec<Message>, Failure> {
        let path = self.path(tag)?;
        let cannot = |why: String| input(format!("the chat `{tag}` cannot be read: {why}"));
        let stored = match self.read(&path) {
            Ok(Some(stored)) if self.is_ours(&stored) => stored,
            Ok(_) => return Err(self.missing(tag)),
            Err(error) => return Err(cannot(error.to_string())),
        };
        if stored.format > FORMAT {
            return Err(cannot("a later version of tenon saved it".to_owned()).hint("update tenon"));
        }
        let same =
            !self.provider.is_empty() && stored.provider == self.provider && stored.model == self.model;
        let mut messages: Vec<Message> =
            stored.messages.into_iter().map(DurableMessage::into_message).collect();
        if !same {
            messages.iter_mut().for_each(without_natives);
        }
        Ok(shown(messages))
    }

    pub fn delete(&self, tag: &str) -> Result<(), Failure> {
        let path = self.path(tag)?;
        match self.read(&path) {
            Ok(Some(stored)) if !self.is_ours(&stored) => return Err(self.missing(tag)),
            Ok(None) => return Err(self.missing(tag)),
            // What cannot be read can still be deleted.
            Ok(Some(_)) | Err(_) => {}
        }
        fs::remove_file(&path)
            .map_err(|error| input(format!("`{}` cannot be deleted: {error}", path.display())))
    }

    /// By tag. Files that are none of ours are passed over.
    pub fn list(&self) -> Result<Vec<SavedChat>, Failure> {
        let folder = self.place.saved();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(input(format!("`{}` cannot be read: {error}", folder.display()))),
        };
        let mut chats = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let tag =
                path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json").map(str::to_owned));
            let Some(tag) = tag.filter(|tag| is_tag(tag)) else { continue };
            if let Ok(Some(stored)) = self.read(&path)
                && self.is_ours(&stored)
            {
                chats.push(SavedChat { tag, messages: stored.messages.len(), saved: stored.saved });
            }
        }
        chats.sort_by(|a, b| a.tag.cmp(&b.tag));
        Ok(chats)
    }

    /// `None` where there is none.
    fn read(&self, path: &PathBuf) -> io::Result<Option<Stored>> {
        let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("it is too large"));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other)
    }

    /// Names of folders can coincide.
    fn is_ours(&self, stored: &Stored) -> bool {
        stored.cwd == self.secrets.hide(&self.cwd.to_string_lossy())
    }

    fn path(&self, tag: &str) -> Result<PathBuf, Failure> {
        if is_tag(tag) {
            return Ok(self.place.saved().join(format!("{tag}.json")));
        }
        let shown: String = tag.chars().take(MAX_TAG_CHARS).flat_map(char::escape_debug).collect();
        Err(input(format!(
            "`{shown}` is no tag: up to {MAX_TAG_CHARS} letters, digits, `-`, `_` and `.`, beginning with a letter or digit"
        )))
    }

    fn missing(&self, tag: &str) -> Failure {
        input(format!("there is no saved chat `{tag}` of this folder"))
            .hint("`/chat list` lists those that there are")
    }
}

fn is_tag(tag: &str) -> bool {
    tag.starts_with(|c: char| c.is_ascii_alphanumeric())
        && tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && tag.chars().count() <= MAX_TAG_CHARS
}

fn input(message: String) -> Failure {
    Failure::new(ErrorClass::Input, message)
}
