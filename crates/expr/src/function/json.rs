//! Functions on JSON kept as text: FIELD, SET_FIELD, ARRAY_ELEMENT, ARRAY_LENGTH.
//!
//! A text is scanned once from front to back, and checked whole: what is wanted is a slice of it,
//! so no tree is built. Order of members, numbers' spelling and everything that is not asked for
//! stay as they were written. JSON's null is SQL's NULL, and so is what is not there; text that is
//! no JSON (RFC 8259) is an error.

use super::Function;
use crate::checks::{check_length, mismatch};
use bumpalo::Bump;
use bumpalo::collections::{String as ArenaString, Vec as ArenaVec};
use ferrite_base::limits::JSON_NESTING_MAX;
use ferrite_base::{UserError, UserResult};
use ferrite_value::Value;
use std::fmt::Write;
use std::ops::Range;

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>], arena: &'a Bump) -> UserResult<Value<'a>> {
    match (function, arguments) {
        (Function::Field, [Value::Text(json), Value::Text(path)]) => {
            let path = parse_path(path, arena)?;
            let found = Scanner::whole(json, |scanner| scanner.select(&path))?;
            Ok(found.map_or(Value::Null, |found| as_value(&json[found], arena)))
        }
        (Function::SetField, [Value::Text(json), Value::Text(path), Value::Text(new)]) => {
            set_field(json, &parse_path(path, arena)?, new, arena).map(Value::Text)
        }
        (Function::ArrayElement, [Value::Text(json), Value::Integer(index)]) => {
            // From the front only: minus one means the last element in paths, and nothing here.
            let path = [usize::try_from(*index).map_or(Step::Nothing, Step::Index)];
            let found = Scanner::whole(json, |scanner| scanner.select(&path))?;
            Ok(found.map_or(Value::Null, |found| as_value(&json[found], arena)))
        }
        (Function::ArrayLength, [Value::Text(json)]) => {
            let length = Scanner::whole(json, |scanner| match scanner.peek() {
                Some(b'[') => scanner.array(|scanner, _| scanner.skip()).map(Some),
                _ => scanner.skip().map(|()| None),
            })?;
            Ok(length.map_or(Value::Null, |length| Value::Integer(length as i64)))
        }
        (function, arguments) => Err(mismatch(&format!("{function:?}"), arguments)),
    }
}

/// One step of a path such as `properties.history[3].url`.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
    /// `[-1]`: the last element; in SET_FIELD the one after it.
    Last,
    /// Leads nowhere.
    Nothing,
}

/// Names are parted by points; `\` takes the meaning from a point, an opening bracket or itself.
fn parse_path<'a>(path: &'a str, arena: &'a Bump) -> UserResult<ArenaVec<'a, Step<'a>>> {
    let mut steps = ArenaVec::new_in(arena);
    let mut rest = path;
    let mut name_expected = !path.starts_with('[');
    while name_expected || !rest.is_empty() {
        if !name_expected {
            let Some((index, after)) = rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) else {
                return Err(malformed_path(path));
            };
            steps.push(match index.trim() {
                "-1" => Step::Last,
                digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Step::Index(digits.parse().map_err(|_| malformed_path(path))?)
                }
                _ => return Err(malformed_path(path)),
            });
            rest = after;
        } else {
            let mut escaped = false;
            let end = rest.bytes().position(|byte| {
                let ends = !escaped && matches!(byte, b'.' | b'[');
                escaped = !escaped && byte == b'\\';
                ends
            });
            let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
            if escaped {
                return Err(malformed_path(path));
            }
            steps.push(Step::Name(unescaped_name(name, arena)));
            rest = after;
        }
        name_expected = false;
        if let Some(after) = rest.strip_prefix('.') {
            name_expected = true;
            rest = after;
        } else if !rest.is_empty() && !rest.starts_with('[') {
            return Err(malformed_path(path));
        }
        if steps.len() > JSON_NESTING_MAX {
            return Err(too_deep());
        }
    }
    Ok(steps)
}

fn unescaped_name<'a>(name: &'a str, arena: &'a Bump) -> &'a str {
    if !name.contains('\\') {
        return name;
    }
    let mut plain = ArenaString::with_capacity_in(name.len(), arena);
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    plain.into_bump_str()
}

