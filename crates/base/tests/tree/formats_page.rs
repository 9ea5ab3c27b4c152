//! docs/format/release.md has the versions of all formats, and the number that stands for them: a
//! version that is raised takes the next number.

use std::path::Path;

/// In the order of the page's columns: the file, and what stands before the number.
const VERSIONS: [(&str, &str); 10] = [
    ("crates/member/src/release.rs", "const FORMATS: u32 = "),
    ("crates/log/src/format.rs", "const FORMAT_VERSION: u32 = "),
    ("crates/partition/src/record.rs", "pub const FORMAT_VERSION: u32 = "),
    ("crates/snapshot/src/manifest.rs", "const VERSION: u32 = "),
    ("crates/snapshot/src/format.rs", "const FORMAT_VERSION: u32 = "),
    ("crates/group/src/identity.rs", "const VERSION: u32 = "),
    ("crates/meta/src/founding/message.rs", "const WITH_MANNER: u8 = "),
    ("crates/meta/src/voter/kept.rs", "const VERSION: u32 = "),
    ("crates/meta/src/command.rs", "pub const FORMAT: u8 = "),
    ("crates/peer/src/handshake.rs", "pub const VERSION: u16 = "),
];

#[test]
fn the_last_row_has_the_versions_of_the_code() {
    let read = |path: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let version = |(path, before): (&str, &str)| {
        let text = read(path);
        let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{path} has no {before}"));
        rest.split(';').next().expect("a value").to_owned()
    };
    let page = read("docs/format/release.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.strip_prefix("| ").is_some_and(|row| row.starts_with(char::is_numeric)))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let numbers: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let expected: Vec<String> = (1..=rows.len()).map(|number| number.to_string()).collect();
    assert_eq!(numbers, expected, "a row for each number");
    assert_eq!(rows.last().expect("a row"), &VERSIONS.map(version), "a version was raised: it takes the next number");
    let versions =
        |row: &[&str]| row[1..].iter().map(|cell| cell.parse::<u32>().expect("a number")).collect::<Vec<_>>();
    assert!(rows.windows(2).all(|two| versions(&two[0]) <= versions(&two[1])), "versions only grow");
}
