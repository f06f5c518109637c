//! `tenon completions` and `tenon man`: made from the same definitions that parse the command line.

use std::io::Write;

use clap::CommandFactory;

use crate::args::Cli;
use crate::stderr::line;

pub fn completions(shell: clap_complete::Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tenon", &mut script);
    print(&script)
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
            line(&format!("error[internal]: stdout could not be written: {error}"));
            1
        }
    }
}
