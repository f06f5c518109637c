//! Approval steps: a question that a person answers, and what its answer makes of the step.
//!
//! Everything here is plain data and pure: [`outcome`] is what a step comes to once its question is settled. How a question is
//! written in a document is `document.rs`; waiting for the answer is `approval_wait.rs`; the rows that keep questions and
//! answers are in `journal/approvals.rs`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tenon_contract::Schema;
use tenon_core::Timestamp;

use crate::document::{OnDeny, OnTimeout};
use crate::load::{Entered, LoadedWorkflow, StepBody};
use crate::{JsonText, LoadedStep, StepError, StepErrorClass, StepKey, StepOutcome, StepOutput};

/// What is asked. The key that it is asked under is the question's identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// How people and events call the step: `each[3].gate`.
    pub step_id: String,
    /// With all templates filled in.
    pub message: String,
    /// From when it was first asked; without one it waits for ever.
    pub timeout_ms: Option<u64>,
    pub on_timeout: OnTimeout,
    pub on_deny: OnDeny,
    /// A JSON Schema of what an approval brings along.
    pub data: Option<Value>,
}

/// What follows from somebody's no: it is the answer for as long as the question is the same.
pub const ANSWER_STANDS: &str = "the answer stands; another question in the document is asked anew, and `onDeny: continue` goes on without";
/// What follows from nobody's answer.
const ASKED_AGAIN: &str = "a run that is gone on with asks again";

/// A question that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub request: ApprovalRequest,
    /// When it was first asked.
    pub asked: Timestamp,
}

impl Question {
    /// When nobody need answer any more.
    pub fn expires(&self) -> Option<Timestamp> {
        self.request.timeout_ms.map(|ms| Timestamp(self.asked.0.saturating_add(ms)))
    }

    /// What whoever answers brings along: an object, and one that fits what is asked for.
    pub fn read_data(&self, text: &str) -> Result<JsonText, String> {
        let any = json!({});
        let schema = self.request.data.as_ref().unwrap_or(&any);
        let schema = Schema::compile(&schema.to_string()).map_err(|error| error.to_string())?;
        schema.check(text).map(JsonText::from).map_err(|rejection| rejection.told())
    }

    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires().is_some_and(|expires| expires <= now)
    }
}

/// How a question was settled. The first answer stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    pub decision: Decision,
    /// Who answered; nobody did if its time ran out.
    pub by: Option<String>,
    pub at: Timestamp,
    pub data: Option<JsonText>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Approved,
    Denied,
    /// Nobody answered in time.
    TimedOut,
}

impl Resolution {
    /// Of a question that nobody answered: at the moment when its time was up.
    pub(crate) fn timed_out(question: &Question) -> Resolution {
        let at = question.expires().unwrap_or(question.asked);
        Resolution { decision: Decision::TimedOut, by: None, at, data: None }
    }

    /// Whether the step counts as approved.
    pub fn approves(&self, request: &ApprovalRequest) -> bool {
        match self.decision {
            Decision::Approved => true,
            Decision::Denied => false,
            Decision::TimedOut => request.on_timeout == OnTimeout::Approve,
        }
    }

    /// Whether the step fails for it.
    pub fn fails(&self, request: &ApprovalRequest) -> bool {
        matches!(outcome(request, self), StepOutcome::Failed { .. })
    }

    /// `approved by alice`, for people.
    pub fn words(&self, request: &ApprovalRequest) -> String {
        let decision = if self.approves(request) { "approved" } else { "denied" };
        match (&self.by, self.decision) {
            (Some(by), _) => format!("{decision} by {by}"),
            (None, Decision::TimedOut) => {
                let time = crate::duration::shown(std::time::Duration::from_millis(
                    request.timeout_ms.unwrap_or_default(),
                ));
                match request.on_timeout {
                    OnTimeout::Fail => format!("not answered within {time}"),
                    OnTimeout::Approve | OnTimeout::Deny => {
                        format!("{decision} because nobody answered within {time}")
                    }
                }
            }
            (None, Decision::Approved | Decision::Denied) => decision.to_owned(),
        }
    }
}

/// What the step comes to.
pub(crate) fn outcome(request: &ApprovalRequest, resolution: &Resolution) -> StepOutcome {
    let words = resolution.words(request);
    let is_approved = resolution.approves(request);
    let output = StepOutput {
        content: words.clone(),
        result: Some(result(is_approved, resolution)),
        ..StepOutput::default()
    };
    let class = match (resolution.decision, request.on_timeout, request.on_deny) {
        _ if is_approved => return StepOutcome::Completed(output),
        (Decision::TimedOut, OnTimeout::Fail, _) => StepErrorClass::Timeout,
        (_, _, OnDeny::Continue) => return StepOutcome::Completed(output),
        (_, _, OnDeny::Fail) => StepErrorClass::Denied,
    };
    let hint = if resolution.decision == Decision::TimedOut { ASKED_AGAIN } else { ANSWER_STANDS };
    let error = StepError::new(class, format!("it was {words}")).hint(hint);
    let error = StepError { retryable: Some(false), ..error };
    StepOutcome::Failed { error, output }
}

