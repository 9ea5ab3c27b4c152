//! Prose and comments are wrapped at 100 columns (docs/style.md). Code is formatted at 120, by
//! `rustfmt.toml`: docs/decisions/0053-width-of-lines.md.
//!
//! Not looked at: rows of tables, code in documents, lines with an address, and what programs
//! wrote.

use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS: usize = 100;

/// Folders of what is built, downloaded or generated.
const LEFT_OUT: &[&str] = &["target", "node_modules", "found", "corpus", "dist"];

/// How a comment begins, by the end of a file's name. Scripts have names without an end.
const COMMENTS: &[(&str, &[&str])] = &[
    ("rs", &["//"]),
    ("java", &["//", "/*", "* "]),
    ("ts", &["//", "/*", "* "]),
    ("mjs", &["//", "/*", "* "]),
    ("sql", &["--"]),
    ("py", &["# "]),
    ("sh", &["# "]),
    ("toml", &["# "]),
    ("", &["# "]),
];

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a folder can be read") {
        let entry = entry.expect("an entry can be read");
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if name.starts_with('.') || LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        match entry.file_type().expect("an entry has a type") {
            kind if kind.is_dir() => files(&path, found),
            kind if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}

fn is_prose(line: &str) -> bool {
    let code = line.starts_with("    ") && !line.trim_start().starts_with(['-', '*', '1']);
    !code && !line.trim_start().starts_with('|') && !line.contains("://")
}

/// Numbers of the lines of a document that are too long.
fn in_document(text: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        if !in_code && !fence && line.chars().count() > COLUMNS && is_prose(line) {
            found.push(number + 1);
        }
    }
    found
}

/// Numbers of the lines of a document that continue a list's entry without being indented, as a
/// tool leaves them that wraps an entry as a paragraph.
fn not_indented(text: &str) -> Vec<usize> {
    let is_entry = |line: &str| {
        let after_number = line.trim_start_matches(|first: char| first.is_ascii_digit());
        line.starts_with("- ") || after_number.len() < line.len() && after_number.starts_with(". ")
    };
    let (mut in_code, mut in_list, mut found) = (false, false, Vec::new());
    let mut before = "";
    for (number, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code || line.is_empty() {
            in_list = false;
        } else if is_entry(line) {
            // A number at the beginning of a line within a paragraph begins no list.
            in_list |= before.is_empty() || before.starts_with([' ', '#', '|', '`']);
        } else if in_list && !line.starts_with(' ') {
            found.push(number + 1);
            in_list = false;
        }
        before = line;
    }
    found
}

fn in_source(text: &str, marks: &[&str]) -> Vec<usize> {
    let long = text.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS);
    let comments = long.filter(|(_, line)| {
        let line = line.trim_start();
        let row = line.trim_start_matches(['/', '!', '*', '#', ' ']).starts_with('|');
        marks.iter().any(|mark| line.starts_with(mark)) && !row && !line.contains("://")
    });
    comments.map(|(number, _)| number + 1).collect()
}

#[test]
fn prose_and_comments_are_wrapped() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    files(&root, &mut paths);
    let (mut looked_at, mut found) = (0, Vec::new());
    for path in paths {
        let end = path.extension().map_or(String::new(), |end| end.to_string_lossy().into_owned());
        let marks = COMMENTS.iter().find(|(known, _)| *known == end).map(|(_, marks)| *marks);
        // What is not text has no comments.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let lines = match (end.as_str(), marks) {
            ("md", _) => [in_document(&text), not_indented(&text)].concat(),
            (_, Some(marks)) => in_source(&text, marks),
            _ => continue,
        };
        looked_at += 1;
        found.extend(lines.into_iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(looked_at > 900, "only {looked_at} files");
    let what = format!("wrap these at {COLUMNS} columns, and indent what continues a list's entry");
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn what_continues_an_entry_is_indented() {
    assert_eq!(not_indented("- one\n  two\n- three\nfour\n"), [4]);
    assert_eq!(not_indented("text\n\n5. one\n   two\ntwo\nthree\n"), [5]);
    assert_eq!(not_indented("of 19 and\n25. Of these\nfour\n"), [0usize; 0]);
    assert_eq!(not_indented("- one\n\nfour\n```\n- x\ny\n```\n"), [0usize; 0]);
}

#[test]
fn tables_code_and_addresses_may_be_longer() {
    let long = "word ".repeat(21);
    assert_eq!(in_document(&format!("{long}\n| {long} |\n```\n{long}\n```\n    {long}\n")), [1]);
    assert_eq!(in_document(&format!("- {long}\n  {long}\nsee https://x.y/{long}\n")), [1, 2]);
    assert_eq!(in_source(&format!("    // {long}\nlet x; {long}\n//! | {long} |\n"), &["//"]), [1]);
}
