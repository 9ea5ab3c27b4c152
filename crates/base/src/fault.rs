//! Faults of the server itself, that is panics: how they are reported and counted, and, in debug
//! builds, planted.
//!
//! What becomes of the call in which one comes is decided where calls are executed
//! (docs/decisions/0022-panics.md). Knows nothing of calls.

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reports with a backtrace, which takes milliseconds to write; later ones have none.
const BACKTRACES_MAX: u64 = 16;
/// Of more reports than this only every power of two is written.
const REPORTS_MAX: u64 = 256;

static PANICS: AtomicU64 = AtomicU64::new(0);
static CONTAINED: AtomicU64 = AtomicU64::new(0);

/// Panics of this process in calls that were rolled back, since its start.
pub fn contained() -> u64 {
    CONTAINED.load(Ordering::Relaxed)
}

/// Counts a panic after which a call was rolled back; whether it is to be told of in the log.
#[cold]
pub fn contain() -> bool {
    planted::CONTAINED.set(planted::CONTAINED.get() + 1);
    is_reported(CONTAINED.fetch_add(1, Ordering::Relaxed) + 1)
}

fn is_reported(number: u64) -> bool {
    number <= REPORTS_MAX || number.is_power_of_two()
}

/// A panic, as it is reported.
pub struct PanicReport<'p> {
    /// Counts those of this process, from 1.
    pub number: u64,
    /// The name of the thread.
    pub thread: &'p str,
    pub panic: &'p dyn fmt::Display,
    /// None: there were many already.
    pub backtrace: Option<Backtrace>,
}

/// From now on panics are reported, with where they came from.
pub fn report_panics(report: fn(PanicReport<'_>)) {
    std::panic::set_hook(Box::new(move |panic| {
        let number = PANICS.fetch_add(1, Ordering::Relaxed) + 1;
        if !is_reported(number) {
            return;
        }
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let backtrace = (number <= BACKTRACES_MAX).then(Backtrace::force_capture);
        report(PanicReport { number, thread: name, panic, backtrace });
    }));
}

/// Where tests can have a panic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// A statement is compiled.
    Compile = 1,
    /// A statement begins to execute.
    Statement = 2,
    /// A view is about to follow a change of a row.
    View = 3,
    /// A row is in its page and not yet in the indexes.
    Structure = 4,
    /// A row goes into the answer.
    Answer = 5,
    /// A part of a query, perhaps on a thread that helps.
    Part = 6,
}

/// What a planted panic carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planted(pub Point);

/// A place where tests can have a panic. Nothing in release builds.
#[inline(always)]
pub fn point(point: Point) {
    #[cfg(debug_assertions)]
    planted::reach(point);
    #[cfg(not(debug_assertions))]
    let _ = point;
}

pub use planted::{contained_here, fired_here, plant, plant_anywhere, uproot};

#[cfg_attr(not(debug_assertions), allow(dead_code, reason = "nothing is reached in release builds"))]
mod planted {
    use super::{Planted, Point};
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};

    thread_local! {
        static HERE: Cell<Option<(Point, u32)>> = const { Cell::new(None) };
        static FIRED: Cell<u64> = const { Cell::new(0) };
        pub(super) static CONTAINED: Cell<u64> = const { Cell::new(0) };
    }

    /// The point's number; 0: none.
    static ANYWHERE: AtomicU64 = AtomicU64::new(0);

    /// This thread panics when it has reached the point so many times more.
    pub fn plant(point: Point, times: u32) {
        HERE.set(Some((point, times)));
    }

    /// The first thread that reaches the point panics.
    pub fn plant_anywhere(point: Point) {
        ANYWHERE.store(point as u64, Ordering::SeqCst);
    }

    /// Nothing is planted for this thread any more; what was, and how often it was still to be
    /// reached.
    pub fn uproot() -> Option<(Point, u32)> {
        HERE.take()
    }

    /// Planted panics that have come on this thread.
    pub fn fired_here() -> u64 {
        FIRED.get()
    }

    /// Panics on this thread after which a call was rolled back, planted or not.
    pub fn contained_here() -> u64 {
        CONTAINED.get()
    }

    fn fire(point: Point) -> ! {
        FIRED.set(FIRED.get() + 1);
        std::panic::panic_any(Planted(point))
    }

    pub(super) fn reach(point: Point) {
        if let Some((wanted, times)) = HERE.get()
            && wanted == point
        {
            if times <= 1 {
                HERE.set(None);
                fire(point);
            }
            HERE.set(Some((wanted, times - 1)));
        }
        let number = point as u64;
        if ANYWHERE.load(Ordering::Relaxed) == number
            && ANYWHERE.compare_exchange(number, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            fire(point);
        }
    }
}
