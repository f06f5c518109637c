//! Answers to control requests that take their time, while the session goes on: each is written under its id
//! when it is there, and each can be given up by whoever asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenon_core::{BoxFut, Failure};
use tenon_wire::Replies;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::Lines;

/// What a request is answered with.
pub enum Answer {
    Now(Result<Value, Failure>),
    /// There has to be asked, or waited for, something.
    Later(BoxFut<'static, Result<Value, Failure>>),
}

impl From<Result<Value, Failure>> for Answer {
    fn from(answer: Result<Value, Failure>) -> Answer {
        Answer::Now(answer)
    }
}

/// What is still to be answered.
pub struct Later {
    lines: Arc<dyn Lines>,
    tasks: JoinSet<String>,
    handles: HashMap<String, AbortHandle>,
}

impl Later {
    pub fn new(lines: Arc<dyn Lines>) -> Later {
        Later { lines, tasks: JoinSet::new(), handles: HashMap::new() }
    }

    pub fn start(&mut self, id: String, replies: Replies, answer: BoxFut<'static, Result<Value, Failure>>) {
        self.forget_done();
        let (lines, own) = (Arc::clone(&self.lines), id.clone());
        let handle = self.tasks.spawn(async move {
            let answer = answer.await;
            let answer = answer.as_ref().map_err(|failure| failure.message.as_str());
            lines.line(replies.control_response(&own, answer));
            own
        });
        self.handles.insert(id, handle);
    }

    /// Nobody wants this answer any longer, or with `None` any answer. The ids that had none yet.
    pub fn give_up(&mut self, id: Option<&str>) -> Vec<String> {
        self.forget_done();
        let wanted: Vec<String> = match id {
            Some(id) => vec![id.to_owned()],
            None => self.handles.keys().cloned().collect(),
        };
        let mut given_up = Vec::new();
        for id in wanted {
            if let Some(handle) = self.handles.remove(&id) {
                handle.abort();
                given_up.push(id);
            }
        }
        given_up
    }

    /// At the end: what is nearly there is waited for, the rest is given up.
    pub async fn finish(&mut self, within: Duration) -> Vec<String> {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(within, all).await.is_ok() {
            return Vec::new();
        }
        self.give_up(None)
    }

    fn forget_done(&mut self) {
        while let Some(done) = self.tasks.try_join_next() {
            if let Ok(id) = done {
                self.handles.remove(&id);
            }
        }
    }
}
