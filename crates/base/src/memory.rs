//! Page memory: blocks of one size cut from large, huge-page-backed extents, shared by all tables
//! of a process; and the ceiling on what the process takes in all.
//!
//! A random access to gigabytes of small pages costs a TLB miss besides the cache miss; 2 MiB
//! extents that the kernel may back with huge pages save most of them. Blocks that come back are
//! handed out again, those at the lowest addresses first, so that after many deletions whole
//! extents become free. Of these some are kept, since the system is slow to give memory;
//! [`keep_ahead`] gives the others back. The lock is taken once per 16 KiB block, which is once in
//! hundreds of rows.
//!
//! The first touch of an extent can take milliseconds: the kernel clears it, and a hypervisor may
//! first have to find memory for it. [`keep_ahead`], run by a thread of the server, touches extents
//! before they are wanted, as huge pages only where that is quick (`preallocator.rs`); where nobody
//! runs it, whoever needs an extent pays.
//!
//! Knows nothing of who uses the memory. Whoever adds to it asks [`takes_rows`] or [`has_room`]
//! first (docs/limits.md).

use crate::limits::PAGE_BYTES;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

mod ceiling;
mod clients;
mod heap;
mod preallocator;

pub use ceiling::{has_room, has_room_for_rows, limit, refuse_rows_for, refused, takes_rows, used};
pub use clients::{
    answer_built, answers_are_many, answers_changed, answers_held, clients_bytes_max, clients_room, is_full_of_answers,
    refused_answer, refused_call, takes_answer,
};
pub use heap::CountingAllocator;
pub use preallocator::{give_back, keep_ahead, wake_preallocator};

/// Bytes of an extent.
pub const EXTENT_BYTES: usize = 2 * 1024 * 1024;

/// As many as an extent's map has bits.
const EXTENT_PAGES: usize = EXTENT_BYTES / PAGE_BYTES;
const _: () = assert!(EXTENT_PAGES == u128::BITS as usize);
const ALL_FREE: u128 = u128::MAX;

/// Where free page memory is. All addresses are those of extents.
struct Pool {
    /// Extents of which some pages are in use and others not: a bit per free page.
    partial: BTreeMap<usize, u128>,
    /// Extents that the system has backed and of which no page is in use.
    ready: Vec<usize>,
    /// Extents without memory behind them: given back, or not touched yet.
    unbacked: Vec<usize>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { partial: BTreeMap::new(), ready: Vec::new(), unbacked: Vec::new() });
/// The preallocator has something to do: an extent was taken, or more are idle than are kept.
static CHANGED: Condvar = Condvar::new();
/// More idle extents than this are worth a word to the preallocator.
static READY_MAX: AtomicUsize = AtomicUsize::new(usize::MAX);
static BYTES_RESERVED: AtomicUsize = AtomicUsize::new(0);
static BYTES_USED: AtomicUsize = AtomicUsize::new(0);
/// Of these, in blocks that do not come from extents.
static LARGE_BYTES_USED: AtomicUsize = AtomicUsize::new(0);
/// Pages that came back, ever.
static PAGES_RETURNED: AtomicU64 = AtomicU64::new(0);

/// Sets the memory ceiling, and with it the clients' share. None, as at the start of a process:
/// there is no ceiling.
pub fn set_limit(bytes: Option<usize>) {
    clients::set_clients_limit(bytes);
    ceiling::set_ceiling(bytes);
}

/// Bytes of extents that the system has given and not got back.
pub fn bytes_reserved() -> usize {
    BYTES_RESERVED.load(Ordering::Relaxed)
}

/// Bytes of blocks and large blocks that are in use.
pub fn bytes_used() -> usize {
    BYTES_USED.load(Ordering::Relaxed)
}

/// Whether the block lies in an extent of which at most half is in use while there are free pages
/// at lower addresses: moving its contents to a new block helps to make the extent free.
pub fn lies_sparsely(block: &[u8]) -> bool {
    let pool = pool();
    let extent = block.as_ptr().addr() & !(EXTENT_BYTES - 1);
    block.len() == PAGE_BYTES
        && pool.partial.get(&extent).is_some_and(|free| free.count_ones() as usize >= EXTENT_PAGES / 2)
        && pool.partial.first_key_value().is_some_and(|(lowest, _)| *lowest < extent)
}

/// Bytes of free pages in extents that are in use in part: what moving blocks closer together could
/// free.
pub fn bytes_scattered() -> usize {
    pool().partial.values().map(|free| free.count_ones() as usize * PAGE_BYTES).sum()
}

/// Pages that anybody gave back, ever: when there are many more, others may be worth moving.
pub fn pages_returned() -> u64 {
    PAGES_RETURNED.load(Ordering::Relaxed)
}

