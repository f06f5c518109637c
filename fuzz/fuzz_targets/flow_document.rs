//! Any text as a workflow document: a document or problems with places, never a panic, and nothing without bounds.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tenon_flow::{Drawing, Plan, parse};

fuzz_target!(|text: &str| {
    for file in ["f.yaml", "f.json"] {
        match parse(text, Path::new(file)) {
            Ok(document) => {
                let plan = Plan::of(&document.workflow);
                for drawing in [Drawing::Boxes, Drawing::Mermaid, Drawing::Svg, Drawing::Json] {
                    plan.draw(drawing);
                }
            }
            Err(problems) => assert!(problems.iter().all(|problem| problem.line >= 1 && problem.column >= 1)),
        }
    }
});
