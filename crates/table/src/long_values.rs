//! Values too long to stand in a row: slots of size classes in pages of their own, and blocks for
//! the largest (docs/format/pages.md, "Long values"). Knows bytes only.

use crate::page_table::PageTable;
use crate::snapshot_pins::{SnapshotPin, SnapshotPins};
use ferrite_base::limits::PAGE_BYTES;
use ferrite_base::memory::Block;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

const HEADER_BYTES: usize = 64;
const LENGTH_BYTES: usize = 4;
/// Of the processor's caches.
const LINE_BYTES: usize = 64;
/// Slots per page of each class, so that the slots grow by a quarter or so from class to class.
const SLOTS: [usize; 28] = [
    1020, 816, 680, 537, 430, 344, 275, 220, 176, 141, 113, 90, 72, 58, 46, 37, 30, 24, 19, 15, 12, 10, 8, 6, 5, 4, 3,
    2,
];
/// The last class: one value takes the page.
const CLASSES: usize = SLOTS.len() + 1;
const LARGE: u8 = 0xff;
const CLASS_BIT: u8 = 0x80;

const fn slot_bytes(class: usize) -> usize {
    let slots = if class < SLOTS.len() { SLOTS[class] } else { 1 };
    ((PAGE_BYTES - HEADER_BYTES) / slots) & !3
}

const SLOT_BYTES: [usize; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        sizes[class] = slot_bytes(class);
        assert!(class == 0 || sizes[class] > sizes[class - 1]);
        class += 1;
    }
    sizes
};

/// What a row keeps of a long value. All zeros is the empty value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle(pub(crate) [u8; 8]);

enum ValueLocation {
    /// In the handle itself.
    Here,
    Slot {
        class: usize,
        page: usize,
        slot: usize,
    },
    Large(usize),
}

impl Handle {
    #[inline]
    fn place(&self) -> ValueLocation {
        let number = u32::from_le_bytes([self.0[4], self.0[5], self.0[6], self.0[7]]) as usize;
        match self.0[0] {
            LARGE => ValueLocation::Large(number),
            tag if tag & CLASS_BIT != 0 => ValueLocation::Slot {
                class: (tag & !CLASS_BIT) as usize,
                page: number,
                slot: u16::from_le_bytes([self.0[2], self.0[3]]) as usize,
            },
            _ => ValueLocation::Here,
        }
    }
}

struct Class {
    /// Where there is none, an empty page was given back; all its slots count as free.
    pages: PageTable,
    /// Pages with a free slot; the lowest is used next, so that pages with high numbers become
    /// empty.
    with_space: BinaryHeap<Reverse<u32>>,
    /// Pages that are there, and values in them.
    present: usize,
    live: usize,
    /// The one page without values that keeps its memory, so that a value that comes and goes does
    /// not take and return a block each time.
    kept_empty: Option<usize>,
}

impl Class {
    fn new(pages: PageTable) -> Class {
        Class { pages, with_space: BinaryHeap::new(), present: 0, live: 0, kept_empty: None }
    }
}

/// Slots of a page.
fn slots_of(class: usize) -> usize {
    (PAGE_BYTES - HEADER_BYTES) / SLOT_BYTES[class]
}

/// One table's long values.
pub(crate) struct LongValues {
    classes: Vec<Class>,
    large: PageTable,
    large_free: Vec<u32>,
    bytes: usize,
}

fn word(block: &[u8], offset: usize) -> usize {
    u32::from_le_bytes(block[offset..offset + 4].try_into().expect("four bytes")) as usize
}

fn set_word(block: &mut [u8], offset: usize, value: usize) {
    block[offset..offset + 4].copy_from_slice(&(value as u32).to_le_bytes());
}

const LIVE: usize = 0;
const FIRST_FREE: usize = 4;
const NEVER_USED: usize = 8;

impl LongValues {
    pub(crate) fn new(pins: &Arc<SnapshotPins>) -> LongValues {
        LongValues::with(PageTable::new(pins))
    }

    fn with(large: PageTable) -> LongValues {
        LongValues { classes: Vec::new(), large, large_free: Vec::new(), bytes: 0 }
    }

    /// Others of the same table, empty.
    pub(crate) fn sibling(&self) -> LongValues {
        LongValues::with(self.large.sibling())
    }

    /// The values as they are now, for reading.
    pub(crate) fn snapshot(&mut self, pin: &Arc<SnapshotPin>) -> LongValues {
        LongValues {
            classes: self.classes.iter_mut().map(|class| Class::new(class.pages.snapshot(pin))).collect(),
            large: self.large.snapshot(pin),
            large_free: Vec::new(),
            bytes: self.bytes,
        }
    }

