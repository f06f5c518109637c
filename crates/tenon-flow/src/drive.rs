//! The loop between the interpreter and whoever does the work.

use crate::{Action, DurableRun, Interpreter, Stopped, WorkflowOutcome};

/// Runs a workflow to its end on a journal.
pub async fn drive(mut interpreter: Interpreter, run: &mut impl DurableRun) -> WorkflowOutcome {
    if run.recalls() {
        interpreter.recall();
    }
    let now = run.now().await;
    perform(interpreter.begin(now), run);
    let (mut stopping, mut last) = (false, now);
    loop {
        if !run.recalls() {
            perform(interpreter.present(last), run);
        }
        if let Some(outcome) = interpreter.outcome() {
            return outcome.clone();
        }
        let stopped = match run.next().await {
            Ok(Some(completion)) => {
                last = completion.at;
                perform(interpreter.complete(&completion), run);
                continue;
            }
            // Everything that was started is over, and steps still wait: the journal lost something.
            Ok(None) => Stopped::Broken("steps are waiting for something that nobody is doing".to_owned()),
            Err(stopped) => stopped,
        };
        let now = run.now().await;
        if stopping {
            // Told a second time: nobody waits for what does not stop.
            perform(interpreter.abandon(now), run);
        } else {
            stopping = true;
            perform(interpreter.stop(&stopped, now), run);
        }
    }
}

fn perform(actions: Vec<Action>, run: &mut impl DurableRun) {
    for action in actions {
        match action {
            Action::Start { key, request } => run.start(key, request),
            Action::Cancel { key } => run.cancel(&key),
            Action::Tell(notice) => run.tell(notice),
        }
    }
}
