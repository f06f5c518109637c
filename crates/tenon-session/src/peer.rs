//! The client at the other end, as whoever the agent may ask: permissions, hooks and servers that live in its
//! process.
//!
//! Every question has an id of its own and a deadline with a safe consequence. A question that nobody waits
//! for any longer is withdrawn; an answer that comes too late, or twice, is ignored.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tenon_agent::Stop;
use tenon_core::{
    BoxFut, Cancel, Client, ClientError, ErrorClass, Failure, HookCall, HookReply, Id, IdSource, JsonRpc,
    PermissionAsk, PermissionReply, Signal,
};
use tenon_wire::input::permission_updates;
use tenon_wire::{Question, Replies, SessionState};
use tokio::sync::oneshot;

use crate::suggestions::{suggestions, update};

/// Where whole lines go, between the lines of a run.
pub trait Lines: Send + Sync {
    fn line(&self, line: Vec<u8>);
    /// The turn that begins next, or fails before it does, by its name.
    fn next_turn(&self, _prompt_id: &str) {}
    /// A question to the client went wrong, for clients that are told in the result.
    fn control_error(&self, _message: String) {}
    /// A client that does not read what it is answered: the future ends when it has caught up.
    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        None
    }
}

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    pub can_use_tool: Duration,
    pub mcp_message: Duration,
}

pub struct Peer {
    lines: Arc<dyn Lines>,
    ids: Arc<IdSource>,
    state: Mutex<State>,
}

/// How a question is answered.
enum Answered {
    Said(Result<Value, String>),
    /// The call that it is about was carried out instead, or that was tried.
    CarriedOut(Result<String, String>),
}

/// An answer that is one.
enum Told {
    Value(Value),
    CarriedOut(Result<String, String>),
}

impl Told {
    /// Only a question about a call can be answered by carrying it out.
    fn value(self) -> Value {
        match self {
            Told::Value(value) => value,
            Told::CarriedOut(_) => Value::Null,
        }
    }
}

/// A question that waits for its answer.
struct Waiting {
    answer: oneshot::Sender<Answered>,
    /// The call that it is about, when it may be carried out by the client.
    call_id: Option<String>,
}

struct State {
    replies: Replies,
    pending: HashMap<String, Waiting>,
    deadlines: Deadlines,
    /// The client has closed its side: nobody answers any more.
    closed: bool,
    prompt_id: Option<String>,
    /// The running turn, for an answer that ends it.
    turn: Option<Stop>,
    /// How many questions of permission wait.
    asking: usize,
    tells_state: TellsState,
    /// What the client believes; before anything is told, that nothing runs.
    told: SessionState,
}

/// Whether a client wants to know when a turn runs and when it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TellsState {
    Yes,
    #[default]
    No,
}

impl Peer {
    pub fn new(replies: Replies, lines: Arc<dyn Lines>, ids: Arc<IdSource>, deadlines: Deadlines) -> Peer {
        let state = State {
            replies,
            pending: HashMap::new(),
            deadlines,
            closed: false,
            prompt_id: None,
            turn: None,
            asking: 0,
            tells_state: TellsState::No,
            told: SessionState::Idle,
        };
        Peer { lines, ids, state: Mutex::new(state) }
    }

    #[must_use]
    pub fn telling(self, tells_state: TellsState) -> Peer {
        self.state().tells_state = tells_state;
        self
    }

    /// Tells a client that wants to know, if it is something new.
    pub(crate) fn tell(&self, about: SessionState) {
        let line = {
            let mut state = self.state();
            match state.tells_state {
                TellsState::Yes if state.told != about => {
                    state.told = about;
                    state.replies.session_state(self.ids.next(), about)
                }
                TellsState::Yes | TellsState::No => None,
            }
        };
        if let Some(line) = line {
            self.lines.line(line);
        }
    }

    pub(crate) fn has_told_of_work(&self) -> bool {
        self.state().told != SessionState::Idle
    }

    /// The turn that questions belong to from here on.
    pub fn turn_starts(&self, prompt_id: String, stop: Stop) {
        let mut state = self.state();
        state.prompt_id = Some(prompt_id);
        state.turn = Some(stop);
    }