    /// Bytes of the blocks in use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The contents that a handle of this table stands for.
    #[inline]
    pub(crate) fn contents<'s>(&'s self, handle: &'s [u8; 8]) -> &'s [u8] {
        if handle[0] < 8 {
            return &handle[1..1 + handle[0] as usize];
        }
        let (block, offset) = match Handle(*handle).place() {
            ValueLocation::Slot { class, page, slot } => {
                let block = self.classes[class].pages.page(page).expect("the page of a value is there");
                (block, HEADER_BYTES + slot * SLOT_BYTES[class])
            }
            ValueLocation::Large(number) => (self.large.page(number).expect("the block of a value is there"), 0),
            ValueLocation::Here => unreachable!("handles of up to seven bytes were met above"),
        };
        let length = word(block, offset);
        &block[offset + LENGTH_BYTES..offset + LENGTH_BYTES + length]
    }

    /// Asks the processor to have the first lines of a value at hand soon, this many at most. Any
    /// handle will do.
    #[inline]
    pub(crate) fn prefetch(&self, handle: Handle, lines: usize) {
        let place = match handle.place() {
            ValueLocation::Here => None,
            ValueLocation::Slot { class, page, slot } => self.classes.get(class).and_then(|pages| {
                let start = HEADER_BYTES + slot * SLOT_BYTES[class];
                pages.pages.page(page)?.get(start..start + SLOT_BYTES[class])
            }),
            ValueLocation::Large(number) => self.large.page(number),
        };
        // A slot may begin within a line.
        let lines = place.into_iter().flat_map(|place| place.chunks(LINE_BYTES)).take(lines);
        lines.for_each(|line| crate::prefetch(line.as_ptr()));
    }

    pub(crate) fn store(&mut self, contents: &[u8]) -> Handle {
        let mut handle = [0; 8];
        if contents.len() <= 7 {
            handle[0] = contents.len() as u8;
            handle[1..1 + contents.len()].copy_from_slice(contents);
            return Handle(handle);
        }
        let needed = contents.len() + LENGTH_BYTES;
        let class = SLOT_BYTES.partition_point(|size| *size < needed);
        let (number, block, offset);
        if class < CLASSES {
            let slot;
            (number, slot) = self.take_slot(class);
            handle[0] = CLASS_BIT | class as u8;
            handle[2..4].copy_from_slice(&(slot as u16).to_le_bytes());
            block = self.classes[class].pages.page_mut(number);
            offset = HEADER_BYTES + slot * SLOT_BYTES[class];
        } else {
            number = self.take_large(needed);
            handle[0] = LARGE;
            block = self.large.page_mut(number);
            offset = 0;
        }
        handle[4..8].copy_from_slice(&(number as u32).to_le_bytes());
        set_word(block, offset, contents.len());
        block[offset + LENGTH_BYTES..offset + needed].copy_from_slice(contents);
        Handle(handle)
    }

    fn take_slot(&mut self, class: usize) -> (usize, usize) {
        while self.classes.len() <= class {
            self.classes.push(Class::new(self.large.sibling()));
        }
        let pages = &mut self.classes[class];
        if pages.with_space.is_empty() {
            pages.with_space.push(Reverse(pages.pages.push() as u32));
        }
        let number = pages.with_space.peek().expect("pushed where there was none").0 as usize;
        pages.live += 1;
        if pages.pages.page(number).is_none() {
            self.bytes += PAGE_BYTES;
            pages.present += 1;
            pages.pages.set(number, Some(Block::zeroed(PAGE_BYTES)));
        }
        let page = pages.pages.page_mut(number);
        let slots = slots_of(class);
        let slot = match word(page, FIRST_FREE) {
            0 => {
                let fresh = word(page, NEVER_USED);
                set_word(page, NEVER_USED, fresh + 1);
                fresh
            }
            next => {
                let after = word(page, HEADER_BYTES + (next - 1) * SLOT_BYTES[class]);
                set_word(page, FIRST_FREE, after);
                next - 1
            }
        };
        let live = word(page, LIVE) + 1;
        set_word(page, LIVE, live);
        if pages.kept_empty == Some(number) {
            pages.kept_empty = None;
        }
        if live == slots {
            pages.with_space.pop();
        }
        (number, slot)
    }

    fn take_large(&mut self, needed: usize) -> usize {
        let bytes = needed.next_multiple_of(1024).max(PAGE_BYTES);
        self.bytes += bytes;
        let number = self.large_free.pop().map_or_else(|| self.large.push(), |number| number as usize);
        self.large.set(number, Some(Block::zeroed(bytes)));
        number
    }

