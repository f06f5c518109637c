//! The way of a running command from the foreground to the background.
//!
//! The command, its pipes, its decoders and what it has written so far change hands as one value, so nothing
//! is lost, doubled or reordered. What happens to it afterwards is in `background.rs`.

use tenon_core::{ToolErrorKind, ToolOutcome};
use tokio::time::sleep;

use crate::PromoteError;
use crate::background::{self, Launched, STOP_GRACE, State};
use crate::shell_output::Capture;
use crate::shell_run::Running;
use crate::task_stop::sentence;
use crate::tasks::PromoteReply;

/// Answers the call and, if somebody asked for it, whoever did.
pub(crate) async fn promote(
    mut running: Running<Capture>,
    launched: Launched<'_>,
    reply: Option<PromoteReply>,
) -> ToolOutcome {
    let answer = |answer| {
        if let Some(reply) = reply {
            // Whoever asked may have gone.
            let _ = reply.send(answer);
        }
    };
    running.catch_up().await;
    let file = running.taker.keep_in_file();
    let handle = match launched.tasks.start(launched.task(file.as_deref().ok())) {
        Ok(handle) => handle,
        Err(error) => {
            // Nobody would look after it, and nobody could stop it.
            running.stop(sleep(STOP_GRACE)).await;
            answer(Err(PromoteError::Refused(error.to_string())));
            return ToolOutcome::error(
                ToolErrorKind::Failed,
                format!(
                    "The command could not be put in the background, so it was stopped: {error}.\n{}",
                    until_then(&running.taker.finish())
                ),
            );
        }
    };
    let id = handle.id().to_owned();
    let pid = running.pid();
    let so_far = running.taker.so_far();
    answer(Ok(id.clone()));
    let state = State::soon(background::follow(running, handle, launched.description(), None)).await;
    let now = match &state {
        State::Runs => "It still runs.".to_owned(),
        State::Ended(ended) => format!("It {} since.", ended.how),
    };
    let mut text = format!("The command was put in the background as {id} (process {pid}). {now}\n");
    if let Err(why) = &file {
        text.push_str(&format!("What it prints cannot be kept: {}\n", sentence(why)));
    }
    text.push_str(&state.guidance(&id, file.as_deref().ok()));
    if matches!(state, State::Runs) {
        text.push('\n');
        text.push_str(&until_then(&so_far));
    }
    let shown = state.shown(&id).unwrap_or_else(|| format!("The command goes on in the background as {id}."));
    ToolOutcome { display: Some(shown), ..ToolOutcome::ok(text) }
}

fn until_then(output: &str) -> String {
    match output {
        "" => "It had printed nothing until then.".to_owned(),
        output => format!("Its output until then:\n{output}"),
    }
}
