//! Questions to people that a run had asked when it was here before.

use super::Past;
use crate::journal::KeptQuestion;
use crate::{Decision, StepKey, StepOutcome};

impl Past {
    /// Every question to a person, the oldest first.
    pub(crate) fn all_questions(&self) -> Vec<KeptQuestion> {
        let kept = self.questions.iter().map(|(key, question)| KeptQuestion {
            key: key.clone(),
            question: question.clone(),
            resolution: self.resolved.get(key).cloned(),
            is_over: self.ended.contains_key(key),
        });
        let mut all: Vec<KeptQuestion> = kept.collect();
        all.sort_by(|left, right| (left.question.asked, &left.key).cmp(&(right.question.asked, &right.key)));
        all
    }

    /// A person's word stands in a run that had ended and goes on; that nobody said anything does not.
    pub(super) fn is_asked_anew(&self, key: &StepKey, outcome: &StepOutcome) -> bool {
        let is_unanswered = self.resolved.get(key).is_none_or(|answer| answer.decision == Decision::TimedOut);
        is_unanswered && !matches!(outcome, StepOutcome::Completed(_))
    }
}
