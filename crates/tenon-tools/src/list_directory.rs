//! `list_directory`: what is in one folder.

use std::path::Path;
use std::sync::Arc;

use globset::GlobSet;
use serde_json::{Value, json};
use tenon_core::{Args, Cancel, ToolKind, ToolOutcome, ToolSpec};

use crate::Workspace;
use crate::args::{ArgReader, Refusal};
use crate::file_tool::{FileTool, Work};
use crate::output::{GENERIC, cap};
use crate::walk::{self, Ignored};
use crate::workspace::in_one_line;

/// More names than this are a search, not a look.
const MAX_ENTRIES: usize = 100;

pub(crate) fn tool(workspace: Arc<Workspace>) -> FileTool {
    let spec = ToolSpec {
        name: "list_directory".to_owned(),
        description: format!(
            "Lists the names in a folder, folders first, at most {MAX_ENTRIES}. Ignored files are left out."
        ),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "Absolute path of the folder." },
                "ignore": { "type": "array", "items": { "type": "string" }, "description": "Patterns of names to leave out." },
                "file_filtering_options": {
                    "type": "object",
                    "properties": {
                        "respect_git_ignore": { "type": "boolean", "description": "Leave out what .gitignore names. Default: true." }
                    }
                }
            },
            "required": ["path"]
        }),
        kind: ToolKind::Read,
    };
    FileTool { spec: Arc::new(spec), workspace, work: Work::Read(list) }
}

fn list(
    spec: &ToolSpec,
    workspace: &Workspace,
    args: &Args,
    cancel: &Cancel,
) -> Result<ToolOutcome, Refusal> {
    let reader = ArgReader::new(spec, args);
    let given = reader.filled_text("path")?;
    let leave_out =
        reader.texts("ignore")?.into_iter().map(walk::pattern).collect::<Result<Vec<_>, Refusal>>()?;
    let ignored = ignored(args)?;
    let folder = walk::start(workspace, &reader)?;
    if !folder.is_dir() {
        return Err(Refusal::failed(format!("`{given}` is a file; read_file shows its content.")));
    }
    let entries = entries(workspace, &folder, given, ignored, &leave_out, cancel)?;
    let text = listing(&workspace.show(&folder), &entries);
    Ok(ToolOutcome::ok(cap(&workspace.outputs, &spec.name, text, GENERIC)))
}

/// What the tool would show of a folder, for other ways to look at one.
pub(crate) fn names_in(
    workspace: &Workspace,
    folder: &Path,
    given: &str,
    cancel: &Cancel,
) -> Result<String, Refusal> {
    let entries = entries(workspace, folder, given, Ignored::Skipped, &[], cancel)?;
    Ok(cap(&workspace.outputs, "list_directory", listing(&workspace.show(folder), &entries), GENERIC))
}

/// Folders first, each by name.
fn entries(
    workspace: &Workspace,
    folder: &Path,
    given: &str,
    ignored: Ignored,
    leave_out: &[GlobSet],
    cancel: &Cancel,
) -> Result<Vec<(bool, String)>, Refusal> {
    let mut entries: Vec<(bool, String)> = Vec::new();
    for entry in walk::walker(folder, ignored).max_depth(Some(1)).build() {
        if cancel.is_cancelled() {
            break;
        }
        // The folder itself could not be opened, or one entry vanished meanwhile.
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if error.depth() == Some(0) => {
                return Err(Refusal::failed(format!("`{given}` cannot be listed: {error}.")));
            }
            Err(_) => continue,
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_left_out = leave_out.iter().any(|pattern| pattern.is_match(&name));
        if entry.depth() == 0 || is_left_out || !walk::is_visible(workspace, &entry) {
            continue;
        }
        entries.push((!entry.path().is_dir(), name));
    }
    entries.sort();
    Ok(entries)
}

fn listing(shown: &str, entries: &[(bool, String)]) -> String {
    if entries.is_empty() {
        return format!("`{shown}` is empty, or all in it is left out.");
    }
    let mut text = format!("In `{shown}`:\n");
    for (is_file, name) in entries.iter().take(MAX_ENTRIES) {
        text.push_str(if *is_file { "" } else { "[DIR] " });
        text.push_str(&in_one_line(name));
        text.push('\n');
    }
    if entries.len() > MAX_ENTRIES {
        text.push_str(&format!(
            "[{} more are not shown; glob finds names by pattern]\n",
            entries.len() - MAX_ENTRIES
        ));
    }
    text
}

fn ignored(args: &Args) -> Result<Ignored, Refusal> {
    match args.get("file_filtering_options").filter(|value| !value.is_null()) {
        None => Ok(Ignored::Skipped),
        Some(Value::Object(options)) => match options.get("respect_git_ignore") {
            Some(Value::Bool(false)) => Ok(Ignored::Shown),
            None | Some(Value::Bool(true) | Value::Null) => Ok(Ignored::Skipped),
            Some(_) => {
                Err(Refusal::arguments("`file_filtering_options.respect_git_ignore` must be true or false."))
            }
        },
        Some(_) => Err(Refusal::arguments("`file_filtering_options` must be an object.")),
    }
}