    /// Questions are of another session from here on.
    pub fn in_session(&self, id: Id) {
        let mut state = self.state();
        state.replies = state.replies.of_session(id);
    }

    pub fn turn_ends(&self) {
        self.state().turn = None;
    }

    pub fn deadlines(&self) -> Deadlines {
        self.state().deadlines
    }

    pub fn wait(&self, deadlines: Deadlines) {
        self.state().deadlines = deadlines;
    }

    /// An answer has come. Whether anybody waited for it.
    pub fn answer(&self, id: &str, reply: Result<Value, String>) -> bool {
        let waiting = self.state().pending.remove(id);
        let is_wanted = waiting.is_some_and(|waiting| waiting.answer.send(Answered::Said(reply)).is_ok());
        if !is_wanted {
            self.lines.control_error(format!("an answer to `{id}` came too late, or nobody asked"));
        }
        is_wanted
    }

    /// The client carried out a call that it was asked about, or tried to. Whether there was one.
    pub fn carried_out(&self, call_id: &str, result: Result<String, String>) -> bool {
        let mut state = self.state();
        let of_call = |waiting: &Waiting| waiting.call_id.as_deref() == Some(call_id);
        let id = state.pending.iter().find(|(_, waiting)| of_call(waiting)).map(|(id, _)| id.clone());
        let waiting = id.and_then(|id| state.pending.remove(&id));
        waiting.is_some_and(|waiting| waiting.answer.send(Answered::CarriedOut(result)).is_ok())
    }

    /// No more answers will come: what waits is answered with that, and nothing more is asked.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.pending.clear();
    }

    async fn ask(
        &self,
        question: Question<'_>,
        deadline: impl FnOnce(&Deadlines) -> Duration,
        cancel: Cancel,
    ) -> Result<Told, ClientError> {
        // What is no longer wanted is not asked.
        if cancel.is_cancelled() {
            return Err(ClientError::Stopped);
        }
        let id = self.ids.next().to_string();
        let (sender, receiver) = oneshot::channel();
        let (line, wait) = {
            let mut state = self.state();
            if state.closed {
                return Err(ClientError::Absent);
            }
            let call_id = match &question {
                Question::CanUseTool { ask, .. } => Some(ask.call_id.clone()),
                Question::HookCallback { .. } | Question::McpMessage { .. } => None,
            };
            state.pending.insert(id.clone(), Waiting { answer: sender, call_id });
            let line = state.replies.control_request(&id, state.prompt_id.as_deref(), &question);
            (line, deadline(&state.deadlines))
        };
        self.lines.line(line);
        let withdraw = Withdraw { peer: self, id: &id };
        let answer = tokio::select! {
            answer = receiver => answer,
            () = tokio::time::sleep(wait) => {
                self.went_wrong(&question, &id, "the client did not answer in time");
                return Err(ClientError::TimedOut);
            }
            () = cancel.cancelled() => return Err(ClientError::Stopped),
        };
        drop(withdraw);
        match answer {
            Ok(Answered::Said(Ok(value))) => Ok(Told::Value(value)),
            Ok(Answered::CarriedOut(result)) => Ok(Told::CarriedOut(result)),
            Ok(Answered::Said(Err(message))) => {
                self.went_wrong(&question, &id, &message);
                Err(ClientError::Refused(message))
            }
            // The sender is gone: the client closed its side.
            Err(_) => Err(ClientError::Absent),
        }
    }

    fn went_wrong(&self, question: &Question<'_>, id: &str, why: &str) {
        let subtype = match question {
            Question::CanUseTool { .. } => "can_use_tool",
            Question::HookCallback { .. } => "hook_callback",
            Question::McpMessage { .. } => "mcp_message",
        };
        self.lines.control_error(format!("`{subtype}` `{id}`: {why}"));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While a client is asked for permission.
struct Asking<'a>(&'a Peer);

