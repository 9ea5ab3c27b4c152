//! How long a change of the schema may take, and what else may end it: no transaction runs until it
//! has ended.
//!
//! The thread that carries a change out asks this now and then (`ferrite_base::watch`). An error
//! leaves stores, catalog and log as they were, for nothing is logged before the stores have
//! followed; from then on it is not asked any more. Changes that come from the log are never asked
//! about.

use crate::cancel::{CallId, GroupCancellations};
use ferrite_base::{ErrorKind, UserError, UserResult, Watcher};
use ferrite_io::Clock;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct SchemaTime {
    clock: Arc<dyn Clock>,
    /// When it began, in the clock's nanoseconds; later by what was spent waiting for others.
    begun: Cell<u64>,
    /// None: as long as it takes.
    time_max: Option<Duration>,
    cancellations: GroupCancellations,
    call: CallId,
}

impl SchemaTime {
    /// Of a change that begins now.
    pub(crate) fn begin(
        clock: &Arc<dyn Clock>,
        time_max: Option<Duration>,
        cancellations: &GroupCancellations,
        call: CallId,
    ) -> Rc<SchemaTime> {
        SchemaTime::resume(clock, time_max, cancellations, call, 0)
    }

    /// The time of one that has taken this many nanoseconds.
    pub(crate) fn resume(
        clock: &Arc<dyn Clock>,
        time_max: Option<Duration>,
        cancellations: &GroupCancellations,
        call: CallId,
        taken: u64,
    ) -> Rc<SchemaTime> {
        let begun = Cell::new(clock.monotonic_nanos().saturating_sub(taken));
        let clock = Arc::clone(clock);
        let cancellations = cancellations.clone();
        Rc::new(SchemaTime { clock, begun, time_max, cancellations, call })
    }

    pub(crate) fn watcher(self: &Rc<SchemaTime>) -> Watcher {
        let time = Rc::clone(self);
        Watcher::new(move || time.ask())
    }

    /// Others' time is not counted.
    pub(crate) fn waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        let before = self.clock.monotonic_nanos();
        let result = wait();
        self.begun.set(self.begun.get() + self.clock.monotonic_nanos().saturating_sub(before));
        result
    }

    /// Nanoseconds that it has taken.
    pub(crate) fn elapsed(&self) -> u64 {
        self.clock.monotonic_nanos().saturating_sub(self.begun.get())
    }

    /// Whether it may continue.
    pub(crate) fn ask(&self) -> UserResult<()> {
        let taken = Duration::from_nanos(self.elapsed());
        if self.cancellations.is_stopping() {
            return Err(UserError::new(ErrorKind::Unavailable, "57P01", "the server is stopping")
                .with_detail("the schema change was interrupted; nothing of it was carried out"));
        }
        if self.cancellations.stops(self.call, taken) {
            return Err(self.cancellations.error());
        }
        match self.time_max {
            Some(most) if taken > most => Err(took_too_long(most)),
            _ => Ok(()),
        }
    }
}

#[cold]
fn took_too_long(most: Duration) -> UserError {
    let seconds = most.as_secs();
    UserError::limit(format!("the schema change takes longer than {seconds} seconds"))
        .with_detail("the limit is --limit schema-seconds; nothing of the change was carried out")
        .with_hint(
            "no transaction runs until a schema change has ended: make its expressions cheaper, or make it while its tables \
             have fewer rows, or start the server with a larger limit",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::{self, Cancel};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn monotonic_nanos(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn boottime_nanos(&self) -> u64 {
            self.monotonic_nanos()
        }

        fn wall_micros(&self) -> i64 {
            0
        }
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn up_to_the_limit_and_not_a_nanosecond_longer() {
        let hand = Arc::new(Hand(AtomicU64::new(7)));
        let clock: Arc<dyn Clock> = Arc::<Hand>::clone(&hand);
        let most = Duration::from_secs(600);
        let time = SchemaTime::begin(&clock, Some(most), &GroupCancellations::default(), CallId::default());
        let without = SchemaTime::begin(&clock, None, &GroupCancellations::default(), CallId::default());
        hand.0.fetch_add(600 * SECOND, Ordering::Relaxed);
        time.ask().expect("at the limit");
        time.waiting(|| hand.0.fetch_add(50 * SECOND, Ordering::Relaxed));
        time.ask().expect("others' time is not counted");
        hand.0.fetch_add(1, Ordering::Relaxed);
        let error = time.ask().expect_err("one past it");
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Limit, "the schema change takes longer than 600 seconds")
        );
        assert!(error.to_string().contains("--limit schema-seconds"), "{error}");
        without.ask().expect("as long as it takes");
    }

    #[test]
    fn it_ends_when_nobody_waits_for_it_and_when_the_server_stops() {
        let clock: Arc<dyn Clock> = Arc::new(Hand::default());
        let watched = GroupCancellations::default();
        let list = watched.all();
        let call = CallId { connection: 3, handle: 1, sent_micros: 1 };
        let time = SchemaTime::begin(&clock, None, &watched, call);
        time.ask().expect("nobody says anything");
        list.add(3, Cancel::Gone);
        assert_eq!(time.ask(), Err(cancel::cancelled()));
        list.forget(3);
        time.ask().expect("another connection");
        list.stop();
        assert_eq!(time.ask().expect_err("it stops").kind(), ErrorKind::Unavailable);
    }
}
