//! Keeps extents ready ahead of need and gives back what lies idle, on a thread of its own.
//!
//! One huge page is touched in one go of the kernel. Where the memory behind it is at hand that
//! takes a quarter of a millisecond; where a hypervisor has to find it first, 5 ms and more, and
//! whatever is to run on that core meanwhile stands still, although the thread that does this makes
//! way for all others. A small page takes 2 to 11 microseconds. So extents are of huge pages only
//! as long as touching them is quick, which is tried again now and then
//! (docs/decisions/0003-hot-path.md).

use super::{BYTES_RESERVED, CHANGED, EXTENT_BYTES, READY_MAX, pointer, pool};
use crate::limits::EXTENTS_KEPT_MAX;
use rustix::mm::{Advice, madvise};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long extents must lie idle before they go back: what comes and goes all the time should not
/// cost the system's price each time.
const IDLE: Duration = Duration::from_secs(1);

/// A huge page whose first touch takes longer than this, in the processor's time, disturbs others.
const QUICK: Duration = Duration::from_millis(1);
/// Extents of small pages between one of huge pages that was slow and the next attempt: at 60 MB/s
/// of new rows one attempt in two seconds.
const SMALL_AFTER_SLOW: u32 = 63;

/// Which pages the next extent is to have.
#[derive(Default)]
struct Backing {
    /// This many extents are still to be of small pages.
    small: u32,
}

impl Backing {
    fn next_is_huge(&mut self) -> bool {
        let huge = self.small == 0;
        self.small = self.small.saturating_sub(1);
        huge
    }

    fn huge_took(&mut self, time: Duration) {
        if time > QUICK {
            self.small = SMALL_AFTER_SLOW;
        }
    }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Whether somebody runs [`keep_ahead`].
pub(super) fn is_at_work() -> bool {
    READY_MAX.load(Ordering::Relaxed) != usize::MAX
}

/// Says which pages an extent is to have that has no memory yet.
pub(super) fn advise(extent: usize, huge: bool) {
    let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
    // SAFETY: the extent is mapped for good, and the advice changes no contents. Refusal is
    // harmless.
    let _ = unsafe { madvise(pointer(extent).as_ptr().cast(), EXTENT_BYTES, advice) };
}

/// Touches `first` extents, then keeps `count` touched and ready, and gives back those beyond what
/// is worth keeping, until `stop` is set and [`wake_preallocator`] called.
pub fn keep_ahead(first: usize, count: usize, stop: &AtomicBool) {
    let mut backing = Backing::default();
    let mut wanted = first.max(count);
    let kept_max = wanted.max(EXTENTS_KEPT_MAX);
    READY_MAX.store(kept_max, Ordering::Relaxed);
    let mut held = pool();
    while !stop.load(Ordering::Acquire) {
        if held.ready.len() < wanted {
            let extent = held.unbacked_extent();
            drop(held);
            let huge = backing.next_is_huge();
            advise(extent, huge);
            let began = thread_cpu();
            for offset in (0..EXTENT_BYTES).step_by(4096) {
                // SAFETY: the offset is within the extent, which nobody else knows of yet.
                unsafe { pointer(extent).add(offset).write_volatile(0) };
            }
            if huge {
                backing.huge_took(thread_cpu().saturating_sub(began));
            }
            BYTES_RESERVED.fetch_add(EXTENT_BYTES, Ordering::Relaxed);
            held = pool();
            held.ready.push(extent);
            continue;
        }
        wanted = count;
        if held.ready.len() <= kept_max {
            held = CHANGED.wait(held).expect("no panic while holding the pool");
            continue;
        }
        let before = held.ready.len();
        held = CHANGED.wait_timeout(held, IDLE).expect("no panic while holding the pool").0;
        // More come: the time begins anew.
        if held.ready.len() <= before {
            drop(held);
            give_back(kept_max);
            held = pool();
        }
    }
    READY_MAX.store(usize::MAX, Ordering::Relaxed);
}

/// Gives idle extents back to the system, but for `kept`.
pub fn give_back(kept: usize) {
    loop {
        let mut held = pool();
        if held.ready.len() <= kept {
            return;
        }
        // The highest addresses go, so that what is left lies together.
        let (position, extent) =
            held.ready.iter().copied().enumerate().max_by_key(|(_, extent)| *extent).expect("there are more than kept");
        held.ready.swap_remove(position);
        drop(held);
        // SAFETY: no page of the extent is in use, and nobody else knows of it now: its contents
        // may go.
        let given = unsafe { madvise(pointer(extent).as_ptr().cast(), EXTENT_BYTES, Advice::LinuxDontNeed) };
        let mut held = pool();
        match given {
            Ok(()) => {
                BYTES_RESERVED.fetch_sub(EXTENT_BYTES, Ordering::Relaxed);
                held.unbacked.push(extent);
            }
            // Locked memory cannot go back. It stays of use to us.
            Err(_) => {
                held.ready.push(extent);
                return;
            }
        }
    }
}

/// Makes [`keep_ahead`] look at its `stop`.
pub fn wake_preallocator() {
    drop(pool());
    CHANGED.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PAGE_BYTES;
    use crate::memory::Block;

    #[test]
    fn extents_are_kept_ahead_until_told_to_stop() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| keep_ahead(3, 2, &stop));
            let blocks: Vec<Block> = (0..600).map(|_| Block::zeroed(PAGE_BYTES)).collect();
            assert!(blocks.iter().all(|block| block[..] == [0; PAGE_BYTES]));
            stop.store(true, Ordering::Release);
            wake_preallocator();
        });
    }

    #[test]
    fn huge_pages_are_left_alone_for_a_while_when_they_are_slow() {
        let mut backing = Backing::default();
        for _ in 0..100 {
            assert!(backing.next_is_huge());
            backing.huge_took(QUICK);
        }
        for _ in 0..3 {
            assert!(backing.next_is_huge(), "tried again");
            backing.huge_took(QUICK + Duration::from_nanos(1));
            assert!((0..SMALL_AFTER_SLOW).all(|_| !backing.next_is_huge()));
        }
        assert!(backing.next_is_huge());
        backing.huge_took(QUICK);
        assert!(backing.next_is_huge(), "quick again");
    }
}
