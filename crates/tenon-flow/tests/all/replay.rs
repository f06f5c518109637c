//! The interpreter is a fold: the same completions in the same order give the same state and the same requests, from
//! any point on. This is what a journal relies on.