/// Where SET_FIELD writes.
enum WriteTarget {
    /// Over the value that is there, with the steps from `step` on still to be made: none, or it is
    /// null.
    Over { range: Range<usize>, step: usize },
    /// Before the closing brace or bracket at `at`, with the steps from `step` on still to be made.
    /// `count`: how many members or elements there are.
    Into { at: usize, count: usize, step: usize },
    /// The value that `step` should go into is neither an object nor an array.
    Barred { step: usize },
}

fn set_field<'a>(json: &str, path: &[Step<'_>], new: &str, arena: &'a Bump) -> UserResult<&'a str> {
    Scanner::whole(new, Scanner::skip).map_err(|error| {
        error.with_hint("SET_FIELD takes the new value as JSON: a text value needs double quotes, as in '\"Rome\"'")
    })?;
    let place = Scanner::whole(json, |scanner| scanner.place(path, 0))?;
    let mut result = ArenaString::with_capacity_in(json.len() + new.len() + 16, arena);
    match place {
        WriteTarget::Over { range, step } => {
            result.push_str(&json[..range.start]);
            push_built(&path[step..], new, &mut result)?;
            result.push_str(&json[range.end..]);
        }
        WriteTarget::Into { at, count, step } => {
            result.push_str(json[..at].trim_end_matches(BLANKS));
            if count > 0 {
                result.push(',');
            }
            match path[step] {
                Step::Name(name) => push_quoted(name, &mut result),
                Step::Index(index) => push_nulls(index.saturating_sub(count), &mut result)?,
                Step::Last | Step::Nothing => {}
            }
            if let Step::Name(_) = path[step] {
                result.push(':');
            }
            push_built(&path[step + 1..], new, &mut result)?;
            result.push_str(&json[at..]);
        }
        WriteTarget::Barred { step } => {
            let wanted = if matches!(path[step], Step::Name(_)) { "a JSON object" } else { "a JSON array" };
            return Err(UserError::data(
                "22023",
                format!("SET_FIELD: step {} of the path needs {wanted}, and the value there is none", step + 1),
            ));
        }
    }
    check_length(result.len())?;
    Ok(result.into_bump_str())
}

/// `new` inside the objects and arrays that the steps ask for.
fn push_built(path: &[Step<'_>], new: &str, result: &mut ArenaString<'_>) -> UserResult<()> {
    match path {
        [] => push_compact(new, result),
        [Step::Name(name), rest @ ..] => {
            result.push('{');
            push_quoted(name, result);
            result.push(':');
            push_built(rest, new, result)?;
            result.push('}');
        }
        [step, rest @ ..] => {
            result.push('[');
            if let Step::Index(index) = step {
                push_nulls(*index, result)?;
            }
            push_built(rest, new, result)?;
            result.push(']');
        }
    }
    Ok(())
}

fn push_nulls(count: usize, result: &mut ArenaString<'_>) -> UserResult<()> {
    check_length(result.len().saturating_add(count.saturating_mul(5)))?;
    (0..count).for_each(|_| result.push_str("null,"));
    Ok(())
}

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// A scalar as its plain text, an object or array as compact JSON.
fn as_value<'a>(json: &'a str, arena: &'a Bump) -> Value<'a> {
    match json.as_bytes()[0] {
        b'"' => Value::Text(unescape(&json[1..json.len() - 1], arena)),
        b'n' => Value::Null,
        b'{' | b'[' if json.contains(BLANKS) => {
            let mut compact = ArenaString::with_capacity_in(json.len(), arena);
            push_compact(json, &mut compact);
            Value::Text(compact.into_bump_str())
        }
        _ => Value::Text(json),
    }
}

/// Without the blanks between tokens.
fn push_compact(json: &str, result: &mut ArenaString<'_>) {
    let mut in_text = false;
    let mut escaped = false;
    result.extend(json.chars().filter(|character| {
        let kept = in_text || !BLANKS.contains(character);
        if in_text {
            in_text = escaped || *character != '"';
            escaped = !escaped && *character == '\\';
        } else {
            in_text = *character == '"';
        }
        kept
    }));
}

fn push_quoted(text: &str, result: &mut ArenaString<'_>) {
    result.push('"');
    for character in text.chars() {
        match character {
            '"' => result.push_str("\\\""),
            '\\' => result.push_str("\\\\"),
            '\0'..='\u{1f}' => write!(result, "\\u{:04x}", character as u32).expect("writing to memory succeeds"),
            _ => result.push(character),
        }
    }
    result.push('"');
}

fn unescape<'a>(quoted: &'a str, arena: &'a Bump) -> &'a str {
    if !quoted.contains('\\') {
        return quoted;
    }
    let mut text = ArenaString::with_capacity_in(quoted.len(), arena);
    text.extend(Unescaped(quoted));
    text.into_bump_str()
}

/// The characters that the text between the quotes of a checked JSON string means. Halves of
/// surrogate pairs that stand alone become U+FFFD.
struct Unescaped<'t>(&'t str);