/// A zeroed, 64-byte-aligned block of memory, at least one [`PAGE_BYTES`] long. Owned like a
/// `Box<[u8]>`.
pub struct Block {
    bytes: NonNull<u8>,
    length: usize,
}

// SAFETY: a Block owns its memory exclusively.
unsafe impl Send for Block {}
// SAFETY: shared access to a Block is shared access to plain bytes.
unsafe impl Sync for Block {}

impl Block {
    /// A zeroed block of `length` bytes. Lengths other than [`PAGE_BYTES`] go to the system
    /// allocator.
    pub fn zeroed(length: usize) -> Block {
        assert!(length >= PAGE_BYTES && length.is_multiple_of(64), "a block is whole cache lines of at least a page");
        BYTES_USED.fetch_add(length, Ordering::Relaxed);
        let bytes = if length == PAGE_BYTES {
            let bytes = page();
            // SAFETY: the block is PAGE_BYTES long and owned by nobody else since it was taken from
            // the pool.
            unsafe { std::ptr::write_bytes(bytes.as_ptr(), 0, PAGE_BYTES) };
            bytes
        } else {
            LARGE_BYTES_USED.fetch_add(length, Ordering::Relaxed);
            system(length)
        };
        Block { bytes, length }
    }

    /// A block of the same length and contents.
    pub fn copy_of(original: &[u8]) -> Block {
        let mut copy = if original.len() == PAGE_BYTES {
            BYTES_USED.fetch_add(PAGE_BYTES, Ordering::Relaxed);
            Block { bytes: page(), length: PAGE_BYTES }
        } else {
            Block::zeroed(original.len())
        };
        copy.copy_from_slice(original);
        copy
    }

    /// Gives the memory up to the caller: its address and length, for [`Block::from_raw`].
    pub fn into_raw(self) -> (NonNull<u8>, usize) {
        let parts = (self.bytes, self.length);
        std::mem::forget(self);
        parts
    }

    /// # Safety
    ///
    /// The parts come from [`Block::into_raw`], and the memory is from now on this block's alone.
    pub unsafe fn from_raw(bytes: NonNull<u8>, length: usize) -> Block {
        Block { bytes, length }
    }
}

fn large_layout(length: usize) -> Layout {
    Layout::from_size_align(length, if length >= EXTENT_BYTES { EXTENT_BYTES } else { 64 }).expect("length fits")
}

fn system(length: usize) -> NonNull<u8> {
    let layout = large_layout(length);
    // SAFETY: the layout's size is not zero, as Block::zeroed asserts.
    let pointer = unsafe { alloc_zeroed(layout) };
    let Some(bytes) = NonNull::new(pointer) else { handle_alloc_error(layout) };
    if length >= EXTENT_BYTES {
        // SAFETY: the range was just allocated and is ours.
        unsafe { advise_huge(pointer, length) };
    }
    bytes
}

/// Miri (`scripts/miri`) knows neither this flag nor the advice below. Both only save time.
const UNRESERVED: MapFlags = if cfg!(miri) { MapFlags::empty() } else { MapFlags::NORESERVE };

/// Asks for huge pages. Refusal is harmless.
///
/// # Safety
///
/// The range is mapped, and the caller's.
unsafe fn advise_huge(start: *mut u8, length: usize) {
    if cfg!(miri) {
        return;
    }
    // SAFETY: by this function's promise; the advice changes no contents.
    let _ = unsafe { madvise(start.cast(), length, Advice::LinuxHugepage) };
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().expect("no panic while holding the pool")
}

fn pointer(address: usize) -> NonNull<u8> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("a mapping is not at address 0")
}

impl Pool {
    /// An extent without memory behind it, and of which nobody else knows.
    fn unbacked_extent(&mut self) -> usize {
        if self.unbacked.is_empty() {
            self.map_region();
        }
        self.unbacked.pop().expect("a region has extents")
    }

    /// The allocator's own memory may have been touched before, and then the kernel backs only part
    /// of it with huge pages; a mapping of our own is fresh.
    fn map_region(&mut self) {
        const REGION_EXTENTS: usize = 32;
        let length = (REGION_EXTENTS + 1) * EXTENT_BYTES;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | UNRESERVED;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that
        // is there.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, flags) };
        let Ok(start) = mapped else { handle_alloc_error(large_layout(length)) };
        let aligned = start.addr().next_multiple_of(EXTENT_BYTES);
        // SAFETY: the mapping is ours and never unmapped.
        unsafe { advise_huge(start.cast(), length) };
        start.expose_provenance();
        // The last is taken first: the lowest.
        self.unbacked.extend((0..REGION_EXTENTS).rev().map(|number| aligned + number * EXTENT_BYTES));
    }

