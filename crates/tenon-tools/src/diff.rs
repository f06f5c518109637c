//! What a change of a file looks like: counted lines, and a diff for clients that draw one.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};
use tenon_core::{FileDiff, ToolDisplay, ToolOutcome};

/// Beyond this a diff is only approximate: two large files that have nothing in common must not take long.
const DIFF_TIME: Duration = Duration::from_millis(200);
/// Larger files are shown by their diff alone.
const SHOWN_WHOLE: usize = 32 * 1024;

/// The outcome of a change, with what was added and removed.
pub(crate) fn changed(message: String, file_name: &str, old: &str, new: &str) -> ToolOutcome {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let (lines_added, lines_removed) =
        diff.iter_all_changes().fold((0, 0), |(added, removed), change| match change.tag() {
            ChangeTag::Insert => (added + 1, removed),
            ChangeTag::Delete => (added, removed + 1),
            ChangeTag::Equal => (added, removed),
        });
    let header = (format!("a/{file_name}"), format!("b/{file_name}"));
    let whole = |text: &str| (text.len() <= SHOWN_WHOLE).then(|| text.to_owned());
    let drawing = ToolDisplay::FileDiff(FileDiff {
        file_name: file_name.to_owned(),
        diff: diff.unified_diff().header(&header.0, &header.1).to_string(),
        original: whole(old),
        modified: whole(new),
        lines_added,
        lines_removed,
    });
    ToolOutcome { lines_added, lines_removed, drawing: Some(Box::new(drawing)), ..ToolOutcome::ok(message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_counted_and_drawn() {
        let outcome = changed("Edited.".to_owned(), "src/a.py", "print('Hi')\n", "print('Hello')\n");
        assert_eq!((outcome.lines_added, outcome.lines_removed), (1, 1));
        let Some(ToolDisplay::FileDiff(diff)) = outcome.drawing.as_deref() else { panic!("no diff") };
        assert_eq!(diff.diff, "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-print('Hi')\n+print('Hello')\n");
        assert_eq!(diff.original.as_deref(), Some("print('Hi')\n"));
    }

    #[test]
    fn a_large_file_is_drawn_by_its_diff_alone() {
        let old = "line\n".repeat(20_000);
        let outcome = changed("Edited.".to_owned(), "a", &old, &format!("{old}more\n"));
        assert_eq!((outcome.lines_added, outcome.lines_removed), (1, 0));
        let Some(ToolDisplay::FileDiff(diff)) = outcome.drawing.as_deref() else { panic!("no diff") };
        assert_eq!((&diff.original, &diff.modified), (&None, &None));
    }
}
