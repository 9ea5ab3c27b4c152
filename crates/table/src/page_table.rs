//! Where a table's pages are: a directory of two levels that a snapshot copies in microseconds, and
//! the copy-on-write of pages and of the directory itself (docs/decisions/0004-page-snapshots.md
//! has the invariant). Knows pages as bytes only.
//!
//! Glossary for the `SAFETY` comments. A *page table* is either the *writer*, which a store
//! changes, or a *reader*, part of a snapshot. What the writer's directory names is *owned* by the
//! writer; what it named when a snapshot was taken and does not name any more is *retired* and
//! owned by the snapshots ([`SnapshotPins`]). Owned memory whose stamp is the table's epoch
//! is *private*: no reader knows it. A reader's *pin* keeps alive everything that its directory
//! names, and keeps the writer from writing to it.

use crate::page_directory::{CHUNK_PAGES, Chunk, Entry, Epoch, OldChunk};
use crate::snapshot_pins::{Memory, SnapshotPin, SnapshotPins};
use ferrite_base::memory::{self, Block};
use std::ptr::NonNull;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct ChunkSlot {
    chunk: NonNull<Chunk>,
    stamp: Epoch,
}

enum Role {
    Writer(Arc<SnapshotPins>),
    Reader {
        /// Never read: being there keeps the memory.
        _pin: Arc<SnapshotPin>,
    },
}

/// The pages of a table, or of one size class of long values, by number.
pub(crate) struct PageTable {
    directory: Vec<ChunkSlot>,
    /// Page numbers given out; every one below has a chunk.
    length: usize,
    /// Of a reader: no stamp there is, so that nothing is ever private.
    epoch: Epoch,
    role: Role,
}

// SAFETY: a writer owns its memory but for what readers see as well, which it does not write to;
// readers only read, and the lock of `SnapshotPins` stands between their last look and the next
// write. So either can go to another thread.
unsafe impl Send for PageTable {}

impl PageTable {
    pub(crate) fn new(pins: &Arc<SnapshotPins>) -> PageTable {
        PageTable { directory: Vec::new(), length: 0, epoch: pins.epoch(), role: Role::Writer(Arc::clone(pins)) }
    }

    /// Another one of the same store, empty.
    pub(crate) fn sibling(&self) -> PageTable {
        PageTable::new(self.pins())
    }

    /// The pages as they are now, for reading. From now on what they are is copied before it is
    /// changed.
    pub(crate) fn snapshot(&mut self, pin: &Arc<SnapshotPin>) -> PageTable {
        assert!(matches!(self.role, Role::Writer(_)), "snapshots are taken of stores, not of snapshots");
        self.epoch = pin.epoch + 1;
        PageTable {
            directory: self.directory.clone(),
            length: self.length,
            epoch: Epoch::MAX,
            role: Role::Reader { _pin: Arc::clone(pin) },
        }
    }

    /// Page numbers given out, with or without a page.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Bytes of the directory.
    pub(crate) fn directory_bytes(&self) -> usize {
        self.directory.len() * size_of::<Chunk>() + self.directory.capacity() * size_of::<ChunkSlot>()
    }

    #[inline(always)]
    fn entry(&self, number: usize) -> Entry {
        match self.directory.get(number / CHUNK_PAGES) {
            // SAFETY: the chunk is owned by this writer or kept by this reader's pin, and nobody
            // writes to it while `self` is borrowed: only the writer would, through `&mut self`,
            // and only if no reader sees it.
            Some(slot) => unsafe { slot.chunk.as_ref().0[number % CHUNK_PAGES] },
            None => Entry::NONE,
        }
    }

    /// None: there is no page of this number.
    #[inline(always)]
    pub(crate) fn page(&self, number: usize) -> Option<&[u8]> {
        let entry = self.entry(number);
        if entry.page.is_null() {
            return None;
        }
        // SAFETY: the page is owned by this writer or kept by this reader's pin; it has this length
        // and is initialised. Nobody writes to it while `self` is borrowed, as for chunks above.
        Some(unsafe { std::slice::from_raw_parts(entry.page, entry.length()) })
    }

    /// A page to be written to. Panics where there is none, and in a snapshot.
    #[inline(always)]
    pub(crate) fn page_mut(&mut self, number: usize) -> &mut [u8] {
        let mut entry = self.entry(number);
        if entry.stamp() != self.epoch {
            entry = self.make_private(number);
        }
        // SAFETY: the page is there, since its stamp is a table's epoch, and private: owned by this
        // writer, seen by no reader, and `&mut self` is the only way to it.
        unsafe { std::slice::from_raw_parts_mut(entry.page, entry.length()) }
    }

    /// The slow way to write: a snapshot was taken since the page was last written to.
    #[cold]
    #[inline(never)]
    fn make_private(&mut self, number: usize) -> Entry {
        let entry = self.entry(number);
        assert!(!entry.page.is_null(), "the page to be written to is there");
        let epoch = self.epoch;
        let private = if self.pins().is_visible(entry.stamp(), epoch) {
            // SAFETY: owned by this writer; readers read it too, and nobody writes.
            let original = unsafe { std::slice::from_raw_parts(entry.page, entry.length()) };
            Entry::of(Block::copy_of(original), epoch)
        } else {
            entry.restamped(epoch)
        };
        self.private_chunk(number / CHUNK_PAGES).0[number % CHUNK_PAGES] = private;
        if private.page != entry.page {
            self.let_go(entry);
        }
        private
    }

    /// Gives up a page that the directory named until now.
    fn let_go(&self, entry: Entry) {
        // SAFETY: this writer owned it and does not name it any more; the ownership goes to the
        // block.
        let Some(block) = (unsafe { entry.into_block() }) else { return };
        if entry.stamp() != self.epoch {
            self.pins().retire(entry.stamp(), self.epoch, Memory::Page(block));
        }
    }

