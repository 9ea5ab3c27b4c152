//! What a page table's directory consists of: entries of pages, in chunks. The words of the
//! `SAFETY` comments are those of `page_table.rs`.

use ferrite_base::memory::Block;
use std::ptr::{NonNull, null_mut};

/// Counts the snapshots of a store.
pub(crate) type Epoch = u64;

/// Pages of a chunk of the directory: a power of two. At 16 KB a page, a snapshot copies 16 bytes
/// per 2 MB.
pub(crate) const CHUNK_PAGES: usize = 128;
/// What page lengths are counted in, so that they fit beside the epoch.
pub(crate) const UNIT_BYTES: usize = 64;
pub(crate) const UNIT_BITS: u32 = 16;

/// A page's address, length and stamp.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Null: no page here.
    pub(crate) page: *mut u8,
    /// The stamp, and in the lowest bits the length in units.
    stamp_and_units: u64,
}

impl Entry {
    /// Its stamp is that of no table, so that whoever wants to write to it comes the slow way.
    pub(crate) const NONE: Entry = Entry { page: null_mut(), stamp_and_units: u64::MAX << UNIT_BITS };

    #[inline]
    pub(crate) fn length(self) -> usize {
        (self.stamp_and_units & ((1 << UNIT_BITS) - 1)) as usize * UNIT_BYTES
    }

    #[inline]
    pub(crate) fn stamp(self) -> Epoch {
        self.stamp_and_units >> UNIT_BITS
    }

    pub(crate) fn of(block: Block, stamp: Epoch) -> Entry {
        let (page, length) = block.into_raw();
        let units = length / UNIT_BYTES;
        assert!(length.is_multiple_of(UNIT_BYTES) && units < 1 << UNIT_BITS, "a page of {length} bytes has an entry");
        Entry { page: page.as_ptr(), stamp_and_units: stamp << UNIT_BITS | units as u64 }
    }

    pub(crate) fn restamped(self, stamp: Epoch) -> Entry {
        Entry { stamp_and_units: stamp << UNIT_BITS | (self.stamp_and_units & ((1 << UNIT_BITS) - 1)), ..self }
    }

    /// # Safety
    ///
    /// The entry's page is owned by the caller, who puts this block in the place of that ownership.
    pub(crate) unsafe fn into_block(self) -> Option<Block> {
        let page = NonNull::new(self.page)?;
        // SAFETY: made by `Entry::of` from a block taken apart; the caller passes the ownership on.
        Some(unsafe { Block::from_raw(page, self.length()) })
    }
}

/// Part of the directory.
#[derive(Clone)]
pub(crate) struct Chunk(pub(crate) [Entry; CHUNK_PAGES]);

impl Chunk {
    /// A chunk's memory, owned by whoever gets this.
    pub(crate) fn allocate(self) -> NonNull<Chunk> {
        NonNull::from(Box::leak(Box::new(self)))
    }
}

/// A chunk that was owned by a writer. Not a `Box`: readers may still look at it.
pub(crate) struct OldChunk(pub(crate) NonNull<Chunk>);

impl OldChunk {
    pub(crate) const BYTES: usize = size_of::<Chunk>();
}

// SAFETY: it owns its chunk, whose addresses are not followed any more.
unsafe impl Send for OldChunk {}

impl Drop for OldChunk {
    fn drop(&mut self) {
        // SAFETY: made by `Chunk::allocate`, owned by `self`, and no reader is left when a retired
        // chunk is dropped.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
