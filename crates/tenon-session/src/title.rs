//! What a session is called: the beginning of what was asked first.

/// Enough to tell sessions apart in a list.
const LONGEST_TITLE: usize = 80;

/// The first line that says something, on one line and not too long.
pub fn title_of(prompt: &str) -> String {
    let line = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let line: String = line.chars().take(LONGEST_TITLE * 4).collect();
    let words: Vec<&str> =
        line.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let words = words.join(" ");
    if words.chars().count() <= LONGEST_TITLE {
        return words;
    }
    let cut: String = words.chars().take(LONGEST_TITLE - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles() {
        for (prompt, title) in [
            ("Fix the tests", "Fix the tests"),
            ("\n\n  Fix\tthe \u{1b}[31m tests  \nand more", "Fix the [31m tests"),
            ("", ""),
        ] {
            assert_eq!(title_of(prompt), title);
        }
        let long = title_of(&"word ".repeat(1_000_000));
        assert!(long.chars().count() <= LONGEST_TITLE && long.ends_with("word…"), "{long}");
    }
}
