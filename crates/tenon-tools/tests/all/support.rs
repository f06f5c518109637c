//! A temporary folder with all tools in it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenon_core::{Args, Cancel, Id, IdSource, Tool, ToolCtx, ToolErrorKind, ToolOutcome, ToolProgress};
use tenon_tools::{
    Hidden, OutputStore, Registry, ShellOptions, Tasks, Workspace, WorkspaceOptions, builtin_tools,
};

pub struct Bench {
    /// Holds `work` (the working folder) and whatever lies outside of it.
    pub base: TempDir,
    pub tools: Registry,
    pub tasks: Tasks,
    pub cancel: Cancel,
    pub progress: Arc<Mutex<Vec<ToolProgress>>>,
}

pub struct Setup {
    pub shell: ShellOptions,
    pub hidden: Option<Hidden>,
    pub keep_outputs: bool,
    pub add_dirs: Vec<&'static str>,
}

impl Default for Setup {
    fn default() -> Setup {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let shell = ShellOptions::new([(OsString::from("PATH"), path)]);
        Setup { shell, hidden: None, keep_outputs: true, add_dirs: Vec::new() }
    }
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Bench {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("work")).unwrap();
        let add_dirs: Vec<PathBuf> = setup.add_dirs.iter().map(|name| base.path().join(name)).collect();
        add_dirs.iter().for_each(|dir| fs::create_dir(dir).unwrap());
        let outputs = base.path().join("outputs");
        let workspace = Workspace::new(WorkspaceOptions {
            cwd: base.path().join("work"),
            add_dirs,
            outputs: if setup.keep_outputs { OutputStore::at(outputs) } else { OutputStore::none() },
            hidden: setup.hidden,
        })
        .unwrap();
        let tools = Registry::new();
        let tasks = Tasks::new(Arc::new(IdSource::new(Id::from_random([7; 16]))));
        builtin_tools(workspace, setup.shell, tasks.clone())
            .into_iter()
            .for_each(|tool| tools.add(tool).unwrap());
        Bench { base, tools, tasks, cancel: Cancel::new(), progress: Arc::default() }
    }

    pub fn work(&self) -> PathBuf {
        fs::canonicalize(self.base.path().join("work")).unwrap()
    }

    /// Writes a file below the working folder.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.work().join(name)).unwrap()
    }

    pub fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.tools.get(name).unwrap().clone()
    }

    pub fn ctx(&self) -> ToolCtx {
        let progress = self.progress.clone();
        ToolCtx {
            call_id: "call_1".to_owned(),
            cancel: self.cancel.clone(),
            client: Arc::new(tenon_core::NoClient),
            sink: Arc::new(tenon_core::NoSink),
            progress: Arc::new(move |sign| progress.lock().unwrap().push(sign)),
            tell: Arc::new(|_| {}),
            trace: None,
        }
    }

    pub fn call(&self, tool: &str, args: Value) -> ToolOutcome {
        runtime().block_on(self.tool(tool).call(self.ctx(), object(args)))
    }

    /// A call that must go well.
    pub fn ok(&self, tool: &str, args: Value) -> String {
        let outcome = self.call(tool, args);
        assert_eq!(outcome.error, None, "{}", outcome.content);
        outcome.content
    }

    /// A call that must not.
    pub fn error(&self, tool: &str, args: Value) -> (ToolErrorKind, String) {
        let outcome = self.call(tool, args);
        (outcome.error.unwrap_or_else(|| panic!("no error: {}", outcome.content)), outcome.content)
    }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub fn object(value: Value) -> Args {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

pub fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Whether a process runs; a zombie does not.
pub fn runs(pid: &str) -> bool {
    match fs::read_to_string(Path::new("/proc").join(pid).join("stat")) {
        Ok(stat) => !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'),
        Err(_) => false,
    }
}

/// A killed process is gone soon, not at once.
pub fn is_gone(pid: &str) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !runs(pid)
    })
}

/// Waits until something is so.
pub async fn until(mut so: impl FnMut() -> bool) {
    while !so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