impl<'a> Asking<'a> {
    fn begin(peer: &'a Peer) -> Asking<'a> {
        let is_first = {
            let mut state = peer.state();
            state.asking += 1;
            state.asking == 1 && !state.closed
        };
        if is_first {
            peer.tell(SessionState::RequiresAction);
        }
        Asking(peer)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let is_last = {
            let mut state = self.0.state();
            state.asking = state.asking.saturating_sub(1);
            state.asking == 0 && !state.closed
        };
        if is_last {
            self.0.tell(SessionState::Running);
        }
    }
}

/// Tells the client that an answer is no longer wanted, unless it has come.
struct Withdraw<'a> {
    peer: &'a Peer,
    id: &'a str,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        let waiting = self.peer.state().pending.remove(self.id);
        if waiting.is_some() {
            let line = self.peer.state().replies.control_cancel(self.id);
            self.peer.lines.line(line);
        }
    }
}

impl Client for Peer {
    fn can_be_asked(&self) -> bool {
        !self.state().closed
    }

    fn unusable_answer(&self, why: String) {
        self.lines.control_error(why);
    }

    fn permission(&self, ask: PermissionAsk, cancel: Cancel) -> BoxFut<'_, PermissionReply> {
        Box::pin(async move {
            let question =
                Question::CanUseTool { ask: &ask, suggestions: suggestions(&ask), update: update(&ask) };
            let _asking = Asking::begin(self);
            match self.ask(question, |deadlines| deadlines.can_use_tool, cancel).await {
                Ok(Told::CarriedOut(result)) => PermissionReply::CarriedOut(result),
                Ok(Told::Value(answer)) => {
                    if !is_clear(&answer) {
                        let call = &ask.call_id;
                        let why = format!("`can_use_tool` of `{call}`: the answer says neither yes nor no");
                        self.lines.control_error(why);
                    }
                    if changed_input(&answer).is_err() {
                        let why = format!("`can_use_tool` of `{}`: {UNUSABLE_INPUT}", ask.call_id);
                        self.lines.control_error(why);
                    }
                    let reply = permission_reply(&ask, &answer);
                    self.stop_if_wanted(&reply, &answer);
                    reply
                }
                Err(ClientError::Stopped) => PermissionReply::Withdrawn,
                Err(error) => PermissionReply::Deny {
                    message: format!("{} (asked because {})", said(&error), ask.reason),
                },
            }
        })
    }

    fn hook(&self, call: HookCall, cancel: Cancel) -> BoxFut<'_, Result<HookReply, ClientError>> {
        Box::pin(async move {
            let question = Question::HookCallback {
                callback_id: &call.callback_id,
                input: &call.input,
                tool_use_id: call.tool_use_id.as_deref(),
            };
            let answer = self.ask(question, |_| call.at_most, cancel).await?;
            Ok(HookReply(answer.value()))
        })
    }

    fn mcp(
        &self,
        server: &str,
        message: JsonRpc,
        cancel: Cancel,
    ) -> BoxFut<'_, Result<JsonRpc, ClientError>> {
        let server = server.to_owned();
        Box::pin(async move {
            let question = Question::McpMessage { server: &server, message: &message.0 };
            let answer = self.ask(question, |deadlines| deadlines.mcp_message, cancel).await?;
            let response = match answer.value() {
                Value::Object(mut fields) => fields.remove("mcp_response"),
                _ => None,
            };
            response.map(JsonRpc).ok_or_else(|| {
                let why = "the answer has no `mcp_response`";
                self.lines.control_error(format!("`mcp_message` to `{server}`: {why}"));
                ClientError::Refused(why.to_owned())
            })
        })
    }
}

impl Peer {
    fn stop_if_wanted(&self, reply: &PermissionReply, answer: &Value) {
        if matches!(reply, PermissionReply::Deny { .. })
            && answer["interrupt"] == true
            && let Some(turn) = &self.state().turn
        {
            let why = "the client denied a call and stopped the turn";
            turn.now(Failure::new(ErrorClass::Interrupted(Signal::Int), why));
        }
    }
}

