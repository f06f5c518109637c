//! Why settings could not be used. All of them are bad configuration (exit 52).

use std::path::PathBuf;

use tenon_core::{ErrorClass, Failure};

use crate::problem::{Problem, shown_path};

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}", invalid_message(.0))]
    Invalid(Vec<Problem>),
    #[error("`{}` cannot be read: {reason}", shown_path(.path))]
    Unreadable { path: PathBuf, reason: String },
    #[error("`{}` cannot be written: {reason}", shown_path(.path))]
    Unwritable { path: PathBuf, reason: String },
    #[error("`{variable}` is `{value}`, but may be one of {allowed}")]
    Environment { variable: &'static str, value: String, allowed: String },
    #[error("{0}")]
    SettingSources(String),
    #[error("there is no folder for user settings")]
    NoTenonHome,
    #[error("`{}` cannot be trusted: {reason}", shown_path(.path))]
    Untrustable { path: PathBuf, reason: String },
}

impl ConfigError {
    pub fn hint(&self) -> Option<String> {
        match self {
            ConfigError::Invalid(problems) => problems.first().and_then(|problem| problem.hint.clone()),
            ConfigError::NoTenonHome => Some("set `TENON_HOME` or `HOME`".to_owned()),
            ConfigError::Unreadable { .. }
            | ConfigError::Unwritable { .. }
            | ConfigError::Environment { .. }
            | ConfigError::SettingSources(_)
            | ConfigError::Untrustable { .. } => None,
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        let failure = Failure::new(ErrorClass::Config, error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

fn invalid_message(problems: &[Problem]) -> String {
    match problems {
        [] => "the settings are not valid".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}
