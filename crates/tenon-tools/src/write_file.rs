//! `write_file`: a whole file, new or replaced. A file that exists must have been read first.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tenon_core::{Args, SeenFile, ToolKind, ToolOutcome, ToolSpec};

use crate::Workspace;
use crate::args::{ArgReader, Refusal};
use crate::atomic_write;
use crate::diff::changed;
use crate::file_tool::{FileTool, Work};
use crate::workspace::{Fingerprint, PriorRead};

/// Larger files are replaced without counting changed lines.
const COUNTED_SIZE: u64 = 16 * 1024 * 1024;

pub(crate) fn tool(workspace: Arc<Workspace>) -> FileTool {
    let spec = ToolSpec {
        name: "write_file".to_owned(),
        description: "Writes a whole file. Missing folders are created. A file that exists must have been read \
                      with read_file before, and must not have changed since; to change a part of it, use edit."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "file_path": { "type": "string", "description": "Absolute path of the file." },
                "content": { "type": "string", "description": "All of the new content." }
            },
            "required": ["file_path", "content"]
        }),
        kind: ToolKind::Edit,
    };
    FileTool { spec: Arc::new(spec), workspace, work: Work::Change(write) }
}

fn write(spec: &ToolSpec, workspace: &Workspace, args: &Args) -> Result<ToolOutcome, Refusal> {
    let args = ArgReader::new(spec, args);
    let given = args.filled_text("file_path")?;
    let content = args.text("content")?;
    let path = workspace.resolve(given)?;
    let old = existing(workspace, given, &path)?;
    let seen = store(workspace, given, &path, content)?;
    let shown = workspace.show(&path);
    let lines = content.lines().count();
    let did = if matches!(old, Existing::None) { "Created" } else { "Replaced" };
    let message = format!("{did} `{shown}` ({lines} {}).", if lines == 1 { "line" } else { "lines" });
    let done = match old {
        Existing::None => changed(message, &shown, "", content),
        Existing::Text(old) => changed(message, &shown, &old, content),
        Existing::Uncounted => {
            ToolOutcome { lines_added: content.lines().count() as u64, ..ToolOutcome::ok(message) }
        }
    };
    Ok(done.having_seen(seen))
}

/// Writes the file and remembers what it now holds, so that it can be changed again without reading it.
pub(crate) fn store(
    workspace: &Workspace,
    given: &str,
    path: &Path,
    content: &str,
) -> Result<SeenFile, Refusal> {
    atomic_write::replace(path, content.as_bytes())
        .map_err(|error| Refusal::failed(format!("`{given}` cannot be written: {error}.")))?;
    Ok(workspace.remember(path, Fingerprint::of(content.as_bytes())))
}

/// Why a file that exists may not be changed yet; `None` if it may.
pub(crate) fn unread(workspace: &Workspace, given: &str, path: &Path, now: Fingerprint) -> Option<Refusal> {
    match workspace.prior_read(path, now) {
        PriorRead::Unchanged => None,
        PriorRead::Changed => Some(Refusal::failed(format!(
            "`{given}` has changed on disk since it was read; read it again with read_file first."
        ))),
        PriorRead::Never => Some(Refusal::failed(format!(
            "`{given}` exists and has not been read; read it with read_file first."
        ))),
    }
}

enum Existing {
    None,
    Text(String),
    Uncounted,
}

fn existing(workspace: &Workspace, given: &str, path: &Path) -> Result<Existing, Refusal> {
    let unreadable = |error: io::Error| Refusal::failed(format!("`{given}` cannot be read: {error}."));
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Existing::None),
        Err(error) => return Err(unreadable(error)),
    };
    if meta.is_dir() {
        return Err(Refusal::failed(format!("`{given}` is a folder.")));
    }
    if !meta.is_file() {
        return Err(Refusal::failed(format!("`{given}` is not a plain file (a pipe, socket or device).")));
    }
    if meta.len() == 0 {
        return Ok(Existing::Text(String::new()));
    }
    let (fingerprint, old) = if meta.len() > COUNTED_SIZE {
        (
            Fingerprint::of_reader(File::open(path).map_err(unreadable)?).map_err(unreadable)?,
            Existing::Uncounted,
        )
    } else {
        let bytes = fs::read(path).map_err(unreadable)?;
        (Fingerprint::of(&bytes), Existing::Text(String::from_utf8_lossy(&bytes).into_owned()))
    };
    match unread(workspace, given, path, fingerprint) {
        Some(refusal) => Err(refusal),
        None => Ok(old),
    }
}
