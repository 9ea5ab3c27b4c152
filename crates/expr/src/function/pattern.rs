//! Regular expressions: REGEXP_POSITION, REGEXP_LIKE and REGEXP_REPLACE.
//!
//! Matching takes time in proportion to the text, whatever the pattern (the `regex` library knows
//! no backtracking, and therefore neither look-around nor back references). A thread keeps the
//! expressions it compiled last, so that a statement over many rows compiles its pattern once.

use super::Function;
use crate::checks::{check_length, mismatch};
use bumpalo::Bump;
use bumpalo::collections::String as ArenaString;
use ferrite_base::limits::{REGULAR_EXPRESSION_BYTES_MAX, REGULAR_EXPRESSIONS_KEPT};
use ferrite_base::{UserError, UserResult};
use ferrite_value::Value;
use regex::{Regex, RegexBuilder};
use std::cell::RefCell;

/// A compiled pattern with what it was compiled from.
struct Compiled {
    pattern: Box<str>,
    ignores_case: bool,
    regex: Regex,
}

thread_local! {
    /// Most recently used last.
    static COMPILED: RefCell<Vec<Compiled>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>]) -> UserResult<Value<'a>> {
    let (text, pattern, flags) = match arguments {
        [Value::Text(text), Value::Text(pattern)] => (*text, *pattern, ""),
        [Value::Text(text), Value::Text(pattern), Value::Text(flags)] => (*text, *pattern, *flags),
        _ => return Err(mismatch(&format!("{function:?}"), arguments)),
    };
    with_compiled(pattern, ignores_case(flags)?, |regex| match function {
        Function::RegexpLike => Value::Boolean(regex.is_match(text)),
        _ => {
            let position = regex.find(text).map_or(0, |found| text[..found.start()].chars().count() + 1);
            Value::Integer(position as i64)
        }
    })
}

/// REGEXP_REPLACE: the first match replaced, or with the flag `g` all of them. In the replacement
/// `\1` to `\9` are the groups, `\&` is the whole match and `\\` a backslash, as in PostgreSQL.
pub(super) fn replace<'a>(arguments: &[Value<'a>], arena: &'a Bump) -> UserResult<Value<'a>> {
    let (text, pattern, replacement, flags) = match arguments {
        [Value::Text(text), Value::Text(pattern), Value::Text(replacement)] => (*text, *pattern, *replacement, ""),
        [Value::Text(text), Value::Text(pattern), Value::Text(replacement), Value::Text(flags)] => {
            (*text, *pattern, *replacement, *flags)
        }
        _ => return Err(mismatch("REGEXP_REPLACE", arguments)),
    };
    let all = flags.contains('g');
    let ignores_case = ignores_case(&flags.replace('g', ""))?;
    with_compiled(pattern, ignores_case, |regex| {
        let mut result = ArenaString::new_in(arena);
        let mut rest = 0;
        for found in regex.captures_iter(text).take(if all { usize::MAX } else { 1 }) {
            let whole = found.get(0).expect("a match has bounds");
            append(&mut result, &text[rest..whole.start()])?;
            let mut parts = replacement.split('\\');
            append(&mut result, parts.next().unwrap_or_default())?;
            while let Some(part) = parts.next() {
                let group = match part.bytes().next() {
                    Some(b'&') => Some(0),
                    Some(digit @ b'1'..=b'9') => Some(usize::from(digit - b'0')),
                    _ => None,
                };
                match group {
                    Some(group) => {
                        append(&mut result, found.get(group).map_or("", |group| group.as_str()))?;
                        append(&mut result, &part[1..])?;
                    }
                    // Two backslashes have nothing between them.
                    None => {
                        append(&mut result, "\\")?;
                        append(&mut result, if part.is_empty() { parts.next().unwrap_or_default() } else { part })?;
                    }
                }
            }
            rest = whole.end();
        }
        if rest == 0 && result.is_empty() {
            return Ok(Value::Text(text));
        }
        append(&mut result, &text[rest..])?;
        Ok(Value::Text(result.into_bump_str()))
    })?
}

fn append(result: &mut ArenaString<'_>, piece: &str) -> UserResult<()> {
    check_length(result.len() + piece.len())?;
    result.push_str(piece);
    Ok(())
}

/// `c` and `i`; of several the last counts.
fn ignores_case(flags: &str) -> UserResult<bool> {
    let mut ignores_case = false;
    for flag in flags.chars() {
        ignores_case = match flag {
            'c' => false,
            'i' => true,
            other => {
                return Err(UserError::data("2201B", format!("'{other}' is not a flag of regular expressions"))
                    .with_hint("use 'c' (upper and lower case differ) or 'i' (they do not)"));
            }
        };
    }
    Ok(ignores_case)
}

fn with_compiled<T>(pattern: &str, ignores_case: bool, use_it: impl FnOnce(&Regex) -> T) -> UserResult<T> {
    COMPILED.with_borrow_mut(|kept| {
        let known = kept.iter().position(|one| one.ignores_case == ignores_case && &*one.pattern == pattern);
        let found = match known {
            Some(index) => kept.remove(index),
            None => Compiled { pattern: pattern.into(), ignores_case, regex: compile(pattern, ignores_case)? },
        };
        if kept.len() == REGULAR_EXPRESSIONS_KEPT {
            kept.remove(0);
        }
        let result = use_it(&found.regex);
        kept.push(found);
        Ok(result)
    })
}

fn compile(pattern: &str, ignores_case: bool) -> UserResult<Regex> {
    let compiled = RegexBuilder::new(pattern)
        .case_insensitive(ignores_case)
        .size_limit(REGULAR_EXPRESSION_BYTES_MAX)
        .dfa_size_limit(REGULAR_EXPRESSION_BYTES_MAX)
        .build();
    compiled.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => UserError::limit(format!(
            "the regular expression needs more than the {REGULAR_EXPRESSION_BYTES_MAX} bytes that a compiled one may have"
        )),
        error => {
            // The library draws the pattern with a mark under it; its last line says what is wrong.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            UserError::data("2201B", format!("invalid regular expression: {reason}"))
                .with_hint("look-around and back references are not supported")
        }
    })
}
