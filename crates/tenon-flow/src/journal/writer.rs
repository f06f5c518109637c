//! The one thread that writes: whatever is asked for while a commit runs shares the next one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tenon_core::Timestamp;
use tokio::sync::{oneshot, watch};

use super::error::{Trouble, of_file};
use super::owner::{Owner, RENEW, lease_until};
use super::{JournalError, Lease, millis};

/// How many requests share one commit at most, so that the first does not wait for ever.
const TOGETHER: usize = 512;
/// How often it is looked whether somebody wants a run of ours stopped.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub(super) struct Writer {
    tasks: Sender<Task>,
    path: Arc<Path>,
}

enum Task {
    Write(Box<dyn Work>),
    Hold { run_id: String, held: Held },
    LetGo { run_id: String, owner: String },
}

/// One request: done inside a transaction, told after it.
trait Work: Send {
    fn carry_out(&mut self, tx: &Transaction<'_>) -> Carried;
    fn tell(self: Box<Self>, committed: Result<(), Refused>);
}

/// Whether the request's changes are to be kept.
#[derive(PartialEq, Eq)]
enum Carried {
    Out,
    Refused,
}

/// Why nothing of one transaction was kept: it was shared, and so is the reason.
#[derive(Clone)]
struct Refused {
    path: PathBuf,
    trouble: Trouble,
    why: String,
}

impl Refused {
    fn error(self) -> JournalError {
        let Refused { path, trouble, why } = self;
        JournalError::File { path, trouble, why }
    }
}

struct Request<F, T> {
    work: Option<F>,
    done: Option<Result<T, JournalError>>,
    reply: oneshot::Sender<Result<T, JournalError>>,
}

impl<F, T> Work for Request<F, T>
where
    F: FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send,
    T: Send,
{
    fn carry_out(&mut self, tx: &Transaction<'_>) -> Carried {
        let Some(work) = self.work.take() else { return Carried::Refused };
        let done = work(tx);
        let carried = if done.is_ok() { Carried::Out } else { Carried::Refused };
        self.done = Some(done);
        carried
    }

    fn tell(self: Box<Self>, committed: Result<(), Refused>) {
        let done = match (committed, self.done) {
            (Err(refused), Some(Ok(_)) | None) => Err(refused.error()),
            (_, Some(done)) => done,
            (Ok(()), None) => Err(JournalError::Ended),
        };
        // Whoever asked may have gone away.
        let _ = self.reply.send(done);
    }
}

impl Writer {
    pub fn start(connection: Connection, path: &Path) -> Result<Writer, JournalError> {
        let (tasks, incoming) = channel();
        let path: Arc<Path> = path.into();
        let thread = Thread { connection, path: Arc::clone(&path), held: HashMap::new() };
        std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || thread.run(&incoming))
            .map_err(|error| JournalError::NoThread(error.to_string()))?;
        Ok(Writer { tasks, path })
    }

    /// What `work` returns, once its changes are on the disk.
    pub async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let (reply, answer) = oneshot::channel();
        let request = Request { work: Some(work), done: None, reply };
        self.tasks.send(Task::Write(Box::new(request))).map_err(|_| JournalError::Ended)?;
        answer.await.map_err(|_| JournalError::Ended)?.map_err(|error| error.at(&self.path))
    }

    /// Renews this lease from now on.
    pub fn hold(&self, run_id: String, owner: Owner) -> Lease {
        let (sender, cancelled) = watch::channel(false);
        let answers = watch::channel(0).0;
        let held =
            Held { owner: owner.to_string(), cancelled: sender, answers: answers.clone(), looked_at: 0 };
        let task = Task::Hold { run_id: run_id.clone(), held };
        // A thread that has ended refuses every row, which is where that is told.
        let _ = self.tasks.send(task);
        Lease { run_id, owner, writer: self.clone(), cancelled, answers }
    }

    pub fn release(&self, run_id: &str, owner: &Owner) {
        let (run_id, owner) = (run_id.to_owned(), owner.to_string());
        let _ = self.tasks.send(Task::LetGo { run_id: run_id.clone(), owner: owner.clone() });
        let give_back = move |tx: &Transaction<'_>| {
            let update = "UPDATE runs SET owner = NULL, lease_until = 0 WHERE run_id = ?1 AND owner = ?2";
            tx.execute(update, params![run_id, owner])?;
            Ok(())
        };
        // Nobody waits for it.
        let request = Request { work: Some(give_back), done: None, reply: oneshot::channel().0 };
        let _ = self.tasks.send(Task::Write(Box::new(request)));
    }
}

