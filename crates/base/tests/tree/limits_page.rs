//! docs/limits.md and limits.rs say the same: every limit is on the page, with its value, and the
//! page has no other.

use ferrite_base::Settings;
use std::collections::BTreeMap;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The value of an expression of the few kinds that limits.rs has.
fn value(expression: &str, known: &BTreeMap<String, String>) -> String {
    if let Some((left, right)) = expression.split_once(" - ") {
        let number = |text: &str| value(text, known).parse::<u64>().expect("a difference of numbers");
        return (number(left) - number(right)).to_string();
    }
    let duration = expression.strip_prefix("std::time::Duration::from_").and_then(|rest| rest.strip_suffix(')'));
    match duration.and_then(|rest| rest.split_once('(')) {
        Some(("secs", number)) => format!("{number} s"),
        Some(("millis", number)) => format!("{number} ms"),
        _ => known.get(expression).cloned().unwrap_or_else(|| expression.replace('_', "")),
    }
}

/// The tests that the page names are there: links to files, each with names of functions behind it.
fn check_tests(limit: &str, cell: &str) {
    for part in cell.trim_end_matches(" |").split("; ").filter(|part| !part.starts_with("none: ")) {
        let (file, names) = part.split_once(") ").unwrap_or_else(|| panic!("{limit}: {part} is a link and names"));
        let (_, path) = file.split_once("](../").unwrap_or_else(|| panic!("{limit}: {file} is a link"));
        let code = read(&format!("../../{path}"));
        for name in names.split(", ").map(|name| name.trim_matches('`')) {
            assert!(code.contains(&format!("fn {name}(")), "{limit}: there is no test {name} in {path}");
        }
    }
}

#[test]
fn the_page_and_the_code_agree() {
    let mut code = BTreeMap::new();
    for line in read("src/limits.rs").lines().filter_map(|line| line.strip_prefix("pub const ")) {
        let (name, rest) = line.split_once(": ").expect("a constant has a type");
        let (_, expression) = rest.trim_end_matches(';').split_once(" = ").expect("and a value");
        let value = value(expression, &code);
        code.insert(name.to_owned(), value);
    }
    assert!(code.len() > 50, "the constants were found");
    let page: BTreeMap<String, String> = read("../../docs/limits.md")
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let name = cells.next()?.trim_end_matches('`').to_owned();
            let value = cells.next()?.to_owned();
            let rest: Vec<&str> = cells.collect();
            assert_eq!(
                rest.len(),
                4,
                "a row says what {name} limits, how it is set, what is answered and what proves it"
            );
            check_tests(&name, rest[3]);
            Some((name, value))
        })
        .collect();
    for (name, value) in &code {
        assert_eq!(page.get(name), Some(value), "docs/limits.md has a row for {name} with its value");
    }
    let unknown: Vec<&String> = page.keys().filter(|name| !code.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "docs/limits.md has limits that the code has not: {unknown:?}");
}

#[test]
fn what_can_be_set_is_on_the_page() {
    let page = read("../../docs/limits.md");
    for name in Settings::names() {
        assert!(page.contains(&format!("`--limit {name}`")), "docs/limits.md says how {name} is set");
        let constant = name.replace('-', "_").to_uppercase();
        assert!(page.contains(&format!("| `{constant}_MAX` |")), "{name} is the setting of {constant}_MAX");
    }
}
