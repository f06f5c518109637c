//! `/clear` and `/chat`: what becomes of the conversation as a whole. Saved chats are files of `chats.rs`.

use std::fmt::Write;

use tenon_core::Failure;

use super::{CommandAnswer, Desk, Form, ListedCommand, Words, counted, refused, shown};
use crate::SavedChat;

pub(super) async fn clear(words: &Words<'_>, desk: &mut dyn Desk) -> Result<CommandAnswer, Failure> {
    words.none()?;
    if desk.history().is_empty() {
        return Ok(CommandAnswer::message("The conversation is empty already."));
    }
    desk.replace_history(Vec::new()).await?;
    desk.start_over();
    Ok(CommandAnswer::message("The conversation was cleared."))
}

pub(super) async fn chat(words: &Words<'_>, desk: &mut dyn Desk) -> Result<CommandAnswer, Failure> {
    let (word, tag) = words.first();
    match word {
        "list" | "" if tag.is_empty() => list(desk),
        "save" if !tag.is_empty() => {
            let chats = desk.saved_chats()?;
            chats.check(tag)?;
            if desk.history().is_empty() {
                return Err(refused("there is nothing to save: the conversation is empty".to_owned()));
            }
            let messages = chats.save(tag, desk.history())?;
            Ok(CommandAnswer::message(format!(
                "The conversation was saved as `{tag}` ({}).",
                counted(messages, "message")
            )))
        }
        "resume" if tag.is_empty() => choose(desk),
        "resume" => {
            let history = desk.saved_chats()?.load(tag)?;
            let messages = history.len();
            desk.replace_history(history).await?;
            desk.start_over();
            Ok(CommandAnswer::message(format!(
                "The conversation goes on from `{tag}` ({}).",
                counted(messages, "message")
            )))
        }
        "delete" if !tag.is_empty() => {
            desk.saved_chats()?.delete(tag)?;
            Ok(CommandAnswer::message(format!("`{tag}` was deleted.")))
        }
        "save" | "delete" => Err(words.wrong(&format!("{word} needs a tag"))),
        "list" => Err(words.wrong("list takes nothing after it")),
        other => Err(words.wrong(&format!("knows no `{}`", shown(other)))),
    }
}

fn list(desk: &dyn Desk) -> Result<CommandAnswer, Failure> {
    let chats = desk.saved_chats()?.list()?;
    let messages = desk.history().len();
    let mut text = format!("The current session has {}.", counted(messages, "history record"));
    match chats.len() {
        0 => text.push_str(" No chats of this folder are saved."),
        _ => text.push_str(" Saved chats of this folder:"),
    }
    for chat in &chats {
        // Writing to a string does not fail.
        let _ = write!(text, "\n  {} - {}", chat.tag, described(chat));
    }
    Ok(CommandAnswer::message(text))
}

fn choose(desk: &dyn Desk) -> Result<CommandAnswer, Failure> {
    let chats = desk.saved_chats()?.list()?;
    let content = match chats.len() {
        0 => "No chats of this folder are saved.",
        _ => "`/chat resume TAG` takes one of these up.",
    };
    let items = chats
        .iter()
        .map(|chat| ListedCommand {
            name: chat.tag.clone(),
            description: described(chat),
            argument_hint: String::new(),
        })
        .collect();
    Ok(CommandAnswer {
        form: Form::Dialog { dialog: "chat resume", items },
        ..CommandAnswer::message(content)
    })
}

fn described(chat: &SavedChat) -> String {
    format!("{}, saved {}", counted(chat.messages, "message"), chat.saved)
}
