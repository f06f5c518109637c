//! How a model is asked to go about its answer: how freely it words it, and how much it thinks before. What is
//! not said is the provider's own default. How each protocol says it is in `tenon-model`.

use std::fmt;

/// How freely an answer is worded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
}

impl Sampling {
    pub fn is_default(&self) -> bool {
        *self == Sampling::default()
    }
}

/// How much work goes into an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    pub effort: Option<Effort>,
    pub thinking: Thinking,
}

/// In words that every provider can be told somehow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

/// Whether the model thinks before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// As the model does by itself.
    #[default]
    AsUsual,
    Off,
    /// As long as the model finds right.
    Adaptive,
    /// At most so many tokens.
    AtMost(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no effort `{0}`; it can be {list}", list = Effort::list())]
pub struct UnknownEffort(pub String);

impl Effort {
    pub const ALL: [Effort; 5] = [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max];

    pub fn name(self) -> &'static str {
        match self {
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            Effort::XHigh => "xhigh",
            Effort::Max => "max",
        }
    }

    pub fn parse(text: &str) -> Result<Effort, UnknownEffort> {
        let wanted = text.trim().to_ascii_lowercase();
        let found = Effort::ALL.into_iter().find(|effort| effort.name() == wanted);
        found.ok_or_else(|| UnknownEffort(text.to_owned()))
    }

    fn list() -> String {
        Effort::ALL.map(|effort| format!("`{effort}`")).join(", ")
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efforts_are_read_as_they_are_written() {
        for effort in Effort::ALL {
            assert_eq!(Effort::parse(&effort.to_string()), Ok(effort));
        }
        assert_eq!(Effort::parse(" High "), Ok(Effort::High));
        let error = Effort::parse("hard").unwrap_err().to_string();
        assert_eq!(error, "there is no effort `hard`; it can be `low`, `medium`, `high`, `xhigh`, `max`");
    }
}
