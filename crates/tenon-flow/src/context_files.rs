//! The files that a step names in `contextFiles`: text for its prompt, images and PDFs as attachments.
//!
//! A file that cannot be used does not fail the step: the prompt says what is wrong instead, and loading the document warns
//! of it ([`doubt`]). Files stay inside the folder of
//! the document, links resolved. Where the text stands in the prompt is `prompt.rs`.

use std::fs;
use std::io::Read;
use std::path::Path;

use tenon_core::Media;
use tenon_tools::media_from_bytes;

use crate::diagnostic::{Code, quoted};
use crate::document::Place;
use crate::not_text;
use crate::references::{RefError, confined};

/// More is no context.
const MAX_FILE: u64 = 10 * 1024 * 1024;

/// Of a file, before a run: enough to tell text from something else.
const LOOKED_AT: u64 = 64 * 1024;

/// A file as a step's prompt has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFile {
    /// As the document writes it.
    pub path: String,
    pub content: FileContent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    Text(String),
    Attached(Media),
    /// What is wrong with it.
    Note(String),
}

/// Reads `paths`, which are relative to `folder`. It blocks, and never on a file that is not a regular one.
pub fn read_context_files(folder: &Path, paths: &[String]) -> Vec<ContextFile> {
    let read = |path: &String| ContextFile {
        path: path.clone(),
        content: content(folder, path).unwrap_or_else(FileContent::Note),
    };
    paths.iter().map(read).collect()
}

/// Why a step would not be shown a file as it is, as far as that can be told before the run.
pub(crate) struct Doubt {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

/// Looks at the file without reading all of it.
pub(crate) fn doubt(folder: &Path, path: &str) -> Option<Doubt> {
    let name = quoted(path);
    let doubt = |code, message: String, hint| Some(Doubt { code, message, hint });
    let made_before = "a step before may still make it; otherwise the agent is told that it cannot be read";
    let real = match confined(folder, path) {
        Ok(real) => real,
        Err(error @ RefError::Escape(_)) => {
            let hint = "move or copy the file into the folder of the document, or the document up";
            return doubt(Code::RefEscape, format!("the context file {error}"), hint);
        }
        Err(error) => return doubt(Code::RefMissing, format!("the context file {error}"), made_before),
    };
    let size = match fs::metadata(&real) {
        Ok(about) if about.is_file() => about.len(),
        _ => {
            return doubt(
                Code::RefMissing,
                format!("the context file `{name}` is not a file"),
                "name a file in it",
            );
        }
    };
    if size > MAX_FILE {
        let message = format!("the context file `{name}` has {size} bytes, and may have {MAX_FILE}");
        return doubt(Code::TooLarge, message, "name a part of it, or let the agent read it with a tool");
    }
    let mut head = Vec::new();
    let read = fs::File::open(&real).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut head));
    if read.is_err() {
        return doubt(
            Code::RefMissing,
            format!("the context file `{name}` may not be read"),
            "change its permissions",
        );
    }
    match media_type(&real) {
        Some(mime) => match media_from_bytes(mime, &head) {
            Ok(_) => None,
            Err(why) => {
                let hint = "give it the ending of what it is";
                doubt(
                    Code::RefMissing,
                    format!("the context file `{name}` is not what its ending says: {why}"),
                    hint,
                )
            }
        },
        // A character may be cut at the end of what was read, unless that was all of it.
        None if std::str::from_utf8(&head)
            .is_err_and(|error| error.error_len().is_some() || size <= LOOKED_AT) =>
        {
            let why = not_text::text(head).err()?;
            let Place { line, column } = why.place;
            let message =
                format!("the context file `{name}` is no text: {why} (line {line}, column {column})");
            doubt(Code::Validation, message, "save it as UTF-8; an image or a PDF needs its own ending")
        }
        None => None,
    }
}

fn content(folder: &Path, path: &str) -> Result<FileContent, String> {
    let unreadable = |error: std::io::Error| format!("(error reading file: {error})");
    let real = confined(folder, path).map_err(|error| match error {
        RefError::Escape(_) => "(error: path escapes workflow directory)".to_owned(),
        RefError::Missing { reason, .. } => format!("(error reading file: {reason})"),
        other => format!("(error reading file: {other})"),
    })?;
    // Asked before opening: opening a FIFO would wait for a writer.
    let meta = fs::metadata(&real).map_err(unreadable)?;
    if !meta.is_file() {
        return Err("(error reading file: it is not a regular file)".to_owned());
    }
    let mut bytes = Vec::new();
    fs::File::open(&real)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err("(error: file exceeds 10 MiB attachment cap)".to_owned());
    }
    let Some(mime) = media_type(&real) else { return text(bytes).map(FileContent::Text) };
    let media = media_from_bytes(mime, &bytes).map_err(|why| format!("(error: {why})"))?;
    Ok(FileContent::Attached(media))
}

/// Of files that are attached; all others are text.
fn media_type(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        "pdf" => Some("application/pdf"),
        _ => None,
    }
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    let text = not_text::text(bytes).map_err(|why| {
        let Place { line, column } = why.place;
        format!("(error: {why}, in line {line}, column {column})")
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    #[test]
    fn each_kind_of_file_and_each_thing_that_can_be_wrong() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        let home = tempfile::tempdir().unwrap();
        let folder = home.path();
        fs::create_dir(folder.join("docs")).unwrap();
        fs::write(folder.join("docs/a.md"), "\u{feff}Text\r\n").unwrap();
        fs::write(folder.join("bytes.txt"), b"a\xffb").unwrap();
        fs::write(folder.join("logo.PNG"), PNG).unwrap();
        fs::write(folder.join("fake.jpg"), "no image").unwrap();
        fs::write(folder.join("spec.pdf"), "%PDF-1.7").unwrap();
        fs::write(folder.join("huge.txt"), vec![b'x'; MAX_FILE as usize + 1]).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), folder.join("link")).unwrap();
        std::os::unix::fs::symlink("docs/a.md", folder.join("inside")).unwrap();
        let note = |text: &str| FileContent::Note(text.to_owned());
        let escapes = note("(error: path escapes workflow directory)");
        let png = media_from_bytes("image/png", PNG).unwrap();
        let pdf = media_from_bytes("application/pdf", b"%PDF-1.7").unwrap();
        let table = [
            ("docs/a.md", FileContent::Text("Text\r\n".to_owned())),
            ("inside", FileContent::Text("Text\r\n".to_owned())),
            ("bytes.txt", note("(error: the byte 0xFF is no UTF-8 text, in line 1, column 2)")),
            ("logo.PNG", FileContent::Attached(png)),
            ("spec.pdf", FileContent::Attached(pdf)),
            ("fake.jpg", note("(error: it is no PNG, JPEG, GIF or WebP image)")),
            ("huge.txt", note("(error: file exceeds 10 MiB attachment cap)")),
            ("missing", note("(error reading file: there is no such file)")),
            ("docs", note("(error reading file: it is not a regular file)")),
            ("link", escapes.clone()),
            ("../../../../../../../../../../etc/passwd", escapes.clone()),
            ("/etc/passwd", escapes),
        ];
        for (path, wanted) in table {
            let read = read_context_files(folder, &[path.to_owned()]);
            assert_eq!(read, [ContextFile { path: path.to_owned(), content: wanted }], "{path}");
        }
    }
}
