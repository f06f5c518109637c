//! Keeps a conversation whole: every call has an answer, and what one speaker says is one message.
//!
//! Used at the end of a run that failed (`leave.rs`) and when a session is resumed
//! (`tenon-session`), so that both tell the model the same. Nothing here is carried out again.

use std::collections::HashMap;

use tenon_core::{Message, Part, Role, ToolCall, ToolResult};

/// What is said of a call that was begun and never finished.
pub const INTERRUPTED: &str = "Interrupted: the run was stopped before this call was finished. It may or may not have taken effect, \
     and what it started may still be running: find out before you repeat it.";
/// What is said of a call that was never begun.
pub const NOT_RUN: &str = "Not run: the run was stopped before this call was begun.";

/// How the note begins that a turn was stopped.
const STOPPED: &str = "[Note: this turn was stopped before it was finished";

/// What the model is told of a turn that somebody or something stopped.
pub fn stopped_note(why: &str) -> Message {
    Message::user(format!("{STOPPED}: {why}]"))
}

/// Whether a message is that note and nothing else.
pub fn is_stopped_note(message: &Message) -> bool {
    let text = message.text();
    message.role == Role::User && text.starts_with(STOPPED) && !text.contains("]\n\n")
}

/// What is known of a call that has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Begun, or nobody can tell.
    MayHaveRun,
    NeverBegun,
}

/// Answers the calls of the last turn: with the results there are, in the order of the calls, and an honest
/// word for each call that has none. Returns those words. Results that answer no call are dropped.
pub fn close_calls(
    history: &mut Vec<Message>,
    results: Vec<ToolResult>,
    unfinished: impl Fn(&ToolCall) -> Unfinished,
) -> Vec<ToolResult> {
    let Some(last) = history.last().filter(|last| last.role == Role::Assistant) else { return Vec::new() };
    let mut results: HashMap<String, ToolResult> =
        results.into_iter().map(|result| (result.call_id.clone(), result)).collect();
    let mut added = Vec::new();
    let mut parts = Vec::new();
    for call in last.tool_calls() {
        let result = results.remove(&call.id).unwrap_or_else(|| {
            let content = match unfinished(call) {
                Unfinished::MayHaveRun => INTERRUPTED,
                Unfinished::NeverBegun => NOT_RUN,
            };
            let closed = ToolResult {
                call_id: call.id.clone(),
                name: call.name.clone(),
                content: content.to_owned(),
                is_error: true,
                media: Vec::new(),
                stored: None,
            };
            added.push(closed.clone());
            closed
        });
        parts.push(Part::ToolResult(result));
    }
    if !parts.is_empty() {
        history.push(Message { role: Role::User, parts });
    }
    added
}

/// Adds what the model is told. Text after text of the same speaker goes into one message: some servers
/// refuse two in a row.
pub fn tell(history: &mut Vec<Message>, message: Message) {
    if let Some(last) = history.last_mut()
        && last.role == Role::User
        && message.role == Role::User
        && let Some(Part::Text { text }) = last.parts.last_mut()
        && message.parts.iter().all(|part| matches!(part, Part::Text { .. }))
    {
        text.push_str("\n\n");
        text.push_str(&message.text());
        return;
    }
    history.push(message);
}

/// Where a prompt was added to a conversation, so that it can be taken back.
#[derive(Clone, Debug)]
pub struct Prompted {
    /// Messages before it.
    messages: usize,
    /// The text of the last of these, where the prompt was added to that.
    text: Option<usize>,
    /// What the model was told after it by anyone else.
    since: Vec<Message>,
}

impl Prompted {
    /// Adds a prompt.
    pub fn by(history: &mut Vec<Message>, prompt: Message) -> Prompted {
        let text = match history.last().and_then(|last| last.parts.last()) {
            Some(Part::Text { text }) => Some(text.len()),
            _ => None,
        };
        let messages = history.len();
        tell(history, prompt);
        Prompted { messages, text: text.filter(|_| history.len() == messages), since: Vec::new() }
    }

