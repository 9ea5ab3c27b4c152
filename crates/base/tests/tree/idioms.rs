//! Texts that users see avoid the idioms that `docs/style.md` names: messages, hints, `--help`, and
//! the documents.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const AVOIDED: &[&str] = &[
    "is no ",
    "are no ",
    "so many ",
    "whoever",
    "from which on",
    "parted by",
    "may not be more",
    "if it is not there",
    "nothing that can be",
];

/// Whole words that documents avoid. A line may end within one.
const AVOIDED_IN_DOCUMENTS: &[&str] = &["somebody", "nobody", "anybody", "whoever", "goes on", "says so", "surely"];

/// Documents that have such words, and how many: a list that only gets shorter. The style guide
/// names them.
const LEFT: &[(&str, usize)] = &[("ARCHITECTURE.md", 1), ("docs/style.md", 7)];

/// What makes an idiom of the list good English.
const ALLOWED: &[&str] = &["there is no ", "there are no ", "is no longer ", "are no longer "];

/// What only programmers see.
const INTERNAL: &[&str] = &["unreachable!(", ".expect(", "panic!(", "assert!(", "UserError::internal("];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the folder can be read") {
        let path = entry.expect("the entry can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The first avoided idiom of a text.
fn idiom(text: &str) -> Option<&'static str> {
    let mut text = text.to_lowercase();
    for allowed in ALLOWED {
        text = text.replace(allowed, "");
    }
    AVOIDED.iter().copied().find(|idiom| text.contains(idiom))
}

/// A line of `--help` without its bracketed default, brackets and all.
fn without_default(line: &str) -> String {
    match (line.find('['), line.find(']')) {
        (Some(start), Some(end)) if start < end => format!("{}{}", &line[..start], &line[end + 1..]),
        (Some(start), _) => line[..start].to_owned(),
        (None, Some(end)) => line[end + 1..].to_owned(),
        (None, None) => line.to_owned(),
    }
}

/// Texts in double quotes that begin in this line, as written.
fn literals(line: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut open: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (&mut open, character) {
            (Some(text), '\\') => text.extend(characters.next()),
            (Some(_), '"') => texts.extend(open.take()),
            (Some(text), other) => text.push(other),
            (None, '"') => open = Some(String::new()),
            (None, _) => {}
        }
    }
    texts.extend(open);
    texts
}

#[test]
fn texts_for_users_are_plain_english() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates lie in one folder");
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).expect("the folder can be read") {
        let source = entry.expect("the entry can be read").path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    assert!(files.len() > 300, "only {} files", files.len());
    let mut found = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("the file can be read");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        // Comments of fields are the texts of --help where clap derives them.
        let derives_help = code.contains("#[arg(");
        let mut goes_on = false;
        for (number, line) in code.lines().enumerate() {
            let line = line.trim();
            let begins_inside = std::mem::replace(&mut goes_on, line.ends_with('\\'));
            let is_help = derives_help && line.starts_with("/// ");
            if line.starts_with("//") && !is_help || INTERNAL.iter().any(|internal| line.contains(internal)) {
                continue;
            }
            let texts = match (is_help, begins_inside) {
                (true, _) => vec![without_default(line)],
                (false, true) => literals(&format!("\"{line}")),
                (false, false) => literals(line),
            };
            for idiom in texts.iter().filter_map(|text| idiom(text)) {
                found.push(format!("{}:{}: {idiom:?} in {line}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "see docs/style.md for what to write instead:\n{}", found.join("\n"));
}

#[test]
fn idioms_are_told_from_good_english() {
    assert_eq!(idiom("'x' is no BIGINT"), Some("is no "));
    assert_eq!(idiom("there is no table x; it is no longer there"), None);
    assert_eq!(literals(r#"f("a \" b", x, "c"#), ["a \" b", "c"]);
    assert_eq!(without_default("/// Port [default: so many]."), "/// Port .");
    assert_eq!(without_default("/// Port [default: the server's"), "/// Port ");
    assert_eq!(without_default("/// own]; so many"), "; so many");
}

/// The lines of a document, in small letters and without code.
fn prose(document: &str) -> Vec<String> {
    let mut is_fenced = false;
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in document.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        is_code &= !line.trim().is_empty();
        let mut shown = String::new();
        for character in line.chars().filter(|_| !is_fence && !is_fenced) {
            is_code ^= character == '`';
            shown.push(if is_code { ' ' } else { character.to_ascii_lowercase() });
        }
        lines.push(shown);
    }
    lines
}

/// The words of a document that it avoids, each with its line, from 1.
fn avoided_words(document: &str) -> Vec<(usize, &'static str)> {
    let lines = prose(document);
    let words: Vec<(usize, &str)> = (1..)
        .zip(&lines)
        .flat_map(|(number, line)| {
            let words = line.split(|character: char| !character.is_alphanumeric() && character != '_');
            words.filter(|word| !word.is_empty()).map(move |word| (number, word))
        })
        .collect();
    let mut found = Vec::new();
    for (index, (number, _)) in words.iter().enumerate() {
        for avoided in AVOIDED_IN_DOCUMENTS {
            let mut rest = words[index..].iter().map(|(_, word)| *word);
            if avoided.split(' ').all(|part| rest.next() == Some(part)) {
                found.push((*number, *avoided));
            }
        }
    }
    found
}

/// The documents of the tree, by their path from its root.
fn documents(root: &Path) -> Vec<String> {
    let mut found: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(str::to_owned).to_vec();
    for folder in ["docs", "docs/format", "docs/decisions"] {
        for entry in fs::read_dir(root.join(folder)).expect("the folder can be read") {
            let name = entry.expect("the entry can be read").file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    found
}

#[test]
fn documents_are_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut counted = BTreeMap::new();
    let mut places = Vec::new();
    for path in documents(&root) {
        let text = fs::read_to_string(root.join(&path)).expect("the document can be read");
        let found = avoided_words(&text);
        places.extend(found.iter().map(|(line, word)| format!("{path}:{line}: {word:?}")));
        if !found.is_empty() {
            counted.insert(path, found.len());
        }
    }
    let left: BTreeMap<String, usize> = LEFT.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect();
    places.retain(|place| {
        let path = place.split(':').next().unwrap_or_default();
        counted.get(path) != left.get(path)
    });
    assert_eq!(
        counted,
        left,
        "left: what is there; right: the list. More of them: see docs/style.md for what to write instead. Fewer: lower the \
         list\n{}",
        places.join("\n")
    );
}

#[test]
fn words_are_found_in_prose_only() {
    let document = "It goes\non. `nobody`, holds_nobody_up\n```\nsurely\n```\nWhoever, so is left\n`a\nb` Surely";
    assert_eq!(avoided_words(document), [(1, "goes on"), (6, "whoever"), (8, "surely")]);
}
