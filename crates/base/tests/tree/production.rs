//! The code that ships: `crates/*/src` without tests.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file: its path from the root of the tree, and what stands before its tests.
pub struct Source {
    pub path: String,
    pub code: String,
}

/// The root of the tree.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a crate lies in crates/")
}

/// All of them, in the order of their paths.
pub fn sources() -> Vec<Source> {
    let root = root();
    let mut paths = Vec::new();
    for entry in fs::read_dir(root.join("crates")).expect("the folder can be read") {
        let source = entry.expect("the entry can be read").path().join("src");
        if source.is_dir() {
            collect(&source, &mut paths);
        }
    }
    paths.sort();
    assert!(paths.len() > 300, "only {} files", paths.len());
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("the file can be read");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
        Source { path: path.strip_prefix(root).expect("a file of the tree").display().to_string(), code }
    };
    paths.into_iter().map(read).collect()
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the folder can be read") {
        let path = entry.expect("the entry can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            collect(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "testing.rs" {
            found.push(path);
        }
    }
}
