//! Page memory: blocks of one size cut from large, huge-page-backed extents, shared by all tables of a process.
//!
//! A random access to gigabytes of small pages costs a TLB miss besides the cache miss; 2 MiB extents that the kernel
//! may back with huge pages save most of them. Blocks come back to a free list and are handed out again; extents are
//! kept for the life of the process. The lock is taken once per 16 KiB block, which is once in hundreds of rows.
//!
//! The first touch of an extent can take milliseconds: the kernel clears it, and a hypervisor may first have to find memory
//! for it. [`keep_ahead`], run by a thread of the server, touches extents before they are wanted; where nobody runs it, whoever
//! needs an extent pays.

use crate::limits::PAGE_BYTES;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

/// Bytes of an extent.
pub const EXTENT_BYTES: usize = 2 * 1024 * 1024;

struct FreeBlocks(Vec<NonNull<u8>>);
// SAFETY: the pointers are unique owners of their blocks; moving them between threads moves that ownership.
unsafe impl Send for FreeBlocks {}

static FREE: Mutex<FreeBlocks> = Mutex::new(FreeBlocks(Vec::new()));
static BYTES_RESERVED: AtomicUsize = AtomicUsize::new(0);
static BYTES_USED: AtomicUsize = AtomicUsize::new(0);

/// Bytes of extents obtained from the system so far.
pub fn bytes_reserved() -> usize {
    BYTES_RESERVED.load(Ordering::Relaxed)
}

/// Bytes of blocks and large blocks that are in use.
pub fn bytes_used() -> usize {
    BYTES_USED.load(Ordering::Relaxed)
}

/// A zeroed, 64-byte-aligned block of memory, at least one [`PAGE_BYTES`] long. Owned like a `Box<[u8]>`.
pub struct Block {
    bytes: NonNull<u8>,
    length: usize,
}

// SAFETY: a Block owns its memory exclusively.
unsafe impl Send for Block {}
// SAFETY: shared access to a Block is shared access to plain bytes.
unsafe impl Sync for Block {}

impl Block {
    /// A zeroed block of `length` bytes. Lengths other than [`PAGE_BYTES`] go to the system allocator.
    pub fn zeroed(length: usize) -> Block {
        assert!(length >= PAGE_BYTES && length.is_multiple_of(64), "a block is whole cache lines of at least a page");
        BYTES_USED.fetch_add(length, Ordering::Relaxed);
        let bytes = if length == PAGE_BYTES { page() } else { system(length) };
        Block { bytes, length }
    }

    /// A block of the same length and contents.
    pub fn copy_of(original: &[u8]) -> Block {
        let mut copy = if original.len() == PAGE_BYTES {
            BYTES_USED.fetch_add(PAGE_BYTES, Ordering::Relaxed);
            Block { bytes: free_page().unwrap_or_else(fresh_page), length: PAGE_BYTES }
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
        // SAFETY: the range was just allocated and is ours; the advice changes no contents. Refusal is harmless.
        let _ = unsafe { madvise(pointer.cast(), length, Advice::LinuxHugepage) };
    }
    bytes
}

/// The next extent of a region that was mapped for several. The allocator's own memory may have been touched before, and
/// then the kernel backs only part of it with huge pages; a mapping of our own is fresh.
fn extent() -> NonNull<u8> {
    /// Rest of the region: its next extent and how many are left.
    static REGION: Mutex<(usize, usize)> = Mutex::new((0, 0));
    const REGION_EXTENTS: usize = 32;
    let mut region = REGION.lock().expect("no panic while holding the region");
    if region.1 == 0 {
        let length = (REGION_EXTENTS + 1) * EXTENT_BYTES;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that is there.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, flags) };
        let Ok(start) = mapped else { handle_alloc_error(large_layout(length)) };
        let aligned = start.addr().next_multiple_of(EXTENT_BYTES);
        // SAFETY: the mapping is ours and never unmapped; the advice changes no contents. Refusal is harmless.
        let _ = unsafe { madvise(start, length, Advice::LinuxHugepage) };
        start.expose_provenance();
        *region = (aligned, REGION_EXTENTS);
    }
    let extent = region.0;
    *region = (extent + EXTENT_BYTES, region.1 - 1);
    NonNull::new(std::ptr::with_exposed_provenance_mut(extent)).expect("a mapping is not at address 0")
}

