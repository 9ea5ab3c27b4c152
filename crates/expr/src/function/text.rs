//! Functions on text. Positions and lengths count characters (bytes for VARBINARY), from 1.

use super::number::{round_half_even, rounding_position, too_large};
use super::{Function, TrimSide};
use crate::checks::{check_length, mismatch};
use bumpalo::Bump;
use bumpalo::collections::String as ArenaString;
use ferrite_base::{UserError, UserResult, earlier};
use ferrite_value::{Decimal, Value, decimal};
use std::fmt::Write;

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>], arena: &'a Bump) -> UserResult<Value<'a>> {
    use Function::*;
    match (function, arguments) {
        (Substring, [Value::Text(text), Value::Integer(start)]) => Ok(Value::Text(characters(text, *start, None)?)),
        (Substring, [Value::Text(text), Value::Integer(start), Value::Integer(length)]) => {
            Ok(Value::Text(characters(text, *start, Some(*length))?))
        }
        (Substring, [Value::Bytes(bytes), Value::Integer(start)]) => {
            Ok(Value::Bytes(&bytes[window(bytes.len(), *start, None)?]))
        }
        (Substring, [Value::Bytes(bytes), Value::Integer(start), Value::Integer(length)]) => {
            Ok(Value::Bytes(&bytes[window(bytes.len(), *start, Some(*length))?]))
        }
        (Trim(side), [Value::Text(text)]) => Ok(Value::Text(trim(text, " ", side))),
        (Trim(side), [Value::Text(text), Value::Text(unwanted)]) => Ok(Value::Text(trim(text, unwanted, side))),
        (Upper, [Value::Text(text)]) => {
            Ok(Value::Text(from_characters(text.len(), text.chars().flat_map(char::to_uppercase), arena)?))
        }
        (Lower, [Value::Text(text)]) => {
            Ok(Value::Text(from_characters(text.len(), text.chars().flat_map(char::to_lowercase), arena)?))
        }
        (Concat, arguments) => {
            let mut result = Builder::new(arena);
            for argument in arguments {
                match argument {
                    Value::Text(text) => result.push(text)?,
                    other => return Err(mismatch("CONCAT", &[*other])),
                }
            }
            Ok(result.finish())
        }
        (Reverse, [Value::Text(text)]) => Ok(Value::Text(from_characters(text.len(), text.chars().rev(), arena)?)),
        (InitialCapitals, [Value::Text(text)]) => initial_capitals(text, arena).map(Value::Text),
        (PadLeft | PadRight, [Value::Text(text), Value::Integer(length)]) => pad(function, text, *length, " ", arena),
        (PadLeft | PadRight, [Value::Text(text), Value::Integer(length), Value::Text(filling)]) => {
            pad(function, text, *length, filling, arena)
        }
        (SplitPart, [Value::Text(text), Value::Text(delimiter), Value::Integer(number)]) => {
            split_part(text, delimiter, *number).map(Value::Text)
        }
        (StartsWith, [Value::Text(text), Value::Text(start)]) => Ok(Value::Boolean(text.starts_with(start))),
        (Ascii, [Value::Text(text)]) => Ok(Value::Integer(text.chars().next().map_or(0, |first| first as i64))),
        (CharLength, [Value::Text(text)]) => Ok(Value::Integer(text.chars().count() as i64)),
        (OctetLength, [Value::Text(text)]) => Ok(Value::Integer(text.len() as i64)),
        (OctetLength, [Value::Bytes(bytes)]) => Ok(Value::Integer(bytes.len() as i64)),
        (Left, [Value::Text(text), Value::Integer(count)]) => Ok(Value::Text(&text[..from_start(text, *count)])),
        (Right, [Value::Text(text), Value::Integer(count)]) => {
            let from = if *count == 0 { text.len() } else { from_start(text, count.saturating_neg()) };
            Ok(Value::Text(&text[from..]))
        }
        (Replace, [Value::Text(text), Value::Text(wanted)]) => replace(text, wanted, "", arena),
        (Replace, [Value::Text(text), Value::Text(wanted), Value::Text(replacement)]) => {
            replace(text, wanted, replacement, arena)
        }
        (Repeat, [Value::Text(text), Value::Integer(count)]) => repeat(text, not_negative("REPEAT", *count)?, arena),
        (Space, [Value::Integer(count)]) => repeat(" ", not_negative("SPACE", *count)?, arena),
        (Position, [Value::Text(wanted), Value::Text(text)]) => {
            let position = text.find(wanted).map_or(0, |at| text[..at].chars().count() + 1);
            Ok(Value::Integer(position as i64))
        }
        (Overlay, [Value::Text(text), Value::Text(replacement), Value::Integer(start)]) => {
            overlay(text, replacement, *start, replacement.chars().count() as i64, arena)
        }
        (Overlay, [Value::Text(text), Value::Text(replacement), Value::Integer(start), Value::Integer(length)]) => {
            overlay(text, replacement, *start, *length, arena)
        }
        (Str, [value @ (Value::Float(_) | Value::Decimal(_)), form @ ..]) => match form {
            [] => str_number(value, 10, 0, arena),
            [Value::Integer(length)] => str_number(value, *length, 0, arena),
            [Value::Integer(length), Value::Integer(decimals)] => str_number(value, *length, *decimals, arena),
            _ => Err(mismatch("STR", arguments)),
        },
        (Char, [Value::Integer(code)]) => {
            let character = u32::try_from(*code).ok().and_then(char::from_u32);
            let character =
                character.ok_or_else(|| UserError::out_of_range(format!("{code} is not a character code")))?;
            Ok(Value::Text(character.encode_utf8(arena.alloc_slice_fill_copy(character.len_utf8(), 0u8))))
        }
        (Bin, [Value::Integer(x)]) => Ok(Value::Text(bumpalo::format!(in arena, "{:b}", x).into_bump_str())),
        (Hex, [Value::Integer(x)]) => Ok(Value::Text(bumpalo::format!(in arena, "{:X}", x).into_bump_str())),
        (FormatCurrency, [Value::Decimal(value), Value::Integer(position)]) => {
            format_currency(*value, rounding_position(*position)?, arena)
        }
        (function, arguments) => Err(mismatch(&format!("{function:?}"), arguments)),
    }
}