/// Written as text, so that the numbers of `data` stay as they were given.
fn result(is_approved: bool, resolution: &Resolution) -> JsonText {
    let (by, at) = (json!(resolution.by), json!(resolution.at.to_iso8601()));
    let data = resolution.data.as_ref().map_or("null", JsonText::as_str);
    JsonText::from_text(format!("{{\"approved\":{is_approved},\"by\":{by},\"at\":{at},\"data\":{data}}}"))
}

/// What expressions know of such a result.
pub(crate) fn result_schema(data: Option<&Value>) -> Value {
    let data = data.cloned().unwrap_or_else(|| json!({}));
    json!({
        "type": "object",
        "required": ["approved", "by", "at", "data"],
        "properties": {
            "approved": {"type": "boolean"},
            "by": {"type": ["string", "null"]},
            "at": {"type": "string"},
            "data": data,
        },
        "additionalProperties": false,
    })
}

/// The first step that asks a person, those of loops and includes too.
pub fn first_approval(flow: &LoadedWorkflow) -> Option<String> {
    in_steps(&flow.steps, "", &mut Entered::default())
}

fn in_steps(steps: &[LoadedStep], around: &str, entered: &mut Entered) -> Option<String> {
    steps.iter().find_map(|step| {
        let id = format!("{around}{}", step.id);
        match &step.body {
            StepBody::Approve(_) => Some(id),
            StepBody::Agent => None,
            StepBody::Include(inner) if entered.is_first(inner) => {
                in_steps(&inner.steps, &format!("{id}."), entered)
            }
            StepBody::Include(_) => None,
            StepBody::Loop(it) => in_steps(&it.steps, &format!("{id}."), entered),
        }
    })
}

/// A question that nobody has answered yet, by the key of its step.
pub type OpenQuestions = std::collections::BTreeMap<StepKey, Question>;

#[cfg(test)]
mod tests {
    use super::*;

    fn request(on_timeout: OnTimeout, on_deny: OnDeny) -> ApprovalRequest {
        ApprovalRequest {
            step_id: "gate".into(),
            message: "Go?".into(),
            timeout_ms: Some(60_000),
            on_timeout,
            on_deny,
            data: None,
        }
    }

    #[test]
    fn what_an_answer_makes_of_a_step() {
        let by = |decision| Resolution {
            decision,
            by: (decision != Decision::TimedOut).then(|| "ann".to_owned()),
            at: Timestamp(0),
            data: Some(JsonText::of(&json!({"n": 1}))),
        };
        let table = [
            (Decision::Approved, OnTimeout::Deny, OnDeny::Fail, "completed approved by ann"),
            (Decision::Denied, OnTimeout::Approve, OnDeny::Fail, "denied it was denied by ann"),
            (Decision::Denied, OnTimeout::Approve, OnDeny::Continue, "completed denied by ann"),
            (
                Decision::TimedOut,
                OnTimeout::Deny,
                OnDeny::Fail,
                "denied it was denied because nobody answered within 1m",
            ),
            (
                Decision::TimedOut,
                OnTimeout::Deny,
                OnDeny::Continue,
                "completed denied because nobody answered within 1m",
            ),
            (
                Decision::TimedOut,
                OnTimeout::Approve,
                OnDeny::Fail,
                "completed approved because nobody answered within 1m",
            ),
            (Decision::TimedOut, OnTimeout::Fail, OnDeny::Fail, "timeout it was not answered within 1m"),
            (Decision::TimedOut, OnTimeout::Fail, OnDeny::Continue, "timeout it was not answered within 1m"),
        ];
        for (decision, on_timeout, on_deny, wanted) in table {
            let (told, output) = match outcome(&request(on_timeout, on_deny), &by(decision)) {
                StepOutcome::Completed(output) => (format!("completed {}", output.content), output),
                StepOutcome::Failed { error, output } => {
                    (format!("{} {}", error.class.name(), error.message), output)
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(told, wanted, "{decision:?} {on_timeout:?} {on_deny:?}");
            let result = output.result.unwrap().to_value();
            assert_eq!(result["approved"], wanted.contains(" approved "), "{result}");
            assert_eq!(result["data"], json!({"n": 1}));
        }
    }
}
