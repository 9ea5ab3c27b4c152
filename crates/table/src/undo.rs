//! The undo log: what each change overwrote, in one buffer of bytes that is read from its end.
//!
//! An entry is the bytes before the change (none for an insertion), then a footer of 16 bytes:
//! kind, table, row, number of bytes before. Views' tables are logged like all others, so that an
//! abort restores them without arithmetic.
//!
//! A leader that has copies keeps the undo of transactions that have ended until they are committed
//! on all members (decision 0045): the log then has *boundaries*, where transactions ended. What is
//! forgotten at its front is given back when that is half of it, so that forgetting costs nothing.

use crate::contents::Contents;
use crate::long_values::Handle;
use ferrite_base::limits::{MEMORY_ALWAYS_BYTES, TRANSACTION_BYTES_MAX};
use ferrite_base::{RowId, Sequence, TableId, memory};
use std::collections::VecDeque;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UndoKind {
    Inserted = 1,
    Deleted = 2,
    Updated = 3,
    /// All of the table's contents, kept in `replaced`.
    Replaced = 4,
    /// Before: the row id from which it came.
    Moved = 5,
}

/// A long value that goes when the transaction commits.
pub(crate) struct Freed {
    pub(crate) table: TableId,
    /// The contents that it is part of: they may have been replaced as a whole since.
    pub(crate) generation: u64,
    pub(crate) handle: Handle,
}

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UndoMark {
    pub(crate) undo: usize,
    pub(crate) freed: usize,
    pub(crate) redo: usize,
}

pub(crate) struct UndoEntry<'u> {
    pub(crate) kind: UndoKind,
    pub(crate) table: TableId,
    pub(crate) row: RowId,
    pub(crate) before: &'u [u8],
    /// Length of the log without this entry.
    pub(crate) rest: usize,
}

const FOOTER_BYTES: usize = 16;
/// Memory that is kept from transaction to transaction.
pub(crate) const KEPT_BYTES_MAX: usize = 1 << 20;

pub(crate) struct UndoLog {
    bytes: Vec<u8>,
    pub(crate) freed: Vec<Freed>,
    pub(crate) replaced: Vec<(TableId, Contents)>,
    /// Off while something is built that nobody can see yet.
    recording: bool,
    /// Off while changes are made again that were acknowledged once: those are not refused.
    limited: bool,
    /// What one transaction may hold.
    bytes_max: usize,
    /// It has outgrown what a transaction may hold: the transaction must not go on.
    excess: Option<Excess>,
    /// How many changes of rows, indexes and undo are under way that are one: in the midst of one
    /// nothing can be undone.
    unsettled: u32,
    retained: Retained,
}

/// What is kept of transactions that have ended.
#[derive(Default)]
struct Retained {
    on: bool,
    /// Where they ended, in their order; the numbers never fall.
    boundaries: VecDeque<(Sequence, End)>,
    /// Where what is kept begins: what stands before is dead.
    begins: End,
    /// Where the transaction that runs has begun.
    open: End,
}

/// How far the log's parts reach.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct End {
    bytes: usize,
    freed: usize,
    replaced: usize,
}

impl End {
    fn without(self, dead: End) -> End {
        End { bytes: self.bytes - dead.bytes, freed: self.freed - dead.freed, replaced: self.replaced - dead.replaced }
    }
}

/// Why a transaction must not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Excess {
    Transaction,
    Memory,
}

impl UndoLog {
    pub(crate) fn new() -> UndoLog {
        UndoLog { bytes: Vec::with_capacity(4096), recording: true, ..UndoLog::off() }
    }

    /// One that forgets at once.
    pub(crate) fn off() -> UndoLog {
        UndoLog {
            bytes: Vec::new(),
            freed: Vec::new(),
            replaced: Vec::new(),
            recording: false,
            limited: true,
            bytes_max: TRANSACTION_BYTES_MAX,
            excess: None,
            unsettled: 0,
            retained: Retained::default(),
        }
    }

    /// From here to [`UndoLog::settle`] rows, indexes and undo are not in step, and a panic could
    /// not be undone.
    #[inline]
    pub(crate) fn unsettle(&mut self) {
        self.unsettled += 1;
    }

