//! `--result-file`: the payload or final text, whole or not at all, and never a stale one. Other flags that name a file to be
//! written take the same care.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tenon_core::{ErrorClass, Failure, Success};

/// Modes of files, before what the user's mask takes away.
const ANYONE: u32 = 0o666;
const OWNER: u32 = 0o600;

#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
    /// As it was typed, for messages.
    named: PathBuf,
    flag: &'static str,
}

impl ResultFile {
    pub fn new(named: &Path, started_in: &Path) -> ResultFile {
        ResultFile::of("--result-file", named, started_in)
    }

    /// The file of another flag.
    pub fn of(flag: &'static str, named: &Path, started_in: &Path) -> ResultFile {
        ResultFile { path: started_in.join(named), named: named.to_owned(), flag }
    }

    /// Fails if the file is one that this run reads or writes otherwise: preparing it would destroy that.
    pub fn differs_from<'a>(
        &self,
        others: impl IntoIterator<Item = (&'static str, &'a Path)>,
    ) -> Result<(), Failure> {
        let place = |path: &Path| {
            let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
            path.canonicalize().ok().or_else(|| Some(folder?.join(path.file_name()?)))
        };
        let mine = place(&self.path);
        match others.into_iter().find(|(_, other)| mine.is_some() && place(other) == mine) {
            None => Ok(()),
            Some((flag, _)) => Err(Failure::new(
                ErrorClass::Usage,
                format!("`--result-file` and `{flag}` name the same file: {}", self.named.display()),
            )
            .hint("the result file is removed first, so it must be a file of its own")),
        }
    }

    /// Removes what an earlier run left, and finds out before money is spent whether the file can be
    /// written.
    pub fn prepare(&self) -> Result<(), Failure> {
        self.check_kind()?;
        match fs::symlink_metadata(&self.path) {
            Ok(_) => fs::remove_file(&self.path).map_err(|error| self.cannot(error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(self.cannot(error)),
        }
        let trial = self.beside();
        fs::write(&trial, b"").and_then(|()| fs::remove_file(&trial)).map_err(|error| self.cannot(error))
    }

    /// Only a file may be taken away: never a device, a pipe or a folder.
    pub fn check_kind(&self) -> Result<(), Failure> {
        if self.named.as_os_str().as_encoded_bytes().ends_with(b"/") || self.path.file_name().is_none() {
            return Err(self.cannot("it names a folder"));
        }
        match fs::metadata(&self.path) {
            Ok(meta) if meta.is_dir() => Err(self.cannot("it is a folder")),
            Ok(meta) if !meta.is_file() => Err(self.cannot("it is not a regular file")),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    pub fn write(&self, success: &Success) -> Result<(), Failure> {
        self.write_text(&format!("{}\n", success.text))
    }

    pub fn write_text(&self, text: &str) -> Result<(), Failure> {
        self.write_with(text, ANYONE)
    }

    /// For what only its owner may read.
    pub fn write_private(&self, text: &str) -> Result<(), Failure> {
        self.write_with(text, OWNER)
    }

    fn write_with(&self, text: &str, mode: u32) -> Result<(), Failure> {
        let unfinished = self.beside();
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&unfinished)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&unfinished, &self.path));
        written.map_err(|error| {
            // The error that matters is the first one.
            let _ = fs::remove_file(&unfinished);
            self.cannot(error)
        })
    }

    fn beside(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.unfinished", std::process::id()));
        self.path.with_file_name(name)
    }

    fn cannot(&self, why: impl std::fmt::Display) -> Failure {
        let named = self.named.display();
        Failure::new(ErrorClass::Input, format!("`{} {named}` cannot be written: {why}", self.flag))
    }
}
