//! The seeds of the fuzz target `settings`, replayed on every run.

use std::fs;
use std::path::Path;

use tenon_config::{Expand, Settings, read_settings, tighten};

#[test]
fn seeds_are_read_without_a_panic_and_none_frees_an_untrusted_project() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/settings");
    let seeds: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(seeds.len() >= 10, "the corpus is missing");
    for seed in seeds {
        let text = String::from_utf8_lossy(&fs::read(&seed).unwrap()).into_owned();
        let layer = read_settings(&text, Path::new("s.json"), Expand::Never);
        let (tightened, _) = tighten(Settings::default(), layer.settings);
        crate::properties::assert_not_freer(&Settings::default(), &tightened);
    }
}
