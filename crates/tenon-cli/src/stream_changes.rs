//! What a client changes for the turns that it sends afterwards: the model, and how much it thinks.
//!
//! A change is checked and answered when it comes, and made when the turns before it are over, so a turn that waits keeps
//! what it was sent with. The permission mode is another matter: it holds at once (`tenon-session/src/control.rs`).

use serde_json::{Value, json};
use tenon_core::{Effort, ErrorClass, Failure, Reasoning};
use tenon_session::Prepared;
use tenon_wire::input::ControlRequest;

use crate::args::RunArgs;
use crate::model::Connections;
use crate::stream_session::{Live, StreamHost, asking};

/// What is still to be made.
pub enum Change {
    /// As the flag would name it.
    Model(Option<String>),
    Effort(Effort),
}

/// How things will be when every change that waits is made.
pub(crate) struct Ahead {
    args: RunArgs,
    model: String,
    connections: Connections,
    reasoning: Reasoning,
    /// Changes that are not made yet.
    waiting: usize,
}

impl StreamHost {
    pub(crate) fn prepare_change(&mut self, request: &ControlRequest) -> Result<Prepared<Change>, Failure> {
        match request {
            ControlRequest::SetModel { model } => {
                let model = model.clone().or_else(|| self.first_model.clone());
                let ahead = self.with_model(model.clone())?;
                let answer = json!({ "subtype": "set_model", "model": ahead.model });
                self.ahead = Some(ahead);
                Ok(Prepared { answer, change: Some(Change::Model(model)) })
            }
            ControlRequest::SetEffort { effort } => {
                let effort = Effort::parse(effort);
                let effort = effort.map_err(|error| Failure::new(ErrorClass::Input, error.to_string()))?;
                let mut ahead = self.ahead()?;
                let reasoning = Reasoning { effort: Some(effort), ..ahead.reasoning };
                let told = ahead.connections.can_be_told(reasoning);
                let mut answer = effort_status(effort, &told);
                answer["subtype"] = json!("set_effort");
                if told.is_err() {
                    return Ok(Prepared { answer, change: None });
                }
                ahead.reasoning = reasoning;
                ahead.waiting += 1;
                self.ahead = Some(ahead);
                Ok(Prepared { answer, change: Some(Change::Effort(effort)) })
            }
            _ => Err(Failure::new(ErrorClass::Internal, "the request changes nothing for later turns")),
        }
    }

    /// It was checked; what has come between the check and now may still stand against it, and the next turn says so.
    pub(crate) fn make_change(&mut self, change: Change) {
        if let Some(ahead) = &mut self.ahead {
            ahead.waiting -= 1;
        }
        self.ahead = self.ahead.take().filter(|ahead| ahead.waiting > 0);
        let made = match change {
            Change::Model(model) => self.rebuild(RunArgs { model, ..self.args.clone() }),
            Change::Effort(effort) => self.live().map(|live| {
                let told = live.set_effort(effort);
                told["reason"].as_str().map(str::to_owned).into_iter().collect()
            }),
        };
        if let Ok(live) = &mut self.live {
            live.agent.warnings.extend(made.unwrap_or_else(|failure| vec![failure.message]));
        }
    }

    /// The model that turns are asked with that are sent now.
    pub(crate) fn coming_model(&self) -> Option<&str> {
        self.ahead.as_ref().map(|ahead| ahead.model.as_str())
    }

    /// The same with another model.
    fn with_model(&mut self, model: Option<String>) -> Result<Ahead, Failure> {
        let ahead = self.ahead()?;
        let args = RunArgs { model, ..ahead.args };
        let (settings, here) = (self.settings.clone(), self.here.clone());
        let live = self.live()?;
        let mut agent = live.agent.clone();
        agent.reasoning = ahead.reasoning;
        let changed = asking(&agent, &live.parts, &args, &settings, &here)?;
        let (model, connections) = (changed.agent.info.model, changed.connections);
        Ok(Ahead { args, model, connections, reasoning: ahead.reasoning, waiting: ahead.waiting + 1 })
    }

    fn ahead(&mut self) -> Result<Ahead, Failure> {
        if let Some(ahead) = &self.ahead {
            return Ok(Ahead {
                args: ahead.args.clone(),
                model: ahead.model.clone(),
                connections: ahead.connections.clone(),
                ..*ahead
            });
        }
        let args = self.args.clone();
        let live = self.live()?;
        Ok(Ahead {
            args,
            model: live.agent.info.model.clone(),
            connections: live.parts.connections.clone(),
            reasoning: live.agent.reasoning,
            waiting: 0,
        })
    }
}

impl Live {
    /// From the next turn on, if the model can be told. What came of it, as clients read it.
    pub(crate) fn set_effort(&mut self, effort: Effort) -> Value {
        let reasoning = Reasoning { effort: Some(effort), ..self.agent.reasoning };
        let told = self.parts.connections.can_be_told(reasoning);
        if told.is_ok() {
            self.agent.reasoning = reasoning;
            self.offer_helpers();
        }
        effort_status(effort, &told)
    }
}

fn effort_status(effort: Effort, told: &Result<(), Failure>) -> Value {
    match told {
        Ok(()) => json!({ "effort": effort.name(), "applied": true, "override": null }),
        Err(failure) => {
            json!({ "effort": effort.name(), "applied": false, "override": null, "reason": failure.message })
        }
    }
}
