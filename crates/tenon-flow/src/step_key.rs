//! The name of one attempt at one step: where it stands in the workflow, which iteration, which item, which attempt.
//!
//! `run_1/deploy/check#2[7]@1` is the first attempt at item 7 in iteration 2 of the loop `check`, inside the include
//! `deploy`, in the run `run_1`. The key is the same in every replay of a run, so it is also the idempotency key of
//! what the step does. What a step is asked and answers is in `port.rs`.
//!
//! ```text
//! key     = segment *( "/" segment ) "@" attempt [ "~" role ]
//! segment = id [ "#" iteration ] [ "[" item "]" ] [ "@" attempt ]     (no "@1" before the last)
//! role    = "judge" / "judge-timeout" / "timeout" / "delay" / "backoff" / "limit" /
//!           "coordinator" / "plan"
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One attempt at one step of one run, or a timer that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey {
    /// The run first, then one segment for each include, loop and step on the way. Never empty.
    segments: Vec<Segment>,
    role: Role,
}

/// One step on the way, counted from 0 where it is counted, as CEL's `iteration` and `index` are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    id: String,
    iteration: Option<u32>,
    index: Option<u32>,
    /// From 1.
    attempt: u32,
}

/// What the key's work is to the step it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The step itself.
    Work,
    /// Decides whether a loop is done.
    Judge,
    /// Runs out when the judge has had its time.
    JudgeTimeout,
    /// Runs out when the step, the loop or the workflow has had its time.
    Timeout,
    /// Waits between two iterations.
    Delay,
    /// Waits between two attempts.
    Backoff,
    /// Runs out when the run has had all the time that its caller gives it.
    Limit,
    /// Works beside the run's steps.
    Coordinator,
    /// Makes the document that is run.
    Plan,
}

impl Role {
    pub const ALL: [Role; 9] = [
        Role::Work,
        Role::Judge,
        Role::JudgeTimeout,
        Role::Timeout,
        Role::Delay,
        Role::Backoff,
        Role::Limit,
        Role::Coordinator,
        Role::Plan,
    ];

    fn name(self) -> &'static str {
        match self {
            Role::Work => "",
            Role::Judge => "judge",
            Role::JudgeTimeout => "judge-timeout",
            Role::Timeout => "timeout",
            Role::Delay => "delay",
            Role::Backoff => "backoff",
            Role::Limit => "limit",
            Role::Coordinator => "coordinator",
            Role::Plan => "plan",
        }
    }
}

impl Segment {
    /// `id` is of letters, digits, `_` and `-`; a document that was loaded has no other.
    pub fn new(id: impl Into<String>) -> Segment {
        Segment { id: id.into(), iteration: None, index: None, attempt: 1 }
    }

    #[must_use]
    pub fn iteration(mut self, iteration: u32) -> Segment {
        self.iteration = Some(iteration);
        self
    }

    #[must_use]
    pub fn index(mut self, index: u32) -> Segment {
        self.index = Some(index);
        self
    }

    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Segment {
        self.attempt = attempt.max(1);
        self
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn of_iteration(&self) -> Option<u32> {
        self.iteration
    }

    pub fn of_item(&self) -> Option<u32> {
        self.index
    }

    pub fn of_attempt(&self) -> u32 {
        self.attempt
    }
}

impl StepKey {
    /// The run as a whole: where every other key begins.
    pub fn run(run_id: impl Into<String>) -> StepKey {
        StepKey { segments: vec![Segment::new(run_id)], role: Role::Work }
    }

    /// By the way to it, which is not empty.
    pub(crate) fn of(segments: Vec<Segment>, role: Role) -> StepKey {
        StepKey { segments, role }
    }

    /// A step inside this one. What this one's role was does not matter.
    #[must_use]
    pub fn child(&self, segment: Segment) -> StepKey {
        let mut segments = Vec::with_capacity(self.segments.len() + 1);
        segments.extend_from_slice(&self.segments);
        segments.push(segment);
        StepKey { segments, role: Role::Work }
    }

