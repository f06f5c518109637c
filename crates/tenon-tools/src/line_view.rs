//! What a person at a terminal would see of a text that overwrites its own lines: of a progress bar, its
//! last state. Files keep the text as it was written; this is for the model.

/// A line longer than this is given up in parts: nobody overwrites that much, and memory has an end.
const LONGEST_LINE: usize = 64 * 1024;
const BACKSPACE: char = '\u{8}';

#[derive(Debug, Default)]
pub(crate) struct LineView {
    /// The line that is being written.
    line: String,
    /// The cursor is back at its beginning: what comes next replaces it.
    has_returned: bool,
}

impl LineView {
    /// Adds to `out` what can no longer change.
    pub fn push(&mut self, text: &str, out: &mut String) {
        // Two searches for one byte each are faster than one for either.
        if !self.has_returned && !text.contains('\r') && !text.contains(BACKSPACE) {
            match text.rfind('\n') {
                Some(at) => {
                    out.push_str(&self.line);
                    out.push_str(&text[..=at]);
                    self.line.clear();
                    self.line.push_str(&text[at + 1..]);
                }
                None => self.line.push_str(text),
            }
            self.let_go(out);
        } else {
            text.chars().for_each(|c| self.step(c, out));
        }
    }

    /// What is too long to be written over is final, wherever the pieces end that it came in.
    fn let_go(&mut self, out: &mut String) {
        while self.line.len() > LONGEST_LINE {
            let mut end = LONGEST_LINE + 1;
            while !self.line.is_char_boundary(end) {
                end += 1;
            }
            out.push_str(&self.line[..end]);
            self.line.drain(..end);
        }
    }

    /// The line that is being written, as it stands.
    pub fn line(&self) -> &str {
        &self.line
    }

    fn step(&mut self, c: char, out: &mut String) {
        match c {
            '\n' => {
                out.push_str(&self.line);
                out.push('\n');
                self.line.clear();
                self.has_returned = false;
            }
            '\r' => self.has_returned = true,
            BACKSPACE => {
                self.line.pop();
            }
            c => {
                if std::mem::take(&mut self.has_returned) {
                    self.line.clear();
                }
                self.line.push(c);
                self.let_go(out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_in_its_last_state() {
        let table = [
            ("prog 10%\rprog 99%\n", "prog 99%\n"),
            ("10%\r100%", "100%"),
            ("a longer line\rdone\n", "done\n"),
            ("dos\r\nlines\r\n", "dos\nlines\n"),
            ("ends\r", "ends"),
            ("\rstart", "start"),
            ("|\u{8}/\u{8}-\u{8}ok\n", "ok\n"),
            ("\u{8}x", "x"),
            ("a\n\nb", "a\n\nb"),
            ("a\r\r\nb", "a\nb"),
            ("", ""),
        ];
        for (input, wanted) in table {
            for at in 0..=input.len() {
                let (mut view, mut out) = (LineView::default(), String::new());
                view.push(&input[..at], &mut out);
                view.push(&input[at..], &mut out);
                assert_eq!(out + view.line(), wanted, "{input:?} cut at {at}");
            }
        }
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let (mut view, mut out) = (LineView::default(), String::new());
        (0..200).for_each(|_| view.push(&"x".repeat(1024), &mut out));
        assert!(view.line().len() <= LONGEST_LINE);
        assert_eq!(out.len() + view.line().len(), 200 * 1024);
    }
}