struct Thread {
    connection: Connection,
    path: Arc<Path>,
    held: HashMap<String, Held>,
}

/// A run that this process has.
struct Held {
    owner: String,
    cancelled: watch::Sender<bool>,
    answers: watch::Sender<u64>,
    /// The last row that was looked at for answers.
    looked_at: i64,
}

impl Thread {
    fn run(mut self, incoming: &Receiver<Task>) {
        let (mut renewed, mut looked) = (Instant::now(), Instant::now());
        loop {
            let first = match self.held.is_empty() {
                true => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => incoming.recv_timeout(LOOK),
            };
            match first {
                Ok(task) => self.together(std::iter::once(task).chain(incoming.try_iter()).take(TOGETHER)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Also while there is always something to write.
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look();
            }
            if renewed.elapsed() >= RENEW {
                renewed = Instant::now();
                self.renew();
            }
        }
    }

    /// Carries out what is there in one transaction. A request that fails takes back its own changes only.
    fn together(&mut self, tasks: impl Iterator<Item = Task>) {
        let mut works = Vec::new();
        for task in tasks {
            match task {
                Task::Write(work) => works.push(work),
                Task::Hold { run_id, held } => {
                    self.held.insert(run_id, held);
                }
                Task::LetGo { run_id, owner } => {
                    if self.held.get(&run_id).is_some_and(|held| held.owner == owner) {
                        self.held.remove(&run_id);
                    }
                }
            }
        }
        let committed = self.commit(&mut works).map_err(|error| match of_file(&self.path, &error) {
            JournalError::File { path, trouble, why } => Refused { path, trouble, why },
            other => {
                Refused { path: self.path.to_path_buf(), trouble: Trouble::Other, why: other.to_string() }
            }
        });
        for work in works {
            work.tell(committed.clone());
        }
    }

    fn commit(&mut self, works: &mut [Box<dyn Work>]) -> Result<(), rusqlite::Error> {
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for work in works {
            tx.execute_batch("SAVEPOINT one")?;
            match work.carry_out(&tx) {
                Carried::Out => tx.execute_batch("RELEASE one")?,
                Carried::Refused => tx.execute_batch("ROLLBACK TO one; RELEASE one")?,
            }
        }
        tx.commit()
    }

    fn renew(&mut self) {
        let until = millis(lease_until(Timestamp::now()));
        for (run_id, Held { owner, .. }) in &self.held {
            // A lease that cannot be renewed is found out with the next row.
            let _ = self.connection.execute(
                "UPDATE runs SET lease_until = ?3 WHERE run_id = ?1 AND owner = ?2",
                params![run_id, owner, until],
            );
        }
    }

    fn look(&mut self) {
        for (run_id, held) in &mut self.held {
            let wanted = self
                .connection
                .prepare_cached("SELECT cancel FROM runs WHERE run_id = ?1")
                .and_then(|mut query| query.query_row([run_id], |row| row.get::<_, bool>(0)));
            if wanted == Ok(true) {
                held.cancelled.send_replace(true);
            }
            // Only where somebody waits.
            if held.answers.receiver_count() > 0
                && let Ok((last, has_answer)) =
                    super::approvals::since(&self.connection, run_id, held.looked_at)
            {
                held.looked_at = last;
                if has_answer {
                    held.answers.send_modify(|count| *count += 1);
                }
            }
        }
    }
}
