//! Runs many agents as one workflow: a document is read, checked as a whole before the first model call, and then
//! interpreted; one agent runs per step.
