//! Row pages: slots of one size, an occupancy bitmap each, and the rule for where the next row goes
//! (docs/format/pages.md, "Row page"). Knows rows as bytes only.
//!
//! The lowest free slot is taken, so that the choice follows from which slots are live and from
//! nothing else.

use crate::page_table::PageTable;
use crate::snapshot_pins::{SnapshotPin, SnapshotPins};
use ferrite_base::RowId;
use ferrite_base::limits::PAGE_BYTES;
use ferrite_base::memory::{self, Block};
use std::sync::Arc;

const HEADER_BYTES: usize = 64;
const LIVE: usize = 0;
const FIRST_WORD: usize = 4;
const SLOTS: usize = 8;
const ROW_BYTES: usize = 12;
/// Rows that a page must at least have room for.
const ROWS_MIN: usize = 4;

/// What follows from the row's size.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    page_bytes: usize,
    row_bytes: usize,
    slots: usize,
    slot_bits: u32,
    rows_offset: usize,
}

impl Geometry {
    fn new(row_bytes: usize) -> Geometry {
        let needed = HEADER_BYTES + 8 + ROWS_MIN * row_bytes;
        let page_bytes = needed.next_power_of_two().max(PAGE_BYTES);
        let mut slots = (page_bytes - HEADER_BYTES) * 8 / (row_bytes * 8 + 1);
        while HEADER_BYTES + slots.div_ceil(64) * 8 + slots * row_bytes > page_bytes {
            slots -= 1;
        }
        let slot_bits = usize::BITS - (slots - 1).leading_zeros();
        Geometry { page_bytes, row_bytes, slots, slot_bits, rows_offset: HEADER_BYTES + slots.div_ceil(64) * 8 }
    }

    fn words(&self) -> usize {
        self.slots.div_ceil(64)
    }

    /// The bits of a bitmap word that stand for slots.
    #[inline]
    fn slots_of_word(&self, index: usize) -> u64 {
        let slots = self.slots - index * 64;
        if slots >= 64 { u64::MAX } else { (1 << slots) - 1 }
    }
}

fn read_word(page: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(page[offset..offset + 4].try_into().expect("four bytes"))
}

