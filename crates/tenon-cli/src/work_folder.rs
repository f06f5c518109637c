//! What an agent needs to work in a folder: permissions bound to it, a sandbox around it, tools that look and act there. A
//! run has one; isolated steps of a workflow have more.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tenon_agent::OwnTools;
use tenon_config::{Loaded, Surroundings};
use tenon_core::{ErrorClass, Failure, IdSource, SandboxState};
use tenon_tools::{OutputStore, Permissions, ShellOptions, Workspace, WorkspaceOptions, builtin_tools};

use crate::args::RunArgs;
use crate::plan::Temporary;
use crate::{cli_settings, sandbox};

/// What the folders of one run have in common.
pub struct WorkFolders {
    pub args: RunArgs,
    pub loaded: Loaded,
    pub here: Surroundings,
    pub add_dirs: Vec<PathBuf>,
    pub outputs: OutputStore,
    /// Not confined yet.
    pub shell: ShellOptions,
    pub ids: Arc<IdSource>,
    /// Private folders that were made for commands, gone when the run is.
    pub temporary: Arc<Mutex<Temporary>>,
}

pub struct WorkFolder {
    /// For whoever has the workspace that was given: the run itself, session after session.
    pub main_tools: OwnTools,
    /// For other agents, each of which has to read files itself.
    pub own_tools: OwnTools,
    pub sandbox: SandboxState,
}

impl WorkFolders {
    /// For a copy of the project: rules that start at the project's root start at the copy's.
    pub fn permissions_in_copy(&self, folder: &Path, top: &Path) -> Result<Permissions, Failure> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let cwd = real(&self.here.cwd);
        let below =
            cwd.strip_prefix(real(&self.loaded.project_root)).map_or(0, |rest| rest.components().count());
        let mut loaded = self.loaded.clone();
        loaded.project_root = folder.ancestors().nth(below).unwrap_or(folder).to_owned();
        let (cwd, copy) = (folder.to_owned(), Some(top.to_owned()));
        cli_settings::permissions(&self.args, &loaded, cwd, self.here.home.clone(), copy)
    }

    /// For a copy of the project, of which `top` is the top: all of it is in reach of commands, wherever it lies.
    pub fn work_in_copy(
        &self,
        folder: &Path,
        top: &Path,
        permissions: &Permissions,
        warnings: &mut Vec<String>,
    ) -> Result<WorkFolder, Failure> {
        let writable = self.add_dirs.iter().cloned().chain([top.to_owned()]).collect::<Vec<_>>();
        self.work_with(self.workspace(folder, permissions)?, folder, &writable, warnings)
    }

    /// The files that may be reached from a folder.
    pub fn workspace(&self, folder: &Path, permissions: &Permissions) -> Result<Arc<Workspace>, Failure> {
        let hidden = permissions.clone();
        Workspace::new(WorkspaceOptions {
            cwd: folder.to_owned(),
            add_dirs: self.add_dirs.clone(),
            outputs: self.outputs.clone(),
            hidden: Some(Arc::new(move |path: &Path| hidden.hides(path))),
        })
        .map_err(|error| Failure::new(ErrorClass::Input, format!("a working folder cannot be used: {error}")))
    }

    pub fn work_at(
        &self,
        workspace: Arc<Workspace>,
        folder: &Path,
        warnings: &mut Vec<String>,
    ) -> Result<WorkFolder, Failure> {
        self.work_with(workspace, folder, &self.add_dirs, warnings)
    }

    fn work_with(
        &self,
        workspace: Arc<Workspace>,
        folder: &Path,
        add_dirs: &[PathBuf],
        warnings: &mut Vec<String>,
    ) -> Result<WorkFolder, Failure> {
        let mut shell = self.shell.clone();
        let folders = sandbox::Folders {
            here: &self.here,
            cwd: folder,
            add_dirs,
            outputs: self.outputs.folder(),
            private_temp: std::env::temp_dir().join(format!("tenon-tmp-{}", self.ids.next())),
        };
        let settings = &self.loaded.settings.sandbox;
        let (sandbox, made) = sandbox::confine(&self.args, settings, folders, &mut shell, warnings)?;
        self.temporary.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
        let (shared, shell_of_main) = (Arc::clone(&workspace), shell.clone());
        let main_tools: OwnTools =
            Arc::new(move |tasks| builtin_tools(Arc::clone(&shared), shell_of_main.clone(), tasks.clone()));
        let own_tools: OwnTools =
            Arc::new(move |tasks| builtin_tools(workspace.for_another_agent(), shell.clone(), tasks.clone()));
        Ok(WorkFolder { main_tools, own_tools, sandbox })
    }
}
