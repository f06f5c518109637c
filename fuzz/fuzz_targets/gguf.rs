//! Any bytes as the file of a model: no panic, and no more memory than the file is long.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = tenon_local::examine(bytes);
});