fn write_word(page: &mut [u8], offset: usize, value: u32) {
    page[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

#[inline]
fn bitmap_word(page: &[u8], index: usize) -> u64 {
    let offset = HEADER_BYTES + index * 8;
    u64::from_le_bytes(page[offset..offset + 8].try_into().expect("eight bytes"))
}

#[inline]
fn write_bitmap_word(page: &mut [u8], index: usize, value: u64) {
    let offset = HEADER_BYTES + index * 8;
    page[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

/// The pages of one table.
pub(crate) struct Pages {
    geometry: Geometry,
    /// Where there is none, an empty page was given back.
    pages: PageTable,
    /// One bit per page: it has a free slot.
    with_space: Vec<u64>,
    /// No page before this one has a free slot.
    lowest_with_space: usize,
    rows: u64,
    /// The one page without rows that keeps its memory.
    kept_empty: Option<usize>,
    present: usize,
}

/// Why there is no slot for a new row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoSlot {
    /// The table has all the pages that row ids can name.
    Full,
    /// It would need a page, and the memory limit is reached.
    NoMemory,
}

/// Why a row cannot be put at a given place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlaceError {
    Taken,
    Beyond,
}

impl Pages {
    pub(crate) fn new(row_bytes: usize, pins: &Arc<SnapshotPins>) -> Pages {
        Pages {
            geometry: Geometry::new(row_bytes),
            pages: PageTable::new(pins),
            with_space: Vec::new(),
            lowest_with_space: 0,
            rows: 0,
            kept_empty: None,
            present: 0,
        }
    }

    /// The rows as they are now, for reading.
    pub(crate) fn snapshot(&mut self, pin: &Arc<SnapshotPin>) -> Pages {
        Pages {
            geometry: self.geometry,
            pages: self.pages.snapshot(pin),
            // Only of use to whoever puts rows in.
            with_space: Vec::new(),
            lowest_with_space: 0,
            rows: self.rows,
            kept_empty: None,
            present: self.present,
        }
    }

    /// Others of the same table, empty.
    pub(crate) fn sibling(&self) -> Pages {
        Pages {
            geometry: self.geometry,
            pages: self.pages.sibling(),
            with_space: Vec::new(),
            lowest_with_space: 0,
            rows: 0,
            kept_empty: None,
            present: 0,
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn bytes(&self) -> usize {
        self.present * self.geometry.page_bytes + self.pages.directory_bytes()
    }

    /// Bytes of the rows alone.
    pub(crate) fn row_bytes(&self) -> usize {
        self.rows as usize * self.geometry.row_bytes
    }

    #[inline]
    fn split(&self, id: RowId) -> (usize, usize) {
        ((id.0 >> self.geometry.slot_bits) as usize, (id.0 & ((1 << self.geometry.slot_bits) - 1)) as usize)
    }

    #[inline]
    fn row_range(&self, slot: usize) -> std::ops::Range<usize> {
        let start = self.geometry.rows_offset + slot * self.geometry.row_bytes;
        start..start + self.geometry.row_bytes
    }

    /// The bytes of a row.
    #[inline]
    pub(crate) fn row(&self, id: RowId) -> &[u8] {
        let (page, slot) = self.split(id);
        let page = self.pages.page(page).expect("the page of a live row is there");
        &page[self.row_range(slot)]
    }

    #[inline]
    pub(crate) fn row_mut(&mut self, id: RowId) -> &mut [u8] {
        let (page, slot) = self.split(id);
        let range = self.row_range(slot);
        &mut self.pages.page_mut(page)[range]
    }

    pub(crate) fn is_live(&self, id: RowId) -> bool {
        let (page, slot) = self.split(id);
        match self.pages.page(page) {
            Some(page) if slot < self.geometry.slots => bitmap_word(page, slot / 64) & (1 << (slot % 64)) != 0,
            _ => false,
        }
    }

    /// What stands in the place of a row, live or not. None: there is no such place.
    #[inline]
    pub(crate) fn place(&self, id: RowId) -> Option<&[u8]> {
        let (page, slot) = self.split(id);
        if slot < self.geometry.slots { Some(&self.pages.page(page)?[self.row_range(slot)]) } else { None }
    }

    /// Asks the processor to have a row at hand soon. Any id will do.
    #[inline]
    pub(crate) fn prefetch(&self, id: RowId) {
        if let Some(place) = self.place(id) {
            crate::prefetch(place.as_ptr());
        }
    }

    /// Takes the lowest free slot, whose bytes are zeros. `limited`: not if that needs memory
    /// beyond the limit.
    #[inline]
    pub(crate) fn allocate(&mut self, limited: bool) -> Result<RowId, NoSlot> {
        let page = self.page_with_space().ok_or(NoSlot::Full)?;
        if self.pages.page(page).is_none() {
            if limited && !memory::takes_rows() {
                return Err(NoSlot::NoMemory);
            }
            self.materialize(page);
        }
        let geometry = self.geometry;
        let bytes = self.pages.page_mut(page);
        let mut index = read_word(bytes, FIRST_WORD) as usize;
        let slot = loop {
            let free = !bitmap_word(bytes, index) & geometry.slots_of_word(index);
            if free != 0 {
                break index * 64 + free.trailing_zeros() as usize;
            }
            index += 1;
        };
        write_word(bytes, FIRST_WORD, index as u32);
        self.mark_live(page, slot);
        Ok(RowId((page << geometry.slot_bits | slot) as u32))
    }

    /// Takes a given slot: for undo and redo.
    pub(crate) fn take_at(&mut self, id: RowId) -> Result<(), PlaceError> {
        let (page, slot) = self.split(id);
        if slot >= self.geometry.slots || page > self.pages.length() {
            return Err(PlaceError::Beyond);
        }
        if self.is_live(id) {
            return Err(PlaceError::Taken);
        }
        if page == self.pages.length() {
            self.add_page();
        }
        self.materialize(page);
        self.mark_live(page, slot);
        Ok(())
    }

    #[inline]
    fn page_with_space(&mut self) -> Option<usize> {
        let mut index = self.lowest_with_space / 64;
        while let Some(word) = self.with_space.get(index) {
            if *word != 0 {
                let page = index * 64 + word.trailing_zeros() as usize;
                self.lowest_with_space = page;
                return Some(page);
            }
            index += 1;
        }
        if self.pages.length() >> (32 - self.geometry.slot_bits) != 0 {
            return None;
        }
        self.lowest_with_space = self.pages.length();
        self.add_page();
        Some(self.lowest_with_space)
    }

    fn add_page(&mut self) {
        let page = self.pages.push();
        if page.is_multiple_of(64) {
            self.with_space.push(0);
        }
        self.with_space[page / 64] |= 1 << (page % 64);
    }

    /// Gives the page its memory if it has none.
    #[inline]
    fn materialize(&mut self, page: usize) {
        if self.pages.page(page).is_none() {
            let mut block = Block::zeroed(self.geometry.page_bytes);
            write_word(&mut block, SLOTS, self.geometry.slots as u32);
            write_word(&mut block, ROW_BYTES, self.geometry.row_bytes as u32);
            self.pages.set(page, Some(block));
            self.present += 1;
        }
    }

    #[inline]
    fn mark_live(&mut self, page: usize, slot: usize) {
        let slots = self.geometry.slots;
        let bytes = self.pages.page_mut(page);
        let word = bitmap_word(bytes, slot / 64);
        write_bitmap_word(bytes, slot / 64, word | 1 << (slot % 64));
        let live = read_word(bytes, LIVE) as usize + 1;
        write_word(bytes, LIVE, live as u32);
        if live == slots {
            self.with_space[page / 64] &= !(1 << (page % 64));
        }
        if self.kept_empty == Some(page) {
            self.kept_empty = None;
        }
        self.rows += 1;
    }

    /// Gives a live row's slot back; its bytes become zeros.
    pub(crate) fn release(&mut self, id: RowId) {
        let (page, slot) = self.split(id);
        let range = self.row_range(slot);
        let bytes = self.pages.page_mut(page);
        let word = bitmap_word(bytes, slot / 64);
        assert!(word & (1 << (slot % 64)) != 0, "a slot is released once");
        write_bitmap_word(bytes, slot / 64, word & !(1 << (slot % 64)));
        bytes[range].fill(0);
        let first = read_word(bytes, FIRST_WORD).min((slot / 64) as u32);
        write_word(bytes, FIRST_WORD, first);
        let live = read_word(bytes, LIVE) - 1;
        write_word(bytes, LIVE, live);
        self.rows -= 1;
        self.with_space[page / 64] |= 1 << (page % 64);
        self.lowest_with_space = self.lowest_with_space.min(page);
        if live == 0 {
            match self.kept_empty {
                // One empty page stays, so that a row that comes and goes does not take and return
                // a page each time.
                None => self.kept_empty = Some(page),
                Some(_) => {
                    self.pages.set(page, None);
                    self.present -= 1;
                }
            }
        }
    }

    /// Page numbers given out, with rows or without.
    pub(crate) fn page_count(&self) -> usize {
        self.pages.length()
    }

    /// The first rows at or behind row id `from` that stand in consecutive slots of one page: the
    /// first one's id, and their bytes.
    pub(crate) fn next_run(&self, from: u64) -> Option<(RowId, &[u8])> {
        let geometry = &self.geometry;
        let mut page = (from >> geometry.slot_bits) as usize;
        let mut slot = (from & ((1 << geometry.slot_bits) - 1)) as usize;
        while page < self.pages.length() {
            if let Some(bytes) = self.pages.page(page)
                && let Some(first) = self.next_slot(bytes, slot, true)
            {
                let end = self.next_slot(bytes, first, false).unwrap_or(geometry.slots);
                let range = self.row_range(first).start..self.row_range(end - 1).end;
                return Some((RowId((page << geometry.slot_bits | first) as u32), &bytes[range]));
            }
            (page, slot) = (page + 1, 0);
        }
        None
    }

    /// The first slot from `from` on that is live, or is not.
    fn next_slot(&self, page: &[u8], from: usize, live: bool) -> Option<usize> {
        let geometry = &self.geometry;
        if from >= geometry.slots {
            return None;
        }
        let mut mask = u64::MAX << (from % 64);
        for index in from / 64..geometry.words() {
            let word = bitmap_word(page, index);
            let wanted = if live { word } else { !word } & geometry.slots_of_word(index) & mask;
            if wanted != 0 {
                return Some(index * 64 + wanted.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Gives out page numbers up to `count`, as far as row ids can name them; whether they can.
    pub(crate) fn give_out(&mut self, count: usize) -> bool {
        if count > 1 << (32 - self.geometry.slot_bits) {
            return false;
        }
        while self.pages.length() < count {
            self.add_page();
        }
        true
    }

    /// Puts rows in consecutive free slots of a page whose number was given out. None where they do
    /// not fit there.
    pub(crate) fn restore_run(&mut self, first: RowId, rows: &[u8]) -> Option<&mut [u8]> {
        let (page, slot) = self.split(first);
        let count = rows.len() / self.geometry.row_bytes;
        if page >= self.pages.length() || count == 0 || slot + count > self.geometry.slots {
            return None;
        }
        self.materialize(page);
        let free = |bytes: &[u8]| self.next_slot(bytes, slot, true).is_none_or(|taken| taken >= slot + count);
        if !self.pages.page(page).is_some_and(free) {
            return None;
        }
        let slots = self.geometry.slots;
        let range = self.row_range(slot).start..self.row_range(slot + count - 1).end;
        let bytes = self.pages.page_mut(page);
        let mut next = slot;
        while next < slot + count {
            let index = next / 64;
            let end = (slot + count).min((index + 1) * 64);
            let bits = if end - next == 64 { u64::MAX } else { ((1 << (end - next)) - 1) << (next % 64) };
            let word = bitmap_word(bytes, index);
            write_bitmap_word(bytes, index, word | bits);
            next = end;
        }
        let live = read_word(bytes, LIVE) as usize + count;
        write_word(bytes, LIVE, live as u32);
        if live == slots {
            self.with_space[page / 64] &= !(1 << (page % 64));
        }
        self.rows += count as u64;
        let place = &mut bytes[range];
        place.copy_from_slice(rows);
        Some(place)
    }

    /// Bytes of slots without a row, and of all slots, in the pages that are there.
    pub(crate) fn unused(&self) -> (usize, usize) {
        let slots = self.present * self.geometry.slots;
        ((slots - self.rows as usize) * self.geometry.row_bytes, slots * self.geometry.row_bytes)
    }

    /// The live rows of a page, ascending.
    pub(crate) fn rows_of(&self, page: usize) -> impl Iterator<Item = RowId> {
        let bytes = self.pages.page(page);
        let words = bytes.map_or(0, |_| self.geometry.words());
        (0..words).flat_map(move |index| {
            let mut word = bitmap_word(bytes.expect("there are words only if it is there"), index);
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(RowId(((page << self.geometry.slot_bits) | (index * 64)) as u32 + bit))
            })
        })
    }

    pub(crate) fn first_row_of(&self, page: usize) -> Option<RowId> {
        self.rows_of(page).next()
    }

    /// A free slot in a page that is there, of those from `low` on and below `end`; `low` becomes
    /// that page.
    pub(crate) fn free_slot(&self, low: &mut usize, end: usize) -> Option<RowId> {
        while *low < end {
            let page = *low;
            if self.with_space[page / 64] & (1 << (page % 64)) != 0
                && let Some(bytes) = self.pages.page(page)
            {
                let first = read_word(bytes, FIRST_WORD) as usize;
                for index in first..self.geometry.words() {
                    let free = !bitmap_word(bytes, index) & self.geometry.slots_of_word(index);
                    if free != 0 {
                        let slot = index * 64 + free.trailing_zeros() as usize;
                        return Some(RowId((page << self.geometry.slot_bits | slot) as u32));
                    }
                }
            }
            *low += 1;
        }
        None
    }

    /// Moves a page to a better place in memory, if it lies badly; whether it did. None: there are
    /// not this many.
    pub(crate) fn move_place(&mut self, page: usize) -> Option<bool> {
        self.pages.move_place(page)
    }

    /// The live rows, ascending.
    pub(crate) fn scan(&self) -> Scan<'_> {
        Scan { pages: self, page: 0, bytes: None, word_index: 0, word: 0, base: 0 }
    }
}

/// The ids of a table's rows, ascending.
#[derive(Clone)]
pub struct Scan<'s> {
    pages: &'s Pages,
    /// The next page to open.
    page: usize,
    bytes: Option<&'s [u8]>,
    word_index: usize,
    word: u64,
    /// Row id of the current word's first slot.
    base: u32,
}

impl Iterator for Scan<'_> {
    type Item = RowId;

    #[inline]
    fn next(&mut self) -> Option<RowId> {
        while self.word == 0 {
            let geometry = &self.pages.geometry;
            match self.bytes {
                Some(bytes) if self.word_index < geometry.words() => {
                    self.word = bitmap_word(bytes, self.word_index);
                    self.base = ((self.page - 1) << geometry.slot_bits | (self.word_index * 64)) as u32;
                    self.word_index += 1;
                }
                _ => {
                    if self.page == self.pages.pages.length() {
                        return None;
                    }
                    self.bytes = self.pages.pages.page(self.page);
                    self.word_index = 0;
                    self.page += 1;
                }
            }
        }
        let bit = self.word.trailing_zeros();
        self.word &= self.word - 1;
        Some(RowId(self.base + bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_what_their_geometry_says() {
        for row_bytes in [1, 2, 7, 8, 21, 63, 64, 100, 1000, 4000, 4078, 4079, 5000, 65_000] {
            let geometry = Geometry::new(row_bytes);
            assert!(geometry.slots >= ROWS_MIN && geometry.slots <= 1 << geometry.slot_bits);
            assert!(geometry.rows_offset + geometry.slots * row_bytes <= geometry.page_bytes);
        }
    }

    #[test]
    fn the_lowest_free_slot_is_taken_and_empty_pages_go_back() {
        let mut pages = Pages::new(2000, &Arc::default());
        let slots = pages.geometry.slots;
        let ids: Vec<RowId> = (0..10 * slots).map(|_| pages.allocate(true).unwrap()).collect();
        assert!(ids.is_sorted() && pages.scan().eq(ids.iter().copied()));
        let full = pages.present;
        ids[slots..].iter().for_each(|id| pages.release(*id));
        assert_eq!((full, pages.present), (10, 2));
        assert_eq!(pages.scan().count(), slots);
        pages.release(ids[1]);
        assert_eq!(pages.allocate(true), Ok(ids[1]));
        assert_eq!(pages.allocate(true), Ok(ids[slots]));
        assert_eq!(pages.take_at(ids[slots]), Err(PlaceError::Taken));
        assert_eq!(pages.take_at(RowId(u32::MAX)), Err(PlaceError::Beyond));
        assert_eq!(pages.take_at(ids[9 * slots]), Ok(()));
        assert_eq!(pages.allocate(true), Ok(ids[slots + 1]));
    }
}
