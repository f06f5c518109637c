//! Whole outputs against files: `tests/golden/<dialect>/<scenario>.<format>`. `UPDATE_GOLDEN=1` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use tenon_wire::{Dialect, EncoderOptions, Format};

use crate::script::{options, with_partials};
use crate::{replies, scenarios};

pub fn folder(dialect: Dialect) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(dialect.name())
}

fn formats(dialect: Dialect) -> Vec<(&'static str, EncoderOptions)> {
    let mut formats = vec![
        ("stream.jsonl", options(Format::StreamJson)),
        ("json", options(Format::Json)),
        ("text", options(Format::Text)),
    ];
    match dialect {
        Dialect::Qwen | Dialect::Claude => formats.push(("partials.jsonl", with_partials())),
        // Answers come in pieces anyway.
        Dialect::Gemini => {}
        Dialect::OpenAi => formats.push(("chunks.jsonl", options(Format::StreamChunkJson))),
    }
    formats
}

#[test]
fn every_scenario_reads_as_its_golden_file_in_every_format() {
    for dialect in Dialect::ALL {
        compare(dialect);
    }
}

fn compare(dialect: Dialect) {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let folder = folder(dialect);
    let mut wanted: Vec<(String, String)> = Vec::new();
    for scenario in scenarios::all() {
        for (suffix, mut options) in formats(dialect) {
            (scenario.adjust)(&mut options);
            let actual = scenario.runs.iter().map(|run| run.encoded_as(dialect, &options)).collect();
            wanted.push((format!("{}.{suffix}", scenario.name), actual));
        }
    }
    wanted.extend(replies::lines(dialect).map(|lines| ("replies.jsonl".to_owned(), lines)));
    let mut differing = Vec::new();
    for (file, actual) in &wanted {
        let path = folder.join(file);
        if update {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, actual).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        if golden != *actual || !path.exists() {
            differing.push(format!("{file}\n  golden: {golden}\n  actual: {actual}"));
        }
    }
    let expected_files: BTreeSet<String> = wanted.into_iter().map(|(file, _)| file).collect();
    assert!(
        differing.is_empty(),
        "{}: run with `UPDATE_GOLDEN=1` if these are meant:\n{}",
        dialect.name(),
        differing.join("\n")
    );

    let files: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, expected_files, "a golden file without a scenario proves nothing");
}