/// Text built piece by piece, never longer than a value may be.
struct Builder<'a>(ArenaString<'a>);

impl<'a> Builder<'a> {
    fn new(arena: &'a Bump) -> Self {
        Builder(ArenaString::new_in(arena))
    }

    fn push(&mut self, piece: &str) -> UserResult<()> {
        check_length(self.0.len() + piece.len())?;
        self.0.push_str(piece);
        Ok(())
    }

    fn finish(self) -> Value<'a> {
        Value::Text(self.0.into_bump_str())
    }
}

fn from_characters(capacity: usize, characters: impl Iterator<Item = char>, arena: &Bump) -> UserResult<&str> {
    let mut text = ArenaString::with_capacity_in(capacity, arena);
    text.extend(characters);
    check_length(text.len())?;
    Ok(text.into_bump_str())
}

/// Byte offset of the character that `count` others come before; the end when there are fewer.
fn offset(text: &str, count: usize) -> usize {
    if count >= text.len() {
        return text.len();
    }
    text.char_indices().nth(count).map_or(text.len(), |(at, _)| at)
}

/// Byte offset after this many characters, or, of a negative count, before this many at the end:
/// what RIGHT begins with.
fn from_start(text: &str, count: i64) -> usize {
    match usize::try_from(count) {
        Ok(count) => offset(text, count),
        Err(_) => {
            let behind = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
            text.char_indices().rev().nth(behind - 1).map_or(0, |(at, _)| at)
        }
    }
}

