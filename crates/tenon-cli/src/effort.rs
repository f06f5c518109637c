//! How much the model is to think: `--effort`, `--thinking` and `--max-thinking-tokens`. What each protocol is told
//! is `tenon-model`'s; a model that cannot be told is refused before anything is asked of it.

use clap::ValueEnum;
use tenon_core::{Effort, Failure, Reasoning, Thinking};

use crate::args::RunArgs;
use crate::model::Connections;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EffortFlag {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ThinkingFlag {
    /// As long as the model finds right
    #[value(aliases = ["enabled", "on"])]
    Adaptive,
    /// Not at all
    #[value(alias = "off")]
    Disabled,
}

pub fn of_flags(args: &RunArgs) -> Reasoning {
    let effort = args.effort.map(|effort| match effort {
        EffortFlag::Low => Effort::Low,
        EffortFlag::Medium => Effort::Medium,
        EffortFlag::High => Effort::High,
        EffortFlag::Xhigh => Effort::XHigh,
        EffortFlag::Max => Effort::Max,
    });
    let thinking = match (args.thinking, args.max_thinking_tokens) {
        (Some(ThinkingFlag::Disabled), _) | (None, Some(0)) => Thinking::Off,
        (Some(ThinkingFlag::Adaptive), _) => Thinking::Adaptive,
        (None, Some(tokens)) => Thinking::AtMost(tokens),
        (None, None) => Thinking::AsUsual,
    };
    Reasoning { effort, thinking }
}

/// What the flags ask for, if the chosen models can be told.
pub fn checked(args: &RunArgs, connections: &Connections) -> Result<Reasoning, Failure> {
    let reasoning = of_flags(args);
    connections.can_be_told(reasoning)?;
    Ok(reasoning)
}
