//! A function's name says what it does: `take`, `look`, `tell` and their kind alone do not.

use crate::production;

/// `take` hides whether something is moved out, handled, decoded, counted or borrowed; the others
/// likewise.
const VAGUE: &[&str] = &["look", "looked", "looks", "received", "take", "taken", "takes", "tell", "tells", "told"];

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
    let mut functions = 0;
    let mut vague = Vec::new();
    for source in production::sources() {
        for name in source.code.lines().filter_map(declared) {
            functions += 1;
            if VAGUE.contains(&name) {
                vague.push(format!("{}: {name}", source.path));
            }
        }
    }
    assert!(functions > 5_000, "only {functions} functions were found");
    assert!(vague.is_empty(), "name these by what they do:\n{}", vague.join("\n"));
}

#[test]
fn declarations_are_told_from_calls_and_types() {
    assert_eq!(declared("    pub(super) fn take(rest: &mut Reader<'_>) {"), Some("take"));
    assert_eq!(declared("fn look<C>(&self) {"), Some("look"));
    assert_eq!(declared("    let tell = |told: fn (u8)| told(1);"), None);
    assert_eq!(declared("    pub fn take_spare(&mut self) -> Vec<u8> {"), Some("take_spare"));
}
