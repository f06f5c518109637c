//! What the agents told each other: messages with what became of them, the shared memory, the coordinator. Their words only where
//! they are wanted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::html::{moment, money, number, payload, text};
use super::{Payloads, steps};
use crate::message::Address;
use crate::{CoordinatorView, MessageFate, MessageType, MessageView, NoteView, RunView};

/// Messages and notes of a page. More nobody reads; all of them are in the journal.
const MAX_SHOWN: usize = 500;

pub(super) fn section(page: &mut String, view: &RunView, payloads: Payloads) {
    let talk = &view.talk;
    if !talk.messages.is_empty() {
        let _ = write!(
            page,
            "<section aria-labelledby=\"messages-heading\">\n<h2 id=\"messages-heading\">Messages</h2>\n<ol class=\"talk\">\n"
        );
        talk.messages.iter().take(MAX_SHOWN).for_each(|shown| message(page, view, shown, payloads));
        page.push_str("</ol>\n");
        more(page, talk.messages.len(), "messages");
        page.push_str("</section>\n");
    }
    if !talk.memory.is_empty() {
        memory(page, &talk.memory, payloads);
    }
    if let Some(shown) = &talk.coordinator {
        coordinator(page, shown, payloads);
    }
}

fn message(page: &mut String, view: &RunView, message: &MessageView, payloads: Payloads) {
    let (class, sign) = match message.fate {
        MessageFate::Read(_) => ("completed", '✓'),
        MessageFate::Dropped(_) => ("failed", '✕'),
        MessageFate::Waiting => ("waiting", '○'),
    };
    let kind = match message.msg_type {
        MessageType::Info => "message",
        MessageType::ContextUpdate => "context update",
        MessageType::Cancel => "order to stop",
    };
    let to = match payloads == Payloads::Shown || message.is_known {
        true => who(view, &message.to),
        false => text(&message.safe_to()),
    };
    let why = message.fate.reason().map(|reason| format!(": {}", reason.name())).unwrap_or_default();
    // A `String` takes everything.
    let _ = writeln!(
        page,
        "<li class=\"{class}\">\n<p>{} → {} <span class=\"badge {class}\"><span aria-hidden=\"true\">{sign}</span> {}{why}</span>\
         <span class=\"fact\">{kind}</span><span class=\"fact\"><code>{}</code></span><span class=\"fact\">{}</span></p>",
        who(view, &message.from),
        to,
        message.fate.name(),
        text(&message.id),
        moment(message.sent),
    );
    if payloads == Payloads::Shown {
        payload(page, 3, "Text", &message.text);
    }
    page.push_str("</li>\n");
}

/// A step by its id, which leads to it where it is on the page.
fn who(view: &RunView, address: &Address) -> String {
    let name = format!("<code>{}</code>", text(&address.to_string()));
    let Some(id) = address.step_id() else { return name };
    match view.steps.iter().position(|step| step.id == id).filter(|index| steps::is_shown(view, *index)) {
        Some(index) => format!("<a href=\"#{}\">{name}</a>", steps::anchor(index)),
        None => name,
    }
}

fn memory(page: &mut String, notes: &[NoteView], payloads: Payloads) {
    page.push_str(
        "<section aria-labelledby=\"memory-heading\">\n<h2 id=\"memory-heading\">Shared memory</h2>\n",
    );
    if payloads == Payloads::Shown {
        for note in notes.iter().take(MAX_SHOWN) {
            payload(page, 3, &note.key, &note.value);
        }
        more(page, notes.len(), "entries");
    } else {
        // Keys are words of a model too.
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        notes.iter().for_each(|note| *counts.entry(note.agent()).or_default() += 1);
        for (agent, count) in counts {
            let entries = if count == 1 { "entry" } else { "entries" };
            let _ =
                writeln!(page, "<p>{} {entries} of <code>{}</code></p>", number(count as u64), text(agent));
        }
    }
    page.push_str("</section>\n");
}

fn coordinator(page: &mut String, shown: &CoordinatorView, payloads: Payloads) {
    let spent = &shown.spent;
    let _ = writeln!(
        page,
        "<section aria-labelledby=\"coordinator-heading\">\n<h2 id=\"coordinator-heading\">Coordinator</h2>\n\
         <p>{} turns, {} tokens, {}</p>",
        number(u64::from(spent.turns)),
        number(spent.usage.total),
        match spent.cost_usd {
            Some(_) => money(spent.cost_usd),
            None => "cost unknown".to_owned(),
        },
    );
    if payloads == Payloads::Shown {
        if let Some(summary) = shown.summary.as_ref().filter(|summary| !summary.is_empty()) {
            payload(page, 3, "Summary", summary);
        }
        page.push_str(
            "<details class=\"step\">\n<summary><h3>What it said</h3></summary>\n<div class=\"inside\">\n",
        );
        for (index, turn) in shown.turns.iter().enumerate() {
            steps::turn(page, turn, &format!("Turn {}", index + 1));
        }
        page.push_str("</div>\n</details>\n");
    }
    page.push_str("</section>\n");
}

fn more(page: &mut String, count: usize, what: &str) {
    let more = count.saturating_sub(MAX_SHOWN);
    if more > 0 {
        let _ = writeln!(page, "<p class=\"note\">{} more {what} are not shown.</p>", number(more as u64));
    }
}
