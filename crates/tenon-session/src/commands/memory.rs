//! `/memory`: the standing instructions that every model is told.

use std::fmt::Write;

use tenon_agent::Memory;
use tenon_core::Failure;

use super::{CommandAnswer, Desk, Words, shown};

pub(super) fn memory(words: &Words<'_>, desk: &mut dyn Desk) -> Result<CommandAnswer, Failure> {
    let (word, text) = words.first();
    match word {
        "show" | "" if text.is_empty() => {
            let files = desk.memory()?;
            if files.is_empty() {
                return Ok(CommandAnswer::message(
                    "There are no standing instructions (`AGENTS.md`, `TENON.md`).",
                ));
            }
            let mut told = summary(&files);
            for file in &files {
                // Writing to a string does not fail.
                let _ = write!(told, "\n\n--- {}\n{}", file.name, file.text.trim_end());
            }
            Ok(CommandAnswer::message(told))
        }
        "add" if !text.is_empty() => {
            let place = desk.add_memory(text)?;
            desk.refresh_memory()?;
            Ok(CommandAnswer::message(format!("It was added to `{place}`, and holds from the next turn on.")))
        }
        "add" => Err(words.wrong("add needs a text")),
        "refresh" if text.is_empty() => Ok(CommandAnswer::message(summary(&desk.refresh_memory()?))),
        "show" | "refresh" => Err(words.wrong(&format!("{word} takes nothing after it"))),
        other => Err(words.wrong(&format!("knows no `{}`", shown(other)))),
    }
}

fn summary(files: &[Memory]) -> String {
    let bytes: usize = files.iter().map(|file| file.text.len()).sum();
    let names: Vec<String> = files.iter().map(|file| format!("`{}`", file.name)).collect();
    match files.len() {
        0 => "No standing instructions are told.".to_owned(),
        1 => format!("Standing instructions of {bytes} bytes are told, from {}.", names.join(", ")),
        count => format!(
            "Standing instructions of {bytes} bytes are told, from {count} files: {}.",
            names.join(", ")
        ),
    }
}
