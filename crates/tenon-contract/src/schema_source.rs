//! Where a schema comes from: written in the argument itself, or in a file named by `@path`.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{Schema, SchemaError};

/// A schema larger than this is a wrong path. It is also sent to the model with every request.
pub const MAX_SCHEMA_BYTES: u64 = 4 * 1024 * 1024;

/// Reads the schema an argument stands for and puts it through the gate.
///
/// What does not parse is quoted only if it was written inline: a file may hold what should not show up in
/// an error message.
pub fn load(argument: &str, cwd: &Path, home: Option<&Path>) -> Result<Schema, SchemaError> {
    let text = read_schema(argument, cwd, home)?;
    Schema::compile(&text).map_err(|error| match (error, file_argument(argument)) {
        (SchemaError::Syntax { .. }, Some(path)) => SchemaError::FileSyntax { path: path.into() },
        (SchemaError::Syntax { line, column, message, .. }, None)
            if !argument.trim_start().starts_with('{') =>
        {
            let hint = Some("a schema in a file is named with `@`, such as `@schema.json`".to_owned());
            SchemaError::Syntax { line, column, message, hint }
        }
        (error, _) => error,
    })
}

/// The text of the schema an argument stands for: the argument itself, or the file after its `@`.
/// Relative paths start at `cwd`, `~` at `home`.
pub fn read_schema(argument: &str, cwd: &Path, home: Option<&Path>) -> Result<String, SchemaError> {
    let inline =
        "write the schema itself, such as `{\"type\":\"object\"}`, or name a file, such as `@schema.json`";
    let trimmed = argument.trim();
    if trimmed.is_empty() {
        return Err(SchemaError::source("the schema is empty", Some(inline)));
    }
    match file_argument(argument) {
        None => Ok(trimmed.trim_start_matches('\u{feff}').to_owned()),
        Some("") => Err(SchemaError::source("no file is named after `@`", Some(inline))),
        Some("-") => Err(SchemaError::source(
            "`@-` cannot be read: standard input holds the prompt",
            Some("put the schema in a file and name it, such as `@schema.json`"),
        )),
        Some(path) => read_file(&resolve(path, cwd, home)?, path),
    }
}

fn file_argument(argument: &str) -> Option<&str> {
    argument.trim().strip_prefix('@').map(str::trim)
}

fn resolve(path: &str, cwd: &Path, home: Option<&Path>) -> Result<PathBuf, SchemaError> {
    let below_home = match path.strip_prefix('~') {
        Some("") => Some(""),
        Some(rest) => rest.strip_prefix('/'),
        None => None,
    };
    match (below_home, home) {
        (None, _) => Ok(cwd.join(path)),
        (Some(rest), Some(home)) => Ok(home.join(rest)),
        (Some(_), None) => Err(SchemaError::source(
            format!("`@{path}` cannot be found, because the home directory is not known"),
            Some("write the whole path"),
        )),
    }
}

/// `name` is the path as it was written, for messages.
fn read_file(path: &Path, name: &str) -> Result<String, SchemaError> {
    let unreadable =
        |error: std::io::Error| SchemaError::source(format!("`{name}` cannot be read: {error}"), None);
    // Asked before opening: opening a pipe would wait for its writer.
    let found = fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(SchemaError::source(format!("`{name}` is not a regular file"), None));
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large from one that just fits, even if it grows.
    file.take(MAX_SCHEMA_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_SCHEMA_BYTES {
        let size = found.len().max(MAX_SCHEMA_BYTES + 1);
        return Err(SchemaError::source(
            format!("`{name}` has {size} bytes, and a schema may have {MAX_SCHEMA_BYTES}"),
            Some("check the path: a schema this large would be sent to the model with every request"),
        ));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| SchemaError::source(format!("`{name}` is not text in UTF-8"), None))?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}
