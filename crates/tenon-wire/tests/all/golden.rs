//! Whole outputs against files: `tests/golden/<dialect>/<scenario>.<format>`. `UPDATE_GOLDEN=1` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use tenon_wire::{EncoderOptions, Format};

use crate::scenarios;
use crate::script::{options, with_partials};

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/qwen")
}

fn formats() -> [(&'static str, EncoderOptions); 4] {
    [
        ("stream.jsonl", options(Format::StreamJson)),
        ("partials.jsonl", with_partials()),
        ("json", options(Format::Json)),
        ("text", options(Format::Text)),
    ]
}

#[test]
fn every_scenario_reads_as_its_golden_file_in_every_format() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut expected_files = BTreeSet::new();
    let mut differing = Vec::new();
    for scenario in scenarios::all() {
        for (suffix, mut options) in formats() {
            (scenario.adjust)(&mut options);
            let actual: String = scenario.runs.iter().map(|run| run.encoded(&options)).collect();
            let file = format!("{}.{suffix}", scenario.name);
            let path = folder().join(&file);
            if update {
                fs::create_dir_all(folder()).unwrap();
                fs::write(&path, &actual).unwrap();
            }
            let golden = fs::read_to_string(&path).unwrap_or_default();
            if golden != actual || !path.exists() {
                differing.push(format!("{file}\n  golden: {golden}\n  actual: {actual}"));
            }
            expected_files.insert(file);
        }
    }
    assert!(differing.is_empty(), "run with `UPDATE_GOLDEN=1` if these are meant:\n{}", differing.join("\n"));

    let files: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, expected_files, "a golden file without a scenario proves nothing");
}
