//! Regular expressions: REGEXP_POSITION and REGEXP_LIKE.
//!
//! Matching takes time in proportion to the text, whatever the pattern (the `regex` library knows no backtracking, and therefore
//! neither look-around nor back references). A thread keeps the expressions it compiled last, so that a statement over many rows
//! compiles its pattern once.

use super::Function;
use crate::evaluate::mismatch;
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
