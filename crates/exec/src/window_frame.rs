//! The frames of window functions: which rows around a row, in the order of its window, a function
//! is over.
//!
//! Frames only move forward: neither end of a row's frame is before that of the row before it.

use crate::evaluator::Evaluator;
use ferrite_base::{UserError, UserResult};
use ferrite_plan::{FrameBound, FrameUnit, WindowFunction};
use ferrite_value::{Value, temporal};
use std::ops::Range;

/// A window's rows in order.
pub(crate) struct Sorted {
    pub(crate) order: Vec<u32>,
    /// For each place in the order, where its peers (rows with equal order keys) begin and end.
    pub(crate) peers: Vec<Range<usize>>,
    /// Where among the inputs the last order key is: before the only one whether it is NULL may be
    /// a key, which way both go.
    pub(crate) key: usize,
    pub(crate) descending: bool,
}

/// How far a frame reaches from its row.
#[derive(Clone, Copy)]
enum Reach {
    Unbounded,
    /// Rows or groups after the current one; negative before it. In RANGE the peers of the current
    /// row.
    Offset(i64),
    /// RANGE: as far as the key is at most so much more, or less where it is negative.
    Distance(Key),
}

/// A number to be compared with others of its kind.
#[derive(Clone, Copy)]
enum Key {
    /// Of integers, DECIMALs by their digits, times and days.
    Exact(i128),
    Float(f64),
}

impl Key {
    /// None for NULL. With `negated` the order is turned round.
    fn of(value: Value<'_>, negated: bool) -> Option<Key> {
        let exact = match value {
            Value::Integer(number) => i128::from(number),
            Value::Decimal(number) => number.scaled(),
            Value::Timestamp(time) => i128::from(time),
            Value::Date(date) => i128::from(temporal::date_to_timestamp(date) / temporal::MICROSECONDS_PER_DAY),
            Value::Float(number) => return Some(Key::Float(if negated { -number } else { number })),
            _ => return None,
        };
        Some(Key::Exact(if negated { -exact } else { exact }))
    }

    fn plus(self, distance: Key) -> Key {
        match (self, distance) {
            (Key::Exact(key), Key::Exact(distance)) => Key::Exact(key.saturating_add(distance)),
            (Key::Float(key), Key::Float(distance)) => Key::Float(key + distance),
            _ => unreachable!("the distance is of the key's kind"),
        }
    }

    fn is_less(self, other: Key) -> bool {
        match (self, other) {
            (Key::Exact(key), Key::Exact(other)) => key < other,
            (Key::Float(key), Key::Float(other)) => key < other,
            _ => unreachable!("keys of one window are of one kind"),
        }
    }
}

/// The frames of one function over one partition.
pub(crate) struct WindowFrames<'a> {
    unit: FrameUnit,
    start: Reach,
    end: Reach,
    sorted: &'a Sorted,
    partition: Range<usize>,
    /// GROUPS: where each group of peers begins, with the partition's end behind, and the group of
    /// each row.
    groups: Vec<usize>,
    group_of: Vec<usize>,
    /// RANGE with a distance: the keys of the rows that have one, ascending, and the place of the
    /// first of them.
    keys: Vec<Key>,
    first_key: usize,
}

