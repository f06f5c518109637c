//! What `tenon flow show` says of messages, the shared memory and the coordinator: who, whom, when and what became of it; their
//! words, and the keys of entries, which are words of a model too, only where they are asked for.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tenon_core::Timestamp;
use tenon_flow::{MessageFate, MessageView, NoteView, TalkView, Tokens};

use crate::flow_runs::{Shown, indented, used};

pub fn text(talk: &TalkView, shown: Shown) -> String {
    let mut text = String::new();
    if !talk.messages.is_empty() {
        text.push_str("\nmessages\n");
    }
    for message in &talk.messages {
        let (MessageView { id, from, .. }, to) = (message, to(message, shown));
        let why = message.fate.reason().map(|reason| format!(": {}", reason.name())).unwrap_or_default();
        // A `String` takes everything.
        let _ = writeln!(text, "  {id} from {from} to {to}: {}{why}", message.fate.name());
        if shown == Shown::Everything {
            let _ = writeln!(text, "{}", indented(&message.text, ""));
        }
    }
    match (talk.memory.len(), shown) {
        (0, _) => {}
        (count, Shown::NoPayloads) => {
            let _ = writeln!(text, "\nshared memory\n  {count} entr{}", if count == 1 { "y" } else { "ies" });
        }
        (_, Shown::Everything) => {
            text.push_str("\nshared memory\n");
            for NoteView { key, value, .. } in &talk.memory {
                let _ = writeln!(text, "  {key}\n{}", indented(value, ""));
            }
        }
    }
    if let Some(coordinator) = &talk.coordinator {
        let turns = coordinator.spent.turns;
        let plural = if turns == 1 { "" } else { "s" };
        let _ = writeln!(text, "\ncoordinator\n  {turns} turn{plural} · {}", used(&coordinator.spent));
        if let Some(summary) = coordinator.summary.as_ref().filter(|_| shown == Shown::Everything) {
            let _ = writeln!(text, "{}", indented(summary, ""));
        }
    }
    text
}

fn to(message: &MessageView, shown: Shown) -> String {
    match shown {
        Shown::Everything => message.to.to_string(),
        Shown::NoPayloads => message.safe_to(),
    }
}

/// The members of a run's object.
pub fn add_json(run: &mut Value, talk: &TalkView, shown: Shown) {
    let message = |message: &MessageView| {
        let read = match message.fate {
            MessageFate::Read(at) => Some(at.to_iso8601()),
            MessageFate::Dropped(_) | MessageFate::Waiting => None,
        };
        let mut json = json!({
            "id": message.id, "from": message.from.to_string(), "to": to(message, shown),
            "msg_type": message.msg_type, "sent": message.sent.to_iso8601(), "status": message.fate.name(),
            "read": read, "reason": message.fate.reason(),
        });
        if shown == Shown::Everything {
            json["text"] = json!(message.text);
        }
        json
    };
    run["messages"] = talk.messages.iter().map(message).collect();
    let entry = |note: &NoteView| {
        let mut json = json!({ "agent": note.agent(), "written": Timestamp::to_iso8601(note.written) });
        if shown == Shown::Everything {
            (json["key"], json["value"]) = (json!(note.key), json!(note.value));
        }
        json
    };
    run["shared_memory"] = talk.memory.iter().map(entry).collect();
    run["coordinator"] = talk.coordinator.as_ref().map_or(Value::Null, |coordinator| {
        let spent = &coordinator.spent;
        let mut json =
            json!({ "turns": spent.turns, "usage": Tokens::from(spent.usage), "cost": spent.cost_usd });
        if shown == Shown::Everything {
            json["summary"] = json!(coordinator.summary);
        }
        json
    });
}
