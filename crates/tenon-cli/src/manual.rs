//! `tenon completions` and `tenon man`: made from the same definitions that parse the command line.

use std::io::Write;

use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::stderr::line;

pub fn completions(shell: clap_complete::Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut offered(), "tenon", &mut script);
    print(&script)
}

/// The command line without what is hidden: completion scripts would offer it.
fn offered() -> Command {
    shown_of(&Cli::command())
}

fn shown_of(command: &Command) -> Command {
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    // Leaked: the library wants names that live as long as the process, which ends after this.
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .about(command.get_about().cloned().unwrap_or_default())
        .args(shown.cloned())
        .subcommands(command.get_subcommands().map(shown_of))
}

pub fn man() -> u8 {
    let mut page = Vec::new();
    match clap_mangen::Man::new(Cli::command()).render(&mut page) {
        Ok(()) => print(&page),
        Err(error) => {
            line(&format!("error[internal]: the manual page could not be made: {error}"));
            1
        }
    }
}

/// Writes a command's whole output. A reader that left early has what it wanted.
pub fn print(bytes: &[u8]) -> u8 {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => 0,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            line(&format!("error[output]: stdout could not be written: {error}"));
            1
        }
    }
}