    pub(crate) fn free(&mut self, handle: Handle) {
        match handle.place() {
            ValueLocation::Here => {}
            ValueLocation::Large(number) => {
                self.bytes -= self.large.page(number).expect("a value is freed once").len();
                self.large.set(number, None);
                self.large_free.push(number as u32);
            }
            ValueLocation::Slot { class, page: number, slot } => {
                let pages = &mut self.classes[class];
                let page = pages.pages.page_mut(number);
                let slots = slots_of(class);
                let live = word(page, LIVE);
                assert!(live > 0, "a value is freed once");
                pages.live -= 1;
                let next = word(page, FIRST_FREE);
                set_word(page, HEADER_BYTES + slot * SLOT_BYTES[class], next);
                set_word(page, FIRST_FREE, slot + 1);
                set_word(page, LIVE, live - 1);
                if live == slots {
                    pages.with_space.push(Reverse(number as u32));
                }
                if live == 1 {
                    match pages.kept_empty {
                        None => pages.kept_empty = Some(number),
                        Some(_) => {
                            pages.pages.set(number, None);
                            pages.present -= 1;
                            self.bytes -= PAGE_BYTES;
                        }
                    }
                }
            }
        }
    }

    /// Bytes of slots without a value, and of all slots, in the pages that are there.
    pub(crate) fn unused(&self) -> (usize, usize) {
        self.classes.iter().enumerate().fold((0, 0), |(unused, all), (class, pages)| {
            let slots = pages.present * slots_of(class);
            (unused + (slots - pages.live) * SLOT_BYTES[class], all + slots * SLOT_BYTES[class])
        })
    }

    /// By class, the first page number that would not be needed if all values stood in the pages
    /// before it. `usize::MAX` where nothing would be gained.
    pub(crate) fn thresholds(&self) -> Vec<usize> {
        let threshold = |(class, pages): (usize, &Class)| {
            let needed = pages.live.div_ceil(slots_of(class)) + 1;
            if needed * 2 < pages.present { needed } else { usize::MAX }
        };
        self.classes.iter().enumerate().map(threshold).collect()
    }

    /// Stores a value anew if its page is one that is to become empty; its handle then.
    pub(crate) fn moved(&mut self, handle: Handle, thresholds: &[usize]) -> Option<Handle> {
        let ValueLocation::Slot { class, page, .. } = handle.place() else { return None };
        if page < *thresholds.get(class)? {
            return None;
        }
        let contents = self.contents(&handle.0).to_vec();
        let moved = self.store(&contents);
        self.free(handle);
        Some(moved)
    }

    /// Moves a page to a better place in memory, if it lies badly; whether it did. None: there are
    /// not this many, over all classes.
    pub(crate) fn move_place(&mut self, number: usize) -> Option<bool> {
        let mut number = number;
        for class in &mut self.classes {
            match class.pages.move_place(number) {
                Some(moved) => return Some(moved),
                None => number -= class.pages.length(),
            }
        }
        None
    }

    /// Values stored in slots and blocks, for consistency checks.
    pub(crate) fn live(&self) -> usize {
        let in_slots = self.classes.iter().flat_map(|class| class.pages.pages()).map(|page| word(page, LIVE));
        in_slots.sum::<usize>() + self.large.pages().count()
    }

    /// Whether the handle refers to a slot or block (and so counts in [`LongValues::live`]).
    pub(crate) fn is_stored_apart(handle: Handle) -> bool {
        handle.0[0] >= CLASS_BIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_around_class_borders_comes_back() {
        let mut longs = LongValues::new(&Arc::default());
        let mut lengths: Vec<usize> = SLOT_BYTES.iter().flat_map(|size| [size - 5, size - 4, size - 3]).collect();
        lengths.extend([0, 1, 7, 8, 9, 16_320]);
        lengths.extend(if cfg!(miri) { [16_321, 20_000] } else { [100_000, 1_048_576] });
        let stored: Vec<(Handle, Vec<u8>)> = lengths
            .iter()
            .map(|length| {
                let contents: Vec<u8> = (0..*length).map(|i| (i * 7 + length) as u8).collect();
                (longs.store(&contents), contents)
            })
            .collect();
        for (handle, contents) in &stored {
            assert_eq!(longs.contents(&handle.0), &contents[..]);
        }
        stored.iter().for_each(|(handle, _)| longs.free(*handle));
        assert_eq!(longs.live(), 0);
        assert!(longs.bytes() <= CLASSES * PAGE_BYTES, "one page of each class stays");
    }

    #[test]
    fn slots_are_used_again() {
        let mut longs = LongValues::new(&Arc::default());
        let handles: Vec<Handle> = (0..1000u32).map(|i| longs.store(&[i as u8; 1000])).collect();
        let full = longs.bytes();
        handles.iter().step_by(2).for_each(|handle| longs.free(*handle));
        let again: Vec<Handle> = (0..500).map(|_| longs.store(&[9; 1000])).collect();
        assert_eq!(longs.bytes(), full);
        assert!(again.iter().all(|handle| longs.contents(&handle.0) == [9; 1000]));
        assert!(
            handles
                .iter()
                .enumerate()
                .skip(1)
                .step_by(2)
                .all(|(i, handle)| longs.contents(&handle.0) == [i as u8; 1000])
        );
    }
}
