//! A command in the background: started there, read until it ends, and its end told.
//!
//! Commands that come here from the foreground come by `promote.rs`. Which states a task has, and that it
//! ends only once, is in `tasks.rs`.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use tenon_core::{TaskKind, TaskStatus, ToolOutcome};
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until, timeout};

use crate::args::Refusal;
use crate::exit_status::signal_name;
use crate::output::first_chars;
use crate::shell::{Order, millis};
use crate::shell_output::{Capture, Output};
use crate::shell_run::{End, Launch, Left, Running, Step};
use crate::task_stop::sentence;
use crate::{NewTask, Settled, TaskHandle, Tasks};

/// Between asking a command to end and ending it. Nobody waits for what it has to say any more.
pub(crate) const STOP_GRACE: Duration = Duration::from_millis(200);
/// A command that fails to start properly has done so by then, and the model hears of it at once.
const EARLY: Duration = Duration::from_millis(100);
/// How much of the end of an output the model is told when a command ends.
const TAIL_TOLD: usize = 8_000;
/// How much of a command stands for it.
const DESCRIPTION: usize = 100;

/// Runs a command that nobody waits for.
pub(crate) async fn start(
    launch: Launch<'_>,
    mut capture: Capture,
    order: &Order,
    call_id: &str,
    tasks: &Tasks,
) -> Result<ToolOutcome, Refusal> {
    let unkept =
        |why| Refusal::failed(format!("The command was not started: its output cannot be kept ({why})."));
    let file = capture.keep_in_file().map_err(unkept)?;
    let mut running = match Running::start(launch, capture) {
        Ok(running) => running,
        Err(refusal) => {
            // Nothing will ever be in it.
            let _ = std::fs::remove_file(file);
            return Err(refusal);
        }
    };
    let launched = Launched { order, call_id, tasks };
    let handle = match tasks.start(launched.task(Some(&file))) {
        Ok(handle) => handle,
        Err(error) => {
            running.stop(sleep(STOP_GRACE)).await;
            running.taker.close();
            let _ = std::fs::remove_file(file);
            return Err(Refusal::failed(format!("The command was stopped again: {error}.")));
        }
    };
    let pid = running.pid();
    let id = handle.id().to_owned();
    let limit = order.background_timeout;
    let state = State::soon(follow(running, handle, launched.description(), limit)).await;
    let now = match &state {
        State::Runs => format!("The command runs in the background as {id} (process {pid})."),
        State::Ended(ended) => format!(
            "The command ran in the background as {id} (process {pid}) and has ended already: it {}.",
            ended.how
        ),
    };
    let text = format!("{now}\n{}", state.guidance(&id, Some(&file)));
    let shown = format!("{id} runs in the background (process {pid}).");
    Ok(ToolOutcome { display: Some(state.shown(&id).unwrap_or(shown)), ..ToolOutcome::ok(text) })
}

/// A command on its way to the background, and where from.
#[derive(Clone, Copy)]
pub(crate) struct Launched<'a> {
    pub order: &'a Order,
    pub call_id: &'a str,
    pub tasks: &'a Tasks,
}

impl Launched<'_> {
    pub fn task(&self, file: Option<&Path>) -> NewTask {
        NewTask {
            agent_type: None,
            kind: TaskKind::Shell,
            call_id: Some(self.call_id.to_owned()),
            description: self.description(),
            output_file: file.map(Path::to_owned),
        }
    }

    pub fn description(&self) -> String {
        describe(self.order.description.as_deref(), &self.order.command)
    }
}

/// One line: what somebody says a command is for, or its beginning.
pub(crate) fn describe(description: Option<&str>, command: &str) -> String {
    let text = description.map(str::trim).filter(|text| !text.is_empty()).unwrap_or(command.trim());
    let line = text.lines().next().unwrap_or_default();
    let shown = first_chars(line, DESCRIPTION);
    if shown.len() == text.len() { shown.to_owned() } else { format!("{shown} …") }
}

