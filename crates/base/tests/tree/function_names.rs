//! A function's name says what it does: `take`, `look`, `tell` and their kind alone do not. Those
//! that are left stand in a list by file, which only shrinks.

use crate::production;
use std::collections::BTreeMap;

/// `take` hides whether something is moved out, handled, decoded, counted or borrowed; the others
/// likewise.
const VAGUE: &[&str] = &["look", "looked", "looks", "received", "take", "taken", "takes", "tell", "tells", "told"];

/// How many functions of such a name a file has.
const LEFT: &[(&str, usize)] = &[
    ("crates/member/src/forward/batch.rs", 1),
    ("crates/member/src/forward/execute.rs", 1),
    ("crates/member/src/forward/inbox.rs", 2),
    ("crates/member/src/forward/passage.rs", 1),
    ("crates/member/src/forward/thread.rs", 1),
    ("crates/member/src/forward/window.rs", 1),
    ("crates/member/src/founding.rs", 1),
    ("crates/member/src/giving_way.rs", 1),
    ("crates/member/src/loss.rs", 1),
    ("crates/member/src/membership_report.rs", 1),
    ("crates/member/src/pausing.rs", 1),
    ("crates/member/src/peer_dispatcher.rs", 2),
    ("crates/member/src/reachability.rs", 1),
    ("crates/member/src/remove.rs", 1),
    ("crates/member/src/rounds.rs", 1),
    ("crates/member/src/transfer.rs", 1),
    ("crates/member/src/waits.rs", 1),
    ("crates/node/src/forward_executor.rs", 1),
];

/// The name of the function that a line declares.
fn declared(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let modifiers = before.split_whitespace().all(|word| {
        word.starts_with("pub")
            || ["const", "unsafe", "extern", "\"system\"", "\"C\""].contains(&word)
            || word.ends_with(')')
    });
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    modifiers.then_some(&rest[..end])
}

#[test]
fn functions_say_what_they_do() {
    let left: BTreeMap<&str, usize> = LEFT.iter().copied().collect();
    let mut functions = 0;
    let mut wrong = Vec::new();
    for source in production::sources() {
        let names: Vec<&str> = source.code.lines().filter_map(declared).collect();
        functions += names.len();
        let vague: Vec<&str> = names.into_iter().filter(|name| VAGUE.contains(name)).collect();
        let most = left.get(&*source.path).copied().unwrap_or(0);
        if vague.len() > most {
            wrong.push(format!("{}: {vague:?}: name these by what they do, {most} were there", source.path));
        } else if vague.len() < most {
            wrong.push(format!(
                "{}: {most} in the list, {} there: lower it, or drop the line",
                source.path,
                vague.len()
            ));
        }
    }
    assert!(functions > 5_000, "only {functions} functions");
    let missing = LEFT.iter().filter(|(path, _)| !production::root().join(path).is_file());
    wrong.extend(missing.map(|(path, _)| format!("{path} is not there: drop the line")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn declarations_are_told_from_calls_and_types() {
    assert_eq!(declared("    pub(super) fn take(rest: &mut Reader<'_>) {"), Some("take"));
    assert_eq!(declared("fn look<C>(&self) {"), Some("look"));
    assert_eq!(declared("    let tell = |told: fn (u8)| told(1);"), None);
    assert_eq!(declared("    pub fn take_spare(&mut self) -> Vec<u8> {"), Some("take_spare"));
}
