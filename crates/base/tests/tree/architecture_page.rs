//! Each file that ARCHITECTURE.md names is there, and has the functions that are named behind it.

use crate::production;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What stands in backticks, with what stands before each: `", "` in ``a, `b` ``.
fn quoted(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    parts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// The functions that a paragraph or a cell of a table claims for each file: those that follow it
/// as in `` `file.rs`, `one`, `two` and `three` ``.
fn claims(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut claims: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut continues = false;
    for (before, word) in quoted(text) {
        if ["crates/", "docs/", "tests/"].iter().any(|folder| word.starts_with(folder)) {
            claims.push((word, Vec::new()));
            continues = true;
            continue;
        }
        continues &= matches!(before, ", " | " and ")
            && word.chars().all(|c| c.is_ascii_lowercase() || "_0123456789".contains(c));
        if let (true, Some((_, functions))) = (continues, claims.last_mut()) {
            functions.push(word);
        }
    }
    claims
}

fn has_function(code: &str, name: &str) -> bool {
    let named = format!("fn {name}");
    code.match_indices(&named).any(|(at, _)| code[at + named.len()..].starts_with(['(', '<']))
}

#[test]
fn the_files_and_functions_of_the_page_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page can be read");
    let mut sources: BTreeMap<&str, String> = BTreeMap::new();
    let (mut wrong, mut files, mut functions) = (Vec::new(), 0, 0);
    // A table's row is one line; lines of a paragraph belong together.
    let paragraphs: Vec<String> = page
        .split("\n\n")
        .flat_map(|part| match part.starts_with('|') {
            true => part.lines().map(str::to_owned).collect::<Vec<_>>(),
            false => vec![part.split_whitespace().collect::<Vec<_>>().join(" ")],
        })
        .collect();
    for (file, names) in paragraphs.iter().flat_map(|paragraph| claims(paragraph)) {
        files += 1;
        let path = root.join(file);
        if !path.exists() {
            wrong.push(format!("{file} is not there"));
            continue;
        }
        if !path.is_file() {
            continue;
        }
        let code = sources.entry(file).or_insert_with(|| fs::read_to_string(&path).expect("the file can be read"));
        for name in names {
            functions += 1;
            if !has_function(code, name) {
                wrong.push(format!("{file} has no function {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "ARCHITECTURE.md: {}", wrong.join("; "));
    assert!(files > 90 && functions > 110, "{files} files and {functions} functions were found");
}

/// Types, functions and files in the last column of the glossary's tables.
#[test]
fn the_names_of_the_glossary_are_in_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/glossary.md")).expect("the page can be read");
    let sources = production::sources();
    let is_word = |name: &str| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        sources.iter().any(|source| {
            let code = &source.code;
            code.match_indices(name)
                .any(|(at, _)| !code[..at].ends_with(is_part) && !code[at + name.len()..].starts_with(is_part))
        })
    };
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.strip_suffix(" |")?.rsplit(" | ").next());
    let (mut names, mut wrong) = (0, Vec::new());
    for (_, name) in cells.flat_map(quoted) {
        names += 1;
        let found = match name.split_once("::") {
            _ if name.contains('/') => root.join(name).exists(),
            _ if name.ends_with(".rs") => sources.iter().any(|source| source.path.ends_with(&format!("/{name}"))),
            Some((of, variant)) => is_word(of) && is_word(variant),
            None => is_word(name),
        };
        if !found {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "docs/glossary.md names what the code has not: {}", wrong.join(", "));
    assert!(names > 30, "only {names} names");
}

#[test]
fn claims_are_read_as_they_are_written() {
    let row = "| log | `crates/a.rs`, `run`, `handle` and `run_calls`; `crates/b.rs`, `put` | one `Entry` |";
    assert_eq!(claims(row), [("crates/a.rs", vec!["run", "handle", "run_calls"]), ("crates/b.rs", vec!["put"])]);
    assert_eq!(claims("the page (`crates/c.rs`) asks for `rest`"), [("crates/c.rs", vec![])]);
    assert!(has_function("pub fn run<T>(x: T)", "run") && !has_function("fn running()", "run"));
}