/// How a command ended whose call was still open.
pub(crate) struct Early {
    pub how: String,
    pub output: Output,
}

/// What is known of a command when its call is answered.
pub(crate) enum State {
    Runs,
    Ended(Early),
}

impl State {
    /// Waits a moment, so that the model is told of a command that ends at once in the answer to its call.
    pub async fn soon(mut follow: oneshot::Receiver<Early>) -> State {
        if let Ok(Ok(early)) = timeout(EARLY, &mut follow).await {
            return State::Ended(early);
        }
        // From here on the end is told by a notice; what was sent before that is told now.
        follow.close();
        follow.try_recv().map_or(State::Runs, State::Ended)
    }

    /// Where its output is, and what to do next.
    pub fn guidance(&self, id: &str, file: Option<&Path>) -> String {
        let mut lines = Vec::new();
        match (file, self) {
            (Some(file), State::Runs) => lines.push(format!(
                "Its output goes to {}\nLook at it with read_file or grep_search.",
                file.display()
            )),
            (Some(file), State::Ended(_)) => lines.push(format!("Its output is in {}", file.display())),
            (None, _) => {}
        }
        match self {
            State::Runs => lines.push(format!(
                "You are told when it ends. To stop it, call task_stop with the task_id {id}."
            )),
            State::Ended(early) => {
                lines.push("There is nothing to stop, and no further notice will come.".to_owned());
                lines.extend(lost(&early.output));
                lines.push(match early.output.shown.as_str() {
                    "" => "It printed nothing.".to_owned(),
                    shown => format!("It printed:\n{shown}"),
                });
            }
        }
        lines.join("\n")
    }

    /// For clients, where it is over.
    pub fn shown(&self, id: &str) -> Option<String> {
        match self {
            State::Runs => None,
            State::Ended(early) => Some(format!("{id} {}.", early.how)),
        }
    }
}

/// Reads a command to its end, whoever listens, and settles its task. The receiver, as long as somebody
/// holds it, gets the end instead of the model.
pub(crate) fn follow(
    running: Running<Capture>,
    handle: TaskHandle,
    description: String,
    limit: Option<Duration>,
) -> oneshot::Receiver<Early> {
    let (early, receiver) = oneshot::channel();
    tokio::spawn(follow_to_the_end(running, handle, description, limit, early));
    receiver
}

async fn follow_to_the_end(
    mut running: Running<Capture>,
    handle: TaskHandle,
    description: String,
    limit: Option<Duration>,
    early: oneshot::Sender<Early>,
) {
    let (verdict, left) = match read(&mut running, &handle, limit).await {
        Reason::Stopped => {
            // The task has been settled by whoever stopped it. It is released when nothing is left of it.
            running.stop(sleep(STOP_GRACE)).await;
            running.taker.close();
            return;
        }
        Reason::TimedOut(limit) => {
            let left = running.stop(sleep(STOP_GRACE)).await;
            let how = format!("was stopped after {} ms", millis(limit));
            (Verdict { status: TaskStatus::Failed, how }, left)
        }
        Reason::Ended(end) => {
            let left = running.clear_up(sleep(STOP_GRACE)).await;
            (Verdict::of(&Facts::of(&end)), left)
        }
    };
    // The file is whole before anybody can hear that the command has ended.
    let output = running.taker.close();
    let Verdict { status, how } = verdict;
    let settled = Settled {
        status,
        summary: format!("Background shell {} ({description}) {how}.", handle.id()),
        detail: detail(&output, left),
        usage: None,
        tool_calls: 0,
    };
    match early.send(Early { how, output }) {
        Ok(()) => handle.settle_quietly(settled),
        Err(_) => handle.settle(settled),
    }
}

enum Reason {
    Ended(End),
    TimedOut(Duration),
    Stopped,
}

