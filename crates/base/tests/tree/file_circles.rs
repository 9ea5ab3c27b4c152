//! Files import downwards within their crate, too (docs/style.md, 8; docs/decisions/0035).
//!
//! The circles that there are today are listed below with their reasons. They can only shrink: a
//! circle that is not within a listed one fails.
//!
//! An import is a path that begins with `crate::` or `super::`, outside of tests. A module and the
//! files in its folder are one room: what the module takes from its own files is not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crate, the files of the circle, why it is there.
const CIRCLES: &[(&str, &[&str], &str)] = &[
    ("expr", &["list", "tree"], "by nature: an IN list holds expressions, and an expression may be an IN list"),
    (
        "plan",
        &["external", "long_read", "program", "variants"],
        "by nature: a program holds external routines and variants, whose parts are programs",
    ),
    (
        "sql",
        &["compile/adhoc", "compile/origin", "compile/procedure"],
        "by nature: a program keeps what it was compiled from, to be compiled again",
    ),
];

type Files = BTreeMap<String, String>;

fn crates_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in crates/").to_path_buf()
}

/// Sources by their place in the crate (`bind/query`), without comments and tests.
fn read_files(directory: &Path, place: &str, files: &mut Files) {
    for entry in std::fs::read_dir(directory).expect("a crate has sources") {
        let path = entry.expect("a crate's sources are readable").path();
        let stem = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let inside = if place.is_empty() { stem.clone() } else { format!("{place}/{stem}") };
        if path.is_dir() {
            read_files(&path, &inside, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") && stem != "tests" {
            let text = std::fs::read_to_string(&path).expect("a source file is text");
            let shipped = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let code = shipped.lines().filter(|line| !line.trim_start().starts_with("//"));
            let place = if stem == "mod" { place.to_owned() } else { inside };
            files.insert(place, code.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The file in which a path ends: the longest beginning of it that is one.
fn file_of(files: &Files, path: &[&str]) -> Option<String> {
    (1..=path.len()).rev().map(|length| path[..length].join("/")).find(|place| files.contains_key(place))
}

/// The paths that a piece of code begins with: `a::b`, or each of `{a::b, c}`.
fn paths(code: &str) -> Vec<&str> {
    let is_path = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    let Some(list) = code.strip_prefix('{') else {
        return vec![code.split(|character| !is_path(character)).next().unwrap_or_default()];
    };
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                found.push(list[start..at].trim());
                start = at + 1;
                if character == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    found.iter().map(|path| path.split(|character| !is_path(character)).next().unwrap_or_default()).collect()
}

fn imports(files: &Files, file: &str, text: &str) -> BTreeSet<String> {
    let here: Vec<&str> = file.split('/').collect();
    let mut found = BTreeSet::new();
    for word in ["crate::", "super::"] {
        for (at, _) in text.match_indices(word) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || before == '_' || before == ':') {
                continue;
            }
            let (mut rest, mut base) = (&text[at..], Vec::new());
            if let Some(after) = rest.strip_prefix("crate::") {
                rest = after;
            } else {
                base.clone_from(&here);
                while let Some(after) = rest.strip_prefix("super::") {
                    rest = after;
                    base.pop();
                }
            }
            for path in paths(rest) {
                let whole: Vec<&str> = base.iter().copied().chain(path.split("::")).collect();
                found.extend(file_of(files, &whole).filter(|other| other != file));
            }
        }
    }
    found
}

fn reached(arrows: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(file) = next.pop() {
        next.extend(arrows[&file].iter().filter(|other| seen.insert((*other).clone())).cloned());
    }
    seen
}

/// The circles of a crate, each with its files in order.
fn circles(files: &Files) -> BTreeSet<Vec<String>> {
    let ends = |file: &str| file == "lib" || file == "main";
    let arrows: BTreeMap<String, BTreeSet<String>> = files
        .iter()
        .map(|(file, text)| (file.clone(), if ends(file) { BTreeSet::new() } else { imports(files, file, text) }))
        .collect();
    let reach: BTreeMap<&String, BTreeSet<String>> = files.keys().map(|file| (file, reached(&arrows, file))).collect();
    let mut found = BTreeSet::new();
    for file in files.keys() {
        let both = files.keys().filter(|other| reach[file].contains(*other) && reach[other].contains(file));
        let circle: Vec<String> = both.cloned().collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found
}

#[test]
fn files_import_each_other_in_no_circle_but_those_listed() {
    let mut listed: BTreeSet<(String, Vec<String>)> = BTreeSet::new();
    for (name, files, reason) in CIRCLES {
        assert!(reason.len() > 20, "the circle {files:?} of {name} needs a reason");
        listed.insert(((*name).to_owned(), files.iter().map(|file| (*file).to_owned()).collect()));
    }
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(crates_directory()).expect("crates/ is readable") {
        let path = entry.expect("crates/ is readable").path();
        if path.join("src").is_dir() {
            let name = path.file_name().expect("a crate has a name").to_string_lossy().into_owned();
            let mut files = Files::new();
            read_files(&path.join("src"), "", &mut files);
            found.extend(circles(&files).into_iter().map(|circle| (name.clone(), circle)));
        }
    }
    for (name, circle) in found.difference(&listed) {
        // One that has become smaller may stay; whoever made it so shortens the list, too.
        let within =
            |(other, wider): &(String, Vec<String>)| other == name && circle.iter().all(|file| wider.contains(file));
        assert!(listed.iter().any(within), "files of {name} import each other in a circle: {circle:?}");
    }
}
