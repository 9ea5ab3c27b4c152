//! Between the threads that call and the one that owns the sockets: the queue of new calls, and the count of outstanding
//! ones that bounds it.

use crate::completion::Completion;
use crate::error::ClientError;
use crate::options::WhenFull;
use crate::statistics::Statistics;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

/// A call on its way to a connection.
pub(crate) struct Queued {
    /// A whole request, its handle still open.
    pub request: Vec<u8>,
    pub handle_at: usize,
    pub completion: Completion,
    pub deadline: Instant,
}

/// Shared by all handles of one client and its background thread.
pub(crate) struct Gate {
    state: Mutex<GateState>,
    /// Something changed that a blocked thread may wait for: room, the first connections, the last answer.
    changed: Condvar,
    waker: Arc<mio::Waker>,
    pub outstanding_max: usize,
    pub when_full: WhenFull,
}

#[derive(Default)]
struct GateState {
    queue: Vec<Queued>,
    /// Calls taken in and not yet ended.
    outstanding: usize,
    /// Futures that wait for room.
    waiting: Vec<Waker>,
    /// Threads that wait on `changed`.
    blocked: usize,
    /// The background thread has been told to look at the queue.
    notified: bool,
    closed: bool,
    rejected: u64,
    /// How connecting for the first time ended.
    first_connect: Option<Result<(), ClientError>>,
    statistics: Statistics,
}

/// What [`Gate::submit`] did.
pub(crate) enum Submitted {
    Taken,
    /// There is no room. The call comes back.
    Full(Queued),
    /// The client is closed.
    Closed,
}

impl Gate {
    pub fn new(waker: Arc<mio::Waker>, outstanding_max: usize, when_full: WhenFull) -> Gate {
        Gate { state: Mutex::default(), changed: Condvar::new(), waker, outstanding_max, when_full }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        // Every change under the lock is complete before anything that could panic, so the state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, mut state: MutexGuard<'g, GateState>) -> MutexGuard<'g, GateState> {
        state.blocked += 1;
        state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.blocked -= 1;
        state
    }

    /// Takes the call if there is room. Otherwise leaves `waiting` to be woken when there may be.
    pub fn submit(&self, call: Queued, waiting: Option<&Waker>) -> Submitted {
        let mut state = self.lock();
        if state.closed {
            return Submitted::Closed;
        }
        if state.outstanding >= self.outstanding_max {
            match waiting {
                Some(waker) => state.waiting.push(waker.clone()),
                None => state.rejected += u64::from(self.when_full == WhenFull::Reject),
            }
            return Submitted::Full(call);
        }
        self.take(state, call);
        Submitted::Taken
    }

    /// Takes the call as soon as there is room, blocking the thread. False when the client is closed.
    pub fn submit_blocking(&self, call: Queued) -> bool {
        let mut state = self.lock();
        while !state.closed && state.outstanding >= self.outstanding_max {
            state = self.wait(state);
        }
        if state.closed {
            return false;
        }
        self.take(state, call);
        true
    }

    /// Wakes one that waits for room, if there is some.
    pub fn pass_on(&self) {
        let mut state = self.lock();
        let room = state.outstanding < self.outstanding_max && !state.waiting.is_empty();
        let waiting = room.then(|| state.waiting.remove(0));
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn take(&self, mut state: MutexGuard<'_, GateState>, call: Queued) {
        state.outstanding += 1;
        state.queue.push(call);
        let wake = !std::mem::replace(&mut state.notified, true);
        drop(state);
        if wake {
            self.wake();
        }
    }

    fn wake(&self) {
        // It fails only when the poll is gone, which is when the thread has ended and the gate is closed.
        let _ = self.waker.wake();
    }

    /// Blocks until connecting for the first time has ended.
    pub fn wait_for_first_connect(&self) -> Result<(), ClientError> {
        let mut state = self.lock();
        loop {
            if let Some(result) = &state.first_connect {
                return result.clone();
            }
            state = self.wait(state);
        }
    }

    /// Blocks until no call is outstanding.
    pub fn wait_until_idle(&self) {
        let mut state = self.lock();
        while state.outstanding > 0 {
            state = self.wait(state);
        }
    }

    pub fn statistics(&self) -> Statistics {
        let state = self.lock();
        Statistics { outstanding: state.outstanding, calls_rejected: state.rejected, ..state.statistics }
    }

    /// No more calls are taken; the background thread is told to end.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
        waiting.into_iter().for_each(Waker::wake);
        self.wake();
    }

    // For the background thread.

    /// Swaps the queue with the empty `calls`, and accounts for `ended` calls. False when the client is to be closed.
    pub fn exchange(&self, calls: &mut Vec<Queued>, ended: usize, statistics: Statistics) -> bool {
        debug_assert!(calls.is_empty());
        let mut state = self.lock();
        std::mem::swap(&mut state.queue, calls);
        state.notified = false;
        state.outstanding -= ended;
        state.statistics = statistics;
        let waiting = if ended > 0 && !state.waiting.is_empty() {
            let room = self.outstanding_max.saturating_sub(state.outstanding).min(state.waiting.len());
            // The longest waiting first.
            state.waiting.drain(..room).collect()
        } else {
            Vec::new()
        };
        let (blocked, open) = (state.blocked > 0, !state.closed);
        drop(state);
        if ended > 0 && blocked {
            self.changed.notify_all();
        }
        waiting.into_iter().for_each(Waker::wake);
        open
    }

    /// Says how connecting for the first time ended. Only the first word counts.
    pub fn set_first_connect(&self, result: Result<(), ClientError>) {
        self.lock().first_connect.get_or_insert(result);
        self.changed.notify_all();
    }
}
