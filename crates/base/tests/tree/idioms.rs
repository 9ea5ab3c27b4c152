//! Texts that users see avoid the idioms that `docs/style.md` names: messages, hints and `--help`.

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
            let is_help = derives_help && line.starts_with("/// ") && !line.contains('[');
            if line.starts_with("//") && !is_help || INTERNAL.iter().any(|internal| line.contains(internal)) {
                continue;
            }
            let texts = match (is_help, begins_inside) {
                (true, _) => vec![line.to_owned()],
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
}
