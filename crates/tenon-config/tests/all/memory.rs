use std::fs;
use std::os::unix::fs::symlink;

use tenon_config::{MAX_MEMORY_FILE_BYTES, MAX_MEMORY_TOTAL_BYTES};

use crate::place::Place;

fn texts(place: &Place) -> Vec<(String, String)> {
    let loaded = place.load();
    let show = |file: tenon_config::MemoryFile| (place.relative(&file.path.display().to_string()), file.text);
    loaded.memory.into_iter().map(show).collect()
}

#[test]
fn user_first_then_from_the_root_down() {
    let mut place = Place::new();
    for (path, text) in [
        ("home/.tenon/AGENTS.md", "user"),
        ("AGENTS.md", "above the project"),
        ("work/AGENTS.md", "root"),
        ("work/TENON.md", "root tenon"),
        ("work/a/b/AGENTS.md", "here"),
        ("work/a/TENON.md", "\u{feff}between"),
        ("work/a/b/c/AGENTS.md", "below"),
        ("work/other/AGENTS.md", "beside"),
        ("work/a/AGENTS.md", " \n"),
    ] {
        place.write(path, text);
    }
    place.cwd = place.path("work/a/b");
    let expected = [
        ("home/.tenon/AGENTS.md", "user"),
        ("work/AGENTS.md", "root"),
        ("work/TENON.md", "root tenon"),
        ("work/a/TENON.md", "between"),
        ("work/a/b/AGENTS.md", "here"),
    ];
    assert_eq!(texts(&place), expected.map(|(path, text)| (path.to_owned(), text.to_owned())));
}

#[test]
fn a_long_file_is_cut_between_characters_and_says_so() {
    let place = Place::new();
    // The cap falls into the second byte of a character.
    let text = format!("x{}", "é".repeat(MAX_MEMORY_FILE_BYTES));
    place.write("work/AGENTS.md", &text);
    let kept = format!("x{}", "é".repeat((MAX_MEMORY_FILE_BYTES - 1) / 2));
    let total = text.len();
    assert_eq!(texts(&place)[0].1, format!("{kept}\n[cut here: {total} bytes in all]"));
    assert_eq!(
        place.relative(&place.load().warnings[0]),
        format!(
            "`work/AGENTS.md` is too long: {} of its {total} bytes are used; a file may have 32 KiB, all \
             together 64 KiB",
            kept.len()
        )
    );
}

#[test]
fn all_files_together_have_a_cap() {
    let mut place = Place::new();
    for folder in ["work", "work/a", "work/a/b", "work/a/b/c"] {
        place.write(&format!("{folder}/AGENTS.md"), "m".repeat(30_000));
    }
    place.cwd = place.path("work/a/b/c");
    let lengths: Vec<usize> = texts(&place).iter().map(|(_, text)| text.matches('m').count()).collect();
    assert_eq!(lengths, [30_000, 30_000, MAX_MEMORY_TOTAL_BYTES - 60_000]);
    assert_eq!(place.load().warnings.len(), 2);
}

#[test]
fn bytes_that_are_not_text_are_replaced() {
    let place = Place::new();
    place.write("work/AGENTS.md", b"a\xffb\xff");
    assert_eq!(texts(&place)[0].1, "a\u{fffd}b\u{fffd}");
}

#[test]
fn links_out_of_the_project_and_odd_files_are_skipped_with_a_warning() {
    let place = Place::new();
    place.write("secret/AGENTS.md", "secret");
    symlink(place.path("secret/AGENTS.md"), place.path("work/AGENTS.md")).unwrap();
    fs::create_dir(place.path("work/TENON.md")).unwrap();
    let loaded = place.load();
    assert_eq!(loaded.memory, []);
    assert_eq!(
        loaded.warnings.iter().map(|line| place.relative(line)).collect::<Vec<_>>(),
        [
            "`work/AGENTS.md` is not used: it is a link that leads out of the project",
            "`work/TENON.md` is not used: it is not a regular file",
        ]
    );
    fs::remove_file(place.path("work/AGENTS.md")).unwrap();
    place.write("work/docs/guide.md", "guide");
    symlink("docs/guide.md", place.path("work/AGENTS.md")).unwrap();
    assert_eq!(texts(&place)[0].1, "guide");
}
