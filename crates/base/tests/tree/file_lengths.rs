//! Files stay rooms with one purpose: none of Rust is longer than a reader holds in mind.

use std::path::{Path, PathBuf};

const LINES_MAX: usize = 600;

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder of the tree") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_file_is_longer_than_it_may_be() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in crates/");
    let mut files = Vec::new();
    rust_files(crates, &mut files);
    assert!(files.len() > 500, "the tree was found");
    let root = crates.parent().expect("the root of the tree");
    let mut wrong = Vec::new();
    for path in &files {
        let lines = std::fs::read_to_string(path).expect("a readable file").lines().count();
        if lines > LINES_MAX {
            let name = path.strip_prefix(root).expect("a file of the tree").display();
            wrong.push(format!("{name} has {lines} lines: find its second purpose, and give that a file"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
