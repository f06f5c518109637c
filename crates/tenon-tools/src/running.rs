//! The commands that run at this moment, so that none outlives the program: neither a call that is
//! dropped half-way, nor an end that waits for nothing. A program that is killed is `command_book.rs`'s.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::CommandBook;
use crate::command_book::NotedCommand;
use crate::sys::ProcessGroup;

static RUNNING: Mutex<Vec<ProcessGroup>> = Mutex::new(Vec::new());

/// Ends every command at once. For a process that is about to exit without putting its things away.
pub fn kill_running_commands() {
    running().drain(..).for_each(ProcessGroup::kill);
}

/// Ends the group when it is dropped, unless it was let go.
pub(crate) struct GroupGuard {
    pub group: ProcessGroup,
    noted: Mutex<Option<NotedCommand>>,
}

impl GroupGuard {
    pub fn new(group: ProcessGroup) -> GroupGuard {
        running().push(group);
        GroupGuard { group, noted: Mutex::new(None) }
    }

    /// Written down too, for whoever comes after a program that is killed.
    pub fn noted(group: ProcessGroup, book: Option<&CommandBook>) -> GroupGuard {
        let guard = GroupGuard::new(group);
        *guard.noted.lock().unwrap_or_else(PoisonError::into_inner) = book.and_then(|book| book.note(group));
        guard
    }

    /// There is nothing left to end; the id may soon be somebody else's.
    pub fn let_go(&self) {
        running().retain(|group| *group != self.group);
        *self.noted.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        let mut running = running();
        if let Some(at) = running.iter().position(|group| *group == self.group) {
            running.swap_remove(at).kill();
        }
    }
}

fn running() -> MutexGuard<'static, Vec<ProcessGroup>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