impl<'a> WindowFrames<'a> {
    /// `key` is the value at a place of what the window is ordered by, where it is one thing.
    pub(crate) fn new<'s>(
        evaluator: &Evaluator<'s>,
        function: &'s WindowFunction,
        sorted: &'a Sorted,
        partition: Range<usize>,
        key: impl Fn(usize) -> Value<'s>,
    ) -> UserResult<WindowFrames<'a>> {
        let unit = function.frame.unit;
        let mut groups = Vec::new();
        let mut group_of = Vec::new();
        if unit == FrameUnit::Groups {
            for place in partition.clone() {
                if sorted.peers[place].start == place {
                    groups.push(place);
                }
                group_of.push(groups.len() - 1);
            }
            groups.push(partition.end);
        }
        let start = reach(evaluator, &function.frame.start, unit)?;
        let end = reach(evaluator, &function.frame.end, unit)?;
        let mut keys = Vec::new();
        let mut first_key = partition.start;
        if matches!(start, Reach::Distance(_)) || matches!(end, Reach::Distance(_)) {
            evaluator.charge(partition.len() * size_of::<Key>())?;
            for place in partition.clone() {
                match Key::of(key(place), sorted.descending) {
                    Some(key) => keys.push(key),
                    // NULLs are all at one end.
                    None if keys.is_empty() => first_key = place + 1,
                    None => break,
                }
            }
        }
        Ok(WindowFrames { unit, start, end, sorted, partition, groups, group_of, keys, first_key })
    }

    /// The frame of the row at this place; possibly empty.
    pub(crate) fn of(&self, place: usize) -> Range<usize> {
        let start = self.bound(place, self.start, true);
        let end = self.bound(place, self.end, false);
        start..end.max(start)
    }

    fn bound(&self, place: usize, reach: Reach, is_start: bool) -> usize {
        let within = |place: i64| place.clamp(self.partition.start as i64, self.partition.end as i64) as usize;
        let behind = i64::from(!is_start);
        let peers = &self.sorted.peers[place];
        match (reach, self.unit) {
            (Reach::Unbounded, _) => {
                if is_start {
                    self.partition.start
                } else {
                    self.partition.end
                }
            }
            (Reach::Offset(offset), FrameUnit::Rows) => {
                within((place as i64).saturating_add(offset).saturating_add(behind))
            }
            (Reach::Offset(_), FrameUnit::Range) => {
                if is_start {
                    peers.start
                } else {
                    peers.end
                }
            }
            (Reach::Offset(offset), FrameUnit::Groups) => {
                let group = self.group_of[place - self.partition.start] as i64;
                let group = group.saturating_add(offset).saturating_add(behind);
                self.groups[group.clamp(0, self.groups.len() as i64 - 1) as usize]
            }
            (Reach::Distance(distance), _) => {
                let own = place.checked_sub(self.first_key).and_then(|row| self.keys.get(row));
                match own {
                    // No distance leads from NULL to a value, or back.
                    None if is_start => peers.start,
                    None => peers.end,
                    Some(own) => {
                        let edge = own.plus(distance);
                        let before = |key: &Key| if is_start { key.is_less(edge) } else { !edge.is_less(*key) };
                        self.first_key + self.keys.partition_point(before)
                    }
                }
            }
        }
    }
}

fn reach<'s>(evaluator: &Evaluator<'s>, bound: &'s FrameBound, unit: FrameUnit) -> UserResult<Reach> {
    let (expression, before) = match bound {
        FrameBound::UnboundedPreceding | FrameBound::UnboundedFollowing => return Ok(Reach::Unbounded),
        FrameBound::CurrentRow => return Ok(Reach::Offset(0)),
        FrameBound::Preceding(offset) => (offset, true),
        FrameBound::Following(offset) => (offset, false),
    };
    let value = evaluator.evaluate(expression)?;
    let negative = || UserError::data("22013", "the offset of a window's frame must be a number that is not negative");
    if unit != FrameUnit::Range {
        return match value {
            Value::Integer(offset) if offset >= 0 => Ok(Reach::Offset(if before { -offset } else { offset })),
            _ => Err(negative()),
        };
    }
    match Key::of(value, false) {
        Some(Key::Exact(distance)) if distance >= 0 => {
            Ok(Reach::Distance(Key::of(value, before).ok_or_else(negative)?))
        }
        Some(Key::Float(distance)) if distance >= 0.0 => {
            Ok(Reach::Distance(Key::of(value, before).ok_or_else(negative)?))
        }
        _ => Err(negative()),
    }
}