    fn pins(&self) -> &Arc<SnapshotPins> {
        match &self.role {
            Role::Writer(pins) => pins,
            Role::Reader { .. } => panic!("a snapshot is never written to"),
        }
    }

    fn private_chunk(&mut self, position: usize) -> &mut Chunk {
        let epoch = self.epoch;
        let slot = self.directory[position];
        if slot.stamp != epoch {
            let pins = Arc::clone(self.pins());
            if pins.is_visible(slot.stamp, epoch) {
                // SAFETY: owned by this writer; readers read it too, and nobody writes.
                let copy = unsafe { slot.chunk.as_ref() }.clone();
                self.directory[position].chunk = copy.allocate();
                pins.retire(slot.stamp, epoch, Memory::Chunk { _chunk: OldChunk(slot.chunk) });
            }
            self.directory[position].stamp = epoch;
        }
        // SAFETY: the chunk is private, and `&mut self` is the only way to it.
        unsafe { self.directory[position].chunk.as_mut() }
    }

    /// Gives out the next number, without a page.
    pub(crate) fn push(&mut self) -> usize {
        let number = self.length;
        self.pins();
        if number / CHUNK_PAGES == self.directory.len() {
            let chunk = Chunk([Entry::NONE; CHUNK_PAGES]).allocate();
            self.directory.push(ChunkSlot { chunk, stamp: self.epoch });
        }
        self.length += 1;
        number
    }

    /// Puts a page in the place of the one of this number, if there is one, or takes it away.
    pub(crate) fn set(&mut self, number: usize, page: Option<Block>) {
        assert!(number < self.length, "the number was given out");
        let before = self.entry(number);
        let after = page.map_or(Entry::NONE, |block| Entry::of(block, self.epoch));
        self.private_chunk(number / CHUNK_PAGES).0[number % CHUNK_PAGES] = after;
        self.let_go(before);
    }

    /// Moves a page to a better place in memory, if it lies badly; whether it did. None: its number
    /// was not given out.
    pub(crate) fn move_place(&mut self, number: usize) -> Option<bool> {
        if number >= self.length {
            return None;
        }
        let copy = self.page(number).filter(|page| memory::lies_sparsely(page)).map(Block::copy_of);
        let moves = copy.is_some();
        if moves {
            self.set(number, copy);
        }
        Some(moves)
    }

    /// The pages that are there.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.length).filter_map(|number| self.page(number))
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        let Role::Writer(pins) = &self.role else { return };
        let mut numbers = 0..self.length;
        for slot in &self.directory {
            numbers.by_ref().take(CHUNK_PAGES).for_each(|number| self.let_go(self.entry(number)));
            let chunk = OldChunk(slot.chunk);
            if slot.stamp != self.epoch {
                pins.retire(slot.stamp, self.epoch, Memory::Chunk { _chunk: chunk });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::limits::PAGE_BYTES;

    fn with_pages(count: usize) -> (Arc<SnapshotPins>, PageTable) {
        let pins = Arc::new(SnapshotPins::default());
        let mut table = PageTable::new(&pins);
        for number in 0..count {
            assert_eq!(table.push(), number);
            table.set(number, Some(Block::zeroed(PAGE_BYTES)));
            table.page_mut(number)[0] = number as u8;
        }
        (pins, table)
    }

    #[test]
    fn the_writer_copies_once_and_only_while_a_snapshot_looks() {
        let (pins, mut table) = with_pages(3);
        let address = |table: &PageTable, number| table.page(number).map(|page| page.as_ptr());
        let before = address(&table, 1);
        let snapshot = table.snapshot(&pins.pin());
        assert_eq!(address(&snapshot, 1), before);
        table.page_mut(1)[0] = 77;
        let copied = address(&table, 1);
        assert!(copied != before && address(&snapshot, 1) == before);
        table.page_mut(1)[1] = 78;
        assert_eq!(address(&table, 1), copied, "copied once");
        assert_eq!(snapshot.page(1).unwrap()[..2], [1, 0]);
        assert_eq!(pins.bytes(), PAGE_BYTES + OldChunk::BYTES);
        drop(snapshot);
        assert_eq!(pins.bytes(), 0);
        let untouched = address(&table, 2);
        table.page_mut(2)[0] = 79;
        assert_eq!(address(&table, 2), untouched, "nobody looks any more");
    }

    #[test]
    fn pages_and_tables_that_go_stay_for_their_snapshots() {
        let (pins, mut table) = with_pages(CHUNK_PAGES + 3);
        let snapshot = table.snapshot(&pins.pin());
        table.set(5, None);
        table.push();
        table.set(CHUNK_PAGES + 3, Some(Block::zeroed(PAGE_BYTES)));
        let second = table.snapshot(&pins.pin());
        drop(table);
        assert!(snapshot.pages().map(|page| page[0]).eq((0..CHUNK_PAGES + 3).map(|number| number as u8)));
        assert_eq!((second.page(5), second.pages().count()), (None, CHUNK_PAGES + 3));
        std::thread::spawn(move || drop(snapshot)).join().expect("dropped there");
        assert_eq!(second.pages().count(), CHUNK_PAGES + 3);
        drop(second);
        assert_eq!((pins.bytes(), pins.count()), (0, 0));
    }

    #[test]
    #[should_panic(expected = "never written to")]
    fn a_snapshot_cannot_be_written_to() {
        let (pins, mut table) = with_pages(1);
        let mut snapshot = table.snapshot(&pins.pin());
        snapshot.page_mut(0)[0] = 1;
    }
}
