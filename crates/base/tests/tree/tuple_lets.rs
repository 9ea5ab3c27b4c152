//! A statement does one thing: `let (a, b) = (x, y);` is two statements in one, which defeats
//! reading and diffs. Patterns that may not match (`let (Some(a), Some(b)) = (x, y) else`) are one.

use crate::production;

/// Whether a line begins a statement of several in one.
fn is_several(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("let (") else { return false };
    let Some((pattern, value)) = rest.split_once('=') else { return false };
    let names = pattern.split(')').next().unwrap_or_default();
    let is_name = |part: &str| {
        part.trim().trim_start_matches("mut ").chars().all(|c| c.is_lowercase() || "_0123456789".contains(c))
    };
    names.contains(',') && names.split(',').all(is_name) && is_tuple(value.trim_start())
}

/// Whether a value is one, perhaps of several lines, and not the first operand of something.
fn is_tuple(value: &str) -> bool {
    let mut depth = 0;
    for (at, character) in value.char_indices() {
        depth += i32::from(character == '(') - i32::from(character == ')');
        if depth == 0 {
            return at > 0 && value[at + 1..].trim_start().starts_with(';');
        }
    }
    depth > 0
}

#[test]
fn statements_do_one_thing() {
    let mut found = Vec::new();
    for source in production::sources() {
        for (number, line) in source.code.lines().enumerate().filter(|(_, line)| is_several(line)) {
            found.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
        }
    }
    assert!(found.is_empty(), "write these as several statements:\n{}", found.join("\n"));
}

#[test]
fn tuples_of_one_value_are_no_such_statements() {
    assert!(is_several("    let (a, mut b) = (1, 2);"));
    assert!(is_several("let (a, b): (u8, u8) = ("));
    assert!(!is_several("let (a, b) = pair();"));
    assert!(!is_several("let (Some(a), Some(b)) = (one, two) else {"));
    assert!(!is_several("let a = (1, 2);"));
    assert!(!is_several("let (low, carry) = (a * b).overflowing_add(c);"));
}