    /// The free page at the lowest address, or the first of an extent that is idle. None: there is
    /// neither.
    fn pop(&mut self) -> Option<usize> {
        if let Some(mut lowest) = self.partial.first_entry() {
            let extent = *lowest.key();
            let page = lowest.get().trailing_zeros() as usize;
            *lowest.get_mut() &= !(1 << page);
            if *lowest.get() == 0 {
                lowest.remove();
            }
            return Some(extent + page * PAGE_BYTES);
        }
        let extent = self.ready.pop()?;
        CHANGED.notify_one();
        self.partial.insert(extent, ALL_FREE & !1);
        Some(extent)
    }

    fn put_back(&mut self, address: usize) {
        let extent = address & !(EXTENT_BYTES - 1);
        let bit = 1u128 << ((address - extent) / PAGE_BYTES);
        let free = self.partial.entry(extent).or_insert(0);
        assert!(*free & bit == 0, "a page comes back once");
        *free |= bit;
        if *free == ALL_FREE {
            self.partial.remove(&extent);
            self.ready.push(extent);
            if self.ready.len() > READY_MAX.load(Ordering::Relaxed) {
                CHANGED.notify_one();
            }
        }
    }
}

/// A page whose contents are whatever they are.
fn page() -> NonNull<u8> {
    let mut pool = pool();
    let address = pool.pop().unwrap_or_else(|| {
        let extent = pool.unbacked_extent();
        if preallocator::is_at_work() {
            // It could not keep up. A little at a time holds the caller up less.
            preallocator::advise(extent, false);
        }
        BYTES_RESERVED.fetch_add(EXTENT_BYTES, Ordering::Relaxed);
        pool.partial.insert(extent, ALL_FREE & !1);
        extent
    });
    pointer(address)
}

impl Drop for Block {
    fn drop(&mut self) {
        BYTES_USED.fetch_sub(self.length, Ordering::Relaxed);
        if self.length == PAGE_BYTES {
            PAGES_RETURNED.fetch_add(1, Ordering::Relaxed);
            pool().put_back(self.bytes.as_ptr().addr());
        } else {
            LARGE_BYTES_USED.fetch_sub(self.length, Ordering::Relaxed);
            // SAFETY: allocated by `system` with the same layout.
            unsafe { std::alloc::dealloc(self.bytes.as_ptr(), large_layout(self.length)) };
        }
    }
}

impl Deref for Block {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the block owns `length` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.length) }
    }
}

impl DerefMut for Block {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block owns `length` initialised bytes, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_equal_and_apart() {
        for length in [PAGE_BYTES, 4 * PAGE_BYTES] {
            let mut original = Block::zeroed(length);
            original.iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
            let mut copy = Block::copy_of(&original);
            assert_eq!(&*copy, &*original);
            copy[3] = 99;
            assert_eq!(original[3], 3);
            let (bytes, length) = copy.into_raw();
            // SAFETY: just taken apart.
            assert_eq!(unsafe { Block::from_raw(bytes, length) }[3], 99);
        }
    }

    #[test]
    fn a_block_that_comes_back_is_zeroed() {
        let mut first = Block::zeroed(PAGE_BYTES);
        first[17] = 9;
        let address = first.as_ptr();
        drop(first);
        let again: Vec<Block> = (0..200).map(|_| Block::zeroed(PAGE_BYTES)).collect();
        assert!(again.iter().all(|block| block[..] == [0; PAGE_BYTES]));
        assert!(address.addr().is_multiple_of(64));
    }

    #[test]
    fn a_pool_hands_out_the_lowest_and_knows_when_an_extent_is_idle() {
        let mut pool = Pool { partial: BTreeMap::new(), ready: vec![EXTENT_BYTES * 7], unbacked: Vec::new() };
        let pages: Vec<usize> = (0..EXTENT_PAGES).map(|_| pool.pop().expect("an extent's worth")).collect();
        assert!(pages.iter().enumerate().all(|(number, page)| *page == EXTENT_BYTES * 7 + number * PAGE_BYTES));
        assert_eq!((pool.pop(), pool.partial.len()), (None, 0));
        pages.iter().rev().take(2).for_each(|page| pool.put_back(*page));
        assert_eq!(pool.pop(), Some(pages[EXTENT_PAGES - 2]));
        pages[..EXTENT_PAGES - 1].iter().for_each(|page| pool.put_back(*page));
        assert_eq!((&pool.ready[..], pool.partial.len()), (&[EXTENT_BYTES * 7][..], 0));
    }

    #[test]
    #[should_panic(expected = "comes back once")]
    fn a_page_cannot_come_back_twice() {
        let mut pool = Pool { partial: BTreeMap::new(), ready: vec![EXTENT_BYTES], unbacked: Vec::new() };
        let page = pool.pop().expect("the first");
        pool.put_back(page + PAGE_BYTES);
    }
}
