//! What `@path` puts into a prompt: a file's text, an image, or the names in a folder.
//!
//! Only inside the workspace, never secrets and ignored files (`secret_file.rs`) nor what a rule hides, and as much as
//! `read_file` and `list_directory` would show. Where such words stand in a text is decided in
//! `tenon-session/src/commands/at.rs`.

use tenon_core::{Cancel, Media, ToolOutcome};

use crate::args::Refusal;
use crate::secret_file::kept_out;
use crate::{Workspace, list_directory, read_file};

/// What stands behind a path that somebody typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mentioned {
    /// `name` is the path as people read it.
    File {
        name: String,
        text: String,
    },
    Folder {
        name: String,
        names: String,
    },
    Image {
        name: String,
        media: Media,
    },
    Missing,
    /// It is there and is not read; why, worded to follow a colon.
    Refused(String),
}

impl Workspace {
    pub fn mention(&self, path: &str) -> Mentioned {
        let real = match self.resolve(path) {
            Ok(real) => real,
            Err(error) => return Mentioned::Refused(error.to_string()),
        };
        if std::fs::symlink_metadata(&real).is_err() {
            return Mentioned::Missing;
        }
        if self.is_hidden(&real) {
            return Mentioned::Refused("a rule hides it".to_owned());
        }
        // Names count from the root on: somebody may work in a folder that is called like a secret.
        let roots = self.roots();
        let below = roots.iter().find_map(|root| real.strip_prefix(root).ok());
        if let Some(why) = below.and_then(|below| kept_out(below, &real)) {
            return Mentioned::Refused(why.to_owned());
        }
        let name = self.show(&real);
        let cancel = Cancel::new();
        if real.is_dir() {
            return match list_directory::names_in(self, &real, &name, &cancel) {
                Ok(names) => Mentioned::Folder { name, names },
                Err(refusal) => refused(refusal),
            };
        }
        match read_file::show(self, path, 0, u64::MAX, &cancel) {
            Ok(ToolOutcome { mut media, content, .. }) => match media.pop() {
                Some(media) => Mentioned::Image { name, media },
                None => Mentioned::File { name, text: content },
            },
            Err(refusal) => refused(refusal),
        }
    }
}

fn refused(refusal: Refusal) -> Mentioned {
    Mentioned::Refused(refusal.message.trim_end_matches('.').to_owned())
}
