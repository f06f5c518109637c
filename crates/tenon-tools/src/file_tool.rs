//! What the file tools have in common: a spec, the workspace, and work that blocks.

use std::sync::Arc;

use tenon_core::{Args, BoxFut, Cancel, SeenFile, Tool, ToolCtx, ToolOutcome, ToolSpec};

use crate::Workspace;
use crate::args::Refusal;
use crate::blocking;

pub(crate) struct FileTool {
    pub spec: Arc<ToolSpec>,
    pub workspace: Arc<Workspace>,
    pub work: Work,
}

/// What the tool does, off the async threads.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// May be abandoned; looks at the token now and then.
    Read(fn(&ToolSpec, &Workspace, &Args, &Cancel) -> Result<ToolOutcome, Refusal>),
    /// Once started it is waited for.
    Change(fn(&ToolSpec, &Workspace, &Args) -> Result<ToolOutcome, Refusal>),
}

impl Tool for FileTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        let (spec, workspace) = (self.spec.clone(), Arc::clone(&self.workspace));
        match self.work {
            Work::Read(read) => {
                Box::pin(blocking::read_only(ctx, move |cancel| read(&spec, &workspace, &args, cancel)))
            }
            Work::Change(change) => {
                Box::pin(blocking::changing(ctx, move || change(&spec, &workspace, &args)))
            }
        }
    }

    fn recall(&self, files: &[SeenFile]) {
        self.workspace.recall(files);
    }
}
