//! A type's name says which type it is: names that four or more types carry stand in a list with
//! their number, which only shrinks.

use crate::production;
use std::collections::BTreeMap;

const SAME_MAX: usize = 3;

const CARRIED: &[(&str, usize)] = &[
    ("Answer", 6),
    ("Answers", 4),
    ("Block", 4),
    ("Body", 4),
    ("Call", 5),
    ("Change", 10),
    ("Column", 4),
    ("Command", 7),
    ("Counts", 7),
    ("Effect", 4),
    ("End", 4),
    ("Entry", 5),
    ("Failure", 4),
    ("Figures", 5),
    ("Files", 4),
    ("Found", 10),
    ("Handles", 4),
    ("Held", 4),
    ("Item", 4),
    ("Job", 5),
    ("Kept", 5),
    ("Kind", 8),
    ("Line", 4),
    ("Link", 4),
    ("Message", 5),
    ("Node", 4),
    ("Options", 5),
    ("Party", 4),
    ("Plan", 8),
    ("Reader", 8),
    ("Reports", 4),
    ("Role", 4),
    ("Row", 4),
    ("Rows", 7),
    ("Run", 10),
    ("Said", 5),
    ("Seen", 6),
    ("Settings", 6),
    ("Shared", 5),
    ("Shown", 4),
    ("Slot", 4),
    ("Source", 4),
    ("State", 19),
    ("Step", 6),
    ("Table", 5),
    ("Turn", 4),
    ("Waiting", 5),
    ("Window", 4),
    ("Work", 6),
    ("Worker", 5),
    ("Written", 5),
];

/// The type that a line of the outermost level declares.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let first = if line.starts_with(' ') { None } else { words.by_ref().find(|word| !word.starts_with("pub")) }?;
    let name = if ["struct", "enum", "trait", "type"].contains(&first) { words.next()? } else { return None };
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end])
}

#[test]
fn few_types_share_a_name() {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for source in production::sources() {
        for name in source.code.lines().filter_map(declared) {
            *counted.entry(name.to_owned()).or_default() += 1;
        }
    }
    assert!(counted.len() > 1_000, "only {} names", counted.len());
    counted.retain(|_, count| *count > SAME_MAX);
    let listed: BTreeMap<String, usize> = CARRIED.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    let mut wrong = Vec::new();
    for (name, count) in &counted {
        let most = listed.get(name).copied().unwrap_or(SAME_MAX);
        if *count > most {
            wrong.push(format!("{count} types are called {name}, {most} were: say which one the new one is"));
        }
    }
    for (name, most) in &listed {
        let count = counted.get(name).copied().unwrap_or(0);
        if count < *most {
            wrong.push(format!("{name}: {most} stands in the list; lower it to {count}, or drop it below four"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn declarations_are_told_from_uses() {
    assert_eq!(declared("pub(crate) struct Gate<T> {"), Some("Gate"));
    assert_eq!(declared("type Never = std::convert::Infallible;"), Some("Never"));
    assert_eq!(declared("    type Item = u8;"), None);
    assert_eq!(declared("impl Gate {"), None);
}