    #[inline]
    pub(crate) fn settle(&mut self) {
        self.unsettled -= 1;
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.unsettled == 0
    }

    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.recording
    }

    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the transaction that runs has changed nothing.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == self.retained.open.bytes
    }

    /// Where the transaction that runs has begun: lengths of the log and of what is freed.
    #[inline]
    pub(crate) fn beginning(&self) -> (usize, usize) {
        (self.retained.open.bytes, self.retained.open.freed)
    }

    #[inline]
    fn push(&mut self, kind: UndoKind, table: TableId, row: RowId, before: &[u8]) {
        if !self.recording {
            return;
        }
        let mut footer = [0; FOOTER_BYTES];
        footer[0..4].copy_from_slice(&(kind as u32).to_le_bytes());
        footer[4..8].copy_from_slice(&table.0.to_le_bytes());
        footer[8..12].copy_from_slice(&row.0.to_le_bytes());
        footer[12..16].copy_from_slice(&(before.len() as u32).to_le_bytes());
        if self.bytes.capacity() - self.bytes.len() < before.len() + FOOTER_BYTES {
            self.grow(before.len() + FOOTER_BYTES);
        }
        if !before.is_empty() {
            self.bytes.extend_from_slice(before);
        }
        self.bytes.extend_from_slice(&footer);
    }

    /// What was overwritten is kept in any case, so that it can be put back; but the transaction
    /// may have become too large.
    #[cold]
    fn grow(&mut self, more: usize) {
        self.bytes.reserve(more);
        let bytes = self.bytes.capacity() - self.retained.open.bytes;
        if self.limited && bytes > self.bytes_max {
            self.excess = Some(Excess::Transaction);
        } else if self.limited && bytes > MEMORY_ALWAYS_BYTES && !memory::has_room() {
            self.excess = Some(Excess::Memory);
        }
    }

    #[inline]
    pub(crate) fn excess(&self) -> Option<Excess> {
        self.excess
    }

    pub(crate) fn set_bytes_max(&mut self, bytes: usize) {
        self.bytes_max = bytes;
    }

    #[inline]
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(crate) fn set_limited(&mut self, limited: bool) {
        self.limited = limited;
    }

    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    /// Rows that need memory are refused now.
    #[inline]
    pub(crate) fn is_refused_memory(&self) -> bool {
        self.limited && !memory::takes_rows()
    }

    #[inline]
    pub(crate) fn inserted(&mut self, table: TableId, row: RowId) {
        self.push(UndoKind::Inserted, table, row, &[]);
    }

    #[inline]
    pub(crate) fn deleted(&mut self, table: TableId, row: RowId, before: &[u8]) {
        self.push(UndoKind::Deleted, table, row, before);
    }

    #[inline]
    pub(crate) fn updated(&mut self, table: TableId, row: RowId, before: &[u8]) {
        self.push(UndoKind::Updated, table, row, before);
    }

    pub(crate) fn moved(&mut self, table: TableId, from: RowId, to: RowId) {
        self.push(UndoKind::Moved, table, to, &from.0.to_le_bytes());
    }

    pub(crate) fn replaced(&mut self, table: TableId, contents: Contents) {
        self.push(UndoKind::Replaced, table, RowId(0), &[]);
        if self.recording {
            self.replaced.push((table, contents));
        }
    }

    /// The last entry of a log that is not empty.
    pub(crate) fn last(&self) -> UndoEntry<'_> {
        let footer = self.bytes.len() - FOOTER_BYTES;
        let word = |i: usize| {
            let offset = footer + i * 4;
            u32::from_le_bytes(self.bytes[offset..offset + 4].try_into().expect("four bytes"))
        };
        let kind = match word(0) {
            1 => UndoKind::Inserted,
            2 => UndoKind::Deleted,
            3 => UndoKind::Updated,
            4 => UndoKind::Replaced,
            5 => UndoKind::Moved,
            other => unreachable!("undo entry of kind {other}"),
        };
        let rest = footer - word(3) as usize;
        UndoEntry { kind, table: TableId(word(1)), row: RowId(word(2)), before: &self.bytes[rest..footer], rest }
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.excess = None;
        if length == 0 {
            self.shrink();
        }
    }

    // Undo that is kept.

    pub(crate) fn set_retaining(&mut self, on: bool) {
        assert!(self.is_empty() && self.retained.boundaries.is_empty(), "undo is kept from a state at rest on");
        self.retained.on = on;
    }

    #[inline]
    pub(crate) fn is_retaining(&self) -> bool {
        self.retained.on
    }

    /// Whether anything is kept of transactions that have ended.
    #[inline]
    pub(crate) fn has_retained(&self) -> bool {
        !self.retained.boundaries.is_empty()
    }

    /// The number of the first of them.
    pub(crate) fn first_retained(&self) -> Option<Sequence> {
        self.retained.boundaries.front().map(|(sequence, _)| *sequence)
    }

    /// Long values that they deleted, which are still there.
    pub(crate) fn freed_and_kept(&self) -> impl Iterator<Item = &Freed> {
        self.freed[self.retained.begins.freed..self.retained.open.freed].iter()
    }

    /// Bytes that they take.
    pub(crate) fn retained_bytes(&self) -> usize {
        let open = self.retained.open;
        let begins = self.retained.begins;
        open.bytes - begins.bytes + (open.freed - begins.freed) * size_of::<Freed>()
    }

    fn end(&self) -> End {
        End { bytes: self.bytes.len(), freed: self.freed.len(), replaced: self.replaced.len() }
    }

    /// The transaction ends here; it is kept under this number.
    pub(crate) fn retain(&mut self, sequence: Sequence) {
        assert!(self.retained.on, "undo is kept only where that was asked for");
        let last = self.retained.boundaries.back().map_or(Sequence(0), |(last, _)| *last);
        assert!(sequence >= last, "transactions end in their order: {sequence} after {last}");
        let end = self.end();
        self.retained.boundaries.push_back((sequence, end));
        self.retained.open = end;
        self.excess = None;
    }

    /// What transactions up to this number freed may go now, from the first of these positions to
    /// the second; they are forgotten with [`UndoLog::forget`].
    pub(crate) fn freed_through(&self, sequence: Sequence) -> std::ops::Range<usize> {
        let ends = self.retained.boundaries.iter().take_while(|(ended, _)| *ended <= sequence);
        let end = ends.last().map_or(self.retained.begins, |(_, end)| *end);
        self.retained.begins.freed..end.freed
    }

    /// Forgets the transactions up to this number.
    pub(crate) fn forget(&mut self, sequence: Sequence) {
        let retained = &mut self.retained;
        while let Some((ended, end)) = retained.boundaries.front().copied()
            && ended <= sequence
        {
            retained.begins = end;
            retained.boundaries.pop_front();
        }
        // Contents are large: they go at once.
        let gone = retained.begins.replaced;
        if gone > 0 {
            self.replaced.drain(..gone);
            let ends = retained.boundaries.iter_mut().map(|(_, end)| end);
            ends.chain([&mut retained.begins, &mut retained.open]).for_each(|end| end.replaced -= gone);
        }
        let dead = retained.begins;
        if dead.bytes * 2 >= self.bytes.len() && dead != End::default() {
            self.bytes.drain(..dead.bytes);
            self.freed.drain(..dead.freed);
            let ends = retained.boundaries.iter_mut().map(|(_, end)| end);
            ends.chain([&mut retained.begins, &mut retained.open]).for_each(|end| *end = end.without(dead));
        }
        if self.bytes.is_empty() {
            self.shrink();
        }
    }

    /// Forgets the ends of transactions behind this number: they are about to be undone. Where the
    /// log will end then: its length, and that of what is freed.
    pub(crate) fn reopen_behind(&mut self, sequence: Sequence) -> (usize, usize) {
        let retained = &mut self.retained;
        while retained.boundaries.back().is_some_and(|(ended, _)| *ended > sequence) {
            retained.boundaries.pop_back();
        }
        retained.open = retained.boundaries.back().map_or(retained.begins, |(_, end)| *end);
        self.beginning()
    }

    /// Gives memory back that has become much.
    #[inline]
    fn shrink(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes = Vec::with_capacity(4096);
        }
        if self.freed.capacity() > KEPT_BYTES_MAX / size_of::<Freed>() {
            self.freed = Vec::new();
        }
    }

    /// Forgets everything; keeps its memory unless that has become much.
    #[inline]
    pub(crate) fn clear(&mut self) {
        assert!(!self.has_retained(), "what is kept is forgotten by its numbers");
        self.bytes.clear();
        self.freed.clear();
        self.replaced.clear();
        self.excess = None;
        self.shrink();
    }
}
