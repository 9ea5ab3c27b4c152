//! Which file of `tests/slt` tests what: `tests/slt/COVERAGE` names for each form of the SQL
//! surface, each type and each function the files that do. They must be there and have the words in
//! their statements; and together they must do so in a file with partitioned and in one with
//! replicated tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file's statements in upper case, without comments and expected answers.
fn statements(text: &str) -> String {
    let mut out = String::new();
    let mut answer = false;
    for line in text.lines() {
        match line {
            "----" => answer = true,
            "" => answer = false,
            _ => {}
        }
        if !answer && !line.starts_with('#') {
            out.push_str(&line.to_uppercase());
            out.push('\n');
        }
    }
    out
}

/// The names after each occurrence of `words`.
fn names_after(text: &str, words: &str) -> BTreeSet<String> {
    text.match_indices(words)
        .map(|(start, _)| {
            let rest = text[start + words.len()..].trim_start().trim_start_matches("IF NOT EXISTS ");
            rest.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
        })
        .collect()
}

/// Whether the words stand in the text, and not as the end of a longer one.
fn mentions(text: &str, words: &str) -> bool {
    let words = words.to_uppercase();
    let part_of_name = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(&words).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        !words.starts_with(part_of_name) || !before.is_some_and(part_of_name)
    })
}

#[test]
fn every_form_is_tested_on_both_kinds_of_table() {
    let text = std::fs::read_to_string(root().join("tests/slt/COVERAGE")).expect("the list is there");
    let mut files: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut complaints = Vec::new();
    let mut listed = BTreeSet::new();
    let mut section = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
            continue;
        }
        let Some((words, names)) = line.rsplit_once(" | ") else {
            complaints.push(format!("a line without files: {line}"));
            continue;
        };
        if section == "functions" {
            listed.insert(words.to_owned());
        }
        let (mut partitioned, mut replicated) = (false, false);
        for name in names.split(", ") {
            let file = files.entry(name.to_owned()).or_insert_with(|| {
                std::fs::read_to_string(root().join("tests/slt").join(name)).ok().map(|text| statements(&text))
            });
            let Some(file) = file else {
                complaints.push(format!("{words}: there is no {name}"));
                continue;
            };
            if !mentions(file, words) {
                complaints.push(format!("{name} does not mention {words}"));
            }
            let made = names_after(file, "CREATE TABLE");
            let spread = names_after(file, "PARTITION TABLE");
            partitioned |= made.intersection(&spread).next().is_some();
            replicated |= made.difference(&spread).next().is_some();
        }
        // A refusal has nothing to do with tables; examples are as their authors made them.
        let any = section == "refused" || section == "examples";
        if !(any || partitioned && replicated) {
            let kind = if partitioned { "replicated" } else { "partitioned" };
            complaints.push(format!("{words}: no file with {kind} tables"));
        }
    }
    let functions = std::fs::read_to_string(root().join("docs/functions.md")).expect("the functions are documented");
    for name in documented(&functions) {
        if !listed.contains(&name) {
            complaints.push(format!("the function {name} is documented, and not in the list"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(listed.len() > 100, "the list has functions");
}

/// The functions that the first cells of the tables name.
fn documented(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cell = line.split(" | ").next().unwrap_or_default();
        for code in cell.split('`').skip(1).step_by(2) {
            let name: String = code
                .chars()
                .take_while(|character| {
                    character.is_ascii_uppercase() || character.is_ascii_digit() || *character == '_'
                })
                .collect();
            if !name.is_empty() {
                names.insert(name);
            }
        }
    }
    names
}