/// From 1: positions before the text count too, so that SUBSTRING('abc', -1, 3) is 'a'.
fn window(total: usize, start: i64, length: Option<i64>) -> UserResult<std::ops::Range<usize>> {
    let end = match length {
        Some(length) if length < 0 => {
            return Err(UserError::data("22011", "data exception: substring error: the length is negative"));
        }
        Some(length) => start.saturating_add(length) - 1,
        None => i64::MAX,
    };
    let from = usize::try_from(start.saturating_sub(1)).unwrap_or(0).min(total);
    let to = usize::try_from(end).unwrap_or(0).min(total);
    Ok(from..to.max(from))
}

fn characters(text: &str, start: i64, length: Option<i64>) -> UserResult<&str> {
    // There are at most as many characters as bytes, so clamping to bytes loses none.
    let window = window(text.len(), start, length)?;
    let from = offset(text, window.start);
    let rest = &text[from..];
    Ok(&rest[..offset(rest, window.end - window.start)])
}

/// Without any of the unwanted characters at the ends.
fn trim<'a>(text: &'a str, unwanted: &str, side: TrimSide) -> &'a str {
    let is_unwanted = |character: char| unwanted.contains(character);
    match side {
        TrimSide::Both => text.trim_matches(is_unwanted),
        TrimSide::Leading => text.trim_start_matches(is_unwanted),
        TrimSide::Trailing => text.trim_end_matches(is_unwanted),
    }
}

fn replace<'a>(text: &'a str, wanted: &str, replacement: &str, arena: &'a Bump) -> UserResult<Value<'a>> {
    if wanted.is_empty() || !text.contains(wanted) {
        return Ok(Value::Text(text));
    }
    let mut result = Builder::new(arena);
    for (index, piece) in text.split(wanted).enumerate() {
        if index > 0 {
            result.push(replacement)?;
        }
        result.push(piece)?;
    }
    Ok(result.finish())
}

fn repeat<'a>(text: &str, count: usize, arena: &'a Bump) -> UserResult<Value<'a>> {
    let length = text.len().saturating_mul(count);
    check_length(length)?;
    let mut result = ArenaString::with_capacity_in(length, arena);
    if !text.is_empty() {
        (0..count).for_each(|_| result.push_str(text));
    }
    Ok(Value::Text(result.into_bump_str()))
}

fn overlay<'a>(text: &str, replacement: &str, start: i64, length: i64, arena: &'a Bump) -> UserResult<Value<'a>> {
    if start < 1 || length < 0 {
        return Err(UserError::data("22011", "data exception: OVERLAY takes a start from 1 and a length from 0"));
    }
    let from = offset(text, usize::try_from(start - 1).unwrap_or(usize::MAX));
    let to = from + offset(&text[from..], usize::try_from(length).unwrap_or(usize::MAX));
    let mut result = Builder::new(arena);
    result.push(&text[..from])?;
    result.push(replacement)?;
    result.push(&text[to..])?;
    Ok(result.finish())
}

fn initial_capitals<'a>(text: &str, arena: &'a Bump) -> UserResult<&'a str> {
    let mut result = ArenaString::with_capacity_in(text.len(), arena);
    let mut in_word = false;
    for character in text.chars() {
        if in_word {
            result.extend(character.to_lowercase());
        } else {
            result.extend(character.to_uppercase());
        }
        in_word = character.is_alphanumeric();
    }
    check_length(result.len())?;
    Ok(result.into_bump_str())
}