/// Extents that were touched already.
static READY: Mutex<FreeBlocks> = Mutex::new(FreeBlocks(Vec::new()));
static TAKEN: Condvar = Condvar::new();

fn ready_extent() -> Option<NonNull<u8>> {
    let extent = READY.lock().expect("no panic while holding the ready list").0.pop();
    if extent.is_some() {
        TAKEN.notify_one();
    }
    extent
}

/// Touches `first` extents, then keeps `count` touched and ready, until `stop` is set and [`wake_keeper`] called.
pub fn keep_ahead(first: usize, count: usize, stop: &AtomicBool) {
    let mut ready = READY.lock().expect("no panic while holding the ready list");
    let mut wanted = first.max(count);
    while !stop.load(Ordering::Acquire) {
        if ready.0.len() >= wanted {
            wanted = count;
            ready = TAKEN.wait(ready).expect("no panic while holding the ready list");
            continue;
        }
        drop(ready);
        let fresh = extent();
        for offset in (0..EXTENT_BYTES).step_by(4096) {
            // SAFETY: the offset is within the extent, which nobody else knows of yet.
            unsafe { fresh.add(offset).write_volatile(0) };
        }
        ready = READY.lock().expect("no panic while holding the ready list");
        ready.0.push(fresh);
    }
}

/// Makes [`keep_ahead`] look at its `stop`.
pub fn wake_keeper() {
    drop(READY.lock().expect("no panic while holding the ready list"));
    TAKEN.notify_all();
}

fn page() -> NonNull<u8> {
    if let Some(bytes) = free_page() {
        // SAFETY: the block is PAGE_BYTES long and owned by nobody else since it was on the list.
        unsafe { std::ptr::write_bytes(bytes.as_ptr(), 0, PAGE_BYTES) };
        return bytes;
    }
    fresh_page()
}

/// A page that came back, or the next of an extent; its contents are zeros or those of its life before.
fn free_page() -> Option<NonNull<u8>> {
    FREE.lock().expect("no panic while holding the page list").0.pop()
}

/// The first page of a new extent, zeroed; the others go to the list.
fn fresh_page() -> NonNull<u8> {
    let mut free = FREE.lock().expect("no panic while holding the page list");
    let extent = ready_extent().unwrap_or_else(extent);
    BYTES_RESERVED.fetch_add(EXTENT_BYTES, Ordering::Relaxed);
    // Last block first, so that pages come in ascending address order.
    for i in (1..EXTENT_BYTES / PAGE_BYTES).rev() {
        // SAFETY: i is below the number of whole pages in the extent.
        free.0.push(unsafe { extent.add(i * PAGE_BYTES) });
    }
    extent
}

impl Drop for Block {
    fn drop(&mut self) {
        BYTES_USED.fetch_sub(self.length, Ordering::Relaxed);
        if self.length == PAGE_BYTES {
            FREE.lock().expect("no panic while holding the page list").0.push(self.bytes);
        } else {
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
    fn extents_are_kept_ahead_until_told_to_stop() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| keep_ahead(3, 2, &stop));
            let blocks: Vec<Block> = (0..600).map(|_| Block::zeroed(PAGE_BYTES)).collect();
            assert!(blocks.iter().all(|block| block.iter().all(|byte| *byte == 0)));
            stop.store(true, Ordering::Release);
            wake_keeper();
        });
    }

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
        assert!(again.iter().all(|block| block.iter().all(|byte| *byte == 0)));
        assert!(address.addr().is_multiple_of(64));
    }
}
