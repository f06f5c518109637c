//! Any bytes as the lines of a client: each is read or refused with one sentence, whatever white space ends it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_wire::input::read_line;

fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|byte| *byte == b'\n') {
        let read = read_line(line);
        if let Err(error) = &read {
            assert_eq!(error.to_string().lines().count(), 1);
        }
        let padded = [line, b" \t\r"].concat();
        assert_eq!(read_line(&padded).is_ok(), read.is_ok());
    }
});
