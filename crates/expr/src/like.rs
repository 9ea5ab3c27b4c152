//! LIKE: `%` matches any run of characters, `_` one character, and the escape character takes the
//! next one literally.
//!
//! Texts are UTF-8; only `_` has to know where characters end, everything else compares bytes.

use ferrite_base::{UserError, UserResult};

/// Steps of a match that are told at once.
const STEPS_TOLD: usize = 4_096;

/// Whether the whole of `text` matches. Error when the pattern ends in its escape character.
///
/// Greedy with one point of return: after a later `%` no earlier one needs another try, so the time
/// is at most the product of both lengths. `told` hears of every so many steps that were made, and
/// may end it with an error.
pub fn matches(
    text: &str,
    pattern: &str,
    escape: Option<char>,
    told: impl Fn(usize) -> UserResult<()>,
) -> UserResult<bool> {
    let mut steps = 0;
    if let Some(escape) = escape {
        check_escapes(pattern, escape)?;
    }
    let mut text_rest = text;
    let mut pattern_rest = pattern;
    // Where to go on when a match fails: what follows the last `%`, and the text from which that
    // was tried last.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        steps += 1;
        if steps == STEPS_TOLD {
            steps = 0;
            told(STEPS_TOLD)?;
        }
        let mut characters = pattern_rest.chars();
        let step = match characters.next() {
            None => Step::End,
            Some(character) if Some(character) == escape => {
                Step::Literal(characters.next().expect("no escape ends a pattern that was checked"))
            }
            Some('%') => Step::Run,
            Some('_') => Step::Any,
            Some(literal) => Step::Literal(literal),
        };
        let mut text_characters = text_rest.chars();
        let matched = match step {
            Step::Run => {
                pattern_rest = characters.as_str();
                if pattern_rest.is_empty() {
                    return Ok(true);
                }
                retry = Some((pattern_rest, text_rest));
                continue;
            }
            Step::End => {
                if text_rest.is_empty() {
                    return Ok(true);
                }
                false
            }
            Step::Any => text_characters.next().is_some(),
            Step::Literal(literal) => text_characters.next() == Some(literal),
        };
        if matched {
            pattern_rest = characters.as_str();
            text_rest = text_characters.as_str();
            continue;
        }
        let Some((pattern_after_run, tried_from)) = retry else { return Ok(false) };
        let mut skipped = tried_from.chars();
        if skipped.next().is_none() {
            return Ok(false);
        }
        pattern_rest = pattern_after_run;
        text_rest = skipped.as_str();
        retry = Some((pattern_after_run, text_rest));
    }
}

enum Step {
    Run,
    Any,
    Literal(char),
    End,
}

/// The literal text that every match begins with, and whether nothing but `%` follows it: what an
/// index can use. None when the pattern begins with a wildcard, or has an escape, which no index
/// scan needs to understand.
pub fn literal_prefix(pattern: &str, escape: Option<char>) -> Option<(&str, bool)> {
    if escape.is_some_and(|escape| pattern.contains(escape)) {
        return None;
    }
    let end = pattern.find(['%', '_']).unwrap_or(pattern.len());
    (end > 0).then(|| (&pattern[..end], &pattern[end..] == "%"))
}

/// The least text above all that begin with `prefix`; texts are ordered by their bytes, hence by
/// their code points.
pub fn text_after(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(last as u32 + 1),
        };
        if let Some(next) = next {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

/// The escape character of patterns whose own is known only when they are evaluated: the last of
/// Unicode, which stands for nothing.
pub const ESCAPE: char = '\u{10ffff}';

/// The pattern, with [`ESCAPE`] for its escape character.
pub fn with_own_escape(pattern: &str, escape: &str, any_case: bool) -> UserResult<String> {
    let mut characters = escape.chars();
    let (Some(escape), None) = (characters.next(), characters.next()) else {
        return Err(UserError::data("22019", "ESCAPE takes one character"));
    };
    if any_case && escape.is_alphabetic() {
        return Err(UserError::data("22019", "the ESCAPE character of ILIKE must not be a letter"));
    }
    check_escapes(pattern, escape)?;
    let mut escaped = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        let is_escaped = character == escape;
        let literal = if is_escaped { rest.next().unwrap_or(escape) } else { character };
        if literal == ESCAPE || is_escaped && matches!(literal, '%' | '_') {
            escaped.push(ESCAPE);
        }
        escaped.push(literal);
    }
    Ok(escaped)
}

/// Before the first comparison, so that the error does not depend on the text.
fn check_escapes(pattern: &str, escape: char) -> UserResult<()> {
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character == escape && characters.next().is_none() {
            return Err(UserError::data("22025", "the LIKE pattern ends in its escape character"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{matches, text_after, with_own_escape};

    #[test]
    fn patterns_match_the_same_with_our_escape() {
        let patterns = ["a!%b", "!!%", "!_", "%!%%", "a!b", "\u{10ffff}%", "!\u{10ffff}_"];
        for pattern in patterns {
            let escaped = with_own_escape(pattern, "!", false).expect("it ends in no escape");
            for text in ["a%b", "axb", "!x", "_", "x", "%", "x%", "ab", "\u{10ffff}", "\u{10ffff}x", ""] {
                let of = |pattern: &str, escape| matches(text, pattern, Some(escape), |_| Ok(()));
                assert_eq!(of(pattern, '!'), of(&escaped, super::ESCAPE), "{text} LIKE {pattern}");
            }
        }
        assert_eq!(with_own_escape("a!", "!", false).expect_err("it ends in its escape").code(), "22025");
        for (escape, any_case) in [("", false), ("ab", false), ("a", true)] {
            assert_eq!(with_own_escape("a", escape, any_case).expect_err("no escape").code(), "22019");
        }
    }

    #[test]
    fn texts_after_a_prefix() {
        assert_eq!(text_after("abc").as_deref(), Some("abd"));
        assert_eq!(text_after("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(text_after("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(text_after("\u{10ffff}\u{10ffff}"), None);
        assert_eq!(text_after(""), None);
    }
}
