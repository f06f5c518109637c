//! Documents as text, loaded the way a run loads them.

use std::sync::Arc;

use tenon_flow::{LoadOptions, LoadedWorkflow, load};

/// Loads a document; includes are files beside it.
pub fn document_with(files: &[(&str, &str)], text: &str) -> Arc<LoadedWorkflow> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let file = folder.path().join("main.yaml");
    std::fs::write(&file, text).unwrap();
    match load(&file, &LoadOptions::default()) {
        Ok(workflow) => Arc::new(workflow),
        Err(error) => panic!("{error}\n{text}"),
    }
}

pub fn document(text: &str) -> Arc<LoadedWorkflow> {
    document_with(&[], text)
}
