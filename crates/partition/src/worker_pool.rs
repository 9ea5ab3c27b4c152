//! Threads that help a long read: they do parts of its query (`ferrite_exec::WorkerPool`), at a
//! lower priority than transactions.
//!
//! A node has a fixed number of helpers at a time; a query takes those that are free, and the
//! thread that it runs on does parts too. So nothing waits for helpers, and what a query answers
//! does not depend on how many it got. A helper lives for as long as the parts do.

use crate::cancel::{CallId, GroupCancellations};
use ferrite_base::fault;
use ferrite_exec::WorkerPool;
use ferrite_io::{Yielding, lower_priority};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Reading this many rows takes some milliseconds, of which starting threads is a small part.
const PARTS_ROWS_MIN: u64 = 50_000;
/// What all parts read besides may be so small a share of the rows.
const BESIDE_SHARE: u64 = 4;

/// How many helpers are free, of one node.
pub struct Helpers {
    free: AtomicUsize,
    /// Of each: as much as the thread that it helps has, since it computes the same expressions.
    stack_bytes: usize,
}

impl Helpers {
    pub fn new(count: usize, stack_bytes: usize) -> Helpers {
        Helpers { free: AtomicUsize::new(count), stack_bytes }
    }

    /// To help with a call that begins now.
    pub(crate) fn for_call<'c>(
        &'c self,
        call: CallId,
        time_max: Duration,
        cancellations: &'c GroupCancellations,
    ) -> CallWorkers<'c> {
        CallWorkers { helpers: self, begun: Instant::now(), time_max, cancellations, call }
    }

    fn reserve(&self, wanted: usize) -> Reserved<'_> {
        let mut count = 0;
        let _ = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
            count = free.min(wanted);
            Some(free - count)
        });
        Reserved { helpers: self, count }
    }
}

/// Helpers that are free again when this is dropped.
struct Reserved<'h> {
    helpers: &'h Helpers,
    count: usize,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.helpers.free.fetch_add(self.count, Ordering::Relaxed);
    }
}

/// The helpers, for one call.
pub(crate) struct CallWorkers<'c> {
    helpers: &'c Helpers,
    begun: Instant,
    time_max: Duration,
    cancellations: &'c GroupCancellations,
    call: CallId,
}

impl WorkerPool for CallWorkers<'_> {
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let take_part = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                fault::point(fault::Point::Part);
                work(number);
            }
        };
        let reserved = self.helpers.reserve(count.saturating_sub(1));
        thread::scope(|scope| {
            for _ in 0..reserved.count {
                let helper =
                    thread::Builder::new().name("query-helper".to_owned()).stack_size(self.helpers.stack_bytes);
                let started = helper.spawn_scoped(scope, || {
                    lower_priority(Yielding::Some);
                    take_part();
                });
                // Without more threads this one does what is left.
                if started.is_err() {
                    break;
                }
            }
            take_part();
        });
    }

    fn pays(&self, rows: u64, beside: u64) -> bool {
        rows >= PARTS_ROWS_MIN && beside.saturating_mul(BESIDE_SHARE) <= rows
    }

    fn interrupted(&self) -> bool {
        let executed = self.begun.elapsed();
        executed > self.time_max || self.cancellations.stops(self.call, executed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn done_by(helpers: &Helpers, count: usize) -> Vec<usize> {
        let cancellations = GroupCancellations::default();
        let workers = helpers.for_call(CallId::default(), Duration::from_secs(60), &cancellations);
        let done = Mutex::new(Vec::new());
        workers.each(count, &|number| done.lock().expect("no panic").push(number));
        let mut done = done.into_inner().expect("no panic");
        done.sort_unstable();
        done
    }

    #[test]
    fn each_part_is_done_once_whoever_helps() {
        for free in [0, 1, 3, 100] {
            let helpers = Helpers::new(free, 1 << 20);
            for count in [0, 1, 2, 7, 64] {
                assert_eq!(done_by(&helpers, count), (0..count).collect::<Vec<_>>());
                assert_eq!(helpers.free.load(Ordering::Relaxed), free);
            }
        }
    }
}
