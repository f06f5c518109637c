//! The journal's tables, and how a connection to them is made.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::JournalError;

/// Marks the file as ours: `tnon` in ASCII.
const APPLICATION_ID: i64 = 0x746e_6f6e;
const FORMAT: i64 = 1;
/// It holds whole conversations: nobody else reads or writes it.
const OWNER_ONLY: u32 = 0o600;
const OTHERS: u32 = 0o077;
/// How long a commit waits for one of another process. Theirs are short.
const BUSY: Duration = Duration::from_secs(20);
/// How long a process that finds the file being made waits before it looks again.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// A step is completed once, whatever happens: the index says so.
const TABLES: &str = "
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    document_hash TEXT NOT NULL,
    document TEXT NOT NULL,
    inputs TEXT NOT NULL,
    cwd TEXT NOT NULL,
    status TEXT NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    cost_usd REAL,
    owner TEXT,
    lease_until INTEGER NOT NULL,
    cancel INTEGER NOT NULL
);
CREATE INDEX runs_by_time ON runs (created DESC, run_id, name, status, updated, cost_usd, owner, lease_until);
CREATE TABLE events (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX one_end ON events (run_id, key) WHERE kind IN ('completed', 'failed');
";

pub(super) fn connect(path: &Path) -> Result<Connection, JournalError> {
    let unusable = |error| JournalError::Unusable { path: path.to_owned(), error };
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unusable)?;
    }
    // Made by us, so that nobody else may read it from the first moment; SQLite gives its side files the same mode. A
    // file that is there is not opened here: closing it again would take away the locks of this process's connections.
    match OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(unusable(error)),
        Ok(_) | Err(_) => {}
    }
    if !path.metadata().map_err(unusable)?.is_file() {
        return Err(unusable(Error::new(ErrorKind::InvalidInput, "it is not a regular file")));
    }
    for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        keep_from_others(&file).map_err(|error| JournalError::Exposed { path: file, error })?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let of_file = |error| JournalError::Database(error).at(path);
    let mut connection = Connection::open_with_flags(path, flags).map_err(of_file)?;
    connection.busy_timeout(BUSY).map_err(of_file)?;
    if connection.is_readonly("main").map_err(of_file)? {
        return Err(unusable(ErrorKind::PermissionDenied.into()));
    }
    let since = Instant::now();
    let mut prepared = prepare(&mut connection, path);
    // Whoever turns a new file into a journal keeps others out, and SQLite does not wait for that by itself.
    while prepared.as_ref().is_err_and(is_busy) && since.elapsed() < BUSY {
        std::thread::sleep(ASK_AGAIN);
        prepared = prepare(&mut connection, path);
    }
    prepared.map_err(|error| match &error {
        JournalError::Database(rusqlite::Error::SqliteFailure(failure, _))
            if failure.code == rusqlite::ErrorCode::NotADatabase =>
        {
            JournalError::Foreign { path: path.to_owned() }
        }
        _ => error.at(path),
    })?;
    Ok(connection)
}

fn is_busy(error: &JournalError) -> bool {
    matches!(error, JournalError::Database(rusqlite::Error::SqliteFailure(failure, _))
        if failure.code == rusqlite::ErrorCode::DatabaseBusy)
}

/// A file that SQLite keeps next to the journal.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// One that was copied here, or restored, may have come with other permissions than it was made with.
fn keep_from_others(file: &Path) -> Result<(), Error> {
    match file.metadata() {
        Ok(found) if found.permissions().mode() & OTHERS != 0 => {
            std::fs::set_permissions(file, Permissions::from_mode(OWNER_ONLY))
        }
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn prepare(connection: &mut Connection, path: &Path) -> Result<(), JournalError> {
    let number = |connection: &Connection, pragma: &str| -> Result<i64, JournalError> {
        Ok(connection.pragma_query_value(None, pragma, |row| row.get(0))?)
    };
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // What is deleted is overwritten.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    if number(connection, "user_version")? == 0 {
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        // Somebody else may have made the tables while we waited.
        if number(&tx, "user_version")? == 0 {
            let tables: i64 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables > 0 {
                return Err(JournalError::Foreign { path: path.to_owned() });
            }
            tx.execute_batch(TABLES)?;
            tx.pragma_update(None, "application_id", APPLICATION_ID)?;
            tx.pragma_update(None, "user_version", FORMAT)?;
        }
        tx.commit()?;
    }
    if number(connection, "application_id")? != APPLICATION_ID {
        return Err(JournalError::Foreign { path: path.to_owned() });
    }
    match number(connection, "user_version")? {
        FORMAT => Ok(()),
        found => Err(JournalError::Newer { path: path.to_owned(), found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_while_another_makes_the_file_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        std::fs::write(&path, "").unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        std::thread::scope(|scope| {
            let made = scope.spawn(|| connect(&path).map(|_| ()));
            // However late the other is, it finds the file: this only makes it likely that it has to wait.
            std::thread::sleep(Duration::from_millis(50));
            other.execute_batch("COMMIT").unwrap();
            made.join().unwrap().unwrap();
        });
    }
}
