//! A session whose host takes its time: nobody else waits for it.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tenon_agent::{Background, Stop};
use tenon_core::{
    ApprovalMode, BoxFut, Event, EventKind, EventSink, Failure, Id, IdSource, Message, Outcome, Part,
    RunInfo, SandboxState,
};
use tenon_session::{
    Answer, Closed, Commanded, Conversation, Deadlines, GettingReady, Host, Incoming, Later, Lines, Peer,
    Prepared, Session,
};
use tenon_wire::input::{ControlRequest, FileData, Hint, Initialize, RequestOptions, Turn};
use tenon_wire::{Dialect, Replies};
use tokio::sync::{Notify, mpsc};

/// A host that never finds out what its client wants to say.
struct Slow;

impl Host for Slow {
    type Change = ();

    fn check(&mut self, _: &RequestOptions) -> Result<(), Failure> {
        Ok(())
    }

    fn agent(&mut self, _: &RequestOptions, stop: &Stop) -> Result<GettingReady, Failure> {
        let stop = stop.clone();
        Ok(Box::pin(async move {
            stop.cancel().cancelled().await;
            Err(stop.failure())
        }))
    }

    fn info(&self, session_id: Id) -> RunInfo {
        RunInfo {
            session_id,
            cwd: "/".into(),
            model: "m".into(),
            permission_mode: "default".into(),
            tools: Vec::new(),
            agents: Vec::new(),
            commands: Vec::new(),
            mcp_servers: Vec::new(),
            cli_version: "0".into(),
            sandbox: SandboxState::Off,
            channel: None,
        }
    }

    fn conversation(&mut self, _: &Turn) -> Result<Option<Conversation>, Failure> {
        Ok(None)
    }

    fn command<'a>(&'a mut self, _: &'a Turn, _: &'a mut Vec<Message>) -> BoxFut<'a, Commanded> {
        Box::pin(async { Commanded::Say(Box::pin(pending())) })
    }

    fn file(&mut self, _: &FileData) -> Result<Part, Failure> {
        unreachable!("no files are sent")
    }

    fn hint(&mut self, _: Hint, _: &Replies) {}

    fn cancel_hint(&mut self, _: Option<&str>) {}

    fn initialize(&mut self, _: &Initialize) -> Result<Value, Failure> {
        Ok(json!({}))
    }

    fn prepare(&mut self, _: &ControlRequest) -> Result<Prepared<()>, Failure> {
        Ok(Prepared { answer: json!({}), change: Some(()) })
    }

    fn make(&mut self, (): ()) {}

    fn set_mode(&mut self, _: ApprovalMode) -> Result<(), Failure> {
        Ok(())
    }

    fn control(&mut self, _: &ControlRequest, _: &[Message]) -> Answer {
        Answer::Now(Ok(json!({})))
    }

    fn background(&self) -> Option<Background> {
        None
    }

    fn heartbeat(&self) -> Option<Duration> {
        None
    }

    fn turn_ended(&mut self, _: &Arc<Outcome>) {}

    fn end(&mut self) -> BoxFut<'_, ()> {
        Box::pin(async {})
    }

    fn never_started(&self) -> Option<Failure> {
        None
    }
}

/// Everything that leaves, in its order.
#[derive(Default)]
struct Out {
    told: Mutex<Vec<String>>,
    more: Notify,
}

impl Out {
    fn add(&self, told: String) {
        self.told.lock().unwrap().push(told);
        self.more.notify_one();
    }

    async fn count(&self, count: usize) -> Vec<String> {
        loop {
            let told = self.told.lock().unwrap().clone();
            if told.len() >= count {
                return told;
            }
            self.more.notified().await;
        }
    }
}

impl Lines for Out {
    fn line(&self, line: Vec<u8>) {
        let line: Value = serde_json::from_slice(&line).unwrap();
        self.add(line["type"].as_str().unwrap().to_owned());
    }
}

impl EventSink for Out {
    fn emit(&self, event: Event) {
        if let EventKind::RunFinished(outcome) = event.kind {
            self.add(format!("ended with {}", outcome.exit_code()));
        }
    }
}

#[tokio::test]
async fn whoever_asks_for_a_slow_command_is_still_answered_and_can_stop_it() {
    let out = Arc::new(Out::default());
    let ids = Arc::new(IdSource::new(Id::from_random([7; 16])));
    let replies = Replies::new(Dialect::OpenAi, ids.next());
    let wait = Duration::from_secs(60);
    let deadlines = Deadlines { can_use_tool: wait, mcp_message: wait };
    let lines = Arc::clone(&out) as Arc<dyn Lines>;
    let session = Session {
        host: Slow,
        peer: Arc::new(Peer::new(replies.clone(), Arc::clone(&lines), Arc::clone(&ids), deadlines)),
        later: Later::new(Arc::clone(&lines)),
        lines,
        sink: Arc::clone(&out) as Arc<dyn EventSink>,
        replies,
        ids,
        history: Vec::new(),
        queue: Default::default(),
        refused: None,
        said_before: Vec::new(),
        turn_ids: Default::default(),
        shutdown: wait,
    };
    let (input, received) = mpsc::channel(8);
    let driven = tokio::spawn(session.drive(Vec::new(), received, Stop::default()));
    let send = async |number, line: Value| {
        let bytes = line.to_string().into_bytes();
        input.send(Incoming::Line { number, bytes }).await.unwrap();
    };
    send(1, json!({"type": "user", "message": {"role": "user", "content": "@slow"}})).await;
    send(2, json!({"type": "heartbeat_request"})).await;
    assert_eq!(out.count(1).await, ["result/heartbeat"]);
    send(3, json!({"type": "control_request", "request_id": "r", "request": {"subtype": "set_model", "model": "m"}}))
        .await;
    assert_eq!(out.count(2).await[1..], ["control_response"]);
    send(4, json!({"type": "control/cancel", "reason": "escape"})).await;
    assert_eq!(out.count(4).await[2..], ["ended with 130", "result/cancel"]);
    drop(input);
    assert!(matches!(driven.await.unwrap(), Closed::InOrder));
}
