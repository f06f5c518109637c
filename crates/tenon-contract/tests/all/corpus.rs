//! Replays the seeds of the fuzz targets through the functions the targets call.

use std::fs;
use std::path::{Path, PathBuf};

use tenon_contract::{PartialJson, Schema, compact_json};

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut seeds: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    seeds.sort();
    assert!(seeds.len() >= 12, "{} holds {} seeds", folder.display(), seeds.len());
    seeds
}

/// A seed is a schema, a line of three hyphens, and arguments.
#[test]
fn schema_gate() {
    let mut outcomes = [0; 3];
    for (path, bytes) in seeds("schema_gate") {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (schema, arguments) = text.split_once("\n---\n").unwrap_or((&text, ""));
        let outcome = match Schema::compile(schema) {
            Err(error) => {
                assert!(!error.to_string().is_empty(), "{}", path.display());
                0
            }
            Ok(schema) => match schema.check(arguments) {
                Err(rejection) => {
                    assert!(!rejection.told().is_empty(), "{}", path.display());
                    1
                }
                Ok(payload) => {
                    assert_eq!(schema.check(payload.get()).unwrap().get(), payload.get());
                    2
                }
            },
        };
        outcomes[outcome] += 1;
    }
    assert!(outcomes.iter().all(|count| *count > 0), "refused, rejected, accepted: {outcomes:?}");
}

#[test]
fn payload() {
    let mut outcomes = [0; 2];
    for (path, bytes) in seeds("payload") {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut partial = PartialJson::new();
        partial.push(&text);
        let snapshot = partial.snapshot();
        match compact_json(&text) {
            Err(_) => outcomes[0] += 1,
            Ok(compact) => {
                outcomes[1] += 1;
                assert_eq!(compact_json(compact.get()).unwrap().get(), compact.get(), "{}", path.display());
                if compact.get().starts_with('{') {
                    assert_eq!(snapshot.unwrap().get(), compact.get(), "{}", path.display());
                }
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "refused, accepted: {outcomes:?}");
}