    #[must_use]
    pub fn with_role(&self, role: Role) -> StepKey {
        StepKey { segments: self.segments.clone(), role }
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub fn role(&self) -> Role {
        self.role
    }

    /// Which attempt at the step this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.segments.last().map_or(1, |last| last.attempt)
    }

    /// How people and events call the step: `each[3].inner`, `refine.2.inner`, `deploy.check`. Without the run and
    /// the attempts.
    pub fn step_id(&self) -> String {
        let mut id = String::new();
        for segment in self.segments.iter().skip(1) {
            if !id.is_empty() {
                id.push('.');
            }
            id.push_str(&segment.id);
            if let Some(iteration) = segment.iteration {
                id.push_str(&format!(".{iteration}"));
            }
            if let Some(index) = segment.index {
                id.push_str(&format!("[{index}]"));
            }
        }
        if self.role == Role::Judge {
            id.push_str(".judge");
        }
        id
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.segments.iter().enumerate() {
            let last = position + 1 == self.segments.len();
            if position > 0 {
                out.write_str("/")?;
            }
            out.write_str(&segment.id)?;
            if let Some(iteration) = segment.iteration {
                write!(out, "#{iteration}")?;
            }
            if let Some(index) = segment.index {
                write!(out, "[{index}]")?;
            }
            if last || segment.attempt > 1 {
                write!(out, "@{}", segment.attempt)?;
            }
        }
        match self.role {
            Role::Work => Ok(()),
            role => write!(out, "~{}", role.name()),
        }
    }
}

/// A text that is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the key of a step: {problem}")]
pub struct InvalidStepKey {
    text: String,
    problem: &'static str,
}

impl FromStr for StepKey {
    type Err = InvalidStepKey;

    /// Reads exactly what is printed: every key has one spelling.
    fn from_str(text: &str) -> Result<StepKey, InvalidStepKey> {
        read(text).map_err(|problem| InvalidStepKey { text: text.to_owned(), problem })
    }
}

fn read(text: &str) -> Result<StepKey, &'static str> {
    let (path, role) = match text.split_once('~') {
        None => (text, Role::Work),
        Some((path, name)) => {
            let named = Role::ALL.into_iter().find(|role| *role != Role::Work && role.name() == name);
            (path, named.ok_or("nothing is called that after `~`")?)
        }
    };
    let parts: Vec<&str> = path.split('/').collect();
    let last = parts.len() - 1;
    let mut segments = Vec::with_capacity(parts.len());
    for (position, part) in parts.into_iter().enumerate() {
        segments.push(read_segment(part, position == last)?);
    }
    Ok(StepKey { segments, role })
}

fn read_segment(part: &str, last: bool) -> Result<Segment, &'static str> {
    let (rest, attempt) = match part.split_once('@') {
        Some((rest, digits)) => (rest, Some(number(digits)?)),
        None => (part, None),
    };
    let attempt = match (attempt, last) {
        (Some(0), _) => return Err("attempts are counted from 1"),
        (Some(1), false) => return Err("`@1` is written only at the end"),
        (None, true) => return Err("it has no attempt at its end"),
        (Some(attempt), _) => attempt,
        (None, false) => 1,
    };
    let (rest, index) = match rest.split_once('[') {
        Some((rest, item)) => {
            let digits = item.strip_suffix(']').ok_or("`[` has no `]` after its number")?;
            (rest, Some(number(digits)?))
        }
        None => (rest, None),
    };
    let (id, iteration) = match rest.split_once('#') {
        Some((id, digits)) => (id, Some(number(digits)?)),
        None => (rest, None),
    };
    let legal = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if id.is_empty() || !id.chars().all(legal) {
        return Err("an id is made of letters, digits, `_` and `-`");
    }
    Ok(Segment { id: id.to_owned(), iteration, index, attempt })
}

fn number(digits: &str) -> Result<u32, &'static str> {
    let canonical =
        digits.bytes().all(|digit| digit.is_ascii_digit()) && !(digits.len() > 1 && digits.starts_with('0'));
    match digits.parse() {
        Ok(number) if canonical => Ok(number),
        _ => Err("a number is written in digits, without zeros before it"),
    }
}

impl Serialize for StepKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StepKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StepKey, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