impl Unescaped<'_> {
    /// The four hex digits of `\u`.
    fn unit(&mut self) -> u32 {
        let (digits, rest) = self.0.split_at(4);
        self.0 = rest;
        u32::from_str_radix(digits, 16).expect("checked to be hex digits")
    }
}

impl Iterator for Unescaped<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let mut characters = self.0.chars();
        let first = characters.next()?;
        self.0 = characters.as_str();
        if first != '\\' {
            return Some(first);
        }
        let kind = characters.next()?;
        self.0 = characters.as_str();
        Some(match kind {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let mut code = self.unit();
                if (0xd800..0xdc00).contains(&code)
                    && let Some(after) = self.0.strip_prefix("\\u")
                {
                    let mut next = Unescaped(after);
                    let low = next.unit();
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                        self.0 = next.0;
                    }
                }
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            // Quote, slash and backslash stand for themselves.
            other => other,
        })
    }
}

/// Walks over JSON text.
struct Scanner<'t> {
    text: &'t str,
    position: usize,
    depth: usize,
}

impl<'t> Scanner<'t> {
    /// `read` takes the one value that `text` holds.
    fn whole<T>(text: &'t str, read: impl FnOnce(&mut Self) -> UserResult<T>) -> UserResult<T> {
        let mut scanner = Scanner { text, position: 0, depth: 0 };
        scanner.blanks();
        let result = read(&mut scanner)?;
        scanner.blanks();
        if scanner.position < text.len() { Err(scanner.malformed()) } else { Ok(result) }
    }

