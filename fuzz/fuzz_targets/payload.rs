//! Any text as a payload: what is accepted is stable, and the partial reader ends up with the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_contract::{PartialJson, compact_json};

fuzz_target!(|text: &str| {
    let mut partial = PartialJson::new();
    for c in text.chars() {
        partial.push(c.encode_utf8(&mut [0; 4]));
    }
    let snapshot = partial.snapshot();
    if let Ok(compact) = compact_json(text) {
        let again = compact_json(compact.get()).map(|again| again.get().to_owned());
        assert_eq!(again.as_deref(), Ok(compact.get()));
        if compact.get().starts_with('{') {
            assert_eq!(snapshot.map(|snapshot| snapshot.get().to_owned()).as_deref(), Some(compact.get()));
        }
    }
});
