//! docs/errors.md and the sources have the same codes: those of the server and its drivers, and no
//! others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crates that neither serve nor call for users.
const OTHERS: [&str; 4] = ["bench", "differential", "sim", "torture"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && stem != "tests" {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) && stem != "tests" {
            found.push(path);
        }
    }
}

/// Five characters that are a SQLSTATE in form and class, not a word or a port.
fn is_code(text: &str) -> bool {
    let class = &text[..2.min(text.len())];
    let ours = ["FE", "XX", "P0", "HY"].contains(&class);
    let standard = ["07", "08", "0A", "22", "23", "28", "2B", "38", "40", "42", "45", "53", "54", "55", "57", "58"];
    ferrite_base::error::is_code(text)
        && (ours || standard.contains(&class) || text == "21000")
        && !text.starts_with("FETCH")
}

/// The codes in a source, where `quote` surrounds texts. Unit tests at its end do not count.
fn codes(source: &str, quote: char) -> impl Iterator<Item = &str> {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or(source);
    let texts =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(move |line| line.split(quote));
    texts.filter(|text| is_code(text))
}

fn in_sources() -> BTreeMap<String, PathBuf> {
    let mut rust = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("the crates") {
        let path = entry.expect("a crate").path();
        if !OTHERS.iter().any(|other| path.ends_with(other)) {
            files(&path.join("src"), "rs", &mut rust);
        }
    }
    let mut java = Vec::new();
    files(&root().join("clients/java/driver/src/main"), "java", &mut java);
    let mut node = Vec::new();
    files(&root().join("clients/node/src"), "ts", &mut node);
    assert!(rust.len() > 100 && java.len() > 10 && node.len() > 5, "the sources are where they were");
    let mut found = BTreeMap::new();
    for (paths, quote) in [(rust, '"'), (java, '"'), (node, '\'')] {
        for path in paths {
            let source = read(&path);
            found.extend(codes(&source, quote).map(|code| (code.to_owned(), path.clone())));
        }
    }
    found
}

#[test]
fn the_page_lists_every_code_and_no_other() {
    let page = read(&root().join("docs/errors.md"));
    let mut listed = BTreeSet::new();
    for section in page.split("\n## ").skip(1) {
        let rows: Vec<&str> =
            section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|row| row.0).collect();
        assert!(rows.is_sorted_by(|one, other| one < other), "codes are in order, and each stands once: {rows:?}");
        listed.extend(rows.into_iter().map(str::to_owned));
    }
    let sources = in_sources();
    for (code, path) in &sources {
        assert!(listed.contains(code), "{code} in {} is not in docs/errors.md", path.display());
    }
    for code in &listed {
        assert!(sources.contains_key(code), "{code} of docs/errors.md is in no source");
    }
}

#[test]
fn codes_are_told_from_other_texts() {
    for code in ["23505", "42P01", "XX000", "P0001", "HYT00", "0A000"] {
        assert!(is_code(code), "{code}");
    }
    for other in ["21212", "FETCH", "GROUP", "2350", "23505x", "", "23-05", "99999"] {
        assert!(!is_code(other), "{other}");
    }
    let source = "f(\"23505\"); g(\"23502\");\n// \"42601\"\n#[cfg(test)]\nmod tests { \"22012\" }";
    assert_eq!(codes(source, '"').collect::<Vec<_>>(), ["23505", "23502"]);
}
