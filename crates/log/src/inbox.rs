//! The queue in front of the log thread. All that waits is taken at once, by exchanging two
//! vectors; an idle thread sleeps.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::error::LogFailed;
use crate::format::LogPosition;
use crate::payload::Payload;
use crate::statistics::LogStatistics;

/// Bytes and their receipt. Empty bytes are a barrier.
pub(crate) struct Append<C> {
    pub payload: Payload,
    /// Told where the block is that begins with the payload; there is one then.
    pub mark: Option<Mark>,
    pub completion: C,
}

/// Learns a position before the append completes.
pub(crate) type Mark = Arc<OnceLock<LogPosition>>;

pub(crate) struct Inbox<C> {
    state: Mutex<State<C>>,
    arrived: Condvar,
    drained: Condvar,
    bytes_max: usize,
    statistics: Arc<LogStatistics>,
}

struct State<C> {
    items: Vec<Append<C>>,
    bytes: usize,
    /// Set once: nothing is taken in any more, and why.
    closed: Option<LogFailed>,
    sleeping: bool,
}

pub(crate) enum Drained {
    Some,
    TimedOut,
    Closed,
}

impl<C> Inbox<C> {
    pub fn new(bytes_max: usize, statistics: Arc<LogStatistics>) -> Self {
        Inbox {
            state: Mutex::new(State { items: Vec::new(), bytes: 0, closed: None, sleeping: false }),
            arrived: Condvar::new(),
            drained: Condvar::new(),
            bytes_max,
            statistics,
        }
    }

    /// The state is whole at every point where the lock can be lost to a panic, so poison means
    /// nothing.
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the queue is not full, or closed.
    pub fn wait_for_room(&self) {
        drop(self.with_room());
    }

    fn with_room(&self) -> MutexGuard<'_, State<C>> {
        let mut state = self.lock();
        while state.bytes >= self.bytes_max && state.closed.is_none() {
            state = self.drained.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Puts it into the queue, waiting for room; or gives it back if the queue is closed.
    pub fn put(&self, append: Append<C>) -> Result<(), (Append<C>, LogFailed)> {
        self.put_into(self.with_room(), append)
    }

    /// The same without waiting.
    pub fn put_now(&self, append: Append<C>) -> Result<(), (Append<C>, LogFailed)> {
        self.put_into(self.lock(), append)
    }

    fn put_into(&self, mut state: MutexGuard<'_, State<C>>, append: Append<C>) -> Result<(), (Append<C>, LogFailed)> {
        if let Some(reason) = &state.closed {
            return Err((append, reason.clone()));
        }
        let bytes = append.payload.len();
        state.bytes += bytes;
        state.items.push(append);
        self.statistics.queue_depth.fetch_add(1, Relaxed);
        self.statistics.queue_bytes.fetch_add(bytes, Relaxed);
        let wake = std::mem::take(&mut state.sleeping);
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Takes everything into `batch`, which must be empty; waits while there is nothing. `Closed`
    /// only when all was taken.
    pub fn drain(&self, batch: &mut Vec<Append<C>>, timeout: Option<Duration>) -> Drained {
        assert!(batch.is_empty(), "what was taken before has been completed");
        let mut state = self.lock();
        while state.items.is_empty() {
            if state.closed.is_some() {
                return Drained::Closed;
            }
            state.sleeping = true;
            match timeout {
                None => state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    let (back, result) =
                        self.arrived.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner);
                    state = back;
                    if result.timed_out() && state.items.is_empty() && state.closed.is_none() {
                        state.sleeping = false;
                        return Drained::TimedOut;
                    }
                }
            }
            state.sleeping = false;
        }
        std::mem::swap(&mut state.items, batch);
        let was_full = state.bytes >= self.bytes_max;
        state.bytes = 0;
        drop(state);
        if was_full {
            self.drained.notify_all();
        }
        Drained::Some
    }

    pub fn is_full(&self) -> bool {
        self.lock().bytes >= self.bytes_max
    }

    pub fn has_items(&self) -> bool {
        !self.lock().items.is_empty()
    }

    pub fn close(&self, reason: LogFailed) {
        self.lock().closed.get_or_insert(reason);
        self.arrived.notify_all();
        self.drained.notify_all();
    }

    /// Closes and empties, for a thread that will not come back.
    pub fn abandon(&self, reason: LogFailed) -> Vec<Append<C>> {
        self.close(reason);
        std::mem::take(&mut self.lock().items)
    }
}
