//! Any schema against any arguments. The input is a schema, a line of three hyphens, and arguments.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_contract::Schema;

fuzz_target!(|text: &str| {
    let (schema, arguments) = text.split_once("\n---\n").unwrap_or((text, ""));
    match Schema::compile(schema) {
        Err(error) => {
            let _ = (error.to_string(), error.hint());
        }
        Ok(schema) => match schema.check(arguments) {
            Err(rejection) => {
                let _ = (rejection.told(), rejection.stored());
            }
            Ok(payload) => {
                let again = schema.check(payload.get()).map(|again| again.get().to_owned());
                assert_eq!(again.as_deref(), Ok(payload.get()));
            }
        },
    }
});