/// To `length` characters: filled up on one side, or cut off at the end.
fn pad<'a>(function: Function, text: &'a str, length: i64, filling: &str, arena: &'a Bump) -> UserResult<Value<'a>> {
    let length = usize::try_from(length).unwrap_or(0);
    let missing = length.saturating_sub(text.chars().count());
    if missing == 0 || filling.is_empty() {
        return Ok(Value::Text(&text[..offset(text, length)]));
    }
    // A character has one byte at least, so this many are too many whatever they are.
    check_length(text.len().saturating_add(missing))?;
    let mut result = Builder::new(arena);
    if function == Function::PadRight {
        result.push(text)?;
    }
    let whole = missing / filling.chars().count();
    check_length(text.len().saturating_add(whole.saturating_mul(filling.len())))?;
    (0..whole).try_for_each(|_| result.push(filling))?;
    result.push(&filling[..offset(filling, missing % filling.chars().count())])?;
    if function == Function::PadLeft {
        result.push(text)?;
    }
    Ok(result.finish())
}

/// The part with this number, from 1, or from the end if negative; empty where there is none.
fn split_part<'a>(text: &'a str, delimiter: &str, number: i64) -> UserResult<&'a str> {
    if number == 0 {
        return Err(UserError::data("22023", "SPLIT_PART counts parts from 1, or from -1 at the end"));
    }
    let index = usize::try_from(number.unsigned_abs() - 1).unwrap_or(usize::MAX);
    if delimiter.is_empty() {
        return Ok(if index == 0 { text } else { "" });
    }
    let part = if number > 0 { text.split(delimiter).nth(index) } else { text.rsplit(delimiter).nth(index) };
    Ok(part.unwrap_or(""))
}

/// A FLOAT or DECIMAL in at most `length` characters; stars when the whole part does not fit.
/// Halves go to the even neighbour.
fn str_number<'a>(value: &Value<'_>, length: i64, decimals: i64, arena: &'a Bump) -> UserResult<Value<'a>> {
    if !(1..=38).contains(&length) || !(0..=12).contains(&decimals) {
        return Err(UserError::out_of_range("STR takes a length from 1 to 38 and from 0 to 12 decimals"));
    }
    let length = length as usize;
    let mut text = ArenaString::new_in(arena);
    let as_float = match value {
        Value::Decimal(value) if earlier::values() => Some(Value::Float(value.to_f64())),
        _ => None,
    };
    let written = match as_float.as_ref().unwrap_or(value) {
        Value::Decimal(value) => {
            let rounded = round_half_even(*value, decimals as i32).ok_or_else(|| too_large("STR"))?;
            let written = write!(text, "{rounded}");
            let unwanted = decimal::SCALE as usize - decimals as usize;
            text.truncate(text.len() - unwanted - usize::from(decimals == 0));
            written
        }
        Value::Float(value) => write!(text, "{:.*}", decimals as usize, value),
        other => return Err(mismatch("STR", &[*other])),
    };
    written.expect("writing to memory succeeds");
    let whole = text.find('.').unwrap_or(text.len());
    if whole > length {
        text.clear();
        text.extend(std::iter::repeat_n('*', length));
    } else if text.len() > length {
        // A point at the end says nothing.
        text.truncate(if length == whole + 1 { whole } else { length });
    }
    Ok(Value::Text(text.into_bump_str()))
}

fn format_currency(value: Decimal, position: i32, arena: &Bump) -> UserResult<Value<'_>> {
    let rounded = round_half_even(value, position).ok_or_else(|| too_large("FORMAT_CURRENCY"))?;
    let mut digits = ArenaString::new_in(arena);
    write!(digits, "{}", rounded.abs()).expect("writing to memory succeeds");
    let (whole, fraction) = digits.split_once('.').expect("a decimal's text has a point");
    let mut text = ArenaString::new_in(arena);
    if rounded.is_negative() {
        text.push('-');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if position > 0 {
        text.push('.');
        text.push_str(&fraction[..position as usize]);
    }
    Ok(Value::Text(text.into_bump_str()))
}

fn not_negative(name: &str, count: i64) -> UserResult<usize> {
    usize::try_from(count)
        .map_err(|_| UserError::out_of_range(format!("the count of {name} must not be negative: {count}")))
}
