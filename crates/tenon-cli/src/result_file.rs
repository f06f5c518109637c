//! `--result-file`: the payload or final text, whole or not at all, and never a stale one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tenon_core::{ErrorClass, Failure, Success};

/// Removes what an earlier run left, and finds out before money is spent whether the file can be written.
pub fn prepare(path: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => return Err(cannot(path, "it is a folder")),
        Ok(_) => fs::remove_file(path).map_err(|error| cannot(path, error))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot(path, error)),
    }
    let trial = beside(path);
    fs::write(&trial, b"").and_then(|()| fs::remove_file(&trial)).map_err(|error| cannot(path, error))
}

pub fn write(path: &Path, success: &Success) -> Result<(), Failure> {
    let unfinished = beside(path);
    let mut text = success.text.clone();
    text.push('\n');
    let written = fs::File::create(&unfinished)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|error| {
        // The error that matters is the first one.
        let _ = fs::remove_file(&unfinished);
        cannot(path, error)
    })
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    path.with_file_name(name)
}

fn cannot(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::new(ErrorClass::Input, format!("`--result-file {}` cannot be written: {why}", path.display()))
}