async fn read(running: &mut Running<Capture>, handle: &TaskHandle, limit: Option<Duration>) -> Reason {
    let deadline = running.started + limit.unwrap_or_default();
    loop {
        tokio::select! {
            biased;
            () = handle.cancel().cancelled() => return Reason::Stopped,
            () = sleep_until(deadline), if limit.is_some() => {
                return Reason::TimedOut(limit.unwrap_or_default());
            }
            step = running.step() => {
                if let Step::Ended(end) = step {
                    return Reason::Ended(end);
                }
            }
        }
    }
}

/// What the system tells of an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub error: Option<String>,
    pub signal: Option<i32>,
    pub code: Option<i32>,
}

impl Facts {
    pub fn of(end: &End) -> Facts {
        match end {
            End::Exited(status) => Facts { error: None, signal: status.signal(), code: status.code() },
            End::Lost(error) => Facts { error: Some(error.to_string()), ..Facts::default() },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub status: TaskStatus,
    /// The rest of a sentence about the command.
    pub how: String,
}

impl Verdict {
    /// What an end means. A command that was stopped never gets here.
    pub fn of(facts: &Facts) -> Verdict {
        let (status, how) = match facts {
            Facts { error: Some(error), .. } => {
                (TaskStatus::Failed, format!("got lost, and how it ended is not known: {error}"))
            }
            Facts { signal: Some(signal), .. } => {
                (TaskStatus::Failed, format!("was terminated by signal {}", signal_name(*signal)))
            }
            Facts { code: Some(0), .. } => (TaskStatus::Completed, "exited with code 0".to_owned()),
            Facts { code: Some(code), .. } => (TaskStatus::Failed, format!("exited with code {code}")),
            Facts { error: None, signal: None, code: None } => {
                tracing::warn!("a command ended with neither an exit code nor a signal nor an error");
                (TaskStatus::Failed, "ended with neither an exit code nor a signal".to_owned())
            }
        };
        Verdict { status, how }
    }
}

/// What the model is told of the output when a command has ended.
fn detail(output: &Output, left: Left) -> String {
    let tail = output.tail(TAIL_TOLD);
    let told = match tail {
        "" => "It printed nothing.".to_owned(),
        tail => format!("The end of its output:\n{tail}"),
    };
    let notes = [lost(output), left.note().map(str::to_owned)];
    notes.into_iter().flatten().chain([told]).collect::<Vec<_>>().join("\n")
}

fn lost(output: &Output) -> Option<String> {
    let lost = output.lost.as_ref()?;
    Some(format!(
        "Note: {} bytes of its output ({} pieces) could not be kept: {}",
        lost.bytes,
        lost.chunks,
        sentence(&lost.why)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_means_this() {
        let facts =
            |error: Option<&str>, signal, code| Facts { error: error.map(str::to_owned), signal, code };
        let table = [
            (facts(Some("no such child"), None, None), TaskStatus::Failed, "got lost"),
            (facts(Some("no such child"), Some(9), Some(0)), TaskStatus::Failed, "got lost"),
            (facts(None, Some(15), None), TaskStatus::Failed, "was terminated by signal SIGTERM"),
            (facts(None, Some(9), Some(0)), TaskStatus::Failed, "was terminated by signal SIGKILL"),
            (facts(None, None, Some(0)), TaskStatus::Completed, "exited with code 0"),
            (facts(None, None, Some(3)), TaskStatus::Failed, "exited with code 3"),
            (facts(None, None, None), TaskStatus::Failed, "ended with neither"),
        ];
        for (facts, status, how) in table {
            let verdict = Verdict::of(&facts);
            assert!(verdict.status == status && verdict.how.starts_with(how), "{facts:?}: {verdict:?}");
        }
    }

    #[test]
    fn a_description_is_one_short_line() {
        assert_eq!(describe(Some("  "), "cargo test\necho done"), "cargo test …");
        assert_eq!(describe(Some("run the tests"), "cargo test"), "run the tests");
        assert_eq!(describe(None, &"x".repeat(200)), format!("{} …", "x".repeat(100)));
    }
}
