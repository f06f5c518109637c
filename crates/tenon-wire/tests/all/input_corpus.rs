//! Replays the seeds of the fuzz target `input_line` through the function it calls.

use std::fs;
use std::path::Path;

use tenon_wire::input::read_line;

#[test]
fn input_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/input_line");
    let mut seeds: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(seeds.len() >= 20, "{} holds {} seeds", folder.display(), seeds.len());
    let mut outcomes = [0; 3];
    for path in seeds {
        for line in fs::read(&path).unwrap().split(|byte| *byte == b'\n') {
            let read = read_line(line);
            let padded = [line, b" \t\r"].concat();
            assert_eq!(read_line(&padded).is_ok(), read.is_ok(), "{}", path.display());
            let outcome = match read {
                Ok(None) => 0,
                Ok(Some(_)) => 1,
                Err(error) => {
                    assert_eq!(error.to_string().lines().count(), 1, "{}", path.display());
                    2
                }
            };
            outcomes[outcome] += 1;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 5), "blank, read, refused: {outcomes:?}");
}
