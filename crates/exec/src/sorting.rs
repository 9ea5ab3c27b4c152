//! ORDER BY: collects rows, sorts them once, and with a limit never holds many more than the limit
//! asks for.

use crate::meter::Meter;
use ferrite_base::UserResult;
use ferrite_plan::SortKey;
use ferrite_value::{Value, compare};
use std::cmp::Ordering;

/// Places that are sorted in one go: some milliseconds.
const RUN_PLACES: usize = 16_384;
/// What a place in such a run is, in units of work.
const SORTED_WORK: usize = 128;
/// What merging one is.
const MERGED_WORK: usize = 16;
const MERGED_PER_COUNT: usize = 1_024;
/// Rows held beyond the limit before the surplus is thrown away.
const SURPLUS_ROWS: usize = 1_024;

pub(crate) struct Sorter<'k, 's> {
    keys: &'k [SortKey],
    width: usize,
    /// Only the first so many in order are wanted.
    wanted: Option<usize>,
    values: Vec<Value<'s>>,
    rows: usize,
    /// The last wanted row of those seen so far: what does not come before it is not wanted.
    last_wanted: Vec<Value<'s>>,
}

impl<'k, 's> Sorter<'k, 's> {
    pub(crate) fn new(keys: &'k [SortKey], wanted: Option<usize>) -> Sorter<'k, 's> {
        Sorter { keys, width: 0, wanted, values: Vec::new(), rows: 0, last_wanted: Vec::new() }
    }

    pub(crate) fn push(&mut self, meter: &Meter<'_>, row: &[Value<'s>]) -> UserResult<()> {
        self.width = row.len();
        if !self.last_wanted.is_empty() && self.order(row, &self.last_wanted) != Ordering::Less {
            return Ok(());
        }
        meter.charge(size_of_val(row))?;
        self.values.extend_from_slice(row);
        self.rows += 1;
        if self.wanted.is_some_and(|wanted| self.rows >= wanted.saturating_mul(2).saturating_add(SURPLUS_ROWS)) {
            self.throw_surplus_away(meter)?;
        }
        Ok(())
    }

    /// Positions of the wanted rows, in order. Rows with equal keys stay in the order they came.
    pub(crate) fn sorted(&self, meter: &Meter<'_>) -> UserResult<Vec<u32>> {
        let positions: Vec<u32> = (0..self.rows as u32).collect();
        let mut positions = sort(meter, positions, |left, right| self.order(self.row(left), self.row(right)))?;
        positions.truncate(self.wanted.unwrap_or(usize::MAX));
        Ok(positions)
    }

    pub(crate) fn row(&self, position: u32) -> &[Value<'s>] {
        let start = position as usize * self.width;
        &self.values[start..start + self.width]
    }

    /// What the sorter holds and has charged to the meter.
    pub(crate) fn bytes(&self) -> usize {
        self.values.len() * size_of::<Value<'_>>()
    }

    fn order(&self, left: &[Value<'_>], right: &[Value<'_>]) -> Ordering {
        for key in self.keys {
            let column = key.column as usize;
            let ordering = compare::order(&left[column], &right[column]);
            if ordering != Ordering::Equal {
                return if key.descending { ordering.reverse() } else { ordering };
            }
        }
        Ordering::Equal
    }

    fn throw_surplus_away(&mut self, meter: &Meter<'_>) -> UserResult<()> {
        let positions = self.sorted(meter)?;
        let mut kept = Vec::with_capacity(self.values.len());
        for position in &positions {
            kept.extend_from_slice(self.row(*position));
        }
        meter.release((self.rows - positions.len()) * self.width * size_of::<Value<'_>>());
        self.rows = positions.len();
        self.values = kept;
        self.last_wanted.clear();
        self.last_wanted.extend_from_slice(&self.values[self.values.len() - self.width.min(self.values.len())..]);
        Ok(())
    }
}

/// `places` in order; equal ones stay as they are. Many are sorted in runs that are then merged, so
/// that it can be interrupted.
pub(crate) fn sort(
    meter: &Meter<'_>,
    mut places: Vec<u32>,
    order: impl Fn(u32, u32) -> Ordering,
) -> UserResult<Vec<u32>> {
    if places.len() <= RUN_PLACES {
        places.sort_by(|left, right| order(*left, *right));
        return Ok(places);
    }
    for run in places.chunks_mut(RUN_PLACES) {
        meter.count_work(run.len() * SORTED_WORK)?;
        run.sort_by(|left, right| order(*left, *right));
    }
    let mut merged = Vec::with_capacity(places.len());
    let mut run = RUN_PLACES;
    while run < places.len() {
        for pair in places.chunks(2 * run) {
            let (mut left, mut right) = pair.split_at(run.min(pair.len()));
            while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
                if merged.len().is_multiple_of(MERGED_PER_COUNT) {
                    meter.count_work(MERGED_PER_COUNT * MERGED_WORK)?;
                }
                if order(*second, *first) == Ordering::Less {
                    merged.push(*second);
                    right = right_rest;
                } else {
                    merged.push(*first);
                    left = left_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut places, &mut merged);
        merged.clear();
        run *= 2;
    }
    Ok(places)
}
