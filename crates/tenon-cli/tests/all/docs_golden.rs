//! Examples of the documentation that are lines of golden files. A comment before a block says which:
//!
//! - `<!-- golden qwen/tool_call.stream.jsonl 3 -->`: line 3, spread over lines for reading;
//! - `<!-- golden qwen/tool_call.stream.jsonl 3 /message -->`: what stands there in it;
//! - `<!-- golden gemini/text_answer.stream.jsonl lines -->`: the whole file as it is.
//!
//! `UPDATE_GOLDEN=1` writes the blocks.

use std::path::Path;

use serde_json::Value;

use super::docs::{pages, root};

#[test]
fn examples_from_golden_files_are_current() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let current = with_examples(&text, &mut seen);
        if update && text != current {
            std::fs::write(&page, &current).unwrap();
        }
        let stored = std::fs::read_to_string(&page).unwrap();
        assert!(stored == current, "{} is stale; run with `UPDATE_GOLDEN=1`", page.display());
    }
    assert!(seen > 30, "{seen} examples");
}

fn with_examples(page: &str, seen: &mut usize) -> String {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(place) = line.strip_prefix("<!-- golden ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        *seen += 1;
        assert_eq!(lines.next(), Some("```json"), "`{place}` belongs to a block of JSON");
        while lines.next().unwrap_or_else(|| panic!("the block of `{place}` has no end")) != "```" {}
        out.push_str(&format!("```json\n{}```\n", example(place)));
    }
    out
}

fn example(place: &str) -> String {
    let words: Vec<&str> = place.split(' ').collect();
    let file = root().join("crates/tenon-wire/tests/golden").join(Path::new(words[0]));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    if words[1] == "lines" {
        return text;
    }
    let number: usize = words[1].parse().unwrap_or_else(|_| panic!("`{place}` names no line"));
    let line = text.lines().nth(number - 1).unwrap_or_else(|| panic!("`{place}`: no such line"));
    let value: Value = serde_json::from_str(line).unwrap();
    let pointer = words.get(2).copied().unwrap_or_default();
    let value = value.pointer(pointer).unwrap_or_else(|| panic!("`{place}`: nothing is there"));
    format!("{value:#}\n")
}