    /// Adds what the model is told after it.
    pub fn tell(&mut self, history: &mut Vec<Message>, message: Message) {
        self.since.push(message.clone());
        tell(history, message);
    }

    /// Takes the prompt back, and whatever was answered to it. What the model was told besides stays.
    pub fn take_back(self, history: &mut Vec<Message>) {
        history.truncate(self.messages);
        if let (Some(length), Some(Part::Text { text })) =
            (self.text, history.last_mut().and_then(|last| last.parts.last_mut()))
        {
            text.truncate(length);
        }
        for message in self.since {
            tell(history, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Part {
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: "t".into(),
            arguments: "{}".into(),
            terminal: false,
            native: None,
        })
    }

    fn result(id: &str, content: &str, is_error: bool) -> ToolResult {
        ToolResult {
            call_id: id.into(),
            name: "t".into(),
            content: content.into(),
            is_error,
            media: Vec::new(),
            stored: None,
        }
    }

    #[test]
    fn every_call_is_answered_in_its_place() {
        let mut history = vec![
            Message::user("go"),
            Message { role: Role::Assistant, parts: vec![call("a"), call("b"), call("c")] },
        ];
        let results = vec![result("x", "nobody's", false), result("b", "done", false)];
        let added = close_calls(&mut history, results, |call| match call.id.as_str() {
            "a" => Unfinished::MayHaveRun,
            _ => Unfinished::NeverBegun,
        });
        let closed = [result("a", INTERRUPTED, true), result("c", NOT_RUN, true)];
        assert_eq!(added, closed);
        let told: Vec<&ToolResult> = history[2]
            .parts
            .iter()
            .map(|part| if let Part::ToolResult(result) = part { result } else { panic!("{part:?}") })
            .collect();
        assert_eq!(told, [&closed[0], &result("b", "done", false), &closed[1]]);
        // Once is enough.
        assert_eq!(close_calls(&mut history, Vec::new(), |_| Unfinished::MayHaveRun), []);
        assert_eq!(history.len(), 3);
    }

    #[test]
    fn a_prompt_can_be_taken_back_and_what_else_was_told_stays() {
        let text = |history: &[Message]| history.iter().map(Message::text).collect::<Vec<_>>();
        let answered =
            || vec![Message::user("go"), Message { role: Role::Assistant, parts: vec![call("a")] }];
        for (before, with, after) in [
            (vec![], vec!["new\n\nnews"], vec!["news"]),
            (vec![Message::user("old")], vec!["old\n\nnew\n\nnews"], vec!["old\n\nnews"]),
            (answered(), vec!["go", "", "new\n\nnews"], vec!["go", "", "news"]),
        ] {
            let mut history = before.clone();
            let mut prompted = Prompted::by(&mut history, Message::user("new"));
            prompted.clone().take_back(&mut history);
            assert_eq!(text(&history), text(&before));
            prompted = Prompted::by(&mut history, Message::user("new"));
            prompted.tell(&mut history, Message::user("news"));
            assert_eq!(text(&history), with);
            history.push(Message { role: Role::Assistant, parts: vec![call("b")] });
            prompted.take_back(&mut history);
            assert_eq!(text(&history), after);
        }
    }

    #[test]
    fn a_note_is_known_as_one() {
        let note = stopped_note("the client interrupted the turn");
        assert!(is_stopped_note(&note));
        let mut history = vec![note];
        tell(&mut history, Message::user("go on"));
        assert!(!is_stopped_note(&history[0]));
        assert!(!is_stopped_note(&Message::user("go on")));
    }

    #[test]
    fn texts_of_one_speaker_are_one_message() {
        let mut history =
            vec![Message { role: Role::User, parts: vec![Part::ToolResult(result("a", "r", false))] }];
        tell(&mut history, Message::user("one"));
        tell(&mut history, Message::user("two"));
        assert_eq!((history.len(), history[1].text().as_str()), (2, "one\n\ntwo"));
    }
}
