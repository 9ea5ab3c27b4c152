//! What a node reports is a notice: no crate of a node writes lines of its own making to standard
//! error.

use crate::production;

/// Crates and files that may: tools, and the streams themselves.
const OTHERS: &[&str] = &[
    "crates/bench/",
    "crates/compare/",
    "crates/differential/",
    "crates/ferrite/src/admin",
    "crates/ferrite/src/check",
    "crates/ferrite/src/init_procedure.rs",
    "crates/ferrite/src/main.rs",
    "crates/io/src/stdio.rs",
    "crates/shell/",
    "crates/torture/",
];

#[test]
fn nodes_give_notices_and_write_no_other_lines() {
    let sources = production::sources();
    for other in OTHERS {
        assert!(sources.iter().any(|source| source.path.starts_with(other)), "{other} is there");
    }
    for source in sources.iter().filter(|source| !OTHERS.iter().any(|other| source.path.starts_with(other))) {
        for word in ["errln!", "err!(", "ERROR.line(", "ERROR.words(", "eprint"] {
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            let said = source.code.lines().filter(is_code).find(|line| line.contains(word));
            assert_eq!(said, None, "{}: a node gives a notice (ferrite_io::notify)", source.path);
        }
    }
}
