//! What STRING_AGG has gathered: texts with their separators, and the keys of its own ORDER BY.

use crate::checks::mismatch;
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_value::{OwnedValue, Value, compare};
use std::cmp::Ordering;

/// How STRING_AGG orders its texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct TextOrder {
    /// How many values of ORDER BY come along with each text.
    pub keys: u8,
    /// Bit by bit, which of them are descending.
    pub descending: u8,
}

impl TextOrder {
    /// As many keys as it has bits for.
    pub const KEYS_MAX: usize = 8;
}

/// The texts of one group. Each text is put after the separator that came with it, but for the
/// first.
#[derive(Clone, Debug)]
pub struct Texts {
    order: TextOrder,
    /// Each text counts once, and they are in order.
    distinct: bool,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    text: Box<str>,
    separator: Box<str>,
    keys: Box<[OwnedValue]>,
}

impl Texts {
    pub(super) fn new(order: TextOrder, distinct: bool) -> Texts {
        Texts { order, distinct, entries: Vec::new() }
    }

    /// Takes the text, its separator and its keys; a NULL text counts for nothing, a NULL separator
    /// is empty.
    pub(super) fn add(&mut self, value: Value<'_>) -> UserResult<()> {
        let Value::Array([text, separator, keys @ ..]) = value else { return Err(mismatch("STRING_AGG", &[value])) };
        let text = match text {
            Value::Null => return Ok(()),
            Value::Text(text) => (*text).into(),
            other => return Err(mismatch("STRING_AGG", &[*other])),
        };
        let separator = match separator {
            Value::Text(separator) => (*separator).into(),
            _ => Box::default(),
        };
        let keys = keys.iter().map(Value::to_owned_value).collect();
        self.entries.push(Entry { text, separator, keys });
        Ok(())
    }

    pub(super) fn merge(&mut self, other: &Texts) {
        self.entries.extend_from_slice(&other.entries);
    }

    /// How many texts are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What one text with its keys takes beside the bytes of texts.
    pub fn entry_bytes(&self) -> usize {
        size_of::<Entry>() + usize::from(self.order.keys) * size_of::<OwnedValue>()
    }

    /// The texts in one; NULL when there is none.
    pub(super) fn result<'b>(&self, arena: &'b Bump) -> UserResult<Value<'b>> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by(|left, right| self.compare(left, right));
        if self.distinct {
            entries.dedup_by(|left, right| left.text == right.text);
        }
        let Some((first, rest)) = entries.split_first() else { return Ok(Value::Null) };
        let separated: usize = rest.iter().map(|entry| entry.separator.len() + entry.text.len()).sum();
        let bytes = first.text.len() + separated;
        if bytes > limits::VALUE_BYTES_MAX {
            return Err(UserError::data("22001", format!("the result of STRING_AGG has {bytes} bytes"))
                .with_detail(format!("a value has at most {} bytes", limits::VALUE_BYTES_MAX))
                .with_hint("group by more, or select the rows themselves"));
        }
        let mut result = bumpalo::collections::String::with_capacity_in(bytes, arena);
        result.push_str(&first.text);
        for entry in rest {
            result.push_str(&entry.separator);
            result.push_str(&entry.text);
        }
        Ok(Value::Text(result.into_bump_str()))
    }

    fn compare(&self, left: &Entry, right: &Entry) -> Ordering {
        for (place, (left, right)) in left.keys.iter().zip(&right.keys).enumerate() {
            let ordering = compare::order(&left.as_value(), &right.as_value());
            if ordering != Ordering::Equal {
                return if self.order.descending >> place & 1 == 1 { ordering.reverse() } else { ordering };
            }
        }
        // Equal texts must meet to be told apart from different ones; without an order, texts stay
        // as they came.
        if self.distinct && self.order.keys == 0 { left.text.cmp(&right.text) } else { Ordering::Equal }
    }
}