/// Whether an answer says yes or no, in whatever words.
fn is_clear(answer: &Value) -> bool {
    let behavior = answer["behavior"].as_str().unwrap_or_default().to_ascii_lowercase();
    matches!(behavior.as_str(), "allow" | "approve" | "deny" | "reject")
}

fn is_yes(answer: &Value) -> bool {
    let behavior = answer["behavior"].as_str().unwrap_or_default().to_ascii_lowercase();
    matches!(behavior.as_str(), "allow" | "approve")
}

const UNUSABLE_INPUT: &str = "the answer says yes to other arguments, and they are not an object";

/// The arguments that a yes is to, where it brings some.
fn changed_input(answer: &Value) -> Result<Option<&serde_json::Map<String, Value>>, &'static str> {
    if !is_yes(answer) {
        return Ok(None);
    }
    let given = ["updatedInput", "updated_input"].into_iter().filter_map(|key| answer.get(key));
    match given.into_iter().find(|input| !input.is_null()) {
        None => Ok(None),
        Some(Value::Object(input)) => Ok(Some(input)),
        Some(_) => Err(UNUSABLE_INPUT),
    }
}

/// What an answer to a question of permission means: only a clear yes is one.
pub fn permission_reply(ask: &PermissionAsk, answer: &Value) -> PermissionReply {
    if is_yes(answer) {
        return match changed_input(answer) {
            // Clients send the arguments back whether or not they changed them.
            Ok(input) => PermissionReply::Allow {
                updated_input: input.filter(|input| **input != ask.input).cloned(),
                updates: permission_updates(answer),
            },
            Err(why) => PermissionReply::Deny { message: why.to_owned() },
        };
    }
    let message = answer["message"].as_str().filter(|message| !message.trim().is_empty());
    PermissionReply::Deny { message: message.map_or_else(|| "the client said no".to_owned(), str::to_owned) }
}

