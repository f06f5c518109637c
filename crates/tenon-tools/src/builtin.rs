//! The tools that come with tenon, in the order the model is offered them.

use std::sync::Arc;

use tenon_core::Tool;

use crate::edit::Edit;
use crate::glob::Glob;
use crate::grep_search::GrepSearch;
use crate::list_directory::ListDirectory;
use crate::read_file::ReadFile;
use crate::shell::RunShellCommand;
use crate::write_file::WriteFile;
use crate::{ShellOptions, Workspace};

/// All of them. Which ones a run gets is [`crate::Selection`]'s to say.
pub fn builtin_tools(workspace: Arc<Workspace>, shell: ShellOptions) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(ListDirectory::new(workspace.clone())),
        Arc::new(ReadFile::new(workspace.clone())),
        Arc::new(GrepSearch::new(workspace.clone())),
        Arc::new(Glob::new(workspace.clone())),
        Arc::new(Edit::new(workspace.clone())),
        Arc::new(WriteFile::new(workspace.clone())),
        Arc::new(RunShellCommand::new(workspace, shell)),
    ]
}
