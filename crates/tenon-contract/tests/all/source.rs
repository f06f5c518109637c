//! Where a schema may come from.

use std::fs;
use std::path::{Path, PathBuf};

use tenon_contract::{MAX_SCHEMA_BYTES, load, read_schema};

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tenon-contract-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), content).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn message(argument: &str, cwd: &Path) -> String {
    load(argument, cwd, None).unwrap_err().to_string()
}

#[test]
fn a_schema_is_written_inline_or_in_a_file() {
    let folder = Folder::new("read");
    folder.write("s.json", r#"{"type":"object"}"#);
    folder.write("bom.json", "\u{feff}{\"type\":\"object\"}");
    fs::create_dir_all(folder.0.join("home/sub")).unwrap();
    folder.write("home/sub/h.json", "{}");
    let home = folder.0.join("home");
    for (argument, expected) in [
        (r#"{"type":"object"}"#, r#"{"type":"object"}"#),
        (" {} ", "{}"),
        ("@s.json", r#"{"type":"object"}"#),
        (" @./s.json ", r#"{"type":"object"}"#),
        ("@bom.json", r#"{"type":"object"}"#),
        ("@~/sub/h.json", "{}"),
    ] {
        assert_eq!(read_schema(argument, &folder.0, Some(&home)).unwrap(), expected, "{argument}");
        assert!(load(argument, &folder.0, Some(&home)).is_ok(), "{argument}");
    }
    let absolute = format!("@{}", folder.0.join("s.json").display());
    assert!(load(&absolute, Path::new("/"), None).is_ok());
}

#[test]
fn what_names_no_schema_is_refused() {
    let folder = Folder::new("refuse");
    fs::create_dir_all(folder.0.join("dir")).unwrap();
    folder.write("latin1.json", b"{\"a\":\"\xe4\"}");
    for (argument, expected) in [
        ("", "the schema is empty"),
        ("   ", "the schema is empty"),
        ("@", "no file is named after `@`"),
        ("@-", "`@-` cannot be read: standard input holds the prompt"),
        ("@dir", "`dir` is not a regular file"),
        ("@/dev/zero", "`/dev/zero` is not a regular file"),
        ("@latin1.json", "`latin1.json` is not text in UTF-8"),
        ("@~/x.json", "`@~/x.json` cannot be found, because the home directory is not known"),
    ] {
        assert_eq!(message(argument, &folder.0), expected);
    }
    assert!(message("@missing.json", &folder.0).starts_with("`missing.json` cannot be read: "));
}

#[test]
fn a_pipe_is_refused_without_waiting_for_it() {
    let folder = Folder::new("pipe");
    let pipe = folder.0.join("p");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(message("@p", &folder.0), "`p` is not a regular file");
    }
}

#[test]
fn a_file_has_a_largest_size() {
    let folder = Folder::new("size");
    let limit = usize::try_from(MAX_SCHEMA_BYTES).unwrap();
    let of_size = |size: usize| format!("{}{{}}", " ".repeat(size - 2));
    folder.write("fits.json", of_size(limit));
    folder.write("large.json", of_size(limit + 1));
    assert!(load("@fits.json", &folder.0, None).is_ok());
    assert_eq!(
        message("@large.json", &folder.0),
        "`large.json` has 4194305 bytes, and a schema may have 4194304"
    );
}

#[test]
fn what_a_file_holds_is_not_quoted_and_what_was_typed_is() {
    let folder = Folder::new("quote");
    folder.write("key.pem", "-----BEGIN SECRET-----");
    assert_eq!(message("@key.pem", &folder.0), "the content of `key.pem` is not valid JSON");
    let inline = load("{\"a\" 1}", &folder.0, None).unwrap_err();
    assert_eq!(
        inline.to_string(),
        "the schema is not valid JSON: line 1, column 6: expected `:` after the property name, found `1`"
    );
    let path = load("schema.json", &folder.0, None).unwrap_err();
    assert_eq!(path.hint().unwrap(), "a schema in a file is named with `@`, such as `@schema.json`");
}