fn said(error: &ClientError) -> String {
    match error {
        ClientError::Absent => "nobody is there to ask: the client has closed its input".to_owned(),
        ClientError::TimedOut => "the client did not answer in time".to_owned(),
        ClientError::Stopped => "the run was stopped".to_owned(),
        ClientError::Refused(message) => format!("the client could not answer: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tenon_wire::Dialect;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Value>>);

    impl Lines for Kept {
        fn line(&self, line: Vec<u8>) {
            self.0.lock().unwrap().push(serde_json::from_slice(&line).unwrap());
        }
    }

    impl Kept {
        fn ids(&self, kind: &str) -> Vec<String> {
            let lines = self.0.lock().unwrap();
            let of_kind = lines.iter().filter(|line| line["type"] == kind);
            of_kind.map(|line| line["request_id"].as_str().unwrap().to_owned()).collect()
        }
    }

    fn peer(deadline: Duration) -> (Arc<Peer>, Arc<Kept>) {
        let kept = Arc::new(Kept::default());
        let id = Id::from_random([3; 16]);
        let deadlines = Deadlines { can_use_tool: deadline, mcp_message: deadline };
        let ids = Arc::new(IdSource::new(id));
        let lines = Arc::clone(&kept) as Arc<dyn Lines>;
        (Arc::new(Peer::new(Replies::new(Dialect::Qwen, id), lines, ids, deadlines)), kept)
    }

    fn ask() -> PermissionAsk {
        PermissionAsk {
            call_id: "c1".into(),
            tool: "write_file".into(),
            input: json!({"file_path": "/a"}).as_object().unwrap().clone(),
            reason: "it changes files".into(),
            agent_id: None,
        }
    }

    fn allow(input: Option<Value>) -> PermissionReply {
        PermissionReply::allow(input.map(|input| input.as_object().unwrap().clone()))
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn only_a_clear_yes_is_one() {
        let table = [
            (json!({"behavior": "allow"}), allow(None)),
            (json!({"behavior": "Approve", "updatedInput": {"file_path": "/a"}}), allow(None)),
            (
                json!({"behavior": "allow", "updatedInput": {"file_path": "/b"}}),
                allow(Some(json!({"file_path": "/b"}))),
            ),
            (json!({"behavior": "allow", "updatedInput": null}), allow(None)),
            (
                json!({"behavior": "allow", "updatedInput": "/b"}),
                PermissionReply::Deny { message: UNUSABLE_INPUT.into() },
            ),
            (
                json!({"behavior": "allow", "updated_input": ["/b"]}),
                PermissionReply::Deny { message: UNUSABLE_INPUT.into() },
            ),
            (json!({"behavior": "deny", "message": "no"}), PermissionReply::Deny { message: "no".into() }),
            (json!({"behaviour": "allow"}), PermissionReply::Deny { message: "the client said no".into() }),
            (json!(null), PermissionReply::Deny { message: "the client said no".into() }),
        ];
        for (answer, wanted) in table {
            let (peer, kept) = peer(LONG);
            let asking = Arc::clone(&peer);
            let reply = tokio::spawn(async move { asking.permission(ask(), Cancel::new()).await });
            while kept.ids("control_request").is_empty() {
                tokio::task::yield_now().await;
            }
            let id = &kept.ids("control_request")[0];
            assert!(peer.answer(id, Ok(answer.clone())));
            assert!(!peer.answer(id, Ok(json!({"behavior": "allow"}))), "a second answer is ignored");
            assert_eq!(reply.await.unwrap(), wanted, "{answer}");
            assert_eq!(kept.ids("control_cancel_request"), [""; 0]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_is_no_and_the_question_is_withdrawn() {
        let (peer, kept) = peer(Duration::from_secs(5));
        let reply = peer.permission(ask(), Cancel::new()).await;
        let why = "the client did not answer in time (asked because it changes files)";
        assert_eq!(reply, PermissionReply::Deny { message: why.into() });
        assert_eq!(kept.ids("control_cancel_request"), kept.ids("control_request"));
    }

    #[tokio::test]
    async fn a_dropped_question_is_withdrawn_and_its_late_answer_ignored() {
        let (peer, kept) = peer(LONG);
        {
            let mut question = peer.permission(ask(), Cancel::new());
            let polled = futures_util::poll!(&mut question);
            assert!(polled.is_pending());
        }
        let asked = kept.ids("control_request");
        assert_eq!(kept.ids("control_cancel_request"), asked);
        assert!(!peer.answer(&asked[0], Ok(json!({"behavior": "allow"}))));
    }

    #[tokio::test]
    async fn a_client_that_closed_its_side_answers_nothing() {
        let (peer, kept) = peer(LONG);
        let asking = Arc::clone(&peer);
        let waiting = tokio::spawn(async move { asking.permission(ask(), Cancel::new()).await });
        while kept.ids("control_request").is_empty() {
            tokio::task::yield_now().await;
        }
        peer.close();
        let why = "nobody is there to ask: the client has closed its input (asked because it changes files)";
        assert_eq!(waiting.await.unwrap(), PermissionReply::Deny { message: why.into() });
        assert_eq!(
            peer.permission(ask(), Cancel::new()).await,
            PermissionReply::Deny { message: why.into() }
        );
        assert_eq!(kept.ids("control_request").len(), 1);
    }

    /// A thousand questions at once, answered in another order: each gets its own answer.
    #[tokio::test]
    async fn answers_find_their_questions() {
        let (peer, kept) = peer(LONG);
        let calls: Vec<_> = (0..1000)
            .map(|number| {
                let peer = Arc::clone(&peer);
                tokio::spawn(async move {
                    let message = JsonRpc(json!({"id": number}));
                    peer.mcp("tools", message, Cancel::new()).await.unwrap().0
                })
            })
            .collect();
        while kept.ids("control_request").len() < 1000 {
            tokio::task::yield_now().await;
        }
        let asked: Vec<(String, Value)> = kept
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|line| (line["request_id"].as_str().unwrap().to_owned(), line["request"]["message"].clone()))
            .collect();
        for (id, message) in asked.iter().rev() {
            assert!(peer.answer(id, Ok(json!({"mcp_response": message}))));
        }
        for (number, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), json!({"id": number}));
        }
    }
}
