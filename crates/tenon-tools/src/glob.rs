//! `glob`: files by name, newest first.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use ignore::WalkState;
use serde_json::json;
use tenon_core::{Args, Cancel, ToolKind, ToolOutcome, ToolSpec};

use crate::Workspace;
use crate::args::{ArgReader, Refusal};
use crate::file_tool::{FileTool, Work};
use crate::output::{GENERIC, cap};
use crate::walk::{self, Ignored};
use crate::workspace::in_one_line;

/// Names beyond this are noise to a model.
const MAX_FILES: usize = 100;
/// Candidates are thinned out at this number, so that a huge tree does not fill the memory.
const MAX_CANDIDATES: usize = 10_000;

pub(crate) fn tool(workspace: Arc<Workspace>) -> FileTool {
    let spec = ToolSpec {
        name: "glob".to_owned(),
        description: format!(
            "Finds files by a pattern such as `src/**/*.rs`, newest first, at most {MAX_FILES}. `*` stays in one \
             folder, `**` crosses folders. Ignored files are left out."
        ),
        parameters: json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "description": "The pattern, relative to `path`." },
                "path": { "type": "string", "description": "Absolute path of the folder to search. Default: the working folder." }
            },
            "required": ["pattern"]
        }),
        kind: ToolKind::Read,
    };
    FileTool { spec: Arc::new(spec), workspace, work: Work::Read(find) }
}

fn find(
    spec: &ToolSpec,
    workspace: &Workspace,
    args: &Args,
    cancel: &Cancel,
) -> Result<ToolOutcome, Refusal> {
    let args = ArgReader::new(spec, args);
    let wanted = args.filled_text("pattern")?;
    let folder = walk::start(workspace, &args)?;
    if !folder.is_dir() {
        return Err(Refusal::failed("`path` is a file; give the folder to search."));
    }
    let relative = below(&folder, wanted)?;
    let pattern = walk::pattern(&relative)?;
    let candidates = Mutex::new(Candidates::default());
    walk::walker(&folder, Ignored::Skipped).build_parallel().run(|| {
        let (folder, pattern, candidates) = (&folder, &pattern, &candidates);
        Box::new(move |entry| {
            let Ok(entry) = entry else { return WalkState::Continue };
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            let is_folder = entry.file_type().is_none_or(|kind| kind.is_dir());
            if !is_folder
                && pattern.is_match(walk::below(folder, entry.path()))
                && walk::is_visible(workspace, &entry)
            {
                let modified = entry.metadata().ok().and_then(|meta| meta.modified().ok());
                let modified = modified.unwrap_or(SystemTime::UNIX_EPOCH);
                candidates.lock().unwrap_or_else(PoisonError::into_inner).add(modified, entry.into_path());
            }
            WalkState::Continue
        })
    });
    let Candidates { newest: mut found, total } =
        candidates.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort();
    found.truncate(MAX_FILES);
    let place = workspace.show(&folder);
    if found.is_empty() {
        return Ok(ToolOutcome::ok(format!("No files match `{wanted}` in `{place}`.")));
    }
    let files = if total == 1 { "file matches" } else { "files match" };
    let mut text = format!("{total} {files} `{wanted}` in `{place}`, newest first:\n");
    for (_, path) in &found {
        text.push_str(&in_one_line(&path.to_string_lossy()));
        text.push('\n');
    }
    if total > found.len() {
        text.push_str(&format!(
            "[{} more are not shown; a narrower pattern finds them]\n",
            total - found.len()
        ));
    }
    let display = format!("{total} {files} `{wanted}`");
    Ok(ToolOutcome {
        display: Some(display),
        ..ToolOutcome::ok(cap(&workspace.outputs, &spec.name, text, GENERIC))
    })
}

/// What was found so far, the newest of it.
#[derive(Default)]
struct Candidates {
    newest: Vec<(Reverse<SystemTime>, PathBuf)>,
    total: usize,
}

impl Candidates {
    fn add(&mut self, modified: SystemTime, path: PathBuf) {
        self.newest.push((Reverse(modified), path));
        self.total += 1;
        if self.newest.len() == MAX_CANDIDATES {
            self.newest.sort();
            self.newest.truncate(MAX_FILES);
        }
    }
}

/// The pattern relative to the folder. Models also write absolute ones.
fn below(folder: &Path, wanted: &str) -> Result<String, Refusal> {
    let wanted = wanted.trim().trim_start_matches("./");
    if wanted.split('/').any(|part| part == "..") {
        return Err(Refusal::arguments("`pattern` must not contain `..`; `path` says where to search."));
    }
    if !wanted.starts_with('/') {
        return Ok(wanted.to_owned());
    }
    let prefix = format!("{}/", folder.display());
    wanted.strip_prefix(&prefix).map(str::to_owned).ok_or_else(|| {
        Refusal::arguments(format!(
            "`pattern` must be relative to the folder searched, `{}`.",
            folder.display()
        ))
    })
}
