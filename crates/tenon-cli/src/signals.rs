//! Ctrl-C, `kill` and a terminal that goes away: the first stops the run in order, the second ends the process at once
//! (`last_words.rs`).
//!
//! The listener has a thread of its own: a run that is stuck writing to someone who does not read must
//! still be stoppable.

use tenon_agent::Stop;
use tenon_core::{Cancel, ErrorClass, Failure, Signal, exit_code};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit_code::exit_now;
use crate::last_words;

/// Listens from now on; what is returned falls with the first signal. Without handlers (which does not happen on Linux)
/// signals keep their defaults.
pub fn listen(stop: Stop) -> Cancel {
    let signalled = Cancel::new();
    let Ok(runtime) = Builder::new_current_thread().enable_io().build() else { return signalled };
    let handlers = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    };
    // A file that may not grow any further is an error to deal with, not the end of the process.
    let _limit = {
        let _inside = runtime.enter();
        signal(SignalKind::from_raw(libc::SIGXFSZ))
    };
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hang_up)) = handlers else { return signalled };
    let first = signalled.clone();
    std::thread::spawn(move || {
        runtime.block_on(async move {
            let mut is_signalled = false;
            loop {
                let (signal, name) = tokio::select! {
                    _ = interrupt.recv() => (Signal::Int, "SIGINT"),
                    _ = terminate.recv() => (Signal::Term, "SIGTERM"),
                    // The terminal is gone: commands have sessions of their own and would live on.
                    _ = hang_up.recv() => (Signal::Term, "SIGHUP"),
                };
                if is_signalled {
                    // First: a run that waited for a command goes on to its own last words when the command is gone.
                    last_words::say();
                    tenon_tools::kill_running_commands();
                    exit_now(exit_code(ErrorClass::Interrupted(signal)));
                }
                is_signalled = true;
                first.cancel();
                last_words::prepare();
                stop.now(Failure::new(
                    ErrorClass::Interrupted(signal),
                    format!("the run was interrupted ({name})"),
                ));
            }
        });
    });
    signalled
}