    #[cold]
    fn malformed(&self) -> UserError {
        let before = &self.text.as_bytes()[..self.position];
        let character = before.iter().filter(|byte| (**byte as i8) >= -0x40).count() + 1;
        UserError::data("22032", format!("invalid JSON text at character {character}"))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.position += 1;
        }
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += found as usize;
        found
    }

    fn expect(&mut self, byte: u8) -> UserResult<()> {
        if self.accept(byte) { Ok(()) } else { Err(self.malformed()) }
    }

    /// Over one value.
    fn skip(&mut self) -> UserResult<()> {
        match self.peek() {
            Some(b'{') => self.object(|scanner, _| scanner.skip()).map(drop),
            Some(b'[') => self.array(|scanner, _| scanner.skip()).map(drop),
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.number(),
        }
    }

    /// Calls `each` at every member's value with the member's name as it stands between the quotes.
    /// How many there were.
    fn object(&mut self, mut each: impl FnMut(&mut Self, &'t str) -> UserResult<()>) -> UserResult<usize> {
        self.enter()?;
        let mut count = 0;
        if !self.accept(b'}') {
            loop {
                let name = self.string()?;
                self.blanks();
                self.expect(b':')?;
                self.blanks();
                each(self, name)?;
                count += 1;
                self.blanks();
                if self.accept(b'}') {
                    break;
                }
                self.expect(b',')?;
                self.blanks();
            }
        }
        self.depth -= 1;
        Ok(count)
    }

    /// Calls `each` at every element with its index. How many there were.
    fn array(&mut self, mut each: impl FnMut(&mut Self, usize) -> UserResult<()>) -> UserResult<usize> {
        self.enter()?;
        let mut count = 0;
        if !self.accept(b']') {
            loop {
                each(self, count)?;
                count += 1;
                self.blanks();
                if self.accept(b']') {
                    break;
                }
                self.expect(b',')?;
                self.blanks();
            }
        }
        self.depth -= 1;
        Ok(count)
    }

    /// Over an opening brace or bracket.
    fn enter(&mut self) -> UserResult<()> {
        if self.depth == JSON_NESTING_MAX {
            return Err(too_deep());
        }
        self.depth += 1;
        self.position += 1;
        self.blanks();
        Ok(())
    }

    /// A string's text as it stands between the quotes.
    fn string(&mut self) -> UserResult<&'t str> {
        self.expect(b'"')?;
        let start = self.position;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.position += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.position += 1,
                        Some(b'u') => {
                            let digits = self.text.as_bytes().get(self.position + 1..self.position + 5);
                            if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                                return Err(self.malformed());
                            }
                            self.position += 5;
                        }
                        _ => return Err(self.malformed()),
                    }
                }
                None | Some(0..=0x1f) => return Err(self.malformed()),
                Some(_) => self.position += 1,
            }
        }
        let text = &self.text[start..self.position];
        self.position += 1;
        Ok(text)
    }

    fn word(&mut self, word: &str) -> UserResult<()> {
        if !self.text[self.position..].starts_with(word) {
            return Err(self.malformed());
        }
        self.position += word.len();
        Ok(())
    }

    fn number(&mut self) -> UserResult<()> {
        self.accept(b'-');
        if !self.accept(b'0') {
            self.digits()?;
        }
        if self.accept(b'.') {
            self.digits()?;
        }
        if self.accept(b'e') || self.accept(b'E') {
            let _ = self.accept(b'+') || self.accept(b'-');
            self.digits()?;
        }
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> UserResult<()> {
        let start = self.position;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.position += 1;
        }
        if self.position == start { Err(self.malformed()) } else { Ok(()) }
    }

    /// Over one value; where the value lies that `path` leads to from here. Of members with the
    /// same name the last counts.
    fn select(&mut self, path: &[Step<'_>]) -> UserResult<Option<Range<usize>>> {
        let mut found = None;
        match (path, self.peek()) {
            ([], _) => {
                let start = self.position;
                self.skip()?;
                found = Some(start..self.position);
            }
            ([Step::Name(wanted), rest @ ..], Some(b'{')) => {
                self.object(|scanner, name| {
                    if is_name(name, wanted) {
                        found = scanner.select(rest)?;
                        return Ok(());
                    }
                    scanner.skip()
                })?;
            }
            ([Step::Index(wanted), rest @ ..], Some(b'[')) => {
                self.array(|scanner, index| {
                    if index == *wanted {
                        found = scanner.select(rest)?;
                        return Ok(());
                    }
                    scanner.skip()
                })?;
            }
            ([Step::Last, rest @ ..], Some(b'[')) => {
                self.array(|scanner, _| {
                    found = scanner.select(rest)?;
                    Ok(())
                })?;
            }
            _ => self.skip()?,
        }
        Ok(found)
    }

    /// Over one value; where SET_FIELD writes. `step`: how many steps led here.
    fn place(&mut self, path: &[Step<'_>], step: usize) -> UserResult<WriteTarget> {
        let start = self.position;
        let mut found = None;
        let count = match (path.get(step), self.peek()) {
            (None, _) | (_, Some(b'n')) => {
                self.skip()?;
                return Ok(WriteTarget::Over { range: start..self.position, step });
            }
            (Some(Step::Name(wanted)), Some(b'{')) => self.object(|scanner, name| {
                if is_name(name, wanted) {
                    found = Some(scanner.place(path, step + 1)?);
                    return Ok(());
                }
                scanner.skip()
            })?,
            (Some(Step::Index(wanted)), Some(b'[')) => self.array(|scanner, index| {
                if index == *wanted {
                    found = Some(scanner.place(path, step + 1)?);
                    return Ok(());
                }
                scanner.skip()
            })?,
            (Some(Step::Last), Some(b'[')) => self.array(|scanner, _| scanner.skip())?,
            _ => {
                self.skip()?;
                return Ok(WriteTarget::Barred { step });
            }
        };
        Ok(found.unwrap_or(WriteTarget::Into { at: self.position - 1, count, step }))
    }
}

/// Is `quoted`, as it stands in the text, the name `wanted`?
fn is_name(quoted: &str, wanted: &str) -> bool {
    if quoted.contains('\\') { Unescaped(quoted).eq(wanted.chars()) } else { quoted == wanted }
}

#[cold]
fn malformed_path(path: &str) -> UserError {
    UserError::data("22023", format!("invalid JSON path '{path}'"))
        .with_hint("separate names with dots and put array indexes in brackets, as in 'props.history[0].url'")
}

#[cold]
fn too_deep() -> UserError {
    UserError::limit(format!("JSON text may be nested {JSON_NESTING_MAX} deep"))
}
