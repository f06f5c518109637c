//! How the schema is put to the model, and what a model hears that stopped without an answer.
//!
//! As a tool (the default): the arguments of the terminal call are the payload. As a response format, for
//! servers that can constrain what a model writes but whose models cannot call tools: the text of the answer
//! is the payload, and the model client turns it into the same terminal call. Whichever it is, there is one
//! way on from the call: validation, retries, redaction.

use std::sync::Arc;

use serde_json::Value;
use tenon_contract::Contract;
use tenon_core::{ResponseFormat, ToolChoice, ToolSpec};

use crate::terminal::{nudge, nudge_for_text};

/// `--schema-mode`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaMode {
    #[default]
    Tool,
    ResponseFormat,
    /// A tool, until the model answers a forced call with text.
    Auto,
}

/// In the reminders of a run, what is asked for now.
pub(crate) struct Asking {
    mode: SchemaMode,
    form: Form,
    reminders: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Tool,
    ResponseFormat,
}

/// The part of a request that depends on the mode.
pub(crate) struct Offer {
    pub(crate) tools: Vec<Arc<ToolSpec>>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) response_format: Option<ResponseFormat>,
}

pub(crate) struct Reminder {
    pub(crate) told: String,
    /// One sentence for people, when the form has changed.
    pub(crate) warning: Option<String>,
}

impl Asking {
    pub(crate) fn new(mode: SchemaMode) -> Asking {
        let form = match mode {
            SchemaMode::Tool | SchemaMode::Auto => Form::Tool,
            SchemaMode::ResponseFormat => Form::ResponseFormat,
        };
        Asking { mode, form, reminders: 0 }
    }

    /// From then on the model is offered nothing but the way out.
    pub(crate) fn has_reminded(&self) -> bool {
        self.reminders > 0
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// `tools` holds the terminal tool, if there is one.
    pub(crate) fn offer(&self, tools: &[Arc<ToolSpec>], terminal: Option<&str>) -> Offer {
        let of_terminal = |spec: &&Arc<ToolSpec>| terminal == Some(spec.name.as_str());
        let reminded = self.has_reminded();
        match (terminal, self.form) {
            (Some(name), Form::Tool) if reminded => Offer {
                tools: tools.iter().filter(of_terminal).cloned().collect(),
                tool_choice: ToolChoice::Force(name.to_owned()),
                response_format: None,
            },
            (Some(_), Form::ResponseFormat) => Offer {
                tools: tools.iter().filter(|spec| !reminded && !of_terminal(spec)).cloned().collect(),
                tool_choice: ToolChoice::Auto,
                response_format: tools
                    .iter()
                    .find(of_terminal)
                    .map(|spec| ResponseFormat { name: spec.name.clone(), schema: spec.parameters.clone() }),
            },
            _ => Offer { tools: tools.to_vec(), tool_choice: ToolChoice::Auto, response_format: None },
        }
    }

    /// What a model hears that stopped without an answer; `None` when it has been told often enough.
    pub(crate) fn remind(&mut self, contract: &Contract, allowed: u32) -> Option<Reminder> {
        // Only a forced call tells whether the model can make one at all.
        let allowed = match (self.mode, self.form) {
            (SchemaMode::Auto, Form::Tool) => allowed.max(1),
            _ => allowed,
        };
        let schema: &Value = contract.schema.source();
        let mut warning = None;
        if self.reminders >= allowed {
            if self.mode != SchemaMode::Auto || self.form == Form::ResponseFormat {
                return None;
            }
            self.form = Form::ResponseFormat;
            warning = Some(format!(
                "the model answered a forced call of `{}` with text; from here on its text is asked for in the form of the schema (`--schema-mode auto`)",
                contract.tool
            ));
        }
        self.reminders += 1;
        let told = match self.form {
            Form::Tool => nudge(contract.tool),
            Form::ResponseFormat => nudge_for_text(contract.tool, schema),
        };
        Some(Reminder { told, warning })
    }
}
