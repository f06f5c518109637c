//! A build without the embedded model: its name is refused. The other build has `local.rs` in this place.

use std::path::PathBuf;
use std::sync::Arc;

use tenon_config::{Settings, Surroundings};
use tenon_core::{Cancel, DeltaStream, ErrorClass, Failure, ModelClient, ModelError, Request, ToolSpec};

use crate::args::RunArgs;
use crate::stderr::Reporter;

#[derive(Clone)]
pub struct Local;

#[derive(Clone, Copy)]
pub struct Tools;

impl Tools {
    pub fn of(_args: &RunArgs) -> Tools {
        Tools
    }

    pub fn offers(self, _tool: &ToolSpec) -> bool {
        false
    }
}

fn absent() -> Failure {
    Failure::new(ErrorClass::Config, "this build of tenon has no embedded model")
        .hint("build it with the cargo feature `local`, or use a model server: `--model ollama/…`")
}

pub fn on_this_machine(_here: &Surroundings) -> String {
    "not in this build".to_owned()
}

impl Local {
    pub fn new(_args: &RunArgs, _here: &Surroundings, _started_in: PathBuf) -> Local {
        Local
    }

    pub fn weights(&self, _id: &str) -> Result<(), Failure> {
        Err(absent())
    }

    pub fn client(&self, _id: &str) -> Arc<dyn ModelClient> {
        Arc::new(Local)
    }

    pub async fn fetch(
        &self,
        id: &str,
        _args: &RunArgs,
        _settings: &Settings,
        _here: &Surroundings,
        _reporter: Reporter,
    ) -> Result<(), Failure> {
        self.weights(id)
    }
}

impl ModelClient for Local {
    fn stream(&self, _request: Request, _cancel: Cancel) -> DeltaStream {
        let Failure { class, message, .. } = absent();
        Box::pin(futures_util::stream::iter([Err(ModelError::new(class, message))]))
    }
}
