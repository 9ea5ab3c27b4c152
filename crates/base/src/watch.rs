//! Work that takes long and that somebody may end: a change of the schema, the compiling of a
//! statement.
//!
//! Owns: who watches this thread, and how much was done since it was asked last. Whoever begins
//! such work runs it under a [`Watcher`]; whoever does it calls [`work`] as it goes on, and stops
//! at an error. Promises that a thread which nobody watches is never stopped: recovery and replay,
//! which have to take up what was once accepted, name no watcher. Does not know clocks.

use crate::error::UserResult;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Units after which a watcher is asked again: some tens of microseconds.
const ASKED_EVERY: usize = 32_768;

/// Is asked again and again while it watches; an error ends the work.
#[derive(Clone)]
pub struct Watcher(Rc<dyn Fn() -> UserResult<()>>);

thread_local! {
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
    /// Work until it is asked.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Watcher {
    pub fn new(asked: impl Fn() -> UserResult<()> + 'static) -> Watcher {
        Watcher(Rc::new(asked))
    }

    pub fn ask(&self) -> UserResult<()> {
        (self.0)()
    }

    /// Watches what `body` does on this thread, in the place of another watcher.
    pub fn watch<T>(&self, body: impl FnOnce() -> T) -> T {
        watched(Some(self.clone()), body)
    }
}

/// For what must not be stopped any more, whoever watches what is around it.
pub fn unwatched<T>(body: impl FnOnce() -> T) -> T {
    watched(None, body)
}

fn watched<T>(watcher: Option<Watcher>, body: impl FnOnce() -> T) -> T {
    struct Before(Option<Watcher>, usize);
    impl Drop for Before {
        fn drop(&mut self) {
            WATCHER.set(self.0.take());
            LEFT.set(self.1);
        }
    }
    let left = if watcher.is_some() { ASKED_EVERY } else { usize::MAX };
    let _before = Before(WATCHER.replace(watcher), LEFT.replace(left));
    body()
}

/// Counts work, in units of about a byte that is copied, and asks the watcher now and then.
#[inline]
pub fn work(units: usize) -> UserResult<()> {
    match LEFT.get().checked_sub(units) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => ask(),
    }
}

#[cold]
fn ask() -> UserResult<()> {
    match WATCHER.with_borrow(Option::clone) {
        Some(watcher) => {
            LEFT.set(ASKED_EVERY);
            watcher.ask()
        }
        None => {
            LEFT.set(usize::MAX);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserError;

    fn counting() -> (Watcher, Rc<Cell<usize>>) {
        let asked = Rc::new(Cell::new(0));
        let count = Rc::clone(&asked);
        let watcher = Watcher::new(move || {
            count.set(count.get() + 1);
            Ok(())
        });
        (watcher, asked)
    }

    #[test]
    fn a_watcher_is_asked_past_so_much_work_and_not_before() {
        let (watcher, asked) = counting();
        watcher.watch(|| {
            work(ASKED_EVERY).unwrap();
            assert_eq!(asked.get(), 0);
            work(1).unwrap();
            assert_eq!(asked.get(), 1);
            (0..10 * ASKED_EVERY).for_each(|_| work(1).unwrap());
            assert!((10..=11).contains(&asked.get()), "{}", asked.get());
            work(usize::MAX).unwrap();
        });
        let before = asked.get();
        (0..3).for_each(|_| work(usize::MAX).unwrap());
        assert_eq!(asked.get(), before, "nobody watches any more");
    }

    #[test]
    fn one_watcher_at_a_time_and_the_other_behind_it() {
        let (outer, outside) = counting();
        let inner = Watcher::new(|| Err(UserError::limit("enough")));
        outer.watch(|| {
            work(usize::MAX).unwrap();
            inner.watch(|| work(usize::MAX)).expect_err("it says so");
            unwatched(|| (0..3).for_each(|_| work(usize::MAX).unwrap()));
            assert_eq!(outside.get(), 1);
            work(usize::MAX).unwrap();
            assert_eq!(outside.get(), 2);
        });
    }
}
