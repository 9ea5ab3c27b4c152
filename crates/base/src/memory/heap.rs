//! Counts what the allocator has given out: everything that is not in extents, such as ordered
//! indexes, undo, results, buffers.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

/// What a thread counts for itself before it tells.
const UNTOLD_BYTES_MAX: usize = 65_536;

/// Signed, since one thread may free what another has not told of yet.
static BYTES: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static UNTOLD: Cell<isize> = const { Cell::new(0) };
}

/// An allocator that counts what it gives out, as it was asked for. It costs an addition in the
/// thread's own memory.
pub struct CountingAllocator<A>(pub A);

#[inline]
fn count(bytes: isize) {
    let sum = UNTOLD.get() + bytes;
    UNTOLD.set(sum);
    if sum.unsigned_abs() >= UNTOLD_BYTES_MAX {
        flush_count();
    }
}

#[cold]
fn flush_count() {
    BYTES.fetch_add(UNTOLD.replace(0), Ordering::Relaxed);
}

/// Bytes given out and not freed, but for what threads have not told; 0 where the process does not
/// count.
pub(super) fn bytes() -> usize {
    BYTES.load(Ordering::Relaxed).max(0) as usize
}

// SAFETY: every call is passed on to the allocator unchanged. Counting allocates nothing and does
// not panic: the counter needs no initialisation and no destructor.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are the allocator's requirements.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn what_is_given_out_is_counted_and_what_comes_back_too() {
        let allocator = CountingAllocator(System);
        let layout = Layout::from_size_align(UNTOLD_BYTES_MAX, 8).expect("a layout");
        let before = bytes();
        // SAFETY: the layout has a size.
        let pointer = unsafe { allocator.alloc(layout) };
        assert_eq!(bytes(), before + UNTOLD_BYTES_MAX);
        // SAFETY: allocated here with this layout.
        let pointer = unsafe { allocator.realloc(pointer, layout, 3 * UNTOLD_BYTES_MAX) };
        assert_eq!(bytes(), before + 3 * UNTOLD_BYTES_MAX);
        let layout = Layout::from_size_align(3 * UNTOLD_BYTES_MAX, 8).expect("a layout");
        // SAFETY: reallocated to this layout.
        unsafe { allocator.dealloc(pointer, layout) };
        assert_eq!(bytes(), before);
    }
}
