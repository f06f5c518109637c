//! How one piece of work ended, before it is the record of a step.

use std::sync::Arc;

use crate::{JsonText, Shown, Spent, StepError, StepRecord, StepStatus};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    pub status: StepStatus,
    pub content: String,
    pub result: Option<JsonText>,
    pub error: Option<StepError>,
    pub spent: Spent,
    pub attempts: u32,
    pub shown: Shown,
}

impl Ended {
    pub(crate) fn completed(content: String, result: Option<JsonText>) -> Ended {
        Ended {
            status: StepStatus::Completed,
            content,
            result,
            error: None,
            spent: Spent::default(),
            attempts: 1,
            shown: Shown::Capped,
        }
    }

    pub(crate) fn failed(error: StepError) -> Ended {
        Ended { status: StepStatus::Failed, error: Some(error), ..Ended::completed(String::new(), None) }
    }

    pub(crate) fn cancelled() -> Ended {
        Ended { status: StepStatus::Cancelled, ..Ended::completed(String::new(), None) }
    }

    pub(crate) fn into_record(self, duration_ms: u64) -> Arc<StepRecord> {
        let Ended { status, content, result, error, spent, attempts, shown } = self;
        Arc::new(StepRecord {
            status,
            content,
            result,
            spent,
            duration_ms,
            attempts,
            error,
            not_run: None,
            shown,
        })
    }
}
